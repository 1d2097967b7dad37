"""Which tables of scores a page has: for each its heading, its caption and the metrics and strata of its columns."""

from __future__ import annotations

from typing import NamedTuple

from adapcla.data.prevalence import COUNT_CUTS, INFORMATION_BANDS, RARE_BANDS
from adapcla.evaluation.halves import N_HALVES


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


def _of_domains(*asked: tuple[str, bool, str]) -> tuple[Column, ...]:
    """Columns of metrics, at equal numbers of patients or not, on the codes of each domain alone."""
    return tuple(
        Column(metric, f"{'matched:' * matched}only:{domain}", f"{domain}: {heading}")
        for domain in DOMAINS
        for metric, matched, heading in asked
    )


#: The domains of codes, in the order of columns.
DOMAINS = ("diagnosis", "procedure", "drug", "lab", "stay")
#: The bands in which enough test patients have a rare code after another visit.
LATER_BANDS = ("11-30", "31-100")

SCORE_TABLES = (
    ScoreTable(
        "tail-glance",
        "At a glance",
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
        "Tail swap and tail information",
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
        "numbers",
        "Numbers: labs and other values",
        "Good: distance and errors as small as those of the real test row, correlations as high. Quantile distance is "
        "in interquartile ranges of training; chance has it right, too, so look on: the effect of a code on a number "
        "is how far the mean lies off where the code is, in standard deviations (glucose where diabetes is), and "
        "chance has none. Last, how far a value tells the same patient's next one.",
        _columns(
            ("value_w1", "matched", "quantile distance"),
            ("values_left_out", "matched", "numbers left out"),
            ("value_in_range", "all", "in the usual range"),
            ("value_effect_corr", "matched", "effects, correlation"),
            ("value_effect_error", "matched", "effects, error"),
            ("value_autocorr", "all", "with the next value, r"),
            ("value_autocorr_error", "matched", "the same, error"),
        ),
    ),
    ScoreTable(
        "stays",
        "Stays: length, kind, ending, death and return",
        "Good: as the real test row; distances near 0. Length in days, kinds and endings as total variation of their "
        "shares, then means and shares as they are. Classifiers learn from the written patients and are asked about "
        "test patients; their ceiling is the real train row, a guess has an AUROC of one half.",
        _columns(
            ("stay_length_w1", "matched", "length, days apart"),
            ("length_by_end", "matched", "length by ending, days apart"),
            ("stay_kind_tv", "matched", "kinds"),
            ("stay_end_tv", "matched", "endings"),
            ("stay_days", "all", "mean length, days"),
            ("death_rate", "all", "die"),
            ("death_by_age", "matched", "death by age, error"),
            ("readmission_30", "all", "readmitted within 30 days"),
            ("mortality_auroc", "all", "death, AUROC"),
            ("mortality_auprc", "all", "death, AUPRC"),
            ("readmission_auroc", "all", "readmission, AUROC"),
            ("readmission_auprc", "all", "readmission, AUPRC"),
        ),
    ),
    ScoreTable(
        "by-domain",
        "Every domain alone: prevalence and pairs",
        "Good: as the real test row. The same scores on the codes of one domain, at equal numbers of patients; a "
        "domain of few codes says little.",
        _of_domains(("prevalence_log_r2", True, "log prevalence R²"), ("bigram_r2", True, "bigram R²")),
    ),
    ScoreTable(
        "by-domain-tail",
        "Every domain alone: the tail, and what was taken from single patients",
        "Good: pairs as the real test row, gaps and copies at 0. Rare codes beside codes of the same domain.",
        _of_domains(
            ("tail_pair_seen_heldout", True, "held-out tail pairs"),
            ("unique_pair_gap", False, "one-patient pairs, gap"),
            ("copy_excess", False, "exact copies"),
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
            ("unique_pair_gap", "beyond_prevalence", "… beyond prevalence"),
            ("membership_auc", "all", "membership AUC"),
            ("membership_auc", "rare", "membership AUC, rare"),
            ("membership_likelihood_auc", "all", "with the model, AUC"),
            ("attribute_residual", "all", "attribute, residual"),
        ),
    ),
)


#: The rows of the paper's Table 3a, with the control that it lacks.
ABLATED = ("halo", "static-pcla", "static-pcla-train-only", "adapcla-no-scaffold", "adapcla")
ABLATION = ScoreTable(
    "ablation",
    "Dependence or internalisation",
    "Table 3a of the paper: a bias that stays, the same weights without it, and a bias that was annealed away; and the "
    "control that the paper lacks, the same network and steps without any bias.",
    _tail("rare20"),
)
