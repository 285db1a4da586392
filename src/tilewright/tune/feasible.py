"""What each configuration needs of a chip, asked of the compiler: first shared memory alone, then all of it."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import replace

from tilewright.errors import TilewrightError
from tilewright.hardware.target import Target
from tilewright.launch.compile import Cache, Compiled, compile_many
from tilewright.records import Case, Config, Event, Note, Progress, Trial, Tried
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator
from tilewright.tune.candidates import Candidate, Candidates

WORKERS = 2


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
    making = Candidates(operator, case, inputs, target, cache)
    candidates = [making.catch(config) for config in configs]
    alive = [c for c in candidates if c.trial.status == "compiled"]
    yield from _shared_first(making, alive, target, cache, workers)
    alive = [c for c in alive if c.trial.status == "compiled"]
    yield from _compile_fully(making, alive, target, cache, workers)
    if not all(candidate.work_is_known for candidate in candidates):
        yield Note(f"{operator.name}: {BYTES_ONLY}")
    trials = [candidate.trial for candidate in candidates]
    for trial in trials:
        yield Tried(trial)
    return sorted(trials, key=rank)


BYTES_ONLY = "how often its dots run depends on data, so the ranking knows bytes only; flops= says how much is computed"


def rank(trial: Trial) -> tuple[int, float, int, float]:
    """Best first; of two with one prediction the one that keeps more in flight, then the one with wider programs."""
    order = {"timed": 0, "compiled": 1, "infeasible": 2, "wrong": 3, "failed": 4}
    measured = trial.median_seconds if trial.median_seconds is not None else trial.predicted_seconds
    seconds = measured if measured is not None else float("inf")
    return order[trial.status], seconds, -(trial.shared or 0), trial.waves or 0.0


def _shared_first(
    making: Candidates, candidates: list[Candidate], target: Target, cache: Cache | None, workers: int
) -> Generator[Event, None, None]:
    jobs = [(candidate, job) for candidate in candidates for job in candidate.lowered]
    answers = compile_many([job for _, job in jobs], workers=workers, shared_only=True, cache=cache)
    for done, (index, answer) in enumerate(answers):
        yield Progress("tune", done, f"{target.name}: shared memory, {done + 1} of {len(jobs)}")
        candidate = jobs[index][0]
        if isinstance(answer, TilewrightError):
            candidate.trial = replace(candidate.trial, status="failed", reason=answer.what)
        else:
            making.with_shared(candidate, answer.resources.shared)


def _compile_fully(
    making: Candidates, candidates: list[Candidate], target: Target, cache: Cache | None, workers: int
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
            making.with_resources(candidate, [parts[i].resources for i in range(len(parts))])


def fits(trials: Sequence[Trial]) -> list[Trial]:
    """The Trials whose configuration a GPU could run."""
    return [trial for trial in trials if trial.status in ("compiled", "timed")]
