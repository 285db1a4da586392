"""Launchers that reach for a GPU are told what to write instead; what a launcher compiled ahead is launched here too."""

from dataclasses import replace
from pathlib import Path

import launchers
import pytest
import torch
from triton.runtime.errors import OutOfResources

import tilewright as tw
from tilewright.errors import LauncherFailed
from tilewright.hardware.targets import find
from tilewright.launch.capture import capture
from tilewright.launch.host import failure
from tilewright.launch.warmup import plausible_needs

H100 = find("h100")


def caught(call, *arguments, **options):
    launches = []
    with capture(launches.append, H100, **options):
        call(*arguments)
    return launches


# -------------------------------------------------------------------------------------------- reaching for a GPU


@pytest.mark.parametrize(
    ("launcher", "words", "remedy"),
    [
        (launchers.enters_the_device, "reaches for a GPU", "if x.is_cuda else contextlib.nullcontext()"),
        (launchers.asks_for_properties, "reaches for a GPU", "triton.runtime.driver.active"),
        (launchers.asserts_a_capability, "reaches for a GPU", "get_current_target()"),
        (launchers.asserts_is_cuda, "refuses CPU tensors, .*: assert x.is_cuda", "drop the check"),
        (launchers.asserts_the_type, "refuses CPU tensors", "x.device == w.device"),
        (launchers.raises_for_the_type, "refuses CPU tensors, .*if x.device.type != 'cuda': raise", "drop the check"),
        (launchers.allocates_on_cuda, "reaches for a GPU", "device=x.device"),
        (launchers.moves, "reaches for a GPU", "device=x.device"),
        (launchers.takes_a_stream, "reaches for a GPU", "leave it out"),
        (launchers.makes_an_event, "reaches for a GPU", "leave it out"),
        (launchers.synchronizes, "reaches for a GPU", "leave it out"),
        (launchers.makes_a_generator, "reaches for a GPU", "device=x.device"),
    ],
)
def test_a_launcher_that_reaches_for_a_gpu_is_told_what_to_write_instead(launcher, words, remedy):
    with pytest.raises(LauncherFailed, match=words) as caught_error:
        caught(launcher, torch.ones(100))
    assert remedy in caught_error.value.remedy
    names = []
    trace = caught_error.value.__traceback__
    while trace is not None:
        names.append(trace.tb_frame.f_code.co_name)
        trace = trace.tb_next
    assert launcher.__name__ in names  # so that a finding has the author's line


def test_other_errors_of_a_launcher_pass_as_they_are():
    with pytest.raises(AssertionError, match="a multiple of 64"):
        caught(launchers.is_merely_wrong, torch.ones(100))


def test_what_a_kernel_raises_is_not_the_launchers_reaching():
    def handler(launch):
        raise RuntimeError("a kernel that speaks of CUDA")

    with pytest.raises(RuntimeError, match="a kernel that speaks"), capture(handler, H100):
        launchers.double(torch.ones(100))


def test_a_tensor_elsewhere_is_refused_before_it_is_executed():
    x = torch.empty(100, device="meta")
    with capture(lambda launch: None, H100):
        launchers.double(x)

    class Elsewhere(torch.Tensor):
        device = torch.device("cuda", 0)

    with pytest.raises(LauncherFailed, match="x_ptr is on cuda:0, while the launcher is run with CPU tensors"):
        caught(lambda: launchers.double_kernel[(1,)](torch.ones(9).as_subclass(Elsewhere), x, 9, BLOCK=64))


def test_whatever_a_launcher_raises_is_one_line_with_its_place():
    try:
        launchers.is_merely_wrong(torch.ones(100))
    except AssertionError as error:
        told = str(failure(error))
    line = next(
        i for i, text in enumerate(Path(launchers.__file__).read_text().splitlines(), 1) if '"a multiple of 64"' in text
    )
    assert told == f"{launchers.__file__}:{line}: the launcher raised AssertionError: a multiple of 64"


def test_debug_makes_it_a_finding_with_line_and_remedy():
    (result,) = tw.debug(launchers.reaching, [dict(N=10)]).results
    (finding,) = result.findings
    assert (finding.kind, finding.source) == ("launch-error", "assert x.is_cuda")
    assert finding.message.startswith("the launcher refuses CPU tensors")
    assert "drop the check" in finding.remedy
    assert tw.debug(launchers.reaching).exit_code == 1, "planning survives it"


def test_tune_makes_it_a_trial_that_failed():
    for operator, words in ((launchers.reaching, "drop the check"), (launchers.wrong_sizes, "a multiple of 64")):
        report = tw.tune(operator, targets=[H100], cases=[dict(N=100)])
        ((trial,),) = report.trials.values()
        assert trial.status == "failed"
        assert "launchers.py:" in trial.reason
        assert words in trial.reason
        assert report.exit_code == 1


# ---------------------------------------------------------------------------------------------- compiled ahead


def warmed(**options):
    return launchers.double_kernel.warmup(torch.float32, torch.float32, 100, BLOCK=64, grid=(1,), **options)


def test_a_kernel_compiled_ahead_has_figures_and_launches():
    launches = []
    x, y = torch.ones(100), torch.empty(100)
    with capture(launches.append, H100):
        kernel = warmed(num_warps=8)
        assert launches == []
        kernel._init_handles()
        assert (kernel.metadata.num_warps, kernel.metadata.name) == (8, "double_kernel")
        assert kernel.metadata.shared > 0 < kernel.n_regs <= 255
        assert kernel.n_spills == 0
        kernel[(2, 1, 1)](x, y, 90, 64)
    (launch,) = launches
    assert (launch.grid, launch.options) == ((2, 1, 1), {"num_warps": 8})
    assert launch.arguments["y_ptr"] is y
    assert (launch.arguments["N"], launch.constexprs) == (90, {"BLOCK": 64})


def test_a_kernel_compiled_ahead_refuses_what_triton_would():
    x = torch.ones(100)
    with capture(print, H100):
        kernel = warmed()
        with pytest.raises(LauncherFailed, match="it takes 4 arguments, and got 3"):
            kernel[(2, 1, 1)](x, x, 100)
        with pytest.raises(LauncherFailed, match="the grid is") as refused:
            kernel[(2,)](x, x, 100, 64)
        assert "three sizes" in refused.value.remedy
        with pytest.raises(AttributeError, match="it has n_regs"):
            kernel.asm


def test_a_kernel_too_large_for_the_chip_raises_what_triton_raises():
    with capture(print, H100, needs=lambda launch: replace(plausible_needs(launch), shared=2**20)):
        kernel = warmed()
        with pytest.raises(OutOfResources, match="shared memory"):
            kernel._init_handles()


def test_a_persistent_kernel_that_asks_what_it_needs_is_debugged():
    report = tw.debug(launchers.persistent_softmax, [dict(M=300, N=65), dict(M=3, N=1)])
    assert report.exit_code == 0, report.findings
    assert all(result.launches == 1 for result in report.results)


def test_a_persistent_kernel_that_asks_what_it_needs_is_tuned_with_the_compilers_figures():
    report = tw.tune(launchers.persistent_softmax, targets=[find("a100"), H100])
    for (_, chip), (trial,) in report.trials.items():
        assert trial.status == "compiled", trial.reason
        (needs,) = trial.resources
        target = find(chip)
        resident = min(65536 // (needs.registers * 32 * 8), target.shared_per_block // needs.shared)
        programs = min(resident * target.compute_units, 4096)
        # Waves are programs over what the chip holds: only the compiler's own figures give this grid.
        assert trial.waves == programs / (target.compute_units * trial.occupancy * target.max_warps_per_unit / 8)
