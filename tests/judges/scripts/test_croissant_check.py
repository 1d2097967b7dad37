"""mlcroissant, with a stand-in."""

from __future__ import annotations

from types import SimpleNamespace


def test_issues_and_rows_are_counted(script, folder):
    class Dataset:
        def __init__(self, jsonld):
            assert jsonld.name == "croissant.json"
            issues = SimpleNamespace(errors=["bad"], warnings=["odd", "odder"])
            self.metadata = SimpleNamespace(ctx=SimpleNamespace(issues=issues))

        def records(self, name):
            return iter([1, 2, 3])

    judge = script("croissant_check.py", {"mlcroissant": SimpleNamespace(Dataset=Dataset)})
    assert judge.verdicts(folder) == {"errors": 1, "warnings": 2, "rows read": 3}
