"""Rounding on the way: where terms cancel whatever the inputs are, a right result is not the zero of PyTorch's order."""

import torch

from tilewright.spec import golden
from tilewright.spec.inputs import Inputs


def _attended(q, k, v):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def _gradient_of_q(q, k, v, upstream):
    with torch.enable_grad():
        leaf = q.detach().clone().requires_grad_()
        return torch.autograd.grad(_attended(leaf, k, v), leaf, upstream)[0]


def _by_rows(q, k, v, upstream):
    """As fused kernels compute it: probabilities from a stored logarithm, products minus their mean."""
    scores = (q @ k.T / 4).masked_fill(~torch.ones(len(q), len(q), dtype=torch.bool).tril(), float("-inf"))
    p = torch.exp(scores - scores.logsumexp(-1, keepdim=True))
    delta = (upstream * (p @ v)).flip(-1).cumsum(-1)[:, -1:]  # in an order of its own
    return p * (upstream @ v.T - delta) @ k / 4


def _expected(rows):
    torch.manual_seed(0)
    tensors = [torch.randn(rows, 16) for _ in range(4)]
    inputs = Inputs(tuple(tensors), {}, ("q", "k", "v", "upstream"))
    return tensors, golden.expect(_gradient_of_q, inputs)[0]


def test_a_gradient_that_cancels_to_zero_may_be_off_by_rounding():
    for rows in (1, 21):
        tensors, expected = _expected(rows)
        assert not expected.values[0].any()
        result = _by_rows(*tensors)
        assert result[0].any()
        assert golden.compare(result, expected).disagreement is None


def test_what_is_more_than_rounding_is_wrong_there_too():
    tensors, expected = _expected(21)
    result = _by_rows(*tensors)
    result[0] += 1e-5
    found = golden.compare(result, expected).disagreement
    assert found is not None
    assert found.worst_index[0] == 0
    result = _by_rows(*tensors) * (1 + 2.0**-14)
    assert golden.compare(result, expected).disagreement is not None


def test_a_reference_that_cannot_be_looked_into_leaves_the_tolerance_as_it_is():
    def stubborn(x):
        if torch.utils._python_dispatch._get_current_dispatch_mode() is not None:
            raise RuntimeError("not here")
        return torch.cat([x - x, x])

    x = torch.randn(8)
    expected = golden.expect(stubborn, Inputs((x,), {}, ("x",)))[0]
    assert golden.compare(torch.cat([torch.full((8,), 1e-9), x]), expected).disagreement is not None
