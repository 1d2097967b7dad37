from __future__ import annotations

import polars as pl

from adapcla.report.figures.kernel import kernel_scatter


def test_points_and_the_correlation_of_the_larger_set():
    groups = ("all", "shared")
    similarities = pl.DataFrame(
        [
            {"group": g, "context": i, "kind": k, "similarity": 0.1 * i, "final_gain": float(i)}
            for g in groups
            for i, k in enumerate(("related_rare", "unrelated_rare", "wrong"))
        ]
    )
    eigenvalues = pl.DataFrame(
        [
            {"group": g, "context": i, "smallest_eigenvalue": 5.0 + i, "mean_gain": -float(i)}
            for g in groups
            for i in range(3)
        ]
    )
    correlations = pl.DataFrame(
        [
            {"contexts": n, "group": g, "x": x, "y": y, "kind": "all", "rho": rho, "p": 0.5, "n": n}
            for n, rho in ((30, 0.9), (100, 0.12))
            for g in groups
            for x, y in (("similarity", "final_gain"), ("smallest_eigenvalue", "mean_gain"))
        ]
    )
    figure, caption = kernel_scatter(similarities, eigenvalues, correlations)
    assert len(figure.axes) == 4
    assert "+0.12" in figure.axes[0].get_title(loc="left") and "n = 100" in figure.axes[0].get_title(loc="left")
    assert sum(len(c.get_offsets()) for c in figure.axes[0].collections) == 3
    assert "100 contexts" in caption
