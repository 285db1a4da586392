"""What a Trial holds for: what compiler and chip get of a configuration, and what says that it is right."""

import tuned

from tilewright.hardware.targets import find
from tilewright.launch.capture import every_config, record
from tilewright.launch.compile import lower
from tilewright.launch.host import inputs_of
from tilewright.records import Case
from tilewright.spec.operator import replace as changed
from tilewright.spec.source import source_of
from tilewright.tune import keys

H100 = find("h100")


def codes(operator, n=100):
    inputs = inputs_of(operator, Case(operator.name, {"n": n}), drawn=False)
    launches = record(operator, inputs, H100, choose=every_config)
    return {str(launch.config): keys.code_of([launch], [lower(launch, H100)]) for launch in launches}


def test_configurations_and_sizes_are_told_apart_and_the_same_launch_is_known_again():
    first = codes(tuned.sum_reset)
    assert len(set(first.values())) == 2
    assert first == codes(tuned.sum_reset)
    assert not set(first.values()) & set(codes(tuned.sum_reset, n=101).values())


def test_a_shorter_list_of_configurations_leaves_the_code_of_the_rest_as_it_was():
    of_all, of_one = codes(tuned.sum_reset), codes(tuned.sum_of_one_configuration)
    assert of_one.items() <= of_all.items()


def test_the_source_is_that_of_launcher_reference_and_inputs_and_not_of_the_space():
    operator = tuned.sum_reset
    assert source_of(operator) == source_of(tuned.sum_reset)
    other = changed(operator, reference=lambda x: x.sum().reshape(1) + 1)
    assert source_of(operator) != source_of(other)
    assert source_of(operator) != source_of(changed(operator, mutates=("x",)))
