"""The glance: one line for each row and reference."""

from __future__ import annotations

from adapcla.metrics import Reference
from adapcla.report.glance import GLANCE, glance_table
from adapcla.report.study import Study


def test_real_patients_are_one_line_with_a_number_wherever_one_can_be(finished_run):
    """Tail information has test patients as its judge, so that training patients stand for real ones there."""
    study = Study.open(finished_run)
    table = glance_table(study)
    lines = {line.cells[0].text: line for line in table.lines}
    beside = ["real", "train copy", "marginal", "law itself", "family only"]
    assert list(lines) == ["adapcla", "adapcla-no-scaffold", *beside]
    place = {column.metric: number for number, column in enumerate(GLANCE.columns, 1) if column.stratum != "1-5"}
    assert lines["real"].cells[place["tail_information_share"]].value == 1
    assert study.measured(Reference.REAL_TEST, "tail_information_share") is None
    pairs = study.measured(Reference.REAL_TEST, "tail_pair_seen_heldout", "matched")
    assert lines["real"].cells[place["tail_pair_seen_heldout"]].value == pairs.value
