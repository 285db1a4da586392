"""Operations on whole tiles against NumPy: a sample of what proof/test_conformance.py goes through in full."""

import pytest
from conformance import tiles

CASES = [
    *tiles.integer_reductions()[::37],
    *tiles.scans()[::7],
    *tiles.floating_reductions()[::11],
    *tiles.spread_reductions()[::2],
    *tiles.shapes()[::9],
]


@pytest.mark.filterwarnings("ignore:view is deprecated")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_tile_operation_gives_what_numpy_does(case):
    assert not case.check(seed=0)
