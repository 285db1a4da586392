"""``tune --why``: each kind of advice at the line it is about, and none for what is as it should be."""

import json
import linecache
import re

import pytest
import slow

from tilewright.cli.main import main
from tilewright.errors import UsageError
from tilewright.hardware.targets import find_all
from tilewright.records import ADVICE_KINDS, drain, from_dict, to_dict
from tilewright.spec.load import load
from tilewright.tune.advice import ptx, sass
from tilewright.tune.advice.evidence import Compiling
from tilewright.tune.advice.stage import WhyOptions, run


@pytest.fixture(scope="module")
def advised():
    """Advice on an operator; all compile in the same children."""
    with Compiling(workers=1) as children:

        def ask(operator, chips="h100", config=None, **case):
            options = WhyOptions(targets=find_all(chips), cases=[case] if case else None, config=config or {})
            return drain(run(operator, options, children), lambda event: None).all

        yield ask


def kinds(found):
    return {one.kind for one in found}


@pytest.fixture(scope="module")
def everything(advised):
    return advised(slow.everything)


def test_each_slow_line_is_advised_on_and_no_other(everything):
    marked = re.compile(r"# slow: ([\w-]+)$")
    lines = enumerate(linecache.getlines(slow.__file__), 1)
    expected = {(number, found[1]) for number, line in lines if (found := marked.search(line.rstrip()))}
    assert {(one.line, one.kind) for one in everything} == expected
    assert {kind for _, kind in expected} <= set(ADVICE_KINDS)


def test_advice_names_the_arguments_and_what_to_write(everything):
    said = {(one.kernel, one.kind): one for one in everything}
    rows = said["rows", "narrow-access"]
    assert "N = 1000 is a multiple of 8, stride = 1000 is a multiple of 8" in rows.message
    assert "`N = N // 8 * 8; stride = stride // 8 * 8`" in rows.remedy
    assert rows.figures == {"bytes": 2, "possible": 16, "arguments": {"N": 1000, "stride": 1000}}
    odd = said["odd_rows", "narrow-access"]
    assert "2046 bytes" in odd.message
    assert odd.remedy.startswith("pad the rows that stride counts to 1024")
    assert "x_ptr starts 2 bytes behind" in said["shifted", "narrow-access"].message
    assert "do_not_specialize" in said["unspecialised", "narrow-access"].remedy
    assert "start = tl.multiple_of(start, 8)" in said["ragged", "narrow-access"].remedy
    assert all(one.file == slow.__file__ and one.source in linecache.getline(one.file, one.line) for one in everything)
    assert all(from_dict(json.loads(json.dumps(to_dict(one)))) == one for one in everything)


def test_a_matmul_of_1000_loses_its_wide_loads_and_one_of_1024_does_not(advised):
    found = advised(slow.matmul, S=1000)
    narrow = [one for one in found if one.kind == "narrow-access"]
    blamed = [set(one.figures["arguments"]) for one in narrow]
    assert blamed == [{"K", "stride_a"}, {"N", "stride_b"}, {"N", "stride_c"}]
    assert [one.figures["bytes"] for one in narrow] == [2, 2, 2]
    (waiting,) = [one for one in found if one.kind == "no-overlap"]
    assert "less than the 4 of an asynchronous copy" in waiting.message
    assert kinds(found) == {"narrow-access", "no-overlap", "tail-wave"}
    assert kinds(advised(slow.matmul, S=1024)) == {"tail-wave"}


@pytest.mark.parametrize(
    ("chip", "config", "kind", "says"),
    [
        ("h100", {}, None, ""),
        ("h100", {"num_stages": 1}, "no-overlap", "num_stages=3: compiled so"),
        ("a100", {"num_stages": 2}, "no-overlap", "num_stages=3: compiled so"),
        ("h100", {"num_stages": 2}, None, ""),
        ("h100", {"num_stages": 2, "BLOCK_N": 256}, "no-overlap", "num_stages=3: compiled so"),
        ("h100", {"BRANCHED": True}, "no-overlap", "a bound of the loop"),
        ("h100", {"num_warps": 2, "BLOCK_N": 64}, "matrix-unit", "num_warps=4"),
        ("h100", {"num_warps": 4, "BLOCK_M": 32}, "matrix-unit", "compute the transpose, whose tile has 128 rows"),
        ("b200", {"num_warps": 4, "BLOCK_M": 32}, "matrix-unit", "tiles of 64 rows"),
        ("a100", {"num_warps": 4, "BLOCK_M": 32}, None, ""),
        (
            "a100",
            {"num_warps": 1, "BLOCK_M": 32, "BLOCK_N": 64, "num_stages": 4, "BLOCK_K": 128},
            "few-warps",
            "num_warps=4",
        ),
        ("a100", {"maxnreg": 64}, "spills", "a maxnreg above 64"),
        ("h100", {"SCALED": True}, "layout-conversion", "before it"),
    ],
)
def test_configurations_of_one_matmul(advised, chip, config, kind, says):
    found = advised(slow.matmul, chip, config)
    assert kinds(found) == ({kind} if kind else set())
    assert all(says in one.remedy for one in found)


@pytest.mark.parametrize(
    ("name", "chips", "case"),
    [
        ("matmul", "h100,b200", {"M": 4096, "N": 4096, "K": 4096, "dtype": "bf16"}),
        ("attention", "h100", {"B": 2, "H": 16, "M": 4096, "N": 4096, "D": 128, "G": 1, "dtype": "bf16"}),
        ("masked_softmax", "a100", {"M": 8192, "N": 1000, "dtype": "bf16"}),
    ],
)
def test_the_librarys_kernels_get_no_advice_where_they_are_good(advised, name, chips, case):
    assert advised(load(name)[0], chips, **case) == ()


def test_few_rows_are_bound_by_memory_and_a_matrix_unit_would_not_help(advised):
    found = advised(load("matmul")[0], M=16, N=16384, K=8192, dtype="bf16")
    assert "matrix-unit" not in kinds(found)


def test_the_command_keeps_and_shows_what_it_found(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    words = ["tune", f"{slow.__file__}:matmul", "--why", "--arch", "h100,mi300", "--config", "num_stages=1"]
    monkeypatch.setattr("sys.argv", ["tilewright", *words, "--json", "out.json"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    said = capfd.readouterr().out
    assert re.search(r"no-overlap  h100   .*slow\.py:\d+   a = tl\.load", said)
    assert "try    num_stages=3: compiled so" in said
    assert "note: mi300x: only resources and the grid are looked at" in said
    assert "nothing to advise on mi300x" in said
    (kept,) = json.loads((tmp_path / "out.json").read_text())["records"]
    assert (kept["type"], kept["kind"], kept["config"]["values"]["num_stages"]) == ("Advice", "no-overlap", 1)


def test_loads_of_a_descriptor_that_nothing_copies_ahead(advised):
    (one,) = advised(slow.described, config={"num_stages": 1})
    assert (one.kind, one.source) == ("no-overlap", "total = tl.dot(a.load([m, k]), b.load([k, n]), total)")
    assert one.remedy.startswith("num_stages=2: compiled so")
    assert advised(slow.described) == ()


def test_an_autotuned_kernel_is_looked_at_in_the_configuration_asked_for(advised):
    (one,) = advised(slow.tuned)
    assert (one.kind, one.config.values["BLOCK"]) == ("few-warps", 32)
    assert advised(slow.tuned, config={"BLOCK": 1024}) == ()
    with pytest.raises(UsageError, match="no configuration of the autotuner has BLOCK=77; it has BLOCK=32"):
        advised(slow.tuned, config={"BLOCK": 77})


def test_a_configuration_that_is_none_is_refused(advised):
    with pytest.raises(UsageError, match="no meta-parameter BLOCK; its space has BLOCK_M"):
        advised(slow.matmul, config={"BLOCK": 1})
    with pytest.raises(UsageError, match="has no space, and launches no autotuned kernel"):
        advised(slow.everything, config={"BLOCK": 1})


def test_loops_are_seen_where_code_of_a_loop_stands_behind_its_end():
    text = """
        /*0000*/  MOV R1, R2 ;
.L_x_1:
	//## File "ttir", line 512
        /*0010*/  LDL R3, [R1] ;
        /*0020*/  @!P0 BRA `(.L_x_9) ;
.L_x_2:
        /*0030*/  @P1 BRA `(.L_x_1) ;
        /*0040*/  STL [R1], R3 ;
        /*0050*/  EXIT ;
.L_x_9:
        /*0060*/  SYNCS R4 ;
        /*0070*/  BRA `(.L_x_2) ;
"""
    loops = [one.opcode for one in sass.read(text) if one.in_loop]
    assert loops == ["LDL", "BRA", "BRA", "SYNCS", "BRA"]
    assert [one.origin for one in sass.read(text)][:2] == [None, 2]


def test_ptx_widths():
    def width(line):
        (one,) = ptx.read(line)
        return one.global_bytes

    assert width("	@%p1 ld.global.L1::evict_last.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 + 0 ];") == 16
    assert width("	st.global.v2.b16 [ %rd1 + 0 ], { %rs1, %rs2 };") == 4
    assert width("	cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x8, %r3;") == 8
    assert width("	ld.shared.v4.b32 { %r1, %r2, %r3, %r4 }, [%r5];") is None
