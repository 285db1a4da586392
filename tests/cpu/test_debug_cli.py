"""The debug verb as a user meets it: several operators, bare kernels, the debugger on a terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUBTLE = str(Path(__file__).parent / "kernels" / "subtle.py")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "160"}

SEVERAL = """
import torch
from faulty import scale, twice
from jaxtyping import Float
from torch import Tensor
import tilewright as tw

@tw.operator(reference=lambda x: x.nope())
def first(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x)

@tw.operator(reference=twice)
def second(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    return scale(x)
"""


def debug(*words, cwd):
    return subprocess.run(
        [sys.executable, "-m", "tilewright", "debug", *words],
        cwd=cwd,
        env={**ENVIRONMENT, "PYTHONPATH": f"{ROOT / 'src'}:{Path(SUBTLE).parent}"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_an_operator_whose_reference_fails_does_not_end_the_file(tmp_path):
    (tmp_path / "several.py").write_text(SEVERAL)
    ended = debug("several.py", "--case", "N=33", "--no-store", cwd=tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "error: first: the reference raised (N33 fp32): AttributeError" in ended.stderr
    assert re.search("PASS +second", ended.stdout)


def test_a_bare_kernel_is_run_again_with_its_arguments_and_written_as_a_script(tmp_path):
    arguments = ("--args", "torch.randn(65), torch.empty(65), 65, BLOCK=128", "--grid", "(1,)")
    first = debug(f"{SUBTLE}:copy_kernel", *arguments, "--repro", "wild.py", cwd=tmp_path)
    assert first.returncode == 1, first.stderr
    assert "wild.py: out-of-bounds-read in case no arguments; run here the fault shows (exit status 1)" in first.stdout
    assert "copy_kernel[(1, 1, 1)](*args, **kwargs)" in (tmp_path / "wild.py").read_text()
    again = re.search(r"again: (tilewright debug .* --case \w+)", first.stdout).group(1)
    second = subprocess.run(
        f"{sys.executable} -m {again}", shell=True, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert second.returncode == 1, second.stderr
    assert "out-of-bounds-read" in second.stdout


def in_terminal(words, keys, cwd):
    """What a terminal shows of a command, with a line typed at each prompt of pdb, and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(cwd)
        os.execve(sys.executable, [sys.executable, "-m", "tilewright", "debug", *words], ENVIRONMENT)
    shown, waiting, deadline = b"", list(keys), time.monotonic() + 100
    while time.monotonic() < deadline:
        if not select.select([terminal], [], [], 0.2)[0]:
            continue
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if waiting and shown.rstrip().endswith(b"(Pdb)"):
            time.sleep(0.5)  # a live line would be drawn over it now
            os.write(terminal, waiting.pop(0).encode() + b"\n")
    os.close(terminal)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_breakpoint_has_the_terminal_for_itself_and_q_ends_the_run(tmp_path):
    shown, code = in_terminal(
        [f"{SUBTLE}:breaks", "--case", "N=3", "--no-store", "--interpreter"], ["p x", "q"], tmp_path
    )
    assert code == 130
    assert "stopped by you, in the debugger" in shown
    assert "FAIL" not in shown
    session = shown[shown.index("breaking_kernel()") :]
    assert "debug breaks" not in session, "the live line is gone"
    assert "bfloat16 16\r\n" in session
    values = re.search(r"tensor\(\[(.*?)\]", session, re.DOTALL).group(1)
    assert all(abs(float(value)) < 10 for value in values.split(",")), "bfloat16 shows as numbers"


def test_pdb_says_which_assertion_failed(tmp_path):
    target = f"{SUBTLE}:asserts_device"
    shown, code = in_terminal([target, "--case", "N=33", "--no-store", "--pdb"], ["q"], tmp_path)
    assert "*** program (1, 0, 0): device_assert failed: offsets leave the row" in shown
    assert code == 1, "what was found is found, however the debugger is left"


@pytest.mark.parametrize(
    ("file", "sizes", "line", "values"),
    [
        # Out of bounds in the second iteration alone, of a kernel whose first one is right.
        ("24_k_tail_one_side_masked", "M=16,K=40", "a = tl.load(", {"k0": "32", "acc": "float32 16x16"}),
        # A race, which the interpreter's own run never shows: lane 31 is shared in the middle one of three rounds.
        ("10_halo_rmw_lost_update", "L=70", "old = tl.load(", {"t": "1", "int(q.max())": "31"}),
        # A wrong value: before the store that leaves it.
        ("03_layernorm_padded_variance", "rows=4,N=33", "tl.store(", {"r": "1", "tuple(d.shape)": "(64,)"}),
    ],
)
def test_pdb_stops_at_the_line_of_the_finding_in_the_iteration_where_it_shows(tmp_path, file, sizes, line, values):
    operator = "tw.Operator(name='case', run=m.run, reference=m.reference, inputs=m.inputs)"
    program = f"import importlib, tilewright as tw\nm = importlib.import_module({file!r})\nop = {operator}\n"
    (tmp_path / "op.py").write_text(program)
    (tmp_path / f"{file}.py").write_text((Path(__file__).parent / "cases" / f"{file}.py").read_text())
    typed = "".join(f"p {expression}\n" for expression in values) + "q\n"
    ended = subprocess.run(
        [sys.executable, "-m", "tilewright", "debug", "op.py", "--case", sizes, "--no-store", "--pdb"],
        cwd=tmp_path,
        env=ENVIRONMENT,
        input=typed,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 1, ended.stderr
    assert f"-> {line}" in ended.stdout, ended.stdout
    answers = [answer.strip() for answer in ended.stdout.split("(Pdb) ")[1:]]
    for wanted, answer in zip(values.values(), answers, strict=False):
        assert answer.startswith(wanted), ended.stdout


def test_a_debug_run_imports_no_compiler_of_torchs():
    """Dynamo and SymPy take longer to import than a library operator's cases to run."""
    code = (
        "import sys, tilewright as tw; from tilewright.spec.load import load; "
        "report = tw.debug(load('masked_softmax')[0]); "
        "print(len(report.errors), [name for name in ('torch._dynamo', 'sympy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "0 []"


def test_the_debug_verb_imports_torch_in_its_child_alone(tmp_path):
    code = (
        "import sys; sys.argv = ['tilewright', 'debug', 'masked_softmax', '--no-store', '--case', 'M=3,N=5']\n"
        "from tilewright.cli.main import main\n"
        "try: main()\n"
        "finally: print([name for name in ('torch', 'triton', 'numpy') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.splitlines()[-1]) == (0, "[]"), ran.stdout + ran.stderr
