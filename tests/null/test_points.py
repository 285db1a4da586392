"""Points: what is known of a configuration without a GPU."""

from tilewright.records import Case, Config, Resources, Trial, from_dict, to_dict
from tilewright.tune.points import points_of


def trial(**fields):
    return Trial("op", Case("op", {}), Config({"BLOCK": 64}), "sm_90", "compiled", **fields)


def test_of_several_kernels_the_most_any_needs():
    small, large = Resources(1024, 32, 0, None, None, 4, 0.1), Resources(2048, 64, 8, 100, 60, 2, 0.1)
    (point,) = points_of([trial(shared=2048, resources=(small, large), occupancy=0.5, predicted_seconds=1e-3)])
    expected = dict(shared=2048, registers=64, stack=8, spills=160, warps=4, occupancy=0.5)
    assert point.features == expected
    assert point.predicted_seconds == 1e-3


def test_what_a_trial_adds_is_a_feature_and_survives_the_store():
    kept = from_dict(to_dict(trial(features={"dot rows": 64.0}, binary="abc")))
    (point,) = points_of([kept])
    assert point.features == {"dot rows": 64.0}
    assert point.binary == "abc"


def test_nothing_known_is_no_feature():
    (point,) = points_of([trial()])
    assert (point.features, point.binary, point.predicted_seconds) == ({}, "", None)
