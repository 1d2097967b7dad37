"""A fitted generator on disk: weights, settings, vocabulary, prior, manifest of hashes and a card for people."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensors_as_bytes

from adapcla.data import Prevalence, Vocabulary
from adapcla.data.attributes import AttributeDistribution
from adapcla.data.quantization import Quantizer
from adapcla.data.storage import read_array, read_vocabulary, write_vocabulary
from adapcla.disclosure import MIN_COUNT, SMALL_COUNTS
from adapcla.errors import AdapclaError, InputError, UsageError
from adapcla.files import (
    MANIFEST,
    fresh_folder,
    full_disk_explained,
    json_bytes,
    read_json,
    verify_manifest,
    write_manifest,
)
from adapcla.generation.model import Model
from adapcla.models.base import Network, Shape
from adapcla.training.settings import Settings, settings_from
from adapcla.version import __version__

WEIGHTS, CONFIG, VOCABULARY, PRIOR, CARD = (
    "weights.safetensors",
    "config.json",
    "vocabulary.parquet",
    "prior.npy",
    "README.md",
)


def save(model: Model, folder: Path, overwrite: bool = False, shareable: bool = False) -> Path:
    """Write a fitted model; `shareable` leaves no count too small to be told in it."""
    settings = model.settings
    private = settings.privacy is not None
    if shareable and settings.bias_at_inference and not private:
        raise UsageError("this method needs its exact prior when sampling, so that it cannot be made shareable")
    # A private model holds no exact count that could be suppressed.
    prevalence = model.prevalence.suppress_small_counts() if shareable and not private else model.prevalence
    if model.traits.holds_counts and not np.array_equal(prevalence.known, model.prevalence.known):
        raise UsageError(
            f"{settings.method} is the exact prevalence of every code; some have fewer than {MIN_COUNT} visits\n"
            "to do: keep rare codes out of the cohort (--set min_support=11), or share another method"
        )
    law = (
        _common_combinations(model.attribute_distribution)
        if shareable and not private
        else model.attribute_distribution
    )
    visit_sizes, longest = model.visit_sizes, model.longest
    if shareable and not private:
        # Few visits are of an unusual size, and one patient has the longest record.
        visit_sizes = np.where(visit_sizes >= MIN_COUNT, visit_sizes, 0)
        longest = model.shape.context
    state, shape = dict(model.network.state_dict()), model.shape
    if shareable and not private:
        state, shape = model.network.without_small_counts(shape)
    weights = {name: value.contiguous() for name, value in state.items()}
    for name, value in weights.items():
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise AdapclaError(f"{name} is not finite; the model was not written")
    config = {
        "format": 1,
        "version": __version__,
        "settings": settings.model_dump(),
        "shape": shape._asdict(),
        "n_visits": model.prevalence.n_visits,
        "longest": longest,
        "visit_sizes": visit_sizes.tolist(),
        "attributes": {
            "names": law.names,
            "categories": law.categories,
            "combinations": law.combinations.tolist(),
            "counts": law.counts.tolist(),
        },
        "facts": model.facts,
        "shareable": shareable,
        "environment": environment(),
    }
    if model.quantizer is not None:
        config["bands"] = model.quantizer.as_json()
    needed = sum(value.nbytes for value in weights.values())
    with full_disk_explained(folder, needed), fresh_folder(folder, overwrite) as unfinished:
        (unfinished / WEIGHTS).write_bytes(tensors_as_bytes(weights))
        (unfinished / CONFIG).write_bytes(json_bytes(config))
        write_vocabulary(unfinished / VOCABULARY, model.prevalence.vocabulary.codes)
        np.save(unfinished / PRIOR, prevalence.share, allow_pickle=False)
        (unfinished / CARD).write_text(model_card(model, shareable), encoding="utf-8")
        write_manifest(unfinished)
        if private:
            spent = {name: model.facts["privacy"][name] for name in ("epsilon", "delta", "unit", "parts")}
            (unfinished / MANIFEST).write_bytes(json_bytes({**read_json(unfinished / MANIFEST), "privacy": spent}))
    return folder


def _common_combinations(law: AttributeDistribution) -> AttributeDistribution:
    """The attribute law without combinations of few patients."""
    keep = law.counts >= MIN_COUNT
    if not keep.any():
        raise AdapclaError(
            f"every combination of attributes has fewer than {MIN_COUNT} patients; train without attributes"
        )
    return AttributeDistribution(law.names, law.categories, law.combinations[keep], law.counts[keep])


def environment() -> dict[str, Any]:
    """Versions that the same bytes depend on."""
    return {
        "adapcla": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "threads": torch.get_num_threads(),
        "machine": platform.machine(),
    }


#: Settings of visit networks up to version 0.1 that no longer exist, with what they are when they are off.
_FORMER: dict[str, tuple[Any, ...]] = {
    "credibility": (0, 0.0), "blocks": (), "hidden": (), "hierarchy": (False,), "recall": (False,), "company": (0,),
    "kinship": (False,), "leads": (False,), "counting": (False,), "order": ("frequent",), "rare_visits": (),
}  # fmt: skip


def _of_this_version(settings: dict[str, Any], path: Path) -> dict[str, Any]:
    """The settings without those that are gone and were off; a sentence where one of them was on."""
    architecture = dict(settings["architecture"])
    used = architecture.get("head") == "blockwise" or (architecture.get("family") == "gpt" and "order" in architecture)
    for name, off in _FORMER.items():
        if name in architecture:
            value = architecture.pop(name)
            used |= bool(off) and value not in off
    if used:
        raise InputError(
            f"a {settings['method']} model of an earlier version, whose network no longer exists",
            path=path,
            remedy=f"make it again: adapcla train COHORT --method {settings['method']} --out FOLDER",
        )
    return {**settings, "architecture": architecture}


def read(folder: Path) -> Model:
    """The fitted model in a folder, after every hash and shape was checked; nothing in it is executed."""
    folder = folder / "model" if (folder / "model").is_dir() else folder
    verify_manifest(folder)
    config = read_json(folder / CONFIG)
    try:
        settings = settings_from(Settings(), _of_this_version(config["settings"], folder / CONFIG))
        names = config["attributes"]
        law = AttributeDistribution(
            tuple(names["names"]),
            tuple(tuple(c) for c in names["categories"]),
            np.array(names["combinations"], dtype=np.int64).reshape(len(names["counts"]), len(names["names"])),
            np.array(names["counts"], dtype=np.int64),
        )
        raw = config["shape"]
        shape = Shape(
            int(raw["n_codes"]),
            int(raw["context"]),
            tuple(raw["attributes"]),
            bool(raw["with_days"]),
            int(raw.get("n_pairs", 0)),
        )
        visit_sizes = np.array(config["visit_sizes"], dtype=np.int64)
        n_visits, longest, facts = config["n_visits"], int(config["longest"]), dict(config["facts"])
        shareable = bool(config["shareable"])
        _demand_sense(law, shape, visit_sizes, n_visits, longest)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError, UsageError) as error:
        raise InputError(
            f"a setting is missing or wrong ({type(error).__name__}: {error})",
            path=folder / CONFIG,
            remedy="make it again",
        ) from None
    vocabulary = Vocabulary(read_vocabulary(folder / VOCABULARY))
    share = _prior(folder / PRIOR)
    if not len(vocabulary) == len(share) == shape.n_codes:
        raise InputError(
            f"{len(vocabulary)} codes, {len(share)} prevalences, a network of {shape.n_codes}",
            path=folder,
            expected="three equal numbers",
            remedy="make the model again",
        )
    bands = Quantizer.from_json(config["bands"], vocabulary) if "bands" in config else None
    prevalence = Prevalence(vocabulary, share, n_visits)
    _demand_fit(settings, shape, prevalence, folder / WEIGHTS)
    network = settings.network(shape, prevalence)
    _fill(network, folder / WEIGHTS)
    return Model(settings, network.eval(), prevalence, law, shape, visit_sizes, longest, facts, shareable, bands)


def _demand_sense(
    law: AttributeDistribution, shape: Shape, visit_sizes: np.ndarray, n_visits: Any, longest: int
) -> None:
    """Raise where numbers contradict each other in a way that sampling would stumble over."""
    if not all(isinstance(text, str) for text in (*law.names, *(c for part in law.categories for c in part))):
        raise ValueError("an attribute or category whose name is no text")
    n_categories = np.array([len(categories) for categories in law.categories], dtype=np.int64)
    if law.names and (len(law.counts) == 0 or law.counts.min() < 0 or law.counts.sum() == 0):
        raise ValueError("attribute combinations without patients")
    if len(n_categories) != len(law.names) or len(shape.attributes) != len(law.names):
        raise ValueError("attributes without categories")
    if tuple(shape.attributes) != tuple(n_categories.tolist()):
        raise ValueError("another number of categories than the network has")
    if law.combinations.size and (law.combinations.min() < 0 or (law.combinations.max(axis=0) > n_categories).any()):
        raise ValueError("an attribute category that does not exist")
    if visit_sizes.ndim != 1 or (visit_sizes < 0).any() or longest < 1:
        raise ValueError("numbers of codes or visits below zero")
    if n_visits is not None and (not isinstance(n_visits, int) or n_visits < 0):
        raise ValueError("a number of visits that is not a whole number")


def _demand_fit(settings: Settings, shape: Shape, prevalence: Prevalence, path: Path) -> None:
    """Raise unless the file holds the weights of these settings, by names and shapes, before anything is allocated."""
    try:
        with safe_open(path, framework="pt") as stream:
            shapes = {name: tuple(stream.get_slice(name).get_shape()) for name in stream.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(
            f"not readable as safetensors ({type(error).__name__})", path=path, remedy="make it again"
        ) from None
    # A network of more layers than there are tensors need not be built to know that it does not fit.
    expected: dict[str, tuple[int, ...]] = {}
    if settings.architecture.depth <= len(shapes):
        try:
            with torch.device("meta"):
                network = settings.network(shape, prevalence)
            expected = {name: tuple(value.shape) for name, value in network.state_dict().items()}
        except Exception:  # whatever a network says about sizes that make no network
            expected = {}
    if expected != shapes:
        wrong = sorted(set(expected.items()) ^ set(shapes.items()))[0]
        raise InputError(
            f"weights do not fit the settings, first at {wrong[0]!r}", path=path, remedy="make the model again"
        )


def _prior(path: Path) -> np.ndarray:
    share = read_array(path)
    if share.dtype != np.float64 or share.ndim != 1:
        raise InputError(f"numbers of type {share.dtype}", path=path, expected="float64", remedy="make it again")
    return share


def _fill(network: Network, path: Path) -> None:
    """Load weights whose types are the network's and whose numbers are numbers."""
    try:
        weights = load_tensors(path.read_bytes())
    except (SafetensorError, ValueError, KeyError, OverflowError) as error:
        raise InputError(
            f"not readable as safetensors ({type(error).__name__})", path=path, remedy="make it again"
        ) from None
    for name, value in network.state_dict().items():
        if weights[name].dtype != value.dtype or (value.is_floating_point() and not weights[name].isfinite().all()):
            raise InputError(f"{name!r} is of another type or not finite", path=path, remedy="make the model again")
    problem = network.problem_with(weights)
    if problem:
        raise InputError(problem, path=path, remedy="make the model again")
    network.load_state_dict(weights)


def model_card(model: Model, shareable: bool) -> str:
    """The README of a saved model: aggregates, settings and warnings, for people."""
    settings, facts = model.settings, model.facts
    lines = [
        f"# {settings.method}",
        "",
        "A generator of synthetic longitudinal health records. Synthetic output is not private by itself: run",
        "`adapcla evaluate --gate` on a sample before sharing it, and treat these weights as more telling than data.",
        "",
        "## Training data (aggregates)",
        *(
            f"- {name}: {facts[name]}"
            for name in ("patients", "visits", "codes", "numbers", "validation patients")
            if name in facts
        ),
        "",
        "## Fit",
        *(f"- {name}: {value}" for name, value in facts.items() if name in _SHOWN),
        "",
        "## Settings",
        *(f"- {name}: {value}" for name, value in settings.model_dump().items() if not isinstance(value, dict)),
        *(f"- privacy.{name}: {value}" for name, value in (settings.model_dump().get("privacy") or {}).items()),
        *(f"- architecture.{name}: {value}" for name, value in settings.architecture.model_dump().items()),
        *(f"- budget.{name}: {value}" for name, value in settings.budget.model_dump().items()),
        "",
        "## Privacy",
        *_privacy_lines(facts.get("privacy"), shareable),
    ]
    return "\n".join(lines) + "\n"


def _privacy_lines(spent: dict[str, Any] | None, shareable: bool) -> list[str]:
    """What the card says about privacy.

    >>> _privacy_lines(None, shareable=True)[0]
    '- not DP: trained without differential privacy'
    """
    if spent is None:
        return [
            "- not DP: trained without differential privacy",
            f"- prior: {_SUPPRESSED if shareable else _EXACT}",
        ]
    return [
        f"- DP: ε = {spent['epsilon']:g} at δ = {spent['delta']:g} for everything in this folder; "
        f"unit: {spent['unit']} ({spent['accountant']})",
        *(
            f"- spent by {name}: ε = {part['epsilon']:g} at δ = {part['delta']:g}, noise {part['noise multiplier']:g} "
            f"times the bound, each patient with a chance of {part['sampling rate']:g} in {part['steps']} steps"
            for name, part in spent["parts"].items()
        ),
        f"- prior: {spent['prior']}",
        f"- bound on a patient's gradient: {spent['gradient bound']:g}; noise {spent['noise']}",
        *(f"- switched off: {what}" for what in spent["switched off"]),
        *(f"- not covered: {what}" for what in spent["not covered"]),
    ]


_SHOWN = (
    "parameters",
    "steps",
    "passes",
    "best step",
    "validation loss per visit",
    "stopped early",
)
_SUPPRESSED = f"counts of {SMALL_COUNTS} are suppressed"
_EXACT = "the exact count of every code can be read from it; do not share it"
