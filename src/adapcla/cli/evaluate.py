"""`adapcla evaluate`: how good and how private synthetic patients are, from whichever generator they come."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from adapcla.cli.options import (
    Accept,
    AsJson,
    At,
    Cluster,
    Having,
    Out,
    Overwrite,
    Population,
    Reason,
    Seed,
    Visits,
    Where,
    Within,
    Without,
    attributes_of,
    emit,
)
from adapcla.console import say
from adapcla.engine import cluster
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapcla.data import Cohort
    from adapcla.data.criteria import Criteria
    from adapcla.evaluation import Comparison, Scores


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("evaluate")(evaluate)


def evaluate(
    train: Annotated[Path, typer.Option("--train", help="Cohort the generator learned from.")],
    test: Annotated[Path, typer.Option("--test", help="Cohort of real patients it did not see.")],
    synthetic: Annotated[Path, typer.Option("--synthetic", help="Cohort that was generated.")],
    out: Out,
    control: Annotated[
        Path | None, typer.Option("--control", help="Cohort of real patients used for nothing else, for privacy tests.")
    ] = None,
    target: Annotated[
        Path | None, typer.Option("--target", help="Requested prevalence (code, prevalence); adds the suite control.")
    ] = None,
    suites: Annotated[
        str, typer.Option("--suites", help="Suites with commas, such as tail,fidelity,privacy; all if empty.")
    ] = "",
    method: Annotated[str, typer.Option("--method", help="Name in the tables; the synthetic folder's if empty.")] = "",
    seed: Seed = 1,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws, smaller classifiers: a quick look.")] = False,
    gate: Annotated[bool, typer.Option("--gate", help="End with exit code 5 if the privacy gate is not met.")] = False,
    accept: Accept = None,
    reason: Reason = "",
    population: Population = 0,
    generator: Annotated[
        Path | None, typer.Option("--generator", help="Trained run behind SYNTHETIC: adds scores that need the model.")
    ] = None,
    references: Annotated[
        int, typer.Option("--references", help="Attack models trained for these attacks; 0 for likelihood alone.")
    ] = 4,
    cache: Annotated[
        Path | None, typer.Option("--cache", help="Folder of cached scores; the user's cache if not given.")
    ] = None,
    where_run: Cluster = "local",
    having: Having = None,
    without: Without = None,
    where: Where = None,
    visits: Visits = None,
    at: At = "any",
    within: Within = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Score SYNTHETIC against TRAIN and TEST; real patients, copies of training patients and chance are scored too.

    With --having and the like, SYNTHETIC is of patients of that condition, and is compared with real ones of the same.
    """
    from adapcla.data import Cohort
    from adapcla.data.prevalence import read_prevalence
    from adapcla.evaluation.privacy import require_known
    from adapcla.evaluation.runner import cache_folder, evaluate
    from adapcla.files import refuse_populated

    refuse_populated(out, overwrite)
    if having or without or where or visits or at != "any" or within is not None:
        from adapcla.data.criteria import Criteria

        unused: dict[str, Any] = {"--gate": gate, "--control": control, "--target": target, "--suites": suites}
        unused |= {"--quick": quick, "--cache": cache, "--method": method, "--references": references != 4}
        _refuse_on_condition({**unused, "--accept": accept, "--population": population})
        condition = Criteria.of(having or (), without or (), attributes_of(where), visits, at, within)
        _on_condition(condition, train, test, synthetic, generator, seed, out, overwrite, as_json)
        return
    require_known(accept or [], reason)
    chosen = _suites(suites, target is not None, gate)
    learned_from, unseen, generated = (Cohort.open(folder) for folder in (train, test, synthetic))
    reserved = None if control is None else Cohort.open(control)
    evidence: dict[str, Any] = {}
    if generator is not None:
        evidence = _asked_of_model(generator, learned_from, unseen, reserved, generated, chosen, references, seed)
    told: list[dict[str, Any]] = []
    with cluster(where_run):
        scores = evaluate(
            learned_from,
            unseen,
            generated,
            suites=chosen,
            control=reserved,
            target=None if target is None else read_prevalence(target),
            method=method or synthetic.resolve().name,
            seed=seed,
            quick=quick,
            cache=cache or cache_folder(),
            evidence=evidence,
            population=population,
            observe=_giveaways_to(told) if "discriminator" in chosen else None,
        )
    scores.save(out, overwrite=overwrite)
    if told:
        _write_giveaways(out, told)
    if as_json:
        emit(scores.summary())
    else:
        typer.echo(scores.markdown())
    say(f"{out}: {len(scores.rows):,} scores")
    if gate:
        _require_privacy(scores, accept or [], reason)


def _refuse_on_condition(options: dict[str, Any]) -> None:
    """Raise where an option was given that patients of a condition are not evaluated by: none is left out unsaid."""
    given = [name for name, value in options.items() if value]
    if given:
        raise UsageError(
            f"{', '.join(given)} with --having, --without, --where, --visits, --at or --within\n"
            "expected: one of the two; the privacy gate and the suites are about all patients\n"
            "to do: evaluate the whole sample with the gate, and its patients of a condition in a second call"
        )


def _suites(asked: str, with_target: bool, gate: bool) -> list[str]:
    """The suites that are judged; an unknown one is refused before anything is read."""
    from adapcla.evaluation.metric import default_suites, metrics_of

    chosen = [name.strip() for name in asked.split(",") if name.strip()] or default_suites(with_target)
    if gate and "privacy" not in chosen:
        chosen.append("privacy")
    metrics_of(chosen)
    return chosen


def _on_condition(
    condition: Criteria,
    train: Path,
    test: Path,
    synthetic: Path,
    generator: Path | None,
    seed: int,
    out: Path,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Judge patients of a condition against held-out ones of the same condition, and draw what both look like."""
    from adapcla.data import Cohort
    from adapcla.data.provenance import require_apart, training_sources
    from adapcla.evaluation.conditioned import judge
    from adapcla.files import fresh_folder, write_json
    from adapcla.report.figures.cohorts import disease
    from adapcla.report.style import save_both

    learned_from, unseen, written = (Cohort.open(folder) for folder in (train, test, synthetic))
    require_apart(training_sources(learned_from, written), {"test": unseen})
    others = {"on demand": written}
    if generator is not None:
        from adapcla.generation.comparators import comparators
        from adapcla.generation.generator import load

        n = int(condition.matches(unseen).sum())
        others |= comparators(load(generator).model, condition, learned_from, n, seed)
    judged = judge(condition, learned_from, unseen, others, seed)
    with fresh_folder(out, overwrite) as folder:
        write_json(folder / "scores.json", judged.as_json())
        (folder / "scores.md").write_text(judged.table.markdown(), encoding="utf-8")
        (folder / "scores.csv").write_text(judged.table.csv(), encoding="utf-8")
        save_both(disease(condition, condition.patients(unseen), written), folder / "disease")
    if as_json:
        emit(judged.as_json())
    else:
        typer.echo(judged.table.markdown())
    say(f"{out}: {len(judged.rows)} rows against {judged.n_real} real patients {condition.text}")


def _giveaways_to(told: list[dict[str, Any]]) -> Callable[[Comparison], None]:
    """What fills a list with the columns that tell synthetic from real patients."""
    from adapcla.evaluation.discriminator import feature_importance

    return lambda comparison: told.extend(feature_importance(comparison))


def _write_giveaways(out: Path, told: list[dict[str, Any]]) -> None:
    """Write what gave synthetic patients away beside the scores."""
    from adapcla.files import write_bytes
    from adapcla.tables import Table

    rows = [
        [cell if isinstance(cell, str) else "–" if cell is None else f"{cell:.4g}" for cell in row.values()]
        for row in told
    ]
    write_bytes(out / "gave-away.csv", Table(list(told[0]), rows).csv().encode())


def _asked_of_model(
    generator: Path,
    train: Cohort,
    test: Cohort,
    control: Cohort | None,
    synthetic: Cohort,
    suites: list[str],
    references: int,
    seed: int,
) -> dict[str, Any]:
    """What only the model can say of real patients, as far as the suites ask."""
    from adapcla.data.provenance import require_apart, training_sources
    from adapcla.generation.generator import load
    from adapcla.generation.membership import evidence

    model = load(generator).model
    # Before attack models are trained for nothing.
    require_apart([*training_sources(train, synthetic), *model.origin.ancestors()], {"test": test, "control": control})
    return evidence(model, train, control or test, references, seed) if "privacy" in suites else {}


def _require_privacy(scores: Scores, accepted: list[str], reason: str) -> None:
    """Raise, naming the lines that are not met, unless the privacy gate is met."""
    from adapcla.evaluation.privacy import accept, gate, require
    from adapcla.report.gate_words import beside_gate, gate_table

    found = scores.by_stratum("privacy")
    lines = accept(gate(found), accepted, reason)
    say(gate_table(lines).markdown())
    for sentence in beside_gate(found):
        say(sentence)
    require(lines)
