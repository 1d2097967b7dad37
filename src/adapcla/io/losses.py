"""How much of a source was lost while it was read, and the refusal to go on with less than nearly all of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from adapcla.console import say
from adapcla.data import Cohort
from adapcla.errors import InputError

#: The share of rows, codes or patients that may be dropped without anybody's word.
MOST_DROPPED = 0.01
#: Where a cohort's card says what share its reader allowed.
ALLOWED = "allow dropped"
#: How the reasons begin by which visits and codes are lost. What a policy leaves out as asked (repeats, second choices
#: of a group, visits after a death or beyond a number) is no loss, and neither is an empty cell.
_LOST = {
    "visits": ("visit rows without", "visits without a readable"),
    "codes": ("codes without", "codes of", "codes outside"),
    "patients": ("patients without a visit", "patients without a readable"),
}


class Loss(NamedTuple):
    """How many of what the source holds were dropped, and why."""

    what: str
    dropped: int
    in_source: int
    reasons: dict[str, int]

    @property
    def share(self) -> float:
        """The share of the source that was dropped."""
        return self.dropped / max(self.in_source, 1)

    def __str__(self) -> str:
        why = ", ".join(f"{n:,} {reason}" for reason, n in self.reasons.items())
        return f"{self.dropped:,} of {self.in_source:,} {self.what} ({self.share:.1%}{': ' if why else ''}{why})"


def losses(cohort: Cohort) -> list[Loss]:
    """What was lost of the source of a cohort, for each of visits, codes and patients of which anything was.

    >>> dropped = {"codes of a form that is not allowed": 2, "repeated codes in a visit": 7}
    >>> card = {"dropped": dropped, "in source": {"visits": 9, "codes": 20, "patients": 1}}
    >>> [str(loss) for loss in losses(Cohort.of([[["A"]]], card=card))]
    ['2 of 20 codes (10.0%: 2 codes of a form that is not allowed)']
    """
    dropped, in_source = cohort.card.get("dropped") or {}, cohort.card.get("in source") or {}
    found = []
    for what, beginnings in _LOST.items():
        reasons = {reason: int(n) for reason, n in dropped.items() if reason.startswith(beginnings)}
        n = sum(reasons.values())
        if n and in_source:
            outside = sum(x for reason, x in reasons.items() if reason.startswith("codes outside"))
            found.append(Loss(what, n, in_source[what] + outside, reasons))
    return found


def say_dropped(cohort: Cohort) -> None:
    """Say on the screen what was left out while a cohort was read, and which words were not known."""
    counts = {**(cohort.card.get("dropped") or {}), **(cohort.card.get("stays") or {})}
    if counts:
        say("left out or not known: " + ", ".join(f"{n:,} {reason}" for reason, n in counts.items()))


def require_kept(cohort: Cohort, allowed: float = MOST_DROPPED, path: str | Path | None = None) -> None:
    """Raise where more than the allowed share of visits, codes or patients was dropped while reading.

    >>> card = {"dropped": {"codes of visits that are not known": 2}, "in source": {"codes": 20, "patients": 1}}
    >>> require_kept(Cohort.of([[["A"]]], card=card), allowed=0.2)
    """
    allowed = max(allowed, float(cohort.card.get(ALLOWED) or 0.0))
    too_many = [loss for loss in losses(cohort) if loss.share > allowed]
    if not too_many:
        return
    enough = min(max(round(max(loss.share for loss in too_many) * 1.1 + 0.005, 2), 0.05), 1.0)
    raise InputError(
        "too much of the source would be lost: " + "; ".join(map(str, too_many)),
        path=path,
        expected=f"at most {allowed:.0%} of the visits, codes and patients dropped",
        remedy="check the columns and the form of codes and dates (`adapcla import … --dry-run` shows them);"
        f" if the loss is meant, go on with --allow-dropped {enough:g}",
    )
