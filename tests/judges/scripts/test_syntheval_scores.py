"""SynthEval, with a stand-in."""

from __future__ import annotations

from types import SimpleNamespace


def test_numbers_are_taken_by_name_and_what_is_none_is_left_out(script, tables, folder, monkeypatch):
    class SynthEval:
        def __init__(self, real, holdout_dataframe, cat_cols, verbose):
            assert (real.name, holdout_dataframe.name, cat_cols) == ("train", "test", ["sex", "code_A"])

        def evaluate(self, made, target, presets_file):
            assert (made.name, target, presets_file) == ("subject", "code_A", "fast_eval")
            rows = [(0, {"metric": "nnaa", "val": 0.5}), (1, {"metric": "gone", "val": float("nan")})]
            return SimpleNamespace(reset_index=lambda: SimpleNamespace(iterrows=lambda: rows))

    monkeypatch.chdir(folder)
    judge = script("syntheval_scores.py", {"syntheval": SimpleNamespace(SynthEval=SynthEval)})
    tables()
    assert judge.verdicts(folder) == {"nnaa": 0.5}
