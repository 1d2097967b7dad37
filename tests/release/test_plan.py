"""A release from a hospital's table: what is written, what never is, and what a fault leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import ACCEPTED, ACCEPTING

from adapcla import files
from adapcla.data import Attribute
from adapcla.data.quantization import Quantizer
from adapcla.data.split_folder import open_splits
from adapcla.errors import ExistsError, InputError, UsageError
from adapcla.evaluation.privacy import GateLine
from adapcla.generation import load
from adapcla.generation.fitting import Pace
from adapcla.io import read
from adapcla.io.simulator import simulate
from adapcla.pipeline.effort import Speed
from adapcla.pipeline.steps import expected_seconds, run_steps
from adapcla.release import plan as module
from adapcla.release.plan import ReleasePlan
from adapcla.release.settings import ReleaseSettings, release_settings
from adapcla.release.summary import REQUIRED, usefulness

COUNTED = {"evaluate.quick": True, "evaluate.suites": ("privacy",)}


def planted(**changes) -> ReleaseSettings:
    """A release that is made in a few seconds, by counting."""
    world = {"data.planted.patients": 520, "data.planted.codes": 60}
    given = {name: changes.pop(name) for name in list(changes) if name in ("repair", "formats", "model", "plan")}
    return release_settings("planted", method="marginal", changes={**COUNTED, **world, **changes}, **ACCEPTED, **given)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refuse(monkeypatch, first: int) -> None:
    """Let the gate refuse the first so many tries."""
    asked = []

    def gate(scores, *limits, tries=1):
        asked.append(1)
        return [GateLine("copy_excess", "met" if len(asked) > first else "exceeded", 0.02, 0.015, 0.03, 0.01)]

    monkeypatch.setattr(module, "gate", gate)


# ---- what is written --------------------------------------------------------------------------------------
def test_the_folder_holds_data_page_cards_and_checksums(finished_release):
    out = finished_release.out
    assert {path.name for path in out.iterdir()} == {
        "csv", "meds", "fhir", "report.html", "evaluation.json", "plan.json", "README.md", "croissant.json",
        "SHA256SUMS",
    }  # fmt: skip
    checked = subprocess.run(["sha256sum", "-c", "--quiet", "SHA256SUMS"], cwd=out, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(("name", "source"), [("csv", "table"), ("fhir", "fhir")])
def test_every_format_reads_back_to_the_same_patients(finished_release, name, source):
    synthetic = finished_release.summary().synthetic
    back = read(source, finished_release.out / name)
    assert name != "csv" or back.fingerprint == synthetic.fingerprint
    assert (back.n_patients, back.n_visits) == (synthetic.n_patients, synthetic.n_visits)
    assert back.origin.kind.value == "synthetic" and not back.origin.learned_from


def test_nothing_of_a_real_patient_is_in_any_file(finished_release):
    """Ids, dates and marked combinations of the table are searched in every file, whatever its form."""
    data = finished_release.settings.data
    table = Path(data.path).read_text().splitlines()[1:]
    ids, dates = {line.split(",")[0] for line in table}, {line.split(",")[1] for line in table}
    files = content(finished_release.out)
    assert len(ids) > 500 and len(dates) > 100 and len(files) > 15
    for name, found in files.items():
        text = found.decode("utf-8", errors="ignore")
        if name.endswith(".parquet"):
            import polars as pl

            text = str(pl.read_parquet(finished_release.out / name).to_dicts())
        assert "MRN7" not in text, name
        assert not [date for date in dates if date in text], name
        assert str(finished_release.root) not in text and Path(data.path).name not in text.replace(
            finished_release.settings.title, ""
        ), name


def test_no_marked_patient_comes_back(finished_release):
    """A marked patient holds six rare codes in a visit; they co-occur less than once in 10¹² simulated visits."""
    from tests.simulated import marked_codes

    from adapcla.io.simulator.codes import code_layout

    codes = code_layout(80)
    marks = [{codes.vocabulary.tokens[code] for code in visit} for two in marked_codes(codes, 12) for visit in two]
    synthetic = finished_release.summary().synthetic
    held = [set(visit) for patient in synthetic.patients() for visit in patient]
    assert not [visit for visit in held for mark in marks if mark <= visit]


def test_no_code_of_few_patients_is_in_the_vocabulary(finished_release):
    told = finished_release.summary()
    assert (told.train.patient_counts >= 11).all()
    written = read("table", finished_release.out / "csv").vocabulary
    assert set(written.tokens) <= set(told.train.vocabulary.tokens)


def test_control_patients_stay_out_of_the_vocabulary(finished_release, tmp_path):
    """A code that all control patients hold and no training patient does is not in the vocabulary."""
    parts = open_splits(finished_release.data)
    rolled = open_splits(finished_release.place(finished_release.attempts[0], "patients"))
    seen = set(np.array(parts["train"].vocabulary.tokens)[parts["train"].patient_counts >= 11])
    kept = {token for token in rolled["control"].vocabulary.tokens if token in set(parts["train"].vocabulary.tokens)}
    assert kept <= seen | {code.token for code in rolled["train"].vocabulary.codes}
    assert rolled["control"].vocabulary == rolled["train"].vocabulary


def test_a_second_call_does_nothing_again(finished_release):
    before = content(finished_release.root)
    again = ReleasePlan(finished_release.settings, finished_release.out)
    assert all(step.done or not step.wanted() for step in again.steps)
    assert again.run().passed
    assert content(finished_release.root) == before


# ---- the gate ---------------------------------------------------------------------------------------------
def test_what_the_gate_refuses_is_not_released(monkeypatch, tmp_path):
    refuse(monkeypatch, first=9)
    plan = ReleasePlan(planted(), tmp_path / "out")
    told = plan.run()
    assert not told.passed and not (tmp_path / "out").exists()
    page = plan.page.read_text()
    assert "Not released" in page and "written again" in page


def test_what_was_exceeded_is_never_accepted(monkeypatch, tmp_path):
    refuse(monkeypatch, first=9)
    spec = planted()
    assert "copy_excess" in spec.accept and spec.reason
    assert not ReleasePlan(spec, tmp_path / "out").run().passed
    assert [path.name for path in tmp_path.iterdir()] == ["out-work"]
    with pytest.raises(UsageError, match="no setting is called 'anyway'"):
        release_settings("planted", changes={"anyway": True})


def test_repair_tries_again_until_the_gate_is_met_and_keeps_every_try(monkeypatch, tmp_path):
    refuse(monkeypatch, first=1)
    plan = ReleasePlan(planted(repair=True), tmp_path / "out")
    told = plan.run()
    assert told.passed and [attempt.min_patients for attempt in told.attempts] == [11, 22]
    assert not (plan.root / "tries" / "3").exists()
    assert (read("table", tmp_path / "out" / "csv").n_patients) > 0
    assert "a code needs 22 patients" in (tmp_path / "out" / "report.html").read_text()


def test_the_model_is_written_only_where_attacks_on_it_fail(monkeypatch, tmp_path):
    lines = [GateLine("membership_likelihood_auc", "exceeded", 0.9, 0.85, 0.95, 0.58)]
    fine = [GateLine("copy_excess", "met", 0.0, 0.0, 0.001, 0.01)]
    monkeypatch.setattr(module, "gate", lambda scores, *limits, tries=1: lines if limits else fine)
    monkeypatch.setattr(module, "ATTACK_MODELS", 0)
    ReleasePlan(planted(model=True), tmp_path / "out").run()
    assert (tmp_path / "out" / "csv").is_dir() and not (tmp_path / "out" / "model").exists()
    assert "Attacks on the model" in (tmp_path / "out" / "report.html").read_text()
    lines[0] = replace(lines[0], value=0.5, outcome="met")
    ReleasePlan(planted(model=True), tmp_path / "other").run()
    assert (tmp_path / "other" / "model" / "weights.safetensors").is_file()


# ---- the gate itself, with nothing in its place -------------------------------------------------------------
def memorising(passes: float, **changes) -> ReleaseSettings:
    """A small network that goes over 296 patients so often, and whose weights nobody watches."""
    settings = {"passes": passes, "validations": 1, "width": 48, "layers": 1, "heads": 2, "learning_rate": 0.006}
    fit = {f"fit.settings.{name}": value for name, value in settings.items()}
    world = {"data.planted.patients": 520, "data.planted.codes": 60}
    return release_settings("planted", method="gpt", changes={**COUNTED, **world, **fit}, **{**ACCEPTED, **changes})


def accepting(*but: str) -> dict:
    """Every line may stay not shown, but for these."""
    return {**ACCEPTED, "accept": tuple(name for name in ACCEPTED["accept"] if name not in but)}


def test_the_gate_refuses_a_network_that_knows_its_patients_by_heart(monkeypatch, tmp_path):
    """Visits of one member alone are written .12 more often; rolling up codes of 22 patients does not help."""
    monkeypatch.setattr(module, "MOST_REPAIRS", 1)
    plan = ReleasePlan(memorising(80, repair=True, **accepting("singleton_visit_gap")), tmp_path / "out")
    told = plan.run()
    assert not told.passed and not (tmp_path / "out").exists()
    assert [attempt.min_patients for attempt in told.attempts] == [11, 22]
    for attempt in told.attempts:
        (line,) = (line for line in attempt.lines if line.name == "singleton_visit_gap")
        assert not line.passed and line.value > 0.03
    assert "a code needs 22 patients" in plan.page.read_text()


@pytest.mark.parametrize("written", [False, True])
def test_attacks_on_the_model_decide_on_the_model_alone(written, tmp_path):
    """78 controls cannot show that nothing is learned of those who stand out; with a reason the model is written."""
    given = ACCEPTED if written else accepting("membership_lira_auc [exposed]")
    told = ReleasePlan(memorising(2, model=True, **given), tmp_path / "out").run()
    assert told.passed and told.model_passed == written
    assert (tmp_path / "out" / "csv").is_dir() and (tmp_path / "out" / "model").is_dir() == written
    assert all(line.value is not None for line in told.chosen.model_lines if "[" not in line.name)


def test_every_planned_attempt_is_one_more_chance_to_pass_by_luck(monkeypatch, tmp_path):
    asked = []

    def gate(scores, *limits, tries=1):
        asked.append(tries)
        return [GateLine("copy_excess", "exceeded", 0.02, 0.015, 0.03, 0.01)]

    monkeypatch.setattr(module, "gate", gate)
    ReleasePlan(planted(repair=True), tmp_path / "out").run()
    assert asked == [len(asked)] * len(asked) and len(asked) > 1


def test_a_short_time_does_not_weaken_the_gate_and_what_can_be_shown_is_said_before_training(tmp_path, capsys):
    """With few minutes the evaluation is quick; the gate finds the same as in a full one."""
    found = {}
    for quick in (True, False):
        plan = ReleasePlan(planted(**{"evaluate.quick": quick}), tmp_path / str(quick))
        plan.run()
        found[quick] = plan.decision(plan.attempts[0])
    assert found[True]["lines"] == found[False]["lines"]
    said = capsys.readouterr().err
    assert "lines of the privacy gate even where nothing leaks" in said and "more control patients" in said


# ---- whole records ------------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def whole_cohort(tmp_path_factory) -> Path:
    """Made-up patients of whole visits, one of five of unknown age."""
    folder = tmp_path_factory.mktemp("whole") / "cohort"
    cohort = simulate(600, 60, seed=1, whole=True)
    ages = Attribute((np.arange(600) % 5 - 1).astype(np.int16), ("20-29", "40-49", "60-69", "80-89"))
    replace(cohort, attributes={"age_band": ages}).save(folder)
    return folder


def test_a_release_of_whole_records_tells_of_stays_and_numbers(whole_cohort, tmp_path):
    judged = {**COUNTED, "evaluate.suites": ("fidelity", "utility", "privacy")}
    formats = ("csv", "meds", "omop", "fhir")
    spec = release_settings("cohort", str(whole_cohort), method="marginal", changes=judged, formats=formats, **ACCEPTED)
    plan = ReleasePlan(spec, tmp_path / "out")
    told = plan.run()
    out, synthetic = tmp_path / "out", told.synthetic
    assert read("table", out / "csv").fingerprint == synthetic.fingerprint
    card = (out / "README.md").read_text()
    unknown = synthetic.attributes["age_band"].values < 0
    assert (
        read("omop", out / "omop", domains=("dx", "px", "rx", "lab", "stay")).n_patients
        == int((~unknown).sum())
        < synthetic.n_patients
    )
    assert f"`omop/`: read back with `adapcla import omop omop --out cohort`; {int(unknown.sum())} patients are" in card
    assert "| stay | 6 | 5 | 1 |" in card and "| lab | 3 | 0 | 3 |" in card
    machines = json.loads((out / "croissant.json").read_text())["recordSet"]
    fields = {field["@id"]: field["dataType"] for table in machines for field in table["field"]}
    assert fields["long/value"] == "sc:Float" and fields["long/unit"] == "sc:Text"
    page = (out / "report.html").read_text()
    domains = page[page.index('<figure class="table domains">') : page.index('<figure class="table useful">')]
    assert all(f"<span>{name}</span>" in domains for name in ("diagnosis", "drug", "lab", "procedure", "stay"))
    lines = {line.metric: line for line in usefulness(told.chosen)}
    assert lines["mortality_auroc"].real is not None or lines["mortality_auroc"].why_real


def test_values_of_a_release_are_told_of_as_many_patients_as_codes_are(whole_cohort, tmp_path):
    spec = release_settings("cohort", str(whole_cohort), method="marginal", changes=COUNTED, min_patients=60)
    plan = ReleasePlan(spec, tmp_path / "out")
    plan.run()
    bands, train = (
        load(plan.place(plan.attempts[0], "fit")).model.quantizer,
        open_splits(plan.place(plan.attempts[0], "patients"))["train"],
    )
    banded = bands.quantize(train)
    held = [banded.patient_counts[banded.vocabulary.index[code.token]] for n in bands.numbers for code in n.codes()]
    assert len(held) >= 4 and min(held) >= 60
    assert len(Quantizer.of(train).vocabulary) > len(bands.vocabulary)


def test_repairs_of_whole_records_end_before_differential_privacy(monkeypatch, whole_cohort, tmp_path):
    """ε would not cover the bands of numbers and the chances of choices: such a fit is refused."""
    refuse(monkeypatch, first=9)
    small = {"width": 16, "layers": 1, "heads": 1, "passes": 0.1}
    changes = {**COUNTED, **{f"fit.settings.{name}": value for name, value in small.items()}}
    spec = release_settings("cohort", str(whole_cohort), method="adapcla", changes=changes, repair=True)
    plan = ReleasePlan(spec, tmp_path / "out")
    assert "privacy" in plan.attempts[-1].settings
    told = plan.run()
    assert not told.passed and [attempt.number for attempt in told.attempts] == [1, 2, 3]
    assert not plan.place(plan.attempts[-1], "fit").exists() and plan.page.is_file()


# ---- the plan ---------------------------------------------------------------------------------------------------
def network(minutes: float, **more) -> ReleaseSettings:
    """A release by a small network."""
    fit = {f"fit.settings.{name}": value for name, value in {"width": 16, "layers": 1, "heads": 2}.items()}
    world = {"data.planted.patients": 520, "data.planted.codes": 60}
    changes = {**COUNTED, **world, **fit}
    return release_settings("planted", method="gpt", changes=changes, minutes=minutes, **ACCEPTED, **more)


def measured_as(monkeypatch, seconds_an_epoch: float) -> None:
    """Let the machine be measured as this fast."""
    found = Speed(Pace(0.1, seconds_an_epoch), 1.0, 5.0)
    monkeypatch.setattr(module, "measure", lambda *_, **__: found)


def test_time_is_measured_on_this_machine_and_a_slow_one_trains_less(monkeypatch, tmp_path, capsys):
    found = {}
    for seconds in (0.01, 10.0):
        measured_as(monkeypatch, seconds)
        plan = ReleasePlan(network(1.0), tmp_path / str(seconds))
        run_steps([step for step in plan.steps if step.stage in ("read", "vocabulary", "choose")], plan.root)
        found[seconds] = plan.as_plan()["attempts"]["1"]
    fast, slow = found[0.01], found[10.0]
    assert fast["settings"]["passes"] == fast["wanted passes"] == slow["wanted passes"]
    assert slow["settings"]["passes"] < 0.2 * slow["wanted passes"]
    said = capsys.readouterr().err
    assert "training will end before it has converged" in said and "--minutes" in said


def test_most_of_the_minutes_go_into_training_where_that_has_not_converged(monkeypatch, tmp_path):
    measured_as(monkeypatch, 60.0)
    plan = ReleasePlan(network(20.0), tmp_path / "out")
    run_steps([step for step in plan.steps if step.stage in ("read", "vocabulary", "choose")], plan.root)
    seconds = expected_seconds(plan.steps)
    planned = sum(each for step, each in zip(plan.steps, seconds, strict=True) if step.wanted())
    assert 0.8 * 20 * 60 <= planned <= 20 * 60


def test_real_steps_on_the_patients_are_what_is_measured(tmp_path):
    plan = ReleasePlan(network(3.0), tmp_path / "out")
    run_steps([step for step in plan.steps if step.stage in ("read", "vocabulary", "choose")], plan.root)
    kept = files.read_json(plan.place(plan.attempts[0], "choice") / "measured.json")
    assert kept["pace"]["epoch"] > 0 and kept["slowness"] > 0 and kept["before"] > 3


def test_a_plan_given_again_makes_the_same_bytes_on_any_machine(monkeypatch, tmp_path):
    measured_as(monkeypatch, 40.0)
    ReleasePlan(network(1.5), tmp_path / "first").run()
    measured_as(monkeypatch, 0.01)
    again = network(30.0, plan=str(tmp_path / "first" / "plan.json"))
    ReleasePlan(again, tmp_path / "second").run()
    assert content(tmp_path / "first") == content(tmp_path / "second")
    ReleasePlan(network(30.0), tmp_path / "other").run()
    assert content(tmp_path / "first") != content(tmp_path / "other")


def test_a_plan_of_other_patients_or_of_another_method_is_refused(tmp_path):
    made = {"method": "gpt", "sizes": [7, 8, 9], "settings": {"passes": 1.0}, "quick": True, "wanted passes": 2.0}
    files.write_json(tmp_path / "plan.json", {"format": 1, "minutes": 1.0, "attempts": {"1": made}})
    with pytest.raises(UsageError, match="a plan for \\[7, 8, 9\\] training patients"):
        ReleasePlan(network(1.0, plan=str(tmp_path / "plan.json")), tmp_path / "out").run()
    with pytest.raises(UsageError, match="add --method gpt"):
        ReleasePlan(planted(plan=str(tmp_path / "plan.json")), tmp_path / "out")


# ---- faults -----------------------------------------------------------------------------------------------
def test_an_interruption_at_any_step_ends_with_the_same_bytes(tmp_path, monkeypatch):
    ReleasePlan(planted(), tmp_path / "whole").run()
    for name in ("prepare", "train", "sample", "evaluate"):
        with monkeypatch.context() as patched:

            def stop(*_, **__):
                raise KeyboardInterrupt

            patched.setattr(module.tasks, name, stop)
            with pytest.raises(KeyboardInterrupt):
                ReleasePlan(planted(), tmp_path / "cut").run()
        assert not (tmp_path / "cut").exists()
    ReleasePlan(planted(), tmp_path / "cut").run()
    assert content(tmp_path / "whole") == content(tmp_path / "cut")


def test_a_full_disk_while_writing_leaves_no_release(tmp_path, monkeypatch):
    import errno

    from adapcla.release import card

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(card, "write", full)
        with pytest.raises(ExistsError, match="the disk is full"):
            ReleasePlan(planted(), tmp_path / "out").run()
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out.*"))
    assert ReleasePlan(planted(), tmp_path / "out").run().passed and (tmp_path / "out" / "csv").is_dir()


def test_a_kill_while_writing_leaves_no_release_and_is_taken_up(tmp_path):
    words = [
        sys.executable, "-m", "adapcla", "synthesize", "planted", "--out", str(tmp_path / "out"),
        "--method", "marginal", "--set", "data.planted.patients=520", "--set", "data.planted.codes=60",
        "--set", "evaluate.quick=true",
        "--set", 'evaluate.suites=["privacy"]', "--json", *ACCEPTING,
    ]  # fmt: skip
    # Folders are put in place whole: parts, model, sample, scores, and, fifth or later, those of the release.
    dead = subprocess.run(
        words, env={**os.environ, "ADAPCLA_CRASH_AT": "place:8"}, capture_output=True, text=True, check=False
    )
    assert dead.returncode == -signal.SIGKILL, dead.stderr
    assert not (tmp_path / "out").exists()
    alive = subprocess.run(words, capture_output=True, text=True, check=False)
    assert alive.returncode == 0, alive.stderr
    told = json.loads(alive.stdout.splitlines()[-1])
    assert told["passed"] and Path(told["page"]).is_file() and told["status"]["private"]["tone"] in ("green", "amber")


def test_the_time_left_follows_the_patients_once_they_are_known(tmp_path):
    """520 patients take less than the 40,000 that are reckoned with before a table is read."""
    simulate(520, 60, seed=1).save(tmp_path / "cohort")
    plan = ReleasePlan(
        release_settings("cohort", str(tmp_path / "cohort"), method="marginal", changes=COUNTED), tmp_path / "out"
    )
    before = sum(expected_seconds(plan.steps))
    run_steps([step for step in plan.steps if step.stage in ("read", "vocabulary")], plan.root)
    seconds = expected_seconds(plan.steps)
    after = sum(each for step, each in zip(plan.steps, seconds, strict=True) if not step.done)
    assert after < before / 2


# ---- what is refused before the work ----------------------------------------------------------------------
def test_too_few_patients_are_refused_with_what_can_be_done(tmp_path):
    plan = ReleasePlan(planted(**{"data.planted.patients": 120}), tmp_path / "out")
    with pytest.raises(InputError, match="120 patients are too few") as error:
        plan.run()
    assert "to do: add patients" in str(error.value) and not (tmp_path / "out").exists()


def test_codes_that_are_identifiers_are_refused(tmp_path):
    """A column in which everybody has a code of their own leaves nothing that enough patients share."""
    from adapcla.data import Cohort

    Cohort.of([[[f"person-{number}"]] for number in range(600)]).save(tmp_path / "cohort")
    plan = ReleasePlan(release_settings("cohort", str(tmp_path / "cohort"), changes=COUNTED), tmp_path / "out")
    with pytest.raises(InputError, match="no code is held by 11 patients"):
        plan.run()


def test_a_folder_that_holds_something_else_is_refused(tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(ExistsError):
        ReleasePlan(planted(), tmp_path / "out")
    assert ReleasePlan(planted(), tmp_path / "out", overwrite=True).steps


def test_an_unknown_format_and_unknown_ages_are_refused_before_training(tmp_path):
    with pytest.raises(UsageError, match="expected: csv"):
        ReleasePlan(planted(formats=("xml",)), tmp_path / "out")
    everybody = replace(simulate(600, 60, seed=1), attributes={})
    everybody.save(tmp_path / "cohort")
    spec = release_settings("cohort", str(tmp_path / "cohort"), formats=("omop",), changes=COUNTED)
    plan = ReleasePlan(spec, tmp_path / "out")
    with pytest.raises(InputError, match="no patient whose age is known"):
        plan.run()
    assert not (plan.root / "tries" / "1" / "fit").exists()


# ---- quality ------------------------------------------------------------------------------------------------
def test_a_release_whose_visits_are_too_small_is_refused_unless_somebody_says_why(monkeypatch, tmp_path):
    """A network that hardly trained writes visits of another size than real ones."""
    world = {"data.planted.patients": 520, "data.planted.codes": 60, "evaluate.suites": ("fidelity", "privacy")}
    fit = {
        f"fit.settings.{name}": value for name, value in {"passes": 0.5, "width": 16, "layers": 1, "heads": 2}.items()
    }
    asked = {"evaluate.quick": True, **world, **fit}
    only_privacy = [name for name in ACCEPTED["accept"] if name not in REQUIRED]
    given = {**ACCEPTED, "accept": tuple(only_privacy)}
    told = ReleasePlan(release_settings("planted", method="gpt", changes=asked, **given), tmp_path / "out").run()
    assert not told.passed and not (tmp_path / "out").exists() and "Codes per visit" in " ".join(told.chosen.reasons)
    told = ReleasePlan(
        release_settings("planted", method="gpt", changes=asked, **ACCEPTED), tmp_path / "out", tmp_path / "out-work"
    ).run()
    assert told.passed and ACCEPTED["reason"] in (tmp_path / "out" / "report.html").read_text()
    assert ACCEPTED["reason"] in (tmp_path / "out" / "README.md").read_text()
