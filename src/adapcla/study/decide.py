"""Fits are added until every named claim is decided or the time is spent, and looking often is paid for.

Each look has its own part of the page's error, by a spending function of Lan and DeMets (Discrete sequential boundaries
for clinical trials, Biometrika 70, 1983): α·ln(1 + (e − 1)·t) after the share t of the most fits, whose bounds are near
Pocock's. A look is held against what it adds to that, so that the parts sum to α at most whatever the looks have in
common; Holm's rule shares each part among the claims.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from adapcla import files
from adapcla.console import say
from adapcla.errors import UsageError
from adapcla.pipeline.spec import DecideSpec, Spec, key_of
from adapcla.study.plan import Plan
from adapcla.study.results import Study
from adapcla.study.ruling import CANNOT_TELL, ERROR, FEWEST_FITS, rulings
from adapcla.study.verdicts import Examined, all_examined

LOOKS = "looks.json"
Look = dict[str, Any]


def spent(share: float, error: float = ERROR) -> float:
    """The error that may be spent after this share of the most fits.

    >>> [round(spent(share), 4) for share in (0.0, 0.2, 0.5, 1.0, 1.5)]
    [0.0, 0.0148, 0.031, 0.05, 0.05]
    """
    return error * math.log(1 + (math.e - 1) * min(max(share, 0.0), 1.0))


def error_of_look(fits: int, before: int, most: int, error: float = ERROR) -> float:
    """What a look at so many fits adds to the error after one at `before` fits.

    >>> round(error_of_look(4, 0, 20) + error_of_look(20, 4, 20), 4)
    0.05
    """
    return spent(fits / most, error) - spent(before / most, error)


def decided_now(claims: Sequence[Examined], looks: Sequence[Look], fits: int, most: int) -> Look:
    """The look at these claims after so many fits: what it spends, and what it decides that no earlier look did."""
    error = error_of_look(fits, looks[-1]["fits"] if looks else 0, most)
    before = {key for look in looks for key in look["decided"]}
    open_claims = [one for one in claims if one.key not in before]
    words = rulings([one.assessed for one in open_claims], error)
    decided = {one.key: word for one, word in zip(open_claims, words, strict=True) if word != CANNOT_TELL}
    return {"fits": fits, "error": error, "decided": decided}


def more_seeds(seeds: Sequence[int], n: int) -> tuple[int, ...]:
    """The seeds, with the next whole numbers that are not among them until there are n.

    >>> more_seeds((1, 2, 5), 5)
    (1, 2, 5, 6, 7)
    """
    out = list(seeds)
    while len(out) < n:
        out.append(max(out) + 1)
    return tuple(out)


def run_until_decided(
    spec: Spec, out: str | Path, minutes: float, clock: Callable[[], float] = time.monotonic
) -> tuple[Plan, Path]:
    """The plan with all fits that were added, and its page.

    A run that was stopped goes on where it was: its looks are kept beside its results, and what they spent is spent.
    """
    began, design = clock(), spec.decide
    root = Plan(spec, out).folder.root
    of_design = _design_key(spec)
    looks = _kept(root, of_design)
    n_fits = max(len(spec.fit.seeds), looks[-1]["fits"] if looks else FEWEST_FITS)
    while True:
        plan = Plan(_with_seeds(spec, n_fits), out)
        plan.looks = looks
        plan.work()
        plan.write_index()
        claims = _in_question(Study.open(root), design)
        if not looks or looks[-1]["fits"] < n_fits:
            looks = [*looks, decided_now(claims, looks, n_fits, max(design.most, n_fits))]
            files.write_json(root / LOOKS, {"design": of_design, "looks": looks})
        plan.looks = looks
        undecided = _undecided(claims, looks)
        say(f"{n_fits} fits of each row: {len(undecided)} claims are not decided")
        following = min(n_fits + design.step, design.most)
        after = Plan(_with_seeds(spec, following), out)
        needed = sum(cost for step, cost in zip(after.steps, after.expected(), strict=True) if not step.done)
        if not undecided or following <= n_fits or clock() - began + needed > 60 * minutes:
            return plan, plan.run()
        n_fits = following


def _with_seeds(spec: Spec, n: int) -> Spec:
    fit = spec.fit.model_copy(update={"seeds": more_seeds(spec.fit.seeds, n)})
    return spec.model_copy(update={"fit": fit})


def _design_key(spec: Spec) -> str:
    """What looks belong to: everything that a claim's numbers depend on but the fits, whose number grows."""
    content = spec.model_dump(mode="json", exclude={"title": True, "summary": True, "analyse": True, "fit": {"seeds"}})
    return key_of(content)


def _kept(root: Path, of_design: str) -> list[Look]:
    """The looks of an earlier run of the same design."""
    path = root / LOOKS
    content = files.read_json(path) if path.is_file() else {}
    return list(content["looks"]) if content.get("design") == of_design else []


def _in_question(study: Study, design: DecideSpec) -> list[Examined]:
    """The claims that share the error: the named ones, or all between rows, and those about steering and copies."""
    claims = all_examined(study)
    if not design.claims:
        return claims
    named = set(design.claims)
    known = {(one.of.row, one.of.other, one.of.metric) for one in claims if one.of is not None}
    for missing in sorted(named - known):
        raise UsageError(
            f"decide.claims: no claim of this run is about {' over '.join(missing[:2])} on {missing[2]}\n"
            "to do: name row, other row and metric of a line under “What held here” whose rows and suites are run"
        )
    return [one for one in claims if one.of is None or (one.of.row, one.of.other, one.of.metric) in named]


def _undecided(claims: Sequence[Examined], looks: Sequence[Look]) -> list[str]:
    """The claims between rows that no look has decided; claims over patients are not what fits are added for."""
    decided = {key for look in looks for key in look["decided"]}
    return [one.key for one in claims if one.of is not None and one.key not in decided]
