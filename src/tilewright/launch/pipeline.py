"""The installed compiler, run stage by stage on frontend TTIR: what happens in a compile worker.

Runs in child processes and imports no torch. The stages are the backend's own; nothing of their pass
lists is repeated here, so that every Triton version answers for itself.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import re
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import triton
from triton import knobs
from triton._C import libtriton
from triton._C.libtriton import ir
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend

from tilewright.errors import ChildFailed, KernelCompileError
from tilewright.records import Resources

BINARY_STAGES = ("cubin", "hsaco")
NUMBERS = "ttir"
_APART = 256  # LLVM counts the lines within inline assembly on from its place
_PLACE = re.compile(r"^(  .*) loc\(#loc\d*\)$", re.MULTILINE)


class _StopAfterAllocation(Exception):
    """Ends the pipeline at shared-memory allocation: feasibility needs nothing behind it."""


def compile_ttir(
    emit: Callable[[Any], None],
    *,
    ttir: str,
    target: tuple[str, Any, int],
    options: Mapping[str, Any],
    shared_only: bool = False,
    keep: tuple[str, ...] = (),
    until: str | None = None,
    numbers: bool = False,
) -> tuple[Resources, dict[str, Any]]:
    """Compiles frontend TTIR for a chip; its resources, and the texts of the stages named in ``keep``.

    Args:
        target: backend, architecture and warp size, as Triton's ``GPUTarget`` takes them.
        options: launch options such as ``num_warps``.
        shared_only: stop at shared-memory allocation; registers and spills are None then.
        keep: stage names, such as ``("ttgir", "ptx", "cubin")``; ``"sass"`` is the cubin disassembled, with its lines.
        numbers: what the later texts say of places are numbers of operations in the kept ``"ttir"`` (see ``numbered``).
        until: the last stage to run; what comes behind it, registers and spills among it, is None then.

    Raises:
        KernelCompileError: a pass or the assembler failed.
    """
    started = time.perf_counter()
    backend = make_backend(GPUTarget(*target))
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    parsed = backend.parse_options(dict(options))
    module = parse(ttir, context)
    stages: dict[str, Callable[[Any, dict[str, Any]], Any]] = {}
    backend.add_stages(stages, parsed, Language.TRITON)
    metadata: dict[str, Any] = {"target": GPUTarget(*target), **parsed.__dict__, "triton_version": triton.__version__}
    kept: dict[str, Any] = {}
    log = io.StringIO()
    try:
        for name, stage in stages.items():
            with _stop_at_allocation(module) if shared_only else assembler_log(log):
                module = stage(module, metadata)
            if name in keep:
                kept[name] = module if isinstance(module, (bytes, str)) else str(module)
            if name == "ttir" and numbers:
                module = parse(numbered(str(module)), context)
            if name == "amdgcn":
                log.write(str(module))
            if name == until:
                shared = int(metadata.get("shared") or 0)
                return Resources(shared, None, None, None, None, parsed.num_warps, time.perf_counter() - started), kept
    except _StopAfterAllocation:
        shared = int(module.get_int_attr("ttg.shared") or 0)
        return Resources(shared, None, None, None, None, parsed.num_warps, time.perf_counter() - started), kept
    except Exception as error:
        require_alive(error)
        raise KernelCompileError(f"{name}: {first_words(error)}") from None
    if "sass" in keep and target[0] == "cuda":
        kept["sass"] = _disassembled(module)
    seconds = time.perf_counter() - started
    return resources(module, metadata, log.getvalue(), str(target[0]), parsed.num_warps, seconds), kept


def numbered(ttir: str) -> str:
    """TTIR in which each operation's place is its own number, as a line of a file ``NUMBERS``.

    It follows an operation through the texts of all later stages, while places do so badly: two inlined calls of one
    function share theirs in PTX. ``number_at`` reads it back from a line.
    """
    numbers = itertools.count(_APART, _APART)
    return _PLACE.sub(lambda match: f'{match[1]} loc("{NUMBERS}":{next(numbers)}:1)', ttir)


def number_at(line: int | None) -> int | None:
    """The number of an operation, by the line that a later text gives as its place."""
    return line // _APART if line is not None else None


def parse(ttir: str, context: Any) -> Any:
    """A module from its text."""
    with tempfile.NamedTemporaryFile("w", suffix=".ttir") as file:  # the binding takes a path only
        file.write(ttir)
        file.flush()
        module = ir.parse_mlir_module(file.name, context)
    module.context = context
    return module


@contextlib.contextmanager
def _stop_at_allocation(module: Any) -> Iterator[None]:
    """Runs the pipeline that is being assembled as soon as it holds the shared-memory allocation pass."""
    namespaces = [
        getattr(getattr(getattr(libtriton, backend, None), "passes", None), "ttgpuir", None)
        for backend in ("nvidia", "amd")
    ]
    hooked = []
    for namespace in namespaces:
        for name in dir(namespace) if namespace else ():
            if name.startswith("add_allocate_shared_memory"):
                original = getattr(namespace, name)
                hooked.append((namespace, name, original))
                setattr(namespace, name, _running(original, module))
    try:
        yield
    finally:
        for namespace, name, original in hooked:
            setattr(namespace, name, original)


def _running(add_pass: Callable[..., None], module: Any) -> Callable[..., None]:
    def add_and_run(manager: Any, *arguments: Any) -> None:
        add_pass(manager, *arguments)
        manager.run(module, "allocate_shared_memory")
        raise _StopAfterAllocation

    return add_and_run


@contextlib.contextmanager
def assembler_log(log: io.StringIO) -> Iterator[None]:
    """Triton runs ptxas with -v and drops what it says, unless this knob asks for it on stdout."""
    former = knobs.nvidia.dump_ptxas_log
    knobs.nvidia.dump_ptxas_log = True
    try:
        with contextlib.redirect_stdout(log):
            yield
    finally:
        knobs.nvidia.dump_ptxas_log = former


def resources(
    binary: bytes, metadata: Mapping[str, Any], log: str, backend: str, warps: int, seconds: float
) -> Resources:
    """What a compiled kernel needs, from its binary and from what the assembler said."""
    shared = int(metadata["shared"])
    warps = int(metadata.get("num_warps", warps))  # warp specialisation adds to it
    if backend == "hip":
        registers, spills = _number(r"\.vgpr_count:\s+(\d+)", log), _number(r"\.vgpr_spill_count:\s+(\d+)", log)
        stack = _number(r"\.private_segment_fixed_size:\s+(\d+)", log)
        spilled = None if spills is None else 4 * spills
        return Resources(shared, registers, stack, spilled, spilled, warps, seconds)
    usage = _cuobjdump(binary)
    return Resources(
        shared=shared,
        registers=_number(r"REG:(\d+)", usage),
        stack=_number(r"STACK:(\d+)", usage),
        spill_stores=_number(r"(\d+) bytes spill stores", log),
        spill_loads=_number(r"(\d+) bytes spill loads", log),
        warps=warps,
        compile_seconds=seconds,
    )


def _cuobjdump(binary: bytes) -> str:
    return _said_of(binary, knobs.nvidia.cuobjdump.path, "--dump-resource-usage")


def _disassembled(binary: bytes) -> str:
    """SASS, each instruction behind the line of source it comes from."""
    return _said_of(binary, knobs.nvidia.nvdisasm.path, "--print-code", "--print-line-info")


def _said_of(binary: bytes, tool: str, *options: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        return subprocess.run([tool, *options, file.name], capture_output=True, text=True, check=True).stdout


def _number(pattern: str, text: str) -> int | None:
    found = re.findall(pattern, text)
    return max(map(int, found)) if found else None


def require_alive(error: Exception) -> None:
    """An assembler that was killed from outside says nothing of the kernel: the compilation is to be made anew."""
    words = str(error)
    killed = getattr(error, "returncode", None) == -signal.SIGKILL or f"error code {-signal.SIGKILL:d}" in words
    # Triton takes a program whose version it cannot ask for one that is not there.
    if killed or words.startswith("Cannot find ptxas"):
        raise ChildFailed("a program of the compiler was killed", signal=signal.SIGKILL) from None


def first_words(error: BaseException) -> str:
    """An error's kind and first line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:300]
