"""The metrics of whole records, one row per key: numbers and stays."""

from __future__ import annotations

from functools import partial

from adapcla.data.vocabulary import DISCHARGE, VISIT_KIND
from adapcla.evaluation.contract import Metric
from adapcla.evaluation.curves import average_precision, roc_area
from adapcla.evaluation.fidelity import POSITIVE
from adapcla.evaluation.numbers import value_distance, value_in_range, values_left_out
from adapcla.evaluation.outcomes import MORTALITY, READMISSION, outcome_scores
from adapcla.evaluation.stays import (
    choice_distance,
    death_by_age,
    death_rate,
    length_by_ending,
    mean_length,
    readmission_rate,
    stay_length_distance,
)
from adapcla.evaluation.value_effects import (
    value_autocorr,
    value_autocorr_error,
    value_effect_corr,
    value_effect_error,
)

_SIGNED = (-1.0, 1.0)

# A row is read as two lines, as in the other table.
# fmt: off
#: The metrics of whole records.
WHOLE_RECORD: tuple[Metric, ...] = (
    # ---- numbers ---------------------------------------------------------------------------------------------
    Metric("value_w1", "numbers", "down", value_distance,
           "Mean distance between equal quantiles of values and those of training, in interquartile ranges of "
           "training; mean over the numbers.", bounds=POSITIVE, unit="interquartile ranges", sized=True),
    Metric("values_left_out", "numbers", "down", values_left_out,
           "Share of the numbers of training of which no value was generated.", sized=True),
    Metric("value_in_range", "numbers", "match", value_in_range,
           "Share of the values inside the range of all but a few training values."),
    Metric("value_effect_corr", "numbers", "up", value_effect_corr,
           "Correlation of the effects of codes on numbers with those of training.",
           bounds=_SIGNED, unit="r", sized=True),
    Metric("value_effect_error", "numbers", "down", value_effect_error,
           "Mean absolute difference of the effects of codes on numbers from those of training.",
           bounds=POSITIVE, unit="standard deviations", sized=True),
    Metric("value_autocorr", "numbers", "match", value_autocorr,
           "Correlation of a value with the same patient's next value of that number, mean over the numbers.",
           bounds=_SIGNED, unit="r"),
    Metric("value_autocorr_error", "numbers", "down", value_autocorr_error,
           "Mean absolute difference of these correlations from those of training.",
           bounds=(0.0, 2.0), unit="r", sized=True),
    # ---- stays -----------------------------------------------------------------------------------------------
    Metric("stay_length_w1", "stays", "down", stay_length_distance,
           "Wasserstein distance between the lengths of stay and those of training.",
           bounds=POSITIVE, unit="days", sized=True),
    Metric("stay_kind_tv", "stays", "down", partial(choice_distance, VISIT_KIND),
           "Total variation between the kinds of visits and those of training.", sized=True),
    Metric("stay_end_tv", "stays", "down", partial(choice_distance, DISCHARGE),
           "Total variation between the endings of visits and those of training.", sized=True),
    Metric("stay_days", "stays", "match", mean_length,
           "Mean length of stay, in all and by ending.", bounds=POSITIVE, unit="days"),
    Metric("length_by_end", "stays", "down", length_by_ending,
           "Mean absolute difference of the mean length by ending from that of training.",
           bounds=POSITIVE, unit="days", sized=True),
    Metric("death_rate", "stays", "match", death_rate,
           "Share of patients who die, in all and by age."),
    Metric("death_by_age", "stays", "down", death_by_age,
           "Mean absolute difference of the share who die from training, over age bands.", sized=True),
    Metric("readmission_30", "stays", "match", readmission_rate,
           "Share of stays in hospital that another one follows within thirty days."),
    Metric("mortality_auroc", "stays", "up", partial(outcome_scores, MORTALITY, roc_area),
           "AUROC of death at the last visit, learned from synthetic patients and asked of test patients.",
           unit="AUC", cost="slow", trained=True),
    Metric("mortality_auprc", "stays", "up", partial(outcome_scores, MORTALITY, average_precision),
           "AUPRC of death at the last visit, learned from synthetic patients and asked of test patients.",
           cost="slow", trained=True),
    Metric("readmission_auroc", "stays", "up", partial(outcome_scores, READMISSION, roc_area),
           "AUROC of readmission within thirty days, learned from synthetic patients and asked of test patients.",
           unit="AUC", cost="slow", trained=True),
    Metric("readmission_auprc", "stays", "up", partial(outcome_scores, READMISSION, average_precision),
           "AUPRC of readmission within thirty days, learned from synthetic patients and asked of test patients.",
           cost="slow", trained=True),
)
# fmt: on
