"""The stages of an experiment: prepare, train, sample and score; each is done once for its settings."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adapcla import files
from adapcla.console import say
from adapcla.data import Cohort, Prevalence
from adapcla.data.split_folder import open_splits, save_splits, split_cohort
from adapcla.errors import InputError, UsageError
from adapcla.evaluation import Comparison, Scores
from adapcla.evaluation.metric import metrics_asked
from adapcla.evaluation.references import some_patients
from adapcla.evaluation.runner import evaluate
from adapcla.generation.generator import Generator, generator_for, load
from adapcla.generation.membership import evidence as attacked
from adapcla.generation.run_folder import ASKED, OUTCOME, train_run
from adapcla.generation.sample_folder import stream_sample
from adapcla.io.losses import require_kept
from adapcla.machine import reset_peak_memory
from adapcla.pipeline.curves import curves_of
from adapcla.pipeline.folder import is_done, making
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, SplitSettings, data_path, key_of
from adapcla.scaffold import Steering
from adapcla.seeds import random_stream
from adapcla.version import __version__

CURVES = "curves.json"
#: Times that patients with a visit too large are drawn again, and how far apart the seeds of two times are.
_REDRAWS, _NEXT_SEED = 20, 1_000_003
#: Facts of a fit that every table of costs shows.
COSTS = ("parameters", "passes", "steps", "seconds", "peak memory MB", "validation loss per visit", "stopped early")


# ---- prepare ------------------------------------------------------------------------------------------------
#: Bytes beyond which a file is not read just to know whether it changed.
_LARGE = 64 << 20


def data_key(data: DataSettings, split: SplitSettings) -> str:
    """What a prepared cohort depends on: the settings and the files; a copy of the same files is the same data.

    Files too large to be read only for that are known by their size and time.
    """
    content, of_split = data.model_dump(mode="json"), split.model_dump(exclude_none=True)
    if data.source == "planted":
        from adapcla.io.simulator import WORLD

        asked = {name: content[name] for name in ("planted", "where", "min_patients", "patients")}
        return key_of(asked, of_split, WORLD)
    folder = data_path(data)
    inputs = [folder] if folder.is_file() else sorted(path for path in folder.rglob("*") if path.is_file())
    seen = [[path.name, path.stat().st_size, _mark(path)] for path in inputs]
    return key_of(content, seen, of_split)


def _mark(path: Path) -> str | int:
    """What distinguishes a file from others with its name and size."""
    large = path.stat().st_size > _LARGE
    return path.stat().st_mtime_ns if large else files.sha256_of(path)


def prepared(
    data: DataSettings, split: SplitSettings, folder: Path, key: str, allow_dropped: float = 1.0
) -> dict[str, Cohort]:
    """The parts of the cohort by name, read, cut and divided unless that is done already.

    Where more than `allow_dropped` of the visits, codes or patients of the source were dropped, nothing is prepared.
    """
    if not is_done(folder, key):
        with making(folder, key) as facts:
            whole = read_data(data)
            require_kept(whole, allow_dropped, data.path or None)
            if split.within is not None:
                whole = split_cohort(whole, split.within)["train"]
            parts = split_cohort(whole, split.seed, split.control)
            from adapcla.data.description import describe

            save_splits(parts, folder, overwrite=True)
            facts["description"] = describe(whole)
            facts["parts"] = {name: [part.n_patients, part.n_visits] for name, part in parts.items()}
            say(f"prepared {folder}: " + ", ".join(f"{name} {part.n_patients:,}" for name, part in parts.items()))
    return open_splits(folder)


def read_data(data: DataSettings) -> Cohort:
    """The patients of a data specification."""
    if data.source == "planted":
        from adapcla.io import simulator as planted

        cohort = planted.simulate(**data.planted.model_dump())
    elif data.source == "cohort":
        cohort = Cohort.open(data_path(data))
    else:
        from adapcla.io import read

        cohort = read(data.source, data_path(data), **data.options)
    for name, categories in data.where.items():
        cohort = _only(cohort, name, categories)
    if data.patients and data.patients < cohort.n_patients:
        chosen = random_stream(1, "experiment/patients").choice(cohort.n_patients, data.patients, replace=False)
        cohort = cohort.subset(np.sort(chosen))
    if data.min_patients:
        cohort = cohort.keep_codes(cohort.patient_counts >= data.min_patients)
    return cohort


def _only(cohort: Cohort, name: str, categories: list[str]) -> Cohort:
    """The patients whose attribute is one of these categories."""
    if name not in cohort.attributes:
        raise UsageError(f"data.where.{name}: expected one of {', '.join(sorted(cohort.attributes)) or 'no attribute'}")
    attribute = cohort.attributes[name]
    absent = [category for category in categories if category not in attribute.categories]
    if absent:
        raise UsageError(f"data.where.{name}: no {absent[0]!r}; expected some of {', '.join(attribute.categories)}")
    positions = [attribute.categories.index(category) for category in categories]
    return cohort.subset(np.flatnonzero(np.isin(np.asarray(attribute.values), positions)))


# ---- train and sample ---------------------------------------------------------------------------------------
def fit_key(of_data: str, method: str, settings: dict[str, Any], seed: int) -> str:
    """What a fit depends on: the cohort and every setting that changes the weights."""
    return key_of(of_data, generator_for(method, **{**settings, "seed": seed}).settings.fingerprint())


def trained(
    folder: Path, key: str, method: str, settings: dict[str, Any], seed: int, train: Cohort, valid: Cohort
) -> Generator:
    """The fitted row, trained (or taken up where it was stopped) unless that is done already."""
    generator = generator_for(method, **{**settings, "seed": seed})
    if is_done(folder, key):
        return load(folder)
    with making(folder, key, method=method, seed=seed, settings=generator.settings.model_dump(mode="json")) as facts:
        say(f"train {folder}")
        reset_peak_memory()
        stale = _begun_otherwise(folder, generator, train, valid)
        train_run(generator, train, valid, folder, resume=not stale, overwrite=stale)
        outcome = files.read_json(folder / OUTCOME)
        facts["costs"] = {name: outcome.get(name) for name in COSTS}
    return load(folder)


def _begun_otherwise(folder: Path, generator: Generator, train: Cohort, valid: Cohort) -> bool:
    """Whether the folder holds something that this fit cannot go on with."""
    if not (folder / ASKED).is_file():
        return folder.exists()
    try:
        before = files.read_json(folder / ASKED)
    except InputError:
        return True
    now = {"fingerprint": generator.settings.fingerprint(), "train": train.fingerprint, "valid": valid.fingerprint}
    return any(before.get(name) != value for name, value in now.items())


def sampled(
    folder: Path, key: str, generator: Generator, n: int, seed: int, steering: Steering | None = None
) -> Cohort:
    """Patients of a fit in a cohort folder, drawn unless that is done already."""
    if not is_done(folder, key):
        with making(folder, key, seed=seed):
            fresh = not folder.exists()
            stream_sample(generator.model, n, seed, folder, steering=steering, resume=fresh, overwrite=not fresh)
    return Cohort.open(folder)


def sampled_within(folder: Path, key: str, generator: Generator, n: int, seed: int, most_codes: int) -> Cohort:
    """Patients of a fit none of whose visits holds more codes than `most_codes`; whoever has one is drawn again.

    A network that draws a visit part by part may run away on one visit in some thousands; such a visit holds more
    codes than any patient has, and outweighs all others where pairs of codes are counted.
    """
    if not is_done(folder, key):
        drawn = sampled(folder.with_name(f"{folder.name}-drawn"), key, generator, n, seed)
        with making(folder, key, seed=seed) as facts:
            kept = within(drawn, most_codes)
            facts["drawn again"] = n - kept.n_patients
            for number in range(1, _REDRAWS + 1):
                missing = n - kept.n_patients
                if not missing:
                    break
                more = generator.sample(2 * missing, seed + number * _NEXT_SEED)
                kept = kept.followed_by(some_patients(within(more, most_codes), missing, seed))
            replace(kept, card=drawn.card).save(folder, overwrite=True)
    return Cohort.open(folder)


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


def copied(folder: Path, key: str, path: Path) -> Cohort:
    """Patients that were made elsewhere, kept beside the rest so that the folder stays whole."""
    if not is_done(folder, key):
        with making(folder, key):
            Cohort.open(path).save(folder, overwrite=True)
    return Cohort.open(folder)


# ---- evaluate -----------------------------------------------------------------------------------------------
def scores_key(of_sample: str, spec: EvaluateSettings, *more: Any) -> str:
    """What scores depend on, the definition of every metric among it."""
    metrics = [metric.name for metric in metrics_asked(spec.suites) if metric.key not in spec.leave_out]
    return key_of(of_sample, spec.model_dump(mode="json"), __version__, metrics, *more)


def scored(
    folder: Path,
    key: str,
    name: str,
    synthetic: Cohort,
    parts: dict[str, Cohort],
    spec: EvaluateSettings,
    target: Prevalence | None = None,
    generator: Generator | None = None,
    cache: Path | None = None,
    attack_models: int = 0,
    most: int = 0,
) -> Scores:
    """The scores of a synthetic cohort in a folder, with its curves beside them, made unless that is done already.

    Where `most` is given, all suites but privacy are judged by at most so many random patients of each part, and the
    card tells so. A leak may concern a single patient, so privacy is judged by all.
    """
    if is_done(folder, key):
        return Scores.open(folder)
    with making(folder, key):
        say(f"evaluate {name}: {folder}")
        kept: dict[str, Any] = {}
        judged = [
            evaluate(
                those["train"],
                those["test"],
                made,
                suites=suites,
                control=those.get("control"),
                target=target,
                method=name,
                seed=spec.seed,
                quick=spec.quick,
                cache=cache,
                evidence=_evidence(generator, parts, spec.model_copy(update={"suites": suites}), attack_models),
                observe=partial(_keep_curves, kept, suites, spec.leave_out),
                leave_out=spec.leave_out,
                population=spec.population,
            )
            for suites, those, made in _judgements(spec, parts, synthetic, most)
        ]
        scores = judged[0].beside(*judged[1:])
        scores.save(folder, overwrite=True)
        files.write_json(folder / CURVES, kept)
    return scores


def _keep_curves(kept: dict[str, Any], suites: tuple[str, ...], leave_out: tuple[str, ...], seen: Comparison) -> None:
    """Add the curves of a comparison to those that are kept."""
    kept.update(curves_of(seen, suites, leave_out))


def _judgements(
    spec: EvaluateSettings, parts: dict[str, Cohort], synthetic: Cohort, most: int
) -> list[tuple[tuple[str, ...], dict[str, Cohort], Cohort]]:
    """Which suites are judged by which patients: privacy by all of them, the others by at most so many of each part."""
    if not most or max(cohort.n_patients for cohort in (*parts.values(), synthetic)) <= most:
        return [(tuple(spec.suites), parts, synthetic)]
    some = {name: some_patients(part, most, spec.seed) for name, part in parts.items()}
    split = {private: tuple(s for s in spec.suites if (s == "privacy") == private) for private in (False, True)}
    by_some = (split[False], some, some_patients(synthetic, most, spec.seed))
    return [each for each in (by_some, (split[True], parts, synthetic)) if each[0]]


def _evidence(
    generator: Generator | None, parts: dict[str, Cohort], spec: EvaluateSettings, attack_models: int = 0
) -> dict[str, Any]:
    """What only the model can say of real patients, as far as the suites ask; nothing where it has no likelihood."""
    if generator is None or not generator.model.traits.likelihood:
        return {}
    evidence: dict[str, Any] = {}
    if "privacy" in spec.suites:
        evidence |= _likelihoods(generator, parts)
        if attack_models:
            control = parts.get("control", parts["test"])
            evidence |= attacked(generator.model, parts["train"], control, attack_models, spec.seed)
    return evidence


def _likelihoods(generator: Generator, parts: dict[str, Cohort]) -> dict[str, Any]:
    """What an attacker with the model would see of members and controls; nothing where that is no number."""
    control = parts.get("control", parts["test"])
    members, controls = (generator.log_likelihood(cohort) for cohort in (parts["train"], control))
    if not (np.isfinite(members).all() and np.isfinite(controls).all()):
        return {}
    return {"member_log_likelihood": members, "control_log_likelihood": controls}
