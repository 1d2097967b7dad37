"""`adapcla evaluate`: how good and how private synthetic patients are, from whichever generator they come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla import engine
from adapcla.cli.options import AsJson, Cluster, DryRun, Given, Out, Overwrite, Verb, attributes_of, emit, show_need
from adapcla.console import say
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

    from adapcla.data import Cohort
    from adapcla.evaluation import Comparison, Scores
    from adapcla.pipeline.settings import EvaluateOptions

#: What patients of a condition are asked for by, and what goes with it.
_OF_CONDITION = ("having", "without", "where", "visits", "at", "within")
_WITH_CONDITION = (*_OF_CONDITION, "model", "seed")


def evaluate(
    train: Annotated[Path, typer.Option("--train", help="Cohort the generator learned from.")],
    test: Annotated[Path, typer.Option("--test", help="Cohort of real patients it did not see.")],
    synthetic: Annotated[Path, typer.Option("--synthetic", help="Cohort that was generated.")],
    out: Out,
    given: Given,
    cluster: Cluster = "local",
    dry_run: DryRun = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Score SYNTHETIC against TRAIN and TEST; real patients, copies of training patients and chance are scored too.

    With --having or --where, SYNTHETIC is of patients of that condition, and is compared with real ones of the same.
    """
    from adapcla.data import Cohort
    from adapcla.data.prevalence import read_prevalence
    from adapcla.evaluation.privacy import require_known
    from adapcla.evaluation.runner import cache_folder, evaluate
    from adapcla.files import refuse_populated
    from adapcla.pipeline.settings import EvaluateOptions, settings_from

    asked = settings_from(EvaluateOptions, given.settings, source="evaluate")
    refuse_populated(out, overwrite)
    if any(getattr(asked, name) != EvaluateOptions.model_fields[name].default for name in _OF_CONDITION):
        _refuse_on_condition(asked)
        _on_condition(asked, train, test, synthetic, out, overwrite, as_json)
        return
    require_known(asked.accept, asked.reason)
    suites = _suites(asked)
    learned_from, unseen, generated = (Cohort.open(folder) for folder in (train, test, synthetic))
    if dry_run:
        from adapcla.pipeline.estimate import Sizes, evaluation_need
        from adapcla.pipeline.settings import EvaluateSettings

        visits = learned_from.n_visits
        sizes = Sizes(learned_from.n_patients, visits, learned_from.n_codes, learned_from.n_entries / visits)
        with engine.cluster(cluster):
            workers = engine.n_workers()
        judged = EvaluateSettings(suites=tuple(suites), quick=asked.quick)
        show_need(evaluation_need(judged, sizes, workers), as_json)
        return
    reserved = None if asked.control is None else Cohort.open(asked.control)
    evidence: dict[str, Any] = {}
    if asked.model is not None:
        evidence = _evidence(asked, learned_from, unseen, reserved, generated, suites)
    features: list[dict[str, Any]] = []
    with engine.cluster(cluster):
        scores = evaluate(
            learned_from,
            unseen,
            generated,
            suites=suites,
            control=reserved,
            target=None if asked.target is None else read_prevalence(Path(asked.target)),
            method=asked.method or synthetic.resolve().name,
            seed=asked.seed,
            quick=asked.quick,
            cache=cache_folder() if asked.cache is None else Path(asked.cache),
            evidence=evidence,
            population=asked.population,
            observe=_features_to(features) if "discriminator" in suites else None,
        )
    scores.save(out, overwrite=overwrite)
    if features:
        _write_features(out, features)
    if as_json:
        emit(scores.summary())
    else:
        typer.echo(scores.markdown())
    say(f"{out}: {len(scores.rows):,} scores")
    if asked.gate:
        _require_privacy(scores, asked.accept, asked.reason)


def _refuse_on_condition(asked: EvaluateOptions) -> None:
    """Raise where an option was given that patients of a condition are not evaluated by: none is left out unsaid."""
    fields = type(asked).model_fields
    given = [name for name in asked.model_fields_set if name not in _WITH_CONDITION]
    unused = [f"--{name}" for name in given if getattr(asked, name) != fields[name].default]
    if unused:
        raise UsageError(
            f"{', '.join(sorted(unused))} with --having, --where and the like\n"
            "expected: one of the two; the privacy gate and the suites are about all patients\n"
            "to do: evaluate the whole sample with the gate, and its patients of a condition in a second call"
        )


def _suites(asked: EvaluateOptions) -> list[str]:
    """The suites that are evaluated; an unknown one is refused before anything is read."""
    from adapcla.evaluation.metric import default_suites, metrics_of

    chosen = list(asked.suites) or default_suites(asked.target is not None)
    if asked.gate and "privacy" not in chosen:
        chosen.append("privacy")
    metrics_of(chosen)
    return chosen


def _on_condition(
    asked: EvaluateOptions, train: Path, test: Path, synthetic: Path, out: Path, overwrite: bool, as_json: bool
) -> None:
    """Compare patients of a condition with held-out ones of the same condition, and draw what both look like."""
    from adapcla.data import Cohort
    from adapcla.data.criteria import Criteria
    from adapcla.data.provenance import require_apart, training_sources
    from adapcla.evaluation.conditioned import compare_condition
    from adapcla.files import fresh_folder, write_json
    from adapcla.report.figures.cohorts import disease
    from adapcla.report.style import save_both

    where = attributes_of(asked.where)
    condition = Criteria.of(list(asked.having), list(asked.without), where, asked.visits, asked.at, asked.within)
    learned_from, unseen, generated = (Cohort.open(folder) for folder in (train, test, synthetic))
    require_apart(training_sources(learned_from, generated), {"test": unseen})
    others = {"on demand": generated}
    if asked.model is not None:
        from adapcla.generation.comparators import comparators
        from adapcla.generation.generator import load

        n = int(condition.matches(unseen).sum())
        others |= comparators(load(asked.model).model, condition, learned_from, n, asked.seed)
    scores = compare_condition(condition, learned_from, unseen, others, asked.seed)
    with fresh_folder(out, overwrite) as folder:
        write_json(folder / "scores.json", scores.as_json())
        (folder / "scores.md").write_text(scores.table.markdown(), encoding="utf-8")
        (folder / "scores.csv").write_text(scores.table.csv(), encoding="utf-8")
        save_both(disease(condition, condition.patients(unseen), generated), folder / "disease")
    if as_json:
        emit(scores.as_json())
    else:
        typer.echo(scores.table.markdown())
    say(f"{out}: {len(scores.rows)} rows against {scores.n_real} real patients {condition.text}")


def _features_to(found: list[dict[str, Any]]) -> Callable[[Comparison], None]:
    """What fills a list with the columns that tell synthetic from real patients."""
    from adapcla.evaluation.discriminator import feature_importance

    return lambda comparison: found.extend(feature_importance(comparison))


def _write_features(out: Path, found: list[dict[str, Any]]) -> None:
    """Write what tells synthetic from real patients beside the scores."""
    from adapcla.files import write_bytes
    from adapcla.tables import Table

    rows = [
        [cell if isinstance(cell, str) else "–" if cell is None else f"{cell:.4g}" for cell in row.values()]
        for row in found
    ]
    write_bytes(out / "gave-away.csv", Table(list(found[0]), rows).csv().encode())


def _evidence(
    asked: EvaluateOptions,
    train: Cohort,
    test: Cohort,
    control: Cohort | None,
    synthetic: Cohort,
    suites: list[str],
) -> dict[str, Any]:
    """What only the model can say of real patients, as far as the suites ask."""
    from adapcla.data.provenance import require_apart, training_sources
    from adapcla.generation.generator import load
    from adapcla.generation.membership import evidence

    model = load(asked.model or "").model
    # Before attack models are trained for nothing.
    require_apart([*training_sources(train, synthetic), *model.origin.ancestors()], {"test": test, "control": control})
    return evidence(model, train, control or test, asked.attack_models, asked.seed) if "privacy" in suites else {}


def _require_privacy(scores: Scores, accepted: Sequence[str], reason: str) -> None:
    """Raise, naming the lines that are not met, unless the privacy gate is met."""
    from adapcla.evaluation.privacy import accept, gate, require
    from adapcla.report.gate_words import beside_gate, gate_table

    found = scores.by_stratum("privacy")
    lines = accept(gate(found), accepted, reason)
    say(gate_table(lines).markdown())
    for sentence in beside_gate(found):
        say(sentence)
    require(lines)


def _group() -> type[BaseModel]:
    from adapcla.pipeline.settings import EvaluateOptions

    return EvaluateOptions


VERBS = (
    Verb(
        "evaluate",
        evaluate,
        _group,
        former={"--generator": "--model RUN", "--references": "--set attack_models=N"},
    ),
)
