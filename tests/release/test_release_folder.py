"""What is taken from synthetic patients before they may be shared."""

from __future__ import annotations

from adapcla.data import Cohort
from adapcla.data.provenance import Group, Kind, Origin
from adapcla.release.release_folder import shareable


def test_nothing_of_the_patients_behind_stays_in_the_card():
    """A sample's card knows whom its generator learned from, by a hash; a shared one does not."""
    behind = Origin(Kind.SYNTHETIC, (), (Group("train", "ab12cd34", Origin(Kind.REAL)),))
    sample = Cohort.of([[["4019"]]], card={**behind.as_card(), "trained on": "ward 7"})
    shared = shareable(sample)
    assert "ab12cd34" not in str(shared.card) and "ward 7" not in str(shared.card)
    assert shared.origin.kind is Kind.SYNTHETIC and shared.fingerprint == sample.fingerprint
