"""Occupancy against NVIDIA's own calculator, and the arithmetic of waves."""

import pytest

from tilewright.errors import UsageError
from tilewright.hardware import Limits, find, occupancy, tail_efficiency, waves


# Blocks as cudaOccMaxActiveBlocksPerMultiprocessor of cuda_occupancy.h gives them, with all the shared memory opted in.
@pytest.mark.parametrize(
    ("arch", "registers", "shared", "warps", "blocks", "limited_by"),
    [
        ("sm_90", 168, 0, 12, 1, "registers"),
        ("sm_90", 128, 0, 8, 2, "registers"),
        ("sm_90", 255, 0, 4, 2, "registers"),
        ("sm_90", 255, 0, 8, 1, "registers"),
        # 12 warps x 8192 registers is more than the file holds
        ("sm_90", 255, 0, 12, 0, "none fits"),
        # 168 x 32 is a whole number of allocation units, 169 x 32 is rounded up: two warps a sub-partition, not three
        ("sm_90", 168, 0, 4, 3, "registers"),
        ("sm_90", 169, 0, 4, 2, "registers"),
        # 8 warps a sub-partition are 32 warps, so 10 blocks of 3
        ("sm_90", 64, 0, 3, 10, "registers"),
        ("sm_90", 32, 0, 32, 2, "warps"),
        ("sm_90", 24, 0, 8, 8, "warps"),
        ("sm_90", 32, 0, 1, 32, "blocks"),
        ("sm_90", 128, 164 * 1024, 8, 1, "shared"),
        # two blocks fit up to the byte, the driver's kibibyte for each included
        ("sm_90", 32, 115712, 4, 2, "shared"),
        ("sm_90", 32, 115713, 4, 1, "shared"),
        ("sm_90", 32, 232448, 4, 1, "shared"),
        ("sm_90", 32, 232449, 4, 0, "none fits"),
        ("sm_90", 32, 33 * 1024, 4, 6, "shared"),
        ("sm_80", 32, 166912, 4, 1, "shared"),
        ("sm_80", 32, 166913, 4, 0, "none fits"),
        ("sm_80", 64, 48 * 1024, 4, 3, "shared"),
        ("sm_86", 32, 101376, 4, 1, "shared"),
        ("sm_86", 32, 0, 1, 16, "blocks"),
        ("sm_86", 40, 0, 32, 1, "warps"),
        ("sm_86", 40, 0, 8, 6, "warps"),
        ("sm_89", 32, 0, 1, 24, "blocks"),
        ("sm_89", 128, 49 * 1024, 8, 2, "registers"),
        ("sm_100", 64, 64 * 1024, 8, 3, "shared"),
        ("sm_120", 168, 50000, 4, 2, "shared"),
        ("sm_120", 64, 0, 32, 1, "warps"),
        # more than 1024 threads
        ("sm_120", 32, 0, 33, 0, "none fits"),
    ],
)
def test_agrees_with_the_cuda_occupancy_calculator(arch, registers, shared, warps, blocks, limited_by):
    found = occupancy(find(arch), registers=registers, shared=shared, warps=warps)
    assert (found.blocks_per_unit, found.limited_by) == (blocks, limited_by)


def test_warps_and_fraction():
    found = occupancy(find("h100"), registers=128, shared=0, warps=8)
    assert (found.warps_per_unit, found.fraction) == (16, 0.25)
    found = occupancy(find("rtx4090"), registers=40, shared=0, warps=8)
    assert (found.warps_per_unit, found.fraction) == (48, 1.0)


def test_the_limits_tell_why_nothing_fits():
    found = occupancy(find("a100"), registers=64, shared=200_000, warps=4)
    assert (found.blocks_per_unit, found.warps_per_unit, found.fraction) == (0, 0, 0.0)
    assert found.limited_by == "none fits"
    assert found.limits == Limits(warps=16, blocks=32, registers=8, shared=0)


def test_more_registers_than_a_thread_can_name_fit_nowhere():
    assert occupancy(find("h100"), registers=255, shared=0, warps=1).blocks_per_unit == 8
    assert occupancy(find("h100"), registers=256, shared=0, warps=1).limits.registers == 0


def test_unknown_registers_limit_nothing():
    assert occupancy(find("h100"), registers=0, shared=0, warps=4).limits == Limits(16, 32, 32, 228)


@pytest.mark.parametrize(
    ("arch", "registers", "shared", "warps", "blocks", "limited_by"),
    [
        # 512 registers a lane: 8 wavefronts a SIMD of up to 64 registers, one of up to 512
        ("gfx942", 64, 0, 4, 8, "warps"),
        ("gfx942", 65, 0, 4, 7, "registers"),
        ("gfx942", 128, 0, 4, 4, "registers"),
        ("gfx942", 512, 0, 4, 1, "registers"),
        ("gfx942", 512, 0, 8, 0, "none fits"),
        ("gfx942", 513, 0, 1, 0, "none fits"),
        ("gfx942", 64, 0, 16, 2, "warps"),
        ("gfx942", 64, 0, 17, 0, "none fits"),
        ("gfx942", 64, 65536, 4, 1, "shared"),
        ("gfx942", 64, 65537, 4, 0, "none fits"),
        # 21 KiB are 42 units of 512 bytes, three of which are 63 KiB
        ("gfx942", 64, 21 * 1024, 4, 3, "shared"),
        ("gfx950", 64, 163840, 4, 1, "shared"),
        # 32 000 bytes are 25 units of 1280: five fit; one byte more makes 26
        ("gfx950", 64, 32000, 4, 5, "shared"),
        ("gfx950", 64, 32001, 4, 4, "shared"),
    ],
)
def test_amd(arch, registers, shared, warps, blocks, limited_by):
    found = occupancy(find(arch), registers=registers, shared=shared, warps=warps)
    assert (found.blocks_per_unit, found.limited_by) == (blocks, limited_by)


@pytest.mark.parametrize(("registers", "shared", "warps"), [(-1, 0, 4), (32, -1, 4), (32, 0, 0)])
def test_impossible_resources_are_refused(registers, shared, warps):
    with pytest.raises(UsageError):
        occupancy(find("h100"), registers=registers, shared=shared, warps=warps)


@pytest.mark.parametrize(
    ("programs", "blocks", "count", "efficiency"),
    [(132, 1, 1.0, 1.0), (133, 1, 133 / 132, 133 / 264), (66, 1, 0.5, 0.5), (264, 2, 1.0, 1.0), (396, 2, 1.5, 0.75)],
)
def test_waves_and_their_tail(programs, blocks, count, efficiency):
    assert waves(find("h100"), programs, blocks) == count
    assert tail_efficiency(find("h100"), programs, blocks) == pytest.approx(efficiency, rel=1e-15)


@pytest.mark.parametrize(("programs", "blocks"), [(0, 1), (10, 0)])
def test_no_waves_of_nothing(programs, blocks):
    with pytest.raises(UsageError):
        waves(find("h100"), programs, blocks)
    with pytest.raises(UsageError):
        tail_efficiency(find("h100"), programs, blocks)
