"""The table is whole and consistent with itself, and names resolve to the right board or to none."""

import dataclasses
import pickle
import subprocess
import sys

import pytest

from tilewright.errors import UnknownTarget
from tilewright.hardware import all_targets, find, find_all

NAMES = ["a100", "a10", "rtx3090", "l40s", "rtx4090", "h100", "h200", "b200", "rtx5090", "mi300x", "mi350x", "mi355x"]


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("a100", "a100"),
        ("A100", "a100"),
        ("a100-80gb", "a100"),
        ("nvidia h100", "h100"),
        ("H100 SXM5", "h100"),
        ("NVIDIA H200", "h200"),
        ("4090", "rtx4090"),
        ("RTX 4090", "rtx4090"),
        ("rtx5090", "rtx5090"),
        ("rtx 50", "rtx5090"),
        ("rtx-3090", "rtx3090"),
        ("mi300", "mi300x"),
        ("MI355X", "mi355x"),
        # an arch stands for its first board
        ("sm_80", "a100"),
        ("sm_86", "a10"),
        ("sm_89", "l40s"),
        ("sm_90", "h100"),
        ("sm90", "h100"),
        ("sm_90a", "h100"),
        ("90", "h100"),
        ("9.0", "h100"),
        ("cuda:90", "h100"),
        ("100", "b200"),
        ("sm_120", "rtx5090"),
        ("gfx942", "mi300x"),
        ("hip:gfx950", "mi350x"),
        ("gfx942:sramecc+:xnack-", "mi300x"),
        # as torch.cuda.get_device_name tells them
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA GeForce RTX 3090", "rtx3090"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GeForce RTX 5090", "rtx5090"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Instinct MI350X", "mi350x"),
    ],
)
def test_a_name_resolves(asked, name):
    assert find(asked).name == name


@pytest.mark.parametrize("name", NAMES)
def test_every_target_answers_to_its_own_name_and_title(name):
    assert find(name).name == name
    assert find(find(name).title).name == name


@pytest.mark.parametrize(
    ("asked", "closest"),
    [
        ("NVIDIA A100-SXM4-40GB", "a100"),
        ("NVIDIA A100 80GB PCIe", "a100"),
        ("NVIDIA H100 PCIe", "h100"),
        ("NVIDIA H100 80GB HBM3 MIG 3g.40gb", "h100"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx4090"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx3090"),
        ("NVIDIA A10G", "a10"),
    ],
)
def test_another_board_of_the_same_chip_is_refused_and_the_closest_named(asked, closest):
    with pytest.raises(UnknownTarget) as caught:
        find(asked)
    assert asked in caught.value.what
    assert caught.value.remedy.startswith(f"did you mean {closest} (")


@pytest.mark.parametrize("asked", ["", "sm_75", "gfx90a", "nvidia", "80gb", "v100x9", "tpu"])
def test_an_unknown_name_is_told_all_there_are(asked):
    with pytest.raises(UnknownTarget) as caught:
        find(asked)
    assert f"known are {', '.join(NAMES)}, and by arch sm_80, sm_86, sm_89, sm_90, sm_100, sm_120, gfx942, gfx950" in (
        caught.value.remedy
    )


def test_a_typing_error_is_told_the_close_names():
    with pytest.raises(UnknownTarget, match=r"did you mean h100 \(NVIDIA H100 SXM\)"):
        find("h10O")


def test_find_all_keeps_the_order_and_drops_repeats():
    assert [target.name for target in find_all("h100, a100,sm_90,")] == ["h100", "a100"]
    with pytest.raises(UnknownTarget):
        find_all(" , ")
    with pytest.raises(UnknownTarget, match="'nope'"):
        find_all("a100,nope")


def test_the_table_holds_these_targets():
    assert [target.name for target in all_targets()] == NAMES


@pytest.mark.parametrize(
    ("name", "backend", "capability", "warp_size"),
    [
        ("a100", "cuda", 80, 32),
        ("h200", "cuda", 90, 32),
        ("b200", "cuda", 100, 32),
        ("rtx5090", "cuda", 120, 32),
        ("mi300x", "hip", "gfx942", 64),
        ("mi350x", "hip", "gfx950", 64),
    ],
)
def test_what_tritons_gputarget_takes(name, backend, capability, warp_size):
    target = find(name)
    assert (target.backend, target.capability, target.warp_size) == (backend, capability, warp_size)


@pytest.mark.parametrize(
    ("name", "shared_per_block", "shared_per_unit", "warps", "blocks", "units"),
    [
        ("a100", 166912, 167936, 64, 32, 108),
        ("a10", 101376, 102400, 48, 16, 72),
        ("rtx3090", 101376, 102400, 48, 16, 82),
        ("l40s", 101376, 102400, 48, 24, 142),
        ("rtx4090", 101376, 102400, 48, 24, 128),
        ("h100", 232448, 233472, 64, 32, 132),
        ("h200", 232448, 233472, 64, 32, 132),
        ("b200", 232448, 233472, 64, 32, 148),
        ("rtx5090", 101376, 102400, 48, 24, 170),
        ("mi300x", 65536, 65536, 32, 32, 304),
        ("mi350x", 163840, 163840, 32, 32, 256),
    ],
)
def test_limits(name, shared_per_block, shared_per_unit, warps, blocks, units):
    target = find(name)
    assert target.shared_per_block == shared_per_block
    assert target.shared_per_unit == shared_per_unit
    assert target.max_warps_per_unit == warps
    assert target.max_blocks_per_unit == blocks
    assert target.compute_units == units


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_an_entry_agrees_with_itself(target):
    assert target.max_threads_per_unit == target.max_warps_per_unit * target.warp_size
    assert target.shared_per_block + target.shared_reserved_per_block == target.shared_per_unit
    assert target.registers_per_unit % (target.warp_allocation_granularity * target.register_allocation_unit) == 0
    assert (target.backend == "cuda") == target.arch.startswith("sm_")
    assert target.claims_timing == (target.backend == "cuda")
    assert {"fp64", "fp32", "bf16", "fp16", "int8"} <= set(target.peak)


# FLOP a clock and unit: a wrong digit in a peak, a sparse rate or a wrong clock does not give these.
PER_CLOCK = {
    "a100": {"fp64": 128, "fp32": 128, "tf32": 1024, "bf16": 2048, "fp16": 2048, "int8": 4096},
    "a10": {"fp64": 4, "fp32": 256, "tf32": 512, "bf16": 1024, "fp16": 1024, "int8": 2048},
    "rtx3090": {"fp64": 4, "fp32": 256, "tf32": 256, "bf16": 512, "fp16": 512, "int8": 2048},
    "l40s": {"fp64": 4, "fp32": 256, "tf32": 512, "bf16": 1024, "fp16": 1024, "fp8": 2048, "int8": 2048},
    "rtx4090": {"fp64": 4, "fp32": 256, "tf32": 256, "bf16": 512, "fp16": 512, "fp8": 1024, "int8": 2048},
    "h100": {"fp64": 256, "fp32": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    "h200": {"fp64": 256, "fp32": 256, "tf32": 2048, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    "b200": {"fp64": 128, "fp32": 256, "tf32": 4096, "bf16": 8192, "fp16": 8192, "fp8": 16384, "int8": 16384},
    "rtx5090": {"fp64": 4, "fp32": 256, "tf32": 256, "bf16": 512, "fp16": 512, "fp8": 1024, "int8": 2048},
    "mi300x": {"fp64": 256, "fp32": 256, "tf32": 1024, "bf16": 2048, "fp16": 2048, "fp8": 4096, "int8": 4096},
    "mi350x": {"fp64": 128, "fp32": 256, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
    "mi355x": {"fp64": 128, "fp32": 256, "bf16": 4096, "fp16": 4096, "fp8": 8192, "int8": 8192},
}


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_peaks_are_whole_numbers_of_operations_a_clock_and_unit(target):
    assert set(target.peak) == set(PER_CLOCK[target.name])
    for dtype, per_clock in PER_CLOCK[target.name].items():
        clock = target.boost_clock if dtype in ("fp32", "fp64") else target.tensor_clock
        assert target.peak[dtype] / (target.compute_units * clock) == pytest.approx(per_clock, rel=0.01), dtype


@pytest.mark.parametrize(
    ("name", "bandwidth"),
    [("a100", 2.039e12), ("rtx4090", 1.008e12), ("h100", 3.35e12), ("h200", 4.8e12), ("mi300x", 5.3e12)],
)
def test_memory_bandwidth(name, bandwidth):
    assert find(name).memory_bandwidth == bandwidth


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.name)
def test_every_figure_has_a_source(target):
    described = {"name", "title", "backend", "claims_timing", "sources", "aliases", "board"}
    figures = {field.name for field in dataclasses.fields(target)} - described
    assert set(target.sources) == figures
    assert all(target.sources.values())


def test_a_target_can_be_hashed_and_sent_to_another_process():
    target = find("h100")
    assert len({target, find("sm_90"), find("h200")}) == 2
    assert pickle.loads(pickle.dumps(target)) == target


def test_the_package_imports_neither_torch_nor_triton():
    code = "import sys, tilewright.hardware; print(sorted({'torch', 'triton', 'numpy'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
