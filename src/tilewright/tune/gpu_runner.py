"""Measuring in children that may be killed, one for each GPU: a configuration that crashes or hangs costs itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.errors import StoreUnusable, TilewrightError
from tilewright.hardware import clocks
from tilewright.launch import kept
from tilewright.launch.compile import COMPILE_LIMITS
from tilewright.launch.kept import Kept
from tilewright.process import Limits
from tilewright.records import Case, Config
from tilewright.spec.address import Address
from tilewright.tune.crew import Crew, Job, Jobs
from tilewright.tune.runner import Measured, Outcome
from tilewright.wording import count

PREPARING_SECONDS = 300.0
"""For importing the operator, its inputs and its golden results."""
_PATIENCE = 10.0  # times the longest Trial so far


@dataclass(frozen=True)
class Measuring:
    """How a case is measured: seconds of timing a configuration and of the duel, and what a child may use.

    ``limit_seconds`` of a Trial are those of a kernel that does not end. ``tasks`` is the module whose functions
    ``prepare``, ``measure`` and ``duel`` the children run, ``more`` what its ``prepare`` is given besides. ``kernels`` are
    those of each configuration that is compiled, by its index.
    """

    address: Address
    case: Case
    regime: str = "cold"
    seconds: float = 0.05
    limit_seconds: float = 20.0
    memory_bytes: int = 100 * 2**30
    tasks: str = "tilewright.tune.measure"
    more: Mapping[str, Any] = field(default_factory=dict)
    kernels: Mapping[int, Sequence[Kept]] = field(default_factory=dict)


class GpuRunner:
    """A :class:`~tilewright.tune.runner.Duelling` over the GPUs of this host, or whatever ``seats`` are.

    Args:
        configs: the points, by index.
        crew_of: makes the children, given what each does first; by default one for each GPU of this host.

    Raises, from :meth:`results` and :meth:`duel`:
        TilewrightError: a child could not be prepared, which no configuration is to blame for.
    """

    def __init__(
        self, configs: Sequence[Config], measuring: Measuring, crew_of: Callable[[Job], Jobs] | None = None
    ) -> None:
        self._configs, self._measuring = configs, measuring
        given = {"address": measuring.address, "case": measuring.case, "regime": measuring.regime}
        arguments = {**given, "folder": kept.folder(), "triton_key": kept.triton_key(), **measuring.more}
        first = Job(None, f"{measuring.tasks}:prepare", arguments, self._limits(PREPARING_SECONDS))
        self._crew = (crew_of or crew_here)(first)
        self._longest = 0.0
        self._compiled = 0  # kernels that children had to compile, as they were not in Triton's cache

    @property
    def capacity(self) -> int:
        return self._crew.capacity

    def submit(self, index: int, best: float | None = None) -> None:
        arguments = {"config": self._configs[index], "seconds": self._measuring.seconds, "best": best}
        kernels = self._measuring.kernels.get(index, ())
        # Where launches ask for other kernels than were caught here, children compile them.
        compiling = (COMPILE_LIMITS.seconds or 0.0) if self._compiled else 0.0
        limits = self._limits(compiling + max(self._measuring.limit_seconds, _PATIENCE * self._longest))
        self._crew.submit(Job(index, f"{self._measuring.tasks}:measure", arguments, limits, kernels))

    def results(self, timeout: float | None = None) -> list[Outcome]:
        return [self._outcome(job, answer) for job, answer in self._crew.ended(timeout)]

    def duel(self, indices: Sequence[int], *, seconds: float, seed: int) -> list[Sequence[float] | None]:
        arguments = {"configs": [self._configs[i] for i in indices], "seconds": seconds, "seed": seed}
        kernels = [kernel for i in dict.fromkeys(indices) for kernel in self._measuring.kernels.get(i, ())]
        limits = self._limits(self._measuring.limit_seconds + _PATIENCE * seconds)
        self._crew.submit(Job("duel", f"{self._measuring.tasks}:duel", arguments, limits, kernels))
        ((_, answer),) = self._crew.ended()
        if isinstance(answer, TilewrightError):
            raise answer
        return [answer.get(place) for place in range(len(indices))]

    def notes(self) -> list[str]:
        found = [f"a GPU was not used: {error.what}" for error in self._crew.refused]
        if self._compiled:
            found.append(f"{count(self._compiled, 'kernel')} had to be compiled again where they were measured")
        return found

    def close(self) -> None:
        self._crew.close()

    def _limits(self, seconds: float) -> Limits:
        return Limits(seconds, self._measuring.memory_bytes)

    def _outcome(self, job: Job, answer: Any) -> Outcome:
        if isinstance(answer, StoreUnusable):
            raise answer  # of a disk that is full no configuration is to blame
        if isinstance(answer, TilewrightError):
            return Outcome(job.name, "failed", error=answer.what)
        self._compiled += answer.compiled
        self._longest = max(self._longest, answer.took)
        return outcome_of(job.name, answer)


def outcome_of(index: int, measured: Measured) -> Outcome:
    """What a child measured, as the loop takes it."""
    worst = measured.error_over_tolerance
    if measured.median is None:
        return Outcome(index, "wrong", error=f"{worst:.3g} times the tolerance", error_over_tolerance=worst)
    found = Outcome(index, "timed", measured.median, measured.low, measured.high, error_over_tolerance=worst)
    return (
        replace(found, abandoned=True, error="given up: clearly slower than the best") if measured.abandoned else found
    )


def crew_here(first: Job) -> Crew:
    """A child for each GPU of this host, which begin at once to prepare themselves."""
    crew = Crew(seats_here(), first=first, stdout_to_stderr=True)
    crew.warm_up()
    return crew


def seats_here() -> list[dict[str, str | None]]:
    """The environment of a child for each GPU that is like the first one and that this process may use."""
    clean: dict[str, str | None] = {"TRITON_INTERPRET": None}
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        named = [part for part in given.split(",") if part]
    else:
        devices = clocks.devices()
        named = [uuid for uuid, name in devices if name == devices[0][1]]
    if len(named) < 2:
        return [clean]
    return [{**clean, "CUDA_VISIBLE_DEVICES": name} for name in named]
