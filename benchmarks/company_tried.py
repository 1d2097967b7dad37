"""Forms of `tailwise` that were tried for its pairs and are no part of it, judged as by `company_variants.py`.

    python benchmarks/company_tried.py orders [--fits frequent:1 frequent:2 rare:2 mixed:2]
    python benchmarks/company_tried.py words [--seeds 1]
    python benchmarks/company_tried.py folds [--soft 1 0.5] [--seeds 1]

`orders` fits models that draw the codes of a visit in different orders (an order and a seed each), and pools the
patients of the first with those of each other one, half and half: what a mixture of both draws. Two fits of one order
are the control. The likelihood of a mixture is the mean of both, patient by patient.

`words` gives the tables of codes one level more: the mean of the vectors of the words of a code's title, each believed
by how many visits have it, as families are.

`folds` teaches a model the chances of models that did not see the patient (as SELENA does, Tang et al. 2022): three
teachers, each without a third of the patients, say how probable each code of each of these patients' visits was, and
the student learns these chances in the place of the codes, or a mean of both (`--soft 0.5`). What was drawn before in a
visit is real, and so are the counts of pairs, which leave out the patient at hand as ever.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
import torch.nn.functional as F
from company_variants import DRAW_SEED, DRAWN, measured
from numpy.typing import NDArray
from pair_ceiling import Division, Pairs, counted, division
from pair_words import words_of
from torch import Tensor, nn

from adapcla.data import Cohort
from adapcla.generation import generator_for
from adapcla.generation.calibration import calibrate, settle_record_length
from adapcla.generation.fitting import objective_for, untrained
from adapcla.generation.model import Model, seen_records
from adapcla.generation.sampling import sample
from adapcla.models import heads
from adapcla.models.batch import Batch, Records
from adapcla.models.heads import BlockwiseHead
from adapcla.models.kernels import blocks
from adapcla.models.kernels.bce import SparseTargets
from adapcla.models.layers import CodeTable
from adapcla.models.visits import VisitNetwork
from adapcla.pipeline.spec import read_spec
from adapcla.training.loop import Loop

#: Models that teach, each without its share of the patients.
_TEACHERS = 3


# ---- fitting and judging ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Bench:
    """The patients, and the settings that all fits share."""

    patients: Division
    pairs: Pairs
    settings: dict[str, Any]

    @classmethod
    def of(cls, experiment: Path) -> Bench:
        """Of an experiment."""
        patients = division(experiment)
        pairs = counted(patients.learned_from, patients.judge)
        return cls(patients, pairs, read_spec(experiment).fit.settings)

    def begun(self, seed: int, train: Cohort, **settings: Any) -> Model:
        """A model before its first step."""
        chosen = generator_for("tailwise", **self.settings, **settings, seed=seed).settings
        return untrained(chosen, train)

    def trained(self, model: Model, records: Records) -> Model:
        """The model after all of its training; nothing is calibrated."""
        valid = seen_records(model.settings, self.patients.valid)
        objective = objective_for(model)
        Loop(objective, records, valid, model.settings.budget, model.settings.seed).run()
        return model

    def finished(self, model: Model, records: Records) -> Model:
        """The model after its training, with lengths, prevalences and pairs as they should be."""
        self.trained(model, records)
        settle_record_length(model, self.patients.learned_from)
        rounds = model.settings.calibration_rounds
        calibrate(model, self.patients.learned_from, self.patients.valid, rounds)
        return model

    def judged(self, drawn: Cohort, log_likelihood: NDArray[np.float64]) -> dict[str, Any]:
        """What a drawn cohort is like, and the loss of the judging patients."""
        loss = -float(log_likelihood.sum()) / self.patients.judge.n_visits
        return {"loss_of_judges": round(loss, 4), **measured(drawn, self.patients, self.pairs)}

    def facts(self, model: Model) -> dict[str, Any]:
        """What matching pairs cost a model, in how many rounds, and its loss of the patients that it learned from."""
        learned_from = self.patients.learned_from
        loss = -float(model.log_likelihood(learned_from).sum()) / learned_from.n_visits
        rounds = sum("pairs" in told and not told.get("taken back") for told in model.facts["calibration"])
        matched = {**model.facts.get("pairs matched", {}), "rounds": rounds}
        return {"matched": matched, "loss_of_learned_from": round(loss, 4)}

    def scored(self, model: Model) -> dict[str, Any]:
        """The row of a model."""
        drawn = sample(model, DRAWN, DRAW_SEED)
        return self.facts(model) | self.judged(drawn, model.log_likelihood(self.patients.judge))


# ---- several orders ---------------------------------------------------------------------------------------
def orders(bench: Bench, fits: list[str]) -> Iterator[dict[str, Any]]:
    """Each fit, and the first one mixed with each other."""
    first: tuple[Cohort, NDArray[np.float64]] | None = None
    half = np.arange(DRAWN // 2)
    for name in fits:
        order, seed = name.split(":")
        model = bench.begun(int(seed), bench.patients.learned_from, order=order)
        bench.finished(model, seen_records(model.settings, bench.patients.learned_from))
        drawn, log_likelihood = sample(model, DRAWN, DRAW_SEED), model.log_likelihood(bench.patients.judge)
        yield {"fit": name} | bench.facts(model) | bench.judged(drawn, log_likelihood)
        if first is None:
            first = drawn, log_likelihood
            continue
        # Patient i of a seed has the same noise in every model, so that each model gives other patients.
        pooled = first[0].subset(half).followed_by(drawn.subset(half + DRAWN // 2))
        mean = np.logaddexp(first[1], log_likelihood) - np.log(2)
        yield {"mixture of": [fits[0], name]} | bench.judged(pooled, mean)


# ---- words of titles --------------------------------------------------------------------------------------
class Worded(CodeTable):
    """A table of codes to which the words of their titles add: spread (codes, words) @ vectors of words."""

    def __init__(self, table: CodeTable, spread: Tensor) -> None:
        shares = list(table.shares())
        families = tuple(members for _, members, _ in shares if members is not None)
        credibility = tuple(belief[:, 0] for _, _, belief in shares if belief is not None)
        super().__init__(len(table.own), table.own.shape[1], families, credibility=credibility)
        self.load_state_dict(table.state_dict())
        self.spread: Tensor
        self.register_buffer("spread", spread)
        # Named as the parts of families are, so that it decays as they do.
        self.parts_of_words = nn.Parameter(torch.randn(spread.shape[1], table.own.shape[1]) * table.own.detach().std())

    def _made(self) -> Tensor:
        return super()._made() + self.spread @ self.parts_of_words


def spread_words(cohort: Cohort, half: float) -> NDArray[np.float64]:
    """(codes, words) the weight of each word in the mean of its code, times how far the word is believed."""
    member = words_of(cohort.vocabulary)
    visits = cohort.visit_counts @ member
    return np.asarray(member / np.maximum(member.sum(1, keepdims=True), 1) * (visits / (visits + half)))


def words(bench: Bench, seeds: list[int]) -> Iterator[dict[str, Any]]:
    """Fits in which words are a level of the tables."""
    learned_from = bench.patients.learned_from
    for seed in seeds:
        model = bench.begun(seed, learned_from)
        network = model.network
        assert isinstance(network, VisitNetwork) and isinstance(network.head, BlockwiseHead)
        spread = torch.from_numpy(spread_words(learned_from, model.settings.architecture.credibility)).float()
        for owner, name in ((network, "table"), (network.head, "table"), (network.head, "within")):
            setattr(owner, name, Worded(getattr(owner, name), spread[network.code_of_rank]))
        bench.finished(model, seen_records(model.settings, learned_from))
        yield {"words": spread.shape[1], "seed": seed} | bench.scored(model)


# ---- teachers that left a fold out ------------------------------------------------------------------------
@dataclass(frozen=True, kw_only=True)
class SoftBatch(Batch):
    """Patients with chances in the place of their codes as what is to be learned."""

    soft: Tensor  # (visits, codes), in vocabulary order


@dataclass(frozen=True, eq=False)
class SoftRecords(Records):
    """A cohort with the chances of each code in each of its visits."""

    soft: NDArray[np.float32]  # (visits, codes)

    def batch(self, patients: NDArray[np.int64]) -> SoftBatch:
        """The packed batch of these patients."""
        rows = np.concatenate([np.arange(*self.cohort.patient_starts[[p, p + 1]]) for p in patients.reshape(-1)])
        return SoftBatch(**vars(super().batch(patients)), soft=torch.from_numpy(self.soft[rows]))


class Softened(VisitNetwork):
    """A network whose loss is that of the chances of a batch; for its likelihood, codes are codes."""

    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed loss: Σ softplus(z) − p·z for codes."""
        assert isinstance(batch, SoftBatch)
        soft = torch.empty_like(batch.soft)
        soft[blocks.shared_first(batch.row_before).place] = batch.soft[:, self.code_of_rank]

        def of_logits(logits: Tensor, *_: Any) -> Tensor:
            return F.softplus(logits).sum() - (soft * logits).sum()

        # The plain form of the loss in blocks makes all logits at once.
        plain = patch.object(heads, "block_bce", blocks.block_bce_plain)
        with plain, patch.object(blocks, "bce_of_logits", of_logits):
            return super().loss(batch, bias, positive_weight)


@torch.no_grad()
def chances(model: Model, cohort: Cohort) -> NDArray[np.float32]:
    """(visits, codes) how probable each code of each visit is to a model, given what comes before it in the visit."""
    network, records, out = model.network.eval(), model.records(cohort), []
    assert isinstance(network, VisitNetwork)
    for low in range(0, cohort.n_patients, 256):
        batch = records.batch(np.arange(low, min(low + 256, cohort.n_patients)))

        def of_logits(logits: Tensor, targets: SparseTargets, *_: Any, batch: Batch = batch) -> Tensor:
            place = blocks.shared_first(batch.row_before).place
            out.append(torch.sigmoid(logits)[place][:, network.rank_of_code].numpy())
            return logits.sum()

        plain = patch.object(heads, "block_bce", blocks.block_bce_plain)
        with plain, patch.object(blocks, "bce_of_logits", of_logits):
            network.loss(batch, None)
    return np.concatenate(out)


def taught(bench: Bench, seed: int) -> NDArray[np.float32]:
    """(visits, codes) the chances of the visits of each patient by the teacher that did not see the patient."""
    cohort = bench.patients.learned_from
    fold = np.random.default_rng(seed).permutation(cohort.n_patients) % _TEACHERS
    soft = np.zeros((cohort.n_visits, cohort.n_codes), dtype=np.float32)
    for number in range(_TEACHERS):
        seen = cohort.subset(np.flatnonzero(fold != number))
        # Begun with all patients, so that codes come in the same order in all models; pairs are those of others alone.
        teacher = bench.begun(1000 * seed + number, cohort)
        records = seen_records(teacher.settings, seen)
        teacher.network.observe(records, teacher.shape)
        of_fold = chances(bench.trained(teacher, records), cohort.subset(np.flatnonzero(fold == number)))
        soft[fold[cohort.patient_of_visit] == number] = of_fold
    return soft


def folds(bench: Bench, seeds: list[int], shares: list[float]) -> Iterator[dict[str, Any]]:
    """Students, by how much of what they learn is what teachers say."""
    learned_from = bench.patients.learned_from
    for seed in seeds:
        soft, real = taught(bench, seed), learned_from.matrix().toarray().astype(np.float32)
        of_codes = F.binary_cross_entropy(torch.from_numpy(soft), torch.from_numpy(real), reduction="sum")
        yield {"loss of the codes left out, a visit": round(float(of_codes) / learned_from.n_visits, 4)}
        for share in shares:
            model = bench.begun(seed, learned_from)
            records = seen_records(model.settings, learned_from)
            assert not records.n_cut
            # The same network, which learns otherwise.
            model.network.__class__ = Softened
            mixed = SoftRecords(records.cohort, records.context, share * soft + (1 - share) * real)
            bench.finished(model, mixed)
            yield {"soft": share, "seed": seed} | bench.scored(model)


def main() -> None:
    """Fit, judge and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("form", choices=("orders", "words", "folds"))
    parser.add_argument("--experiment", type=Path, default=Path("experiments/company.toml"))
    parser.add_argument("--fits", nargs="+", default=["frequent:1", "frequent:2", "rare:2", "mixed:2"])
    parser.add_argument("--soft", type=float, nargs="+", default=[1.0, 0.5])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    asked = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench.of(asked.experiment)
    rows = {
        "orders": lambda: orders(bench, asked.fits),
        "words": lambda: words(bench, asked.seeds),
        "folds": lambda: folds(bench, asked.seeds, asked.soft),
    }
    for row in rows[asked.form]():
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
