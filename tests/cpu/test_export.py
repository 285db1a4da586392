"""The exported Python file needs Triton alone, and picks what the rule picks."""

import ast
import io
import random
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tilewright.cli import tune as cli
from tilewright.records import Case, Choice, Config, Trial
from tilewright.report.console import Console
from tilewright.tune import export, rule, stage


def trials(seed):
    draw = random.Random(seed)
    space = [{"BM": bm, "num_warps": w, "num_stages": 2} for bm in (16, 64) for w in (4, 8)] + [
        {"BM": 32, "maxnreg": 128}
    ]
    cases = [
        Case(
            "mm",
            {"M": 2 ** draw.randrange(14), "K": 4096, "causal": draw.random() < 0.5},
            draw.choice(["bf16", "fp32"]),
        )
        for _ in range(9)
    ]
    return [
        Trial(
            "mm",
            case,
            Config(values),
            "h200",
            "timed",
            median_seconds=draw.uniform(1, 2),
            device="NVIDIA H200",
            triton="3",
        )
        for case in cases
        for values in space
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_exported_file_gives_the_same_choice(seed):
    tuned = export.tuned(trials(seed))
    module = {}
    exec(compile(export.as_python(tuned), "exported.py", "exec"), module)
    for m in (0, 1, 3, 64, 100, 5000, 10**6):
        for causal in (False, True):
            for dtype in ("bf16", "fp32"):
                given = {"M": m, "K": 4096, "causal": causal, "dtype": dtype}
                taken = module["config_for"](M=m, causal=causal, dtype=dtype)
                assert taken.all_kwargs() == dict(rule.choose(tuned.rule, given).values)
    assert len(module["CONFIGS"]) == len(tuned.chosen.configs)
    assert module["DEVICE"] == "NVIDIA H200"


def test_after_several_shapes_tune_shows_the_set_and_its_tree(monkeypatch):
    timed = trials(0)
    by_case = {case.id: tuple(t for t in timed if t.case == case) for case in {t.case for t in timed}}
    chosen = {
        key: Choice("mm", t[0].case, t[0].config, "NVIDIA H200", "3", "", 1.0, 1.0, {}) for key, t in by_case.items()
    }
    report = stage.TuneReport("mm", {(key, "h200"): t for key, t in by_case.items()}, chosen)
    monkeypatch.setattr(stage, "run", lambda *args: None)
    monkeypatch.setattr("tilewright.spec.load.address", lambda operator: None)
    out = io.StringIO()
    ignored = lambda *args: None
    session = SimpleNamespace(
        drain=lambda events: report, store=None, keep=ignored, worsen=ignored, console=Console(file=out, plain=True)
    )
    cli.tune(session, SimpleNamespace(name="mm"), None)
    assert export.as_text(export.tuned(timed, tuple(chosen.values()))) in out.getvalue()


def test_it_imports_triton_and_nothing_of_ours(tmp_path):
    export.write(export.tuned(trials(0)), tmp_path / "tuned.py")
    text = (tmp_path / "tuned.py").read_text()
    imports = [n for n in ast.walk(ast.parse(text)) if isinstance(n, (ast.Import, ast.ImportFrom))]
    assert [ast.unparse(node) for node in imports] == ["import triton"]
    code = "import sys, tuned; print(tuned.config_for(M=1, causal=True, dtype='bf16')); assert 'tilewright' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True)
