"""Constants, promotions and choices, with what each is to give."""

import torch

from . import kernels_values as k
from .launching import run

INFINITY = float("inf")


def check_constants() -> str:
    sizes = [(7, "float32"), (2, "float64"), (2, "float16"), (3, "bfloat16"), (3, "int64"), (1, "uint64"), (2, "int8")]
    outs = [torch.ones(count, dtype=getattr(torch, name)) for count, name in sizes]
    outs.append(torch.ones(2).to(torch.float8_e5m2))
    run(k.constants_kernel, (1,), *outs)
    f32, f64, f16, bf16, i64, u64, i8, e5 = outs
    wanted = torch.tensor([INFINITY, -INFINITY, float("nan"), 0.1, 0.0, 1e-45, 3.4028234663852886e38])
    right = [
        torch.equal(f32.nan_to_num(nan=5.0), wanted.nan_to_num(nan=5.0)),
        f64.tolist() == [0.1, 1e300],
        torch.equal(f16, torch.full((2,), 0.1).half()),
        torch.equal(bf16, torch.tensor([0.1, 0.1, -INFINITY]).bfloat16()),
        i64.tolist() == [2**63 - 1, -(2**63) + 1, 2**31],
        u64.tolist() == [2**64 - 1],
        i8.tolist() == [-128, -128],
        e5.float().tolist() == [0.0, 0.0],
    ]
    return "" if all(right) else f"{right}: {outs}"


def check_promotions() -> str:
    """Numbers that show which type an operation on two types was done in."""
    names = [("int8", -7), ("uint8", 250), ("int32", -100000), ("uint32", 4000000000), ("int64", -5)]
    given = [torch.tensor([value], dtype=getattr(torch, name)) for name, value in names]
    given += [torch.tensor([0.1]).half(), torch.tensor([3.3])]
    out = torch.zeros(12, dtype=torch.float64)
    run(k.promotions_kernel, (1,), *given, out)
    in_fp32 = torch.tensor([-100000.0]) / torch.tensor([-7.0])
    product = torch.tensor([0.1]).half().float() * torch.tensor([3.3])
    wanted = [-100007, 243, 3999900000, 3999999995, -INFINITY, product.item()]
    wanted += [in_fp32.item(), 255, 1, 14286, 5, -99999]
    return "" if out.tolist() == wanted else f"{out.tolist()}, not {wanted}"


def check_choices(seed: int) -> str:
    x = torch.randint(-9, 9, (4, 8), generator=torch.Generator().manual_seed(seed))
    out = torch.zeros_like(x)
    run(k.choices_kernel, (4,), x, out, BLOCK=8)
    program, at = torch.arange(4)[:, None], torch.arange(8)[None]
    picked = torch.where(program % 2 == 0, x, 7) + torch.where(at % 3 == 0, program, x)
    picked = torch.where((x > 0) & (program > 0), picked, -picked)
    return "" if torch.equal(out, picked) else "another lane was chosen"


def check_elementwise(seed: int) -> str:
    """A scalar function with a branch on every lane, and one on pairs of lanes."""
    x, y = torch.randint(-9, 9, (2, 32), generator=torch.Generator().manual_seed(seed))
    out, paired = torch.zeros_like(x), torch.zeros_like(x)
    run(k.elementwise_kernel, (4,), x, y, out, BLOCK=8)
    run(k.packed_kernel, (4,), x, y, paired, BLOCK=8)
    pairs = torch.stack([x[0::2] + y[1::2], x[1::2] - y[0::2]], 1).reshape(-1)
    right = torch.equal(out, torch.minimum(x, y) * 3 - torch.maximum(x, y)) and torch.equal(paired, pairs)
    return "" if right else f"{out.tolist()} or {paired.tolist()} is wrong"


def check_divisions() -> str:
    for constant, number in ((8, 3), (5, 16), (7, 1000), (1, 2)):
        out = torch.zeros(96, dtype=torch.int64)
        run(k.divisions_kernel, (3,), out, number, D=constant, BLOCK=32)
        wanted = [
            (i // constant) * 10_000_000 + (i % constant) * 1000 + (i // number) * 7 + i % number for i in range(96)
        ]
        if out.tolist() != wanted:
            return f"by {constant} or {number}: {out.tolist()}, not {wanted}"
    return ""
