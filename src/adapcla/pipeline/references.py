"""The references that an experiment judges by themselves, like rows, and the patients of each."""

from __future__ import annotations

from adapcla.data import Cohort
from adapcla.evaluation.metric import SUITES
from adapcla.evaluation.references import Beside, LawReference, Reference
from adapcla.pipeline.settings import DataSettings, EvaluateSettings, data_path

#: References that stand beside every row; a quick evaluation leaves their slow scores out, so they are judged once.
_SLOW = (Reference.TRAIN_COPY, Reference.MARGINAL, Reference.REAL_TRAIN)


def judged_references(asked: EvaluateSettings, data: DataSettings) -> dict[Beside, EvaluateSettings]:
    """What is judged of references by themselves: what a quick look leaves out, and references of a known law.

    A quick look trains no classifiers on the latter: these have real patients as their ceiling, and are slow.

    >>> asked = judged_references(EvaluateSettings(suites=("tail", "utility"), quick=True), DataSettings())
    >>> {reference.value: judged.suites for reference, judged in asked.items() if isinstance(reference, Reference)}
    {'train_copy': ('tail',), 'marginal': ('tail', 'utility'), 'real_train': ('utility',)}
    >>> {reference.value: judged.suites for reference, judged in asked.items() if isinstance(reference, LawReference)}
    {'law_itself': ('tail',), 'family_only': ('tail',)}
    """
    out: dict[Beside, EvaluateSettings] = {}
    for reference in _SLOW if asked.quick else ():
        suites = tuple(name for name in asked.suites if reference in SUITES[name].references)
        if suites:
            out[reference] = asked.model_copy(update={"suites": suites})
    learned = {name for name in asked.suites if Reference.REAL_TRAIN in SUITES[name].references}
    suites = tuple(name for name in asked.suites if not (asked.quick and name in learned))
    if suites and _law_is_known(data):
        out |= dict.fromkeys(LawReference, asked.model_copy(update={"suites": suites}))
    return out


def reference_cohort(reference: Beside, parts: dict[str, Cohort], n_patients: int, seed: int) -> Cohort:
    """The patients of a reference, as many as a sample has."""
    from adapcla.io import simulator as planted

    train, test = parts["train"], parts["test"]
    if isinstance(reference, Reference):
        return reference.cohort(train, test, n_patients, seed)
    make = planted.ideal if reference is LawReference.LAW_ITSELF else planted.family_only
    return make(train, n_patients, seed)


def _law_is_known(data: DataSettings) -> bool:
    """Whether all patients follow a planted law, none chosen by what they are and no code left out."""
    if data.where or data.min_patients:
        return False
    if data.source != "cohort":
        return data.source == "planted"
    from adapcla.io import simulator as planted

    folder = data_path(data)
    if not folder.is_dir():
        return False
    cohort = Cohort.open(folder)
    return planted.law_of(cohort) is not None or planted.whole_law_of(cohort) is not None
