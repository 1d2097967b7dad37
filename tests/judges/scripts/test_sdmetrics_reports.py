"""sdmetrics, with stand-ins for its reports."""

from __future__ import annotations

from types import SimpleNamespace


class Report:
    score = 0.9

    def generate(self, real, synthetic, metadata, verbose):
        assert (real.name, synthetic.name) == ("train", "subject")
        assert metadata["columns"]["visits"] == {"sdtype": "numerical"}
        assert metadata["columns"]["code_A"] == {"sdtype": "categorical"}

    def get_score(self):
        return self.score

    def get_properties(self):
        return SimpleNamespace(iterrows=lambda: [(0, {"Property": "Column Shapes", "Score": 0.8})])


class Diagnostic(Report):
    score = 1.0


def test_both_reports_are_made_of_training_and_synthetic_tables(script, tables, folder):
    reports = SimpleNamespace(QualityReport=Report, DiagnosticReport=Diagnostic)
    judge = script("sdmetrics_reports.py", {"sdmetrics.reports.single_table": reports})
    tables()
    assert judge.verdicts(folder) == {"quality": 0.9, "column shapes": 0.8, "diagnostic": 1.0}
