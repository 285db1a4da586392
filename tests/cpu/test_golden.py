"""The derived tolerance: what is computed well passes, what loses precision fails, and nobody chose a number."""

import math

import pytest
import torch

from tilewright.errors import ReferenceFailed
from tilewright.spec import dtypes, golden
from tilewright.spec.golden import compare, expect, with_roundoff
from tilewright.spec.inputs import Inputs
from tilewright.spec.tiles import MAX_TILES, fold_tiles

HALVES = [torch.float16, torch.bfloat16]
FLOATS = [torch.float32, *HALVES]


def inputs(**tensors):
    return Inputs(tuple(tensors.values()), {}, tuple(tensors))


def randn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def over(actual, reference, **tensors):
    """The worst error over the tolerance."""
    (expected,) = expect(reference, inputs(**tensors))
    return compare(actual, expected).error_over_tolerance


def tolerance(reference, **tensors):
    (expected,) = expect(reference, inputs(**tensors))
    return expected.tolerance


def product(a, b):
    return a @ b


# ------------------------------------------------------------------------------------------------ the formula


def test_exact_values_have_the_tolerance_of_their_rounding():
    x = torch.tensor([1.0, -3.0, 0.0, 1000.0])
    floor = torch.finfo(torch.float32).smallest_normal
    # torch's own error is exactly 0: four times unit roundoff of the output, of the accumulator four times that.
    hair = golden.NEGLIGIBLE * 1000
    exact = tolerance(lambda x: x * 1, x=x).tolist()
    assert exact == pytest.approx([4 * 4 * 2.0**-24 * (abs(v) + hair) + floor for v in x.tolist()], rel=1e-12)
    half = tolerance(lambda x: x * 1, x=x.half()).tolist()
    hair = golden.NEGLIGIBLE_OF_16_BITS * 1000
    assert half == pytest.approx([4 * (2.0**-11 * abs(v) + hair) + 2.0**-25 for v in x.tolist()], rel=1e-12)


def test_the_golden_values_are_those_of_float64():
    x = randn(100)
    (expected,) = expect(lambda x: x.exp(), inputs(x=x))
    assert torch.equal(expected.values, x.double().exp())
    assert expected.dtype == torch.float32
    assert expected.name == "output"


def test_cancellation_is_judged_by_what_was_cancelled():
    # 1000 - 1000 + x: the small result is as uncertain as the large terms.
    big, x = torch.full((500,), 1000.0), randn(500)
    (expected,) = expect(lambda a, b, x: (a - b) + x, inputs(a=big, b=big.clone(), x=x))
    assert 1000 < float(expected.scale.median()) < 2000
    assert compare((big + x) - big, expected).error_over_tolerance < 1, "summed in another order"


def test_the_scale_is_never_below_the_golden_value():
    x = randn(1000)
    (expected,) = expect(lambda x: x * 3, inputs(x=x))
    assert (expected.scale >= expected.values.abs()).all()
    assert (expected.scale <= 1.000001 * expected.values.abs()).all()


def test_longer_sums_of_one_sign_may_lose_more():
    short, long = (expect(lambda x: x.sum(-1), inputs(x=torch.rand(4, n) + 0.5))[0] for n in (16, 4096))
    assert short.spread == pytest.approx(4, rel=0.1)
    assert long.spread == pytest.approx(64, rel=0.1)


def test_a_16_bit_output_does_not_ask_for_gradients():
    calls = []

    def reference(x):
        calls.append(x.requires_grad)
        return x * 2

    expect(reference, inputs(x=randn(4, dtype=torch.bfloat16)))
    assert not any(calls)


# --------------------------------------------------------------------------------------- computed well, must pass


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("depth", [64, 1000, 4096])
def test_a_product_accumulated_in_float32_passes(dtype, depth):
    a, b = randn(64, depth, dtype=dtype), randn(depth, 64, dtype=dtype, seed=1)
    assert over((a.float() @ b.float()).to(dtype), product, a=a, b=b) < 0.5


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("factor", [1.0, 8.0])
def test_softmax_by_exp2_in_float32_passes(dtype, factor):
    x = (randn(32, 1000) * factor).to(dtype)
    scores = x.float() * 1.4426950408889634
    weights = torch.exp2(scores - scores.amax(-1, keepdim=True))
    assert over((weights * (1 / weights.sum(-1, keepdim=True))).to(dtype), lambda x: torch.softmax(x, -1), x=x) < 0.75


def sequential_sum(x):
    total = torch.zeros(x.shape[:-1])
    for column in x.unbind(-1):
        total = total + column
    return total


@pytest.mark.parametrize("draw", [torch.randn, torch.rand, lambda *shape: torch.full(shape, 0.1)])
def test_a_sum_of_4096_added_one_by_one_in_float32_passes(draw):
    torch.manual_seed(0)
    x = draw(64, 4096)
    assert over(sequential_sum(x), lambda x: x.sum(-1), x=x) < 1


@pytest.mark.parametrize("draw", [torch.randn, torch.rand, lambda *shape: torch.full(shape, 0.1)])
def test_a_product_of_depth_4096_added_one_by_one_in_float32_passes(draw):
    torch.manual_seed(0)
    a, b = draw(24, 4096), draw(4096, 24)
    total = torch.zeros(24, 24)
    for k in range(4096):
        total = torch.addcmul(total, a[:, k : k + 1], b[k : k + 1])
    assert over(total, product, a=a, b=b) < 1


@pytest.mark.parametrize("seed", range(5))
def test_no_element_of_a_large_product_is_a_false_alarm(seed):
    a, b = randn(512, 128, seed=seed), randn(128, 512, seed=seed + 100)
    reversed_sum = a.flip(1) @ b.flip(0)
    assert over(reversed_sum, product, a=a, b=b) < 0.75


def centred_norm(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(((x - mean) ** 2).mean(-1, keepdim=True) + 1e-5)


def naive_norm(x):
    mean = x.mean(-1, keepdim=True)
    return (x - mean) * torch.rsqrt(((x * x).mean(-1, keepdim=True) - mean * mean).clamp_min(0) + 1e-5)


def layer_norm(x):
    return torch.nn.functional.layer_norm(x, x.shape[-1:])


@pytest.mark.parametrize("mean", [0.0, 10.0, 100.0, 1000.0])
def test_a_norm_by_centred_squares_passes(mean):
    for dtype in FLOATS:
        x = (randn(32, 1000) + mean).to(dtype)
        assert over(centred_norm(x.float()).to(dtype), layer_norm, x=x) < 0.5


def attention(q, k, v):
    return torch.softmax(q @ k.T / 8, -1) @ v


@pytest.mark.parametrize("dtype", FLOATS)
def test_attention_with_its_weights_rounded_for_the_second_product_passes(dtype):
    q, k, v = (randn(128, 64, dtype=dtype, seed=seed) for seed in range(3))
    scores = q.float() @ k.float().T / 8
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    out = (weights.to(dtype).float() @ v.float()) / weights.sum(-1, keepdim=True)
    assert over(out.to(dtype), attention, q=q, k=k, v=v) < 0.75


# ----------------------------------------------------------------------------------- precision lost, must fail


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("depth", [1024, 4096])
def test_a_product_accumulated_in_16_bits_fails(dtype, depth):
    a, b = randn(64, depth, dtype=dtype), randn(depth, 64, dtype=dtype, seed=1)
    total = torch.zeros(64, 64, dtype=dtype)
    for k in range(0, depth, 16):
        total = (total.float() + a[:, k : k + 16].float() @ b[k : k + 16].float()).to(dtype)
    assert over(total, product, a=a, b=b) > 2


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("width", [1000, 4096])
def test_softmax_with_its_sum_in_16_bits_fails(dtype, width):
    x = randn(64, width, dtype=dtype)
    weights = torch.exp(x - x.amax(-1, keepdim=True))
    total = torch.zeros(64, 1, dtype=dtype)
    for k in range(0, width, 16):
        total = total + weights[:, k : k + 16].sum(-1, keepdim=True)
    assert over(weights / total, lambda x: torch.softmax(x, -1), x=x) > 2


@pytest.mark.parametrize("mean", [100.0, 1000.0])
def test_a_norm_by_the_difference_of_squares_fails_in_float32_where_the_mean_is_large(mean):
    x = randn(32, 1000) + mean
    assert over(naive_norm(x), layer_norm, x=x) > 10
    variance = (x * x).mean(-1) - x.mean(-1) ** 2
    assert over(variance, lambda x: x.var(-1, correction=0), x=x) > 3


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("mean", [10.0, 100.0])
def test_a_norm_by_the_difference_of_squares_fails_in_16_bits(dtype, mean):
    x = (randn(32, 1000) + mean).to(dtype)
    assert over(naive_norm(x), layer_norm, x=x) > 5


@pytest.mark.parametrize("dtype", FLOATS)
def test_a_wrong_neutral_element_fails(dtype):
    # One masked lane of value 0 in a row whose scores are far below it.
    x = (randn(16, 100) - 20).to(dtype)
    padded = torch.cat([x.float(), torch.zeros(16, 1)], -1)
    assert over(torch.softmax(padded, -1)[:, :-1].to(dtype), lambda x: torch.softmax(x, -1), x=x) > 4


@pytest.mark.parametrize("dtype", FLOATS)
def test_one_lost_term_of_a_sum_fails(dtype):
    x = torch.rand(16, 64).to(dtype) + 0.5
    assert over(x[:, :-1].float().sum(-1).to(dtype), lambda x: x.sum(-1), x=x) > 1


def test_one_element_does_not_open_the_tolerance_of_the_others():
    """Where float16 loses small weights to underflow, or a ReLU flips near 0, only that element is forgiven."""
    x = (randn(64, 1000) * 8).half()
    (expected,) = expect(lambda x: torch.softmax(x, -1), inputs(x=x))
    large = expected.values > 2.0**-6
    assert (expected.tolerance[large] <= 4.01 * 2.0**-11 * expected.scale[large]).all()

    def flipping(x):
        """A ReLU of which PyTorch gets the last element wrong, where the scale is 0."""
        off = torch.zeros_like(x)
        off[-1] = -(2.0**-13) if x.dtype == torch.float64 else 2.0**-7
        return torch.relu(x + off)

    x = randn(1000)
    x[-1] = 0
    (expected,) = expect(flipping, inputs(x=x))
    assert float(expected.scale[-1]) == 0.0
    assert compare(flipping(x), expected).disagreement is None
    assert compare(flipping(x * 1.2), expected).disagreement is not None


# --------------------------------------------------------------------------------------------- TF32, quantised


def to_tf32(x):
    """Rounded to the 10 explicit bits of TF32."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("depth", [64, 1024])
def test_tf32_products_fail_for_float32_and_pass_where_that_is_allowed(depth):
    a, b = randn(64, depth), randn(depth, 64, seed=1)
    (expected,) = expect(product, inputs(a=a, b=b))
    allowed = with_roundoff(expected, dtypes.TF32_ROUNDOFF)
    rough = to_tf32(a) @ to_tf32(b)
    assert compare(rough, expected).error_over_tolerance > 10
    assert compare(rough, allowed).error_over_tolerance < 1
    assert compare(a.bfloat16().float() @ b.bfloat16().float(), allowed).error_over_tolerance > 1


@pytest.mark.parametrize("dtype", HALVES)
def test_int8_weights_stand_for_what_they_are_scaled_to(dtype):
    def reference(x, w, scale):
        return x @ (w.to(x.dtype) * scale)

    x, scale = (
        randn(32, 512, dtype=dtype),
        (torch.rand(64, generator=torch.Generator().manual_seed(2)) * 0.01 + 0.01).to(dtype),
    )
    w = torch.randint(-127, 128, (512, 64), generator=torch.Generator().manual_seed(3)).to(torch.int8)
    given = {"x": x, "w": w, "scale": scale}
    exact = (x.float() @ w.float()) * scale.float()
    assert over(exact.to(dtype), reference, **given) < 0.5
    shifted = (x.float() @ w.float()) * scale.float().roll(1)
    assert over(shifted.to(dtype), reference, **given) > 5


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_inputs_stand_for_the_values_they_hold(dtype):
    def reference(a, b):
        wide = torch.promote_types(a.dtype, torch.float32) if a.dtype == torch.float64 else torch.float32
        return a.to(wide) @ b.to(wide)

    a, b = randn(32, 256, dtype=dtype), randn(256, 32, dtype=dtype, seed=1)
    assert over(a.float() @ b.float(), reference, a=a, b=b) < 0.5
    assert over(a.to(torch.float8_e5m2).float() @ b.float(), reference, a=a, b=b) > 100 or dtype == torch.float8_e5m2
    assert over((a.float() @ b.float()).half().float(), reference, a=a, b=b) > 1


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
def test_fp8_outputs_are_judged_by_their_rounding(dtype):
    x = randn(100, dtype=torch.float16)

    def reference(x):
        return x * 3 if x.dtype == torch.float64 else (x * 3).to(dtype)

    assert over((x.float() * 3).to(dtype), reference, x=x) <= 0.5
    assert over((x.float() * 6).to(dtype), reference, x=x) > 1


# ---------------------------------------------------------------------------------------------- exact outputs


@pytest.mark.parametrize(
    ("reference", "wrong"),
    [
        (lambda x: x > 0, lambda good: ~good),
        (lambda x: x.argmax(-1), lambda good: good + 1),
        (lambda x: (x * 10).round().to(torch.int8), lambda good: good + 1),
        (lambda x: x.argsort(-1).to(torch.int32), lambda good: good.flip(-1)),
    ],
)
def test_integers_and_booleans_must_be_equal(reference, wrong):
    x = randn(8, 16)
    good = reference(x)
    (expected,) = expect(reference, inputs(x=x))
    assert float(expected.tolerance.max()) == 0.0
    assert compare(good, expected).error_over_tolerance == 0.0
    one_off = good.clone()
    one_off.view(-1)[3:4] = wrong(good).view(-1)[3:4]
    match = compare(one_off, expected)
    assert match.error_over_tolerance == math.inf
    assert match.disagreement.wrong == 1


# ------------------------------------------------------------------------------------------- NaN, infinity, overflow

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("gold", "actual", "right"),
    [
        (NAN, NAN, True),
        (INF, INF, True),
        (-INF, -INF, True),
        (NAN, 1.0, False),
        (NAN, INF, False),
        (1.0, NAN, False),
        (INF, -INF, False),
        (INF, 3e38, False),
        (1.0, INF, False),
        (INF, NAN, False),
        (0.0, -0.0, True),
        (0.0, 1e-12, False),
        (0.0, 1e-39, True),
        (1e-39, 0.0, True),
    ],
)
def test_nan_meets_nan_infinities_their_like_and_subnormals_may_be_flushed(gold, actual, right):
    (expected,) = expect(lambda x: x * 1, inputs(x=torch.tensor([gold, 1.0])))
    assert (compare(torch.tensor([actual, 1.0]), expected).disagreement is None) is right


@pytest.mark.parametrize(
    ("gold", "actual", "right"),
    [
        (70000.0, INF, True),
        (-70000.0, -INF, True),
        (70000.0, -INF, False),
        (70000.0, 65504.0, False),
        (65519.0, 65504.0, True),
        (65519.0, INF, True),
        (65504.0, INF, True),
        (60000.0, INF, False),
        (70000.0, NAN, False),
    ],
)
def test_what_float16_cannot_hold_is_infinite_and_near_the_limit_either_is_right(gold, actual, right):
    (expected,) = expect(
        lambda x: x + 0, inputs(x=torch.tensor([gold], dtype=torch.float32)), declared=(torch.float16,)
    )
    assert (compare(torch.tensor([actual], dtype=torch.float16), expected).disagreement is None) is right


@pytest.mark.parametrize(("actual", "right"), [(NAN, True), (448.0, True), (-448.0, False), (416.0, False)])
def test_what_fp8_cannot_hold_is_nan_or_the_largest_value(actual, right):
    x = torch.tensor([600.0])
    (expected,) = expect(lambda x: x + 0, inputs(x=x), declared=(torch.float8_e4m3fn,))
    assert (compare(torch.tensor([actual]).to(torch.float8_e4m3fn), expected).disagreement is None) is right


def test_a_reference_that_overflows_in_float16_does_not_excuse_the_kernel():
    x = torch.full((4,), 12.0, dtype=torch.float16)

    def reference(x):
        return torch.exp(x) / torch.exp(x).sum()

    (expected,) = expect(reference, inputs(x=x))
    assert reference(x).isnan().all()
    assert compare(torch.full((4,), 0.25, dtype=torch.float16), expected).error_over_tolerance == 0.0
    assert compare(reference(x), expected).error_over_tolerance == math.inf


# ----------------------------------------------------------------------------------------------- shape and dtype


@pytest.mark.parametrize("shape", [(4, 1), (1, 4), (5,), ()])
def test_another_shape_is_no_match_even_if_it_broadcasts(shape):
    (expected,) = expect(lambda x: x * 1, inputs(x=torch.ones(4)))
    match = compare(torch.ones(shape), expected)
    assert (match.error_over_tolerance, match.disagreement.kind, match.disagreement.shape) == (math.inf, "shape", shape)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.int32])
def test_another_dtype_is_no_match(dtype):
    (expected,) = expect(lambda x: x * 1, inputs(x=torch.ones(4)))
    match = compare(torch.ones(4, dtype=dtype), expected)
    assert (match.error_over_tolerance, match.disagreement.kind) == (math.inf, "dtype")
    assert match.disagreement.dtype == dtypes.short(dtype)


def test_the_declared_dtype_wins_over_the_references():
    x = randn(100, dtype=torch.bfloat16)
    (expected,) = expect(lambda x: x.exp(), inputs(x=x), declared=(torch.float32,))
    assert expected.dtype == torch.float32
    assert compare(x.float().exp(), expected).disagreement is None
    assert compare(x.exp(), expected).disagreement.kind == "dtype"


def test_empty_and_scalar_outputs():
    assert over(torch.empty(0, 3), lambda x: x * 2, x=torch.empty(0, 3)) == 0.0
    assert over(torch.zeros(3), lambda x: x.sum(0), x=torch.empty(0, 3)) == 0.0
    x = randn(1000)
    assert over(x.sum(), lambda x: x.sum(), x=x) < 1
    match = compare(x.sum() + 1, expect(lambda x: x.sum(), inputs(x=x))[0])
    assert match.disagreement.worst_index == ()
    assert (match.disagreement.tile_grid, match.disagreement.wrong) == ((1, 1), 1)


# -------------------------------------------------------------------------------- what references return and do


def test_results_of_a_tuple_have_names_and_tolerances_of_their_own():
    x = randn(16, 32)
    outputs = expect(lambda x: (x.sum(-1), None, x.argmax(-1)), inputs(x=x))
    assert [(e.name, e.dtype) for e in outputs] == [("output 0", torch.float32), ("output 1", torch.int64)]
    assert [compare(actual, e).disagreement for actual, e in zip((x.sum(-1), x.argmax(-1)), outputs, strict=True)] == [
        None,
        None,
    ]
    (named,) = expect(lambda x: x, inputs(x=x), names=("gradient of x",))
    assert named.name == "gradient of x"


def add_in_place(x, y):
    x.add_(y)


def add_in_place_and_double(x, y):
    x.add_(y)
    return x * 2


@pytest.mark.parametrize(
    ("reference", "names"),
    [
        (add_in_place, ("x",)),
        (lambda x, y: x + y, ("x",)),
        (add_in_place_and_double, ("output", "x")),
        (lambda x, y: ((x + y) * 2, x + y), ("output", "x")),
    ],
    ids=["in place", "functional", "in place with a result", "functional with a result"],
)
def test_what_an_operator_mutates_may_be_changed_in_place_or_returned(reference, names):
    x, y = randn(8), randn(8, seed=1)
    before = x.clone()
    outputs = expect(reference, inputs(x=x, y=y), mutates=("x",))
    assert tuple(e.name for e in outputs) == names
    assert torch.equal(outputs[-1].values, x.double() + y.double())
    assert torch.equal(x, before), "the inputs are not touched"
    assert compare(x + y, outputs[-1]).error_over_tolerance <= 0.25


def test_an_optional_tensor_that_is_absent_is_not_mutated():
    given = Inputs((randn(4), None), {}, ("x", "residual"))
    (expected,) = expect(lambda x, residual: x * 2, given, mutates=("residual",))
    assert expected.name == "output"


def test_a_reference_gets_the_options_it_names():
    x = torch.ones(2)
    given = Inputs((x,), {"factor": 3.0, "unknown": 1}, ("x",))
    assert expect(lambda x, *, factor: x * factor, given)[0].values.tolist() == [3.0, 3.0]
    assert expect(lambda x, **options: x * len(options), given)[0].values.tolist() == [2.0, 2.0]
    assert expect(torch.neg, Inputs((x,), {}, ("x",)))[0].values.tolist() == [-1.0, -1.0]


def raising(x):
    raise ValueError("not today\nand not tomorrow")


def raising_on_float64(x):
    if x.dtype == torch.float64:
        raise RuntimeError("expected Float but found Double")
    return x


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        (raising, r"^the reference raised \(M4\): ValueError: not today; check it on these sizes$"),
        (raising_on_float64, r"^the reference raised on float64 inputs \(M4\): RuntimeError: expected Float"),
        (lambda x: {"out": x}, "the reference returned dict, not a tensor or a tuple of tensors"),
        (lambda x: (x, 3), "the reference returned tuple"),
        (lambda x: x if x.dtype == torch.float64 else (x, x), "returns 2 tensors, on float64 inputs 1"),
    ],
)
def test_a_reference_that_fails_is_said_on_one_line(reference, words):
    with pytest.raises(ReferenceFailed, match=words) as caught:
        expect(reference, inputs(x=torch.ones(4)), label="M4")
    assert "\n" not in str(caught.value)


def test_a_reference_that_cannot_be_differentiated_has_the_tighter_tolerance():
    x = torch.rand(4, 4096) + 0.5
    (expected,) = expect(lambda x: torch.from_numpy(x.numpy().sum(-1)), inputs(x=x))
    assert expected.spread == 1.0
    assert compare(x.sum(-1), expected).disagreement is None


def test_float32_may_stand_for_float64_at_large_sizes():
    a, b = randn(64, 512, dtype=torch.bfloat16), randn(512, 64, dtype=torch.bfloat16, seed=1)
    (expected,) = expect(product, inputs(a=a, b=b), golden_dtype=torch.float32)
    assert expected.values.dtype == torch.float64
    assert compare((a.float() @ b.float()).bfloat16(), expected).error_over_tolerance < 0.5
    assert compare((a.float() @ b.float() * 1.1).bfloat16(), expected).error_over_tolerance > 1


# --------------------------------------------------------------------------------------------- where it is wrong


def test_a_disagreement_says_where_how_many_and_how_much():
    x = torch.ones(64, 40)
    (expected,) = expect(lambda x: x * 2, inputs(x=x))
    actual = x * 2
    actual[3, 5], actual[50, 39] = 2.5, 7.0
    found = compare(actual, expected).disagreement
    assert (found.output, found.shape, found.dtype, found.kind) == ("output", (64, 40), "fp32", "value")
    assert (found.wrong, found.total) == (2, 64 * 40)
    assert (found.worst_index, found.worst_value, found.worst_expected) == ((50, 39), 7.0, 2.0)
    assert found.worst_over_tolerance == pytest.approx(5.0 / float(expected.tolerance[50, 39]))
    assert (found.tile_shape, found.tile_grid) == ((8, 8), (8, 5))
    hit = [index for index, worst in enumerate(found.tiles) if worst > 1]
    assert hit == [0, 6 * 5 + 4]


@pytest.mark.parametrize(
    ("shape", "tile", "grid"),
    [
        ((), (1, 1), (1, 1)),
        ((5,), (1, 8), (1, 1)),
        ((1, 300), (1, 16), (1, 19)),
        ((3, 4, 257, 8), (16, 8), (17, 1)),
        ((5000, 9), (256, 8), (20, 2)),
    ],
)
def test_tiles_are_powers_of_two_and_at_most_32_in_a_row(shape, tile, grid):
    found_tile, found_grid, tiles = fold_tiles(torch.zeros(shape))
    assert (found_tile, found_grid, len(tiles)) == (tile, grid, grid[0] * grid[1])
    assert max(found_grid) <= MAX_TILES


def test_leading_dims_are_folded_by_their_maximum():
    errors = torch.zeros(2, 3, 16, 8)
    errors[1, 2, 9, 0] = 5.0
    errors[0, 0, 9, 1] = 3.0
    assert fold_tiles(errors)[2] == (0.0, 5.0)


def test_where_all_terms_cancel_what_is_left_of_them_is_no_fault():
    one = Inputs((torch.randn(8, 1),), {}, ("x",))
    (expected,) = golden.expect(lambda x: torch.softmax(x, 1) - 1, one)
    assert golden.compare(torch.full((8, 1), 2.0**-24), expected).error_over_tolerance <= 1
    assert golden.compare(torch.full((8, 1), 1e-4), expected).error_over_tolerance > 1
