"""PyHealth: loads a MEDS or OMOP folder and trains a small network on it.

The question is whether a patient comes back, asked of the codes of the first visit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

#: Passes of the small network; it is to run, not to win.
EPOCHS = 2
#: Events of MEDS that are no codes of a visit.
NO_CODES = ("ADMISSION", "DISCHARGE", "MEDS_BIRTH", "MEDS_DEATH")


def results(folder: Path) -> dict[str, Any]:
    """Patients and events that were loaded, the samples of a task, and the loss of a network after training."""
    from pyhealth.datasets import MEDSDataset, OMOPDataset

    subject = folder / "subject"
    cache: dict[str, Any] = {"cache_dir": str(folder / "cache"), "num_workers": 1}
    if (subject / "person.csv").is_file():
        kind, column = "condition_occurrence", "condition_concept_id"
        loaded: Any = OMOPDataset(root=str(subject), tables=[kind], **cache)
    else:
        kind, column = "meds", "code"
        loaded = MEDSDataset(root=str(subject), **cache)
    patients = loaded.unique_patient_ids
    events = sum(len(loaded.get_patient(one).get_events(event_type=kind)) for one in patients[:200])
    said = {"patients loaded": len(patients), "events of the first 200 patients": events}
    return {**said, **trained(loaded.set_task(comes_back(kind, column), num_workers=1))}


def comes_back(kind: str, column: str) -> Any:
    """The task: the codes of the first visit, and whether there is another visit."""
    from pyhealth.tasks import BaseTask

    class ComesBack(BaseTask):
        """Another visit after the first."""

        task_name = "comes_back"
        input_schema: ClassVar = {"codes": "sequence"}
        output_schema: ClassVar = {"label": "binary"}

        def __call__(self, patient: Any) -> list[dict[str, Any]]:
            events = [(event.timestamp, str(getattr(event, column))) for event in patient.get_events(event_type=kind)]
            # Facts without a time, births, admissions and discharges are no codes of a visit, whatever word follows.
            events = [(time, code) for time, code in events if time is not None and code.split("//")[0] not in NO_CODES]
            if not events:
                return []
            first = min(time for time, _ in events)
            codes = [code for time, code in events if time == first]
            return [{"patient_id": patient.patient_id, "codes": codes, "label": int(len(codes) < len(events))}]

    return ComesBack()


def trained(samples: Any) -> dict[str, Any]:
    """The number of samples, and the loss on them after a little training."""
    from pyhealth.datasets import get_dataloader
    from pyhealth.models import RNN
    from pyhealth.trainer import Trainer

    model = RNN(dataset=samples, embedding_dim=16, hidden_dim=16)
    loader = get_dataloader(samples, batch_size=64, shuffle=True)
    trainer = Trainer(model=model, metrics=["roc_auc"], enable_logging=False, device="cpu")
    trainer.train(train_dataloader=loader, epochs=EPOCHS)
    scores = trainer.evaluate(loader)
    return {"samples": len(samples), "loss of an RNN": scores["loss"], "AUC of an RNN": scores["roc_auc"]}
