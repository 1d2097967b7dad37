from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.io.fixtures import mimic3, table
from tests.io.whole import WHOLES
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.errors import AdapclaError, ExistsError, InputError, UsageError
from adapcla.pipeline.options import READING


def run(*arguments: str) -> str:
    """What the verb prints on stdout; its failure is raised."""
    result = CliRunner().invoke(app, ["import", *arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_folder_becomes_a_cohort(tmp_path: Path) -> None:
    data = mimic3(tmp_path / "data")
    printed = run("mimic3", str(data.root), "--out", str(tmp_path / "c"))
    assert printed.splitlines()[0] == f"{tmp_path / 'c'}: 3 patients, 4 visits, 8 codes"
    cohort = Cohort.open(tmp_path / "c")
    assert (cohort.n_patients, cohort.n_visits, cohort.n_codes) == (3, 4, 8)


def test_json_is_one_object_on_stdout(tmp_path: Path) -> None:
    data = mimic3(tmp_path / "data")
    with (tmp_path / "data" / "DIAGNOSES_ICD.csv").open("a") as stream:
        stream.write("1,11,9,a\u200eb\n")
    result = json.loads(run("mimic3", str(data.root), "--out", str(tmp_path / "c"), "--json", "--allow-dropped=0.2"))
    assert (result["patients"], result["visits"], result["codes"]) == (3, 4, 8)
    assert result["dropped"] == {"codes of characters that cannot be printed, or too long": 1}


def test_what_was_left_out_is_said(tmp_path: Path) -> None:
    data = mimic3(tmp_path / "data")
    with (tmp_path / "data" / "DIAGNOSES_ICD.csv").open("a") as stream:
        stream.write("1,11,9,a\u200eb\n")
    assert "left out: 1 codes of characters that cannot be printed, or too long" in run(
        "mimic3", str(data.root), "--out", str(tmp_path / "c"), "--allow-dropped", "0.2"
    )


def test_the_options_of_a_table(tmp_path: Path) -> None:
    data = table(tmp_path)
    columns = ["--patient", "who", "--visit", "stay", "--codes", "what", "--date", "when", "--attributes", "stay"]
    run("table", str(data.root), "--out", str(tmp_path / "c"), *columns, "--system", "ICD9CM", "--read", "max_visits=1")
    cohort = Cohort.open(tmp_path / "c")
    assert next(cohort.patients()) == [["ICD9CM/0389", "ICD9CM/4019"]]
    assert list(cohort.attributes) == ["stay"]
    assert cohort.card["options"]["max_visits"] == 1


def test_a_populated_output_is_refused_before_the_reading(tmp_path: Path) -> None:
    data = mimic3(tmp_path / "data")
    run("mimic3", str(data.root), "--out", str(tmp_path / "c"))
    with pytest.raises(ExistsError):
        run("mimic3", str(tmp_path / "nothing"), "--out", str(tmp_path / "c"))
    run("mimic3", str(data.root), "--out", str(tmp_path / "c"), "--overwrite")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (["mimic3", "nowhere"], InputError),
        (["table", "nowhere.csv"], InputError),
        (["mimic5", "."], UsageError),
        (["table", ".", "--domains", "labs"], UsageError),
        (["table", ".", "--read", "level=x"], UsageError),
    ],
)
def test_failures_carry_their_exit_code_and_leave_nothing(
    tmp_path: Path, arguments: list[str], kind: type[AdapclaError]
) -> None:
    with pytest.raises(kind):
        run(*arguments, "--out", str(tmp_path / "c"))
    assert list(tmp_path.iterdir()) == []


def test_labs_and_stays_by_options(tmp_path: Path) -> None:
    data = WHOLES["table"](tmp_path / "data")
    columns = [
        word
        for name, column in data.options.items()
        for word in ((f"--{name}", str(column)) if name in READING else ("--read", f"{name}={column}"))
    ]
    asked = ["--domains", "dx,lab,stay", "--read", "labs=LAB/50931", "--read", "lab_values=first,last"]
    run("table", str(data.root), "--out", str(tmp_path / "c"), *columns, *asked)
    cohort = Cohort.open(tmp_path / "c")
    assert {"LAB/50931.first", "LAB/50931.last", "KIND/elective", "END/died"} <= set(cohort.vocabulary.tokens)
    assert cohort.card["options"]["lab_values"] == ["first", "last"]
    table(tmp_path / "t")
    plain = ["--patient", "who", "--visit", "stay", "--codes", "what", "--date", "when"]
    with pytest.raises(InputError, match="--read kind=COLUMN"):
        run("table", str(tmp_path / "t" / "long.csv"), "--out", str(tmp_path / "d"), *plain, "--domains", "stay")


def test_a_dry_run_says_what_would_be_read_and_writes_nothing(tmp_path: Path) -> None:
    data = table(tmp_path)
    columns = ["--patient", "who", "--visit", "stay", "--codes", "what", "--date", "when"]
    arguments = ["table", str(data.root), "--out", str(tmp_path / "c"), "--dry-run"]
    said = run(*arguments, *columns)
    assert "who: " in said and "→ patient" in said and "tried all of it" in said
    found = json.loads(run(*arguments, "--json", *columns))
    assert found["problem"] is None and found["patients"] >= 1
    assert not (tmp_path / "c").exists()


def test_a_dry_run_of_a_folder_lists_its_tables_or_says_the_problem(tmp_path: Path) -> None:
    data = mimic3(tmp_path / "data")
    assert "DIAGNOSES_ICD.csv" in run("mimic3", str(data.root), "--out", str(tmp_path / "c"), "--dry-run")
    with pytest.raises(InputError, match=r"expected:(.|\n)*to do:"):
        run("mimic4", str(data.root), "--out", str(tmp_path / "c"), "--dry-run")
