"""Operations on whole tiles as Triton functions of a tile and a parameter."""

import triton
import triton.language as tl


@triton.jit
def tile_kernel(x_ptr, out_ptr, OP: tl.constexpr, PARAM: tl.constexpr, SHAPE: tl.constexpr, N: tl.constexpr):
    program = tl.program_id(0)
    x = tl.reshape(tl.load(x_ptr + program * N + tl.arange(0, N)), SHAPE)
    y = OP(x, PARAM)
    if y.numel == 1:
        tl.store(out_ptr + program + tl.arange(0, 1), y)
    else:
        tl.store(out_ptr + program * y.numel + tl.arange(0, y.numel), tl.reshape(y, (y.numel,)))


@triton.jit
def spread_kernel(x_ptr, out_ptr, OP: tl.constexpr, PARAM: tl.constexpr, SHAPE: tl.constexpr, N: tl.constexpr):
    """A tile that is the same along its last axis, and in all programs."""
    x = tl.load(x_ptr + tl.arange(0, SHAPE[0]))
    y = OP(tl.broadcast_to(x[:, None], SHAPE), PARAM)
    if y.numel == 1:
        tl.store(out_ptr + tl.program_id(0) + tl.arange(0, 1), y)
    else:
        tl.store(out_ptr + tl.program_id(0) * y.numel + tl.arange(0, y.numel), tl.reshape(y, (y.numel,)))


@triton.jit
def total(x, AXIS: tl.constexpr):
    return tl.sum(x, AXIS)


@triton.jit
def total_kept(x, AXIS: tl.constexpr):
    return tl.sum(x, AXIS, keep_dims=True)


@triton.jit
def most(x, AXIS: tl.constexpr):
    return tl.max(x, AXIS)


@triton.jit
def fewest(x, AXIS: tl.constexpr):
    return tl.min(x, AXIS)


@triton.jit
def xor(x, AXIS: tl.constexpr):
    return tl.xor_sum(x, AXIS)


@triton.jit
def either(x, AXIS: tl.constexpr):
    return tl.reduce_or(x, AXIS)


@triton.jit
def first_most(x, AXIS: tl.constexpr):
    return tl.argmax(x, AXIS)


@triton.jit
def first_fewest(x, AXIS: tl.constexpr):
    return tl.argmin(x, AXIS)


@triton.jit
def some_most(x, AXIS: tl.constexpr):
    """The value where any index of the greatest may come back."""
    value, _ = tl.max(x, AXIS, return_indices=True, return_indices_tie_break_left=False)
    return value


@triton.jit
def _last(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def last_set(x, AXIS: tl.constexpr):
    return tl.reduce(x, AXIS, _last)


@triton.jit
def last_set_so_far(x, AXIS: tl.constexpr):
    return tl.associative_scan(x, AXIS, _last)


@triton.jit
def last_set_behind(x, AXIS: tl.constexpr):
    return tl.associative_scan(x, AXIS, _last, reverse=True)


@triton.jit
def _affine(a, b, c, d):
    """First ``a * t + b``, then ``c * t + d``: it does not commute."""
    return a * c, b * c + d


@triton.jit
def composed(x, AXIS: tl.constexpr):
    factor, summand = tl.reduce((x, x ^ 5), AXIS, _affine)
    return factor * 31 + summand


@triton.jit
def composed_so_far(x, AXIS: tl.constexpr):
    factor, summand = tl.associative_scan((x, x ^ 5), AXIS, _affine)
    return factor * 31 + summand


@triton.jit
def composed_behind(x, AXIS: tl.constexpr):
    factor, summand = tl.associative_scan((x, x ^ 5), AXIS, _affine, reverse=True)
    return factor * 31 + summand


@triton.jit
def _branching(a, b):
    """A combine function with control flow of its own."""
    if a > b:
        result = a
    else:
        result = b
    return result


@triton.jit
def most_by_branch(x, AXIS: tl.constexpr):
    return tl.reduce(x, AXIS, _branching)


@triton.jit
def running_total(x, AXIS: tl.constexpr):
    return tl.cumsum(x, AXIS)


@triton.jit
def running_total_behind(x, AXIS: tl.constexpr):
    return tl.cumsum(x, AXIS, reverse=True)


@triton.jit
def running_product(x, AXIS: tl.constexpr):
    return tl.cumprod(x, AXIS)


@triton.jit
def ascending(x, AXIS: tl.constexpr):
    return tl.sort(x, AXIS)


@triton.jit
def descending(x, AXIS: tl.constexpr):
    return tl.sort(x, AXIS, descending=True)


@triton.jit
def top(x, K: tl.constexpr):
    return tl.topk(x, K)


@triton.jit
def flipped(x, AXIS: tl.constexpr):
    return tl.flip(x, AXIS)


@triton.jit
def permuted(x, ORDER: tl.constexpr):
    return tl.permute(x, ORDER[0], ORDER[1], ORDER[2])


@triton.jit
def transposed(x, NOTHING: tl.constexpr):
    return tl.trans(x)


@triton.jit
def reshaped(x, SHAPE: tl.constexpr):
    return tl.reshape(x, SHAPE) * 1


@triton.jit
def viewed(x, SHAPE: tl.constexpr):
    return tl.reshape(tl.view(x, SHAPE), x.shape)


@triton.jit
def raveled(x, NOTHING: tl.constexpr):
    return tl.ravel(x)


@triton.jit
def halves_apart(x, NOTHING: tl.constexpr):
    a, b = tl.split(x)
    return tl.join(b, a)


@triton.jit
def interleaved(x, NOTHING: tl.constexpr):
    return tl.interleave(x, x + 1)


@triton.jit
def joined(x, NOTHING: tl.constexpr):
    return tl.join(x, x + 1)


@triton.jit
def joined_uniform(x, NOTHING: tl.constexpr):
    """A tile that differs beside one that is the same everywhere."""
    return tl.join(x, tl.full(x.shape, 3, x.dtype))


@triton.jit
def catenated(x, NOTHING: tl.constexpr):
    return tl.sort(tl.cat(x, x + 1, can_reorder=True))


@triton.jit
def gathered(x, AXIS: tl.constexpr):
    return tl.gather(x, x.to(tl.int32) & (x.shape[AXIS] - 1), AXIS)


@triton.jit
def counted(x, BINS: tl.constexpr):
    return tl.histogram(x.to(tl.int32) & (BINS - 1), BINS)


@triton.jit
def counted_under_mask(x, BINS: tl.constexpr):
    return tl.histogram(x.to(tl.int32) & (BINS - 1), BINS, mask=x.to(tl.int32) % 3 == 0)


@triton.jit
def counted_uniform(x, BINS: tl.constexpr):
    """The same values in all programs, under masks that differ."""
    values = tl.arange(0, x.shape[0]) & (BINS - 1)
    return tl.histogram(values, BINS, mask=x.to(tl.int32) % 3 == 0)


@triton.jit
def stretched(x, NOTHING: tl.constexpr):
    return tl.broadcast_to(tl.expand_dims(x, 1), (x.shape[0], 4, x.shape[1]))


@triton.jit
def soft(x, NOTHING: tl.constexpr):
    return tl.softmax(x)
