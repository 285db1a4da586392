"""The user's variables at a fault: named scalars that an operation depends on, with their values in one program."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from tilewright.debug.executor.tile import Tile
from tilewright.launch.ttir import Function, Op, Region

MOST = 6
_NAME = re.compile(r"%([A-Za-z_]\w*?)(?:_\d+)?$")
_MADE_UP = re.compile(r"(arg\d*|cst|true|false|c_?\d+_?i?\d*)$")

Scalar = int | float | bool


class Values(Protocol):
    """What has been computed, by SSA name: a scope of the machine."""

    def __getitem__(self, name: str) -> Tile: ...


def in_play(op: Op, functions: Mapping[str, Function], values: Values, row: int) -> dict[str, Scalar]:
    """Scalars by their names in the kernel, the nearest to the operation first.

    ``values`` holds what the operation's function has computed so far; ``row`` is the program among theirs.
    """
    function = next(f for f in functions.values() if _contains(f.region, op))
    made_by = {name: other for other in function.region.ops() for name in other.results}
    # The frontend gives all values of an assignment its name: the last one is the variable.
    last = {(other.location.name, other.location.line): other for other in function.region.ops()}
    named = dict(zip(function.arguments, function.argument_names, strict=True))
    found: dict[str, Scalar] = {}
    seen: set[str] = set()
    queue = deque(op.operands)
    while queue and len(found) < MOST:
        name = queue.popleft()
        if name in seen:
            continue
        seen.add(name)
        maker = made_by.get(name)
        is_part = maker is not None and last[maker.location.name, maker.location.line] is not maker
        if not is_part and (maker is None or maker.name != "arith.constant"):
            shown = named.get(name) or _users_name(name, maker)
            value = _scalar(values, name, row)
            if shown is not None and value is not None:
                found.setdefault(shown, value)
        if maker is not None:
            queue.extend(maker.operands)
    return found


def _users_name(name: str, maker: Op | None) -> str | None:
    if maker is not None:
        return maker.location.name
    text = _NAME.match(name)
    return text.group(1) if text and not _MADE_UP.match(text.group(1)) else None


def _scalar(values: Values, name: str, row: int) -> Scalar | None:
    try:
        tile = values[name]
    except KeyError:  # of another path, or not computed yet
        return None
    if tile.shape != () or tile.element.startswith(("ptr<", "desc<", "block<")) or tile.data.dim() != 1:
        return None
    value = tile.data[min(row, tile.data.shape[0] - 1)].item()
    return value if isinstance(value, (int, float, bool)) else None


def _contains(region: Region, op: Op) -> bool:
    return any(other is op for other in region.ops())
