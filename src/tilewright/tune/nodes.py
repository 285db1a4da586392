"""What happens on the nodes of a Ray cluster: in tasks that compile, and in the actors of GPUs that measure (cluster.py).

Each job runs in a child of the task's or actor's process, as on one machine.
"""

from __future__ import annotations

import functools
import importlib
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import NoGpu, TilewrightError
from tilewright.hardware.probe import gpu_name, gpu_target
from tilewright.launch import kept
from tilewright.launch.kept import Kept, compile_and_keep
from tilewright.tune.crew import Crew, Job

Files = Mapping[str, bytes]


@dataclass(frozen=True)
class Brought:
    """A compiled kernel with its files, on its way from the node that compiled it."""

    kernel: Kept
    files: Files


@dataclass(frozen=True)
class Unready:
    """A child could not be prepared, which no configuration is to blame for."""

    error: TilewrightError


def describe_gpu() -> tuple[str, str]:
    """The name of this node's GPU, and of its Target."""
    name, target = gpu_name(), gpu_target()
    if name is None or target is None:
        raise NoGpu(
            "a node of the cluster has a GPU that is not known", "it must be seen by NVML: pip install nvidia-ml-py"
        )
    return name, target.name


def described(describe: str) -> tuple[str, str, str]:
    """What ``describe`` says of this node's GPU, and Triton's hash of itself here."""
    module, _, name = describe.partition(":")
    device, target = getattr(importlib.import_module(module), name)()
    return device, target, kept.triton_key()


@functools.cache
def _compilers() -> Crew:
    """The compiling child of this worker of Ray."""
    return Crew([{}], quiet=True)


def compile_job(job: Job) -> Any:
    """What a task of the cluster does: one compilation, in a child of this worker of Ray."""
    if job.task != kept.TASK:
        return _answer(_compilers(), job)
    with tempfile.TemporaryDirectory() as folder:
        arguments = {**job.arguments, "folder": folder, "triton_key": kept.triton_key()}
        return _answer(_compilers(), replace(job, task=_BRING, arguments=arguments))


_BRING = "tilewright.tune.nodes:compile_and_bring"


def compile_and_bring(emit: Any, **arguments: Any) -> Brought:
    """``compile_and_keep`` in a child, with the files that it left in the folder."""
    kernel = compile_and_keep(emit, **arguments)
    return Brought(kernel, kept.contents(kernel))


class Measurer:
    """The actor of one GPU: a child that is replaced when a configuration kills it."""

    def __init__(self, first: Job) -> None:
        here = {**first.arguments, "folder": kept.folder(), "triton_key": kept.triton_key()}
        env = {"TRITON_INTERPRET": None}
        self._crew = Crew([env], first=replace(first, arguments=here), stdout_to_stderr=True)
        self._crew.warm_up()

    def pid(self) -> int:
        """Of the actor; its answer says that it has started."""
        return os.getpid()

    def perform(self, job: Job, *brought: Brought) -> Any:
        """The answer or error of a job, whose kernels are put into this node's cache first."""
        try:
            for one in brought:
                if not kept.is_there(one.kernel):
                    kept.put_back(one.kernel, one.files)
            return _answer(self._crew, job)
        except TilewrightError as error:
            return Unready(error)


def _answer(crew: Crew, job: Job) -> Any:
    crew.submit(job)
    ((_, answer),) = crew.ended()
    return answer
