"""The tail at a glance: one table without a gap of who knows the tail of other patients and who copied single ones."""

from __future__ import annotations

from dataclasses import replace

from adapcla.metrics import Reference
from adapcla.report.study import Study
from adapcla.report.tables import Column, Line, ScoreTable, Table, score_table
from adapcla.tables import Cell

REAL = "real"
#: Scores that every row and reference has: none needs a likelihood.
GLANCE = ScoreTable(
    "tail-glance",
    "At a glance",
    "Tail information: what the company of rare codes gains on test visits; 0 is chance, 1 as many real patients. "
    "Held-out pairs: how many of the written pairs with a tail code other patients hold too. Held-out company: "
    "overlap of the top 20 neighbours of tail codes with those of other patients. The gap of one-patient pairs and "
    "exact copies say what was taken from single training patients: 0 where nothing was. Who knows the tail is high "
    "on the left and at 0 on the right; who copied it is high on both sides. Real are test patients or, where these "
    "are the judge, training patients.",
    (
        Column("tail_information_share", "all", "tail information"),
        Column("tail_information_share", "1-5", "information, codes of 1–5 visits"),
        Column("tail_pair_seen_heldout", "matched", "held-out pairs"),
        Column("tail_topk_jac_heldout", "matched", "held-out company"),
        Column("unique_pair_gap", "all", "one-patient pairs, gap"),
        Column("copy_excess", "all", "exact copies"),
    ),
)


def glance_table(study: Study) -> Table | None:
    """The glance of a study; None where the study has none of its scores."""
    table = score_table(study, GLANCE)
    return None if table is None else replace(table, lines=with_one_real(table.lines))


def with_one_real(lines: tuple[Line, ...]) -> tuple[Line, ...]:
    """The lines with real test and real training patients as one: a number of the first or else of the second.

    >>> test = Line((Cell("real test"), Cell("–"), Cell("0.5", 0.5)), "reference")
    >>> train = Line((Cell("real train"), Cell("1", 1.0), Cell("–")), "reference")
    >>> [[cell.text for cell in line.cells] for line in with_one_real((test, train))]
    [['real', '1', '0.5']]
    """
    names = (Reference.REAL_TEST.label, Reference.REAL_TRAIN.label)
    found = [line for line in lines if line.cells[0].text in names]
    if not found:
        return lines
    columns = zip(*(line.cells[1:] for line in found), strict=True)
    cells = [next((cell for cell in column if cell.value is not None), column[0]) for column in columns]
    first = lines.index(found[0])
    others = [line for line in lines if line not in found]
    return (*others[:first], Line((Cell(REAL), *cells), "reference"), *others[first:])
