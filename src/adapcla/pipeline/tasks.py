"""What steps do: prepare, train, sample and evaluate; for releases and studies alike.

Each is a function of a folder, of the folders it reads and of settings, and returns facts for the step's record. It
shares no state with other steps, so that each may run in a process, or on a machine, of its own.
"""

from __future__ import annotations

import shutil
from dataclasses import asdict, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.data.split_folder import open_splits, save_splits, split_cohort
from adapcla.errors import UsageError
from adapcla.evaluation import Comparison
from adapcla.evaluation.metric import metrics_for
from adapcla.evaluation.references import some_patients
from adapcla.evaluation.runner import evaluate as evaluate_cohorts
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.generation.membership import evidence as attack_evidence
from adapcla.generation.run_folder import ASKED, MODEL, OUTCOME, asked_of, train_run
from adapcla.generation.sample_folder import stream_sample
from adapcla.io import ReadOptions
from adapcla.io.losses import losses, require_kept, say_dropped
from adapcla.machine import reset_peak_memory
from adapcla.pipeline.curves import curves_of
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, SplitSettings, data_path
from adapcla.pipeline.steps import RECORD
from adapcla.scaffold import Steering
from adapcla.seeds import random_stream
from adapcla.training.settings import METHODS

#: Revisions of what the tasks write: raised when a change of the code changes the bytes, so that they are made again.
PREPARE, TRAIN, SAMPLE, EVALUATE = 1, 2, 1, 2
CURVES = "curves.json"
#: Times that patients with a visit too large are drawn again, and how far apart the seeds of two times are.
_REDRAWS, _NEXT_SEED = 20, 1_000_003
#: Facts of a fit that every table of costs shows.
COSTS = ("parameters", "passes", "steps", "seconds", "peak memory MB", "validation loss per visit", "stopped early")
#: Options of a source that may name a file, of which the content counts.
_FILES = ("labels", "labs")
#: A method, and changed settings.
Row = tuple[str, dict[str, Any]]


# ---- methods and their settings -------------------------------------------------------------------------------
def known_settings(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The changes that this method's family of networks knows; a name that no family knows stays, to be refused.

    >>> known_settings("eva", {"heads": 2, "width": 64, "widht": 3})
    {'width': 64, 'widht': 3}
    """
    from adapcla.models.registry import FAMILIES

    row = METHODS[method].settings
    somewhere = {name for family in FAMILIES.values() for name in family.architecture.model_fields}
    mine = set(type(row.architecture).model_fields)
    return {name: value for name, value in settings.items() if name in mine or name not in somewhere}


def checked_row(method: str, settings: dict[str, Any]) -> Row:
    """A method with the settings that reach it; an unknown name of either is refused with the nearest one."""
    generator_for(method)
    known = known_settings(method, settings)
    generator_for(method, **known)
    return method, known


def fit_inputs(row: Row, seed: int, **more: Any) -> dict[str, Any]:
    """What a fit depends on beside its patients: every setting that changes the weights."""
    method, settings = row
    return {"settings": generator_for(method, **{**settings, "seed": seed}).settings.fingerprint(), **more}


# ---- prepare --------------------------------------------------------------------------------------------------
def data_inputs(data: DataSettings, split: SplitSettings, cohort: Cohort | None = None) -> dict[str, Any]:
    """What prepared patients depend on: their content and how they are read and divided, and not where they lie.

    A copy of a table is the same data, an option that says what is the default anyhow changes nothing, and a cohort in
    memory is the same as its folder.
    """
    out: dict[str, Any] = {name: getattr(data, name) for name in ("where", "min_patients", "patients")}
    out["split"] = split.model_dump(exclude_none=True)
    if data.source == "planted":
        from adapcla.io.simulator import WORLD

        return {**out, "planted": data.planted.model_dump(mode="json"), "world": WORLD}
    if data.source == "cohort":
        whole = Cohort.open(data_path(data)) if cohort is None else cohort
        # The folder adds what is counted from the arrays to the card.
        counted = ("format", "patients", "visits", "codes", "entries", "labels", "attributes")
        card = {name: value for name, value in whole.card.items() if name not in counted}
        return {**out, "cohort": whole.fingerprint, "card": card}
    options = asdict(ReadOptions.of(data.options))
    for name in _FILES:
        file = Path(str(options[name] or ""))
        if len(str(file)) < 4096 and file.is_file():
            options[name] = _sha256_of_file(file)
    return {**out, "source": data.source, "options": options, "content": _content_of(data_path(data))}


def _content_of(path: Path) -> list[list[str]]:
    """Name and hash of every file of a folder; of a single file the ending in place of its name."""
    if path.is_file():
        return [["".join(path.suffixes[-2:]).lower(), _sha256_of_file(path)]]
    inside = sorted(file for file in path.rglob("*") if file.is_file())
    return [[file.relative_to(path).as_posix(), _sha256_of_file(file)] for file in inside]


def _sha256_of_file(path: Path) -> str:
    state = path.stat()
    return _sha256(str(path.resolve()), state.st_size, state.st_mtime_ns)


@cache
def _sha256(path: str, size: int, changed: int) -> str:
    """The hash of a file as it was at that time: several keys of one run do not read it again."""
    return files.sha256_of(Path(path))


def prepare(
    folder: Path,
    data: DataSettings,
    split: SplitSettings,
    allow_dropped: float = 1.0,
    cohort: Cohort | None = None,
) -> dict[str, Any]:
    """Read, select and divide patients.

    Where more than `allow_dropped` of the visits, codes or patients of the source were dropped, nothing is prepared.
    """
    from adapcla.data.description import describe

    whole = read_data(data, cohort)
    say_dropped(whole)
    require_kept(whole, allow_dropped, data.path or None)
    if split.within is not None:
        whole = split_cohort(whole, split.within)["train"]
    parts = split_cohort(whole, split.seed, split.control)
    save_splits(parts, folder, overwrite=True)
    say(f"prepared {folder}: " + ", ".join(f"{name} {part.n_patients:,}" for name, part in parts.items()))
    sizes = {name: [part.n_patients, part.n_visits] for name, part in parts.items()}
    lost = [loss._asdict() for loss in losses(whole)]
    about = {"description": describe(whole), "parts": sizes, "in source": dict(whole.card.get("in source") or {})}
    return {**about, "lost": lost}


def read_data(data: DataSettings, cohort: Cohort | None = None) -> Cohort:
    """The patients that the settings ask for; `cohort` where they are in memory already."""
    if cohort is not None:
        pass
    elif data.source == "planted":
        from adapcla.io import simulator

        cohort = simulator.simulate(**data.planted.model_dump())
    elif data.source == "cohort":
        cohort = Cohort.open(data_path(data))
    else:
        from adapcla.io import read

        cohort = read(data.source, data_path(data), **data.options)
    for name, categories in data.where.items():
        cohort = _with_attribute(cohort, name, categories)
    if data.patients and data.patients < cohort.n_patients:
        chosen = random_stream(1, "experiment/patients").choice(cohort.n_patients, data.patients, replace=False)
        cohort = cohort.subset(np.sort(chosen))
    if data.min_patients:
        cohort = cohort.keep_codes(cohort.patient_counts >= data.min_patients)
    return cohort


def _with_attribute(cohort: Cohort, name: str, categories: list[str]) -> Cohort:
    """The patients whose attribute is one of these categories."""
    if name not in cohort.attributes:
        raise UsageError(f"data.where.{name}: expected one of {', '.join(sorted(cohort.attributes)) or 'no attribute'}")
    attribute = cohort.attributes[name]
    absent = [category for category in categories if category not in attribute.categories]
    if absent:
        raise UsageError(f"data.where.{name}: no {absent[0]!r}; expected some of {', '.join(attribute.categories)}")
    positions = [attribute.categories.index(category) for category in categories]
    return cohort.subset(np.flatnonzero(np.isin(np.asarray(attribute.values), positions)))


def copy(folder: Path, source: Path) -> dict[str, Any]:
    """Keep patients that were made elsewhere beside the rest, so that the folder stays whole."""
    Cohort.open(source).save(folder, overwrite=True)
    return {}


# ---- train ----------------------------------------------------------------------------------------------------
def train(
    folder: Path,
    parts: Path,
    row: Row,
    seed: int,
    *,
    patients: int = 0,
    same_as: Path | None = None,
) -> dict[str, Any]:
    """Fit a method to prepared patients, from where it was stopped if it was.

    Args:
        folder: Of the run.
        parts: Folder of prepared patients.
        row: Method, and changed settings.
        seed: Of the fit.
        patients: Training patients at most; 0 for all.
        same_as: A finished run that is copied where it has the same settings and patients.
    """
    method, settings = row
    generator = generator_for(method, **{**settings, "seed": seed})
    prepared = open_splits(parts)
    learned, watched = prepared["train"], prepared["valid"]
    if patients and patients < learned.n_patients:
        chosen = random_stream(1, "tuning/patients").choice(learned.n_patients, patients, replace=False)
        learned = learned.subset(np.sort(chosen))
    reset_peak_memory()
    asked = asked_of(generator, learned, watched, shareable=False)
    if same_as is not None and (same_as / MODEL).is_dir() and not folder.exists():
        before = files.read_json(same_as / ASKED)
        if all(before[name] == asked[name] for name in ("fingerprint", "train", "valid")):
            with files.fresh_folder(folder) as copied:
                shutil.copytree(same_as, copied, ignore=shutil.ignore_patterns(RECORD), dirs_exist_ok=True)
    train_run(generator, learned, watched, folder, resume=True)
    outcome = files.read_json(folder / OUTCOME)
    costs = {name: outcome.get(name) for name in COSTS}
    return {"method": method, "seed": seed, "settings": generator.settings.model_dump(mode="json"), "costs": costs}


# ---- sample ---------------------------------------------------------------------------------------------------
def sample(
    folder: Path,
    fit: Path,
    n: int,
    seed: int,
    *,
    most_codes: int | None = None,
    steering: Steering | None = None,
) -> dict[str, Any]:
    """Draw `n` patients from a fit.

    A network that draws a visit part by part may run away on one visit in some thousands; such a visit holds more
    codes than any patient has, and outweighs all others where pairs of codes are counted. Whoever has a visit of more
    codes than `most_codes` is drawn again.
    """
    generator = load(fit)
    if most_codes is None:
        stream_sample(generator.model, n, seed, folder, steering=steering, resume=True, overwrite=True)
        return {"seed": seed}
    first = folder.with_name(f"{folder.name}-drawn")
    stream_sample(generator.model, n, seed, first, steering=steering, resume=True, overwrite=True)
    drawn = Cohort.open(first)
    kept = within(drawn, most_codes)
    again = n - kept.n_patients
    shutil.rmtree(folder, ignore_errors=True)
    if not again:
        del drawn, kept
        first.rename(folder)
        return {"seed": seed, "drawn again": 0}
    for number in range(1, _REDRAWS + 1):
        missing = n - kept.n_patients
        if not missing:
            break
        more = generator.sample(2 * missing, seed + number * _NEXT_SEED)
        kept = kept.followed_by(some_patients(within(more, most_codes), missing, seed))
    replace(kept, card=drawn.card).save(folder, overwrite=True)
    shutil.rmtree(first)
    return {"seed": seed, "drawn again": again}


def within(cohort: Cohort, most_codes: int) -> Cohort:
    """The patients none of whose visits holds more than so many codes.

    >>> within(Cohort.of([[["A", "B"], ["C"]], [["A"]]]), 1).n_patients
    1
    """
    return cohort.subset(np.flatnonzero(_largest_visits(cohort) <= most_codes))


def most_codes_of(cohort: Cohort, k: int) -> int:
    """The number of codes that a visit of at least `k` patients reaches; all of them count where there are fewer.

    >>> most_codes_of(Cohort.of([[["A", "B", "C"]], [["A", "B"]], [["A"]]]), 2)
    2
    """
    largest = np.sort(_largest_visits(cohort))
    return int(largest[max(len(largest) - k, 0)])


def _largest_visits(cohort: Cohort) -> NDArray[np.int64]:
    """The codes of each patient's largest visit."""
    return np.asarray(np.maximum.reduceat(cohort.codes_per_visit, cohort.patient_starts[:-1]), dtype=np.int64)


# ---- evaluate -------------------------------------------------------------------------------------------------
def evaluate_inputs(asked: EvaluateSettings, **more: Any) -> dict[str, Any]:
    """What scores depend on beside the patients: what is evaluated, and the definition of every metric of it."""
    metrics = [metric.name for metric in metrics_for(asked.suites) if metric.key not in asked.leave_out]
    return {"evaluate": asked.model_dump(mode="json"), "metrics": metrics, **more}


def evaluate(
    folder: Path,
    name: str,
    synthetic: Path,
    parts: Path,
    asked: EvaluateSettings,
    *,
    fit: Path | None = None,
    toward: bool = False,
    cache: Path | None = None,
    attack_models: int = 0,
    most: int = 0,
) -> dict[str, Any]:
    """Score a synthetic cohort, with curves beside the scores.

    Args:
        folder: Of the scores.
        name: Of the method in tables.
        synthetic: Folder of the synthetic cohort.
        parts: Folder of the prepared patients that it is compared with.
        asked: What is evaluated.
        fit: Folder of the model, for attacks that need it.
        toward: The prevalences of these patients were what sampling was steered towards.
        cache: Folder of scores of references, shared by all methods.
        attack_models: Models of the same kind that are trained to attack the model.
        most: All suites but privacy look at so many random patients of each part at most; 0 for all. A leak may
            concern a single patient, so privacy looks at all.
    """
    prepared = open_splits(parts)
    target = prepared["train"].prevalence() if toward else None
    generator = None if fit is None else load(fit)
    evaluate_cohort(
        folder,
        name,
        Cohort.open(synthetic),
        prepared,
        asked,
        target=target,
        generator=generator,
        cache=cache,
        attack_models=attack_models,
        most=most,
    )
    return {}


def evaluate_cohort(
    folder: Path,
    name: str,
    synthetic: Cohort,
    parts: dict[str, Cohort],
    asked: EvaluateSettings,
    *,
    target: Prevalence | None = None,
    generator: Generator | None = None,
    cache: Path | None = None,
    attack_models: int = 0,
    most: int = 0,
) -> None:
    """Write the scores and curves of patients that are at hand; see `evaluate`."""
    curves: dict[str, Any] = {}
    scores = [
        evaluate_cohorts(
            some["train"],
            some["test"],
            made,
            suites=suites,
            control=some.get("control"),
            target=target,
            method=name,
            seed=asked.seed,
            quick=asked.quick,
            cache=cache,
            evidence=_evidence(generator, parts, asked.model_copy(update={"suites": suites}), attack_models),
            observe=partial(_keep_curves, curves, suites, asked.leave_out),
            leave_out=asked.leave_out,
            population=asked.population,
        )
        for suites, some, made in _by_patients(asked, parts, synthetic, most)
    ]
    scores[0].beside(*scores[1:]).save(folder, overwrite=True)
    files.write_json(folder / CURVES, curves)


def _keep_curves(kept: dict[str, Any], suites: tuple[str, ...], leave_out: tuple[str, ...], seen: Comparison) -> None:
    """Add the curves of a comparison to those that are kept."""
    kept.update(curves_of(seen, suites, leave_out))


def _by_patients(
    asked: EvaluateSettings, parts: dict[str, Cohort], synthetic: Cohort, most: int
) -> list[tuple[tuple[str, ...], dict[str, Cohort], Cohort]]:
    """Which suites look at which patients: privacy at all of them, the others at so many of each part at most."""
    if not most or max(cohort.n_patients for cohort in (*parts.values(), synthetic)) <= most:
        return [(tuple(asked.suites), parts, synthetic)]
    some = {name: some_patients(part, most, asked.seed) for name, part in parts.items()}
    split = {private: tuple(s for s in asked.suites if (s == "privacy") == private) for private in (False, True)}
    by_some = (split[False], some, some_patients(synthetic, most, asked.seed))
    return [each for each in (by_some, (split[True], parts, synthetic)) if each[0]]


def _evidence(
    generator: Generator | None, parts: dict[str, Cohort], asked: EvaluateSettings, attack_models: int = 0
) -> dict[str, Any]:
    """What only the model can say of real patients, as far as the suites ask; nothing where it has no likelihood."""
    if generator is None or not generator.model.traits.likelihood or "privacy" not in asked.suites:
        return {}
    control = parts.get("control", parts["test"])
    evidence: dict[str, Any] = {}
    members, controls = (generator.log_likelihood(cohort) for cohort in (parts["train"], control))
    # An attacker with the model sees nothing where that is no number.
    if np.isfinite(members).all() and np.isfinite(controls).all():
        evidence = {"member_log_likelihood": members, "control_log_likelihood": controls}
    if attack_models:
        evidence |= attack_evidence(generator.model, parts["train"], control, attack_models, asked.seed)
    return evidence
