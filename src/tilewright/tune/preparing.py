"""``--prepare``: everything up to measuring, on a machine that may have no GPU, for the one that has."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.hardware.host import cores
from tilewright.hardware.target import Target
from tilewright.launch.host import inputs_of
from tilewright.records import Case, Event, Note, Progress, StageStarted, Trial, Tried
from tilewright.spec.operator import Operator
from tilewright.tune import bundle
from tilewright.tune.ahead import CompileAhead, compilers_here
from tilewright.tune.candidates import Candidates, configurations
from tilewright.tune.feasible import rank
from tilewright.wording import count


def prepare(
    operator: Operator,
    shapes: Mapping[str, Case],
    targets: Sequence[Target],
    path: Path,
    store: Any,
    workers: int | None,
) -> Generator[Event, None, dict[tuple[str, str], tuple[Trial, ...]]]:
    """Compiles each configuration that fits and writes a bundle; Trials by shape and target, best predicted first.

    Raises:
        UsageError: the bundle cannot be written.
        StoreUnusable: compiled kernels cannot be kept.
    """
    parts: dict[tuple[str, str], bundle.Part] = {}
    for label, case in shapes.items():
        inputs = inputs_of(operator, case, drawn=False).map(lambda t: t.detach())
        for target in targets:
            configs = configurations(operator, inputs, target)
            words = f"{label} on {target.title}: {count(len(configs), 'configuration')}"
            yield StageStarted("tune", operator.name, None, words)
            making = Candidates(operator, case, inputs, target, store)
            ahead = CompileAhead(making, configs, {}, store, compilers_here(workers or cores()))
            try:
                yield from _compile_all(ahead)
            finally:
                ahead.close()
            kernels = {ahead.trials[index].config.key: found for index, found in ahead.kernels.items()}
            parts[label, target.name] = bundle.Part(target, sorted(ahead.trials, key=rank), kernels)
            for trial in ahead.trials:
                yield Tried(trial)
    size = bundle.write(path, operator, list(parts.values()))
    yield Note(f"{path}: {size / 2**20:.1f} MiB; on the machine with the GPU: tilewright tune … --bundle {path}")
    return {of: tuple(part.trials) for of, part in parts.items()}


def _compile_all(ahead: CompileAhead) -> Generator[Event, None, None]:
    yield from ahead.survey()
    waiting = {index for index, trial in enumerate(ahead.trials) if trial.status == "compiled"}
    total = len(waiting)
    while waiting:
        waiting -= set(ahead.ended())
        yield Progress("tune", total - len(waiting), f"compiling, {total - len(waiting)} of {total}")
