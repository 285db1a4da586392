"""What was compiled from text lies in Triton's cache, and can be taken elsewhere (test_bundle.py: launches find it)."""

from pathlib import Path

import pytest

from tilewright import process
from tilewright.hardware.targets import find
from tilewright.launch import kept
from tilewright.launch.capture import record
from tilewright.launch.compile import lower
from tilewright.records import Case, Config
from tilewright.spec.load import load

SIZES = {"M": 64, "N": 96}
CONFIG = Config({"BLOCK_M": 2, "num_warps": 4, "num_stages": 1})


@pytest.fixture(scope="module")
def softmax():
    (operator,) = load("masked_softmax")
    return operator


def compiled(operator, chip, folder):
    case, target = Case(operator.name, SIZES, "bf16"), find(chip)
    found = []
    for launch in record(operator, operator.make_inputs(case, drawn=False), target, CONFIG):
        job = lower(launch, target)
        given = dict(ttir=job.ttir, target=job.target, name=job.asked.name, source=job.asked.source)
        arguments = {**given, "options": job.asked.options, "triton_key": kept.triton_key(), "folder": str(folder)}
        found.append(process.run(kept.TASK, arguments))
    return found


def test_what_was_compiled_from_text_can_be_put_into_the_cache_of_another_machine(softmax, tmp_path, monkeypatch):
    from triton import knobs

    here, there = tmp_path / "here", tmp_path / "there"
    (one,) = compiled(softmax, "h100", here)
    assert one.resources.registers > 0
    assert one.resources.spill_stores == 0
    monkeypatch.setattr(knobs.cache, "dir", str(here))
    assert kept.is_there(one)
    files = kept.contents(one)
    monkeypatch.setattr(knobs.cache, "dir", str(there))
    assert not kept.is_there(one)
    kept.put_back(one, files)
    here.rename(tmp_path / "gone")  # what was taken along names no place it came from
    assert kept.is_there(one)
    assert {p.suffix for p in map(Path, files)} >= {".cubin", ".ptx", ".json"}
