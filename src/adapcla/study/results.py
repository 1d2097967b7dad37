"""A finished experiment as the page sees it: what was asked, the scores of every row, and the cohorts behind them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from adapcla.data import Cohort
from adapcla.errors import InputError
from adapcla.evaluation import Reference, Scores
from adapcla.evaluation.bootstrap import mean_half, spread
from adapcla.evaluation.references import Beside, LawReference
from adapcla.files import read_json

ABOUT = "study.json"


class Measured(NamedTuple):
    """A number of one row: the mean over fits and draws, its interval, and how many there were."""

    value: float
    low: float | None
    high: float | None
    n: int

    @property
    def half(self) -> float | None:
        """Half of the interval."""
        return None if self.low is None or self.high is None else (self.high - self.low) / 2


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

    # ---- what was asked -------------------------------------------------------------------------------------
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
        """The rows in the order they were asked for."""
        return list(dict.fromkeys(fit["row"] for fit in self.about["fits"]))

    @property
    def references(self) -> list[Beside]:
        """What stands beside the rows: references of every cohort, then those that a known law gave."""
        given = self.about.get("references", {})
        return [*Reference, *(reference for reference in LawReference if reference.value in given)]

    @property
    def quick(self) -> bool:
        """Whether the judgement was a quick look."""
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
    def steered(self) -> pl.DataFrame:
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
    def failed(self) -> dict[str, list[str]]:
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
    def prepared(self) -> dict[str, Any]:
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
    def measured(self, row: str | Beside, metric: str, stratum: str = "all", **where: str) -> Measured | None:
        """A number of a row or reference, from the plain samples or, with target and mode, the steered ones."""
        table = self.steered if where else self.scores
        if isinstance(row, LawReference):
            return None if where else self._judged_alone(row.value, metric, stratum)
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
        numbers = table.filter(keep).select(pl.col(column).alias("x"), *ends, "fit", "redrawn").drop_nulls("x")
        if numbers.is_empty():
            return self._judged_alone(column, metric, stratum)
        return summarised(numbers, references=reference)

    def redrawn(self, row: str, metric: str, stratum: str = "all", **where: str) -> NDArray[np.float64]:
        """A number of a row under other draws of the test patients, the mean over fits and samples; often none."""
        table = self.steered if where else self.scores
        if table.is_empty():
            return np.zeros(0)
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & (pl.col("row") == row)
        for name, value in where.items():
            keep = keep & (pl.col(name) == value)
        return mean_draws(table.filter(keep).drop_nulls("value"))

    def real(self, metric: str, stratum: str = "all") -> Measured | None:
        """A number of real patients: of test patients or, where these are the judge, of training patients."""
        test = self.measured(Reference.REAL_TEST, metric, stratum)
        return self.measured(Reference.REAL_TRAIN, metric, stratum) if test is None else test

    def by_fit(self, row: str, metric: str, stratum: str = "all", **where: str) -> dict[int, float]:
        """A number of a row for each fit seed, as the mean over its samples."""
        table = self.steered if where else self.scores
        if table.is_empty():
            return {}
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & (pl.col("row") == row)
        for name, value in where.items():
            keep = keep & (pl.col(name) == value)
        means = table.filter(keep).drop_nulls("value").group_by("fit", maintain_order=True).agg(pl.col("value").mean())
        return dict(zip(means["fit"].to_list(), means["value"].to_list(), strict=True))

    def over_patients(self, row: str, metric: str, stratum: str = "all", **where: str) -> Measured | None:
        """A number of a row with the interval over patients, the fits taken as they are; None where there is none."""
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & (pl.col("row") == row)
        for name, value in where.items():
            keep = keep & (pl.col(name) == value)
        table = self.steered if where else self.scores
        chosen = table if table.is_empty() else table.filter(keep).drop_nulls("value")
        return None if chosen.is_empty() else pooled(chosen)

    def counted(self, row: str, metric: str, stratum: str = "all") -> tuple[int, int]:
        """Of a share of counted things: how many have it and how many there were, over all fits and samples."""
        keep = (pl.col("metric") == metric) & (pl.col("stratum") == stratum) & (pl.col("row") == row)
        chosen = self.scores.filter(keep).drop_nulls("value")
        return int((chosen["value"] * chosen["n"]).round().sum()), int(chosen["n"].sum())

    def _judged_alone(self, reference: str, metric: str, stratum: str) -> Measured | None:
        """A number of a reference that was judged by itself, as a quick look does; None where there is none."""
        if reference not in self.about.get("references", {}):
            return None
        if reference not in self._references:
            self._references[reference] = Scores.open(self.folder / self.about["references"][reference])
        try:
            score = self._references[reference][metric, stratum]
        except KeyError:
            return None
        return None if score.value is None else Measured(score.value, score.low, score.high, 1)

    def goal(self, metric: str) -> str:
        """Which way is better."""
        for table in (self.scores, self.steered):
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


def pooled(scores: pl.DataFrame) -> Measured:
    """The mean of independent scores with the interval that their own intervals give it.

    >>> two = pl.DataFrame({"value": [0.4, 0.6], "low": [0.1, 0.2], "high": [0.7, 1.0], "fit": [1, 2]})
    >>> pooled(two)
    Measured(value=0.5, low=0.25, high=0.75, n=2)
    """
    value, n = float(scores["value"].mean()), scores["fit"].n_unique()  # type: ignore[arg-type]
    halves = ((scores["high"] - scores["low"]) / 2).to_numpy()
    half = float((halves**2).sum() ** 0.5) / len(halves)
    if not math.isfinite(half):
        return Measured(value, None, None, n)
    return Measured(value, value - half, value + half, n)


def mean_draws(scores: pl.DataFrame) -> NDArray[np.float64]:
    """The mean over fits, and over samples of a fit, of what each draw of the test patients gives; empty without.

    >>> mean_draws(pl.DataFrame({"fit": [1, 2], "redrawn": [[0.1, 0.2], [0.3, 0.6]]})).round(9).tolist()
    [0.2, 0.4]
    """
    if "redrawn" not in scores.columns or scores.is_empty():
        return np.zeros(0)
    draws = scores["redrawn"].to_list()
    if len({len(each or ()) for each in draws}) != 1 or not draws[0]:
        return np.zeros(0)
    by_fit: dict[int, list[list[float]]] = {}
    for fit, each in zip(scores["fit"].to_list(), draws, strict=True):
        by_fit.setdefault(fit, []).append(each)
    return np.mean([np.mean(samples, axis=0) for samples in by_fit.values()], axis=0)


def summarised(scores: pl.DataFrame, references: bool = False) -> Measured:
    """The mean; over fits of several seeds an interval of both errors, else the score's own interval.

    The spread over fits holds the luck of fits and of samples. That of the test patients, where they judge, is in what
    each draw of them gives (`both_errors`). A reference is one cohort: it has its own interval.

    >>> one = pl.DataFrame({"x": [0.5], "low": [0.4], "high": [0.6], "fit": [1]})
    >>> summarised(one)
    Measured(value=0.5, low=0.4, high=0.6, n=1)
    >>> three = pl.DataFrame({"x": [0.4, 0.5, 0.6], "low": [0.3] * 3, "high": [0.7] * 3, "fit": [1, 2, 3]})
    >>> mean = summarised(three)
    >>> mean.value, mean.n, round(mean.low, 3)
    (0.5, 3, 0.252)
    """
    means = scores.group_by("fit", maintain_order=True).agg(pl.col("x").mean())["x"].to_numpy()
    value, n = float(means.mean()), len(means)
    if n > 1 and not references:
        half = mean_half(means, spread(mean_draws(scores)))
        return Measured(round(value, 12), value - half, value + half, n)
    if references:
        value = round(value, 12)
    return Measured(value, scores["low"].mean(), scores["high"].mean(), n)  # type: ignore[arg-type]
