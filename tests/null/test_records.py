"""Records go to JSON and come back the same; cases are named the same everywhere."""

import dataclasses
import json
import math
import subprocess
import sys

import pytest

from tilewright import records
from tilewright.records import (
    Advice,
    Case,
    CaseDone,
    CaseResult,
    Change,
    Choice,
    Chosen,
    Compared,
    Comparison,
    Config,
    DebugReport,
    Disagreement,
    Edit,
    Environment,
    Finding,
    Measured,
    Measurement,
    Note,
    Progress,
    Remedy,
    Resources,
    StageFinished,
    StageReport,
    StageStarted,
    Timing,
    Trial,
    Tried,
    drain,
    from_dict,
    to_dict,
    worst,
)

CASE = Case(
    "attention", {"M": 129, "N": 127, "batch": (2, 3), "causal": True, "scale": 0.5}, "bf16", "sliced", "large", 7
)
CONFIG = Config({"BLOCK_M": 64, "num_warps": 4, "PRECISION": "tf32", "swizzle": None})
REMEDY = Remedy("missing-mask", (Edit("a.py", 41, "mask=offs_n < N"), Edit(None, None, "in 64 bits")), 48)
FINDING = Finding(
    "out-of-bounds-read", "reads past the end", "warning", "k_ptr", "k", "a.py", 41, "k = tl.load(p)", 40,
    (1, 0, 0), 2, 128, (0, 127), CASE, "missing-mask", "mask it", (("N", 127),), (REMEDY,),
)  # fmt: skip
DISAGREEMENT = Disagreement(
    "output", (16, 32), "fp16", 3, 512, (0, 31), math.inf, 1.5, math.inf, (8, 8), (2, 4), (0.0, math.inf, 0.5)
)
RESULT = CaseResult(CASE, (FINDING, Finding("mismatch", "differs")), (DISAGREEMENT,), 12.5, 2, 64, 0.25)
RESOURCES = Resources(49152, 128, 0, 16, None, 8, 1.25)
TRIAL = Trial(
    "attention", CASE, CONFIG, "h100", "timed", "", 49152, (RESOURCES, RESOURCES), 0.5, "registers", 1.5,
    1e-3, 1.1e-3, 1.0e-3, 1.2e-3, 0.25,
)  # fmt: skip
TIMING = Timing("ours", 3, 2e-5, 1e-5, 3e-5, 1755, 1e14, math.nan, (1e-5, 2e-5, 3e-5))
COMPARISON = Comparison(
    "attention", CASE, "prefill", "sdpa", 1.2, 1.1, 1.3, "FASTER", "device, cold L2", TIMING, TIMING, 0.01, CONFIG
)
MEASUREMENT = Measurement(
    "attention", CASE, "prefill", "device, cold L2", 1, True, ("ours", "sdpa"), (1, 0, 0, 1), (2e-5, 1e-5, 1e-5, 2e-5),
    (1980.0, 1980.0, 1755.0, 1980.0), (0,), ("other processes on the GPU",), 0.01, 0.2, CONFIG, 1e9, None,
)  # fmt: skip
REPORT = StageReport("debug", "attention", "findings", 1, "1 finding")
SAMPLES = [
    Environment(
        "NVIDIA H100", "sm_90", "570", 1755, 1980, 700.0, "AMD EPYC", 64, "3.12", "2.11", "3.6.0", None, "12.8", "2.3",
        "0.1.0", None, "2026-03-01T09:30:00+00:00",
    ),
    CASE,
    Case("empty", {}),
    REMEDY.edits[0],
    REMEDY,
    FINDING,
    Finding("mismatch", "differs"),
    DISAGREEMENT,
    RESULT,
    DebugReport("attention", "interpreter", (RESULT, CaseResult(CASE)), False, ("a note",), {"mismatch": CASE}),
    CONFIG,
    RESOURCES,
    TRIAL,
    Trial("attention", CASE, CONFIG, "a100", "infeasible", "too much shared memory"),
    Choice("attention", CASE, CONFIG, "NVIDIA H100", "3.6.0", "ab12", 1e-3, None, {"trials": 9, "steps": (1, 2)}),
    Advice(
        "attention", CASE, CONFIG, "spills", "76 bytes are spilled", "a.py", 3, "acc = 0", "attend", "a100", "a smaller tile", "", {"stores": 76}
    ),
    MEASUREMENT,
    Change("attention", CASE, "prefill", "main", "", "UNDECIDED", "not measured then", config=CONFIG),
    TIMING,
    COMPARISON,
    REPORT,
    StageStarted("debug", "attention", 12, "the interpreter"),
    Progress("debug", 3, "M129"),
    CaseDone(RESULT),
    Tried(TRIAL),
    Chosen(Choice("attention", CASE, CONFIG, "NVIDIA H100", "3.6.0", "ab12", 1e-3, None, {})),
    Measured(MEASUREMENT),
    Compared(COMPARISON),
    Note("a limit"),
    StageFinished(REPORT),
]  # fmt: skip


def same(one, other):
    """Equality that takes NaN for itself, and a list for no tuple."""
    if dataclasses.is_dataclass(one):
        fields = dataclasses.fields(one)
        return type(one) is type(other) and all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


def through_json(record):
    return from_dict(json.loads(json.dumps(to_dict(record), allow_nan=False)))


def test_every_record_and_event_has_a_sample_here():
    defined = {v for v in vars(records).values() if dataclasses.is_dataclass(v) and isinstance(v, type)}
    assert {type(sample) for sample in SAMPLES} == defined


@pytest.mark.parametrize("record", SAMPLES, ids=lambda record: type(record).__name__)
def test_a_record_comes_back_the_same_through_json(record):
    assert same(through_json(record), record)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_values_that_json_does_not_know_come_back_as_floats_wherever_they_are(value):
    assert same(through_json(dataclasses.replace(TIMING, median=value)), dataclasses.replace(TIMING, median=value))
    for record in (Case("f", {"scale": value}), Config({"limits": (1.0, value)}), Case("f", {"a": {"b": value}})):
        assert same(through_json(record), record)


def test_words_that_look_like_numbers_stay_words():
    record = Case("f", {"mode": "nan", "fill": "inf"})
    assert same(through_json(record), record)


def test_a_record_says_its_type_and_the_schema():
    assert to_dict(Note("text")) == {"type": "Note", "schema": records.SCHEMA_VERSION, "text": "text"}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"type": "Nonsense"}, "unknown record type 'Nonsense'"),
        ({"type": "Any"}, "unknown record type 'Any'"),
        ({"type": None}, "unknown record type None"),
        ({"schema": records.SCHEMA_VERSION + 1}, "record schema 2; this tilewright reads up to 1"),
        ({"schema": None}, "record schema None"),
    ],
)
def test_what_cannot_be_read_is_refused_in_words(change, words):
    with pytest.raises(ValueError, match=words):
        from_dict({**to_dict(Note("text")), **change})


def test_fields_that_a_later_minor_version_added_are_passed_over():
    assert from_dict({**to_dict(Note("text")), "colour": "red"}) == Note("text")


def test_defaults_stand_for_fields_that_an_older_version_did_not_write():
    data = to_dict(CASE)
    del data["seed"], data["values"]
    assert from_dict(data) == dataclasses.replace(CASE, seed=0, values="normal")


# ---------------------------------------------------------------------------------------------------- cases


def test_a_case_has_the_same_id_in_every_process_and_order():
    case = Case("f", {"N": 3, "M": 5, "names": {"a", "b", "c", "d", "e"}}, "bf16")
    assert case.id == Case("f", {"names": {"e", "d", "c", "b", "a"}, "M": 5, "N": 3}, "bf16").id
    code = (
        "from tilewright.records import Case;"
        "print(Case('f', {'N': 3, 'M': 5, 'names': {'a', 'b', 'c', 'd', 'e'}}, 'bf16').id)"
    )
    for seed in ("1", "2"):
        env = {"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)}
        out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
        assert out.strip() == case.id
    # What a user types after --case today must still name the case tomorrow.
    assert Case("softmax", {"M": 129, "N": 127}, "bf16").id == "7803f7e9"


def test_all_parts_of_a_case_make_its_id():
    cases = [
        Case("f", {"M": 1}),
        Case("g", {"M": 1}),
        Case("f", {"M": 2}),
        Case("f", {"N": 1}),
        Case("f", {"M": 1}, "fp16"),
        Case("f", {"M": 1}, layout="sliced"),
        Case("f", {"M": 1}, values="large"),
        Case("f", {"M": 1}, seed=1),
    ]
    assert len({case.id for case in cases}) == len(cases)
    assert all(len(case.id) == 8 and int(case.id, 16) >= 0 for case in cases)


def test_the_id_survives_the_way_through_json():
    assert through_json(CASE).id == CASE.id


def test_cases_are_keys():
    assert {CASE: 1}[through_json(CASE)] == 1


@pytest.mark.parametrize(
    ("case", "label"),
    [
        (Case("f", {}), "no arguments"),
        (Case("f", {"M": 129, "N": 127, "causal": True}, "bf16"), "M129 N127 causal=True bf16"),
        (Case("f", {"HD": 64, "size": 3, "x2": 5}), "HD64 size=3 x2=5"),
        (Case("f", {"M": 1}, "fp32", "sliced", "large"), "M1 fp32 sliced large"),
        (Case("f", {"p": 0.5, "batch": (2, 3)}), "p=0.5 batch=(2, 3)"),
    ],
)
def test_a_label_says_a_case_in_a_few_words(case, label):
    assert case.label == label


# -------------------------------------------------------------------------------------------------- reports


def test_configs_are_equal_by_their_values_in_any_order():
    one, other = Config({"A": 1, "B": 2}), Config({"B": 2, "A": 1})
    assert one == other
    assert hash(one) == hash(other)
    assert one.key == other.key
    assert str(one) == "A=1 B=2"
    assert Config({"A": 1}).key != Config({"A": "1"}).key


def report(*findings, complete=True):
    return DebugReport("f", "interpreter", tuple(CaseResult(CASE, (finding,)) for finding in findings), complete)


def test_a_fault_seen_in_several_cases_is_reported_once():
    here = Finding("mismatch", "first", tensor="y", file="a.py", line=3)
    again = Finding("mismatch", "second", tensor="y", file="a.py", line=3)
    elsewhere = Finding("mismatch", "third", tensor="y", file="a.py", line=4)
    assert report(here, again, elsewhere).findings == (here, elsewhere)


@pytest.mark.parametrize(
    ("given", "code"),
    [
        (report(), 0),
        (report(complete=False), 4),
        (report(Finding("mismatch", "m")), 1),
        (report(Finding("mismatch", "m"), complete=False), 1),
        (report(Finding("mismatch", "m", "warning")), 0),
        (report(Finding("unsupported", "m"), complete=False), 4),
    ],
)
def test_exit_codes_of_a_debug_report(given, code):
    assert given.exit_code == code


def test_drain_hands_on_each_event_and_returns_what_the_stage_returned():
    def stage():
        yield Note("one")
        yield Note("two")
        return "the report"

    seen = []
    assert drain(stage(), seen.append) == "the report"
    assert seen == [Note("one"), Note("two")]


def test_scalars_of_numpy_are_numbers():
    numpy = pytest.importorskip("numpy")
    plain = Case("f", {"M": 3, "p": 0.5, "flag": False})
    assert Case("f", {"M": numpy.int64(3), "p": numpy.float32(0.5), "flag": numpy.bool_(False)}).id == plain.id


def test_the_worst_finding_is_the_first_of_the_gravest():
    note, limit = Finding("nondeterministic", "", "note"), Finding("unsupported", "")
    warning, fault, beside = (
        Finding("redundant-write", "", "warning"),
        Finding("mismatch", "a"),
        Finding("mismatch", "b"),
    )
    assert worst([note, limit]) is None
    assert worst([note, limit, warning]) is warning
    assert worst([note, limit, warning, fault, beside]) is fault
