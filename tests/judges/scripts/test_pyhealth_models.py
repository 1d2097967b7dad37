"""PyHealth, with stand-ins for its data sets, its network and its trainer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest


class Loaded:
    """A data set of one patient with two visits."""

    def __init__(self, root, tables=(), **words):
        self.kind = "condition_occurrence" if tables else "meds"
        self.unique_patient_ids = ["1"]

    def get_patient(self, name):
        column = "code" if self.kind == "meds" else "condition_concept_id"
        seen = [(None, "sex"), (0, "MEDS_BIRTH"), (1, "ADMISSION//inpatient"), (2, "A"), (2, "B"), (2, "DISCHARGE")]
        seen += [(8, "ADMISSION"), (9, "A")]
        events = [SimpleNamespace(**{"timestamp": time, column: code}) for time, code in seen]

        def get_events(event_type):
            assert event_type == self.kind
            return events

        return SimpleNamespace(patient_id=name, get_events=get_events)

    def set_task(self, task, num_workers):
        return task(self.get_patient("1"))


class Trainer:
    def __init__(self, **words):
        assert words["device"] == "cpu"

    def train(self, **words):
        pass

    def evaluate(self, loader):
        return {"loss": 0.7, "roc_auc": 0.5}


@pytest.mark.parametrize("omop", [True, False])
def test_either_folder_is_loaded_and_trained_on(script, folder, omop):
    seen = []
    modules = {
        "pyhealth.datasets": SimpleNamespace(
            MEDSDataset=Loaded, OMOPDataset=Loaded, get_dataloader=lambda samples, **words: seen.extend(samples)
        ),
        "pyhealth.tasks": SimpleNamespace(BaseTask=object),
        "pyhealth.models": SimpleNamespace(RNN=lambda **words: None),
        "pyhealth.trainer": SimpleNamespace(Trainer=Trainer),
    }
    (folder / "subject").mkdir()
    if omop:
        (folder / "subject" / "person.csv").touch()
    said = script("pyhealth_models.py", modules).verdicts(folder)
    assert said["patients loaded"] == 1
    assert said["loss of an RNN"] == 0.7
    # A and B are the codes of the first visit, and there is another.
    assert seen == [{"patient_id": "1", "codes": ["A", "B"], "label": 1}]
