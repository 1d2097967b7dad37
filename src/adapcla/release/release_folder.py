"""The folder that may be shared: synthetic patients, the page, the card for people and for machines, and checksums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from adapcla.data import Cohort, Kind, Origin
from adapcla.data.code_systems import add_descriptions
from adapcla.files import fresh_folder, full_disk_explained, json_bytes, write_bytes
from adapcla.generation import bundle
from adapcla.generation.model import Model
from adapcla.io.writers import WriteOptions, not_held, write
from adapcla.release import dataset_card
from adapcla.release.page import release_page
from adapcla.release.settings import ReleaseSettings
from adapcla.release.summary import ReleaseSummary, as_json

#: The statuses, comparisons, privacy checks and scores for programs.
EVALUATION = "evaluation.json"
#: What was chosen by the time: given again, it makes the same bytes on any machine.
PLAN = "plan.json"


def write_release(
    release: ReleaseSummary,
    page: Path,
    target: Path | None,
    settings: ReleaseSettings,
    options: WriteOptions,
    model: Model | None,
    plan: Mapping[str, Any],
) -> None:
    """Write the page and, where there is a target, the folder that may be shared: whole or not at all."""
    html = release_page(release).html().encode()
    write_bytes(page, html)
    if target is None:
        return
    cohort = shareable(release.synthetic)
    # Text in every format takes less than this for each code of each visit.
    needed = 200 * cohort.n_entries * len(settings.formats)
    with full_disk_explained(target, needed), fresh_folder(target, overwrite=True) as folder:
        for name in settings.formats:
            write(cohort, folder / name, name, options=options)
        if model is not None:
            bundle.save(model, folder / "model", shareable=True)
        (folder / "report.html").write_bytes(html)
        (folder / PLAN).write_bytes(json_bytes(plan))
        (folder / EVALUATION).write_bytes(json_bytes(as_json(release)))
        lost = {name: not_held(cohort, name, options) for name in settings.formats}
        card = dataset_card.card(release, lost, model is not None)
        (folder / dataset_card.CARD).write_text(card, encoding="utf-8")
        (folder / dataset_card.CROISSANT).write_bytes(dataset_card.croissant(release, folder, settings.formats))
        (folder / dataset_card.SUMS).write_bytes(dataset_card.checksums(folder))


def shareable(synthetic: Cohort) -> Cohort:
    """The synthetic patients with names of their codes, and nothing in their card that came from real ones.

    The card of a sample knows the fingerprint, the number and the split of the patients behind it.

    >>> shareable(Cohort.of([[["4019"]]], card={"trained on": "ab12"})).card["origin"]
    {'kind': 'synthetic'}
    """
    named = add_descriptions(synthetic)
    card = {"source": "adapcla synthesize", "note": "SYNTHETIC: nobody in this cohort is real."}
    return replace(named, card={**card, **Origin(Kind.SYNTHETIC).as_card()})
