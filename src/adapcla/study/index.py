"""The index of a finished experiment: its specification and the folder of each result; the page reads it first."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adapcla.files import FORMAT_VERSION
from adapcla.generation.bundle import environment
from adapcla.pipeline.folder import RunFolder
from adapcla.pipeline.references import judged_references
from adapcla.pipeline.rows import Row, modes_of
from adapcla.study.spec import StudySpec
from adapcla.version import __version__


def study_index(
    spec: StudySpec, folder: RunFolder, rows: Mapping[str, Row], failed: Mapping[tuple[str, int], str]
) -> dict[str, Any]:
    """What the page needs to know, with folders as they lie below the experiment's own."""

    def below(path: Path) -> str:
        return path.relative_to(folder.root).as_posix()

    def drawn(draw: int, cohort: Path, scores: Path) -> dict[str, Any]:
        judged = {"scores": below(scores)} if spec.evaluate.suites else {}
        return {"draw": draw, "cohort": below(cohort), **judged}

    fits = []
    for row, (method, _) in rows.items():
        for seed in spec.fit.seeds:
            draws = [drawn(n, folder.sample(row, seed, n), folder.scores(row, seed, n)) for n in spec.sample.seeds]
            toward = [
                {"target": name, "mode": mode, "cohort": below(steered / "sample"), "scores": below(steered / "scores")}
                for name, target in spec.targets.items()
                if row in target.methods
                for mode in modes_of(method, target.modes)
                for steered in [folder.steered(row, seed, name, mode)]
            ]
            fit = {"row": row, "method": method, "seed": seed, "place": below(folder.fit(row, seed))}
            fits.append({**fit, "draws": draws, "toward": toward})
    for name in spec.external:
        draws = [drawn(1, folder.external(name) / "cohort", folder.external(name) / "scores")]
        fits.append({"row": name, "method": None, "seed": None, "place": None, "draws": draws, "toward": []})
    return {
        "format": FORMAT_VERSION,
        "version": __version__,
        "spec": spec.model_dump(mode="json"),
        "fingerprint": spec.fingerprint(),
        "data": below(folder.data),
        "targets": {name: below(folder.target(name)) for name in spec.targets},
        "analysis": below(folder.analysis) if spec.analyse.parts else None,
        "references": {one.value: below(folder.reference(one)) for one in judged_references(spec.evaluate, spec.data)},
        "fits": [fit for fit in fits if (fit["row"], fit["seed"]) not in failed],
        "failed": [{"row": row, "seed": seed, "why": why} for (row, seed), why in failed.items()],
        "environment": environment(),
    }
