"""Launchers whose time is not that of their work, each in its own way; all are right when called once."""

import hashlib
import threading
import time

import torch

import tilewright as tw
from tilewright.bench import watch
from tilewright.spec import golden

N = 96


def work(x, w):
    return torch.softmax(x @ w, dim=-1)


def slow_work(x, w):
    for _ in range(20):
        result = work(x, w)
    return result


def inputs(N=N, seed=0):
    source = torch.Generator().manual_seed(seed)
    return torch.randn(N, N, generator=source), torch.randn(N, N, generator=source)


CHEATS = {}
"""What is said of each, in part."""
memory = {}


def cheat(said, **options):
    def declare(launcher):
        name = launcher.__name__
        made = tw.Operator(name=name, run=launcher, reference=work, inputs=inputs, **options)
        CHEATS[name] = said
        return made

    return declare


def calls(name):
    memory[name] = memory.get(name, 0) + 1
    return memory[name]


KEEPS = "answer to the inputs of an earlier call"
BY_VALUE = "times as fast on values that it has seen"


@cheat(KEEPS)
def kept_by_shape(x, w):
    key = ("shape", x.shape)
    if key not in memory:
        memory[key] = work(x, w)
    return memory[key].clone()


@cheat("as the memory held them")
def kept_output_itself(x, w):
    key = ("itself", x.shape)
    if key not in memory:
        memory[key] = work(x, w)
    return memory[key]


@cheat(KEEPS)
def kept_by_address(x, w):
    key = ("address", x.data_ptr(), w.data_ptr())
    if key not in memory:
        memory[key] = work(x, w)
    return memory[key].clone()


@cheat(KEEPS)
def kept_by_identity(x, w):
    key = ("identity", id(x))
    if key not in memory:
        memory[key] = (work(x, w), x)
    return memory[key][0].clone()


@cheat(BY_VALUE)
def kept_by_hash(x, w):
    key = ("hash", hashlib.md5(x.numpy().tobytes()).hexdigest())
    if key not in memory:
        memory[key] = slow_work(x, w)
    return memory[key].clone()


@cheat(BY_VALUE)
def kept_by_checksum(x, w):
    key = ("checksum", float(x.sum()), float(w[0, 0]))
    if key not in memory:
        memory[key] = slow_work(x, w)
    return memory[key].clone()


@cheat(KEEPS)
def kept_once_warm(x, w):
    if calls("warm") <= 60:
        memory["warm result"] = work(x, w)
    return memory["warm result"].clone()


@cheat(KEEPS)
def every_third_call_works(x, w):
    if calls("third") % 3 == 1 or calls("all") < 10:
        memory["third result"] = work(x, w)
    return memory["third result"].clone()


@cheat("times the tolerance in a timed call")
def output_drifts(x, w):
    return work(x, w) + 1e-4 * max(calls("drift") - 10, 0)


@cheat("changes its input x")
def scribbles_on_input(x, w):
    result = work(x, w)
    x.mul_(1.5)
    return result


@cheat("changes its input w")
def clears_input(x, w):
    result = work(x, w)
    w[0].zero_()
    return result


@cheat("still at work")
def works_in_a_thread(x, w):
    out = torch.empty_like(x)

    def later():
        time.sleep(0.005)
        out.copy_(work(x, w))

    thread = threading.Thread(target=later)
    thread.start()
    if calls("thread") <= 3:
        thread.join()
    return out


class Lazy(torch.Tensor):
    """Computes when it is first used in an operation."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        for argument in args:
            if isinstance(argument, Lazy) and argument.pending is not None:
                pending, argument.pending = argument.pending, None
                with torch._C.DisableTorchFunctionSubclass():
                    argument.copy_(pending())
        with torch._C.DisableTorchFunctionSubclass():
            return function(*args, **(kwargs or {}))


@cheat("elements as the memory held them")
def lazy_tensor(x, w):
    lazy = torch.empty_like(x).as_subclass(Lazy)
    lazy.pending = lambda: work(x, w)
    return lazy


class Wrapper(torch.Tensor):
    """Has no memory; computes in the first operation."""

    @staticmethod
    def __new__(cls, like, compute):
        made = torch.Tensor._make_wrapper_subclass(cls, like.shape, dtype=like.dtype, device=like.device)
        made.compute = compute
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return function(*(a.compute() if isinstance(a, Wrapper) else a for a in args), **(kwargs or {}))


@cheat("in no memory")
def wrapped_promise(x, w):
    return Wrapper(x, lambda: work(x, w))


@cheat("replaces time.perf_counter")
def stops_the_clock(x, w):
    time.perf_counter = lambda: 0.0
    return work(x, w)


@cheat("replaces torch.cuda.Event.elapsed_time")
def shortens_events(x, w):
    torch.cuda.Event.elapsed_time = lambda self, end: 0.001
    return work(x, w)


@cheat("replaces torch.cuda.synchronize")
def does_not_wait(x, w):
    torch.cuda.synchronize = lambda *device: None
    return work(x, w)


@cheat("replaces tilewright.spec.golden.compare")
def bribes_the_judge(x, w):
    golden.compare = lambda actual, expected: golden.Match(0.0, None)
    return torch.zeros_like(x) if calls("judge") > 3 else work(x, w)


@cheat("replaces tilewright.bench.watch.Watch._poison")
def disarms_the_watch(x, w):
    watch.Watch._poison = lambda self, held: None
    return work(x, w)


@cheat("elements as the memory held them")
def half_of_the_rows(x, w):
    out = torch.empty_like(x)
    rows = len(x) if calls("half") < 5 else len(x) // 2
    out[:rows] = work(x[:rows], w)
    return out


@cheat("elements as the memory held them")
def last_element_missing(x, w):
    out = torch.empty_like(x)
    result = work(x, w)
    if calls("last") < 5:
        out.copy_(result)
    else:
        out.view(-1)[:-1] = result.view(-1)[:-1]
    return out


@cheat("elements as the memory held them")
def leaves_what_was_there(x, w):
    out = torch.empty_like(x)
    if calls("leftover") < 20:
        out.copy_(work(x, w))
    return out


@cheat("returned fp16")
def another_dtype_when_warm(x, w):
    return work(x, w) if calls("dtype") < 20 else work(x.half(), w.half())


@cheat("returned fp32")
def fewer_rows_when_warm(x, w):
    return work(x, w) if calls("rows") < 20 else work(x[:1], w)


@cheat("times the tolerance")
def lower_precision_when_warm(x, w):
    return work(x, w) if calls("precision") < 20 else work(x.bfloat16(), w.bfloat16()).float()


@cheat("times the tolerance")
def first_row_for_all(x, w):
    return work(x, w) if calls("expand") < 20 else work(x[:1], w).expand(len(x), -1)


@cheat("not tensors")
def returns_a_promise(x, w):
    return work(x, w) if calls("promise") < 20 else (lambda: work(x, w))


@cheat("raised RuntimeError")
def gives_up(x, w):
    if calls("up") > 40:
        raise RuntimeError("no more")
    return work(x, w)
