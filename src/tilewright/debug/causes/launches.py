"""Edits to how kernels are launched: arguments that took each other's place, strides of another tensor, small grids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tilewright.debug.causes.change import Edits, OfLaunch
from tilewright.launch.launch import Launch

_MOST_STRIDES = 24


@dataclass(frozen=True)
class Swapped(OfLaunch):
    """Two arguments of a kernel that took each other's place: strides of one tensor."""

    kernel: str
    first: str
    second: str
    cause = "wrong-stride"

    def applied(self, edits: Edits, launch: Launch) -> Launch:
        arguments = dict(launch.arguments)
        if launch.name != self.kernel or not {self.first, self.second} <= arguments.keys():
            return launch
        if arguments[self.first] != arguments[self.second]:
            edits.took_effect(self)
        arguments[self.first], arguments[self.second] = arguments[self.second], arguments[self.first]
        return replace(launch, arguments=arguments)


@dataclass(frozen=True)
class StrideOf(OfLaunch):
    """An argument that should be a stride of a tensor, and is something else."""

    kernel: str
    argument: str
    tensor: str
    dim: int
    cause = "wrong-stride"

    def applied(self, edits: Edits, launch: Launch) -> Launch:
        tensor = launch.tensors.get(self.tensor)
        if launch.name != self.kernel or tensor is None or self.dim >= tensor.dim():
            return launch
        stride = tensor.stride(self.dim)
        if launch.arguments.get(self.argument) == stride:
            return launch
        edits.took_effect(self)
        return replace(launch, arguments={**launch.arguments, self.argument: stride})


@dataclass(frozen=True)
class Contiguous(OfLaunch):
    """A tensor that has gaps or is transposed, handed over as a contiguous copy; ``position`` is the parameter's."""

    kernel: str
    tensor: str
    position: int
    cause = "not-contiguous"

    def applied(self, edits: Edits, launch: Launch) -> Launch:
        tensor = launch.tensors.get(self.tensor)
        if launch.name != self.kernel or tensor is None or tensor.is_contiguous():
            return launch
        edits.took_effect(self)
        return replace(launch, arguments={**launch.arguments, self.tensor: tensor.contiguous()})


@dataclass(frozen=True)
class LargerGrid(OfLaunch):
    """More programs along an axis."""

    kernel: str
    axis: int
    times: int
    more: int
    cause = "grid-too-small"

    def applied(self, edits: Edits, launch: Launch) -> Launch:
        if launch.name != self.kernel:
            return launch
        edits.took_effect(self)
        grid = list(launch.grid)
        grid[self.axis] = grid[self.axis] * self.times + self.more
        return replace(launch, grid=(grid[0], grid[1], grid[2]))


def of_arguments(launch: Launch) -> list[OfLaunch]:
    """Strides that could have changed places, or be another tensor's."""
    integers = {n: v for n, v in launch.arguments.items() if isinstance(v, int) and not isinstance(v, bool)}
    integers = {n: v for n, v in integers.items() if n not in launch.constexprs}
    return [*_swapped(launch, integers), *list(_strides(launch, integers))[:_MOST_STRIDES]]


def _swapped(launch: Launch, integers: dict[str, int]) -> Iterator[Swapped]:
    for first, a in integers.items():
        for second, b in integers.items():
            strides = (set(tensor.stride()) for tensor in launch.tensors.values() if tensor.dim() > 1)
            if first < second and a != b and any({a, b} <= own for own in strides):
                yield Swapped(launch.name, first, second)


def _strides(launch: Launch, integers: dict[str, int]) -> Iterator[StrideOf]:
    sizes = {size for tensor in launch.tensors.values() for size in tensor.shape if size > 1}
    for argument, value in integers.items():
        if value in sizes:
            continue
        for name, tensor in launch.tensors.items():
            # Of arguments that are no stride of a tensor at all, the ones that could be meant for it.
            for dim, stride in enumerate(tensor.stride()):
                if stride != value and tensor.shape[dim] > 1:
                    yield StrideOf(launch.name, argument, name, dim)


def of_tensors(launch: Launch) -> list[OfLaunch]:
    """Tensors that a kernel may take to be contiguous, and that are not."""
    names = list(launch.arguments)
    gaps = [n for n, t in launch.tensors.items() if not t.is_contiguous() and n in names]
    return [Contiguous(launch.name, name, names.index(name)) for name in gaps]


def of_grid(launch: Launch) -> list[LargerGrid]:
    """Grids with more programs, along axes that have several or are the first."""
    axes = [axis for axis, size in enumerate(launch.grid) if size > 1 or axis == 0]
    return [LargerGrid(launch.name, axis, *larger) for axis in axes for larger in ((1, 1), (2, 0), (4, 0))]
