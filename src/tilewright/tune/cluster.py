"""Tuning over a Ray cluster (``--ray``, extra ``cluster``): compilers are tasks for a CPU, each GPU has an actor that measures.

The search and the store stay where the command runs; compiled kernels travel through it. Inside a task or an actor a job
runs in a child of its own as it does on one machine, so that a configuration costs itself; a node or an actor that dies
costs what was running there, which is begun anew elsewhere. All nodes need the same tilewright and Triton, and the
operator's file at the same path.
"""

from __future__ import annotations

import importlib
import os
import socket
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.errors import ChildFailed, NoGpu, TilewrightError, ToolMissing, UsageError
from tilewright.hardware.target import Target
from tilewright.hardware.targets import find
from tilewright.launch import kept
from tilewright.launch.kept import Kept
from tilewright.records import Config
from tilewright.tune.crew import Job, Jobs
from tilewright.tune.gpu_runner import GpuRunner, Measuring
from tilewright.tune.nodes import Brought, Measurer, Unready, compile_job, described
from tilewright.tune.runner import Duelling

_LOST = 3
"""How often a job may lose its node or actor before it is given up."""
_CONNECT_SECONDS = 60.0
_REACH_SECONDS = 5.0
_LOOK_SECONDS = 0.2


class Cluster:
    """A :class:`~tilewright.tune.machine.Machine` made of the GPUs of a Ray cluster, which must be alike.

    Args:
        address: of the cluster, or ``auto`` for the one that this machine belongs to.
        describe: ``module:function`` that says on a node what its GPU is; of :func:`describe_gpu`'s form.

    Raises:
        ToolMissing: Ray is not installed.
        UsageError: there is no cluster, its GPUs differ, or it has another Triton than this machine.
        NoGpu: it has no GPU that we know a Target for.
    """

    def __init__(self, address: str, describe: str = "tilewright.tune.nodes:describe_gpu") -> None:
        try:
            self._ray: Any = importlib.import_module("ray")
        except ImportError:
            raise ToolMissing("Ray is not installed", "pip install 'tilewright[cluster]'") from None
        if not self._ray.is_initialized():
            self._connect(address)
        resources = self._ray.cluster_resources()
        self._cpus, self.gpus = int(resources.get("CPU", 0)), int(resources.get("GPU", 0))
        if not self.gpus:
            self.close()
            raise NoGpu(f"the Ray cluster at {address} has no GPU", "add a node that has one: ray start --address …")
        self._require_alike()
        self.device, name, build = self._run(described, describe)
        self.target: Target = find(name)
        if build != kept.triton_key():
            self.close()
            raise UsageError("the nodes of the cluster have another Triton than this machine", "install the same")

    def _connect(self, address: str) -> None:
        # Workers import from where we import, so that an uninstalled checkout works too.
        _require_reachable(address)
        paths = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        try:
            self._ray.init(address=address, log_to_driver=False, logging_level="error", runtime_env={"env_vars": paths})
        except (ConnectionError, RuntimeError, ValueError) as error:
            words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise UsageError(f"no Ray cluster at {address}: {words}", "start one: ray start --head") from None

    def _require_alike(self) -> None:
        """Times of one board say nothing of another."""
        prefix = "accelerator_type:"
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"] and node["Resources"].get("GPU")]
        kinds = sorted({name.removeprefix(prefix) for node in nodes for name in node if name.startswith(prefix)})
        if len(kinds) > 1:
            self.close()
            raise UsageError(
                f"the GPUs of the cluster are of several kinds: {', '.join(kinds)}", "tune on one kind at a time"
            )

    def _run(self, function: Any, *arguments: Any) -> Any:
        try:
            return self._ray.get(
                self._ray.remote(num_gpus=1, num_cpus=0)(function).remote(*arguments), timeout=_CONNECT_SECONDS
            )
        except self._ray.exceptions.GetTimeoutError:
            self.close()
            raise NoGpu("no GPU of the Ray cluster became free within a minute") from None
        except self._ray.exceptions.RayTaskError as error:
            self.close()
            raise error.cause from None

    def runner(self, configs: Sequence[Config], measuring: Measuring) -> Duelling:
        return GpuRunner(configs, measuring, lambda first: Actors(self._ray, first, self.gpus))

    def compilers(self, workers: int | None, measuring: int) -> Jobs:
        return Tasks(self._ray, workers or max(self._cpus, 1))

    def close(self) -> None:
        """Leaves the cluster."""
        self._ray.shutdown()


def _require_reachable(address: str) -> None:
    """Ray itself takes minutes to say that nobody answers."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), _REACH_SECONDS).close()
    except OSError as error:
        raise UsageError(f"no Ray cluster at {address}: {error}", "start one: ray start --head") from None


@dataclass
class _Running:
    job: Job
    seat: int | None = None  # of the actor that is at it
    lost: int = 0


class _Remote:
    """What crews of a cluster share: references that are waited for, and jobs that are begun anew."""

    def __init__(self, ray: Any, capacity: int) -> None:
        self._ray, self.capacity = ray, capacity
        self._running: dict[Any, _Running] = {}
        self._again: deque[_Running] = deque()
        self.refused: list[TilewrightError] = []

    @property
    def free(self) -> int:
        return max(self.capacity - len(self._running) - len(self._again), 0)

    def ended(self, timeout: float | None = None) -> list[tuple[Job, Any]]:
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            self._go_on()
            left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
            references = [*self._running]
            ready = []
            if references:
                # Not for long at a time: meanwhile an actor may have started that a job waits for.
                wait = _LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)
                ready, _ = self._ray.wait(references, num_returns=1, timeout=wait)
            elif self._again:
                time.sleep(_LOOK_SECONDS)
            if ready:
                ready, _ = self._ray.wait(references, num_returns=len(references), timeout=0)
            found = [ended for reference in ready if (ended := self._take(reference)) is not None]
            self._go_on()
            if found or not (self._running or self._again) or (left is not None and left <= 0):
                return found

    def _take(self, reference: Any) -> tuple[Job, Any] | None:
        """A job that has ended; None where it was lost, and is begun anew."""
        running = self._running.pop(reference)
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError as error:
            self._return(running)
            return running.job, ChildFailed(f"on a node of the cluster: {error.cause}", reason="crashed")
        except self._ray.exceptions.RayError as error:  # its actor or its node is gone
            self._lose(running)
            running.lost += 1
            if running.lost < _LOST:
                self._again.append(running)
                return None
            words = f"lost with its node {_LOST} times: {type(error).__name__}"
            return running.job, ChildFailed(words, reason="crashed")
        self._return(running)
        return running.job, self._arrived(answer)

    def _go_on(self) -> None:
        raise NotImplementedError

    def _lose(self, running: _Running) -> None:
        """The actor of a job is gone."""

    def _return(self, running: _Running) -> None:
        """The actor of a job is free."""

    def _arrived(self, answer: Any) -> Any:
        return answer


class Tasks(_Remote):
    """Compilers of a cluster, one for each CPU; what they compiled is put into Triton's cache here."""

    def __init__(self, ray: Any, capacity: int) -> None:
        super().__init__(ray, capacity)
        self._perform = ray.remote(num_cpus=1, max_retries=0)(compile_job)

    def submit(self, job: Job) -> None:
        self._begin(_Running(job))

    def _begin(self, running: _Running) -> None:
        self._running[self._perform.remote(running.job)] = running

    def _go_on(self) -> None:
        while self._again:
            self._begin(self._again.popleft())

    def _arrived(self, answer: Any) -> Any:
        if isinstance(answer, Brought):
            kept.put_back(answer.kernel, answer.files)
            return answer.kernel
        return answer

    def close(self) -> None:
        for reference in self._running:
            self._ray.cancel(reference, force=True)
        self._running.clear()


class Actors(_Remote):
    """One actor for each GPU of a cluster; each has a child that prepares itself as ``first`` says."""

    def __init__(self, ray: Any, first: Job, capacity: int) -> None:
        super().__init__(ray, capacity)
        self._make = ray.remote(num_gpus=1, num_cpus=0, max_restarts=0)(Measurer)
        self._first = first
        self._actors = {seat: self._make.remote(first) for seat in range(capacity)}
        self._idle = deque(self._actors)
        self._starting: dict[Any, int] = {}  # seats whose new actor waits for a GPU
        self._files: dict[str, Any] = {}

    def submit(self, job: Job) -> None:
        self._again.append(_Running(job))
        self._go_on()

    def _go_on(self) -> None:
        if self._starting:
            started, _ = self._ray.wait([*self._starting], num_returns=len(self._starting), timeout=0)
            for reference in started:
                self._idle.append(self._starting.pop(reference))
        while self._again and self._idle:
            running = self._again.popleft()
            running.seat = self._idle.popleft()
            brought = [self._brought(kernel) for kernel in running.job.kernels]
            self._running[self._actors[running.seat].perform.remote(replace(running.job, kernels=()), *brought)] = (
                running
            )

    def _brought(self, kernel: Kept) -> Any:
        """A kernel's files, which go to each node once."""
        if kernel.key not in self._files:
            self._files[kernel.key] = self._ray.put(Brought(kernel, kept.contents(kernel)))
        return self._files[kernel.key]

    def _lose(self, running: _Running) -> None:
        assert running.seat is not None
        actor = self._actors[running.seat] = self._make.remote(self._first)  # where a GPU is left for it
        self._starting[actor.pid.remote()] = running.seat

    def _return(self, running: _Running) -> None:
        assert running.seat is not None
        self._idle.append(running.seat)

    def _arrived(self, answer: Any) -> Any:
        if isinstance(answer, Unready):
            raise answer.error
        return answer

    def close(self) -> None:
        for actor in self._actors.values():
            self._ray.kill(actor)
        self._running.clear()
        self._again.clear()
        self._actors.clear()
