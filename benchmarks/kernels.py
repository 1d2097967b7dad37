"""What each gradient written by hand gains over its plain form: `python benchmarks/kernels.py`.

Forward and backward of both, interleaved, in processor time of one thread, so that a machine that is not quiet does not
matter; the ratio is that of the medians. The visits have the paper's shape: 2.6 per patient, and 11 codes per visit,
most codes rare. `--memory` measures instead how far each of them raises the peak memory, in a process of its own. The
last line of the output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
import torch
from adapcla.models.block_order import block_sizes
from adapcla.models.kernels import bce, blocks, mixed, softmax
from torch import Tensor

WIDTH, HIDDEN, BLOCKS = 256, 64, 24
PLAIN_ROWS = 512
CODES_PER_VISIT, VISITS_PER_PATIENT = 11, 2.6
#: A loss to be differentiated, and what by.
Case = tuple[Callable[[], Tensor], list[Tensor]]


def leaf(*shape: int, scale: float = 0.05) -> Tensor:
    return (torch.randn(shape) * scale).requires_grad_()


def entries(n_visits: int, n_codes: int) -> tuple[Tensor, Tensor]:
    """(visit, code) of each entry, without repetition; codes by Zipf's law."""
    stream = np.random.default_rng(1)
    share = 1 / np.arange(1, n_codes + 1) ** 1.05
    codes = stream.choice(n_codes, n_visits * CODES_PER_VISIT, p=share / share.sum())
    keys = np.unique(np.repeat(np.arange(n_visits), CODES_PER_VISIT) * n_codes + codes)
    visit, code = (torch.from_numpy(x) for x in np.divmod(keys, n_codes))
    return visit, code


def rare_bias(n_codes: int) -> Tensor:
    """Output biases as training begins with them: a few frequent codes, most of them rare."""
    share = 1 / torch.arange(1, n_codes + 1) ** 1.05
    return torch.logit(share / share.sum() * CODES_PER_VISIT * 0.5).clamp(-12, 0).requires_grad_()


def sparse_bce(plain: bool, n_visits: int, n_codes: int) -> Case:
    """First visits share one state row; the last visit of each patient predicts none."""
    first = round(n_visits / VISITS_PER_PATIENT)
    row_of_visit = torch.cat([torch.zeros(first, dtype=torch.int64), 1 + torch.arange(n_visits - first)])
    visit, code = entries(n_visits, n_codes)
    leaves = [leaf(n_visits + 1, WIDTH), leaf(n_codes, WIDTH), rare_bias(n_codes)]
    targets = bce.sparse_targets(row_of_visit[visit], code, row_of_visit, n_visits + 1)
    loss = bce.sparse_bce_plain if plain else bce.sparse_bce
    return lambda: loss(leaves[0], leaves[1], leaves[2], targets), leaves


def block_bce(plain: bool, n_visits: int, n_codes: int) -> Case:
    sizes = block_sizes(n_codes, BLOCKS)
    later = n_visits - round(n_visits / VISITS_PER_PATIENT)
    parts = blocks.BlockParts(
        leaf(1 + later, WIDTH), leaf(n_visits, len(sizes), HIDDEN), leaf(n_codes, WIDTH), leaf(n_codes, HIDDEN),
        rare_bias(n_codes),
    )  # fmt: skip
    targets = bce.SparseTargets(*entries(n_visits, n_codes), torch.ones(n_visits))
    loss = blocks.block_bce_plain if plain else blocks.block_bce
    row_of_visit = (torch.arange(n_visits) - n_visits + 1 + later).clamp_(min=0)
    return lambda: loss(parts, row_of_visit, sizes, targets), list(parts)


def masked_cross_entropy(plain: bool, n_visits: int, n_codes: int) -> Case:
    """A token for each code and one for the end of each visit; on average half of the codes are impossible.

    The plain form goes through the rows in chunks, which is faster than all at once.
    """
    n_rows = n_visits * (CODES_PER_VISIT + 1)
    choices = softmax.Choices(
        torch.randint(0, n_codes, (n_rows,)), torch.ones(n_rows, dtype=torch.bool),
        torch.zeros(n_rows, dtype=torch.bool), torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64),
    )  # fmt: skip
    leaves = [leaf(n_rows, WIDTH), leaf(n_codes + 2, WIDTH), leaf(n_codes + 2)]
    targets = torch.full((n_rows,), n_codes - 1)
    states, weight, bias = leaves

    def in_chunks() -> Tensor:
        edges = pairwise([*range(0, n_rows, PLAIN_ROWS), n_rows])
        pieces = (
            softmax.masked_cross_entropy_plain(states[a:b], weight, bias, choices.part(a, b), targets[a:b])
            for a, b in edges
        )
        return torch.stack(list(pieces)).sum()

    by_hand = softmax.masked_cross_entropy
    return in_chunks if plain else lambda: by_hand(states, weight, bias, choices, targets), leaves


def mixed_table(plain: bool, n_visits: int, n_codes: int) -> Case:
    """A table of codes with three levels of families; visits play no part."""
    sizes = (n_codes, n_codes // 8, 200, 20)
    leaves = [leaf(size, WIDTH) for size in sizes]
    levels = [mixed.Level.of(torch.randint(size, (n_codes,)), size) for size in sizes[1:]]
    beliefs, upstream = [torch.rand(n_codes, 1) for _ in sizes], torch.randn(n_codes, WIDTH)
    made = mixed.mixed_plain if plain else mixed.mixed
    return lambda: (made(leaves, levels, beliefs) * upstream).sum(), leaves


KERNELS = {
    "mixed": mixed_table,
    "sparse_bce": sparse_bce,
    "block_bce": block_bce,
    "masked_cross_entropy": masked_cross_entropy,
}


def once(case: Case) -> None:
    loss, leaves = case
    torch.autograd.grad(loss(), leaves)


def gain(name: str, n_visits: int, n_codes: int, repeats: int) -> float:
    """How many times as long the plain form takes."""
    cases = [KERNELS[name](plain, n_visits, n_codes) for plain in (True, False)]
    times: list[list[float]] = [[], []]
    for _ in range(repeats + 1):
        for case, spent in zip(cases, times, strict=True):
            began = time.process_time()
            once(case)
            spent.append(time.process_time() - began)
    plain, by_hand = (statistics.median(spent[1:]) for spent in times)
    return plain / by_hand


def peak(name: str, plain: bool, n_visits: int, n_codes: int) -> float:
    """By how many megabytes one pass raises the peak memory of a fresh process."""
    asked = [sys.executable, __file__, "--one", name, "--visits", str(n_visits), "--codes", str(n_codes)]
    ran = subprocess.run(asked + ["--plain"] * plain, capture_output=True, text=True, check=True)
    return float(ran.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--codes", type=int, nargs="+", default=[3000, 7000])
    parser.add_argument("--visits", type=int, nargs="+", default=[700, 2000])
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--kernels", nargs="+", choices=list(KERNELS), default=list(KERNELS))
    parser.add_argument("--memory", action="store_true", help="peak memory in megabytes instead of gains")
    parser.add_argument("--one", choices=list(KERNELS), help=argparse.SUPPRESS)
    parser.add_argument("--plain", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(1)
    if asked.one:
        case = KERNELS[asked.one](asked.plain, asked.visits[0], asked.codes[0])
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        once(case)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
        return
    found: dict[str, object] = {"width": WIDTH, "threads": 1}
    for name, n_codes, n_visits in product(asked.kernels, asked.codes, asked.visits):
        where = f"{name}, {n_codes} codes, {n_visits} visits"
        if asked.memory:
            sizes = [round(peak(name, plain, n_visits, n_codes)) for plain in (True, False)]
            found[f"{where}, MB"] = dict(zip(("plain", "by hand"), sizes, strict=True))
        else:
            found[where] = round(gain(name, n_visits, n_codes, asked.repeats), 2)
        print(where, list(found.values())[-1], file=sys.stderr)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
