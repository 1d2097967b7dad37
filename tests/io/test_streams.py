from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from adapcla.errors import InputError
from adapcla.io import streams
from adapcla.io.streams import CheckedStream


def stream_of(folder: Path, content: bytes, name: str = "t.csv") -> CheckedStream:
    path = folder / name
    path.write_bytes(content)
    return CheckedStream(path)


def test_bytes_pass_unchanged_whatever_the_piece_size(tmp_path: Path) -> None:
    content = bytes(range(1, 256)) * 50
    stream = stream_of(tmp_path, content)
    pieces = list(iter(lambda: stream.read(7), b""))
    assert b"".join(pieces) == content
    assert stream.quotes == 50


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    assert stream_of(tmp_path, gzip.compress(b"a,b\n"), "t.csv").read() == b"a,b\n"


@pytest.mark.parametrize(
    ("content", "header", "rest"),
    [
        (b"a,b\n1,2\n", b"a,b", b"1,2\n"),
        (b"a,b\r\n1,2\n", b"a,b", b"1,2\n"),
        (b"a,b\r1,2\r", b"a,b", b"1,2\r"),
        (b'"a\nx",b\n1,2\n', b'"a\nx",b', b"1,2\n"),
        (b"\xef\xbb\xbfa,b", b"a,b", b""),
        (b"", b"", b""),
    ],
)
def test_the_header_is_the_first_row_even_with_a_line_end_in_quotes(
    tmp_path: Path, content: bytes, header: bytes, rest: bytes
) -> None:
    stream = stream_of(tmp_path, content)
    assert stream.header() == header
    assert stream.read() == rest


def test_a_header_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BLOCK", 100)
    with pytest.raises(InputError, match="no end of the first row"):
        stream_of(tmp_path, b"x" * 200).header()


def test_nul_far_into_a_file_names_its_row(tmp_path: Path) -> None:
    stream = stream_of(tmp_path, b"a,b\n" * 2_000_000 + b"1,\0\n")
    with pytest.raises(InputError, match="row 2000001: a NUL byte"):
        stream.read()


def test_a_gzip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RATIO_FREE_BYTES", 1 << 20)
    with pytest.raises(InputError, match="grows more than 250-fold"):
        stream_of(tmp_path, gzip.compress(b"a" * (1 << 24)), "t.csv.gz").read()


def test_a_gzip_of_ordinary_ratio_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "RATIO_FREE_BYTES", 1 << 10)
    rows = b"".join(b"%d,%d\n" % (i, i * 7919 % 10_007) for i in range(20_000))
    assert stream_of(tmp_path, gzip.compress(rows), "t.csv.gz").read() == rows


@pytest.mark.parametrize(("content", "said"), [(b"", "an empty file"), (b"a,b\n", "not gzip")])
def test_a_name_that_promises_gzip(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said):
        stream_of(tmp_path, content, "t.csv.gz")


def test_no_file_and_a_folder_are_named_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        CheckedStream(tmp_path / "none.csv")
    with pytest.raises(InputError, match="not readable"):
        CheckedStream(tmp_path)
