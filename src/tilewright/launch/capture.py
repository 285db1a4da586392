"""Running a launcher with each of its launches handed to a handler, instead of a GPU.

A handler gets the :class:`Launch` and does with it what it likes: execute it at once (so that the next
launch reads what this one wrote), or keep it. ``JITFunction.run`` alone is not enough to intercept:
autotuned kernels ask for a driver and a benchmark before it, so a stand-in driver is active meanwhile,
and an autotuner launches the configurations it is told to, once each.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from triton.compiler.compiler import make_backend
from triton.runtime.autotuner import Autotuner
from triton.runtime.interpreter import InterpretedFunction
from triton.runtime.jit import JITFunction

from tilewright.errors import LauncherFailed, StaticAssertionFailed
from tilewright.hardware.target import Target
from tilewright.launch import host
from tilewright.launch.driver import gpu_target, standing_in
from tilewright.launch.launch import Launch, Tuning, bind, python_function
from tilewright.launch.warmup import Needs, WarmedKernel, plausible_needs
from tilewright.records import Config
from tilewright.runtime.tuned import TunedKernel
from tilewright.spec.inputs import Inputs
from tilewright.spec.operator import Operator

Handler = Callable[[Launch], Any]
# Which of an autotuner's configurations to launch: a function of them that picks some.
Choose = Callable[[Any, list[Any]], list[Any]]

TUNERS = (Autotuner, TunedKernel)
"""Classes of autotuned kernels that have a ``run`` of their own."""
_OURS = ("debug", "instrumentation_mode", "fpsan_homomorphic_casts")


def first_config(tuner: Any, configs: list[Any]) -> list[Any]:
    return configs[:1]


def every_config(tuner: Any, configs: list[Any]) -> list[Any]:
    return configs


def only(config: Config) -> Choose:
    """Picks the configuration of an autotuner that equals ``config``, though its pruning drops it; others are left out."""

    def choose(tuner: Any, configs: list[Any]) -> list[Any]:
        return [c for c in tuner.configs if config_values(c) == dict(config.values)] or configs[:1]

    return choose


def config_values(config: Any) -> dict[str, Any]:
    """The values of a ``triton.Config``: meta-parameters and launch options that it sets."""
    values = dict(config.kwargs)
    for option in ("num_warps", "num_stages", "num_ctas", "maxnreg"):
        value = getattr(config, option, None)
        if value is not None and not (option == "num_ctas" and value == 1):
            values[option] = value
    return values


@contextlib.contextmanager
def capture(
    handler: Handler,
    target: Target,
    *,
    choose: Choose = first_config,
    needs: Needs = plausible_needs,
    executes: bool = True,
    tunes: bool = False,
) -> Iterator[None]:
    """Within it, each kernel launch of this process goes to ``handler``.

    Args:
        target: the chip that host code and Triton believe to be there.
        choose: which configurations an ``@triton.autotune`` kernel launches. In place of a single one that a
            static assertion of the kernel refuses comes the next that none refuses, as a tuner leaves it out.
        needs: what a kernel that the launcher compiles by ``kernel.warmup(...)`` needs of the chip; by default
            plausible figures. Launches of what warmup returns go to ``handler`` too.
        executes: whether the handler executes launches. Between several configurations of one, memory is
            then reset and restored by the tuner's hooks.
        tunes: an ``@triton.autotune`` kernel launches its configuration once more beforehand, the first time that
            its key is met, as its tuner's benchmark does; what the benchmark leaves in memory is seen so.
    """
    tuning: list[tuple[Tuning, Config]] = []
    tuned: set[tuple[Any, ...]] = set()
    known_options = frozenset(vars(make_backend(gpu_target(target)).parse_options({})))

    def launched(launch: Launch) -> Any:
        if executes:
            host.require_cpu(launch)
        return host.handed_on(handler, launch)

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        kwargs = {name: value for name, value in kwargs.items() if name not in _OURS}
        how, config = tuning[-1] if tuning else (None, None)
        if how is not None and python_function(how.tuner) is not python_function(self):
            how, config = None, None  # launched by a hook of the tuned kernel
        for hook in self.pre_run_hooks:
            hook(*args, **kwargs)
        launch = bind(self, args, kwargs, (1, 1, 1) if warmup else grid, config, how)
        _check_options(launch, known_options)
        if warmup:
            return WarmedKernel(launch, target, needs, launched)
        return launched(launch)

    def run_tuned(self: Any, *args: Any, **kwargs: Any) -> Any:
        left = _pruned(self, args, kwargs)
        how = _tuning(self, left, args, kwargs)
        chosen = choose(self, left)
        rehearses = tunes and _tunes_at_a_call(self) and len(left) > 1 and how.cached_by not in tuned
        if rehearses:
            tuned.add(how.cached_by)
        if len(chosen) > 1 or len(left) == 1:
            return run_configs(self, how, chosen, args, kwargs)
        for config in [*chosen, *(other for other in left if other is not chosen[0])]:
            try:
                if rehearses:
                    return run_configs(self, replace(how, rehearses=True), [config, config], args, kwargs)
                return run_configs(self, how, [config], args, kwargs)
            except StaticAssertionFailed as error:
                refused = error  # by a configuration that a tuner then leaves out
        raise refused

    def run_configs(tuner: Any, how: Tuning, chosen: list[Any], args: Any, kwargs: Any) -> Any:
        result = None
        for position, config in enumerate(chosen):
            is_last = position == len(chosen) - 1
            tuning.append((replace(how, rehearses=how.rehearses and not is_last), Config(config_values(config))))
            try:
                named = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs, **config.all_kwargs()}
                hooks = _as_in_tuning(tuner, named, is_last)
                with _single(tuner, config), hooks if executes and len(chosen) > 1 else contextlib.nullcontext():
                    result = original_tuned(tuner, *args, **kwargs)
            finally:
                tuning.pop()
        return result

    original_tuned = Autotuner.run
    tuners = [(tuner, run_tuned) for tuner in TUNERS]
    replaced = _replaced((JITFunction, run), (InterpretedFunction, run), *tuners)
    with standing_in(target), replaced, host.explaining():
        yield


@contextlib.contextmanager
def pinned(config: Config) -> Iterator[None]:
    """Within it, autotuned kernels launch this configuration, for real, and tune nothing."""
    original = {tuner: tuner.run for tuner in TUNERS}

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        launch = original[TunedKernel if isinstance(self, TunedKernel) else Autotuner]
        matching = [c for c in self.configs if config_values(c) == dict(config.values)]
        if not matching:
            return launch(self, *args, **kwargs)
        with _single(self, matching[0]):
            return launch(self, *args, **kwargs)

    with _replaced(*((tuner, run) for tuner in TUNERS)):
        yield


def call(operator: Operator, inputs: Inputs, config: Config | None = None) -> Any:
    """Calls an operator in a configuration, be it the launcher's own parameter or an autotuner's."""
    if config is None or operator.space is not None:
        return operator.launch(inputs, config)
    with pinned(config):
        return operator.launch(inputs)


def record(
    operator: Operator,
    inputs: Inputs,
    target: Target,
    config: Config | None = None,
    *,
    choose: Choose = first_config,
    needs: Needs = plausible_needs,
) -> list[Launch]:
    """All launches of one call, none executed: outputs hold what the host put there."""
    launches: list[Launch] = []
    with capture(launches.append, target, choose=choose, needs=needs, executes=False):
        operator.launch(inputs, config)
    return launches


def _check_options(launch: Launch, known: frozenset[str]) -> None:
    for name in launch.options:
        if name not in known:
            raise LauncherFailed(
                f"launch of {launch.name}: it has no parameter {name}", f"it takes {', '.join(launch.arguments)}"
            )


def _tuning(tuner: Any, configs: list[Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Tuning:
    """The tuner's key as ``Autotuner.run`` makes it, in Triton 3.6 to 3.9 alike: names it does not know are left out."""
    given = {**dict(zip(tuner.arg_names, args, strict=False)), **kwargs}
    known = {name: value for name, value in given.items() if name in tuner.arg_names}
    key = {name: known[name] for name in tuner.keys if name in known}
    dtypes = tuple(str(value.dtype) for value in known.values() if hasattr(value, "dtype"))
    left = tuple(Config(config_values(config)) for config in configs)
    return Tuning(tuner, len(tuner.configs), left, key, dtypes)


def _pruned(tuner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Any]:
    """The configurations left by the kernel's own pruning, which may look at the arguments."""
    if not tuner.early_config_prune or len(tuner.configs) == 1:  # one configuration is not tuned
        return list(tuner.configs)
    named = dict(zip(tuner.arg_names, args, strict=False))
    left = list(tuner.early_config_prune(tuner.configs, named, **kwargs))
    if not left:
        raise LauncherFailed(
            f"launch of {python_function(tuner).__name__}: early_config_prune left no configuration",
            "leave at least one",
        )
    return left


def _tunes_at_a_call(tuner: Any) -> bool:
    """Triton's always does; ``@tw.autotune`` where that is what it does on a miss."""
    return not isinstance(tuner, TunedKernel) or tuner.on_miss == "tune"


@contextlib.contextmanager
def _as_in_tuning(tuner: Any, named: dict[str, Any], is_last: bool) -> Iterator[None]:
    """The tuner's hooks around one of several configurations: each starts from the memory that the first one met.

    As after tuning, the last launch is the one whose result stays. (A configuration that is known already runs
    without these hooks.)
    """
    if is_last:
        tuner.pre_hook(named, reset_only=True)
        yield
        return
    tuner.pre_hook(named)
    try:
        yield
    except Exception as error:
        tuner.post_hook(named, exception=error)
        raise
    tuner.post_hook(named, exception=None)


@contextlib.contextmanager
def _single(tuner: Any, config: Any) -> Iterator[None]:
    """An autotuner with one configuration does not benchmark."""
    configs, tuner.configs = tuner.configs, [config]
    try:
        yield
    finally:
        tuner.configs = configs


@contextlib.contextmanager
def _replaced(*methods: tuple[type, Callable[..., Any]]) -> Iterator[None]:
    former = [cls.__dict__["run"] for cls, _ in methods]
    for cls, method in methods:
        cls.run = method  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for (cls, _), method in zip(methods, former, strict=True):
            cls.run = method  # type: ignore[attr-defined]
