"""The tune stage with no GPU: what fits is the compiler's word, the order a model's."""

from pathlib import Path

import faulty
import pytest

import tilewright as tw
from tilewright.errors import UsageError
from tilewright.hardware.targets import find
from tilewright.records import Case, Tried
from tilewright.runtime.table import Table
from tilewright.spec.load import load

EXAMPLE = Path(__file__).parents[2] / "examples" / "ragged_attention.py"
SHAPE = [{"B": 1, "H": 1, "M": 256, "N": 256, "D": 128}]


@pytest.fixture(scope="module")
def attention():
    """The mended example with a space of four, two of which are too large for an A100 but one fits an H100."""
    from tilewright.spec.operator import replace

    (operator,) = [o for o in load(str(EXAMPLE)) if o.name == "attention_mended"]
    space = tw.Space(BLOCK_M=[64], BLOCK_N=[64, 128], num_warps=[4], num_stages=[2, 4])
    return replace(operator, space=space)


@pytest.fixture(scope="module")
def survey(attention):
    events = []
    report = tw.tune(attention, targets=[find("a100"), find("h100")], cases=SHAPE, on_event=events.append)
    return report, events


def trials(report, chip):
    return next(found for (_, target), found in report.trials.items() if target == chip)


def test_configurations_that_need_too_much_shared_memory_are_infeasible_and_say_how_much(survey):
    report, _ = survey
    unfit = [t for t in trials(report, "a100") if t.status == "infeasible"]
    assert [dict(t.config.values)["num_stages"] for t in unfit] == [4]
    assert all(t.shared > find("a100").shared_per_block for t in unfit)
    assert "needs 224 KiB of shared memory, a program on a100 has 163" in unfit[0].reason


def test_what_fits_has_registers_spills_occupancy_and_a_place_in_the_order(survey):
    report, _ = survey
    for chip in ("a100", "h100"):
        fitting = [t for t in trials(report, chip) if t.status == "compiled"]
        assert len(fitting) >= 2
        for trial in fitting:
            (needs,) = trial.resources
            assert 32 <= needs.registers <= 255
            assert needs.spill_stores is not None
            assert needs.shared == trial.shared <= find(chip).shared_per_block
            assert 0 < trial.occupancy <= 1
            assert trial.limited_by in ("registers", "shared", "warps", "blocks")
        predicted = [t.predicted_seconds for t in fitting]
        assert predicted == sorted(predicted)


def test_every_configuration_yields_one_trial(survey):
    _, events = survey
    tried = [e.trial for e in events if isinstance(e, Tried)]
    assert len({(t.target, t.config.key) for t in tried}) == len(tried) == 8


def test_an_autotuned_kernel_brings_its_own_configurations():
    report = tw.tune(faulty.tuned, targets=[find("h100")], cases=[{"n": 1000}])
    found = [dict(t.config.values) for t in trials(report, "h100")]
    assert sorted((c["BLOCK"], c["num_warps"]) for c in found) == [(32, 4), (32, 8), (64, 4), (64, 8)]


def test_without_a_target_and_without_a_gpu_the_remedy_is_named():
    with pytest.raises(UsageError, match="--arch"):
        tw.tune(faulty.tuned, cases=[{"n": 1000}])


def test_an_operator_uses_its_tuned_configuration_only_for_the_same_shape(attention, tmp_path, monkeypatch):
    import torch

    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "choices.json"))
    given = {}
    tuned = tw.Operator(
        name="probe",
        run=lambda x, *, BLOCK=1: given.update(BLOCK=BLOCK),
        inputs=lambda n=4: (torch.ones(n),),
        space=tw.Space(BLOCK=[1, 8]),
    )
    inputs = tuned.make_inputs(Case("probe", {"n": 4}))
    Table().put("probe", tuned.shape_key(inputs.args, {}), "cpu", {"BLOCK": 8})
    tuned(torch.ones(4))
    assert given == {"BLOCK": 8}
    tuned(torch.ones(5))
    assert given == {"BLOCK": 1}
    tuned(torch.ones(4), BLOCK=1)
    assert given == {"BLOCK": 1}
    Table().put("probe", tuned.shape_key(inputs.args, {}), "cpu", {"BLOCK": 16})  # the space has changed since
    tuned(torch.ones(4))
    assert given == {"BLOCK": 1}
