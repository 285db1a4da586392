"""Whether calls compute what they are timed for, looked at in rounds chosen at random while they are timed.

Before each timed call its inputs are written anew, in stream order: a call that starts too early reads old values. In
a watched round the values were others just before, outputs of the call before are filled with poison and so is memory
that the allocator may hand out next; after the call, outputs are copied in stream order and compared, and inputs too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import torch
from torch import Tensor

from tilewright.bench import blame, flags, repeats
from tilewright.bench.draws import Draws, write
from tilewright.bench.held import Held, in_memory
from tilewright.bench.repeats import Repeats
from tilewright.bench.sides import first_line
from tilewright.bench.tampering import Guard
from tilewright.bench.timer import Timer
from tilewright.errors import LauncherFailed
from tilewright.spec import golden
from tilewright.spec.inputs import Inputs
from tilewright.spec.poison import Poisoned, poison

_CHANCE = 0.3  # that a round is watched
_TIME_SHARE = 0.3  # of the time spent, that watching may take
_SPARES = 3  # blocks of each output's size that the allocator is left with poison in


class Watch:
    """Watches the sides of one plan.

    Args:
        calls: what is timed, by side.
        held: what the calls run on; a control's is that of the side it slows.
        own: names of sides that run the operator itself, of which a fault is raised at once.
    """

    def __init__(
        self,
        calls: Mapping[str, Callable[[], Any]],
        held: Mapping[str, Held],
        own: Sequence[str],
        draws: Draws,
        guard: Guard,
        timer: Timer,
        seed: int,
    ) -> None:
        self._calls, self._held, self._own = calls, held, frozenset(own)
        self._draws, self._guard, self._timer = draws, guard, timer
        self._source = Random(seed ^ 0x5EED)
        self.faults: dict[str, str] = {}
        self.notes: dict[str, str] = {}
        self.watched_calls = 0
        self._is_watching = False
        self._draw = 0
        self._coming: list[int] = []
        self._seen_draws = {0}
        self._started, self._spent = timer.now(), 0.0
        self._copies: list[Tensor] | None = None
        self._trouble: str | None = None
        self._threads: frozenset[threading.Thread] = frozenset()
        self._flags = flags.read()
        self._repeats: dict[int, Repeats] = {}
        known = draws.expected[0] or ()
        self._constant = [draws.same_for_all(i) for i in range(len(known))]

    def begin(self, *, last: bool) -> None:
        """Chooses, for a new round, the draw of inputs that all its calls get, and whether they are watched."""
        if not self._coming:
            self._coming = list(range(len(self._draws)))
            self._source.shuffle(self._coming)
        self._draw = self._coming.pop()
        if last and self._draw == 0:
            self._draw = len(self._draws) - 1  # another than in the warm-up
        is_affordable = self._spent <= _TIME_SHARE * (self._timer.now() - self._started)
        # A draw's first calls are compared with later ones, and watching makes a call's memory colder.
        is_new = self._draw not in self._seen_draws
        self._is_watching = last or (is_affordable and not is_new and self._source.random() < _CHANCE)

    def ready(self, side: str) -> None:
        """Ahead of a timed call, with time to wait."""
        if not self._is_watching or side in self.faults:
            return
        started = self._timer.now()
        held = self._held[side]
        earlier = self._source.choice([d for d in self._seen_draws if d != self._draw] or [self._draw])
        self._draws.fill(held.memory, earlier)
        self._calls[side]()
        self._poison(held)
        held.drop()
        self._draws.fill(held.memory, earlier)  # which the call may have changed, as agreed
        self._threads = frozenset(threading.enumerate())
        _wait(held)
        self._spent += self._timer.now() - started

    def before(self, side: str) -> None:
        """Queued just before the timed call."""
        self._draws.fill(self._held[side].memory, self._draw)

    def after(self, side: str) -> None:
        """Queued just behind the timed call: what the caller's stream has now is what the call gave."""
        if not self._is_watching or side in self.faults:
            return
        self._trouble, self._copies = None, None
        outputs = self._outputs(side)
        if outputs is None:
            return
        with torch._C.DisableTorchFunctionSubclass():
            self._copies = [tensor.detach().clone() for tensor in outputs]

    def done(self, side: str, seconds: float) -> None:
        """After a timed call, with time to look.

        Raises:
            LauncherFailed: the operator itself is not right.
        """
        held = self._held[side]
        if side not in self.faults:
            self._seen_draws.add(self._draw)
            if not self._is_watching:
                self._repeats.setdefault(id(held.side), Repeats()).add(self._draw, seconds)
            if held.error is not None:
                self._accuse(side, f"it raised {type(held.error).__name__}: {first_line(held.error)}")
            elif self._is_watching:
                started = self._timer.now()
                self.watched_calls += 1
                fault = self._fault(side)
                if fault is not None:
                    self._accuse(side, fault)
                self._spent += self._timer.now() - started
        changed = flags.restore(self._flags)
        if changed is not None:
            self.notes.setdefault(side, f"{side} changes the setting of {changed}: set back before every other call")
        self._copies = None
        held.drop()

    def finish(self) -> None:
        """Looks at what shows only over all calls.

        Raises:
            LauncherFailed: as :meth:`done`.
        """
        for side, held in self._held.items():
            if side in self.faults or not self._repeats.get(id(held.side), Repeats()).is_suspicious(but=0):
                continue
            gain = repeats.gain(self._trials(side))
            if gain is not None:
                self._accuse(
                    side, f"it is {gain:.1f} times as fast on values that it has seen before: it keeps answers"
                )

    def _trials(self, side: str) -> Iterator[Callable[[], float]]:
        """Each call that is timed follows one of the first draw, so that first calls and repeated ones are alike."""
        memory = self._held[side].memory
        for inputs in self._draws.further(repeats.TRIALS):  # made ahead: what making them leaves in caches is not timed

            def timed(inputs: Inputs = inputs) -> float:
                write(memory, inputs)
                self._timer.time(self._calls[side], partial(self._draws.fill, memory, 0))
                return self._timer.time(self._calls[side], partial(write, memory, inputs)).seconds

            yield timed

    def _outputs(self, side: str) -> list[Tensor] | None:
        held, expected = self._held[side], self._draws.expected[self._draw]
        if expected is None:
            return None
        outputs = held.outputs(len(expected))
        if outputs is None:
            self._trouble = f"it returned {type(held.result).__name__}, not tensors"
            return None
        found = [in_memory(tensor) for tensor in outputs]
        if any(tensor is None for tensor in found):
            self._trouble = (
                f"it returned a {type(held.result).__name__} whose values are in no memory: its work comes later"
            )
            return None
        return [tensor for tensor in found if tensor is not None]

    def _fault(self, side: str) -> str | None:
        held, expected = self._held[side], self._draws.expected[self._draw]
        replaced = self._guard.replaced()
        if replaced is not None:
            return f"it replaces {replaced}, which timing rests on"
        _wait(held)
        if self._trouble is not None:
            return self._trouble
        if expected is not None and self._copies is not None:
            is_own = side in self._own
            right = expected if is_own else expected[: len(self._copies)]
            kind = blame.other_kind(self._copies, right) if is_own else None
            if kind is not None:
                return kind
            if not blame.worst(self._copies, right) <= 1:
                others = [e for d, e in enumerate(self._draws.expected) if d != self._draw and e is not None]
                now = partial(self._now, side)
                return blame.name(self._copies, now, partial(self._poisoned, side), right, others, self._threads)
        mutated = self._draws.changed(held.memory, self._draw, held.mutates) if len(self._draws) > 1 else None
        return None if mutated is None else f"it changes its input {mutated}, which it does not declare"

    def _now(self, side: str) -> list[Tensor]:
        return self._outputs(side) or []

    def _poisoned(self, side: str) -> list[Tensor]:
        self._draws.fill(self._held[side].memory, self._draw)
        with Poisoned():
            self._calls[side]()
        return self._now(side)

    def _accuse(self, side: str, fault: str) -> None:
        self.faults[side] = fault
        if side in self._own:
            raise LauncherFailed(f"not right while timed: {fault}")

    def _poison(self, held: Held) -> None:
        """Fills what a call gave, and some memory that may be handed out next."""
        for index, tensor in enumerate(golden.as_tensors(held.result) or ()):
            plain = in_memory(tensor)
            if plain is None or plain.is_sparse or (index < len(self._constant) and self._constant[index]):
                continue
            with torch.no_grad():
                spares = [torch.empty_like(plain) for _ in range(_SPARES)]
                for one in (plain.detach(), *spares):
                    _poison_or_leave(one)


def _poison_or_leave(tensor: Tensor) -> None:
    try:
        poison(tensor)
    except RuntimeError:  # elements that share one address
        return


def _wait(held: Held) -> None:
    if any(tensor.is_cuda for tensor in held.memory.tensors.values()):
        torch.cuda.synchronize()
