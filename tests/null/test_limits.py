"""No verdict rests on a result above what the card can do."""

import pytest

from tilewright.bench.limits import conditions, judged
from tilewright.bench.verdict import Judgement
from tilewright.records import Timing


def timings(**shares):
    return {name: Timing(name, 1, 1.0, 1.0, 1.0, of_ceiling=share) for name, share in shares.items()}


@pytest.mark.parametrize("above", [dict(ours=1.4, eager=0.6), dict(ours=0.5, eager=1.3)])
def test_a_side_above_the_ceiling_leaves_it_undecided(above):
    found = judged(Judgement("FASTER"), timings(**above), "eager")
    assert found.verdict == "UNDECIDED"
    assert "was measured to be able to do" in found.why
    assert conditions(timings(**above)) == ()


def test_where_all_are_above_it_the_count_is_wrong():
    above = timings(ours=3.0, eager=2.0)
    assert judged(Judgement("FASTER"), above, "eager").verdict == "FASTER"
    assert "overcounted" in conditions(above)[0]


@pytest.mark.parametrize("share", [None, 0.4, 1.1])
def test_below_it_nothing_changes(share):
    assert judged(Judgement("SAME"), timings(ours=share, eager=share), "eager") == Judgement("SAME")
