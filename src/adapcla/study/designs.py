"""How a run was designed and what the next one needs: the grid of each row, and the plan of power of each claim."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from scipy import stats

from adapcla.files import read_json
from adapcla.report.tables import Line, Table, shown
from adapcla.study.results import Study
from adapcla.study.ruling import CANNOT_TELL, ERROR, FEWEST_FITS
from adapcla.study.verdicts import Examined, all_examined, claim_gains, verdicts
from adapcla.tables import Cell

#: Chance that a claim whose gain is the one seen is decided with the fits of the plan.
POWER = 0.8
#: More fits than this are not planned: the gain is too small to be worth them.
_MOST = 200


def grid_table(study: Study) -> Table | None:
    """The validation loss of every cell of the grid of each row, the chosen one marked; None without a grid."""
    cells: list[dict[str, Any]] = study.about.get("tuning", [])
    if not cells:
        return None
    names = list(dict.fromkeys((cell["learning_rate"], cell["passes"]) for cell in cells))
    lines = []
    for row in dict.fromkeys(cell["row"] for cell in cells):
        own = {(cell["learning_rate"], cell["passes"]): cell for cell in cells if cell["row"] == row}
        losses = [
            Cell("failed" if own[name]["loss"] is None else f"{own[name]['loss']:.3f}", own[name]["loss"], "", best)
            for name in names
            for best in [bool(own[name]["chosen"])]
        ]
        chosen = next(cell for cell in own.values() if cell["chosen"])
        took = f"{chosen['learning_rate']:g}, {chosen['passes']:g} passes"
        lines.append(Line((Cell(row), *losses, Cell(took), Cell(f"{chosen['steps'] or 0:,}", chosen["steps"]))))
    grid = study.spec["fit"]["grid"]
    fewer = f" on {grid['patients']:,} training patients" if grid["patients"] else ""
    caption = (
        f"Validation loss in nats a visit, without any bias, of one fit per cell (seed {grid['seed']}){fewer}; the "
        "mark is the cell that the row's fits have. Every cell and fit goes to the end of its cosine and keeps its "
        "last weights. Passes are those of all stages together. No test or control patient is seen here."
    )
    columns = ("method", *(f"{rate:g}, {passes:g} passes" for rate, passes in names), "chosen", "steps of the cell")
    return Table("grid", "Rate and passes of each row", caption, columns, tuple(lines))


class Spread(NamedTuple):
    """How paired gains vary: over fits as they are, and the part of it that comes from drawing one sample a fit."""

    gain: float
    over_fits: float
    over_samples: float | None
    n_fits: int


def spread(table: pl.DataFrame) -> Spread:
    """The spread of gains in a table with columns `fit`, `draw` and `gain`.

    Two fits of two samples: the means are 2 and 4, and samples of a fit differ by 2.

    >>> spread(pl.DataFrame({"fit": [1, 1, 2, 2], "draw": [1, 2, 1, 2], "gain": [1.0, 3.0, 3.0, 5.0]}))
    Spread(gain=3.0, over_fits=1.4142135623730951, over_samples=1.4142135623730951, n_fits=2)
    """
    fits = [group["gain"].to_numpy() for _, group in table.group_by("fit", maintain_order=True)]
    means = np.array([gains.mean() for gains in fits])
    within = [gains.var(ddof=1) for gains in fits if len(gains) > 1]
    over = float(means.std(ddof=1)) if len(means) > 1 else math.nan
    return Spread(float(means.mean()), over, float(np.mean(within)) ** 0.5 if within else None, len(means))


def fits_needed(gain: float, deviation: float, level: float, power: float = POWER) -> int | None:
    """The fewest fits of which Student's paired test at this two-sided level finds this gain with this power.

    Textbook case: a gain of one deviation at 5 % needs ten pairs for a power of 80 %.

    >>> fits_needed(1.0, 1.0, 0.05), fits_needed(0.01, 1.0, 0.05)
    (10, None)
    """
    if not deviation > 0:
        return None
    for n in range(FEWEST_FITS, _MOST + 1):
        shift, edge = abs(gain) / deviation * n**0.5, stats.t.isf(level / 2, n - 1)
        if stats.nct.sf(edge, n - 1, shift) >= power:
            return n
    return None


def samples_worth(seen: Spread, fit_seconds: float, draw_seconds: float, n_draws: int) -> int | None:
    """The samples of a fit that give the narrowest interval for the time: the root of (cost × spread) of fit to draw.

    >>> samples_worth(Spread(0.1, 0.02, 0.02, 4), fit_seconds=90, draw_seconds=10, n_draws=2)
    4
    """
    if seen.over_samples is None:
        return None
    between = max(seen.over_fits**2 - seen.over_samples**2 / n_draws, 1e-4 * seen.over_fits**2)
    if not (between > 0 and draw_seconds > 0):
        return None
    return int(np.clip(round((fit_seconds / draw_seconds * seen.over_samples**2 / between) ** 0.5), 1, 20))


def power_table(study: Study) -> Table | None:
    """For each claim between rows: how it varies, and the fits, samples and minutes that would decide it."""
    words = {one.key: one.verdict for one in verdicts(study)}
    lines = [_plan_of(study, one, words[one.key], len(words)) for one in all_examined(study)]
    kept = [line for line in lines if line is not None]
    if not kept:
        return None
    splits = (
        "each fit seed has its own split of the patients, so that the luck of a split is in the spread"
        if study.spec["split"].get("vary")
        else "all fits share one split, whose luck is not in the spread: `split.vary = true` gives each fit its own"
    )
    caption = (
        f"From the spread of gains paired by fit seed: fits that decide the gain seen here with a chance of "
        f"{POWER:.0%} at the level of the first of Holm's steps, and fits that rule out the paper's gain if there is "
        f"none; the samples a fit that are worth their time; minutes of both rows beyond what is done. Fits: {splits}. "
        f"`adapcla run … --decide --minutes M` adds them. More than {_MOST} fits are shown as a dash."
    )
    columns = (
        "claim", "verdict", "gain", "spread over fits", "of it by samples", "fits", "fits to decide", "fits to exclude",
        "samples a fit", "minutes more",
    )  # fmt: skip
    return Table("power", "What would decide", caption, columns, tuple(kept))


def _plan_of(study: Study, one: Examined, verdict: str, n_claims: int) -> Line | None:
    """The line of a claim between rows; None where it has no gains that can be paired."""
    gains = None if one.of is None else claim_gains(study, one.of)
    if one.of is None or gains is None or gains["fit"].n_unique() < 2:
        return None
    seen, paper = spread(gains), one.assessed.paper
    decide = fits_needed(seen.gain, seen.over_fits, ERROR / n_claims)
    exclude = None if paper is None else fits_needed(paper, seen.over_fits, ERROR / n_claims)
    train, draw = np.sum([_seconds(study, row) for row in (one.of.row, one.of.other)], axis=0)
    n_draws = gains.height // seen.n_fits
    wanted = [n for n in (decide, exclude) if n is not None]
    more = 0 if verdict != CANNOT_TELL else max(0, min(wanted) - seen.n_fits) if wanted else None
    minutes = None if more is None else more * (train + n_draws * draw) / 60
    samples = samples_worth(seen, train, draw, n_draws)
    counts = [Cell("–" if n is None else str(n), n) for n in (seen.n_fits, decide, exclude, samples)]
    numbers = [Cell(shown(x), x) for x in (seen.gain, seen.over_fits, seen.over_samples)]
    return Line((Cell(one.claim, note=one.key), Cell(verdict), *numbers, *counts, Cell(shown(minutes), minutes)))


def _seconds(study: Study, row: str) -> tuple[float, float]:
    """Mean seconds of a fit of a row, and of drawing and judging one sample of it."""

    def took(place: str | None) -> float:
        path = study.folder / (place or "") / "stage.json"
        return float(read_json(path).get("seconds", 0.0)) if place and path.is_file() else 0.0

    fits = [fit for fit in study.about["fits"] if fit["row"] == row]
    draws = [took(draw["cohort"]) + took(draw.get("scores")) for fit in fits for draw in fit["draws"]]
    return float(np.mean([took(fit["place"]) for fit in fits])), float(np.mean(draws)) if draws else 0.0
