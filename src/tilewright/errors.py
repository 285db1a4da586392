"""One class per failure a user can meet: what happened, and what to do about it.

Every error carries the exit code the command line ends with:

====  ==========================================================================
code  meaning
====  ==========================================================================
1     a finding: the kernel, launcher or reference is wrong
2     usage: a path, name, annotation or parameter is not what was expected
3     this machine lacks what was asked (a GPU, Triton, a compiler)
4     incomplete: no wrong was found, but not everything could be looked at
====  ==========================================================================
"""

from __future__ import annotations

from typing import Any


class TilewrightError(Exception):
    """Base of all errors that are answered with one line: ``what``, and a ``remedy``."""

    exit_code = 2

    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}; {self.remedy}" if self.remedy else self.what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.remedy), self.__dict__  # notes travel too


class UsageError(TilewrightError):
    """An argument that cannot be what the user meant."""


class FileMissing(TilewrightError):
    """The file or module named on the command line does not exist."""


class ImportFailed(TilewrightError):
    """The user's file raised while it was imported."""


class NoOperator(TilewrightError):
    """A file holds no operator, or none of the asked name."""


class AnnotationError(TilewrightError):
    """An annotation of a launcher that cannot be read as a tensor or a value."""


class UnknownDim(TilewrightError):
    """A dim that no annotation of the operator names."""


class UnknownParameter(TilewrightError):
    """A name in a declaration or a case that the launcher does not take."""


class UnknownTarget(TilewrightError):
    """A chip we have no table entry for."""


class CaseUnsatisfiable(TilewrightError):
    """No sizes fulfil the declaration's ``where=``."""


class CaseUnknown(TilewrightError):
    """``--case ID`` names no case of this operator, here or in the store."""


class ReferenceFailed(TilewrightError):
    """The golden reference raised: nothing can be compared."""


class LauncherFailed(TilewrightError):
    """The launcher raised on the host, outside any kernel."""

    exit_code = 1


class Stopped(TilewrightError):
    """The user ended the work at hand, from within the debugger."""

    exit_code = 1

    @classmethod
    def by_the_user(cls) -> Stopped:
        return cls("stopped by you, in the debugger")


class KernelCompileError(TilewrightError):
    """Triton rejects the kernel, or the compiler behind it fails.

    ``place`` is the kernel's file and line where they are known.
    """

    exit_code = 1
    place: tuple[str, int] | None = None


class StaticAssertionFailed(KernelCompileError):
    """A ``tl.static_assert`` of the kernel does not hold: how a configuration refuses arguments."""


class StoreFromNewerVersion(TilewrightError):
    """The store was written by a later tilewright than this one."""


class StoreUnusable(TilewrightError):
    """The store's folder cannot be written, or its file is no store."""


class NotTuned(TilewrightError):
    """A kernel under ``@tw.autotune(on_miss="error")`` met sizes that the table has no choice for."""


class NotImportable(TilewrightError):
    """A child process cannot reach an object by file and name."""


class TritonMissing(TilewrightError):
    """Triton is not installed."""

    exit_code = 3

    @classmethod
    def here(cls) -> TritonMissing:
        return cls(
            "Triton is not installed", "pip install 'tilewright[triton]' (or the Triton that fits your torch build)"
        )


class NoGpu(TilewrightError):
    """A stage that times needs a GPU, and this machine has none."""

    exit_code = 3


class ToolMissing(TilewrightError):
    """A program or optional package that was asked for is not installed."""

    exit_code = 3


class ChildFailed(TilewrightError):
    """A child process ended without an answer: it crashed, hung, or outgrew its memory.

    ``reason`` is ``"crashed"``, ``"timeout"`` or ``"memory"``; ``signal`` the one that ended it, if one did.
    """

    exit_code = 4

    def __init__(self, what: str, remedy: str = "", reason: str = "crashed", signal: int | None = None) -> None:
        super().__init__(what, remedy)
        self.reason, self.signal = reason, signal
