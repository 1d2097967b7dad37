"""The privacy metrics, one class each; the functions that compute them stand in the files beside this one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from adapcla.evaluation.comparison import Comparison, Score
from adapcla.evaluation.metric import SIGNED, Metric
from adapcla.evaluation.privacy.attacks import attack_auc, membership_auc, membership_caught
from adapcla.evaluation.privacy.attributes import attribute_residual
from adapcla.evaluation.privacy.copies import copy_excess, near_copy_excess, rare_copy_excess, run_excess
from adapcla.evaluation.privacy.distance_tests import halo_membership_accuracy, nnaa_privacy_loss
from adapcla.evaluation.privacy.likelihoods import model_attack
from adapcla.evaluation.privacy.membership import auc, caught
from adapcla.evaluation.privacy.pairs_gap import tail_pair_seen_gap, unique_pair_gap
from adapcla.evaluation.privacy.singling_out import singling_out_excess
from adapcla.evaluation.privacy.strata import assessed


class PrivacyMetric(Metric):
    """How much synthetic patients tell about single real ones: members of the training patients against controls."""

    suite, goal = "privacy", "down"
    function: ClassVar[Callable[[Comparison], dict[str, Score]]]

    def compute(self, comparison: Comparison) -> dict[str, Score]:
        """The score of every stratum."""
        return type(self).function(comparison)


class MembershipAUC(PrivacyMetric):
    """Area under the curve of the strongest membership attack on data alone; the reason names it."""

    key, unit, cost, by_domain = "membership_auc", "AUC", "slow", True
    function = membership_auc


class MembershipCaught(PrivacyMetric):
    """Share of members that the strongest attack on data alone catches at 1 % false alarms."""

    key, cost = "membership_caught", "slow"
    function = membership_caught


class MembershipNearestAUC(PrivacyMetric):
    """Area under the curve of the membership attack by distance to the nearest synthetic patient."""

    key, unit, origin, cost = "membership_nearest_auc", "AUC", "Hayes et al., 2019", "slow"
    function = assessed(partial(attack_auc, "nearest"))


class MembershipCalibratedAUC(PrivacyMetric):
    """Area under the curve of the membership attack by the distance to the nearest synthetic patient less that to the
    nearest other real patient.
    """

    key, unit, cost = "membership_calibrated_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "calibrated"))


class MembershipDensityAUC(PrivacyMetric):
    """Area under the curve of the membership attack by synthetic against real patients within the distance to the
    nearest other real patient.
    """

    key, unit, cost = "membership_density_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "density"))


class MembershipCopiesAUC(PrivacyMetric):
    """Area under the curve of the membership attack by synthetic records equal to the patient's."""

    key, unit, cost = "membership_copies_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "copies"))


class MembershipRareCodesAUC(PrivacyMetric):
    """Area under the curve of the membership attack by synthetic against real holders of the patient's rare codes."""

    key, unit, cost = "membership_rare_codes_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "rare_codes"))


class MembershipPairsAUC(PrivacyMetric):
    """Area under the curve of the membership attack by how many pairs that the patient holds alone are emitted."""

    key, unit, cost = "membership_pairs_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "pairs"))


class MembershipShadowAUC(PrivacyMetric):
    """Area under the curve of the membership attack by logistic regression on the other attacks, trained on one half
    of the patients and used on the other.
    """

    key, unit, cost = "membership_shadow_auc", "AUC", "slow"
    function = assessed(partial(attack_auc, "shadow"))


class AttributeResidual(PrivacyMetric):
    """Rarest codes read off the nearest synthetic patient, members beyond controls: (r_D − r_H)/(1 − r_H)."""

    key, bounds, cost = "attribute_residual", SIGNED, "slow"
    function = attribute_residual


class HaloMembershipAccuracy(PrivacyMetric):
    """HALO's membership test: accuracy of 'nearer than the median', ½ by chance; beside the gate, never in it."""

    key, unit, origin, cost = "halo_membership_accuracy", "accuracy", "HALO", "slow"
    function = halo_membership_accuracy


class NNAAPrivacyLoss(PrivacyMetric):
    """Adversarial accuracy against controls less against members: 0 without a leak; beside the gate, never in it."""

    key, bounds, origin, cost = "nnaa_privacy_loss", SIGNED, "Yale et al., 2020", "slow"
    function = nnaa_privacy_loss


class CopyExcess(PrivacyMetric):
    """Share of synthetic records (two visits, six codes or more) that copy a member, less a control, of as many."""

    key, bounds, by_domain = "copy_excess", SIGNED, True
    function = copy_excess


class RareCopyExcess(PrivacyMetric):
    """Share of synthetic records with a rare code or a one-patient pair that copy a member, less a control."""

    key, bounds, by_domain = "rare_copy_excess", SIGNED, True
    function = rare_copy_excess


class RunExcess(PrivacyMetric):
    """Share of two consecutive synthetic visits that also follow each other in a member, less in a control."""

    key, bounds, by_domain = "run_excess", SIGNED, True
    function = run_excess


class NearCopyExcess(PrivacyMetric):
    """Share of synthetic records as near to a member as 1 % of the controls are, less the same for controls."""

    key, bounds, cost = "near_copy_excess", SIGNED, "slow"
    function = near_copy_excess


class MembershipLikelihoodAUC(PrivacyMetric):
    """Area under the curve of the membership attack by the model's likelihood per code."""

    key, unit = "membership_likelihood_auc", "AUC"
    function = assessed(partial(model_attack, "likelihood", auc))


class MembershipLikelihoodCaught(PrivacyMetric):
    """Share of members caught at 1 % false alarms by the membership attack by the model's likelihood per code."""

    key = "membership_likelihood_caught"
    function = assessed(partial(model_attack, "likelihood", caught))


class MembershipReferenceAUC(PrivacyMetric):
    """Area under the curve of the membership attack by the model's likelihood per code less that of attack models."""

    key, unit, origin = "membership_reference_auc", "AUC", "Watson et al., 2022"
    function = assessed(partial(model_attack, "reference", auc))


class MembershipReferenceCaught(PrivacyMetric):
    """Share of members caught at 1 % false alarms by the membership attack by the model's likelihood per code less
    that of attack models.
    """

    key, origin = "membership_reference_caught", "Watson et al., 2022"
    function = assessed(partial(model_attack, "reference", caught))


class MembershipLiraAUC(PrivacyMetric):
    """Area under the curve of the membership attack by the likelihood ratio over attack models."""

    key, unit, origin = "membership_lira_auc", "AUC", "Carlini et al., 2022"
    function = assessed(partial(model_attack, "lira", auc))


class MembershipLiraCaught(PrivacyMetric):
    """Share of members caught at 1 % false alarms by the membership attack by the likelihood ratio of attack models."""

    key, origin = "membership_lira_caught", "Carlini et al., 2022"
    function = assessed(partial(model_attack, "lira", caught))


class UniquePairGap(PrivacyMetric):
    """Share of the pairs that one member holds alone which are emitted, less that of the pairs of one control."""

    key, bounds, by_domain = "unique_pair_gap", SIGNED, True
    function = unique_pair_gap


class TailPairSeenGap(PrivacyMetric):
    """TailPairSeen against members less TailPairSeen against as many controls; strata `members` and `controls`."""

    key, bounds, by_domain = "tail_pair_seen_gap", SIGNED, True
    function = tail_pair_seen_gap


class SinglingOutExcess(PrivacyMetric):
    """Share of pairs held by one synthetic patient that single out a member, less a control, of as many."""

    key, bounds, by_domain = "singling_out_excess", SIGNED, True
    function = singling_out_excess
