"""``tilewright doctor``: what this machine can do, what is missing, and what to do about it."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import sys
from dataclasses import dataclass

import typer

from tilewright.cli import common


@dataclass(frozen=True)
class Check:
    """One line of the answer. ``ok`` None: not there, and not needed for what works without a GPU."""

    name: str
    ok: bool | None
    text: str


def command(json: common.Json = None) -> None:
    checks = [_python(), _torch(), *_triton(), _interpreter(), _gpu(), _ptxas(), _nvml()]
    console = common.console(json)
    for check in checks:
        mark = {True: "ok", False: "MISSING", None: "-"}[check.ok]
        console.line(f"{mark:8}{check.name:13}{check.text}", as_is=True)
    works = ["list, history"]
    if all(c.ok for c in checks if c.name in ("torch", "triton")):
        works.append("tune --arch (feasibility, resources, ranking)")
        works.append("debug in the interpreter" if next(c for c in checks if c.name == "interpreter").ok else "")
        works.append("bench --device cpu")
    if next(c for c in checks if c.name == "gpu").ok:
        works.append("debug --device, bench, tune with timings")
    console.line("works here: " + "; ".join(w for w in works if w))
    exit_code = 0 if all(c.ok is not False for c in checks) else 3
    common.write_json(json, "doctor", exit_code, checks)
    raise typer.Exit(exit_code)


def _version(package: str) -> tuple[int, ...] | None:
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    numbers = text.split("+")[0].split(".")
    return tuple(int(n) for n in numbers if n.isdigit())


def _python() -> Check:
    version = sys.version.split()[0]
    return Check("python", sys.version_info >= (3, 11), version)


def _torch() -> Check:
    version = _version("torch")
    if version is None:
        return Check("torch", False, "not installed: pip install torch")
    return Check("torch", version >= (2, 11), importlib.metadata.version("torch"))


def _triton() -> list[Check]:
    version = _version("triton")
    if version is None:
        return [Check("triton", False, "not installed: pip install 'tilewright[triton]'")]
    text = importlib.metadata.version("triton")
    supported = (3, 6) <= version < (3, 10)
    checks = [Check("triton", supported, text if supported else f"{text}: tilewright knows 3.6 to 3.9")]
    if (3, 4) <= version < (3, 7, 1):
        words = "before 3.7.1 dot(trans(x), y) with x from a dot is miscompiled on Hopper: verify such kernels with debug --device"
        checks.append(Check("", None, words))
    return checks


def _interpreter() -> Check:
    triton, numpy = _version("triton"), _version("numpy")
    if triton is None or numpy is None:
        return Check("interpreter", False, "needs triton and numpy")
    if triton < (3, 8) and numpy >= (2, 4):
        words = (
            f"Triton {importlib.metadata.version('triton')}'s interpreter fails with numpy {importlib.metadata.version('numpy')} "
            "(only 0-dimensional arrays can be converted to Python scalars): pip install 'numpy<2.4', or Triton 3.8"
        )
        return Check("interpreter", False, words)
    return Check("interpreter", True, f"TRITON_INTERPRET=1 works (numpy {importlib.metadata.version('numpy')})")


def _gpu() -> Check:
    probe = importlib.import_module("tilewright.hardware.probe")
    name = probe.gpu_name()
    if name is None:
        return Check("gpu", None, "none seen: timings need one; everything else works")
    target = probe.gpu_target()
    return Check("gpu", True, f"{name} ({target.arch if target else 'no table entry: limits unknown'})")


def _ptxas() -> Check:
    version = importlib.import_module("tilewright.hardware.probe").environment().ptxas
    return Check(
        "ptxas", version is not None, f"{version} (in Triton's wheel)" if version else "not found in Triton's wheel"
    )


def _nvml() -> Check:
    found = importlib.util.find_spec("pynvml") is not None
    return Check(
        "nvml",
        found or None,
        "nvidia-ml-py" if found else "not installed: clocks and the GPU's name need pip install 'tilewright[gpu]'",
    )
