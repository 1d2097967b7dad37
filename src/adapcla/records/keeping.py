"""Patients with some of their entries: what becomes empty goes, and is counted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from adapcla.records.offsets import run_sums, since_first, starts_of

if TYPE_CHECKING:
    from adapcla.records.cohort import Cohort


def kept_entries(cohort: Cohort, keep: NDArray[np.bool_], reason: str) -> Cohort:
    """The patients with only these entries; emptied visits and patients go, counted in the card under the reason."""
    sizes = run_sums(keep.astype(np.int64), cohort.visit_starts)
    visit_stays = sizes > 0
    visits = np.bincount(cohort.patient_of_visit[visit_stays], minlength=cohort.n_patients)
    patient_stays = visits > 0
    patient_starts = starts_of(visits[patient_stays])
    stays = {reason: keep, "visits left empty": visit_stays, "patients left without visits": patient_stays}
    dropped = dict(cohort.card.get("dropped", {}))
    dropped |= {what: dropped.get(what, 0) + n for what, mask in stays.items() if (n := int((~mask).sum()))}
    return replace(
        cohort,
        codes=np.asarray(cohort.codes)[keep],
        values=None if cohort.values is None else np.asarray(cohort.values)[keep],
        visit_starts=starts_of(sizes[visit_stays]),
        patient_starts=patient_starts,
        days=None if cohort.days is None else since_first(cohort.days[visit_stays], patient_starts),
        labels=None if cohort.labels is None else cohort.labels[patient_stays],
        attributes={name: a.of_patients(patient_stays) for name, a in cohort.attributes.items()},
        card={**cohort.card, "dropped": dropped},
    )
