"""How fast training and sampling are, as ratios to a plain dense restatement of HALO's step, all in one run.

    python benchmarks/speed.py --json          # everything, about twenty minutes on two quiet cores
    python benchmarks/speed.py --quick --json  # one repeat of each, about five minutes
    python benchmarks/speed.py --share --json  # only the share of the matrix-multiply bound, by processor time of a
                                               # thread, product and steps interleaved: for a machine that is not quiet
    python benchmarks/speed.py --gpt2 --json   # only `gpt` and `tailwise` beside a GPT-2 (pip install 'adapcla[bench]')

The yardstick is the public HALO's arithmetic, restated plainly: multi-hot rows, 48 rows per patient of any length,
a within-visit head of two masked (d + V)² layers, Adam. When sampling, as the original does, the trunk is computed anew
for every visit, the head is called once for every distinct code of the batch and once more to find no further one, and
a batch goes on until its longest record ends. One visit of a batch of four is timed and multiplied by the mean number
of visits of the longest of four records. The last line of the output is one JSON object.

`gpt` and `tailwise` are also timed beside the GPT-2 of the `transformers` library: the same width, depth, heads,
patients and optimiser steps, batches padded to their longest record, `generate` with its key-value cache. Steps and
samples of both sides are interleaved and counted in processor time of one thread, so that a machine that is not quiet
does; sampling in tokens a second, because drawn records differ in length.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adapcla.data import Cohort, Vocabulary
from adapcla.data.ragged import starts_from_sizes
from adapcla.generation import Generator, generator_for
from adapcla.generation.sampler import BLOCK
from adapcla.models.base import Moment
from adapcla.models.batch import Records
from adapcla.seeds import random_stream as stream
from adapcla.training.loop import Loop
from adapcla.training.tuning import choose_budget

N_CODES, CODES_A_VISIT, VISITS_A_PATIENT, ROWS = 6869, 11, 2.6, 48
YARDSTICK_BATCH, SAMPLED_TOGETHER = 48, 4


def zipf_cohort(n_patients: int, n_codes: int = N_CODES, visits: float = VISITS_A_PATIENT, seed: int = 1) -> Cohort:
    """Patients of the paper's shape: Zipf codes, geometric numbers of visits, Poisson numbers of codes."""
    rng = stream(seed, "zipf")
    lengths = np.minimum(rng.geometric(1 / visits, n_patients), ROWS - 2)
    sizes = np.maximum(rng.poisson(CODES_A_VISIT, int(lengths.sum())), 1)
    weight = 1 / np.arange(1, n_codes + 1) ** 1.05
    drawn = rng.choice(n_codes, size=int(sizes.sum()), p=weight / weight.sum())
    visit = np.repeat(np.arange(len(sizes)), sizes)
    key = np.unique(visit * n_codes + drawn)
    visit, codes = np.divmod(key, n_codes)
    width = len(str(n_codes))
    vocabulary = Vocabulary.of(f"C{i:0{width}d}" for i in range(n_codes))
    return Cohort(vocabulary, codes.astype(np.int32), starts_from_sizes(np.bincount(visit)), starts_from_sizes(lengths))


class DenseHalo(nn.Module):
    """HALO's arithmetic, restated plainly."""

    def __init__(self, n_codes: int = N_CODES, width: int = 768, layers: int = 12, heads: int = 12) -> None:
        super().__init__()
        self.n_codes, self.width = n_codes, width
        self.inlet = nn.Linear(n_codes, width, bias=False)
        self.place = nn.Embedding(ROWS, width)
        layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, F.gelu, batch_first=True, norm_first=True)
        self.trunk = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        total = width + n_codes
        self.first, self.second = nn.Linear(total, total), nn.Linear(total, total)
        mask = torch.tril(torch.ones(total, total), diagonal=-1)
        mask[:, :width] = 1.0
        self.mask: Tensor
        self.register_buffer("mask", mask)

    def head(self, states: Tensor, visits: Tensor) -> Tensor:
        """Logits (rows, V) of each code given the state and the codes before it."""
        rows = torch.cat([states, visits], dim=-1)
        hidden = F.relu(F.linear(rows, self.first.weight * self.mask, self.first.bias))
        return F.linear(hidden, self.second.weight * self.mask, self.second.bias)[..., self.width :]

    def states(self, visits: Tensor) -> Tensor:
        """The trunk over all rows."""
        rows = self.inlet(visits) + self.place.weight[: visits.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(visits.shape[1])
        return self.trunk(rows, mask=mask, is_causal=True)

    def loss(self, visits: Tensor) -> Tensor:
        """The mean loss of every row, the empty ones too."""
        states = self.states(visits)
        logits = self.head(states[:, :-1], visits[:, 1:])
        return F.binary_cross_entropy_with_logits(logits, visits[:, 1:], reduction="mean")


def multi_hot(cohort: Cohort, patients: np.ndarray) -> Tensor:
    """Visits (patients, 48, V) as HALO feeds them: a start row, the visits, empty rows."""
    out = torch.zeros(len(patients), ROWS, cohort.n_codes)
    for row, p in enumerate(patients):
        for t, v in enumerate(range(cohort.patient_starts[p], cohort.patient_starts[p + 1])):
            out[
                row,
                t + 1,
                torch.from_numpy(cohort.codes_of(v).copy()).long(),
            ] = 1
    return out


def seconds(action: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds that an action takes by a clock."""
    started = clock()
    action()
    return clock() - started


def yardstick(cohort: Cohort, repeats: int, **sizes: int) -> dict[str, float]:
    """Visits per second in training and patients per second in sampling of the dense restatement."""
    torch.manual_seed(0)
    model = DenseHalo(cohort.n_codes, **sizes)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-4)
    patients = np.arange(YARDSTICK_BATCH)
    visits = multi_hot(cohort, patients)
    n_visits = int(cohort.visits_per_patient[patients].sum())

    def step() -> None:
        optimiser.zero_grad(set_to_none=True)
        model.loss(visits).backward()
        optimiser.step()

    train = statistics.median(seconds(step) for _ in range(repeats))
    optimiser.state.clear()
    optimiser.zero_grad(set_to_none=True)
    gc.collect()
    sample = statistics.median(seconds(lambda: dense_visit(model)) for _ in range(repeats))
    n = cohort.n_patients - cohort.n_patients % SAMPLED_TOGETHER
    longest = cohort.visits_per_patient[:n].reshape(-1, SAMPLED_TOGETHER).max(axis=1).mean()
    return {"train_visits_s": n_visits / train, "sample_patients_s": SAMPLED_TOGETHER / (sample * longest)}


@torch.no_grad()
def dense_visit(model: DenseHalo, batch: int = SAMPLED_TOGETHER) -> None:
    """One further visit of some patients: the trunk over all rows, then a head call for each distinct code."""
    history = torch.zeros(batch, ROWS, model.n_codes)
    state = model.states(history)[:, 0]
    visit = torch.zeros(batch, model.n_codes)
    for call in range(batch * CODES_A_VISIT + 1):  # the last call finds no further code
        model.head(state, visit)
        visit[call % batch, torch.randint(0, model.n_codes, (1,))] = 1.0


def prepared(method: str, cohort: Cohort, **changes: object) -> tuple[Generator, Loop]:
    """An untrained generator of a method and the loop that trains it."""
    from adapcla.generation.fitting import initial_model, objective_for

    generator = generator_for(method, use_days=False, use_attributes=False, **changes)
    settings = choose_budget(generator.settings, cohort.n_patients)
    generator.model_ = initial_model(settings, cohort)
    plan = objective_for(generator.model_)
    records = Records(cohort, generator.settings.architecture.context, generator.network_.order)
    return generator, Loop(plan, records, records, settings.budget, 1)


def update(loop: Loop, step: int) -> None:
    """One optimiser step of a loop."""
    loop._update(Moment(step, loop.n_steps, 1))


def interleaved_seconds(
    actions: dict[str, Callable[[int], object]], repeats: int, clock: Callable[[], float] = time.perf_counter
) -> dict[str, float]:
    """Median seconds of each action, which is given the number of the repeat; one warm-up each, all interleaved."""
    times: dict[str, list[float]] = {name: [] for name in actions}
    for repeat in range(repeats + 1):
        for name, action in actions.items():
            times[name].append(seconds(partial(action, repeat), clock))
    return {name: statistics.median(values[1:]) for name, values in times.items()}


def flops_a_step(loop: Loop, generator: Generator) -> float:
    """Floating-point operations of the matrix products of a mean step: forward, and twice that backward."""
    a = generator.settings.architecture
    cohort = loop.train.cohort
    visits = loop.budget.batch_size * cohort.n_visits / cohort.n_patients
    trunk = visits * a.layers * 24 * a.width**2
    later = visits * (1 - cohort.n_patients / cohort.n_visits) + 1  # first visits share one state
    return 3 * (trunk + later * 2 * a.width * cohort.n_codes)


def matmul_flops(n: int = 1536, repeats: int = 5) -> float:
    """Floating-point operations per second of a large matrix product."""
    a, b = torch.randn(n, n), torch.randn(n, n)
    torch.mm(a, b)
    return 2 * n**3 / statistics.median(seconds(lambda: torch.mm(a, b)) for _ in range(repeats))


def share_by_processor(cohort: Cohort, repeats: int) -> dict[str, float]:
    """The share of the matrix-multiply bound, and `tailwise` beside `adapcla`, in processor time of one thread."""
    torch.set_num_threads(1)
    generator, plain = prepared("adapcla", cohort, batch_size=256)
    _, tailwise = prepared("tailwise", cohort, batch_size=256)
    a = torch.randn(1536, 1536)
    spent: dict[str, list[float]] = {"product": [], "adapcla": [], "tailwise": []}
    for repeat in range(repeats + 1):
        updates = (partial(update, each, repeat) for each in (plain, tailwise))
        actions: tuple[Callable[[], object], ...] = (partial(torch.mm, a, a), *updates)
        for times, action in zip(spent.values(), actions, strict=True):
            began = time.process_time()
            action()
            times.append(time.process_time() - began)
    product, one, other = (statistics.median(times[1:]) for times in spent.values())
    achieved, bound = flops_a_step(plain, generator) / one, 2 * 1536**3 / product
    return {
        "gflops_one_thread": achieved / 1e9,
        "matmul_gflops_one_thread": bound / 1e9,
        "matmul_share_one_thread": achieved / bound,
        "tailwise_over_adapcla": other / one,
    }


class Gpt2:
    """The GPT-2 of the `transformers` library on the token stream that `gpt` learns: codes, NEXT, codes, …, END."""

    #: Patients whose logits are computed together in training; more are slower, for they are padded to the longest.
    AT_ONCE = 16

    def __init__(self, cohort: Cohort, width: int, layers: int, heads: int, rate: float) -> None:
        from transformers import GPT2Config, GPT2LMHeadModel

        n = cohort.n_codes
        self.cohort, self.next, self.end, self.start = cohort, n, n + 1, n + 2
        starts = np.asarray(cohort.visit_starts)[np.asarray(cohort.patient_starts)]
        sizes = np.diff(starts) + cohort.visits_per_patient
        self.longest = int(sizes.max()) + 1
        #: Added to the logit of END when sampling: an untrained network then ends records at the cohort's mean length.
        self.ends = float(np.log((n + 3) / sizes.mean()))
        torch.manual_seed(0)
        self.model: Any = GPT2LMHeadModel(
            GPT2Config(
                vocab_size=n + 3,
                n_positions=self.longest,
                n_embd=width,
                n_layer=layers,
                n_head=heads,
                bos_token_id=self.start,
                eos_token_id=self.end,
                pad_token_id=self.end,
            )
        )
        self.optimiser = torch.optim.AdamW(self.model.parameters(), lr=rate, fused=True)

    def tokens(self, patient: int) -> list[int]:
        """The stream of one patient."""
        out = [self.start]
        for visit in range(self.cohort.patient_starts[patient], self.cohort.patient_starts[patient + 1]):
            out += [*self.cohort.codes_of(visit).tolist(), self.next]
        return [*out[:-1], self.end]

    def update(self, loop: Loop, step: int) -> None:
        """One optimiser step with the patients of a loop's step, its gradient added up over small batches."""
        patients = loop._draw(step)
        self.model.train()
        self.optimiser.zero_grad(set_to_none=True)
        for low in range(0, len(patients), self.AT_ONCE):
            rows = [torch.tensor(self.tokens(p)) for p in patients[low : low + self.AT_ONCE].tolist()]
            pad = partial(nn.utils.rnn.pad_sequence, rows, batch_first=True)
            labels = pad(padding_value=-100)
            # The loss is a mean over targets; a sum weighs every token of the step alike.
            self.model(
                input_ids=pad(padding_value=self.end),
                attention_mask=(labels != -100).long(),
                labels=labels,
                num_items_in_batch=torch.tensor(self.AT_ONCE),
            ).loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()

    def tokens_a_second(self, n: int, seed: int, at_once: int) -> float:
        """Tokens a second of n drawn records."""
        from transformers import LogitsProcessorList

        def end_sooner(_: Tensor, logits: Tensor) -> Tensor:
            logits[:, self.end] += self.ends
            return logits

        torch.manual_seed(seed)
        self.model.eval()
        n_tokens, began = 0, time.process_time()
        for _ in range(0, n, at_once):
            out = self.model.generate(
                torch.full((at_once, 1), self.start),
                attention_mask=torch.ones(at_once, 1, dtype=torch.int64),
                do_sample=True,
                top_k=0,
                max_new_tokens=self.longest - 1,
                use_cache=True,
                logits_processor=LogitsProcessorList([end_sooner]),
            )[:, 1:]
            ended = out == self.end
            n_tokens += int((~ended).sum() + ended.any(1).sum())
        return n_tokens / (time.process_time() - began)


def beside_gpt2(cohort: Cohort, repeats: int, n: int, at_once: int = 64, **changes: int) -> dict[str, float]:
    """Seconds of a step and tokens a second of `gpt` and `tailwise`, and their ratios to a GPT-2 of their size."""
    found: dict[str, float] = {}
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    for method in ("gpt", "tailwise"):
        generator, loop = prepared(method, cohort, **changes)
        a: Any = generator.settings.architecture
        gpt2 = Gpt2(cohort, a.width, a.layers, a.heads, loop.budget.learning_rate)
        times = interleaved_seconds(
            {"ours": partial(update, loop), "gpt2": partial(gpt2.update, loop)},
            repeats,
            time.process_time,
        )
        rates: dict[str, list[float]] = {"ours": [], "gpt2": []}
        for repeat in range(max(repeats // 4, 1) + 1):
            began = time.process_time()
            drawn = generator.sample(n, seed=repeat)
            rates["ours"].append((len(drawn.codes) + drawn.n_visits) / (time.process_time() - began))
            rates["gpt2"].append(gpt2.tokens_a_second(max(n // 8, at_once), repeat, at_once))
        ours, theirs = (statistics.median(values[1:]) for values in rates.values())
        found |= {
            f"{method}_step_s": times["ours"],
            f"{method}_gpt2_step_s": times["gpt2"],
            f"{method}_train_ratio_gpt2": times["gpt2"] / times["ours"],
            f"{method}_sample_tokens_s": ours,
            f"{method}_gpt2_sample_tokens_s": theirs,
            f"{method}_sample_ratio_gpt2": ours / theirs,
        }
        del generator, loop, gpt2
        gc.collect()
    torch.set_num_threads(threads)
    return found


def gpt2_is_there() -> bool:
    """Whether the rows beside GPT-2 can be made; a sentence where not."""
    there = importlib.util.find_spec("transformers") is not None
    if not there:
        print("rows beside GPT-2 are left out: transformers is not installed (pip install 'adapcla[bench]')")
    return there


def print_results(found: dict[str, float], as_json: bool) -> None:
    """Print the measurements."""
    if not as_json:
        for name, value in found.items():
            print(f"{name:32s} {value:12.3f}")
    print(json.dumps({name: round(float(value), 4) for name, value in found.items()}))


def sampling_rate(generator: Generator, n: int) -> float:
    """Patients per second, with the records as long as an untrained model makes them cut to the cohort's mean."""
    with torch.no_grad():  # half of the records go on, so that their length is like the cohort's
        going_on: Any = generator.network_.going_on
        going_on.weight.zero_()
        going_on.bias.fill_(float(np.log(VISITS_A_PATIENT - 1)))
    generator.sample(64, seed=9)
    return n / seconds(lambda: generator.sample(n, seed=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--share", action="store_true", help="only the share of the bound, by processor time")
    parser.add_argument("--threads", type=int, default=int(os.environ.get("OMP_NUM_THREADS", os.cpu_count() or 1)))
    parser.add_argument("--gpt2", action="store_true", help="only gpt and tailwise beside a GPT-2 of transformers")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.set_flush_denormal(True)
    os.environ["ADAPCLA_QUIET"] = "1"
    cohort = zipf_cohort(4096)
    if options.share:
        print_results(share_by_processor(cohort, 5 if options.quick else 15), options.json)
        return
    found: dict[str, float] = {"threads": options.threads}
    if gpt2_is_there():
        found |= beside_gpt2(cohort, 4 if options.quick else 12, 1024 if options.quick else 4096)
    if options.gpt2:
        print_results(found, options.json)
        return
    found["matmul_gflops"] = matmul_flops() / 1e9
    found |= yardstick(cohort, 1 if options.quick else 2)
    gc.collect()
    for size, method, repeats, n in (
        ("same_size", "adapcla-paper-size", 2 if options.quick else 4, BLOCK),
        ("default", "adapcla", 8 if options.quick else 20, 2048 if options.quick else 8192),
    ):
        generator, loop = prepared(method, cohort, batch_size=256)
        visits = 256 * cohort.n_visits / cohort.n_patients
        if size == "default":
            _, tailwise = prepared("tailwise", cohort, batch_size=256)
            times = interleaved_seconds(
                {"adapcla": partial(update, loop), "tailwise": partial(update, tailwise)}, repeats
            )
            found["tailwise_over_adapcla"] = times["tailwise"] / times["adapcla"]
            peak = (found["matmul_gflops"] + matmul_flops() / 1e9) / 2
            found["gflops_default"] = flops_a_step(loop, generator) / times["adapcla"] / 1e9
            found["matmul_share_default"] = found["gflops_default"] / peak
            taken = times["adapcla"]
        else:
            taken = interleaved_seconds({"same": partial(update, loop)}, repeats)["same"]
        found[f"train_visits_s_{size}"] = visits / taken
        found[f"train_ratio_{size}"] = visits / taken / found["train_visits_s"]
        found[f"sample_patients_s_{size}"] = sampling_rate(generator, n)
        found[f"sample_ratio_{size}"] = found[f"sample_patients_s_{size}"] / found["sample_patients_s"]
        del generator, loop
        gc.collect()
    print_results(found, options.json)


if __name__ == "__main__":
    main()
