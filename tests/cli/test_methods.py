"""`adapcla methods`."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from adapcla.cli.main import app
from adapcla.data import Prevalence, Vocabulary
from adapcla.generation.generator import describe_method
from adapcla.models.base import Shape
from adapcla.training.settings import METHODS


def test_every_row_says_what_it_is_in_words_and_in_json():
    words = CliRunner().invoke(app, ["methods"])
    assert words.exit_code == 0
    assert all(name in words.stdout for name in METHODS)
    rows = json.loads(CliRunner().invoke(app, ["methods", "--json"]).stdout)["methods"]
    assert [row["name"] for row in rows] == list(METHODS)
    release = next(row for row in rows if row["name"] == "adapcla-release")
    assert "trains first" in release["starts_from"]
    assert release["settings"]["tempering"] == 0.2
    assert "toward" not in next(row for row in rows if row["name"] == "synteg")["supports"]


def test_parameters_are_counted_as_if_the_network_were_made():
    import numpy as np

    n = 50
    prevalence = Prevalence(Vocabulary.of(f"{i:06d}" for i in range(n)), np.full(n, 1 / n), n)
    for name in ("adapcla", "eva", "synteg", "gpt"):
        settings = METHODS[name].settings
        network = settings.network(Shape(n, settings.architecture.context), prevalence)
        assert describe_method(name, n)["parameters"] == sum(p.numel() for p in network.parameters()), name
