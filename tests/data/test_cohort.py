"""The cohort: what it counts, what it refuses, and what survives taking parts and changing vocabularies."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data import Attribute, Cohort, Vocabulary
from adapcla.errors import InputError

LETTERS = "ABCDEFG"
visits = st.frozensets(st.sampled_from(LETTERS), min_size=1, max_size=5)
nested = st.lists(st.lists(visits, min_size=1, max_size=4), max_size=8)


def listed(patients):
    return [[sorted(visit) for visit in patient] for patient in patients]


def on_letters(patients):
    """A cohort of these patients with days 0, 10, 20 …, a label and an attribute that tell patients apart."""
    days = [10 * v for patient in patients for v in range(len(patient))]
    return Cohort.of(
        patients,
        LETTERS,
        days=np.array(days, dtype=np.int32),
        labels=np.array([[p % 2] for p in range(len(patients))], dtype=np.uint8).reshape(-1, 1),
        label_names=("odd",),
        attributes={"row": Attribute(np.arange(len(patients), dtype=np.int16), tuple(map(str, range(8))))},
    )


# ---- counting ---------------------------------------------------------------------------------------------
def test_counts_by_hand(tiny):
    """See the fixture: A is in three of five visits and two of three patients."""
    assert (tiny.n_patients, tiny.n_visits, tiny.n_codes, tiny.n_entries) == (3, 5, 4, 8)
    assert tiny.visit_counts.tolist() == [3, 3, 1, 1]
    assert tiny.patient_counts.tolist() == [2, 2, 1, 1]
    assert tiny.codes_per_visit.tolist() == [2, 1, 1, 3, 1]
    assert tiny.visits_per_patient.tolist() == [2, 1, 2]
    assert tiny.patient_of_visit.tolist() == [0, 0, 1, 2, 2]
    assert tiny.prevalence().share.tolist() == [0.6, 0.6, 0.2, 0.2]
    assert tiny.prevalence().n_visits == 5


def test_matrices_by_hand(tiny):
    assert tiny.matrix().toarray().tolist() == [
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [0, 0, 1, 0],
        [1, 1, 0, 1],
        [1, 0, 0, 0],
    ]
    assert tiny.patient_matrix().toarray().tolist() == [[1, 2, 0, 0], [0, 0, 1, 0], [2, 1, 0, 1]]


@given(nested)
def test_patients_come_back_as_they_went_in(patients):
    assert list(on_letters(patients).patients()) == listed(patients)


@given(nested)
def test_matrices_agree_with_the_counts(patients):
    cohort = on_letters(patients)
    assert cohort.matrix().sum(axis=0).A1.tolist() == cohort.visit_counts.tolist()
    assert (cohort.patient_matrix().toarray() > 0).sum(axis=0).tolist() == cohort.patient_counts.tolist()


def test_no_patients_is_a_cohort_too():
    nobody = Cohort.of([], ["A"])
    assert (nobody.n_patients, nobody.n_visits, list(nobody.patients())) == (0, 0, [])
    assert nobody.prevalence().share.tolist() == [0.0]
    assert nobody.subset([]).n_patients == 0
    assert nobody.keep_codes(np.array([True])).n_patients == 0


def test_order_and_repeats_inside_a_visit_carry_no_meaning():
    one, two = Cohort.of([[["A", "B"]]]), Cohort.of([[["B", "A", "B"]]])
    assert one.fingerprint == two.fingerprint


def test_a_code_outside_the_given_vocabulary_is_refused():
    with pytest.raises(InputError, match="outside the vocabulary"):
        Cohort.of([[["A", "Z"]]], ["A"])


# ---- parts ------------------------------------------------------------------------------------------------
@given(nested.filter(len), st.data())
def test_subset_takes_whole_patients_with_everything_they_have(patients, data):
    cohort = on_letters(patients)
    chosen = data.draw(st.lists(st.integers(0, len(patients) - 1), max_size=10))
    part = cohort.subset(chosen)
    assert list(part.patients()) == [listed(patients)[p] for p in chosen]
    assert part.attributes["row"].values.tolist() == chosen
    assert part.labels[:, 0].tolist() == [p % 2 for p in chosen]
    assert part.days.tolist() == [10 * v for p in chosen for v in range(len(patients[p]))]
    assert part.vocabulary == cohort.vocabulary


def test_subset_of_all_is_the_same_cohort(tiny_full):
    assert tiny_full.subset(range(3)).fingerprint == tiny_full.fingerprint


def test_subset_by_mask_is_refused_rather_than_read_as_positions_0_and_1(tiny):
    with pytest.raises(TypeError, match="flatnonzero"):
        tiny.subset(np.array([True, False, True]))


@pytest.mark.parametrize("position", [-1, 3])
def test_subset_outside_the_cohort_is_refused(tiny, position):
    with pytest.raises(IndexError):
        tiny.subset([0, position])


def test_split_gives_whole_cohorts(tiny):
    parts = Cohort.of([[["A"], ["B"]]] * 40 + [[["C"]]] * 10).split(seed=1, control=0.1)
    assert [part.n_patients for part in parts] == [31, 4, 10, 5]
    assert sum(part.n_visits for part in parts) == 90
    assert all(part.n_codes == 3 for part in parts)


# ---- other vocabularies -----------------------------------------------------------------------------------
@given(nested)
def test_a_larger_vocabulary_changes_no_patient(patients):
    cohort = on_letters(patients)
    wider = cohort.on(Vocabulary.of([*LETTERS, "AA", "0", "Z"]))
    assert list(wider.patients()) == list(cohort.patients())
    assert wider.n_codes == len(LETTERS) + 3
    assert wider.on(cohort.vocabulary).fingerprint == cohort.fingerprint


def test_another_vocabulary_never_drops_a_used_code(tiny):
    with pytest.raises(InputError, match="1 codes of the cohort"):
        tiny.on(Vocabulary.of(["A", "B", "C"]))


def test_unused_codes_may_be_missing_in_the_other_vocabulary():
    cohort = Cohort.of([[["B"]]], ["A", "B"])
    assert list(cohort.on(Vocabulary.of(["B", "C"])).patients()) == [[["B"]]]


@given(nested, st.frozensets(st.sampled_from(LETTERS)))
def test_keep_codes_drops_and_counts_exactly_what_it_should(patients, kept):
    """Dropping by hand: intersect every visit, leave out what is empty, count the difference."""
    cohort = on_letters(patients)
    small = cohort.keep_codes(np.array([letter in kept for letter in LETTERS]))
    by_hand = [[sorted(visit & kept) for visit in patient if visit & kept] for patient in patients]
    assert list(small.patients()) == [patient for patient in by_hand if patient]
    assert small.vocabulary.tokens == tuple(sorted(kept))
    dropped = small.card.get("dropped", {})
    assert dropped.get("entries of codes left out", 0) == cohort.n_entries - small.n_entries
    assert dropped.get("visits left empty", 0) == cohort.n_visits - small.n_visits
    assert dropped.get("patients left without visits", 0) == cohort.n_patients - small.n_patients
    assert small.attributes["row"].values.tolist() == [p for p, patient in enumerate(by_hand) if patient]


def test_days_are_counted_from_the_first_visit_that_is_left():
    """Patient: A on day 0, B on day 5, B on day 9. Without A the first visit left is day 5, which becomes 0."""
    cohort = Cohort.of([[["A"], ["B"], ["B"]]], days=np.array([0, 5, 9], dtype=np.int32))
    assert cohort.keep_codes(np.array([False, True])).days.tolist() == [0, 4]


def test_drops_add_up_over_steps(tiny_full):
    once = tiny_full.keep_codes(np.array([True, True, True, False]))
    twice = once.keep_codes(np.array([True, True, False]))
    assert once.card["dropped"] == {"empty visits": 2, "entries of codes left out": 1}
    assert twice.card["dropped"]["entries of codes left out"] == 2
    assert tiny_full.card["dropped"] == {"empty visits": 2}


# ---- fingerprint and size ---------------------------------------------------------------------------------
def test_every_part_of_a_cohort_is_in_its_fingerprint(tiny_full):
    changes = [
        {"days": None},
        {"labels": 1 - tiny_full.labels},
        {"label_names": ("first", "third")},
        {"attributes": {}},
        {"codes": np.array([0, 1, 1, 2, 0, 1, 3, 1], dtype=np.int32)},
        {"patient_starts": np.array([0, 1, 3, 5], dtype=np.int64), "days": np.zeros(5, dtype=np.int32)},
    ]
    prints = {replace(tiny_full, **change).fingerprint for change in changes}
    assert len(prints | {tiny_full.fingerprint}) == len(changes) + 1


def test_the_card_is_not_in_the_fingerprint(tiny_full):
    assert replace(tiny_full, card={}).fingerprint == tiny_full.fingerprint


def test_thirty_million_entries_are_checked_without_a_loop():
    """1.5 M visits of 20 codes over V = 50,000; measured at under a second, a Python loop would take minutes."""
    n_visits = 1_500_000
    codes = np.tile(np.arange(0, 50_000, 2_500, dtype=np.int32), n_visits)
    vocabulary = Vocabulary.of(f"C{i:05d}" for i in range(50_000))
    started = time.process_time()
    cohort = Cohort(vocabulary, codes, np.arange(n_visits + 1) * 20, np.arange(0, n_visits + 1, 3))
    assert cohort.n_entries == 30_000_000
    assert time.process_time() - started < 10


# ---- the words for parts of records -----------------------------------------------------------------------
RECORDS = st.lists(
    st.lists(st.sets(st.sampled_from("ABCDEF"), min_size=1, max_size=4), min_size=1, max_size=4), max_size=5
)


@given(RECORDS)
def test_the_words_say_what_loops_over_records_say(records):
    cohort = Cohort.of(records, "ABCDEF")
    visits = [(p, k, visit) for p, record in enumerate(records) for k, visit in enumerate(record)]
    assert cohort.visit_number.tolist() == [k for _, k, _ in visits]
    assert cohort.visit_of_entry.tolist() == [v for v, (_, _, visit) in enumerate(visits) for _ in visit]
    assert cohort.patient_of_entry.tolist() == [p for p, _, visit in visits for _ in visit]
    assert np.diff(cohort.entry_starts).tolist() == [sum(map(len, record)) for record in records]
    assert cohort.first_visits.tolist() == [v for v, (_, k, _) in enumerate(visits) if k == 0]
    assert cohort.last_visits.tolist() == [v for v, (p, k, _) in enumerate(visits) if k == len(records[p]) - 1]
    assert cohort.visits_with_next.tolist() == [v for v, (p, k, _) in enumerate(visits) if k < len(records[p]) - 1]
    assert [cohort.codes_of(v).tolist() for v in range(len(visits))] == [
        ["ABCDEF".index(code) for code in sorted(visit)] for _, _, visit in visits
    ]
    assert list(cohort.without_last_visits().patients()) == [
        [sorted(visit) for visit in record[:-1]] for record in records if len(record) > 1
    ]


@given(st.sets(st.sampled_from("ABCDEF"), min_size=1), st.sets(st.sampled_from("ABCDEF"), min_size=1))
def test_jaccard_is_that_of_sets(one, two):
    cohort, first, second = Cohort.of([[one, two]]), np.array([0]), np.array([1])
    assert cohort.jaccard(first, second)[0] == pytest.approx(len(one & two) / len(one | two))
    assert cohort.jaccard(first, second) == cohort.jaccard(second, first)


def test_cutting_visits_counts_days_anew_and_keeps_attributes(tiny_full):
    """Patients of 2, 1 and 2 visits on days 0 and 30; 0; 0 and 7: each keeps the last one."""
    last = tiny_full.with_visits(tiny_full.last_visits, tiny_full.last_visits + 1)
    assert last.days.tolist() == [0, 0, 0] and last.days.dtype == np.int32
    assert last.labels is None and last.label_names == ()
    assert {name: a.values.tolist() for name, a in last.attributes.items()} == {
        name: a.values.tolist() for name, a in tiny_full.attributes.items()
    }


def test_keeping_entries_counts_what_went():
    cohort = Cohort.of([[["A", "B"], ["C"]], [["A"]]], days=np.array([0, 9, 0], dtype=np.int32))
    kept = cohort.keep_entries(np.array([False, False, True, False]))
    assert list(kept.patients()) == [[["C"]]] and kept.days.tolist() == [0]
    assert kept.vocabulary == cohort.vocabulary
    assert kept.card["dropped"] == {"entries left out": 3, "visits left empty": 2, "patients left without visits": 1}


def test_labels_go_wherever_a_patient_loses_codes():
    """Some ways to a smaller cohort kept the labels of codes that were no longer there, others dropped them."""
    labels = np.array([[1], [0]], dtype=np.uint8)
    cohort = Cohort.of([[["A", "B"], ["B"]], [["B"]]], labels=labels, label_names=("a",))
    assert cohort.keep_codes(np.array([True, True])).labels is not None
    assert cohort.subset([1]).labels.tolist() == [[0]]
    smaller = [
        cohort.keep_codes(np.array([False, True])),
        cohort.keep_entries(np.array([True, True, False, True])),
        cohort.without_last_visits(),
    ]
    assert [(part.labels, part.label_names) for part in smaller] == [(None, ())] * 3
