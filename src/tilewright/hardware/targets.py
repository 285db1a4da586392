"""The table of targets, and how a name becomes one of them.

The figures are in ``nvidia.py`` and ``amd.py``, one entry a board.
"""

from __future__ import annotations

import difflib
import re

from tilewright.errors import UnknownTarget
from tilewright.hardware import amd, nvidia
from tilewright.hardware.target import Target

_TARGETS: tuple[Target, ...] = (*nvidia.TARGETS, *amd.TARGETS)

# Words of a device's name that say who made it, not what it is.
_MAKERS = frozenset({"nvidia", "geforce", "tesla", "amd", "instinct", "gpu"})

_CAPABILITY = re.compile(r"(?:cuda|sm|compute|cc)?(\d{2,3})[af]?")


def all_targets() -> tuple[Target, ...]:
    """Every target in the table, NVIDIA's first, older before newer."""
    return _TARGETS


def find(name: str) -> Target:
    """The target that ``name`` means.

    A name is a target's own (``h100``, ``RTX 4090``, ``4090``, ``mi300``), an arch's (``sm_90``, ``90``, ``cuda:90``,
    ``gfx942``), which stands for the first target of that arch, or a device's as its driver tells it (``NVIDIA
    A100-SXM4-80GB``). Of a device's name every word must be accounted for: an ``A100-SXM4-40GB`` or an ``RTX 4090
    Laptop GPU`` is another board, with other peaks, and is refused rather than judged by the wrong ones.

    Raises:
        UnknownTarget: naming the closest entries and all there are.
    """
    words = re.findall(r"[a-z0-9]+", re.sub(r"(\d)\s+gb\b", r"\1gb", str(name).lower()))
    key = [word for word in words if word not in _MAKERS]
    for target in _TARGETS:
        if "".join(word for word in key if word not in target.board) in _names(target):
            return target
    arch = _arch(words)
    for target in _TARGETS:
        if target.arch == arch:
            return target
    raise UnknownTarget(f"no target is named {str(name)!r}", _remedy(key))


def find_all(names: str) -> tuple[Target, ...]:
    """The targets of a list such as ``"a100,h100"``, in its order, each once.

    Raises:
        UnknownTarget: for the first name that is none, or if there is no name.
    """
    asked = [name.strip() for name in names.split(",") if name.strip()]
    return tuple({target.name: target for target in map(find, asked or [""])}.values())


def _names(target: Target) -> tuple[str, ...]:
    return (target.name, *target.aliases)


def _arch(words: list[str]) -> str | None:
    """``sm_90`` of ``["cuda", "90"]``; ``gfx942`` also of ``gfx942:sramecc+:xnack-``, as PyTorch on ROCm names it."""
    gfx = [word for word in words if word.startswith("gfx")]
    if gfx:
        return gfx[0]
    number = _CAPABILITY.fullmatch("".join(words))
    return f"sm_{number[1]}" if number else None


def _remedy(key: list[str]) -> str:
    close = _close(key)
    hint = f"did you mean {' or '.join(f'{target.name} ({target.title})' for target in close)}? " if close else ""
    archs = dict.fromkeys(target.arch for target in _TARGETS)
    return f"{hint}known are {', '.join(target.name for target in _TARGETS)}, and by arch {', '.join(archs)}"


def _close(key: list[str]) -> list[Target]:
    """Up to three targets that ``key`` resembles, closest first."""
    # Another board of the same chip shares a word with it, however many words stand around it.
    close = [target for target in _TARGETS if any(name in key for name in _names(target))]
    by_name = {
        name: target for target in reversed(_TARGETS) for name in (*_names(target), target.arch.replace("_", ""))
    }
    close += [by_name[name] for name in difflib.get_close_matches("".join(key), by_name, n=3, cutoff=0.6)]
    return list({target.name: target for target in close}.values())[:3]
