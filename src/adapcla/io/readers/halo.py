"""Reads and writes HALO's pickles.

The only file that knows pickle, and what it reads can build lists, numbers and text, no more: the reader answers every
name that a pickle asks for with a stand-in of its own, or refuses; no function of anybody else is ever called.
A dataset is a list of `{"visits": [[code number]], "labels": array}`.
"""

from __future__ import annotations

import io
import pickle
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.data.split import split_positions
from adapcla.data.vocabulary import CODE_PATTERN
from adapcla.errors import InputError
from adapcla.io.codebook import Codebook, assembled
from adapcla.io.contract import Options
from adapcla.io.workbench import Workbench

if TYPE_CHECKING:
    import pyarrow as pa

_DATASETS = ("trainDataset.pkl", "valDataset.pkl", "testDataset.pkl")
_NUMBER_TYPE = re.compile(r"[<>|=]?(?:[iuf][1248]|b1)")


# ---- the restricted reader --------------------------------------------------------------------------------
class _Refused(Exception):
    """A pickle asks for something that data do not need."""


class _NumberType:
    """Stands in for numpy.dtype: plain numbers only."""

    def __init__(self, spec: str, *_: Any) -> None:
        if not isinstance(spec, str) or not _NUMBER_TYPE.fullmatch(spec):
            raise _Refused
        self.spec = spec.lstrip("<>|=")
        self.order = "<"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if state[1] not in ("<", ">", "|", "=") or any(part is not None for part in state[2:5]):
            raise _Refused
        self.order = state[1]

    def numbers(self, raw: Any) -> NDArray[Any]:
        """The numbers in raw bytes."""
        if not isinstance(raw, bytes | bytearray):
            raise _Refused
        return np.frombuffer(bytes(raw), dtype=np.dtype(self.order + self.spec))


class _Numbers:
    """Stands in for numpy.ndarray."""

    value: NDArray[Any] = np.zeros(0)

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, by_column, raw = state
        if not isinstance(kind, _NumberType):
            raise _Refused
        self.value = kind.numbers(raw).reshape(shape, order="F" if by_column else "C")


def _scalar(kind: Any, raw: Any = b"") -> int | float | bool:
    """Stands in for the maker of numpy scalars."""
    if not isinstance(kind, _NumberType):
        raise _Refused
    number: int | float | bool = kind.numbers(raw)[0].item()
    return number


def _from_buffer(array: _Numbers, raw: Any, kind: Any, shape: Any, order: str = "C") -> _Numbers:
    """Stands in for the maker of arrays from buffers."""
    array.__setstate__((1, shape, kind, order == "F", bytes(raw)))
    return array


def _stand_ins() -> dict[tuple[str, str], Any]:
    """What a pickle may ask for.

    Made anew for each file: a pickle can set attributes of what it is given, and must not leave anything behind.
    """
    numbers = type("Numbers", (_Numbers,), {})
    allowed: dict[tuple[str, str], Any] = {
        ("numpy", "ndarray"): numbers,
        ("numpy", "dtype"): type("NumberType", (_NumberType,), {}),
        ("_codecs", "encode"): lambda text, _="": text.encode("latin1"),
    }
    for core in ("numpy.core", "numpy._core"):
        allowed[(f"{core}.numeric", "_frombuffer")] = lambda *given: _from_buffer(numbers(), *given)
        allowed[(f"{core}.multiarray", "_reconstruct")] = lambda *_: numbers()
        allowed[(f"{core}.multiarray", "scalar")] = lambda *given: _scalar(*given)
    return allowed | {("builtins", kind.__name__): kind for kind in (list, dict, tuple, set, frozenset, int, float)}


class _Reader(pickle.Unpickler):
    """An unpickler that only knows the stand-ins."""

    def __init__(self, stream: io.BufferedIOBase) -> None:
        super().__init__(stream)
        self._allowed = _stand_ins()

    def find_class(self, module: str, name: str) -> Any:
        """The stand-in for a name, or a refusal."""
        if (module, name) not in self._allowed:
            raise _Refused
        return self._allowed[(module, name)]

    def persistent_load(self, pid: Any) -> Any:
        """A refusal: data do not point outside their file."""
        raise _Refused


def load(path: Path) -> Any:
    """The lists, dictionaries, numbers and text in a pickle; anything else in it is refused, never run."""
    try:
        with path.open("rb") as stream:
            return _Reader(stream).load()
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the folder") from None
    except _Refused:
        raise InputError(
            "the pickle asks for more than lists, dictionaries, numbers, text and arrays of numbers",
            path=path,
            expected="data only",
            remedy="do not open it with anything else either; ask its maker for plain data",
        ) from None
    except Exception as error:
        # A damaged pickle can fail in any way; its text may hold data, so only the kind of failure is shown.
        raise InputError(
            f"not readable as a pickle of data ({type(error).__name__})", path=path, remedy="copy or make it again"
        ) from None


# ---- in ---------------------------------------------------------------------------------------------------
def read(root: Path, options: Options) -> Cohort:
    """The cohort in a folder with trainDataset.pkl (valDataset.pkl, testDataset.pkl), or in one such file."""
    folder = root if root.is_dir() else root.parent
    files = [root] if root.is_file() else [folder / name for name in _DATASETS if (folder / name).is_file()]
    if not files:
        raise InputError(
            "no such dataset", path=root, expected=f"a folder with {_DATASETS[0]}", remedy="check the path"
        )
    tokens = _tokens(folder, options.system)
    own = Codebook.beside(folder)
    with Workbench() as bench:
        n_labels = _load(bench, files, tokens)
        book = own or _book(folder, tokens, options.system, n_labels)
        book.make_people(bench, _label_facts(book))
        return assembled(
            bench,
            book,
            source="halo",
            visit_rule="one inner list; visits stand in the order of the file",
            options=options,
            card={"files": [file.name for file in files]},
            path=root,
        )


def _tokens(folder: Path, system: str) -> dict[int, str]:
    """From code number to token."""
    to_code = folder / "indexToCode.pkl"
    path = to_code if to_code.is_file() else folder / "codeToIndex.pkl"
    content = load(path)
    if isinstance(content, list):
        content = dict(enumerate(content))
    pairs = content.items() if isinstance(content, dict) else ()
    numbered = dict(pairs) if path == to_code else {b: a for a, b in pairs if isinstance(b, int)}
    if not numbered or not all(isinstance(n, int) and isinstance(c, str | int) for n, c in numbered.items()):
        raise InputError("no list of codes", path=path, expected="numbers and code strings", remedy="make it again")
    return {number: Code.of(str(code).strip(), system).token for number, code in numbered.items()}


def _book(folder: Path, tokens: dict[int, str], system: str, n_labels: int) -> Codebook:
    """What the other pickles say about codes and labels, in the form of a codebook."""
    good = [token for token in tokens.values() if CODE_PATTERN.fullmatch(token)]
    listed = [Code.of(token.removeprefix(f"{system}/") if system else token, system) for token in good]
    path = folder / "idToLabel.pkl"
    content = load(path) if path.is_file() else []
    named = [str(name) for name in (content.values() if isinstance(content, dict) else content)]
    labels = named if len(set(named)) == n_labels else [f"label {i + 1}" for i in range(n_labels)]
    return Codebook(Vocabulary.of(listed), {}, tuple(labels), False, {})


def _label_facts(book: Codebook) -> str:
    """SQL for (patient, key): facts as they are, labels by their numbers."""
    cases = " ".join(f"WHEN '{i}' THEN '{name.replace(chr(39), chr(39) * 2)}'" for i, name in enumerate(book.labels))
    named = f"'LABEL//' || CASE label {cases} END" if book.labels else "''"
    return f"SELECT patient, CASE WHEN label = '' THEN key ELSE {named} END AS key FROM facts"


def _load(bench: Workbench, files: list[Path], tokens: dict[int, str]) -> int:
    """Make `visits`, `entries` and `facts` of all records; the number of labels."""
    widths: set[int] = set()
    columns = {
        "visits": ("patient", "visit", "date", "day", "sequence"),
        "entries": ("patient", "visit", "code", "system", "domain"),
        "facts": ("patient", "key", "label"),
    }
    for number, path in enumerate(files):
        records = load(path)
        if not isinstance(records, list):
            raise InputError("not a list of records", path=path, expected="a HALO dataset", remedy="check the file")
        rows = _Rows(path, records, number, tokens)
        widths |= rows.widths
        for name, batch in (("visits", rows.visits()), ("entries", rows.entries()), ("facts", rows.facts())):
            bench.add(f"{name}_{number}", [batch], columns[name])
    for name in columns:
        bench.run(f"CREATE VIEW {name} AS " + " UNION ALL ".join(f"FROM {name}_{i}" for i in range(len(files))))
    if len(widths) > 1:
        raise InputError(
            f"records with {min(widths)} and with {max(widths)} labels", path=files[0], remedy="make it again"
        )
    return widths.pop() if widths else 0


class _Rows:
    """The records of one file as rows of text."""

    def __init__(self, path: Path, records: list[Any], number: int, tokens: dict[int, str]) -> None:
        self.path, self.records, self.tokens = path, records, tokens
        # Records of ours carry their place in the cohort; others stand in the order of the files.
        ids = [self._field(i, "id", record, int) for i, record in enumerate(records)]
        self.patients = [f"{number:03d}-{i:012d}" if own is None else f"{own:016d}" for i, own in enumerate(ids)]
        lists = [self._visits(i, record) for i, record in enumerate(records)]
        self.n_visits = np.array([len(visits) for visits in lists], dtype=np.int64)
        self.sizes = np.array([len(visit) for visits in lists for visit in visits], dtype=np.int64)
        self.codes = list(chain.from_iterable(chain.from_iterable(lists)))
        self.labels = [_flat(self._field(i, "labels", record)) for i, record in enumerate(records)]
        self.widths = {len(labels) for labels in self.labels}

    def _field(self, row: int, name: str, record: Any, kind: type = object) -> Any:
        """A field of a record, or None."""
        if not isinstance(record, dict):
            raise self._error(row, "not a record", "a dictionary with 'visits'")
        value = record.get(name)
        if value is not None and not isinstance(value, kind):
            raise self._error(row, f"{name!r} of type {type(value).__name__}", kind.__name__)
        return value

    def _error(self, row: int, found: str, expected: str) -> InputError:
        return InputError(found, path=self.path, row=row + 1, expected=expected, remedy="make the dataset again")

    def _visits(self, row: int, record: dict[str, Any]) -> list[list[Any]]:
        """The visits of a record as lists of code numbers."""
        visits = self._field(row, "visits", record, list)
        if visits is None:
            raise self._error(row, "a record without 'visits'", "a list of lists of code numbers")
        out = [_flat(visit) for visit in visits]
        if not all(type(code) is int and code in self.tokens for visit in out for code in visit):
            raise self._error(row, "a code that indexToCode does not list", "numbers of listed codes")
        return out

    def _visit_columns(self, times: NDArray[np.int64] | None = None) -> dict[str, pa.Array]:
        """Patient and visit, each visit repeated `times`."""
        import pyarrow as pa

        visit = np.arange(len(self.sizes)) if times is None else np.repeat(np.arange(len(self.sizes)), times)
        person = np.repeat(np.arange(len(self.patients)), self.n_visits)[visit]
        return {
            "patient": pa.array(self.patients, pa.string()).take(pa.array(person)),
            "visit": pa.array(visit).cast(pa.string()),
        }

    def visits(self) -> pa.RecordBatch:
        """One row per visit."""
        import pyarrow as pa

        columns = self._visit_columns()
        days = [str(day) for i, r in enumerate(self.records) for day in _flat(self._field(i, "days", r))]
        empty = pa.array([""] * len(self.sizes), pa.string())
        day = pa.array(days, pa.string()) if len(days) == len(self.sizes) else empty
        return pa.record_batch({**columns, "date": empty, "day": day, "sequence": columns["visit"]})

    def entries(self) -> pa.RecordBatch:
        """One row per code."""
        import pyarrow as pa

        n = len(self.codes)
        text = {"code": [self.tokens[c] for c in self.codes], "system": [""] * n, "domain": ["diagnosis"] * n}
        return pa.record_batch(
            {**self._visit_columns(self.sizes), **{name: pa.array(v, pa.string()) for name, v in text.items()}}
        )

    def facts(self) -> pa.RecordBatch:
        """One row per fact: its key, or the number of a label that is set."""
        import pyarrow as pa

        rows = list(self._facts())
        columns = zip(*rows, strict=True) if rows else ((), (), ())
        named = zip(("patient", "key", "label"), columns, strict=True)
        return pa.record_batch({name: pa.array(list(values), pa.string()) for name, values in named})

    def _facts(self) -> Iterator[tuple[str, str, str]]:
        for i, (patient, record, labels) in enumerate(zip(self.patients, self.records, self.labels, strict=True)):
            for key in self._field(i, "facts", record, list) or ():
                yield patient, str(key), ""
            for label, value in enumerate(labels):
                if isinstance(value, int | float) and value > 0.5:
                    yield patient, "", str(label)


def _flat(values: Any) -> list[Any]:
    """A list from a list, a set or the stand-in of an array; nothing from nothing."""
    if values is None:
        return []
    if isinstance(values, _Numbers):
        numbers: list[Any] = values.value.ravel().tolist()
        return numbers
    return list(values) if isinstance(values, list | tuple | set | frozenset) else [None]


# ---- out --------------------------------------------------------------------------------------------------
def write_pickles(cohort: Cohort, folder: Path, facts: Callable[[int], Iterable[str]]) -> None:
    """Write HALO's six files; `id`, `days` and `facts` are fields that HALO itself does not look at."""
    where = split_positions(cohort.n_patients)
    for name, positions in zip(_DATASETS, (where.train, where.valid, where.test), strict=True):
        _dump(folder / name, [_record(cohort, int(p), list(facts(int(p)))) for p in np.sort(positions)])
    _dump(folder / "indexToCode.pkl", dict(enumerate(cohort.vocabulary.tokens)))
    _dump(folder / "codeToIndex.pkl", cohort.vocabulary.index)
    _dump(folder / "idToLabel.pkl", list(cohort.label_names))


def _record(cohort: Cohort, patient: int, facts: list[str]) -> dict[str, Any]:
    """One patient as HALO writes it."""
    visits = range(int(cohort.patient_starts[patient]), int(cohort.patient_starts[patient + 1]))
    record: dict[str, Any] = {
        "visits": [cohort.codes_of(visit).tolist() for visit in visits],
        "labels": np.zeros(0) if cohort.labels is None else np.asarray(cohort.labels[patient], dtype=np.float64),
        "id": patient,
    }
    if cohort.days is not None:
        record["days"] = cohort.days[visits.start : visits.stop].tolist()
    return {**record, "facts": facts} if facts else record


def _dump(path: Path, content: Any) -> None:
    with path.open("wb") as stream:
        pickle.dump(content, stream, protocol=4)
