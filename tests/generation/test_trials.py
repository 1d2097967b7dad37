"""Rate and passes by trying: the walk by hand, and runs that are stopped, resumed and refused."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adapcla.data.split import Split
from adapcla.errors import AdapclaError, ExistsError, InterruptedRun
from adapcla.files import read_json
from adapcla.generation import load, trials
from adapcla.generation.trials import PASSES, RATES, Cell, climbed, rates_to_try, train_by_trials

_SMALL = {"width": 16, "layers": 1, "heads": 2, "batch_size": 64, "validations": 3}


def best_of(tried: dict[Cell, float]) -> Cell:
    return min(tried, key=tried.__getitem__)


def test_passes_are_walked_from_the_best_of_three_and_the_next_rate_is_tried_at_half_of_them() -> None:
    losses = {2: 9.0, 4: 5.0, 8: 4.0, 6: 3.0, 5: 3.5, 11: 4.5}
    tried = climbed(lambda cell: losses[int(cell.passes)] if cell.learning_rate == RATES[0] else 9.0)
    assert list(tried) == [Cell(RATES[0], p) for p in (2, 4, 8, 6, 5, 11)] + [Cell(RATES[1], 3)]
    assert best_of(tried) == Cell(RATES[0], 6)


def test_one_unlucky_fit_does_not_send_the_walk_the_wrong_way() -> None:
    """Up from four passes the next fit is worse by luck; the best lies further on."""
    losses = {2: 9.0, 4: 5.0, 5: 5.1, 6: 4.5, 8: 4.0, 11: 4.2}
    assert best_of(climbed(lambda cell: losses[int(cell.passes)], RATES[:1])) == Cell(RATES[0], 8)


def test_a_better_second_rate_is_kept() -> None:
    tried = climbed(lambda cell: abs(cell.passes - 6) + (1.0 if cell.learning_rate == RATES[0] else -5.0))
    assert best_of(tried) == Cell(RATES[1], 3)


def test_the_best_cell_is_tried_with_a_wider_network_and_no_other_is() -> None:
    tried = climbed(lambda cell: abs(cell.passes - 5) - (0.5 if cell.width else 0.0), RATES[:1], wider=256)
    assert [cell for cell in tried if cell.width] == [Cell(RATES[0], 5, 256)]
    assert best_of(tried) == Cell(RATES[0], 5, 256)


def test_ends_of_the_ladder_are_ends() -> None:
    assert best_of(climbed(lambda cell: cell.passes)).passes == PASSES[0]
    assert best_of(climbed(lambda cell: -cell.passes)).passes == PASSES[-1]


def test_a_rate_at_which_training_fails_is_not_chosen() -> None:
    tried = climbed(lambda cell: math.inf if cell.learning_rate == RATES[0] else cell.passes)
    assert best_of(tried).learning_rate == RATES[1]


@given(st.integers(0, len(PASSES) - 1), st.lists(st.floats(0.1, 5), min_size=len(PASSES), max_size=len(PASSES)))
def test_with_one_rate_the_bottom_of_any_valley_is_found(bottom: int, slopes: list[float]) -> None:
    losses = [sum(slopes[min(bottom, rung) : max(bottom, rung)]) for rung in range(len(PASSES))]
    tried = climbed(lambda cell: losses[PASSES.index(cell.passes)], RATES[:1])
    assert best_of(tried).passes == PASSES[bottom]


@pytest.mark.parametrize(
    ("method", "changes", "n_patients"),
    [
        ("marginal", {}, 5_000),
        ("adapcla", {"learning_rate": 1e-3}, 5_000),
        ("adapcla", {"budget": {"passes": 2}}, 5_000),
        ("adapcla", {"privacy": {}}, 5_000),
        ("adapcla", {}, 1_000_000),
    ],
)
def test_nothing_is_tried_where_nothing_is_to_be_found(method: str, changes: dict[str, Any], n_patients: int) -> None:
    assert rates_to_try(method, changes, n_patients) == ()


@pytest.fixture
def short_ladder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "PASSES", (0.5, 1.0, 2.0))
    monkeypatch.setattr(trials, "COARSE", (0.5, 2.0))


@pytest.mark.usefixtures("short_ladder")
def test_the_best_trial_takes_the_place_of_the_run(
    parts: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ("adapcla-no-scaffold", _SMALL, RATES, None)
    fitted = train_by_trials(*asked, parts.train, parts.valid, tmp_path / "whole")
    told = read_json(tmp_path / "whole" / "trials.json")
    losses = {line["validation loss per visit"] for line in told["trials"]}
    assert len(told["trials"]) >= 3 and fitted.model.facts["validation loss per visit"] == min(losses)
    assert {path.name for path in (tmp_path / "whole").iterdir()} == {
        ".lock", "asked.json", "outcome.json", "environment.json", "journal.jsonl", "model", "trials.json",
    }  # fmt: skip
    assert load(tmp_path / "whole").settings.last_weights

    # Stopped in the second trial and resumed, it comes to the same bytes, and the first trial is not trained again.
    original, trained = trials.train_run, []

    def stopping(*words: Any, **options: Any) -> Any:
        trained.append(words[3].name)
        if len(trained) == 2:
            raise InterruptedRun("stopped")
        return original(*words, **options)

    monkeypatch.setattr(trials, "train_run", stopping)
    with pytest.raises(InterruptedRun):
        train_by_trials(*asked, parts.train, parts.valid, tmp_path / "run")
    for _ in range(2):
        train_by_trials(*asked, parts.train, parts.valid, tmp_path / "run", resume=True)
    weights = [(tmp_path / name / "model" / "weights.safetensors").read_bytes() for name in ("run", "whole")]
    assert weights[0] == weights[1]
    with pytest.raises(ExistsError, match="--overwrite"):
        train_by_trials(*asked, parts.train, parts.valid, tmp_path / "run")
    with pytest.raises(ExistsError, match="other training data"):
        train_by_trials(*asked, parts.test, parts.valid, tmp_path / "run", resume=True)


@pytest.mark.usefixtures("short_ladder")
def test_prevalences_are_folded_into_the_best_trial_alone_as_in_a_fit_by_itself(
    parts: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, folded = trials.calibrate_prevalence, []
    monkeypatch.setattr(trials, "calibrate_prevalence", lambda *words: folded.append(words) or original(*words))
    settings = {**_SMALL, "calibration_rounds": 1}
    fitted = train_by_trials("tailwise", settings, RATES[:1], None, parts.train, parts.valid, tmp_path / "run")
    assert len(folded) == 1 and fitted.settings.calibration_rounds == 1 and fitted.model.facts["calibration"]
    alone = trials.generator_for("tailwise", **fitted.settings.model_dump(exclude={"method"}))
    alone.fit(parts.train, parts.valid)
    assert alone.sample(20).fingerprint == fitted.sample(20).fingerprint


@pytest.mark.usefixtures("short_ladder")
def test_a_trial_that_fails_is_left_out_and_one_that_was_asked_wrongly_is_not(
    parts: Split, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = trials.train_run

    def failing(generator: Any, *words: Any, **options: Any) -> Any:
        if generator.settings.budget.learning_rate == RATES[0]:
            raise AdapclaError("loss is nan")
        return original(generator, *words, **options)

    monkeypatch.setattr(trials, "train_run", failing)
    asked = ("adapcla-no-scaffold", _SMALL, RATES, None)
    fitted = train_by_trials(*asked, parts.train, parts.valid, tmp_path / "run")
    assert fitted.settings.budget.learning_rate == RATES[1]

    def refusing(*words: Any, **options: Any) -> Any:
        raise ExistsError("in use")

    monkeypatch.setattr(trials, "train_run", refusing)
    with pytest.raises(ExistsError):
        train_by_trials(*asked, parts.train, parts.valid, tmp_path / "other")
