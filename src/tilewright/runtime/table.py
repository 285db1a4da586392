"""The table of tuned choices that a program reads in production. Imports nothing heavy.

One JSON file: ``{"schema": 2, "choices": [{operator, shape, device, triton, config, ...}], "kernels": [{kernel, source,
key, dtypes, device, triton, config, ...}]}``. ``choices`` are of operators with a space of their own, ``kernels`` of
kernels under ``@tw.autotune``. Files of schema 1 have no kernels.
"""

from __future__ import annotations

import functools
import importlib.metadata
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.errors import StoreFromNewerVersion, StoreUnusable
from tilewright.runtime.lock import alone

SCHEMA_VERSION = 2
DEFAULT_PATH = Path(".tilewright/choices.json")
_OPERATOR_KEY = ("operator", "shape", "device", "triton")
_KERNEL_KEY = ("kernel", "source", "device", "triton", "key", "dtypes")


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


@dataclass(frozen=True)
class KernelKey:
    """What a choice for a kernel under ``@tw.autotune`` holds for.

    ``source`` is the hash of the kernel's text (``runtime/source.py``), ``key`` holds the arguments that the
    decorator's ``key=`` names, ``dtypes`` those of all tensors in order, ``device`` is the board by name.
    """

    kernel: str
    source: str
    key: Mapping[str, Any]
    dtypes: tuple[str, ...]
    device: str

    @property
    def words(self) -> tuple[str, ...]:
        """As the table keeps it, with this Triton's version."""
        key = json.dumps(as_json(self.key), sort_keys=True)
        return (self.kernel, self.source, self.device, triton_version(), key, json.dumps(self.dtypes))


@dataclass
class _Entries:
    operators: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)
    kernels: dict[tuple[str, ...], dict[str, Any]] = field(default_factory=dict)


class Table:
    """Tuned configurations by (operator, shape key, device name, Triton version), and of kernels by their keys."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or default_path()
        self._entries = _read(self.path)

    def find(self, operator: str, shape: str, device: str) -> dict[str, Any] | None:
        """The tuned configuration for exactly this shape on this device, or None."""
        entry = self._entries.operators.get((operator, shape, device, triton_version()))
        return dict(entry["config"]) if entry else None

    def put(self, operator: str, shape: str, device: str, config: Mapping[str, Any], **facts: Any) -> None:
        """Adds or replaces an entry and writes the file, atomically; what other processes put there is kept.

        Raises:
            StoreUnusable: the folder cannot be written.
        """
        key = (operator, shape, device, triton_version())
        self._change(lambda entries: entries.operators.update({key: {"config": dict(config), **facts}}))

    def find_kernel(self, key: KernelKey) -> dict[str, Any] | None:
        """The tuned configuration of a kernel for exactly this key, or None."""
        entry = self._entries.kernels.get(key.words)
        return dict(entry["config"]) if entry else None

    def alike(self, key: KernelKey) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Keys and configurations tuned for the same kernel, source, dtypes, device and Triton, in the file's order."""
        *same, _, dtypes = key.words
        return [
            (json.loads(words[-2]), dict(entry["config"]))
            for words, entry in self._entries.kernels.items()
            if list(words[:-2]) == same and words[-1] == dtypes
        ]

    def put_kernel(self, key: KernelKey, config: Mapping[str, Any], **facts: Any) -> None:
        """Adds or replaces the choice for a kernel, as ``put`` does.

        Raises:
            StoreUnusable: the folder cannot be written.
        """
        self._change(lambda entries: entries.kernels.update({key.words: {"config": as_json(config), **facts}}))

    def _change(self, change: Callable[[_Entries], None]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with alone(self.path.parent):
                self._entries = _read(self.path)
                change(self._entries)
                _write(self.path, self._entries)
        except OSError as error:
            raise StoreUnusable(
                f"cannot write {self.path}: {error.strerror}", "set TILEWRIGHT_CHOICES to a writable path"
            ) from None
        active_table.cache_clear()

    def __len__(self) -> int:
        return len(self._entries.operators) + len(self._entries.kernels)


def _read(path: Path) -> _Entries:
    remedy = "move it away, or set TILEWRIGHT_CHOICES"
    try:
        data = json.loads(path.read_text())
        if data.get("schema", 0) > SCHEMA_VERSION:
            raise StoreFromNewerVersion(f"{path} was written by a newer tilewright", "update tilewright")
        operators = {tuple(entry.pop(word) for word in _OPERATOR_KEY): entry for entry in data["choices"]}
        kernels = {_kernel_words(entry): entry for entry in data.get("kernels", ())}
        return _Entries(operators, kernels)
    except FileNotFoundError:
        return _Entries()
    except (OSError, ValueError) as error:
        raise StoreUnusable(f"cannot read {path}: {error}", remedy) from None
    except (AttributeError, KeyError, TypeError):
        raise StoreUnusable(f"{path} is no table of choices", remedy) from None


def _kernel_words(entry: dict[str, Any]) -> tuple[str, ...]:
    """The key of a kernel's entry, which is left without it."""
    *words, key, dtypes = (entry.pop(word) for word in _KERNEL_KEY)
    return (*words, json.dumps(key, sort_keys=True), json.dumps(dtypes))


def _write(path: Path, entries: _Entries) -> None:
    choices = [
        {**dict(zip(_OPERATOR_KEY, key, strict=True)), **entry} for key, entry in sorted(entries.operators.items())
    ]
    kernels = []
    for (*words, key, dtypes), entry in sorted(entries.kernels.items()):
        parts = [*words, json.loads(key), json.loads(dtypes)]
        kernels.append({**dict(zip(_KERNEL_KEY, parts, strict=True)), **entry})
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        draft.write_text(json.dumps({"schema": SCHEMA_VERSION, "choices": choices, "kernels": kernels}, indent=1))
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a key or a configuration as the table has them: scalars by their item, what JSON has not by its text."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(value)


@functools.cache
def active_table() -> Table:
    """The process's table, read once."""
    return Table()
