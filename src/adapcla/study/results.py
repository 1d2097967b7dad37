"""A finished experiment: its specification, the scores of every method, and the cohorts behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import stats

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.evaluation import Reference, Scores
from adapcla.evaluation.bootstrap import LEVEL
from adapcla.evaluation.references import Beside, LawReference
from adapcla.files import read_json
from adapcla.tables import Estimate

ABOUT = "study.json"


@dataclass(frozen=True, eq=False)
class Study:
    """One experiment in its folder."""

    folder: Path
    about: dict[str, Any]
    _references: dict[str, Scores] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Study:
        """The experiment in a folder."""
        root = Path(folder)
        if not (root / ABOUT).is_file():
            raise InputError(
                f"no {ABOUT} there",
                path=root,
                expected="the folder of a finished experiment",
                remedy="run it first: adapcla run experiments/NAME.toml --out DIR",
            )
        return cls(root, read_json(root / ABOUT))

    # ---- the specification -------------------------------------------------------------------------------------
    @property
    def spec(self) -> dict[str, Any]:
        """The resolved specification."""
        return dict(self.about["spec"])

    @property
    def name(self) -> str:
        """The experiment's name."""
        return str(self.spec["name"])

    @property
    def title(self) -> str:
        """A heading for people."""
        return str(self.spec["title"] or self.name)

    @property
    def cohort(self) -> str:
        """The paper's name of the cohort, or nothing."""
        return str(self.spec["cohort"])

    @property
    def rows(self) -> list[str]:
        """The rows in the order of the specification."""
        return list(dict.fromkeys(fit["row"] for fit in self.about["fits"]))

    @property
    def references(self) -> list[Beside]:
        """What stands beside the rows: references of every cohort, then those that the simulator gives."""
        given = self.about.get("references", {})
        return [*Reference, *(reference for reference in LawReference if reference.value in given)]

    @property
    def test_share(self) -> float:
        """Test patients as a share of training and test patients, which corrected intervals need."""
        parts = self.data_record["parts"]
        n_train, n_test = parts["train"][0], parts["test"][0]
        return float(n_test / (n_train + n_test))

    @property
    def quick(self) -> bool:
        """Whether the evaluation was a quick look."""
        return bool(self.spec["evaluate"]["quick"])

    # ---- what was found -------------------------------------------------------------------------------------
    @cached_property
    def scores(self) -> pl.DataFrame:
        """Every score of every row, with the seeds of its fit and of its draw."""
        tables = [
            Scores.open(self.folder / draw["scores"])
            .table()
            .with_columns(
                pl.lit(fit["row"]).alias("row"),
                pl.lit(fit["seed"], dtype=pl.Int64).alias("fit"),
                pl.lit(draw["draw"]).alias("draw"),
            )
            for fit in self.about["fits"]
            for draw in fit["draws"]
            if "scores" in draw
        ]
        return pl.concat(tables) if tables else pl.DataFrame()

    @cached_property
    def steered_scores(self) -> pl.DataFrame:
        """Every score of every steered sample, with its target and mode; empty where nothing was steered."""
        tables = [
            Scores.open(self.folder / way["scores"])
            .table()
            .with_columns(
                pl.lit(fit["row"]).alias("row"),
                pl.lit(fit["seed"]).alias("fit"),
                pl.lit(1).alias("draw"),
                pl.lit(way["target"]).alias("target"),
                pl.lit(way["mode"]).alias("mode"),
            )
            for fit in self.about["fits"]
            for way in fit["toward"]
        ]
        return pl.concat(tables) if tables else pl.DataFrame()

    @cached_property
    def costs(self) -> dict[str, list[dict[str, Any]]]:
        """What each fit of each row cost, and its settings."""
        out: dict[str, list[dict[str, Any]]] = {}
        for fit in self.about["fits"]:
            if fit["place"] is not None:
                stamp = read_json(self.folder / fit["place"] / "stage.json")
                out.setdefault(fit["row"], []).append({**stamp.get("costs", {}), "settings": stamp.get("settings", {})})
        return out

    @property
    def failures(self) -> dict[str, list[str]]:
        """Why fits of a row failed, by row."""
        out: dict[str, list[str]] = {}
        for fit in self.about.get("failed", ()):
            out.setdefault(fit["row"], []).append(f"seed {fit['seed']} failed: {fit['why']}")
        return out

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings of each row; its fits differ in their seed alone."""
        return {row: fits[0]["settings"] for row, fits in self.costs.items()}

    @cached_property
    def data_record(self) -> dict[str, Any]:
        """The description of the whole cohort and the sizes of its parts."""
        return read_json(self.folder / self.about["data"] / "stage.json")

    def curves(self, row: str) -> dict[str, Any]:
        """The curves of a row's first sample."""
        draw = self._first(row)["draws"][0]
        path = self.folder / draw.get("scores", "") / "curves.json"
        return read_json(path) if path.is_file() else {}

    def part(self, name: str) -> Cohort:
        """A part of the real cohort: train, valid, test or control."""
        return Cohort.open(self.folder / self.about["data"] / name)

    def synthetic(self, row: str) -> Cohort:
        """The patients of a row's first sample, on the vocabulary of the real ones; other codes are left out."""
        cohort, vocabulary = (
            Cohort.open(self.folder / self._first(row)["draws"][0]["cohort"]),
            self.part("train").vocabulary,
        )
        if cohort.vocabulary == vocabulary:
            return cohort
        return cohort.keep_codes(vocabulary.positions(cohort.vocabulary.tokens) >= 0).on(vocabulary)

    def ways(self, row: str) -> list[dict[str, Any]]:
        """The steered samples of a row's first fit: target, mode, and the folders of the cohort and of the scores."""
        return list(self._first(row)["toward"])

    def _first(self, row: str) -> dict[str, Any]:
        return next(fit for fit in self.about["fits"] if fit["row"] == row)

    # ---- single numbers -------------------------------------------------------------------------------------
    def estimate(self, row: str | Beside, metric: str, stratum: str = "all", **where: str) -> Estimate | None:
        """A number of a row or reference, from the plain samples or, with target and mode, the steered ones."""
        table = self.steered_scores if where else self.scores
        if isinstance(row, LawReference):
            return None if where else self._of_reference_alone(row.value, metric, stratum)
        if table.is_empty():
            return None
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & pl.col("value").is_not_null()
        column = row.value if isinstance(row, Reference) else "value"
        if not isinstance(row, Reference):
            keep = keep & (pl.col("row") == row)
        for name, value in where.items():
            keep = keep & (pl.col(name) == value)
        reference = isinstance(row, Reference)
        ends = [pl.col(f"{column}_{end}" if reference else end).alias(end) for end in ("low", "high")]
        numbers = table.filter(keep).select(pl.col(column).alias("x"), *ends, "fit").drop_nulls("x")
        if numbers.is_empty():
            return self._of_reference_alone(column, metric, stratum)
        return estimate_over_fits(numbers, 0.0 if reference else self.test_share, references=reference)

    def real(self, metric: str, stratum: str = "all") -> Estimate | None:
        """A number of real patients: of test patients or, where these are compared with, of training patients."""
        test = self.estimate(Reference.REAL_TEST, metric, stratum)
        return self.estimate(Reference.REAL_TRAIN, metric, stratum) if test is None else test

    def by_fit(self, row: str, metric: str, stratum: str = "all", **where: str) -> dict[int, float]:
        """A number of a row for each fit seed, as the mean over its samples."""
        table = self.steered_scores if where else self.scores
        if table.is_empty():
            return {}
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & (pl.col("row") == row)
        for name, value in where.items():
            keep = keep & (pl.col(name) == value)
        means = table.filter(keep).drop_nulls("value").group_by("fit", maintain_order=True).agg(pl.col("value").mean())
        return dict(zip(means["fit"].to_list(), means["value"].to_list(), strict=True))

    def _of_reference_alone(self, reference: str, metric: str, stratum: str) -> Estimate | None:
        """A number of a reference that was scored by itself, as a quick look does; None where there is none."""
        if reference not in self.about.get("references", {}):
            return None
        if reference not in self._references:
            self._references[reference] = Scores.open(self.folder / self.about["references"][reference])
        try:
            score = self._references[reference][metric, stratum]
        except KeyError:
            return None
        return None if score.value is None else Estimate(score.value, score.low, score.high, 1)

    def has_score(self, metric: str, stratum: str) -> bool:
        """Whether any row was scored by a metric."""
        scores = self.scores
        return not (
            scores.is_empty() or scores.filter((pl.col("metric") == metric) & (pl.col("stratum") == stratum)).is_empty()
        )

    def goal(self, metric: str) -> str:
        """Which way is better."""
        for table in (self.scores, self.steered_scores):
            if not table.is_empty():
                goals = table.filter(pl.col("metric") == metric)["goal"]
                if len(goals):
                    return str(goals[0])
        return "none"

    def reason(self, row: str, metric: str, stratum: str = "all") -> str:
        """Why a number is missing, or the note on it."""
        if self.scores.is_empty():
            return ""
        keep = (pl.col("row") == row) & (pl.col("metric") == metric) & (pl.col("stratum") == stratum)
        reasons = self.scores.filter(keep)["reason"]
        return str(reasons[0]) if len(reasons) else ""


def studies_in(folder: str | Path) -> list[Study]:
    """The experiment in a folder, or those in its folders, by name."""
    root = Path(folder)
    if not (root / ABOUT).is_file():
        inside = sorted(path.parent for path in root.glob(f"*/{ABOUT}"))
        if inside:
            return [Study.open(path) for path in inside]
    return [Study.open(root)]


def estimate_over_fits(scores: pl.DataFrame, test_share: float, references: bool = False) -> Estimate:
    """The mean over fits; its interval is the corrected one of several fits, else the score's own.

    Every fit divides the patients anew, so that the spread over fits holds the luck of fits, samples and test
    patients. A reference is one cohort: it has its own interval.

    >>> one = pl.DataFrame({"x": [0.5], "low": [0.4], "high": [0.6], "fit": [1]})
    >>> estimate_over_fits(one, 0.2)
    Estimate(value=0.5, low=0.4, high=0.6, n=1)
    >>> three = pl.DataFrame({"x": [0.4, 0.5, 0.6], "low": [0.3] * 3, "high": [0.7] * 3, "fit": [1, 2, 3]})
    >>> mean = estimate_over_fits(three, test_share=0.0)
    >>> mean.value, mean.n, round(mean.low, 3)
    (0.5, 3, 0.252)
    """
    means = scores.group_by("fit", maintain_order=True).agg(pl.col("x").mean())["x"].to_numpy()
    value, n = round(float(means.mean()), 12), len(means)
    if n > 1 and not references:
        half = float(stats.t.ppf(0.5 + LEVEL / 2, n - 1)) * corrected_error(means, test_share)
        return Estimate(value, value - half, value + half, n)
    return Estimate(value, scores["low"].mean(), scores["high"].mean(), n)  # type: ignore[arg-type]


def corrected_error(values: Sequence[float] | NDArray[np.float64], test_share: float) -> float:
    """The standard error of a mean over seeds that divide the patients anew (Nadeau & Bengio); NaN for fewer than two.

    >>> round(corrected_error([0.0, 2.0, 0.0, 2.0], test_share=0.0), 4), round(corrected_error([0.0, 2.0], 0.5), 4)
    (0.5774, 1.7321)
    """
    if len(values) < 2:
        return float("nan")
    if float(np.ptp(values)) <= 1e-9 * float(np.abs(values).max()):
        return 0.0
    return float(np.var(values, ddof=1) * (1 / len(values) + test_share / (1 - test_share))) ** 0.5
