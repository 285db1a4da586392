"""What the stages hand to each other: frozen records, and the events they yield while they work.

A record is plain data. ``to_dict`` gives JSON-ready dictionaries that name their type and the schema
version; ``from_dict`` reads them back. Nothing here imports torch or triton.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
import types
import typing
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

SCHEMA_VERSION = 1

Severity = Literal["error", "warning", "note"]
Verdict = Literal["FASTER", "SLOWER", "SAME", "UNDECIDED"]
TrialStatus = Literal["infeasible", "failed", "wrong", "compiled", "timed"]
FINDING_KINDS = (
    "out-of-bounds-read",
    "out-of-bounds-write",
    "write-write-race",
    "read-write-race",
    "write-conflict",
    "redundant-write",
    "order-dependent",
    "nondeterministic",
    "deadlock",
    "undefined-lanes",
    "uninitialized-read",
    "offset-overflow",
    "integer-hazard",
    "misaligned",
    "false-hint",
    "unwritten-output",
    "mismatch",
    "non-finite",
    "config-dependent",
    "compiled-differs",
    "autotune-mutation",
    "autotune-key",
    "grid-limit",
    "launch-error",
    "unsupported",
)
"""What a Finding's kind may be."""
ADVICE_KINDS = (
    "narrow-access",
    "strided-access",
    "matrix-unit",
    "no-overlap",
    "layout-conversion",
    "local-memory",
    "spills",
    "few-warps",
    "tail-wave",
    "float64-arithmetic",
    "atomic-in-loop",
    "wide-index",
)
"""What an Advice's kind may be."""
StageOutcome = Literal["passed", "findings", "incomplete", "skipped"]


# ---------------------------------------------------------------------------------------------- records


@dataclass(frozen=True)
class Environment:
    """What a number was obtained on. Unknown or absent parts are None, never guessed."""

    chip: str
    arch: str | None
    driver: str | None
    clock_mhz: int | None
    max_clock_mhz: int | None
    power_limit_watts: float | None
    cpu: str
    cpu_count: int
    python: str
    torch: str | None
    triton: str | None
    ptxas: str | None
    cuda: str | None
    numpy: str | None
    tilewright: str
    commit: str | None
    when: str


@dataclass(frozen=True)
class Case:
    """One concrete set of inputs, by the keyword arguments that make them.

    ``arguments`` holds sizes of dims and values of options; ``dtype`` is the dtype shared by the
    ``Float`` tensors (None where the operator's own ``inputs`` decides).
    """

    operator: str
    arguments: Mapping[str, Any]
    dtype: str | None = None
    layout: str = "contiguous"
    values: str = "normal"
    seed: int = 0

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        """Eight hex digits that name this case; the same arguments give the same id anywhere."""
        text = json.dumps(_plain(self), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def label(self) -> str:
        """The case in a few words, such as ``M129 N127 bf16 causal=True``."""
        words = []
        for name, value in self.arguments.items():
            is_size = isinstance(value, int) and not isinstance(value, bool)
            words.append(f"{name}{value}" if is_size and name.isalpha() and len(name) <= 2 else f"{name}={value}")
        if self.dtype:
            words.append(self.dtype)
        if self.layout != "contiguous":
            words.append(self.layout)
        if self.values != "normal":
            words.append(self.values)
        return " ".join(words) or "no arguments"


@dataclass(frozen=True)
class Edit:
    """A change to one line of a kernel, in its author's variables."""

    file: str | None
    line: int | None
    text: str


@dataclass(frozen=True)
class Remedy:
    """Edits that together bring the reference back in all ``cases`` of a run, and no fewer of them do.

    0 cases: they end this finding alone, while others stay, or at sizes too large to compare values.
    """

    cause: str
    edits: tuple[Edit, ...]
    cases: int


@dataclass(frozen=True)
class Finding:
    """One fault, in the fixed words of the kinds and causes (docs/architecture.md lists them).

    ``tensor`` is the kernel's parameter, ``argument`` the operator's name for it. ``program`` is the
    first program that showed the fault, ``programs`` and ``lanes`` how many did. ``element`` is an
    index in the tensor's own coordinates. ``variables`` are the kernel's scalars in play, as the first program
    has them. ``remedies`` are sets of edits, each of which alone brings the reference back in every case of the run;
    ``cause`` and ``remedy`` are the first one's.
    """

    kind: str
    message: str
    severity: Severity = "error"
    tensor: str | None = None
    argument: str | None = None
    file: str | None = None
    line: int | None = None
    source: str | None = None
    origin_line: int | None = None
    program: tuple[int, ...] | None = None
    programs: int | None = None
    lanes: int | None = None
    element: tuple[int, ...] | None = None
    case: Case | None = None
    cause: str | None = None
    remedy: str | None = None
    variables: tuple[tuple[str, int | float | bool], ...] = ()
    remedies: tuple[Remedy, ...] = ()


@dataclass(frozen=True)
class Disagreement:
    """How an output differs from its golden reference, for text and for the tile map.

    ``tiles`` is the worst error of each tile over the tolerance (1.0 is the limit), row-major over a
    grid of ``tile_grid`` tiles of ``tile_shape`` elements; leading dims are folded by their maximum.
    ``worst_own_error`` is how far PyTorch itself is off at the worst element, in the declared precision.
    """

    output: str
    shape: tuple[int, ...]
    dtype: str
    wrong: int
    total: int
    worst_index: tuple[int, ...]
    worst_value: float
    worst_expected: float
    worst_over_tolerance: float
    tile_shape: tuple[int, int]
    tile_grid: tuple[int, int]
    tiles: tuple[float, ...]
    kind: str = "value"
    worst_own_error: float | None = None


@dataclass(frozen=True)
class CaseResult:
    """What one case showed: its findings, how outputs compare, and how long it took.

    With ``addresses_only`` its tensors are too large for this machine: nothing was compared, and of each
    launch the programs at the edges of the grid ran. ``refused`` says who would not take the case, and why.
    """

    case: Case
    findings: tuple[Finding, ...] = ()
    disagreements: tuple[Disagreement, ...] = ()
    error_over_tolerance: float | None = None
    launches: int = 0
    programs: int = 0
    seconds: float = 0.0
    addresses_only: bool = False
    refused: str | None = None


@dataclass(frozen=True)
class DebugReport:
    """The debug stage's answer over all cases of one operator."""

    operator: str
    executor: str
    results: tuple[CaseResult, ...]
    complete: bool = True
    notes: tuple[str, ...] = ()
    smallest: Mapping[str, Case] = field(default_factory=dict)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """One finding for each fault: the first of its kind, place and tensor, over all cases."""
        first: dict[tuple[Any, ...], Finding] = {}
        for result in self.results:
            for finding in result.findings:
                first.setdefault(fault_key(finding), finding)
        return tuple(first.values())

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "error" and f.kind != "unsupported")

    @property
    def exit_code(self) -> int:
        if self.errors:
            return 1
        return 0 if self.complete else 4


def fault_key(finding: Finding) -> tuple[Any, ...]:
    """Findings with one key are one fault seen in several cases."""
    return (finding.kind, finding.severity, finding.tensor or finding.argument, finding.file, finding.line)


def finding_name(finding: Finding) -> str:
    """The key of a finding in ``DebugReport.smallest``."""
    severity = "" if finding.severity == "error" else f" {finding.severity}"
    return f"{finding.kind} {finding.tensor or finding.argument or ''} {finding.line or ''}{severity}"


def worst(findings: Sequence[Finding]) -> Finding | None:
    """The first of the gravest findings; None where there is nothing but notes and limits of our own."""
    for severity in ("error", "warning"):
        for finding in findings:
            if finding.severity == severity and finding.kind != "unsupported":
                return finding
    return None


@dataclass(frozen=True)
class Config:
    """One point of a search space: meta-parameters and launch options by name."""

    values: Mapping[str, Any]

    def __hash__(self) -> int:
        return hash(self.key)

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.values.items())

    @property
    def key(self) -> str:
        return json.dumps(_plain(dict(self.values)), sort_keys=True)


@dataclass(frozen=True)
class Resources:
    """What a compiled kernel needs of the chip; bytes, 32-bit registers per thread."""

    shared: int
    registers: int | None
    stack: int | None
    spill_stores: int | None
    spill_loads: int | None
    warps: int
    compile_seconds: float


@dataclass(frozen=True)
class Trial:
    """What became of one Config on one Target.

    ``predicted_seconds`` is the plain model's, ``median_seconds`` measured (None where no GPU was).
    ``features`` are further numbers known without a GPU, by name. Trials of equal ``binary`` launch the same; "" is
    not known.
    What it holds for (None where that is not known): ``source`` is a hash of the operator's own functions and kernels,
    ``code`` one of all launches as the compiler and the chip get them, ``device`` the board it was measured on,
    ``regime`` what was timed. ``abandoned`` is whether it was given up after a few calls, as clearly slower than the
    best: ``median_seconds`` is then the fastest of these.
    """

    operator: str
    case: Case
    config: Config
    target: str
    status: TrialStatus
    reason: str = ""
    shared: int | None = None
    resources: tuple[Resources, ...] = ()
    occupancy: float | None = None
    limited_by: str | None = None
    waves: float | None = None
    predicted_seconds: float | None = None
    median_seconds: float | None = None
    low_seconds: float | None = None
    high_seconds: float | None = None
    error_over_tolerance: float | None = None
    features: Mapping[str, float] = field(default_factory=dict)
    binary: str = ""
    source: str | None = None
    code: str | None = None
    device: str | None = None
    triton: str | None = None
    ptxas: str | None = None
    regime: str | None = None
    abandoned: bool = False


@dataclass(frozen=True)
class Advice:
    """Why a compiled kernel is slower than it need be on a Target, and what to try.

    ``message`` says what was seen, ``cost`` what it costs (an estimate names what it rests on), ``figures`` are the
    numbers behind both. ``file``, ``line`` and ``source`` are the user's own, of the kernel as a whole its ``def``.
    """

    operator: str
    case: Case
    config: Config
    kind: str
    message: str
    file: str | None
    line: int | None
    source: str | None
    kernel: str
    target: str
    remedy: str
    cost: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Choice:
    """The tuned answer for one operator, shape and device, with what is known of its worth."""

    operator: str
    case: Case
    config: Config
    device: str
    triton: str
    kernel_hash: str
    median_seconds: float | None
    default_seconds: float | None
    certificate: Mapping[str, Any]


@dataclass(frozen=True)
class Measurement:
    """Every sample of one shape in one process, in the order taken.

    ``order`` holds the side of each sample, as an index into ``sides``; a round is every side twice, in an order drawn
    anew and then backwards. ``apart`` are the rounds in which the clock had dropped: kept here, left out of ratios.
    ``swapped`` is whether the sides were first run in reverse order. ``conditions`` say what made the machine unfit
    meanwhile. ``slowdown`` is by how much the control was made slower, None where there was none.
    ``moved`` are bytes, read and written, of one call. ``revision`` is the commit of the operator's file, ``fingerprint``
    a hash of all that was asked for and of the code.
    ``launch_overhead`` is what an empty kernel takes by the same timer, ``bound_seconds`` the least that a call can take
    by the ceilings measured on the card. ``kernels`` are the names of what each side launched, ``precisions`` those of
    its library products. ``temperatures`` (°C) and ``watts`` are NVML's, in the order taken.
    """

    operator: str
    case: Case
    shape: str
    regime: str
    process: int
    swapped: bool
    sides: tuple[str, ...]
    order: tuple[int, ...]
    seconds: tuple[float, ...]
    clock_mhz: tuple[float, ...] = ()
    apart: tuple[int, ...] = ()
    conditions: tuple[str, ...] = ()
    slowdown: float | None = None
    warm_up_seconds: float = 0.0
    config: Config | None = None
    flops: float | None = None
    moved: float | None = None
    revision: str | None = None
    launch_overhead: float | None = None
    bound_seconds: float | None = None
    kernels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    precisions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    temperatures: tuple[float, ...] = ()
    watts: tuple[float, ...] = ()
    fingerprint: str | None = None


@dataclass(frozen=True)
class Timing:
    """The samples of one side of one case, in seconds, and where they stood.

    ``samples`` are some of them where there are many, ``apart`` how many more were set apart under a clock drop.
    ``processes`` are the medians of each process, ``over_time`` those of successive stretches, process after process.
    ``within`` and ``between`` are standard deviations of stretches inside a process and of processes, as shares.
    ``of_ceiling`` is the share of what the card was measured to be able to do, ``launch_overhead`` an empty kernel's
    time; ``kernels`` and ``precisions`` say what was launched.
    """

    side: str
    count: int
    median: float
    first_quartile: float
    third_quartile: float
    clock_mhz: int | None = None
    flops_per_second: float | None = None
    bytes_per_second: float | None = None
    samples: tuple[float, ...] = ()
    apart: int = 0
    processes: tuple[float, ...] = ()
    over_time: tuple[float, ...] = ()
    within: float | None = None
    between: float | None = None
    of_ceiling: float | None = None
    launch_overhead: float | None = None
    kernels: tuple[str, ...] = ()
    precisions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Comparison:
    """A ratio (baseline time over ours: above 1 we are faster) with its interval and verdict.

    ``low`` and ``high`` are the 95 % interval of this ratio alone; the verdict is corrected for all of the run, and
    ``why`` says what keeps an undecided one from being decided. ``processes`` are the ratios of the single processes,
    ``swapped`` the order of allocation in each, ``self_ratio`` ours over ours, ``control_ratio`` what the plan made of
    a call that is slower by ``slowdown``. ``error`` is the standard error of the ratio's logarithm, with ``freedom``
    degrees of freedom; ``revision`` the commit that the operator's file was at.
    """

    operator: str
    case: Case
    shape: str
    baseline: str
    ratio: float
    low: float
    high: float
    verdict: Verdict
    regime: str
    ours: Timing
    theirs: Timing
    noise_floor: float | None = None
    config: Config | None = None
    why: str = ""
    plan: str = ""
    margin: float | None = None
    processes: tuple[float, ...] = ()
    swapped: tuple[bool, ...] = ()
    self_ratio: float | None = None
    control_ratio: float | None = None
    slowdown: float | None = None
    conditions: tuple[str, ...] = ()
    error: float | None = None
    freedom: float | None = None
    revision: str | None = None


@dataclass(frozen=True)
class Change:
    """What became of an operator since an earlier measurement: above 1 it is faster now.

    Both were measured against the same ``yardstick`` in the same processes; ``before`` and ``now`` are the ratios to
    it, ``ratio`` is their quotient. A ``ratio`` of None could not be formed, and ``why`` says why.
    """

    operator: str
    case: Case
    shape: str
    against: str
    yardstick: str
    verdict: Verdict
    why: str = ""
    before: float | None = None
    now: float | None = None
    ratio: float | None = None
    low: float = 0.0
    high: float = math.inf
    margin: float | None = None
    before_seconds: float | None = None
    now_seconds: float | None = None
    config: Config | None = None


@dataclass(frozen=True)
class StageReport:
    """How one stage of a run ended, for the run's summary and the store."""

    stage: str
    operator: str
    outcome: StageOutcome
    exit_code: int
    text: str


# ----------------------------------------------------------------------------------------------- events


@dataclass(frozen=True)
class StageStarted:
    """A stage began on an operator; ``total`` steps are expected (None: not known)."""

    stage: str
    operator: str
    total: int | None = None
    text: str = ""


@dataclass(frozen=True)
class Progress:
    """``done`` steps of the stage are behind us; ``text`` says which one is at work."""

    stage: str
    done: int
    text: str = ""


@dataclass(frozen=True)
class CaseDone:
    result: CaseResult


@dataclass(frozen=True)
class Tried:
    """``known`` is whether the store has it already, from an earlier run."""

    trial: Trial
    known: bool = False


@dataclass(frozen=True)
class Chosen:
    """``known`` is whether the store has it already, from an earlier run."""

    choice: Choice
    known: bool = False


@dataclass(frozen=True)
class Measured:
    measurement: Measurement


@dataclass(frozen=True)
class Compared:
    comparison: Comparison


@dataclass(frozen=True)
class Note:
    """Something the reader should know that is no fault: a limit, a substitution, a skipped part."""

    text: str


@dataclass(frozen=True)
class StageFinished:
    report: StageReport


Event = StageStarted | Progress | CaseDone | Tried | Chosen | Measured | Compared | Note | StageFinished


def drain(events: Generator[Event, None, Any], on_event: Callable[[Event], None]) -> Any:
    """Runs a stage to its end, handing each event on; what the stage returned."""
    while True:
        try:
            on_event(next(events))
        except StopIteration as end:
            return end.value


# ---------------------------------------------------------------------------------------- to and from JSON


def to_dict(record: Any) -> dict[str, Any]:
    """JSON-ready form of a record, with its type and the schema version."""
    return {"type": type(record).__name__, "schema": SCHEMA_VERSION, **_plain(record)}


def from_dict(data: Mapping[str, Any]) -> Any:
    """The record that ``to_dict`` wrote.

    Raises:
        ValueError: the type is unknown, or the schema is newer than this version's.
    """
    schema = data.get("schema")
    if not isinstance(schema, int) or schema > SCHEMA_VERSION:
        raise ValueError(f"record schema {schema!r}; this tilewright reads up to {SCHEMA_VERSION}")
    record_type = globals().get(str(data.get("type")))
    if not (isinstance(record_type, type) and dataclasses.is_dataclass(record_type)):
        raise ValueError(f"unknown record type {data.get('type')!r}")
    return _restore(record_type, data)


def _plain(value: Any, *, typed: bool = True) -> Any:
    """JSON-ready form of a value; ``typed`` where a field's annotation will tell how to read it back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(item, typed=False) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, typed=typed) for item in value), key=repr)  # ids must not depend on hashes
    if isinstance(value, (list, tuple)):
        return [_plain(item, typed=typed) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        # JSON has no NaN or infinity; "nan", "inf" and "-inf" read back through float().
        return str(value) if typed else {"float": str(value)}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if getattr(value, "shape", None) == () and hasattr(value, "item"):  # a scalar of NumPy or torch
        return _plain(value.item(), typed=typed)
    return str(value)


def _restore(annotation: Any, value: Any) -> Any:
    if isinstance(annotation, type) and dataclasses.is_dataclass(annotation):
        hints = _hints(annotation)
        known = [f.name for f in dataclasses.fields(annotation) if f.name in value]
        return annotation(**{name: _restore(hints[name], value[name]) for name in known})
    origin = typing.get_origin(annotation)
    arguments = typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _restore(next(a for a in arguments if a is not type(None)), value)
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return tuple(_restore(arguments[0], item) for item in value)
        return tuple(_restore(a, item) for a, item in zip(arguments, value, strict=True))
    if origin in (Mapping, dict) and arguments:
        return {key: _restore(arguments[1], item) for key, item in value.items()}
    if origin in (Sequence, list):
        return [_restore(arguments[0], item) for item in value]
    if annotation is float:
        return float(value)
    return _restore_untyped(value) if annotation is Any else value


@functools.cache
def _hints(record_type: type) -> dict[str, Any]:
    return typing.get_type_hints(record_type)


def _restore_untyped(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restore_untyped(item) for item in value)
    if isinstance(value, dict):
        if value.keys() == {"float"} and isinstance(value["float"], str):
            return float(value["float"])
        return {key: _restore_untyped(item) for key, item in value.items()}
    return value
