"""Synthetic patients as timelines, and the search for their codes."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Code, Cohort, Vocabulary
from adapcla.io.simulator import simulate
from adapcla.report.timelines import Album, matching, timelines


@pytest.fixture(scope="module")
def world() -> Cohort:
    return simulate(patients=300, codes=60, seed=1)


def test_five_patients_with_the_names_of_their_codes(world):
    shown = timelines(world, world)
    assert len(shown) == 5
    for person in shown:
        assert all(0 <= visit.place <= 1 and visit.codes for visit in person.visits)
        for visit in person.visits:
            rare = [code["rare"] for code in visit.codes]
            assert rare == sorted(rare, reverse=True)
    assert shown[0].visits[0].codes[0]["name"] != shown[0].visits[0].codes[0]["code"]


def test_patients_without_days_are_shown_by_visit():
    cohort = Cohort.of([[["4019"], ["25000"]]] * 6)
    person = timelines(cohort, cohort)[0]
    assert [visit.day for visit in person.visits] == [None, None] and person.span == "2 visits"


def test_every_code_has_a_chapter_and_long_records_are_cut_with_a_count(world):
    album = Album(world, world.strata().tail, most_visits=1, most_codes=2)
    patient = int(np.argmax(world.visits_per_patient))
    shown = album.timeline(patient)
    assert len(shown.visits) == 1 and shown.n_more == world.visits_per_patient[patient] - 1
    first = world.codes_of(int(world.first_visits[patient]))
    assert len(shown.visits[0].codes) == 2 and shown.visits[0].n_more == len(first) - 2
    assert all(len(code["chapter"]) == 1 for code in shown.visits[0].codes)


def test_a_whole_visit_says_first_what_it_was_and_how_it_ended():
    whole = simulate(patients=50, codes=60, seed=1, whole=True)
    album = Album(whole, whole.strata().tail, most_codes=1)
    inpatient = int(np.flatnonzero(whole.matrix()[:, [whole.vocabulary.index["STAY/days"]]].toarray().ravel())[0])
    shown = album.timeline(int(whole.patient_of_visit[inpatient])).visits[int(whole.visit_number[inpatient])]
    names = [code["name"] for code in shown.codes]
    assert [code["stay"] for code in shown.codes] == [True, True, True, False]
    assert names[0] == "Inpatient stay" and names[1].startswith("Length of stay") and names[1].endswith(" d")
    assert shown.n_more == len(whole.codes_of(inpatient)) - 4


def test_codes_are_found_by_code_by_dotted_code_and_by_words_of_their_names():
    named = [Code.of("E840", "ICD10CM", description="Cystic fibrosis with lung disease"), Code.of("I10", "ICD10CM")]
    cohort = Cohort.of([[["ICD10CM/E840", "ICD10CM/I10"]]], vocabulary=Vocabulary.of(named))
    for text, expected in (("e84.0", [0]), ("fibrosis lung", [0]), ("LUNG cystic", [0]), ("I1", [1]), ("lung I10", [])):
        assert matching(cohort, text) == expected, text
