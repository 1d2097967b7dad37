"""Which references are scored by themselves, and whose patients they are."""

from __future__ import annotations

import pytest

from adapcla.data import Cohort
from adapcla.evaluation.references import LawReference, Reference
from adapcla.io import simulator
from adapcla.study.results import Study
from adapcla.study.runner import reference_cohort, scored_references
from adapcla.study.spec import study_from
from adapcla.study.tables import SCORE_TABLES, score_table

LAW = tuple(LawReference)


def scored(**content):
    spec = study_from({"name": "a", **content})
    return tuple(scored_references(spec.evaluate, spec.data))


def test_simulated_patients_have_references_of_their_own():
    assert scored() == LAW
    slow = (Reference.TRAIN_COPY, Reference.MARGINAL, Reference.REAL_TRAIN)
    assert scored(evaluate={"quick": True}) == (*slow, *LAW)
    assert scored(evaluate={"suites": []}) == ()


@pytest.mark.parametrize("changed", [{"where": {"sex": ["female"]}}, {"min_patients": 2}])
def test_patients_chosen_or_codes_left_out_do_not_follow_the_law(changed):
    assert scored(data={"source": "planted", **changed}) == ()


def test_a_cohort_folder_is_known_by_its_card(tmp_path):
    simulator.simulate(20, 60).save(tmp_path / "planted")
    simulator.simulate(20, 60, whole=True).save(tmp_path / "whole")
    Cohort.of([[["A"]]]).save(tmp_path / "other")
    assert scored(data={"source": "cohort", "path": str(tmp_path / "planted")}) == LAW
    assert scored(data={"source": "cohort", "path": str(tmp_path / "whole")}) == LAW
    assert scored(data={"source": "cohort", "path": str(tmp_path / "other")}) == ()


def test_patients_of_each_reference():
    split = simulator.simulate(60, 60, seed=1).split(seed=4)
    parts = {"train": split.train, "test": split.test}
    made = {one: reference_cohort(one, parts, 30, seed=1) for one in (*LAW, Reference.MARGINAL)}
    assert {cohort.n_patients for cohort in made.values()} == {30}
    assert made[LawReference.LAW_ITSELF].fingerprint == simulator.ideal(split.train, 30, seed=1).fingerprint
    assert made[LawReference.FAMILY_ONLY].fingerprint == simulator.family_only(split.train, 30, seed=1).fingerprint


def test_tables_of_a_finished_run_show_the_law_with_its_numbers(finished_run):
    study = Study.open(finished_run)
    assert study.references == [*Reference, *LawReference]
    for layout in SCORE_TABLES:
        table = score_table(study, layout)
        if table is None or layout.key not in ("tail-plausibility-heldout", "fidelity", "privacy"):
            continue
        lines = {line.cells[0].text: line for line in table.lines if line.kind == "reference"}
        assert {"law itself", "family only"} <= set(lines)
        assert any(cell.value is not None for cell in lines["law itself"].cells)
    found = study.estimate(LawReference.LAW_ITSELF, "pair_seen")
    assert found is not None and found.low <= found.value <= found.high
    assert study.estimate(LawReference.LAW_ITSELF, "pair_seen", target="shifted", mode="paper") is None
