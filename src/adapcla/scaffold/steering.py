"""The shift of logits that moves a generated population towards a target prevalence, without retraining."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from adapcla.data import Prevalence, Vocabulary
from adapcla.errors import InputError, UsageError

#: Added to a logit so that its code never comes out: a probability of exactly zero.
NEVER = -np.inf
#: Expected number of visits from which the achieved prevalence of a code is judged.
JUDGED_FROM = 50
#: Standard errors inside which a requested prevalence counts as reached.
SAMPLING_ERRORS = 3.0
#: Expected visits of a code at which half of a correction is believed: a log-odds is then known to about 0.3.
HALF_BELIEVED = 10.0
#: The least share of visits that a target leaves without any code of a choice group: none at all is out of reach.
_LEAST_REST = 1e-6


def logit(share: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-odds.

    >>> logit(np.array([0.5])).tolist()
    [0.0]
    """
    with np.errstate(divide="ignore"):
        return np.log(share) - np.log1p(-share)


def choice_log_odds(
    prevalence: Prevalence, codes: NDArray[np.int64], among: NDArray[np.bool_], smooth: float = 0.0
) -> NDArray[np.float64]:
    """Log-odds of codes of choice groups against no code of the group and those that are not `among` the meant ones.

    `smooth` is added to every share.
    """
    share, rest = np.nan_to_num(prevalence.share)[codes], prevalence.rest(among)[codes]
    return np.asarray(np.log(share + smooth) - np.log(np.maximum(rest, _LEAST_REST) + smooth))


def choice_shares(
    vocabulary: Vocabulary, codes: NDArray[np.int64], log_odds: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The shares of codes of choice groups from their log-odds, as `choice_log_odds` gives them."""
    group, odds = vocabulary.group_of_code[codes], np.exp(log_odds)
    return np.asarray(odds / (1 + np.bincount(group, odds)[group]))


@dataclass(frozen=True, eq=False)
class Steering:
    """What to add to the logits of each code, and which target it serves.

    `delta` is 0 for codes left alone and −∞ for codes that must never come out.
    """

    vocabulary: Vocabulary
    delta: NDArray[np.float64]
    target: Prevalence
    strength: float = 1.0
    #: Codes of the target that the model does not know, listed so that nothing is lost silently.
    unknown: tuple[str, ...] = ()
    #: Codes of the target that are in none or in all visits of the source: no finite shift can move them.
    unreachable: tuple[str, ...] = ()

    @property
    def moves(self) -> bool:
        """Whether any logit changes."""
        return bool((self.delta != 0).any())

    def correct(self, achieved: Prevalence, n_visits: int, damping: float = 1.0) -> Steering:
        """A damped step that closes the gap between the achieved and the target prevalence.

        Codes are moved by the difference of log-odds, with half a visit added to both counts so that a code that
        was not drawn takes a finite step. The step of a code counts n / (n + `HALF_BELIEVED`), where n is the number of
        visits expected to hold it: what few visits say of a rare code is mostly chance.
        """
        goal, share = self.target.share, np.nan_to_num(achieved.on(self.vocabulary).share)
        open_codes = np.isfinite(self.delta) & self.target.known & (goal > 0) & (goal < 1)
        smooth = np.array([0.5 / n_visits])
        step = np.zeros_like(self.delta)
        step[open_codes] = logit((goal[open_codes] + smooth) / (1 + 2 * smooth)) - logit(
            (share[open_codes] + smooth) / (1 + 2 * smooth)
        )
        choices = np.flatnonzero(open_codes & (self.vocabulary.group_of_code >= 0))
        wanted, came = (
            choice_log_odds(prevalence, choices, open_codes, float(smooth[0]))
            for prevalence in (self.target, Prevalence(self.vocabulary, share))
        )
        step[choices] = wanted - came
        for token in self.unreachable:
            step[self.vocabulary.index[token]] = 0.0
        expected = np.nan_to_num(goal) * n_visits
        believed = expected / (expected + HALF_BELIEVED)
        return replace(self, delta=self.delta + damping * believed * np.clip(step, -2.0, 2.0))


def shift(
    source: Prevalence,
    target: Prevalence,
    strength: float = 1.0,
    missing: str = "keep",
) -> Steering:
    """The paper's Δb(c) = logit π_T(c) − logit π̂_S(c), times λ: the only place that knows its sign.

    Codes without a target prevalence are left alone (`missing="keep"`) or never come out (`"drop"`). A target of 0
    means never; a target of 1 is refused. Both prevalences meet by code string.

    For a code of a choice group π / (1 − π) is its share against that of no code of the group and of those without a
    target, so that the shares of a group that is drawn by itself come out as asked. A group that every visit of the
    source has a code of stays so.

    >>> source, target = Prevalence.of({"A": 0.1, "B": 0.2}), Prevalence.of({"A": 0.5})
    >>> shift(source, target).delta.round(3).tolist()
    [2.197, 0.0]
    >>> shift(source, target, missing="drop").delta.round(3).tolist()
    [2.197, -inf]
    """
    if not 0 <= strength <= 1:
        raise UsageError(f"strength {strength}: expected 0 (no steering) to 1 (the full shift)")
    if missing not in ("keep", "drop"):
        raise UsageError(f"missing={missing!r}: expected 'keep' or 'drop'")
    unknown = tuple(t for t in target.vocabulary.tokens if t not in source.vocabulary.index)
    goal = target.on(source.vocabulary)
    certain = (np.nan_to_num(goal.share) >= 1) & (source.vocabulary.group_of_code < 0)
    if certain.any():
        code = source.vocabulary.tokens[int(np.flatnonzero(certain)[0])]
        raise InputError(
            f"target prevalence 1 for code {code}",
            expected="a share below 1: no finite shift puts a code into every visit",
            remedy="give the share as a fraction (percent divided by 100), or leave the code out",
        )
    if strength == 0:
        return Steering(source.vocabulary, np.zeros(len(source.vocabulary)), goal, 0.0, unknown)
    have = np.nan_to_num(source.share)
    above_zero = goal.known & (np.nan_to_num(goal.share) > 0)
    both = above_zero & (have > 0) & (have < 1)
    delta = np.zeros(len(source.vocabulary))
    delta[both] = strength * (logit(goal.share[both]) - logit(have[both]))
    never = (goal.known & ~above_zero) | ((missing == "drop") & ~goal.known)
    choices, moves = _choice_moves(source, goal, both, never)
    delta[choices] = strength * moves
    delta[goal.known & ~above_zero] = NEVER
    if missing == "drop":
        delta[~goal.known] = NEVER
    lost = tuple(source.vocabulary.tokens[i] for i in np.flatnonzero(above_zero & ~both))
    return Steering(source.vocabulary, delta, goal, strength, unknown, lost)


def _choice_moves(
    source: Prevalence, goal: Prevalence, moved: NDArray[np.bool_], never: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The codes of choice groups that move, and by how much in log-odds; what never comes leaves room."""
    group = source.vocabulary.group_of_code
    sums = np.bincount(group[group >= 0], np.nan_to_num(goal.share)[group >= 0], minlength=1)
    if (sums > 1 + 1e-6).any():
        name = source.vocabulary.groups[int(np.argmax(sums))]
        raise InputError(
            f"target prevalences of the choice group {name} that sum to {sums.max():.4g}",
            expected="at most 1: a visit holds at most one of its codes",
            remedy="give shares of all visits",
        )
    codes, among = np.flatnonzero(moved & (group >= 0)), moved | never
    moves = choice_log_odds(goal, codes, among) - choice_log_odds(source, codes, among)
    always = source.rest(among)[codes] < _LEAST_REST
    return codes, np.where(always, np.log(goal.share[codes]) - np.log(source.share[codes]), moves)


@dataclass(frozen=True)
class Achieved:
    """How near a generated population came to the requested prevalences."""

    #: Share of the judged codes within `SAMPLING_ERRORS` standard errors.
    inside_sampling_error: float
    mae: float
    max_gap: float
    n_judged: int
    #: The mean gap that sampling alone leaves, were the visits independent: no steering comes nearer.
    floor: float


def measure_gap(target: Prevalence, generated: Prevalence, n_visits: int) -> Achieved:
    """The gap between requested and achieved prevalence over codes with an expected count of at least 50.

    >>> wish, generated = Prevalence.of({"A": 0.5, "B": 0.001}), Prevalence.of({"A": 0.51, "B": 0.0})
    >>> measure_gap(wish, generated, n_visits=1000)
    Achieved(inside_sampling_error=1.0, mae=0.01, max_gap=0.01, n_judged=1, floor=0.0126)
    """
    goal = target.share
    have = np.nan_to_num(generated.on(target.vocabulary).share)
    judged = target.known & (np.nan_to_num(goal) * n_visits >= JUDGED_FROM)
    if not judged.any():
        return Achieved(float("nan"), float("nan"), float("nan"), 0, float("nan"))
    gap = np.abs(have - goal)[judged]
    error = np.sqrt(goal[judged] * (1 - goal[judged]) / n_visits)
    return Achieved(
        float((gap <= SAMPLING_ERRORS * error).mean()),
        float(round(gap.mean(), 12)),
        float(round(gap.max(), 12)),
        int(judged.sum()),
        float(f"{target.sampling_error(n_visits)[judged].mean():.3g}"),
    )


def by_code(target: Prevalence, before: Prevalence, generated: Prevalence) -> list[dict[str, float | str | None]]:
    """For each requested code its prevalence in the source, the requested one and the achieved one.

    >>> wish, source = Prevalence.of({"A": 0.5}), Prevalence.of({"A": 0.1, "B": 0.2})
    >>> by_code(wish, source, Prevalence.of({"A": 0.4, "B": 0.2}))
    [{'code': 'A', 'before': 0.1, 'requested': 0.5, 'achieved': 0.4}]
    """
    have, came = before.on(target.vocabulary), np.nan_to_num(generated.on(target.vocabulary).share)
    return [
        {
            "code": target.vocabulary.tokens[code],
            "before": None if np.isnan(have.share[code]) else float(have.share[code]),
            "requested": float(target.share[code]),
            "achieved": float(came[code]),
        }
        for code in np.flatnonzero(target.known)
    ]
