"""Fields of a resource, whatever else they hold, and lines that are none."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapcla.errors import InputError
from adapcla.io.readers import ndjson


def test_fields_of_another_form_are_nothing() -> None:
    assert ndjson.text(5) == "" and ndjson.inside([1], "a") is None and ndjson.codings({"coding": "x"}) == []
    assert ndjson.codings({"coding": [1, {"code": "A"}]}) == [{"code": "A"}]


def test_files_are_found_by_a_word_of_their_name(tmp_path: Path) -> None:
    for name in ("Condition.ndjson", "Condition.1.ndjson.gz", "ConditionX.ndjson", "condition.txt"):
        (tmp_path / name).write_text("")
    assert [path.name for path in ndjson.files_of(tmp_path, "Condition")] == [
        "Condition.1.ndjson.gz",
        "Condition.ndjson",
    ]


@pytest.mark.parametrize("line", ["not json", "[]", '{"resourceType": "Patient"}'])
def test_a_line_that_is_no_such_resource_names_its_row(tmp_path: Path, line: str) -> None:
    path = tmp_path / "Condition.ndjson"
    path.write_text('{"resourceType": "Condition"}\n\n' + line + "\n")
    with pytest.raises(InputError, match="row 3"):
        list(ndjson.resources(path, "Condition"))


def test_batches_hold_every_row() -> None:
    rows = [(str(i), "x") for i in range((1 << 15) + 3)]
    found = list(ndjson.batches(iter(rows), ("a", "b")))
    assert [batch.num_rows for batch in found] == [1 << 15, 3]
    assert list(ndjson.batches(iter([]), ("a",))) == []
