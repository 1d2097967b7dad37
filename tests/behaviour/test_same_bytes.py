"""What two small rows write, and all scores of one, are the same bytes as when the file beside this one was made.

After a change that is meant to change them, raise the revision in `adapcla/pipeline/tasks.py`, so
that working folders are done again, and make the file again:
`python benchmarks/same_bytes.py --methods adapcla,gpt --out tests/behaviour/same_bytes.json`.
"""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
SCRIPT = HERE.parent.parent / "benchmarks" / "same_bytes.py"


@pytest.mark.parametrize("method", ["adapcla", "gpt"])
def test_the_same_seeds_give_the_same_bytes(method: str) -> None:
    spec = importlib.util.spec_from_file_location("same_bytes", SCRIPT)
    assert spec is not None and spec.loader is not None
    same_bytes = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(same_bytes)
    before = json.loads((HERE / "same_bytes.json").read_text())
    assert before["revisions"] == same_bytes.revisions(), "make the file again: its bytes are those of other revisions"
    here = same_bytes.environment()
    if before["environment"] != here:
        pytest.skip(f"made with {before['environment']}, this is {here}: bytes are promised on one build alone")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        rows = same_bytes.hashes(method, same_bytes.parts(), scores=method == same_bytes.SCORED)
        rows |= same_bytes.whole_hashes(method, same_bytes.parts(whole=True))
    finally:
        torch.set_num_threads(threads)
    assert {name: rows[name] for name in before["rows"][method]} == before["rows"][method]
    kinds = {"sample", "likelihood", "steered", "continued"}
    assert rows.keys() >= kinds | {f"whole records: {kind}" for kind in kinds}
