"""The bench stage: how fast is it, against the strongest there is, and how sure is that?"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.records import Event, drain

if TYPE_CHECKING:
    from tilewright.bench.stage import BenchReport
    from tilewright.spec.operator import Operator


def bench(operator: Operator, *, on_event: Callable[[Event], None] = lambda event: None, **options: Any) -> BenchReport:
    """Times an operator against its baselines at each of its declared shapes.

    Args:
        on_event: called with each event while it works.
        **options: fields of ``tilewright.bench.stage.BenchOptions`` (``device``, ``shapes``, ``seconds``, …).

    Raises:
        NoGpu: this machine has no GPU and ``device="cpu"`` was not asked for.
    """
    # Imported at the call: importing the package must not import torch.
    stage = importlib.import_module("tilewright.bench.stage")
    load = importlib.import_module("tilewright.spec.load")
    report: BenchReport = drain(stage.run(operator, load.address(operator), stage.BenchOptions(**options)), on_event)
    return report
