"""Operations on whole tiles against NumPy: a sample of what proof/test_conformance.py goes through in full."""

import pytest
from conformance import tiles

CASES = [
    *tiles.integer_reductions()[::53],
    *tiles.scans()[::10],
    *tiles.floating_reductions()[::17],
    *tiles.spread_reductions()[::4],
    *tiles.shapes()[::13],
]


@pytest.mark.filterwarnings("ignore:view is deprecated")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_tile_operation_gives_what_numpy_does(case):
    assert not case.check(seed=0)
