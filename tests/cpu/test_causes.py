"""Causes: for each kind of fault the edit that mends it, in the kernel's own variables, on the line to change."""

import importlib.util
import inspect
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import tilewright as tw

CASES = Path(__file__).parent / "cases"


@triton.jit
def online_softmax(
    x_ptr, y_ptr, out_ptr, M, N, K, stride_m, stride_k,
    BM: tl.constexpr, BK: tl.constexpr, FAULT: tl.constexpr,
):  # fmt: skip
    """Row sums of softmax(x) * y over K, in blocks; FAULT chooses what is wrong with it."""
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_k = tl.arange(0, BK)
    x_ptrs = x_ptr + offs_m[:, None] * stride_m + offs_k[None, :] * stride_k
    top = tl.full((BM,), float("-inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM,), tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        left = K - k * BK
        if FAULT == "neutral":
            x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=0.0)  # neutral
        elif FAULT == "mask":
            x = tl.load(x_ptrs, mask=offs_m[:, None] < M, other=float("-inf"))  # mask
        elif FAULT == "bound":
            x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left - 1), other=float("-inf"))  # bound
        else:
            x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=float("-inf"))
        y = tl.load(y_ptr + k * BK + offs_k, mask=offs_k < left, other=0.0)
        new = tl.maximum(top, tl.max(x, axis=1))
        p = tl.exp(x - new[:, None])
        alpha = tl.exp(top - new)
        total = total * alpha + tl.sum(p, axis=1)
        acc = acc * alpha + tl.sum(p * y[None, :], axis=1)
        top = new
        x_ptrs += BK * stride_k
    tl.store(out_ptr + offs_m, acc / total, mask=offs_m < M)


def declared(fault):
    def run(x, y):
        out = torch.empty(x.shape[0])
        grid = (triton.cdiv(x.shape[0], 16),)
        strides = (x.stride(1), x.stride(0)) if fault == "stride" else x.stride()
        online_softmax[grid](x, y, out, x.shape[0], y.shape[0], x.shape[1], *strides, BM=16, BK=16, FAULT=fault)
        return out

    def inputs(M=17, K=33, seed=0):
        source = torch.Generator().manual_seed(seed)
        return torch.randn(M, K, generator=source), torch.randn(K, generator=source)

    return tw.Operator(name="online", run=run, inputs=inputs, reference=lambda x, y: torch.softmax(x, 1) @ y)


def line_of(tag):
    lines, start = inspect.getsourcelines(online_softmax.fn)
    return next(start + i for i, line in enumerate(lines) if line.rstrip().endswith(f"# {tag}"))


SIZES = [dict(M=16, K=32), dict(M=17, K=33), dict(M=5, K=7), dict(M=33, K=16)]


@pytest.mark.parametrize(
    ("fault", "cause", "edit"),
    [
        ("neutral", "wrong-neutral-element", 'other=float("-inf")'),
        ("mask", "missing-mask", "mask=(offs_m[:, None] < M) & (offs_k[None, :] < left)"),
        (
            "bound",
            "wrong-bound",
            'x = tl.load(x_ptrs, mask=(offs_m[:, None] < M) & (offs_k[None, :] < left), other=float("-inf"))',
        ),
    ],
)
def test_the_edit_is_named_on_its_line_in_the_kernels_variables(fault, cause, edit):
    found = tw.debug(declared(fault), SIZES, shrink_seconds=2)
    explained = [f for f in found.errors if f.cause == cause]
    assert explained, found.errors
    assert (line_of(fault), edit) in [(e.line, e.text) for f in explained for r in f.remedies for e in r.edits]
    assert all(r.cases >= len(SIZES) for f in explained for r in f.remedies)


def test_edits_that_only_together_mend_the_case_study():
    path = Path(__file__).parents[2] / "examples" / "ragged_attention.py"
    spec = importlib.util.spec_from_file_location("ragged_attention", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sizes = [dict(B=1, H=2, M=33, N=65, D=16), dict(B=1, H=1, M=64, N=64, D=16), dict(B=1, H=1, M=7, N=100, D=16)]
    found = tw.debug(module.attention_first_try, sizes, shrink_seconds=1)
    assert {f.cause for f in found.errors} == {"missing-mask"}
    assert [e.text for e in found.errors[0].remedies[0].edits] == [
        "mask=keys[:, None] < N, other=0.0",
        "mask=keys[:, None] < N, other=0.0",
        'then scores = tl.where(keys[None, :] < N, scores, float("-inf"))',
    ]


def test_strides_that_changed_places():
    found = tw.debug(declared("stride"), SIZES, shrink_seconds=2)
    assert {f.cause for f in found.errors} == {"wrong-stride"}
    assert all("stride_k and stride_m have changed places" in f.remedy for f in found.errors)


def test_a_right_kernel_has_nothing_to_explain():
    assert tw.debug(declared("none"), SIZES).errors == ()


PUBLIC = [
    ("01", "missing-mask", "mask=(rm[:, None] < M) & (rn[None, :] < N)"),
    ("03", "padded-lanes-in-reduction", "tl.sum(tl.where(m, d * d, 0.0), axis=0)"),
    ("05", "wrong-stride", "go_stride: pass the stride of go_ptr, .stride(0)"),
    ("10", "race", "line 33: without this line; line 34: tl.atomic_add(dx_ptr + q, add, mask=m)"),
    ("12", "grid-too-small", "launch more programs along x"),
    ("15", "empty-row", 'm_new = tl.where(m_new == float("-inf"), 0.0, m_new)'),
    ("20", "integer-division-semantics", "((i - shift) % n + n) % n"),
    ("23", "wrong-neutral-element", "other=0.0"),
    ("24", "missing-mask", "mask=am & (k[None, :] < K)"),
]


def public(number):
    path = next(CASES.glob(f"{number}_*.py"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module, tw.Operator(name=path.stem, run=module.run, reference=module.reference, inputs=module.inputs)


@pytest.mark.parametrize(("number", "cause", "edit"), PUBLIC, ids=[n for n, _, _ in PUBLIC])
def test_causes_of_public_faults(number, cause, edit):
    module, operator = public(number)
    found = tw.debug(operator, [*module.ADVERSARIAL, *module.NAIVE], shrink_seconds=1)
    assert {f.cause for f in found.errors} == {cause}
    assert all(edit in f.remedy for f in found.errors)


def test_an_accumulator_is_widened_where_it_is_declared():
    module, operator = public("17")
    found = tw.debug(operator, [dict(n=3000, value=1.5)], shrink_seconds=0)
    (error,) = found.errors
    assert error.cause == "low-precision-accumulation"
    (edit,) = error.remedies[0].edits
    line = Path(module.__file__).read_text().splitlines()[edit.line - 1]
    assert line.strip().startswith("acc = tl.zeros(")
    assert edit.text.endswith("tl.float32)")


def test_an_offset_that_wraps_is_named_where_it_does():
    module, operator = public("04")
    found = tw.debug(operator, module.ADVERSARIAL)
    assert {f.cause for f in found.errors} == {"offset-overflow"}
    assert {e.text for f in found.errors for r in f.remedies for e in r.edits} == {
        "v = tl.load(x_ptr + row.to(tl.int64) * stride + c)"
    }


def test_uninitialised_memory_is_named_where_the_launcher_gets_it():
    module, operator = public("07")
    found = tw.debug(operator, module.ADVERSARIAL)
    assert {e.text for f in found.errors for r in f.remedies for e in r.edits} == {"out = torch.zeros(1)"}


@triton.jit
def cancelling(x_ptr, out_ptr, n, EXTRA: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + c, mask=c < n, other=0.0)
    mean = tl.sum(x, 0) / n
    square = tl.sum(x * x, 0) / n
    tl.store(out_ptr, square - mean * mean + EXTRA)


def variance(extra):
    def run(x):
        out = torch.empty(1)
        cancelling[(1,)](x, out, x.numel(), EXTRA=extra, BLOCK=triton.next_power_of_2(x.numel()))
        return out

    def inputs(N=50, mean=100.0):
        return (torch.randn(N, generator=torch.Generator().manual_seed(0)) + mean,)

    return tw.Operator(name="variance", run=run, inputs=inputs, reference=lambda x: x.var(unbiased=False).reshape(1))


def test_values_that_cancel_need_a_wider_type():
    (error,) = tw.debug(variance(0.0), [dict(N=50), dict(N=33)]).errors
    assert error.cause == "low-precision-accumulation"
    assert all("tl.float64" in edit.text for edit in error.remedies[0].edits)


def test_what_no_edit_mends_is_unknown_and_says_where_values_leave_float64():
    (error,) = tw.debug(variance(0.5), [dict(N=50), dict(N=33)]).errors
    assert (error.cause, error.remedies) == ("unknown", ())
    line = inspect.getsourcelines(cancelling.fn)[1] + 6
    assert f"values first leave what float64 gives at line {line}" in error.message


@triton.jit
def segment_means(x_ptr, ends_ptr, out_ptr, N, FAULT: tl.constexpr, BLOCK: tl.constexpr):
    s = tl.program_id(0)
    begin, end = tl.load(ends_ptr + s), tl.load(ends_ptr + s + 1)
    total = 0.0
    for start in range(0, N, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        if FAULT == "shifted":
            inside = (rows >= begin) & (rows < end - 1)  # shifted
        else:
            inside = (rows >= begin) & (rows < end)
        if FAULT == "dropped":
            x = tl.load(x_ptr + rows, mask=rows < N, other=0.0)  # dropped
        else:
            x = tl.load(x_ptr + rows, mask=inside, other=0.0)
        total += tl.sum(x, 0)
    tl.store(out_ptr + s, total / tl.maximum(end - begin, 1))


@pytest.mark.parametrize(
    ("fault", "cause", "edit"),
    [
        ("shifted", "wrong-bound", "inside = (rows >= begin) & (rows < end)"),
        ("dropped", "missing-mask", "mask=(rows < N) & inside"),
    ],
)
def test_bounds_that_come_out_of_memory(fault, cause, edit):
    def run(x, ends):
        out = torch.empty(ends.numel() - 1)
        segment_means[(ends.numel() - 1,)](x, ends, out, x.numel(), FAULT=fault, BLOCK=16)
        return out

    def inputs(N=40):
        ends = torch.tensor([0, 3, 3, N // 2, N], dtype=torch.int32)
        return torch.randn(N, generator=torch.Generator().manual_seed(0)), ends

    def reference(x, ends):
        parts = [x[a:b] for a, b in zip(ends.tolist(), ends.tolist()[1:], strict=False)]
        return torch.stack([p.sum() / max(len(p), 1) for p in parts])

    found = tw.debug(tw.Operator(name="means", run=run, reference=reference, inputs=inputs), [dict(N=40), dict(N=17)])
    (error,) = found.errors
    assert error.cause == cause
    lines, start = inspect.getsourcelines(segment_means.fn)
    line = next(start + i for i, text in enumerate(lines) if text.rstrip().endswith(f"# {fault}"))
    assert (line, edit) in [(e.line, e.text) for r in error.remedies for e in r.edits]


@triton.jit
def doubled(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + o, tl.load(x_ptr + o, mask=o < n) * 2, mask=o < n)


def test_a_grid_that_rounds_down_is_named_where_it_is_launched():
    def run(x):
        out = torch.empty_like(x)
        doubled[(x.numel() // 32,)](x, out, x.numel(), BLOCK=32)
        return out

    operator = tw.Operator(
        name="doubled", run=run, reference=lambda x: x * 2, inputs=lambda N=32: (torch.arange(N) + 1.0,)
    )
    found = tw.debug(operator, [dict(N=32), dict(N=33), dict(N=7)], shrink_seconds=1)
    assert {f.cause for f in found.errors} == {"grid-too-small"}
    assert all("triton.cdiv(x.numel(), 32)" in f.remedy for f in found.errors)


def test_what_ends_one_fault_is_named_where_another_has_no_remedy():
    _, operator = public("07")
    found = tw.debug(operator, [dict(n=70, dirty=None), dict(n=70, dirty=True)])  # dirty: the host's own fault
    causes = {f.kind: f.cause for f in found.errors}
    assert causes == {
        "uninitialized-read": "uninitialized-memory",
        "non-finite": "uninitialized-memory",
        "mismatch": "unknown",
    }


@triton.jit
def gated(x_ptr, g_ptr, out_ptr, n, BLOCK: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, g = tl.load(x_ptr + o, mask=o < n), tl.load(g_ptr + o, mask=o < n)
    tl.store(out_ptr + o, x * g, mask=o < n)


def test_tensors_that_a_kernel_takes_to_be_contiguous_are_named_where_they_are_handed_over():
    def run(x, g):
        out = torch.empty(x.shape)
        gated[(triton.cdiv(x.numel(), 32),)](x, g, out, n=x.numel(), BLOCK=32)  # launched
        return out

    def inputs(M=5, N=8):
        return torch.arange(2.0 * M * N).view(M, 2 * N).chunk(2, dim=1)

    operator = tw.Operator(name="gated", run=run, reference=lambda x, g: x * g, inputs=inputs)
    errors = tw.debug(operator, [dict(M=5, N=8), dict(M=2, N=3)], shrink_seconds=1).errors
    assert {f.cause for f in errors} == {"not-contiguous"}
    lines, start = inspect.getsourcelines(run)
    line = next(start + i for i, text in enumerate(lines) if text.rstrip().endswith("# launched"))
    (remedy,) = {f.remedies for f in errors}.pop()
    assert [(e.line, e.text) for e in remedy.edits] == [
        (line, "g.contiguous() in the place of g"),
        (line, "x.contiguous() in the place of x"),
    ]


@triton.jit
def rolled(x_ptr, out_ptr, shift, N, BLOCK: tl.constexpr):
    row, i = tl.program_id(0), tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    source = (i - shift) % N
    x = tl.load(x_ptr + row * N + source, mask=(i < N) & (source >= 0), other=0.0)
    tl.store(out_ptr + row * N + i, x, mask=i < N)


def test_a_case_of_which_only_the_grid_is_looked_at_is_no_measure_of_an_edit():
    def run(x):
        out = torch.empty_like(x)
        if x.numel():
            rolled[(x.shape[0], triton.cdiv(x.shape[1], 32))](x, out, 2, x.shape[1], BLOCK=32)
        return out

    operator = tw.Operator(
        name="rolled",
        run=run,
        reference=lambda x: x.roll(2, 1),
        inputs=lambda M=3, N=40: (torch.arange(1.0 * M * N).view(M, N),),
    )
    report = tw.debug(operator)
    assert "grid-limit" in {f.kind for f in report.findings}
    assert {f.cause for f in report.errors} == {"integer-division-semantics"}


@triton.jit
def haloed(x_ptr, out_ptr, H, W, BH: tl.constexpr, BW: tl.constexpr):
    h, w = tl.program_id(0) * BH + tl.arange(0, BH), tl.program_id(1) * BW + tl.arange(0, BW)
    above = h - 1
    left = w - 1
    inside = (h[:, None] < H) & (w[None, :] < W)
    x = tl.load(x_ptr + above[:, None] * W + left[None, :], mask=inside, other=0.0)  # halo
    tl.store(out_ptr + h[:, None] * W + w[None, :], x, mask=inside)


def test_an_index_below_0_is_named_in_each_dim():
    def run(x):
        out = torch.empty_like(x)
        H, W = x.shape
        haloed[(triton.cdiv(H, 8), triton.cdiv(W, 16))](x, out, H, W, BH=8, BW=16)
        return out

    operator = tw.Operator(
        name="haloed",
        run=run,
        reference=lambda x: torch.nn.functional.pad(x, (1, 0, 1, 0))[:-1, :-1],
        inputs=lambda H=5, W=7: (torch.arange(1.0, 1.0 + H * W).view(H, W),),
    )
    errors = tw.debug(operator, [dict(H=5, W=7), dict(H=9, W=17)], shrink_seconds=1).errors
    assert {f.cause for f in errors} == {"missing-mask"}
    texts = [edit.text for f in errors for remedy in f.remedies for edit in remedy.edits]
    assert set(texts) == {"mask=inside & (above[:, None] >= 0) & (left[None, :] >= 0)"}
