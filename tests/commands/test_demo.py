from __future__ import annotations

from typer.testing import CliRunner

from adapcla.cli import app
from adapcla.experiment import plan
from adapcla.experiment.spec import read_spec


def test_the_demonstration_is_the_shipped_experiment(tmp_path, monkeypatch, repository):
    """Training it takes minutes, so that only what would be run is looked at."""
    asked = []
    monkeypatch.setattr(plan.Plan, "run", lambda self: asked.append(self.spec) or self.folder.report)
    ran = CliRunner().invoke(app, ["demo", "--out", str(tmp_path)])
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.strip() == str(tmp_path / "demo" / "report.html")
    assert asked == [read_spec(repository / "experiments" / "demo.toml")]
