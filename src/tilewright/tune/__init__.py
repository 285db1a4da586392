"""The tune stage: which configurations fit the chip, which are worth trying, which one is best."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tilewright.records import Event, drain

if TYPE_CHECKING:
    from tilewright.spec.operator import Operator
    from tilewright.tune.stage import TuneReport


def tune(operator: Operator, *, on_event: Callable[[Event], None] = lambda event: None, **options: Any) -> TuneReport:
    """Surveys an operator's space for each target, and times it where the target's GPU is here.

    Args:
        on_event: called with each event while it works.
        **options: fields of ``tilewright.tune.stage.TuneOptions`` (``targets``, ``shapes``, ``table``, …).
    """
    # Imported at the call: importing the package must not import torch.
    stage = importlib.import_module("tilewright.tune.stage")
    load = importlib.import_module("tilewright.spec.load")
    report: TuneReport = drain(stage.run(operator, load.address(operator), stage.TuneOptions(**options)), on_event)
    return report
