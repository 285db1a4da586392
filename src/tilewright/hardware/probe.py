"""What this machine is: the environment every number is kept with, and the GPU it has, if any."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from tilewright.errors import UnknownTarget
from tilewright.hardware import clocks
from tilewright.hardware.target import Target
from tilewright.hardware.targets import all_targets, find
from tilewright.records import Environment


@cache
def gpu_name() -> str | None:
    """The name of the first GPU as its driver gives it, or None; asks NVML, which is there with any driver."""
    return clocks.device_name()


def gpu_target() -> Target | None:
    """The Target of the GPU in this machine; of its architecture where the very board has no entry."""
    name = gpu_name()
    if name is None:
        return None
    try:
        return find(name)
    except UnknownTarget:
        arch = clocks.architecture()
        return next((target for target in all_targets() if target.arch == arch), None)


def environment() -> Environment:
    """This machine, its clocks and the versions in use, now."""
    target = gpu_target()
    reading = clocks.read()
    return Environment(
        chip=gpu_name() or "no GPU",
        arch=target.arch if target else None,
        driver=clocks.driver_version(),
        clock_mhz=reading.sm_mhz if reading else None,
        max_clock_mhz=reading.max_sm_mhz if reading else None,
        power_limit_watts=reading.power_limit_watts if reading else None,
        cpu=_cpu_name(),
        cpu_count=os.cpu_count() or 1,
        python=platform.python_version(),
        torch=_version("torch"),
        triton=_version("triton"),
        ptxas=ptxas_version(),
        cuda=clocks.cuda_version(),
        numpy=_version("numpy"),
        tilewright=_version("tilewright") or "not installed",
        commit=_commit(),
        when=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


@cache
def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or "unknown"
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


@cache
def ptxas_version() -> str | None:
    """Of the ptxas that Triton takes, ``TRITON_PTXAS_PATH`` or that in its wheel, found without importing Triton."""
    if named := os.environ.get("TRITON_PTXAS_PATH"):
        return _version_of_ptxas(Path(named))
    try:
        distribution = importlib.metadata.distribution("triton")
    except importlib.metadata.PackageNotFoundError:
        return None
    return _version_of_ptxas(Path(str(distribution.locate_file("triton/backends/nvidia/bin/ptxas"))))


def _version_of_ptxas(tool: Path) -> str | None:
    if not tool.is_file():
        return None
    words = subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout.split()
    return next((word.removeprefix("V") for word in words if word.startswith("V")), None)


@cache
def _commit() -> str | None:
    """The commit of the checkout this file is in, with a mark where files differ from it.

    ``TILEWRIGHT_COMMIT`` says it where the files travelled without their repository.
    """
    if told := os.environ.get("TILEWRIGHT_COMMIT"):
        return told
    folder = Path(__file__).parent
    try:
        commit = subprocess.run(
            ["git", "-C", folder, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False
        )
        changed = subprocess.run(
            ["git", "-C", folder, "status", "--porcelain", "-uno"], capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    if commit.returncode != 0 or "site-packages" in str(folder):
        return None
    return commit.stdout.strip() + ("+changes" if changed.stdout.strip() else "")
