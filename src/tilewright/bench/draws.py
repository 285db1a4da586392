"""Several draws of one case's inputs, and what is right for each.

A call that is always given the same values may have kept its answer. Values are changed where they lie: addresses, and
the tensors themselves, stay the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from tilewright.errors import ReferenceFailed
from tilewright.launch.host import inputs_of
from tilewright.records import Case
from tilewright.spec import golden
from tilewright.spec.golden import Expected
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

DRAWS = 4
_SEED_STEP = 1_000_003
_SECONDS = 5.0  # for making further draws
_FREE_SHARE = 0.2  # of the free memory, for draws and what is right for them


@dataclass
class Draws:
    """Inputs that differ in their values alone; ``expected`` is None without a reference. ``make`` gives those of a
    number; ``note`` says why there are fewer than wanted."""

    inputs: list[Inputs]
    expected: list[tuple[Expected, ...] | None]
    make: Callable[[int], Inputs]
    note: str | None = None
    _flat: dict[int, list[Tensor]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.inputs)

    def fill(self, memory: Inputs, draw: int) -> None:
        """Puts a draw's values into memory laid out alike."""
        _copy(memory, self._bytes(memory), self._bytes(self.inputs[draw]))

    def further(self, count: int) -> list[Inputs]:
        """Draws that no call has seen; none where values do not vary."""
        return [self.make(DRAWS + i) for i in range(count)] if len(self) > 1 else []

    def changed(self, memory: Inputs, draw: int, allowed: Sequence[str]) -> str | None:
        """The argument whose memory no longer holds a draw's values, but for those that may change."""
        mutable = {_address(memory.tensors[name]) for name in allowed}
        for name, tensor in memory.tensors.items():
            if _address(tensor) not in mutable and not torch.equal(
                as_bytes(tensor), as_bytes(self.inputs[draw].tensors[name])
            ):
                return name
        return None

    def same_for_all(self, output: int) -> bool:
        """Whether an output does not depend on the values drawn: it may be a constant that is kept."""
        known = [expected[output].values for expected in self.expected if expected is not None]
        return len(known) > 1 and all(torch.equal(known[0], values) for values in known[1:])

    def _bytes(self, inputs: Inputs) -> list[Tensor]:
        if id(inputs) not in self._flat:
            self._flat[id(inputs)] = _bytes_of(inputs)
        return self._flat[id(inputs)]


def write(memory: Inputs, values: Inputs) -> None:
    """Puts values into memory laid out alike."""
    _copy(memory, _bytes_of(memory), _bytes_of(values))


def _copy(memory: Inputs, targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    for target, source in zip(targets, sources, strict=True):
        target.copy_(source)
    # Bytes were written behind the tensors' backs, and their version is how PyTorch tells of a write.
    torch.autograd.graph.increment_version(list(memory.tensors.values()))


def _bytes_of(inputs: Inputs) -> list[Tensor]:
    """All memory of the inputs, each part once."""
    storages = {_address(tensor): tensor for tensor in inputs.tensors.values() if _address(tensor)}
    return [as_bytes(tensor) for tensor in storages.values()]


def as_bytes(tensor: Tensor) -> Tensor:
    """All memory that a tensor lies in, whatever part of it the tensor shows."""
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(tensor.detach().untyped_storage())


def _address(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def draw(
    operator: Operator,
    case: Case,
    first: Inputs,
    expected: tuple[Expected, ...] | None,
    golden_dtype: torch.dtype,
    free_bytes: float,
) -> Draws:
    """The first draw, and further ones as memory and time allow."""
    device = next((tensor.device for tensor in first.tensors.values()), torch.device("cpu"))

    def make(number: int) -> Inputs:
        other = replace(case, seed=case.seed + _SEED_STEP * number)
        return inputs_of(operator, other, str(device)).map(lambda tensor: tensor.detach())

    draws = Draws([first], [expected], make)
    if expected is None:
        draws.note = "there is no reference: what timed calls return is not checked"
        return draws
    if len(draws) * _footprint(first, expected) > _FREE_SHARE * free_bytes:
        draws.note = "inputs have the same values in every call: the memory is too small for more"
        return draws
    started = time.monotonic()
    while len(draws) < DRAWS and time.monotonic() - started < _SECONDS:
        if len(draws) * _footprint(first, expected) > _FREE_SHARE * free_bytes:
            break
        inputs = make(len(draws))
        if not _alike(first, inputs):
            draws.note = "inputs have the same values in every call: another seed gives other shapes"
            break
        try:
            right = golden.expect_like(
                expected, operator.reference, inputs, mutates=operator.mutates, label=case.label, golden_dtype=golden_dtype
            )  # fmt: skip
        except ReferenceFailed:
            break
        draws.inputs.append(inputs)
        draws.expected.append(right)
    return draws


def _footprint(inputs: Inputs, expected: Sequence[Expected]) -> int:
    own = sum(tensor.numel() * tensor.element_size() for tensor in inputs.tensors.values())
    return own + sum(3 * 8 * one.values.numel() for one in expected)


def _alike(first: Inputs, other: Inputs) -> bool:
    """Whether two draws could take each other's place: all but the values is the same."""

    def layout(inputs: Inputs) -> list[object]:
        named = [*enumerate(inputs.args), *inputs.kwargs.items()]
        return [
            (name, tuple(v.shape), v.stride(), v.storage_offset(), v.dtype, v.untyped_storage().nbytes())
            if isinstance(v, Tensor)
            else (name, repr(v))
            for name, v in named
        ]

    return layout(first) == layout(other)
