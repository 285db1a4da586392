"""Value classes by name: what tensors of a case hold, declared or made by an author's own function."""

import pytest
import torch
from jaxtyping import Bool, Float, Int32
from torch import Tensor

import tilewright as tw
from tilewright.errors import UsageError
from tilewright.records import Case
from tilewright.spec import contents
from tilewright.spec.inputs import Inputs


@tw.operator(values={"i": tw.values.indices("V"), "cu": tw.values.offsets("T")}, dtypes=("fp16",))
def declared(
    x: Float[Tensor, "V D"], m: Bool[Tensor, "T D"], i: Int32[Tensor, "T"], cu: Int32[Tensor, "S"]
) -> Float[Tensor, "T D"]:
    return x


def draw(word, operator=declared, **sizes):
    case = Case(operator.name, {"V": 9, "D": 5, "T": 12, "S": 6, **sizes}, "fp16", values=word)
    return operator.make_inputs(case).tensors


@pytest.mark.parametrize("word", contents.WORDS)
def test_every_word_draws_every_tensor_in_its_shape_and_dtype(word):
    drawn = draw(word)
    assert [tuple(t.shape) for t in drawn.values()] == [(9, 5), (12, 5), (12,), (6,)]
    assert [t.dtype for t in drawn.values()] == [torch.float16, torch.bool, torch.int32, torch.int32]
    assert int(drawn["i"].min()) >= 0
    assert int(drawn["i"].max()) < 9
    assert (drawn["cu"][0], drawn["cu"][-1]) == (0, 12)
    assert bool((drawn["cu"].diff() >= 0).all())


def test_words_mean_what_they_say():
    assert draw("large-mean")["x"].mean() > 5
    assert bool((draw("negative")["x"] < 0).all())
    assert set(draw("signed-zeros")["x"].float().unique().tolist()) == {0.0}
    assert not draw("one-row-false")["m"][6].any()
    assert draw("all-true")["m"].all()
    assert set(draw("index-ends")["i"].tolist()) == {0, 8}
    assert draw("unit-segments")["cu"].tolist() == [0, 1, 2, 3, 4, 12]
    assert draw("empty-segments")["cu"].diff().tolist().count(0) == 4


def test_rows_that_no_index_names_are_poison():
    drawn = draw("unnamed-poison")
    named = torch.zeros(9, dtype=torch.bool)
    named[drawn["i"].long()] = True
    assert torch.equal(drawn["x"].isnan().any(dim=1), ~named)
    assert not named.all()


def test_a_declaration_may_name_a_word_and_no_case_overrules_it():
    @tw.operator(values={"x": "positive"})
    def named(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
        return x

    for word in ("normal", "negative"):
        (x,) = named.make_inputs(Case("named", {"N": 8}, "fp32", values=word)).args
        assert bool((x > 0).all())
    with pytest.raises(UsageError, match="no value class 'postive'"):
        tw.operator(values={"x": "postive"})(named.run)


def test_what_an_author_made_is_changed_only_where_it_may_hold_anything():
    x, ones, table, zeros = torch.randn(6, 4), torch.ones(4), torch.arange(8.0) - 3.5, torch.zeros(6, 4)
    half = torch.randn(3, 2)
    made = Inputs((x, ones, table, zeros, torch.cat([half, half], 1), 3), {}, ("x", "w", "t", "h", "c", "n"))

    def reference(x, w, t, h, c, n):
        return x * w + h + t[0] + c.sum()

    changed = contents.refilled(made, "large-mean", 0, reference).tensors
    assert changed["x"].mean() > 5
    assert all(torch.equal(changed[name], made.tensors[name]) for name in ("w", "t", "h", "c"))
    varied = contents.refilled(made, "positive", 0, reference).tensors["w"]
    assert len(varied.unique()) == 4
    unseen = contents.refilled(made, "positive", 0, lambda x, w, t, h, c, n: x + t[0])
    assert torch.equal(unseen.tensors["w"], ones)
