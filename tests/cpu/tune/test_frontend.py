"""Launches that differ in options alone share a module where, and only where, the frontend does not read them."""

import pytest
import torch
import triton
import triton.language as tl

from tilewright.hardware.targets import find
from tilewright.launch.compile import lower
from tilewright.launch.frontend import Frontend
from tilewright.launch.launch import Launch


@triton.jit
def scaled(x, y, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.device_assert(n > 0)
    tl.store(y + offsets, tl.load(x + offsets, mask=offsets < n) * 2.0, mask=offsets < n)


def launched(kernel, options, block=64):
    arguments = {"x": torch.empty(4096), "y": torch.empty(4096), "n": 4096, "BLOCK": block}
    return Launch(kernel, arguments, (64, 1, 1), options)


@pytest.fixture
def counted(monkeypatch):
    """How often the frontend has been at work."""
    from tilewright.launch import compile as compiling

    calls = []
    real = compiling.Specialised.ttir
    monkeypatch.setattr(compiling.Specialised, "ttir", lambda self, options: calls.append(1) or real(self, options))
    return calls


def test_warps_and_stages_share_a_module_and_keep_their_own_options_and_keys(counted):
    frontend, target = Frontend(find("h100")), find("h100")
    launches = [launched(scaled, {"num_warps": w, "num_stages": s}) for w in (2, 4, 8) for s in (1, 3)]
    found = [frontend.lower(launch) for launch in launches]
    assert len(counted) == 1
    assert found == [lower(launch, target) for launch in launches]
    assert len({job.key for job in found}) == len({str(job.asked.options) for job in found}) == 6
    frontend.lower(launched(scaled, {"num_warps": 2}, block=128))
    assert len(counted) == 1 + 6 + 1


def test_an_option_that_the_frontend_reads_makes_another_module_as_a_program_does(counted, monkeypatch):
    frontend, target = Frontend(find("h100")), find("h100")
    plain = frontend.lower(launched(scaled, {}))
    monkeypatch.setattr(scaled, "debug", True)
    debugged = frontend.lower(launched(scaled, {}))
    assert (plain.asked.options["debug"], debugged.asked.options["debug"]) == (False, True)
    assert "tt.assert" not in plain.ttir
    assert "tt.assert" in debugged.ttir
    assert debugged == lower(launched(scaled, {}), target, debug=True)
