"""What was prepared without a GPU is measured at once: nothing is lowered or compiled again."""

import json
import zipfile

import pytest
import scaled
from simulated import Simulated
from triton import knobs

from tilewright import process
from tilewright.errors import NoGpu, UsageError
from tilewright.hardware.targets import find
from tilewright.launch import frontend
from tilewright.records import Case, Config, drain
from tilewright.spec.load import address
from tilewright.spec.operator import replace as changed
from tilewright.tune import stage
from tilewright.tune.bundle import Bundle
from tilewright.tune.candidates import Candidates
from tilewright.tune.crew import Crew

OPERATOR = changed(scaled.scaled, space=scaled.tw.Space(BLOCK=[32, 64], num_warps=[2, 32]))
CASE = [{"n": 4096}]


def run(operator, path=None, **options):
    events = []
    given = stage.TuneOptions(cases=CASE, workers=2, **options)
    return drain(stage.run(operator, address(scaled.scaled), given), events.append), events


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(knobs.cache, "dir", str(folder / "triton"))
        report, _ = run(OPERATOR, targets=[find("a100"), find("h100")], prepare=folder / "bundle")
    assert {t.status for trials in report.trials.values() for t in trials} == {"compiled"}
    return folder / "bundle"


def test_a_machine_with_a_gpu_measures_a_bundle_and_compiles_nothing(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "triton"))
    monkeypatch.setattr(frontend.Frontend, "lower", lambda *_: pytest.fail("lowered again"))
    monkeypatch.setattr(Crew, "submit", only_measuring(Crew.submit))
    report, _ = run(OPERATOR, bundle=bundle, machine=Simulated())
    (trials,) = report.trials.values()
    assert [t.status for t in trials] == ["timed"] * 4
    assert all(t.resources[0].registers and t.device == "a simulated H100" for t in trials)
    configs = [*(trial.config for trial in trials), Config({"BLOCK": 128, "num_warps": 2})]
    question = dict(address=address(scaled.scaled), case=Case("scaled", CASE[0]), configs=configs, target=find("h100"))
    answers = process.run("kept_tasks:answers", {**question, "folder": str(tmp_path / "triton")})
    assert answers == [[True]] * 4 + [[False]], "each launch finds its kernel"


def only_measuring(real):
    def submit(self, job):
        assert job.task.startswith("simulated_tasks:"), f"{job.task} was begun"
        real(self, job)

    return submit


def test_a_configuration_that_the_bundle_does_not_hold_is_compiled_here(bundle, tmp_path, monkeypatch):
    monkeypatch.setattr(knobs.cache, "dir", str(tmp_path / "triton"))
    caught = []
    real = Candidates.catch
    monkeypatch.setattr(Candidates, "catch", lambda self, config: caught.append(config) or real(self, config))
    wider = changed(OPERATOR, space=scaled.tw.Space(BLOCK=[64, 128], num_warps=[2]))
    report, _ = run(wider, bundle=bundle, machine=Simulated())
    assert caught == [Config({"BLOCK": 128, "num_warps": 2})]
    assert [t.status for t in report.trials.popitem()[1]] == ["timed"] * 2


def altered(path, to, **changes):
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(to, "w") as new:
        manifest = json.loads(old.read("manifest.json")) | changes
        new.writestr("manifest.json", json.dumps(manifest))
    return to


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"triton": "3.1.0"}, "was made with Triton 3.1.0, here is"),
        ({"build": "0"}, "another build of Triton"),
        ({"source": "0"}, "its launcher, kernels or reference have changed"),
        ({"operator": "other"}, "is of other, not of scaled"),
        ({"schema": 99}, "has schema 99"),
    ],
)
def test_a_bundle_that_does_not_hold_here_says_so_in_one_line(bundle, tmp_path, changes, words):
    with pytest.raises(UsageError, match=words) as raised:
        Bundle(altered(bundle, tmp_path / "other", **changes), OPERATOR)
    assert "\n" not in str(raised.value)
    assert "--prepare" in str(raised.value)


def test_kernels_that_have_moved_are_told(bundle, monkeypatch):
    monkeypatch.setattr(scaled.scale, "hash", "other lines")  # what Triton keeps its hash of the kernel in
    with pytest.raises(UsageError, match="stood in other lines"):
        Bundle(bundle, OPERATOR).prepared(Case("scaled", CASE[0]), find("h100"))


def test_a_bundle_needs_a_gpu(bundle):
    with pytest.raises(NoGpu, match="a bundle is measured on a GPU, and there is none here"):
        run(OPERATOR, bundle=bundle)


def test_another_chip_or_shape_and_a_file_that_is_none_are_told(bundle, tmp_path):
    opened = Bundle(bundle, OPERATOR)
    with pytest.raises(UsageError, match="is for a100, h100, and this GPU is b200; prepare it with --arch b200"):
        opened.prepared(Case("scaled", CASE[0]), find("b200"))
    with pytest.raises(UsageError, match="does not hold n5"):
        opened.prepared(Case("scaled", {"n": 5}), find("a100"))
    (tmp_path / "text").write_text("no archive")
    with pytest.raises(UsageError, match="cannot read the bundle"):
        Bundle(tmp_path / "text", OPERATOR)
