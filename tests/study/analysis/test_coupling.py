from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from adapcla.generation.model import seen_records
from adapcla.study.analysis.coupling import correlation_table, eigenvalue_table, similarity_table
from adapcla.study.analysis.kernel import label_kernel
from adapcla.study.analysis.probed_fit import probed_fit
from adapcla.study.analysis.probes import ProbeKind


def test_every_probe_has_a_similarity_and_a_gain(probed, probes):
    table = similarity_table(probes, probed.trajectory, probed.kernels)
    assert len(table) == 2 * len(probes.probes)
    assert table["similarity"].is_between(-1.0000001, 1.0000001).all()
    gains = table.filter(pl.col("group") == "all").sort("probe")["final_gain"].to_numpy()
    assert gains == pytest.approx(probed.trajectory.measures()["final_gain"])


def test_the_kernels_are_those_of_the_untrained_network(world, probes, probed):
    """A fit whose learning rate is next to nothing ends where it began, so its kernel is the one seen at first."""
    from tests.study.analysis.conftest import SMALL

    still = probed_fit(
        world.train,
        world.valid,
        probes,
        changes={**SMALL, "passes": 0.2, "learning_rate": 1e-12, "weight_decay": 0, "table_decay": 0},
        looks=2,
    )
    batch = seen_records(still.generator.settings, probes.histories).batch(np.array([0]))
    related = probes.code[np.intersect1d(probes.first(1), probes.of_kind(ProbeKind.RELATED_RARE))]
    mine = next(k for k in probed.kernels if k.context == 0 and k.group == "all")
    again = label_kernel(still.generator.model.network, batch, related).smallest_eigenvalue
    if len(related) > 1:
        assert mine.smallest_eigenvalue == pytest.approx(again, rel=1e-3)
    else:
        assert np.isnan(mine.smallest_eigenvalue)


def test_contexts_with_one_related_code_have_no_eigenvalue(probed, probes):
    table = eigenvalue_table(probes, probed.trajectory, probed.kernels)
    related = probes.context[probes.of_kind(ProbeKind.RELATED_RARE)]
    several = [c for c in range(probes.n_contexts) if (related == c).sum() > 1]
    assert sorted(set(table["context"])) == several
    assert (table["smallest_eigenvalue"] > 0).all()


def test_a_planted_correlation_is_found_and_noise_is_not():
    draw = np.random.default_rng(1)
    n = 60
    similarity = draw.normal(size=n)
    similarities = pl.DataFrame(
        {
            "group": ["all"] * n,
            "context": np.arange(n),
            "kind": ["wrong"] * n,
            "similarity": similarity,
            "final_gain": similarity + 0.2 * draw.normal(size=n),
        }
    )
    eigenvalues = pl.DataFrame(
        {
            "group": ["all"] * n,
            "context": np.arange(n),
            "smallest_eigenvalue": draw.normal(size=n) + 50,
            **{name: draw.normal(size=n) for name in ("auc", "mean_gain", "final_gain")},
        }
    )
    table = correlation_table(similarities, eigenvalues, (5, n))
    told = {(r["contexts"], r["x"], r["y"], r["kind"]): r for r in table.to_dicts()}
    assert told[n, "similarity", "final_gain", "all"]["verdict"] == "as the theory says"
    assert told[5, "similarity", "final_gain", "all"]["verdict"] == "too few to say"
    assert told[n, "smallest_eigenvalue", "auc", "all"]["verdict"] == "not shown"
    assert told[n, "smallest_eigenvalue", "auc", "all"]["spread_of_x"] < 0.05
