"""Conditional generation: what a model expects after given histories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from adapcla.data import Cohort
from adapcla.data.code_systems import describe_codes
from adapcla.errors import UsageError
from adapcla.generation.model import Model, as_natural, refuse_the_dead
from adapcla.generation.sampler import Rolled, cohort_of, draw_rule, joined, roll
from adapcla.models.batch import Batch, Records
from adapcla.models.draws import Noise
from adapcla.seeds import stream_key

#: Drawn records computed together.
_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Continuation:
    """What a model expects after given histories."""

    #: Probability of each code at the next visit (patients, codes).
    probabilities: NDArray[np.float64]
    #: Continued records: `draws` for each history, in order; only the new visits.
    drawn: Cohort
    #: The history that each drawn record continues.
    history_of: NDArray[np.int64]


def likeliest(continuation: Continuation, n: int) -> list[list[dict[str, Any]]]:
    """The `n` likeliest codes of the next visit of each history, with names where they are known, likeliest first.

    >>> drawn = Cohort.of([[["4019", "A"]]])
    >>> likeliest(Continuation(np.array([[0.2, 0.7]]), drawn, np.array([0])), 1)
    [[{'code': 'A', 'name': 'A', 'probability': 0.7}]]
    """
    vocabulary = continuation.drawn.vocabulary
    names = describe_codes(vocabulary)
    return [
        [
            {
                "code": vocabulary.tokens[code],
                "name": names.get(vocabulary.tokens[code], vocabulary.codes[code].bare),
                "probability": float(f"{row[code]:.4g}"),
            }
            for code in np.argsort(-row, kind="stable")[:n]
        ]
        for row in continuation.probabilities
    ]


@torch.no_grad()
def continued(model: Model, history: Cohort, visits: int, draws: int, seed: int) -> Continuation:
    """Continuations of every patient of `history`; the record is taken to go on for the first new visit.

    Probabilities are exact where the network gives every logit at once, and frequencies of the draws elsewhere.
    """
    if not model.traits.continues:
        raise UsageError(f"{model.method} makes whole records at once; it cannot go on from a history")
    refuse_the_dead(history)
    network = model.network.eval()
    rule = draw_rule(model)
    records = Records(model.records(history).cohort, model.shape.context - visits)
    key = stream_key(seed, "continued")
    lengths = np.minimum(records.cohort.visits_per_patient, records.context)
    parts: list[Rolled] = []
    owners: list[NDArray[np.int64]] = []
    per_group = max(1, _AT_ONCE // max(draws, 1))
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        for low in range(0, len(members), per_group):
            some = members[low : low + per_group]
            state = prefilled(network, records.batch(some), Noise(key, some, 0))
            copies = np.repeat(np.arange(len(some)), draws)
            numbers = some[copies] * draws + np.tile(np.arange(draws), len(some))
            attributes = records.attribute_rows(some)[copies]
            # Visit numbers restart at 0: the record is taken to go on, and at least one code is drawn.
            parts.append(roll(network, network.keep(state, copies), numbers, attributes, rule, key, range(visits)))
            owners.append(some[copies])
    drawn = cohort_of(
        model,
        joined(parts),
        {"source": "synthetic", **model.origin.as_card(), "method": model.method, "continued": True},
    )
    history_of = np.concatenate(owners)
    return continuation_of(model, _probabilities(model, records, drawn, history_of, draws), drawn, history_of, seed)


def continuation_of(
    model: Model, probabilities: NDArray[np.float64], drawn: Cohort, history_of: NDArray[np.int64], seed: int
) -> Continuation:
    """What was drawn and its chances, with numbers in the place of bands."""
    chances = probabilities if model.bands is None else model.bands.sum_over_bins(probabilities)
    return Continuation(chances, as_natural(model, drawn, seed), history_of)


def prefilled(network: Any, batch: Batch, noise: Noise) -> Any:
    """The state after the whole history of patients with equally many visits."""
    n = batch.n_patients
    state = network.begin(batch.start_attributes[batch.start_of_patient], noise)
    steps = int(batch.position.max()) + 1
    entry_visit = batch.position[batch.visit_of_entry].numpy()
    entry_patient = batch.patient_of_visit[batch.visit_of_entry].numpy()
    codes = batch.codes.numpy()
    gaps = batch.gap.view(n, steps).numpy()
    for step in range(steps):
        here = entry_visit == step
        state = network.absorb(state, (entry_patient[here], codes[here]), gaps[:, step])
    return state


def _probabilities(
    model: Model, records: Records, drawn: Cohort, history_of: NDArray[np.int64], draws: int
) -> NDArray[np.float64]:
    """Next-visit probabilities (histories, codes)."""
    n = records.cohort.n_patients
    bias, exact = model.inference_bias, []
    for low in range(0, n, 256):
        chances = model.network.next_chances(records.batch(np.arange(low, min(low + 256, n))), bias)
        if chances is None:
            break
        exact.append(chances.numpy())
    else:
        return np.concatenate(exact)
    return drawn_shares(drawn, history_of, draws)


def drawn_shares(drawn: Cohort, history_of: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """Shares of the draws (histories, codes) that hold each code in their first new visit."""
    matrix = drawn.matrix()[drawn.first_visits]
    gather = sparse.csr_matrix((np.ones(len(history_of)), (history_of, np.arange(len(history_of)))))
    return np.asarray((gather @ matrix).todense(), dtype=np.float64) / draws
