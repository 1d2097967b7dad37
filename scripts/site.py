"""Gathers the pages of the documentation for mkdocs, and looks over the site that came of them.

    python scripts/site.py needs           # the packages that it takes, as pyproject.toml has them
    python scripts/site.py gather SOURCE   # what `make docs` gives to mkdocs
    python scripts/site.py check SITE      # nothing in the site asks another machine for anything

Pages lie in the gathered folder as they do in the repository, so that links between them hold. The reference of the
Python names is made from docstrings: one page for each room, one section for each module.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
PACKAGE = REPOSITORY / "src" / "adapcla"
#: What pages link to, by the beginning of its path; pages themselves are all that end in .md.
LINKED = (
    "docs/", "results/", "examples/", "LICENSE", "CITATION.cff",
)  # fmt: skip
#: What a page loads by itself when it is opened; links that a reader follows are not among it.
LOADED = re.compile(
    r"""<(?:script|img|iframe|source)\b[^>]*\bsrc=["']?(?:https?:)?//|<link\b[^>]*\bhref=["']?https?://"""
)
IMPORTED = re.compile(r"""@import\s+(?:url\()?["']?https?://|url\(["']?https?://""")


def tracked() -> list[str]:
    """The files of the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=REPOSITORY, capture_output=True, check=True
    )
    return [name for name in listed.stdout.decode().split("\0") if name]


def gather(source: Path) -> None:
    """Copy pages and what they link to, and write the pages of the reference."""
    shutil.rmtree(source, ignore_errors=True)
    for name in tracked():
        if (name.endswith(".md") or name.startswith(LINKED)) and (REPOSITORY / name).is_file():
            target = source / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(REPOSITORY / name, target)
    for name, text in reference().items():
        path = source / "docs" / "api" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    config = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8")
    (source.parent / "mkdocs.yml").write_text(with_pages(config, source), encoding="utf-8")


def reference() -> dict[str, str]:
    """The pages of the reference by file name: the public names, then a page for each room.

    Modules are named, and read from their source without being run.
    """
    rooms: dict[str, list[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        # Programs that run in environments of others stand in a folder that is no package.
        if parts and parts[0] != "__main__" and (path.parent / "__init__.py").is_file():
            ground = len(parts) == 1 and not (PACKAGE / parts[0]).is_dir()
            rooms.setdefault("ground" if ground else parts[0], []).append(".".join(["adapcla", *parts]))
    pages = {
        f"{room}.md": f"# {'The ground floor' if room == 'ground' else 'adapcla.' + room}\n\n"
        + "\n".join(f"::: {module}\n" for module in modules)
        for room, modules in rooms.items()
    }
    links = "\n".join(f"- [{name.removesuffix('.md')}]({name})" for name in pages)
    pages["index.md"] = (
        "# Python reference\n\nMade from the docstrings of the package, room by room. "
        f"The names that `import adapcla` offers are on [a page of their own](../python.md).\n\n{links}\n"
    )
    return pages


def with_pages(config: str, source: Path) -> str:
    """The configuration with the pages of the index in its navigation, paths made absolute."""
    index = (REPOSITORY / "docs" / "index.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- \[([^\]]+)\]\(([\w./-]+\.md)\)", index, re.MULTILINE)
    pages = "".join(f"      - {title}: docs/{name}\n" for title, name in entries if not name.startswith("tutorials/"))
    rooms = "".join(f"      - docs/api/{name}\n" for name in sorted(reference(), key=lambda name: name != "index.md"))
    results = "".join(f"      - {name}\n" for name in tracked() if name.startswith("results/") and name.endswith(".md"))
    changes = "".join(f"      - {name}\n" for name in ("CHANGELOG.md", "CONTRIBUTING.md"))
    config = config.replace("docs_dir: build/site-source", f"docs_dir: {source.resolve()}")
    config = config.replace("paths: [src]", f"paths: [{PACKAGE.parent}]")
    return (
        f"{config}  - Pages:\n      - docs/index.md\n{pages}  - Python reference:\n{rooms}  - Results:\n{results}"
        f"  - Project:\n{changes}"
    )


def outside(site: Path) -> list[str]:
    """Places in the site that would ask another machine for something when they are opened."""
    found = []
    for path in sorted(site.rglob("*")):
        pattern = {".html": LOADED, ".css": IMPORTED}.get(path.suffix)
        if pattern is not None:
            text = path.read_text(encoding="utf-8", errors="replace")
            found += [f"{path.relative_to(site)}: {match[0][:120]}" for match in pattern.finditer(text)]
    return found


def needs() -> list[str]:
    """The packages of the extra `docs`; the package itself is read, not run, and need not be installed."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return list(project["optional-dependencies"]["docs"])


def main() -> None:
    """Say what is needed, gather or check."""
    match sys.argv[1:]:
        case ["needs"]:
            print("\n".join(needs()))
        case ["gather", source]:
            gather(Path(source))
        case ["check", site]:
            if found := outside(Path(site)):
                sys.exit("these ask another machine for something:\n" + "\n".join(found))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
