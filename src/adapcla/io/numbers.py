"""From rows of measurements to one number for each visit and lab: which labs, which unit, which of several values.

`results` of a source, and the view `measured` of it and of the lengths of stays, hold patient, visit, code, system,
domain, value (a number, or NULL where none could be read), unit, and moment (when, as a number; NULL where the source
does not say). They may be longer than memory: everything but the last answer is computed in the workbench.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Code, Vocabulary
from adapcla.data.vocabulary import CODE_PATTERN
from adapcla.errors import UsageError
from adapcla.io.contract import LabValue, Options
from adapcla.io.workbench import Workbench

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
    code: str
    unit: str
    kept: Mapping[LabValue, Code]
    #: How many rows have it, in this unit.
    n_rows: int


def found(
    bench: Workbench, options: Options, descriptions: Mapping[tuple[str, str], str]
) -> tuple[list[Number], dict[str, Any]]:
    """The numbers to read, by name, and what the card says of them; what is left out is counted."""
    of_item: dict[tuple[str, str], list[tuple[int, str, str, str]]] = {}
    for system, code, domain, unit, spelling, n, unreadable, nameless in bench.query(
        f"""SELECT system, code, min(domain), {_UNIT.format("unit")} AS u, min(unit),
            count(*) FILTER (value IS NOT NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (value IS NULL AND patient <> '' AND visit <> ''),
            count(*) FILTER (patient = '' OR visit = '') FROM measured GROUP BY system, code, u ORDER BY ALL"""
    ):
        bench.drop("values without a patient or visit id", nameless)
        bench.drop("values that are no number", unreadable)
        if n:
            none = unit in _NO_UNIT
            of_item.setdefault((system, code), []).append((n, unit, UNITLESS if none else spelling, domain))
    asked = _asked(of_item, options)
    numbers, others = [], 0
    for (system, code), rows in sorted(of_item.items()):
        n_rows, unit, spelling, domain = max(rows, key=lambda row: (row[0], row[1]))
        which: tuple[LabValue, ...] = options.lab_values if domain == "lab" else ("last",)
        if (system, code) not in asked:
            others += sum(row[0] for row in rows)
            continue
        kept = {
            name: Code.of(
                f"{code}.{name}" if len(which) > 1 else code,
                system,
                description=_described(descriptions.get((system, code), ""), name if len(which) > 1 else ""),
                domain=domain,
                unit=spelling,
            )
            for name in which
        }
        if all(CODE_PATTERN.fullmatch(text) for full in kept.values() for text in (full.token, full.code)):
            bench.drop("values in another unit than most of their kind", sum(row[0] for row in rows if row[1] != unit))
            numbers.append(Number(system, code, unit, kept, n_rows))
        else:
            bench.drop("values of codes of a form that is not allowed", sum(row[0] for row in rows))
    bench.drop("values of labs that were not asked for", others)
    return numbers, _card(numbers, options)


def _described(text: str, which: str) -> str:
    """What a lab is called, and which of its values this is."""
    return f"{text}, {which} of the visit" if text and which else text


def _card(numbers: list[Number], options: Options) -> dict[str, Any]:
    """How many labs there are and which values of a visit were kept, for the card."""
    labs = sum(any(code.domain == "lab" for code in number.kept.values()) for number in numbers)
    return {"labs": {"items": labs, "values of a visit": list(options.lab_values)}} if labs else {}


def _asked(
    of_item: Mapping[tuple[str, str], list[tuple[int, str, str, str]]], options: Options
) -> set[tuple[str, str]]:
    """The items that `--labs` asks for; what is no lab is never left out."""
    labs = options.labs
    others = {item for item, rows in of_item.items() if rows[0][3] != "lab"}
    listed = [item for item in of_item if item not in others]
    if labs == "all":
        return {*listed, *others}
    if labs.isdigit():
        order = sorted(listed, key=lambda item: (-sum(row[0] for row in of_item[item]), item))
        return {*order[: int(labs)], *others}
    file = options.labs_file
    text = labs.replace(",", "\n") if file is None else file.read_text(encoding="utf-8", errors="replace")
    names = {line.strip() for line in text.splitlines() if line.strip()}
    known = {name: item for item in listed for name in (item[1], f"{item[0]}/{item[1]}")}
    chosen = {known[name] for name in names if name in known}
    if listed and not chosen:
        raise UsageError(
            f"--labs {labs}\nexpected: a number, all, items of this source with commas, or a file with one a line; "
            "a single item with its system, such as LAB/50931\nto do: check the items"
        )
    return chosen | others


def entries(
    bench: Workbench, numbers: list[Number], vocabulary: Vocabulary
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Visit number × size of the vocabulary + code number of every number of a visit, and the numbers."""
    import pyarrow as pa

    listed = {
        "system": [number.system for number in numbers],
        "code": [number.code for number in numbers],
        "unit": [number.unit for number in numbers],
        "place": [str(place) for place in range(len(numbers))],
    }
    bench.add("wanted", [pa.record_batch({name: pa.array(v, pa.string()) for name, v in listed.items()})])
    which = sorted({name for number in numbers for name in number.kept})
    columns = "".join(f", {_VALUES[name]} AS {name}" for name in which)
    bench.run(
        f"""CREATE TABLE summed AS SELECT o.position * {max(len(numbers), 1)} + CAST(w.place AS BIGINT) AS key,
            count(*) AS n{columns} FROM measured m
            JOIN wanted w ON w.code = m.code AND w.system = m.system AND w.unit = {_UNIT.format("m.unit")}
            JOIN ordered o ON o.patient = m.patient AND o.visit = m.visit WHERE m.value IS NOT NULL GROUP BY 1"""
    )
    n_joined = bench.number("SELECT sum(n) FROM summed")
    bench.drop("values of visits that are not known", sum(number.n_rows for number in numbers) - n_joined)
    keys, values = [np.zeros(0, np.int64)], [np.zeros(0, np.float32)]
    for name in which:
        place = np.array(
            [vocabulary.index[n.kept[name].token] if name in n.kept else -1 for n in numbers], dtype=np.int64
        )
        rows = bench.arrays(f"SELECT key, {name} AS value FROM summed")
        # In place, because there may be as many as memory can hold.
        key = np.asarray(rows.pop("key"), dtype=np.int64)
        of_number = place[key % max(len(numbers), 1)]
        key //= max(len(numbers), 1)
        key *= len(vocabulary)
        key += of_number
        there = of_number >= 0
        value = np.asarray(rows.pop("value"), dtype=np.float32)
        keys.append(key if there.all() else key[there])
        values.append(value if there.all() else value[there])
    bench.run("DROP TABLE summed")
    return np.concatenate(keys), np.concatenate(values)
