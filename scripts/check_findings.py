"""Checks docs/findings.md against the tables it cites: `python scripts/check_findings.py`, exit code 1 on a fault.

A sentence with a link to a page of results, and a table that follows a sentence with such a link, may hold no decimal
number that is not on one of the linked pages, or in the linked section of it, rounded as it is written. A line of a
table that begins with the name of a row is held against the lines of that row alone. Signs are left out: findings may
turn a difference round.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_NUMBER = re.compile(r"(?<![\w.])\d{0,3}(?:,\d{3})*\.\d+(?:e-?\d+)?(?![\w])")
_LINK = re.compile(r"\]\(\.\./(results/[^)#\s]+\.md)#?([^)\s]*)\)")
_ROW = re.compile(r"^\W*(real test|[a-z0-9.-]+)\W*$")
_SENTENCE_END = re.compile(r"(?<=[.!?:])[*)]*\s+(?=[A-Z*`(\[…])")


def passages(text: str) -> Iterator[str]:
    """Sentences; a table is part of the sentence before it.

    >>> list(passages("One. Two:\\n\\n| a |\\n|---|\\n| .5 |\\n\\nThree."))
    ['One.', 'Two:\\n| a |\\n|---|\\n| .5 |', 'Three.']
    """
    waiting = ""
    for block in re.split(r"\n\s*\n", text):
        if block.startswith("|"):
            yield f"{waiting}\n{block}".strip()
            waiting = ""
            continue
        words = " ".join(block.split())
        if waiting:
            yield waiting
        *whole, waiting = _SENTENCE_END.split(words)
        yield from whole
    if waiting:
        yield waiting


def numbers(text: str) -> list[str]:
    """Decimal numbers as they are written, without those in links.

    >>> numbers("from .049 to 12.10 [.1, .2] ([law](../results/law/v1.2.md)), 60,000 patients")
    ['.049', '12.10', '.1', '.2']
    """
    return _NUMBER.findall(re.sub(r"\]\([^)]*\)", "]", text))


def lines_of(row: str, page: str) -> str:
    """The lines of a page's tables whose first or second cell is the name of a row; the whole page if none is.

    >>> lines_of("gpt", "| gpt | 0.1 |\\n| all | gpt | 0.2 |\\n| halo | 0.3 |")
    '| gpt | 0.1 |\\n| all | gpt | 0.2 |'
    """
    named = [line for line in page.splitlines() if row in [cell.strip() for cell in line.split("|")[1:3]]]
    return "\n".join(named) or page


def missing(passage: str, pages: list[str]) -> list[str]:
    """The numbers of a passage that no page holds, rounded as they are written.

    >>> missing("It is .05 and .07", ["| 0.0512 | -0.3 |"])
    ['.07']
    >>> missing("So it is:\\n| `gpt` | .3 |", ["| gpt | 0.1 |\\n| halo | 0.3 |"])
    ['.3']
    """
    lost = []
    for line in passage.splitlines():
        name = _ROW.match(line.split("|")[1]) if line.startswith("|") else None
        held = [page if name is None else lines_of(name[1], page) for page in pages]
        known = [float(text.replace(",", "")) for page in held for text in numbers(page)]
        for text in numbers(line):
            value, decimals = float(text.replace(",", "")), len(text.partition(".")[2])
            if not any(abs(one - value) <= 0.5000001 * 10.0**-decimals for one in known):
                lost.append(text)
    return lost


def section(page: str, anchor: str) -> str:
    """The part of a page under the heading of an anchor; the whole page without one.

    >>> section("# P\\n## one\\n1.5\\n## two\\n2.5", "two")
    '2.5'
    """
    if not anchor:
        return page
    parts = re.split(r"^## ", page, flags=re.MULTILINE)
    return next(part.partition("\n")[2] for part in parts if part.partition("\n")[0].strip() == anchor)


def faults(document: Path) -> list[str]:
    """Every cited number that is not where it is said to be, with the beginning of its sentence."""
    out = []
    for passage in passages(document.read_text(encoding="utf-8")):
        links = _LINK.findall(passage)
        root = document.parent.parent
        pages = [section((root / path).read_text(encoding="utf-8"), anchor) for path, anchor in links]
        if links:
            cited = ", ".join(path for path, _ in links)
            out += [f"{number} is not in {cited}: {passage[:70]}…" for number in missing(passage, pages)]
    return out


if __name__ == "__main__":
    found = faults(Path(__file__).resolve().parent.parent / "docs" / "findings.md")
    print("\n".join(found) or "every cited number is in the table it cites")
    sys.exit(1 if found else 0)
