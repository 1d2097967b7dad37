"""The state and the journal of a run on disk: checkpoints as safetensors, two kept; one line of JSON for each step."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensors_as_bytes
from torch import Tensor

from adapcla.errors import AdapclaError
from adapcla.files import crash_point, full_disk_explained, sha256_of, write_bytes, write_json

_POINTER = "LATEST.json"
_GENERATIONS = 2


class Checkpoints:
    """The checkpoints of one run folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkpoints"

    def save(self, step: int, tensors: dict[str, Tensor], state: dict[str, Any]) -> None:
        """Write a generation; the one before survives until this one is complete and pointed at."""
        for name, tensor in tensors.items():
            if tensor.is_floating_point() and not torch.isfinite(tensor).all():
                raise AdapclaError(
                    f"step {step}: {name} is not finite; nothing was written, the last checkpoint is good"
                )
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step:09d}.safetensors"
        contiguous = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
        write_bytes(path, tensors_as_bytes(contiguous, metadata={"state": json.dumps(state, sort_keys=True)}))
        kept = [entry for entry in self._entries() if entry["file"] != path.name][: _GENERATIONS - 1]
        entries = [{"file": path.name, "step": step, "sha256": sha256_of(path)}, *kept]
        crash_point("pointer")
        write_json(self.folder / _POINTER, {"generations": entries})
        crash_point("prune")
        needed = {_POINTER, *(entry["file"] for entry in entries)}
        # Older generations, and what was half written when a process was killed.
        for old in self.folder.iterdir():
            if old.name not in needed:
                old.unlink()

    def _entries(self) -> list[dict[str, Any]]:
        try:
            content = json.loads((self.folder / _POINTER).read_text(encoding="utf-8"))
            return [entry for entry in content["generations"] if {"file", "step", "sha256"} <= set(entry)]
        except (OSError, ValueError, KeyError, TypeError):
            return []

    def newest(self) -> bytes | None:
        """The newest generation whose bytes are what was written, or None."""
        for entry in self._entries():
            path = self.folder / str(entry["file"])
            if path.is_file() and sha256_of(path) == entry["sha256"]:
                return path.read_bytes()
        return None

    def latest(self) -> tuple[dict[str, Tensor], dict[str, Any]] | None:
        """Tensors and state of the newest good generation, or None."""
        content = self.newest()
        return None if content is None else parse_checkpoint(content)

    def clear(self) -> None:
        """Remove all generations."""
        for path in self.folder.glob("*"):
            path.unlink()
        if self.folder.exists():
            self.folder.rmdir()


def parse_checkpoint(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a generation."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return load_tensors(content), json.loads(header["__metadata__"]["state"])


class Journal:
    """An append-only log of a run; without a file it is kept in memory alone."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []

    def resume(self, step: int) -> None:
        """Take up the file of an earlier attempt, forgetting what came after `step` and any torn last line."""
        if self.path is None or not self.path.exists():
            return
        for text in self.path.read_text(encoding="utf-8").splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue
            if isinstance(line, dict) and line.get("step", 0) <= step:
                self.lines.append(line)
        write_bytes(self.path, "".join(json.dumps(line) + "\n" for line in self.lines).encode())

    def write(self, **line: Any) -> None:
        """Add a line."""
        self.lines.append(line)
        if self.path is not None:
            text = json.dumps(line) + "\n"
            with full_disk_explained(self.path, len(text)), self.path.open("a", encoding="utf-8") as stream:
                stream.write(text)

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        """The lines of one kind, in order.

        >>> journal = Journal()
        >>> journal.write(kind="step", step=1)
        >>> len(journal.of_kind("step"))
        1
        """
        return [line for line in self.lines if line.get("kind") == kind]


def loss_curves(path: Path) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """(step, loss) of training and of validation in the journal of a run, even while it is written; empty without.

    >>> loss_curves(Path("nowhere"))
    ([], [])
    """
    journal = Journal()
    for text in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            journal.lines.append(dict(json.loads(text)))
        except (ValueError, TypeError):
            # The last line may be half written.
            continue
    found = (
        [(float(line["step"]), float(line["loss"])) for line in journal.of_kind(kind) if line.get("loss") is not None]
        for kind in ("step", "validation")
    )
    return next(found), next(found)
