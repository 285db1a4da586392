"""Launchers cut out of their modules."""

import functools

import kept
import pytest
from parts import ops
from test_cases import FILES, case

from tilewright.debug.repro.slicing import Slicer
from tilewright.errors import UsageError
from tilewright.spec.load import load


def cut(run):
    slicer = Slicer()
    expression = slicer.expression(run)
    sliced = slicer.sliced()
    return expression, "\n".join([*sliced.imports, sliced.code])


def test_neighbours_are_taken_in_and_declarations_left_out():
    expression, text = cut(ops.both.run)
    assert expression == "both"
    assert "tilewright" not in text
    assert "jaxtyping" not in text
    assert "the_kernel = tuned_kernel" in text, "an alias"
    assert "CONFIGS.append(" in text, "what changes a constant"
    assert "SCALE: tl.constexpr = tl.constexpr(2.0)" in text, "what a kernel's function needs"
    assert 'def check(x, *, name: str = "x"):' in text, "an annotation of shapes goes, another stays"
    assert "# a comment that stays" in text
    assert "square_kernel" not in text, "nothing that is not needed"
    assert text.index("def twice") < text.index("def tuned_kernel") < text.index("the_kernel =")
    compile(text, "cut", "exec")


def test_members_of_modules_lazy_imports_and_classes_are_followed():
    expression, text = cut(ops.Square.apply)
    assert expression == "Square.apply"
    assert "K." not in text
    assert "again = square_kernel" in text
    assert "from ." not in text


def test_lambdas_partials_and_library_kernels():
    assert cut(ops.made_inside.inputs)[0].startswith("(lambda n=3: ")
    expression, text = cut(functools.partial(ops.check, name="z"))
    assert expression == "functools.partial(check, name='z')"
    assert "import functools" in text
    expression, text = cut(load("attention")[0].run)
    assert "def attention_kernel(" in text
    assert "tilewright" not in text


def test_in_place_of_our_tuner_stands_tritons():
    _, text = cut(kept.unmasked.run)
    assert '    [triton.Config({"BLOCK": 32}), triton.Config({"BLOCK": 64})],\n    key=["n"],\n)' in text
    assert "@triton.autotune(" in text
    _, text = cut(kept.copied.run)
    assert 'tuned_copy = triton.autotune(configs(), key=["n"])(copy_kernel)' in text
    assert "tilewright" not in text


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (ops.made_inside.run, "made inside a function"),
        (ops.looks_up, "uses the module parts.kernels as a value"),
        (ops.asks_tilewright, "tw of tilewright is used at run time"),
        (ops.needs_another_check, "check stands for"),
    ],
)
def test_what_cannot_be_cut_out_is_said_in_one_line(run, words):
    with pytest.raises(UsageError) as refused:
        cut(run)
    assert words in refused.value.what
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_whole_cases_keep_their_kernel_to_the_letter(path):
    _, text = cut(case(path).run)
    source = path.read_text()
    start = source.index("@triton.jit")
    assert source[start : source.index("\n\n\n", start)] in text
    assert "reference" not in text
