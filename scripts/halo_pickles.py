"""Turn HALO's pickles into a long CSV that `adapcla import table` reads.

    python scripts/halo_pickles.py path/to/data --out long.csv
    adapcla import table long.csv --out cohort

Reads trainDataset.pkl, valDataset.pkl and testDataset.pkl (those that are there) with indexToCode.pkl or
codeToIndex.pkl. A pickle can run anything when it is opened; the unpickler here answers with lists, dictionaries, text
and numbers, and refuses whatever else a file asks for. Arrays of numpy (the labels) are skipped, not built.
"""

from __future__ import annotations

import argparse
import csv
import pickle
from pathlib import Path
from typing import Any

from adapcla.errors import InputError

DATASETS = ("trainDataset.pkl", "valDataset.pkl", "testDataset.pkl")
_PLAIN = {kind.__name__: kind for kind in (list, dict, tuple, set, frozenset, int, float, str)}


class Skipped:
    """Stands in for an array or a number of numpy: takes what it is made of and keeps nothing."""

    def __init__(self, *_: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        pass


class PlainUnpickler(pickle.Unpickler):
    """An unpickler that knows plain containers and numbers, and no function of anybody else."""

    def find_class(self, module: str, name: str) -> Any:
        """A plain type, or the stand-in for what belongs to an array; anything else is refused."""
        if module == "builtins" and name in _PLAIN:
            return _PLAIN[name]
        if module.split(".")[0] == "numpy" or (module, name) == ("_codecs", "encode"):
            # A new type each time: a pickle can set attributes of what it is given.
            return type("Skipped", (Skipped,), {})
        raise InputError("the pickle asks for more than lists, dictionaries, text and numbers", expected="data only")

    def persistent_load(self, pid: Any) -> Any:
        """A refusal: data do not point outside their file."""
        raise InputError("the pickle points outside its file", expected="data only")


def load(path: Path) -> Any:
    """The plain data in a pickle."""
    try:
        with path.open("rb") as stream:
            return PlainUnpickler(stream).load()
    except InputError as error:
        raise InputError(str(error), path=path, remedy="do not open it with anything else either") from None
    except Exception as error:
        # Its text may hold data.
        found = f"not readable as a pickle ({type(error).__name__})"
        raise InputError(found, path=path, remedy="copy it again") from None


def codes_of(folder: Path) -> dict[int, str]:
    """From code number to code."""
    path = folder / "indexToCode.pkl"
    content = load(path if path.is_file() else folder / "codeToIndex.pkl")
    pairs = content.items() if isinstance(content, dict) else enumerate(content)
    return {int(n): str(c) for n, c in (pair if path.is_file() else pair[::-1] for pair in pairs)}


def write_long(folder: Path, out: Path) -> int:
    """Write a row for each code of each visit; the number of patients."""
    codes, patients = codes_of(folder), 0
    with out.open("w", encoding="utf-8", newline="") as stream:
        rows = csv.writer(stream, lineterminator="\n")
        rows.writerow(("patient_id", "visit_index", "code"))
        for path in (folder / name for name in DATASETS if (folder / name).is_file()):
            for number, record in enumerate(load(path)):
                try:
                    visits = [[codes[int(code)] for code in visit] for visit in record["visits"]]
                except (KeyError, TypeError, ValueError):
                    raise InputError(
                        "not a record of visits", path=path, row=number + 1, expected="{'visits': [[code number]]}"
                    ) from None
                for place, visit in enumerate(visits):
                    rows.writerows((f"{patients:09}", place, code) for code in visit)
                patients += 1
    return patients


def main() -> None:
    """Read the arguments and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    print(f"{arguments.out}: {write_long(arguments.folder, arguments.out):,} patients")


if __name__ == "__main__":
    main()
