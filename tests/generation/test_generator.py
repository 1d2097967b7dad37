"""Generators: the table of methods, fitting and loading by name, and sampling by seed and number alone."""

from __future__ import annotations

import numpy as np
import pytest

from adapcla.data import Cohort, Prevalence
from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.generation import AdaPCLA, Generator
from adapcla.generation.generator import generator_for, methods, train
from adapcla.generation.model import seen_records
from adapcla.io import simulator as planted
from adapcla.io.simulator import simulate
from adapcla.training.settings import METHODS, Settings, settings_from


def test_patient_i_is_the_same_for_any_number_and_batch_size(fitted: Generator) -> None:
    many = fitted.sample(300, seed=3)
    few = fitted.sample(40, seed=3, batch_size=7)
    assert few.fingerprint == many.subset(np.arange(40)).fingerprint
    assert fitted.sample(300, seed=3, batch_size=1000).fingerprint == many.fingerprint
    assert fitted.sample(300, seed=4).fingerprint != many.fingerprint


def test_a_sample_is_a_cohort_of_the_training_vocabulary(fitted: Generator, parts: Split) -> None:
    made = fitted.sample(200, seed=1)
    assert made.vocabulary == parts.train.vocabulary
    assert made.n_patients == 200
    assert made.card["source"] == "synthetic" and made.card["method"] == fitted.method
    assert set(made.attributes) == set(parts.train.attributes)
    assert made.days is not None and (made.days[np.asarray(made.patient_starts)[:-1]] == 0).all()
    assert made.visits_per_patient.max() <= parts.train.visits_per_patient.max()


def test_strength_zero_is_no_control_at_all(fitted: Generator, parts: Split) -> None:
    plain = fitted.sample(100, seed=1)
    assert fitted.sample(100, seed=1, toward=parts.test, strength=0.0).fingerprint == plain.fingerprint


def test_steering_towards_the_own_prevalence_moves_nothing(fitted: Generator) -> None:
    plain = fitted.sample(100, seed=1)
    assert fitted.sample(100, seed=1, toward=fitted.prevalence_).fingerprint == plain.fingerprint


def test_a_target_of_zero_means_never_and_a_higher_one_means_more(fitted: Generator) -> None:
    base = fitted.prevalence_
    common = base.vocabulary.tokens[int(np.argmax(base.share))]
    rarer = base.vocabulary.tokens[int(np.argsort(-base.share)[10])]
    wish = Prevalence.of({common: 0.0, rarer: 0.6})
    made = fitted.sample(300, seed=1, toward=wish).prevalence().share
    index = base.vocabulary.index
    assert made[index[common]] == 0.0
    assert made[index[rarer]] > 2 * base.share[index[rarer]]


def test_codes_without_a_target_can_be_dropped(fitted: Generator) -> None:
    base = fitted.prevalence_
    keep = [base.vocabulary.tokens[i] for i in np.argsort(-base.share)[:5]]
    wish = Prevalence.of({token: float(base.share[base.vocabulary.index[token]]) for token in keep})
    made = fitted.sample(100, seed=1, toward=wish, missing="drop", min_codes=1)
    assert {made.vocabulary.tokens[c] for c in np.unique(made.codes)} <= set(keep)


def test_attributes_can_be_asked_for(fitted: Generator) -> None:
    name = "sex"
    category = fitted.model.attribute_distribution.categories[fitted.model.attribute_distribution.names.index(name)][0]
    made = fitted.sample(100, seed=1, where=((name, category),))
    assert set(made.attributes[name].values.tolist()) == {0}
    with pytest.raises(UsageError, match="expected one of"):
        fitted.sample(10, where=((name, "no such"),))
    with pytest.raises(UsageError, match="no attribute"):
        fitted.sample(10, where=(("shoe size", "43"),))


def test_rules_of_drawing_are_honoured(plain: Generator, parts: Split) -> None:
    assert plain.sample(80, max_visits=1).visits_per_patient.max() == 1
    assert plain.sample(80, min_codes=4).codes_per_visit.min() >= 4
    cold = plain.sample(80, temperature=0.3, min_codes=1)
    assert len(np.unique(cold.codes)) < len(np.unique(plain.sample(80).codes))
    matched = plain.sample(400, codes_per_visit="match").codes_per_visit.mean()
    assert matched == pytest.approx(parts.train.codes_per_visit.mean(), rel=0.1)


@pytest.mark.parametrize(
    "options", [{"temperature": 0.0}, {"codes_per_visit": "many"}, {"strength": 2.0, "toward": "x"}, {"n": 0}]
)
def test_wrong_options_are_named(options: dict, plain: Generator) -> None:
    n = options.pop("n", 5)
    if "toward" in options:
        options["toward"] = plain.prevalence_
    with pytest.raises(UsageError):
        plain.sample(n, **options)


def test_an_unfitted_generator_says_so() -> None:
    with pytest.raises(UsageError, match="not fitted"):
        AdaPCLA().sample(3)


def test_likelihood_prefers_the_cohort_it_was_fitted_on_to_shuffled_codes(fitted: Generator, parts: Split) -> None:
    """The same patients with codes renamed at random are less likely."""
    test = parts.test
    order = np.random.default_rng(0).permutation(test.n_codes)
    shuffled = Cohort.of(
        [[[test.vocabulary.tokens[order[test.vocabulary.index[c]]] for c in v] for v in p] for p in test.patients()],
        test.vocabulary,
        days=test.days,
        attributes=test.attributes,
    )
    assert fitted.log_likelihood(test).mean() > fitted.log_likelihood(shuffled).mean()


def test_static_consistent_keeps_its_bias_and_train_only_loses_the_tail(parts: Split) -> None:
    """Trained under the whole scaffold, z alone is far too low for rare codes; z + b is not."""
    settings = {"width": 16, "layers": 1, "heads": 2, "passes": 50, "batch_size": 64, "schedule": "constant"}
    settings |= {"learning_rate": 0.03, "patience": 99, "validations": 2}
    kept = generator_for("adapcla", bias_at_inference=True, **settings).fit(parts.train, parts.valid)
    removed = generator_for("adapcla", **settings).fit(parts.train, parts.valid)
    tail = parts.train.strata().tail
    real = parts.train.visit_counts[tail].sum() / parts.train.n_visits
    with_bias = kept.sample(600, seed=1)
    without = removed.sample(600, seed=1)
    assert with_bias.visit_counts[tail].sum() / with_bias.n_visits > 0.3 * real
    assert without.visit_counts[tail].sum() / without.n_visits < 0.1 * real


def test_a_warm_start_needs_the_same_vocabulary(plain: Generator, parts: Split, tmp_path) -> None:  # type: ignore[no-untyped-def]
    plain.save(tmp_path / "model")
    warm = generator_for(
        "adapcla",
        starts_from=str(tmp_path / "model"),
        **{**plain.settings.budget.model_dump(), "passes": 0.01},
        width=16,
        layers=1,
        heads=2,
    )
    assert warm.fit(parts.train, parts.valid).outcome_ is not None
    other = Cohort.of([[["X", "Y"]]] * 50)
    with pytest.raises(UsageError, match="another vocabulary"):
        generator_for("adapcla", starts_from=str(tmp_path / "model"), width=16, layers=1, heads=2).fit(other, other)


def test_a_generator_has_the_manners_of_scikit_learn(plain: Generator) -> None:
    from sklearn.base import clone

    copy = clone(plain)
    assert copy.settings == plain.settings and copy.model_ is None
    assert copy.get_params()["width"] == plain.settings.architecture.width
    assert copy.set_params(width=32, passes=1) is copy
    assert (copy.settings.architecture.width, copy.settings.budget.passes) == (32, 1)
    with pytest.raises(UsageError, match="no setting is called"):
        copy.set_params(widht=8)
    fitted = Generator(plain.settings, plain.model)
    assert fitted.set_params(passes=9).model_ is None


def test_a_generator_shows_itself_in_one_line(plain: Generator) -> None:
    assert repr(generator_for("adapcla")) == "Generator('adapcla'; not fitted)"
    shown = repr(plain)
    assert shown.startswith("Generator('adapcla', ") and "width=16" in shown and "fitted to" in shown
    assert "\n" not in shown and len(shown) < 200


TINY = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 64}


def test_every_row_is_named_with_what_it_is():
    assert list(methods()) == list(METHODS)
    assert all(methods().values())


def test_a_whole_cohort_is_trained_on_as_its_own_split_is():
    world = simulate(patients=200, codes=60, seed=1)
    whole, parts = train(world, seed=1, **TINY), train(world.split(), seed=1, **TINY)
    assert whole.sample(50, seed=1).fingerprint == parts.sample(50, seed=1).fingerprint
    assert whole.prevalence_.n_visits == world.split().train.n_visits


def test_a_method_that_does_not_exist_is_refused():
    with pytest.raises(UsageError, match="did you mean 'adapcla'"):
        train(simulate(patients=50, codes=60, seed=1), "adapcl")


def test_the_pinned_rows_are_what_they_are_called() -> None:
    ours = METHODS["adapcla"].settings
    assert (ours.architecture.head, ours.schedule, ours.tempering, ours.bias_at_inference) == (
        "independent",
        "base",
        1.0,
        False,
    )
    large = METHODS["adapcla-paper-size"].settings.architecture
    assert (large.width, large.layers, large.heads, large.context) == (768, 12, 12, 48)
    tail = METHODS["tailwise"].settings.architecture
    assert (tail.family, tail.prior, tail.shrinkage, tail.copy_head) == ("gpt", True, 50.0, True)  # type: ignore[attr-defined]


def test_every_row_carries_its_own_name() -> None:
    assert all(method.row.name == name for name, method in METHODS.items())
    assert all(method.row.summary and method.row.paper for method in METHODS.values())


def test_an_unknown_method_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="did you mean 'tailwise'"):
        generator_for("tailwsie")


def test_a_fit_keeps_aggregates_of_its_cohort(fitted: Generator, parts: Split) -> None:
    kept, train = fitted.model, parts.train
    assert kept.visit_sizes.sum() == train.n_visits
    assert (kept.visit_sizes * np.arange(len(kept.visit_sizes))).sum() == train.n_entries
    assert kept.attribute_distribution.counts.sum() == train.n_patients
    assert kept.longest == train.visits_per_patient.max()


def test_a_network_sees_only_what_its_settings_show():
    histories = planted.simulate(patients=40, codes=60, seed=1)
    assert len(seen_records(Settings(), histories).attribute_names) == 2
    blind = settings_from(Settings(), {"use_attributes": False, "use_days": False})
    records = seen_records(blind, histories)
    assert records.attribute_names == () and records.cohort.days is None
    assert int(np.abs(records.batch(np.arange(3)).gap.numpy()).sum()) == 0
