"""Diabetes 130-US hospitals (UCI data set 296): one row per stay, with diagnoses, drugs, results and how it ended.

The file has no dates: stays are ordered by their number, which is taken for the order of time. It writes ICD-9 without
leading zeros (`38` is 038); they are put back.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from adapcla.data import Cohort
from adapcla.data.vocabulary import STAY as STAY
from adapcla.io.assembly import assemble
from adapcla.io.contract import Options
from adapcla.io.courses import NO_DAY, make_courses
from adapcla.io.tables import need_table, open_table
from adapcla.io.workbench import Workbench

VISIT_RULE = "one stay (encounter_id); the source has no dates: ordered by encounter_id"
_DIAGNOSES = ("diag_1", "diag_2", "diag_3")
DRUGS = (
    *("metformin", "repaglinide", "nateglinide", "chlorpropamide", "glimepiride", "acetohexamide", "glipizide"),
    *("glyburide", "tolbutamide", "pioglitazone", "rosiglitazone", "acarbose", "miglitol", "troglitazone"),
    *("tolazamide", "examide", "citoglipton", "insulin", "glyburide-metformin", "glipizide-metformin"),
    *("glimepiride-pioglitazone", "metformin-rosiglitazone", "metformin-pioglitazone"),
)
_DOSES = {"Steady": "the dose stayed", "Up": "the dose was raised", "Down": "the dose was lowered"}
#: Column of a result told in words → its words, what they are written as, and what they mean.
_RESULTS = {
    "A1Cresult": {">8": ("above-8", "over 8 %"), ">7": ("above-7", "over 7 %"), "Norm": ("normal", "normal")},
    "max_glu_serum": {
        ">300": ("above-300", "over 300 mg/dL"),
        ">200": ("above-200", "over 200 mg/dL"),
        "Norm": ("normal", "normal"),
    },
}
_COUNTS = {
    "num_lab_procedures": "Number of lab tests",
    "num_procedures": "Number of procedures other than lab tests",
    "num_medications": "Number of drugs given",
}
_READMITTED = {
    "<30": ("within-30", "Readmitted within 30 days"),
    ">30": ("after-30", "Readmitted after 30 days"),
    "NO": ("no", "No readmission on record"),
}
#: Numbers of the file's own key → kinds and endings; those that tell nothing (not mapped, not available) are empty.
_KINDS = {"": "", "5": "", "6": "", "8": "", "3": "elective"}
_KINDS |= dict.fromkeys(("1", "7"), "emergency-inpatient") | dict.fromkeys(("2", "4"), "inpatient")
_ENDS = {"": "", "18": "", "25": "", "26": "", "1": "home", "7": "against-advice"}
_ENDS |= dict.fromkeys(("6", "8"), "home-care") | dict.fromkeys(("13", "14"), "hospice")
_ENDS |= dict.fromkeys(("11", "19", "20", "21"), "died") | dict.fromkeys(("9", "12", "16", "17"), "other")
_ENDS |= dict.fromkeys(("2", "3", "4", "5", "10", "15", "22", "23", "24", "27", "28", "29", "30"), "facility")


def read(root: Path, options: Options) -> Cohort:
    """The cohort in `diabetic_data.csv`, or in a folder that holds it."""
    table = need_table(root, "diabetic_data") if root.is_dir() else open_table(root)
    fixed = {"patient": "patient_nbr", "visit": "encounter_id", "gender": "gender", "age": "age", "race": "race"}
    stays = {"kind": "admission_type_id", "ending": "discharge_disposition_id", "days": "time_in_hospital"}
    wanted: dict[str, tuple[str, ...]] = {"dx": _DIAGNOSES, "rx": DRUGS, "lab": (*_RESULTS, *_COUNTS)}
    columns = dict(fixed)
    for domain in options.domains:
        columns |= {name: name for name in wanted.get(domain, ())}
    if "stay" in options.domains:
        columns |= stays | {"readmitted": "readmitted"}
    card: dict[str, Any] = {}
    with Workbench() as bench:
        bench.load("raw", table, columns)
        bench.run("CREATE VIEW visits AS SELECT patient, visit, '' AS date, '' AS day, '' AS sequence FROM raw")
        names, groups = _load_codes(bench, options)
        if "lab" in options.domains:
            names |= _load_counts(bench)
        if "stay" in options.domains:
            rows = f"""SELECT patient, visit, kind, ending, false AS died, {NO_DAY} AS begins, number_of(days) AS days
                FROM raw"""
            card["stays"] = make_courses(bench, rows, _KINDS, _ENDS)
        _shape_people(bench)
        return assemble(
            bench,
            source="diabetes130",
            visit_rule=VISIT_RULE,
            options=options,
            attributes=("sex", "age_band", "race"),
            descriptions=names,
            groups=groups,
            results="lab" in options.domains,
            courses="stay" in options.domains,
            card=card,
            path=root,
        )


def _load_codes(bench: Workbench, options: Options) -> tuple[dict[tuple[str, str], str], dict[tuple[str, str], str]]:
    """Make `entries` of diagnoses, drugs and results in words; what the codes mean, and their choice groups."""
    selects = ["SELECT patient, visit, '' AS code, '' AS system, '' AS domain FROM raw WHERE false"]
    names: dict[tuple[str, str], str] = {}
    groups: dict[tuple[str, str], str] = {}

    def choose(column: str, word: str, code: str, system: str, domain: str, text: str, group: str) -> None:
        names[system, code], groups[system, code] = text, group
        row = f"SELECT patient, visit, '{code}', '{system}', '{domain}' FROM raw WHERE \"{column}\" = '{word}'"
        selects.append(row)

    if "dx" in options.domains:
        for column in _DIAGNOSES:
            padded = f"CASE WHEN regexp_full_match({column}, '[0-9]{{1,2}}(\\..*)?') THEN repeat('0', 3 - " + (
                f"length(split_part({column}, '.', 1))) || {column} ELSE {column} END"
            )
            selects.append(
                f"SELECT patient, visit, {padded}, 'ICD9CM', 'diagnosis' FROM raw WHERE {column} NOT IN ('?', '')"
            )
    if "rx" in options.domains:
        for drug in DRUGS:
            for word, text in _DOSES.items():
                choose(drug, word, f"{drug}.{word.lower()}", "DRUG", "drug", f"{drug}, {text}", f"DRUG/{drug}")
    if "lab" in options.domains:
        for column, words in _RESULTS.items():
            for word, (code, text) in words.items():
                choose(column, word, f"{column}.{code}", "LAB", "lab", f"{column}, {text}", f"LAB/{column}")
    if "stay" in options.domains:
        for word, (code, text) in _READMITTED.items():
            choose("readmitted", word, code, "READMITTED", STAY, text, "readmitted")
    bench.run("CREATE VIEW entries AS " + " UNION ALL ".join(selects))
    return names, groups


def _load_counts(bench: Workbench) -> dict[tuple[str, str], str]:
    """Make `results` of the counts of a stay; what they mean."""
    selects = [
        f"""SELECT patient, visit, '{column}' AS code, 'LAB' AS system, 'lab' AS domain, number_of({column}) AS value,
            '' AS unit, CAST(NULL AS DOUBLE) AS moment FROM raw"""
        for column in _COUNTS
    ]
    bench.run("CREATE VIEW results AS " + " UNION ALL ".join(selects))
    return {("LAB", column): text for column, text in _COUNTS.items()}


def _shape_people(bench: Workbench) -> None:
    """Make `people` with sex, age band (`[70-80)` is 70-79) and race of each stay."""
    bench.run(
        """CREATE VIEW people AS SELECT patient, visit, CASE WHEN gender IN ('Female', 'Male') THEN left(gender, 1)
           ELSE '' END AS sex, age_band(try_cast(regexp_extract(age, '[0-9]+') AS INTEGER)) AS age_band,
           CASE race WHEN '?' THEN '' ELSE race END AS race FROM raw"""
    )
