"""The table of tuned choices that a program reads in production. Imports nothing heavy.

One JSON file: ``{"schema": 1, "choices": [{operator, shape, device, triton, config, ...}]}``.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from pathlib import Path
from typing import Any

from tilewright.errors import StoreFromNewerVersion, StoreUnusable

SCHEMA_VERSION = 1
DEFAULT_PATH = Path(".tilewright/choices.json")


def default_path() -> Path:
    """``TILEWRIGHT_CHOICES``, or ``.tilewright/choices.json`` below the working directory."""
    return Path(os.environ.get("TILEWRIGHT_CHOICES", DEFAULT_PATH))


@functools.cache
def triton_version() -> str:
    """The installed Triton's version without importing it: best configurations change between versions."""
    for name in ("triton", "pytorch-triton-rocm", "triton-windows"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return "none"


class Table:
    """Tuned configurations by (operator, shape key, device name, Triton version)."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._entries = _read(self.path)

    def find(self, operator: str, shape: str, device: str) -> dict[str, Any] | None:
        """The tuned configuration for exactly this shape on this device, or None."""
        entry = self._entries.get((operator, shape, device, triton_version()))
        return dict(entry["config"]) if entry else None

    def put(self, operator: str, shape: str, device: str, config: dict[str, Any], **facts: Any) -> None:
        """Adds or replaces an entry and writes the file, atomically.

        Raises:
            StoreUnusable: the folder cannot be written.
        """
        key = (operator, shape, device, triton_version())
        self._entries[key] = {"config": dict(config), **facts}
        choices = [
            {"operator": o, "shape": s, "device": d, "triton": t, **entry}
            for (o, s, d, t), entry in sorted(self._entries.items())
        ]
        text = json.dumps({"schema": SCHEMA_VERSION, "choices": choices}, indent=1)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            draft = self.path.with_suffix(f".{os.getpid()}.tmp")
            draft.write_text(text)
            draft.replace(self.path)
        except OSError as error:
            raise StoreUnusable(
                f"cannot write {self.path}: {error.strerror}", "set TILEWRIGHT_CHOICES to a writable path"
            ) from None
        active_table.cache_clear()

    def __len__(self) -> int:
        return len(self._entries)


def _read(path: Path) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    try:
        data = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"cannot read {path}: {error}", "move it away, or set TILEWRIGHT_CHOICES") from None
    if data.get("schema", 0) > SCHEMA_VERSION:
        raise StoreFromNewerVersion(f"{path} was written by a newer tilewright", "update tilewright")
    entries = {}
    for choice in data["choices"]:
        key = (choice.pop("operator"), choice.pop("shape"), choice.pop("device"), choice.pop("triton"))
        entries[key] = choice
    return entries


@functools.cache
def active_table() -> Table:
    """The process's table, read once."""
    return Table()
