"""The state of a run on disk: safetensors, written whole, two generations kept, found again by hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensors_as_bytes
from torch import Tensor

from adapcla.errors import AdapclaError
from adapcla.files import crash_point, sha256_of, write_bytes, write_json

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
        return None if content is None else opened(content)

    def clear(self) -> None:
        """Remove all generations."""
        for path in self.folder.glob("*"):
            path.unlink()
        if self.folder.exists():
            self.folder.rmdir()


def opened(content: bytes) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and state of a generation."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return load_tensors(content), json.loads(header["__metadata__"]["state"])
