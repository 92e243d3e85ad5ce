"""The core that exported programs share: which checkpoints count as whole, what a data set must
hold, where figures are told."""

from __future__ import annotations

import gzip
import json
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kinds import kind_plan
from loaded import load_module
from typical_plans import plan_values

import rightfit.exports
from rightfit.exports import ExportSettings, Job, all_targets, find_target, job_of, plan_document
from rightfit.exports.bundle import COLUMNS_CHECK

SCRIPTS = Path(rightfit.exports.__file__).parent / "scripts"


@pytest.fixture
def core() -> ModuleType:
    return load_module(SCRIPTS / "run_core.py")


def job(name: str, **settings: str) -> Job:
    return job_of(plan_document(plan_values(name)), settings=ExportSettings(**settings))  # type: ignore[arg-type]


def checkpoint(folder: Path, core: ModuleType, *, marked: bool = True) -> Path:
    (folder / "parts").mkdir(parents=True)
    (folder / "parts" / "0").write_bytes(b"weights")
    (folder / "state").write_bytes(b"state")
    if marked:
        core.mark_whole(folder)
    return folder


def test_a_checkpoint_counts_with_all_its_files_alone(core: ModuleType, tmp_path: Path) -> None:
    whole = [checkpoint(tmp_path / f"step-{step}", core) for step in (9, 100, 20)]
    assert [folder.name for folder in core.whole(tmp_path, "step-")] == ["step-9", "step-20", "step-100"]
    (whole[1] / "parts" / "0").write_bytes(b"weight")  # cut off
    (whole[2] / "state").unlink()  # not copied yet
    checkpoint(tmp_path / "step-200", core, marked=False)
    checkpoint(tmp_path / "step-300", core)
    (tmp_path / "step-300" / core.MARK).write_text('{"parts/0"')
    (tmp_path / "step-x").mkdir()
    assert [folder.name for folder in core.whole(tmp_path, "step-")] == ["step-9"]
    core.tidy(tmp_path, "step-")
    assert [path.name for path in sorted(tmp_path.glob("step-[0-9]*"))] == ["step-9"]


def test_the_last_two_are_kept(core: ModuleType, tmp_path: Path) -> None:
    for step in (1, 2, 3):
        checkpoint(tmp_path / f"step-{step}", core)
    core.tidy(tmp_path, "step-")
    assert {path.name for path in tmp_path.iterdir()} == {"step-2", "step-3"}


def test_figures_go_where_the_environment_says(core: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert core.trackers() == []
    monkeypatch.setenv("WANDB_API_KEY", "x")
    monkeypatch.setattr(core.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SystemExit, match="pip install wandb"):
        core.trackers()
    monkeypatch.setattr(core.importlib.util, "find_spec", lambda name: name)
    assert core.trackers() == ["wandb"]


SCRIPTED = [name for name, target in all_targets().items() if target.group == "training"]


@pytest.mark.parametrize("target", SCRIPTED)
@pytest.mark.parametrize("name", ["qlora-8b", "bert-azure", "pretrain-1b-alicloud", "full-8b-gcp", "whisper-train-aws", "segformer-train"])
def test_every_script_of_ours_stands_on_the_core(target: str, name: str) -> None:
    """Settings say what a row must hold; every module that a script imports lies beside it; the
    packages read the bucket that the data lie in."""
    found = find_target(target)
    if found.problem(job(name)):
        return
    files = found.files(job(name))
    if "run_core.py" not in files:
        assert "train.py" not in files
        return
    settings = json.loads(files["train.json"])
    assert settings["data_columns"]
    for path, text in files.items():
        if path.endswith(".py"):
            compile(text, path, "exec")
            for module in ("run_core", "train_loop"):
                assert f"import {module} as" not in text or f"{module}.py" in files
    assert "load_dataset" not in files["train.py"]
    for bucket, package in (("s3://b/rows", "s3fs=="), ("gs://b/rows", "gcsfs=="), ("oss://b/rows", "ossfs==")):
        assert package in found.files(job(name, data_path=bucket))["requirements.txt"]
    assert "cos://" in str(found.problem(job(name, data_path="cos://b/rows")))


def test_a_first_boot_still_fits_into_user_data() -> None:
    """16 kB are what AWS takes, packed where that is possible: with what is written before it,
    which whoever starts the server knows."""
    for found in (job("lora-8b-aws"), job("whisper-train-aws"), job_of(plan_document(kind_plan("flux-lora")))):
        boot = find_target("terraform-aws").files(found)["first-boot.sh"].encode()
        assert len(gzip.compress(boot)) < 16_384 - 800
        if len(boot) > 16_384:
            assert "terraform-aws and provider-cli send it packed" in str(find_target("cloudformation").problem(found))
        elif not find_target("cloudformation").problem(found):
            assert len(boot) < 16_384 - 300


def test_settings_name_the_plan_and_the_least_of_them_is_read(core: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "x.json").write_text('{"plan": "1"}')
    monkeypatch.setattr(sys, "argv", ["train.py", str(tmp_path / "x.json")])
    assert core.settings() == {"plan": "1"}
    assert core.local("some/name") == "some/name"


class Rows:
    """As much of a data set as joining its columns asks for."""

    def __init__(self, rows: list[dict[str, str]]) -> None:
        self.rows, self.column_names = rows, list(rows[0])

    def map(self, change: Any, remove_columns: list[str]) -> Rows:
        return Rows([{**{k: v for k, v in row.items() if k not in remove_columns}, **change(row)} for row in self.rows])


SFT = [["messages"], ["prompt", "completion"], ["text"]]


@pytest.mark.parametrize(
    ("row", "wanted", "joined"),
    [
        ({"instruction": "a", "input": "b", "output": "c"}, SFT, {"prompt": "a\n\nb\n\n", "completion": "c"}),
        ({"instruction": "a", "input": "", "output": "c"}, SFT, {"prompt": "a\n\n", "completion": "c"}),
        ({"instruction": "a", "output": "c"}, SFT, {"prompt": "a\n\n", "completion": "c"}),
        ({"text": "t", "instruction": "a", "output": "c"}, SFT, {"text": "t", "instruction": "a", "output": "c"}),
        ({"instruction": "a", "output": "c"}, [["text"]], {"instruction": "a", "output": "c"}),
    ],
)
def test_instruction_input_and_output_are_a_prompt_with_its_completion(row: Any, wanted: Any, joined: Any, core: ModuleType) -> None:
    assert core.joined(Rows([row]), wanted).rows == [joined]


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ('{"instruction": "a", "input": "b", "output": "c"}\n', False),
        ('{"messages": []}\n', False),
        ('{"q": "a", "a": "b"}\n', True),
        ('[{"q": "a"}]', True),
        ('{"ask": "a", "completion": "b"}\n', False),
    ],
)
def test_columns_are_compared_before_anything_is_rented(text: str, lacks: bool, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "rows.jsonl").write_text(text, encoding="utf-8")
    words = {"wanted": shlex.quote(json.dumps(SFT)), "names": shlex.quote(json.dumps({"prompt": "ask"})), "needed": "'messages'"}
    ran = subprocess.run(
        ["sh", "-c", 'lacks() { echo "$1"; }\n' + COLUMNS_CHECK % words], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert (f"data/rows.jsonl has {', '.join(json.loads(text)[0] if text[0] == '[' else json.loads(text))}" in ran.stdout) == lacks
    assert bool(ran.stdout) == lacks
