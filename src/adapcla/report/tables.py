"""Tables as data: defined once by metric and stratum, written as HTML rows, CSV, Markdown and LaTeX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from adapcla import tables
from adapcla.files import write_bytes
from adapcla.metrics.contract import ARROWS
from adapcla.metrics.halves import N_HALVES
from adapcla.metrics.references import Beside, Reference
from adapcla.metrics.table import ceiling_of, metric_of
from adapcla.records.strata import COUNT_CUTS, INFORMATION_BANDS, RARE_BANDS
from adapcla.report.paper_numbers import paper_number
from adapcla.report.study import Measured, Study
from adapcla.tables import Cell

#: Lines from which a table is folded away on the page.
LONG = 24


class Line(NamedTuple):
    """A row of a table: its cells, and whether it is a method, a reference or from the paper."""

    cells: tuple[Cell, ...]
    kind: str = "method"


@dataclass(frozen=True)
class Table:
    """A table with its heading and a caption that says what to see."""

    key: str
    title: str
    caption: str
    columns: tuple[str, ...]
    lines: tuple[Line, ...]
    hints: tuple[str, ...] = field(default=())
    #: What people come for is never folded away, however long it is.
    always_open: bool = False

    @property
    def numeric(self) -> tuple[bool, ...]:
        """Whether each column holds numbers, so that it is set to the right."""
        return tuple(any(line.cells[i].value is not None for line in self.lines) for i in range(len(self.columns)))

    @property
    def long(self) -> bool:
        """Whether the page folds the table away."""
        return len(self.lines) > LONG and not self.always_open

    def csv(self) -> str:
        """Comma-separated values: numbers as numbers, the interval as text beside them."""
        columns = ["kind", *(part for name in self.columns for part in (name, f"{name} interval"))]
        rows = [
            [line.kind, *(text for cell in line.cells for text in (_exact(cell), cell.note))] for line in self.lines
        ]
        return tables.Table(columns, rows).csv()

    def markdown(self) -> str:
        """A Markdown table, marked values of methods in bold.

        >>> print(Table("t", "T", "C", ("row", "x"), (Line((Cell("a"), Cell("0.5", 0.5, "", True))),)).markdown())
        | row | x |
        |---|---|
        | a | **0.5** |
        <BLANKLINE>
        """
        return tables.Table(self.columns, [line.cells for line in self.lines]).markdown()

    def latex(self) -> str:
        """A LaTeX table (package booktabs)."""
        return f"% {self.title}\n" + tables.Table(self.columns, [line.cells for line in self.lines]).latex()

    def save(self, folder: Path) -> None:
        """Write the table in all three forms."""
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in (("csv", self.csv()), ("md", self.markdown()), ("tex", self.latex())):
            write_bytes(folder / f"{self.key}.{suffix}", content.encode())


def _exact(cell: Cell) -> str:
    """The number of a cell with six digits, or its text where it has none."""
    return cell.text if cell.value is None else f"{cell.value:.6g}"


def shown(value: float | None) -> str:
    """A number with as many digits as a table needs.

    >>> shown(0.123456), shown(None), shown(0.00012), shown(1234.5), shown(0.0)
    ('0.123', '–', '0.00012', '1,234', '0')
    """
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3f}" if abs(value) >= 0.01 else f"{value:.2g}"


def cell_of(measured: Measured | None, reason: str = "") -> Cell:
    """A measured number as a cell.

    >>> cell_of(Measured(0.5, 0.4, 0.6, 1))
    Cell(text='0.500', value=0.5, note='[0.400, 0.600]', best=False)
    """
    if measured is None:
        # The beginning says what; the whole reason is in the scores' own files.
        return Cell("–", None, reason.partition(":")[0])
    note = "" if measured.low is None else f"[{shown(measured.low)}, {shown(measured.high)}]"
    return Cell(shown(measured.value), measured.value, note)


class Column(NamedTuple):
    """A score column: metric, stratum, heading."""

    metric: str
    stratum: str
    heading: str


class ScoreTable(NamedTuple):
    """The definition of a table of scores."""

    key: str
    title: str
    caption: str
    columns: tuple[Column, ...]
    #: Whether real patients are one line: test patients or, where these are the judge, training patients.
    one_real: bool = False


def _columns(*triples: tuple[str, str, str]) -> tuple[Column, ...]:
    return tuple(Column(*triple) for triple in triples)


def _tail(stratum: str, suffix: str = "") -> tuple[Column, ...]:
    """The four tail metrics at one cut."""
    pairs = {"rare20": "all"}.get(stratum, stratum.partition(":")[0])
    return _columns(
        (f"pair_seen{suffix}", pairs, "PairSeen"),
        (f"tail_pair_seen{suffix}", stratum, "TailPairSeen"),
        (f"tail_ctx_jsd{suffix}", stratum, "TailCtxJSD"),
        (f"tail_topk_jac{suffix}", stratum, "TailTopKJac"),
        (f"tail_ctx_left_out{suffix}", stratum, "codes left out"),
    )


#: The bands in which enough test patients have a rare code after another visit.
LATER_BANDS = ("11-30", "31-100")

SCORE_TABLES = (
    ScoreTable(
        "tail-glance",
        "The tail at a glance: who knows it, and who copied it",
        "Tail information: what the company of rare codes gains on test visits; 0 is chance, 1 as many real patients. "
        "Held-out pairs: how many of the written pairs with a tail code other patients hold too. Held-out company: "
        "overlap of the top 20 neighbours of tail codes with those of other patients. The gap of one-patient pairs and "
        "exact copies say what was taken from single training patients: 0 where nothing was. Who knows the tail is "
        "high on the left and at 0 on the right; who copied it is high on both sides. Real are test patients or, where "
        "these are the judge, training patients.",
        _columns(
            ("tail_information_share", "all", "tail information"),
            ("tail_information_share", "1-5", "information, codes of 1–5 visits"),
            ("tail_pair_seen_heldout", "matched", "held-out pairs"),
            ("tail_topk_jac_heldout", "matched", "held-out company"),
            ("unique_pair_gap", "all", "one-patient pairs, gap"),
            ("copy_excess", "all", "exact copies"),
        ),
        one_real=True,
    ),
    ScoreTable(
        "tail-knowledge",
        "Tail swap: who knows which rare code belongs",
        "Tail swap: how often a model finds a visit likelier than the same visit with another code as rare in the "
        "place of its rare code; one half is chance, whatever the prevalence. Never met: training never held the code "
        "with a partner of the visit. On training patients the same number is memory. Tail information asks the "
        "written patients alone, so every row takes part: what the company of rare codes in them gains on test visits "
        "with those codes, as a share of what as many real patients gain; 0 is chance, below it what was learned is "
        "wrong.",
        _columns(
            ("tail_swap", "1-5", "swap, 1–5 visits"),
            ("tail_swap", "1-5:never met", "1–5, never met"),
            ("tail_swap_training", "1-5", "1–5, training patients"),
            ("tail_swap_lift", "1-5", "lift, 1–5, nats"),
            ("tail_information_share", "all", "information, share of real"),
            ("tail_information_share", "11-30", "information, 11–30 visits"),
            ("tail_information_share", "31-100", "information, 31–100"),
            ("tail_information_previous_share", "all", "visit before, share of real"),
        ),
    ),
    ScoreTable(
        "tail-swap",
        "Tail swap by how rare a code is",
        "Test patients; training patients beside them show memory. Bands are visits of the code in training.",
        _columns(
            *(
                (metric, band, f"{heading}, {band.replace('-', '–')}")
                for band in RARE_BANDS
                for metric, heading in (
                    ("tail_swap", "swap"),
                    ("tail_swap_lift", "lift"),
                    ("tail_swap_training", "training"),
                )
            ),
            ("tail_swap", "never met", "swap, never met"),
            ("tail_swap_chance", "all", "by counts alone"),
        ),
    ),
    ScoreTable(
        "tail-information",
        "Tail information by how rare a code is",
        "Nats that the company of a rare code in the written patients gains on a test visit with that code; the real "
        "train row has as many training patients as were written.",
        _columns(
            ("tail_information", "all", "same visit"),
            *(("tail_information", band, band.replace("-", "–")) for band in INFORMATION_BANDS),
            ("tail_information_previous", "all", "visit before"),
            *(("tail_information_previous", band, f"before, {band.replace('-', '–')}") for band in LATER_BANDS),
        ),
    ),
    ScoreTable(
        "tail-plausibility",
        "Tail plausibility, the paper's cut",
        "Table 1 of the paper: tail codes are the rarest 20 %. Read each number against the real test row (what other "
        "real patients score) and the train copy row (what a photocopier scores): above the real test row lies "
        "memory, not quality. All but the first two scores move with the number of patients, which is not the same "
        "for real and written ones: the next table has it equal.",
        _tail("rare20"),
    ),
    ScoreTable(
        "tail-plausibility-same-size",
        "Tail plausibility, the paper's cut, at equal numbers of patients",
        "The same with as many written patients, copies and marginal ones as there are real ones (half of the test "
        "patients).",
        _tail("matched:rare20"),
    ),
    ScoreTable(
        "tail-plausibility-third",
        "Tail plausibility, the rarest third",
        "The same with this project's tail: the rarest third of the codes seen in training; equal numbers of patients.",
        _tail("matched"),
    ),
    ScoreTable(
        "tail-plausibility-matched",
        "Tail plausibility at equal numbers of codes and tail codes per visit",
        "Visits of both sides are thinned to the same size first, so that nobody wins by writing less.",
        _tail("matched_codes"),
    ),
    ScoreTable(
        "tail-plausibility-heldout",
        "Tail plausibility against held-out patients",
        "Against pairs of real patients that no method has seen: copying training patients does not help here. Means "
        f"over {N_HALVES} halves of the test patients; the other half is the real test row.",
        _tail("matched", "_heldout"),
    ),
    ScoreTable(
        "tail-pairs-heldout",
        "Pairs with a rare code that held-out patients have, by how rare the code is",
        "TailPairSeen against held-out patients, the mean over halves of them, of all written patients; the tail is "
        "the rarest third, then the codes of at most 5, 20 and 100 training visits.",
        _columns(
            ("tail_pair_seen_heldout", "matched", "rarest third"),
            *(("tail_pair_seen_heldout", f"matched:{cut}", f"{cut} visits") for cut in COUNT_CUTS),
        ),
    ),
    ScoreTable(
        "utility",
        "Downstream utility: train on synthetic, test on real",
        "Table 2 of the paper, then all test patients at natural prevalence: in both the label's codes are in the "
        "input. Then labels that no code gives away: of the last visit with the label's codes masked there, and of "
        "the next visit from those before it; new: patients who never had the label before. The real train row is the "
        "ceiling: classifiers trained on the training patients themselves.",
        _columns(
            ("tstr_acc", "all", "Acc"),
            ("tstr_f1", "all", "F1"),
            ("tstr_auprc", "all", "AUPRC"),
            ("tstr_auprc", "tail", "AUPRC tail labels"),
            ("tstr_natural_auprc", "all", "natural AUPRC"),
            ("tstr_natural_auroc", "all", "natural AUROC"),
            ("tstr_masked_auprc", "all", "masked AUPRC"),
            ("tstr_masked_auroc", "all", "masked AUROC"),
            ("tstr_masked_auroc", "new", "masked AUROC, new"),
            ("tstr_next_auprc", "all", "next-visit AUPRC"),
            ("tstr_next_auroc", "all", "next-visit AUROC"),
            ("tstr_next_auroc", "new", "next-visit AUROC, new"),
            ("tstr_next_auroc", "repeat", "next-visit AUROC, repeat"),
        ),
    ),
    ScoreTable(
        "reliability",
        "Reliability of predicted probabilities",
        "On one and the same real test set, over all labels and over the rarest. First the natural form: one "
        "classifier of all patients as they come. Then (50/50) the paper's: a classifier a label, trained and judged "
        "on sets in which half have it.",
        _columns(
            ("ece", "all", "ECE"),
            ("ece_mass", "all", "ECE equal mass"),
            ("brier", "all", "Brier"),
            ("nll", "all", "NLL"),
            ("ece", "tail", "ECE tail"),
            ("brier", "tail", "Brier tail"),
            ("nll", "tail", "NLL tail"),
            ("ece_balanced", "all", "ECE 50/50"),
            ("brier_balanced", "all", "Brier 50/50"),
            ("nll_balanced", "all", "NLL 50/50"),
            ("ece_balanced", "tail", "ECE tail 50/50"),
        ),
    ),
    ScoreTable(
        "fidelity",
        "Fidelity: prevalence, lengths, sequences",
        "How near counts and lengths come to the training patients; what moves with the number of patients is at equal "
        "numbers.",
        _columns(
            ("prevalence_log_r2", "matched", "log prevalence R²"),
            ("unigram_r2", "matched", "unigram R²"),
            ("bigram_r2", "matched", "bigram R²"),
            ("tail_mass", "all", "tail mass"),
            ("tail_coverage", "matched", "tail coverage"),
            ("codes_per_visit_diff", "all", "codes per visit, difference"),
            ("visits_per_patient_diff", "all", "visits per patient, difference"),
            ("next_visit_jaccard", "all", "next-visit overlap"),
        ),
    ),
    ScoreTable(
        "course",
        "Course of records: gaps, trajectories, rules",
        "Distances from the training patients at equal numbers of patients: days between visits, in all and after each "
        "code; new cases by age; Kaplan–Meier curves and log odds ratios of ten outcomes after ten index codes; then "
        "the share of patients who break a rule that no training patient breaks.",
        _columns(
            ("gap_w1", "matched", "gaps, days apart"),
            ("gap_by_code", "matched", "log gaps by code"),
            ("incidence_by_age", "matched", "incidence by age"),
            ("onset_curves", "matched", "onset curves"),
            ("effect_error", "matched", "effects, error"),
            ("effect_corr", "matched", "effects, correlation"),
            ("rule_breaks", "all", "break a rule"),
        ),
    ),
    ScoreTable(
        "discriminator",
        "Discriminator: can a classifier tell them from real patients?",
        "Area under the curve of gradient boosting between written and real test patients; one half is a coin. At "
        "equal numbers the real test row is real against other real patients. Then by the columns of one kind alone.",
        _columns(
            ("discriminator_auc", "matched", "AUC"),
            ("discriminator_auc", "all", "AUC, all test patients"),
            ("discriminator_auc", "sizes", "sizes alone"),
            ("discriminator_auc", "gaps", "gaps alone"),
            ("discriminator_auc", "codes", "codes alone"),
            ("discriminator_auc", "pairs", "pairs alone"),
        ),
    ),
    ScoreTable(
        "privacy",
        "Privacy: copies, pairs, membership",
        "Excess means: more often of training patients than of control patients of the same law. An attack at 0.5 "
        "guesses. The train copy row shows that the tests find a photocopier.",
        _columns(
            ("copy_excess", "all", "exact copies, excess"),
            ("rare_copy_excess", "all", "rare copies, excess"),
            ("near_copy_excess", "all", "near copies, excess"),
            ("unique_pair_gap", "all", "one-patient pairs, gap"),
            ("membership_auc", "all", "membership AUC"),
            ("membership_auc", "rare", "membership AUC, rare"),
            ("membership_likelihood_auc", "all", "with the model, AUC"),
            ("attribute_residual", "all", "attribute, residual"),
        ),
    ),
)


#: The rows of the paper's Table 3a, with the control that it lacks.
_ABLATED = ("halo", "static-pcla", "static-pcla-train-only", "adapcla-no-scaffold", "adapcla")
_ABLATION = ScoreTable(
    "ablation",
    "Dependence or internalisation",
    "Table 3a of the paper: a bias that stays, the same weights without it, and a bias that was annealed away; and the "
    "control that the paper lacks, the same network and steps without any bias.",
    _tail("rare20"),
)


def ablation_table(study: Study) -> Table | None:
    """The paper's Table 3a; None where no static row was run."""
    rows = [row for row in _ABLATED if row in study.rows]
    return score_table(study, _ABLATION, rows) if any(row.startswith("static") for row in rows) else None


def score_table(study: Study, layout: ScoreTable, rows: Sequence[str] | None = None) -> Table | None:
    """The table of a study; None where the study has none of its scores."""
    columns = [c for c in layout.columns if _has(study, c)]
    if not columns:
        return None
    lines = [_line(study, row, columns) for row in rows or study.rows]
    lines = _with_nearest(lines, [_real_value(study, c) for c in columns])
    lines += [line for line in _beside(study, layout, columns) if any(cell.value is not None for cell in line.cells)]
    for row in rows or study.rows:
        numbers = [paper_number(study.cohort, row, c.metric, c.stratum) for c in columns]
        if any(number is not None for number in numbers):
            lines.append(Line((Cell(f"{row} (paper)"), *(Cell(shown(x), x) for x in numbers)), "paper"))
    headings = tuple(f"{c.heading} {ARROWS[study.goal(c.metric)]}".strip() for c in columns)
    hints = ("method", *(f"{c.metric}, stratum {c.stratum}" for c in columns))
    return Table(layout.key, layout.title, layout.caption, ("method", *headings), tuple(lines), hints)


def _has(study: Study, column: Column) -> bool:
    """Whether any row was scored on it."""
    table = study.scores
    if table.is_empty():
        return False
    return not table.filter((table["metric"] == column.metric) & (table["stratum"] == column.stratum)).is_empty()


def _line(study: Study, row: str, columns: Sequence[Column]) -> Line:
    """The line of a row."""
    cells = []
    for c in columns:
        measured = study.measured(row, c.metric, c.stratum)
        cells.append(cell_of(measured, study.reason(row, c.metric, c.stratum) if measured is None else ""))
    return Line((Cell(row), *cells), "method")


def _beside(study: Study, layout: ScoreTable, columns: Sequence[Column]) -> list[Line]:
    """The lines of the references."""
    if not layout.one_real:
        return [_reference_line(study, reference, columns) for reference in study.references]
    others = [one for one in study.references if one not in (Reference.REAL_TEST, Reference.REAL_TRAIN)]
    real = (cell_of(study.real(c.metric, c.stratum), "") for c in columns)
    return [Line((Cell("real"), *real), "reference"), *(_reference_line(study, one, columns) for one in others)]


def _reference_line(study: Study, reference: Beside, columns: Sequence[Column]) -> Line:
    """The line of a reference."""
    cells = (cell_of(study.measured(reference, c.metric, c.stratum), "") for c in columns)
    return Line((Cell(reference.label), *cells), "reference")


def _real_value(study: Study, column: Column) -> float | None:
    """What real patients score: the number that a method should come near to; None where there is none."""
    measured = study.measured(ceiling_of(metric_of(column.metric)), column.metric, column.stratum)
    return None if measured is None else measured.value


def _with_nearest(lines: list[Line], real: Sequence[float | None]) -> list[Line]:
    """The lines with the value of each column marked that is nearest to real patients, never the largest as such.

    Above real patients lies memory or luck, not more quality. Without a number of real patients nothing is marked.

    >>> lines = [Line((Cell(name), Cell("", value))) for name, value in (("a", 0.9), ("b", 0.6), ("c", 0.1))]
    >>> [line.cells[1].best for line in _with_nearest(lines, [0.5])], _with_nearest(lines, [None]) == lines
    ([False, True, False], True)
    """
    marked = [list(line.cells) for line in lines]
    for column, aim in enumerate(real, 1):
        known = [cells[column].value for cells in marked]
        distances = [abs(value - aim) for value in known if value is not None and aim is not None]
        if len(distances) < 2 or aim is None:
            continue
        for cells, value in zip(marked, known, strict=True):
            if value is not None and abs(value - aim) == min(distances):
                cells[column] = cells[column]._replace(best=True)
    return [Line(tuple(cells), line.kind) for cells, line in zip(marked, lines, strict=True)]
