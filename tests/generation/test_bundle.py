"""A saved model: the same patients come out of it, and any damage is named before anything is used."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from adapcla.data.split import Split
from adapcla.errors import AdapclaError, ExistsError, InputError, UsageError
from adapcla.files import write_manifest
from adapcla.generation import Generator, generator_for, load
from adapcla.training.settings import METHODS


def test_the_same_patients_come_out_of_a_saved_model(fitted: Generator, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model")
    again = load(folder)
    assert again.settings == fitted.model.settings
    assert again.sample(60, seed=2).fingerprint == fitted.sample(60, seed=2).fingerprint
    assert sorted(p.suffix for p in folder.iterdir()) == [".json", ".json", ".md", ".npy", ".parquet", ".safetensors"]


def test_saving_twice_gives_the_same_bytes(fitted: Generator, tmp_path: Path) -> None:
    one, two = fitted.save(tmp_path / "a"), fitted.save(tmp_path / "b")
    for path in one.iterdir():
        assert path.read_bytes() == (two / path.name).read_bytes()


def test_a_shareable_model_hides_small_counts_and_still_samples(fitted: Generator, tmp_path: Path) -> None:
    folder = fitted.save(tmp_path / "model", shareable=True)
    share = np.load(folder / "prior.npy")
    visits = np.nan_to_num(share) * (fitted.prevalence_.n_visits or 0)
    assert not ((visits > 0.5) & (visits < 10.5)).any()
    assert np.isnan(share).any()
    made = load(folder).sample(40, seed=2)
    assert made.n_patients == 40 and made.vocabulary == fitted.vocabulary_
    assert "suppressed" in (folder / "README.md").read_text()


@pytest.mark.parametrize("method", ["tailwise", "adapcla", "gpt", "halo", "lstm", "synteg"])
def test_nothing_beside_the_learned_numbers_of_a_shareable_model_tells_small_counts_apart(
    method: str, parts: Split, tmp_path: Path
) -> None:
    """Credibilities, rarities and the order of codes are functions of counts: those of 1 to 10 visits must be alike."""
    made = generator_for(method, width=16, layers=1, heads=2, passes=1)
    made.fit(parts.train, parts.valid)
    folder = made.save(tmp_path / "model", shareable=True)
    state = load_file(folder / "weights.safetensors")
    learned = {name for name, _ in made.model.network.named_parameters()}
    counts = parts.train.visit_counts
    small = (counts > 0) & (counts < 11)
    assert len(np.unique(counts[small])) > 5
    order = state["code_of_rank"].numpy()
    steps = np.diff(order[small[order]])
    assert (steps > 0).all() or (steps < 0).all(), "small counts are not told apart"
    for name, tensor in state.items():
        if name not in learned and tensor.is_floating_point() and len(tensor) == len(counts):
            assert len(torch.unique(tensor[torch.from_numpy(small[order])], dim=0)) == 1, name
    # Pairs of codes are told less exactly to others.
    if "likelihood" in METHODS[method].supports and not METHODS[method].settings.architecture.counts_pairs:
        told = load(folder).log_likelihood(parts.test)
        assert told == pytest.approx(made.log_likelihood(parts.test), rel=1e-5)


def test_a_shareable_model_names_no_visit_size_of_few_and_not_the_longest_record(
    plain: Generator, tmp_path: Path
) -> None:
    sizes = plain.model.visit_sizes
    assert ((sizes > 0) & (sizes < 11)).any() and plain.model.longest < plain.model.shape.context
    shared = load(plain.save(tmp_path / "model", shareable=True))
    told = shared.model.visit_sizes
    assert told[told > 0].min() >= 11 and (told[sizes >= 11] == sizes[sizes >= 11]).all()
    assert shared.model.longest == plain.model.shape.context
    assert sizes[shared.sample(50, seed=1, codes_per_visit="match").codes_per_visit].min() >= 11
    exact = load(plain.save(tmp_path / "exact"))
    assert exact.model.visit_sizes.tolist() == sizes.tolist() and exact.model.longest == plain.model.longest


def test_a_shareable_model_holds_no_pair_of_few_patients(parts: Split, tmp_path: Path) -> None:
    """Neither a pair nor a sum over families says that one to ten patients hold it; the model opens and samples."""
    made = generator_for("tailwise", width=16, layers=1, heads=2, passes=0.1, validations=1, calibration_rounds=0)
    made.fit(parts.train, parts.valid)
    exact = made.network_.prior.counts  # type: ignore[union-attr]
    assert exact.patients[exact.patients > 0].min() == 1
    state = load_file(made.save(tmp_path / "model", shareable=True) / "weights.safetensors")
    for name in ("patients", "family_patients"):
        told = state[f"prior.{name}"]
        assert (told > 0).any() and told[told > 0].min() >= 11
    again = load(tmp_path / "model")
    assert len(again.network_.prior.partner) == len(state["prior.partner"])  # type: ignore[union-attr]
    assert again.sample(5, seed=1).n_patients == 5


def test_the_prevalence_itself_is_shareable_only_without_small_counts(parts: Split, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fewer than 11 visits"):
        generator_for("marginal").fit(parts.train, parts.valid).save(tmp_path / "no", shareable=True)
    keep = parts.train.visit_counts >= 11
    train, valid = (part.keep_codes(keep) for part in (parts.train, parts.valid))
    assert generator_for("marginal").fit(train, valid).save(tmp_path / "yes", shareable=True).is_dir()


def test_every_single_flipped_bit_is_noticed(plain: Generator, tmp_path: Path) -> None:
    folder = plain.save(tmp_path / "model")
    rng = np.random.default_rng(1)
    for path in sorted(folder.iterdir()):
        good = path.read_bytes()
        for position in rng.integers(0, len(good), 6):
            bad = bytearray(good)
            bad[position] ^= 1 << int(rng.integers(8))
            path.write_bytes(bytes(bad))
            with pytest.raises(AdapclaError):
                load(folder)
        path.write_bytes(good)
    load(folder)


@pytest.mark.parametrize(
    "damage", ["missing setting", "other width", "other vocabulary", "truncated weights", "no prior"]
)
def test_content_that_does_not_fit_is_named_even_with_a_fresh_manifest(
    damage: str, plain: Generator, tmp_path: Path
) -> None:
    folder = plain.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    if damage == "missing setting":
        del config["shape"]
    elif damage == "other width":
        config["settings"]["architecture"]["width"] = 32
    elif damage == "other vocabulary":
        config["shape"]["n_codes"] += 1
    elif damage == "truncated weights":
        weights = folder / "weights.safetensors"
        weights.write_bytes(weights.read_bytes()[:-40])
    else:
        np.save(folder / "prior.npy", np.zeros(3, dtype=np.float32))
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    with pytest.raises(InputError, match="to do"):
        load(folder)


def test_a_populated_folder_is_not_overwritten_by_accident(plain: Generator, tmp_path: Path) -> None:
    plain.save(tmp_path / "model")
    with pytest.raises(ExistsError, match="--overwrite"):
        plain.save(tmp_path / "model")
    plain.save(tmp_path / "model", overwrite=True)


@pytest.mark.parametrize(
    ("name", "value"), [("width", 1 << 22), ("layers", 1 << 40), ("context", 1 << 40), ("heads", 7), ("family", [])]
)
def test_sizes_that_the_weights_do_not_have_are_refused_before_anything_is_allocated(
    name: str, value: object, plain: Generator, tmp_path: Path
) -> None:
    """A width of 4 million would need 64 TB, 10^12 layers a day: both must be told from the file's own header."""
    folder = plain.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["architecture"][name] = value
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    with pytest.raises(InputError, match="to do"):
        load(folder)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("longest", 0),
        ("visit_sizes", [-1]),
        ("n_visits", "many"),
        ("attributes", {"names": [], "categories": [], "combinations": [], "counts": []}),
        ("attributes", {"names": [["sex"]], "categories": [["F"]], "combinations": [[1]], "counts": [1]}),
    ],
)
def test_numbers_that_contradict_each_other_are_named(
    name: str, value: object, plain: Generator, tmp_path: Path
) -> None:
    folder = plain.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config[name] = value
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    with pytest.raises(InputError, match=r"config\.json"):
        load(folder)


def test_weights_that_are_no_numbers_are_refused(plain: Generator, tmp_path: Path) -> None:
    folder = plain.save(tmp_path / "model")
    content = bytearray((folder / "weights.safetensors").read_bytes())
    content[-4:] = np.float32("nan").tobytes()
    (folder / "weights.safetensors").write_bytes(bytes(content))
    write_manifest(folder)
    with pytest.raises(InputError, match="not finite"):
        load(folder)


def test_an_order_of_codes_that_is_none_is_refused(plain: Generator, tmp_path: Path) -> None:
    """The first rank's code is replaced by one that does not exist."""
    from safetensors.torch import load_file, save_file

    folder = plain.save(tmp_path / "model")
    weights = load_file(folder / "weights.safetensors")
    weights["code_of_rank"][0] = 10**12
    save_file(weights, folder / "weights.safetensors")
    write_manifest(folder)
    with pytest.raises(InputError, match="'code_of_rank' does not fit the vocabulary"):
        load(folder)


@pytest.mark.parametrize("method", ["tailwise", "gpt", "halo"])
@pytest.mark.parametrize("wrong", [-382071739, 2**31 - 1])
def test_an_index_out_of_range_is_refused_whatever_it_indexes(
    method: str, wrong: int, parts: Split, tmp_path: Path
) -> None:
    """Each integer weight in turn gets an entry that no table has: loading names it, nothing fails while sampling."""
    from safetensors.torch import load_file, save_file

    small = {"width": 16, "layers": 1, "heads": 2, "passes": 1}
    folder = generator_for(method, **small).fit(parts.train, parts.valid).save(tmp_path / "model")
    whole = load_file(folder / "weights.safetensors")
    integers = [name for name, value in whole.items() if not value.is_floating_point() and value.numel()]
    assert integers
    for name in integers:
        damaged = {key: value.clone() for key, value in whole.items()}
        damaged[name].view(-1)[0] = wrong
        save_file(damaged, folder / "weights.safetensors")
        write_manifest(folder)
        with pytest.raises(InputError, match=f"'{name}'"):
            load(folder)


def test_models_of_earlier_versions_open_or_say_how_to_make_them_again(plain: Generator, tmp_path: Path) -> None:
    """Visit networks were written with settings that are gone; a blockwise one cannot be opened any more."""
    folder = plain.save(tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    config["settings"]["architecture"] |= {"credibility": 0.0, "blocks": 24, "hidden": 64, "hierarchy": False}
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    assert load(folder).sample(3).fingerprint == plain.sample(3).fingerprint
    config["settings"]["architecture"] |= {"head": "blockwise", "company": 3}
    config["settings"]["method"] = "tailwise"
    (folder / "config.json").write_text(json.dumps(config))
    write_manifest(folder)
    with pytest.raises(InputError, match="make it again: adapcla train COHORT --method tailwise"):
        load(folder)
