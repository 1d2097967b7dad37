"""A private fit: what is counted is bounded and noised, what was exact is gone, and the card says what was spent."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from adapcla.data import Cohort
from adapcla.data.split import Split
from adapcla.errors import UsageError
from adapcla.files import read_json
from adapcla.generation import Generator, generator_for, load
from adapcla.generation.run_folder import train_run
from adapcla.models.batch import Records
from adapcla.seeds import random_stream as stream
from adapcla.training.privacy import SECRET, bounded_counts, noised_law, noised_prevalence, public_prior, smooth
from adapcla.training.settings import METHODS, Settings, settings_from

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("opacus") is None, reason="opacus is not installed: pip install 'adapcla[dp]'"
)
_SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 100, "validations": 2}


@pytest.fixture(scope="module")
def private(parts: Split, tmp_path_factory: pytest.TempPathFactory) -> tuple[Generator, Path]:
    """A private run, whole."""
    folder = tmp_path_factory.mktemp("private") / "run"
    generator = generator_for("adapcla", **_SMALL, privacy={"epsilon": 4})
    return train_run(generator, parts.train, parts.valid, folder), folder


# ---- counting ---------------------------------------------------------------------------------------------
def test_counts_of_a_patient_are_cut_to_the_bound() -> None:
    """One patient with A in four visits: (A, visits) = (4, 4), norm 5.657; cut to 2 gives (1.414, 1.414)."""
    records = Records(Cohort.of([[["A"]] * 4]), context=48)
    assert bounded_counts(records, 2.0) == pytest.approx([2**0.5, 2**0.5])
    assert bounded_counts(Records(records.cohort, context=1), 2.0) == pytest.approx([1.0, 1.0])


def test_no_patient_moves_the_counts_by_more_than_the_bound(parts: Split) -> None:
    whole = parts.train
    everybody = bounded_counts(Records(whole, 10), 3.0)
    for left_out in (0, 7, 101):
        others = whole.subset(np.delete(np.arange(whole.n_patients), left_out))
        assert np.linalg.norm(everybody - bounded_counts(Records(others, 10), 3.0)) <= 3.0 + 1e-9


def test_noise_of_counts_has_its_deviation(parts: Split) -> None:
    """Above the level at which counts are believed together, prevalences · visits differ from counts by the noise."""
    records = Records(parts.train, 48)
    exact = bounded_counts(records, 6.0)
    noise = [
        noised_prevalence(records, 6.0, stream(1, "test", k), deviation=2.0).share[:80] * 0
        + stream(1, "test", k).standard_normal(81)[:80] * 2.0
        for k in range(50)
    ]
    found = noised_prevalence(records, 6.0, stream(1, "test", 0), deviation=2.0)
    visits = exact[-1] + 2.0 * stream(1, "test", 0).standard_normal(81)[-1]
    large = exact[:-1] > 30
    assert np.std(noise) == pytest.approx(2.0, rel=0.05)
    assert found.share[large] * visits == pytest.approx((exact[:-1] + noise[0])[large])
    assert found.n_visits == round(visits)


def test_drowned_counts_share_what_they_sum_to() -> None:
    assert smooth(np.array([100.0, 2.0, 4.0]), 10.0).tolist() == [100.0, 3.0, 3.0]
    assert smooth(np.array([100.0, -9.0]), 10.0).tolist() == [100.0, 0.1]
    assert smooth(np.array([100.0, 20.0]), 10.0).tolist() == [100.0, 20.0]


def test_attributes_are_counted_over_every_combination(parts: Split) -> None:
    records = Records(parts.train, 48)
    exact = noised_law(records, stream(1, "test"), 0.0)
    assert exact.counts.sum() == parts.train.n_patients
    noisy = noised_law(records, stream(1, "test"), 5.0)
    assert noisy.names == exact.names and len(noisy.counts) >= len(exact.counts)
    assert abs(int(noisy.counts.sum()) - parts.train.n_patients) < 5 * 5 * len(noisy.counts) ** 0.5
    bare = noised_law(Records(Cohort.of([[["A"]]]), 48), None, 0.0)
    assert bare.names == () and bare.counts.tolist() == [1]


# ---- what is saved ----------------------------------------------------------------------------------------
def test_the_card_the_settings_and_the_manifest_say_what_was_spent(private: tuple[Generator, Path]) -> None:
    generator, folder = private
    spent = generator.model.facts["privacy"]
    parts = spent["parts"]
    assert set(parts) == {"counting", "training"}
    assert spent["epsilon"] <= 4.0 and spent["epsilon"] == pytest.approx(
        parts["counting"]["epsilon"] + parts["training"]["epsilon"], abs=2e-4
    )
    card = (folder / "model" / "README.md").read_text()
    for text in (
        "DP: ε = ",
        "spent by counting",
        "spent by training",
        "not covered: the lists of codes",
        "switched off",
    ):
        assert text in card
    assert "not DP" not in card
    assert read_json(folder / "model" / "MANIFEST.json")["privacy"]["epsilon"] == spent["epsilon"]
    assert read_json(folder / "model" / "config.json")["facts"]["privacy"] == spent
    assert load(folder).sample(5).card["privacy"]["epsilon"] == spent["epsilon"]


def test_no_exact_number_about_patients_is_in_the_model(private: tuple[Generator, Path], parts: Split) -> None:
    generator, folder = private
    config = read_json(folder / "model" / "config.json")
    assert config["visit_sizes"] == [] and config["longest"] == 48
    assert not {"visits", "training data", "visits beyond the context"} & set(config["facts"])
    assert config["facts"]["validation loss per visit"] is None
    assert config["n_visits"] != parts.train.n_visits
    assert not np.allclose(generator.prevalence_.share, parts.train.prevalence().share)
    assert parts.train.fingerprint not in json.dumps(config)


def test_the_secret_goes_when_the_run_is_complete(private: tuple[Generator, Path]) -> None:
    assert not [path for path in private[1].rglob("*") if SECRET in path.name]


def test_sizes_of_visits_are_refused_by_name(private: tuple[Generator, Path]) -> None:
    with pytest.raises(UsageError, match="sizes of visits"):
        private[0].sample(5, codes_per_visit="match")


def test_a_fixed_noise_seed_is_called_what_it_is(parts: Split, tmp_path: Path) -> None:
    generator = generator_for("adapcla", **{**_SMALL, "passes": 0.2}, privacy={"noise_seed": 1})
    generator.fit(parts.train, parts.valid).save(tmp_path / "model", shareable=True)
    assert "not covered: EVERYTHING" in (tmp_path / "model" / "README.md").read_text()


# ---- a public prior ---------------------------------------------------------------------------------------
def test_a_public_prior_is_used_as_it_is_and_names_the_codes(parts: Split, tmp_path: Path) -> None:
    tokens = parts.train.vocabulary.tokens
    rows = [f"{token},{0.001 * (k + 1)}" for k, token in enumerate(tokens[:70])]
    table = tmp_path / "prior.csv"
    table.write_text("\n".join(["code,prevalence", *rows, "ZZZ9,0.5", "ZZZ8,"]) + "\n")
    generator = generator_for("adapcla", **_SMALL, privacy={"epsilon": 4, "prior": str(table)}, use_attributes=False)
    generator.fit(parts.train, parts.valid)
    assert generator.vocabulary_.tokens == tuple(sorted([*tokens[:70], "ZZZ8", "ZZZ9"]))
    assert generator.prevalence_.share[0] == 0.001 and np.nanmin(generator.prevalence_.share) == 0.0005
    spent = generator.model.facts["privacy"]
    assert set(spent["parts"]) == {"training"} and spent["prior"] == "public table"
    assert not any("codes" in text for text in spent["not covered"][:1])


def test_a_cohort_is_no_public_table(parts: Split, tmp_path: Path) -> None:
    parts.train.save(tmp_path / "cohort")
    with pytest.raises(UsageError, match="public prevalences"):
        public_prior(str(tmp_path / "cohort"))


# ---- refusals ---------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("method", "why"),
    [
        ("synteg", "critic"),
        ("marginal", "counts"),
        ("adapcla-release", "starts from weights"),
    ],
)
def test_methods_that_cannot_be_protected_say_why(method: str, why: str) -> None:
    with pytest.raises(UsageError, match=f"{method} cannot be trained with differential privacy: .*{why}"):
        generator_for(method, privacy={"epsilon": 8})


@pytest.mark.parametrize("method", ["tailwise", "lstm", "gpt", "eva"])
def test_other_methods_are_trained_patient_by_patient(method: str, parts: Split) -> None:
    few = parts.train.subset(np.arange(20))
    changes: dict[str, Any] = {"width": 16, "layers": 1, "passes": 1, "batch_size": 5, "validations": 1}
    if method == "tailwise":
        changes |= {
            "prior": False,
            "damping": 0.0,
            "calibration_rounds": 0,
        }  # pairs are counted without noise, so that private training refuses them
    fitted = generator_for(method, **changes, privacy={"epsilon": 8}).fit(few, few)
    assert fitted.model.facts["privacy"]["epsilon"] <= 8
    assert all(torch.isfinite(value).all() for value in fitted.model.network.state_dict().values())


# ---- nothing asked for ------------------------------------------------------------------------------------
def test_settings_without_privacy_are_written_as_ever() -> None:
    """The fingerprint names runs on disk: it must not change for those who ask for nothing."""
    assert "privacy" not in Settings().model_dump()
    asked = settings_from(Settings(), {"privacy": {"epsilon": 2}})
    assert asked.fingerprint() != Settings().fingerprint()
    assert settings_from(asked, {"privacy": None}).fingerprint() == Settings().fingerprint()
    assert settings_from(Settings(), asked.model_dump()) == asked
    assert all("privacy" not in row.settings.model_dump() for row in METHODS.values())
    with pytest.raises(UsageError, match=r"privacy\.epsilon"):
        settings_from(Settings(), {"privacy": {"epsilon": -1}})
