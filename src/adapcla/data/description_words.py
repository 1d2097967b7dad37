"""The description of a cohort in words and short tables, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from adapcla.disclosure import SMALLEST_COUNT

#: Categories of an attribute, choices and numbers that are shown; the description has them all.
_MOST_CATEGORIES = 10
_TOO_FEW = f"fewer than {SMALLEST_COUNT} patients have them"


def lines(description: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and values of the first table."""
    tail, overlap = description["long_tail"], description["overlap"]
    yield "patients", f"{description['patients']:,}"
    yield "visits", f"{description['visits']:,}"
    yield "codes", f"{description['codes']:,}" + (f", {tail['absent']:,} of them in no visit" if tail["absent"] else "")
    visits = description["visits_per_patient"]
    yield "visits per patient", f"{_spread(visits)}; {percent(visits['one_visit'])} have one"
    yield "codes per visit", _spread(description["codes_per_visit"])
    yield (
        "long tail",
        f"half of all entries are of {tail['codes_with_half_of_entries']:,} codes; "
        f"{percent(tail['rare'])} of the codes have fewer than {tail['rare_below']} visits",
    )
    if overlap["pairs"]:
        others = "–" if overlap["random_visit"] is None else f"{overlap['random_visit']:.3f}"
        yield "next-visit overlap", f"{overlap['next_visit']:.3f} (somebody else's visit: {others}; Jaccard)"
    else:
        yield "next-visit overlap", f"not known: {overlap['reason']}"
    if description["days"] is not None and description["days"]["between_visits"]["median"] is not None:
        yield "days between visits", f"median {description['days']['between_visits']['median']:,.0f}"
    for name, domain in description["domains"].items():
        yield f"domain {name}", f"{domain['codes']:,} codes, {percent(domain['share_of_entries'])} of entries"
    yield from _choices_and_numbers(description)
    for name, categories in description["attributes"].items():
        shown = list(categories.items())[:_MOST_CATEGORIES]
        more = f", {len(categories) - len(shown)} more" if len(categories) > len(shown) else ""
        yield name, ", ".join(f"{category} {n:,}" for category, n in shown) + more
    if description["labels"]:
        yield "labels", f"{len(description['labels'])}"
    if not description["dropped"]:
        yield "dropped", "nothing"


def _choices_and_numbers(description: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Shares of the choices of each group, and the middle of each number; nothing of records that have neither."""
    groups = description.get("groups", {})
    for name, choices in list(groups.items())[:_MOST_CATEGORIES]:
        shares = ", ".join(f"{token} {percent(share)}" for token, share in choices.items())
        yield f"choice {name}", shares or _TOO_FEW
    if len(groups) > _MOST_CATEGORIES:
        yield "more choices", f"{len(groups) - _MOST_CATEGORIES}; --json has them all"
    if numbers := description.get("numbers"):
        few = numbers["of too few patients"]
        yield "numbers", f"{numbers['codes']:,}" + (f"; of {few:,} {_TOO_FEW}" if few else "")
        told = sorted(numbers["told"].items(), key=lambda item: (-item[1]["visits"], item[0]))
        for token, number in told[:_MOST_CATEGORIES]:
            low, middle, high = number["quartiles"]
            spread = f"median {middle:g} {number['unit']} (quartiles {low:g} to {high:g})"
            yield token, f"{number['visits']:,} visits, {spread}"


def parts(description: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Rows of the second table; the band of one visit is there already, as the singletons."""
    yield from description["strata"].items()
    yield from ((f"in {band} visits", part) for band, part in description["bands"].items() if band != "1")


def _spread(values: dict[str, Any]) -> str:
    """Mean, median and maximum as text."""
    if values["mean"] is None:
        return "none"
    return f"mean {values['mean']:.2f}, median {values['median']:g}, most {values['max']:,}"


def percent(share: float | None) -> str:
    """A share as text.

    >>> percent(0.1234), percent(None)
    ('12.3 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"
