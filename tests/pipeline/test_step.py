from __future__ import annotations

from adapcla.pipeline.folder import making
from adapcla.pipeline.step import Step


def test_a_step_is_done_when_its_folder_was_made_with_its_key(tmp_path):
    step = Step("train", "lstm", tmp_path / "a", "key", 1.0, lambda: None)
    assert not step.done
    with making(tmp_path / "a", "another"):
        pass
    assert not step.done
    with making(tmp_path / "a", "key"):
        pass
    assert step.done
