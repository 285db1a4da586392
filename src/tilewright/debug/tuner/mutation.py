"""``autotune-mutation``: a kernel that its tuner's benchmark runs many times on memory that one run was meant for.

The launcher runs again with each tuned kernel launched once more beforehand, between its tuner's own hooks
(``capture(tunes=True)``): a fault is what a call then gives that it does not give when it does not tune.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from tilewright.debug.executor.executor import Executor
from tilewright.debug.executor.second import changed
from tilewright.debug.tuner.place import finding
from tilewright.launch.launch import Launch, Tuning
from tilewright.records import Finding
from tilewright.spec.inputs import Inputs
from tilewright.spec.poison import Poisoned

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Left:
    """What a call leaves: its results by name, its inputs as they are now, and what it raised."""

    results: Tensors
    inputs: Inputs
    failure: Finding | None


@dataclass
class _Rehearsed:
    """A launch of the tuner's benchmark, the tensors it met and left, and those that the launch after it left otherwise."""

    launch: Launch
    tuning: Tuning
    before: Tensors
    after: Tensors
    differing: dict[str, Tensor] | None = None


@dataclass
class Rehearsal(Executor):
    """Executes launches, and compares each that follows its tuner's benchmark with the one that stood for that."""

    rehearsed: list[_Rehearsed] = field(default_factory=list)

    def __call__(self, launch: Launch) -> None:
        tuning, last = launch.tuning, self.rehearsed[-1] if self.rehearsed else None
        if tuning is None or not (tuning.rehearses or (last is not None and last.differing is None)):
            super().__call__(launch)
            return
        before = _copies(launch) if tuning.rehearses else {}
        super().__call__(launch)
        if tuning.rehearses:
            self.rehearsed.append(_Rehearsed(launch, tuning, before, _copies(launch)))
        elif last is not None:
            last.differing = _differing(last.after, launch.tensors)


def findings(executor: Executor, plain: Left, again: Callable[[Executor], Left]) -> list[Finding]:
    """Findings of tuned kernels whose benchmark changes what the call gives; ``plain`` is a call that does not tune."""
    if not any(_is_at_risk(executor, position) for position in range(len(executor.launches))):
        return []
    other = Rehearsal(executor.target, Poisoned())
    tuned = again(other)
    harm = _harm(executor, plain, other, tuned)
    if harm is None:
        return []
    found = [_finding(seen, harm, plain.inputs) for seen in other.rehearsed if _culprits(seen)]
    return found[:1] or [_by_hooks(seen, harm) for seen in other.rehearsed if seen.tuning.tuner.reset_to_zero][:1]


def _is_at_risk(executor: Executor, position: int) -> bool:
    tuning = executor.launches[position].tuning
    return tuning is not None and len(tuning.configs) > 1 and position in executor.updates


def _copies(launch: Launch) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in launch.tensors.items()}


def _differing(first: Tensors, second: Tensors) -> dict[str, Tensor]:
    """Where tensors differ, by name, of those that do."""
    pairs = ((name, first[name], second[name].detach()) for name in second if name in first)
    found = ((name, changed(a, b)) for name, a, b in pairs if a.shape == b.shape)
    return {name: where for name, where in found if where is not None}


def _harm(executor: Executor, plain: Left, other: Executor, tuned: Left) -> str | None:
    """How a call that tunes differs from one that does not, in words; None if it does not."""
    known = {finding.kind for finding in executor.findings()}
    new = [f for f in other.findings() if f.severity == "error" and f.kind not in known]
    if tuned.failure is not None or new:
        fault = tuned.failure or new[0]
        return f"a second run then ends in {fault.kind} ({fault.message})"
    for first, second in ((plain.results, tuned.results), (plain.inputs.tensors, tuned.inputs.tensors)):
        for name, where in _differing(first, second).items():
            index = tuple(int(i) for i in where.nonzero()[0])
            at = f"{name}[{', '.join(map(str, index))}]" if index else name
            now, then = second[name][index].item(), first[name][index].item()
            return (
                f"after one such run {int(where.sum())} of {where.numel()} elements of {name} are wrong: "
                f"{at} is {now:.6g}, and {then:.6g} in a call that does not tune"
            )
    return None


def _culprits(seen: _Rehearsed) -> list[str]:
    """Parameters that a second launch on what the first left finds, or leaves, otherwise; one for each storage."""
    wrong = seen.differing if seen.differing is not None else _differing(seen.before, seen.after)
    storages = {seen.launch.tensors[name].untyped_storage().data_ptr(): name for name in reversed(list(wrong))}
    return [name for name in wrong if name in storages.values()]


def _finding(seen: _Rehearsed, harm: str, inputs: Inputs) -> Finding:
    names = _culprits(seen)
    listed = " and ".join(names)
    words = (
        f"while the tuner benchmarks, {seen.launch.name} runs many times on the same memory, and each run starts from "
        f"what the last one left in {listed}; {harm}"
    )
    return finding("autotune-mutation", seen.tuning.tuner, words, names[0], _remedy(seen, names, inputs))


def _remedy(seen: _Rehearsed, names: list[str], inputs: Inputs) -> str:
    tuner, tensors = seen.tuning.tuner, seen.launch.tensors
    given = {tensor.untyped_storage().data_ptr() for tensor in inputs.tensors.values()}
    # What the launcher itself has zeroed may be zeroed again; anything else has to be put back.
    zeroed = [n for n in names if not seen.before[n].any() and tensors[n].untyped_storage().data_ptr() not in given]
    kept = [name for name in names if name not in zeroed]
    hooked = tuner.user_defined_pre_hook or (kept and tuner.user_defined_post_hook)
    if hooked or any(not isinstance(seen.launch.arguments[name], Tensor) for name in names):
        verbs = [f"zero {', '.join(zeroed)} in it"] if zeroed else []
        verbs += [f"copy {', '.join(kept)} in it, and put the copy back in post_hook="] if kept else []
        return f"@triton.autotune(..., pre_hook=...): {'; '.join(verbs)}"
    parts = [_option("reset_to_zero", [*tuner.reset_to_zero, *zeroed])] if zeroed else []
    parts += [_option("restore_value", [*tuner.restore_value, *kept])] if kept else []
    return f"@triton.autotune(..., {', '.join(parts)})"


def _option(name: str, parameters: list[str]) -> str:
    quoted = ", ".join(f'"{parameter}"' for parameter in parameters)
    return f"{name}=[{quoted}]"


def _by_hooks(seen: _Rehearsed, harm: str) -> Finding:
    """The launches agree, and yet the call does not: the tuner zeroes what held values."""
    names = list(seen.tuning.tuner.reset_to_zero)
    words = (
        f"reset_to_zero zeroes {' and '.join(names)} before each run of the tuner's benchmark and before the launch "
        f"that follows it, and the kernel reads what was there; {harm}"
    )
    remedy = f"{_option('restore_value', names)} instead of reset_to_zero"
    return finding("autotune-mutation", seen.tuning.tuner, words, names[0], remedy)
