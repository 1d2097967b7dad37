"""Every claim that a run can speak to, in one table: which row should be better than which other, and on what."""

from __future__ import annotations

from typing import NamedTuple


class Claim(NamedTuple):
    """That one row is better than another on a metric."""

    text: str
    row: str
    other: str
    metric: str
    stratum: str = "all"
    #: Whose claim it is: the paper's, or a control or method of this project.
    whose: str = "paper"

    @property
    def key(self) -> str:
        """The claim in few words, one for each claim.

        >>> Claim("AdaPCLA …", "adapcla", "halo", "ece", "tail").key
        'adapcla over halo: ece, tail'
        """
        return f"{self.row} over {self.other}: {self.metric}, {self.stratum}"


#: The paper's metrics of the tail, in the words of a claim and by name.
_TAIL = (
    ("tail_pair_seen", "puts more of its tail pairs where training has them", "TailPairSeen"),
    ("tail_ctx_jsd", "gives tail codes truer neighbours (TailCtxJSD)", "TailCtxJSD"),
    ("tail_topk_jac", "finds more of the top neighbours of tail codes (TailTopKJac)", "TailTopKJac"),
)
#: The paper's tail is the rarest fifth of the codes.
_CUT = "rare20"


def _worded(before: str, after: str, row: str, other: str, whose: str = "paper") -> tuple[Claim, ...]:
    """One claim for each metric of the tail, and one at equal numbers of codes and tail codes per visit."""
    equal = "… also when both write as many codes and tail codes per visit"
    return (
        *(Claim(f"{before} {words} {after}", row, other, key, _CUT, whose) for key, words, _ in _TAIL),
        Claim(equal, row, other, "tail_pair_seen", f"matched_codes:{_CUT}", whose),
    )


def _tail(text: str, row: str, other: str, whose: str = "control") -> tuple[Claim, ...]:
    """One claim for each metric of the tail, distinguished by the metric's name."""
    return tuple(Claim(f"{text} ({name})", row, other, key, _CUT, whose) for key, _, name in _TAIL)


_OURS = "this project"
#: Rows that are no methods are variants of `experiments/ablation.toml`.
CLAIMS = (
    *_worded("AdaPCLA", "than HALO", "adapcla", "halo"),
    *_tail(
        "The paper's ablation: a scaffold annealed on HALO's head beats HALO",
        "adapcla-halo",
        "halo",
        "paper",
    ),
    *_tail("The public release is better than HALO", "adapcla-release", "halo", "paper"),
    Claim("… already by its two stages (TailPairSeen)", "release-stages", "halo", "tail_pair_seen", _CUT, "control"),
    Claim(
        "… then by the weight of present codes (TailPairSeen)",
        "release-weight",
        "release-stages",
        "tail_pair_seen",
        _CUT,
        "control",
    ),
    Claim(
        "… then by its scaffold (TailPairSeen)", "adapcla-release", "release-weight", "tail_pair_seen", _CUT, "control"
    ),
    Claim("AdaPCLA trains better classifiers than HALO (AUPRC)", "adapcla", "halo", "tstr_auprc"),
    Claim("AdaPCLA trains better classifiers than Static-PCLA (AUPRC)", "adapcla", "static-pcla", "tstr_auprc"),
    *_tail("Annealing beats a bias that stays", "adapcla", "static-pcla", "paper"),
    *_tail("A bias taken away only after training loses the tail", "static-pcla", "static-pcla-train-only", "paper"),
    *_tail("… of which annealing keeps more", "adapcla", "static-pcla-train-only", "paper"),
    Claim("AdaPCLA's probabilities are better calibrated than HALO's (ECE)", "adapcla", "halo", "ece_balanced"),
    Claim("… and on the rarest labels", "adapcla", "halo", "ece_balanced", "tail"),
    *_worded(
        "The scaffold is the cause: AdaPCLA",
        "than the same network and passes without it",
        "adapcla",
        "adapcla-no-scaffold",
        "control",
    ),
    Claim(
        "The scaffold improves classifiers (AUPRC), at equal passes",
        "adapcla",
        "adapcla-no-scaffold",
        "tstr_auprc",
        whose="control",
    ),
    *_tail("The sign matters: a reversed scaffold does worse", "adapcla", "adapcla-reversed"),
    *_tail("Each code needs its own rarity: the bias of other codes does worse", "adapcla", "adapcla-permuted"),
    *_tail("The full scaffold is better than half of it", "adapcla", "adapcla-tempered-0.5"),
    *_tail("The full scaffold is better than the fifth that the release ran", "adapcla", "adapcla-tempered-0.2"),
    Claim(
        "Dependence within a visit: Tailwise gives tail codes truer neighbours than AdaPCLA",
        "tailwise",
        "adapcla",
        "tail_ctx_jsd",
        "matched",
        _OURS,
    ),
    Claim("… and pairs that held-out patients have", "tailwise", "adapcla", "tail_pair_seen_heldout", "matched", _OURS),
)
