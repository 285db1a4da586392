"""tilewright: from a golden PyTorch reference to a Triton kernel that is checked, measured and tuned.

Public names. Everything heavy (torch, triton) is imported when a name is first used, so that
``tilewright --help`` answers at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilewright.bench import bench as bench
from tilewright.debug import debug as debug
from tilewright.tune import tune as tune

if TYPE_CHECKING:
    from tilewright.debug.executor.execute import execute
    from tilewright.debug.repro.reproduce import write_repro
    from tilewright.hardware.targets import find as target
    from tilewright.records import Case, Config
    from tilewright.runtime.autotune import autotune
    from tilewright.spec import values
    from tilewright.spec.operator import Operator, Suppression, operator
    from tilewright.spec.space import Space

__version__ = "0.1.0"

_WHERE = {
    "Case": ("tilewright.records", "Case"),
    "Config": ("tilewright.records", "Config"),
    "Operator": ("tilewright.spec.operator", "Operator"),
    "Space": ("tilewright.spec.space", "Space"),
    "Suppression": ("tilewright.spec.operator", "Suppression"),
    "autotune": ("tilewright.runtime.autotune", "autotune"),
    "execute": ("tilewright.debug.executor.execute", "execute"),
    "operator": ("tilewright.spec.operator", "operator"),
    "target": ("tilewright.hardware.targets", "find"),
    "values": ("tilewright.spec.values", ""),
    "write_repro": ("tilewright.debug.repro.reproduce", "write_repro"),
}

__all__ = [
    "Case",
    "Config",
    "Operator",
    "Space",
    "Suppression",
    "autotune",
    "bench",
    "debug",
    "execute",
    "operator",
    "target",
    "tune",
    "values",
    "write_repro",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    module_name, attribute = _WHERE[name]
    module = importlib.import_module(module_name)
    value = getattr(module, attribute) if attribute else module
    globals()[name] = value
    return value
