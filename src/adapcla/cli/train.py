"""`adapcla train`: fit a method to a cohort."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from adapcla.cli.options import AsJson, Control, Out, Overwrite, Seed, assignments, emit
from adapcla.console import say
from adapcla.disclosure import MIN_COUNT
from adapcla.errors import UsageError

if TYPE_CHECKING:
    from adapcla.data import Cohort


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("train")(train)


def train(
    cohort: Annotated[
        Path,
        typer.Argument(help="Folder of parts that `split` wrote, or cohort folder, which is divided the same way."),
    ],
    out: Out,
    method: Annotated[str, typer.Option("--method", help="A row of `adapcla methods`.")] = "adapcla",
    seed: Seed = 1,
    split_seed: Annotated[
        int | None, typer.Option("--split-seed", help="Seed of the patient split of a cohort folder; 4 if left out.")
    ] = None,
    control: Control = 0.0,
    schedule: Annotated[str | None, typer.Option("--schedule", help="base, fast, slow, cosine, … or ramp:H,R.")] = None,
    passes: Annotated[float | None, typer.Option("--passes", help="Passes over the training patients.")] = None,
    device: Annotated[str, typer.Option("--device", envvar="ADAPCLA_DEVICE", help="cpu, cuda; auto is cpu.")] = "auto",
    setting: Annotated[list[str] | None, typer.Option("--set", help="NAME=VALUE of any other setting.")] = None,
    shareable: Annotated[
        bool, typer.Option("--shareable", help=f"No small counts, no code of < {MIN_COUNT} patients.")
    ] = False,
    min_support: Annotated[int, typer.Option("--min-support", help="Fewest patients of a code; others roll up.")] = 0,
    dp: Annotated[bool, typer.Option("--dp", help="Train with differential privacy; the unit is a patient.")] = False,
    epsilon: Annotated[float | None, typer.Option("--epsilon", help="With --dp: total ε; 8 if left out.")] = None,
    delta: Annotated[float | None, typer.Option("--delta", help="With --dp: δ; 1/(10 patients) if left out.")] = None,
    prior: Annotated[
        Path | None, typer.Option("--prior", help="With --dp: public table code,prevalence; nothing is counted then.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue a run that was stopped.")] = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Fit a method to the train part and validate it on the valid part; test and control patients are never read.

    Batches and size that are not given follow from the size of the cohort. Where neither rate nor passes are given, a
    few whole fits are tried, and the one with the least validation loss is kept.
    """
    from adapcla.data.split_folder import open_or_split
    from adapcla.generation.generator import generator_for
    from adapcla.generation.recommended import with_recommended
    from adapcla.generation.run_folder import outcome, train_run
    from adapcla.generation.trials import rates_to_try, train_by_trials, wider_than

    changes = {"seed": seed, "device": device, **assignments(setting or [])}
    changes |= {name: value for name, value in (("schedule", schedule), ("passes", passes)) if value is not None}
    if dp:
        options = {"epsilon": epsilon, "delta": delta, "prior": None if prior is None else str(prior)}
        given = {name: value for name, value in options.items() if value is not None}
        changes["privacy"] = {**(changes.get("privacy") or {}), **given}
    _refuse_mixed(dp, shareable or min_support > 0, epsilon is not None or delta is not None or prior is not None)
    # What is wrong with the options is said before any patient is read.
    generator_for(method, **changes)
    parts = open_or_split(cohort, split_seed, control)
    fit_on, watch = parts["train"], parts["valid"].on(parts["train"].vocabulary)
    support = max(min_support, MIN_COUNT if shareable else 0)
    if support:
        fit_on, watch = _rolled_up(fit_on, watch, support)
    rates, given = rates_to_try(method, changes, fit_on.n_patients), changes
    if not dp:
        # Private training has its own budget: the rule would look at numbers that ε does not cover.
        changes = with_recommended(method, changes, fit_on.n_patients, fit_on.n_visits, fit_on.n_codes)
    kept = {"resume": resume, "overwrite": overwrite, "shareable": shareable}
    if rates:
        wider = wider_than(method, changes, given)
        fitted = train_by_trials(method, changes, rates, wider, fit_on, watch, out, **kept)
    else:
        fitted = train_run(generator_for(method, **changes), fit_on, watch, out, **kept)
    if fitted.model_ is None:
        # Another machine, whose first process holds the run that was complete already, says what there is to say.
        return
    facts = fitted.model.facts if fitted.outcome_ is None else outcome(fitted)
    spent = facts.get("privacy")
    if spent is not None:
        say(f"ε = {spent['epsilon']:g} at δ = {spent['delta']:g}; what that covers is in {out / 'model' / 'README.md'}")
    if as_json:
        emit({"run": str(out), "method": method, **facts})
    else:
        loss = facts["validation loss per visit"]
        loss_text = "" if loss is None else f", validation loss {loss:.4f} a visit"
        say(f"{out}: {method}{loss_text}; next: adapcla sample {out} --patients 1000 --out …")


def _rolled_up(fit_on: Cohort, watch: Cohort, support: int) -> tuple[Cohort, Cohort]:
    """Both parts with every code of fewer training patients in the place of an ancestor that has as many."""
    from adapcla.data.rollup import roll_up

    rolled = roll_up(fit_on, support)
    codes = rolled.facts(fit_on)["codes"]
    say(
        f"of the codes held by fewer than {support} training patients, {codes['rolled up']:,} are rolled up to an "
        f"ancestor that has as many, and {codes['not placed']:,} have none and are left out"
    )
    return rolled.apply(fit_on), rolled.apply(watch)


def _refuse_mixed(dp: bool, by_counts: bool, amounts: bool) -> None:
    """Raise on options that contradict each other."""
    if amounts and not dp:
        raise UsageError("--epsilon, --delta and --prior belong to private training\nto do: add --dp")
    if dp and by_counts:
        raise UsageError(
            "--dp with --shareable or --min-support: leaving codes out by their counts reads patients beyond ε\n"
            "to do: leave it out; name the codes to keep by a public table, --prior FILE"
        )
