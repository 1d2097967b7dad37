"""What stands beside the data of a release: a card for people, one for machines (Croissant), and checksums.

Nothing here tells a number of real patients below the smallest count of the release.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from adapcla.data.vocabulary import DEATH
from adapcla.disclosure import MIN_COUNT, format_count
from adapcla.files import json_bytes, sha256_of
from adapcla.release.summary import Release, lamps
from adapcla.report.gate_words import beside_gate, gate_table
from adapcla.tables import Table, format_number
from adapcla.version import __version__

CARD, CROISSANT, SUMS = "README.md", "croissant.json", "SHA256SUMS"
#: How each format is read back, and what its files are for machines.
READERS = {"csv": "table", "parquet": "table"}
_MEDIA = {".csv": "text/csv", ".parquet": "application/x-parquet", ".json": "application/json"}
_MEDIA |= {".ndjson": "application/x-ndjson", ".html": "text/html", ".md": "text/markdown"}
_BINARY = "application/octet-stream"
UNSAFE = "UNSAFE"


def card(release: Release, formats: Mapping[str, str], model: bool) -> str:
    """The dataset card in Markdown; of each format it is said what it has no place for."""
    synthetic, n_trained = release.synthetic, format_count(release.train.n_patients, release.min_patients)
    lines = [
        f"# {'' if release.passed else f'{UNSAFE}: '}{release.title}: synthetic patients",
        "",
        *([] if release.passed else _WARNING),
        f"{synthetic.n_patients:,} synthetic patients with {synthetic.n_visits:,} visits on {synthetic.n_codes:,} "
        "codes, written by a generator that had learned from patient records. Nobody in these files is a real person. "
        "[report.html](report.html) shows how like real patients they are, what they are good for and how their "
        "privacy was tested.",
        "",
        "## From what",
        "",
        f"Source: {_source(release)}. The generator learned from {n_trained} patients; others, whom it never saw, were "
        "kept to judge it.",
        "",
        "## How it was made",
        "",
        f"adapcla {__version__}, method `{release.method}`, {_sizes(release.chosen.settings)}, "
        f"{format_number(release.chosen.costs.get('passes'))} passes. {converged(release)}",
        "",
        *_vocabulary(release),
        *_whole_record(release),
        *_judged(release),
        *_MUST_NOT,
        "## Files",
        "",
        *(_way_back(name, lost) for name, lost in formats.items()),
        *([_MORE] if model else []),
        f"- `{CROISSANT}`: this card for machines; `{SUMS}`: checksums (`sha256sum -c {SUMS}`)",
        "",
    ]
    return "\n".join(lines)


_WARNING = [
    f"> **{UNSAFE}.** The privacy gate refused this data set and somebody wrote it anyway. It may tell about single",
    "> real patients. Treat it as you treat the real data: do not share it.",
    "",
]
_MORE = "- `model/`: the generator; `adapcla sample model --patients 1000 --out more` writes more patients"
_MUST_NOT = [
    "## What it must not be used for",
    "",
    "- To decide about the care of a person. Synthetic patients show what is usual, not what is true of anybody.",
    "- To find out about the people behind the source. The tests above are evidence that this fails; they are no "
    'guarantee, and the files are not "anonymous" in any legal sense by themselves.',
    "- To count rare things. Codes of fewer patients than the smallest count were rolled up or left out.",
    "- To report results as if they came from real patients: repeat on real ones what matters.",
    "",
]


def _way_back(name: str, lost: str) -> str:
    """How the folder of a format is read back, and what it has no place for.

    >>> _way_back("csv", "")
    '- `csv/`: read back with `adapcla import table csv --out cohort`'
    """
    if name == "xlsx":
        return f"- `{name}/`: a workbook with a sheet for each table" + (f"; {lost}" if lost else "")
    command = f"`adapcla import {READERS.get(name, name)} {name} --out cohort`"
    return f"- `{name}/`: read back with {command}" + (f"; {lost}" if lost else "")


def _judged(release: Release) -> list[str]:
    """The three lamps and the lines of the gate."""
    attempt = release.chosen
    rows = [(lamp.title, f"{lamp.value} {lamp.unit}".strip(), lamp.sentence) for lamp in lamps(release)]
    of_model = ["The attacks on the model:", "", gate_table(attempt.model_lines).markdown()]
    return [
        "## How it was judged",
        "",
        Table(("question", "answer", "in words"), rows).markdown(),
        "The privacy gate, line by line:",
        "",
        gate_table(attempt.lines).markdown(),
        *(
            f"`{line.name}` is not shown to be met and was accepted by those who released: {line.accepted}"
            for line in attempt.lines
            if line.accepted
        ),
        *beside_gate(attempt.scores.by_stratum("privacy")),
        *(of_model if attempt.model_lines else []),
    ]


def converged(release: Release) -> str:
    """Whether training had learned what it could, in a sentence."""
    attempt = release.chosen
    if not attempt.costs.get("steps"):
        return "It counts and takes no steps, so there is nothing to converge."
    if attempt.enough_passes:
        return "Training had converged: more time would change little."
    return (
        f"Training had not converged in the time: {release.minutes:g} minutes allowed "
        f"{format_number(attempt.costs.get('passes'))} of about {attempt.wanted_passes:.3g} passes. More minutes help."
    )


def _source(release: Release) -> str:
    known = {"planted": "a made-up world that comes with adapcla; its patients are not real either"}
    return known.get(release.source, f"health records read as `{release.source}`")


def _sizes(settings: dict[str, Any]) -> str:
    architecture = settings.get("architecture", {})
    words = [f"{name} {architecture[name]}" for name in ("width", "layers") if name in architecture]
    private = settings.get("privacy")
    if private:
        words.append(
            f"trained with differential privacy (ε = {private['epsilon']:g}, which covers training, not the choice of "
            "codes by their counts)"
        )
    return ", ".join(words)


def _vocabulary(release: Release) -> list[str]:
    """How much of the vocabulary and of its tail kept its full code."""
    k, facts = release.min_patients, release.chosen.rollup
    codes, entries, tail = facts["codes"], facts["entries"], facts["tail"]
    rows = [
        (
            "codes",
            f"{codes['before']:,}",
            f"{codes['kept in full']:,}",
            f"{codes['rolled up']:,}",
            f"{codes['not placed']:,}",
        ),
        (
            "occurrences",
            format_count(entries["all"], k),
            format_count(entries["kept in full"], k),
            format_count(entries["rolled up"], k),
            format_count(entries["not placed"], k),
        ),
    ]
    share = tail["entries kept in full"] / tail["entries"] if tail["entries"] else 0.0
    of_tail = (
        f"Of the rarest third of the codes ({tail['codes']:,}), {tail['kept in full']:,} kept their full code, with "
        f"{share:.0%} of the occurrences of that third."
    )
    hidden = release.chosen.n_hidden_attributes
    return [
        f"Every code is held by at least {k} training patients. A rarer one was rolled up to its category, section or "
        "chapter, whichever first has as many; what has no such ancestor was left out.",
        "",
        Table(("", "in the source", "kept in full", "rolled up", "left out"), rows).markdown(),
        of_tail,
        *([f"Attributes that fewer than {k} patients share were made unknown."] if hidden else []),
        "",
    ]


def _whole_record(release: Release) -> list[str]:
    """What else than plain codes a visit holds, and how numbers came about; nothing for records of codes alone."""
    vocabulary, k = release.synthetic.vocabulary, max(release.min_patients, MIN_COUNT)
    if not vocabulary.groups and not vocabulary.numbers.any():
        return []
    masks = {domain: vocabulary.domain_mask(domain) for domain in vocabulary.domains}
    chosen = np.array([bool(code.group) for code in vocabulary.codes])
    rows = [
        (domain, str(mask.sum()), str((mask & chosen).sum()), str((mask & vocabulary.numbers).sum()))
        for domain, mask in masks.items()
    ]
    return [
        "## What a visit holds",
        "",
        Table(("domain", "codes", "of choice groups", "numbers"), rows).markdown(),
        "A visit holds at most one code of a choice group, such as its kind or its ending; nothing follows upon "
        f"`{DEATH.token}`. A number (a value, a length of stay) was drawn inside a band of at least {k} training "
        "patients with rounded edges, and no value of a patient was kept. Inside its band it does not depend on the "
        "rest of the visit.",
        "",
    ]


def croissant(release: Release, folder: Path, formats: Sequence[str]) -> bytes:
    """The card for machines, in the Croissant format, of the files that are in the folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    refused = "" if release.passed else f"{UNSAFE}: the privacy gate refused these data. "
    name = re.sub(r"[^A-Za-z0-9]+", "-", f"{refused[:6]} {release.title} synthetic patients").strip("-")
    content: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": name,
        "description": f"{refused}{release.synthetic.n_patients} synthetic patients written by adapcla {__version__}. "
        "Nobody in it is a real person.",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "citeAs": "adapcla: synthetic longitudinal health records that are right in the long tail",
        "url": "report.html",
        "version": "1.0.0",
        "distribution": [_file(path, path.relative_to(folder).as_posix()) for path in files],
        "recordSet": [_records(folder, table) for table in _TABLES] if "csv" in formats else [],
    }
    return json_bytes(content)


def checksums(folder: Path) -> bytes:
    """The SHA-256 of every file of a folder, as `sha256sum -c` reads them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(f"{sha256_of(path)}  {path.relative_to(folder).as_posix()}\n" for path in files).encode()


#: Tables of the CSV form, and what each row of them is.
_TABLES = {
    "long": "a code of a visit",
    "visits": "a visit, its codes with spaces between them",
    "patients": "a patient, with attributes and labels",
    "vocabulary": "a code with its system and description",
}
_TYPES = dict.fromkeys(("patient_id", "visit_id", "visit_index", "day"), "sc:Integer") | {"value": "sc:Float"}
_MEANINGS = {
    "patient_id": "number of the synthetic patient",
    "visit_id": "number of the visit",
    "visit_index": "place of the visit in the patient's record, from 1",
    "day": "days since the patient's first visit",
    "code": "code with its system",
    "codes": "codes with spaces between them",
    "domain": "diagnosis, procedure, drug, lab or stay",
    "value": "the number, where the code is one",
    "unit": "unit of the number; 1 where it has none",
    "group": "choice group, of which a visit holds at most one code",
}


def _file(path: Path, name: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": name,
        "name": name,
        "contentUrl": name,
        "contentSize": f"{path.stat().st_size} B",
        "encodingFormat": _MEDIA.get(path.suffix, _BINARY),
        "sha256": sha256_of(path),
    }


def _records(folder: Path, table: str) -> dict[str, Any]:
    """A table of the CSV form for machines: its columns with their types."""
    file = f"csv/{table}.csv"
    with (folder / file).open(encoding="utf-8", newline="") as stream:
        columns = next(csv.reader(stream))
    return {
        "@type": "cr:RecordSet",
        "@id": table,
        "name": table,
        "description": f"One row is {_TABLES[table]}.",
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{table}/{re.sub(r'[^A-Za-z0-9_]+', '_', column)}",
                "name": column,
                "description": _MEANINGS.get(column, column.replace("_", " ")),
                "dataType": _TYPES.get(column, "sc:Text"),
                "source": {"fileObject": {"@id": file}, "extract": {"column": column}},
            }
            for column in columns
        ],
    }


#: The context of Croissant 1.0, as its specification gives it.
_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
