"""From what a user types to Operators, and the way back that a child process takes."""

import inspect
import pickle
import subprocess
import sys
import textwrap

import pytest
import torch

import tilewright as tw
from tilewright.errors import (
    FileMissing,
    ImportFailed,
    NoOperator,
    NotImportable,
    TilewrightError,
    TritonMissing,
    UsageError,
)
from tilewright.process import run
from tilewright.records import Case
from tilewright.spec.load import Address, KernelCall, address, import_file, library_names, load, resolve

OPERATORS = """
import tilewright as tw
from jaxtyping import Float
from torch import Tensor

SIZE = 7

@tw.operator(reference=lambda x: x + 1)
def one(x: Float[Tensor, "M"]):
    return x + 1

@tw.operator(reference=lambda x: x + 2)
def two(x: Float[Tensor, "M"]):
    return x + 2

alias = two
"""
KERNEL = """
import torch
import triton
import triton.language as tl

SIZE = 100

@triton.jit
def double(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n) * 2, mask=offsets < n)

@triton.autotune([triton.Config({"BLOCK": 32})], key=["n"])
@triton.jit
def tuned(x_ptr, n, BLOCK: tl.constexpr):
    pass
"""


@pytest.fixture(autouse=True)
def imports(monkeypatch):
    """What a test imports is forgotten after it."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = dict(sys.modules)
    yield
    for name in set(sys.modules) - set(before):
        if not name.startswith(("torch", "triton", "numpy")):
            del sys.modules[name]


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        return path

    return write


def names(operators):
    return [operator.name for operator in operators]


# ---------------------------------------------------------------------------------------------- what is typed


def test_a_file_holds_its_operators_in_order_and_each_once(write):
    path = write("several.py", OPERATORS)
    for target in ("several.py", "./several.py", str(path)):
        assert names(load(target)) == ["one", "two"]
    assert [operator.origin for operator in load("several.py")] == [f"{path}:one", f"{path}:two"]


def test_a_name_picks_one(write):
    write("picked.py", OPERATORS)
    assert names(load("picked.py:two")) == ["two"]
    assert names(load("picked.py:alias")) == ["two"]


def test_a_module_below_the_working_directory(write):
    write("mypackage/__init__.py", "")
    write("mypackage/ops.py", OPERATORS)
    assert names(load("mypackage.ops:one")) == ["one"]


def test_a_module_whose_name_has_py_in_it_is_no_file(write):
    write("my.pyramid/unused", "")
    write("pack/__init__.py", "")
    write("pack/pyramid.py", OPERATORS)
    assert names(load("pack.pyramid:one")) == ["one"]


@pytest.mark.parametrize("name", ["matmul", "masked_softmax", "attention"])
def test_a_library_operator(name):
    assert name in library_names()
    assert names(load(name)) == [name]


def test_a_file_in_a_package_has_its_relative_imports_and_is_imported_once(write):
    write("outer/__init__.py", "from outer.inner.ops import one  # imports the file by its dotted name")
    write("outer/inner/__init__.py", "")
    write("outer/inner/sizes.py", "SIZE = 7")
    path = write("outer/inner/ops.py", OPERATORS + "\nfrom . import sizes\nfrom .sizes import SIZE as S\nassert S == 7")
    module = import_file(path)
    assert module.__name__ == "outer.inner.ops"
    assert module is sys.modules["outer.inner.ops"]
    assert module.one is sys.modules["outer"].one


def test_a_packages_init_file(write):
    write("initial/part.py", "SIZE = 3")
    path = write("initial/__init__.py", OPERATORS + "\nfrom .part import SIZE as S\nassert S == 3")
    assert names(load(str(path))) == ["one", "two"]
    assert import_file(path).__name__ == "initial"


def test_another_package_of_the_same_name_is_said(write):
    write("a/twin/__init__.py", "")
    write("b/twin/__init__.py", "")
    import_file(write("a/twin/ops.py", OPERATORS))
    with pytest.raises(ImportFailed, match=r"b/twin/ops.py is twin.ops, but .*a/twin/ops.py has that name already"):
        import_file(write("b/twin/ops.py", OPERATORS))


def test_a_file_sees_its_own_folder(write, tmp_path, monkeypatch):
    write("folder/helper_of_mine.py", "SIZE = 9")
    write("folder/user.py", OPERATORS + "\nfrom helper_of_mine import SIZE\nassert SIZE == 9")
    monkeypatch.chdir(tmp_path.parent)
    assert names(load(str(tmp_path / "folder" / "user.py"))) == ["one", "two"]


@pytest.mark.parametrize("name", ["types.py", "torch.py", "several.py"])
def test_a_file_named_like_another_module_stands_beside_it(write, name):
    write("first/several.py", OPERATORS)
    load("first/several.py")
    before = sys.modules[name.removesuffix(".py")]
    path = write(f"second/{name}", OPERATORS)
    assert names(load(str(path))) == ["one", "two"]
    assert sys.modules[name.removesuffix(".py")] is before


def test_operators_imported_from_elsewhere_are_not_the_files_own(write):
    write("library_of_mine.py", OPERATORS)
    write(
        "mine.py",
        """
        import tilewright as tw
        import library_of_mine
        from library_of_mine import Float, Tensor, one, two

        @tw.operator()
        def three(x: Float[Tensor, "M"]):
            return x

        four = tw.Operator(name="four", run=library_of_mine.one.run, inputs=lambda n=3: (n,))
        """,
    )
    assert names(load("mine.py")) == ["three", "four"], "declared here, though the launcher of one is not"
    assert names(load("mine.py:two")) == ["two"]


def test_a_file_that_only_imports_operators_offers_those(write):
    write("library_of_mine.py", OPERATORS)
    write("only.py", "from library_of_mine import two")
    assert names(load("only.py")) == ["two"]


# ------------------------------------------------------------------------------------------------- what goes wrong


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        ("nothing.py", FileMissing, "no such file: nothing.py"),
        ("nothing.py:one", FileMissing, "no such file: nothing.py"),
        ("nothing", FileMissing, "'nothing' is no Python file, no package.module:name and no library operator"),
        ("no_such_module:one", FileMissing, "no module named 'no_such_module'"),
        ("torch.no_such_part:one", FileMissing, "no module named 'torch.no_such_part'"),
        ("here.py:three", NoOperator, "no operator named 'three' in here.py"),
        ("here.py:SIZE", NoOperator, "no operator named 'SIZE' in here.py"),
        ("empty.py", NoOperator, "no operator in empty.py"),
    ],
)
def test_what_is_not_there_is_said(write, target, kind, words):
    write("here.py", OPERATORS)
    write("empty.py", "")
    with pytest.raises(kind) as caught:
        load(target)
    assert caught.value.what == words
    assert caught.value.remedy or kind is FileMissing


def test_names_that_there_are_come_as_the_remedy(write):
    write("offered.py", OPERATORS)
    with pytest.raises(NoOperator) as caught:
        load("offered.py:three")
    assert caught.value.remedy == "it has: one, two, alias"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\n1 / 0\n", "raiser.py:2: ZeroDivisionError: division by zero"),
        ("def f():\n    raise ValueError('no')\n\nf()\n", "raiser.py:2: ValueError: no"),
        ("import json\njson.loads('{')\n", "raiser.py:2: JSONDecodeError"),
        ("x = 1\ny = (\n", "raiser.py:2: '(' was never closed"),
        ("import no_such_library\n", "raiser.py:1: ModuleNotFoundError: No module named 'no_such_library'"),
        ("\nimport sys\nsys.exit(3)\n", "raiser.py:3: SystemExit: 3"),
        ("import unparsable_part\n", "unparsable_part.py:3: invalid syntax"),
        ("import raising_part\n", "raiser.py:1: ValueError: in the part"),
        ("compile('x =', '<text>', 'exec')\n", "raiser.py:1: SyntaxError: invalid syntax"),
    ],
)
@pytest.mark.parametrize("where", ["file", "package", "module"])
def test_a_file_that_raises_is_named_with_its_line(write, text, words, where):
    folder = "" if where == "file" else "raisers/"
    if folder:
        write("raisers/__init__.py", "")
    write("unparsable_part.py", "\n\nx = = 1\n")
    write("raising_part.py", "\n\nraise ValueError('in the part')\n")
    write(f"{folder}raiser.py", text)
    sys.path.insert(0, ".")
    with pytest.raises(ImportFailed) as caught:
        load("raisers.raiser:one" if where == "module" else f"{folder}raiser.py")
    assert caught.value.what.removeprefix("raisers/").startswith(words)
    assert not [name for name in sys.modules if name.endswith("raiser")], "a second try imports it again"


def test_errors_of_ours_in_a_file_pass_as_they_are(write):
    write("declares_badly.py", OPERATORS + "\n@tw.operator()\ndef bad(x: Tensor):\n    pass\n")
    with pytest.raises(TilewrightError, match=r"^bad\(x\): annotation Tensor does not say the dims"):
        load("declares_badly.py")


@pytest.mark.parametrize("how", ["file", "library"])
def test_without_triton_one_line_says_what_to_install(write, monkeypatch, how):
    write("needs_triton.py", "import triton\n")
    for name in [name for name in sys.modules if name.split(".")[0] == "triton" or "tilewright.kernels" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(TritonMissing, match="Triton is not installed; pip install") as caught:
        load("needs_triton.py" if how == "file" else "matmul")
    assert caught.value.exit_code == 3


# ------------------------------------------------------------------------------------------------- bare kernels


def test_a_bare_kernel_with_example_arguments(write):
    write("kernels_of_mine.py", KERNEL)
    call = KernelCall("torch.randn(SIZE), torch.empty(SIZE), n=SIZE, BLOCK=32", "(triton.cdiv(SIZE, 32),)")
    (operator,) = load("kernels_of_mine.py:double", call)
    assert (operator.name, operator.grid, operator.is_bare_kernel, operator.reference) == ("double", (4,), True, None)
    inputs = operator.make_inputs(Case("double", {}))
    assert list(inputs.kwargs) == ["x_ptr", "y_ptr", "n", "BLOCK"]
    assert inputs.kwargs["x_ptr"].shape == (100,)
    again, other = (operator.make_inputs(Case("double", {}, seed=seed)).kwargs["x_ptr"] for seed in (0, 1))
    assert torch.equal(inputs.kwargs["x_ptr"], again)
    assert not torch.equal(again, other)


def test_a_grid_may_be_a_function(write):
    write("kernels_with_grid.py", KERNEL)
    call = KernelCall("torch.randn(9), torch.empty(9), 9, 4", "lambda meta: (triton.cdiv(meta['n'], meta['BLOCK']),)")
    (operator,) = load("kernels_with_grid.py:double", call)
    assert operator.grid({"n": 9, "BLOCK": 4}) == (3,)


@pytest.mark.parametrize(
    ("arguments", "grid", "words"),
    [
        ("torch.randn(N)", "(1,)", r"--args 'torch.randn\(N\)': NameError"),
        ("torch.randn(3", "(1,)", "--args .* SyntaxError"),
        ("1, 2, 3, 4, 5", "(1,)", "--args gives 5 arguments, double takes x_ptr, y_ptr, n, BLOCK"),
        ("1", "(N,)", r"--grid '\(N,\)': NameError"),
        ("1, 2, 3", "(1,)", "--args gives no BLOCK, which double needs"),
        ("1, 2, 3, BLOK=4", "(1,)", "--args gives BLOK, double takes x_ptr, y_ptr, n, BLOCK"),
        ("1, 2, 3, 4", "2.5", "--grid '2.5' is no grid"),
        ("1, 2, 3, 4", "(1, 2, 3, 4)", r"--grid '\(1, 2, 3, 4\)' is no grid"),
        ("1, 2, 3, 4", "(-1,)", r"--grid '\(-1,\)' is no grid"),
    ],
)
def test_bad_example_arguments_are_refused(write, arguments, grid, words):
    write("kernels_refused.py", KERNEL)
    with pytest.raises(UsageError, match=words) as caught:
        load("kernels_refused.py:double", KernelCall(arguments, grid))
    assert caught.value.exit_code == 2


def test_launch_options_and_what_an_autotuner_gives_are_fine_example_arguments(write):
    write("kernels_with_options.py", KERNEL)
    assert load("kernels_with_options.py:double", KernelCall("1, 2, 3, 4, num_warps=2", "(1,)"))
    assert load("kernels_with_options.py:tuned", KernelCall("1, 2, 3", "(1,)"))


@pytest.mark.parametrize("target", ["declared_alone.py", "declared_alone.py:one"])
def test_example_arguments_of_a_declared_operator_are_refused(write, target):
    write("declared_alone.py", OPERATORS)
    with pytest.raises(UsageError, match="is a declared operator: it makes its own arguments"):
        load(target, KernelCall("1", "(1,)"))


def test_a_bare_kernel_without_arguments_is_told_how(write):
    write("kernels_alone.py", KERNEL)
    with pytest.raises(UsageError, match="is a bare kernel: give example arguments and a grid") as caught:
        load("kernels_alone.py:tuned")
    assert "--args" in caught.value.remedy
    with pytest.raises(NoOperator) as none:
        load("kernels_alone.py")
    assert "give --args and --grid for a kernel: kernels_alone.py:double" in none.value.remedy


# ---------------------------------------------------------------------------------------- the way to a child process


def there_and_back(operator, call=None):
    """The operator that another process would get; the address travels as bytes."""
    return resolve(pickle.loads(pickle.dumps(address(operator, call))))


def test_an_operator_is_found_again_by_its_file_and_name(write):
    path = write("found_again.py", OPERATORS)
    operator = load("found_again.py:two")[0]
    assert address(operator) == Address(f"{path}:two")
    assert there_and_back(operator) is operator


def test_a_bare_kernel_is_found_again_with_its_arguments(write):
    write("kernel_again.py", KERNEL)
    call = KernelCall("torch.randn(9), torch.empty(9), 9, BLOCK=4", "(3,)")
    again = there_and_back(load("kernel_again.py:double", call)[0], call)
    assert (again.name, again.grid) == ("double", (3,))
    assert again.make_inputs(Case("double", {})).kwargs["n"] == 9


def test_an_operator_that_nobody_loaded_is_found_where_it_stands(write):
    path = write("standing.py", OPERATORS)
    operator = import_file(path).one
    assert operator.origin == ""
    assert address(operator).origin == f"{path}:one"


PARTS = """
import operator as standard
import torch
import tilewright as tw

def launcher(x, *, BLOCK=16):
    return x * 2

def inputs(n=5, seed=0):
    return (torch.full((n,), float(seed)),)

def reference(x):
    return x * 2

def flops(n):
    return n

def fits(BLOCK):
    return BLOCK < 64

def make():
    return tw.Operator(
        name="made", run=launcher, reference=reference, inputs=inputs, flops=flops, dtypes=("bf16",),
        space=tw.Space(BLOCK=[16, 32, 64], where=fits), baselines={"eager": reference, "torch": torch.neg},
        values={"x": tw.values.uniform(1.0, 2.0), "n": tw.values.choice(1, 2)}, mutates=("x",),
        shapes={"big": {"n": 9}},
        suppress=(tw.Suppression("mismatch", "known"),),
    )

def make_unreachable(**changes):
    inner = lambda x: x
    return tw.Operator(**{"name": "made", "run": launcher, "inputs": inputs, **{n: inner for n in changes}})
"""


def test_an_operator_made_inside_a_function_travels_in_parts(write):
    module = import_file(write("parts_of_mine.py", PARTS))
    operator = module.make()
    there = address(operator)
    assert there.origin == ""
    again = there_and_back(operator)
    assert again is not operator
    for name in set(inspect.signature(tw.Operator).parameters) - {"space"}:
        assert getattr(again, name) == getattr(operator, name), name
    assert list(again.space) == list(operator.space)
    assert again.run is module.launcher


@pytest.mark.parametrize("field", ["run", "reference", "inputs", "flops", "grid"])
def test_parts_that_no_other_process_can_import_are_named(write, field):
    module = import_file(write("unreachable.py", PARTS))
    with pytest.raises(NotImportable, match=f"made: {field}= is not reachable by name") as caught:
        address(module.make_unreachable(**{field: None}))
    assert "top level" in caught.value.remedy


def test_another_process_really_gets_the_operator(write):
    module = import_file(write("travels.py", PARTS))
    task = {"where": address(module.make()), "case": Case("made", {"n": 3}, seed=4)}
    assert run("load_tasks:call_it", task) == [8.0, 8.0, 8.0]


def test_a_script_finds_its_own_operators(write):
    script = OPERATORS + "\nfrom tilewright.spec.load import address\nprint(address(one).origin)\n"
    path = write("script.py", script)
    env = {"PYTHONPATH": ":".join(sys.path)}
    out = subprocess.run([sys.executable, path], capture_output=True, text=True, check=True, env=env).stdout
    assert out.strip() == f"{path}:one"
