"""``@tw.autotune``: ``@triton.autotune`` that keeps its answers, and reads those that ``tilewright tune`` found."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, get_args

from tilewright.errors import TritonMissing, UsageError
from tilewright.records import Config

OnMiss = Literal["tune", "default", "error"]
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")


def autotune(
    configs: Iterable[Any],
    key: Sequence[str],
    prune_configs_by: Mapping[str, Any] | None = None,
    reset_to_zero: Sequence[str] | None = None,
    restore_value: Sequence[str] | None = None,
    pre_hook: Callable[..., Any] | None = None,
    post_hook: Callable[..., Any] | None = None,
    warmup: int | None = None,
    rep: int | None = None,
    use_cuda_graph: bool = False,
    do_bench: Callable[..., Any] | None = None,
    cache_results: bool = False,
    *,
    on_miss: OnMiss | None = None,
    keep: bool = True,
) -> Callable[[Any], Any]:
    """Decorates a kernel as ``@triton.autotune`` does, with the same arguments; the result is an ``Autotuner``.

    A call whose key and dtypes the table of choices knows runs in the configuration kept there.

    Args:
        configs: ``triton.Config`` objects, a ``tw.Space``, or mappings of names to values.
        key: names of arguments; a new value of one, or a new dtype of a tensor, is a new key.
        on_miss: what a call with an unknown key does. ``"tune"``: times all configurations, as Triton does.
            ``"default"``: takes that of the nearest tuned sizes, else the first; nothing is timed. ``"error"``: raises.
            None: what ``TILEWRIGHT_ON_MISS`` says, else ``"tune"``.
        keep: whether what is tuned at a call goes into the table (``TILEWRIGHT_CHOICES``).

    Raises:
        UsageError: ``on_miss`` is none of the three.
        TritonMissing: when it decorates.
    """
    wanted = on_miss or os.environ.get("TILEWRIGHT_ON_MISS") or "tune"
    if wanted not in get_args(OnMiss):
        raise UsageError(f"on_miss={wanted!r}", f"it is one of {', '.join(get_args(OnMiss))}")

    def decorate(kernel: Any) -> Any:
        try:
            triton = importlib.import_module("triton")
        except ModuleNotFoundError:
            raise TritonMissing.here() from None
        tuned = importlib.import_module("tilewright.runtime.tuned")
        return tuned.TunedKernel(
            kernel,
            kernel.arg_names,
            [_triton_config(config, triton.Config) for config in configs or ()],
            key,
            reset_to_zero,
            restore_value,
            pre_hook=pre_hook,
            post_hook=post_hook,
            prune_configs_by=prune_configs_by,
            warmup=warmup,
            rep=rep,
            use_cuda_graph=use_cuda_graph,
            do_bench=do_bench,
            cache_results=cache_results,
            on_miss=wanted,
            keep=keep,
        )

    return decorate


def _triton_config(config: Any, make: Any) -> Any:
    """A point of a space, or a mapping, as a ``triton.Config``; one that is, as it is."""
    if isinstance(config, Config):
        config = config.values
    if not isinstance(config, Mapping):
        return config
    options = {name: value for name, value in config.items() if name in _OPTIONS}
    return make({name: value for name, value in config.items() if name not in _OPTIONS}, **options)
