"""Rules that no training patient breaks: codes that a sex or an age never has, diseases that precede complications,
and how many codes a visit holds at most.

A rule is learned only where chance alone would not leave it unbroken, so that rare codes make none.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data.cohort import Cohort
from adapcla.data.provenance import Group
from adapcla.data.ragged import expand_ranges
from adapcla.data.vocabulary import Vocabulary

Mask = NDArray[np.bool_]
#: Attributes that rules are about, and the kind of rule that each makes.
ATTRIBUTES = {"sex": "sex", "gender": "sex", "age_band": "age", "age": "age", "birth_band": "age"}
#: The kinds of rules.
RULE_KINDS = ("sex", "age", "before", "size")
#: Training patients of a code, and the chance of no exception among them if there were no rule.
MIN_PATIENTS, CHANCE = 20, 1e-6


@dataclass(frozen=True, eq=False)
class Rules:
    """What no training patient does.

    >>> train = Cohort.of([[["D"], ["C"]], [["D", "C"]], [["X"]]] * 20 + [[["X"]]] * 60)
    >>> rules = Rules.of(train)
    >>> [(train.vocabulary.tokens[c], train.vocabulary.tokens[d]) for c, d in rules.before]
    [('C', 'D')]
    >>> rules.broken(Cohort.of([[["C"]], [["D"], ["C"]], [["C"], ["D"]]]).on(train.vocabulary))["before"].tolist()
    [True, False, True]
    """

    vocabulary: Vocabulary
    #: Attribute → category → the codes that no patient of the category holds.
    never: dict[str, dict[str, NDArray[np.int64]]]
    #: Rows of a complication and the disease that comes before it or with it.
    before: NDArray[np.int64]
    #: The codes that a visit holds at most; 0 where nothing says that there is a limit.
    most: int = 0
    #: The patients that the rules were counted from: whoever is drawn by them has learned from these too.
    counted_from: Group | None = None

    @classmethod
    def of(cls, train: Cohort) -> Rules:
        """The rules of a training cohort."""
        names = [name for name in ATTRIBUTES if name in train.attributes]
        return cls(train.vocabulary, {name: _never(train, name) for name in names}, _before(train), _most(train))

    @property
    def counts(self) -> dict[str, int]:
        """The number of rules of each kind."""
        out = dict.fromkeys(RULE_KINDS, 0)
        for name, categories in self.never.items():
            out[ATTRIBUTES[name]] += sum(len(codes) for codes in categories.values())
        out["before"], out["size"] = len(self.before), int(self.most > 0)
        return out

    @property
    def fingerprint(self) -> str:
        """A hash of all rules."""
        digest = hashlib.sha256(self.vocabulary.fingerprint.encode() + self.before.tobytes())
        for name, categories in sorted(self.never.items()):
            for word, codes in sorted(categories.items()):
                digest.update(f"{name}/{word}/{len(codes)}/".encode() + codes.tobytes())
        digest.update(f"most {self.most}".encode())
        return digest.hexdigest()

    def broken(self, cohort: Cohort) -> dict[str, Mask]:
        """For each kind of rule, which patients of a cohort break one; cohorts are on the vocabulary of the rules."""
        cohort = cohort.on(self.vocabulary)
        out = {kind: np.zeros(cohort.n_patients, dtype=bool) for kind in RULE_KINDS}
        holds = cohort.patient_matrix() > 0
        for name, categories in self.never.items():
            if name not in cohort.attributes:
                continue
            values, words = cohort.attributes[name]
            for word, codes in categories.items():
                if word in words and len(codes):
                    of_category = np.asarray(values) == words.index(word)
                    out[ATTRIBUTES[name]] |= of_category & (np.asarray(holds[:, codes].sum(axis=1)).ravel() > 0)
        if len(self.before):
            onsets, history = _onsets(cohort), _history(cohort)
            missing = onsets[:, self.before[:, 0]].multiply(1 - history[:, self.before[:, 1]].toarray())
            visits = np.asarray(missing.sum(axis=1)).ravel() > 0
            out["before"][cohort.patient_of_visit[visits]] = True
        if self.most:
            out["size"][cohort.patient_of_visit[cohort.codes_per_visit > self.most]] = True
        return out

    def any_broken(self, cohort: Cohort) -> Mask:
        """Which patients break a rule of any kind."""
        return np.any(list(self.broken(cohort).values()), axis=0)


def _never(train: Cohort, name: str) -> dict[str, NDArray[np.int64]]:
    """For each category, the codes that none of its patients holds though chance would have given it to some."""
    values, words = np.asarray(train.attributes[name].values), train.attributes[name].categories
    holds = (train.patient_matrix() > 0).astype(np.int64)
    known = values >= 0
    holders = np.asarray(holds[known].sum(axis=0)).ravel()
    out = {}
    for number, word in enumerate(words):
        here = values == number
        share = here.sum() / max(int(known.sum()), 1)
        chance = (1 - share) ** holders
        unheld = np.asarray(holds[here].sum(axis=0)).ravel() == 0
        out[word] = np.flatnonzero(unheld & (holders >= MIN_PATIENTS) & (chance < CHANCE))
    return out


def _before(train: Cohort) -> NDArray[np.int64]:
    """The pairs of a complication and a disease that every patient has before it or with it."""
    frequent = np.flatnonzero(train.patient_counts >= MIN_PATIENTS)
    share = train.patient_counts / max(train.n_patients, 1)
    together = (_onsets(train)[:, frequent].T @ _history(train)).tocoo()
    code, disease = frequent[together.row], together.col.astype(np.int64)
    always = together.data == train.patient_counts[code]
    unlikely = share[disease] ** train.patient_counts[code] < CHANCE
    keep = always & unlikely & (code != disease)
    pairs = np.stack([code[keep], disease[keep]], axis=1)
    return pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]


def _most(train: Cohort) -> int:
    """The codes of the largest visits if there must be a limit; 0 where the tail of sizes may just have ended there.

    The share of visits of the size below or the largest one that have the largest is what goes on. If the largest went
    on as often to a still larger size, chance would hardly leave none of those: a form with so many lines, for example.

    >>> _most(Cohort.of([[["A", "B", "C"]]] * 30 + [[["A", "B"]]] * 30))
    3
    """
    sizes = train.codes_per_visit
    most = int(sizes.max(initial=0))
    largest, below = int((sizes == most).sum()), int((sizes == most - 1).sum())
    if not below or len(np.unique(train.patient_of_visit[sizes == most])) < MIN_PATIENTS:
        return 0
    return most if (below / (largest + below)) ** largest < CHANCE else 0


def _first_entries(cohort: Cohort) -> Mask:
    """Whether each entry is the first of its code in its record."""
    key = cohort.patient_of_entry * cohort.n_codes + np.asarray(cohort.codes)
    first = np.zeros(cohort.n_entries, dtype=bool)
    first[np.unique(key, return_index=True)[1]] = True
    return first


def _onsets(cohort: Cohort) -> sparse.csr_matrix:
    """Visits × codes, 1 where the code is in the record for the first time."""
    first = _first_entries(cohort)
    where = (cohort.visit_of_entry[first], np.asarray(cohort.codes)[first])
    return sparse.csr_matrix(
        (np.ones(int(first.sum()), dtype=np.int64), where), shape=(cohort.n_visits, cohort.n_codes)
    )


def _history(cohort: Cohort) -> sparse.csr_matrix:
    """Visits × codes, 1 where the patient has held the code so far."""
    first = np.flatnonzero(_first_entries(cohort))
    visit = cohort.visit_of_entry[first]
    # A code that came at a visit stays until the last visit of its patient.
    stop = cohort.last_visits[cohort.patient_of_visit[visit]] + 1
    rows = expand_ranges(visit, stop)
    columns = np.repeat(np.asarray(cohort.codes)[first], stop - visit)
    return sparse.csr_matrix(
        (np.ones(len(rows), dtype=np.int64), (rows, columns)), shape=(cohort.n_visits, cohort.n_codes)
    )
