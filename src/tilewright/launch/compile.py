"""Compiling a caught launch for any Target, with no GPU: TTIR here, the rest in child processes.

The frontend runs in this process (it is Python on the user's own functions); everything behind it gets
text, runs under limits, and may abort without harm. Results are kept in a cache that is given from above.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import triton
from triton._C.libtriton import ir
from triton.compiler.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError, CompileTimeAssertionFailure
from triton.runtime.jit import JITCallable, JITFunction, create_function_from_signature

from tilewright.errors import ChildFailed, KernelCompileError, StaticAssertionFailed, TilewrightError, UsageError
from tilewright.hardware.target import Target
from tilewright.launch.driver import gpu_target
from tilewright.launch.launch import Launch
from tilewright.process import Limits, Worker, run_many
from tilewright.records import Resources

COMPILE_LIMITS = Limits(seconds=120, memory_bytes=6 * 2**30)
_LOCATION = re.compile(r"^#loc.*\n| loc\((?:[^()]|\([^()]*\))*\)", re.MULTILINE)
_TASK = "tilewright.launch.pipeline:compile_ttir"


class Cache(Protocol):
    """Where results of compilations are kept."""

    def get(self, key: str) -> Mapping[str, Any] | None: ...

    def put(self, key: str, value: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True)
class Asked:
    """What a launch asks Triton's own cache for: its name and hash of the source, and all options."""

    name: str
    source: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Lowered:
    """Frontend TTIR of a launch for a Target: all that the compiler behind the frontend needs."""

    kernel: str
    ttir: str
    target: tuple[str, Any, int]
    options: Mapping[str, Any]
    asked: Asked | None = None

    @property
    def key(self) -> str:
        """The content hash of this compilation: same code, chip, options and Triton, same resources.

        Where the code stands (file, line) is no part of it: what only moved is not compiled again.
        """
        code = without_locations(self.ttir)
        target, options = [str(part) for part in self.target], sorted(self.options.items())
        words = json.dumps([code, target, options, triton.__version__], default=str)
        return hashlib.sha256(words.encode()).hexdigest()


@functools.lru_cache(maxsize=128)
def without_locations(ttir: str) -> str:
    """The text of a module without where its code stands."""
    return _LOCATION.sub("", ttir)


@dataclass(frozen=True)
class Specialised:
    """A launch as the frontend sees it: types, constants and hints of its arguments, for a Target.

    ``key`` is equal for launches that lower to the same TTIR.
    """

    launch: Launch
    backend: Any
    chip: Any
    options: Any
    signature: Any
    constexprs: Any
    attributes: Any

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.key_but_options, repr(self.options))

    @property
    def key_but_options(self) -> tuple[Any, ...]:
        kernel = self.launch.kernel
        parts = (self.signature, self.constexprs, self.attributes, self.chip)
        return (id(kernel), kernel.cache_key, *map(repr, parts))

    def lower(self) -> Lowered:
        """Frontend TTIR, before any pass; raises as :meth:`ttir` does."""
        return self.lowered(self.ttir(self.options))

    def ttir(self, options: Any) -> str:
        """The text of the module that the frontend makes, given options that answer as ours do.

        Raises:
            KernelCompileError: Triton rejects the kernel; the message has the user's line.
        """
        try:
            context = ir.context()
            ir.load_dialects(context)
            self.backend.load_dialects(context)
            codegen, modules = self.backend.get_codegen_implementation(options), self.backend.get_module_map()
            with contextlib.redirect_stdout(sys.stderr):  # a module that fails its verification is printed
                return str(self._source().make_ir(self.chip, options, codegen, modules, context))
        except Exception as error:
            raise _frontend_error(self.launch, error) from None

    def lowered(self, ttir: str) -> Lowered:
        """With the text of its module."""
        source = self._source()
        chip = (self.chip.backend, self.chip.arch, self.chip.warp_size)
        asked = Asked(source.name, source.hash(), dict(vars(self.options)))
        return Lowered(self.launch.name, ttir, chip, dict(self.launch.options), asked)

    def _source(self) -> ASTSource:
        return ASTSource(self.launch.kernel, self.signature, self.constexprs, self.attributes)


def lower(launch: Launch, target: Target, *, debug: bool = False, sanitize_overflow: bool = True) -> Lowered:
    """Frontend TTIR of a caught launch, before any pass; arguments as for :func:`specialise`."""
    return specialise(launch, target, debug=debug, sanitize_overflow=sanitize_overflow).lower()


def specialise(launch: Launch, target: Target, *, debug: bool = False, sanitize_overflow: bool = True) -> Specialised:
    """What the frontend makes of a launch's arguments.

    ``debug`` keeps ``device_assert``; with it the frontend adds asserts that integers do not overflow,
    unless ``sanitize_overflow`` is off.

    Raises:
        KernelCompileError: arguments that Triton has no types for.
    """
    if not isinstance(launch.kernel, JITFunction):
        raise UsageError(
            f"{launch.name} was made under TRITON_INTERPRET=1, and cannot be compiled in this process",
            "unset TRITON_INTERPRET before Python imports triton",
        )
    chip = gpu_target(target)
    given = {**launch.options, "debug": debug, "sanitize_overflow": sanitize_overflow}
    try:
        backend, binder = _binder(launch.kernel, chip)
        bound, specialization, extra = binder(**launch.arguments, **given)
        options, signature, constexprs, attributes = launch.kernel._pack_args(
            backend, given, bound, specialization, extra
        )
    except Exception as error:
        raise _frontend_error(launch, error) from None
    return Specialised(launch, backend, chip, options, signature, constexprs, attributes)


@functools.lru_cache(maxsize=128)
def _binder(kernel: JITFunction, chip: Any) -> tuple[Any, Any]:
    backend = make_backend(chip)
    return backend, create_function_from_signature(kernel.signature, kernel.params, backend)


def _frontend_error(launch: Launch, error: BaseException) -> KernelCompileError:
    """Triton's message on one line, with the innermost of the user's lines that it is about."""
    # Only of the kernel itself: one that fails in a function it calls ends the tuning.
    kind = StaticAssertionFailed if isinstance(error, CompileTimeAssertionFailure) else KernelCompileError
    function: JITCallable | None = launch.kernel
    file, line = _position(launch.kernel, error)
    while isinstance(inner := error.__cause__, CompilationError):  # raised in a function that this one calls
        scope = function.get_capture_scope().values() if function is not None else ()
        function = next((f for f in scope if isinstance(f, JITCallable) and f.src == inner.src), None)
        error = inner
        if function is not None:
            file, line = _position(function, error)
    words = getattr(error, "error_message", None) or f"{type(error).__name__}: {error}"
    words = words.strip().splitlines()[0]
    remedy = "only the interpreter can stop there: --interpreter, or --pdb" if "breakpoint" in words else ""
    rejected = kind(f"{file}:{line}: {launch.name} does not compile: {words}", remedy)
    rejected.place = (file, line)
    return rejected


def _position(function: JITCallable, error: BaseException) -> tuple[str, int]:
    """File and line of an error in a kernel; the line of its ``def`` where the error has none."""
    decorators = next(i for i, text in enumerate(function.raw_src) if text.lstrip().startswith("def "))
    line = getattr(getattr(error, "node", None), "lineno", 1)  # Triton counts from the def
    return function.fn.__code__.co_filename, function.starting_line_number + decorators + line - 1


@dataclass(frozen=True)
class Compiled:
    """What compiling gave: resources, and the texts of the stages that were asked for."""

    lowered: Lowered
    resources: Resources
    texts: Mapping[str, Any]


def compile_many(
    jobs: Sequence[Lowered],
    *,
    workers: int,
    shared_only: bool = False,
    keep: tuple[str, ...] = (),
    until: str | None = None,
    numbers: bool = False,
    cache: Cache | None = None,
    limits: Limits = COMPILE_LIMITS,
    kept: list[Worker] | None = None,
) -> Iterator[tuple[int, Compiled | TilewrightError]]:
    """Compiles many, in child processes; yields (index, result or its error) as they end.

    Jobs with one key are compiled once. A compiler that aborts or runs away costs its job only. ``keep``,
    ``until`` and ``numbers`` are those of ``pipeline.compile_ttir``; what ends early is not kept in the cache.
    ``kept`` is that of ``process.run_many``.
    """
    cache = None if until else cache
    kind = "shared" if shared_only else "full"
    first: dict[str, int] = {}
    followers: dict[int, list[int]] = {}
    for index, job in enumerate(jobs):
        leader = first.setdefault(job.key, index)
        followers.setdefault(leader, []).append(index)
    todo = []
    for leader, same in followers.items():
        known = cache.get(f"{kind}:{jobs[leader].key}") if cache is not None and not keep else None
        if known is None:
            todo.append(leader)
            continue
        for index in same:
            yield index, _restored(jobs[index], known)
    arguments = [
        {
            "ttir": jobs[i].ttir,
            "target": jobs[i].target,
            "options": jobs[i].options,
            "shared_only": shared_only,
            "keep": keep,
            "until": until,
            "numbers": numbers,
        }
        for i in todo
    ]
    for position, answer in run_many(_TASK, arguments, workers=workers, limits=limits, kept=kept, quiet=True):
        leader = todo[position]
        if not isinstance(answer, TilewrightError):
            resources, texts = answer
            if cache is not None:
                cache.put(f"{kind}:{jobs[leader].key}", {"resources": resources.__dict__})
            for index in followers[leader]:
                yield index, Compiled(jobs[index], resources, texts)
            continue
        if cache is not None and isinstance(answer, KernelCompileError):
            cache.put(f"{kind}:{jobs[leader].key}", {"error": answer.what})
        for index in followers[leader]:
            yield index, _as_compile_error(jobs[index], answer)


def _restored(job: Lowered, known: Mapping[str, Any]) -> Compiled | TilewrightError:
    if "error" in known:
        return _as_compile_error(job, KernelCompileError(str(known["error"])))
    return Compiled(job, Resources(**known["resources"]), {})


def _as_compile_error(job: Lowered, error: TilewrightError) -> TilewrightError:
    """The error with the kernel's name: jobs with one key may be of several kernels."""
    if isinstance(error, ChildFailed):
        return ChildFailed(f"compiling {job.kernel}: {error.what}", reason=error.reason)
    return KernelCompileError(f"{job.kernel}: {error.what}") if isinstance(error, KernelCompileError) else error


def compile_one(
    job: Lowered, *, cache: Cache | None = None, keep: tuple[str, ...] = (), limits: Limits = COMPILE_LIMITS
) -> Compiled:
    """Compiles one launch in a child process.

    Raises:
        KernelCompileError, ChildFailed.
    """
    for _, answer in compile_many([job], workers=1, cache=cache, keep=keep, limits=limits):
        if isinstance(answer, TilewrightError):
            raise answer
        return answer
    raise AssertionError("one job gives one answer")
