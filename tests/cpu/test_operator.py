"""Declaring operators: what a signature says, what a case draws from it, and how a bad declaration is refused."""

import functools
import inspect
import random
from typing import Literal

import numpy as np
import pytest
import torch
from jaxtyping import BFloat16, Bool, Float, Float8e4m3fn, Int, Int32
from strings import declared_in_strings, decorated_in_strings
from torch import Tensor

import tilewright as tw
from tilewright.errors import AnnotationError, TilewrightError, UnknownDim, UnknownParameter, UsageError
from tilewright.records import Case, Config, Finding
from tilewright.runtime.table import Table, active_table
from tilewright.spec.operator import default_config, replace, source_file


def declare(launcher, **declaration):
    return tw.operator(**declaration)(launcher)


def case(operator, dtype="fp32", seed=0, layout="contiguous", **arguments):
    return Case(operator.name, arguments, dtype, layout, seed=seed)


SPACE = tw.Space(BLOCK=[16, 32], num_warps=[4, 8])


@tw.operator(
    reference=lambda x, w, bias=None: x @ w + (0 if bias is None else bias),
    dtypes=("bf16", "fp32"),
    space=SPACE,
    where="K % 8 == 0",
    flops=lambda M, N, K: 2 * M * N * K,
    shapes={"large": {"M": 4096, "N": 4096, "K": 512, "dtype": "bf16"}},
    baselines={"eager": lambda x, w, bias=None: x @ w},
)
def linear(
    x: Float[Tensor, "M K"],
    w: Float[Tensor, "K N"],
    bias: Float[Tensor, "N"] | None = None,
    alpha: float = 1.0,
    *,
    causal: bool = False,
    mode: Literal["a", "b", "c"] = "b",
    BLOCK: int = 16,
    num_warps: int = 4,
    num_stages: int = 2,
) -> Float[Tensor, "M N"]:
    """A product."""
    return x, w, bias, alpha, causal, mode, BLOCK, num_warps, num_stages


# ----------------------------------------------------------------------------------------------- what is read


def test_roles_of_parameters():
    roles = {p.name: p.role for p in linear.signature.parameters}
    assert roles == {
        "x": "tensor",
        "w": "tensor",
        "bias": "tensor",
        "alpha": "input",
        "causal": "option",
        "mode": "option",
        "BLOCK": "meta",
        "num_warps": "meta",
        "num_stages": "meta",
    }


def test_dims_and_choices():
    assert linear.dims == ("M", "K", "N")
    assert linear.choices == {
        "bias": (False, True),
        "alpha": (1.0,),
        "causal": (False, True),
        "mode": ("b", "a", "c"),
    }


def test_the_operator_is_called_and_named_like_its_launcher():
    x, w = torch.ones(2, 8), torch.ones(8, 3)
    assert (linear.name, linear.__name__, linear.__doc__) == ("linear", "linear", "A product.")
    assert linear(x, w)[5:] == ("b", 16, 4, 2)
    assert linear(x, w, BLOCK=32, mode="a")[5:] == ("a", 32, 4, 2)
    assert repr(linear) == "Operator(linear)"
    assert declare(lambda x: x, name="mine", inputs=lambda n=3: (n,)).name == "mine"


def test_a_true_default_comes_first_among_the_choices():
    def f(x: Float[Tensor, "M"], *, causal: bool = True):
        return x

    assert declare(f).choices == {"causal": (True, False)}


def test_values_give_the_choices_of_what_is_no_tensor():
    def f(x: Float[Tensor, "M"], p: float, eps: float = 1e-5, *, mode: str = "a"):
        return x

    operator = declare(f, values={"p": [0.1, 0.5], "eps": tw.values.choice(1e-5, 1.0), "mode": "z"})
    assert operator.choices == {"p": (0.1, 0.5), "eps": (1e-5, 1.0), "mode": ("z",)}


def test_a_literal_needs_no_default():
    def f(x: Float[Tensor, "M"], side: Literal["left", "right"]):
        return x

    assert declare(f).choices == {"side": ("left", "right")}


@pytest.mark.parametrize("operator", [declared_in_strings, decorated_in_strings])
def test_annotations_may_be_strings(operator):
    assert operator.dims == ("M", "N")
    assert [p.role for p in operator.signature.parameters] == ["tensor", "tensor", "option"]
    inputs = operator.make_inputs(case(operator, M=2, N=3))
    assert {name: (t.shape, t.dtype) for name, t in inputs.tensors.items()} == {
        "x": ((2, 4), torch.float32),
        "index": ((2,), torch.int32),
    }


def test_one_name_is_taken_where_several_may_be_given():
    def f(x: Float[Tensor, "M"]):
        return x

    operator = declare(f, dtypes="bf16", mutates="x", grad="x")
    assert (operator.dtypes, operator.mutates, operator.grad) == (("bf16",), ("x",), ("x",))


# ----------------------------------------------------------------------------------------- what a case draws


def test_inputs_of_a_case():
    inputs = linear.make_inputs(case(linear, "bf16", M=3, K=8, N=5, bias=True, causal=True, alpha=0.5))
    x, w, bias, alpha = inputs.args
    assert [(t.shape, t.dtype) for t in (x, w, bias)] == [
        ((3, 8), torch.bfloat16),
        ((8, 5), torch.bfloat16),
        ((5,), torch.bfloat16),
    ]
    assert alpha == 0.5
    assert inputs.kwargs == {"causal": True, "mode": "b"}
    assert inputs.names == ("x", "w", "bias", "alpha")


def test_an_optional_tensor_is_left_out_unless_the_case_has_it():
    assert linear.make_inputs(case(linear, M=3, K=8, N=5)).args[2] is None


def test_expressions_fixed_named_and_variadic_dims():
    def f(
        x: Float[Tensor, "*batch M K"],
        y: Float[Tensor, "*batch K+1"],
        z: Bool[Tensor, "rows=4 2*M"],
        s: Float[Tensor, ""],
    ):
        return x

    operator = declare(f)
    assert operator.dims == ("batch", "M", "K")
    assert operator.signature.variadic == {"batch"}
    inputs = operator.make_inputs(case(operator, batch=(2, 3), M=5, K=7))
    assert [tuple(t.shape) for t in inputs.args] == [(2, 3, 5, 7), (2, 3, 8), (4, 10), ()]


def test_exact_dtypes_are_kept_and_shared_ones_follow_the_case():
    def f(x: Float[Tensor, "M"], scale: BFloat16[Tensor, "M"], q: Float8e4m3fn[Tensor, "M"], i: Int[Tensor, "M"]):
        return x

    operator = declare(f, dtypes=("fp16", "fp32"))
    inputs = operator.make_inputs(case(operator, "fp16", M=3))
    assert [t.dtype for t in inputs.args] == [torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.int64]


def test_keyword_only_tensors_are_keyword_arguments():
    def f(x: Float[Tensor, "M"], *, mask: Bool[Tensor, "M"]):
        return x

    operator = declare(f)
    inputs = operator.make_inputs(case(operator, M=3))
    assert list(inputs.kwargs) == ["mask"]
    assert inputs.kwargs["mask"].dtype == torch.bool


def test_values_of_tensors():
    def ramp(request):
        assert request.sizes["V"] == 6
        return torch.arange(request.shape[0], dtype=request.dtype)

    def f(
        table: Float[Tensor, "V D"],
        cu: Int32[Tensor, "B+1"],
        tokens: Float[Tensor, "T"],
        ids: Int32[Tensor, "T"],
        last: Int[Tensor, "T"],
        order: Float[Tensor, "T"],
        half: Float[Tensor, "T"],
    ):
        return table

    values = {
        "cu": tw.values.offsets("T"),
        "ids": tw.values.indices("V"),
        "last": tw.values.integers(5, "V"),
        "order": ramp,
        "half": tw.values.constant(0.5),
    }
    operator = declare(f, values=values)
    inputs = operator.make_inputs(case(operator, V=6, D=2, B=4, T=50)).tensors
    cu = inputs["cu"]
    assert (cu.dtype, cu.shape, int(cu[0]), int(cu[-1])) == (torch.int32, (5,), 0, 50)
    assert (cu.diff() >= 0).all()
    assert (cu.diff() == 0).any(), "one segment is empty"
    assert cu.diff().unique().numel() > 2, "segments differ in length"
    assert inputs["ids"].unique().tolist() == [0, 1, 2, 3, 4, 5]
    assert inputs["last"].unique().tolist() == [5]
    assert inputs["order"].tolist() == list(range(50))
    assert inputs["half"].unique().tolist() == [0.5]


@pytest.mark.parametrize(("segments", "total", "expected"), [(0, 9, [0]), (1, 9, [0, 9]), (3, 0, [0, 0, 0, 0])])
def test_offsets_of_few_segments(segments, total, expected):
    def f(x: Float[Tensor, "T"], cu: Int32[Tensor, "B+1"]):
        return x

    operator = declare(f, values={"cu": tw.values.offsets("T")})
    assert operator.make_inputs(case(operator, T=total, B=segments)).args[1].tolist() == expected


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (tw.values.uniform(2.0, 3.0), 2.0, 3.0),
        (tw.values.normal(100.0, 0.001), 99.9, 100.1),
        (tw.values.mask(1.0), 1, 1),
    ],
)
def test_value_classes_keep_to_their_range(values, low, high):
    def f(x: Float[Tensor, "M"]):
        return x

    operator = declare(f, values={"x": values})
    (x,) = operator.make_inputs(case(operator, M=1000)).args
    assert low <= float(x.min()) <= float(x.max()) <= high


def test_a_value_class_that_ignores_what_it_is_asked_for_is_refused():
    def f(x: Float[Tensor, "M"]):
        return x

    operator = declare(f, values={"x": lambda request: torch.zeros(3)}, dtypes=("bf16",))
    with pytest.raises(UsageError, match=r"values\['x'\] made fp32\[3\] where bf16\[4\] was asked for"):
        operator.make_inputs(case(operator, "bf16", M=4))


def test_leaves_of_gradients_require_them():
    def f(q: Float[Tensor, "M"], k: Float[Tensor, "M"]):
        return q

    inputs = (operator := declare(f, grad=("q",))).make_inputs(case(operator, M=4))
    assert [t.requires_grad for t in inputs.args] == [True, False]


def test_undrawn_inputs_have_the_same_shapes_dtypes_strides_and_integers():
    def f(x: Float[Tensor, "M N"], i: Int32[Tensor, "M"]):
        return x

    operator = declare(f, values={"i": tw.values.indices("N")})
    wanted = case(operator, "bf16", layout="sliced", M=4, N=6)
    drawn, undrawn = operator.make_inputs(wanted), operator.make_inputs(wanted, drawn=False)
    for one, other in zip(drawn.args, undrawn.args, strict=True):
        assert (one.shape, one.dtype, one.stride()) == (other.shape, other.dtype, other.stride())
    assert torch.equal(drawn.args[1], undrawn.args[1])


@pytest.mark.parametrize(
    ("arguments", "words"), [({"M": 2}, "gives no size for N"), ({"M": 2, "N": 3, "Q": 1}, "no dim or option 'Q'")]
)
def test_a_case_must_fit_the_declaration(arguments, words):
    def f(x: Float[Tensor, "M N"]):
        return x

    operator = declare(f)
    with pytest.raises(UnknownDim, match=words):
        operator.make_inputs(case(operator, **arguments))


def test_where_decides_with_the_defaults_of_what_is_left_out():
    def f(x: Float[Tensor, "M N"], y: Float[Tensor, "M-N"], z: Float[Tensor, "M//N"], *, causal: bool = True):
        return x

    operator = declare(f, where="not causal or M % N == 0 and abs(M - N) < 100")
    assert operator.allows({"M": 8, "N": 4})
    assert not operator.allows({"M": 9, "N": 4})
    assert operator.allows({"M": 9, "N": 4, "causal": False})
    assert not operator.allows({"M": 200, "N": 1})
    assert not operator.allows({"M": 4, "N": 8, "causal": False}), "M - N is no size"
    assert not operator.allows({"M": 4, "N": 0, "causal": False}), "M // N is none either"


def test_flops_of_a_case():
    assert linear.flops_of(case(linear, M=2, N=3, K=8)) == 96.0
    everything = replace(linear, flops=lambda **given: len(given))
    assert everything.flops_of(case(linear, M=2, N=3, K=8)) == 7.0
    assert (
        replace(linear, flops=lambda M, alpha, scale=3: M * alpha * scale).flops_of(case(linear, M=2, N=3, K=8)) == 6.0
    )
    assert replace(linear, flops=None).flops_of(case(linear, M=2, N=3, K=8)) is None


def test_results_promise_only_exact_dtypes():
    def f(x: Float[Tensor, "M"]) -> tuple[Float[Tensor, "M"], Int32[Tensor, "M"], Int[Tensor, "M"], Tensor]:
        return x

    operator = declare(f)
    assert operator.result_dtypes(case(operator, M=3)) == (None, torch.int32, None, None)
    assert linear.result_dtypes(case(linear, M=3)) == (None,)


# ---------------------------------------------------------------------------------------------- bad declarations


def bare(x: Tensor):
    return x


def missing(x):
    return x


def ellipsis(x: Float[Tensor, "... N"]):
    return x


def broadcast(x: Float[Tensor, "#M"]):
    return x


def variable(*xs: Float[Tensor, "M"]):
    return xs


def no_default(x: Float[Tensor, "M"], p: float):
    return x


def no_option(x: Float[Tensor, "M"], *, p: float):
    return x


def positional_meta(x: Float[Tensor, "M"], BLOCK=16):
    return x


def unresolved(x: "Float[Tensor, 'M'] | Nonsense"):
    return x


def plain(x: Float[Tensor, "M N"], y: Int32[Tensor, "M"], p: float = 1.0):
    return x


def plain_result(x: Float[Tensor, "M"]) -> Float[Tensor, "... M"]:
    return x


@pytest.mark.parametrize(
    ("launcher", "declaration", "kind", "words"),
    [
        (bare, {}, AnnotationError, r"bare\(x\): annotation Tensor does not say the dims"),
        (missing, {}, AnnotationError, r"missing\(x\): no annotation"),
        (ellipsis, {}, AnnotationError, r"ellipsis\(x\): dim '\.\.\.' has no size to choose"),
        (broadcast, {}, AnnotationError, r"broadcast\(x\): dim '#M' has no size to choose"),
        (variable, {}, AnnotationError, r"variable\(xs\): \*args and \*\*kwargs"),
        (no_default, {}, AnnotationError, r"no_default\(p\): an input without default"),
        (no_option, {}, AnnotationError, r"no_option\(p\): an option without default"),
        (unresolved, {}, AnnotationError, "unresolved: an annotation cannot be resolved: .*Nonsense"),
        (plain_result, {}, AnnotationError, "plain_result's result: dim '...'"),
        (plain, {"dtypes": ("fp12",)}, AnnotationError, "unknown dtype 'fp12'"),
        (plain, {"where": "M % Q == 0"}, UnknownDim, "plain: where='M % Q == 0' names Q"),
        (plain, {"where": "M %"}, UsageError, "plain: where='M %' is no Python expression"),
        (plain, {"shapes": {"big": {"M": 1, "Q": 2}}}, UnknownDim, r"plain: shapes\['big'\] names Q"),
        (plain, {"flops": lambda M, Q: M * Q}, UnknownDim, "plain: flops= names Q"),
        (plain, {"values": {"y": tw.values.indices("Q")}}, UnknownDim, r"plain: values\['y'\] names Q"),
        (plain, {"values": {"y": tw.values.offsets("M+Q")}}, UnknownDim, r"plain: values\['y'\] names Q"),
        (plain, {"values": {"q": tw.values.normal()}}, UnknownParameter, "plain: values= names 'q'"),
        (plain, {"mutates": ("z",)}, UnknownParameter, "plain: mutates= names 'z'"),
        (plain, {"grad": ("z",)}, UnknownParameter, "plain: grad= names 'z'"),
        (plain, {"grad": ("p",)}, UnknownParameter, "plain: p is no tensor"),
        (plain, {"space": tw.Space(BLOCK=[16])}, UnknownParameter, "varies BLOCK, which the launcher does not take"),
        (positional_meta, {"space": tw.Space(BLOCK=[16])}, UnknownParameter, "varies BLOCK, which is not keyword-only"),
    ],
)  # fmt: skip
def test_a_bad_declaration_is_refused_with_a_remedy(launcher, declaration, kind, words):
    with pytest.raises(TilewrightError, match=words) as caught:
        declare(launcher, **declaration)
    assert type(caught.value) is kind
    assert "\n" not in str(caught.value)


def test_values_over_an_unknown_dim_are_refused_also_where_nobody_can_know_them_beforehand():
    def f(x: Int32[Tensor, "M"]):
        return x

    operator = declare(f, values={"x": lambda request: tw.values.indices("Q")(request)})
    with pytest.raises(UnknownDim, match="'Q'"):
        operator.make_inputs(case(operator, M=3))


@pytest.mark.parametrize(
    ("space", "kind", "words"),
    [
        (lambda: tw.Space(BLOCK=[]), UsageError, "a parameter needs a list of choices"),
        (lambda: tw.Space(BLOCK=16), UsageError, "a parameter needs a list of choices"),
        (lambda: tw.Space(BLOCK=[16], where="BLOCK > 16"), UsageError, "no configuration of the space fulfils"),
        (lambda: tw.Space(BLOCK=[16], where="BLOK > 16"), UnknownParameter, "BLOK"),
    ],
)
def test_a_bad_space_is_refused(space, kind, words):
    with pytest.raises(kind, match=words):
        space()


# ------------------------------------------------------------------------------------------------------- spaces


def test_a_space_holds_the_combinations_that_its_constraint_leaves():
    expected = [{"A": 1, "B": 2}, {"A": 1, "B": 3}, {"A": 2, "B": 3}]
    for where in ("A < B", lambda A, B: A < B):
        space = tw.Space(A=[1, 2], B=[2, 3, 1][:2], where=where)
        assert [dict(config.values) for config in space] == expected
        assert len(space) == 3
        assert "A" in space
        assert "C" not in space


def test_a_space_of_configs_holds_exactly_those():
    space = tw.Space.of_configs([{"A": 1, "num_warps": 4}, {"A": 2}])
    assert [config.values for config in space] == [{"A": 1, "num_warps": 4}, {"A": 2}]
    assert space.parameters == {"A": (1, 2), "num_warps": (4,)}


@pytest.mark.parametrize(
    ("choices", "expected"),
    [
        ({"BLOCK": [16, 32], "num_warps": [4, 8]}, {"BLOCK": 32, "num_warps": 4}),
        ({"BLOCK": [16, 64]}, {"BLOCK": 32}),
        ({"num_stages": [2, 3]}, {}),
    ],
)
def test_the_default_configuration_is_that_of_a_plain_call(choices, expected):
    def f(x: Float[Tensor, "M"], *, BLOCK=32, num_warps, num_stages=None):
        return x

    assert default_config(declare(f, space=tw.Space(**choices))) == Config(expected)


def test_without_a_space_there_is_nothing_to_configure():
    def f(x: Float[Tensor, "M"]):
        return x

    assert default_config(declare(f)) == Config({})


def test_launch_passes_a_configuration_to_the_launcher():
    inputs = linear.make_inputs(case(linear, M=2, K=8, N=2, mode="c"))
    assert linear.launch(inputs, Config({"BLOCK": 32, "num_warps": 8}))[5:] == ("c", 32, 8, 2)
    assert linear.launch(inputs)[5:] == ("c", 16, 4, 2)


# ---------------------------------------------------------------------------------------- the tuned choice in use


@pytest.fixture
def table(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    active_table.cache_clear()
    yield Table()
    active_table.cache_clear()


def test_a_call_runs_in_the_configuration_tuned_for_its_shapes(table):
    x, w = torch.ones(2, 8), torch.ones(8, 3)
    key = linear.shape_key((x, w), {})
    assert key == "fp32[2,8] fp32[8,3] None 1.0 False 'b' 2"
    table.put("linear", key, "cpu", {"BLOCK": 32, "num_warps": 8})
    assert linear(x, w)[6:] == (32, 8, 2)
    assert linear(x, w, causal=True)[6:] == (16, 4, 2), "another option is another key"
    assert linear(torch.ones(3, 8), w)[6:] == (16, 4, 2)
    assert linear(x, w, BLOCK=16)[6:] == (16, 4, 2), "what is named by hand stands"


def test_a_choice_that_the_space_no_longer_has_is_passed_over(table):
    x, w = torch.ones(2, 8), torch.ones(8, 3)
    table.put("linear", linear.shape_key((x, w), {}), "cpu", {"BLOCK": 64, "num_warps": 8})
    assert linear(x, w)[6:] == (16, 4, 2)


# --------------------------------------------------------------------------- operators without annotations


def make(n=100, m=3, *, dtype="fp32", causal=False, seed=0):
    return torch.full((n, m), float(seed)), dtype, causal


def test_inputs_make_the_arguments_of_a_case():
    operator = tw.Operator(name="op", run=lambda x, dtype, causal: x, inputs=make, values={"causal": [False, True]})
    assert operator.dims == ("n", "m")
    assert operator.default_arguments == {"n": 100, "m": 3, "dtype": "fp32", "causal": False}
    assert operator.choices == {"causal": (False, True)}
    inputs = operator.make_inputs(case(operator, "bf16", seed=5, n=2))
    assert (inputs.args[0].tolist(), *inputs.args[1:]) == ([[5.0] * 3] * 2, "bf16", False)
    assert inputs.names == ("x", "dtype", "causal")


def test_inputs_get_a_torch_dtype_where_they_default_to_one():
    def inputs(n=4, dtype=torch.float32):
        return {"x": torch.zeros(n, dtype=dtype)}

    operator = tw.Operator(name="op", run=lambda x: x, inputs=inputs)
    made = operator.make_inputs(case(operator, "bf16"))
    assert made.kwargs["x"].dtype == torch.bfloat16
    assert (made.args, made.names) == ((), ())


def test_an_argument_that_inputs_do_not_take_is_refused():
    operator = tw.Operator(name="op", run=lambda x: x, inputs=make)
    with pytest.raises(UnknownParameter, match=r"op: inputs\(\) takes no 'k'"):
        operator.make_inputs(case(operator, k=3))


def test_a_bare_kernel_needs_inputs_and_a_grid():
    class Kernel:
        fn = staticmethod(lambda x: x)

        def run(self):
            pass

    with pytest.raises(UsageError, match="a bare kernel needs inputs= and grid="):
        tw.Operator(name="k", run=Kernel())


# ------------------------------------------------------------------------------------------------- the rest


def test_replace_changes_one_part_and_keeps_the_others():
    changed = replace(linear, dtypes=("fp16",))
    assert (changed.dtypes, linear.dtypes) == (("fp16",), ("bf16", "fp32"))
    for name in set(inspect.signature(tw.Operator).parameters) - {"dtypes"}:
        assert getattr(changed, name) is getattr(linear, name) or getattr(changed, name) == getattr(linear, name)


def test_the_source_file_is_the_launchers_also_below_decorators():
    def plain_launcher(x: Float[Tensor, "M"]):
        return x

    wrapped = functools.wraps(plain_launcher)(lambda *args: plain_launcher(*args))
    assert str(source_file(declare(wrapped))) == __file__
    assert str(source_file(declared_in_strings)).endswith("strings.py")


@pytest.mark.parametrize(
    ("suppression", "finding", "covered"),
    [
        (tw.Suppression("mismatch", "known"), Finding("mismatch", "m", tensor="y_ptr"), True),
        (tw.Suppression("mismatch", "known", tensor="y"), Finding("mismatch", "m", tensor="y_ptr", argument="y"), True),
        (tw.Suppression("mismatch", "known", tensor="y_ptr"), Finding("mismatch", "m", tensor="y_ptr"), True),
        (tw.Suppression("mismatch", "known", tensor="x"), Finding("mismatch", "m", tensor="y_ptr"), False),
        (tw.Suppression("launch-error", "known"), Finding("mismatch", "m"), False),
    ],
)
def test_a_suppression_covers_its_kind_and_tensor(suppression, finding, covered):
    assert suppression.covers(finding) is covered


def test_dtypes_may_be_torch_s_own():
    operator = declare(plain, dtypes=(torch.float16, "fp32"))
    assert operator.dtypes == ("fp16", "fp32")
    assert declare(plain, dtypes=torch.bfloat16).dtypes == ("bf16",)
    with pytest.raises(AnnotationError, match="plain: dtypes= holds 16"):
        declare(plain, dtypes=(16,))


def test_a_decorator_without_parentheses_says_what_to_write():
    with pytest.raises(UsageError, match="@tw.operator over plain says nothing of it; write @tw.operator"):
        tw.operator(plain)


def test_suppressing_what_is_no_kind_is_refused():
    with pytest.raises(UsageError, match="no finding has that kind; kinds: out-of-bounds-read"):
        tw.Suppression("nope", "because")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda shape, dtype: torch.zeros(shape), r"values\['x'\] raised TypeError: .*; it is called with one request"),
        (lambda request: 1 / 0, r"values\['x'\] raised ZeroDivisionError"),
        (lambda request: 3, r"values\['x'\] made int, not a tensor"),
    ],
)
def test_what_a_function_for_values_raises_is_a_fault_of_the_declaration(make, words):
    operator = declare(plain, values={"x": make})
    with pytest.raises(UsageError, match=words):
        operator.make_inputs(case(operator, M=2, N=3))


@pytest.mark.parametrize("option", ["mutates", "grad"])
@pytest.mark.parametrize("name", [0, "z"])
def test_names_of_a_launcher_without_annotations_are_checked(option, name):
    def launcher(x, y):
        return x

    declaration = {"name": "f", "run": launcher, "inputs": lambda n=3: (n, n), option: (name,)}
    with pytest.raises(UnknownParameter, match=f"f: {option}= names {name!r}; its parameters: x, y"):
        tw.Operator(**declaration)


def test_a_case_has_the_same_inputs_whichever_generator_draws_them():
    def inputs(N=3):
        return torch.tensor([*np.random.rand(N), random.random(), torch.rand(()).item()])

    operator = tw.Operator(name="drawn", run=lambda x: x, inputs=inputs)
    before = random.getstate()
    first, again, other = (operator.make_inputs(case(operator, None, seed=seed)).args[0] for seed in (0, 0, 1))
    assert torch.equal(first, again)
    assert not bool((first == other).any())
    assert random.getstate() == before
