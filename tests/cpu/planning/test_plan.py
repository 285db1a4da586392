"""Plans: sizes around blocks, guesses at the parameters of ``inputs``, and what is left out of them."""

import itertools

import torch
import triton
import triton.language as tl
from jaxtyping import Float
from torch import Tensor

import tilewright as tw
from tilewright.debug.planning import parameters, sizes
from tilewright.debug.planning.probing import Trait


def test_every_pair_of_levels_of_two_dims_is_in_some_row():
    dims = ("a", "b", "c", "d")
    rows = list(sizes.combinations(dims))
    for (one, other), levels in itertools.product(
        itertools.combinations(dims, 2), itertools.product(sizes.LEVELS, repeat=2)
    ):
        assert any((row[one], row[other]) == levels for row in rows)
    assert len(rows) < 2 * len(sizes.LEVELS) ** 2


def test_sizes_lie_around_the_block():
    found = sizes.levels(Trait("n", 100, (32,)), 0, limited=True)
    assert {found[level] for level in ("aligned", "above", "below", "tail", "one", "double")} == {32, 33, 31, 67, 1, 64}
    single = sizes.levels(Trait("n", 16, (16,), grows=False), 0, limited=True)
    assert max(single.values()) == 16
    assert max(sizes.levels(Trait("n", 16, (16,), grows=False), 0, limited=False).values()) > 16


def test_defaults_say_what_else_is_worth_trying():
    defaults = {"n": 16, "lens": (8, 4), "flag": False, "only": None, "scale": 1.0, "empty": 0.0, "name": "x"}
    found = list(parameters.variations(defaults, []))
    assert {"flag": True} in found
    assert {"flag": None} in found
    assert {"scale": 0.1} in found
    assert {"empty": 1.0} in found
    assert {"lens": (0, 4)} in found
    assert {"lens": (8, 15)} in found
    assert all(set(changed) <= {"lens", "flag", "scale", "empty"} for changed in found)


def test_lengths_shrink_with_what_they_are_below_of():
    defaults = {"n": 16, "lens": (16, 4)}
    assert parameters.related({"n": 5, "lens": (16, 4)}, defaults)["lens"] == (5, 4)
    assert parameters.related({"n": 5, "lens": (9, 9)}, defaults)["lens"] == (9, 9)  # chosen: not the default
    assert parameters.related({"n": 5, "lens": (15, 4)}, {"n": 16, "lens": (15, 4)})["lens"] == (4, 4)


def test_a_tuple_has_as_many_entries_as_a_size_says_and_keeps_its_sum():
    defaults = {"batch": 3, "lens": (9, 2, 5)}
    assert parameters.related({"batch": 5, "lens": (9, 2, 5)}, defaults)["lens"] == (9, 2, 5, 9, 2)
    assert {len(c["lens"]) for c in parameters.variations(defaults, []) if "lens" in c} == {3}
    total = {"tokens": 16, "lens": (9, 2, 5)}
    assert {sum(c["lens"]) for c in parameters.variations(total, []) if "lens" in c} == {16}


@triton.jit
def _rows(x, y, D: tl.constexpr):
    i = tl.program_id(0) * D + tl.arange(0, D)
    tl.store(y + i, tl.load(x + i) * 2)


def rows(x):
    y = torch.empty_like(x)
    _rows[(len(x),)](x, y, x.shape[1])
    return y


def test_sizes_that_triton_refuses_are_left_out_with_a_word():
    operator = tw.Operator(
        name="rows", run=rows, reference=lambda x: 2 * x, inputs=lambda n=3, D=8: (torch.randn(n, D),)
    )
    report = tw.debug(operator)
    assert not report.findings
    (note,) = report.notes
    assert "left out" in note
    assert "arange's range must be a power of 2" in note
    assert {r.case.arguments["D"] for r in report.results} >= {1, 8, 16}
    asked = tw.debug(operator, cases=[{"D": 17}])
    assert [f.kind for f in asked.errors] == ["launch-error"]


def test_a_launcher_that_says_no_is_believed_and_one_that_breaks_is_not():
    def annotated(refuse):
        @tw.operator(reference=lambda x: 2 * x)
        def doubled(x: "Float[Tensor, 'M N']"):
            if x.shape[1] % 8:
                if refuse:
                    raise ValueError("N must be a multiple of 8")
                [][1]
            return rows_of_any(x)

        return doubled

    def rows_of_any(x):
        y = torch.empty(x.shape)
        if x.numel():
            _copy2[(x.numel(),)](x.contiguous(), y)
        return y

    refused = tw.debug(annotated(True))
    assert not refused.findings
    assert any("N must be a multiple of 8" in note for note in refused.notes)
    broken = tw.debug(annotated(False), shrink_seconds=0)
    assert any("IndexError" in f.message for f in broken.errors)


@triton.jit
def _copy2(x, y):
    tl.store(y + tl.program_id(0), tl.load(x + tl.program_id(0)) * 2)


def test_an_order_that_defaults_keep_is_not_turned_round_into_an_error():
    @triton.jit
    def ring(x, y, n, cap, B: tl.constexpr):
        o = tl.program_id(0) * B + tl.arange(0, B)
        tl.store(y + o, tl.load(x + (cap - o) % cap, mask=o < n, other=0.0), mask=o < n)

    def run(x, n):
        y = torch.empty(n)
        ring[(triton.cdiv(n, 8),)](x, y, n, len(x), 8)
        return y

    def reference(x, n):
        return torch.stack([x[-i % len(x)] for i in range(n)])

    operator = tw.Operator(name="ring", run=run, reference=reference, inputs=lambda n=7, cap=13: (torch.randn(cap), n))
    report = tw.debug(operator, shrink_seconds=0)
    assert not report.errors
    assert any("only where n is not below cap" in f.message for f in report.findings)


@triton.jit
def _narrow(x, y, n, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)


@triton.jit
def _broad(x, y, n, B: tl.constexpr):
    for start in range(0, n, B):
        i = start + tl.arange(0, B)
        tl.store(y + i, tl.load(x + i, mask=i < n) + 1, mask=i < n)


def test_a_size_at_which_the_launcher_takes_another_kernel_is_planned():
    def run(x):
        y = torch.empty_like(x)
        if len(x) <= 2048:
            _narrow[(1,)](x, y, len(x), triton.next_power_of_2(len(x)))
        else:
            _broad[(1,)](x, y, len(x), 1024)
        return y

    operator = tw.Operator(name="two", run=run, reference=lambda x: x * 1, inputs=lambda n=40: (torch.randn(n),))
    report = tw.debug(operator, shrink_seconds=0, cause_seconds=0)
    assert {r.case.arguments["n"] for r in report.results if r.findings} == {4097}


def test_a_plan_is_the_same_each_time_and_a_thorough_one_holds_more():
    operator = tw.Operator(
        name="rows", run=rows, reference=lambda x: 2 * x, inputs=lambda n=3, D=8: (torch.randn(n, D),)
    )

    def planned(effort):
        return [r.case for r in tw.debug(operator, effort=effort).results]

    quick = planned("quick")
    assert quick == planned("quick")
    assert len(quick) < len(planned("thorough"))


@triton.jit
def _shifted(x, bias, y, M, N, B: tl.constexpr, RAGGED_M: tl.constexpr, RAGGED_N: tl.constexpr, HALF: tl.constexpr):
    rows, columns = tl.arange(0, B)[:, None], tl.program_id(0) * B + tl.arange(0, B)[None, :]
    at = rows * N + columns
    shift = tl.load(bias + columns, mask=columns < N).to(tl.float16 if HALF else tl.float32)
    if RAGGED_N and RAGGED_M:
        value = tl.load(x + at, mask=(rows < M) & (columns < N))
    elif RAGGED_N:
        value = tl.load(x + at)
    else:
        value = tl.load(x + at, mask=rows < M)
    tl.store(y + at, value + shift, mask=(rows < M) & (columns < N))


def shifted(half, dtype):
    @tw.operator(reference=lambda x, b=None: x if b is None else x + b, dtypes=(dtype,), where="M <= 16")
    def operator(x: Float[Tensor, "M N"], b: Float[Tensor, "N"] | None = None) -> Float[Tensor, "M N"]:
        x, (M, N) = x.contiguous(), x.shape
        y = torch.empty_like(x)
        if y.numel():
            b = x.new_zeros(N) if b is None else b
            _shifted[(triton.cdiv(N, 16),)](x, b.contiguous(), y, M, N, 16, M % 16 != 0, N % 16 != 0, half)
        return y

    return operator


def test_a_mask_left_out_where_one_dim_alone_is_ragged_and_a_detour_through_float16_are_found():
    found = tw.debug(shifted(True, "bf16"), shrink_seconds=0, cause_seconds=0).errors
    assert {f.kind for f in found} == {"out-of-bounds-read", "non-finite"}
    assert {f.case.values for f in found if f.kind == "non-finite"} == {"beyond-half"}
    assert all(f.case.arguments["M"] == 16 != f.case.arguments["N"] for f in found if f.kind == "out-of-bounds-read")


def test_of_values_beyond_float16_only_what_is_no_number_is_told():
    for half, dtype in ((False, "bf16"), (True, "fp16")):
        report = tw.debug(shifted(half, dtype), shrink_seconds=0, cause_seconds=0)
        assert {f.kind for f in report.errors} == {"out-of-bounds-read"}
        words = {r.case.values for r in report.results}
        assert ("beyond-half" in words) == (dtype == "bf16")
