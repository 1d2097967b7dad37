"""Patient labels from codes: the 25 benchmark phenotypes, a table of one's own, or the groups that suit a cohort."""

from __future__ import annotations

from pathlib import Path

from adapcla.data import Cohort, LabelRule, Vocabulary
from adapcla.data.vocabulary import CODE_PATTERN
from adapcla.errors import InputError, UsageError
from adapcla.io import codes, tables

#: The phenotypes of Harutyunyan et al. (2019), by the number of their CCS category, in the order of the benchmark.
BENCHMARK = (
    *("157", "109", "100", "106", "158", "127", "238", "105", "108", "101", "50", "49", "53"),
    *("98", "55", "153", "99", "151", "133", "134", "130", "122", "131", "2", "249"),
)
#: Ways to label that are not a file.
NAMED = ("phenotypes", "auto")


def with_labels(cohort: Cohort, how: str | Path) -> Cohort:
    """The cohort with labels by `phenotypes`, `auto` or a CSV `code,label`; the rule goes into its card.

    >>> labelled = with_labels(Cohort.of([[["4019"]], [["0389"], ["78552"]]]), "phenotypes")
    >>> [labelled.label_names[i] for i in labelled.labels[1].nonzero()[0]]
    ['Septicemia (except in labor)', 'Shock']
    """
    rule = rule_for(cohort, how)
    labelled = rule.label(cohort)
    unknown = sum(position < 0 for group in rule.codes for position in cohort.vocabulary.positions(group))
    note = {
        "by": str(how) if str(how) in NAMED else Path(how).name,
        "codes of the rule not in the cohort": int(unknown),
    }
    labelled.card["labelled"] = note
    return labelled


def rule_for(cohort: Cohort, how: str | Path) -> LabelRule:
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
    return from_table(path, cohort.vocabulary)


def phenotypes(vocabulary: Vocabulary) -> LabelRule:
    """The 25 benchmark phenotypes on a vocabulary of ICD-9 or ICD-10 diagnoses.

    >>> rule = phenotypes(Vocabulary.of(["25000", "4019"]))
    >>> len(rule.names), rule.codes[rule.names.index("Diabetes mellitus without complication")]
    (25, ('25000',))
    """
    systems = codes.icd_systems(vocabulary)
    if not any(systems):
        raise InputError(
            "no ICD-9 or ICD-10 diagnosis in the vocabulary",
            expected="ICD codes, which the benchmark phenotypes are made of",
            remedy="use --labels auto, or a CSV `code,label`",
        )
    groups: dict[str, list[str]] = {number: [] for number in BENCHMARK}
    for code, system in zip(vocabulary.codes, systems, strict=True):
        number = codes.ccs(code.bare, system) if system else None
        if number in groups:
            groups[number].append(code.token)
    return LabelRule.of({codes.ccs_name(number): tokens for number, tokens in groups.items()})


def from_table(path: Path, vocabulary: Vocabulary) -> LabelRule:
    """The rule of a table with the columns `code` and `label`; a code may be written with or without its system."""
    table = tables.open_table(path)
    columns = {"code": table.column("code"), "label": table.column("label")}
    tokens_of: dict[str, list[str]] = {}
    for code in vocabulary.codes:
        for spelling in {code.token, code.bare}:
            tokens_of.setdefault(spelling, []).append(code.token)
    groups: dict[str, list[str]] = {}
    row = 1
    for batch in table.batches(columns):
        for code_text, label in zip(batch["code"].to_pylist(), batch["label"].to_pylist(), strict=True):
            row += 1
            code_text, label = code_text.strip(), label.strip()
            if not label or not CODE_PATTERN.fullmatch(code_text):
                column, expected = (
                    ("label", "a name") if not label else ("code", f"a code matching {CODE_PATTERN.pattern}")
                )
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
