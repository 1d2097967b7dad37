"""Command lines of the ordinary verbs, from what a page was told: words only, each checked by the verb itself.

A value is always joined to its option (`--having=…`), so that no text can be taken for another option.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

#: Options of reading that have a default, which needs no word.
_USUAL = {"domains": "dx", "level": "full", "icd": "apart"}


def words(options: Mapping[str, Any]) -> list[str]:
    """The options that say something, as words; a list is given several times, True is a flag.

    >>> words({"seed": 0})
    ['--seed=0']
    >>> words({"min_patients": 11, "having": ["A|B", "C*"], "repair": True, "anyway": False, "title": ""})
    ['--min-patients=11', '--having=A|B', '--having=C*', '--repair']
    """
    out: list[str] = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            out.append(option)
        elif isinstance(value, list | tuple):
            out += [f"{option}={each}" for each in value if str(each).strip()]
        elif value is not None and value is not False and value != "":
            out.append(f"{option}={value}")
    return out


def path_word(path: str) -> str:
    """A path that cannot be taken for an option.

    >>> path_word("-x.csv"), path_word("uploads/a.csv")
    ('./-x.csv', 'uploads/a.csv')
    """
    return f"./{path}" if path.startswith("-") else path


def reading(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of reading without those that are as usual.

    >>> reading({"patient": "who", "level": "full", "visit": None})
    {'patient': 'who'}
    """
    return {name: value for name, value in options.items() if value not in (None, "", _USUAL.get(name))}


def simulate(out: str, patients: int, codes: int) -> list[str]:
    """The example world.

    >>> simulate("cohorts/example", 4000, 400)
    ['simulate', '--out=cohorts/example', '--patients=4000', '--codes=400']
    """
    return ["simulate", *words({"out": out, "patients": patients, "codes": codes})]


def look(source: str, path: str, options: Mapping[str, Any]) -> list[str]:
    """A first look at a source.

    >>> look("table", "t.csv", {"patient": "who"})
    ['import', 'table', 't.csv', '--out=unused', '--patient=who', '--dry-run', '--json']
    """
    return ["import", source, path_word(path), *words({"out": "unused", **reading(options)}), "--dry-run", "--json"]


def read(source: str, path: str, out: str, options: Mapping[str, Any]) -> list[str]:
    """Reading a source into a cohort.

    >>> read("omop", "data", "cohorts/a", {"level": "ccs"})
    ['import', 'omop', 'data', '--out=cohorts/a', '--level=ccs', '--json']
    """
    return ["import", source, path_word(path), *words({"out": out, **reading(options)}), "--json"]


def describe(cohort: str, figure: str) -> list[str]:
    """The description of a cohort with its picture.

    >>> describe("cohorts/a", "cohorts/a.svg")
    ['describe', 'cohorts/a', '--figure=cohorts/a.svg', '--json']
    """
    return ["describe", path_word(cohort), *words({"figure": figure}), "--json"]


def synthesize(cohort: str, out: str, options: Mapping[str, Any], dry_run: bool = False) -> list[str]:
    """A release of a cohort.

    >>> synthesize("cohorts/a", "releases/a", {"minutes": 5.0, "set": ["fit.settings.width=16"]})
    ['synthesize', 'cohort', 'cohorts/a', '--out=releases/a', '--minutes=5.0', '--set=fit.settings.width=16', '--json']
    """
    rest = words({"out": out, **options, "dry_run": dry_run})
    return ["synthesize", "cohort", path_word(cohort), *rest, "--json"]


def sample(model: str, out: str, options: Mapping[str, Any]) -> list[str]:
    """Patients of a model; a plain sample is taken up where it was stopped.

    >>> sample("runs/a", "samples/b", {"patients": 10, "having": ["A"]})
    ['sample', 'runs/a', '--out=samples/b', '--patients=10', '--having=A', '--json']
    >>> sample("runs/a", "samples/b", {"patients": 10})[-2:]
    ['--resume', '--json']
    """
    one_go = any(options.get(name) for name in ("having", "without", "visits", "where", "continue"))
    return ["sample", path_word(model), *words({"out": out, **options, "resume": not one_go}), "--json"]


def report(studies: Sequence[str], out: str) -> list[str]:
    """One page of several experiments.

    >>> report(["runs/a", "runs/b"], "comparisons/c")
    ['report', 'runs/a', 'runs/b', '--out=comparisons/c', '--json']
    """
    return ["report", *map(path_word, studies), f"--out={out}", "--json"]


def run(options: Mapping[str, Any]) -> list[str]:
    """An experiment.

    >>> run({"out": "runs", "cohort": "cohorts/a", "quick": True})
    ['run', '--out=runs', '--cohort=cohorts/a', '--quick', '--json']
    """
    return ["run", *words(options), "--json"]
