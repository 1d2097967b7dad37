"""The folder: what lies there, which names are given, which paths are refused, and whose patients may be shown."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from adapcla.errors import InputError
from adapcla.studio.workspace import Workspace


def test_everything_is_found_and_only_what_a_generator_wrote_is_shown(stocked: Path) -> None:
    found = Workspace(stocked).contents()
    assert "cohorts/world" in found.sources and "samples/first" in found.synthetic
    assert "runs/one" in found.models and "releases/hospital-work/tries/1/fit" in found.models
    assert found.studies == ["runs/tiny"] and found.works == ["releases/hospital-work"]
    assert "releases/hospital-work/tries/1/sample" in found.synthetic
    parts = [name for name in found.cohorts if "/patients/" in name or "/data/" in name]
    assert len(parts) == 3 and not set(parts) & {*found.synthetic, *found.sources}
    assert not set(found.synthetic) & set(found.sources)


def test_names_are_plain_and_nothing_is_written_over(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    assert space.fresh("releases", "A/../b") == "releases/a-b"
    (tmp_path / "releases" / "a-b-work").mkdir()
    assert space.fresh("releases", "A/../b") == "releases/a-b-2"
    assert space.fresh("releases", "a-b", promised=frozenset({"releases/a-b-2"})) == "releases/a-b-3"
    with pytest.raises(ValueError, match="no place"):
        space.place("elsewhere")


def test_a_dropped_file_is_kept_for_its_owner_under_a_harmless_name(tmp_path: Path) -> None:
    space = Workspace(tmp_path)
    first, second = (space.keep("uploads", "../../My Table.csv.gz", b"x") for _ in range(2))
    assert (first, second) == ("uploads/my-table.csv.gz", "uploads/my-table-2.csv.gz")
    assert stat.S_IMODE((tmp_path / first).stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "uploads").stat().st_mode) == 0o700
    with pytest.raises(InputError, match="no table"):
        space.keep("uploads", "script.py", b"x")


def test_paths_that_somebody_names_are_checked(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "w")
    (tmp_path / "w" / ".studio").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    assert space.named_path(f" {tmp_path / 'data'} ") == tmp_path / "data"
    for text in ("", "nowhere", str(tmp_path / "w" / ".studio")):
        with pytest.raises(InputError, match="to do:"):
            space.named_path(text)


def test_what_is_chosen_lies_in_the_folder(tmp_path: Path) -> None:
    space = Workspace(tmp_path / "w")
    (tmp_path / "w" / "a").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "w" / "link").symlink_to(tmp_path / "outside")
    assert space.inside("a") == tmp_path / "w" / "a"
    for name in ("../outside", "link", "nothing", "/etc"):
        with pytest.raises(InputError, match="not in the folder"):
            space.inside(name)
