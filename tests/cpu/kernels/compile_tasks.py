"""Stand-ins for the compile task, with the accidents that compilers have."""

import os
import sys
import time

from tilewright.launch.pipeline import compile_ttir


def abort_for_sums(emit, *, ttir, **arguments):
    """A compiler that aborts on one kernel."""
    if "sum_kernel" in ttir:
        os.abort()
    return compile_ttir(emit, ttir=ttir, **arguments)


def hang(emit, **arguments):
    time.sleep(60)


def with_modules(emit, **arguments):
    """What a compile worker has loaded, in place of its texts."""
    resources, _ = compile_ttir(emit, **arguments)
    return resources, {name: name in sys.modules for name in ("torch", "numpy", "captured")}
