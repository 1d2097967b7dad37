"""References: fitted by a look, and what they give out."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.generators.methods import generator_for, load
from adapcla.generators.references import ReferenceGenerator


def records(cohort) -> set[str]:
    return {str(patient) for patient in cohort.patients()}


def test_real_test_gives_out_the_second_cohort_and_train_copy_the_first(parts):
    train, _, test = parts
    ceiling = generator_for("real-test").fit(train, test).sample(50)
    copies = generator_for("train-copy").fit(train, test).sample(50)
    assert records(ceiling) <= records(test)
    assert records(copies) <= records(train)
    assert not records(copies) <= records(test)


def test_copies_keep_days_and_attributes_together(parts):
    """Every copied patient exists with this very sex and these very days."""
    train, valid, _ = parts
    made = generator_for("train-copy").fit(train, valid).sample(40)

    def told(cohort):
        sex = cohort.attributes["sex"].values
        days = np.split(np.asarray(cohort.days), np.asarray(cohort.patient_starts)[1:-1])
        return {(str(p), int(sex[i]), tuple(days[i].tolist())) for i, p in enumerate(cohort.patients())}

    assert told(made) <= told(train)


def test_the_floor_has_the_prevalence_and_the_lengths_of_training(parts):
    train, valid, _ = parts
    floor = generator_for("marginal").fit(train, valid)
    made = floor.sample(4000)
    assert made.n_visits / made.n_patients == pytest.approx(train.n_visits / train.n_patients, rel=0.06)
    frequent = train.visit_counts > 60
    assert np.allclose(made.prevalence().share[frequent], train.prevalence().share[frequent], rtol=0.25)
    assert isinstance(floor, ReferenceGenerator)
    assert floor.fitted.facts["parameters"] == floor.fitted.facts["steps"] == 0


def test_long_records_are_copied_whole(tmp_path):
    """A record of 60 visits is longer than the default context."""
    from adapcla.records import Cohort

    cohort = Cohort.of([[["A"]] * 60, [["B"]]])
    copies = generator_for("train-copy").fit(cohort, cohort)
    copies.save(tmp_path / "model")
    assert load(tmp_path / "model").sample(30).visits_per_patient.max() == 60


def test_the_card_of_copies_says_that_they_are_the_patients(parts, tmp_path):
    train, valid, _ = parts
    generator_for("train-copy").fit(train, valid).save(tmp_path / "copy")
    generator_for("marginal").fit(train, valid).save(tmp_path / "floor")
    assert "is the patients themselves" in (tmp_path / "copy" / "README.md").read_text(encoding="utf-8")
    assert "is the patients themselves" not in (tmp_path / "floor" / "README.md").read_text(encoding="utf-8")
