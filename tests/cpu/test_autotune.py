"""@tw.autotune beside @triton.autotune: the same launches on a miss; what was tuned once is looked up from then on."""

import threading

import kept
import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

import tilewright as tw
from tilewright.errors import NotTuned, UsageError
from tilewright.hardware.targets import find
from tilewright.launch.driver import standing_in
from tilewright.launch.host import inputs_of
from tilewright.records import Case, Choice, Config
from tilewright.runtime import tuned
from tilewright.runtime.table import Table, active_table
from tilewright.tune import candidates
from tilewright.tune.keep import keep

H100 = find("h100")


@pytest.fixture(autouse=True)
def table_path(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    active_table.cache_clear()
    yield tmp_path / "choices.json"
    active_table.cache_clear()


@pytest.fixture
def launched(monkeypatch):
    """Launches that reach the kernel, by name; none is executed."""
    seen = []

    def run(self, *args, grid, warmup, **kwargs):
        named = {**dict(zip(self.arg_names, args)), **kwargs}
        seen.append({name: value for name, value in named.items() if not isinstance(value, torch.Tensor)})

    monkeypatch.setattr(JITFunction, "run", run)
    return seen


class Bench:
    """A benchmark that runs its call twice; the block it finds fastest is ``best``."""

    def __init__(self, launched, best=64):
        self.launched, self.best, self.calls = launched, best, 0

    def __call__(self, call, quantiles):
        self.calls += 1
        call()
        call()
        seconds = abs(self.launched[-1]["BLOCK"] - self.best) + 1.0
        return [seconds] * 3


X, OUT = torch.zeros(300), torch.zeros(300)


def call(kernel, n=256, flag=True, x=X, **given):
    kernel[(1,)](x, OUT, n, flag, **given)


# ---------------------------------------------------------------------------------------- beside Triton's


def few(configs, named, **given):
    return [config for config in configs if config.kwargs["BLOCK"] <= named["n"]]


def slower_with_size(**given):
    return given["BLOCK"]


def scenario(autotune, launched, kernel=kept.copy_kernel, hook=False, **options):
    """Launches and hooks of some calls under an autotuner."""
    launched.clear()
    told = []
    bench = Bench(launched)
    if options.pop("own_hooks", False):
        options["pre_hook"] = lambda named, reset_only=False: told.append(("pre", named["n"], reset_only))
        options["post_hook"] = lambda named, exception: told.append(("post", named["n"], exception))
    configs = kept.configs(lambda named: told.append(("config", named["BLOCK"])) if hook else None)
    tuner = autotune(configs if hook else kept.configs(), ["n"], do_bench=bench, **options)(kernel)
    X.fill_(1.0)
    for n in (256, 100, 256, 48):
        call(tuner, n)
    call(tuner, 256, x=X.to(torch.float16))
    call(tuner, n=256, flag=False)
    tuner[(1,)](X, out=OUT, n=256, flag=True)
    tuner.run(X, OUT, 100, True, grid=(1,), warmup=False)
    return (
        launched[:],
        told,
        bench.calls,
        {key: str(c) for key, c in tuner.cache.items()},
        str(tuner.best_config),
        X.sum(),
    )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"kernel": kept.even_kernel},
        {"hook": True},
        {"reset_to_zero": ["x"]},
        {"restore_value": ["x"]},
        {"own_hooks": True},
        {"prune_configs_by": {"early_config_prune": few}},
        {"prune_configs_by": {"perf_model": slower_with_size, "top_k": 2}},
    ],
    ids=lambda options: "-".join(options) or "plain",
)
def test_a_miss_launches_what_triton_launches(launched, options):
    theirs = scenario(triton.autotune, launched, **dict(options))
    ours = scenario(tw.autotune, launched, keep=False, **dict(options))
    if "early_config_prune" in str(options) and triton.__version__ < "3.9":
        return  # one configuration left by pruning is benchmarked there
    assert ours == theirs


def test_it_is_an_autotuner_for_whoever_looks(launched):
    tuner = tw.autotune(kept.configs(), key=["n"], reset_to_zero=["x"])(kept.copy_kernel)
    assert isinstance(tuner, Autotuner)
    assert tuner.fn is kept.copy_kernel
    assert (tuner.keys, tuner.reset_to_zero, tuner.restore_value) == (["n"], ["x"], [])
    assert [str(c) for c in tuner.configs] == [str(c) for c in kept.configs()]
    assert not tuner.cache


def test_one_configuration_is_never_timed(launched):
    bench = Bench(launched)
    call(tw.autotune(kept.configs()[:1], key=["n"], do_bench=bench)(kept.copy_kernel))
    assert bench.calls == 0
    assert launched == [{"n": 256, "flag": True, "BLOCK": 32, "num_warps": 1, "num_ctas": 1, "num_stages": 3}]


def test_spaces_and_mappings_are_configurations_too():
    space = tw.Space(BLOCK=[32, 64], num_warps=[1, 2], where="num_warps * 32 <= BLOCK")
    tuner = tw.autotune(space, key=["n"])(kept.copy_kernel)
    assert [(c.kwargs, c.num_warps) for c in tuner.configs] == [
        ({"BLOCK": 32}, 1),
        ({"BLOCK": 64}, 1),
        ({"BLOCK": 64}, 2),
    ]
    assert tw.autotune([{"BLOCK": 32, "maxnreg": 64}], key=["n"])(kept.copy_kernel).configs[0].maxnreg == 64


def test_a_configuration_that_the_compiler_rejects_is_left_out(launched, monkeypatch):
    from triton.compiler.errors import CompilationError

    def bench(call, quantiles):
        call()
        if launched[-1]["BLOCK"] == 64:
            raise CompilationError("def f(): pass", None, "out of luck")
        if launched[-1]["BLOCK"] == 32:
            raise RuntimeError("PassManager::run failed")
        return [1.0] * 3

    tuner = tw.autotune(kept.configs(), key=["n"], do_bench=bench, keep=False)(kept.copy_kernel)
    call(tuner)
    assert launched[-1]["BLOCK"] == 128

    def broken(call, quantiles):
        raise RuntimeError("Triton Error [CUDA]: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory"):
        call(tw.autotune(kept.configs(), key=["n"], do_bench=broken)(kept.copy_kernel))


# ----------------------------------------------------------------------------------------------- the table


def fresh(launched, best=64, kernel=kept.copy_kernel, configs=None, **options):
    """A tuner as another process would make it, and its benchmark."""
    active_table.cache_clear()
    bench = Bench(launched, best)
    return tw.autotune(configs or kept.configs(), key=["n"], do_bench=bench, **options)(kernel), bench


def test_what_one_process_tuned_another_finds_by_exact_key_and_dtypes(launched):
    first, _ = fresh(launched)
    call(first)
    second, bench = fresh(launched, best=128)
    call(second)
    assert bench.calls == 0
    assert launched[-1]["BLOCK"] == 64
    call(second, 257)
    assert bench.calls == 3
    call(second, x=X.to(torch.float16))
    assert bench.calls == 6


def test_hooks_of_a_configuration_survive_the_table(launched):
    call(fresh(launched)[0])
    told = []
    tuner, bench = fresh(launched, configs=kept.configs(lambda named: told.append(named["BLOCK"])))
    call(tuner)
    assert (bench.calls, told) == (0, [64])


def test_another_kernel_of_the_name_or_a_list_without_the_choice_is_a_miss(launched, monkeypatch):
    call(fresh(launched)[0])
    shorter, bench = fresh(launched, configs=kept.configs()[::2])
    call(shorter)
    assert bench.calls == 2
    other, bench = fresh(launched)
    monkeypatch.setattr(type(other), "source", "another")
    call(other)
    assert bench.calls == 3


def test_nothing_is_kept_where_that_is_not_wanted(launched, table_path):
    call(fresh(launched, keep=False)[0])
    assert not table_path.exists()


def test_a_table_that_cannot_be_written_is_said_and_does_not_stop_the_call(launched, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", "/proc/nowhere/choices.json")
    tuner, bench = fresh(launched)
    with pytest.warns(RuntimeWarning, match="copy_kernel: what was tuned is not kept: cannot write /proc"):
        call(tuner)
    call(tuner)
    assert (bench.calls, launched[-1]["BLOCK"]) == (3, 64)


def test_on_a_miss_the_nearest_tuned_size_runs_or_it_is_an_error(launched):
    for n, best in ((100, 32), (1000, 64), (100_000, 128)):
        call(fresh(launched, best)[0], n)
    default, bench = fresh(launched, on_miss="default")
    for n, block in ((90, 32), (400, 64), (5000, 64), (20_000, 128)):
        call(default, n)
        assert launched[-1]["BLOCK"] == block
    call(default, 90, x=X.to(torch.float16))  # nothing was tuned for these dtypes: the first
    assert launched[-1]["BLOCK"] == 32
    assert bench.calls == 0
    strict, _ = fresh(launched, on_miss="error")
    call(strict, 100)
    with pytest.raises(NotTuned, match="copy_kernel has no tuned configuration for n=90 with float32, float32 on cpu"):
        call(strict, 90)


def test_a_default_is_none_that_pruning_leaves_out(launched):
    call(fresh(launched, 128)[0], 1000)
    tuner, _ = fresh(launched, on_miss="default", prune_configs_by={"early_config_prune": few})
    call(tuner, 100)
    assert launched[-1]["BLOCK"] == 32


def test_the_environment_may_say_what_a_miss_does(launched, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_ON_MISS", "error")
    with pytest.raises(NotTuned):
        call(fresh(launched)[0])
    with pytest.raises(UsageError, match="one of tune, default, error"):
        fresh(launched, on_miss="never")


def test_the_tuners_cache_stays_the_masters(launched):
    tuner, bench = fresh(launched, keep=False)
    call(tuner)
    tuner.cache[next(iter(tuner.cache))] = tuner.configs[2]
    call(tuner)
    assert launched[-1]["BLOCK"] == 128
    tuner.cache.clear()
    call(tuner)
    assert (launched[-1]["BLOCK"], bench.calls) == (64, 6)


# ---------------------------------------------------------------------------------- graphs, threads, compile


def test_while_a_graph_is_captured_nothing_is_tuned_and_that_is_said_once(launched, monkeypatch):
    tuner, bench = fresh(launched)
    monkeypatch.setattr(tuned, "_is_capturing", lambda: True)
    with pytest.warns(RuntimeWarning, match="captured") as told:
        [call(tuner, n) for n in (256, 100)]
    assert (bench.calls, len(told)) == (0, 1)
    assert [launch["BLOCK"] for launch in launched] == [32, 32]
    monkeypatch.setattr(tuned, "_is_capturing", lambda: False)
    call(tuner)
    assert (bench.calls, launched[-1]["BLOCK"]) == (3, 64)
    monkeypatch.setattr(tuned, "_is_capturing", lambda: pytest.fail("asked, though the answer is known"))
    call(tuner)


def test_threads_tune_each_key_once_and_each_gets_its_own_answer(launched):
    wrong, timed = [], []

    def bench(call, quantiles):
        timed.append(1)
        call()
        mine = [launch for launch in launched if launch["thread"] == threading.get_ident()][-1]
        return [abs(mine["BLOCK"] - mine["n"])] * 3

    def run(self, *args, grid, warmup, **kwargs):
        launched.append({**dict(zip(self.arg_names, args)), **kwargs, "thread": threading.get_ident()})

    def work(start):
        start.wait()
        for _ in range(20):
            for n in (32, 64, 128):
                call(tuner, n)
                mine = [launch for launch in launched if launch["thread"] == threading.get_ident()][-1]
                if mine["n"] != n or mine["BLOCK"] != n:
                    wrong.append((n, mine))

    JITFunction.run = run  # put back by ``launched``
    tuner = tw.autotune(kept.configs(), key=["n"], do_bench=bench, keep=False, reset_to_zero=["out"])(kept.copy_kernel)
    start = threading.Barrier(8)
    threads = [threading.Thread(target=work, args=(start,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(timed) == 9


def test_torch_compile_takes_it_for_the_autotuner_it_is(launched, monkeypatch):
    tuner, _ = fresh(launched)
    call(tuner, 300)
    tuner, bench = fresh(launched)
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)

    def twice(x):
        out = torch.empty_like(x)
        tuner[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, out, x.numel(), True)
        return out * 2

    with standing_in(H100):
        torch.compile(twice, backend="eager", fullgraph=True)(torch.zeros(300))
    assert (bench.calls, launched[-1]["BLOCK"]) == (0, 64)


# ------------------------------------------------------------------------------------------ the other stages


def test_tune_finds_its_configurations_and_the_kernel_finds_the_choice(launched, table_path):
    case = Case("copied", {"N": 300}, "fp32")
    inputs = inputs_of(kept.copied, case)
    found = candidates.configurations(kept.copied, inputs, H100)
    assert [c.values["BLOCK"] for c in found] == [32, 64, 128]
    choice = Choice("copied", case, found[2], "cpu", triton.__version__, "", 1e-5, 2e-5, {})
    assert keep(kept.copied, choice, H100, Table()) == 1
    active_table.cache_clear()
    call(tw.autotune(kept.configs(), key=["n"], on_miss="error")(kept.copy_kernel), 300)
    assert launched[-1]["BLOCK"] == 128


def test_a_choice_of_a_kernel_that_looks_nothing_up_makes_no_entry(table_path):
    import tuned as stock

    case = Case("sum_reset", {"n": 100})
    choice = Choice(
        "sum_reset", case, Config({"BLOCK": 64, "num_warps": 2, "num_stages": 3}), "cpu", "", "", 1.0, 1.0, {}
    )
    assert keep(stock.sum_reset, choice, H100, Table()) == 0
    assert not table_path.exists()


def test_debug_sees_what_tuning_at_a_call_does_to_memory():
    kinds = lambda operator: {f.kind for f in tw.debug(operator, cases=[{"N": 100}]).findings}
    assert "autotune-mutation" in kinds(kept.tuned_at_a_call)
    assert "autotune-mutation" not in kinds(kept.tuned_ahead)
