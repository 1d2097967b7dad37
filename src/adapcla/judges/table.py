"""Every outside judge: one row each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from adapcla.errors import UsageError

#: What a judge reads: one row per patient as CSV, a MEDS folder, an OMOP folder, or a description of the CSV files.
Form = Literal["table", "meds", "omop", "croissant"]


@dataclass(frozen=True)
class Judge:
    """A program that others wrote, and how it is asked."""

    name: str
    #: What pip installs, and what it may not choose by itself.
    requirements: tuple[str, ...]
    #: The package whose version is told.
    package: str
    python: str
    form: Form
    #: The file in `scripts` that runs inside its environment.
    script: str
    #: Seconds after which one question is given up.
    seconds: int
    summary: str
    constraints: tuple[str, ...] = ()
    #: What the user must give beside the cohorts: the name of the option, or nothing.
    needs: str = ""

    @property
    def folder(self) -> str:
        """The name of its environment: another requirement or Python is another environment.

        >>> JUDGES["sdmetrics"].folder
        'sdmetrics==0.32.*-py3.11'
        """
        return "+".join(self.requirements) + f"-py{self.python}"


#: Without this pin pip takes the newest torch with gigabytes of CUDA packages.
_TORCH = ("torch==2.13.0",)

# fmt: off
_ROWS = (
    Judge("mostlyai-qa", ("mostlyai-qa==1.10.*",), "mostlyai-qa", "3.11", "table", "mostlyai_qa.py", 1800,
          "Accuracy, similarity with the area of its discriminator, distances to training.", _TORCH),
    Judge("sdmetrics", ("sdmetrics==0.32.*",), "sdmetrics", "3.11", "table", "sdmetrics_reports.py", 600,
          "Quality and diagnostic reports."),
    Judge("anonymeter", ("anonymeter==1.1.*",), "anonymeter", "3.11", "table", "anonymeter_risks.py", 900,
          "Risks of singling out, linkability and inference, less those of controls."),
    Judge("syntheval", ("syntheval==1.7.*",), "syntheval", "3.11", "table", "syntheval_scores.py", 900,
          "Utility and privacy scores of its fast evaluation."),
    Judge("es-aces", ("es-aces==0.7.*",), "es-aces", "3.11", "meds", "aces_tasks.py", 600,
          "Prevalence of two tasks: readmission within 30 days, and the commonest outcome after the commonest code."),
    Judge("meds-tab", ("meds-tab==0.2.*",), "meds-tab", "3.11", "meds", "meds_tab_features.py", 900,
          "Whether it describes the codes and builds its features."),
    Judge("pyhealth", ("pyhealth==2.1.*",), "pyhealth", "3.12", "meds", "pyhealth_models.py", 900,
          "Whether it loads the MEDS folder, and a small model that it trains.", _TORCH),
    Judge("pyhealth-omop", ("pyhealth==2.1.*",), "pyhealth", "3.12", "omop", "pyhealth_models.py", 900,
          "The same of the OMOP folder, in the same environment.", _TORCH),
    Judge("ohdsi-dqd", ("duckdb", "sqlglot"), "duckdb", "3.11", "omop", "ohdsi_quality.py", 900,
          "Checks of the Data Quality Dashboard, from its own SQL, on DuckDB.", needs="--dqd"),
    Judge("mlcroissant", ("mlcroissant==1.1.*",), "mlcroissant", "3.11", "croissant", "croissant_check.py", 300,
          "Whether the description of the exported tables is valid, and the rows that it reads by it."),
)
# fmt: on
#: Every judge by name.
JUDGES: dict[str, Judge] = {judge.name: judge for judge in _ROWS}


def judges_of(names: Iterable[str]) -> list[Judge]:
    """The judges of these names; all where none is named.

    >>> [judge.name for judge in judges_of(["sdmetrics"])]
    ['sdmetrics']
    """
    chosen = list(dict.fromkeys(names)) or list(JUDGES)
    for name in chosen:
        if name not in JUDGES:
            raise UsageError(f"judge {name!r}\nexpected: {', '.join(JUDGES)}\nto do: choose some of these")
    return [JUDGES[name] for name in chosen]
