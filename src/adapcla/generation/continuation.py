"""What a model expects after given histories, freely or where the new visits are to fulfil a condition."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from adapcla.console import meter, say
from adapcla.data import Attribute, Cohort
from adapcla.data.code_systems import describe_codes
from adapcla.data.criteria import Criteria
from adapcla.errors import AdapclaError, UsageError
from adapcla.generation.conditional import COMMON, Begun, Pool, Proposer, Request, rarest_clause, share_beyond
from adapcla.generation.model import Model, dequantize, quantize_condition, refuse_dead_histories
from adapcla.generation.sampler import Rolled, cohort_of, draw_rule, join, roll
from adapcla.models.batch import Records
from adapcla.models.draws import Noise
from adapcla.scaffold import Steering
from adapcla.seeds import stream_key

#: Proposals for a history at once, for each continuation that is asked for.
_EACH = 4
#: Proposals of one history after which it is given up.
_MOST = 200_000
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
def continue_records(
    model: Model, history: Cohort, visits: int, draws: int, seed: int, steering: Steering | None = None
) -> Continuation:
    """Continuations of every patient of `history`; the record is taken to go on for the first new visit.

    Probabilities are exact where the network gives every logit at once, and frequencies of the draws elsewhere.
    """
    if not model.traits.continues:
        raise UsageError(f"{model.method} makes whole records at once; it cannot go on from a history")
    refuse_dead_histories(history)
    network = model.network.eval()
    rule = draw_rule(model, steering)
    records = replace(model.records(history), context=model.shape.context - visits)
    key = stream_key(seed, "continued")
    lengths = np.minimum(records.cohort.visits_per_patient, records.context)
    parts: list[Rolled] = []
    owners: list[NDArray[np.int64]] = []
    per_group = max(1, _AT_ONCE // max(draws, 1))
    for length in np.unique(lengths):
        members = np.flatnonzero(lengths == length)
        for low in range(0, len(members), per_group):
            some = members[low : low + per_group]
            state = network.prefill(records.batch(some), Noise(key, some, 0))
            copies = np.repeat(np.arange(len(some)), draws)
            numbers = some[copies] * draws + np.tile(np.arange(draws), len(some))
            attributes = records.attribute_rows(some)[copies]
            # Visit numbers restart at 0: the record is taken to go on, and at least one code is drawn.
            parts.append(roll(network, network.select(state, copies), numbers, attributes, rule, key, visits))
            owners.append(some[copies])
    drawn = cohort_of(
        model,
        join(parts),
        {"source": "synthetic", **model.origin.as_card(), "method": model.method, "continued": True},
    )
    history_of = np.concatenate(owners)
    return continuation_of(
        model, _probabilities(model, rule.bias, records, drawn, history_of, draws), drawn, history_of, seed
    )


def continuation_of(
    model: Model, probabilities: NDArray[np.float64], drawn: Cohort, history_of: NDArray[np.int64], seed: int
) -> Continuation:
    """What was drawn and its chances, with numbers in the place of bins."""
    chances = probabilities if model.quantizer is None else model.quantizer.sum_over_bins(probabilities)
    return Continuation(chances, dequantize(model, drawn, seed), history_of)


def _probabilities(
    model: Model, bias: Tensor | None, records: Records, drawn: Cohort, history_of: NDArray[np.int64], draws: int
) -> NDArray[np.float64]:
    """Next-visit probabilities (histories, codes)."""
    n = records.cohort.n_patients
    exact = []
    for low in range(0, n, 256):
        chances = model.network.next_chances(records.batch(np.arange(low, min(low + 256, n))), bias)
        if chances is None:
            break
        exact.append(chances.numpy()[:, model.network.order.position_of])
    else:
        return np.concatenate(exact)
    return drawn_shares(drawn, history_of, draws)


def drawn_shares(drawn: Cohort, history_of: NDArray[np.int64], draws: int) -> NDArray[np.float64]:
    """Shares of the draws (histories, codes) that hold each code in their first new visit."""
    matrix = drawn.matrix()[drawn.first_visits]
    gather = sparse.csr_matrix((np.ones(len(history_of)), (history_of, np.arange(len(history_of)))))
    return np.asarray((gather @ matrix).todense(), dtype=np.float64) / draws


# ---- continuations that fulfil a condition --------------------------------------------------------------------------
def as_known(model: Model, history: Cohort) -> Cohort:
    """Histories in the words of the model: codes it does not know go, attributes it does not know are unknown."""
    dead = history.died()
    if dead.any():
        say(f"{int(dead.sum())} histories end with death; nothing follows, and they are left out")
        history = history.subset(np.flatnonzero(~dead))
    known = np.isin(history.vocabulary.tokens, model.raw_vocabulary.tokens)
    if not known.all():
        say(f"{int((~known).sum())} codes of the histories are unknown to the model and are left out")
        history = history.keep_codes(known)
    attributes, learned = {}, model.attribute_distribution
    for name, categories in zip(learned.names, learned.categories, strict=True):
        values = np.full(history.n_patients, -1, dtype=np.int16)
        given = history.attributes.get(name)
        if given is not None:
            place = np.array([categories.index(c) if c in categories else -1 for c in given.categories] + [-1])
            values = place[np.asarray(given.values)].astype(np.int16)
        attributes[name] = Attribute(values, categories)
    return replace(history, attributes=attributes).on(model.raw_vocabulary)


def continue_given(
    model: Model, history: Cohort, condition: Criteria, draws: int, seed: int, steering: Steering | None = None
) -> Continuation:
    """`draws` continuations of every history that fulfil the condition; it speaks of the new visits alone.

    The record is taken to go on for the first new visit, and `within` visits are drawn (1 where it is not given). Each
    history has a distribution of its own, and so proposals and a bound of its own: first plain ones, and where those
    rarely fulfil the condition, such by first passage (see `conditional`).
    """
    if not model.traits.continues:
        raise UsageError(f"{model.method} makes whole records at once; it cannot go on from a history")
    if condition.where:
        raise UsageError("--where belongs to new patients: a history has its attributes already")
    refuse_dead_histories(history)
    inside = quantize_condition(model, condition)
    Request(model, inside, steering).check()
    horizon = max(condition.within or 1, condition.fewest_visits, condition.most_visits or 0)
    model.network.eval()
    plain = Proposer(model, inside, draw_rule(model, steering), horizon)
    steered = replace(plain, clause=rarest_clause(model, inside)) if inside.having else plain
    records = replace(model.records(history), context=model.shape.context - horizon)
    lengths = np.minimum(records.cohort.visits_per_patient, records.context)
    key, n_proposals = stream_key(seed, "futures"), 0
    pools: dict[int, Pool] = {}
    with meter("continue", history.n_patients) as bar:
        for length in np.unique(lengths):
            members = np.flatnonzero(lengths == length)
            state = model.network.prefill(records.batch(members), Noise(key, members, 0))
            found, asked = _pools_of_histories(
                plain, steered, records.attribute_rows(members), members, state, draws, key
            )
            pools |= dict(zip(members.tolist(), found, strict=True))
            n_proposals += asked
            bar.advance(len(members))
    fulfilled, effective = (sum(getattr(pool, name) for pool in pools.values()) for name in ("fulfilled", "effective"))
    say(f"{n_proposals:,} proposals, {fulfilled:,} fulfil the condition")
    card = {"source": "synthetic", **model.origin.as_card(), "method": model.method, "continued": True, "draws": draws}
    card |= {"condition": condition.as_card(), "seed": seed}
    card |= {"effort": {"proposals": n_proposals, "fulfilled": fulfilled, "effective": round(effective, 1)}}
    drawn = cohort_of(model, join([pools[i].take(draws) for i in range(history.n_patients)]), card)
    history_of = np.repeat(np.arange(history.n_patients), draws)
    return continuation_of(model, drawn_shares(drawn, history_of, draws), drawn, history_of, seed)


@torch.no_grad()
def _pools_of_histories(
    plain: Proposer,
    steered: Proposer,
    attributes: NDArray[np.int64],
    members: NDArray[np.int64],
    state: Any,
    draws: int,
    key: int,
) -> tuple[list[Pool], int]:
    """A pool with continuations of each history, and how many were proposed."""
    each, n_proposals = _EACH * draws, 0
    ways = np.zeros(len(members), dtype=np.int64)

    def pool_of(way: int, member: int) -> Pool:
        return Pool(stream_key(key, "taken", way, member), share_beyond(draws) if way else 0.0)

    pools = [pool_of(0, int(member)) for member in members]
    waiting = np.arange(len(members))
    while len(waiting):
        for way in np.unique(ways[waiting]).tolist():
            rows, at_once = waiting[ways[waiting] == way], max(1, _AT_ONCE // each)
            for low in range(0, len(rows), at_once):
                some = rows[low : low + at_once]
                copies = np.repeat(some, each)
                asked = np.concatenate([pools[i].n + np.arange(each) for i in some])
                number = members[copies] * _MOST * 2 + asked
                begun = Begun(
                    number, attributes[copies], plain.model.network.select(state, copies), stream_key(key, "level", way)
                )
                floor = np.repeat([pools[i].floor for i in some], each)
                uniform = np.concatenate([pools[i].uniform(asked[copies == i]) for i in some])
                proposed = (steered if way else plain).propose(begun, floor, uniform)
                owner = np.searchsorted(members[some], proposed.number // (_MOST * 2))
                for place, i in enumerate(some.tolist()):
                    own = np.flatnonzero(owner == place)
                    pools[i].add(proposed.of(own, each, members[i] * _MOST * 2))
                n_proposals += len(copies)
        for i in waiting.tolist():
            pool = pools[i]
            if not ways[i] and steered.clause is not None and pool.fulfilled < COMMON * pool.n:
                ways[i], pools[i] = 1, pool_of(1, int(members[i]))
            elif not pool.enough(draws) and pool.n >= _MOST:
                raise AdapclaError(
                    f"a history got {pool.n_taken} of {draws} continuations in {pool.n:,} proposals\n"
                    "to do: ask for fewer draws, more visits (--set within=N), or a condition that is less rare"
                )
        waiting = np.array([i for i in waiting if not pools[i].enough(draws)], dtype=np.int64)
    return pools, n_proposals
