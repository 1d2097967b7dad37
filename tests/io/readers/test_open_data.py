"""The one place of open data, and what is said about the files there."""

from __future__ import annotations

import gzip
import re
from hashlib import sha256
from pathlib import Path

import pytest

from adapcla.io.readers import open_data
from adapcla.io.readers.open_data import CHECKSUMS, data_folder, open_sets


def test_the_environment_names_the_folder_and_an_empty_name_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPCLA_DATA", "/elsewhere")
    assert data_folder() == Path("/elsewhere")
    monkeypatch.setenv("ADAPCLA_DATA", "")
    assert data_folder() == Path("data")


def test_packed_and_plain_files_count_alike_and_faults_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sums = {"a.csv": sha256(b"A").hexdigest(), "b.csv": sha256(b"B").hexdigest()}
    monkeypatch.setattr(open_data, "CHECKSUMS", {"set": sums})
    assert open_sets(tmp_path) == {"set": "absent"}
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "a.csv").write_bytes(b"A")
    assert open_sets(tmp_path) == {"set": "b.csv missing"}
    (tmp_path / "set" / "b.csv.gz").write_bytes(gzip.compress(b"B"))
    assert open_sets(tmp_path) == {"set": "as in the results"}
    (tmp_path / "set" / "b.csv.gz").write_bytes(gzip.compress(b"B")[:-9])
    assert open_sets(tmp_path) == {"set": "b.csv differ"}


@pytest.mark.parametrize("name", CHECKSUMS)
def test_the_open_sets_here_are_those_of_the_results(open_data_at, name: str) -> None:
    assert open_sets(open_data_at(name).parent)[name] == "as in the results"


def test_the_documents_tell_the_same_checksums(repository: Path) -> None:
    text = (repository / "docs" / "data.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w/.]+)\.gz` \| `(\w{64})` \|$", text, re.MULTILINE)
    assert dict(rows) == {
        f"{name}/{file}": checksum for name, sums in CHECKSUMS.items() for file, checksum in sums.items()
    }


def test_every_experiment_reads_a_set_that_is_documented(repository: Path) -> None:
    paths = [
        path
        for toml in (repository / "experiments").glob("*.toml")
        for path in re.findall(r'^path = "([^"]+)"', toml.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert paths and {path.split("/")[0] for path in paths} <= set(CHECKSUMS)
