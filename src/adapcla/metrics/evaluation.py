"""Everything there is to say about a synthetic cohort: metrics, references, matched comparisons, one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

from adapcla.console import Meter, meter
from adapcla.errors import InputError, UsageError
from adapcla.metrics import cache as score_cache
from adapcla.metrics.cache import ScoreCache, content_key
from adapcla.metrics.contract import ALL, METRICS, Comparison, Metric, Score
from adapcla.metrics.matching import Profile
from adapcla.metrics.references import Halves, halves, marginal, some_patients, train_copy
from adapcla.metrics.scores import MATCHED, MATCHED_CODES, Row, Scores, normalised
from adapcla.records import Cohort, Prevalence

#: Where the metrics of each suite live; a module registers them when it is imported.
SUITES = {
    "tail": "adapcla.metrics.plausibility",
    "fidelity": "adapcla.metrics.fidelity",
    "control": "adapcla.metrics.control",
    "utility": "adapcla.metrics.utility",
    "reliability": "adapcla.metrics.reliability",
    "privacy": "adapcla.metrics.privacy",
}
Subject = Literal["synthetic", "real_test", "train_copy", "marginal"]
REFERENCES: tuple[Subject, ...] = ("real_test", "train_copy", "marginal")
View = Literal["all", "matched", "matched_codes"]
#: Numbers of patients that differ by less than this are the same size.
_SAME_SIZE = 0.01


@dataclass(frozen=True)
class Anchors:
    """Which references stand for the best and the worst of a suite, and which are worth computing."""

    ceiling: Subject = "real_test"
    floor: Subject = "marginal"
    subjects: tuple[Subject, ...] = REFERENCES


#: A classifier trained on the test patients and judged on them says nothing: there the ceiling is real training
#: patients. In privacy the worst is the photocopier.
ANCHORS = {
    "utility": Anchors(ceiling="train_copy", subjects=("train_copy", "marginal")),
    "reliability": Anchors(ceiling="train_copy", subjects=("train_copy", "marginal")),
    "privacy": Anchors(floor="train_copy"),
}


def anchors(suite: str) -> Anchors:
    """The anchors of a suite.

    >>> anchors("tail").ceiling, anchors("privacy").floor
    ('real_test', 'train_copy')
    """
    return ANCHORS.get(suite, Anchors())


def metrics_of(suites: Iterable[str]) -> list[Metric]:
    """The metrics of these suites, imported on demand.

    >>> [metric.key for metric in metrics_of(["tail"])][:2]
    ['pair_seen', 'tail_pair_seen']
    """
    wanted = list(dict.fromkeys(suites))
    for suite in wanted:
        if suite not in SUITES:
            raise UsageError(f"suite {suite!r}: expected one of {', '.join(SUITES)}")
        import_module(SUITES[suite])
    return [metric for suite in wanted for metric in METRICS.values() if metric.suite == suite]


@dataclass(frozen=True, eq=False)
class _Bench:
    """The cohorts that take the place of the synthetic one, each made when it is needed."""

    base: Comparison

    @cached_property
    def halves(self) -> Halves:
        """The test patients to compare with and those to stand for a perfect generator, in matched views."""
        return halves(self.base.test)

    @cached_property
    def n_matched(self) -> int:
        """Number of patients in matched views."""
        return min(self.base.synthetic.n_patients, self.halves.ceiling.n_patients)

    @cached_property
    def profile(self) -> Profile:
        """Codes and tail codes a visit that both the synthetic and the real cohort have."""
        made, real = (self._plain(subject, self.n_matched, MATCHED) for subject in ("synthetic", "real_test"))
        return Profile.of(made, real, self.base.strata.tail, self.base.seed)

    def _plain(self, subject: str, n: int, view: str) -> Cohort:
        """A cohort of `n` patients, before thinning."""
        base = self.base
        if subject == "train_copy":
            return train_copy(base.train, n, base.seed)
        if subject == "marginal":
            return marginal(base.train, n, base.seed)
        if subject == "synthetic":
            return some_patients(base.synthetic, n, base.seed)
        return some_patients(self.halves.ceiling, n, base.seed) if view != ALL else base.test

    def comparison(self, subject: Subject, view: View) -> Comparison:
        """The comparison of a view with a subject in the place of the synthetic cohort."""
        if view == ALL and subject == "synthetic":
            return self.base
        n = self.base.synthetic.n_patients if view == ALL else self.n_matched
        cohort = self._plain(subject, n, view)
        if view == MATCHED_CODES:
            cohort = self.profile.applied(cohort)
        test = None if view == ALL else self.halves.reference
        return self.base.instead(cohort, test, intervals=subject == "synthetic" and self.base.intervals)

    def key(self, subject: Subject, view: View) -> str:
        """What the scores of a comparison are kept under."""
        base = self.base
        recipe: list[object] = [subject, view]
        if subject == "synthetic" or view == MATCHED_CODES:
            recipe.append(base.synthetic.fingerprint)
        if subject != "real_test" or view != ALL:
            recipe.append(base.synthetic.n_patients if view == ALL else self.n_matched)
        return content_key(base, *recipe)


@dataclass(frozen=True, eq=False)
class _Runner:
    """Computes metrics on comparisons, from the cache where it can, and says what it is doing."""

    bench: _Bench
    cache: ScoreCache
    bar: Meter

    def scores(self, subject: Subject, view: View, metrics: Sequence[Metric]) -> dict[str, dict[str, Score]]:
        """The scores of some metrics on one comparison, by key and stratum."""
        if not metrics:
            return {}
        # Evidence comes from outside the cohorts, so their content does not identify such scores.
        kept = not (subject == "synthetic" and self.bench.base.evidence)
        key = self.bench.key(subject, view)
        known = self.cache.read(key) if kept else {}
        comparison: Comparison | None = None
        for metric in metrics:
            name = score_cache.name_of(metric)
            self.bar.advance(0, note=f"{metric.key} of {subject.replace('_', ' ')}")
            if name not in known:
                comparison = comparison or self.bench.comparison(subject, view)
                known[name] = _computed(metric, comparison)
            self.bar.advance(1, note=metric.key)
        if comparison is not None and kept:
            self.cache.write(key, known)
        return {metric.key: known[score_cache.name_of(metric)] for metric in metrics}


def _computed(metric: Metric, comparison: Comparison) -> dict[str, Score]:
    """The scores of a metric; nothing is claimed of a cohort without patients."""
    if comparison.synthetic.n_patients == 0:
        return {ALL: Score.missing("there is no synthetic patient")}
    return metric.compute(comparison)


def _plan(bench: _Bench, metrics: Sequence[Metric]) -> list[tuple[View, Subject, list[Metric]]]:
    """What must be computed: for each view and subject, the metrics."""
    base = bench.base
    plan: list[tuple[View, Subject, list[Metric]]] = [("all", "synthetic", list(metrics))]
    # A quick look does without references where they are slow.
    referenced = [metric for metric in metrics if not (base.quick and metric.cost == "slow")]
    for subject in REFERENCES:
        wanted = [metric for metric in referenced if subject in anchors(metric.suite).subjects]
        if subject == "real_test":
            wanted = [metric for metric in wanted if not _needs_half(metric, base)]
        plan.append(("all", subject, wanted))
    if bench.n_matched == 0:
        return plan
    views: tuple[tuple[View, Callable[[Metric], bool]], ...] = (
        ("matched", lambda metric: metric.sized or metric.thinned or metric.heldout),
        ("matched_codes", lambda metric: metric.thinned),
    )
    for view, applies in views:
        chosen = [metric for metric in metrics if applies(metric)]
        plan += [(view, subject, chosen) for subject in ("synthetic", *REFERENCES)]
    halved = [metric for metric in referenced if metric.suite == "privacy" and _needs_half(metric, base)]
    plan.append(("matched", "real_test", halved))
    return plan


def _needs_half(metric: Metric, base: Comparison) -> bool:
    """Whether the test patients are what the metric compares with, so that only a half can stand for real ones."""
    return metric.heldout or (metric.suite == "privacy" and base.control is None)


def _rows(base: Comparison, metric: Metric, view: View, found: dict[Subject, dict[str, Score]]) -> list[Row]:
    """The rows of one metric in one view."""
    ends = anchors(metric.suite)
    rows = []
    for stratum, score in found["synthetic"].items():
        beside = {name: found[name][stratum].value if stratum in found.get(name, {}) else None for name in REFERENCES}
        share, why = normalised(score, beside[ends.floor], beside[ends.ceiling], metric.goal)
        if view == ALL and metric.sized and share is not None and not _same_size(base):
            share, why = None, "it depends on size, and the cohorts differ; see stratum matched"
        if view == ALL and metric.heldout and score.value is not None:
            why = "the test patients are the reference; see stratum matched"
        label = stratum if view == ALL else (view if stratum == ALL else f"{view}:{stratum}")
        rows.append(
            Row(
                metric.key,
                metric.suite,
                metric.goal,
                label,
                score.value,
                score.low,
                score.high,
                score.n,
                score.reason,
                **beside,
                normalised=share,
                normalised_reason=why,
            )
        )
    return rows


def _same_size(base: Comparison) -> bool:
    """Whether as many patients were generated as are in the test cohort."""
    made, real = base.synthetic.n_patients, base.test.n_patients
    return abs(made - real) <= _SAME_SIZE * real


def evaluate(
    train: Cohort,
    test: Cohort,
    synthetic: Cohort,
    suites: Sequence[str] | None = None,
    control: Cohort | None = None,
    target: Prevalence | None = None,
    method: str = "synthetic",
    seed: int = 1,
    quick: bool = False,
    cache: str | Path | None = None,
    evidence: dict[str, Any] | None = None,
    observe: Callable[[Comparison], None] | None = None,
) -> Scores:
    """Every score of a synthetic cohort with its interval, beside its ceiling, its floor and a photocopier.

    Args:
        train: The patients that the generator learned from.
        test: Real patients that it did not see.
        synthetic: What it wrote.
        suites: Names from `SUITES`; by default all that apply.
        control: Real patients used for nothing else; privacy tests compare with them (else with the test patients).
        target: The prevalence that was asked for, if any; adds the control suite.
        method: The name in the table.
        seed: Of everything random in judging; recorded in the table.
        quick: Fewer draws, smaller classifiers and no references for slow metrics.
        cache: Folder to keep scores in by content; none by default.
        evidence: Arrays for attacks that need the generator; see the privacy suite.
        observe: Called with the comparison when all scores are made, for what they do not hold (curves, for one).

    >>> train = Cohort.of([[["A", "B"]], [["A", "C"]], [["A", "B"]]])
    >>> evaluate(train, train, train, suites=["tail"]).values()["pair_seen"]
    1.0
    """
    if suites is None:
        suites = [suite for suite in SUITES if suite != "control" or target is not None]
    if "control" in suites and target is None:
        raise UsageError("suite control: it needs the prevalence that was asked for; give a target")
    for name, cohort in (("train", train), ("test", test)):
        if cohort.n_patients == 0:
            raise InputError(f"no patient in the {name} cohort", remedy="give a cohort with patients")
    metrics = metrics_of([*suites, *(["control"] if target is not None else [])])
    base = Comparison.of(train, test, synthetic, control, seed, quick, target=target, evidence=evidence)
    bench = _Bench(base)
    plan = _plan(bench, metrics)
    found: dict[tuple[View, str], dict[Subject, dict[str, Score]]] = {}
    with meter("evaluate", sum(len(chosen) for _, _, chosen in plan)) as bar:
        runner = _Runner(bench, ScoreCache(None if cache is None else Path(cache)), bar)
        for view, subject, chosen in plan:
            for key, strata in runner.scores(subject, view, chosen).items():
                found.setdefault((view, key), {})[subject] = strata
    if observe is not None:
        observe(base)
    return Scores(method, seed, tuple(_all_rows(base, metrics, found)), _card(base, bench, metrics))


def _all_rows(
    base: Comparison, metrics: Sequence[Metric], found: dict[tuple[View, str], dict[Subject, dict[str, Score]]]
) -> list[Row]:
    """The rows of all metrics in all views."""
    rows = []
    views: tuple[View, ...] = ("all", "matched", "matched_codes")
    for metric in metrics:
        halved = found.get(("matched", metric.key), {})
        if metric.suite == "privacy" and "real_test" in halved:
            found["all", metric.key]["real_test"] = halved["real_test"]
        for view in views:
            if "synthetic" in found.get((view, metric.key), {}):
                rows += _rows(base, metric, view, found[view, metric.key])
    return rows


def _card(base: Comparison, bench: _Bench, metrics: Sequence[Metric]) -> dict[str, Any]:
    """What the scores rest on."""
    cohorts = {"train": base.train, "test": base.test, "synthetic": base.synthetic, "control": base.control}
    return {
        "suites": list(dict.fromkeys(metric.suite for metric in metrics)),
        "quick": base.quick,
        "codes": len(base.vocabulary),
        "patients": {name: cohort.n_patients for name, cohort in cohorts.items() if cohort is not None},
        "visits": {name: cohort.n_visits for name, cohort in cohorts.items() if cohort is not None},
        "matched_patients": bench.n_matched,
        "fingerprints": {name: cohort.fingerprint for name, cohort in cohorts.items() if cohort is not None},
    }
