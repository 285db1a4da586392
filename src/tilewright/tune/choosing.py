"""From a space to a Choice on one machine: looked up where the store knows it, else searched, then duelled."""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.errors import ChildFailed
from tilewright.launch.kept import Kept
from tilewright.records import Case, Choice, Chosen, Config, Event, Note, Progress, Trial, Tried
from tilewright.spec.inputs import Inputs
from tilewright.spec.load import Address
from tilewright.spec.operator import Operator, default_config
from tilewright.tune.ahead import CompileAhead
from tilewright.tune.bundle import Prepared
from tilewright.tune.candidates import Candidates
from tilewright.tune.certificate import certificate
from tilewright.tune.feasible import BYTES_ONLY, rank
from tilewright.tune.finals import Decision, decide, finalists
from tilewright.tune.gpu_runner import Measuring
from tilewright.tune.known import known_trials, usable
from tilewright.tune.loop import Ended, Loop, SearchOf, Stop
from tilewright.tune.machine import Machine
from tilewright.tune.runner import Duelling


@dataclass(frozen=True)
class Wanted:
    """One case to tune, and all that the answer depends on."""

    operator: Operator
    address: Address
    case: Case
    inputs: Inputs
    configs: Sequence[Config]


@dataclass(frozen=True)
class How:
    """How a case is searched: ``search`` names ``search_of`` in the key of a Choice.

    ``workers`` None are as many compilations at a time as the machine has cores to spare.
    """

    search: str
    search_of: SearchOf
    stop: Stop
    regime: str = "cold"
    workers: int | None = None
    duel_seconds: float = 2.0
    seed: int = 0
    measuring: dict[str, Any] = field(default_factory=dict)


def choose(
    wanted: Wanted, machine: Machine, how: How, store: Any, prepared: Mapping[str, Prepared] | None = None
) -> Generator[Event, None, tuple[list[Trial], Choice | None]]:
    """Trials best first, and the Choice; None where no configuration ran right.

    Args:
        store: of earlier runs; what it knows is not made again.
        prepared: configurations that were compiled elsewhere, by their key.
    """
    making = Candidates(wanted.operator, wanted.case, wanted.inputs, machine.target, store)
    making.blank = replace(making.blank, device=machine.device, regime=how.regime)
    key = _key(wanted, making.blank, how)
    known = known_trials(store, making.blank) if store is not None else {}
    choice = _known_choice(store, wanted, key)
    if choice is not None:
        trials = [known[config.key] for config in wanted.configs if config.key in known]
        for trial in trials:
            yield Tried(trial, known=True)
        yield Chosen(choice, known=True)
        return sorted(trials, key=rank), choice
    kernels: dict[int, Sequence[Kept]] = {}
    measuring = Measuring(wanted.address, wanted.case, how.regime, kernels=kernels, **how.measuring)
    runner = machine.runner(wanted.configs, measuring)
    ahead: CompileAhead | None = None
    try:
        crew = machine.compilers(how.workers, runner.capacity)
        ahead = CompileAhead(making, wanted.configs, usable(known, wanted.configs), store, crew, prepared, kernels)
        blank = {"device": machine.device, "regime": how.regime}
        lookahead, first = max(2, crew.capacity // 2), _default(wanted)
        loop = Loop(ahead, runner, how.search_of, blank=blank, stop=how.stop, lookahead=lookahead, first=first)
        ended = yield from loop.run()
        ahead.close()  # a duel is fought on a quiet machine
        yield from _notes(wanted, ahead, runner)
        decided = yield from _duel(wanted, runner, ended, how, key)
    finally:
        runner.close()
        if ahead is not None:
            ahead.close()
    if decided is not None:
        yield Chosen(decided)
    return sorted(ended.trials, key=rank), decided


def _notes(wanted: Wanted, ahead: CompileAhead, runner: Duelling) -> Generator[Event, None, None]:
    if not ahead.work_is_known:
        yield Note(f"{wanted.operator.name}: {BYTES_ONLY}")
    for note in runner.notes():
        yield Note(f"{wanted.operator.name}: {note}")


def _duel(wanted: Wanted, runner: Duelling, ended: Ended, how: How, key: str) -> Generator[Event, None, Choice | None]:
    trials = ended.trials
    best = finalists(trials)
    if not best:
        yield Note("no configuration ran right: nothing chosen")
        return None
    yield Progress("tune", ended.measured, "the fastest meet once more")
    default = _default(wanted)
    sides = [*best, best[0]] + ([default] if default is not None and trials[default].status == "timed" else [])
    try:
        columns = runner.duel(sides, seconds=how.duel_seconds, seed=how.seed)
        decision = decide(columns[: len(best)], columns[len(best)], [trials[i].config.key for i in best])
    except (ChildFailed, ValueError) as error:
        yield Note(
            f"{wanted.operator.name}: the fastest did not meet once more ({error}): each was timed by itself alone"
        )
        columns, decision = [None] * len(sides), Decision(0, (), tuple(trials[i].median_seconds for i in best), 0.0)
    own = columns[-1] if len(sides) > len(best) + 1 else None
    said = {
        **certificate(trials, ended.why),
        "finalists": len(best),
        "ties": tuple(dict(trials[best[place]].config.values) for place in decision.ties),
        "noise": decision.noise,
        "searched": how.search,
    }
    return Choice(
        operator=wanted.operator.name,
        case=wanted.case,
        config=trials[best[decision.winner]].config,
        device=trials[best[0]].device or "",
        triton=trials[best[0]].triton or "",
        kernel_hash=key,
        median_seconds=decision.seconds[decision.winner],
        default_seconds=None if own is None else statistics.median(own),
        certificate=said,
    )


def _default(wanted: Wanted) -> int | None:
    """Where the configuration is that a call has without tuning, if the space holds it."""
    default = default_config(wanted.operator)
    return next((i for i, config in enumerate(wanted.configs) if config == default), None)


def _known_choice(store: Any, wanted: Wanted, key: str) -> Choice | None:
    """The Choice of an earlier run from which nothing has changed."""
    if store is None:
        return None
    found = store.records("Choice", wanted.operator.name, case_id=wanted.case.id)
    return next((choice for choice in reversed(list(found)) if choice.kernel_hash == key), None)


def _key(wanted: Wanted, blank: Trial, how: How) -> str:
    """Of all that a Choice follows from: source, case, space, board, versions, and how it was searched."""
    words = [
        [blank.source, blank.target, blank.device, blank.triton, blank.ptxas, blank.regime, wanted.case.id],
        sorted(config.key for config in wanted.configs),
        [how.search, how.seed, how.duel_seconds],
    ]
    return hashlib.sha256(json.dumps(words).encode()).hexdigest()[:16]
