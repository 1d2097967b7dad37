from __future__ import annotations

from adapcla.experiment.analyses import PARTS, Subject, analyse
from adapcla.experiment.spec import ANALYSES, AnalyseSpec
from adapcla.files import read_json
from adapcla.generators.methods import generator_for
from adapcla.sources.planted import simulate

SMALL = {"width": 16, "layers": 1, "heads": 2, "passes": 1, "batch_size": 32, "seed": 1}


def test_every_analysis_that_can_be_asked_for_exists():
    assert set(PARTS) == set(ANALYSES)
    assert AnalyseSpec(parts=ANALYSES).parts == ANALYSES


def test_probes_and_cases_leave_tables_figures_and_captions(tmp_path):
    train, valid, test = simulate(patients=500, codes=80, seed=1).split(seed=4)
    run = generator_for("adapcla", **SMALL).fit(train, valid)
    parts = {"train": train, "valid": valid, "test": test}
    subject = Subject("adapcla", SMALL, parts, {"adapcla": run}, {"adapcla": run.sample(100)}, quick=True)
    (tmp_path / "schedules").mkdir()
    analyse(subject, ["probes", "cases"], tmp_path)
    assert not (tmp_path / "schedules").exists()  # of an earlier run, and no longer asked for
    for part, figure in (("probes", "probe_dynamics"), ("cases", "next_visit")):
        assert figure in read_json(tmp_path / part / "summary.json")["captions"]
        assert (tmp_path / part / f"{figure}.svg").stat().st_size > 1000
    assert (tmp_path / "probes" / "probe_summary.csv").is_file()


def test_the_analysis_of_a_finished_run_is_on_its_page(finished_run):
    assert (finished_run / "analysis" / "bound" / "bound.csv").is_file()
    page = (finished_run / "report.html").read_text(encoding="utf-8")
    assert "analysis-bound.csv" in page
