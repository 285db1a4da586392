"""Compiling ahead of measuring: all configurations are looked at, those asked for are compiled first, then the likely.

The frontend runs here, one configuration after another; meanwhile children find out what each needs of shared memory,
and where none waits for that, compile in full, into Triton's own cache.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from tilewright.errors import KernelCompileError, StoreUnusable, TilewrightError
from tilewright.hardware.host import memory_bytes
from tilewright.launch import kept
from tilewright.launch.compile import COMPILE_LIMITS, Cache, Lowered
from tilewright.launch.kept import Kept
from tilewright.process import Limits
from tilewright.records import Config, Event, Progress, Resources, Trial
from tilewright.tune.bundle import Prepared
from tilewright.tune.candidates import Candidate, Candidates
from tilewright.tune.crew import Crew, Job, Jobs

_PROBE = "tilewright.launch.pipeline:compile_ttir"
LEAST_SECONDS = 30.0
_LIMIT_OF_USUAL = 5.0
_ENOUGH = 10  # compilations that tell what is usual


class Ahead(Protocol):
    """Where compiled configurations come from, by their index. ``trials`` holds what is known of each, ``known`` are
    those that an earlier run settled."""

    trials: list[Trial]
    known: frozenset[int]

    def survey(self) -> Generator[Event, None, None]:
        """Finds out which configurations fit; behind it, those that are ``compiled`` do or may."""

    def want(self, index: int) -> None:
        """Has one that fits compiled before others."""

    def ended(self, timeout: float | None = None) -> list[int]:
        """Those whose compilation has ended since this was asked last, well or not: their Trial says how."""

    def close(self) -> None: ...


@dataclass
class _Work:
    """A configuration under compilation; ``probes`` and ``kernels`` hold the answers by position of the launch."""

    index: int
    candidate: Candidate
    predicted: float = 0.0
    probes: dict[int, Resources] = field(default_factory=dict)
    kernels: dict[int, Kept] = field(default_factory=dict)
    is_begun: bool = False

    @property
    def is_probed(self) -> bool:
        return len(self.probes) == len(self.candidate.lowered)

    @property
    def is_alive(self) -> bool:
        return self.candidate.trial.status == "compiled"


class CompileAhead:
    """An :class:`Ahead` that compiles.

    Args:
        crew: does the work; it is closed with this.
        known: Trials of earlier runs by configuration key, which are taken as they are.
        prepared: configurations that were looked at and compiled elsewhere, by their key.

    Raises:
        StoreUnusable: compiled kernels cannot be kept; no configuration is to blame for that.
    """

    def __init__(
        self,
        making: Candidates,
        configs: Sequence[Config],
        known: Mapping[str, Trial],
        cache: Cache | None,
        crew: Jobs,
        prepared: Mapping[str, Prepared] | None = None,
        kernels: dict[int, Sequence[Kept]] | None = None,
    ) -> None:
        self._making, self._cache, self._prepared = making, cache, dict(prepared or {})
        self.trials = [known.get(config.key) or self._unmeasured(config) for config in configs]
        self.known = frozenset(index for index, config in enumerate(configs) if config.key in known)
        here = {*known, *self._prepared}
        self._todo = [index for index, config in enumerate(configs) if config.key not in here]
        self._crew = crew
        self._memory = min(COMPILE_LIMITS.memory_bytes or 0, max(memory_bytes() // crew.capacity, 2**31))
        self._folder, self._triton_key = kept.folder(), kept.triton_key()
        self._works: dict[int, _Work] = {}
        self._probing: deque[tuple[_Work, int]] = deque()
        self._compiling: deque[tuple[_Work, int]] = deque()
        self._wanted: deque[int] = deque()
        self._same: dict[Any, list[tuple[_Work, int]]] = {}
        self._ended: list[int] = []
        self._seconds: list[float] = []
        self.kernels: dict[int, Sequence[Kept]] = {} if kernels is None else kernels
        """The compiled kernels of each configuration, in the order launched."""

    # ---------------------------------------------------------------------------------------------- the interface

    def survey(self) -> Generator[Event, None, None]:
        for done, index in enumerate(self._todo):
            yield Progress("tune", done, f"shared memory, {done + 1} of {len(self._todo)}")
            work = _Work(index, self._making.catch(self.trials[index].config))
            self._works[index] = work
            self._note(work)
            if work.is_alive:
                self._probing.extend((work, position) for position in range(len(work.candidate.lowered)))
                self._probed(work)
            self._turn(0)
        while any(work.is_alive and not work.is_probed for work in self._works.values()):
            self._turn(None)

    def _unmeasured(self, config: Config) -> Trial:
        blank = self._making.blank
        if config.key in self._prepared:
            return replace(self._prepared[config.key].trial, device=blank.device, regime=blank.regime)
        return replace(blank, config=config)

    def want(self, index: int) -> None:
        prepared = self._prepared.pop(self.trials[index].config.key, None)
        if prepared is not None:
            prepared.unpack()
            self.kernels[index] = prepared.kernels
            self._ended.append(index)
        work = self._works.get(index)
        if work is not None and work.is_alive and not work.is_begun:
            self._wanted.append(index)

    def ended(self, timeout: float | None = None) -> list[int]:
        if not self._ended:
            self._turn(timeout)
        found, self._ended = self._ended, []
        return found

    @property
    def work_is_known(self) -> bool:
        """Whether the amount of arithmetic is known of all; else predictions know bytes only."""
        return all(work.candidate.work_is_known for work in self._works.values())

    def close(self) -> None:
        self._crew.close()

    # --------------------------------------------------------------------------------------------------- its work

    def _turn(self, timeout: float | None) -> None:
        """Gives free children work, takes what others have done, and gives them more."""
        self._give()
        for job, answer in self._crew.ended(timeout):
            if isinstance(answer, StoreUnusable):
                raise answer
            kind, key = job.name
            for work, position in self._same.pop(job.name):
                self._take(kind, work, position, answer)
            if self._cache is not None:
                self._remember(f"{kind}:{key}", kind, answer)
        self._give()

    def _give(self) -> None:
        while self._crew.free:
            if self._probing:
                self._begin("shared", *self._probing.popleft())
            elif self._compiling:
                self._begin("kept", *self._compiling.popleft())
            elif (work := self._next()) is not None:
                work.is_begun = True
                self._compiling.extend((work, position) for position in range(len(work.candidate.lowered)))
            else:
                return

    def _next(self) -> _Work | None:
        """The next to compile in full: one that was asked for, else the one predicted to be fastest."""
        while self._wanted:
            work = self._works[self._wanted.popleft()]
            if work.is_alive and work.is_probed and not work.is_begun:
                return work
        left = [w for w in self._works.values() if w.is_alive and w.is_probed and not w.is_begun]
        return min(left, key=lambda work: work.predicted, default=None)

    def _begin(self, kind: str, work: _Work, position: int) -> None:
        if not work.is_alive:
            return
        job = work.candidate.lowered[position]
        name = (kind, self._key(kind, job))
        if name in self._same:
            self._same[name].append((work, position))
            return
        known = self._cache.get(f"{name[0]}:{name[1]}") if self._cache is not None else None
        if known is not None and (answer := _recalled(kind, known)) is not None:
            self._take(kind, work, position, answer)
            return
        self._same[name] = [(work, position)]
        if kind == "shared":
            arguments = {"ttir": job.ttir, "target": job.target, "options": job.options, "shared_only": True}
            self._crew.submit(Job(name, _PROBE, arguments, self._limits()))
            return
        assert job.asked is not None
        asked = {"name": job.asked.name, "source": job.asked.source, "options": job.asked.options}
        cache = {"triton_key": self._triton_key, "folder": self._folder}
        arguments = {"ttir": job.ttir, "target": job.target, **asked, **cache}
        self._crew.submit(Job(name, kept.TASK, arguments, self._limits()))

    def _key(self, kind: str, job: Lowered) -> str:
        """What the store keeps an answer by. That of Triton's cache depends on where the code stands, and on Triton."""
        if kind == "shared" or job.asked is None:
            return job.key
        words = f"{job.key} {job.asked.source} {self._triton_key}"
        return hashlib.sha256(words.encode()).hexdigest()

    def _limits(self) -> Limits:
        """Several times what compilations usually take here; at first, what any may take."""
        if len(self._seconds) < _ENOUGH:
            return Limits(COMPILE_LIMITS.seconds, self._memory)
        usual = sorted(self._seconds)[int(0.9 * len(self._seconds))]
        return Limits(max(LEAST_SECONDS, _LIMIT_OF_USUAL * usual), self._memory)

    def _take(self, kind: str, work: _Work, position: int, answer: Any) -> None:
        if not work.is_alive:
            return
        if isinstance(answer, TilewrightError):
            name = work.candidate.lowered[position].kernel
            self._fail(work, f"compiling {name}: {answer.what}")
        elif kind == "shared":
            work.probes[position] = answer[0]
            self._probed(work)
        else:
            self._seconds.append(answer.resources.compile_seconds)
            work.kernels[position] = answer
            if len(work.kernels) == len(work.candidate.lowered):
                self._compiled(work)

    def _probed(self, work: _Work) -> None:
        if not work.is_probed:
            return
        needs = [work.probes[position] for position in range(len(work.probes))]
        for each in needs:
            self._making.with_shared(work.candidate, each.shared)
        if work.is_alive and not needs:
            self._making.with_resources(work.candidate, [])
        elif work.is_alive:
            work.predicted = self._making.predicted(work.candidate, needs)
            work.candidate.trial = replace(work.candidate.trial, predicted_seconds=work.predicted)
        self._note(work)

    def _compiled(self, work: _Work) -> None:
        self.kernels[work.index] = tuple(work.kernels[position] for position in range(len(work.kernels)))
        needs = [one.resources for one in self.kernels[work.index]]
        self._making.with_resources(work.candidate, needs, [one.digest for one in self.kernels[work.index]])
        self._note(work)
        self._ended.append(work.index)

    def _fail(self, work: _Work, reason: str) -> None:
        work.candidate.trial = replace(work.candidate.trial, status="failed", reason=reason)
        self._note(work)
        self._ended.append(work.index)

    def _note(self, work: _Work) -> None:
        self.trials[work.index] = work.candidate.trial

    def _remember(self, key: str, kind: str, answer: Any) -> None:
        """Keeps what a compilation came to; not where it ran out of time or memory, which it may have another day."""
        assert self._cache is not None
        if isinstance(answer, KernelCompileError):
            self._cache.put(key, {"error": answer.what})
        elif kind == "shared" and not isinstance(answer, TilewrightError):
            self._cache.put(key, {"resources": vars(answer[0])})
        elif isinstance(answer, Kept):
            self._cache.put(key, {**vars(answer), "resources": vars(answer.resources)})


def compilers_here(workers: int) -> Crew:
    """So many children of this machine that compile."""
    return Crew([{}] * max(workers, 1), quiet=True)


def _recalled(kind: str, known: Mapping[str, Any]) -> Any:
    """What a store remembers of a compilation, as it was answered; None where Triton's cache has lost the kernel."""
    if "error" in known:
        return KernelCompileError(str(known["error"]))
    resources = Resources(**known["resources"])
    if kind == "shared":
        return resources, {}
    found = Kept(resources, known["name"], known["key"], known["digest"])
    return found if kept.is_there(found) else None
