"""The operations that the checked executor knows, a family a file; adding one is adding to its family's table."""

from tilewright.debug.executor.machine import Handler
from tilewright.debug.executor.ops import (
    atomic,
    block,
    control,
    dot,
    floating,
    host,
    integer,
    load,
    maths,
    pointer,
    polling,
    reduction,
    shape,
    store,
)

HANDLERS: dict[str, Handler] = {
    **integer.OPS,
    **floating.OPS,
    **maths.OPS,
    **shape.OPS,
    **reduction.OPS,
    **dot.OPS,
    **pointer.OPS,
    **load.OPS,
    **store.OPS,
    **atomic.OPS,
    **block.OPS,
    **host.OPS,
    **polling.OPS,
}
REGION_HANDLERS = {**control.REGION_OPS, **polling.REGION_OPS}
