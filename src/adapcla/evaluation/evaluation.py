"""All scores of a synthetic cohort in one table: its metrics, its references and the matched comparisons."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from adapcla.console import Meter, meter
from adapcla.data import Cohort, Prevalence, Vocabulary
from adapcla.data.provenance import SEPARATED, require_apart, training_sources
from adapcla.errors import InputError, UsageError
from adapcla.evaluation import cache as score_cache
from adapcla.evaluation.cache import ScoreCache, content_key
from adapcla.evaluation.contract import ALL, Comparison, Metric, Missing, Score
from adapcla.evaluation.domains import domain_scores, scored_by_domain
from adapcla.evaluation.halves import N_HALVES, Found, over_halves
from adapcla.evaluation.matching import Profile
from adapcla.evaluation.references import Halves, Reference, halves, some_patients
from adapcla.evaluation.scores import MATCHED, MATCHED_CODES, Row, Scores, normalised
from adapcla.evaluation.suites import SUITES, ceiling_of, default_suites, references_of, with_whole_record
from adapcla.evaluation.table import metrics_of
from adapcla.evaluation.whole_table import WHOLE_RECORD

Subject = Reference | Literal["synthetic"]
SYNTHETIC: Literal["synthetic"] = "synthetic"
View = Literal["all", "matched", "matched_codes"]
#: Numbers of patients that differ by less than this are the same size.
_SAME_SIZE = 0.01
#: Test patients below which halves of them say nothing of their draw.
FEWEST_HALVED = 8


@dataclass(frozen=True, eq=False)
class _Bench:
    """The cohorts that take the place of the synthetic one, each made when it is needed."""

    base: Comparison

    @cached_property
    def halves(self) -> Halves:
        """The test patients to compare with and those to stand for a perfect generator, in matched views."""
        return halves(self.base.whole.test)

    @cached_property
    def n_matched(self) -> int:
        """Number of patients in matched views."""
        return min(self.base.synthetic.n_patients, self.halves.ceiling.n_patients)

    @cached_property
    def profile(self) -> Profile:
        """Codes and tail codes per visit that both the synthetic and the real cohort have."""
        synthetic, real = (self._cohort(subject, MATCHED) for subject in (SYNTHETIC, Reference.REAL_TEST))
        return Profile.of(synthetic, real, self.base.strata.tail, self.base.seed)

    def _n_patients(self, view: str) -> int:
        """Patients of a view."""
        return self.base.synthetic.n_patients if view == ALL else self.n_matched

    def _cohort(self, subject: Subject, view: str) -> Cohort:
        """The patients of a subject in a view, before thinning."""
        whole, n, seed = self.base.whole, self._n_patients(view), self.base.seed
        if isinstance(subject, Reference):
            if subject is Reference.REAL_TEST and view == ALL:
                return whole.test
            return subject.cohort(whole.train, self.halves.ceiling, n, seed)
        return some_patients(whole.synthetic, n, seed)

    def comparison(self, subject: Subject, view: View) -> Comparison:
        """The comparison of a view with a subject in the place of the synthetic cohort."""
        if view == ALL and subject == SYNTHETIC:
            return self.base
        cohort = self._cohort(subject, view)
        if view == MATCHED_CODES:
            cohort = self.profile.applied(cohort)
        test = None if view == ALL else self.halves.reference
        return self.base.instead(cohort, test, self.base.intervals, coarse=subject != SYNTHETIC)

    def whole(self, subject: Subject) -> Comparison:
        """All patients of a subject against half of the test patients, for scores that their number does not move."""
        cohort = self._cohort(subject, MATCHED if subject is Reference.REAL_TEST else ALL)
        return self.base.instead(cohort, self.halves.reference, self.base.intervals, coarse=subject != SYNTHETIC)

    def other_halves(self, subject: Subject, comparison: Comparison) -> Iterator[Comparison]:
        """The comparison with other halves of the test patients, which are also real patients in other halves."""
        for number in range(1, N_HALVES):
            reference, ceiling = halves(self.base.whole.test, number)
            real = some_patients(ceiling, self.n_matched, self.base.seed)
            synthetic = real if subject is Reference.REAL_TEST else comparison.whole.synthetic
            yield comparison.instead(synthetic, reference).forgetful()

    def key(self, subject: Subject, view: View) -> str:
        """What the scores of a comparison are kept under."""
        base = self.base
        recipe: list[object] = [subject, view, N_HALVES]
        if subject == SYNTHETIC or view == MATCHED_CODES:
            recipe.append(base.whole.synthetic.fingerprint)
        if subject != Reference.REAL_TEST or view != ALL:
            recipe.append(self._n_patients(view))
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
        kept = not (subject == SYNTHETIC and self.bench.base.evidence)
        key = self.bench.key(subject, view)
        known = self.cache.read(key) if kept else {}
        comparison: Comparison | None = None
        label = subject.label if isinstance(subject, Reference) else subject
        fresh = [metric for metric in metrics if score_cache.name_of(metric) not in known]
        for metric in metrics:
            name = score_cache.name_of(metric)
            self.bar.advance(0, note=f"{metric.key} of {label}")
            if name not in known:
                comparison = comparison or self.bench.comparison(subject, view)
                known[name] = _computed(metric, comparison)
            self.bar.advance(1, note=metric.key)
        if comparison is not None:
            self._halve(subject, comparison, [m for m in fresh if view == MATCHED and m.heldout], known)
            if view != MATCHED_CODES:
                self._by_domain(subject, comparison, fresh, known)
        if comparison is not None and kept:
            self.cache.write(key, known)
        return {metric.key: known[score_cache.name_of(metric)] for metric in metrics}

    def _by_domain(self, subject: Subject, comparison: Comparison, metrics: list[Metric], known: Found) -> None:
        """Put scores on the codes of single domains beside those on all codes."""
        if comparison.synthetic.n_patients == 0:
            return
        chosen = [metric for metric in metrics if scored_by_domain(metric, subject != SYNTHETIC)]
        for key, scores in domain_scores(chosen, comparison).items():
            name = score_cache.name_of(next(metric for metric in chosen if metric.key == key))
            known[name] = {**known[name], **scores}

    def _halve(self, subject: Subject, comparison: Comparison, metrics: list[Metric], known: Found) -> None:
        """Put means over halves of the test patients in the place of scores against one half."""
        if comparison.synthetic.n_patients == 0 or self.bench.base.test.n_patients < FEWEST_HALVED:
            return
        # What does not move with the number of patients takes all of them.
        for sized in (True, False):
            chosen = [metric for metric in metrics if metric.sized == sized]
            if not chosen:
                continue
            first = comparison if sized else self.bench.whole(subject)
            own = {m.key: known[score_cache.name_of(m)] if sized else m.compute(first) for m in chosen}
            others = self.bench.other_halves(subject, first)
            found = over_halves(chosen, own, others, subject is Reference.REAL_TEST)
            known.update({score_cache.name_of(metric): found[metric.key] for metric in chosen})


def _computed(metric: Metric, comparison: Comparison) -> dict[str, Score]:
    """The scores of a metric; nothing is claimed of a cohort without patients."""
    if comparison.synthetic.n_patients == 0:
        return {ALL: Missing("there is no synthetic patient").score}
    return metric.compute(comparison)


def _jobs(bench: _Bench, metrics: Sequence[Metric]) -> list[tuple[View, Subject, list[Metric]]]:
    """What must be computed: for each view and subject, the metrics."""
    base = bench.base
    jobs: list[tuple[View, Subject, list[Metric]]] = [("all", SYNTHETIC, list(metrics))]
    # A quick look does without references where they are slow.
    referenced = [metric for metric in metrics if not (base.quick and metric.cost == "slow")]
    for reference in Reference:
        chosen = [metric for metric in referenced if reference in references_of(metric)]
        if reference is Reference.REAL_TEST:
            chosen = [metric for metric in chosen if not _needs_half(metric, base)]
        jobs.append(("all", reference, chosen))
    if bench.n_matched == 0:
        return jobs
    views: tuple[tuple[View, Callable[[Metric], bool]], ...] = (
        ("matched", lambda metric: metric.sized or metric.thinned or metric.heldout),
        ("matched_codes", lambda metric: metric.thinned),
    )
    for view, applies in views:
        chosen = [metric for metric in metrics if applies(metric)]
        jobs.append((view, SYNTHETIC, chosen))
        for reference in Reference:
            jobs.append((view, reference, [metric for metric in chosen if reference in references_of(metric)]))
    halved = [metric for metric in referenced if metric.suite == "privacy" and _needs_half(metric, base)]
    jobs.append(("matched", Reference.REAL_TEST, halved))
    return jobs


def _needs_half(metric: Metric, base: Comparison) -> bool:
    """Whether the test patients are what the metric compares with, so that only a half can stand for real ones."""
    return metric.heldout or (metric.suite == "privacy" and base.control is None)


#: In the place of a reference that was not computed.
_NOTHING = Score(None, 0)


def _rows(base: Comparison, metric: Metric, view: View, scores: dict[Subject, dict[str, Score]]) -> list[Row]:
    """The rows of one metric in one view."""
    suite = SUITES[metric.suite]
    rows = []
    for stratum, score in scores[SYNTHETIC].items():
        beside = {one: scores.get(one, {}).get(stratum, _NOTHING) for one in Reference}
        share, why = normalised(score, beside[suite.floor].value, beside[ceiling_of(metric)].value, metric.goal)
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
                **{one.value: beside[one].value for one in Reference},
                **{f"{one.value}_low": beside[one].low for one in Reference},
                **{f"{one.value}_high": beside[one].high for one in Reference},
                normalised=share,
                normalised_reason=why,
                redrawn=score.redrawn,
            )
        )
    return rows


def _same_size(base: Comparison) -> bool:
    """Whether as many patients were generated as are in the test cohort."""
    synthetic, real = base.synthetic.n_patients, base.test.n_patients
    return abs(synthetic - real) <= _SAME_SIZE * real


def metrics_asked(suites: Iterable[str], vocabulary: Vocabulary | None = None) -> list[Metric]:
    """The metrics of these suites with those of whole records that come along; without a vocabulary, all that may.

    The suites of whole records come along with `fidelity`. What models learn from stays (death, return) comes along
    with `utility`, too, so that models of real patients are asked the same.

    >>> [metric.key for metric in metrics_asked(["utility"]) if metric.suite != "utility"][:2]
    ['mortality_auroc', 'mortality_auprc']
    >>> metrics_asked(["utility"], Vocabulary.of(["A"])) == metrics_of(["utility"])
    True
    """
    names = with_whole_record(suites, vocabulary)
    learned = set(with_whole_record(["fidelity"], vocabulary)) - set(names) if "utility" in names else set()
    return metrics_of(names) + [metric for metric in WHOLE_RECORD if metric.trained and metric.suite in learned]


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
    leave_out: Collection[str] = (),
) -> Scores:
    """Every score of a synthetic cohort with its interval, beside its ceiling, its floor and a photocopier.

    Test or control patients that took part in training, as the origins of the cohorts tell it, are an `InputError`.

    Args:
        train: The patients that the generator learned from.
        test: Real patients that it did not see.
        synthetic: What it wrote.
        suites: Names from `SUITES`; by default all that apply. Where the training patients have numbers or stays, the
            suites of these come along with `fidelity`, and what models learn from them with `utility`.
        control: Real patients used for nothing else; privacy tests compare with them (else with the test patients).
        target: The requested prevalence, if any; adds the suite `control`.
        method: The name in the table.
        seed: Of everything random in judging; recorded in the table.
        quick: Fewer draws, smaller classifiers and no references for slow metrics.
        cache: Folder to keep scores in by content; none by default.
        evidence: Arrays for attacks that need the generator; see the privacy suite.
        observe: Called with the comparison when all scores are computed, for what they do not hold (curves, for one).
        leave_out: Keys of metrics of these suites that are not computed.

    >>> train, test = Cohort.of([[["A", "B"]], [["A", "C"]], [["A", "B"]]]), Cohort.of([[["A", "C"]], [["A", "B"]]])
    >>> scores = evaluate(train, test, train, suites=["tail"])
    >>> scores.values()["pair_seen"], scores.card["training patients apart from test and control"]
    (1.0, 'not known')
    """
    if suites is None:
        suites = default_suites(target is not None)
    for name, cohort in (("train", train), ("test", test)):
        if cohort.n_patients == 0:
            raise InputError(f"no patient in the {name} cohort", remedy="give a cohort with patients")
    known = require_apart(training_sources(train, synthetic), {"test": test, "control": control})
    apart = "yes" if known and synthetic.origin.learned_from else "not known"
    if target is not None:
        suites = [*suites, *(suite.name for suite in SUITES.values() if suite.needs_target)]
    suites = with_whole_record(suites, train.vocabulary)
    metrics = [metric for metric in metrics_asked(suites, train.vocabulary) if metric.key not in leave_out]
    for name in suites:
        if SUITES[name].needs_target and target is None:
            raise UsageError(f"suite {name}: it needs a requested prevalence; give a target")
    base = Comparison.of(train, test, synthetic, control, seed, quick, target=target, evidence=evidence)
    bench = _Bench(base)
    jobs = _jobs(bench, metrics)
    scores: dict[tuple[View, str], dict[Subject, dict[str, Score]]] = {}
    with meter("evaluate", sum(len(chosen) for _, _, chosen in jobs)) as bar:
        runner = _Runner(bench, ScoreCache(None if cache is None else Path(cache)), bar)
        for view, subject, chosen in jobs:
            for key, strata in runner.scores(subject, view, chosen).items():
                scores.setdefault((view, key), {})[subject] = strata
    if observe is not None:
        observe(base)
    return Scores(
        method, seed, tuple(_all_rows(base, metrics, scores)), {**_card(base, bench, metrics), SEPARATED: apart}
    )


def _all_rows(
    base: Comparison, metrics: Sequence[Metric], scores: dict[tuple[View, str], dict[Subject, dict[str, Score]]]
) -> list[Row]:
    """The rows of all metrics in all views."""
    rows = []
    views: tuple[View, ...] = ("all", "matched", "matched_codes")
    for metric in metrics:
        halved = scores.get(("matched", metric.key), {})
        if metric.suite == "privacy" and Reference.REAL_TEST in halved:
            scores["all", metric.key][Reference.REAL_TEST] = halved[Reference.REAL_TEST]
        for view in views:
            if SYNTHETIC in scores.get((view, metric.key), {}):
                rows += _rows(base, metric, view, scores[view, metric.key])
    return rows


def _card(base: Comparison, bench: _Bench, metrics: Sequence[Metric]) -> dict[str, Any]:
    """What the scores rest on."""
    cohorts = {**base.whole._asdict(), "control": base.control}
    return {
        "suites": list(dict.fromkeys(metric.suite for metric in metrics)),
        "quick": base.quick,
        "codes": len(base.vocabulary),
        "patients": {name: cohort.n_patients for name, cohort in cohorts.items() if cohort is not None},
        "visits": {name: cohort.n_visits for name, cohort in cohorts.items() if cohort is not None},
        "matched_patients": bench.n_matched,
        "fingerprints": {name: cohort.fingerprint for name, cohort in cohorts.items() if cohort is not None},
    }
