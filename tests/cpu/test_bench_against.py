"""``tilewright bench --against`` and ``history``, on a repository whose last commit made a callable slower."""

import json
import os
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src"
OPERATOR = """
import helper
import tilewright as tw
from jaxtyping import Float
from torch import Tensor


def yardstick(x):
    helper.busy(0.002)
    return x + 1


@tw.operator(reference=lambda x: x + 1, baselines={"yardstick": yardstick}, shapes={"small": dict(N=8)})
def plus(x: Float[Tensor, "N"]) -> Float[Tensor, "N"]:
    helper.busy(helper.SECONDS)
    return x + 1
"""
HELPER = """
import time

SECONDS = 0.001


def busy(seconds):
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        pass
"""


def run(folder, *words):
    variables = {**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"}
    return subprocess.run(words, cwd=folder, env=variables, capture_output=True, text=True, check=False)


def test_a_regression_since_a_commit_ends_with_1_and_is_in_the_history(tmp_path):
    (tmp_path / "op.py").write_text(OPERATOR)
    (tmp_path / "helper.py").write_text(HELPER)
    for words in ("init -q", "add -A", "-c user.name=n -c user.email=e commit -qm one"):
        assert run(tmp_path, "git", *words.split()).returncode == 0
    (tmp_path / "helper.py").write_text(HELPER.replace("0.001", "0.004"))
    bench = (
        sys.executable,
        "-m",
        "tilewright",
        "bench",
        "op.py",
        "--device",
        "cpu",
        "--no-compile",
        "--seconds",
        "0.3",
    )
    ended = run(tmp_path, *bench, "--against", "HEAD", "--json", "new.json", "--markdown", "-")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.startswith("## bench op.py\n\n**1 SLOWER** since HEAD (")
    data = json.loads((tmp_path / "new.json").read_text())
    (change,) = [record for record in data["records"] if record["type"] == "Change"]
    assert 0.05 < change["ratio"] < 0.6  # 1 ms then, 4 ms now: the commit's own helper was measured
    revisions = {record["revision"] for record in data["records"] if record["type"] == "Comparison"}
    assert all(revision.endswith("+changes") for revision in revisions)
    history = run(tmp_path, sys.executable, "-m", "tilewright", "history", "plus")
    assert "against yardstick" in history.stdout
    missing = run(tmp_path, *bench, "--against", "no-such-thing")
    assert missing.returncode == 2
    assert "no such file, and no commit" in missing.stderr
