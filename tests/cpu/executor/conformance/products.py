"""Matrix products against fp64 ones."""

from dataclasses import dataclass

import numpy as np
import torch
import triton.language as tl

from .kernels_products import dot_kernel, dot_scaled_kernel, shared_side_kernel
from .launching import run
from .samples import DTYPES

PROGRAMS = 2
_OUT = {"fp32": tl.float32, "fp16": tl.float16, "int32": tl.int32, "fp64": tl.float64}
_E2M1 = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@dataclass(frozen=True)
class DotCase:
    """``a @ b (+ acc)``; ``kept`` bits of fraction are what each side is rounded to first."""

    dtype: str
    precision: str | None = None
    output: str = "fp32"
    accumulates: bool = False
    batch: int = 0
    tolerance: float = 1e-5

    def __str__(self) -> str:
        return f"{self.dtype}-{self.precision}-{self.output}-acc{int(self.accumulates)}-b{self.batch}"

    def check(self, seed: int) -> str:
        rng = np.random.default_rng(seed)
        m, n, k = 16, 32, 64
        lead = (self.batch,) if self.batch else ()
        shapes = [(*lead, m, k), (*lead, k, n), (*lead, m, n)]
        a, b, acc = (self._drawn(rng, (PROGRAMS, *shape), i == 2) for i, shape in enumerate(shapes))
        out = torch.zeros(acc.shape, dtype=acc.dtype)
        sizes = dict(zip(("SIZE_A", "SIZE_B", "SIZE_C"), (int(np.prod(s)) for s in shapes)))
        named = dict(zip(("SHAPE_A", "SHAPE_B", "SHAPE_C"), shapes))
        options = dict(PRECISION=self.precision, OUT=_OUT[self.output], WITH_ACC=self.accumulates)
        run(dot_kernel, (PROGRAMS,), a, b, acc, out, **named, **sizes, **options)
        wide = [t.float().double() if t.dtype.itemsize == 1 and t.is_floating_point() else t.double() for t in (a, b)]
        expected = wide[0] @ wide[1] + (acc.double() if self.accumulates else 0)
        if self.output == "int32":
            return "" if torch.equal(out.long(), expected.long()) else "the integers differ"
        scale = (wide[0].abs() @ wide[1].abs()).max()
        worst = float((out.double() - expected).abs().max() / scale)
        return "" if worst <= self.tolerance else f"off by {worst} of the magnitudes"

    def _drawn(self, rng: np.random.Generator, shape: tuple[int, ...], is_accumulator: bool) -> torch.Tensor:
        dtype = DTYPES[self.output if is_accumulator else self.dtype]
        if not dtype.is_floating_point:
            limit = 1000 if is_accumulator else 127
            return torch.from_numpy(rng.integers(-limit - 1, limit, shape)).to(dtype)
        return torch.from_numpy(rng.normal(size=shape)).to(dtype)


def dots() -> list[DotCase]:
    found = [
        DotCase("fp32", "ieee", tolerance=1e-6),
        DotCase("fp32", "tf32", tolerance=1e-3),
        DotCase("fp32", "tf32x3", tolerance=1e-6),
        DotCase("fp16", tolerance=1e-6),
        DotCase("fp16", output="fp16", tolerance=1e-3),
        DotCase("bf16", tolerance=1e-6),
        DotCase("int8", output="int32"),
        DotCase("fp8e5", tolerance=1e-6),
        DotCase("fp8e4nv", tolerance=1e-6),
        DotCase("fp64", output="fp64", tolerance=1e-14),
    ]
    with_acc = [DotCase(c.dtype, c.precision, c.output, True, 0, c.tolerance) for c in found]
    batched = [DotCase(c.dtype, c.precision, c.output, True, 4, c.tolerance) for c in found]
    return found + with_acc + batched


def check_shared_side(seed: int) -> str:
    generator = torch.Generator().manual_seed(seed)
    a = torch.randn(3, 16, 32, generator=generator)
    b = torch.randn(32, 16, generator=generator)
    out = torch.zeros(3, 16, 16)
    run(shared_side_kernel, (3,), a, b, out, M=16, N=16, K=32)
    return "" if torch.allclose(out, a @ b, atol=1e-5) else "a side that all programs share gives another product"


@dataclass(frozen=True)
class ScaledCase:
    """Microscaled formats of both sides, with and without scales."""

    left: str
    right: str
    left_scaled: bool = True
    right_scaled: bool = True
    k_packed: bool = True

    def __str__(self) -> str:
        return f"{self.left}{int(self.left_scaled)}-{self.right}{int(self.right_scaled)}-{int(self.k_packed)}"

    def check(self, seed: int) -> str:
        generator = torch.Generator().manual_seed(seed)
        m, n, k = 32, 64, 128
        a, left = _side(self.left, (m, k), -1 if self.k_packed else 0, generator)
        b, right = _side(self.right, (k, n), 0, generator)
        scales = [torch.randint(120, 134, (size, k // 32), generator=generator, dtype=torch.uint8) for size in (m, n)]
        factors = [torch.exp2(s.double() - 127).repeat_interleave(32, 1) for s in scales]
        left = left * factors[0] if self.left_scaled else left
        right = right * factors[1].T if self.right_scaled else right
        out = torch.zeros(m, n)
        given = [s if on else None for s, on in zip(scales, (self.left_scaled, self.right_scaled))]
        packs = [2 if name == "e2m1" else 1 for name in (self.left, self.right)]
        options = dict(
            A=self.left, B=self.right, PACK_A=packs[0], PACK_B=packs[1], A_K_PACKED=self.k_packed, M=m, N=n, K=k
        )
        run(dot_scaled_kernel, (1,), a, given[0], b, given[1], out, **options)
        worst = float((out.double() - left @ right).abs().max() / (left.abs() @ right.abs()).max())
        return "" if worst < 1e-6 else f"off by {worst} of the magnitudes"


def _side(
    kind: str, shape: tuple[int, int], packed: int, generator: torch.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """What goes in, and the numbers it stands for."""
    if kind == "e2m1":
        codes = torch.randint(0, 16, shape, generator=generator)
        values = torch.where(codes >= 8, -_E2M1[codes & 7], _E2M1[codes & 7]).double()
        low, high = (codes[..., i::2] if packed == -1 else codes[i::2] for i in (0, 1))
        return (low | (high << 4)).to(torch.uint8).contiguous(), values
    x = torch.randn(shape, generator=generator)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16, "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[
        kind
    ]
    x = x.to(dtype)
    return x, x.double()


def scaled() -> list[ScaledCase]:
    kinds = ("e2m1", "e4m3", "e5m2")
    found = [ScaledCase(a, b) for a in kinds for b in kinds]
    found += [ScaledCase(a, "bf16", True, False) for a in kinds] + [ScaledCase("bf16", b, False, True) for b in kinds]
    found += [ScaledCase(a, "e4m3", False, True) for a in kinds] + [ScaledCase("e4m3", b, True, False) for b in kinds]
    found += [ScaledCase("e2m1", "e4m3", k_packed=False), ScaledCase("e4m3", "e5m2", False, False)]
    return found
