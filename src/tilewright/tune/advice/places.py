"""Where in the user's code an operation stands."""

from __future__ import annotations

import linecache
import os
from collections.abc import Sequence

import triton

from tilewright.launch.ttir import Location

_TRITON = os.path.dirname(triton.__file__) + os.sep


def own_frames(location: Location) -> Sequence[Location]:
    """The places that are the user's, innermost first: Triton's own library (``tl.sum``) is written in Triton too."""
    frames = (location, *location.callers)
    return [f for f in frames if f.file is not None and f.line is not None and not f.file.startswith(_TRITON)]


def source_line(location: Location) -> str | None:
    if location.file is None or location.line is None:
        return None
    return linecache.getline(location.file, location.line).strip() or None


def called_from(location: Location) -> str:
    """Which call it is, where the user's line stands in a function that was inlined, maybe in several places."""
    frames = own_frames(location)
    return f" (called from line {frames[1].line})" if len(frames) > 1 else ""
