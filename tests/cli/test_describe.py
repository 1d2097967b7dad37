"""`adapcla describe` as a user meets it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Cohort
from adapcla.errors import AdapclaError


def run(*arguments: str):
    return CliRunner().invoke(app, ["describe", *arguments])


@pytest.fixture
def folder(tiny_full, tmp_path):
    return tiny_full.save(tmp_path / "cohort")


def test_json_is_one_object_with_the_counts(folder):
    done = run(str(folder), "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert (told["patients"], told["visits"], told["codes"]) == (3, 5, 4)
    assert told["dropped"] == {"empty visits": 2}


def test_the_table_says_the_same_in_words(folder):
    text = run(str(folder)).stdout
    for words in ("cohort (by hand)", "patients", "head", "singletons", "Dropped while reading", "empty visits", "sex"):
        assert words in text


@pytest.mark.parametrize("patients", [[], [[["A"]]], [[["A"], ["A"]]]], ids=["nobody", "one visit", "one patient"])
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["table", "json"])
def test_any_cohort_can_be_described(patients, more, tmp_path):
    done = run(str(Cohort.of(patients).save(tmp_path / "small")), *more)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", ["tail.png", "tail.svg", "tail.SVG"])
def test_the_figure_is_written_and_stdout_stays_clean(folder, tmp_path, name):
    done = run(str(folder), "--json", "--figure", str(tmp_path / name))
    json.loads(done.stdout)
    assert (tmp_path / name).stat().st_size > 1000


def test_another_figure_format_is_refused_before_the_cohort_is_read(tmp_path):
    done = run(str(tmp_path / "absent"), "--figure", "tail.gif")
    assert isinstance(done.exception, AdapclaError)
    assert done.exception.exit_code == 2


def test_a_folder_that_is_no_cohort_is_named_with_exit_code_three(tmp_path):
    done = run(str(tmp_path))
    assert isinstance(done.exception, AdapclaError)
    assert done.exception.exit_code == 3
    assert str(tmp_path) in str(done.exception)


def test_numbers_and_choices_are_in_the_table(whole, tmp_path):
    text = run(str(whole.subset([0] * 11).save(tmp_path / "c"))).stdout
    assert "choice kind" in text and "LAB/50931" in text and "median 5.4 mg/dL" in text
    few = run(str(whole.save(tmp_path / "few"))).stdout
    assert "fewer than 11 patients" in few and "median 5.4" not in few
