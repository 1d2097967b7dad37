"""Scores by domain: the same question asked of the records with the codes of one domain alone.

`domain:NAME`, which some metrics have, looks at the codes of a domain among all others: a pair of a drug and a
diagnosis is in both. `only:NAME` leaves everything else out: how drugs stand with drugs.
"""

from __future__ import annotations

from adapcla.evaluation.contract import ALL, Comparison, Metric, Missing, Score

#: The suites that are scored by domain.
SUITES_BY_DOMAIN = ("tail", "fidelity", "privacy")
#: Of privacy only what is cheap, and the strongest attack on data alone, of the synthetic patients alone: single
#: attacks, near copies and attributes would cost as much as the whole suite again for each domain.
PRIVACY_BY_DOMAIN = (
    "copy_excess",
    "rare_copy_excess",
    "run_excess",
    "unique_pair_gap",
    "tail_pair_seen_gap",
    "singling_out_excess",
    "membership_auc",
)
#: They ask the model, whose likelihood is one of whole visits.
_OF_THE_MODEL = "tail_swap"


def scored_by_domain(metric: Metric, reference: bool = False) -> bool:
    """Whether a metric is also scored on single domains; of references nothing that is slow.

    >>> metric = Metric("pair_seen", "tail", "up", lambda comparison: {}, "A metric.")
    >>> scored_by_domain(metric)
    True
    """
    if metric.suite not in SUITES_BY_DOMAIN or metric.key.startswith(_OF_THE_MODEL):
        return False
    if reference and metric.cost == "slow":
        return False
    return metric.suite != "privacy" or metric.key in PRIVACY_BY_DOMAIN


def domain_scores(metrics: list[Metric], comparison: Comparison) -> dict[str, dict[str, Score]]:
    """The headline of each metric on the codes of each domain alone, by key and stratum; nothing for one domain.

    >>> from adapcla.data import Cohort
    >>> one = Cohort.of([[["A", "B"]]])
    >>> domain_scores([], Comparison.of(one, one, one))
    {}
    """
    domains = comparison.vocabulary.domains
    out: dict[str, dict[str, Score]] = {metric.key: {} for metric in metrics}
    if len(domains) < 2 or not metrics:
        return out
    for domain in domains:
        within = comparison.within(domain)
        for metric in metrics:
            score = within.score if isinstance(within, Missing) else metric.compute(within)[ALL]
            out[metric.key][f"only:{domain}"] = score
    return out
