"""The hash of functions: of what they say and reach, not of where they stand or what decorates them."""

import functools
import importlib
import sys

import pytest

from tilewright.runtime.source import source_hash

BASE = """
import functools

SCALE = 2
TABLE = {"a": 1}

class Kernel:
    def __init__(self, fn, values=None):
        self.fn = fn
        if values is not None:
            self.values = values

def decorated(*configs):
    return Kernel

def helper(x):
    return x + 1

@decorated(1, 2)
def kernel(x):
    # doubles
    return helper(x) * SCALE

def unused(x):
    return x

def launcher(x):
    return kernel.fn(x)

doubled, tripled = lambda x: x * 2, lambda x: x * 3
heuristic = Kernel(kernel, {"BLOCK": lambda args: 4})
"""


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A function that imports a text as a module of its own, anew each time."""
    monkeypatch.syspath_prepend(tmp_path)
    count = iter(range(100))

    def write(text):
        name = f"written_{tmp_path.name.replace('-', '_')}_{next(count)}"
        (tmp_path / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        module = importlib.import_module(name)
        sys.modules.pop(name)
        return module

    return write


def hashes(module):
    return {name: source_hash(getattr(module, name)) for name in ("kernel", "launcher", "heuristic")}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# doubles", "# makes twice as much of it"),
        ("@decorated(1, 2)", "@decorated(1, 2, 3)"),
        ("import functools", "import functools\n\n\n"),
        ("def unused(x):\n    return x", "def unused(x):\n    return -x"),
        ("return helper(x) * SCALE", "return (helper(x)\n            * SCALE)"),
    ],
)
def test_comments_layout_decorators_and_what_is_not_reached_are_no_part_of_it(written, old, new):
    assert old in BASE
    assert hashes(written(BASE)) == hashes(written(BASE.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new"), [("* SCALE", "- SCALE"), ("SCALE = 2", "SCALE = 3"), ("return x + 1", "return x + 2")]
)
def test_a_change_of_the_kernel_its_constants_or_what_it_calls_is_seen_from_everywhere(written, old, new):
    before, after = hashes(written(BASE)), hashes(written(BASE.replace(old, new)))
    assert all(before[name] != after[name] for name in before)


def test_heuristics_are_part_of_the_kernel_below_them(written):
    before, after = hashes(written(BASE)), hashes(written(BASE.replace("args: 4", "args: 8")))
    assert before["heuristic"] != after["heuristic"]
    assert before["kernel"] == after["kernel"]


def test_lambdas_of_one_line_are_told_apart(written):
    module = written(BASE)
    assert source_hash(module.doubled) != source_hash(module.tripled)
    again = written(BASE.replace("x * 3", "x * 4"))
    assert source_hash(module.doubled) == source_hash(again.doubled)


def test_partial_functions_methods_and_things_that_are_none_do_not_stop_it(written):
    module = written(BASE)
    assert source_hash(functools.partial(module.helper, 1)) != source_hash(functools.partial(module.helper, 2))
    module.heuristic.fn = module.heuristic  # wraps itself
    source_hash(module.heuristic)
    assert source_hash(None, "text", len) == source_hash(None, "text", len)
    assert source_hash("text") != source_hash("other")
