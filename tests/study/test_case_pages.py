from __future__ import annotations

import pytest

from adapcla.generation import generator_for
from adapcla.io import simulator as planted
from adapcla.study.analysis.histories import next_visits
from adapcla.study.analysis_folder import ResultFolder
from adapcla.study.case_pages import REAL, write_code_page, write_examples, write_neighbours


@pytest.fixture(scope="module")
def setting():
    parts = planted.simulate(patients=300, codes=80, seed=1).split(seed=4)
    return parts, generator_for("marginal").fit(parts.train, parts.valid), next_visits(parts.test)


@pytest.mark.parametrize(("made_up", "folder"), [(True, ""), (False, REAL)])
def test_single_real_patients_lie_apart_and_are_named_so(setting, tmp_path, capsys, made_up, folder):
    parts, run, cases = setting
    write_examples(ResultFolder(tmp_path), cases, {"marginal": run}, parts.train.strata(), 1, made_up)
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {tmp_path / folder}
    assert ("never share it" in capsys.readouterr().err) == (not made_up)


def test_neighbours_and_a_page(setting, tmp_path):
    parts, run, cases = setting
    folder = ResultFolder(tmp_path)
    samples = {"marginal": run.sample(50)}
    write_neighbours(folder, parts.train, parts.test, samples)
    token = parts.train.vocabulary.tokens[0]
    write_code_page(folder, token, parts.train, parts.test, samples, {"marginal": run}, cases, None)
    assert (tmp_path / "neighbours.csv").exists() and (tmp_path / "neighbours.png").exists()
    assert token in (tmp_path / "codes" / f"{token.replace('/', '-')}.md").read_text()
