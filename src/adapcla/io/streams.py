"""Bytes of text files, checked while they flow: encoding, NUL, truncated and exploding gzip."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path
from typing import IO, Any

from adapcla.errors import InputError

#: A row, a quoted cell or a header may not be longer than this many bytes.
BLOCK = 1 << 22
#: A gzip file is a bomb if it grows by more than this factor …
MAX_RATIO = 250
#: … once this many bytes have come out of it.
RATIO_FREE_BYTES = 1 << 28
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"
_GZIP_MARK = b"\x1f\x8b"


class CheckedStream(io.RawIOBase):
    """The unpacked bytes of a text file; what a table must not hold raises `InputError` as it passes.

    A UTF-8 byte order mark is removed. `quotes` counts the quote marks seen so far: an odd number at the end
    makes an unclosed quote possible.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.quotes = 0
        self.rows = 0
        self._given = 0
        self._packed_size, self._stream = _opened(path)
        self._pending = self._unmarked(self._pull(BLOCK))

    def readable(self) -> bool:
        """True."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes, checked."""
        if size is None or size < 0:
            return b"".join(iter(lambda: self.read(BLOCK), b""))
        if self._pending:
            piece, self._pending = self._pending[:size], self._pending[size:]
        else:
            piece = self._pull(size)
        self.quotes += piece.count(b'"')
        return piece

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with the next bytes."""
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        """Close the file."""
        self._stream.close()
        super().close()

    def header(self) -> bytes:
        """The bytes of the first row (without its line end), taken out of the stream; empty at the end of the file."""
        block = self._pending
        end, quoted = 0, False
        for end, byte in enumerate(block):  # noqa: B007 - the position is what is wanted
            if byte == 0x22:
                quoted = not quoted
            elif byte in (0x0A, 0x0D) and not quoted:
                break
        else:
            if len(block) >= BLOCK:
                raise InputError(
                    f"no end of the first row within {BLOCK:,} bytes",
                    path=self.path,
                    row=1,
                    expected="a header row, its quotes closed",
                    remedy="check that this is a text table",
                )
            end = len(block)
        rest = block[end:]
        self._pending = rest[2:] if rest.startswith(b"\r\n") else rest[1:]
        return block[:end]

    def _pull(self, size: int) -> bytes:
        """Bytes from the file, or a named error."""
        try:
            piece = self._stream.read(size) or b""
        except EOFError:
            raise InputError(
                "the gzip file ends too early", path=self.path, remedy="copy or download it again"
            ) from None
        except (gzip.BadGzipFile, zlib.error):
            raise InputError("the gzip file is damaged", path=self.path, remedy="copy or download it again") from None
        except OSError as error:
            raise InputError(
                f"not readable ({error.strerror or 'damaged'})", path=self.path, remedy="check it"
            ) from None
        if b"\0" in piece:
            raise self._nul(piece)
        self._given += len(piece)
        if self._packed_size and self._given > max(RATIO_FREE_BYTES, MAX_RATIO * self._packed_size):
            raise InputError(
                f"the gzip file grows more than {MAX_RATIO}-fold",
                path=self.path,
                expected="a table of records, which packs far less",
                remedy="unpack it yourself and check what it holds",
            )
        self.rows += piece.count(b"\n")
        return piece

    def _nul(self, piece: bytes) -> InputError:
        """What to say about a NUL byte: most often the file is UTF-16."""
        if self._given == 0 and (piece[:2] in _UTF16_MARKS or piece[:200].count(b"\0") * 3 > len(piece[:200])):
            return _utf16(self.path)
        return InputError(
            "a NUL byte",
            path=self.path,
            row=self.rows + piece[: piece.index(b"\0")].count(b"\n") + 1,
            expected="text",
            remedy="the file is damaged or not a text table; export it again",
        )

    def _unmarked(self, piece: bytes) -> bytes:
        """The first bytes without a byte order mark."""
        if piece[:2] in _UTF16_MARKS:
            raise _utf16(self.path)
        return piece.removeprefix(_UTF8_MARK)


def _opened(path: Path) -> tuple[int, IO[bytes] | gzip.GzipFile]:
    """(size of the file if it is packed else 0, its unpacked bytes); gzip is known by its content, not its name."""
    try:
        stream = path.open("rb")
    except FileNotFoundError:
        raise InputError("no such file", path=path, remedy="check the path") from None
    except OSError as error:
        raise InputError(f"not readable ({error.strerror})", path=path, remedy="check path and permissions") from None
    if stream.peek(2)[:2] == _GZIP_MARK:
        return path.stat().st_size, gzip.GzipFile(fileobj=stream, mode="rb")
    if path.suffix.lower() == ".gz":
        empty = stream.peek(1) == b""
        stream.close()
        found = "an empty file" if empty else "not gzip, though its name ends so"
        raise InputError(found, path=path, remedy="copy or download it again, or rename it")
    return 0, stream


def _utf16(path: Path) -> InputError:
    return InputError(
        "the text is UTF-16",
        path=path,
        row=1,
        expected="UTF-8",
        remedy=f"convert it: iconv -f UTF-16 -t UTF-8 {path.name} > utf8.csv",
    )
