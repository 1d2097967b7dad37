"""All scores of a synthetic cohort: its metrics, its references, and the views at matched numbers of patients.

The views that a metric is scored in:

- `all`: the patients as they were given, against all training and all test patients.
- `matched`: as many synthetic as real patients, where the score moves with their number (`Metric.sized`); half of the
  test patients stand for a perfect generator, the other half is what a metric of held-out patients compares with.
- `matched_codes`: the same after visits were thinned to as many codes and rare codes (`Metric.thinned`).
- `halves`: all synthetic patients against halves of the test patients, for metrics of held-out patients that do not
  move with the number of synthetic ones.

Scores against halves are means over `N_HALVES` of them.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from adapcla import files
from adapcla.console import Meter, meter
from adapcla.data import Cohort, Prevalence
from adapcla.data.provenance import SEPARATED, require_apart, training_sources
from adapcla.engine import n_workers, run_tasks
from adapcla.errors import InputError, UsageError
from adapcla.evaluation.bootstrap import mean_of_halves
from adapcla.evaluation.comparison import ALL, Comparison, Missing, Score
from adapcla.evaluation.metric import (
    METRICS,
    SUITES,
    Metric,
    ceiling_of,
    default_suites,
    metrics_for,
    references_of,
    with_whole_record,
)
from adapcla.evaluation.references import SAMPLE, Halves, Profile, Reference, halves, some_patients
from adapcla.evaluation.scores import HALVES, MATCHED, Row, Scores, normalise
from adapcla.version import __version__

Subject = Reference | Literal["synthetic"]
SYNTHETIC: Literal["synthetic"] = "synthetic"
View = Literal["all", "matched", "matched_codes", "halves"]
VIEWS: tuple[View, ...] = ("all", "matched", "halves", "matched_codes")
#: The scores of some metrics, by key (in a cache by name) and stratum.
Found = dict[str, dict[str, Score]]
#: For each view and subject the metrics that are computed.
_Jobs = list[tuple[View, Subject, list[Metric]]]
#: Numbers of patients that differ by less than this are the same size.
_SAME_SIZE = 0.01
#: Halves of the test patients that a score is the mean of, and test patients below which halves say nothing.
N_HALVES, FEWEST_HALVED = 12, 8
#: In the place of a reference that was not computed.
_NOTHING = Score(None, 0)
#: Raised when what is kept on disk changes its meaning.
_LAYOUT = "scores 4"


def cache_folder() -> Path:
    """The user's cache folder.

    >>> cache_folder().name
    'scores'
    """
    root = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(root) if root else Path.home() / ".cache") / "adapcla" / "scores"


def content_key(comparison: Comparison, *recipe: object) -> str:
    """A hash of everything that scores depend on, with the recipe of the synthetic cohort in place of its content.

    >>> from adapcla.data import Cohort
    >>> one = Comparison.of(*[Cohort.of([[["A"]]])] * 3)
    >>> content_key(one, "marginal", 10) == content_key(one, "marginal", 11)
    False
    """
    control, target = comparison.control, comparison.target
    parts: list[object] = [
        _LAYOUT,
        __version__,
        comparison.whole.train.fingerprint,
        comparison.whole.test.fingerprint,
        "" if control is None else control.fingerprint,
        "" if target is None else hashlib.sha256(target.share.tobytes()).hexdigest(),
        "/".join(code.domain for code in comparison.vocabulary.codes),
        comparison.seed,
        comparison.quick,
        comparison.population,
        *recipe,
    ]
    return hashlib.sha256("\n".join(str(part) for part in parts).encode()).hexdigest()


class ScoreCache:
    """A folder with one small file for each comparison; without a folder it remembers nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def read(self, key: str) -> dict[str, dict[str, Score]]:
        """The known scores of a comparison, by metric name and stratum; a damaged file counts as none."""
        if self.folder is None or not self._path(key).is_file():
            return {}
        try:
            content = files.read_json(self._path(key))
            return {
                name: {stratum: Score(**score) for stratum, score in strata}
                for name, strata in content["scores"].items()
            }
        except (InputError, KeyError, TypeError, ValueError, AttributeError):
            return {}

    def write(self, key: str, scores: dict[str, dict[str, Score]]) -> None:
        """Keep the scores of a comparison."""
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        # Pairs, since the order of strata is the order of rows.
        content: dict[str, Any] = {
            name: [[stratum, asdict(score)] for stratum, score in strata.items()] for name, strata in scores.items()
        }
        files.write_json(self._path(key), {"scores": content})

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{key}.json"


# ---- cohorts that are scored --------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Subjects:
    """The cohorts that take the place of the synthetic one, each made when it is needed."""

    base: Comparison

    @cached_property
    def halves(self) -> Halves:
        """The test patients to compare with and those to stand for a perfect generator."""
        return halves(self.base.whole.test)

    @cached_property
    def n_matched(self) -> int:
        """Number of patients at matched numbers."""
        return min(self.base.synthetic.n_patients, self.halves.ceiling.n_patients, SAMPLE)

    @cached_property
    def profile(self) -> Profile:
        """Codes and tail codes per visit that both the synthetic and the real cohort have."""
        synthetic, real = (self._cohort(subject, "matched") for subject in (SYNTHETIC, Reference.REAL_TEST))
        return Profile.of(synthetic, real, self.base.strata.tail, self.base.seed)

    def _n_patients(self, subject: Subject, view: View) -> int:
        """Patients of a subject in a view: of real ones never more than the half that stands for them."""
        everybody = view == "all" or (view == "halves" and subject is not Reference.REAL_TEST)
        n = self.base.synthetic.n_patients if everybody else self.n_matched
        return n if subject == SYNTHETIC else min(n, SAMPLE)

    def _cohort(self, subject: Subject, view: View) -> Cohort:
        """The patients of a subject in a view, before thinning."""
        whole, n, seed = self.base.whole, self._n_patients(subject, view), self.base.seed
        if isinstance(subject, Reference):
            if subject is Reference.REAL_TEST and view == "all":
                return whole.test
            return subject.cohort(whole.train, self.halves.ceiling, n, seed)
        return some_patients(whole.synthetic, n, seed)

    def comparison(self, subject: Subject, view: View) -> Comparison:
        """The comparison of a view with a subject in the place of the synthetic cohort."""
        if view == "all" and subject == SYNTHETIC:
            return self.base
        cohort = self._cohort(subject, view)
        if view == "matched_codes":
            cohort = self.profile.thin(cohort)
        test = None if view == "all" else self.halves.reference
        return self.base.with_synthetic(cohort, test, self.base.intervals, coarse=subject != SYNTHETIC)

    def other_halves(self, subject: Subject, comparison: Comparison) -> Iterator[Comparison]:
        """The comparison with other halves of the test patients, which are also real patients in other halves."""
        for number in range(1, N_HALVES):
            reference, ceiling = halves(self.base.whole.test, number)
            real = some_patients(ceiling, self.n_matched, self.base.seed)
            synthetic = real if subject is Reference.REAL_TEST else comparison.whole.synthetic
            yield comparison.with_synthetic(synthetic, reference).with_own_memory()

    def key(self, subject: Subject, view: View) -> str:
        """What the scores of a comparison are kept under."""
        recipe: list[object] = [subject, view, N_HALVES]
        if subject == SYNTHETIC or view == "matched_codes":
            recipe.append(self.base.whole.synthetic.fingerprint)
        if subject != Reference.REAL_TEST or view != "all":
            recipe.append(self._n_patients(subject, view))
        return content_key(self.base, *recipe)


# ---- scores of one comparison -------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class _Runner:
    """Computes metrics on comparisons, from the cache where it can, and says what it is doing."""

    subjects: _Subjects
    cache: ScoreCache
    bar: Meter
    #: What workers of a cluster computed, by view and subject, and by name of the metric.
    computed: Mapping[tuple[View, Subject], Found] = field(default_factory=dict)

    def kept(self, subject: Subject) -> bool:
        """Whether scores are kept: evidence comes from outside the cohorts, whose content does not identify it."""
        return not (subject == SYNTHETIC and self.subjects.base.evidence)

    def missing(self, subject: Subject, view: View, metrics: Sequence[Metric]) -> list[Metric]:
        """The metrics that are not in the cache."""
        known = self.cache.read(self.subjects.key(subject, view)) if metrics and self.kept(subject) else {}
        return [metric for metric in metrics if metric.name not in known]

    def scores(self, subject: Subject, view: View, metrics: Sequence[Metric]) -> Found:
        """The scores of some metrics on one comparison, by key and stratum."""
        if not metrics:
            return {}
        kept, key = self.kept(subject), self.subjects.key(subject, view)
        known = self.cache.read(key) if kept else {}
        fresh = [metric for metric in metrics if metric.name not in known]
        if fresh:
            computed = self.computed.get((view, subject), {})
            here = [metric for metric in fresh if metric.name not in computed]
            known |= computed | (self.compute(subject, view, here) if here else {})
            if kept:
                self.cache.write(key, known)
        self.bar.advance(len(metrics) - len(fresh))
        return {metric.key: known[metric.name] for metric in metrics}

    def compute(self, subject: Subject, view: View, metrics: Sequence[Metric]) -> Found:
        """The scores of some metrics on one comparison, by name and stratum."""
        comparison = self.subjects.comparison(subject, view)
        label, known = subject.label if isinstance(subject, Reference) else subject, {}
        for metric in metrics:
            self.bar.advance(0, note=f"{metric.key} of {label}")
            known[metric.name] = _scores_of(metric, comparison)
            self.bar.advance(1, note=metric.key)
        if comparison.synthetic.n_patients == 0:
            return known
        if view in ("matched", "halves") and self.subjects.base.test.n_patients >= FEWEST_HALVED:
            # What learns anew for every half would cost twelve times as much, for an error that is not its largest.
            averaged = [metric for metric in metrics if metric.heldout and metric.cost == "cheap"]
            known |= self._over_halves(subject, comparison, averaged, known)
        if view != "matched_codes":
            for metric, scores in domain_scores(metrics, comparison, subject != SYNTHETIC):
                known[metric.name] = known[metric.name] | scores
        return known

    def _over_halves(self, subject: Subject, first: Comparison, metrics: list[Metric], known: Found) -> Found:
        """Means over halves of the test patients in the place of scores against the first; one half is in memory."""
        values: dict[tuple[str, str], list[float | None]] = {
            (metric.name, stratum): [score.value] for metric in metrics for stratum, score in known[metric.name].items()
        }
        for comparison in self.subjects.other_halves(subject, first) if metrics else ():
            for metric in metrics:
                scores = metric.compute(comparison)
                for stratum in known[metric.name]:
                    values[metric.name, stratum].append(scores[stratum].value if stratum in scores else None)
        real = subject is Reference.REAL_TEST
        return {
            metric.name: {
                stratum: mean_of_halves(score, values[metric.name, stratum], metric.bounds, real)
                for stratum, score in known[metric.name].items()
            }
            for metric in metrics
        }


def _scores_of(metric: Metric, comparison: Comparison) -> dict[str, Score]:
    """The scores of a metric; nothing is claimed of a cohort without patients."""
    if comparison.synthetic.n_patients == 0:
        return {ALL: Missing("there is no synthetic patient").score}
    return metric.compute(comparison)


def domain_scores(
    metrics: Sequence[Metric], comparison: Comparison, reference: bool
) -> Iterator[tuple[Metric, dict[str, Score]]]:
    """The headline of each metric on the codes of one domain alone, as `only:NAME`; nothing for one domain.

    `domain:NAME`, which some metrics have, looks at the codes of a domain among all others: a pair of a drug and a
    diagnosis is in both. `only:NAME` leaves everything else out: how drugs stand with drugs. Of references nothing that
    is slow is scored.
    """
    chosen = [metric for metric in metrics if metric.by_domain and not (reference and metric.cost == "slow")]
    domains = comparison.vocabulary.domains
    for domain in domains if chosen and len(domains) > 1 else ():
        within = comparison.within(domain)
        for metric in chosen:
            score = within.score if isinstance(within, Missing) else metric.compute(within)[ALL]
            yield metric, {f"only:{domain}": score}


# ---- on the workers of a cluster ----------------------------------------------------------------------------
def _on_workers(runner: _Runner, jobs: _Jobs, cache: str | Path | None) -> dict[tuple[View, Subject], Found]:
    """What workers compute of the jobs, by view and subject; what needs evidence is left to this process.

    The cohorts travel as a folder beside the cache (else a temporary one), which all workers must see. Slow metrics are
    tasks of their own.
    """
    base = runner.subjects.base
    tasks: list[tuple[View, Subject, tuple[str, ...]]] = []
    for view, subject, chosen in jobs:
        fresh = [metric for metric in runner.missing(subject, view, chosen) if not base.evidence or _is_apart(metric)]
        cheap = tuple(metric.key for metric in fresh if metric.cost == "cheap")
        slow = [(view, subject, (metric.key,)) for metric in fresh if metric.cost != "cheap"]
        tasks += [*slow, *([(view, subject, cheap)] if cheap else [])]
    tasks.sort(key=lambda task: METRICS[task[2][0]].cost != "slow")
    found: dict[tuple[View, Subject], Found] = {}
    if cache is not None:
        Path(cache).mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="adapcla-evaluate-", dir=cache) as folder:
        for name, cohort in {**base.whole._asdict(), "control": base.control}.items():
            if cohort is not None:
                cohort.save(Path(folder, name))
        given = (folder, base.seed, base.quick, base.target)
        results = run_tasks(_score_on_worker, ((*given, *task) for task in tasks))
        for (view, subject, _), scores in zip(tasks, results, strict=True):
            found.setdefault((view, subject), {}).update(scores)
    return found


def _is_apart(metric: Metric) -> bool:
    """Whether a metric reads no evidence."""
    return metric.suite != "privacy"


@lru_cache(maxsize=1)
def _subjects_in(folder: str, seed: int, quick: bool, target: Prevalence | None) -> _Subjects:
    """The cohorts of a folder; a worker opens them once."""
    parts = {path.name: Cohort.open(path) for path in Path(folder).iterdir()}
    base = Comparison.of(
        parts["train"], parts["test"], parts["synthetic"], parts.get("control"), seed, quick, target=target
    )
    return _Subjects(base)


def _score_on_worker(
    folder: str, seed: int, quick: bool, target: Prevalence | None, view: View, subject: Subject, keys: tuple[str, ...]
) -> Found:
    """The scores of some metrics on one comparison, by name and stratum."""
    with meter("evaluate", len(keys)) as bar:
        runner = _Runner(_subjects_in(folder, seed, quick, target), ScoreCache(None), bar)
        return runner.compute(subject, view, [METRICS[key] for key in keys])


# ---- what is computed ---------------------------------------------------------------------------------------
def _jobs(subjects: _Subjects, metrics: Sequence[Metric]) -> _Jobs:
    """What must be computed: for each view and subject, the metrics."""
    base = subjects.base
    jobs: _Jobs = [("all", SYNTHETIC, list(metrics))]
    # A quick look does without references where they are slow.
    referenced = [metric for metric in metrics if not (base.quick and metric.cost == "slow")]
    for reference in Reference:
        chosen = [metric for metric in referenced if reference in references_of(metric)]
        if reference is Reference.REAL_TEST:
            chosen = [metric for metric in chosen if not _needs_half(metric, base)]
        jobs.append(("all", reference, chosen))
    if subjects.n_matched == 0:
        return jobs
    views: dict[View, Callable[[Metric], bool]] = {
        "matched": lambda metric: metric.sized or (metric.thinned and not metric.heldout),
        "halves": lambda metric: metric.heldout and not metric.sized,
        "matched_codes": lambda metric: metric.thinned,
    }
    for view, applies in views.items():
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


def _rows(base: Comparison, metric: Metric, view: View, scores: dict[Subject, dict[str, Score]]) -> list[Row]:
    """The rows of one metric in one view."""
    suite = SUITES[metric.suite]
    rows = []
    for stratum, score in scores[SYNTHETIC].items():
        beside = {one: scores.get(one, {}).get(stratum, _NOTHING) for one in Reference}
        share, why = normalise(score, beside[suite.floor].value, beside[ceiling_of(metric)].value, metric.goal)
        if view == "all" and metric.sized and share is not None and not _same_size(base):
            share, why = None, "it depends on size, and the cohorts differ; see stratum matched"
        if view == "all" and metric.heldout and score.value is not None:
            why = f"the test patients are the reference; see stratum {MATCHED if metric.sized else HALVES}"
        label = stratum if view == "all" else (view if stratum == ALL else f"{view}:{stratum}")
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
            )
        )
    return rows


def _same_size(base: Comparison) -> bool:
    """Whether as many patients were generated as are in the test cohort, and in every reference."""
    synthetic, real = base.synthetic.n_patients, base.test.n_patients
    return abs(synthetic - real) <= _SAME_SIZE * real and synthetic <= SAMPLE


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
    population: int = 0,
) -> Scores:
    """Every score of a synthetic cohort with its interval, beside real patients, memorised ones and chance.

    Test or control patients that took part in training, as the origins of the cohorts tell it, are an `InputError`.

    Args:
        train: The patients that the generator learned from.
        test: Real patients that it did not see.
        synthetic: What it generated.
        suites: Names from `SUITES`; by default all that apply. Where the training patients have numbers or stays, the
            suites of these come along with `fidelity`, and what models learn from them with `utility`.
        control: Real patients used for nothing else; privacy tests compare with them (else with the test patients).
        target: The requested prevalence, if any; adds the suite `control`.
        method: The name in the table.
        seed: Of everything random in the evaluation; recorded in the table.
        quick: Fewer draws, smaller classifiers and no references for slow metrics.
        cache: Folder to keep scores in by content; none by default.
        evidence: Arrays for attacks that need the generator; see the privacy suite.
        observe: Called with the comparison when all scores are computed, for what they do not hold (curves, for one).
        leave_out: Keys of metrics of these suites that are not computed.
        population: People among whom an attacker looks for the training patients; as many others as these if 0.

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
    known_apart = require_apart(training_sources(train, synthetic), {"test": test, "control": control})
    apart = "yes" if known_apart and synthetic.origin.learned_from else "not known"
    if target is not None:
        suites = [*suites, *(suite.name for suite in SUITES.values() if suite.needs_target)]
    suites = with_whole_record(suites, train.vocabulary)
    metrics = [metric for metric in metrics_for(suites, train.vocabulary) if metric.key not in leave_out]
    for name in suites:
        if SUITES[name].needs_target and target is None:
            raise UsageError(f"suite {name}: it needs a requested prevalence; give a target")
    base = Comparison.of(
        train, test, synthetic, control, seed, quick, target=target, evidence=evidence, population=population
    )
    subjects = _Subjects(base)
    jobs = _jobs(subjects, metrics)
    scores: dict[tuple[View, str], dict[Subject, dict[str, Score]]] = {}
    with meter("evaluate", sum(len(chosen) for _, _, chosen in jobs)) as bar:
        runner = _Runner(subjects, ScoreCache(None if cache is None else Path(cache)), bar)
        if n_workers() > 1:
            runner = replace(runner, computed=_on_workers(runner, jobs, cache))
        for view, subject, chosen in jobs:
            for key, strata in runner.scores(subject, view, chosen).items():
                scores.setdefault((view, key), {})[subject] = strata
    if observe is not None:
        observe(base)
    return Scores(
        method, seed, tuple(_all_rows(base, metrics, scores)), {**_card(base, subjects, metrics), SEPARATED: apart}
    )


def _all_rows(
    base: Comparison, metrics: Sequence[Metric], scores: dict[tuple[View, str], dict[Subject, dict[str, Score]]]
) -> list[Row]:
    """The rows of all metrics in all views."""
    rows = []
    for metric in metrics:
        halved = scores.get(("matched", metric.key), {})
        if metric.suite == "privacy" and Reference.REAL_TEST in halved:
            scores["all", metric.key][Reference.REAL_TEST] = halved[Reference.REAL_TEST]
        for view in VIEWS:
            if SYNTHETIC in scores.get((view, metric.key), {}):
                rows += _rows(base, metric, view, scores[view, metric.key])
    return rows


def _card(base: Comparison, subjects: _Subjects, metrics: Sequence[Metric]) -> dict[str, Any]:
    """What the scores rest on."""
    cohorts = {**base.whole._asdict(), "control": base.control}
    return {
        "suites": list(dict.fromkeys(metric.suite for metric in metrics)),
        "quick": base.quick,
        "codes": len(base.vocabulary),
        "patients": {name: cohort.n_patients for name, cohort in cohorts.items() if cohort is not None},
        "visits": {name: cohort.n_visits for name, cohort in cohorts.items() if cohort is not None},
        "matched_patients": subjects.n_matched,
        "fingerprints": {name: cohort.fingerprint for name, cohort in cohorts.items() if cohort is not None},
    }
