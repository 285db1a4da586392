"""Faulty kernels from public reports, each beside the same kernel mended, through ``tw.debug`` as a user calls it.

A file of ``cases/`` holds ``run`` (faulty, its line tagged BUG), ``fixed_run``, ``reference`` and ``inputs``;
``ADVERSARIAL`` are sizes that show the fault; planned cases have to find it without them.
"""

import importlib.util
from pathlib import Path

import pytest

import tilewright as tw

FOLDER = Path(__file__).parent / "cases"
FILES = sorted(FOLDER.glob("*.py"))
# What has to be among the findings, of all ADVERSARIAL sizes together and of the planned cases: any of the kinds, the parameter, at the BUG line.
WANTED = {
    "01": [({"out-of-bounds-write"}, "y_ptr", True), ({"write-write-race"}, "y_ptr", True)],
    "03": [({"mismatch"}, "y_ptr", False)],
    "04": [({"offset-overflow"}, "x_ptr", True), ({"out-of-bounds-read"}, "x_ptr", True)],
    "05": [({"out-of-bounds-read"}, "go_ptr", True)],
    "07": [({"uninitialized-read"}, "dst_ptr", False)],
    "09": [({"redundant-write"}, "out_ptr", True)],
    "10": [({"read-write-race"}, "dx_ptr", True), ({"write-write-race"}, "dx_ptr", True)],
    "12": [({"unwritten-output", "mismatch"}, "out_ptr", False)],
    "15": [({"non-finite"}, "out_ptr", True)],
    "17": [({"mismatch", "non-finite"}, "out_ptr", False)],
    "20": [({"out-of-bounds-read"}, "x_ptr", True)],
    "23": [({"undefined-lanes"}, "x_ptr", True)],
    "24": [({"out-of-bounds-read"}, "a_ptr", True)],
}


def case(path):
    spec = importlib.util.spec_from_file_location(f"case_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def report(module, run, planned=False):
    operator = tw.Operator(name=module.__name__, run=run, reference=module.reference, inputs=module.inputs)
    return tw.debug(operator, cases=None if planned else module.ADVERSARIAL, shrink_seconds=0 if planned else 0.5)


@pytest.mark.parametrize("planned", [False, True], ids=["adversarial", "planned"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_fault_is_found_at_its_line(path, planned):
    module = case(path)
    found = report(module, module.run, planned)
    bugs = {i + 1 for i, line in enumerate(path.read_text().splitlines()) if line.rstrip().endswith("# BUG")}
    for kinds, tensor, at_bug in WANTED[path.stem[:2]]:
        matching = [f for f in found.findings if f.kind in kinds and f.tensor == tensor]
        assert matching, found.findings
        assert not at_bug or any({f.line, f.origin_line} & bugs for f in matching), (matching, bugs)
    assert found.complete


@pytest.mark.parametrize("planned", [False, True], ids=["adversarial", "planned"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_mended_kernel_is_silent(path, planned):
    module = case(path)
    found = report(module, module.fixed_run, planned)
    assert [f for f in found.findings if f.severity == "error"] == []
    assert found.complete


def test_redundant_programs_are_a_warning_and_no_error():
    module = case(next(path for path in FILES if path.stem.startswith("09")))
    assert {f.severity for f in report(module, module.run).findings} == {"warning"}


def test_memory_that_the_host_initialised_is_not_uninitialised():
    module = case(next(path for path in FILES if path.stem.startswith("07")))
    operator = tw.Operator(name="dirty", run=module.run, reference=module.reference, inputs=module.inputs)
    found = tw.debug(operator, cases=[dict(n=257, dirty=True)])
    assert {f.kind for f in found.errors} == {"mismatch"}
