"""Kernels compiled into Triton's own cache, under the key that a launch asks it for: a program then compiles nothing.

The first half runs in compile workers, which import neither torch nor the user's code; the second wherever compiled
kernels are looked up, taken along or put back.
"""

from __future__ import annotations

import errno
import hashlib
import io
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triton import knobs
from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import ASTSource
from triton.compiler.compiler import compile as compile_source
from triton.runtime import cache

from tilewright.errors import KernelCompileError, StoreUnusable
from tilewright.launch import pipeline
from tilewright.records import Resources

TASK = "tilewright.launch.kept:compile_and_keep"
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Kept:
    """A kernel in Triton's cache: ``name`` and ``key`` are Triton's own, ``digest`` names the binary by its content."""

    resources: Resources
    name: str
    key: str
    digest: str


class _Text(ASTSource):  # type: ignore[misc]
    """A kernel as Triton's compiler takes it, made of frontend TTIR; to the cache it is the user's own."""

    def __init__(self, ttir: str, name: str, source: str) -> None:
        self.name, self.language, self.ext = name, Language.TRITON, "ttir"
        self._ttir, self._source = ttir, source

    def hash(self) -> str:
        return self._source

    def make_ir(self, target: Any, options: Any, codegen_fns: Any, module_map: Any, context: Any) -> Any:
        return pipeline.parse(self._ttir, context)

    def parse_options(self) -> dict[str, Any]:
        return {}


def compile_and_keep(
    emit: Callable[[Any], None],
    *,
    ttir: str,
    target: tuple[str, Any, int],
    name: str,
    source: str,
    options: Mapping[str, Any],
    triton_key: str,
    folder: str,
) -> Kept:
    """Compiles frontend TTIR for a chip, and leaves the binary in Triton's cache.

    Args:
        name, source, options: what a launch asks the cache for (``Asked``).
        triton_key, folder: as for :func:`use`.

    Raises:
        KernelCompileError: a pass or the assembler failed.
        StoreUnusable: the cache cannot be written.
        ChildFailed: a program of the compiler was killed, which is no fault of the kernel.
    """
    use(folder, triton_key)
    knobs.compilation.always_compile = True  # what the assembler says of spills is heard only while it is at work
    log = io.StringIO()
    chip = GPUTarget(*target)
    started = time.perf_counter()
    try:
        with pipeline.assembler_log(log):
            kernel = compile_source(_Text(ttir, name, source), target=chip, options=dict(options))
    except OSError as error:
        if error.errno in _FULL:
            raise StoreUnusable(f"cannot keep kernels in {folder}: {error.strerror}", "free some space") from None
        raise
    except Exception as error:
        pipeline.require_alive(error)
        raise KernelCompileError(pipeline.first_words(error)) from None
    log.write(kernel.asm.get("amdgcn", ""))
    seconds = time.perf_counter() - started
    try:
        found = pipeline.resources(
            kernel.kernel, kernel.metadata._asdict(), log.getvalue(), str(target[0]), kernel.metadata.num_warps, seconds
        )
    except subprocess.CalledProcessError as error:
        pipeline.require_alive(error)
        raise
    return Kept(found, name, kernel.hash, hashlib.sha256(kernel.kernel).hexdigest()[:16])


def use(folder: str, triton_key: str) -> None:
    """Has this process look for compiled kernels in ``folder``.

    Args:
        triton_key: Triton's hash of itself, as :func:`triton_key` gives it: each process would make it anew of 400 MB.
    """
    cache.triton_key = lambda: triton_key
    knobs.cache.dir = folder


def folder() -> str:
    """Where Triton keeps compiled kernels in this process."""
    return str(knobs.cache.dir)


def triton_key() -> str:
    """Triton's hash of itself: of its version, and of the files that its compiler is made of."""
    return str(cache.triton_key())


def is_there(kept: Kept) -> bool:
    """Whether Triton's cache still holds a kernel, its binary included."""
    files = _files(kept.name, kept.key)
    return any(name.endswith(pipeline.BINARY_STAGES) for name in files) and f"{kept.name[:150]}.json" in files


def contents(kept: Kept) -> dict[str, bytes]:
    """The files of a kernel in Triton's cache, by name."""
    return {name: Path(path).read_bytes() for name, path in _files(kept.name, kept.key).items()}


def put_back(kept: Kept, files: Mapping[str, bytes]) -> None:
    """Puts a kernel's files into this machine's cache, so that a launch finds them.

    Raises:
        StoreUnusable: the cache cannot be written.
    """
    try:
        manager = cache.get_cache_manager(kept.key)
        group = {name: manager.put(data, name) for name, data in files.items()}
        manager.put_group(f"{kept.name[:150]}.json", group)
    except OSError as error:
        raise StoreUnusable(f"cannot keep kernels in {folder()}: {error.strerror}", "free some space") from None


def _files(name: str, key: str) -> dict[str, str]:
    return cache.get_cache_manager(key).get_group(f"{name[:150]}.json") or {}
