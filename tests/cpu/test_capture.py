"""Launches caught on a machine without a GPU: every kernel, as it was launched, with nothing left changed behind."""

from dataclasses import replace

import captured
import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

import tilewright as tw
from tilewright.errors import LauncherFailed, NoGpu, UsageError
from tilewright.hardware.targets import find
from tilewright.launch import capture as capturing
from tilewright.launch.capture import capture, config_values, every_config, only, pinned, record
from tilewright.launch.compile import lower
from tilewright.launch.driver import gpu_target
from tilewright.launch.launch import constexpr_names, describe_value, python_function
from tilewright.launch.warmup import plausible_needs
from tilewright.records import Config
from tilewright.spec.inputs import Inputs

H100 = find("h100")


def caught(call, target=H100, **options):
    launches = []
    with capture(launches.append, target, **options):
        call()
    return launches


def one(call, target=H100):
    (launch,) = caught(call, target)
    return launch


def kernel_state():
    """Everything that a capture replaces for its time."""
    return (JITFunction.run, InterpretedFunction.run, Autotuner.run, triton.runtime.driver._active)


@pytest.fixture(autouse=True)
def nothing_left_behind():
    """Whatever a test does, methods, driver, tuners and their caches are afterwards what they were."""
    tuners = [v for v in vars(captured).values() if isinstance(v, Autotuner)]
    configs = [list(tuner.configs) for tuner in tuners]
    before = kernel_state()
    yield
    assert kernel_state() == before
    assert [list(tuner.configs) for tuner in tuners] == configs
    assert all(tuner.cache == {} for tuner in tuners), "a capture is no tuning: the next real call tunes by its key"


# -------------------------------------------------------------------------------------------------- one launch


def test_a_launch_holds_all_arguments_by_name():
    x, y = torch.zeros(100), torch.zeros(100)
    launch = one(lambda: captured.add_kernel[(4,)](x, y, 100, amount=2.0, BLOCK=32, num_warps=2))
    assert launch.name == "add_kernel"
    assert launch.kernel is captured.add_kernel
    assert list(launch.arguments) == ["x_ptr", "y_ptr", "n", "amount", "BLOCK"]
    assert launch.arguments["x_ptr"] is x
    assert (launch.arguments["n"], launch.arguments["amount"]) == (100, 2.0)
    assert launch.constexprs == {"BLOCK": 32}
    assert launch.options == {"num_warps": 2}
    assert list(launch.tensors) == ["x_ptr", "y_ptr"]
    assert (launch.config, launch.tuning) == (None, None)


@pytest.mark.parametrize(
    ("grid", "sizes"),
    [
        ((4,), (4, 1, 1)),
        ((4, 2), (4, 2, 1)),
        ([4, 2, 3], (4, 2, 3)),
        ((torch.tensor(5), True), (5, 1, 1)),
        (lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]), meta["n"]), (4, 100, 1)),
        ((0,), (0, 1, 1)),
    ],
)
def test_grids_always_have_three_sizes(grid, sizes):
    x = torch.zeros(100)
    launch = one(lambda: captured.add_kernel[grid](x, x, 100, 0.0, BLOCK=32))
    assert launch.grid == sizes
    assert launch.programs == sizes[0] * sizes[1] * sizes[2]


@pytest.mark.parametrize("grid", [8, (), (1, 1, 1, 1), (2.5,), (100 / 32,), ("8",), (None,), (-1,), None])
def test_a_bad_grid_is_refused_with_the_kernels_name(grid):
    x = torch.zeros(100)
    with pytest.raises(LauncherFailed, match="^launch of add_kernel: the grid"):
        one(lambda: captured.add_kernel[grid](x, x, 100, 0.0, BLOCK=32))


@pytest.mark.parametrize(
    ("args", "keywords", "words"),
    [
        ((1, 2, 3), {}, "missing a required argument: 'amount'"),
        ((1, 2, 3, 4), {}, "missing a required argument: 'BLOCK'"),
        ((1, 2, 3, 4, 5, 6), {}, "too many positional arguments"),
        ((1, 2, 3, 4, 5), {"BLOCK": 5}, "multiple values for argument 'BLOCK'"),
        ((1, 2, 3, 4, 5), {"BLOCK_SIZE": 5}, "it has no parameter BLOCK_SIZE"),
        ((1, 2, 3, 4, 5), {"waves_per_eu": 5}, "it has no parameter waves_per_eu"),
    ],
)
def test_wrong_arguments_are_refused_as_triton_refuses_them(args, keywords, words):
    with pytest.raises(LauncherFailed, match=f"^launch of add_kernel: {words}"):
        one(lambda: captured.add_kernel[(1,)](*args, **keywords))


def test_a_launch_describes_itself_in_plain_words():
    x = torch.zeros(4, 25, dtype=torch.bfloat16)
    launch = one(lambda: captured.add_kernel[(4,)](x, x, 100, 0.5, BLOCK=32, num_warps=2))
    assert launch.describe() == {
        "kernel": "add_kernel",
        "grid": [4, 1, 1],
        "arguments": {"x_ptr": "bf16[4,25]", "y_ptr": "bf16[4,25]", "n": 100, "amount": 0.5, "BLOCK": 32},
        "options": {"num_warps": 2},
    }
    assert describe_value((1, 2)) == "(1, 2)"


def test_the_base_of_a_reinterpreted_tensor_is_its_tensor():
    x = torch.zeros(4, dtype=torch.int8)
    launch = one(lambda: captured.add_kernel[(1,)](triton.reinterpret(x, triton.language.float8e5), x, 4, 0.0, BLOCK=4))
    assert launch.tensors["x_ptr"] is x


def test_pre_run_hooks_of_a_kernel_are_called():
    seen = []
    captured.add_kernel.add_pre_run_hook(lambda *args, **keywords: seen.append((len(args), sorted(keywords))))
    try:
        x = torch.zeros(4)
        one(lambda: captured.add_kernel[(1,)](x, x, 4, 0.0, BLOCK=4, num_warps=1))
    finally:
        captured.add_kernel.pre_run_hooks.clear()
    assert seen == [(4, ["BLOCK", "num_warps"])]


def test_helpers_see_through_decorators():
    assert python_function(captured.heuristics_above).__name__ == "heuristics_above"
    assert constexpr_names(captured.heuristics_above) == ("BLOCK", "EVEN")


# --------------------------------------------------------------------------------------------- several launches


def test_a_later_launch_reads_what_an_earlier_one_wrote():
    seen = []

    def handler(launch):
        seen.append(launch.arguments["amount"])
        captured.execute(launch)

    with capture(handler, H100):
        result = captured.add_twice(torch.ones(3))
    assert result.tolist() == [8.0, 8.0, 8.0]
    assert seen == [1.0, 6.0]


def test_launches_of_nested_launchers_come_in_order():
    launches = caught(lambda: captured.add_to_list([torch.zeros(40), torch.zeros(70)]))
    assert [launch.grid[0] for launch in launches] == [2, 2, 3, 3]


def test_the_handlers_answer_is_the_launchs():
    x = torch.zeros(4)
    with capture(lambda launch: "answer", H100):
        assert captured.add_kernel[(1,)](x, x, 4, 0.0, BLOCK=4) == "answer"


def test_captures_nest_and_the_inner_one_takes_the_launch():
    outer, inner = [], []
    x = torch.zeros(4)
    with capture(outer.append, H100):
        with capture(inner.append, find("a100")):
            captured.add(x, 1.0)
            assert triton.runtime.driver.active.get_current_target().arch == 80
        captured.add(x, 1.0)
        assert triton.runtime.driver.active.get_current_target().arch == 90
    assert (len(outer), len(inner)) == (1, 1)


def test_record_keeps_launches_and_executes_nothing():
    operator = tw.Operator(name="add", run=captured.add, inputs=lambda n=40: (torch.zeros(n), 1.0))
    y = torch.zeros(40)
    (launch,) = record(operator, Inputs((torch.ones(40), 1.0, y), {}, ("x", "amount", "y")), H100)
    assert launch.grid == (2, 1, 1)
    assert y.tolist() == [0.0] * 40


# -------------------------------------------------------------------------------------------------- exceptions


@pytest.mark.parametrize("where", ["handler", "launcher", "grid", "tuned handler"])
def test_everything_is_put_back_after_an_exception(where):
    def handler(launch):
        raise RuntimeError("from the handler")

    def call():
        x = torch.zeros(100)
        if where == "launcher":
            raise RuntimeError("from the launcher")
        if where == "grid":
            captured.add_kernel[lambda meta: meta["no such"]](x, x, 4, 0.0, BLOCK=4)
        captured.add_tuned(x) if where == "tuned handler" else captured.add(x, 1.0)

    with pytest.raises((RuntimeError, KeyError)), capture(handler, H100, choose=every_config):
        call()


# ---------------------------------------------------------------------------------------------------- autotune


def test_the_first_configuration_is_launched_unless_more_are_wanted():
    (launch,) = caught(lambda: captured.add_tuned(torch.zeros(100)))
    assert (launch.constexprs, launch.options, launch.grid) == (
        {"BLOCK": 32},
        {"num_warps": 1, "num_ctas": 1, "num_stages": 3},
        (4, 1, 1),
    )
    assert launch.tuning.tuner is captured.tuned_kernel


def test_every_configuration_gives_one_launch():
    launches = caught(lambda: captured.add_tuned(torch.zeros(100)), choose=every_config)
    assert [launch.config for launch in launches] == [
        Config({"BLOCK": 32, "num_warps": 1, "num_stages": 3}),
        Config({"BLOCK": 64, "num_warps": 2, "num_stages": 4}),
        Config({"BLOCK": 128, "num_warps": 4, "num_stages": 3, "maxnreg": 64}),
    ]
    assert [launch.grid[0] for launch in launches] == [4, 2, 1], "the grid is asked for each"
    assert launches[2].options["maxnreg"] == 64


def test_one_configuration_by_its_values():
    wanted = Config({"num_warps": 2, "BLOCK": 64, "num_stages": 4})
    (launch,) = caught(lambda: captured.add_tuned(torch.zeros(100)), choose=only(wanted))
    assert launch.config == wanted
    (fallback,) = caught(lambda: captured.add_tuned(torch.zeros(100)), choose=only(Config({"BLOCK": 7})))
    assert fallback.constexprs == {"BLOCK": 32}


def test_values_of_a_configuration():
    assert config_values(triton.Config({"A": 1}, num_warps=8, num_ctas=2)) == {
        "A": 1,
        "num_warps": 8,
        "num_stages": 3,
        "num_ctas": 2,
    }


def test_pinned_launches_one_configuration_and_tunes_nothing():
    wanted = Config({"BLOCK": 64, "num_warps": 2, "num_stages": 4})
    launches = []
    with capture(launches.append, H100, choose=every_config), pinned(wanted):
        captured.add_tuned(torch.zeros(100))
        captured.add(torch.zeros(4), 1.0)
    assert [launch.config for launch in launches] == [wanted, None]


def test_pinned_leaves_alone_a_kernel_that_has_no_such_configuration():
    launches = []
    with capture(launches.append, H100, choose=every_config), pinned(Config({"BLOCK": 7})):
        captured.add_tuned(torch.zeros(100))
    assert len(launches) == 3


def test_an_operators_call_takes_its_configuration_either_way():
    x = torch.zeros(100)
    wanted = Config({"BLOCK": 64, "num_warps": 2, "num_stages": 4})
    tuned = tw.Operator(name="tuned", run=captured.add_tuned, inputs=lambda n=100: (torch.zeros(n),))
    launches = []
    with capture(launches.append, H100):
        capturing.call(tuned, Inputs((x,), {}, ("x",)), wanted)
        capturing.call(tuned, Inputs((x,), {}, ("x",)))
    assert [launch.config.values["BLOCK"] for launch in launches] == [64, 32]

    def own_space(x, *, BLOCK=32):
        captured.add_kernel[(1,)](x, x, 100, 0.0, BLOCK=BLOCK)

    declared = tw.Operator(
        name="own", run=own_space, space=tw.Space(BLOCK=[32, 64]), inputs=lambda n=100: (torch.zeros(n),)
    )
    with capture(launches.append, H100):
        capturing.call(declared, Inputs((x,), {}, ("x",)), Config({"BLOCK": 64}))
    assert launches[-1].constexprs == {"BLOCK": 64}


def test_early_pruning_sees_the_arguments_and_is_obeyed():
    captured.pruned_with.clear()
    x = torch.zeros(70)
    launches = caught(lambda: captured.pruned_kernel[(1,)](x, 70, EVEN=True), choose=every_config)
    assert [launch.constexprs["BLOCK"] for launch in launches] == [32, 64]
    ((named, keywords),) = captured.pruned_with
    assert named["x_ptr"] is x
    assert (named["n"], keywords["EVEN"], keywords["grid"]) == (70, True, (1,))


def test_pruning_that_leaves_nothing_is_refused():
    with pytest.raises(LauncherFailed, match="^launch of pruned_kernel: early_config_prune left no configuration"):
        caught(lambda: captured.pruned_kernel[(1,)](torch.zeros(3), 3, EVEN=True))


def test_one_configuration_is_not_pruned():
    captured.pruned_with.clear()
    launches = []
    with capture(launches.append, H100), pinned(Config({"BLOCK": 64, "num_warps": 2, "num_stages": 4})):
        captured.pruned_kernel[(1,)](torch.zeros(3), 3, EVEN=True)
    assert [launch.constexprs["BLOCK"] for launch in launches] == [64]
    assert captured.pruned_with == []


def test_hooks_of_configurations_run_before_their_launch_and_their_own_launches_are_no_part_of_the_tuning():
    counter, x = torch.ones(1), torch.zeros(4)
    seen = []

    def handler(launch):
        seen.append((launch.name, launch.config, float(counter)))
        counter.fill_(1)

    with capture(handler, H100, choose=every_config):
        captured.hooked_kernel[(1,)](x, counter)
    configs = [Config({"BLOCK": b, "num_warps": 4, "num_stages": 3}) for b in (32, 64)]
    assert seen == [
        ("add_kernel", None, 0.0),
        ("hooked_kernel", configs[0], 1.0),
        ("add_kernel", None, 0.0),
        ("hooked_kernel", configs[1], 1.0),
    ]


def test_several_configurations_all_start_from_the_same_memory():
    x, total = torch.ones(4), torch.full((1,), 100.0)
    met = []

    def handler(launch):
        met.append((x.tolist(), float(total)))
        captured.accumulate(launch)

    with capture(handler, H100, choose=every_config):
        captured.accumulating_kernel[(1,)](x, total, 4)
    assert met == [([1.0] * 4, 0.0), ([1.0] * 4, 0.0)]
    assert (x.tolist(), float(total)) == ([2.0] * 4, 4.0), "the last one's result stays"


def test_where_nothing_executes_nothing_is_reset():
    total = torch.full((1,), 100.0)

    def run(x, total):
        captured.accumulating_kernel[(1,)](x, total, 4)

    operator = tw.Operator(name="accumulate", run=run, inputs=lambda: (torch.ones(4), total))
    launches = record(operator, Inputs((torch.ones(4), total), {}, ("x", "total")), H100, choose=every_config)
    assert (len(launches), float(total)) == (2, 100.0)


def test_one_configuration_runs_without_the_tuners_hooks_as_it_does_once_tuned():
    x, total = torch.ones(4), torch.full((1,), 100.0)
    with capture(captured.accumulate, H100):
        captured.accumulating_kernel[(1,)](x, total, 4)
    assert float(total) == 104.0


@pytest.mark.parametrize(("kernel", "evens"), [("heuristics_below", [True, False]), ("heuristics_above", [True, True])])
def test_heuristics_are_worked_out_for_each_configuration(kernel, evens):
    launches = caught(lambda: getattr(captured, kernel)[(1,)](torch.zeros(96), 96), choose=every_config)
    assert [(launch.constexprs["BLOCK"], launch.constexprs["EVEN"]) for launch in launches] == list(
        zip((32, 64), evens, strict=True)
    )
    assert all(launch.name == kernel and isinstance(launch.kernel, JITFunction) for launch in launches)


# ------------------------------------------------------------------------------------------------------ warmup


def test_warmup_is_no_launch_and_what_the_kernel_needs_is_asked_by_its_launch():
    launches, asked = [], []

    def needs(launch):
        asked.append(launch)
        return replace(plausible_needs(launch), registers=77)

    with capture(launches.append, H100, needs=needs):
        kernel = captured.add_kernel.warmup(torch.float32, torch.bfloat16, 100, 1.0, BLOCK=32, grid=(1,), num_warps=8)
        assert asked == [], "nothing is compiled before a figure is wanted"
        assert (kernel.n_regs, kernel.metadata.num_warps) == (77, 8)
    assert launches == []
    (launch,) = asked
    assert (launch.arguments["y_ptr"].dtype, launch.constexprs, launch.options) == (
        torch.bfloat16,
        {"BLOCK": 32},
        {"num_warps": 8},
    )


def test_warmup_of_a_tuned_kernel_warms_every_configuration():
    asked = []
    with capture(print, H100, needs=lambda launch: asked.append(launch) or plausible_needs(launch)):
        kernels = captured.tuned_kernel.warmup(torch.float32, torch.float32, 100, 1.0, grid=(1,))
        assert all(kernel.n_regs for kernel in kernels)
    assert [launch.constexprs["BLOCK"] for launch in asked] == [32, 64, 128]


# ------------------------------------------------------------------------------- the chip that host code believes in


@pytest.mark.parametrize("name", ["a100", "h100", "b200", "mi300x"])
def test_host_code_that_asks_for_the_chip_gets_the_target(name):
    target = find(name)
    assert one(lambda: captured.persistent(torch.zeros(4)), target).programs == target.compute_units
    launch = one(lambda: captured.by_target(torch.zeros(4)), target)
    expected = {"waves_per_eu": 2} if name == "mi300x" else {"num_stages": 2 if name == "a100" else 3}
    assert (launch.options, launch.constexprs["BLOCK"]) == (expected, 64 if name == "mi300x" else 32)


def test_what_the_stand_in_driver_answers():
    with capture(print, H100):
        active = triton.runtime.driver.active
        assert active.get_current_target() == gpu_target(H100)
        assert active.get_active_torch_device() == torch.device("cpu")
        assert active.get_device_capability() == (9, 0)
        assert active.get_current_device() == active.get_current_stream(0) == 0
        properties = active.utils.get_device_properties(0)
        assert (properties["max_shared_mem"], properties["multiprocessor_count"], properties["warpSize"]) == (
            232448,
            132,
            32,
        )
        runs = []
        assert active.get_benchmarker()(lambda: runs.append(1), quantiles=(0.5, 0.2, 0.8)) == [1.0, 1.0, 1.0]
        assert runs == [1]
        with pytest.raises(NoGpu, match="NVIDIA H100"):
            active.utils.load_binary("kernel", b"", 0, 0)
        with pytest.raises(NoGpu, match="NVIDIA H100"):
            active.launcher_cls(None, None)


# --------------------------------------------------------------------------------------------------- lowering


def ttir(call):
    return lower(one(call), H100).ttir


def test_specialisation_is_tritons_own_and_do_not_specialize_is_honoured():
    x = torch.zeros(64)
    plain = ttir(lambda: captured.unspecialised_kernel[(1,)](x, 64, 16, BLOCK=32))
    signature = next(line for line in plain.splitlines() if "tt.func" in line)
    n, m = signature.index("%n"), signature.index("%m")
    assert "tt.divisibility" in signature[:n], "the pointer is aligned"
    assert "tt.divisibility" not in signature[n:m]
    assert "tt.divisibility = 16" in signature[m:]
    ones = ttir(lambda: captured.unspecialised_kernel[(1,)](x, 1, 1, BLOCK=32))
    signature = next(line for line in ones.splitlines() if "tt.func" in line)
    assert "%n" in signature
    assert "%m" not in signature, "a 1 becomes part of the code"


def test_a_misaligned_pointer_is_not_called_aligned():
    x = torch.zeros(65)[1:]
    aligned, misaligned = (
        ttir(lambda t=t: captured.unspecialised_kernel[(1,)](t, 64, 3, BLOCK=32)) for t in (torch.zeros(64), x)
    )
    assert ("tt.divisibility" in aligned, "tt.divisibility" in misaligned) == (True, False)


def test_lowering_does_not_ask_for_memory_or_a_driver():
    x = torch.zeros(64)
    launch = one(lambda: captured.add_kernel[(2,)](x, x, 64, 1.0, BLOCK=32, num_warps=2))
    lowered = lower(launch, find("mi300x"))
    assert lowered.kernel == "add_kernel"
    assert lowered.target == ("hip", "gfx942", 64)
    assert lowered.options == {"num_warps": 2}
    assert "tt.load" in lowered.ttir
    assert lowered.key == lower(launch, find("mi300x")).key
    assert len({lowered.key, lower(launch, H100).key, lower(launch, find("a100")).key}) == 3


def test_an_interpreted_kernel_cannot_be_lowered():
    launch = one(lambda: captured.add(torch.zeros(4), 1.0))
    interpreted = InterpretedFunction(captured.add_kernel.fn)
    with pytest.raises(UsageError, match="made under TRITON_INTERPRET=1"):
        lower(type(launch)(interpreted, launch.arguments, launch.grid, launch.options), H100)


def test_interpreted_kernels_are_caught_too():
    kernel = InterpretedFunction(captured.add_kernel.fn)
    x = torch.zeros(4)
    launch = one(lambda: kernel[(3,)](x, x, 4, 0.0, BLOCK=4))
    assert (launch.kernel, launch.grid, launch.name) == (kernel, (3, 1, 1), "add_kernel")
