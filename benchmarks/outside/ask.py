"""Runs one script inside the environment of its evaluator: `python ask.py SCRIPT PACKAGE FOLDER OUT`.

It knows nothing of the package it comes from: it reads a folder of files and writes one JSON file.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib.metadata import version
from pathlib import Path


def main(script: str, package: str, folder: str, out: str) -> None:
    """Write the results of a script, and the version of the evaluator behind it."""
    here = Path(__file__).resolve().parent
    sys.path.insert(0, str(here))
    spec = importlib.util.spec_from_file_location("evaluator", here / script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    said = module.results(Path(folder))
    plain = {name: value if isinstance(value, bool | str) else float(value) for name, value in said.items()}
    # An evaluator that is no package says itself which it is.
    which = module.version(Path(folder)) if hasattr(module, "version") else version(package)
    Path(out).write_text(json.dumps({"version": which, "results": plain}), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
