"""Gathers the pages of the documentation for mkdocs, and checks the site that it made of them.

python scripts/site.py gather SOURCE   # pages as they lie in the repository, so that links hold, and the reference
python scripts/site.py check SITE      # nothing in the site loads anything from another machine
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
#: What a page loads by itself when it is opened; links that a reader follows are not among it.
LOADED = {
    ".html": re.compile(
        r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?https?://"""
    ),
    ".css": re.compile(r"""@import\s+(?:url\()?["']?https?://|url\(["']?https?://"""),
}


def packages() -> list[str]:
    """The packages of adapcla, each of which has a page in the reference."""
    return sorted(path.parent.name for path in (REPOSITORY / "src" / "adapcla").glob("*/__init__.py"))


def gather(source: Path) -> None:
    """Copy all pages and what they link to, and write a page of the reference for each package."""
    shutil.rmtree(source, ignore_errors=True)
    listed = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (
            name.endswith(".md") or name.startswith(("docs/", "results/", "examples/", "LICENSE", "CITATION.cff"))
        ) and (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, source / name)
    (source / "docs" / "reference").mkdir(parents=True)
    for package in packages():
        text = f"# adapcla.{package}\n\n::: adapcla.{package}\n    options:\n      show_submodules: true\n"
        (source / "docs" / "reference" / f"{package}.md").write_text(text, encoding="utf-8")
    config = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    config = config.replace("docs_dir: build/site-source", f"docs_dir: {source.resolve()}")
    config = config.replace("paths: [src]", f"paths: [{REPOSITORY / 'src'}]")
    # The last entry of the navigation is the reference.
    config += "".join(f"      - docs/reference/{package}.md\n" for package in packages())
    (source.parent / "mkdocs.yml").write_text(config, encoding="utf-8")


def outside(site: Path) -> list[str]:
    """Places in the site that would load something from another machine when they are opened."""
    return [
        f"{path.relative_to(site)}: {match[0][:120]}"
        for path in sorted(site.rglob("*"))
        if path.suffix in LOADED
        for match in LOADED[path.suffix].finditer(path.read_text(encoding="utf-8", errors="replace"))
    ]


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["gather", folder]:
            gather(Path(folder))
        case ["check", folder]:
            if found := outside(Path(folder)):
                sys.exit("these load something from another machine:\n" + "\n".join(found))
        case _:
            sys.exit(__doc__)
