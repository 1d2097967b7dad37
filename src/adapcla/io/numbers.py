"""From rows of measurements to one number for each visit and lab: which labs, which unit, which of several values.

The view `measured` holds patient, visit, code, system, domain, value (a number, or NULL where none could be read),
unit, and moment (when, as a number; NULL where the source does not say). It may be longer than memory: everything is
computed in the database.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from adapcla.data import Code, Vocabulary
from adapcla.data.vocabulary import is_code, normalize_code
from adapcla.errors import UsageError
from adapcla.io.database import Database
from adapcla.io.options import LabValue, ReadOptions

#: The unit of what has none.
UNITLESS = "1"
#: Which of several values → SQL over the columns value and moment; of values of one time, the last is the highest.
_VALUES = {
    "last": "max({'m': coalesce(m.moment, -1e300), 'v': m.value}).v",
    "first": "min({'m': coalesce(m.moment, -1e300), 'v': m.value}).v",
    "lowest": "min(m.value)",
    "highest": "max(m.value)",
}
# Units are the same whatever their case and blanks; words for none are none.
_UNIT = "regexp_replace(lower({}), '\\s+', '', 'g')"
_NO_UNIT = ("", "unk", "none", "unknown", "1", "nomatchingconcept")


@dataclass(frozen=True)
class Number:
    """A lab that is read: how the source calls it, its unit there, and a code for each value that is kept."""

    system: str
    #: All spellings of its code.
    spellings: tuple[str, ...]
    unit: str
    kept: Mapping[LabValue, Code]
    #: How many rows have it, in this unit.
    n_rows: int


#: (system, code) → rows, unit, unit as it is mostly written, domain: one for each unit.
_Items = dict[tuple[str, str], list[tuple[int, str, str, str]]]


def common_spellings(rows: Iterable[tuple[str, str, str, int]]) -> dict[tuple[str, str], str]:
    """From (system, code) as a source writes it to the code as it is kept; rows are system, code, domain, count.

    Names of drugs and labs that differ in upper and lower case only are one, as most rows write it.

    >>> common_spellings([("DRUG", "Aspirin  81 mg", "drug", 5), ("DRUG", "ASPIRIN 81 MG", "drug", 2)])
    {('DRUG', 'Aspirin  81 mg'): 'Aspirin 81 mg', ('DRUG', 'ASPIRIN 81 MG'): 'Aspirin 81 mg'}
    """
    clean: dict[tuple[str, str], str] = {}
    counts: dict[tuple[str, str], Counter[str]] = {}
    for system, code, domain, n in rows:
        clean[system, code] = normalize_code(code)
        if domain in ("drug", "lab"):
            counts.setdefault((system, clean[system, code].casefold()), Counter())[clean[system, code]] += n
    common = {key: min(found, key=lambda text: (-found[text], text)) for key, found in counts.items()}
    return {(system, code): common.get((system, text.casefold()), text) for (system, code), text in clean.items()}


def select_numbers(
    db: Database, options: ReadOptions, known: Mapping[tuple[str, str], tuple[str, str]]
) -> tuple[list[Number], dict[str, Any]]:
    """The numbers to read, by name, and what the card says of them; what is left out is counted."""
    rows = db.query(
        f"""SELECT system, code, min(domain), {_UNIT.format("unit")} AS u, min(unit),
            count(*) FILTER (value IS NOT NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (value IS NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (patient = '' OR visit = '') FROM measured GROUP BY system, code, u ORDER BY ALL"""
    )
    spelling = common_spellings((system, code, domain, n) for system, code, domain, _, _, n, _, _ in rows)
    items: _Items = {}
    spellings: dict[tuple[str, str], set[str]] = {}
    for system, code, domain, unit, written, n, unreadable, nameless in rows:
        db.drop("values without a patient or visit id", nameless)
        db.drop("values that are no number", unreadable)
        if n:
            item = (system, spelling[system, code])
            spellings.setdefault(item, set()).add(code)
            items.setdefault(item, []).append((n, unit, UNITLESS if unit in _NO_UNIT else written, domain))
    wanted = _wanted_items(items, options)
    numbers, others = [], 0
    for (system, code), of_units in sorted(items.items()):
        n_of_unit: Counter[str] = Counter()
        for n, unit, *_ in of_units:
            n_of_unit[unit] += n
        unit = max(n_of_unit, key=lambda name: (n_of_unit[name], name))
        _, _, written, domain = max(row for row in of_units if row[1] == unit)
        if (system, code) not in wanted:
            others += n_of_unit.total()
            continue
        which: tuple[LabValue, ...] = options.lab_values if domain == "lab" else ("last",)
        text = known.get((system, code), ("", ""))[0]
        kept = {
            name: Code.of(
                f"{code}.{name}" if len(which) > 1 else code,
                system,
                description=_describe_lab(text, name if len(which) > 1 else ""),
                domain=domain,
                unit=written,
            )
            for name in which
        }
        if all(is_code(full.token) and is_code(full.code) for full in kept.values()):
            db.drop("values in another unit than most of their kind", n_of_unit.total() - n_of_unit[unit])
            names = tuple(sorted(spellings[system, code]))
            numbers.append(Number(system, names, unit, kept, n_of_unit[unit]))
        else:
            db.drop("values of codes of characters that cannot be printed, or too long", n_of_unit.total())
    db.drop("values of labs that were not asked for", others)
    return numbers, _card(numbers, options)


def _describe_lab(text: str, which: str) -> str:
    """What a lab is called, and which of its values this is."""
    return f"{text}, {which} of the visit" if text and which else text


def _card(numbers: list[Number], options: ReadOptions) -> dict[str, Any]:
    """How many labs there are and which values of a visit were kept, for the card."""
    labs = sum(any(code.domain == "lab" for code in number.kept.values()) for number in numbers)
    return {"labs": {"items": labs, "values of a visit": list(options.lab_values)}} if labs else {}


def _wanted_items(items: _Items, options: ReadOptions) -> set[tuple[str, str]]:
    """The items that `--labs` asks for; what is no lab is never left out."""
    labs = options.labs
    others = {item for item, rows in items.items() if rows[0][3] != "lab"}
    listed = [item for item in items if item not in others]
    if labs == "all":
        return {*listed, *others}
    if labs.isdigit():
        order = sorted(listed, key=lambda item: (-sum(row[0] for row in items[item]), item))
        return {*order[: int(labs)], *others}
    file = options.labs_file
    text = labs.replace(",", "\n") if file is None else file.read_text(encoding="utf-8", errors="replace")
    names = {line.strip() for line in text.splitlines() if line.strip()}
    # A bare item is that of every system that has it.
    chosen = {item for item in listed if item[1] in names or f"{item[0]}/{item[1]}" in names}
    if listed and not chosen:
        raise UsageError(
            f"--labs {labs}\nexpected: a number, all, items of this source with commas, or a file with one a line; "
            "a single item with its system, such as LAB/50931\nto do: check the items"
        )
    return chosen | others


def make_measured_entries(db: Database, numbers: list[Number], vocabulary: Vocabulary) -> None:
    """Make `measured_entries`: position of the visit, place of the code, and the number, in the order of visits."""
    import pyarrow as pa

    spelled = [(number, code, place) for place, number in enumerate(numbers) for code in number.spellings]
    listed = {
        "system": pa.array([number.system for number, _, _ in spelled], pa.string()),
        "code": pa.array([code for _, code, _ in spelled], pa.string()),
        "unit": pa.array([number.unit for number, _, _ in spelled], pa.string()),
        "place": pa.array([place for _, _, place in spelled], pa.int64()),
    }
    db.add("wanted", pa.table(listed))
    which = sorted({name for number in numbers for name in number.kept})
    columns = "".join(f", {_VALUES[name]} AS {name}" for name in which)
    db.run(
        f"""CREATE TABLE summed AS SELECT o.position, w.place AS number, count(*) AS n{columns} FROM measured m
            JOIN wanted w ON w.code = m.code AND w.system = m.system AND w.unit = {_UNIT.format("m.unit")}
            JOIN ordered o ON o.patient = m.patient AND o.visit = m.visit WHERE m.value IS NOT NULL GROUP BY 1, 2"""
    )
    n_joined = db.number("SELECT sum(n) FROM summed")
    db.drop("values of visits that are not known", sum(number.n_rows for number in numbers) - n_joined)
    kept = [(place, name, code) for place, number in enumerate(numbers) for name, code in number.kept.items()]
    codes = {
        "number": pa.array([place for place, _, _ in kept], pa.int64()),
        "name": pa.array([name for _, name, _ in kept], pa.string()),
        "place": pa.array([vocabulary.index[code.token] for _, _, code in kept], pa.int64()),
    }
    db.add("kept_numbers", pa.table(codes))
    each = " UNION ALL ".join(
        f"""SELECT s.position, k.place, CAST(s.{name} AS FLOAT) AS value FROM summed s
            JOIN kept_numbers k ON k.number = s.number AND k.name = '{name}'"""
        for name in which
    )
    db.run(f"CREATE TABLE measured_entries AS SELECT * FROM ({each}) ORDER BY position")
    db.run("DROP TABLE summed")
