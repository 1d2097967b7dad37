"""Checks of the Data Quality Dashboard: templates, thresholds and a small database."""

from __future__ import annotations

import json
from types import SimpleNamespace

import duckdb
import pytest


@pytest.fixture
def judge(script):
    """The script with a translator that changes nothing: what is asked here is SQL of both kinds."""
    return script("ohdsi_quality.py", {"sqlglot": SimpleNamespace(transpile=lambda text, read, write: [text])})


@pytest.mark.parametrize(
    ("template", "expected"),
    [
        ("a {@x == 'y'}?{1}:{2} b", "a 1 b"),
        ("a {@x != 'y'}?{1} b", "a  b"),
        ("{@cohort & '@x' == 'y'}?{JOIN}", ""),
        ("{@x IN ('z', 'y')} ? {in}:{out}", "in"),
        ("{@x == 'y'}?{one {@x == 'z'}?{two}:{three}}", "one three"),
        ("/* {@x == 'y'}?{1} */@xx @x", "@xx y"),
    ],
)
def test_templates_are_rendered_as_sqlrender_does(judge, template, expected):
    assert judge.rendered(template, {"x": "y", "cohort": "FALSE"}) == expected


def test_dates_without_dashes_and_other_dialect_are_translated(judge):
    said = judge.translated("SELECT COUNT_BIG(*), CAST(CONCAT(y, '0601') AS DATE) FROM t WHERE d < '20000101';")
    assert said == "SELECT COUNT(*), to_day(CONCAT(y, '0601')) FROM t WHERE d < '2000-01-01'"


def test_a_condition_of_another_form_is_not_guessed(judge):
    with pytest.raises(ValueError, match="another form"):
        judge.holds("a > 3", {"a": "4"})


@pytest.mark.parametrize(
    ("template", "threshold", "expected"),
    [
        ("SELECT 1, 0.25, 4", "10", "failed"),
        ("SELECT 1, 0.25, 4", "25", "passed"),
        ("SELECT 0, 0.0, 0", "0", "not applicable"),
        ("SELECT 1, 0.25, 4", "", "failed"),
        ("SELECT nothing FROM nowhere", "0", "error"),
    ],
)
def test_a_check_fails_beyond_its_threshold_and_applies_only_to_rows(judge, template, threshold, expected):
    row = {"cdmTableName": "PERSON", "cdmFieldName": "", "isRequiredThreshold": threshold}
    assert judge.answer(duckdb.connect(), "isRequired", template, row) == expected


def test_a_folder_is_loaded_and_every_check_is_counted(judge, tmp_path):
    root, given = tmp_path / "dqd", tmp_path / "given"
    for folder in (root / "inst" / "csv", root / "inst" / "sql" / "sql_server", given / "subject"):
        folder.mkdir(parents=True)
    (root / "DESCRIPTION").write_text("Package: D\nVersion: 2.8.4\n")
    names = root / "inst" / "csv"
    names.joinpath("OMOP_CDMv5.4_Field_Level.csv").write_text(
        "cdmTableName,cdmFieldName,cdmDatatype,isRequired,isRequiredThreshold\n"
        "PERSON,person_id,integer,Yes,0\nPERSON,year_of_birth,integer,Yes,0\nPERSON,race,integer,Yes,0\n"
        "DEATH,person_id,integer,Yes,0\n"
    )
    names.joinpath("OMOP_CDMv5.4_Check_Descriptions.csv").write_text(
        "checkLevel,checkName,sqlFile,evaluationFilter\nFIELD,isRequired,null.sql,isRequired=='Yes'\n"
        "FIELD,cdmField,there.sql,cdmFieldName!=''\n"
    )
    (root / "inst" / "sql" / "sql_server" / "null.sql").write_text(
        "SELECT COUNT_BIG(*) FILTER (@cdmFieldName IS NULL), AVG(CAST(@cdmFieldName IS NULL AS INT)), COUNT_BIG(*) "
        "FROM @schema.@cdmTableName"
    )
    (root / "inst" / "sql" / "sql_server" / "there.sql").write_text(
        "SELECT 0, 0, 1 FROM (SELECT COUNT(@cdmFieldName) FROM @schema.@cdmTableName)"
    )
    (given / "subject" / "person.csv").write_text("person_id,year_of_birth\n1,1950\n2,\n")
    (given / "task.json").write_text(json.dumps({"dqd": str(root)}))
    said = judge.verdicts(given)
    # Of four fields asked, years of birth have a gap, the race is not there, and nobody died; three of four exist.
    assert (said["checks passed"], said["checks failed"], said["checks not applicable"]) == (4, 2, 2)
    assert said["of the passed, that a table or field is there"] == 3
    assert (said["checks error"], said["failed: isRequired"], said["failed: cdmField"]) == (0, 1, 1)
    assert said["share failed"] == pytest.approx(2 / 6)
    assert judge.version(given) == "2.8.4"
