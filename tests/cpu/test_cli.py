"""The command line as a user meets it: exit codes, one-line errors, records, the report."""

import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.cli.main import main
from tilewright.hardware.probe import environment
from tilewright.records import Case
from tilewright.store.db import Store

ROOT = Path(__file__).parents[2]
KERNELS = Path(__file__).parent / "kernels"
FAULTY = str(KERNELS / "faulty.py")


def tilewright(*words, cwd, stdin="", **env):
    environment = {**os.environ, "TILEWRIGHT_STORE": "", "PYTHONPATH": str(ROOT / "src"), **env}
    environment = {name: value for name, value in environment.items() if value != ""}
    return subprocess.run(
        [sys.executable, "-m", "tilewright", *words],
        cwd=cwd,
        env=environment,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_debug_then_repeat_the_smallest_case_then_step_into_it(tmp_path):
    first = tilewright("debug", f"{FAULTY}:wild_load", "--json", "out.json", "--html", "out.html", cwd=tmp_path)
    assert first.returncode == 1, first.stderr
    assert "out-of-bounds-read" in first.stdout
    assert "the wild load" in first.stdout
    assert "\x1b" not in first.stdout
    data = json.loads((tmp_path / "out.json").read_text())
    assert (data["schema"], data["exit_code"]) == (1, 1)
    assert any(r["type"] == "DebugReport" for r in data["records"])
    assert "out-of-bounds-read" in (tmp_path / "out.html").read_text()
    case = re.search(r"--case (\w+)", first.stdout).group(1)
    again = tilewright("debug", f"{FAULTY}:wild_load", "--case", case[:5], "--pdb", stdin="p n\nq\n", cwd=tmp_path)
    assert again.returncode == 1
    assert "*** program (0, 0, 0), before line" in again.stdout
    assert "reads x_ptr[1]" in again.stdout
    assert "x = tl.load(x_ptr + offsets)" in again.stdout
    history = tilewright("history", cwd=tmp_path)
    assert history.stdout.count("wild_load") == 2


def test_an_exported_triton_interpret_means_the_interpreter(tmp_path):
    ended = tilewright("debug", f"{FAULTY}:right", "--case", "N=33", "--no-store", cwd=tmp_path, TRITON_INTERPRET="1")
    assert ended.returncode == 0, ended.stderr
    assert "PASS" in ended.stdout
    assert not (tmp_path / ".tilewright").exists()


def test_a_bare_kernel_is_debugged_with_example_arguments(tmp_path):
    arguments = "torch.randn(100), torch.empty(100), 100, 2.0, MASK_LOAD=False, MASK_STORE=True, BLOCK=64"
    ended = tilewright(
        "debug", f"{FAULTY}:scale_kernel", "--args", arguments, "--grid", "(2,)", "--json", "-", cwd=tmp_path
    )
    assert ended.returncode == 1, ended.stderr
    records = json.loads(ended.stdout)["records"]  # nothing else on stdout
    (report,) = [r for r in records if r["type"] == "DebugReport"]
    assert report["results"][0]["findings"][0]["kind"] == "out-of-bounds-read"


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["debug", "nowhere.py"], 2, "no such file: nowhere.py"),
        (["debug", "no.such.module:thing"], 2, "no module named 'no.such.module'"),
        (["debug", "nothing-of-the-kind"], 2, "library operators: attention, masked_softmax, matmul"),
        (["debug", f"{FAULTY}:absent"], 2, "no operator named 'absent'"),
        (["debug", "empty.py"], 2, "no operator in empty.py"),
        (["debug", "raises.py"], 2, "raises.py:2: ZeroDivisionError"),
        (["debug", "broken.py"], 2, "broken.py:1:"),
        (["debug", "unannotated.py"], 2, "launcher(x)"),
        (["debug", f"{FAULTY}:right", "--case", "Q=3"], 2, "has no dim, option or meta-parameter 'Q'"),
        (["debug", f"{FAULTY}:right", "--case", "abcd"], 2, "no case abcd"),
        (["debug", f"{FAULTY}:right", "--as", "z80"], 2, "z80"),
        (["debug", f"{FAULTY}:scale_kernel"], 2, "bare kernel"),
        (["tune", f"{FAULTY}:tuned", "--arch", "h1000"], 2, "h1000"),
        (["bench", f"{FAULTY}:tuned"], 3, "no GPU here"),
        (["debug", f"{FAULTY}:right", "--device"], 3, "no GPU here"),
        (["debug", "refless.py"], 2, "the reference raised"),
        (["tune", f"{FAULTY}:tuned", "--workers", "0"], 2, "'--workers'"),
        (["tune", f"{FAULTY}:tuned", "--top", "-1"], 2, "'--top'"),
        (["run", f"{FAULTY}:tuned", "--budget", "-1"], 2, "'--budget'"),
        (["debug", f"{FAULTY}:tuned", "--budget", "-1"], 2, "'--budget'"),
        (["debug", f"{FAULTY}:tuned", "--seed", "-1"], 2, "'--seed'"),
        (["bench", f"{FAULTY}:tuned", "--seconds", "0"], 2, "'--seconds'"),
        (["bench", f"{FAULTY}:tuned", "--device", "tpu"], 2, "--device takes cuda or cpu"),
        (["history", "--limit", "0"], 2, "'--limit'"),
        (["tune"], 2, "no operator named"),
        (["nothing"], 2, "No such command"),
        (
            ["tune", f"{FAULTY}:right", "--arch", "h100", "--case", "N=64", "--dtype", "fp64"],
            2,
            "declares no dtype fp64",
        ),
        (["tune", f"{FAULTY}:tuned", "--arch", "h100", "--dtype", "bf16"], 2, "its inputs() takes no dtype"),
        (["tune", f"{FAULTY}:right", "--arch", "h100", "--case", "N=-3"], 2, "N=-3 is no size"),
        (["tune", f"{FAULTY}:right", "--arch", "h100", "--case", "N=2.5"], 2, "N=2.5 is no size"),
        (
            ["tune", "inputless.py", "--arch", "h100"],
            2,
            "inputless.py:3: made: making the inputs of no arguments raised",
        ),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(words, code, says, tmp_path, monkeypatch, capfd):
    (tmp_path / "empty.py").write_text("x = 1\n")
    (tmp_path / "raises.py").write_text("x = 1\ny = x / 0\n")
    (tmp_path / "broken.py").write_text("def (:\n")
    (tmp_path / "unannotated.py").write_text(
        "import tilewright as tw\n@tw.operator()\ndef launcher(x):\n    return x\n"
    )
    (tmp_path / "refless.py").write_text(
        "import tilewright as tw\nfrom jaxtyping import Float\nfrom torch import Tensor\n"
        "def wrong(x):\n    raise RuntimeError('no')\n"
        "@tw.operator(reference=wrong)\ndef launcher(x: Float[Tensor, 'N']):\n    return x\n"
    )
    (tmp_path / "inputless.py").write_text(
        "import tilewright as tw\ndef inputs():\n    raise RuntimeError('no')\n"
        "def launcher(x):\n    return x\nmade = tw.Operator(name='made', run=launcher, inputs=inputs)\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["tilewright", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capfd.readouterr().err
    assert ended.value.code == code, said
    (line,) = [line for line in said.splitlines() if line.startswith("error: ")]
    assert says in line
    assert "Traceback" not in said


def test_a_folder_that_cannot_be_written_says_what_to_do(tmp_path):
    ended = tilewright("debug", f"{FAULTY}:right", "--case", "N=3", "--store", "/proc/none/store.db", cwd=tmp_path)
    assert ended.returncode == 2
    assert "--no-store" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_triton_missing_is_one_line(tmp_path):
    (tmp_path / "triton.py").write_text("raise ModuleNotFoundError(\"No module named 'triton'\", name='triton')\n")
    (tmp_path / "kernel.py").write_text("import triton\n")
    ended = tilewright("debug", "kernel.py", cwd=tmp_path, PYTHONPATH=f"{tmp_path}:{ROOT / 'src'}")
    assert ended.returncode == 3
    assert "error: Triton is not installed; pip install" in ended.stderr


def test_a_kernel_that_does_not_compile_names_the_users_line(tmp_path):
    text = (
        "import tilewright as tw\nimport torch, triton\nimport triton.language as tl\n"
        "@triton.jit\ndef bad_kernel(x_ptr, B: tl.constexpr):\n    x = tl.load(x_ptr + tl.arange(0, B))\n    tl.store(x_ptr + tl.arange(0, 2 * B), x)\n"
        "def inputs(n=16):\n    return (torch.ones(n),)\n"
        "def run(x):\n    bad_kernel[(1,)](x, B=16)\n    return x\n"
        "bad = tw.Operator(name='bad', run=run, inputs=inputs, mutates=('x',))\n"
    )
    (tmp_path / "bad.py").write_text(text)
    ended = tilewright("tune", "bad.py", "--arch", "h100", cwd=tmp_path)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert "bad.py:7" in ended.stdout


def test_help_is_quick_and_imports_neither_torch_nor_triton(tmp_path):
    code = "import sys; sys.argv = ['tilewright', '--help']\nimport tilewright.cli.main as m\ntry: m.main()\nexcept SystemExit: pass\nprint('torch' in sys.modules, 'triton' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.splitlines()[-1] == "False False"
    for verb in ("run", "debug", "bench", "tune", "list", "history", "doctor"):
        assert re.search(rf"^\s+{verb}\b", ended.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "type_name"), [(["list"], "Listed"), (["history"], "RunSummary"), (["doctor"], "Check")]
)
def test_every_verb_gives_its_records(words, type_name, tmp_path):
    Store(tmp_path / "store.db").begin_run("debug x", ["x"], environment())
    words = [*words, "--store", "store.db"] if words == ["history"] else words
    ended = tilewright(*words, "--json", "-", cwd=tmp_path)
    data = json.loads(ended.stdout)
    assert (data["schema"], data["exit_code"], data["command"]) == (1, ended.returncode, words[0])
    assert {record["type"] for record in data["records"]} == {type_name}
    assert data["environment"]["torch"]


def test_an_error_of_nobodys_making_is_one_line_and_no_success(tmp_path, monkeypatch, capfd):
    def fails(*arguments, **options):
        raise ZeroDivisionError("a fault\nof ours")

    monkeypatch.setattr(importlib.import_module("tilewright.tune.stage"), "shapes_of", fails)
    monkeypatch.chdir(tmp_path)
    command = ["tilewright", "tune", f"{FAULTY}:tuned", "--arch", "h100", "--json", "out.json"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit) as ended:
        main()
    (line,) = [line for line in capfd.readouterr().err.splitlines() if line]
    assert line.startswith("error: ZeroDivisionError: a fault of ours (test_cli.py:")
    assert "--traceback" in line
    assert (ended.value.code, json.loads((tmp_path / "out.json").read_text())["exit_code"]) == (4, 4)


def test_run_tunes_where_tune_would(tmp_path):
    """Of an operator whose inputs choose their own sizes, and of one that declares none."""
    ended = tilewright("run", f"{FAULTY}:tuned", "--arch", "h100", "--no-store", cwd=tmp_path)
    assert "tuned, default, h100" in ended.stdout
    ended = tilewright("run", f"{FAULTY}:right", "--arch", "h100", "--no-store", cwd=tmp_path)
    assert "declares no shapes" in ended.stdout
    assert "1 of 1 cases" not in ended.stdout


def test_a_case_of_an_earlier_run_is_one_to_tune_at(tmp_path):
    first = tilewright("debug", f"{FAULTY}:right", "--case", "N=33", "--json", "-", cwd=tmp_path)
    (case,) = [r["results"][0]["case"] for r in json.loads(first.stdout)["records"] if r["type"] == "DebugReport"]
    identity = Case(**case).id
    ended = tilewright("tune", f"{FAULTY}:right", "--arch", "h100", "--case", identity, cwd=tmp_path)
    assert "1 of 1 configuration fits" in ended.stdout, ended.stderr
    assert "N=33" in ended.stdout


def test_help_names_the_chips(tmp_path):
    said = " ".join(tilewright("tune", "--help", cwd=tmp_path).stdout.split())
    assert "a100" in said
    assert "mi300x" in said


def test_list_and_doctor(tmp_path):
    listed = tilewright("list", cwd=tmp_path)
    assert [line.split()[0] for line in listed.stdout.splitlines()] == ["attention", "masked_softmax", "matmul"]
    doctor = tilewright("doctor", cwd=tmp_path)
    assert doctor.returncode == 0, doctor.stdout
    assert "debug in the interpreter" in doctor.stdout


def test_a_program_that_takes_a_child_without_a_main_guard_is_told(tmp_path):
    call = "tw.debug(right, [dict(N=3)], executor='interpreter')"
    (tmp_path / "script.py").write_text(Path(FAULTY).read_text() + f"\nprint({call}.exit_code)\n")
    ended = subprocess.run(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert '__name__ == "__main__"' in ended.stderr
