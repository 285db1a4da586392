"""Launches compiled for chips that are not there: what they need of the chip, and what becomes of those that fail."""

from pathlib import Path

import captured
import pytest
import rejected
import torch

from tilewright.errors import ChildFailed, KernelCompileError
from tilewright.hardware.targets import find
from tilewright.launch import compile as compiling
from tilewright.launch.capture import capture
from tilewright.launch.compile import compile_many, compile_one, lower
from tilewright.process import Limits, run_many
from tilewright.spec.load import import_file

TARGETS = ["sm_80", "sm_90", "sm_100", "sm_120", "gfx942"]
KERNELS = ["add", "product", "sum"]
HALVES = torch.zeros(64 * 64, dtype=torch.float16)
FLOATS = torch.zeros(1024)


def launch_of(call):
    launches = []
    with capture(launches.append, find("h100")):
        call()
    return launches[0]


LAUNCHES = {
    "add": launch_of(lambda: captured.add(FLOATS, 1.0)),
    "product": launch_of(
        lambda: captured.product_kernel[(1,)](HALVES, HALVES, HALVES, 128, M=32, N=32, STEP=32, num_warps=2)
    ),
    "sum": launch_of(lambda: captured.sum_kernel[(1,)](FLOATS, FLOATS, N=1024, num_warps=8)),
}
SPILLING = launch_of(
    lambda: captured.product_kernel[(1,)](
        HALVES, HALVES, HALVES, 128, M=32, N=64, STEP=16, num_warps=1, num_stages=1, maxnreg=32
    )
)


class Memory(dict):
    """A cache."""

    def put(self, key, value):
        self[key] = value


def lowered(kernel, target="sm_90"):
    return lower(LAUNCHES[kernel], find(target))


@pytest.fixture(scope="module")
def compiled():
    """Every kernel for every target: (shared memory alone, everything)."""
    names = [(kernel, target) for target in TARGETS for kernel in KERNELS]
    jobs = [lowered(kernel, target) for kernel, target in names]
    shared = dict(compile_many(jobs, workers=2, shared_only=True))
    full = dict(compile_many(jobs, workers=2, keep=("ttgir", "ptx", "cubin", "amdgcn", "hsaco")))
    return {name: (shared[index], full[index]) for index, name in enumerate(names)}


@pytest.fixture
def children(monkeypatch):
    """The jobs that went to child processes, as lists of arguments."""
    sent = []

    def counted(task, arguments, **options):
        sent.append(list(arguments))
        return run_many(task, sent[-1], **options)

    monkeypatch.setattr(compiling, "run_many", counted)
    return sent


# ---------------------------------------------------------------------------------------------------- resources


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_shared_memory_is_known_exactly_before_the_rest_is_compiled(compiled, kernel, target):
    shared, full = compiled[kernel, target]
    assert shared.resources.shared == full.resources.shared
    assert (shared.resources.registers, shared.resources.stack, shared.resources.spill_stores) == (None, None, None)
    assert shared.texts == {}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_registers_stack_and_spills_are_read_off_the_binary(compiled, kernel, target):
    resources = compiled[kernel, target][1].resources
    assert 4 <= resources.registers <= 128
    assert (resources.stack, resources.spill_stores, resources.spill_loads) == (0, 0, 0)
    assert resources.compile_seconds > 0


def test_known_amounts(compiled):
    resources = {name: full.resources for name, (_, full) in compiled.items()}
    assert [resources["add", target].shared for target in TARGETS] == [0] * 5
    # A sum leaves one float32 for each warp.
    assert [resources["sum", target].shared for target in TARGETS] == [8 * 4] * 5
    # Two operands of 32 x 32 halves, in three stages on sm_80, where copies run ahead.
    assert resources["product", "sm_80"].shared in (2 * 32 * 32 * 2 * 2, 2 * 32 * 32 * 2 * 3)
    assert [resources["product", target].warps for target in TARGETS] == [2] * 5
    assert [resources["sum", target].warps for target in TARGETS] == [8] * 5


def test_binaries_and_texts_are_those_of_the_target(compiled):
    for target, word in [("sm_80", "sm_80"), ("sm_90", "sm_90"), ("sm_100", "sm_100"), ("sm_120", "sm_120")]:
        texts = compiled["product", target][1].texts
        assert sorted(texts) == ["cubin", "ptx", "ttgir"]
        assert f".target {word}" in texts["ptx"]
        assert texts["cubin"][:4] == b"\x7fELF"
        assert f'"cuda:{word[3:]}"' in texts["ttgir"]
    texts = compiled["product", "gfx942"][1].texts
    assert sorted(texts) == ["amdgcn", "hsaco", "ttgir"]
    assert 'gfx942"' in texts["amdgcn"].splitlines()[0]
    assert texts["hsaco"][:4] == b"\x7fELF"


def test_a_configuration_that_spills_says_how_much():
    resources = compile_one(lower(SPILLING, find("sm_80"))).resources
    assert resources.registers == 32
    assert resources.spill_stores > 100
    assert resources.spill_loads > 100
    assert resources.stack >= resources.spill_stores / 4
    assert resources.warps == 1


# -------------------------------------------------------------------------------------------------------- cache


def test_what_is_cached_makes_no_child(children, monkeypatch):
    cache = Memory()
    job = lowered("add")
    first = compile_one(job, cache=cache)
    assert len(children) == 1
    monkeypatch.setattr(
        compiling, "run_many", lambda *arguments, **options: pytest.fail("a child") if arguments[1] else ()
    )
    again = compile_one(lowered("add"), cache=cache)
    assert again.resources == first.resources
    assert again.lowered == job


def test_shared_memory_alone_is_no_answer_for_the_rest(children):
    cache = Memory()
    list(compile_many([lowered("add")], workers=1, shared_only=True, cache=cache))
    ((_, full),) = compile_many([lowered("add")], workers=1, cache=cache)
    assert full.resources.registers > 0
    assert len(cache) == len(children) == 2


def test_texts_that_are_wanted_are_compiled_again(children):
    cache = Memory()
    compile_one(lowered("add"), cache=cache)
    assert "ptx" in compile_one(lowered("add"), cache=cache, keep=("ptx",)).texts
    assert len(children) == 2


def test_twins_are_compiled_once(children):
    jobs = [lowered("add"), lowered("sum"), lowered("add"), lowered("add", "sm_80")]
    answers = dict(compile_many(jobs, workers=2))
    assert [len(arguments) for arguments in children] == [3]
    assert answers[0].resources == answers[2].resources
    assert [answers[index].lowered for index in range(4)] == jobs


def test_the_key_is_of_text_chip_and_options(compiled):
    one = lowered("add")
    keys = {one.key, lowered("add", "sm_80").key, lowered("sum").key}
    keys.add(compiling.Lowered(one.kernel, one.ttir, one.target, {"num_warps": 8}).key)
    assert len(keys) == 4
    assert compiling.Lowered("another name", one.ttir, one.target, dict(one.options)).key == one.key
    assert compiling.Lowered("k", one.ttir, one.target, {"extern_libs": object}).key, "whatever an option is"


def test_a_kernel_that_moved_in_its_file_or_to_another_is_the_same(tmp_path):
    keys = set()
    for number, name in enumerate(["moved", "moved (copy)"]):
        path = tmp_path / f"{name}.py"
        path.write_text("# a line more\n" * number + Path(captured.__file__).read_text())
        module = import_file(path)
        launch = launch_of(lambda module=module: module.add(FLOATS, 1.0))
        job = lower(launch, find("h100"))
        assert f"{path}" in job.ttir
        keys.add(job.key)
    assert keys == {lowered("add").key}
    other = launch_of(lambda: captured.add_kernel[(1,)](FLOATS, FLOATS, 1024, 1.0, BLOCK=64))
    assert lower(other, find("h100")).key not in keys


# ------------------------------------------------------------------------------------------------------- failures

SOURCE = Path(rejected.__file__).read_text().splitlines()


def line_of(mark):
    return next(number for number, line in enumerate(SOURCE, 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize(
    ("kernel", "mark", "words"),
    [
        ("unknown_name_kernel", "unknown name", "no_such_name is not defined"),
        ("shapes_kernel", "shapes that do not fit", "incompatible dimensions at index 1: 4 and 8"),
        ("caller_kernel", "not a power of two", "power of 2"),
        ("library_kernel", "no such axis", "invalid axis 5"),
        ("asserting_kernel", "static assertion", "N is too small"),
    ],
)
def test_a_kernel_that_triton_rejects_is_named_with_its_line(kernel, mark, words):
    launch = launch_of(lambda: getattr(rejected, kernel)[(1,)](FLOATS, N=64))
    with pytest.raises(KernelCompileError) as caught:
        lower(launch, find("h100"))
    assert caught.value.what.startswith(f"{rejected.__file__}:{line_of(mark)}: {kernel} does not compile: ")
    assert words in caught.value.what
    assert "\n" not in caught.value.what


@pytest.mark.parametrize(
    ("arguments", "options", "words"),
    [
        (([1, 2], FLOATS, 4, 1.0), {}, "list"),
        ((FLOATS, FLOATS, 4, "text"), {}, ""),
        ((FLOATS, FLOATS, 4, 1.0), {"num_warps": 3}, "num_warps"),
    ],
)
def test_arguments_and_options_that_triton_rejects_name_the_kernel(arguments, options, words):
    launch = launch_of(lambda: captured.add_kernel[(1,)](*arguments, BLOCK=32, **options))
    with pytest.raises(KernelCompileError, match=rf"captured.py:\d+: add_kernel does not compile: .*{words}"):
        lower(launch, find("h100"))


def bad_assembler_option(kernel):
    good = lowered(kernel)
    return compiling.Lowered(good.kernel, good.ttir, good.target, {**good.options, "ptx_options": "--no-such-option"})


def test_a_pass_that_fails_is_named_with_the_kernel_and_the_failure_is_cached(children):
    cache = Memory()
    for _ in range(2):
        with pytest.raises(KernelCompileError, match="^add_kernel: cubin: PTXASError: ") as caught:
            compile_one(bad_assembler_option("add"), cache=cache)
    assert "\n" not in caught.value.what
    assert [len(arguments) for arguments in children] == [1]


def test_a_compiler_that_aborts_costs_its_job_only(monkeypatch):
    monkeypatch.setattr(compiling, "_TASK", "compile_tasks:abort_for_sums")
    cache = Memory()
    answers = dict(compile_many([lowered("sum"), lowered("add"), lowered("sum")], workers=1, cache=cache))
    assert answers[1].resources.registers > 0
    for index in (0, 2):
        assert isinstance(answers[index], ChildFailed)
        assert answers[index].what == "compiling sum_kernel: the process died of SIGABRT"
        assert answers[index].reason == "crashed"
    assert len(cache) == 1, "an accident is no property of the kernel"
    with pytest.raises(ChildFailed, match="SIGABRT"):
        compile_one(lowered("sum"))


def test_a_compiler_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr(compiling, "_TASK", "compile_tasks:hang")
    with pytest.raises(ChildFailed, match=r"^compiling add_kernel: no answer within 0\.5 s$") as caught:
        compile_one(lowered("add"), limits=Limits(seconds=0.5))
    assert caught.value.reason == "timeout"


def test_compile_workers_load_neither_torch_nor_the_users_code(monkeypatch):
    monkeypatch.setattr(compiling, "_TASK", "compile_tasks:with_modules")
    assert compile_one(lowered("add")).texts == {"torch": False, "numpy": False, "captured": False}
