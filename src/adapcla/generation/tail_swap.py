"""Whether a model knows which rare code belongs into a visit: the visit against itself with another code as rare.

A case is a visit of two codes or more that holds a rare code t for the first time in its record. The record up to that
visit is compared with records in which t is replaced by codes of the same training count that the patient never had.
How rare a code is says nothing then, so that a model without any knowledge of t ranks it in the middle.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.data.prevalence import RARE_BANDS
from adapcla.data.ragged import starts_from_sizes
from adapcla.generation.model import Model
from adapcla.generation.natural import known_inside
from adapcla.seeds import random_stream

#: Cases drawn of each band of counts, from patients that were held out and from those that were learned from.
HELD_OUT_CASES, TRAINING_CASES = 500, 250
#: Codes that take the place of the rare code, at most.
PEERS = 20
#: Peers of exactly the same count below which the count may differ, by a quarter at most.
_ENOUGH = 5

#: A count that no code has.
_NEVER = -(1 << 40)

Evidence = dict[str, NDArray[np.float64] | NDArray[np.int64] | NDArray[np.bool_]]


@dataclass(frozen=True, eq=False)
class _Cases:
    """Rare codes in visits of a cohort, with the codes that take their place."""

    cohort: Cohort
    #: Visit and rare code of each case.
    visit: NDArray[np.int64]
    code: NDArray[np.int64]
    #: The peers of each case.
    peers: list[NDArray[np.int64]]

    @property
    def starts(self) -> NDArray[np.int64]:
        """Where the records of each case begin: the true one, then one a peer; with the end as last element."""
        return starts_from_sizes(np.array([1 + len(peers) for peers in self.peers], dtype=np.int64))

    @property
    def codes(self) -> NDArray[np.int64]:
        """The code in the place of the rare one, for each record."""
        pairs = zip(self.code, self.peers, strict=True)
        return np.concatenate([np.zeros(0, np.int64), *(np.append(code, peers) for code, peers in pairs)])

    def records(self) -> Cohort:
        """Every record: the patient up to the visit of the case, the rare code itself or a peer in its place."""
        n_records = np.diff(self.starts)
        visit, code = np.repeat(self.visit, n_records), np.repeat(self.code, n_records)
        patients = self.cohort.subset(self.cohort.patient_of_visit[visit])
        first = patients.first_visits
        cut = patients.with_visits(first, first + self.cohort.visit_number[visit] + 1)
        patient = cut.patient_of_entry
        swapped = (cut.visit_of_entry == cut.last_visits[patient]) & (cut.codes == code[patient])
        codes = np.where(swapped, self.codes[patient], cut.codes).astype(np.int32)
        # Codes ascend inside a visit.
        return replace(cut, codes=codes[np.lexsort((codes, cut.visit_of_entry))])


def tail_swap(model: Model, train: Cohort, test: Cohort, seed: int = 1) -> Evidence:
    """The outcome of each case, for the metrics `tail_swap…`; nothing where the model has no likelihood.

    Names begin with `tail_swap_`: `held_out` (a test patient or one of training), `patient` (position in its cohort),
    `count` (training visits of the rare code), `met` (another training visit holds the code with a partner of the
    visit), `auc` (share of the peers that are less likely, ties half), `lift` (log of the likelihood divided by the
    mean over the code and its peers, in nats) and `chance` (the `auc` of training counts alone).
    """
    if not model.traits.likelihood:
        return {}
    learned, unseen = model.inside(train), known_inside(model, test)
    sides = ((unseen, HELD_OUT_CASES, True), (learned, TRAINING_CASES, False))
    parts = [_side(model, learned, cohort, most, held_out, seed) for cohort, most, held_out in sides]
    evidence = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return evidence if np.isfinite(evidence["tail_swap_lift"]).all() else {}


def _side(model: Model, train: Cohort, cohort: Cohort, most: int, held_out: bool, seed: int) -> Evidence:
    """The outcome of the cases of one cohort."""
    # A visit holds one code of a choice group at most: such codes neither are cases nor take the place of others.
    counts = np.where(train.vocabulary.group_of_code < 0, train.visit_counts, _NEVER)
    cases = _cases(cohort, counts, most, model.settings.architecture.context, seed)
    n = len(cases.visit)
    log_likelihood = model.code_log_likelihood(cases.records()) if n else np.zeros(0)
    outcome = np.array([_outcome(log_likelihood[own]) for own in _own(cases)]).reshape(n, 2)
    chance = np.array([_outcome(np.log(counts[cases.codes[own]]))[0] for own in _own(cases)])
    return {
        "tail_swap_held_out": np.full(n, held_out),
        "tail_swap_patient": cohort.patient_of_visit[cases.visit],
        "tail_swap_count": counts[cases.code],
        "tail_swap_met": _met(cases, train, own_visit=not held_out),
        "tail_swap_auc": outcome[:, 0],
        "tail_swap_lift": outcome[:, 1],
        "tail_swap_chance": chance,
    }


def _own(cases: _Cases) -> Iterator[slice]:
    """The records of each case."""
    starts = cases.starts.tolist()
    return map(slice, starts[:-1], starts[1:])


def _outcome(scores: NDArray[np.float64]) -> tuple[float, float]:
    """Share of the peers below the first score, ties half, and the first score less the log of the mean exponential.

    >>> _outcome(np.log([0.6, 0.2, 0.6, 0.2]))[0].round(3), _outcome(np.zeros(4))
    (np.float64(0.833), (np.float64(0.5), np.float64(0.0)))
    """
    true, peers = scores[0], scores[1:]
    top = scores.max()
    lift = true - top - np.log(np.mean(np.exp(scores - top)))
    return np.mean((peers < true) + 0.5 * (peers == true)), lift


def _cases(cohort: Cohort, counts: NDArray[np.int64], most: int, context: int, seed: int) -> _Cases:
    """Up to `most` cases of each band of counts, drawn by seed, in the order of the visits."""
    codes, visits = np.asarray(cohort.codes).astype(np.int64), cohort.visit_of_entry
    fits = (cohort.codes_per_visit[visits] >= 2) & (cohort.visit_number[visits] < context)
    fits[fits] = _first_times(cohort)[fits]
    random = random_stream(seed, "tail swap")
    chosen = []
    for low, high in RARE_BANDS.values():
        inside = np.flatnonzero(fits & (counts[codes] >= low) & (counts[codes] <= high))
        chosen.append(random.permutation(inside)[:most])
    entries = np.sort(np.concatenate(chosen))
    by_case = [_peers(cohort, counts, int(visits[entry]), int(codes[entry]), random) for entry in entries]
    # A code without a peer cannot be ranked.
    kept = entries[[len(peers) > 0 for peers in by_case]] if len(entries) else entries
    return _Cases(cohort, visits[kept], codes[kept], [peers for peers in by_case if len(peers)])


def _first_times(cohort: Cohort) -> NDArray[np.bool_]:
    """Whether each entry is the first of its code in its patient's record."""
    key = cohort.patient_of_entry * cohort.n_codes + cohort.codes
    first = np.zeros(len(key), dtype=bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first


def _peers(
    cohort: Cohort, counts: NDArray[np.int64], visit: int, code: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Codes as rare as this one that the patient never had up to this visit, at most `PEERS`, the nearest counts."""
    first = cohort.first_visits[cohort.patient_of_visit[visit]]
    before = cohort.codes[cohort.visit_starts[first] : cohort.visit_starts[visit + 1]]
    distance = np.abs(counts - counts[code])
    distance[before] = counts[code]
    within = 0 if int((distance == 0).sum()) >= _ENOUGH else counts[code] // 4
    near = np.flatnonzero(distance <= within)
    order = np.lexsort((random.random(len(near)), distance[near]))
    return near[order][:PEERS]


def _met(cases: _Cases, train: Cohort, own_visit: bool) -> NDArray[np.bool_]:
    """Whether a training visit, other than the case's own, holds the rare code with a partner that the case has."""
    learned = train.matrix()
    rare, row = np.unique(cases.code, return_inverse=True)
    together = (learned[:, rare].T @ learned).tocsr()[row]
    met = np.asarray(cases.cohort.matrix()[cases.visit].multiply(together).sum(axis=1)).ravel()
    # The code stands with itself in each of its visits, and in the case's own visit with every partner.
    met -= train.visit_counts[cases.code]
    return met > (cases.cohort.codes_per_visit[cases.visit] - 1 if own_visit else 0)
