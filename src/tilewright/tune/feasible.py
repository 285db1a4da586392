"""What each configuration needs of a chip, asked of the compiler: first shared memory alone, then all of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

from triton.runtime.errors import OutOfResources

from tilewright.errors import TilewrightError
from tilewright.hardware.occupancy import occupancy, waves
from tilewright.hardware.probe import ptxas_version
from tilewright.hardware.target import Target
from tilewright.launch.capture import every_config, record
from tilewright.launch.compile import Cache, Compiled, Lowered, compile_many, compile_one, lower
from tilewright.launch.host import failure
from tilewright.launch.launch import Launch
from tilewright.launch.warmup import Needs
from tilewright.records import Case, Config, Event, Note, Progress, Resources, Trial, Tried
from tilewright.runtime.table import triton_version
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.tune import keys, prior

WORKERS = 2


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


def survey(
    operator: Operator,
    case: Case,
    inputs: Inputs,
    configs: Sequence[Config],
    target: Target,
    cache: Cache | None,
    workers: int = WORKERS,
) -> Generator[Event, None, list[Trial]]:
    """Compiles every configuration that fits; yields a Trial for each, returns them best predicted first."""
    needs = _compiling(target, cache)
    blank = replace(
        Trial(operator.name, case, Config({}), target.name, "compiled"),
        source=keys.source_of(operator),
        triton=triton_version(),
        ptxas=ptxas_version(),
    )
    candidates = [_catch(operator, inputs, replace(blank, config=config), target, needs) for config in configs]
    alive = [c for c in candidates if c.trial.status == "compiled"]
    yield from _shared_first(alive, target, cache, workers)
    alive = [c for c in alive if c.trial.status == "compiled"]
    yield from _compile_fully(operator, case, inputs, alive, target, cache, workers)
    if not all(candidate.work_is_known for candidate in candidates):
        words = (
            "how often its dots run depends on data, so the ranking knows bytes only; flops= says how much is computed"
        )
        yield Note(f"{operator.name}: {words}")
    trials = [candidate.trial for candidate in candidates]
    for trial in trials:
        yield Tried(trial)
    return sorted(trials, key=_rank)


def _rank(trial: Trial) -> tuple[int, float, int, float]:
    """Best first; of two with one prediction the one that keeps more in flight, then the one with wider programs."""
    order = {"timed": 0, "compiled": 1, "infeasible": 2, "wrong": 3, "failed": 4}
    measured = trial.median_seconds if trial.median_seconds is not None else trial.predicted_seconds
    seconds = measured if measured is not None else float("inf")
    return order[trial.status], seconds, -(trial.shared or 0), trial.waves or 0.0


def _catch(operator: Operator, inputs: Inputs, trial: Trial, target: Target, needs: Needs) -> Candidate:
    """Catches a configuration's launches and lowers them; a Trial that failed where that is refused."""
    config = trial.config
    try:
        if operator.space is not None:
            launches = record(operator, inputs, target, config, needs=needs)
        else:
            launches = [
                launch
                for launch in record(operator, inputs, target, choose=every_config, needs=needs)
                if launch.config in (None, config)
            ]
        lowered = [lower(launch, target) for launch in launches]
        return Candidate(config, replace(trial, code=keys.code_of(launches, lowered)), launches, lowered)
    except OutOfResources as error:  # a kernel that the launcher compiled ahead
        reason = _too_much_shared(error.required, target) if error.name == "shared memory" else str(error)
        return Candidate(config, replace(trial, status="infeasible", reason=reason), [], [])
    except Exception as error:
        return Candidate(config, replace(trial, status="failed", reason=str(failure(error))), [], [])


def _compiling(target: Target, cache: Cache | None) -> Needs:
    """What the compiler says of a kernel that a launcher compiles ahead; each is compiled once."""
    known: dict[str, Resources] = {}

    def needs(launch: Launch) -> Resources:
        job = lower(launch, target)
        if job.key not in known:
            known[job.key] = compile_one(job, cache=cache).resources
        return known[job.key]

    return needs


def _too_much_shared(shared: int, target: Target) -> str:
    return (
        f"needs {shared / 1024:.0f} KiB of shared memory, "
        f"a program on {target.name} has {target.shared_per_block / 1024:.0f}"
    )


def _shared_first(
    candidates: list[Candidate], target: Target, cache: Cache | None, workers: int
) -> Generator[Event, None, None]:
    jobs = [(candidate, job) for candidate in candidates for job in candidate.lowered]
    answers = compile_many([job for _, job in jobs], workers=workers, shared_only=True, cache=cache)
    for done, (index, answer) in enumerate(answers):
        yield Progress("tune", done, f"{target.name}: shared memory, {done + 1} of {len(jobs)}")
        candidate = jobs[index][0]
        if isinstance(answer, TilewrightError):
            candidate.trial = replace(candidate.trial, status="failed", reason=answer.what)
            continue
        shared = max(candidate.trial.shared or 0, answer.resources.shared)
        candidate.trial = replace(candidate.trial, shared=shared)
        if shared > target.shared_per_block:
            candidate.trial = replace(candidate.trial, status="infeasible", reason=_too_much_shared(shared, target))


def _compile_fully(
    operator: Operator,
    case: Case,
    inputs: Inputs,
    candidates: list[Candidate],
    target: Target,
    cache: Cache | None,
    workers: int,
) -> Generator[Event, None, None]:
    jobs = [(candidate, position) for candidate in candidates for position in range(len(candidate.lowered))]
    compiled: dict[int, dict[int, Compiled]] = {}
    answers = compile_many([c.lowered[p] for c, p in jobs], workers=workers, cache=cache)
    for done, (index, answer) in enumerate(answers):
        yield Progress("tune", done, f"{target.name}: compiling, {done + 1} of {len(jobs)}")
        candidate, position = jobs[index]
        if isinstance(answer, TilewrightError):
            candidate.trial = replace(candidate.trial, status="failed", reason=answer.what)
        else:
            compiled.setdefault(id(candidate), {})[position] = answer
    for candidate in candidates:
        parts = compiled.get(id(candidate), {})
        if candidate.trial.status == "compiled" and len(parts) == len(candidate.lowered):
            candidate.trial = _with_resources(operator, case, inputs, candidate, parts, target)


def _with_resources(
    operator: Operator, case: Case, inputs: Inputs, candidate: Candidate, parts: dict[int, Compiled], target: Target
) -> Trial:
    resources = tuple(parts[position].resources for position in range(len(candidate.lowered)))
    trial = replace(candidate.trial, resources=resources)
    if not any(launch.programs for launch in candidate.launches):
        words = "a kernel with an empty grid" if resources else "no kernel"
        return replace(trial, status="failed", reason=f"the launcher launched {words}")
    heaviest = max(range(len(resources)), key=lambda i: candidate.launches[i].programs)
    main = resources[heaviest]
    placed = occupancy(target, registers=main.registers or 1, shared=main.shared, warps=main.warps)
    if placed.blocks_per_unit == 0:
        words = f"{main.registers} registers for each of {main.warps} warps do not fit a unit of {target.name}"
        return replace(trial, status="infeasible", reason=words, occupancy=0.0, limited_by=placed.limited_by)
    work = prior.work_of(candidate.launches, candidate.lowered, operator.flops_of(case))
    candidate.work_is_known = work.known
    return replace(
        trial,
        occupancy=placed.fraction,
        limited_by=placed.limited_by,
        waves=waves(target, candidate.launches[heaviest].programs, placed.blocks_per_unit),
        predicted_seconds=prior.predict(
            target,
            candidate.launches,
            candidate.lowered,
            resources,
            work,
            bytes=moved_bytes(inputs, candidate.launches),
        ),
    )


def moved_bytes(inputs: Inputs, launches: Sequence[Launch]) -> int:
    """The traffic that no configuration can avoid: each tensor that goes in or that a kernel is given, once."""
    sizes: dict[tuple[int, int], int] = {}
    for tensor in [*inputs.tensors.values(), *(t for launch in launches for t in launch.tensors.values())]:
        storage = tensor.untyped_storage()
        key = (storage.data_ptr(), 0) if storage.data_ptr() else (0, id(tensor))  # meta tensors have no address
        sizes[key] = max(sizes.get(key, 0), tensor.numel() * tensor.element_size())
    return sum(sizes.values())


def fits(trials: Sequence[Trial]) -> list[Trial]:
    """The Trials whose configuration a GPU could run."""
    return [trial for trial in trials if trial.status in ("compiled", "timed")]
