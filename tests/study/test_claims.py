from __future__ import annotations

from collections import Counter

from adapcla.evaluation.metric import SUITES, metrics_of
from adapcla.generation import generator_for
from adapcla.generation.methods import METHODS
from adapcla.pipeline.spec import read_spec
from adapcla.study.claims import CLAIMS


def test_every_claim_is_about_a_metric_that_exists() -> None:
    known = {metric.key for metric in metrics_of(list(SUITES))}
    assert {claim.metric for claim in CLAIMS} <= known


def test_every_claim_is_about_methods_or_rows_of_the_ablations(repository) -> None:
    rows = read_spec(repository / "experiments" / "ablation.toml").rows()
    assert {name for claim in CLAIMS for name in (claim.row, claim.other)} <= {*rows, *METHODS}
    for method, settings in rows.values():
        generator_for(method, **settings)


def test_no_claim_is_made_twice() -> None:
    asked = Counter((claim.row, claim.other, claim.metric, claim.stratum) for claim in CLAIMS)
    assert max(asked.values()) == 1
