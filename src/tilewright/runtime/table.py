"""The table of tuned choices that a program reads in production. Imports nothing heavy.

One JSON file: ``{"schema": 1, "choices": [{operator, shape, device, triton, config, ...}]}``.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import importlib.metadata
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.errors import StoreFromNewerVersion, StoreUnusable

SCHEMA_VERSION = 1
DEFAULT_PATH = Path(".tilewright/choices.json")
_KEY = ("operator", "shape", "device", "triton")


def default_path() -> Path:
    """``TILEWRIGHT_CHOICES``, or ``.tilewright/choices.json`` below the working directory."""
    return Path(os.environ.get("TILEWRIGHT_CHOICES") or DEFAULT_PATH)


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
        """Adds or replaces an entry and writes the file, atomically; what other processes put there is kept.

        Raises:
            StoreUnusable: the folder cannot be written.
        """
        key = (operator, shape, device, triton_version())
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(self.path.parent):
                self._entries = _read(self.path)
                self._entries[key] = {"config": dict(config), **facts}
                _write(self.path, self._entries)
        except OSError as error:
            raise StoreUnusable(
                f"cannot write {self.path}: {error.strerror}", "set TILEWRIGHT_CHOICES to a writable path"
            ) from None
        active_table.cache_clear()

    def __len__(self) -> int:
        return len(self._entries)


Entries = dict[tuple[str, str, str, str], dict[str, Any]]


def _read(path: Path) -> Entries:
    remedy = "move it away, or set TILEWRIGHT_CHOICES"
    try:
        data = json.loads(path.read_text())
        if data.get("schema", 0) > SCHEMA_VERSION:
            raise StoreFromNewerVersion(f"{path} was written by a newer tilewright", "update tilewright")
        return {tuple(choice.pop(word) for word in _KEY): choice for choice in data["choices"]}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"cannot read {path}: {error}", remedy) from None
    except (AttributeError, KeyError, TypeError):
        raise StoreUnusable(f"{path} is no table of choices", remedy) from None


def _write(path: Path, entries: Entries) -> None:
    choices = [{**dict(zip(_KEY, key, strict=True)), **entry} for key, entry in sorted(entries.items())]
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps({"schema": SCHEMA_VERSION, "choices": choices}, indent=1))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """One process at a time; on file systems that know no locks, all at once."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@functools.cache
def active_table() -> Table:
    """The process's table, read once."""
    return Table()
