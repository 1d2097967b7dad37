"""The architecture: which package may import which, what is never loaded or executed, and how code is documented."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "src" / "adapcla"

#: The layers, lowest first. A package imports packages of lower layers and itself, never its neighbours.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "seeds", "console", "version", "files", "machine", "tables", "disclosure", "defaults", "engine"),
    ("data",),
    ("io", "scaffold"),
    ("models",),
    ("training",),
    ("generation",),
    ("evaluation",),
    ("pipeline", "report"),
    ("release",),
    ("study",),
    ("studio",),
    ("cli",),
    ("__main__",),
)
LAYER = {package: layer for layer, packages in enumerate(LAYERS) for package in packages}
ROOT = set(LAYERS[0])
#: (module, imported module): imports that point up and wait to be mended. The list may only become shorter.
KNOWN_UPWARD: set[tuple[str, str]] = set()
#: Files outside `report` that load matplotlib. The list may only become shorter.
KNOWN_DRAWING = {"study/analysis/figures.py"}
#: Never loaded by `import adapcla` or `adapcla --help`.
HEAVY = (
    "torch",
    "matplotlib",
    "polars",
    "duckdb",
    "sklearn",
    "pyarrow",
    "scipy",
    "numpy",
    "pydantic",
    "accelerate",
    "streamlit",
    "ray",
)
#: Packages without torch.
WITHOUT_TORCH = ROOT | {"data", "io", "scaffold", "evaluation"}
#: May use torch though their package does not: classifiers of evaluation, and only inside functions.
TORCH_INSIDE_FUNCTIONS = ("evaluation/classifier.py",)
#: Read or write code as data.
UNSAFE_MODULES = {
    "pickle",
    "cPickle",
    "_pickle",
    "dill",
    "cloudpickle",
    "shelve",
    "marshal",
    "joblib",
    "pandas",
    "code",
}
UNSAFE_CALLS = {"eval", "exec", "compile", "__import__"}
UNSAFE_ATTRIBUTES = {("torch", "load"), ("yaml", "load"), ("yaml", "unsafe_load"), ("os", "system"), ("jit", "load")}


class Import(NamedTuple):
    """One import: the dotted name it asks for, its line, and whether it runs when the module is loaded."""

    name: str
    line: int
    at_load: bool


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by dotted name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def place(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def package_of(module: str) -> str:
    """The package of a dotted name: `adapcla.data.storage` → `data`."""
    return module.split(".")[1] if "." in module else ""


def imports(path: Path, module: str) -> list[Import]:
    """All imports of a file, at any depth, those for types alone included."""

    def walk(node: ast.AST, at_load: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
            base = ".".join(above[: len(above) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, [base, node.module]))
            for alias in node.names:
                deeper = f"{source}.{alias.name}"
                yield Import(deeper if deeper in modules() else source, node.lineno, at_load)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called == "import_module" and isinstance(node.args[0].value, str):
                yield Import(node.args[0].value, node.lineno, at_load)
        inside = at_load and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        # What is imported for types alone is not loaded, but a cycle behind it is a cycle all the same.
        inside = inside and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for child in ast.iter_child_nodes(node):
            yield from walk(child, inside)

    return list(walk(tree(path), True))


def all_imports() -> Iterator[tuple[str, Path, Import]]:
    for module, path in modules().items():
        for found in imports(path, module):
            yield module, path, found


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def body(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    """The statements of a function without its docstring."""
    return function.body[1:] if ast.get_docstring(function, clean=False) is not None else function.body


def n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    statements = body(function)
    return (statements[-1].end_lineno or 0) - statements[0].lineno + 1 if statements else 0


def listed(offenders: list[str]) -> str:
    return "\n" + "\n".join(sorted(offenders))


# ---- who imports whom -------------------------------------------------------------------------------------
def test_every_package_has_its_layer():
    packages = {package_of(module) for module in modules()} - {""}
    assert packages <= set(LAYER), f"packages without a layer: {sorted(packages - set(LAYER))}"
    assert {"data", "scaffold", "evaluation"} <= packages


def test_imports_point_down():
    """An exception that is no longer needed fails too, and is taken off the list."""
    offenders = []
    upward = set()
    for module, path, found in all_imports():
        if module == "adapcla" or found.name.split(".")[0] != "adapcla":
            continue
        mine, theirs = package_of(module), package_of(found.name)
        if not theirs:
            offenders.append(f"{place(path)}:{found.line} imports adapcla itself; name the package")
        elif theirs != mine and not {mine, theirs} <= ROOT and LAYER[theirs] >= LAYER[mine]:
            upward.add((module, found.name))
            if (module, found.name) not in KNOWN_UPWARD:
                offenders.append(f"{place(path)}:{found.line} {mine} imports {theirs}")
    offenders += [f"no longer needed: {pair}" for pair in KNOWN_UPWARD - upward]
    assert not offenders, listed(offenders)


def test_there_are_no_import_cycles():
    edges: dict[str, set[str]] = defaultdict(set)
    for module, _, found in all_imports():
        if found.name in modules() and found.name != module and module != "adapcla":
            edges[module].add(found.name)
    done: set[str] = set()
    cycles = []

    def visit(module: str, trail: list[str]) -> None:
        if module in trail:
            cycles.append(" → ".join([*trail[trail.index(module) :], module]))
        elif module not in done:
            for target in sorted(edges[module]):
                visit(target, [*trail, module])
            done.add(module)

    for module in modules():
        visit(module, [])
    assert not cycles, listed(cycles)


def test_torch_stays_with_the_models():
    offenders = []
    for module, path, found in all_imports():
        if found.name.split(".")[0] not in ("torch", "accelerate", "safetensors", "opacus"):
            continue
        judge = place(path) in TORCH_INSIDE_FUNCTIONS and not found.at_load
        if package_of(module) in WITHOUT_TORCH and not judge:
            offenders.append(f"{place(path)}:{found.line} {found.name}")
    assert not offenders, listed(offenders)


def test_matplotlib_stays_in_the_report():
    offenders = [
        f"{place(path)}:{found.line}"
        for module, path, found in all_imports()
        if found.name.split(".")[0] == "matplotlib"
        and package_of(module) != "report"
        and place(path) not in KNOWN_DRAWING
    ]
    drawing = {place(path) for _, path, found in all_imports() if found.name.split(".")[0] == "matplotlib"}
    offenders += [f"no longer needed: {name}" for name in KNOWN_DRAWING - drawing]
    assert not offenders, listed(offenders)


def test_streamlit_stays_in_the_studio():
    offenders = [
        f"{place(path)}:{found.line}"
        for module, path, found in all_imports()
        if found.name.split(".")[0] in ("streamlit", "uvicorn") and package_of(module) != "studio"
    ]
    assert not offenders, listed(offenders)


def test_commands_load_nothing_but_typer_and_the_root():
    light = ROOT - {"seeds"} | {"cli"}
    offenders = [
        f"{place(path)}:{found.line} {found.name}"
        for module, path, found in all_imports()
        if package_of(module) == "cli"
        and found.at_load
        and not (found.name.split(".")[0] in sys.stdlib_module_names or found.name.split(".")[0] == "typer")
        and not (found.name.startswith("adapcla.") and package_of(found.name) in light)
    ]
    assert not offenders, listed(offenders)


@pytest.mark.parametrize(
    "start",
    [
        "import adapcla",
        "import adapcla, sys; sys.argv = ['adapcla', '--help']; from adapcla.cli.main import main\n"
        "try: main()\nexcept SystemExit as end: assert not end.code, end.code",
    ],
    ids=["import", "help"],
)
def test_nothing_heavy_is_loaded(start):
    script = f"{start}\nimport sys\nprint('LOADED', *[name for name in {HEAVY!r} if name in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip().splitlines()[-1] == "LOADED"


# ---- what is never executed -------------------------------------------------------------------------------
def unsafe(path: Path, module: str) -> Iterator[str]:
    for found in imports(path, module):
        if found.name.split(".")[0] in UNSAFE_MODULES:
            yield f"{place(path)}:{found.line} imports {found.name}"
    for node in ast.walk(tree(path)):
        if not isinstance(node, ast.Call):
            continue
        where = f"{place(path)}:{node.lineno}"
        if isinstance(node.func, ast.Name) and node.func.id in UNSAFE_CALLS:
            yield f"{where} calls {node.func.id}"
        if isinstance(node.func, ast.Attribute):
            owner = node.func.value
            last = owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")
            if (last, node.func.attr) in UNSAFE_ATTRIBUTES:
                yield f"{where} calls {last}.{node.func.attr}"
        for keyword in node.keywords:
            if keyword.arg == "allow_pickle" and not (
                isinstance(keyword.value, ast.Constant) and keyword.value.value is False
            ):
                yield f"{where} allows pickles"


def test_opening_a_file_never_runs_it():
    offenders = [found for module, path in modules().items() for found in unsafe(path, module)]
    assert not offenders, listed(offenders)


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "import pandas as pd",
        "eval('1')",
        "exec('1')",
        "torch.load('x')",
        "np.load('x', allow_pickle=True)",
        "np.load('x', allow_pickle=flag)",
        "def f():\n    import joblib",
        "import_module('shelve')",
        "torch.jit.load('x')",
    ],
)
def test_the_check_for_unsafe_loading_can_fail(line, tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "x.py").write_text(line)
    assert list(unsafe(tmp_path / "x.py", "adapcla.x"))


def test_a_model_in_evaluation_mode_and_a_database_are_not_mistaken_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "y.py").write_text(
        "model.eval()\nconnection.execute('x')\nnp.load('x', allow_pickle=False)\nre.compile('x')"
    )
    assert not list(unsafe(tmp_path / "y.py", "adapcla.y"))


# ---- how documented ----------------------------------------------------------------


def test_no_function_is_written_twice():
    homes: dict[str, list[str]] = defaultdict(list)
    for path in modules().values():
        for function in functions(path):
            if n_lines(function) >= 4:
                text = ast.dump(function.args) + "".join(ast.dump(statement) for statement in body(function))
                homes[text].append(f"{place(path)}:{function.lineno} {function.name}")
    twice = [" = ".join(where) for where in homes.values() if len(where) > 1]
    assert not twice, listed(twice)


def public_functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions and methods that a user can name: no underscore anywhere, none inside another function."""
    holders: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree(path))]
    while holders:
        prefix, holder = holders.pop()
        for node in holder.body:
            if getattr(node, "name", "_").startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                holders.append((f"{node.name}.", node))
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{prefix}{node.name}", node


def test_public_functions_are_documented_and_annotated():
    offenders = []
    for path in modules().values():
        for name, node in public_functions(path):
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            arguments += [extra for extra in (node.args.vararg, node.args.kwarg) if extra is not None]
            bare = [a.arg for a in arguments if a.annotation is None and a.arg not in ("self", "cls")]
            overloaded = any("overload" in ast.dump(decorator) for decorator in node.decorator_list)
            if ast.get_docstring(node) is None and not overloaded:
                offenders.append(f"{place(path)}:{node.lineno} {name} has no docstring")
            if bare or node.returns is None:
                offenders.append(f"{place(path)}:{node.lineno} {name} is not annotated: {bare or 'return'}")
    assert not offenders, listed(offenders)


def test_every_module_says_what_it_is():
    silent = [place(path) for path in modules().values() if not ast.get_docstring(tree(path))]
    assert not silent, listed(silent)


def test_every_package_says_what_it_holds():
    folders = {path.parent for path in modules().values()}
    silent = [place(folder) for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    assert not silent, listed(silent)


def test_names_say_what_things_are():
    """No drawers for odds and ends, no Greek letters, no data set outside `io`."""
    drawers = {"utils", "util", "helpers", "helper", "common", "misc", "v2"}
    datasets = ("mimic", "eicu", "synpuf", "synthea", "diabetes130")
    offenders = [place(path) for path in modules().values() if path.stem in drawers or path.parent.name in drawers]
    for module, path in modules().items():
        for node in ast.walk(tree(path)):
            name = getattr(node, "id", None) or getattr(node, "name", None) or getattr(node, "arg", None)
            if not isinstance(name, str):
                continue
            if not name.isascii():
                offenders.append(f"{place(path)}:{getattr(node, 'lineno', 0)} {name}")
            if package_of(module) != "io" and any(dataset in name.lower() for dataset in datasets):
                offenders.append(f"{place(path)}:{getattr(node, 'lineno', 0)} {name}")
    assert not offenders, listed(offenders)
