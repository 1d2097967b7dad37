"""Files that judges are given, read in their environments."""

from __future__ import annotations

from types import SimpleNamespace


class Table:
    def __init__(self, path):
        self.path, self.types = path, None

    def astype(self, types):
        self.types = types
        return self


def test_tables_come_in_order_with_words_as_objects(script, folder):
    given = script("given.py", {"pandas": SimpleNamespace(read_csv=Table)})
    subject, train, test = given.tables(folder)
    assert [table.path.name for table in (subject, train, test)] == ["subject.csv", "train.csv", "test.csv"]
    assert subject.types == {"sex": "object", "code_A": "object"}


def test_content_is_the_json_object(script, folder):
    assert script("given.py").content(folder / "task.json")["outcome"] == "ICD9CM/4280"
