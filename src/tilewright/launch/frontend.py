"""Lowering many launches of few kernels: what differs in options that the frontend does not read is lowered once.

Which options it reads is seen while it works, as it differs between Triton's versions and between kernels; ``num_warps``
and ``num_stages`` are none of them as a rule, so that a space has several times fewer modules than configurations.
"""

from __future__ import annotations

from typing import Any

from tilewright.hardware.target import Target
from tilewright.launch.compile import Lowered, specialise
from tilewright.launch.launch import Launch

_MISSING = object()


class Frontend:
    """Lowers launches for one Target. Kernels, and globals that they use, must stay as they are meanwhile."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._known: dict[tuple[Any, ...], list[tuple[dict[str, Any], str]]] = {}

    def lower(self, launch: Launch) -> Lowered:
        """Frontend TTIR of a launch as a program makes it: with ``debug`` where its kernel has that on.

        Raises:
            KernelCompileError: Triton rejects the kernel; the message has the user's line.
        """
        one = specialise(launch, self._target, debug=bool(getattr(launch.kernel, "debug", False)))
        modules = self._known.setdefault(one.key_but_options, [])
        for read, ttir in modules:
            if all(getattr(one.options, name, _MISSING) == value for name, value in read.items()):
                return one.lowered(ttir)
        options = _Read(one.options)
        ttir = one.ttir(options)
        modules.append((object.__getattribute__(options, "read"), ttir))
        return one.lowered(ttir)


class _Read:
    """Options that remember what was asked of them; who asks for all of them, by ``vars``, is given all."""

    def __init__(self, options: Any) -> None:
        object.__setattr__(self, "options", options)
        object.__setattr__(self, "read", {})

    def __getattribute__(self, name: str) -> Any:
        value = getattr(object.__getattribute__(self, "options"), name)
        if not name.startswith("__") or name == "__dict__":
            object.__getattribute__(self, "read")[name] = value
        return value
