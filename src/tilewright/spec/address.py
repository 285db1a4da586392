"""How processes name operators to each other; imports nothing heavy, so that one who only asks stays quick."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KernelCall:
    """Example arguments for a bare kernel, as Python text evaluated where the kernel was written."""

    arguments: str
    grid: str


@dataclass(frozen=True)
class Address:
    """How a child process finds an operator: by file and name, or rebuilt from named parts."""

    origin: str
    call: KernelCall | None = None
    parts: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Named:
    """An operator that another process has imported."""

    name: str
    address: Address
