"""The table of tuned choices that a program reads in production."""

import json
import subprocess
import sys
from dataclasses import replace
from importlib import metadata

import pytest

from tilewright.errors import StoreFromNewerVersion, StoreUnusable
from tilewright.runtime import table
from tilewright.runtime.nearest import nearest
from tilewright.runtime.table import KernelKey, Table, active_table, default_path

SHAPE = "bf16[128,64] True"


@pytest.fixture
def path(tmp_path, monkeypatch):
    where = tmp_path / "deep" / "choices.json"
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(where))
    active_table.cache_clear()
    yield where
    active_table.cache_clear()


def test_what_was_put_is_found_by_the_same_key_only(path):
    Table().put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4, "num_warps": 8})
    again = Table()
    assert len(again) == 1
    assert again.find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 4, "num_warps": 8}
    assert again.find("softmax", "bf16[128,65] True", "NVIDIA H100") is None
    assert again.find("softmax", SHAPE, "NVIDIA A100") is None
    assert again.find("matmul", SHAPE, "NVIDIA H100") is None


def test_a_choice_of_another_triton_is_not_used(path, monkeypatch):
    Table().put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4})
    monkeypatch.setattr(table, "triton_version", lambda: "0.0.1")
    assert Table().find("softmax", SHAPE, "NVIDIA H100") is None
    Table().put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 8})
    assert len(Table()) == 2


def test_a_new_choice_replaces_the_old_one(path):
    first = Table()
    first.put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4})
    first.put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 8}, median_seconds=1e-5)
    assert len(Table()) == 1
    assert Table().find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 8}


def test_the_file_is_plain_json_with_the_facts_beside_the_config(path):
    Table().put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4}, median_seconds=1e-5)
    assert json.loads(path.read_text()) == {
        "schema": 2,
        "choices": [
            {
                "operator": "softmax",
                "shape": SHAPE,
                "device": "NVIDIA H100",
                "triton": table.triton_version(),
                "config": {"BLOCK_M": 4},
                "median_seconds": 1e-5,
            }
        ],
        "kernels": [],
    }
    assert [file.name for file in path.parent.iterdir()] == ["choices.json"], "no drafts, no lock files"


def test_whoever_changes_what_was_found_does_not_change_the_table(path):
    found = Table()
    found.put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4})
    found.find("softmax", SHAPE, "NVIDIA H100")["BLOCK_M"] = 0
    assert found.find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 4}


def test_tables_of_two_processes_keep_each_others_choices(path):
    mine, theirs = Table(), Table()
    mine.put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4})
    theirs.put("matmul", SHAPE, "NVIDIA H100", {"BLOCK_M": 8})
    assert theirs.find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 4}
    assert len(Table()) == 2


WRITER = """
import sys
from tilewright.runtime.table import Table
table = Table()
for number in range(20):
    table.put(sys.argv[1], f"fp32[{number}]", "NVIDIA H100", {"BLOCK": number})
"""


def test_processes_that_write_at_once_lose_nothing(path):
    env = {"PYTHONPATH": ":".join(sys.path), "TILEWRIGHT_CHOICES": str(path)}
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name], env=env) for name in ("a", "b", "c")]
    assert [writer.wait(timeout=30) for writer in writers] == [0, 0, 0]
    assert len(Table()) == 60


def test_no_file_is_an_empty_table(path):
    assert len(Table()) == 0
    assert Table().find("softmax", SHAPE, "NVIDIA H100") is None
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"schema": "x", "choices": []}',
        '{"schema": 1, "choices": [{"operator": "a"}]}',
        '{"choices": 3}',
    ],
)
def test_a_file_that_is_no_table_is_refused_with_its_path(path, text):
    path.parent.mkdir()
    path.write_text(text)
    with pytest.raises(StoreUnusable, match=str(path)) as caught:
        Table()
    assert "TILEWRIGHT_CHOICES" in caught.value.remedy


def test_a_newer_schema_is_refused(path):
    path.parent.mkdir()
    path.write_text(json.dumps({"schema": 3, "choices": []}))
    with pytest.raises(StoreFromNewerVersion, match="newer tilewright"):
        Table()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreUnusable, match="cannot"):
        Table(tmp_path / "file" / "choices.json").put("softmax", SHAPE, "NVIDIA H100", {})


def test_the_path_is_the_variables_or_below_the_working_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("TILEWRIGHT_CHOICES", str(tmp_path / "mine.json"))
    assert default_path() == tmp_path / "mine.json"
    for text in (None, ""):
        monkeypatch.delenv("TILEWRIGHT_CHOICES", raising=False)
        if text is not None:
            monkeypatch.setenv("TILEWRIGHT_CHOICES", text)
        assert str(default_path()) == ".tilewright/choices.json"


def test_the_active_table_is_read_once_and_again_after_a_choice(path):
    assert active_table() is active_table()
    assert active_table().find("softmax", SHAPE, "NVIDIA H100") is None
    Table().put("softmax", SHAPE, "NVIDIA H100", {"BLOCK_M": 4})
    assert active_table().find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 4}


def test_production_loads_nothing_heavy():
    code = (
        "import sys, tilewright.runtime.autotune, tilewright.runtime.table;"
        "print([m for m in ('torch', 'triton', 'numpy', 'jaxtyping', 'rich', 'sqlite3') if m in sys.modules])"
    )
    env = {"PYTHONPATH": ":".join(sys.path)}
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env).stdout
    assert out.strip() == "[]"


def test_the_version_of_triton_is_known_without_importing_it():
    try:
        expected = metadata.version("triton")
    except metadata.PackageNotFoundError:
        pytest.skip("no Triton here")
    assert table.triton_version() == expected


KEY = KernelKey("mm", "ab12", {"M": 64, "N": 128, "causal": True}, ("torch.bfloat16",), "NVIDIA H200")


def test_a_kernels_choice_is_found_by_all_that_it_holds_for(path):
    Table().put_kernel(KEY, {"BLOCK": 64, "ACC": 1.5}, median_seconds=1e-5)
    again = Table()
    assert again.find_kernel(KEY) == {"BLOCK": 64, "ACC": 1.5}
    assert again.find_kernel(replace(KEY, key={"causal": True, "N": 128, "M": 64})) is not None
    for other in (
        {"kernel": "mm2"},
        {"source": "cd34"},
        {"dtypes": ("torch.float16",)},
        {"device": "NVIDIA H100"},
        {"key": {"M": 64, "N": 129, "causal": True}},
        {"key": {"M": 64, "N": 128, "causal": False}},
    ):
        assert again.find_kernel(replace(KEY, **other)) is None
    assert json.loads(path.read_text())["kernels"] == [
        {
            "kernel": "mm",
            "source": "ab12",
            "device": "NVIDIA H200",
            "triton": table.triton_version(),
            "key": {"M": 64, "N": 128, "causal": True},
            "dtypes": ["torch.bfloat16"],
            "config": {"BLOCK": 64, "ACC": 1.5},
            "median_seconds": 1e-5,
        }
    ]


def test_operators_and_kernels_share_a_file_and_one_of_schema_1_is_still_read(path):
    path.parent.mkdir()
    old = {"operator": "softmax", "shape": SHAPE, "device": "NVIDIA H100", "triton": table.triton_version()}
    path.write_text(json.dumps({"schema": 1, "choices": [{**old, "config": {"BLOCK_M": 4}}]}))
    Table().put_kernel(KEY, {"BLOCK": 64})
    assert len(Table()) == 2
    assert Table().find("softmax", SHAPE, "NVIDIA H100") == {"BLOCK_M": 4}
    assert Table().find_kernel(KEY) == {"BLOCK": 64}


def test_choices_alike_are_of_the_same_kernel_dtypes_and_board(path):
    found = Table()
    for m in (1, 64):
        found.put_kernel(replace(KEY, key={"M": m}), {"BLOCK": m})
    found.put_kernel(replace(KEY, key={"M": 2}, dtypes=("torch.float16",)), {"BLOCK": 2})
    found.put_kernel(replace(KEY, key={"M": 3}, source="other"), {"BLOCK": 3})
    assert sorted(Table().alike(KEY), key=str) == [({"M": 1}, {"BLOCK": 1}), ({"M": 64}, {"BLOCK": 64})]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ({"M": 100, "N": 64}, 1),  # 128 is 1.28 times 100, and 64 only 0.64 of it
        ({"M": 80, "N": 64}, 0),
        ({"M": 1, "N": 10**6}, 2),
        ({"M": 64, "N": 64}, 0),
        ({"M": 64}, None),
        ({"M": 0, "N": 64}, None),
    ],
)
def test_the_nearest_sizes_are_those_whose_ratios_are_least(key, expected):
    assert nearest(key, [{"M": 64, "N": 64}, {"M": 128, "N": 64}, {"M": 1, "N": 4096}]) == expected


def test_flags_and_words_must_be_equal_and_of_two_as_near_the_smaller_is_taken():
    tuned = [{"M": 256, "causal": True, "act": "relu"}, {"M": 64, "causal": True, "act": "relu"}]
    assert nearest({"M": 128, "causal": True, "act": "relu"}, tuned) == 1
    assert nearest({"M": 128, "causal": False, "act": "relu"}, tuned) is None
    assert nearest({"M": 128, "causal": True, "act": "gelu"}, tuned) is None
    assert nearest({"M": 128, "causal": True, "act": "relu"}, []) is None
