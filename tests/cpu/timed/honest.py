"""Launchers that look odd and do their work; none may be accused."""

import functools
import threading
import time

import torch

import tilewright as tw

N = 96


def work(x, w):
    return torch.softmax(x @ w, dim=-1)


def inputs(N=N, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(N, N, generator=source), torch.randn(N, N, generator=source)


HONEST = []
memory = {}


def honest(reference=work, inputs=inputs, **options):
    def declare(launcher):
        HONEST.append(launcher.__name__)
        return tw.Operator(name=launcher.__name__, run=launcher, reference=reference, inputs=inputs, **options)

    return declare


@honest()
def plain(x, w):
    return work(x, w)


@honest(reference=lambda x, w: x * 1.5, mutates=("x",))
def in_place(x, w):
    x.mul_(1.5)
    return x


@honest(reference=lambda x, w: x + w, mutates=("x",))
def in_place_and_silent(x, w):
    x.add_(w)


@honest(reference=lambda x, w: (x @ w, x + 1), mutates=("x",))
def returns_and_changes(x, w):
    result = x @ w
    x.add_(1)
    return result


@honest()
def joined_thread(x, w):
    out = torch.empty_like(x)
    thread = threading.Thread(target=lambda: out.copy_(work(x, w)))
    thread.start()
    thread.join()
    return out


@functools.cache
def _mask(size):
    return torch.tril(torch.ones(size, size, dtype=torch.bool))


@honest(reference=lambda x, w: (x @ w).masked_fill(~torch.tril(torch.ones(len(x), len(x), dtype=torch.bool)), 0.0))
def keeps_a_constant(x, w):
    return (x @ w).masked_fill(~_mask(len(x)), 0.0)


@honest(reference=lambda x, w: (x + w, torch.arange(len(x))))
def returns_a_constant(x, w):
    if "range" not in memory:
        memory["range"] = torch.arange(len(x))
    return x + w, memory["range"]


@functools.cache
def _compiled(size):
    time.sleep(0.05)
    return lambda x, w: work(x, w)


@honest()
def compiled_at_the_first_call(x, w):
    return _compiled(len(x))(x, w)


@honest()
def workspace_again(x, w):
    out = memory.setdefault("workspace", torch.empty_like(x))
    torch.softmax(torch.mm(x, w, out=out), dim=-1, out=out)
    return out


@honest(reference=lambda x, w: (x @ w).T)
def returns_a_view(x, w):
    return torch.mm(w.T, x.T)


@honest(reference=lambda x, w: x.T)
def returns_a_view_of_its_input(x, w):
    return x.T


@honest(reference=lambda x, w: x.sum(1, keepdim=True).expand(-1, len(w)))
def returns_what_is_expanded(x, w):
    return x.sum(1, keepdim=True).expand(-1, len(w))


@honest()
def pads_into_a_larger_block(x, w):
    out = torch.empty(len(x) + 7, len(x) + 9)[3:-4, 4:-5]
    out.copy_(work(x, w))
    return out


@honest()
def prepared_weights_by_version(x, w):
    key = (w.data_ptr(), w._version)
    if memory.get("key") != key:
        memory["key"], memory["prepared"] = key, w.T.contiguous()
    return torch.softmax(x @ memory["prepared"].T, dim=-1)


@honest()
def time_depends_on_values(x, w):
    for _ in range(1 + 4 * int(abs(float(x[0, 0])) * 10 % 3)):
        result = work(x, w)
    return result


@honest()
def as_a_parameter(x, w):
    return torch.nn.Parameter(work(x, w), requires_grad=False)


class Named(torch.Tensor):
    """A subclass that changes nothing."""


@honest()
def as_a_subclass(x, w):
    return work(x, w).as_subclass(Named)


@honest()
def through_numpy(x, w):
    return torch.softmax(torch.from_numpy(x.numpy() @ w.numpy()), dim=-1)


@honest(reference=lambda x, w: (x.argmax(1), x > 0))
def integers_and_bools(x, w):
    return x.argmax(1), x > 0


def gathered(seed=0, N=64):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(N, 8, generator=source), torch.randint(0, N, (3 * N,), generator=source)


@honest(reference=lambda table, index: table[index], inputs=gathered)
def gathers(table, index):
    return table.index_select(0, index)


@honest(reference=lambda x, w: x * 2, inputs=lambda N=64: (torch.full((N,), 3.0), 1))
def always_the_same_values(x, w):
    return x + x


@honest(reference=lambda x, w: x + w, inputs=lambda N=64, seed=0: (lambda x: (x, x))(torch.randn(N)))
def one_tensor_twice(x, w):
    return x + w


@honest(reference=lambda x, w: x.sum(), inputs=lambda N=512, seed=0: (torch.randn(N), 1))
def sum_that_cancels(x, w):
    return x.view(-1, 32).sum(0).sum()


@honest(inputs=lambda N=65, seed=0: (torch.randn(N, N + 5)[:, :N].t(), torch.randn(1, N).expand(N, N)))
def odd_strides(x, w):
    return work(x, w)


@honest()
def changes_a_setting(x, w):
    torch.set_num_threads(1)
    return work(x, w)
