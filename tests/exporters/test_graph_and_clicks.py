"""GraphSAGE and DLRM train to the end on small data, killed they go on as if nothing had happened,
and held-out rows judge them; processes that share out the tables learn what one learns."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from killed import COMMAND, alone, kill_at, lines, losses, undisturbed
from kinds import kind_plan
from tiny import run, torchrun

from rightfit.exports import find_target, job_of, plan_document

np = pytest.importorskip("numpy")
pytest.importorskip("torch")
pytest.importorskip("datasets")

STEPS = 6
SMALL: dict[str, dict[str, Any]] = {
    "graphsage": {"hidden": 16, "neighbours": [4, 3], "classes": 0},
    "dlrm": {"width": 8, "below": [16], "above": [16], "most_rows": 50},
    "dcn": {"width": 8, "below": [16], "above": [16], "most_rows": 50},
}
TARGETS = {"graphsage": "graph", "dlrm": "recommender", "dcn": "recommender"}


def put(folder: Path, kind: str, **changed: Any) -> None:
    """The exported files of a plan, its settings made small, and data that can be learnt."""
    found = find_target(TARGETS[kind]).files(job_of(plan_document(kind_plan(kind))))
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads(found["train.json"])
    small = {
        "precision": "fp32",
        "micro_batch": 16,
        "grad_accum": 1,
        "workers": 0,
        "optimizer": "adamw_torch" if kind == "graphsage" else "adagrad",
    }
    small |= {"steps": STEPS, "save_every_s": 0, "learning_rate": 0.05, "held_out": 0.2, "parallel": "ddp", "gradient_checkpointing": False}
    changed = {**small, "data": str(folder / "data"), "output": str(folder / "out"), **SMALL[kind], **changed}
    (folder / "train.json").write_text(
        json.dumps(settings | {key: value for key, value in changed.items() if key in settings}), encoding="utf-8"
    )
    if not (folder / "data").exists():
        (make_graph if kind == "graphsage" else make_clicks)(folder / "data")


def make_graph(folder: Path, nodes: int = 200) -> None:
    """Two groups of nodes that know each other; features are nearly noise, neighbours tell."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    labels = np.arange(nodes) % 2
    pairs = draw.integers(0, nodes // 2, (2, 2000)) * 2
    edges = np.concatenate([pairs, pairs + 1], 1)
    features = draw.normal(size=(nodes, 8)).astype(np.float32)
    features[:, 0] += labels
    labels[:5] = -1
    for name, values in (("features", features), ("labels", labels), ("edges", edges)):
        np.save(folder / f"{name}.npy", values)


def make_clicks(folder: Path, rows: int = 640) -> None:
    """Clicks that the first category tells."""
    folder.mkdir()
    draw = np.random.default_rng(0)
    sparse = draw.integers(0, 60, (rows, 3))
    for name, values in (("sparse", sparse), ("dense", draw.random((rows, 4)).astype(np.float32)), ("labels", sparse[:, 0] % 2)):
        np.save(folder / f"{name}.npy", values)


@pytest.mark.parametrize("kind", list(SMALL))
def test_killed_it_goes_on_as_if_nothing_had_happened(kind: str, tmp_path: Path) -> None:
    put(tmp_path, kind)
    whole = undisturbed(tmp_path)
    assert list(whole) == list(range(1, STEPS + 1))
    assert all(math.isfinite(loss) for loss in whole.values())
    first = kill_at(tmp_path, 4)
    assert not (tmp_path / "out/model").exists()
    told = run(COMMAND, tmp_path, further=alone())
    begun = next(line["start"] for line in lines(told) if "start" in line)
    assert 3 <= begun <= 4
    assert {**first, **losses(told)} == pytest.approx(whole, rel=1e-4)
    assert next((tmp_path / "out/model").glob("*.pt")).stat().st_size > 1_000
    judged = json.loads((tmp_path / "out/evaluation.json").read_text(encoding="utf-8"))
    assert math.isfinite(judged["eval_loss"])


def test_what_can_be_learnt_is_learnt(tmp_path: Path) -> None:
    put(tmp_path, "dlrm", steps=160, learning_rate=0.1, save_every_s=1e6)
    run(COMMAND, tmp_path, further=alone())
    judged = json.loads((tmp_path / "out/evaluation.json").read_text(encoding="utf-8"))
    assert judged["auc"] > 0.75
    assert judged["rows"] == 128


def test_two_processes_with_half_the_tables_each_learn_what_one_learns(tmp_path: Path) -> None:
    """The same rows in a step: losses agree, as tables begin differently, only in their course."""
    told = {}
    for processes in (1, 2):
        folder = tmp_path / str(processes)
        folder.mkdir()
        put(folder, "dlrm", steps=120, learning_rate=0.1, micro_batch=32 // processes, save_every_s=1e6)
        told[processes] = losses(run([*torchrun(processes), "train.py", "train.json"], folder))
        judged = json.loads((folder / "out/evaluation.json").read_text(encoding="utf-8"))
        assert judged["auc"] > 0.75, processes
        assert len(list((folder / "out/model").glob("part-*.pt"))) == processes
    assert told[1][120] < 0.9 * told[1][1]
    assert told[2][120] < 0.9 * told[2][1]


def test_data_that_lack_a_file_are_refused_in_a_line(tmp_path: Path) -> None:
    put(tmp_path, "dlrm")
    (tmp_path / "data/sparse.npy").unlink()
    with pytest.raises(AssertionError, match=r"lacks sparse\.npy"):
        run(COMMAND, tmp_path, further=alone())
