"""A cohort in numbers: sizes, strata, the long tail and how visits resemble one another; as a dict, and in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla.data.cohort import Cohort
from adapcla.data.prevalence import COUNT_BANDS, TAIL_CUTS, Strata
from adapcla.disclosure import MIN_COUNT
from adapcla.seeds import random_stream

#: Pairs of visits compared at most; beyond that a seeded sample stands for all.
MOST_PAIRS = 100_000
#: A code of fewer visits than this counts as rare in the summary of the long tail.
FEW_VISITS = 10


def describe(cohort: Cohort, seed: int = 1) -> dict[str, Any]:
    """The aggregate description of a cohort, ready for JSON: counts and shares, nothing of a single patient.

    >>> numbers = describe(Cohort.of([[["A", "B"], ["B"]], [["C"]]]))
    >>> numbers["patients"], numbers["visits"], numbers["codes"], numbers["overlap"]["next_visit"]
    (2, 3, 3, 0.5)
    """
    strata = cohort.strata()
    return {
        "source": str(cohort.card.get("source", "unknown")),
        "patients": cohort.n_patients,
        "visits": cohort.n_visits,
        "codes": cohort.n_codes,
        "entries": cohort.n_entries,
        "codes_present": int(strata.present.sum()),
        "codes_per_visit": spread(cohort.codes_per_visit),
        "visits_per_patient": {
            **spread(cohort.visits_per_patient),
            "one_visit": _share((cohort.visits_per_patient == 1).sum(), cohort.n_patients),
        },
        "strata": _cuts(strata),
        "bands": {name: _part(strata, strata.band(name)) for name in COUNT_BANDS},
        "long_tail": long_tail(cohort.visit_counts),
        "overlap": overlap(cohort, seed),
        "days": _days(cohort),
        "domains": _domains(cohort),
        **_numbers(cohort),
        **_groups(cohort),
        "attributes": _attributes(cohort),
        "labels": _labels(cohort),
        "dropped": dict(cohort.card.get("dropped") or {}),
        "fingerprint": cohort.fingerprint,
    }


def spread(values: NDArray[np.integer[Any]]) -> dict[str, float | None]:
    """Mean, standard deviation, median, 90th percentile and maximum of some counts.

    >>> spread(np.array([1, 1, 4]))
    {'mean': 2.0, 'sd': 1.414214, 'median': 1.0, 'p90': 3.4, 'max': 4}
    """
    if len(values) == 0:
        return dict.fromkeys(("mean", "sd", "median", "p90", "max"))
    return {
        "mean": _rounded(values.mean()),
        "sd": _rounded(values.std()),
        "median": _rounded(np.median(values)),
        "p90": _rounded(np.quantile(values, 0.9)),
        "max": int(values.max()),
    }


def long_tail(counts: NDArray[np.int64]) -> dict[str, Any]:
    """How unevenly the codes are used: the frequency–rank curve at round ranks, and a few numbers that sum it up.

    `slope` is the least-squares slope of log count on log rank over the codes that occur.

    >>> numbers = long_tail(np.array([8, 4, 2, 2, 0]))
    >>> numbers["curve"], numbers["codes_with_half_of_entries"], numbers["rare"], numbers["absent"]
    ([[1, 8], [2, 4], [4, 2]], 1, 1.0, 1)
    """
    ordered = np.sort(counts[counts > 0])[::-1]
    n = len(ordered)
    ranks = {step * 10**power for power in range(7) for step in (1, 2, 5)}
    shown = sorted(rank for rank in ranks | {n} if 0 < rank <= n)
    log_rank, log_count = np.log(np.arange(1, n + 1)), np.log(ordered)
    half = int(np.searchsorted(np.cumsum(ordered), ordered.sum() / 2)) + 1 if n else 0
    return {
        "curve": [[r, int(ordered[r - 1])] for r in shown],
        "slope": _rounded(np.polyfit(log_rank, log_count, 1)[0]) if n > 1 else None,
        "codes_with_half_of_entries": half,
        "rare": _share((counts < FEW_VISITS).sum() - (counts == 0).sum(), n),
        "rare_below": FEW_VISITS,
        "absent": int((counts == 0).sum()),
    }


def overlap(cohort: Cohort, seed: int = 1) -> dict[str, Any]:
    """Mean Jaccard overlap of a visit with the patient's next, and with a visit of somebody drawn at random.

    >>> overlap(Cohort.of([[["A"], ["A"]]]))["next_visit"]
    1.0
    """
    first = cohort.visits_with_next
    if len(first) == 0:
        return {"next_visit": None, "random_visit": None, "pairs": 0, "reason": "no patient has two visits"}
    rng = random_stream(seed, "describe/overlap")
    if len(first) > MOST_PAIRS:
        first = np.sort(rng.choice(first, MOST_PAIRS, replace=False))
    anybody = rng.integers(0, cohort.n_visits, len(first))
    # Looked up for the pairs alone: a list of everybody's visits is long.
    of_anybody, of_first = (np.searchsorted(cohort.patient_starts, visits, "right") for visits in (anybody, first))
    other = of_anybody != of_first
    return {
        "next_visit": _rounded(cohort.jaccard(first, first + 1).mean()),
        "random_visit": _rounded(cohort.jaccard(first[other], anybody[other]).mean()) if other.any() else None,
        "pairs": len(first),
    }


def _cuts(strata: Strata) -> dict[str, Any]:
    """Size and weight of head, mid and tail, and of the other cuts of the tail."""
    parts = {"head": strata.head, "mid": strata.mid, "tail": strata.tail}
    parts |= {name: strata.cut(name) for name in TAIL_CUTS if name != "third"}
    return {name: _part(strata, mask) for name, mask in parts.items()}


def _part(strata: Strata, mask: NDArray[np.bool_]) -> dict[str, Any]:
    """Number of codes, their share of all present, their share of all entries, lowest and highest count."""
    counts = strata.counts[mask]
    return {
        "codes": len(counts),
        "share_of_codes": _share(len(counts), strata.present.sum()),
        "share_of_entries": _share(counts.sum(), strata.counts.sum()),
        "lowest": int(counts.min()) if len(counts) else None,
        "highest": int(counts.max()) if len(counts) else None,
    }


def _days(cohort: Cohort) -> dict[str, Any] | None:
    """Days between neighbouring visits and from first to last, or None where the source has no dates."""
    if cohort.days is None:
        return None
    days = np.asarray(cohort.days)
    gaps = np.diff(days)[cohort.visits_with_next]
    last = days[cohort.last_visits]
    return {"between_visits": spread(gaps), "first_to_last": spread(last[cohort.visits_per_patient > 1])}


def _domains(cohort: Cohort) -> dict[str, Any]:
    """Number of codes and share of entries of each domain."""
    return {
        domain: {
            "codes": int((mask := cohort.vocabulary.domain_mask(domain)).sum()),
            "share_of_entries": _share(cohort.visit_counts[mask].sum(), cohort.n_entries),
        }
        for domain in cohort.vocabulary.domains
    }


def _numbers(cohort: Cohort) -> dict[str, Any]:
    """Unit, visits and quartiles of each number that enough patients have, and how many others there are."""
    if cohort.values is None:
        return {}
    numbers = np.flatnonzero(cohort.vocabulary.numbers)
    order = np.argsort(np.asarray(cohort.codes), kind="stable")
    codes = np.asarray(cohort.codes)[order]
    told = {}
    for number in numbers[cohort.patient_counts[numbers] >= MIN_COUNT]:
        start, end = np.searchsorted(codes, (number, number + 1))
        values = np.asarray(cohort.values)[order[start:end]]
        code = cohort.vocabulary.codes[number]
        told[code.token] = {
            "unit": code.unit,
            "visits": int(end - start),
            "quartiles": [_rounded(quartile) for quartile in np.quantile(values, (0.25, 0.5, 0.75))],
        }
    return {"numbers": {"codes": len(numbers), "of too few patients": len(numbers) - len(told), "told": told}}


def _groups(cohort: Cohort) -> dict[str, Any]:
    """Of each choice group the share of visits that hold each of its codes, of codes that enough patients have."""
    if not cohort.vocabulary.groups:
        return {}
    shares: dict[str, dict[str, float | None]] = {name: {} for name in cohort.vocabulary.groups}
    counts = zip(cohort.vocabulary.codes, cohort.visit_counts, cohort.patient_counts, strict=True)
    for code, n, n_patients in counts:
        if code.group and n_patients >= MIN_COUNT:
            shares[code.group][code.token] = _share(n, cohort.n_visits)
    return {"groups": shares}


def _attributes(cohort: Cohort) -> dict[str, dict[str, int | None]]:
    """Patients in each category of each attribute; None in the place of a count that is too small to publish."""
    out = {}
    for name, attribute in sorted(cohort.attributes.items()):
        values = np.asarray(attribute.values)
        counts = np.bincount(values[values >= 0], minlength=len(attribute.categories)).tolist()
        cells = dict(zip(attribute.categories, counts, strict=True))
        if (values < 0).any():
            cells["unknown"] = int((values < 0).sum())
        out[name] = suppress_small_counts(cells)
    return out


def suppress_small_counts(cells: dict[str, int], smallest: int = MIN_COUNT) -> dict[str, int | None]:
    """The parts of a whole with None for each count of 1 to `smallest` − 1, and for the next count where one is alone.

    The whole is known, so that a single missing part could be read off the others.

    >>> suppress_small_counts({"F": 400, "M": 380, "X": 1})
    {'F': 400, 'M': None, 'X': None}
    """
    small = {name for name, n in cells.items() if 0 < n < smallest}
    others = [name for name, n in cells.items() if n >= smallest]
    if len(small) == 1 and others:
        small.add(min(others, key=lambda name: (cells[name], name)))
    return {name: None if name in small else n for name, n in cells.items()}


def _labels(cohort: Cohort) -> dict[str, float | None]:
    """Share of patients with each label; None where too few patients have it, or lack it, to publish."""
    if cohort.labels is None:
        return {}
    totals = np.asarray(cohort.labels, dtype=np.int64).sum(axis=0).tolist()
    shares: dict[str, float | None] = {}
    for name, n in zip(cohort.label_names, totals, strict=True):
        small = 0 < n < MIN_COUNT or 0 < cohort.n_patients - n < MIN_COUNT
        shares[name] = None if small else _share(n, cohort.n_patients)
    return shares


def _share(part: float, whole: float) -> float | None:
    """part / whole, or None where there is no whole."""
    return _rounded(float(part) / float(whole)) if whole else None


def _rounded(value: float) -> float:
    """Six decimals: enough for people, and the same bytes on every machine."""
    return round(float(value), 6)


# ---- in words -------------------------------------------------------------------------------------------
#: Categories of an attribute, choices and numbers that are shown; the description has them all.
_MOST_CATEGORIES = 10
_TOO_FEW = f"fewer than {MIN_COUNT} patients have them"


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
        yield name, ", ".join(f"{category} {_patients(n)}" for category, n in shown) + more
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


def _patients(n: int | None) -> str:
    """A number of patients as text.

    >>> _patients(1234), _patients(None)
    ('1,234', 'fewer than 11, or withheld beside such')
    """
    return f"fewer than {MIN_COUNT}, or withheld beside such" if n is None else f"{n:,}"


def percent(share: float | None) -> str:
    """A share as text.

    >>> percent(0.1234), percent(None)
    ('12.3 %', '–')
    """
    return "–" if share is None else f"{100 * share:.1f} %"
