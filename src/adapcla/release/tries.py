"""What is tried in turn where the privacy gate is not met: each try is more careful than the one before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from adapcla.errors import UsageError
from adapcla.generation.generator import generator_for
from adapcla.release.settings import ReleaseSettings
from adapcla.training.settings import METHODS

#: Repairs at most.
MOST_REPAIRS = 3
#: ε of the last repair.
EPSILON = 8.0


@dataclass(frozen=True)
class Try:
    """One way to make the release: how many patients a code needs, and what is changed in the method."""

    number: int
    #: What is different from the try before, for people.
    what: str
    min_patients: int
    settings: dict[str, Any] = field(default_factory=dict)
    #: Share of the passes that are taken.
    passes: float = 1.0


def tries(release: ReleaseSettings, method: str, settings: dict[str, Any]) -> tuple[Try, ...]:
    """The first try, and the repairs where they are asked for.

    >>> [each.min_patients for each in tries(ReleaseSettings(repair=True), "tailwise", {})]
    [11, 22, 22, 22]
    >>> tries(ReleaseSettings(repair=True), "tailwise", {})[-1].settings["privacy"]
    {'epsilon': 8.0}
    """
    first = Try(1, "as asked", release.min_patients, dict(settings))
    if not release.repair:
        return (first,)
    more = 2 * release.min_patients
    second = Try(2, f"a code needs {more} patients", more, first.settings)
    limits = _stricter(method, settings)
    careful = " and ".join([*(["stricter limits on what few patients teach"] if limits else []), "half the passes"])
    third = Try(3, careful, more, {**settings, **limits}, 0.5)
    out = [first, second, third]
    private = {**third.settings, "privacy": {"epsilon": EPSILON}}
    if limits:
        # Pairs of codes are counted without noise, which ε would not cover.
        private["prior"] = False
    if _can_be_private(method, private):
        out.append(Try(4, f"differential privacy, ε = {EPSILON:g}", more, private))
    return tuple(out[: MOST_REPAIRS + 1])


def _can_be_private(method: str, settings: dict[str, Any]) -> bool:
    """Whether a method can be trained with differential privacy.

    >>> _can_be_private("adapcla", {"privacy": {"epsilon": 8.0}}), _can_be_private("marginal", {"privacy": {}})
    (True, False)
    """
    try:
        generator_for(method, **settings)
    except UsageError:
        return False
    return True


def _stricter(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Stronger limits on how far a code or pair of few patients is believed, where the method has such limits."""
    architecture = METHODS[method].settings.architecture.model_dump()
    out: dict[str, Any] = {}
    for name, factor in (("prior_strength", 4.0), ("shrinkage", 3.0)):
        if architecture.get("prior") and architecture.get(name):
            out[name] = factor * float(settings.get(name, architecture[name]))
    return out
