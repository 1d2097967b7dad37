"""Where open data sets are looked for, and whether what lies there is what the results were computed on."""

from __future__ import annotations

import gzip
import hashlib
import os
from pathlib import Path

#: Name of each set → file in its folder, packed with gzip or not → SHA-256 of the unpacked file.
CHECKSUMS: dict[str, dict[str, str]] = {
    "diabetes130": {
        "visits.csv": "034dd963d8c128c87a8cfa070a096a94dda2c6188af1f056806417b5165099ac",
        "diabetic_data.csv": "7ae579b893908aa5a2114198058486975d21019958f75c3f70504b60c03e734a",
    },
    "synpuf_inpatient": {
        "visits.csv": "25899d1c7ac3fcbe321b71583af7868998fec650f94da10675787f609e39d004",
    },
    "chile_grd_inca2023": {
        "visits.csv": "ae2e7b1addf08c507701f6530d63d148bd1ae917b67881942836629bccfa9988",
    },
    "mimic3_demo": {
        "ADMISSIONS.csv": "487e0b87cc81472cc2eb9ee911b3493c39e15d32e8230cec559907060c009b1c",
        "PATIENTS.csv": "f65803a46bcb88127574bfd0b70d78d4123783d05bb411e70d4c9629edd7b703",
        "DIAGNOSES_ICD.csv": "74dc979906bc2172f0cf025271dcd44c7cd52506b297e4b36e63dd40dce923da",
    },
    "mimic4_demo": {
        "hosp/admissions.csv": "b08247c945ce0c69c505cf3427c6442135b89d9ea6315a89d4adb7b1733ce1d4",
        "hosp/patients.csv": "d6f7f45cad83a977cfe40cf80572ad13df3970071c5f91bf2fd319c3903516f0",
        "hosp/diagnoses_icd.csv": "13de3b4591023aa2585cd835e4c770c60f6c555b295a49d0fe1cb74779144b33",
    },
}


def data_folder() -> Path:
    """The folder of data: `ADAPCLA_DATA`, else `data` where the command is run, which is the repository."""
    return Path(os.environ.get("ADAPCLA_DATA") or "data").expanduser()


def open_sets(folder: Path) -> dict[str, str]:
    """For each open data set: "absent", "as in the results", or the files that are missing or have other content.

    >>> open_sets(Path("no-such-folder"))["diabetes130"]
    'absent'
    """
    return {name: _state(folder / name, files) for name, files in CHECKSUMS.items()}


def _state(folder: Path, checksums: dict[str, str]) -> str:
    if not folder.is_dir():
        return "absent"
    missing, other = [], []
    for name, checksum in checksums.items():
        path = next((path for path in (folder / f"{name}.gz", folder / name) if path.is_file()), None)
        if path is None:
            missing.append(name)
        elif _sha256_unpacked(path) != checksum:
            other.append(name)
    faults = [f"{' and '.join(names)} {what}" for names, what in ((missing, "missing"), (other, "differ")) if names]
    return "; ".join(faults) or "as in the results"


def _sha256_unpacked(path: Path) -> str:
    """The SHA-256 of a file as it is once unpacked; "damaged" where it cannot be."""
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (OSError, EOFError):
        return "damaged"
