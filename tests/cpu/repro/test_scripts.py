"""Written scripts, run: with torch and triton alone they show the fault, and say where they cannot."""

import subprocess
import sys

import pytest
from parts import ops
from test_cases import FILES, case

import tilewright as tw
from tilewright.errors import UsageError


def written(operator, path, sizes):
    report = tw.debug(operator, cases=[sizes])
    return tw.write_repro(operator, report, path), path.read_text()


def run(path, *words):
    """What a script prints, and its exit status, with nothing of ours importable."""
    command = [sys.executable, "-I", *words, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=path.parent)
    return ended.stdout, ended.returncode


def test_an_autotuned_kernel_in_the_configuration_that_fails(tmp_path):
    found, text = written(ops.tuned, tmp_path / "tuned.py", {"N": 65, "BLOCK": 128})
    assert (found.finding.kind, found.status) == ("out-of-bounds-read", 1)
    assert "tuned_kernel.configs = [tuned_kernel.configs[2]]" in text
    assert "the fault showed" in text
    right = text.replace("offsets < n + 1", "offsets < n")
    assert right != text
    (tmp_path / "right.py").write_text(right)
    assert run(tmp_path / "right.py") == ("", 0)


def test_a_wrong_gradient_as_a_pytest(tmp_path):
    path = tmp_path / "test_gradient.py"
    found, text = written(ops.square, path, {"N": 65})
    assert (found.finding.kind, found.case.arguments, found.status) == ("mismatch", {"N": 1}, 1)
    shown, status = run(path, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert status == 1, shown
    assert "gradient of x differs in 1 of 1 elements" in shown
    assert "kernels.py:" in text.splitlines()[1], "the line of the finding, at the top"


def test_a_race_is_said_not_to_show(tmp_path):
    module = case(next(path for path in FILES if path.stem.startswith("10")))
    operator = tw.Operator(name="scatter", run=module.run, reference=module.reference, inputs=module.inputs)
    found, text = written(operator, tmp_path / "race.py", {"L": 70})
    assert (found.finding.kind, found.status) == ("read-write-race", 0)
    assert "the fault did not show. That says nothing" in text.replace("\n# ", " ")


def test_there_is_nothing_to_write_of_a_right_kernel(tmp_path):
    report = tw.debug(ops.tuned, cases=[{"N": 65, "BLOCK": 64}])
    assert tw.write_repro(ops.tuned, report, tmp_path / "none.py") is None
    assert not (tmp_path / "none.py").exists()


def test_what_cannot_be_cut_out_writes_nothing(tmp_path):
    report = tw.debug(ops.square, cases=[{"N": 3}])
    with pytest.raises(UsageError, match="made inside a function"):
        tw.write_repro(ops.made_inside, report, tmp_path / "none.py")
    assert not (tmp_path / "none.py").exists()
