"""Who stands beside whom, learned from several patients and never from one: a prior over pairs in the logit.

The logit of a code gains, for each code that was drawn before it in the visit, how far the count of their meetings is
believed: g(n, e), where n is how many training visits hold both and e how many chance would give. g is a small learned
table that all pairs share. In training n leaves out the patient at hand, so that g learns how far a count of *others*
can be believed, and a pair that one patient alone holds teaches nothing. Elsewhere a pair counts only from a number of
patients on; the others are not even kept, and are taken as pairs that never met.

Most pairs never met. What that says depends on how frequent both codes are, band by band, and on how often their
families met (`models/kinship.py`). Only pairs that met are listed, with how much more they say than strangers.

How much is said in all is weighed by how many codes speak: several of them may say the same thing.

When visits are drawn, rare codes hear a little more or less than they learned to (`models/emphasis.py`), so that
pairs with a rare code come out as often as they should.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adapcla.data import Prevalence
from adapcla.data.ragged import expand_ranges
from adapcla.models.batch import Batch, Records
from adapcla.models.counting import codes_before
from adapcla.models.emphasis import Emphasis
from adapcla.models.kept_pairs import KeptPairs
from adapcla.models.kernels.group_sums import Grouped, GroupLines
from adapcla.models.kernels.members import Members
from adapcla.models.kernels.spoken import Added, Spoken
from adapcla.models.kernels.taken import taken
from adapcla.models.kinship import Kinship
from adapcla.models.own_lines import KeptLines, OwnLines
from adapcla.models.pair_counts import (
    COUNT_EDGES,
    EXPECTED_POWERS,
    N_COLUMNS,
    PACE,
    count_band,
    expected_column,
    pair_counts,
)
from adapcla.models.visit_entries import Entries, Whose, distinct, joined

#: Visits of each kind that a count is shrunken by at the beginning.
_SHRINKAGE = 1.0
#: Meetings by which a count is believed half, where chance expects none.
_LUCK = 2.0
#: Bands of codes by frequency, a power of two each.
N_BANDS = 14
#: Speaking codes that are told apart by their number.
_MOST_SPEAKERS = 24


def frequency_band(prevalence: Prevalence) -> Tensor:
    """The band of each code by its number of training visits, a power of two each; small counts are alike.

    >>> frequency_band(Prevalence.of({"A": 0.5, "B": 0.001}, n_visits=1000)).tolist()
    [8, 3]
    """
    visits = np.nan_to_num(prevalence.raise_small_counts().share) * (prevalence.n_visits or 1)
    return torch.from_numpy(np.clip(np.log2(np.maximum(visits, 1.0)), 0, N_BANDS - 1).astype(np.int64))


def first_belief(count: Tensor, expected: Tensor) -> Tensor:
    """What pairs that met so often say before anything is learned, where chance would have them meet so often.

    Where chance expects no meeting, a count is luck in part and the rest of it is true: of three meetings about two
    are met again in as many other visits, whatever is expected. Elsewhere both are shrunken towards each other.

    >>> [round(float(first_belief(torch.tensor(3.0), torch.tensor(chance)).exp()), 2) for chance in (0.01, 1.0, 100.0)]
    [180.0, 2.0, 0.04]
    """
    shrunken = (count + _SHRINKAGE) / (expected + _SHRINKAGE)
    return torch.log(torch.maximum(shrunken, count**2 / (count + _LUCK) / expected))


class Company(KeptPairs):
    """What the codes of a visit that are drawn already say of those to come."""

    def __init__(
        self, n_pairs: int, least_patients: int, band_of_rank: Tensor, n_visits: int, kinship: Kinship | None = None
    ) -> None:
        super().__init__(n_pairs, least_patients, len(band_of_rank))
        self.kinship = kinship
        low = torch.tensor(COUNT_EDGES, dtype=torch.float32)
        count = torch.cat([(low[:-1] + low[1:] - 1) / 2, low[-1:] * 2])
        expected = 2.0 ** (torch.tensor([EXPECTED_POWERS[0] - 1, *EXPECTED_POWERS], dtype=torch.float32) + 0.5)
        self.belief = nn.Parameter(first_belief(count[:, None], expected[None]) / PACE)
        # The same count says more of a rare code than of one that the rest of the network knows well.
        self.rarity = nn.Parameter(torch.zeros(len(COUNT_EDGES), N_BANDS))
        typical = 2.0 ** (torch.arange(N_BANDS) + 0.5)
        by_chance = typical[:, None] * typical[None] / max(n_visits, 1)
        self.strangers = nn.Parameter(torch.log(_SHRINKAGE / (by_chance + _SHRINKAGE)) / PACE)
        self.strength = nn.Parameter(torch.arange(1, _MOST_SPEAKERS + 1).float().rsqrt())
        self.band: Tensor
        self.register_buffer("band", band_of_rank.int())
        self.emphasis = Emphasis(len(band_of_rank), N_BANDS, None if kinship is None else kinship.family)
        # While training: what changes without each patient; never saved.
        self.own = KeptLines()
        # The codes of each band and of each family in every tile of a step.
        self.members: tuple[dict[tuple[int, int], Members], ...] = ({}, {})
        # And all pairs that lead from an earlier block to a later one, ascending by the later code and then the
        # earlier, each with its kind (a cell and two bands, which pairs share); never saved.
        self.known_key: Tensor
        self.known_first: Tensor
        self.known_second: Tensor
        self.known_visits: Tensor
        self.known_kind: Tensor
        self.kinds: Tensor
        for name in ("known_key", "known_first", "known_second", "known_visits", "known_kind", "kinds"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64), persistent=False)

    @property
    def index_limits(self) -> dict[str, int]:
        """What the entries of saved indices must stay below, by name."""
        return {**super().index_limits, "band": N_BANDS}

    def observe(self, records: Records, rank_of_code: Tensor, block_of_rank: Tensor) -> None:
        """Count the pairs of all training patients; those of too few patients are known while training alone."""
        cohort, n = records.seen, len(rank_of_code)
        counts = pair_counts(cohort)
        one, two = (rank_of_code[torch.from_numpy(side)] for side in (counts.first, counts.second))
        first, second = _directed(one, two, block_of_rank)
        key = second * n + first
        order = torch.argsort(torch.where(block_of_rank[first] < block_of_rank[second], key, -1))
        # Codes of one block are drawn together and do not hear of each other.
        order = order[int((block_of_rank[first] == block_of_rank[second]).sum()) :]
        first, second = first[order], second[order]
        visits, patients = (torch.from_numpy(count)[order] for count in (counts.visits, counts.patients))
        of_rank = torch.from_numpy(cohort.visit_counts)[torch.argsort(rank_of_code)]
        column = expected_column(of_rank, cohort.n_visits)(first, second)
        cell = count_band(visits) * N_COLUMNS + column
        self.known_key, self.known_visits = key[order], visits.int()
        self.known_first, self.known_second = first.int(), second.int()
        self.kinds, kind = torch.unique(cell * N_BANDS**2 + self._between(first, second), return_inverse=True)
        self.known_kind = kind.int()
        kept = (patients >= self.least_patients).nonzero()[:, 0]
        self.first, self.second, self.cell = first[kept].int(), second[kept].int(), cell[kept].int()
        self.emphasis.observe(first[kept], second[kept], visits[kept], of_rank, cohort.n_visits)
        if self.kinship is not None:
            self.kinship.observe(records, rank_of_code)

        def own_lines(batch: Batch) -> OwnLines:
            return self._own_lines(Entries.of(batch, n), block_of_rank)

        self.own.keep(records, rank_of_code, own_lines)

    def _between(self, first: Tensor, second: Tensor) -> Tensor:
        """The bands of both codes of pairs as one number."""
        return self.band[first].long() * N_BANDS + self.band[second]

    def _by_rarity(self, cell: Tensor, between: Tensor) -> Tensor:
        """Where pairs stand in the flat table of rarity: a row for their count, a column for their rarer code."""
        return cell // N_COLUMNS * N_BANDS + torch.minimum(between // N_BANDS, between % N_BANDS)

    def _more(self, cell: Tensor, between: Tensor) -> Tensor:
        """How much more pairs that met say than pairs that never met."""
        met = taken(self.belief.reshape(-1), cell.long())
        met = met + taken(self.rarity.reshape(-1), self._by_rarity(cell.long(), between))
        return PACE * (met - taken(self.strangers.reshape(-1), between))

    def values(self) -> Tensor:
        """(pairs,) what each pair that is kept says beyond what strangers say."""
        first, second = self.first.long(), self.second.long()
        return self._more(self.cell, self._between(first, second)) + self.emphasis.of_partners(self.band[first], second)

    def of_strangers(self) -> Tensor:
        """(bands, bands) what a code of each band says of a code of each band that it never met."""
        return PACE * self.strangers

    def kind_of_kept(self) -> Tensor:
        """(pairs,) the place in the flat table of rarity of each pair that is kept: its count and its rarer code."""
        return self._by_rarity(self.cell.long(), self._between(self.first.long(), self.second.long()))

    @torch.no_grad()
    def believe(self, more: Tensor) -> None:
        """Believe kept pairs of each kind more by these log-odds (the table of rarity, flat)."""
        self.rarity.view(-1).add_(more / PACE)

    @property
    def silent(self) -> bool:
        """Whether no pair is kept: where nobody is known to have met, nothing follows from not having met."""
        return not self.n_pairs and not self.training

    def weight(self, n_speakers: Tensor) -> Tensor:
        """How much is made of what so many codes say together.

        Of more codes than are told apart the mean is heard: a sum would grow with every code that it brings about, and
        a visit that is once large enough would run away.
        """
        told_apart = taken(self.strength, (n_speakers - 1).clamp(0, _MOST_SPEAKERS - 1))
        return told_apart * (_MOST_SPEAKERS / n_speakers.clamp(min=_MOST_SPEAKERS))

    def spoken(
        self,
        visit_of_entry: Tensor,
        codes: Tensor,
        block_of_rank: Tensor,
        n_visits: int,
        whose: Whose | None = None,
    ) -> Spoken:
        """What is said in some visits; with their patients, by all others than the patient at hand."""
        n_codes, n_blocks = len(block_of_rank), int(block_of_rank[-1]) + 1
        order = torch.argsort(visit_of_entry * n_codes + codes)
        visit_of_entry, codes = visit_of_entry[order], codes[order]
        speakers, speaker_of_entry = torch.unique(codes, return_inverse=True)
        # All codes that are not there have the number after the last, which nobody hears.
        number = torch.full((n_codes,), len(speakers))
        number[speakers] = torch.arange(len(speakers))
        corrections, kin = Added.nothing(), None
        # Pairs of codes that are nowhere in these visits say nothing.
        first, second = (self.first, self.second) if whose is None else (self.known_first, self.known_second)
        speaks = (number < len(speakers)).index_select(0, first).nonzero()[:, 0]
        first, second = first.index_select(0, speaks), second.index_select(0, speaks)
        if whose is None:
            values = self.values().index_select(0, speaks)
        else:
            values = taken(self._of_kinds(), self.known_kind.index_select(0, speaks))
            entries = Entries(visit_of_entry, codes, whose.patient_of_row)
            corrections = self._without_own(entries, whose, block_of_rank)
            kin = None if self.kinship is None else self.kinship.without_own(entries, whose, number)
        before = codes_before(visit_of_entry, block_of_rank[codes], n_visits, n_blocks)
        ends = torch.searchsorted(block_of_rank, block_of_rank[speakers], right=True)
        speaker, groups = number.index_select(0, first), self._groups(speakers, learning=whose is not None, kin=kin)
        return Spoken(
            speaker, second, values, self.weight(before), corrections, visit_of_entry, speaker_of_entry, ends, groups
        )

    def _of_kinds(self) -> Tensor:
        """(kinds,) what pairs of each kind say beyond what strangers say."""
        return self._more(self.kinds // N_BANDS**2, self.kinds % N_BANDS**2)

    def _groups(self, speakers: Tensor, learning: bool = False, kin: GroupLines | None = None) -> tuple[Grouped, ...]:
        """What is said without regard to whether codes met: by bands, and by families with these corrections."""
        by_band, by_family = self.members if learning else (None, None)
        groups = [Grouped(self.band[speakers].long(), self.band.long(), self.of_strangers(), kept=by_band)]
        if self.kinship is not None:
            family = self.kinship.family.long()
            corrections = GroupLines.nothing() if kin is None else kin
            groups.append(Grouped(family[speakers], family, self.kinship.values(learning), corrections, by_family))
        return tuple(groups) if learning else self.emphasis.on(*groups)

    def _own_lines(self, entries: Entries, block_of_rank: Tensor) -> OwnLines:
        """Which pairs would have met otherwise without the visits of the patient, for each entry of the first code."""
        n = len(block_of_rank)
        patient = entries.patient_of_visit[entries.visit_of_entry]
        one, other = entries.pairs()
        block = block_of_rank[entries.codes]
        apart = (block.index_select(0, one) < block.index_select(0, other)).nonzero()[:, 0]
        one, other = one.index_select(0, apart), other.index_select(0, apart)
        own = (patient * n + entries.codes).index_select(0, one) * n + entries.codes.index_select(0, other)
        own, times = distinct(own)
        at = torch.searchsorted(self.known_key, own % n * n + own // n % n)
        visits = self.known_visits[at]
        row, left = count_band(visits), count_band(visits - times)
        # Where the others make the same band or the patient is alone, nothing or everything is taken back.
        alone = visits == times
        changed = ((row != left) | alone).nonzero()[:, 0]
        becomes = torch.where(alone, len(COUNT_EDGES), left)
        change = (self.known_kind[at].long() * (len(COUNT_EDGES) + 1) + becomes).index_select(0, changed)
        own = own.index_select(0, changed)
        # Every visit in which the patient has the first code hears of all its partners.
        line, which = joined(patient * n + entries.codes, own // n)
        visits, nobody = entries.visit_of_entry.index_select(0, line), entries.codes[:0]
        return OwnLines(visits, nobody, (own % n).index_select(0, which), change.index_select(0, which))

    def _changes(self, kinds: Tensor) -> Tensor:
        """What each kind of change adds: a kind of pairs, and the row that it gets or the one after the last."""
        kind, row = self.kinds[kinds // (len(COUNT_EDGES) + 1)], kinds % (len(COUNT_EDGES) + 1)
        cell, between = kind // N_BANDS**2, kind % N_BANDS**2
        alone = row == len(COUNT_EDGES)
        without = torch.where(alone, 0, row) * N_COLUMNS + cell % N_COLUMNS
        return torch.where(alone, 0.0, self._more(without, between)) - self._more(cell, between)

    def _without_own(self, entries: Entries, whose: Whose, block_of_rank: Tensor) -> Added:
        """What must be added so that no patient hears of their own visits."""
        lines, values = self.own.of(whose, lambda: self._own_lines(entries, block_of_rank), self._changes)
        return Added(lines.visits, lines.whom, values).by_code()


class Listener:
    """What patients that are being drawn have heard so far in their visit."""

    def __init__(self, company: Company, n_patients: int, n_codes: int) -> None:
        self.company = company
        first = company.first.long()
        order = torch.argsort(first, stable=True)
        self.starts = torch.searchsorted(first[order], torch.arange(n_codes + 1)).numpy()
        self.second, self.values = company.second.long()[order], company.values()[order]
        self.sums = torch.zeros(n_patients, n_codes)
        self.n_speakers = torch.zeros(n_patients, dtype=torch.int64)
        self.groups = company._groups(torch.arange(n_codes))
        self.speakers = [torch.zeros(n_patients, len(group.values)) for group in self.groups]
        self.said_of = [group.values[:, group.of_code].contiguous() for group in self.groups]  # (groups, codes)
        self.weight = company.weight(self.n_speakers)[:, None]

    def heard(self, codes: slice, rows: Tensor | None = None) -> Tensor:
        """What is added to the logits (patients, codes) of some codes; of all patients if None."""

        def of_rows(x: Tensor) -> Tensor:
            return x if rows is None else x.index_select(0, rows)

        said = of_rows(self.sums[:, codes])
        for speakers, said_of in zip(self.speakers, self.said_of, strict=True):
            said = torch.addmm(said, of_rows(speakers), said_of[:, codes])
        return said * of_rows(self.weight)

    def listen(self, who: NDArray[np.int64], codes: NDArray[np.int64]) -> None:
        """Hear what newly drawn codes of patients say."""
        if not len(who):
            return
        line = torch.from_numpy(expand_ranges(self.starts[codes], self.starts[codes + 1]))
        listens = torch.from_numpy(np.repeat(who, self.starts[codes + 1] - self.starts[codes]))
        self.sums.view(-1).scatter_add_(0, listens * self.sums.shape[1] + self.second[line], self.values[line])
        patients, drawn = torch.from_numpy(who), torch.from_numpy(codes)
        for speakers, group in zip(self.speakers, self.groups, strict=True):
            speakers.index_put_((patients, group.of_speaker[drawn]), torch.ones(len(who)), accumulate=True)
        self.n_speakers.index_add_(0, patients, torch.ones_like(patients))
        self.weight[patients] = self.company.weight(self.n_speakers[patients])[:, None]


def _directed(one: Tensor, two: Tensor, block_of_rank: Tensor) -> tuple[Tensor, Tensor]:
    """Both codes of each pair, that of the earlier block first."""
    turned = block_of_rank[one] > block_of_rank[two]
    return torch.where(turned, two, one), torch.where(turned, one, two)
