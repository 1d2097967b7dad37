"""Do the words of code titles tell which codes meet that nobody is known to hold together?

    python benchmarks/pair_words.py [--experiment experiments/company.toml] [--least 3]

The patients of the training part are divided as by `pair_ceiling.py`; nothing is trained and nothing is drawn. A
sampler writes pairs with a tail code that fewer than three counted patients hold, as often as chance does, times how
much more often codes with such words (or of such families) met than by chance. What was counted of a pair itself is
left out of what is said of it; with `--least 3`, pairs of fewer patients count as pairs that never met. Printed is the
share of what is written that the judging patients hold, beside that of plain chance and that of the validation
patients; then the same for pairs that no counted patient holds. With the titles handed to other codes at random it
tells how much of a gain is luck.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pair_ceiling import Floats, Pairs, counted, division, table_of

from adapcla.data import Cohort, Hierarchy, Vocabulary
from adapcla.data.code_systems import describe_codes
from adapcla.tables import Table

Positions = NDArray[np.int64]

#: Letters that a word must have, and codes that may share it.
_LETTERS, _MOST_CODES = 4, 40
#: Visits that are added to what was counted and to what chance expects.
_SHRINKAGE = 1.0
#: Patients from which a pair is known.
_KNOWN = 3
#: Times that titles are handed out at random.
_SHUFFLES = 20


def words_of(vocabulary: Vocabulary, most_codes: int = _MOST_CODES) -> Floats:
    """(codes, words) 1 where a word stands in the title of a code; words of one code, or of too many, are left out."""
    known = describe_codes(vocabulary)
    titles = [
        {
            word.removesuffix("s")
            for word in re.findall("[a-z]+", known.get(code.token, "").lower())
            if len(word) >= _LETTERS
        }
        for code in vocabulary.codes
    ]
    names = sorted(set().union(*titles))
    member = np.array([[name in title for name in names] for title in titles], dtype=np.float64)
    return member[:, (member.sum(0) >= 2) & (member.sum(0) <= most_codes)]


def families_of(vocabulary: Vocabulary, level: str) -> Floats:
    """(codes, families) 1 where a code belongs to a family."""
    tree = Hierarchy.of(vocabulary)
    assert tree is not None
    number = getattr(tree, level)
    return np.eye(int(number.max()) + 1)[number]


@dataclass(frozen=True, eq=False)
class Asked:
    """The pairs with a tail code: their codes, the rarer one first, and what was counted of all pairs."""

    pairs: Pairs
    rarer: Positions
    other: Positions
    visits: Floats  # (codes, codes)
    believed: Floats  # (codes, codes) the visits of pairs of enough patients
    chance: Floats  # (codes, codes)

    @classmethod
    def of(cls, cohort: Cohort, judge: Cohort, least: int) -> Asked:
        """Of some counted patients; pairs count from some number of them on."""
        pairs, upper = counted(cohort, judge), np.triu_indices(cohort.n_codes, 1)
        tables = np.zeros((3, cohort.n_codes, cohort.n_codes))
        believed = np.where(pairs.patients >= least, pairs.visits, 0.0)
        for table, numbers in zip(tables, (pairs.visits, believed, pairs.chance), strict=True):
            table[upper] = numbers
            table += table.T
        one, two = (side[pairs.tail] for side in upper)
        turned = cohort.visit_counts[one] > cohort.visit_counts[two]
        return cls(pairs, np.where(turned, two, one), np.where(turned, one, two), *tables)

    def own(self, table: Floats) -> Floats:
        """What a table says of each pair itself."""
        return table[self.rarer, self.other]

    def lift(self, counts: Floats, expected: Floats) -> Floats:
        """The logarithm of counted beside expected, shrunken."""
        return np.log((counts + _SHRINKAGE) / (expected + _SHRINKAGE))

    def among_features(self, member: Floats) -> Floats:
        """By how often the features of both codes met elsewhere: a mean over pairs of features."""
        pair, w, v = _all_features(member, self.rarer, self.other)
        one, two = self.rarer[pair], self.other[pair]
        times = 1 + member[two, w] * member[one, v]
        both = [(member.T @ table @ member)[w, v] - times * table[one, two] for table in (self.believed, self.chance)]
        return _mean(self.lift(*both), pair, len(self.rarer))

    def of_rarer(self, member: Floats) -> Floats:
        """By how often the rarer code met other codes with the features of the other one: a mean over features."""
        pair, v = _features(member, self.other)
        one, two = self.rarer[pair], self.other[pair]
        both = [(table @ member)[one, v] - table[one, two] for table in (self.believed, self.chance)]
        return _mean(self.lift(*both), pair, len(self.rarer))

    def by_sharing(self, member: Floats) -> Floats:
        """By how often other codes that share as many features met: none, one, two and more."""
        shared = np.minimum((member @ member.T)[self.rarer, self.other], 2).astype(int)
        own = self.own(self.believed), self.own(self.chance)
        both = [np.bincount(shared, numbers)[shared] - numbers for numbers in own]
        return self.lift(*both)

    def right(self, log_weight: Floats, never: bool = False) -> float:
        """The share of what is written that the judging patients hold, of pairs of too few patients (or of none)."""
        patients = self.pairs.patients[self.pairs.tail]
        mass = np.where(patients < (1 if never else _KNOWN), self.own(self.chance) * np.exp(log_weight), 0.0)
        return float(mass[self.pairs.judge_visits[self.pairs.tail] > 0].sum() / mass.sum())

    def fitted(self, *features: Floats) -> Floats:
        """The log-weight that explains the counts of pairs with a tail code best (Poisson, by Newton's method)."""
        x = np.stack([np.ones(len(self.rarer)), *features], axis=1)
        counts, by_chance = self.own(self.visits), self.own(self.chance)
        weights = np.zeros(x.shape[1])
        for _ in range(30):
            mean = by_chance * np.exp(np.clip(x @ weights, -20, 20))
            weights += np.linalg.solve(x.T @ (mean[:, None] * x) + 1e-6 * np.eye(len(weights)), x.T @ (counts - mean))
        return np.asarray(x @ weights)


def _features(member: Floats, codes: Positions) -> tuple[Positions, Positions]:
    """Each (place in `codes`, feature of the code there)."""
    pair, feature = np.nonzero(member[codes])
    return pair, feature


def _all_features(member: Floats, one: Positions, two: Positions) -> tuple[Positions, Positions, Positions]:
    """Each (pair, feature of its first code, feature of its second code)."""
    pair, v = _features(member, two)
    again, w = _features(member, one[pair])
    return pair[again], w, v[again]


def _mean(values: Floats, place: Positions, n: int) -> Floats:
    """The mean of the values of each place, 0 where there are none."""
    return np.asarray(np.bincount(place, values, n) / np.maximum(np.bincount(place, minlength=n), 1))


def samplers(asked: Asked, vocabulary: Vocabulary) -> Iterator[tuple[str, Floats]]:
    """Each sampler by name, as the logarithm of what chance is multiplied by."""
    words, section, chapter = words_of(vocabulary), *(families_of(vocabulary, x) for x in ("section", "chapter"))
    yield "chance", np.zeros(len(asked.rarer))
    families = []
    for name, member in (("sections", section), ("chapters", chapter), ("words", words)):
        met, of_rarer = asked.among_features(member), asked.of_rarer(member)
        yield f"{name} of both codes met", met
        yield f"the rarer code met {name} of the other", of_rarer
        families += [met, of_rarer] if name != "words" else []
    sharing = asked.by_sharing(words)
    yield "as many words shared", sharing
    yield "as many words of at most ten codes shared", asked.by_sharing(words_of(vocabulary, 10))
    yield "fitted: sections and chapters", asked.fitted(*families)
    yield "fitted: words", asked.fitted(met, of_rarer, sharing)
    yield "fitted: sections, chapters and words", asked.fitted(*families, met, of_rarer, sharing)


def shuffled(asked: Asked, vocabulary: Vocabulary) -> Iterator[tuple[float, float]]:
    """What all of it together has right beyond families if titles belong to other codes, time after time."""
    words = words_of(vocabulary)
    levels = [families_of(vocabulary, level) for level in ("section", "chapter")]
    families = [x for member in levels for x in (asked.among_features(member), asked.of_rarer(member))]
    for seed in range(_SHUFFLES):
        other = words[np.random.default_rng(seed).permutation(len(words))]
        told = asked.among_features(other), asked.of_rarer(other), asked.by_sharing(other)
        yield asked.right(asked.fitted(*told)), asked.right(asked.fitted(*families, *told))


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--experiment", type=Path, default=Path("experiments/company.toml"))
    parser.add_argument("--least", type=int, default=1, help="patients from which a pair counts")
    options = parser.parse_args()
    cohort, valid, judge = division(options.experiment)
    asked, words = Asked.of(cohort, judge, options.least), words_of(cohort.vocabulary)
    sharing = (words @ words.T)[asked.rarer, asked.other] > 0
    print(f"{words.shape[1]} words; {(words.sum(1) > 0).sum()} of {len(words)} codes have one")
    print(f"{sharing.mean():.3f} of the pairs with a tail code share a word")
    rows = [
        [name, *(f"{asked.right(x, never):.3f}" for never in (False, True))]
        for name, x in samplers(asked, cohort.vocabulary)
    ]
    real = table_of(valid, "visits")[asked.rarer, asked.other]
    with np.errstate(divide="ignore"):
        weight = np.log(real / asked.own(asked.chance))
    rows.append(["validation patients", *(f"{asked.right(weight, never):.3f}" for never in (False, True))])
    print("\n" + Table(["sampler", "pairs of fewer than three patients", "pairs of nobody"], rows).markdown())
    luck = np.array(list(shuffled(asked, cohort.vocabulary)))
    for name, column in zip(("words", "sections, chapters and words"), luck.T, strict=True):
        print(f"fitted with titles of other codes: {name} {column.mean():.3f} [{column.min():.3f}, {column.max():.3f}]")


if __name__ == "__main__":
    main()
