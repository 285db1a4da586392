"""What a check looks at: one launch on one chip, with all that the compiler made of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tilewright.errors import TilewrightError
from tilewright.hardware.occupancy import Occupancy, occupancy
from tilewright.hardware.target import Target
from tilewright.launch.compile import Compiled, Lowered, compile_many
from tilewright.launch.launch import Launch
from tilewright.launch.pipeline import number_at, numbered
from tilewright.launch.ttir import Location, Module, Op, parse
from tilewright.process import Worker
from tilewright.records import Advice, Case, Config, Resources
from tilewright.tune.advice import ptx, sass
from tilewright.tune.advice.flow import Flow, flow_of
from tilewright.tune.advice.places import called_from, own_frames, source_line
from tilewright.tune.advice.tiles import Access, accesses

TEXTS = ("ttir", "ttgir", "ptx", "sass")
DEFAULT_STAGES = 3  # where a launch says nothing, Triton's own for NVIDIA's chips


class Texts:
    """The texts of one compilation, read when they are first asked for.

    Operations of all of them are known by their number in the TTIR (``launch.pipeline.numbered``).
    """

    def __init__(self, compiled: Compiled) -> None:
        self.resources: Resources = compiled.resources
        self._texts = compiled.texts

    @cached_property
    def ttir(self) -> Module:
        """Behind the passes on TTIR: calls inlined, loops as they are."""
        return parse(self._texts["ttir"])

    @cached_property
    def ttgir(self) -> Module:
        return parse(self._texts["ttgir"])

    @cached_property
    def layouts(self) -> Mapping[str, str]:
        """The layouts that TTGIR names: ``#mma`` and what it stands for."""
        lines = (line.partition(" = ") for line in self._texts["ttgir"].splitlines() if line.startswith("#"))
        return {name: value for name, _, value in lines}

    @cached_property
    def ptx(self) -> tuple[ptx.Instruction, ...]:
        return ptx.read(self._texts["ptx"])

    @cached_property
    def sass(self) -> tuple[sass.Instruction, ...]:
        return sass.read(self._texts["sass"])

    @cached_property
    def flow(self) -> Flow:
        return flow_of(self.ttir)

    @cached_property
    def number(self) -> Mapping[int, int]:
        """The number of each operation of ``ttir``, by its index."""
        both = zip(self.ttir.ops(), parse(numbered(self._texts["ttir"])).ops(), strict=True)
        return {op.index: number_at(same.location.line) or 0 for op, same in both}

    @cached_property
    def place(self) -> Mapping[int, Location]:
        """Where in the user's code the operation of a number stands."""
        return {self.number[op.index]: op.location for op in self.ttir.ops()}

    def place_of(self, op: Op) -> Location:
        """Where an operation of ``ttgir`` stands."""
        return self.place.get(number_at(op.location.line) or 0, Location())

    def width_of(self, access: Op) -> int | None:
        """Bytes that a thread moves with one instruction of a load or store; None where there is no such instruction."""
        number = self.number[access.index]
        widths = [i.global_bytes for i in self.ptx if i.origin == number and i.global_bytes]
        return max(widths) if widths else None


class Compiling:
    """The children that compile, kept from one question to the next; they end where the ``with`` does."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._kept: list[Worker] = []

    def run(
        self, jobs: Sequence[Lowered], keep: tuple[str, ...], until: str | None = None
    ) -> Iterator[tuple[int, Compiled | TilewrightError]]:
        """As ``launch.compile.compile_many``, with places as numbers."""
        return compile_many(jobs, workers=self._workers, keep=keep, until=until, numbers=True, kept=self._kept)

    def __enter__(self) -> Compiling:
        return self

    def __exit__(self, *error: object) -> None:
        for worker in self._kept:
            worker.kill()


@dataclass(frozen=True)
class Evidence:
    """One launch on one chip. On AMD's there are resources, and no ``texts``.

    ``arithmetic_seconds`` and ``memory_seconds`` are what it takes at the chip's peaks; the former is None where nobody
    knows how much is computed.
    """

    operator: str
    case: Case
    config: Config
    launch: Launch
    lowered: Lowered
    target: Target
    resources: Resources
    texts: Texts | None
    arithmetic_seconds: float | None
    memory_seconds: float
    compiling: Compiling

    @cached_property
    def occupancy(self) -> Occupancy:
        needs = self.resources
        return occupancy(self.target, registers=needs.registers or 0, shared=needs.shared, warps=needs.warps)

    @property
    def arithmetic_bound(self) -> bool:
        return self.arithmetic_seconds is not None and self.arithmetic_seconds > self.memory_seconds

    @property
    def floor_seconds(self) -> float:
        """The least that the launch can take on this chip."""
        return max(self.arithmetic_seconds or 0.0, self.memory_seconds)

    @property
    def stages(self) -> int:
        stages = self.launch.options.get("num_stages")
        return DEFAULT_STAGES if stages is None else int(stages)

    @property
    def threads(self) -> int:
        return self.resources.warps * self.target.warp_size

    @cached_property
    def accesses(self) -> list[Access]:
        assert self.texts is not None
        return accesses(self.texts.ttir.entry, self.texts.flow, self.launch.arguments)

    def compiled_with(
        self,
        changes: Sequence[Mapping[str, Any]],
        keep: tuple[str, ...] = ("ttir", "ptx"),
        until: str | None = "ptx",
    ) -> list[Texts | None]:
        """What the compiler makes of the launch in other options or with other TTIR (``{"ttir": text}``).

        None for what does not compile. Nothing is said of a cause that the compiler has not been asked about so.
        """
        jobs = []
        for change in changes:
            options = {**self.lowered.options, **{k: v for k, v in change.items() if k != "ttir"}}
            jobs.append(replace(self.lowered, ttir=change.get("ttir", self.lowered.ttir), options=options))
        found: list[Texts | None] = [None] * len(jobs)
        for index, answer in self.compiling.run(jobs, keep, until):
            if not isinstance(answer, TilewrightError):
                found[index] = Texts(answer)
        return found

    def advice(
        self,
        kind: str,
        at: Location | None,
        message: str,
        *,
        remedy: str,
        cost: str = "",
        **figures: Any,
    ) -> Advice:
        """Advice on this launch, at the innermost of the user's own lines; ``at`` None is the kernel as a whole."""
        frames = own_frames(at) if at is not None else []
        where = frames[0] if frames else self._whole
        called = called_from(at) if at is not None else ""
        return Advice(
            operator=self.operator,
            case=self.case,
            config=self.config,
            kind=kind,
            message=message + called,
            file=where.file,
            line=where.line,
            source=source_line(where),
            kernel=self.launch.name,
            target=self.target.name,
            cost=cost,
            remedy=remedy,
            figures=figures,
        )

    @property
    def _whole(self) -> Location:
        """The kernel's ``def``."""
        function = self.launch.kernel.fn
        code = function.__code__
        text = self.launch.kernel.raw_src
        skipped = next((i for i, line in enumerate(text) if line.lstrip().startswith("def ")), 0)
        return Location(code.co_filename, self.launch.kernel.starting_line_number + skipped)


def loops_with(ops: Iterator[Op], flow: Flow, names: tuple[str, ...]) -> list[Op]:
    """The innermost loops around operations of these names, each once."""
    found = {}
    for op in ops:
        loop = flow.loop_of(op) if op.name in names else None
        if loop is not None:
            found[loop.index] = loop
    return list(found.values())
