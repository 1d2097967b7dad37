"""What leads to what: codes of the visit before speak of codes that are new since.

As for codes of one visit (`models/company.py`), a pair of an earlier and a later code is believed by how often it was
seen and how often chance would have given it, by a small learned table that all pairs share. Only pairs that several
patients have, and that come clearly more often than by chance, say anything: where all others spoke too, one code in
four was spoken of in every later visit, and a step took half as long again. While training, the visits of the patient
at hand are left out of the counts, and such a pair must have several *other* patients: so the table learns how far
others can be believed.

Several codes of a visit may say the same thing of a later code, so that only the one that says most is heard. A code
that comes again is another matter (`models/recall.py`): pairs are of a code and one that the visit before lacks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from adapcla.models.batch import Batch, Records
from adapcla.models.kept_pairs import KeptPairs
from adapcla.models.kernels.taken import taken
from adapcla.models.own_lines import KeptLines, OwnLines, some_patients
from adapcla.models.pair_counts import COUNT_EDGES, EXPECTED_POWERS, N_COLUMNS, PACE, count_band, expected_column
from adapcla.models.recall import Memory, Pushes
from adapcla.models.visit_entries import Whose, distinct, joined, spread

#: Times as often as by chance from which a pair says anything, and deviations that it must lie beyond chance.
_TELLING, _DEVIATIONS = 2.0, 3.0
#: Pairs after which counts are added up.
_PAIRS = 4_000_000


class Followings(NamedTuple):
    """Pairs of a code of the visit before and a code that is new since, one line for each later visit with both."""

    visit: Tensor  # (lines,) the later visit
    earlier: Tensor  # (lines,)
    later: Tensor  # (lines,)


def followings(batch: Batch) -> Followings:
    """All pairs of an earlier and a later code in visits of a batch that follow each other.

    >>> from adapcla.models.batch import packed
    >>> none = np.zeros((1, 0), dtype=np.int64)
    >>> batch = packed(np.array([4, 7, 4, 9]), np.array([2, 2]), np.array([2]), none, np.zeros(2, dtype=np.int64))
    >>> [side.tolist() for side in followings(batch)]  # visits {4, 7}, {4, 9}: 9 is new
    [[1, 1], [4, 7], [9, 9]]
    """
    wide, visit = int(batch.codes.max()) + 1, batch.visit_of_entry
    before = ((visit + 1) * wide + batch.codes)[batch.continues[visit] > 0]
    new = (batch.position[visit] > 0) & ~torch.isin(visit * wide + batch.codes, before)
    visit, later = visit[new], batch.codes[new]
    line, entry = spread(batch.offsets[visit - 1], batch.offsets[visit])
    return Followings(visit[line], batch.codes[entry], later[line])


def telling_cells() -> Tensor:
    """(cells,) which bands of counts are far enough above which bands of expected counts, in the flat table of belief.

    >>> telling_cells().view(len(COUNT_EDGES), -1).sum(1).tolist()  # the more was counted, the more may be expected
    [6, 7, 8, 9, 10, 10, 11, 11, 12, 12, 13, 14, 15, 16, 18]
    """
    expected = 2.0 ** (torch.tensor([EXPECTED_POWERS[0] - 1, *EXPECTED_POWERS]) + 0.5)
    count = torch.tensor(COUNT_EDGES)[:, None]
    return ((count >= _TELLING * expected) & (count - expected >= _DEVIATIONS * expected.sqrt())).reshape(-1)


class _Counted(NamedTuple):
    """Pairs of an earlier and a later code, by earlier and then later code."""

    key: Tensor  # earlier · codes + later
    visits: Tensor
    patients: Tensor

    def added_up(self) -> _Counted:
        """Every pair once."""
        key, place = torch.unique(self.key, return_inverse=True)
        return _Counted(key, *(torch.bincount(place, each).long() for each in (self.visits, self.patients)))


class Leads(KeptPairs):
    """How far it is believed that one code leads to another."""

    def __init__(self, n_pairs: int, least_patients: int, n_codes: int) -> None:
        super().__init__(n_pairs, least_patients, n_codes)
        self.belief = nn.Parameter(torch.zeros(len(COUNT_EDGES), N_COLUMNS))
        # While training: visits and patients of each pair, and what is said of each patient; never saved.
        self.known_visits: Tensor
        self.known_patients: Tensor
        for name in ("known_visits", "known_patients"):
            self.register_buffer(name, torch.zeros(0, dtype=torch.int64), persistent=False)
        self.telling = telling_cells()
        self.own = KeptLines()

    def observe(self, records: Records, rank_of_code: Tensor, speaks: Tensor) -> None:
        """Count what follows what in all training patients, among the codes (ranks,) that speak."""
        n = self.n_codes
        counted = _Counted(*(torch.zeros(0, dtype=torch.int64) for _ in range(3)))
        sources, news, n_later = torch.zeros(n, dtype=torch.int64), torch.zeros(n, dtype=torch.int64), 0
        for batch in some_patients(records, rank_of_code):
            visit, earlier, later = followings(batch)
            among = speaks[earlier] & speaks[later]
            patient = batch.patient_of_visit[visit[among]]
            of_patient, times = distinct(patient * n * n + earlier[among] * n + later[among])
            more = _Counted(of_patient % (n * n), times, torch.ones_like(times))
            counted = _Counted(*(torch.cat(both) for both in zip(counted, more, strict=True)))
            if len(counted.key) > _PAIRS:
                counted = counted.added_up()
            has_next = batch.continues[batch.visit_of_entry] > 0
            sources += torch.bincount(batch.codes[has_next], minlength=n)
            news += torch.bincount(distinct(visit * n + later)[0] % n, minlength=n)
            n_later += int(batch.continues.sum())
        self._keep(counted.added_up(), sources, news, n_later)
        self.own.keep(records, rank_of_code, self._of_others)

    def _keep(self, counted: _Counted, sources: Tensor, news: Tensor, n_later: int) -> None:
        """Keep the pairs of enough patients that tell anything, ascending."""
        n, counts = self.n_codes, torch.cat([sources, news])
        first, second = counted.key // n, counted.key % n
        column = expected_column(counts, n_later)(first, second + n)
        cell = count_band(counted.visits) * N_COLUMNS + column
        kept = ((counted.patients >= self.least_patients) & self.telling[cell]).nonzero()[:, 0]
        self.first, self.second, self.cell = first[kept].int(), second[kept].int(), cell[kept].int()
        self.known_visits, self.known_patients = counted.visits[kept], counted.patients[kept]

    def forward(self, batch: Batch) -> Pushes:
        """What is added for codes of each later visit of a batch; while training, by other patients alone."""
        if not self.training:
            lines = self._lines(*self._speaking(batch))
            return self._loudest(lines, self._said(lines.change))
        whose = Whose(batch.patient_of_visit, None, batch.first_visits, batch.origin)
        return self._loudest(*self.own.of(whose, lambda: self._of_others(batch), self._said))

    def after(self, memory: Memory) -> Pushes:
        """What is added for codes of the next visit of patients that are being drawn."""
        last = torch.from_numpy(np.flatnonzero(memory.in_last))
        rows, codes = torch.from_numpy(memory.patients)[last], torch.from_numpy(memory.codes)[last]
        lines = self._lines(rows, codes)
        return self._loudest(lines, self._said(lines.change))

    def _speaking(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The codes that a visit follows, and that visit."""
        speaks = (batch.continues[batch.visit_of_entry] > 0).nonzero()[:, 0]
        return batch.visit_of_entry[speaks] + 1, batch.codes[speaks]

    def _lines(self, rows: Tensor, codes: Tensor) -> OwnLines:
        """What speaking codes say of codes of their rows."""
        line, pair = self._heard(rows, codes)
        return self._ascending(rows.index_select(0, line), pair, self.cell.index_select(0, pair).long())

    def _ascending(self, rows: Tensor, pair: Tensor, cell: Tensor) -> OwnLines:
        """Lines by row and by the code that is spoken of."""
        codes = self.second.index_select(0, pair).long()
        order = torch.argsort(rows * self.n_codes + codes)
        rows, codes, cell = (side.index_select(0, order) for side in (rows, codes, cell))
        return OwnLines(rows, codes[:0], codes, cell)

    def _heard(self, rows: Tensor, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Which speaker says which pair: of codes that its visit lacks."""
        line, pair = joined(codes.int(), self.first)
        said = rows.index_select(0, line) * self.n_codes + self.second.index_select(0, pair)
        new = (~torch.isin(said, rows * self.n_codes + codes)).nonzero()[:, 0]
        return line.index_select(0, new), pair.index_select(0, new)

    def _of_others(self, batch: Batch) -> OwnLines:
        """What speaking codes say by enough others than the patient at hand, with the cells of their counts."""
        n, (rows, codes) = self.n_codes, self._speaking(batch)
        line, pair = self._heard(rows, codes)
        visit, earlier, later = followings(batch)
        own, times = distinct(batch.patient_of_visit[visit] * n * n + earlier * n + later)
        asked = batch.patient_of_visit[rows] * n * n + codes * n
        asked = asked.index_select(0, line) + self.second.index_select(0, pair)
        place = torch.searchsorted(own, asked)
        # A key that no pair has stands behind the last one.
        own, times = torch.cat([own, own.new_full((1,), -1)]), torch.cat([times, times.new_zeros(1)])
        mine = own.index_select(0, place) == asked
        left = self.known_visits.index_select(0, pair) - torch.where(mine, times.index_select(0, place), 0)
        cell = count_band(left) * N_COLUMNS + self.cell.index_select(0, pair) % N_COLUMNS
        others = self.known_patients.index_select(0, pair) - mine.long()
        stays = ((others >= self.least_patients) & self.telling[cell]).nonzero()[:, 0]
        rows = rows.index_select(0, line.index_select(0, stays))
        return self._ascending(rows, pair.index_select(0, stays), cell.index_select(0, stays))

    def _said(self, cell: Tensor) -> Tensor:
        """What pairs of each cell say."""
        return taken(PACE * self.belief.reshape(-1), cell)

    def _loudest(self, lines: OwnLines, said: Tensor) -> Pushes:
        """The largest of what is said of each code of each row; nothing is known of whether it is present."""
        key, place = torch.unique_consecutive(lines.visits * self.n_codes + lines.whom, return_inverse=True)
        most = torch.zeros(len(key)).scatter_reduce(0, place, said, "amax", include_self=False)
        return Pushes(key // self.n_codes, key % self.n_codes, most, torch.zeros(len(key)))
