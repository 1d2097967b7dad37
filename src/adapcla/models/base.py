"""What every model is: its settings, the functions that training and sampling call, and how it is registered.

A model is one file of this package with a `FAMILY`; `models/registry.py` lists them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.errors import AdapclaError
from adapcla.models.batch import Batch, CodeOrder, Records
from adapcla.models.draws import Noise
from adapcla.scaffold.schedule import Schedule
from adapcla.seeds import stream_key

#: Draws of a visit that came out too small which its place in the record has random numbers for, and how often a new
#: stream gives as many more. A network may leave a visit empty nine times in ten; 1,200 empty draws are none.
_ATTEMPTS, _STREAMS = 60, 20

#: (patient, code) pairs, sorted by patient.
Drawn = tuple[NDArray[np.int64], NDArray[np.int64]]


#: Added to the logits (codes,), or nothing.
Bias = Tensor | None
#: The state row of each patient, or one each.
Rows = Tensor | None


class Shape(NamedTuple):
    """What a network must fit: the size of the vocabulary, of the context, and what the cohort carries."""

    n_codes: int
    context: int
    #: Number of categories of each static attribute, in name order.
    attributes: tuple[int, ...] = ()
    with_days: bool = False
    #: Pairs of codes of which the network keeps how many training patients hold them.
    n_pairs: int = 0


class Likelihood(NamedTuple):
    """Negative log-likelihoods in nats."""

    codes: Tensor  # (visits,) of the visit's codes
    record: Tensor  # (patients,) of codes, continuing and gaps together


#: Targets of a passage: the visit is drawn as it is, or holds none of the codes.
FREE, NONE = -2, -1


@dataclass(frozen=True, eq=False)
class Passage:
    """Some codes that visits must hold or lack; drawing them tells how probable that was.

    A network draws the codes of a visit in an order. Wherever it would pass one of these codes, it has a hazard: the
    probability that the code comes, given the visit so far and that nothing before it came instead. A visit that must
    lack the codes passes each of them; one with a target passes those before the target, and then holds it. Up to
    there both draw the same, from the same random numbers.
    """

    #: Positions, ascending: in the order in which the network draws them.
    codes: NDArray[np.int64]
    #: (patients,) `FREE`, `NONE`, or the place in `codes` of the code that comes.
    target: NDArray[np.int64]
    #: (patients,) the draw of the visit in which the target comes; in those before it none comes.
    attempt: NDArray[np.int64]

    def select(self, rows: NDArray[np.int64]) -> Passage:
        """That of some of the patients."""
        return Passage(self.codes, self.target[rows], self.attempt[rows])

    def at(self, attempt: int) -> Passage:
        """That of one draw of a visit.

        >>> Passage(np.array([7]), np.array([FREE, NONE, 0, 0]), np.array([0, 0, 0, 1])).at(0).target.tolist()
        [-2, -1, 0, -1]
        """
        waits = (self.target >= 0) & (self.attempt > attempt)
        return Passage(self.codes, np.where(waits, NONE, self.target), self.attempt)

    @property
    def must_not_come(self) -> NDArray[np.bool_]:
        """(patients, codes) which codes must not come."""
        place = np.arange(len(self.codes))
        return (self.target == NONE)[:, None] | (place < self.target[:, None])

    @property
    def comes(self) -> NDArray[np.bool_]:
        """(patients, codes) which code must come."""
        return self.target[:, None] == np.arange(len(self.codes))


@dataclass(frozen=True)
class DrawRule:
    """How codes are drawn from logits: z / temperature + bias, by position."""

    #: Added to the logits: a steering shift, or the scaffold of Static-PCLA.
    bias: Tensor | None = None
    temperature: float = 1.0
    #: Numbers, one of which is drawn for each visit, which then holds exactly so many codes; None leaves it natural.
    counts: NDArray[np.int64] | None = None
    #: Codes that the visits must hold or lack.
    passage: Passage | None = None

    def select(self, rows: NDArray[np.int64]) -> DrawRule:
        """The rule of some of the patients."""
        return self if self.passage is None else replace(self, passage=self.passage.select(rows))

    def at(self, attempt: int) -> DrawRule:
        """The rule of one draw of a visit."""
        return self if self.passage is None else replace(self, passage=self.passage.at(attempt))

    def apply(self, logits: Tensor, codes: slice = slice(None)) -> Tensor:
        """The logits (…, some codes) that are drawn from.

        >>> DrawRule(Tensor([0.0, 1.0]), temperature=2.0).apply(Tensor([4.0]), slice(1, 2))
        tensor([3.])
        """
        tempered = logits if self.temperature == 1 else logits / self.temperature
        return tempered if self.bias is None else tempered + self.bias[codes]


class Visit(NamedTuple):
    """One drawn visit of each patient."""

    who: NDArray[np.int64]  # (entries,) ascending
    codes: NDArray[np.int64]  # (entries,) ascending for each patient
    #: (patients, codes of the passage) the hazard of each code that was passed, 0 elsewhere; None without a passage.
    hazard: NDArray[np.float64] | None = None
    #: The state after the visit, where drawing leaves it behind.
    after: Any = None

    @property
    def drawn(self) -> Drawn:
        """The pairs alone."""
        return self.who, self.codes


class Passed(NamedTuple):
    """One draw of a visit under a passage."""

    rows: NDArray[np.int64]  # the patients
    attempt: int
    hazard: NDArray[np.float64]  # (patients, codes of the passage)


class Entered(NamedTuple):
    """Patients who have another visit, before its codes are drawn."""

    rows: NDArray[np.int64]
    gap: NDArray[np.int64]  # days since the visit before
    state: Any


class Step(NamedTuple):
    """One visit of some patients, who are numbered as in the state that it began with."""

    rows: NDArray[np.int64]  # (visits,) those who have one
    gap: NDArray[np.int64]  # (visits,)
    who: NDArray[np.int64]  # (entries,)
    codes: NDArray[np.int64]  # (entries,)
    on: NDArray[np.int64]  # those who may have another one after it: not those who died
    state: Any  # of those
    passed: list[Passed]  # every draw, where there is a passage


class Visits(Protocol):
    """What a head needs to know about the visits it is asked about."""

    @property
    def row_before(self) -> Tensor:
        """(visits,) the state row that predicts each visit."""

    @property
    def visit_of_entry(self) -> Tensor:
        """(entries,) the visit of each code."""

    @property
    def codes(self) -> Tensor:
        """(entries,) code positions."""


class Head(Protocol):
    """How a history state becomes the codes of the next visit."""

    @property
    def bias(self) -> Tensor:
        """(codes,) the log-odds of codes before anything is known of the visit."""

    def loss(self, states: Tensor, visits: Visits, bias: Bias, positive_weight: float) -> Tensor:
        """The summed loss of all visits, with gradients."""

    def nll(self, states: Tensor, visits: Visits, bias: Bias) -> Tensor:
        """The negative log-likelihood of each visit (visits,)."""

    def draw(self, states: Tensor, row_of_patient: Rows, rule: DrawRule, noise: Noise) -> Visit:
        """One visit of each patient."""


class Network(nn.Module, ABC):
    """A network that can be trained on packed batches and rolled out visit by visit.

    Codes are numbered by `order` in all that goes in and comes out: batches, biases, clauses and draws.
    """

    #: The code of the vocabulary after which a record never goes on: death.
    last_code: int | None = None
    code_of_rank: Tensor
    rank_of_code: Tensor

    def keep_order(self, code_at: Tensor, saved: bool = True) -> None:
        """Number codes by this order; it is saved with weights where a suppressed prior could not give it back."""
        self.register_buffer("code_of_rank", code_at, persistent=saved)
        self.register_buffer("rank_of_code", torch.argsort(code_at), persistent=saved)

    @property
    def order(self) -> CodeOrder:
        """The numbering of codes."""
        return CodeOrder(self.code_of_rank.cpu().numpy())

    @property
    def last_position(self) -> int | None:
        """The position of the last code."""
        return None if self.last_code is None else int(self.rank_of_code[self.last_code])

    @abstractmethod
    def loss(self, batch: Batch, bias: Tensor | None, positive_weight: float = 1.0) -> Tensor:
        """The summed training loss; `bias` (codes,) is added to the code logits."""

    @abstractmethod
    def likelihood(self, batch: Batch, bias: Tensor | None = None) -> Likelihood:
        """How probable the records are, without any training aid but `bias`."""

    def observe(self, records: Records, shape: Shape) -> Shape:
        """Take what must be known of all training patients before the first step; the shape with what is kept of it."""
        return shape

    def without_small_counts(self, shape: Shape) -> tuple[dict[str, Tensor], Shape]:
        """The state for others, in which no number gives a count away that is too small to be told; and its shape."""
        return dict(self.state_dict()), shape

    def problem_with(self, state: dict[str, Tensor]) -> str:
        """What is wrong with the whole numbers of a state, which are orders of codes; empty where nothing is."""
        for name, value in self.state_dict().items():
            if name in state and not value.is_floating_point():
                one, other = (torch.sort(x.reshape(-1)).values for x in (state[name], value))
                if not torch.equal(one, other):
                    return f"{name!r} does not fit the vocabulary"
        return ""

    def next_logits(self, batch: Batch) -> Tensor | None:
        """Logits (patients, codes) of the visit after each patient's last one; None where codes know of each other."""
        return None

    def next_chances(self, batch: Batch, bias: Tensor | None = None) -> Tensor | None:
        """The chances (patients, codes) of that visit's codes; None where they come one by one."""
        return None

    # ---- sampling ---------------------------------------------------------------------------------------
    @abstractmethod
    def begin(self, attributes: Tensor, noise: Noise) -> Any:
        """The state of patients (n, attributes) before their first visit."""

    @abstractmethod
    def enter(self, state: Any, noise: Noise, certain: bool) -> Entered:
        """Who has another visit, and after how many days; everybody has if it is certain."""

    def after_days(self, state: Any, gap: NDArray[np.int64]) -> Any:
        """The state after the days before the next visit, where codes know them."""
        return state

    @abstractmethod
    def draw_visit(self, state: Any, rule: DrawRule, noise: Noise) -> Visit:
        """The codes of the visit that patients have entered."""

    @abstractmethod
    def absorb(self, state: Any, drawn: Drawn, gap: NDArray[np.int64]) -> Any:
        """The state after that visit; every patient must have drawn a code."""

    @abstractmethod
    def select(self, state: Any, rows: NDArray[np.int64]) -> Any:
        """The state of some of the patients."""

    def step(self, state: Any, rule: DrawRule, noise: Noise, min_codes: int = 0, certain: bool = False) -> Step:
        """The next visit of patients, and the state after it; a record ends at a visit without a code.

        Args:
            state: Where the patients stand; it is left as it is.
            rule: How codes are drawn.
            noise: The random numbers of this visit.
            min_codes: Visits with fewer codes are drawn again.
            certain: Every record is taken to go on, as it is before a first visit.
        """
        rows, gap, state = self.enter(state, noise, certain)
        if not len(rows):
            return Step(rows, rows, rows, rows, rows, state, [])
        noise, rule = noise.keep(rows), rule.select(rows)
        visit, passed = self._visit(state, rule, noise, min_codes)
        passed = [draw._replace(rows=rows[draw.rows]) for draw in passed]
        who, after = visit.who, visit.after
        held = np.unique(who)
        if len(held) < len(rows):
            rows, gap, state = rows[held], gap[held], self.select(state, held)
            after = None if after is None else self.select(after, held)
            who = np.searchsorted(held, who)
        if not len(rows):
            return Step(rows, rows, rows, rows, rows, state, passed)
        on = np.ones(len(rows), dtype=bool)
        last = self.last_position
        if last is not None:
            on[who[visit.codes == last]] = False
        state = self.absorb(state, (who, visit.codes), gap) if after is None else after
        if not on.all():
            state = self.select(state, np.flatnonzero(on))
        return Step(rows, gap, rows[who], visit.codes, rows[on], state, passed)

    def _visit(self, state: Any, rule: DrawRule, noise: Noise, min_codes: int) -> tuple[Visit, list[Passed]]:
        """One visit of each patient, drawn again where it has fewer than `min_codes` codes; and all its draws."""
        n = len(noise.patients)
        visit = self.draw_visit(state, rule.at(0), noise)
        who, codes = visit.drawn
        passed = [] if visit.hazard is None else [Passed(np.arange(n), 0, visit.hazard)]
        lost = np.zeros(n, dtype=bool)
        for attempt in range(1, _ATTEMPTS * _STREAMS):
            if visit.hazard is not None:
                lost[passed[-1].rows[(visit.hazard == 1).any(axis=1)]] = True
            small = np.flatnonzero((np.bincount(who, minlength=n) < min_codes) & ~lost)
            if not len(small):
                return Visit(who, codes, None, visit.after if attempt == 1 else None), passed
            stream, number = divmod(attempt, _ATTEMPTS)
            key = stream_key(noise.key, "again", stream) if stream else noise.key
            again = Noise(key, noise.patients[small], noise.place + number)
            visit = self.draw_visit(self.select(state, small), rule.select(small).at(attempt), again)
            if visit.hazard is not None:
                passed.append(Passed(small, attempt, visit.hazard))
            stays = ~np.isin(who, small)
            who = np.concatenate([who[stays], small[visit.who]])
            codes = np.concatenate([codes[stays], visit.codes])
            order = np.lexsort((codes, who))
            who, codes = who[order], codes[order]
        raise AdapclaError(
            f"{len(small)} of {n} patients got no visit with at least {min_codes} codes in {attempt + 1} draws\n"
            "to do: lower min_codes, or check that the target prevalence leaves codes to draw"
        )

    def prefill(self, batch: Batch, noise: Noise) -> Any:
        """The state after the whole records of patients with equally many visits."""
        n = batch.n_patients
        state = self.begin(batch.start_attributes[batch.start_of_patient], noise)
        entry_visit = batch.position[batch.visit_of_entry].numpy()
        entry_patient = batch.patient_of_visit[batch.visit_of_entry].numpy()
        codes, gaps = batch.codes.numpy(), batch.gap.view(n, -1).numpy()
        for step in range(gaps.shape[1]):
            here = entry_visit == step
            state = state if step == 0 else self.after_days(state, gaps[:, step])
            state = self.absorb(state, (entry_patient[here], codes[here]), gaps[:, step])
        return state


class Architecture(BaseModel):
    """What every family is shown of a patient; a family adds its own settings and its name as `family`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    width: int = Field(256, ge=8, description="Width of a visit's state.")
    dropout: float = Field(0.1, ge=0, lt=1)
    context: int = Field(48, ge=2, description="Longest history, in visits; later visits are cut and counted.")
    use_days: bool = Field(True, description="Learn and draw the days between visits where the cohort has them.")
    use_attributes: bool = Field(True, description="Condition on static attributes where the cohort has them.")
    family: str

    @property
    def depth(self) -> int:
        """Number of equal layers."""
        return 1

    @property
    def attention_heads(self) -> int:
        """Parts that attention divides the width into."""
        return 1

    @property
    def unread(self) -> tuple[str, ...]:
        """Settings that change nothing beside the others."""
        return ()

    @property
    def counts_pairs(self) -> bool:
        """Whether pairs of codes of the training patients are counted and kept."""
        return False

    @property
    def one_shot(self) -> bool:
        """Whether every code's logit of the next visit comes at once, so that its probability needs no draw."""
        return False

    @property
    def chooses(self) -> bool:
        """Whether codes of a choice group are drawn as one category, so that a visit holds at most one of them."""
        return False

    @model_validator(mode="after")
    def _width_fits_attention(self) -> Architecture:
        if self.width % self.attention_heads:
            raise ValueError(
                f"a width of {self.width} cannot be shared by {self.attention_heads} heads: expected a multiple"
            )
        return self

    def multiplications(self, n_codes: int, codes_per_visit: float) -> float:
        """Roughly, the multiplications and additions that one visit takes in one direction."""
        return 2.0 * (12 * self.depth * self.width**2 + n_codes * self.width)


@dataclass(frozen=True)
class Traits:
    """What the networks of a family can do, and what must be known before one is saved or shared."""

    #: Has a logit for each code, so that a shift of them steers the population.
    steerable: bool = True
    #: Can go on from a given history.
    continues: bool = True
    #: Says how probable a record is.
    likelihood: bool = True
    #: Can be trained with the scaffold.
    scaffold: bool = False
    #: Present codes can weigh more than absent ones in the loss.
    positive_weight: bool = False
    #: Has an output bias that the training prevalence can be folded into.
    output_bias: bool = False
    #: Its numbers are the exact counts of the codes.
    holds_counts: bool = False
    #: Why it cannot be trained with differential privacy; empty if it can.
    not_private: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the table of methods: a name, where it comes from, and its settings."""

    name: str
    summary: str
    paper: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    starts_from: str = "random weights"
    #: Whether `--methods all` takes it; references and paper sizes are asked for by name.
    usual: bool = True
    note: str = ""


@dataclass(frozen=True)
class Family:
    """A family of networks; its module in `adapcla.models` names it `FAMILY`, and nothing else lists it."""

    architecture: type[Architecture]
    network: Callable[[Any, Shape, Prevalence], Network]
    traits: Traits
    rows: tuple[Row, ...]
    #: How a network is trained; None for one that is counted.
    objective: Callable[[Any, ScaffoldRule], Objective] | None = None
    #: How a network without an objective is fitted, in one look at all training patients.
    count: Callable[[Any, Records], None] | None = None

    @property
    def name(self) -> str:
        """The name that settings give as `family`."""
        return str(self.architecture.model_fields["family"].default)


NamedParameters = Iterable[tuple[str, nn.Parameter]]


@dataclass(frozen=True)
class Moment:
    """Where training stands."""

    step: int
    n_steps: int
    seed: int

    @property
    def progress(self) -> float:
        """0 at the first step, 1 at the last."""
        return self.step / max(1, self.n_steps - 1)


class ScaffoldRule(NamedTuple):
    """What the settings say about the scaffold while training: its bias, its schedule, and when it is kept."""

    bias: Tensor  # (codes,)
    schedule: Schedule
    positive_weight: float = 1.0
    #: Whether validation, like sampling, adds the bias: Static-PCLA.
    at_validation: bool = False


class Objective(ABC):
    """What the one training loop asks; the defaults are those of a single optimiser for all parameters."""

    #: Momentum coefficients of an optimiser that wants others than the loop's, by the name of its turn.
    betas: ClassVar[Mapping[str, tuple[float, float]]] = {}
    #: Factors of the learning rate, by the name of the turn.
    rates: ClassVar[Mapping[str, float]] = {}

    def __init__(self, modules: nn.Module) -> None:
        #: Everything that is trained and saved.
        self.modules = modules

    def turns(self) -> dict[str, NamedParameters]:
        """Named parameters of each optimiser, by the name of its turn."""
        return {"main": self.modules.named_parameters()}

    def turn(self, moment: Moment) -> str:
        """Whose turn a step is."""
        return "main"

    def notes(self) -> dict[str, float]:
        """What else belongs into the journal, such as the losses of several parts."""
        return {}

    @abstractmethod
    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss of a batch, with gradients, for the turn of this moment."""

    @abstractmethod
    def weight(self, moment: Moment) -> float:
        """The weight of what is annealed (the scaffold, for one), for the journal."""

    @abstractmethod
    def is_final(self, moment: Moment) -> bool:
        """Whether the loss has reached its final form, so that weights from now on may be chosen."""

    @abstractmethod
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed bias-free loss of a batch and the number of visits it is summed over."""


class ScaffoldedLikelihood(Objective):
    """Maximum likelihood with the scaffold added to the training logits, weighted by a schedule.

    AdaPCLA, Static-PCLA and plain training are this objective under different schedules.
    """

    def __init__(self, network: Network, rule: ScaffoldRule) -> None:
        super().__init__(network)
        self.network, self.rule = network, rule

    def weight(self, moment: Moment) -> float:
        """α at this moment."""
        return self.rule.schedule.weight(moment.progress)

    def is_final(self, moment: Moment) -> bool:
        """Whether the scaffold's weight will not change any more."""
        return self.weight(moment) == self.rule.schedule.weight(1.0)

    def loss(self, batch: Batch, moment: Moment) -> Tensor:
        """The summed loss under the scaffolded logits z + α·b."""
        weight = self.weight(moment)
        scaffold = weight * torch.as_tensor(self.rule.bias) if weight else None
        return self.network.loss(batch, scaffold, self.rule.positive_weight)

    @torch.no_grad()
    def validation(self, batch: Batch) -> tuple[float, int]:
        """The summed negative log-likelihood of the records under the rule of inference."""
        bias = torch.as_tensor(self.rule.bias) if self.rule.at_validation else None
        return float(self.network.likelihood(batch, bias).record.sum()), batch.n_visits
