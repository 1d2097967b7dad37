"""What a generator promises is what the neural one has."""

from __future__ import annotations

from adapcla.generators import NeuralGenerator
from adapcla.generators.contract import Generator, SampleRule


def test_the_neural_generator_keeps_the_contract() -> None:
    asked = {name for name in vars(Generator) if not name.startswith("_")}
    assert asked <= set(dir(NeuralGenerator))


def test_the_default_rule_adds_nothing() -> None:
    rule = SampleRule()
    assert (rule.temperature, rule.codes_per_visit, rule.min_codes, rule.where) == (1.0, "natural", 0, ())
