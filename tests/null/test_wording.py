"""Numbers and their nouns agree."""

import pytest

from tilewright.wording import count, part, percent


@pytest.mark.parametrize(("number", "said"), [(None, "0 cases"), (0, "0 cases"), (1, "1 case"), (2, "2 cases")])
def test_count(number, said):
    assert count(number, "case") == said


def test_irregular_plurals_are_given():
    assert [count(n, "launch", "launches") for n in (1, 2)] == ["1 launch", "2 launches"]


@pytest.mark.parametrize(
    ("number", "total", "said"),
    [
        (0, 1, "0 of 1 case fits"),
        (1, 1, "1 of 1 case fits"),
        (1, 8, "1 of 8 cases fits"),
        (3, 8, "3 of 8 cases fit"),
        (0, 8, "0 of 8 cases fit"),
    ],
)
def test_part(number, total, said):
    assert part(number, total, "case", ("fits", "fit")) == said
    assert part(number, total, "case") == said.rsplit(" ", 1)[0]


@pytest.mark.parametrize(
    ("share", "said"), [(0.01, "1 %"), (0.00352, "0.35 %"), (0.994, "99 %"), (1.8, "180 %"), (-0.02, "-2 %")]
)
def test_percent(share, said):
    assert percent(share) == said
