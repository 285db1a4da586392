"""Which value classes and layouts are worth a case of an operator: those that change something of it."""

from __future__ import annotations

from tilewright.spec import contents, dtypes
from tilewright.spec.inputs import UPSTREAM_LAYOUTS, Inputs
from tilewright.spec.operator import Operator

_QUICK = (
    "large-mean",
    "negative",
    "very-negative",
    "large",
    "positive",
    "equal",
    "tiny",
    "signed-zeros",
    *contents.MASKS,
    *contents.INDICES,
    *contents.OFFSETS,
)
_EARLY = (
    "large-mean",
    "negative",
    "very-negative",
    "one-row-false",
    "all-false",
    "index-ends",
    "unnamed-poison",
    "empty-segments",
)
_OF_INPUTS = ("large-mean", "positive", "negative", "large", "equal", "tiny")
"""Of what an author's own function made only floats are changed, and to nothing that is special."""


def early(operator: Operator, inputs: Inputs) -> list[str]:
    """Value classes that show the most, for the front of a plan."""
    return [word for word in words(operator, inputs, "quick") if word in _EARLY]


def words(operator: Operator, inputs: Inputs, effort: str) -> list[str]:
    """Value classes that change what some tensor of the operator holds, ``inputs`` being those of a case."""
    if operator.signature is None:
        return [word for word in _OF_INPUTS if operator.reference is not None and contents.refills(inputs, word)]
    # Values beyond float16 have cases of their own, with all that the operator can be given (``plan.py``).
    wanted = _QUICK if effort == "quick" else [w for w in contents.WORDS[1:] if w != contents.WIDE_RANGE]
    return [word for word in wanted if _changes(operator, word)]


def wide_range(operator: Operator) -> str | None:
    """The first dtype of an operator in which values beyond float16 can be drawn and judged, if there is one."""
    if operator.signature is None or operator.reference is None:
        return None
    return next((dtype for dtype in operator.dtypes if _changes(operator, contents.WIDE_RANGE, dtype)), None)


def _changes(operator: Operator, word: str, dtype: str | None = None) -> bool:
    if word == "unnamed-poison" and operator.reference is None:
        return False
    for parameter in operator.signature.tensors if operator.signature else ():
        if parameter.tensor is None:
            continue
        kind = dtypes.to_torch(parameter.tensor.dtype or dtype or operator.dtypes[0])
        if contents.affects(word, operator.values.get(parameter.name), kind):
            return True
    return False


def layouts(operator: Operator) -> list[str]:
    """Layouts that an operator's tensors can take and that differ from the plain one."""
    if operator.signature is None:
        return ["offset"]
    ranks = [len(p.tensor.dims) for p in operator.signature.tensors if p.tensor]
    found = ["sliced"]
    if max(ranks, default=0) >= 2:
        found = ["transposed", "sliced", "expanded"]
    if any(rank in (4, 5) for rank in ranks):
        found.append("channels-last")
    found.append("offset")
    same = len({str(p.tensor) for p in operator.signature.tensors if p.tensor}) < len(ranks)
    if same and not operator.grad and (not operator.mutates or operator.reference is not None):
        found.append("aliased")
    return [layout for layout in found if layout not in UPSTREAM_LAYOUTS]
