"""What must not go on in silence: an unassessed line of the gate, lost data, options that nobody reads, shown cells."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import write_hospital_table
from typer.testing import CliRunner

import adapcla
from adapcla.cli.main import app
from adapcla.errors import AdapclaError, GateError, InputError, UsageError
from adapcla.evaluation.comparison import Missing, Score
from adapcla.evaluation.privacy import LIMITS, gate, require
from adapcla.evaluation.privacy.groups import too_few
from adapcla.io.simulator import simulate
from adapcla.pipeline.steps import run_steps
from adapcla.release.plan import ReleasePlan
from adapcla.release.settings import release_settings
from adapcla.release.synthesize import synthesize


def run(*words: object) -> tuple[int, str]:
    """How a command line ends, and what its error says."""
    result = CliRunner().invoke(app, [str(word) for word in words])
    error = result.exception
    if error is not None and not isinstance(error, (SystemExit, AdapclaError)):
        raise error
    return getattr(error, "exit_code", result.exit_code), str(error or result.output)


# ---- the gate ---------------------------------------------------------------------------------------------
def kept() -> dict[str, dict[str, Score]]:
    """Scores by which every line is met."""
    fine: dict[str, dict[str, Score]] = {}
    for limit in LIMITS:
        score = Score(limit.no_leak, 10**6, limit.no_leak - 1e-5, limit.no_leak + 1e-5)
        for key in (limit.key, *limit.highest_of):
            fine.setdefault(key, {}).update(dict.fromkeys((limit.stratum, *limit.parts), score))
    return fine


@pytest.mark.parametrize("limit", LIMITS, ids=lambda limit: limit.name)
def test_a_line_that_could_not_be_assessed_does_not_pass(limit):
    assert all(line.passed for line in gate(kept()))
    for reason in ("insufficient data: 12 members and 3 controls, 50 of each needed", "not among the scores"):
        scores = kept()
        scores[limit.key][limit.stratum] = Missing(reason).score
        with pytest.raises(GateError, match=r"1 of .* lines not met") as refusal:
            require(gate(scores))
        assert limit.name in str(refusal.value) and reason in str(refusal.value)
        assert refusal.value.exit_code == 5


def test_a_line_that_by_construction_concerns_nobody_passes_and_says_so():
    scores = kept()
    nobody = too_few(0, 0)
    assert nobody is not None
    scores["membership_auc"]["exposed"] = nobody.score
    lines = {line.name: line for line in gate(scores)}
    assert lines["membership_auc [exposed]"].passed and lines["membership_auc [exposed]"].verdict == "concerns nobody"
    assert "concerns nobody  membership_auc [exposed]" in str(lines["membership_auc [exposed]"])
    require(list(lines.values()))


def test_too_few_controls_end_with_code_5_and_the_line_named(tmp_path):
    cohort = simulate(400, 60, seed=1)
    for name, rows in (("train", range(200)), ("test", range(200, 230)), ("made", range(230, 400))):
        cohort.subset(np.array(rows)).save(tmp_path / name)
    parts = [f"--{name}={tmp_path / folder}" for name, folder in (("train", "train"), ("test", "test"))]
    words = [*parts, f"--synthetic={tmp_path / 'made'}", "--suites=privacy", "--quick", "--gate"]
    code, text = run("evaluate", *words, f"--out={tmp_path / 'scores'}", f"--set=cache={tmp_path / 'cache'}")
    assert code == 5 and "not shown  membership_auc" in text


# ---- data -------------------------------------------------------------------------------------------------
def spoil(table: Path, every: int, what: str = "code") -> Path:
    """The table with every so many-th row's code or date made unreadable."""
    lines = table.read_text().splitlines()
    for number in range(1, len(lines), every):
        patient, date, code = lines[number].split(",")
        lines[number] = f"{patient},{date},cmd{number}\x07" if what == "code" else f"{patient},the {number}th,{code}"
    table.write_text("\n".join(lines) + "\n")
    return table


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write_hospital_table(tmp_path / "visits.csv")


@pytest.mark.parametrize("verb", ["synthesize", "import"])
@pytest.mark.parametrize("what", ["code", "date"])
def test_a_source_of_which_more_than_one_per_cent_is_lost_is_refused_with_the_way_on(verb, what, table, tmp_path):
    spoil(table, 40, what)
    words = (
        [table, f"--out={tmp_path / 'out'}"] if verb == "synthesize" else ["table", table, f"--out={tmp_path / 'c'}"]
    )
    code, text = run(verb, *words)
    assert code == 3 and not (tmp_path / "out").exists() and not (tmp_path / "c").exists()
    reason = "codes of characters that cannot be printed" if what == "code" else "visits without a readable date"
    assert "too much of the source would be lost" in text and reason in text and "--allow-dropped 0." in text
    assert "cmd" not in text and "MRN7" not in text


def test_what_may_be_dropped_is_read_and_a_later_call_without_the_word_is_refused(table, tmp_path):
    spoil(table, 40)
    small = {"evaluate.suites": ("privacy",), "evaluate.quick": True}

    def read(allowed: float) -> None:
        spec = release_settings("table", str(table), method="marginal", changes=small, allow_dropped=allowed)
        plan = ReleasePlan(spec, tmp_path / "out")
        run_steps(plan.steps[:1], plan.root)

    read(0.05)
    with pytest.raises(InputError, match="too much of the source"):
        read(0.01)
    assert run("import", "table", table, f"--out={tmp_path / 'c'}", "--allow-dropped", "0.05")[0] == 0
    # Whoever imported with the word is not asked again.
    spec = release_settings("cohort", str(tmp_path / "c"), method="marginal", changes=small)
    plan = ReleasePlan(spec, tmp_path / "other")
    run_steps(plan.steps[:1], plan.root)


def test_a_loss_below_one_per_cent_is_read(table, tmp_path):
    spoil(table, 400)
    assert run("import", "table", table, f"--out={tmp_path / 'c'}")[0] == 0


def test_a_cohort_that_lost_much_is_refused_by_synthesize_too(table, tmp_path):
    cohort = adapcla.read("table", spoil(table, 40))
    with pytest.raises(InputError, match=r"--allow-dropped 0\.05"):
        synthesize(cohort, out=tmp_path / "out", method="marginal")


# ---- options ----------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tittle": "x"}, "tittle"),
        ({"minute": 3}, "did you mean 'minutes'"),
        ({"visit": "who"}, "for reading a table"),
    ],
)
def test_options_that_synthesize_of_a_cohort_does_not_know_are_refused(options, said, tmp_path):
    for data in (simulate(20, 40, seed=1), "planted"):
        with pytest.raises(UsageError, match=said):
            synthesize(data, out=tmp_path / "out", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("more", [["--gate"], ["--suites=nonsense"], ["--quick"], ["--control=nowhere"]])
def test_evaluate_of_a_condition_refuses_what_it_would_not_do(more, tmp_path):
    cohorts = [f"--{name}={tmp_path}" for name in ("train", "test", "synthetic")]
    code, text = run("evaluate", *cohorts, f"--out={tmp_path / 'out'}", "--having=A", *more)
    assert code == 2 and more[0].split("=")[0] in text and "--having" in text


def test_both_doors_read_the_same_table_under_the_same_key(table, tmp_path, monkeypatch):
    from adapcla.cli import release as door

    keys = []
    monkeypatch.setattr(door, "show_steps", lambda steps, *_: keys.append([step.key for step in steps]))
    assert run("synthesize", table, f"--out={tmp_path / 'out'}", "--dry-run")[0] == 0
    plan = ReleasePlan(release_settings("table", str(table)), tmp_path / "out")
    assert keys == [[step.key for step in plan.steps]]


# ---- keys -------------------------------------------------------------------------------------------------
def fit_key(plan: ReleasePlan) -> str:
    return next(step.key for step in plan.steps if step.stage == "train")


def test_the_key_of_a_fit_holds_all_that_chooses_its_sizes(tmp_path):
    """What is evaluated takes from the time for training, so that it changes the width of the network."""
    changes = {"data.planted.patients": 4000, "data.planted.codes": 400}

    def plan(**more: object) -> ReleasePlan:
        return ReleasePlan(release_settings("planted", minutes=2, changes={**changes, **more}), tmp_path / "out")

    first = plan()
    (attempt,) = first.attempts
    for more in (
        {"evaluate.suites": ("privacy",)},
        {"evaluate.quick": True},
        {"evaluate.leave_out": ()},
        {"patients": 100},
        {"minutes": 3},
        {"model": True},
    ):
        other = plan(**more)
        differ = other.effort(attempt).settings != first.effort(attempt).settings
        assert not differ or fit_key(other) != fit_key(first), more
    fewer = plan(**{"evaluate.suites": ("privacy",)})
    assert fewer.effort(attempt).settings != first.effort(attempt).settings
    assert fit_key(fewer) != fit_key(first)


# ---- cells ------------------------------------------------------------------------------------------------
def test_an_error_never_shows_a_cell(tmp_path):
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"patient_id": ["MRN70001"], "date": ["2020-01-01"], "code": ["F200"]})
    with pytest.raises(UsageError, match="which column of the data frame is patient") as error:
        synthesize(frame, out=tmp_path / "out")
    assert "MRN7" not in str(error.value) and "F200" not in str(error.value)
    rows = [{"patient_id": "MRN70001", "code": "F200"}]
    with pytest.raises(UsageError) as error:
        synthesize(rows, out=tmp_path / "out")
    assert "MRN7" not in str(error.value)
    # A long text is a table and no name of a file.
    with pytest.raises(AdapclaError) as error:
        synthesize("patient_id,code\nMRN70001,F200\n", out=tmp_path / "out")
    assert "MRN7" not in str(error.value)
    assert not list(tmp_path.iterdir())


def spoiled(rows: list[list[str]], column: int, cell: Callable[[int], str]) -> str:
    """The table with every third cell of a column replaced."""
    changed = [list(row) for row in rows]
    for number in range(1, len(changed), 3):
        changed[number][column] = cell(number)
    return "\n".join(",".join(row) for row in changed) + "\n"


ROWS = [["patient_id", "visit_id", "date", "code", "value", "unit", "sex"]] + [
    [f"ZQXP{i // 4}", f"ZQXV{i // 2}", f"2020-01-{1 + i % 28:02d}", f"ZQXC{i % 5}", "1.5", "mg", "ZQXS"]
    for i in range(40)
]
SPOILED: dict[str, Callable[[], str]] = {
    "as it is": lambda: spoiled(ROWS, 3, lambda n: f"ZQXC{n % 5}"),
    "dates": lambda: spoiled(ROWS, 2, lambda n: f"ZQXD{n}"),
    "mixed dates": lambda: spoiled(ROWS, 2, lambda n: ("13/01/2020", "01/13/2020")[n % 2]),
    "numbers": lambda: spoiled(ROWS, 4, lambda n: f"ZQXN{n}"),
    "no patient": lambda: spoiled(ROWS, 0, lambda n: ""),
    "formulas": lambda: spoiled(ROWS, 3, lambda n: f"=ZQXC{n}"),
    "control characters": lambda: spoiled(ROWS, 3, lambda n: f"ZQXC\x01{n}"),
    "open quotes": lambda: spoiled(ROWS, 3, lambda n: f'"ZQXC{n}'),
    "more cells": lambda: spoiled(ROWS, 6, lambda n: f"ZQXS,ZQX{n}"),
    "shared visits": lambda: spoiled(ROWS, 1, lambda n: "ZQXVshared"),
    "other names": lambda: spoiled([["who", "stay", "when", "what", "x", "y", "z"], *ROWS[1:]], 4, lambda n: "2"),
    "no header": lambda: spoiled(ROWS[1:], 4, lambda n: "2"),
}


@pytest.mark.parametrize("name", SPOILED)
def test_whatever_is_wrong_with_a_table_no_message_shows_a_cell(name, tmp_path):
    table = tmp_path / "visits.csv"
    table.write_text(SPOILED[name]())
    named = ("--patient=patient_id", "--visit=visit_id", "--codes=code", "--date=date")
    more = (("--value=value", "--unit=unit", "--domains=dx,lab"), ("--date=code",), ("--length=unit", "--kind=sex"))
    for options in ((), named, *more):
        found = CliRunner().invoke(app, ["import", "table", str(table), f"--out={tmp_path / 'out'}", *options])
        if found.exception is not None and not isinstance(found.exception, (SystemExit, AdapclaError)):
            raise found.exception
        assert "ZQX" not in found.output + str(found.exception), options
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
