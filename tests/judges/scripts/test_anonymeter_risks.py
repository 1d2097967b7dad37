"""anonymeter, with stand-ins for its attacks."""

from __future__ import annotations

from types import SimpleNamespace


def attack(value):
    class Attack:
        def __init__(self, **words):
            assert (words["ori"].name, words["syn"].name, words["control"].name) == ("train", "subject", "test")
            assert words["n_attacks"] == 300

        def evaluate(self, **words):
            return self

        def risk(self):
            return SimpleNamespace(value=value)

    return Attack


def test_each_attack_is_made_on_training_with_test_patients_as_controls(script, tables, folder):
    attacks = SimpleNamespace(
        SinglingOutEvaluator=attack(0.1), LinkabilityEvaluator=attack(0.2), InferenceEvaluator=attack(0.3)
    )
    judge = script("anonymeter_risks.py", {"anonymeter.evaluators": attacks})
    tables()
    assert judge.verdicts(folder) == {"singling out": 0.1, "linkability": 0.2, "inference": 0.3}
