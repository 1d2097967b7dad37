"""Every ablation of the paper and its missing controls as rows of one table, with a sentence for each claim."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from scipy import stats

from adapcla import files
from adapcla.analysis.probing import NEVER
from adapcla.console import say
from adapcla.errors import UsageError
from adapcla.generators import generator_for
from adapcla.metrics.contract import ALL, Comparison
from adapcla.metrics.evaluation import metrics_of
from adapcla.metrics.intervals import LEVEL
from adapcla.metrics.references import some_patients, train_copy
from adapcla.records import Cohort

#: The row that the others are compared with, and the control that has everything but the scaffold.
ANNEALED, CONTROL = "annealed", "no scaffold"
#: Metrics that speak for the tail, as the paper's table has them.
TAIL_METRICS = ("tail_pair_seen", "tail_ctx_jsd", "tail_topk_jac")
REFERENCES = ("real test", "train copy")
#: Settings that make the rows what they are.
OWN = (
    "method", "seed", "schedule", "tempering", "permuted", "head", "hierarchy", "bias_at_inference",
    "bias_at_validation", "first_stage", "starts_from", "positive_weight", "architecture",
)  # fmt: skip


@dataclass(frozen=True)
class Ablation:
    """A row: a method of the table with some settings changed."""

    method: str
    changes: dict[str, Any] = field(default_factory=dict)


ABLATIONS: dict[str, Ablation] = {
    "halo backbone": Ablation("halo"),
    "static consistent": Ablation("static-pcla"),
    "static train-only": Ablation("static-pcla-train-only"),
    ANNEALED: Ablation("adapcla"),
    CONTROL: Ablation("adapcla-no-scaffold"),
    "reversed sign": Ablation("adapcla-reversed"),
    "permuted bias": Ablation("adapcla", {"permuted": True}),
    "tempering 0.2": Ablation("adapcla", {"tempering": 0.2}),
    "tempering 0.5": Ablation("adapcla", {"tempering": 0.5}),
    "blockwise head": Ablation("adapcla", {"head": "blockwise"}),
    "halo head": Ablation("adapcla", {"head": "halo"}),
    "with hierarchy": Ablation("adapcla", {"hierarchy": True}),
}


@dataclass(frozen=True)
class Claim:
    """One claim: this row is better in the tail than that one."""

    text: str
    better: str
    worse: str


CLAIMS = (
    Claim("The annealed scaffold writes a better tail than the HALO backbone", ANNEALED, "halo backbone"),
    Claim("Annealing the scaffold is better than keeping it", ANNEALED, "static consistent"),
    Claim("A scaffold that is kept in training and dropped at inference loses the tail", ANNEALED, "static train-only"),
    Claim("The scaffold, and not the extra care in training, is what helps the tail", ANNEALED, CONTROL),
    Claim("The sign of the scaffold matters: turned round it does worse", ANNEALED, "reversed sign"),
    Claim("Each code needs its own rarity: the bias of other codes does worse", ANNEALED, "permuted bias"),
    Claim("The full scaffold is better than half of it", ANNEALED, "tempering 0.5"),
    Claim("The full scaffold is better than the fifth that the release ran", ANNEALED, "tempering 0.2"),
    Claim("A head in which codes of a visit know each other writes a better tail", "blockwise head", ANNEALED),
    Claim("Code families help the tail", "with hierarchy", ANNEALED),
)


def tail_scores(train: Cohort, test: Cohort, synthetic: Cohort) -> dict[str, float | None]:
    """Every metric of the tail suite, by key; None where it could not be computed."""
    comparison = Comparison.of(train, test, synthetic, intervals=False)
    return {metric.key: metric.compute(comparison)[ALL].value for metric in metrics_of(["tail"])}


def run_ablations(
    train: Cohort,
    valid: Cohort,
    test: Cohort,
    rows: Sequence[str],
    seeds: Sequence[int],
    patients: int,
    changes: dict[str, Any],
    folder: Path,
) -> pl.DataFrame:
    """One row for each ablation, fit seed and metric; finished fits are kept in `folder` and not repeated.

    Every fit takes all of its steps, so that rows differ in nothing but what they are named for; the weights that are
    sampled are still those of the best validation loss.
    """
    unknown = [row for row in rows if row not in ABLATIONS]
    if unknown:
        raise UsageError(f"no ablation is called {unknown[0]!r}: expected some of {', '.join(ABLATIONS)}")
    own = [name for name in changes if name in OWN]
    if own:
        raise UsageError(f"{own[0]} is what the rows differ in, so that it cannot be set for all of them")
    folder.mkdir(parents=True, exist_ok=True)
    out = []
    for row in rows:
        for seed in seeds:
            scores = _scored(ABLATIONS[row], row, seed, (train, valid, test), patients, changes, folder)
            out += [{"row": row, "seed": seed, "metric": key, "value": value} for key, value in sorted(scores.items())]
    for name, cohort in zip(REFERENCES, (test, train_copy(train, patients, 1)), strict=True):
        scores = tail_scores(train, test, some_patients(cohort, patients, 1))
        out += [{"row": name, "seed": 0, "metric": key, "value": value} for key, value in sorted(scores.items())]
    return pl.DataFrame(out, schema={"row": pl.String, "seed": pl.Int64, "metric": pl.String, "value": pl.Float64})


def _scored(
    ablation: Ablation,
    row: str,
    seed: int,
    parts: tuple[Cohort, Cohort, Cohort],
    patients: int,
    changes: dict[str, Any],
    folder: Path,
) -> dict[str, float | None]:
    """The scores of one fit, from its file if it was made before under the same settings."""
    train, valid, test = parts
    # What makes a row comes last: a common change must not undo it.
    generator = generator_for(ablation.method, **{"patience": NEVER, "seed": seed, **changes, **ablation.changes})
    asked = {"settings": generator.settings.fingerprint(), "train": train.fingerprint, "test": test.fingerprint}
    asked["patients"] = str(patients)
    path = folder / f"{row.replace(' ', '-')}-seed{seed}.json"
    if path.exists() and (kept := files.read_json(path)).get("asked") == asked:
        return dict(kept["scores"])
    say(f"ablation {row}, fit seed {seed}")
    generator.fit(train, valid)
    synthetic = generator.sample(patients, seed=seed)
    scores = tail_scores(train, test, synthetic)
    facts = generator.fitted.facts
    scores |= {"validation_loss": facts["validation loss a visit"], "codes_per_visit": _codes_a_visit(synthetic)}
    files.write_json(path, {"asked": asked, "scores": scores, "steps": facts["steps"]})
    return scores


def _codes_a_visit(cohort: Cohort) -> float:
    """Mean number of codes of a visit.

    >>> _codes_a_visit(Cohort.of([[["A", "B"], ["A"]]]))
    1.5
    """
    return cohort.n_entries / max(cohort.n_visits, 1)


def goals() -> dict[str, int]:
    """+1 for metrics that should be large, −1 for those that should be small.

    >>> goals()["tail_pair_seen"], goals()["tail_ctx_jsd"]
    (1, -1)
    """
    signs = {"up": 1, "down": -1}
    return {metric.key: signs[metric.goal] for metric in metrics_of(["tail"]) if metric.goal in signs}


def difference_table(scores: pl.DataFrame, reference: str = ANNEALED) -> pl.DataFrame:
    """Paired differences to a row over fit seeds: positive means better than it, with a t interval over seeds."""
    wide = {
        (row["row"], row["seed"], row["metric"]): row["value"] for row in scores.to_dicts() if row["value"] is not None
    }
    seeds = sorted({seed for _, seed, _ in wide if seed})
    rows = []
    for name in scores["row"].unique(maintain_order=True):
        if name == reference or name in REFERENCES:
            continue
        for metric, sign in goals().items():
            gaps = [
                sign * (wide[name, seed, metric] - wide[reference, seed, metric])
                for seed in seeds
                if (name, seed, metric) in wide and (reference, seed, metric) in wide
            ]
            low, mean, high = _t_interval(np.array(gaps))
            rows.append(
                {
                    "row": name,
                    "against": reference,
                    "metric": metric,
                    "better_by": mean,
                    "low": low,
                    "high": high,
                    "seeds": len(gaps),
                }
            )
    return pl.DataFrame(rows, infer_schema_length=None)


def _t_interval(gaps: np.ndarray) -> tuple[float, float, float]:
    """Low, mean and high of Student's interval; NaN ends for fewer than two."""
    if len(gaps) == 0:
        return np.nan, np.nan, np.nan
    mean = float(gaps.mean())
    if len(gaps) < 2:
        return np.nan, mean, np.nan
    half = float(stats.t.ppf(0.5 + LEVEL / 2, len(gaps) - 1) * gaps.std(ddof=1) / np.sqrt(len(gaps)))
    return mean - half, mean, mean + half


def claim_table(scores: pl.DataFrame) -> pl.DataFrame:
    """One sentence for each claim whose two rows were run: whether it held here, and on how many seeds."""
    present = set(scores["row"])
    rows = []
    for claim in CLAIMS:
        if not {claim.better, claim.worse} <= present:
            continue
        table = difference_table(scores.filter(pl.col("row").is_in([claim.better, claim.worse])), claim.worse)
        told = {row["metric"]: row for row in table.to_dicts() if row["metric"] in TAIL_METRICS}
        lost = _lost(scores, claim.worse)
        verdict, sentence = _verdict(claim, told, lost)
        seeds = max((row["seeds"] for row in told.values()), default=0)
        rows.append({"claim": claim.text, "verdict": verdict, "sentence": sentence, "seeds": seeds})
    return pl.DataFrame(
        rows, schema={"claim": pl.String, "verdict": pl.String, "sentence": pl.String, "seeds": pl.Int64}
    )


def _lost(scores: pl.DataFrame, row: str) -> bool:
    """Whether a row wrote no tail pair at all on any seed."""
    values = scores.filter((pl.col("row") == row) & (pl.col("metric") == "tail_pair_seen"))["value"]
    return len(values) > 0 and values.null_count() == len(values)


def _verdict(claim: Claim, told: dict[str, dict[str, Any]], lost: bool) -> tuple[str, str]:
    """The verdict in two words and in a sentence."""
    if lost:
        return "held", f"{claim.text}: held; {claim.worse} wrote no tail pair on any seed."
    known = {key: row for key, row in told.items() if row["seeds"] >= 2}
    if not known:
        return "not asked", f"{claim.text}: not asked; fewer than two seeds have both rows."
    good = [key for key, row in known.items() if row["low"] > 0]
    bad = [key for key, row in known.items() if row["high"] < 0]
    detail = ", ".join(f"{key} {row['better_by']:+.4f}" for key, row in known.items())
    if len(good) == len(known):
        verdict = "held"
    elif bad and not good:
        verdict = "contrary"
    elif good and not bad:
        verdict = "held in part"
    elif good and bad:
        verdict = "mixed"
    else:
        verdict = "not shown"
    return verdict, f"{claim.text}: {verdict} ({detail}; positive favours {claim.better})."
