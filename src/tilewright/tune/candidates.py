"""A configuration on its way to a Trial: its launches caught and lowered here, then what compilers say of them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triton.runtime.errors import OutOfResources

from tilewright.hardware.occupancy import occupancy, waves
from tilewright.hardware.probe import ptxas_version
from tilewright.hardware.target import Target
from tilewright.launch.capture import every_config, only, record
from tilewright.launch.compile import Cache, Lowered, compile_one
from tilewright.launch.frontend import Frontend
from tilewright.launch.host import failure
from tilewright.launch.launch import Launch
from tilewright.launch.warmup import Needs
from tilewright.records import Case, Config, Resources, Trial
from tilewright.runtime.table import triton_version
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.spec.source import source_of
from tilewright.tune import keys, prior


@dataclass
class Candidate:
    """A configuration on its way: its launches, lowered, and what is known so far."""

    config: Config
    trial: Trial
    launches: list[Launch]
    lowered: list[Lowered]
    work_is_known: bool = True


def configurations(operator: Operator, inputs: Inputs, target: Target) -> list[Config]:
    """The points of the operator's space; those of its autotuned kernel where it declares none.

    Each configuration of an ``@triton.autotune`` kernel gives one Launch; those are the points then.
    """
    if operator.space is not None and len(operator.space):
        return list(operator.space)
    try:
        launches = record(operator, inputs, target, choose=every_config)
    except Exception:
        return [Config({})]  # the survey meets the error again, and a Trial tells it
    tuned = [launch.config for launch in launches if launch.config is not None]
    return list({config.key: config for config in tuned}.values()) or [Config({})]


class Candidates:
    """Makes the candidates of one case for one target; the operator must stay as it is meanwhile."""

    def __init__(self, operator: Operator, case: Case, inputs: Inputs, target: Target, cache: Cache | None) -> None:
        self._operator, self._case, self._inputs, self._target = operator, case, inputs, target
        self._frontend = Frontend(target)
        self._needs = _compiling(self._frontend, cache)
        self._works: dict[tuple[object, ...], prior.Work] = {}
        self.blank = replace(
            Trial(operator.name, case, Config({}), target.name, "compiled"),
            source=source_of(operator),
            triton=triton_version(),
            ptxas=ptxas_version(),
        )

    def catch(self, config: Config) -> Candidate:
        """Catches a configuration's launches and lowers them; a Trial that failed where that is refused."""
        trial = replace(self.blank, config=config)
        try:
            launches = self._launches(config)
            lowered = [self._frontend.lower(launch) for launch in launches]
            return Candidate(config, replace(trial, code=keys.code_of(launches, lowered)), launches, lowered)
        except OutOfResources as error:  # a kernel that the launcher compiled ahead
            reason = too_much_shared(error.required, self._target) if error.name == "shared memory" else str(error)
            return Candidate(config, replace(trial, status="infeasible", reason=reason), [], [])
        except Exception as error:
            return Candidate(config, replace(trial, status="failed", reason=str(failure(error))), [], [])

    def _launches(self, config: Config) -> list[Launch]:
        if self._operator.space is not None:
            return record(self._operator, self._inputs, self._target, config, needs=self._needs)
        found = record(self._operator, self._inputs, self._target, choose=only(config), needs=self._needs)
        return [launch for launch in found if launch.config in (None, config)]

    def with_shared(self, candidate: Candidate, shared: int) -> None:
        """Notes the shared memory that one of its kernels needs, in bytes; it may not fit the chip."""
        shared = max(candidate.trial.shared or 0, shared)
        candidate.trial = replace(candidate.trial, shared=shared)
        if shared > self._target.shared_per_block:
            reason = too_much_shared(shared, self._target)
            candidate.trial = replace(candidate.trial, status="infeasible", reason=reason)

    def with_resources(self, candidate: Candidate, needs: Sequence[Resources], digests: Sequence[str] = ()) -> None:
        """Notes what all of its kernels need, in the order launched, and what their binaries are called by content."""
        resources = tuple(needs)
        trial = replace(candidate.trial, resources=resources, binary=_binary(candidate, digests))
        if not any(launch.programs for launch in candidate.launches):
            words = "a kernel with an empty grid" if resources else "no kernel"
            candidate.trial = replace(trial, status="failed", reason=f"the launcher launched {words}")
            return
        heaviest = max(range(len(resources)), key=lambda i: candidate.launches[i].programs)
        main = resources[heaviest]
        placed = occupancy(self._target, registers=main.registers or 1, shared=main.shared, warps=main.warps)
        if placed.blocks_per_unit == 0:
            words = (
                f"{main.registers} registers for each of {main.warps} warps do not fit a unit of {self._target.name}"
            )
            candidate.trial = replace(
                trial, status="infeasible", reason=words, occupancy=0.0, limited_by=placed.limited_by
            )
            return
        candidate.trial = replace(
            trial,
            occupancy=placed.fraction,
            limited_by=placed.limited_by,
            waves=waves(self._target, candidate.launches[heaviest].programs, placed.blocks_per_unit),
            predicted_seconds=self.predicted(candidate, resources),
        )

    def predicted(self, candidate: Candidate, resources: Sequence[Resources]) -> float:
        """Seconds that the plain model gives it; registers and spills may be None."""
        work = self._work(candidate)
        candidate.work_is_known = work.known
        moved = moved_bytes(self._inputs, candidate.launches)
        return prior.predict(self._target, candidate.launches, candidate.lowered, resources, work, bytes=moved)

    def _work(self, candidate: Candidate) -> prior.Work:
        """Counted once for configurations whose launches differ in options alone."""
        key = tuple(
            part
            for launch, job in zip(candidate.launches, candidate.lowered, strict=True)
            for part in (job.ttir, launch.grid, tuple((n, v) for n, v in launch.arguments.items() if type(v) is int))
        )
        if key not in self._works:
            flops = self._operator.flops_of(self._case)
            self._works[key] = prior.work_of(candidate.launches, candidate.lowered, flops)
        return self._works[key]


def _compiling(frontend: Frontend, cache: Cache | None) -> Needs:
    """What the compiler says of a kernel that a launcher compiles ahead; each is compiled once."""
    known: dict[str, Resources] = {}

    def needs(launch: Launch) -> Resources:
        job = frontend.lower(launch)
        if job.key not in known:
            known[job.key] = compile_one(job, cache=cache).resources
        return known[job.key]

    return needs


def _binary(candidate: Candidate, digests: Sequence[str]) -> str:
    """Equal where the same binaries are launched on the same grids with the same scalars; "" where that is not known."""
    if not digests:
        return ""
    words = []
    for digest, launch in zip(digests, candidate.launches, strict=True):
        settled = launch.constexprs
        passed = [(n, v) for n, v in launch.arguments.items() if n not in settled and isinstance(v, (bool, int, float))]
        words.append((digest, launch.grid, passed))
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]


def too_much_shared(shared: int, target: Target) -> str:
    """Why a configuration that needs so many bytes is infeasible."""
    return (
        f"needs {shared / 1024:.0f} KiB of shared memory, "
        f"a program on {target.name} has {target.shared_per_block / 1024:.0f}"
    )


def moved_bytes(inputs: Inputs, launches: Sequence[Launch]) -> int:
    """The traffic that no configuration can avoid: each tensor that goes in or that a kernel is given, once."""
    sizes: dict[tuple[int, int], int] = {}
    for tensor in [*inputs.tensors.values(), *(t for launch in launches for t in launch.tensors.values())]:
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), 0) if storage.data_ptr() else (0, id(tensor))  # meta tensors have no address
        sizes[key] = max(sizes.get(key, 0), tensor.numel() * tensor.element_size())
    return sum(sizes.values())
