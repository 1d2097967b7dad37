"""The documents: names that resolve, links that lead somewhere, commands that exist, and nothing left lying about."""

from __future__ import annotations

import importlib
import inspect
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
TEXT = {".py", ".md", ".toml", ".txt", ".cff", ".yml", ".yaml", ".json", ".html", ".css", ".js", ".cfg", ""}
NAME = re.compile(r"`(adapcla(?:\.\w+)+)(?:\(([\w, ]*)\))?`")


@cache
def tracked() -> tuple[Path, ...]:
    """Files of the repository: those that git knows, or all that are not made by a tool where there is no git."""
    asked = subprocess.run(["git", "ls-files", "-z"], cwd=REPOSITORY, capture_output=True, check=False)
    if asked.returncode == 0 and asked.stdout:
        paths = [REPOSITORY / name for name in asked.stdout.decode().split("\0") if name]
    else:
        rooms = [REPOSITORY / name for name in ("src", "tests", "docs", "benchmarks", "experiments", ".ci")]
        paths = [*(path for room in rooms for path in room.rglob("*")), *REPOSITORY.glob("*.*")]
    return tuple(path for path in paths if path.is_file() and "__pycache__" not in path.parts)


def texts() -> list[Path]:
    """The files that people read."""
    return [path for path in tracked() if path.suffix in TEXT]


def lines() -> list[tuple[str, int, str]]:
    """(file, number, line) of every tracked text line but those of this file, which names what it forbids."""
    found = []
    for path in texts():
        if path != Path(__file__).resolve():
            text = path.read_text(encoding="utf-8", errors="replace")
            name = path.relative_to(REPOSITORY).as_posix()
            found += [(name, number, line) for number, line in enumerate(text.splitlines(), 1)]
    return found


def resolve(dotted: str) -> object:
    """The object of a dotted name; a field of a dataclass or of a protocol counts as its class's name."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            if part in getattr(found, "__dataclass_fields__", {}):
                return found
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(dotted)


def symbols() -> list[tuple[str, str]]:
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    return [(match[1], match[2] or "") for match in NAME.finditer(text)]


# ---- symbols and words -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(("dotted", "arguments"), symbols(), ids=[name for name, _ in symbols()])
def test_every_name_of_the_page_on_architecture_resolves(dotted, arguments):
    found = resolve(dotted)
    for argument in filter(None, (part.strip() for part in arguments.split(","))):
        assert argument in inspect.signature(found).parameters  # type: ignore[arg-type]


def test_every_symbol_has_a_name():
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    tables = text[text.index("## Symbols of the paper") :]
    rows = [line for line in tables.splitlines() if line.startswith("| ") and "| name |" not in line]
    assert len(rows) >= 12 and all(NAME.search(row) for row in rows)


@pytest.mark.parametrize("symbol", ["π̂", "b_stat", "τ", "α(·)", "z", "Δb", "λ"])
def test_the_symbols_of_the_paper_are_there(symbol):
    text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert f"| {symbol} |" in text


@pytest.mark.parametrize("dotted", ["adapcla.data.Nothing", "adapcla.nowhere.Cohort", "adapcla.data.Cohort.nothing"])
def test_a_name_that_is_not_there_does_not_resolve(dotted):
    with pytest.raises((AttributeError, ModuleNotFoundError)):
        resolve(dotted)


# ---- links and commands -----------------------------------------------------------------------------------
def markdown() -> list[Path]:
    return [path for path in tracked() if path.suffix == ".md"]


def test_links_lead_somewhere():
    lost = []
    for path in markdown():
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:") and not (path.parent / target).exists():
                lost.append(f"{path.relative_to(REPOSITORY)}: {target}")
    assert not lost, "\n".join(lost)


def test_every_page_is_in_the_index():
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    pages = [path.name for path in markdown() if path.parent == REPOSITORY / "docs" and path.name != "index.md"]
    assert [page for page in pages if f"({page})" not in index] == []


def test_commands_in_the_documents_exist():
    from adapcla.cli.main import VERBS

    verbs = {verb.rstrip("_") for verb in VERBS}
    targets = set(re.findall(r"^([a-z]+):", (REPOSITORY / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    unknown = []
    for path in markdown():
        text = path.read_text(encoding="utf-8")
        unknown += [
            f"{path.name}: adapcla {verb}"
            for verb in re.findall(r"^ +adapcla ([a-z]+)", text, re.M)
            if verb not in verbs
        ]
        unknown += [
            f"{path.name}: make {t}" for t in re.findall(r"(?:^ +|`)make ([a-z]+)", text, re.M) if t not in targets
        ]
    assert not unknown, "\n".join(unknown)


# ---- keys and methods -------------------------------------------------------------------------------------
def test_the_page_on_metrics_has_one_line_for_every_key_with_its_unit_and_goal():
    from adapcla.evaluation.metric import ARROWS, METRICS

    text = (REPOSITORY / "docs" / "metrics.md").read_text(encoding="utf-8")
    written = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \| (.) \| .+ \| .+ \|$", text, re.M)
    assert sorted(written) == sorted((key, one.unit, ARROWS[one.goal] or "–") for key, one in METRICS.items())


def test_the_page_on_methods_names_every_method():
    from adapcla.training.settings import METHODS

    text = (REPOSITORY / "docs" / "methods.md").read_text(encoding="utf-8")
    assert sorted(name for name in METHODS if f"`{name}`" not in text) == []


# ---- nothing left lying about -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("what", "pattern"),
    [
        ("a path of somebody's machine", r"(?<![\w./])/(?:home|Users|root|work|mnt|private)/\w"),
        ("unfinished work", r"\b(?:TODO|FIXME|XXX|HACK)\b|raise NotImplementedError"),
        ("a conflict mark", r"^(?:<{7}|={7}|>{7})(?: |$)"),
        ("a private key or token", r"BEGIN [A-Z ]*PRIVATE KEY|gh[pousr]_\w{30}|AKIA[0-9A-Z]{16}"),
        ("a breakpoint", r"\bbreakpoint\(\)|\bpdb\.set_trace\b"),
    ],
)
def test_nothing_is_left_lying_about(what, pattern):
    found = [f"{name}:{number}: {what}" for name, number, line in lines() if re.search(pattern, line)]
    assert not found, "\n".join(found)


def test_documents_speak_of_the_project_and_not_of_its_making():
    words = re.compile(r"\b(?:AI[- ]generated|language model wrote|CEO|our agents?|sub-?agents?)\b", re.IGNORECASE)
    found = [f"{name}:{number}" for name, number, line in lines() if words.search(line)]
    assert not found, "\n".join(found)


def test_no_file_of_data_is_tracked():
    """Made-up rows of ten or twenty lines are fixtures; a picture is a document; anything larger is somebody's data."""
    known = {".py", ".md", ".svg", ".png"}
    # Titles of codes, which are public; `scripts/icd_titles.py` makes the file.
    titles = "src/adapcla/data/icd_titles.parquet"
    heavy = [
        path.relative_to(REPOSITORY).as_posix()
        for path in tracked()
        if path.suffix not in known and path.stat().st_size > 100_000
    ]
    heavy = [name for name in heavy if name != titles]
    assert not heavy, "\n".join(heavy)
