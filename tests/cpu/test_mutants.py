"""The mutation study's machinery, and a sample of its mutants that must all be found."""

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "proof"))

from mutation.choose import chosen, every_mutant, write
from mutation.judge import ByHand, judged
from mutation.remedies import is_undone, readings
from mutation.source import parsed
from mutation.subjects import subjects
from mutation.uses import lines_of

import tilewright as tw
from tilewright.records import to_dict
from tilewright.spec.load import load

SUBJECTS = {subject.name: subject for subject in subjects()}
SAMPLE = [
    ("vector_add", "mask: drop mask=mask"),
    ("case_10_halo_rmw_lost_update", "mask: drop q >= 0"),
    ("case_07_atomic_add_into_empty", "other: drop other"),
    ("histogram_of_tiles", "other: other 0 -> 1"),
    ("rotary_in_place", "stride: swap HALF and 1"),
    ("transpose", "stride: swap N and 1"),
    ("histogram", "atomic: atomic_add -> load and store"),
    ("case_10_halo_rmw_lost_update", "atomic: atomic_add -> store"),
    ("quantise_rows", "accumulator: largest in float16"),
    ("case_04_int32_row_offset_overflow", "offset: row to int32"),
    ("case_17_fp16_accumulator", "bound: o < n -> n - 1"),
    ("unpacked_integers", "bound: lanes < n -> n + 1"),
]


def mutant(operator, mutation):
    return next(m for m in every_mutant(SUBJECTS[operator]) if f"{m.kind}: {m.what}" == mutation)


def found(one, folder):
    """The findings of severity error on a mutant, as the study sees them."""
    (operator,) = load(f"{write(one.files, folder / one.id)}:{one.subject.name}")
    report = tw.debug(operator, shrink_seconds=0, cause_seconds=0)
    return [to_dict(finding) for finding in report.errors]


@pytest.mark.parametrize(("operator", "mutation"), SAMPLE, ids=[f"{o}-{m}" for o, m in SAMPLE])
def test_a_mutant_is_found(operator, mutation, tmp_path):
    one = mutant(operator, mutation)
    verdict = judged(one, {"findings": found(one, tmp_path)}, ByHand({}, {}))
    assert verdict.outcome == "found", verdict.findings


def test_mutants_differ_from_their_original_and_keep_its_lines():
    for name in ("masked_softmax", "split_k_matmul"):
        every = list(every_mutant(SUBJECTS[name]))
        assert len({one.key for one in every}) == len(every)
        for one in every:
            original = one.subject.files[one.module]
            assert len(one.mutated.splitlines()) == len(original.splitlines()), one.key
            assert ast.dump(ast.parse(one.mutated)) != ast.dump(ast.parse(original)), one.key


def test_entries_judged_by_hand_have_their_mutants():
    assert ByHand.read().stale([one for subject in SUBJECTS.values() for one in chosen(subject)]) == []


def test_lines_that_use_what_a_mutated_line_defines():
    one = mutant("layer_norm", "bound: cols < N -> N - 1")
    sources = {module: parsed(text) for module, text in one.subject.files.items()}
    lines = lines_of(sources, one.module, one.function, one.edits)
    text = one.subject.files[one.module].splitlines()
    readers = [i + 1 for i, line in enumerate(text) if "mask=mask" in line or "where(mask" in line]
    of_kernel = {("operator", n) for n in readers if one.line < n < one.line + 15}
    assert lines.mutated == {("operator", one.line)}
    assert of_kernel <= lines.uses
    assert lines.nearness([("operator", 1)]) == "elsewhere"


SWAPPED = "x_ptr + rm[:, None] * stride_xm + rn[None, :] * stride_xn: stride_xm and stride_xn have changed places"


@pytest.mark.parametrize(
    ("operator", "mutation", "edit"),
    [
        ("vector_add", "mask: drop mask=mask", "mask=mask"),
        ("segment_sum", "other: drop other", "other=0.0"),
        ("transposition", "stride: swap stride_xm and stride_xn", SWAPPED),
    ],
)
def test_a_remedy_that_undoes_the_mutation_is_told_from_one_that_does_not(operator, mutation, edit):
    one = mutant(operator, mutation)
    printed = {"file": f"{one.module}.py", "line": one.line, "text": edit}
    assert any(is_undone(one, files) for files in readings(one, [printed]))
    assert not any(is_undone(one, files) for files in readings(one, [{**printed, "text": "other=7.0"}]))
