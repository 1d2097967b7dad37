"""How much more or less rare codes hear of the codes of their visit when visits are drawn.

What a network has learned is right for the visits of patients. Visits that it draws itself are a little different, and
what is a little too weak at every code adds up where codes are rare: of the pairs that families make likely, too few
come out, and of those by chance alone too many. So a few tables are set after training, by what pilots hold
(`generation/pair_matching.py`): for codes of each degree of rareness, what is added to the words of every speaking
code, by how frequent the speaker is and by how near the families of both codes are; and to the words of speakers that
they are known to have met, by how frequent the speaker is. Frequent codes are left alone: they make up visits, and to
move them would move the size of visits.

Nearness of families is counted from pairs of several patients alone, so that a pair of one patient changes nothing.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from adapcla.disclosure import MIN_COUNT
from adapcla.models.kernels.group_sums import Grouped

#: Degrees of rareness: the rarest codes up to this share of all entries, each; codes beyond the last are frequent. The
#: first degree is about the rarest third of the codes, whose partners are others than those of the next.
RARENESS_EDGES = (0.016, 0.05, 0.12)
N_RARE = len(RARENESS_EDGES)
#: Degrees of nearness of two families: shares of the meetings that chance would give, from the farthest on.
NEARNESS_EDGES = (0.1, 0.3, 0.5, 0.7, 0.85, 0.93, 0.97)
N_NEAR = len(NEARNESS_EDGES) + 1
#: Meetings that the ratio of counted to expected ones is shrunken by.
_SHRINKAGE = 2.0


def rareness(visits: Tensor) -> Tensor:
    """The degree of rareness of each code, 0 for the rarest, by its number of training visits.

    The degree is saved, so that counts too small to be told are all taken as the largest of them.

    >>> rareness(torch.tensor([900, 80, 20, 12])).tolist()
    [3, 2, 1, 0]
    """
    alike = visits.clamp(min=MIN_COUNT - 1).double()
    ascending = torch.sort(alike).values
    upto = torch.cumsum(ascending, 0) / ascending.sum().clamp(min=1)
    last = torch.searchsorted(upto, torch.tensor(RARENESS_EDGES, dtype=torch.float64), right=True) - 1
    limits = torch.where(last >= 0, ascending[last.clamp(min=0)], 0.0)
    return torch.bucketize(alike, limits)


def nearness(meetings: Tensor, of_family: Tensor, n_visits: int) -> Tensor:
    """(families, families) the degree of nearness, by the meetings of kept pairs and the entries of each family.

    >>> nearness(torch.tensor([[0, 90], [90, 0]]), torch.tensor([100, 100]), n_visits=100).tolist()
    [[3, 7], [7, 3]]
    """
    each = of_family.double()
    expected = each[:, None] * each[None] / max(n_visits, 1)
    ratio = ((meetings.double() + _SHRINKAGE) / (expected + _SHRINKAGE)).reshape(-1)
    order = torch.argsort(ratio, stable=True)
    upto = torch.cumsum(expected.reshape(-1)[order], 0) / expected.sum().clamp(min=1e-12)
    edges = torch.searchsorted(upto, torch.tensor(NEARNESS_EDGES, dtype=torch.float64)).clamp(max=len(order) - 1)
    return torch.bucketize(ratio, ratio[order][edges], right=True).view(meetings.shape)


class Emphasis(nn.Module):
    """What rare codes hear more, in log-odds: nothing until pilots have set it."""

    def __init__(self, n_codes: int, n_bands: int, family: Tensor | None) -> None:
        super().__init__()
        n_families = 0 if family is None else int(family.max()) + 1
        self.family = None if family is None else family.long()
        self.rareness: Tensor
        self.nearness: Tensor
        self.by_speaker: Tensor
        self.by_nearness: Tensor
        self.by_partner: Tensor
        self.register_buffer("rareness", torch.full((n_codes,), N_RARE, dtype=torch.int32))
        self.register_buffer("nearness", torch.zeros(n_families, n_families, dtype=torch.int32))
        self.register_buffer("by_speaker", torch.zeros(N_RARE + 1, n_bands))
        self.register_buffer("by_nearness", torch.zeros(N_RARE + 1, N_NEAR))
        self.register_buffer("by_partner", torch.zeros(N_RARE + 1, n_bands))

    @property
    def index_limits(self) -> dict[str, int]:
        """What the entries of saved indices must stay below, by name."""
        return {"rareness": N_RARE + 1, "nearness": N_NEAR}

    def observe(self, first: Tensor, second: Tensor, visits: Tensor, of_rank: Tensor, n_visits: int) -> None:
        """Take how rare codes are, and how near families, from pairs that are kept with their visits."""
        self.rareness = rareness(of_rank).int()
        if self.family is None:
            return
        n = len(self.nearness)
        # The degree is saved, so that counts too small to be told are all taken as the middle one of them.
        visits = torch.where(visits < MIN_COUNT, MIN_COUNT // 2, visits)
        one, other = self.family[first], self.family[second]
        meetings = torch.bincount(one * n + other, visits, minlength=n * n).view(n, n)
        of_family = torch.bincount(self.family, of_rank, minlength=n)
        self.nearness = nearness(meetings + meetings.t(), of_family, n_visits).int()

    def of_partners(self, band_of_speaker: Tensor, codes: Tensor) -> Tensor:
        """(pairs,) what codes hear more of each speaker that they are known to have met."""
        return self.by_partner[self.rareness[codes].long(), band_of_speaker.long()]

    def on(self, by_band: Grouped, *by_family: Grouped) -> tuple[Grouped, ...]:
        """What codes say by their bands and their families, in which rare codes hear more or less."""
        if not bool(self.by_speaker.any() or self.by_nearness.any()):
            return (by_band, *by_family)
        degree, n = self.rareness.long(), len(by_band.values)
        louder = torch.cat([by_band.values + more[:, None] for more in self.by_speaker], dim=1)
        groups = [by_band._replace(of_code=by_band.of_code + n * degree, values=louder)]
        for group in by_family:
            n, near = len(group.values), self.nearness.long()
            louder = torch.cat([group.values + more[near] for more in self.by_nearness], dim=1)
            groups.append(group._replace(of_code=group.of_code + n * degree, values=louder))
        return tuple(groups)
