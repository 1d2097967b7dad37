"""Small corrections after training that go into biases, so that inference needs nothing from outside.

Record length: dropout is on in training and off when sampling, which shifts the chance that a record goes on a little;
one intercept, refitted with dropout off, puts the mean right.

Prevalence: folding the prevalence that is expected in other patients (empirical Bayes, from the training patients)
into the output bias, so that rare codes come out as often as they should.

Rare codes tend to come out too often: their logits are averages over few visits. A few rounds of sampling measure by
how much, band by band of training counts, and the correction goes into the output bias. A code that a pilot holds often
enough is corrected for itself, a rare one as its band, and those between in between. A band is believed as far as the
pilot knows it, and less the more rounds have set it already. Inference stays free of any external bias.

Models that know pairs of codes have those with a rare code matched in the same rounds (`generation/pair_matching.py`).
That may cost a little likelihood, and goes on as long as it costs no more. Where it costs more in the end, or where
visits change their size, it is taken back.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from adapcla.console import meter
from adapcla.data import Cohort
from adapcla.generation.model import Model
from adapcla.generation.pair_matching import PairMatching
from adapcla.generation.sampling import sample
from adapcla.generation.settings import pilot_size
from adapcla.models.visits import VisitNetwork

#: Upper edges of the bands of training visit counts.
BAND_EDGES = (1, 2, 3, 5, 8, 12, 20, 35, 60, 100, 200, 500, 1000, 3000, 10_000)
#: Expected occurrences a band must have in a pilot before it is corrected.
_ENOUGH = 30
#: Seeds of pilots begin here; fits of different seeds have different pilots, so that they do not err alike.
_PILOT_SEED, _PILOTS_OF_SEED = 90_001, 1_000
#: Expected occurrences in a pilot at which a code's own ratio weighs as much as that of its band.
_OWN_HALF = 100.0
#: What a correction leaves of itself, about: shares do not move exactly as the bias does.
_LEFT = 1 / 3
#: Rounds at the end for prevalences alone, and their share of all rounds where these are few; one at least.
_PREVALENCE_ALONE, _SHARE_ALONE = 3, 3 / 8
#: What matching pairs may cost: this share of the validation loss, and this much of the mean size of visits. Rounds of
#: matching end before they cost as much.
_DEARER, _OTHER_SIZE = 0.01, 0.03
_DEAR = 0.8
#: Steps of matching that are shorter than this share of a whole one do not matter.
_SHORTEST_STEP = 0.2

#: Training patients that the intercept of record length is refitted on, at most.
_LENGTH_PATIENTS = 20_000


@torch.no_grad()
def settle_record_length(model: Model, train: Cohort) -> float:
    """Move the intercept of "the record goes on" so that its mean over training visits is right; the move.

    Networks without that intercept are left alone.
    """
    network = model.network
    if not isinstance(network, VisitNetwork):
        return 0.0
    network.eval()
    records = model.records(train)
    logits, happened = [], []
    for low in range(0, min(train.n_patients, _LENGTH_PATIENTS), 512):
        batch = records.batch(np.arange(low, min(low + 512, train.n_patients)))
        asked = slice(None) if network.last_code is None else batch.lacks(network.last_code) > 0
        logits.append(network.going_on_logits(batch)[asked].double())
        happened.append(batch.continues[asked].double())
    chances, mean = torch.cat(logits), float(torch.cat(happened).mean())
    low_end, high_end = -3.0, 3.0
    for _ in range(60):
        middle = (low_end + high_end) / 2
        too_long = float(torch.sigmoid(chances + middle).mean()) > mean
        low_end, high_end = (low_end, middle) if too_long else (middle, high_end)
    network.going_on.bias.add_(middle)
    return middle


def bands(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The band of each code; −1 for codes never seen in training.

    >>> bands(np.array([0, 1, 4, 100000])).tolist()
    [-1, 0, 3, 15]
    """
    return np.where(counts > 0, np.searchsorted(BAND_EDGES, counts), -1)


def believed_ratio(
    drawn: NDArray[np.int64], expected: NDArray[np.float64], of_band: NDArray[np.float64]
) -> NDArray[np.float64]:
    """How much too often each code comes out: its own ratio, drawn towards its band's as far as it was seen rarely.

    >>> believed_ratio(np.array([300, 2]), np.array([100.0, 0.0]), np.array([1.0, 1.5])).tolist()
    [2.0, 1.52]
    """
    return np.asarray((drawn + _OWN_HALF * of_band) / (expected + _OWN_HALF))


def band_belief(
    log_ratio: NDArray[np.float64], error: NDArray[np.float64], doubt: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The part of a measured log ratio to correct by, and the doubt about it afterwards, all by band.

    `error` is the variance of the measurement and `doubt` that of the ratio before it. What is measured well is
    believed whole; what is measured badly is believed as a mean over rounds would be.

    >>> move, doubt = band_belief(np.log([2.0, 2.0]), np.array([0.0, 1.0]), np.array([1.0, 1.0]))
    >>> np.exp(move).round(2).tolist(), doubt.round(2).tolist()
    ([2.0, 1.41], [0.05, 0.51])
    """
    believed = doubt / np.maximum(doubt + error, 1e-12)
    move = believed * log_ratio
    return move, (1 - believed) * doubt + (_LEFT * move) ** 2


def calibrate(model: Model, train: Cohort, valid: Cohort, rounds: int) -> None:
    """Fold prevalences in and match pairs in place; what was measured goes to the model card."""
    matching, network = PairMatching.of(model, train), model.network
    if matching is None:
        model.facts["calibration"] = fold_prevalence(model, train, rounds)
        return
    trained = _state(model)
    pairs = PairRounds(model, matching, lambda: _loss(model, valid))
    model.facts["calibration"] = told = fold_prevalence(model, train, rounds, pairs)
    # What prevalences cost is not what pairs cost.
    before, after, size = pairs.loss_before, pairs.loss(), told[-1]["size of visits"]
    kept = after <= (1 + _DEARER) * before and abs(size - 1) <= _OTHER_SIZE
    model.facts["pairs matched"] = {"kept": kept, "loss before": before, "loss after": after, "size of visits": size}
    if not kept:
        network.load_state_dict(trained)
        model.facts["calibration"] = fold_prevalence(model, train, rounds)


class PairRounds:
    """Rounds in which pairs are matched, as long as the loss is not much above what it was before the first of them.

    A step beyond that is taken back, and the next ones are half as long.
    """

    def __init__(self, model: Model, matching: PairMatching, loss: Callable[[], float]) -> None:
        self.model, self.matching, self.loss = model, matching, loss
        self.step, self.loss_before = 1.0, math.nan

    @property
    def over(self) -> bool:
        """Whether steps have become too short to matter."""
        return self.step < _SHORTEST_STEP

    def correct(self, drawn: Cohort) -> dict[str, Any]:
        """Match pairs by a pilot; what is said of it in the model card."""
        if math.isnan(self.loss_before):
            self.loss_before = self.loss()
        step_back, moved = _state(self.model), self.matching.moved
        told: dict[str, Any] = {"pairs": round(self.matching.correct(drawn, self.step), 3)}
        if self.loss() > (1 + _DEAR * _DEARER) * self.loss_before:
            self.model.network.load_state_dict(step_back)
            self.matching.moved = moved
            told["taken back"] = self.step
            self.step /= 2
        return told


class Prevalences:
    """How often codes come out beside how often they should, and what is done about it."""

    def __init__(self, model: Model, train: Cohort) -> None:
        assert isinstance(model.network, VisitNetwork)
        self.network, self.band, self.n_bands = model.network, bands(train.visit_counts), len(BAND_EDGES) + 1
        self.inside, self.target = self.band >= 0, train.expected_prevalence().share
        self.goal = np.bincount(self.band[self.inside], self.target[self.inside], minlength=self.n_bands)
        self.forget()

    def forget(self) -> None:
        """Believe the next pilot as if there had been none: something else has changed."""
        self.doubt = np.ones(self.n_bands)

    def correct(self, drawn: Cohort) -> NDArray[np.float64]:
        """Move the head's bias by what a pilot holds; the ratio of each band in it, 1 where little is expected."""
        expected = self.goal * drawn.n_visits
        judged = expected >= _ENOUGH
        held = _by_patient(drawn, self.band, self.n_bands)  # (N, bands)
        ratio = np.where(judged, held.sum(axis=0) / np.maximum(expected, 1e-12), 1.0)
        # Codes come again in a record, so that patients are counted and not visits.
        error = np.maximum((held**2).sum(axis=0), expected) / np.maximum(expected, 1e-12) ** 2
        move, self.doubt = band_belief(np.log(np.maximum(ratio, 0.05)), error, self.doubt)
        believed = believed_ratio(drawn.visit_counts, self.target * drawn.n_visits, np.exp(move)[self.band])
        shift = np.where(self.inside, -np.log(np.maximum(believed, 0.05)), 0.0)
        with torch.no_grad():
            self.network.head.bias.add_(torch.from_numpy(shift).float()[self.network.code_of_rank])
        return ratio


def fold_prevalence(model: Model, train: Cohort, rounds: int, pairs: PairRounds | None = None) -> list[dict[str, Any]]:
    """Correct the head's bias in place, and pairs if asked; what each round measured, for the model card."""
    prevalences, pilot = Prevalences(model, train), pilot_size(train.n_patients)
    history: list[dict[str, Any]] = []
    # What is heard changes how often codes come, so that prevalences have the last word.
    alone = min(_PREVALENCE_ALONE, max(1, int(_SHARE_ALONE * rounds)))
    first_seed = _PILOT_SEED + _PILOTS_OF_SEED * model.settings.seed
    with meter("fold prevalence", rounds) as bar:
        number = 0
        while number < rounds:
            drawn = sample(model, pilot, first_seed + number)
            ratio = prevalences.correct(drawn)
            history.append({"round": number, "ratio by band": [round(float(r), 3) for r in ratio]})
            if pairs is not None:
                size = drawn.codes_per_visit.mean() / train.codes_per_visit.mean()
                history[-1]["size of visits"] = round(float(size), 4)
                if number < rounds - alone:
                    history[-1] |= pairs.correct(drawn)
                    prevalences.forget()
                    if pairs.over:
                        bar.advance(rounds - alone - 1 - number, "pairs matched as far as the loss allows")
                        number = rounds - alone - 1
            bar.advance(1, f"ratios {ratio.min():.2f}–{ratio.max():.2f}")
            number += 1
    return history


def _state(model: Model) -> dict[str, torch.Tensor]:
    """All numbers of the network, to come back to."""
    return {name: value.clone() for name, value in model.network.state_dict().items()}


def _loss(model: Model, cohort: Cohort) -> float:
    """The loss a visit."""
    return -float(model.log_likelihood(cohort).sum()) / cohort.n_visits


def _by_patient(cohort: Cohort, band: NDArray[np.int64], n_bands: int) -> NDArray[np.float64]:
    """How many codes of each band each patient holds, over all visits (patients × bands)."""
    of_entry = band[np.asarray(cohort.codes)]
    place = (cohort.patient_of_entry * n_bands + of_entry)[of_entry >= 0]
    return np.bincount(place, minlength=cohort.n_patients * n_bands).reshape(-1, n_bands).astype(np.float64)
