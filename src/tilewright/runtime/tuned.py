"""A kernel under ``@tw.autotune``: Triton's own ``Autotuner``, with answers that are looked up, kept and agreed on.

It is a subclass, so that whatever knows Triton's tuner (``torch.compile``, tilewright's capture) knows this one. A call
whose answer is known costs a lookup of a tuple; all else is under a lock.
"""

from __future__ import annotations

import functools
import inspect
import json
import sys
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from triton import knobs
from triton.compiler.errors import CompilationError
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction

from tilewright.errors import NotTuned, StoreUnusable
from tilewright.runtime import ranks
from tilewright.runtime.autotune import OnMiss
from tilewright.runtime.nearest import nearest
from tilewright.runtime.source import source_hash
from tilewright.runtime.table import KernelKey, active_table, as_json

PATIENCE_SECONDS = 300.0
"""How long a rank waits for the one that tunes, before all take the default."""
_TUNING = threading.RLock()  # one benchmark at a time: two on one device would slow each other


class _Answer(NamedTuple):
    """What a key runs in. ``key`` is Triton's, under which ``Autotuner.cache`` has it too."""

    key: tuple[Any, ...]
    config: Any
    values: dict[str, Any]


class _Call(NamedTuple):
    """A call whose answer is not known: its arguments, the key Triton makes of them and the table's."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    key: tuple[Any, ...]
    wanted: KernelKey


class TunedKernel(Autotuner):  # type: ignore[misc]
    """Use ``tw.autotune``. ``cache``, ``configs``, ``best_config``, ``run`` and ``warmup`` are as Triton has them."""

    def __init__(self, *args: Any, on_miss: OnMiss, keep: bool, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.on_miss = on_miss
        self.keep = keep
        self._known: dict[tuple[Any, ...], _Answer] = {}
        parameters = inspect.signature(self.base_fn).parameters.values()
        constants = [p.name for p in parameters if "constexpr" in str(p.annotation)]
        self._key_functions = _KeyFunctions(self.arg_names, self.keys, constants)
        self._lock = threading.RLock()
        self._said: set[str] = set()
        self.nargs: dict[str, Any] | None = None  # Triton's name: arguments while it prunes and times

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Launches the kernel in the configuration that its key is known to run best in."""
        if len(self.configs) == 1:
            config = self.configs[0]
            values = config.all_kwargs()
        else:
            answer = self._known.get(self._key_functions[len(args)](args, kwargs))
            # Whoever changes the tuner's cache, changes what runs.
            if answer is None or self.cache.get(answer.key) is not answer.config:
                answer = self._answer(args, kwargs)
            _, config, values = answer
        self.best_config = config
        if config.pre_hook is not None:
            config.pre_hook({**dict(zip(self.arg_names, args)), **kwargs, **values})
        return self.fn.run(*args, **kwargs, **values)

    @functools.cached_property
    def source(self) -> str:
        """The hash of the kernel's text that its choices hold for; of its decorators only heuristics are part of it."""
        return source_hash(self.fn)

    def warmup(self, *args: Any, **kwargs: Any) -> Any:
        with self._lock:  # Triton keeps the arguments in the tuner meanwhile
            return super().warmup(*args, **kwargs)

    # ------------------------------------------------------------------------------------- what is not known yet

    def _answer(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Answer:
        """What a key that was not met before runs in; remembered, unless it was chosen in haste."""
        with self._lock:
            call = self._described(args, kwargs)
            config, lasts = self.cache.get(call.key), True
            if config is None:
                self.nargs = dict(zip(self.arg_names, args))
                try:
                    config, lasts = self._decided(call)
                finally:
                    self.nargs = None
            answer = _Answer(call.key, config, config.all_kwargs())
            if lasts:
                self.cache[call.key] = config
                self._known[self._key_functions[len(args)](args, kwargs)] = answer
            return answer

    def _described(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Call:
        given = {**dict(zip(self.arg_names, args)), **kwargs}
        known = {name: value for name, value in given.items() if name in self.arg_names}
        key = {name: known[name] for name in self.keys if name in known}
        dtypes = tuple(str(value.dtype) for value in known.values() if hasattr(value, "dtype"))
        wanted = KernelKey(self.base_fn.__name__, self.source, key, dtypes, _device(known.values()))
        return _Call(args, kwargs, (*key.values(), *dtypes), wanted)

    def _decided(self, call: _Call) -> tuple[Any, bool]:
        """A configuration, and whether it is the answer from now on."""
        found = self._config(active_table().find_kernel(call.wanted))
        if found is not None:
            return self._agreed(call, found), True
        left = self.prune_configs(call.kwargs)
        if len(left) == 1:
            return self._agreed(call, left[0]), True
        if self.on_miss == "error":
            raise NotTuned(
                f"{call.wanted.kernel} has no tuned configuration for {_in_words(call.wanted)}",
                'tune it there (tilewright tune), or choose on_miss="default"',
            )
        if self.on_miss == "default" or knobs.runtime.interpret:
            return self._agreed(call, self._default(call, left)), True
        if _is_capturing():
            self._say(f"{call.wanted.kernel}: a CUDA graph is being captured, so nothing is tuned and a default runs")
            return self._agreed(call, self._default(call, left), "while capturing"), False
        return self._tuned(call, left), True

    def _default(self, call: _Call, left: Sequence[Any]) -> Any:
        """The configuration of the nearest tuned sizes among those left by pruning; the first where there is none."""
        tuned = [(key, self._config(values)) for key, values in active_table().alike(call.wanted)]
        allowed = [(key, config) for key, config in tuned if config in left]
        near = nearest(call.wanted.key, [key for key, _ in allowed])
        return left[0] if near is None else allowed[near][1]

    def _config(self, values: Mapping[str, Any] | None) -> Any:
        """The tuner's own configuration of these values (its hooks with it); None where it has none: the list changed."""
        return next((config for config in self.configs if _values(config) == values), None)

    # ------------------------------------------------------------------------------------------------- tuning

    def _tuned(self, call: _Call, left: Sequence[Any]) -> Any:
        """Times what pruning left, on one of the ranks."""
        if not ranks.several():
            return self._timed(call, left)
        if not ranks.claim(self._question(call)):
            answer = ranks.awaited(self._question(call), PATIENCE_SECONDS)
            if answer is None:
                self._say(f"{call.wanted.kernel}: another rank has tuned for {PATIENCE_SECONDS:.0f} s; a default runs")
                return self._agreed(call, self._default(call, left))
            return self._config(json.loads(answer))
        try:
            return self._agreed(call, self._timed(call, left))
        except BaseException:
            self._agreed(call, self._default(call, left))  # nobody waits for what will not come
            raise

    def _timed(self, call: _Call, left: Sequence[Any]) -> Any:
        """The fastest by the tuner's own benchmark, kept in the table.

        As ``Autotuner.run`` does it, with its hooks, its disk cache, its listener and what it prints.
        """

        def benchmark() -> None:
            start = time.time()
            timings = {config: self._bench(*call.args, config=config, **call.kwargs) for config in left}
            self.bench_time = time.time() - start
            self.cache[call.key] = min(timings, key=timings.get)  # type: ignore[arg-type]
            named = dict(zip(self.arg_names, call.args))
            self.pre_hook({**named, **call.kwargs, **self.cache[call.key].all_kwargs()}, reset_only=True)
            self.configs_timings = timings

        with _TUNING:
            was_kept = bool(self.cache_results and self.check_disk_cache(call.key, left, benchmark))
            if not self.cache_results:
                benchmark()
        best = self.cache.pop(call.key)
        self._tell(call, best, was_kept)
        if self.keep:
            self._put(call, best)
        return self._config(_values(best)) or best

    def _bench(self, *args: Any, config: Any, **meta: Any) -> Any:
        """Seconds of one configuration; one that the compiler rejects is left out, where Triton would end the run."""
        try:
            return super()._bench(*args, config=config, **meta)
        except (CompilationError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "PassManager::run failed" not in str(error):
                raise
            return [float("inf")] * 3

    def _tell(self, call: _Call, best: Any, was_kept: bool) -> None:
        if knobs.autotuning.print and not was_kept:
            print(
                f"Triton autotuning for function {self.base_fn.__name__},\nwith key as {call.key},\n"
                f"finished after {self.bench_time:.2f}s,\nbest config selected: {best};"
            )
        if getattr(knobs.autotuning, "listener", None) is not None:
            kernel = self.fn
            while not isinstance(kernel, JITFunction):
                kernel = kernel.fn
            knobs.autotuning.listener(
                fn=kernel,
                key=call.key,
                best_config=best,
                configs_timings=self.configs_timings,
                duration=None if was_kept else self.bench_time,
                cache_hit=was_kept,
            )

    def _put(self, call: _Call, best: Any) -> None:
        milliseconds = self.configs_timings[best]
        median = milliseconds[0] if isinstance(milliseconds, (list, tuple)) else milliseconds
        if median == float("inf"):
            return
        try:
            active_table().put_kernel(call.wanted, _values(best), median_seconds=median / 1e3)
        except StoreUnusable as error:
            self._say(f"{call.wanted.kernel}: what was tuned is not kept: {error}")

    # ----------------------------------------------------------------------------------------------- details

    def _agreed(self, call: _Call, config: Any, when: str = "") -> Any:
        """The configuration that all ranks run; ours where there are no others."""
        if not ranks.several():
            return config
        return self._config(json.loads(ranks.agree(self._question(call) + when, json.dumps(_values(config)))))

    def _question(self, call: _Call) -> str:
        offered = [_values(config) for config in self.configs]
        return json.dumps([call.wanted.words, offered], default=str)

    def _say(self, words: str) -> None:
        """A warning, once for each kernel."""
        if words not in self._said:
            self._said.add(words)
            warnings.warn(words, RuntimeWarning, stacklevel=6)


def _values(config: Any) -> dict[str, Any]:
    """A ``triton.Config`` as the table has it: meta-parameters and the launch options that it sets."""
    values = as_json(config.all_kwargs())
    if values.get("num_ctas") == 1:
        del values["num_ctas"]
    return values


class _KeyFunctions(dict[int, Callable[..., tuple[Any, ...]]]):
    """For a number of positional arguments, the function of a launch's arguments that gives key values and dtypes.

    Made as text, so that a launch pays for nothing but reading what matters.
    """

    def __init__(self, names: Sequence[str], keys: Sequence[str], constants: Sequence[str]) -> None:
        self._names, self._constants = list(names), frozenset(constants)
        self._keys = [name for name in keys if name in self._names]

    def __missing__(self, count: int) -> Callable[..., tuple[Any, ...]]:
        given = {
            name: f"args[{i}]" if i < count else f"kwargs.get({name!r}, absent)" for i, name in enumerate(self._names)
        }
        dtypes = [f"get({given[name]}, 'dtype', None)" for name in self._names if name not in self._constants]
        source = f"lambda args, kwargs: ({', '.join([*(given[name] for name in self._keys), *dtypes])},)"
        self[count] = eval(source, {"absent": object(), "get": getattr})
        return self[count]


def _device(arguments: Any) -> str:
    """The board of the first tensor among the arguments, as its driver calls it."""
    for value in arguments:
        device = getattr(getattr(value, "base", value), "device", None)
        if device is not None and hasattr(device, "type"):
            return str(sys.modules["torch"].cuda.get_device_name(device)) if device.type == "cuda" else str(device.type)
    return "none"


def _is_capturing() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and bool(torch.cuda.is_current_stream_capturing())


def _in_words(wanted: KernelKey) -> str:
    sizes = ", ".join(f"{name}={value}" for name, value in wanted.key.items())
    dtypes = ", ".join(dtype.removeprefix("torch.") for dtype in wanted.dtypes)
    return f"{sizes or 'no key'} with {dtypes or 'no tensors'} on {wanted.device}"
