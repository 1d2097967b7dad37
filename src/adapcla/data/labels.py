"""Patient labels as a rule from codes to names, so that real and synthetic patients are labelled alike."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data.cohort import Cohort
from adapcla.data.storage import read_text_table
from adapcla.data.vocabulary import Vocabulary, is_code
from adapcla.errors import InputError, UsageError

#: Where the card of a labelled cohort keeps the rule.
CARD_KEY = "label_rule"
#: The patient prevalence that makes a label worth predicting.
WANTED_SHARE = (0.1, 0.5)


@dataclass(frozen=True)
class LabelRule:
    """For each label its name and the code strings of which any one sets it.

    >>> rule = LabelRule.of({"heart": ["I10", "I21"], "lung": ["J45"]})
    >>> cohort = Cohort.of([[["I10"], ["J45"]], [["E11"]]])
    >>> rule.apply(cohort).tolist()
    [[1, 1], [0, 0]]
    >>> rule.apply_visits(cohort).tolist()
    [[1, 0], [0, 1], [0, 0]]
    """

    names: tuple[str, ...]
    codes: tuple[tuple[str, ...], ...]

    def __post_init__(self) -> None:
        if len(self.names) != len(self.codes) or len(set(self.names)) != len(self.names):
            raise InputError(
                f"{len(self.names)} label names for {len(self.codes)} groups of codes",
                expected="each label once, with its codes",
                remedy="build the rule with LabelRule.of",
            )

    @classmethod
    def of(cls, groups: Mapping[str, Iterable[str]]) -> LabelRule:
        """A rule from label names to their code strings, in the order of the mapping.

        >>> LabelRule.of({"heart": ["I21", "I10", "I21"]}).codes
        (('I10', 'I21'),)
        """
        return cls(tuple(groups), tuple(tuple(sorted(set(codes))) for codes in groups.values()))

    @classmethod
    def auto(cls, cohort: Cohort, n: int = 25) -> LabelRule:
        """The `n` groups of diagnoses whose share of patients is nearest to 10–50 %.

        A group is a code category, or a single code where the codes show no family tree. Its distance is 0
        inside the interval and |log(share / nearer bound)| outside. Of equally near groups the more common comes
        first, then the one first by name. A group that nobody or everybody has is no label. Labels are in name
        order.

        >>> rule = LabelRule.auto(Cohort.of([[["25000"]], [["25001"]], [["4019"]]] + [[["0389"]]] * 5), n=2)
        >>> rule.names, rule.codes
        (('250', '401'), (('25000', '25001'), ('4019',)))
        """
        names, group_of_code = _groups(cohort.vocabulary)
        held = _patients_by(cohort, _membership(group_of_code, len(names)))
        counts = np.asarray(held.sum(axis=0)).ravel()
        share = counts / max(cohort.n_patients, 1)
        candidates = np.flatnonzero((counts > 0) & (counts < cohort.n_patients))
        low, high = WANTED_SHARE
        inside = share[candidates]
        # Rounded, so that equal shares tie whatever the last bit of a logarithm says.
        distance = np.round(np.maximum(0.0, np.maximum(np.log(low / inside), np.log(inside / high))), 12)
        order = np.lexsort((np.array(names, dtype=object)[candidates].astype(str), -counts[candidates], distance))
        chosen = sorted(candidates[order[:n]], key=lambda group: names[group])
        tokens = cohort.vocabulary.tokens
        return cls.of({names[g]: [tokens[c] for c in np.flatnonzero(group_of_code == g)] for g in chosen})

    @classmethod
    def from_card(cls, card: Mapping[str, Any]) -> LabelRule | None:
        """The rule that a cohort's card holds, or None.

        >>> rule = LabelRule.of({"heart": ["I10"]})
        >>> LabelRule.from_card(rule.as_card()) == rule
        True
        """
        groups = card.get(CARD_KEY)
        if not isinstance(groups, list):
            return None
        return cls.of({str(group["label"]): [str(code) for code in group["codes"]] for group in groups})

    def as_card(self) -> dict[str, Any]:
        """The rule as an entry for a card; a list, because the order of labels matters.

        >>> LabelRule.of({"heart": ["I10"]}).as_card()
        {'label_rule': [{'label': 'heart', 'codes': ['I10']}]}
        """
        pairs = zip(self.names, self.codes, strict=True)
        return {CARD_KEY: [{"label": name, "codes": list(codes)} for name, codes in pairs]}

    def apply(self, cohort: Cohort) -> NDArray[np.uint8]:
        """Patients × labels, 1 where any visit of the patient holds a code of the label."""
        held = _patients_by(cohort, self._on(cohort.vocabulary))
        return (held.toarray() > 0).astype(np.uint8)

    def apply_visits(self, cohort: Cohort) -> NDArray[np.uint8]:
        """Visits × labels, 1 where the visit holds a code of the label."""
        return np.asarray((cohort.matrix() @ self._on(cohort.vocabulary)).toarray() > 0, dtype=np.uint8)

    def label(self, cohort: Cohort) -> Cohort:
        """The cohort with these labels, and the rule in its card.

        >>> labelled = LabelRule.of({"heart": ["I10"]}).label(Cohort.of([[["I10"]], [["E11"]]]))
        >>> labelled.labels.tolist(), labelled.label_names
        ([[1], [0]], ('heart',))
        """
        card = {**cohort.card, **self.as_card()}
        return replace(cohort, labels=self.apply(cohort), label_names=self.names, card=card)

    def _on(self, vocabulary: Vocabulary) -> sparse.csr_matrix:
        """Codes × labels of one vocabulary; a code that it lacks sets nothing."""
        positions = [vocabulary.positions(codes) for codes in self.codes]
        rows = np.concatenate([*positions, np.zeros(0, dtype=np.int64)])
        columns = np.repeat(np.arange(len(self.names)), [len(group) for group in positions])
        known = rows >= 0
        ones = np.ones(int(known.sum()), dtype=np.float32)
        return sparse.csr_matrix((ones, (rows[known], columns[known])), shape=(len(vocabulary), len(self.names)))


def _membership(group_of_code: NDArray[np.int64], n_groups: int) -> sparse.csr_matrix:
    """Codes × groups from one group per code, −1 for none."""
    rows = np.flatnonzero(group_of_code >= 0)
    ones = np.ones(len(rows), dtype=np.float32)
    return sparse.csr_matrix((ones, (rows, group_of_code[rows])), shape=(len(group_of_code), n_groups))


def _patients_by(cohort: Cohort, membership: sparse.csr_matrix) -> sparse.csr_matrix:
    """Patients × groups, 1 where the patient holds a code of the group."""
    held = sparse.csr_matrix(cohort.patient_matrix() @ membership)
    held.data[:] = 1
    return held


def _groups(vocabulary: Vocabulary) -> tuple[list[str], NDArray[np.int64]]:
    """Names of the groups of diagnoses, and the group of each code (−1 where it is no diagnosis)."""
    chosen = vocabulary.domain_mask("diagnosis")
    if not chosen.any():
        chosen = np.ones(len(vocabulary), dtype=bool)
    from adapcla.data.code_systems import Hierarchy

    inner = vocabulary.subset(chosen)
    tree = Hierarchy.of(inner)
    if tree is None:
        pairs = [(token, "") for token in inner.tokens]
    else:
        # Two systems may use one category string for different things (V10), so the chapter is part of the key.
        pairs = [(tree.categories[i], tree.chapters[j]) for i, j in zip(tree.category, tree.chapter, strict=True)]
    keys = sorted(set(pairs))
    times = Counter(category for category, _ in keys)
    names = [category if times[category] == 1 else f"{category} ({chapter})" for category, chapter in keys]
    position = {key: group for group, key in enumerate(keys)}
    out = np.full(len(vocabulary), -1, dtype=np.int64)
    out[chosen] = [position[pair] for pair in pairs]
    return names, out


#: The phenotypes of Harutyunyan et al. (2019), by the number of their CCS category, in the order of the benchmark.
BENCHMARK_CCS = (
    *("157", "109", "100", "106", "158", "127", "238", "105", "108", "101", "50", "49", "53"),
    *("98", "55", "153", "99", "151", "133", "134", "130", "122", "131", "2", "249"),
)
#: Ways to label that are not a file.
NAMED = ("phenotypes", "auto")


def add_labels(cohort: Cohort, how: str | Path) -> Cohort:
    """The cohort with labels by `phenotypes`, `auto` or a CSV `code,label`; the rule goes into its card.

    >>> labelled = add_labels(Cohort.of([[["4019"]], [["0389"], ["78552"]]]), "phenotypes")
    >>> [labelled.label_names[i] for i in labelled.labels[1].nonzero()[0]]
    ['Septicemia (except in labor)', 'Shock']
    """
    rule = choose_label_rule(cohort, how)
    labelled = rule.label(cohort)
    unknown = sum(position < 0 for group in rule.codes for position in cohort.vocabulary.positions(group))
    note = {
        "by": str(how) if str(how) in NAMED else Path(how).name,
        "codes of the rule not in the cohort": int(unknown),
    }
    labelled.card["labelled"] = note
    return labelled


def choose_label_rule(cohort: Cohort, how: str | Path) -> LabelRule:
    """The rule that `how` asks for."""
    if str(how) == "phenotypes":
        return phenotypes(cohort.vocabulary)
    if str(how) == "auto":
        rule = LabelRule.auto(cohort)
        if not rule.names:
            raise InputError(
                "no group of codes that some patients have and others have not", remedy="give a CSV `code,label`"
            )
        return rule
    path = Path(how)
    if not path.exists():
        raise UsageError(
            f"labels {str(how)!r}\nexpected: {', '.join(NAMED)} or a CSV file with the columns code, label"
        )
    return labels_from_table(path, cohort.vocabulary)


def phenotypes(vocabulary: Vocabulary) -> LabelRule:
    """The 25 benchmark phenotypes on a vocabulary of ICD-9 or ICD-10 diagnoses.

    >>> rule = phenotypes(Vocabulary.of(["25000", "4019"]))
    >>> len(rule.names), rule.codes[rule.names.index("Diabetes mellitus without complication")]
    (25, ('25000',))
    """
    from adapcla.data.code_systems import ccs, ccs_name, icd_systems

    systems = icd_systems(vocabulary)
    if not any(systems):
        raise InputError(
            "no ICD-9 or ICD-10 diagnosis in the vocabulary",
            expected="ICD codes, which the benchmark phenotypes are made of",
            remedy="use --labels auto, or a CSV `code,label`",
        )
    groups: dict[str, list[str]] = {number: [] for number in BENCHMARK_CCS}
    for code, system in zip(vocabulary.codes, systems, strict=True):
        number = ccs(code.bare, system) if system else None
        if number in groups:
            groups[number].append(code.token)
    return LabelRule.of({ccs_name(number): tokens for number, tokens in groups.items()})


def labels_from_table(path: Path, vocabulary: Vocabulary) -> LabelRule:
    """The rule of a table with the columns `code` and `label`; a code may be written with or without its system."""
    table = read_text_table(path, "code", "label")
    tokens_of: dict[str, list[str]] = {}
    for code in vocabulary.codes:
        for spelling in {code.token, code.bare}:
            tokens_of.setdefault(spelling, []).append(code.token)
    groups: dict[str, list[str]] = {}
    for row, (code_text, label) in enumerate(zip(table["code"], table["label"], strict=True), 2):
        if not label or not is_code(code_text):
            column, expected = ("label", "a name") if not label else ("code", "characters that can be printed")
            raise InputError(
                "a cell of another form",
                path=path,
                row=row,
                column=column,
                expected=expected,
                remedy="repair or remove the row",
            )
        groups.setdefault(label, []).extend(tokens_of.get(code_text, [code_text]))
    if not groups:
        raise InputError(
            "a table without rows", path=path, expected="code, label", remedy="add the codes of each label"
        )
    return LabelRule.of(groups)
