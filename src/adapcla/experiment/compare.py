"""Many methods on one split: whatever is missing is trained, sampled and scored, then shown in one table."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from adapcla import files
from adapcla.console import say
from adapcla.errors import AdapclaError, ExistsError, InterruptedRun, UsageError
from adapcla.experiment.folder import RunFolder, stamp
from adapcla.experiment.spec import DataSpec, EvaluateSpec, SplitSpec, key_of
from adapcla.experiment.stages import data_key, fit_key, prepared, sampled, scored, scores_key, trained
from adapcla.generators.methods import METHODS, generator_for
from adapcla.machine import forget_peak_memory
from adapcla.metrics import Scores
from adapcla.records import Cohort
from adapcla.tables import Table, number

ASKED, SCORES, TABLE, MARKDOWN = "comparison.json", "scores.csv", "table.csv", "table.md"
#: Columns of what a row cost, from the facts of its fit.
COSTS = ("parameters", "passes", "seconds", "peak memory MB")
#: The rows that every table shows, by the column of the scores that holds them.
REFERENCES = {"real-test": "real_test", "train-copy": "train_copy", "marginal": "marginal"}


@dataclass(frozen=True)
class Asked:
    """What a comparison is asked for."""

    cohort: Path
    out: Path
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (1,)
    settings: dict[str, Any] = field(default_factory=dict)
    external: dict[str, Path] = field(default_factory=dict)
    evaluate: EvaluateSpec = field(default_factory=lambda: EvaluateSpec(suites=("tail", "fidelity")))
    #: Patients of each sample; 0 draws as many as there are test patients.
    patients: int = 0
    split: SplitSpec = field(default_factory=SplitSpec)


@dataclass(frozen=True, eq=False)
class Line:
    """A method and a seed: its values by metric, and what it cost or why it failed."""

    method: str
    seed: int | None
    values: dict[str, float | None]
    costs: dict[str, Any] = field(default_factory=dict)
    failed: str = ""


def chosen_methods(text: str) -> tuple[str, ...]:
    """The rows that `all`, or names with commas, stand for; references are in every table and need not be named.

    >>> chosen_methods("halo, marginal")
    ('halo',)
    """
    names = [name.strip() for name in text.split(",") if name.strip()]
    if names == ["all"]:
        return tuple(name for name, row in METHODS.items() if row.row.usual)
    for name in names:
        generator_for(name)  # an unknown name is refused with the nearest one, before anything is trained
    return tuple(dict.fromkeys(name for name in names if name not in REFERENCES))


def compare(asked: Asked) -> list[Line]:
    """The lines of the table, after whatever was missing was trained, sampled and scored; files are in `asked.out`."""
    if not asked.methods and not asked.external:
        raise UsageError("nothing to compare\nto do: name --methods, or --external NAME=PATH")
    for name in asked.methods:
        generator_for(name, **known_settings(name, asked.settings))
    _claim(asked)
    folder = RunFolder(asked.out)
    data = DataSpec(source="cohort", path=str(asked.cohort.resolve()))
    key = data_key(data, asked.split)
    parts = prepared(data, asked.split, folder.data, key)
    lines: list[Line] = []
    scores: list[tuple[int | None, Scores]] = []
    for method in asked.methods:
        for seed in asked.seeds:
            say(f"{method}, seed {seed}")
            line, found = _row(asked, folder, parts, key, method, seed)
            lines.append(line)
            scores += [(seed, found)] if found is not None else []
            _write(asked, [*_reference_lines(scores), *lines], scores)
    for name, path in asked.external.items():
        line, found = _outside(asked, folder, parts, key, name, path)
        lines.append(line)
        scores.append((None, found))
    lines = [*_reference_lines(scores), *lines]
    _write(asked, lines, scores)
    return lines


def _claim(asked: Asked) -> None:
    """Refuse a folder that holds something else."""
    if asked.out.exists() and any(asked.out.iterdir()) and not (asked.out / ASKED).is_file():
        raise ExistsError(f"{asked.out} exists and is no comparison\nto do: name another --out")
    asked.out.mkdir(parents=True, exist_ok=True)
    content = {"methods": list(asked.methods), "seeds": list(asked.seeds), "settings": asked.settings}
    content |= {"external": sorted(asked.external), "patients": asked.patients, "split": asked.split.model_dump()}
    files.write_json(asked.out / ASKED, {**content, "evaluate": asked.evaluate.model_dump(mode="json")})


def known_settings(method: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The changes that this row's family of networks knows; a name that no family knows stays, to be refused.

    >>> known_settings("eva", {"heads": 2, "width": 64, "widht": 3})
    {'width': 64, 'widht': 3}
    """
    from adapcla.networks.families import FAMILIES

    row = METHODS[method].settings
    somewhere = {name for family in FAMILIES.values() for name in family.architecture.model_fields}
    mine = set(type(row.architecture).model_fields)
    return {name: value for name, value in settings.items() if name in mine or name not in somewhere}


def _row(
    asked: Asked, folder: RunFolder, parts: dict[str, Cohort], of_data: str, method: str, seed: int
) -> tuple[Line, Scores | None]:
    """The line of one method and seed; a method that fails is a line that says why."""
    settings = known_settings(method, asked.settings)
    try:
        key = fit_key(of_data, method, settings, seed)
        forget_peak_memory()
        generator = trained(folder.fit(method, seed), key, method, settings, seed, parts["train"], parts["valid"])
        n = asked.patients or parts["test"].n_patients
        of_sample = key_of(key, n, seed)
        synthetic = sampled(folder.sample(method, seed, seed), of_sample, generator, n, seed)
        place = folder.scores(method, seed, seed)
        of_scores = scores_key(of_sample, asked.evaluate)
        found = scored(place, of_scores, method, synthetic, parts, asked.evaluate, None, generator, folder.cache)
    except InterruptedRun:
        raise
    except AdapclaError as error:
        if error.exit_code != 1:  # wrong settings, unreadable data and full disks are not the method's fault
            raise
        say(f"{method}, seed {seed} failed: {error}")
        return Line(method, seed, {}, failed=str(error).partition("\n")[0]), None
    costs = stamp(folder.fit(method, seed)).get("costs", {})
    return Line(method, seed, found.values(), {name: costs.get(name) for name in COSTS}), found


def _outside(
    asked: Asked, folder: RunFolder, parts: dict[str, Cohort], of_data: str, name: str, path: Path
) -> tuple[Line, Scores]:
    """The line of patients that somebody else made."""
    synthetic = Cohort.open(path)
    place = folder.root / "external" / name
    key = scores_key(key_of(of_data, synthetic.fingerprint), asked.evaluate)
    found = scored(place, key, name, synthetic, parts, asked.evaluate, cache=folder.cache)
    return Line(name, None, found.values()), found


def _reference_lines(scores: Sequence[tuple[int | None, Scores]]) -> list[Line]:
    """The references as the first scores show them."""
    if not scores:
        return []
    rows = [row for row in scores[0][1].rows if row.stratum == "all"]
    return [Line(name, None, {row.metric: getattr(row, column) for row in rows}) for name, column in REFERENCES.items()]


# ---- the table ----------------------------------------------------------------------------------------------
def _write(asked: Asked, lines: Sequence[Line], scores: Sequence[tuple[int | None, Scores]]) -> None:
    """Write the long scores, the wide table and the readable one."""
    import polars

    metrics = list(dict.fromkeys(metric for line in lines for metric in line.values))
    wide = [
        {
            "method": line.method,
            "seed": line.seed,
            **{metric: line.values.get(metric) for metric in metrics},
            **{cost: line.costs.get(cost) for cost in COSTS},
            "failed": line.failed,
        }
        for line in lines
    ]
    schema: dict[str, Any] = {"method": polars.String, "seed": polars.Int64}
    schema |= dict.fromkeys([*metrics, *COSTS], polars.Float64)
    table = polars.DataFrame(wide, schema={**schema, "failed": polars.String}, strict=False)
    files.write_bytes(asked.out / TABLE, table.write_csv().encode())
    files.write_bytes(asked.out / MARKDOWN, markdown(lines, _suites(scores), asked).encode())
    if scores:
        whole = polars.concat(
            [found.table().with_columns(seed=polars.lit(seed, dtype=polars.Int64)) for seed, found in scores]
        )
        text = io.BytesIO()
        whole.write_csv(text)
        files.write_bytes(asked.out / SCORES, text.getvalue())


def _suites(scores: Sequence[tuple[int | None, Scores]]) -> dict[str, dict[str, str]]:
    """Suite → metric → goal."""
    out: dict[str, dict[str, str]] = {}
    for _, found in scores[:1]:
        for row in found.rows:
            out.setdefault(row.suite, {})[row.metric] = row.goal
    return out


def markdown(lines: Sequence[Line], suites: dict[str, dict[str, str]], asked: Asked) -> str:
    """The table for people: a row a method, mean over seeds, one table a suite, then what each row cost."""
    arrows = {"up": " ↑", "down": " ↓"}
    seeds = ", ".join(map(str, asked.seeds))
    out = [
        "# Comparison",
        "",
        f"One split (seed {asked.split.seed}), one vocabulary. Mean over {len(asked.seeds)} seed(s) of fit and sample "
        f"together ({seeds}), ± their standard deviation; the judge has one seed ({asked.evaluate.seed}).",
        "References: real-test is the ceiling, train-copy what memorising scores, marginal the floor.",
        "",
    ]
    methods = list(dict.fromkeys(line.method for line in lines))
    for suite, metrics in suites.items():
        heads = [f"{metric}{arrows.get(goal, '')}" for metric, goal in metrics.items()]
        rows = [[name, *(_mean(lines, name, metric) for metric in metrics)] for name in methods]
        out += [f"## {suite}", "", Table(["method", *heads], rows).markdown()]
    costs = [[name, *(_mean(lines, name, cost) for cost in COSTS), _remark(lines, name)] for name in methods]
    return "\n".join([*out, "## Cost", "", Table(["method", *COSTS, "remark"], costs).markdown()])


def _mean(lines: Sequence[Line], method: str, name: str) -> str:
    """Mean and spread over the seeds of a method, as text."""
    mine = [line.values.get(name, line.costs.get(name)) for line in lines if line.method == method]
    known = [float(value) for value in mine if value is not None]
    if not known:
        return "–"
    middle = f"{fmean(known):,.0f}" if name == "parameters" else number(fmean(known))
    return middle if len(known) < 2 or name in COSTS else f"{middle} ± {stdev(known):.2g}"


def _remark(lines: Sequence[Line], method: str) -> str:
    """What the row starts from and notes, and which seeds failed."""
    failed = [f"seed {line.seed} failed: {line.failed}" for line in lines if line.method == method and line.failed]
    row = METHODS.get(method)
    told = [] if row is None else [f"starts from {row.row.starts_from}", row.row.note]
    return "; ".join(part for part in [*told, *failed] if part).replace("|", "/") or "made elsewhere"
