"""A family says all that is asked of it; a new one is one module and its name in the registry."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import adapcla
from adapcla.models.base import Architecture
from adapcla.models.registry import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_either_trained_or_counted_and_has_rows(name: str) -> None:
    family = FAMILIES[name]
    assert (family.objective is None) != (family.count is None)
    assert family.rows and family.name == name
    assert issubclass(family.architecture, Architecture)


def test_work_grows_with_codes_and_with_depth() -> None:
    few, many = (FAMILIES["visits"].architecture().multiplications(n, 8.0) for n in (1_000, 10_000))  # type: ignore[call-arg]
    assert few < many
    per_token = FAMILIES["gpt"].architecture(layers=4).multiplications(1_000, 8.0)  # type: ignore[call-arg]
    assert per_token == pytest.approx(9 * few)


def test_a_module_and_its_name_in_the_registry_are_all_that_a_new_one_needs(tmp_path: Path) -> None:
    """Settings, table of methods and fitting know it at once."""
    text = """
        from typing import Literal

        from adapcla.models.marginal import MarginalNetwork
        from adapcla.models.base import Architecture, Family, Row, Traits


        class OtherArchitecture(Architecture):
            family: Literal["other"] = "other"


        FAMILY = Family(
            OtherArchitecture,
            lambda _, shape, prevalence: MarginalNetwork(shape, prevalence),
            Traits(),
            (Row("another", "One more.", "nobody", {"schedule": "none"}),),
            count=MarginalNetwork.count,
        )
    """
    package = shutil.copytree(Path(adapcla.__file__).parent, tmp_path / "adapcla")
    (package / "models" / "other.py").write_text(textwrap.dedent(text))
    registry = package / "models" / "registry.py"
    listed = registry.read_text().replace("import eva,", "import eva, other,").replace("(eva,", "(eva, other,")
    registry.write_text(listed)
    script = """
        from adapcla import Cohort
        from adapcla.generation.generator import generator_for
        cohort = Cohort.of([[["A", "B"]], [["B"], ["A"]]])
        print(generator_for("another").fit(cohort, cohort).sample(3).n_patients)
    """
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, env=environment
    )
    assert ran.stdout.strip() == "3", ran.stderr
