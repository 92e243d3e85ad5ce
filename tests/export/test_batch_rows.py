"""The program of batches over files of the user's: several recordings at once, one that cannot be
read is left out and named, and a lost server loses minutes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document

WHISPER = """
import threading, time
import types, sys
most, now, lock = [0], [0], threading.Lock()
class WhisperModel:
    def __init__(self, name, num_workers=1, **_):
        self.workers = num_workers
class BatchedInferencePipeline:
    def __init__(self, model):
        self.model = model
    def transcribe(self, sound, batch_size):
        with lock:
            now[0] += 1
            most[0] = max(most[0], now[0])
        time.sleep(0.05)
        with lock:
            now[0] -= 1
            print('{"at_once": %d, "workers": %d, "batch": %d}' % (most[0], self.model.workers, batch_size), flush=True)
        return [types.SimpleNamespace(start=0.0, end=1.0, text=" " + sound.decode())], types.SimpleNamespace(language="en")
audio = types.ModuleType("faster_whisper.audio")
audio.decode_audio = lambda path: open(path, "rb").read()
sys.modules["faster_whisper.audio"] = audio
"""
DATASETS = """
import json
class Audio:
    pass
class Rows(list):
    column_names, features = ["audio"], {}
    def __getitem__(self, name):
        return [row[name] for row in self] if isinstance(name, str) else list.__getitem__(self, name)
    def select(self, places):
        return Rows(list.__getitem__(self, place) for place in places)
def load_dataset(kind, data_files, split):
    return Rows(json.loads(line) for line in open(data_files[0]))
"""


def put(folder: Path, broken: set[int], count: int = 12) -> list[str]:
    """The exported program before stand-ins for what hears and what reads rows."""
    found = find_target("batch").files(job_of(plan_document(plan_values("whisper-batch-aws"))))
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads(found["run.json"])
    settings |= {"output": str(folder / "out"), "data": str(folder / "data"), "part_rows": 8, "replicas_per_node": 1, "batch": 16}
    (folder / "run.json").write_text(json.dumps(settings), encoding="utf-8")
    (folder / "faster_whisper.py").write_text(WHISPER, encoding="utf-8")
    (folder / "datasets.py").write_text(DATASETS, encoding="utf-8")
    (folder / "data").mkdir()
    for number in range(count):
        if number not in broken:
            (folder / f"data/{number}.wav").write_text(f"said {number}", encoding="utf-8")
    lines = "".join(json.dumps({"audio": f"{number}.wav"}) + "\n" for number in range(count))
    (folder / "data/rows.jsonl").write_text(lines, encoding="utf-8")
    return [sys.executable, "run.py", "run.json", "0", "1"]


def test_recordings_are_heard_several_at_once_and_one_unread_ends_nothing(tmp_path: Path) -> None:
    done = subprocess.run(put(tmp_path, {3, 9}), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert {line["workers"] for line in told if "workers" in line} == {4}
    assert {line["batch"] for line in told if "batch" in line} == {4}, "the plan's batch is shared"
    assert max(line["at_once"] for line in told if "at_once" in line) > 1
    results = tmp_path / "out/results"
    answers = [json.loads(line) for part in sorted(results.glob("part-*.jsonl")) for line in part.read_text().splitlines()]
    assert [(answer["row"], answer["text"]) for answer in answers] == [(row, f"said {row}") for row in range(12) if row not in (3, 9)]
    skipped = [json.loads(line) for part in sorted(results.glob("skipped-*.jsonl")) for line in part.read_text().splitlines()]
    assert [line["row"] for line in skipped] == [3, 9]
    assert all("FileNotFoundError" in line["error"] for line in skipped)
    assert (results / "complete.json").exists()


def test_a_run_that_can_read_nothing_fails(tmp_path: Path) -> None:
    done = subprocess.run(put(tmp_path, set(range(12))), cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert "none of 12 rows could be read: FileNotFoundError" in done.stderr
    assert not (tmp_path / "out/results/complete.json").exists()


@pytest.mark.parametrize("name", ["whisper-batch-aws", "batch-8b-tencent", "bge-batch"])
def test_a_lost_server_loses_minutes(name: str) -> None:
    job = job_of(plan_document(plan_values(name)))
    settings = json.loads(find_target("batch").files(job)["run.json"])
    rate = job.option.estimate["requests_per_s"].mid / max(1, job.option.layout.replicas)
    lost_s = settings["part_rows"] / rate * (3600 / 30 if name.startswith("whisper") else 1)
    assert lost_s < 1200 or settings["part_rows"] <= max(8, job.option.layout.max_batch)
