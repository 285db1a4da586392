"""The tensors of a case: the same from the same seed, laid out as asked, copied with all their structure."""

import pytest
import torch
from jaxtyping import Bool, Float, Float8e4m3fn, Int8, Int32
from torch import Tensor

import tilewright as tw
from tilewright.errors import UsageError
from tilewright.records import Case
from tilewright.spec.inputs import LAYOUTS, UPSTREAM_LAYOUTS, Inputs, generator, lay_out


@tw.operator(dtypes=("fp32", "bf16"))
def two(x: Float[Tensor, "M N"], y: Float[Tensor, "M N"]):
    return x


@tw.operator()
def three(z: Float[Tensor, "K"], x: Float[Tensor, "M N"], y: Float[Tensor, "M N"]):
    return x


def draw(operator, seed=0, layout="contiguous", dtype="fp32", **sizes):
    return operator.make_inputs(Case(operator.name, {"M": 4, "N": 6, **sizes}, dtype, layout, seed=seed)).tensors


def inputs(**tensors):
    return Inputs(tuple(tensors.values()), {}, tuple(tensors))


# ------------------------------------------------------------------------------------------------- determinism


def test_one_seed_gives_one_draw_whatever_else_is_drawn():
    torch.manual_seed(1)
    first = draw(two)
    torch.manual_seed(2)
    again = draw(two)
    assert torch.equal(first["x"], again["x"])
    assert torch.equal(first["y"], again["y"])


def test_seeds_and_names_give_streams_of_their_own():
    first, second = draw(two, seed=0), draw(two, seed=1)
    assert not torch.equal(first["x"], second["x"])
    assert not torch.equal(first["x"], first["y"])
    assert torch.equal(draw(three, K=3)["x"], first["x"]), "an argument more changes no other"


def test_streams_are_the_same_in_every_process():
    assert generator(0, "x").initial_seed() == 2548628961


def test_the_same_values_come_in_every_layout_and_rounded_in_every_dtype():
    plain = draw(two)
    for layout in set(LAYOUTS) - {"expanded"}:
        assert torch.equal(draw(two, layout=layout)["x"], plain["x"])
    assert torch.equal(draw(two, layout="expanded")["x"], plain["x"][:1].expand(4, 6))
    assert torch.equal(draw(two, dtype="bf16")["x"], plain["x"].bfloat16())


# ----------------------------------------------------------------------------------------------------- layouts


def test_strides_of_layouts():
    strides = {name: (t := draw(two, layout=name)["x"]).stride() + (t.storage_offset(),) for name in LAYOUTS}
    upstream = dict.fromkeys(UPSTREAM_LAYOUTS, (6, 1, 0))  # the gradient's layout, not the inputs'
    assert strides == {
        **{"contiguous": (6, 1, 0), "transposed": (1, 4, 0), "sliced": (9, 1, 10), "offset": (6, 1, 64)},
        **{"expanded": (0, 1, 0), "channels-last": (6, 1, 0), "aliased": (6, 1, 0)},
        **upstream,
    }
    image = torch.zeros(2, 3, 4, 5)
    assert lay_out(image, "channels-last").stride() == (60, 1, 15, 3)


@pytest.mark.parametrize("shape", [(), (0,), (5,), (0, 3), (2, 3, 4)])
@pytest.mark.parametrize("layout", sorted(LAYOUTS))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.int8, torch.bool])
def test_every_tensor_has_every_layout(shape, layout, dtype):
    tensor = torch.randint(0, 2, shape).to(dtype)
    laid = lay_out(tensor, layout)
    assert (laid.shape, laid.dtype) == (tensor.shape, dtype)
    expected = tensor[:1].expand(shape) if layout == "expanded" and tensor.dim() > 1 and len(tensor) else tensor
    assert torch.equal(laid.float(), expected.float())


def test_a_slice_lies_in_poison():
    view = lay_out(torch.ones(2, 3), "sliced")
    whole = torch.empty(0).set_(view.untyped_storage())
    assert whole.isnan().sum() == 5 * 7 - 6
    assert view.is_contiguous() is False
    mask = lay_out(torch.zeros(2, 3, dtype=torch.bool), "sliced")
    assert torch.empty(0, dtype=torch.bool).set_(mask.untyped_storage()).sum() == 5 * 7 - 6


def test_what_is_written_to_is_not_expanded():
    assert lay_out(torch.ones(2, 3), "expanded", written=True).stride() == (3, 1)


def test_arguments_moved_in_their_storage_lie_in_poison_and_stay_aliases():
    x = torch.arange(6.0)
    moved = Inputs((x[1:4], x, 7), {}, ("a", "b", "c")).moved()
    a, b = moved.args[:2]
    assert (a.storage_offset(), b.storage_offset(), moved.args[2]) == (65, 64, 7)
    assert torch.equal(a, x[1:4])
    assert torch.equal(b, x)
    assert a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()
    assert torch.empty(0).set_(a.untyped_storage()).isnan().sum() == 128


def test_two_tensors_of_one_shape_may_be_one():
    x, y, n = torch.ones(3), torch.zeros(3), torch.zeros(4)
    aliased = Inputs((x, y, n), {}, ("x", "y", "n")).aliased()
    assert aliased.args[0] is aliased.args[1]
    assert aliased.args[2] is n


def test_an_unknown_layout_is_refused():
    with pytest.raises(UsageError, match="unknown layout 'diagonal'; choose from contiguous, transposed, sliced"):
        lay_out(torch.ones(2), "diagonal")


# ------------------------------------------------------------------------------------------------------ copies


def test_a_copy_keeps_strides_offset_aliasing_and_gradients_but_not_memory():
    storage = torch.arange(40.0)
    whole, part = storage.view(5, 8), storage.view(5, 8)[1:4, ::2]
    column = whole.t()
    halves = storage.view(torch.float16)[3:9]
    leaf = torch.ones(3, requires_grad=True)
    given = inputs(whole=whole, part=part, column=column, halves=halves, leaf=leaf)
    copied = given.copy().tensors
    for name, tensor in given.tensors.items():
        copy = copied[name]
        assert (copy.shape, copy.stride(), copy.storage_offset(), copy.dtype) == (
            tensor.shape,
            tensor.stride(),
            tensor.storage_offset(),
            tensor.dtype,
        )
        assert torch.equal(copy, tensor)
        assert copy.untyped_storage().data_ptr() != tensor.untyped_storage().data_ptr()
    copied["whole"][1, 2] = -1.0
    assert copied["part"][0, 1] == copied["column"][2, 1] == -1.0
    assert whole[1, 2] == 10.0
    assert copied["leaf"].requires_grad
    assert copied["leaf"].is_leaf
    assert not copied["whole"].requires_grad


def test_a_copy_keeps_a_broadcast_dim_and_what_is_no_tensor():
    row = torch.arange(3.0).expand(4, 3)
    given = Inputs((row, None, 0.5), {"flag": True, "w": row}, ("x", "bias", "p"))
    copied = given.copy()
    assert copied.args[0].stride() == (0, 1)
    assert copied.args[1:] == (None, 0.5)
    assert copied.kwargs["flag"] is True
    copied.args[0][0, 1] = 7.0
    assert copied.kwargs["w"][3, 1] == 7.0
    assert copied.names == given.names


def test_empty_tensors_are_copied():
    copied = inputs(a=torch.empty(0, 3), b=torch.empty(2, 0, dtype=torch.int8)).copy().tensors
    assert [(t.shape, t.dtype) for t in copied.values()] == [((0, 3), torch.float32), ((2, 0), torch.int8)]


def test_a_copy_goes_to_a_device():
    copied = inputs(x=torch.ones(2, 3).t()).copy("meta").tensors["x"]
    assert (copied.device.type, copied.stride()) == ("meta", (1, 3))


def test_tensors_by_name_are_positional_and_keyword_ones():
    one, other = torch.ones(1), torch.ones(2)
    assert list(Inputs((one, 3), {"m": other, "flag": True}, ("x", "n")).tensors) == ["x", "m"]


# ------------------------------------------------------------------------------------------------------ upcast


def test_upcasting_widens_floats_to_the_values_they_hold_and_nothing_else():
    @tw.operator()
    def quantised(
        x: Float[Tensor, "M"],
        q: Float8e4m3fn[Tensor, "M"],
        w: Int8[Tensor, "M"],
        m: Bool[Tensor, "M"],
        i: Int32[Tensor, "M"],
    ):
        return x

    given = quantised.make_inputs(Case("quantised", {"M": 50}, "bf16"))
    wide = given.upcast().tensors
    assert [t.dtype for t in wide.values()] == [torch.float64, torch.float64, torch.int8, torch.bool, torch.int32]
    for name, tensor in given.tensors.items():
        assert torch.equal(wide[name].to(tensor.dtype).float(), tensor.float())
    assert given.upcast(torch.float32).tensors["q"].dtype == torch.float32


def test_upcasting_cuts_gradients_and_keeps_strides():
    leaf = torch.ones(2, 3).t().requires_grad_()
    wide = inputs(x=leaf).upcast().tensors["x"]
    assert not wide.requires_grad
    assert wide.stride() == (1, 3)
