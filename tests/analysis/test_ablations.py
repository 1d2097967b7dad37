from __future__ import annotations

import polars as pl
import pytest

from adapcla.analysis.ablations import (
    ABLATIONS,
    ANNEALED,
    CLAIMS,
    claim_table,
    difference_table,
    run_ablations,
)
from adapcla.errors import UsageError
from adapcla.generators import generator_for


def scores(rows: dict[str, dict[str, list[float | None]]]) -> pl.DataFrame:
    """A long table from row → metric → one value a seed."""
    return pl.DataFrame(
        [
            {"row": row, "seed": seed, "metric": metric, "value": value}
            for row, metrics in rows.items()
            for metric, values in metrics.items()
            for seed, value in enumerate(values, 1)
        ],
        schema={"row": pl.String, "seed": pl.Int64, "metric": pl.String, "value": pl.Float64},
    )


def three(pair: list[float | None], divergence: list[float | None], shared: list[float | None]):
    return {"tail_pair_seen": pair, "tail_ctx_jsd": divergence, "tail_topk_jac": shared}


GOOD = three([0.50, 0.52, 0.51], [0.30, 0.31, 0.30], [0.40, 0.42, 0.41])
POOR = three([0.10, 0.11, 0.12], [0.60, 0.62, 0.61], [0.10, 0.12, 0.10])
NOISY = three([0.10, 0.90, 0.51], [0.60, 0.02, 0.30], [0.10, 0.72, 0.41])


def test_differences_are_paired_and_signed_so_that_positive_is_better():
    table = difference_table(scores({ANNEALED: GOOD, "reversed sign": POOR}))
    found = {row["metric"]: row for row in table.to_dicts() if row["seeds"]}
    assert found["tail_pair_seen"]["better_by"] == pytest.approx(-0.4)
    assert found["tail_ctx_jsd"]["better_by"] == pytest.approx(-0.31 + 0.0033333, abs=1e-6)
    assert found["tail_ctx_jsd"]["high"] < 0
    assert found["tail_pair_seen"]["seeds"] == 3


@pytest.mark.parametrize(
    ("better", "worse", "verdict"),
    [(GOOD, POOR, "held"), (POOR, GOOD, "contrary"), (GOOD, NOISY, "not shown")],
)
def test_verdicts(better, worse, verdict):
    table = claim_table(scores({ANNEALED: better, "no scaffold": worse}))
    assert table["verdict"].to_list() == [verdict]
    assert verdict in table["sentence"][0]


def test_a_row_without_a_tail_has_lost_it():
    gone = three([None, None, None], [None, None, None], [0.0, 0.0, 0.0])
    table = claim_table(scores({ANNEALED: GOOD, "static train-only": gone}))
    assert table["verdict"].to_list() == ["held"] and "no tail pair" in table["sentence"][0]


def test_one_seed_decides_nothing():
    one = {metric: values[:1] for metric, values in GOOD.items()}
    two = {metric: values[:1] for metric, values in POOR.items()}
    assert claim_table(scores({ANNEALED: one, "no scaffold": two}))["verdict"].to_list() == ["not asked"]


def test_every_claim_is_about_rows_that_exist():
    assert all({claim.better, claim.worse} <= set(ABLATIONS) for claim in CLAIMS)
    for ablation in ABLATIONS.values():
        generator_for(ablation.method, **ablation.changes)


def test_finished_fits_are_not_repeated_and_other_settings_are(world, tmp_path, monkeypatch):
    from tests.analysis.conftest import SMALL

    small = {**SMALL, "passes": 0.5}
    asked = (*world, ["annealed", "no scaffold"], (1,), 60)
    first = run_ablations(*asked, small, tmp_path)
    assert set(first["row"]) == {"annealed", "no scaffold", "real test", "train copy"}
    copy = first.filter((pl.col("row") == "train copy") & (pl.col("metric") == "tail_pair_seen"))["value"][0]
    assert copy == 1.0

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("fitted again")

    monkeypatch.setattr("adapcla.generators.neural.NeuralGenerator.fit", refuse)
    assert run_ablations(*asked, small, tmp_path).equals(first)
    with pytest.raises(AssertionError, match="fitted again"):
        run_ablations(*asked, {**small, "width": 24}, tmp_path)


def test_an_unknown_row_is_refused_before_any_fit(world, tmp_path):
    with pytest.raises(UsageError, match="no ablation is called 'anealed'"):
        run_ablations(*world, ["anealed"], (1,), 10, {}, tmp_path)


def test_what_makes_a_row_cannot_be_changed_for_all(world, tmp_path):
    with pytest.raises(UsageError, match="schedule is what the rows differ in"):
        run_ablations(*world, ["annealed"], (1,), 10, {"schedule": "fast"}, tmp_path)
