"""Private training, attacked: what is claimed, what an attacker finds, and what it costs.

    python benchmarks/dp_audit.py [--quick] [--json] [--out FILE]
    python benchmarks/dp_audit.py --ways

Mechanism: the private step itself, with one patient whose gradient is all of the bound and nobody else; thousands of
runs with and without that patient, told apart by the sum of what the steps release. The lower bound on ε comes from the
rates of right and false alarms (Clopper–Pearson, 95 % together). It must not exceed what was accounted for, and must
exceed it when the noise is a quarter of what it should be.

Audit: canaries (patients with random codes) are put into the training patients by a coin each; a model is trained; the
attacker, who knows all canaries and two models without any, says of the most and the least likely ones whether they
were in. Under ε every guess is right with at most e^ε / (1 + e^ε) (Steinke, Nasr and Jagielski, 2023), so that the
lower Clopper–Pearson bound (95 %) of the share of right guesses bounds ε from below. It must not exceed the claim.
Plain models with the same steps, last weights too, show what this attack can find where nothing hinders it.

Membership: likelihood attacks on members against other patients of the same population, on a plain and on private
models with the same network, steps and seed. Cost: likelihood of held-out patients, and tail metrics.

`--ways` times the two ways to cut gradients instead, which give the same sum: by norms, and patient by patient.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import nn

from adapcla.data import Cohort
from adapcla.evaluation import Comparison
from adapcla.evaluation.metric import metrics_of
from adapcla.evaluation.privacy.membership import auc, likelihood_per_code, likelihood_ratio
from adapcla.files import write_bytes
from adapcla.generation import Generator, generator_for
from adapcla.generation.fitting import initial_model, objective_for
from adapcla.generation.membership import evidence
from adapcla.io.simulator import simulate
from adapcla.models.base import Moment
from adapcla.seeds import random_stream as stream
from adapcla.tables import Table
from adapcla.training.ghost_clipping import clipped_by_norms
from adapcla.training.privacy import PrivateStep, clipped_one_by_one, epsilon_of

NETWORK: dict[str, Any] = {"layers": 1, "heads": 4, "schedule": "none", "use_days": False, "use_attributes": False}
CLAIMS = (1.0, 8.0)
CANARIES, CANARY_VISITS, CANARY_CODES = 120, 3, 6
LEVEL = 0.95


def fit(train: Cohort, valid: Cohort, epsilon: float | None, seed: int, **changes: Any) -> Generator:
    """A plain or a private model; noise from a seed, so that the figures can be made again."""
    privacy = None if epsilon is None else {"epsilon": epsilon, "noise_seed": 1}
    return generator_for("adapcla", **{**NETWORK, "seed": seed, "privacy": privacy, **changes}).fit(train, valid)


# ---- two ways to cut gradients ----------------------------------------------------------------------------
def way(codes: int, width: int, layers: int, patients: int = 200) -> dict[str, float]:
    """Milliseconds of processor time per patient: plain batch without any cut, cut by norms, cut one by one."""
    world = simulate(patients=patients, codes=codes, seed=1)
    model = initial_model(generator_for("adapcla", width=width, layers=layers, heads=4).settings, world)
    plan = objective_for(model)
    plan.modules.train()
    records, everyone, moment = model.records(world), np.arange(patients), Moment(1, 10, 1)
    parameters = list(plan.modules.parameters())
    times = {
        "plain": _seconds(lambda: plan.loss(records.batch(everyone), moment).backward()),
        "by norms": _seconds(lambda: clipped_by_norms(plan, records, everyone, moment, parameters, 1.0)),
        "one by one": _seconds(lambda: clipped_one_by_one(plan, records, everyone, moment, parameters, 1.0)),
    }
    sizes = {"codes": codes, "width": width, "layers": layers}
    return {**sizes, **{name: round(1e3 * value / patients, 2) for name, value in times.items()}}


def _seconds(work: Callable[[], Any]) -> float:
    """Processor time of the second time, when memory has been options for before."""
    work()
    begin = time.process_time()
    work()
    return time.process_time() - begin


# ---- the mechanism ----------------------------------------------------------------------------------------
def mechanism(trials: int, shrunk: float = 1.0) -> dict[str, float]:
    """What many runs of the private step prove about ε; `shrunk` is the share of the noise that is really added."""
    noise, rate, steps, delta = 3.0, 0.5, 6, 1e-3
    sums = {inside: _released(trials, inside, noise * shrunk, rate, steps) for inside in (True, False)}
    half = trials // 2
    # The threshold is chosen on one half of the runs and applied to the other.
    best = max(
        np.quantile(sums[False][:half], np.linspace(0.5, 0.998, 60)),
        key=lambda at: _proved(sums[True][:half] > at, sums[False][:half] > at, delta),
    )
    found = _proved(sums[True][half:] > best, sums[False][half:] > best, delta)
    return {"accounted": round(epsilon_of(noise, rate, steps, delta), 3), "proved": round(found, 3), "trials": trials}


def _released(trials: int, inside: bool, noise: float, rate: float, steps: int) -> np.ndarray:
    """The sum of what all steps release of the patient's direction, run by run."""
    out = np.zeros(trials)
    parameter = nn.Parameter(torch.zeros(1))
    for trial in range(trials):
        step = PrivateStep(2 * trial + int(inside), noise, 1.0, rate, 1)
        for number in range(steps):
            parameter.grad = torch.full((1,), float(inside and len(step.drawn(number, 1))))
            step.add_noise([parameter], number)
            out[trial] += float(parameter.grad)
    return out


def _proved(alarms: np.ndarray, false_alarms: np.ndarray, delta: float) -> float:
    """The ε that rates of right and of false alarms prove, each with half of the doubt."""
    doubt = (1 - LEVEL) / 2
    hits, misses = int(alarms.sum()), int(false_alarms.sum())
    low = float(stats.beta.ppf(doubt, hits, len(alarms) - hits + 1)) if hits else 0.0
    high = (
        float(stats.beta.ppf(1 - doubt, misses + 1, len(false_alarms) - misses)) if misses < len(false_alarms) else 1.0
    )
    return max(0.0, math.log((low - delta) / high)) if low > delta else 0.0


# ---- the audit --------------------------------------------------------------------------------------------
def canaries(world: Cohort, seed: int) -> Cohort:
    """Patients whose codes are drawn at random, each code as likely as any other."""
    draw = stream(seed, "canaries")
    tokens = world.vocabulary.tokens
    made = [
        [[tokens[i] for i in draw.choice(len(tokens), CANARY_CODES, replace=False)] for _ in range(CANARY_VISITS)]
        for _ in range(CANARIES)
    ]
    return Cohort.of(made).on(world.vocabulary)


def bound(right: int, guesses: int) -> float:
    """The ε that so many right guesses prove.

    >>> round(bound(30, 60), 3), round(bound(60, 60), 2)
    (0.0, 2.97)
    """
    share = float(stats.beta.ppf(1 - LEVEL, right, guesses - right + 1)) if right else 0.0
    return max(0.0, math.log(share / (1 - share))) if share < 1 else math.inf


def audit(world: Cohort, valid: Cohort, epsilon: float | None, seed: int, passes: float) -> dict[str, Any]:
    """One run: what was guessed, what that proves, and what was claimed."""
    added = canaries(world, seed)
    inside = stream(seed, "coins").random(CANARIES) < 0.5
    train = world.followed_by(added.subset(np.flatnonzero(inside)))
    small = {"width": 32, "batch_size": 100, "passes": passes, "patience": 10_000}
    # A private model keeps its last weights; a plain one does when it is watched on what it learns from.
    model = fit(train, train if epsilon is None else valid, epsilon, seed, **small)
    score = model.log_likelihood(added)
    for reference in REFERENCES:
        score = score - reference.log_likelihood(added) / len(REFERENCES)
    order = np.argsort(-score)
    quarter = CANARIES // 4
    right = int(inside[order[:quarter]].sum() + (~inside[order[-quarter:]]).sum())
    claimed = None if epsilon is None else model.model.facts["privacy"]["epsilon"]
    return {
        "claimed": claimed,
        "right": right,
        "guesses": 2 * quarter,
        "lower bound": round(bound(right, 2 * quarter), 3),
        "auc": round(auc(score[inside], score[~inside]).value or 0.0, 3),
    }


REFERENCES: list[Generator] = []


def audits(runs: int, plain: int, passes: float) -> list[dict[str, Any]]:
    """Private runs, half for each claim, and plain ones, which show that the attack can find something."""
    everybody = simulate(patients=500, codes=120, seed=1)
    world, valid = everybody.subset(np.arange(400)), everybody.subset(np.arange(400, 500))
    REFERENCES[:] = [
        fit(world, valid, None, 900 + k, width=32, batch_size=100, passes=passes, patience=10_000) for k in range(2)
    ]
    found = [audit(world, valid, CLAIMS[k % len(CLAIMS)], k, passes) for k in range(runs)]
    return found + [audit(world, valid, None, 500 + k, passes) for k in range(plain)]


# ---- membership and cost ----------------------------------------------------------------------------------
def membership(n: int, references: int, passes: float) -> list[dict[str, Any]]:
    """Attacks on a plain and on private models, and what privacy costs."""
    everybody = simulate(patients=3 * n + 200, codes=300, seed=2)
    train, control, test = (everybody.subset(np.arange(k * n, (k + 1) * n)) for k in range(3))
    valid = everybody.subset(np.arange(3 * n, 3 * n + 200))
    rows = []
    for epsilon in (None, *reversed(CLAIMS)):
        model = fit(train, valid, epsilon, 1, width=64, layers=2, batch_size=200, passes=passes, patience=10_000)
        found: dict[str, Any] = evidence(model.model, train, control, references)
        scores = {}
        sizes = [np.diff(c.entry_starts) for c in (train, control)]
        target = [found["member_log_likelihood"], found["control_log_likelihood"]]
        refs = [found["member_attack_models"], found["control_attack_models"]]
        per_code = [likelihood_per_code(*pair) for pair in zip(target, sizes, strict=True)]
        scores["likelihood"] = auc(per_code[0], per_code[1])
        ref_code = [r / s[:, None] for r, s in zip(refs, sizes, strict=True)]
        members, controls = (t - r.mean(axis=1) for t, r in zip(per_code, ref_code, strict=True))
        scores["reference"] = auc(members, controls)
        whole = likelihood_ratio(
            np.concatenate(per_code),
            np.concatenate(ref_code),
            np.concatenate([found["member_included"], found["control_included"]]),
        )
        scores["lira"] = auc(whole[:n], whole[n:])
        rows.append(
            {
                "epsilon": epsilon,
                **{
                    f"{k} auc": [round(float(x or 0.0), 3) for x in (s.value, s.low, s.high)] for k, s in scores.items()
                },
                **cost(model, train, test),
            }
        )
    return rows


def cost(model: Generator, train: Cohort, test: Cohort) -> dict[str, Any]:
    """Likelihood of people kept apart, shapes of synthetic records, and tail metrics."""
    made = model.sample(test.n_patients, seed=7)
    comparison = Comparison.of(train, test, made, intervals=False)
    tail = {m.key: m.compute(comparison).get("all") for m in metrics_of(["tail"])}
    return {
        "test nll per visit": round(-float(model.log_likelihood(test).sum()) / test.n_visits, 2),
        "visits per patient": round(made.n_visits / made.n_patients, 2),
        "codes per visit": round(made.n_entries / made.n_visits, 2),
        **{k: None if s is None or s.value is None else round(s.value, 3) for k, s in tail.items()},
        "real visits, codes": [round(test.n_visits / test.n_patients, 2), round(test.n_entries / test.n_visits, 2)],
    }


def markdown(result: dict[str, Any], command: str) -> str:
    """The figures as tables."""
    lines = [f"`{command}`: {result['seconds']:.0f} s of one shared processor.", "", "## The step alone", ""]
    alone = {"as it is": result["mechanism"], "a quarter of it": result["mechanism, a quarter of the noise"]}
    rows = [
        [name, f"{row['accounted']:.2f}", f"{row['proved']:.2f}", f"{row['trials']:,} each"]
        for name, row in alone.items()
    ]
    lines.append(Table(["noise", "ε accounted for", "ε proved (95 %)", "runs with, runs without"], rows).markdown())
    lines += ["## Audit with canaries", ""]
    rows = []
    for k, row in enumerate(result["audits"], 1):
        claimed = "plain" if row["claimed"] is None else f"{row['claimed']:.2f}"
        guessed = f"{row['right']} of {row['guesses']}"
        rows.append([str(k), claimed, guessed, f"{row['lower bound']:.2f}", f"{row['auc']:.2f}"])
    lines.append(Table(["run", "ε claimed", "right guesses", "ε proved (95 %)", "AUC"], rows).markdown())
    lines += ["## Membership, and what privacy costs", ""]
    runs = result["membership"]
    titles = ["plain" if run["epsilon"] is None else f"ε = {run['epsilon']:g}" for run in runs]
    rows = [[name, *(_cell(run[name]) for run in runs)] for name in runs[0] if name != "epsilon"]
    return "\n".join([*lines, Table(["", *titles], rows).markdown()])


def _cell(value: Any) -> str:
    if isinstance(value, list) and len(value) == 3:
        return f"{value[0]:.3f} [{value[1]:.3f}, {value[2]:.3f}]"
    return "–" if value is None else ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--quick", action="store_true", help="Fewer and shorter runs.")
    parser.add_argument("--json", action="store_true", help="Only the JSON line.")
    parser.add_argument("--out", type=Path, help="Write the tables there as Markdown.")
    parser.add_argument("--ways", action="store_true", help="Time the ways to cut gradients, and no more.")
    options = parser.parse_args()
    if options.ways:
        print(json.dumps([way(400, 64, 2), way(2000, 256, 4)]))
        return 0
    begin = time.process_time()
    trials = 600 if options.quick else 4000
    step, weak = mechanism(trials), mechanism(trials, shrunk=1 / 4)
    found = audits(4, 1, 8) if options.quick else audits(20, 4, 30)
    rows = membership(200, 4, 10) if options.quick else membership(400, 4, 40)
    private = [row for row in found if row["claimed"] is not None]
    result = {
        "runs": len(private),
        "kept": sum(row["lower bound"] <= row["claimed"] for row in private),
        "largest bound": max(row["lower bound"] for row in private),
        "plain bounds": [row["lower bound"] for row in found if row["claimed"] is None],
        "mechanism": step,
        "mechanism, a quarter of the noise": weak,
        "membership": rows,
        "audits": found,
        "seconds": round(time.process_time() - begin, 1),
    }
    command = "python benchmarks/dp_audit.py" + (" --quick" if options.quick else "")
    if options.out is not None:
        write_bytes(options.out, markdown(result, command).encode())
    if not options.json:
        print(markdown(result, command))
    print(json.dumps(result))
    sound = step["proved"] <= step["accounted"] < weak["proved"]
    return 0 if sound and result["kept"] == result["runs"] else 1


if __name__ == "__main__":
    sys.exit(main())
