"""The table of methods: a method is a row, and a row says what it starts from, so that nothing is hidden."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.errors import UsageError
from adapcla.generators.families import network_for
from adapcla.generators.neural import NeuralGenerator
from adapcla.generators.references import ReferenceGenerator
from adapcla.generators.settings import Settings, settings_from
from adapcla.generators.staged import StagedGenerator
from adapcla.networks.contract import Shape
from adapcla.records import Prevalence, Vocabulary


@dataclass(frozen=True)
class Method:
    """A row: a name, where it comes from and its settings."""

    name: str
    summary: str
    paper: str
    settings: Settings
    starts_from: str = "random weights"
    supports: tuple[str, ...] = ("toward", "continue_", "likelihood")
    #: Whether `--methods all` takes it; references and paper sizes are asked for by name.
    usual: bool = True
    note: str = ""


_PAPER = "AdaPCLA (Cui et al.)"
_HALO = "HALO (Theodorou, Xiao and Sun, 2023)"
_OURS = "this project"
_ADAPCLA = Settings(method="adapcla")


def _row(name: str, summary: str, paper: str, /, **changes: Any) -> Method:
    """A row; names of its own fields are taken out of the settings."""
    own = {key: changes.pop(key) for key in ("starts_from", "supports", "usual", "note") if key in changes}
    return Method(name, summary, paper, settings_from(_ADAPCLA, {"method": name, **changes}), **own)


_OURS_AND_ABLATIONS = (
    _row("adapcla", "The paper's method: independent head, annealed scaffold (base), no bias when sampling.", _PAPER),
    _row(
        "adapcla-paper-size",
        "The same at the paper's size: width 768, 12 layers, 12 heads, 48 rows.",
        _PAPER,
        width=768,
        layers=12,
        heads=12,
        context=48,
        learning_rate=1e-4,
        batch_size=48,
        usual=False,
    ),
    _row(
        "tailwise",
        "Ours: codes of a visit know each other; rare ones lean on their family, and on having been there before.",
        _OURS,
        head="blockwise",
        hierarchy=True,
        recall=True,
        credibility=20.0,
        dropout=0.2,
        schedule="base",
        calibration_rounds=3,
    ),
    _row(
        "static-pcla",
        "The scaffold stays throughout training and is kept when sampling (consistent).",
        _PAPER,
        schedule="constant",
        bias_at_inference=True,
    ),
    _row(
        "static-pcla-train-only",
        "The same weights as static-pcla, sampled without the scaffold: a negative control, expected to lose the tail.",
        _PAPER,
        schedule="constant",
        bias_at_validation=True,
        note="its weights are chosen as static-pcla's are, so its validation loss is with the scaffold",
    ),
    _row(
        "adapcla-no-scaffold",
        "The same network, steps and seed with no scaffold at all: the equal-budget control.",
        _PAPER,
        schedule="none",
    ),
    _row(
        "adapcla-reversed",
        "The scaffold with its sign turned round: a control on what the sign does.",
        _PAPER,
        tempering=-1.0,
    ),
    _row(
        "adapcla-release",
        "As the public release ran: scaffold times 0.2, present codes weigh 1.5, started from a static model.",
        _PAPER,
        tempering=0.2,
        positive_weight=1.5,
        first_stage="static",
        starts_from="a static-pcla with the same settings, which this row trains first",
        note="twice the passes: a full budget for each stage",
    ),
)
_BASELINES = (
    _row(
        "halo",
        "Visit Transformer with the within-visit autoregressive head; exact ancestral sampling.",
        _HALO,
        head="halo",
        schedule="none",
        note="the paper's factorisation at this project's default width; halo-paper-size has the paper's",
    ),
    _row(
        "halo-paper-size",
        "HALO at its paper's size and recipe: width 768, 12 layers, 12 heads, rate 1e-4, batches of 48, 50 passes.",
        _HALO,
        head="halo",
        schedule="none",
        width=768,
        layers=12,
        heads=12,
        context=48,
        learning_rate=1e-4,
        batch_size=48,
        passes=50,
        usual=False,
    ),
    _row(
        "lstm",
        "Recurrent next-visit multi-label network with independent outputs.",
        "Doctor AI (Choi et al., 2016)",
        trunk="lstm",
        schedule="none",
        layers=2,
    ),
)
_FAMILIES = (
    _row(
        "gpt",
        "Decoder over a stream of codes with visit separators; codes of a visit by frequency, none twice.",
        "GPT as in HALO's comparison",
        family="gpt",
        schedule="none",
        learning_rate=1.5e-3,
        note="toward= shifts token logits, which compete: the prevalence reached is looser than with Bernoulli heads",
    ),
    _row(
        "eva",
        "Variational autoencoder of whole records: recurrent encoder, convolutional decoder, independent codes.",
        "EVA (Biswal et al., 2021)",
        family="eva",
        schedule="none",
        supports=("toward", "likelihood"),
        note="codes are drawn (decode=bernoulli) or cut at one half (decode=threshold); its likelihood is a bound",
    ),
    _row(
        "synteg",
        "Visit-state encoder, then a conditional adversarial generator of the next visit (WGAN-GP).",
        "SynTEG (Zhang et al., 2021)",
        family="synteg",
        schedule="none",
        passes=60,
        patience=12,
        validations=60,
        supports=("continue_",),
        note="three times the passes: 40 % of the steps are the encoder's, of the rest one in six the generator's",
    ),
)
_REFERENCES = (
    _row(
        "marginal",
        "Independent draws from the training prevalence, lengths from training: the floor.",
        "reference",
        family="marginal",
        schedule="none",
        starts_from="counts of the training visits",
        usual=False,
    ),
    _row(
        "train-copy",
        "Training patients drawn again with repeats: what memorising scores.",
        "reference",
        family="copy",
        schedule="none",
        starts_from="the training patients themselves",
        supports=(),
        usual=False,
        note="a saved model of this row is the patients: never share it",
    ),
    _row(
        "real-test",
        "Held-out patients drawn with repeats: the ceiling. Fits on the second cohort that it is given.",
        "reference",
        family="copy",
        schedule="none",
        starts_from="the held-out patients themselves",
        supports=(),
        usual=False,
        note="a saved model of this row is the patients: never share it",
    ),
)
_ROWS = (*_OURS_AND_ABLATIONS, *_BASELINES, *_FAMILIES, *_REFERENCES)
METHODS: dict[str, Method] = {row.name: row for row in _ROWS}


def generator_for(method: str, **changes: Any) -> NeuralGenerator:
    """An unfitted generator of this row, with some settings changed.

    >>> generator_for("adapcla", width=64).settings.architecture.width
    64
    """
    if method not in METHODS:
        near = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise UsageError(f"no method is called {method!r}{hint} (see `adapcla methods`)")
    settings = settings_from(METHODS[method].settings, changes)
    return _maker(settings)(settings)


def _maker(settings: Settings) -> type[NeuralGenerator]:
    """The class that fits these settings."""
    if settings.architecture.family in ("marginal", "copy"):
        return ReferenceGenerator
    return StagedGenerator if settings.first_stage else NeuralGenerator


def load(folder: str | Path) -> NeuralGenerator:
    """The saved generator in a folder."""
    return NeuralGenerator.load(folder)


#: The vocabulary that the sizes in the list of methods are for.
_LISTED_CODES = 1000


def described(method: str, n_codes: int = _LISTED_CODES) -> dict[str, Any]:
    """What `adapcla methods` says of a row; parameters are those of a vocabulary of `n_codes` codes.

    >>> described("marginal")["parameters"]
    0
    """
    row = METHODS[method]
    return {
        "name": method,
        "summary": row.summary,
        "paper": row.paper,
        "starts_from": row.starts_from,
        "supports": list(row.supports),
        "note": row.note,
        "codes": n_codes,
        "parameters": _parameters(row.settings, n_codes),
        "passes": row.settings.budget.passes,
        "in all": row.usual,
        "settings": row.settings.model_dump(mode="json"),
    }


def _parameters(settings: Settings, n_codes: int) -> int:
    """How many numbers are learned; layers are alike, so that a deep network need not be made to be counted."""
    layers = settings.architecture.model_dump().get("layers", 0)
    if layers > 2:
        one, two = (_parameters(settings_from(settings, {"layers": n}), n_codes) for n in (1, 2))
        return one + (layers - 1) * (two - one)
    prevalence = Prevalence(Vocabulary.of(f"{i:06d}" for i in range(n_codes)), np.full(n_codes, 1 / n_codes), n_codes)
    network: Any = network_for(settings, Shape(n_codes, settings.architecture.context), prevalence)
    return sum(parameter.numel() for parameter in network.parameters())
