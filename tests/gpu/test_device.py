"""The stages on a real GPU."""

import faulty
import pytest
import torch

import tilewright as tw
from tilewright.debug.child import Session
from tilewright.debug.device import BAND_BYTES, Banded
from tilewright.debug.options import DebugOptions
from tilewright.debug.stage import run
from tilewright.records import drain
from tilewright.spec.load import address


@pytest.fixture(scope="module")
def session():
    with Session(DebugOptions(executor="device")) as opened:
        yield opened


def debug(operator, session, cases):
    options = DebugOptions(executor="device", cases=cases)
    return drain(run(operator.name, address(operator), options, session), lambda event: None)


@pytest.mark.parametrize("name", ["right", "in_place", "square"])
def test_right_operators_are_silent(name, session):
    assert debug(getattr(faulty, name), session, [{"N": 33}, {"N": 1}]).findings == ()


def test_wrong_values_and_unwritten_elements_are_found(session):
    assert {f.kind for f in debug(faulty.wrong_factor, session, [{"N": 33}]).findings} == {"mismatch"}
    assert {f.kind for f in debug(faulty.short_grid, session, [{"N": 33}]).findings} == {"unwritten-output"}


def test_guard_bands_show_a_write_beside_a_tensor():
    banded = Banded()
    with banded:
        tensor = torch.empty(100, device="cuda")
    assert banded.broken() == []
    memory = banded.bands[0][1]
    memory[BAND_BYTES + 100 * 4] = 0
    assert banded.broken() == [("allocation 0", 400)]
    assert tensor.isnan().all()


def test_the_tuned_configuration_is_used_from_then_on(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    from tilewright.kernels.masked_softmax import masked_softmax
    from tilewright.runtime.table import Table

    report = tw.tune(masked_softmax, cases=[{"M": 256, "N": 512}], table=Table())
    (choice,) = report.choices.values()
    assert choice.median_seconds is not None
    assert len(Table()) == 1
    comparison = tw.bench(masked_softmax, cases=[{"M": 256, "N": 512}], seconds=0.2, compile=False).comparisons[0]
    assert comparison.ratio > 0
