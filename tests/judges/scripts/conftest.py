"""Scripts of judges, loaded as their own environments load them, with stand-ins for what is installed there."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import adapcla.judges

SCRIPTS = Path(adapcla.judges.__file__).parent / "scripts"


def from_file(name: str) -> ModuleType:
    """A script as a module."""
    spec = importlib.util.spec_from_file_location(name.removesuffix(".py"), SCRIPTS / name)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[..., ModuleType]:
    """Load a script with stand-ins for the modules that it imports, by dotted name."""

    def load(name: str, modules: dict[str, Any] | None = None) -> ModuleType:
        monkeypatch.setitem(sys.modules, "given", from_file("given.py"))
        for dotted, content in (modules or {}).items():
            parts = dotted.split(".")
            for end in range(1, len(parts)):
                above = ".".join(parts[:end])
                if above not in sys.modules:
                    monkeypatch.setitem(sys.modules, above, SimpleNamespace(__path__=[]))
                if end < len(parts):
                    child = content if end == len(parts) - 1 else SimpleNamespace(__path__=[])
                    monkeypatch.setattr(sys.modules[above], parts[end], child, raising=False)
            monkeypatch.setitem(sys.modules, dotted, content)
        return from_file(name)

    return load


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> Callable[[ModuleType], None]:
    """Give a script the words subject, train and test in the place of data frames."""

    def give() -> None:
        monkeypatch.setattr(
            sys.modules["given"], "tables", lambda folder: (Frame("subject"), Frame("train"), Frame("test"))
        )

    return give


class Frame:
    """A table of 400 rows and four columns that knows its name."""

    columns = ("visits", "codes", "sex", "code_A")

    def __init__(self, name: str) -> None:
        self.name = name

    def __len__(self) -> int:
        return 400


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the files that describe a table and a task."""
    kinds = {"visits": "number", "codes": "number", "sex": "category", "code_A": "category"}
    (tmp_path / "columns.json").write_text(json.dumps(kinds))
    (tmp_path / "task.json").write_text(json.dumps({"index": "ICD9CM/25000", "outcome": "ICD9CM/4280"}))
    return tmp_path
