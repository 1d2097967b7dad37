"""Every metric in one table, one row per key.

A row names the function that computes the metric; `partial` fixes what several rows share a function for. The order of
the rows is the order of the scores.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from adapcla.errors import UsageError
from adapcla.evaluation.contract import Metric
from adapcla.evaluation.curves import accuracy, average_precision, f1, roc_area
from adapcla.evaluation.discriminator import discriminator_auc
from adapcla.evaluation.fidelity import (
    INFINITE,
    POSITIVE,
    R2,
    code_coverage,
    length_difference,
    length_distance,
    ngram_corr,
    ngram_r2,
    prevalence_mae,
    prevalence_r2,
    tail_coverage,
    tail_mass,
    unseen_mass,
)
from adapcla.evaluation.plausibility import LOG2, context_scores, pair_scores
from adapcla.evaluation.privacy.attacks import attack_auc, membership_auc, membership_caught
from adapcla.evaluation.privacy.attributes import attribute_residual
from adapcla.evaluation.privacy.copies import copy_excess, near_copy_excess, rare_copy_excess, run_excess
from adapcla.evaluation.privacy.distance_tests import halo_membership_accuracy, nnaa_privacy_loss
from adapcla.evaluation.privacy.likelihoods import model_attack
from adapcla.evaluation.privacy.membership import auc, caught
from adapcla.evaluation.privacy.pairs_gap import tail_pair_seen_gap, unique_pair_gap
from adapcla.evaluation.privacy.singling_out import singling_out_excess
from adapcla.evaluation.privacy.strata import assessed
from adapcla.evaluation.reliability import WORST_LOSS, calibration, log_loss, mean_loss, squared_loss
from adapcla.evaluation.rules import rule_breaks
from adapcla.evaluation.sequence import unique_visits, visit_overlap
from adapcla.evaluation.steering import divergence, max_gap, mean_gap, rank_correlation, sampling_floor, steering_scores
from adapcla.evaluation.suites import SUITES
from adapcla.evaluation.tail_information import tail_information, tail_information_share
from adapcla.evaluation.tail_swap import swap_scores
from adapcla.evaluation.timing import gap_by_code, gap_distance
from adapcla.evaluation.trajectories import effect_correlation, effect_error, incidence_by_age, onset_curves
from adapcla.evaluation.utility import (
    balanced_judgements,
    masked_judgements,
    mean_over_labels,
    natural_judgements,
    next_visit_judgements,
)
from adapcla.evaluation.whole_table import WHOLE_RECORD

_NATS, _SIGNED = (0.0, LOG2), (-1.0, 1.0)

# A row is read as two lines, key and function above, what it means below; the formatter would make it ten.
# fmt: off
#: Every metric.
METRICS: tuple[Metric, ...] = (
    # ---- tail ------------------------------------------------------------------------------------------------
    Metric("tail_swap", "tail", "up", partial(swap_scores, "auc"),
           "Chance that the model finds a test visit likelier than the same visit with another code as rare in the "
           "place of its rare code.", unit="AUC"),
    Metric("tail_swap_lift", "tail", "up", partial(swap_scores, "lift"),
           "Log of the likelihood of a test visit, divided by the mean over its rare code and others as rare.",
           bounds=INFINITE, unit="nats"),
    Metric("tail_swap_training", "tail", "none", partial(swap_scores, "auc", held_out=False),
           "The same chance for visits of training patients: what lies above that of test patients is memory.",
           unit="AUC"),
    Metric("tail_swap_chance", "tail", "none", partial(swap_scores, "chance"),
           "The same chance for training counts alone: ½ where the codes are exactly as rare.", unit="AUC"),
    Metric("tail_information", "tail", "up", tail_information,
           "Log-likelihood that a rare code's company in the synthetic visits gains on a test visit with that code.",
           bounds=INFINITE, unit="nats", trained=True),
    Metric("tail_information_share", "tail", "up", tail_information_share,
           "That gain divided by the gain of as many real training patients.",
           bounds=INFINITE, unit="share of real", trained=True),
    Metric("tail_information_previous", "tail", "up", partial(tail_information, previous=True),
           "The same gain on the codes of the visit before the one with the rare code.",
           bounds=INFINITE, unit="nats", trained=True),
    Metric("tail_information_previous_share", "tail", "up", partial(tail_information_share, previous=True),
           "The gain on the visit before divided by that of as many real training patients.",
           bounds=INFINITE, unit="share of real", trained=True),
    Metric("pair_seen", "tail", "up", partial(pair_scores, "pair_seen"),
           "Share of generated same-visit pairs that training visits hold.", origin="paper", thinned=True),
    Metric("tail_pair_seen", "tail", "up", partial(pair_scores, "tail_pair_seen"),
           "Share of generated same-visit pairs with at least one tail code that training visits hold.",
           origin="paper", thinned=True),
    Metric("tail_ctx_jsd", "tail", "down", partial(context_scores, "tail_ctx_jsd"),
           "Divergence of the neighbours of generated tail codes from those in training visits.",
           bounds=_NATS, unit="nats", origin="paper", sized=True, thinned=True),
    Metric("tail_ctx_left_out", "tail", "down", partial(context_scores, "tail_ctx_left_out"),
           "Share of tail codes that the divergence leaves out: no neighbour generated, or none in training visits.",
           sized=True, thinned=True),
    Metric("tail_topk_jac", "tail", "up", partial(context_scores, "tail_topk_jac"),
           "Overlap of the top 20 neighbours of tail codes with those in training visits.",
           origin="paper", sized=True, thinned=True),
    Metric("pair_seen_heldout", "tail", "up", partial(pair_scores, "pair_seen_heldout"),
           "Share of generated same-visit pairs that test visits hold.", thinned=True, heldout=True, version=2),
    Metric("tail_pair_seen_heldout", "tail", "up", partial(pair_scores, "tail_pair_seen_heldout"),
           "Share of generated same-visit pairs with at least one tail code that test visits hold.",
           thinned=True, heldout=True, version=2),
    Metric("tail_ctx_jsd_heldout", "tail", "down", partial(context_scores, "tail_ctx_jsd_heldout"),
           "Divergence of the neighbours of generated tail codes from those in test visits.",
           bounds=_NATS, unit="nats", sized=True, thinned=True, heldout=True, version=2),
    Metric("tail_ctx_left_out_heldout", "tail", "down", partial(context_scores, "tail_ctx_left_out_heldout"),
           "Share of tail codes that the divergence leaves out: no neighbour generated, or none in test visits.",
           sized=True, thinned=True, heldout=True, version=2),
    Metric("tail_topk_jac_heldout", "tail", "up", partial(context_scores, "tail_topk_jac_heldout"),
           "Overlap of the top 20 neighbours of tail codes with those in test visits.",
           sized=True, thinned=True, heldout=True, version=2),
    # ---- fidelity --------------------------------------------------------------------------------------------
    Metric("next_visit_jaccard", "fidelity", "match", partial(visit_overlap, "next_visit_jaccard"),
           "Mean overlap of a visit's codes with the same patient's next visit."),
    Metric("random_visit_jaccard", "fidelity", "match", partial(visit_overlap, "random_visit_jaccard"),
           "Mean overlap of a visit's codes with a random visit of anybody."),
    Metric("next_visit_gain", "fidelity", "match", partial(visit_overlap, "next_visit_gain"),
           "Next-visit overlap less random-visit overlap: how much a record remembers.", bounds=_SIGNED),
    Metric("unique_visits", "fidelity", "match", unique_visits,
           "Share of different code sets among the visits: low where a generator repeats itself.", sized=True),
    Metric("tail_mass", "fidelity", "match", tail_mass,
           "Share of the generated codes that are tail codes."),
    Metric("unseen_mass", "fidelity", "match", unseen_mass,
           "Share of the generated codes that no training visit holds."),
    Metric("tail_coverage", "fidelity", "up", tail_coverage,
           "Share of the tail codes that were generated at least once.", sized=True),
    Metric("code_coverage", "fidelity", "up", code_coverage,
           "Share of the codes of training that were generated at least once.", sized=True),
    Metric("prevalence_r2", "fidelity", "up", partial(prevalence_r2, "train"),
           "R² of prevalence against training visits.", bounds=R2, unit="R²", sized=True),
    Metric("prevalence_log_r2", "fidelity", "up", partial(prevalence_r2, "train", log=True),
           "R² of log prevalence against training visits.", bounds=R2, unit="R²", sized=True),
    Metric("prevalence_mae", "fidelity", "down", partial(prevalence_mae, "train"),
           "Mean absolute error of prevalence against training visits.", sized=True),
    Metric("prevalence_log_mae", "fidelity", "down", partial(prevalence_mae, "train", log=True),
           "Mean absolute error of log prevalence against training visits.", bounds=POSITIVE, unit="nats", sized=True),
    Metric("unigram_r2", "fidelity", "up", partial(ngram_r2, "unigram", "train"),
           "R² of unigram probabilities with those of training visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True),
    Metric("unigram_corr", "fidelity", "up", partial(ngram_corr, "unigram", "train"),
           "Correlation of unigram probabilities with those of training visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True),
    Metric("bigram_r2", "fidelity", "up", partial(ngram_r2, "bigram", "train"),
           "R² of bigram probabilities with those of training visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True),
    Metric("bigram_corr", "fidelity", "up", partial(ngram_corr, "bigram", "train"),
           "Correlation of bigram probabilities with those of training visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True),
    Metric("sequential_bigram_r2", "fidelity", "up", partial(ngram_r2, "sequential_bigram", "train"),
           "R² of sequential bigram probabilities with those of training visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True),
    Metric("sequential_bigram_corr", "fidelity", "up", partial(ngram_corr, "sequential_bigram", "train"),
           "Correlation of sequential bigram probabilities with those of training visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True),
    Metric("prevalence_r2_heldout", "fidelity", "up", partial(prevalence_r2, "test"),
           "R² of prevalence against test visits.", bounds=R2, unit="R²", sized=True, heldout=True, version=2),
    Metric("prevalence_log_r2_heldout", "fidelity", "up", partial(prevalence_r2, "test", log=True),
           "R² of log prevalence against test visits.", bounds=R2, unit="R²", sized=True, heldout=True, version=2),
    Metric("prevalence_mae_heldout", "fidelity", "down", partial(prevalence_mae, "test"),
           "Mean absolute error of prevalence against test visits.", sized=True, heldout=True, version=2),
    Metric("prevalence_log_mae_heldout", "fidelity", "down", partial(prevalence_mae, "test", log=True),
           "Mean absolute error of log prevalence against test visits.",
           bounds=POSITIVE, unit="nats", sized=True, heldout=True, version=2),
    Metric("unigram_r2_heldout", "fidelity", "up", partial(ngram_r2, "unigram", "test"),
           "R² of unigram probabilities with those of test visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True, heldout=True, version=2),
    Metric("unigram_corr_heldout", "fidelity", "up", partial(ngram_corr, "unigram", "test"),
           "Correlation of unigram probabilities with those of test visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True, heldout=True, version=2),
    Metric("bigram_r2_heldout", "fidelity", "up", partial(ngram_r2, "bigram", "test"),
           "R² of bigram probabilities with those of test visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True, heldout=True, version=2),
    Metric("bigram_corr_heldout", "fidelity", "up", partial(ngram_corr, "bigram", "test"),
           "Correlation of bigram probabilities with those of test visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True, heldout=True, version=2),
    Metric("sequential_bigram_r2_heldout", "fidelity", "up", partial(ngram_r2, "sequential_bigram", "test"),
           "R² of sequential bigram probabilities with those of test visits.",
           bounds=R2, unit="R²", origin="HALO", sized=True, heldout=True, version=2),
    Metric("sequential_bigram_corr_heldout", "fidelity", "up", partial(ngram_corr, "sequential_bigram", "test"),
           "Correlation of sequential bigram probabilities with those of test visits.",
           bounds=_SIGNED, unit="r", origin="HALO", sized=True, heldout=True, version=2),
    Metric("visits_per_patient_diff", "fidelity", "match", partial(length_difference, "visits_per_patient"),
           "Mean visits per patient less that of training.", bounds=INFINITE, unit="visits"),
    Metric("visits_per_patient_w1", "fidelity", "down", partial(length_distance, "visits_per_patient"),
           "Wasserstein distance between visits per patient and those of training.",
           bounds=POSITIVE, unit="visits", sized=True),
    Metric("codes_per_visit_diff", "fidelity", "match", partial(length_difference, "codes_per_visit"),
           "Mean codes per visit less that of training.", bounds=INFINITE, unit="codes"),
    Metric("codes_per_visit_w1", "fidelity", "down", partial(length_distance, "codes_per_visit"),
           "Wasserstein distance between codes per visit and those of training.",
           bounds=POSITIVE, unit="codes", sized=True),
    # ---- course ----------------------------------------------------------------------------------------------
    Metric("gap_w1", "course", "down", gap_distance,
           "Wasserstein distance between the days from visit to visit and those of training.",
           bounds=POSITIVE, unit="days", sized=True),
    Metric("gap_by_code", "course", "down", gap_by_code,
           "Mean absolute difference of the mean log gap after each code from that of training.",
           bounds=POSITIVE, unit="nats", sized=True),
    Metric("incidence_by_age", "course", "down", incidence_by_age,
           "Mean absolute difference of new cases per visit at risk from training, over codes and age bands.",
           sized=True),
    Metric("onset_curves", "course", "down", onset_curves,
           "Mean distance between the Kaplan–Meier curves of outcomes after index codes and those of training.",
           sized=True),
    Metric("effect_error", "course", "down", effect_error,
           "Mean absolute difference of the log odds ratios of outcomes after index codes from those of training.",
           bounds=POSITIVE, unit="nats", sized=True),
    Metric("effect_corr", "course", "up", effect_correlation,
           "Correlation of the log odds ratios of outcomes after index codes with those of training.",
           bounds=_SIGNED, unit="r", sized=True),
    Metric("rule_breaks", "course", "down", rule_breaks,
           "Share of patients who break a rule that no training patient breaks."),
    # ---- discriminator ---------------------------------------------------------------------------------------
    Metric("discriminator_auc", "discriminator", "down", discriminator_auc,
           "Area under the curve of gradient boosting that tells synthetic from test patients: ½ is a coin.",
           unit="AUC", cost="slow", heldout=True),
    # ---- control ---------------------------------------------------------------------------------------------
    Metric("control_mae", "control", "down", partial(steering_scores, mean_gap, (0.0, 1.0)),
           "Mean absolute difference between requested and achieved prevalence."),
    Metric("control_floor", "control", "none", sampling_floor,
           "The mean difference that sampling alone would leave in as many visits.", sized=True),
    Metric("control_max_gap", "control", "down", partial(steering_scores, max_gap, (0.0, 1.0)),
           "Largest absolute difference between requested and achieved prevalence.", sized=True),
    Metric("control_jsd", "control", "down", partial(steering_scores, divergence, _NATS),
           "Divergence between requested and achieved prevalence, each scaled to sum to 1.", bounds=_NATS, unit="nats"),
    Metric("control_spearman", "control", "up", partial(steering_scores, rank_correlation, _SIGNED),
           "Rank correlation between requested and achieved prevalence.", bounds=_SIGNED, unit="correlation"),
    # ---- utility ---------------------------------------------------------------------------------------------
    Metric("tstr_acc", "utility", "up", partial(mean_over_labels, balanced_judgements, accuracy),
           "Accuracy on balanced real patients, mean over the labels, one classifier per label trained on "
           "synthetic ones.", origin="paper", cost="slow", version=3),
    Metric("tstr_f1", "utility", "up", partial(mean_over_labels, balanced_judgements, f1),
           "F1 on balanced real patients, mean over the labels, one classifier per label trained on synthetic ones.",
           origin="paper", cost="slow", version=3),
    Metric("tstr_auprc", "utility", "up", partial(mean_over_labels, balanced_judgements, average_precision),
           "AUPRC on balanced real patients, mean over the labels, one classifier per label trained on synthetic ones.",
           origin="paper", cost="slow", version=3),
    Metric("tstr_natural_auprc", "utility", "up", partial(mean_over_labels, natural_judgements, average_precision),
           "AUPRC on all real test patients, mean over the labels, one classifier for all labels.",
           cost="slow", version=3),
    Metric("tstr_natural_auroc", "utility", "up", partial(mean_over_labels, natural_judgements, roc_area),
           "AUROC on all real test patients, mean over the labels, one classifier for all labels.",
           cost="slow", version=3),
    Metric("tstr_next_auprc", "utility", "up",
           partial(mean_over_labels, next_visit_judgements, average_precision, onsets=True),
           "AUPRC of the labels of the last visit, predicted from the visits before it, mean over the labels.",
           cost="slow", version=4),
    Metric("tstr_next_auroc", "utility", "up",
           partial(mean_over_labels, next_visit_judgements, roc_area, onsets=True),
           "AUROC of the labels of the last visit, predicted from the visits before it, mean over the labels.",
           cost="slow", version=4),
    Metric("tstr_masked_auprc", "utility", "up",
           partial(mean_over_labels, masked_judgements, average_precision, onsets=True),
           "AUPRC of the labels of the last visit with the label's codes masked there, mean over the labels.",
           cost="slow"),
    Metric("tstr_masked_auroc", "utility", "up", partial(mean_over_labels, masked_judgements, roc_area, onsets=True),
           "AUROC of the labels of the last visit with the label's codes masked there, mean over the labels.",
           cost="slow"),
    # ---- reliability -----------------------------------------------------------------------------------------
    Metric("ece", "reliability", "down", calibration,
           "Expected calibration error in 15 equally wide bins, on all real test patients.", cost="slow", version=3),
    Metric("ece_mass", "reliability", "down", partial(calibration, equal_mass=True),
           "Expected calibration error in 15 bins of equally many pairs, on all real test patients.",
           cost="slow", version=3),
    Metric("brier", "reliability", "down", partial(mean_loss, squared_loss),
           "Mean squared distance between probability and truth, on all real test patients.", cost="slow", version=3),
    Metric("nll", "reliability", "down", partial(mean_loss, log_loss),
           "Mean negative log-likelihood of the truth, on all real test patients.",
           bounds=(0.0, WORST_LOSS), unit="nats", cost="slow", version=3),
    Metric("ece_balanced", "reliability", "down", partial(calibration, judged=balanced_judgements),
           "Expected calibration error in 15 equally wide bins of classifiers trained and judged half with the label.",
           origin="paper", cost="slow"),
    Metric("brier_balanced", "reliability", "down", partial(mean_loss, squared_loss, judged=balanced_judgements),
           "Mean squared distance between probability and truth of classifiers trained and judged half with the label.",
           origin="paper", cost="slow"),
    Metric("nll_balanced", "reliability", "down", partial(mean_loss, log_loss, judged=balanced_judgements),
           "Mean negative log-likelihood of the truth by classifiers trained and judged half with the label.",
           bounds=(0.0, WORST_LOSS), unit="nats", origin="paper", cost="slow"),
    # ---- privacy ---------------------------------------------------------------------------------------------
    Metric("membership_auc", "privacy", "down", membership_auc,
           "Area under the curve of the strongest membership attack on data alone; the reason names it.",
           unit="AUC", cost="slow"),
    Metric("membership_caught", "privacy", "down", membership_caught,
           "Share of members that the strongest attack on data alone catches at 1 % false alarms.", cost="slow"),
    Metric("membership_nearest_auc", "privacy", "down", assessed(partial(attack_auc, "nearest")),
           "Area under the curve of the membership attack by distance to the nearest synthetic patient.",
           unit="AUC", origin="Hayes et al., 2019", cost="slow"),
    Metric("membership_calibrated_auc", "privacy", "down", assessed(partial(attack_auc, "calibrated")),
           "Area under the curve of the membership attack by the distance to the nearest synthetic patient less "
           "that to the nearest other real patient.", unit="AUC", cost="slow"),
    Metric("membership_density_auc", "privacy", "down", assessed(partial(attack_auc, "density")),
           "Area under the curve of the membership attack by synthetic against real patients within the distance "
           "to the nearest other real patient.", unit="AUC", cost="slow"),
    Metric("membership_copies_auc", "privacy", "down", assessed(partial(attack_auc, "copies")),
           "Area under the curve of the membership attack by synthetic records equal to the patient's.",
           unit="AUC", cost="slow"),
    Metric("membership_rare_codes_auc", "privacy", "down", assessed(partial(attack_auc, "rare_codes")),
           "Area under the curve of the membership attack by synthetic against real holders of the patient's rare "
           "codes.", unit="AUC", cost="slow"),
    Metric("membership_pairs_auc", "privacy", "down", assessed(partial(attack_auc, "pairs")),
           "Area under the curve of the membership attack by how many of the pairs that the patient holds alone "
           "are emitted.", unit="AUC", cost="slow"),
    Metric("membership_shadow_auc", "privacy", "down", assessed(partial(attack_auc, "shadow")),
           "Area under the curve of the membership attack by logistic regression on the other attacks, trained on "
           "one half of the patients and used on the other.", unit="AUC", cost="slow"),
    Metric("attribute_residual", "privacy", "down", attribute_residual,
           "Rarest codes read off the nearest synthetic patient, members beyond controls: (r_D − r_H)/(1 − r_H).",
           bounds=_SIGNED, cost="slow"),
    Metric("halo_membership_accuracy", "privacy", "down", halo_membership_accuracy,
           "HALO's membership test: accuracy of 'nearer than the median', ½ by chance; beside the gate, never in it.",
           unit="accuracy", origin="HALO", cost="slow"),
    Metric("nnaa_privacy_loss", "privacy", "down", nnaa_privacy_loss,
           "Adversarial accuracy against controls less against members: 0 without a leak; beside the gate, never "
           "in it.", bounds=_SIGNED, origin="Yale et al., 2020", cost="slow"),
    Metric("copy_excess", "privacy", "down", copy_excess,
           "Share of synthetic records (two visits, six codes or more) that copy a member, less a control, of as many.",
           bounds=_SIGNED),
    Metric("rare_copy_excess", "privacy", "down", rare_copy_excess,
           "Share of synthetic records with a rare code or a one-patient pair that copy a member, less a control.",
           bounds=_SIGNED),
    Metric("run_excess", "privacy", "down", run_excess,
           "Share of two consecutive synthetic visits that also follow each other in a member, less in a control.",
           bounds=_SIGNED),
    Metric("near_copy_excess", "privacy", "down", near_copy_excess,
           "Share of synthetic records as near to a member as 1 % of the controls are, less the same for controls.",
           bounds=_SIGNED, cost="slow"),
    Metric("membership_likelihood_auc", "privacy", "down", assessed(partial(model_attack, "likelihood", auc)),
           "Area under the curve of the membership attack by the model's likelihood per code.", unit="AUC"),
    Metric("membership_likelihood_caught", "privacy", "down", assessed(partial(model_attack, "likelihood", caught)),
           "Share of members caught at 1 % false alarms by the membership attack by the model's likelihood per code."),
    Metric("membership_reference_auc", "privacy", "down", assessed(partial(model_attack, "reference", auc)),
           "Area under the curve of the membership attack by the model's likelihood per code less that of "
           "attack models.", unit="AUC", origin="Watson et al., 2022"),
    Metric("membership_reference_caught", "privacy", "down", assessed(partial(model_attack, "reference", caught)),
           "Share of members caught at 1 % false alarms by the membership attack by the model's likelihood per "
           "code less that of attack models.", origin="Watson et al., 2022"),
    Metric("membership_lira_auc", "privacy", "down", assessed(partial(model_attack, "lira", auc)),
           "Area under the curve of the membership attack by the likelihood ratio over attack models.",
           unit="AUC", origin="Carlini et al., 2022"),
    Metric("membership_lira_caught", "privacy", "down", assessed(partial(model_attack, "lira", caught)),
           "Share of members caught at 1 % false alarms by the membership attack by the likelihood ratio over "
           "attack models.", origin="Carlini et al., 2022"),
    Metric("unique_pair_gap", "privacy", "down", unique_pair_gap,
           "Share of the pairs that one member holds alone which are emitted, less that of the pairs of one control.",
           bounds=_SIGNED),
    Metric("tail_pair_seen_gap", "privacy", "down", tail_pair_seen_gap,
           "TailPairSeen against members less TailPairSeen against as many controls; strata `members` and `controls`.",
           bounds=_SIGNED),
    Metric("singling_out_excess", "privacy", "down", singling_out_excess,
           "Share of pairs held by one synthetic patient that single out a member, less a control, of as many.",
           bounds=_SIGNED),
    # ---- numbers and stays -----------------------------------------------------------------------------------
    *WHOLE_RECORD,
)
# fmt: on
_BY_KEY = {metric.key: metric for metric in METRICS}


def metric_of(key: str) -> Metric:
    """The metric of a key.

    >>> metric_of("tail_pair_seen").suite
    'tail'
    """
    return _BY_KEY[key]


def metrics_of(suites: Iterable[str]) -> list[Metric]:
    """The metrics of these suites, suite by suite.

    >>> {"pair_seen", "tail_pair_seen"} <= {metric.key for metric in metrics_of(["tail"])}
    True
    """
    names = list(dict.fromkeys(suites))
    for name in names:
        if name not in SUITES:
            raise UsageError(f"suite {name!r}: expected one of {', '.join(SUITES)}")
    return [metric for name in names for metric in METRICS if metric.suite == name]
