"""The references that an experiment judges by themselves, like rows, and the patients of each."""

from __future__ import annotations

from adapcla.experiment.spec import DataSpec, Spec, data_path
from adapcla.metrics.references import Beside, LawReference, Reference
from adapcla.records import Cohort

#: References that stand beside every row; a quick evaluation leaves their slow scores out, so they are judged once.
_SLOW = (Reference.TRAIN_COPY, Reference.MARGINAL)


def judged_references(spec: Spec) -> tuple[Beside, ...]:
    """The references with scores of their own: those that a quick look leaves out, and those of a known law.

    >>> from adapcla.experiment.spec import spec_from
    >>> [one.value for one in judged_references(spec_from({"name": "a", "evaluate": {"quick": True}}))]
    ['train_copy', 'marginal', 'law_itself', 'family_only']
    >>> judged_references(spec_from({"name": "a", "evaluate": {"suites": []}}))
    ()
    """
    if not spec.evaluate.suites:
        return ()
    slow = _SLOW if spec.evaluate.quick else ()
    return (*slow, *(LawReference if _law_is_known(spec.data) else ()))


def reference_cohort(reference: Beside, parts: dict[str, Cohort], n_patients: int, seed: int) -> Cohort:
    """The patients of a reference, as many as a sample has."""
    from adapcla.sources import planted

    train, test = parts["train"], parts["test"]
    if isinstance(reference, Reference):
        return reference.cohort(train, test, n_patients, seed)
    make = planted.ideal if reference is LawReference.LAW_ITSELF else planted.family_only
    return make(train, n_patients, seed)


def _law_is_known(data: DataSpec) -> bool:
    """Whether all patients follow a planted law, none chosen by what they are and no code left out."""
    if data.where or data.min_patients:
        return False
    if data.source != "cohort":
        return data.source == "planted"
    from adapcla.sources import planted

    folder = data_path(data)
    return folder.is_dir() and planted.law_of(Cohort.open(folder)) is not None
