"""Tables on Ray itself: two workers on two nodes give the text of one process, a worker that dies
costs nothing but time, a strange program is refused."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import rightfit
from rightfit.errors import InputError, NetworkError, UnavailableError
from rightfit.fleets.ways import answered, asked
from rightfit.spread.pieces import predict_table, searched
from rightfit.spread.places import Here, OnRay, place_of

ray = pytest.importorskip("ray", reason="ray is not installed (pip install 'rightfit[ray]')")


@pytest.fixture(scope="module")
def address() -> object:
    """Two nodes on this machine, each with a processor to give."""
    from ray.cluster_utils import Cluster

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "object_store_memory": 80_000_000})
    found.add_node(num_cpus=1, object_store_memory=80_000_000)
    yield found.address
    found.shutdown()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw, path = random.Random(7), tmp_path_factory.mktemp("cases") / "cases.csv"
    lines = ["id,metric,model,method,gpu,micro_batch,seq_len"]
    for number in range(3000):
        words = (draw.choice(("peak_mem_gib_per_gpu", "step_time_s")), draw.choice(("7B", "Qwen/Qwen2.5-7B", "nobody")), "lora", "L40S")
        lines.append(",".join((str(number), *words, str(draw.randint(1, 9)), "2048")))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_two_workers_give_the_text_of_one_process(address: str, cases: Path, tmp_path: Path) -> None:
    predict_table(cases, tmp_path / "here.csv", place=Here())
    done = predict_table(cases, tmp_path / "ray.csv", place=OnRay(address), piece_rows=200)
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()
    assert done.rows == 3000


def test_both_nodes_are_at_work(address: str) -> None:
    place = OnRay(address)
    nodes = {node for _, node in place.results(_node, ((number, number) for number in range(12)), None)}
    assert place.workers == 2
    assert len(nodes) == 2


def _node(_: Any, number: int) -> str:
    import time

    time.sleep(0.5)
    return str(ray.get_runtime_context().get_node_id())


def test_a_worker_that_dies_costs_nothing_but_time(address: str, tmp_path: Path) -> None:
    mark = tmp_path / "died"
    found = dict(OnRay(address).results(_mortal, enumerate(range(6)), str(mark)))
    assert found == {number: number * 2 for number in range(6)}
    assert mark.exists()


def _mortal(mark: str, number: int) -> int:
    if number == 3 and not Path(mark).exists():
        Path(mark).write_text("died")
        os.kill(os.getpid(), signal.SIGKILL)
    return number * 2


def test_another_program_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rightfit.spread.places.program", lambda: "another")
    with pytest.raises(UnavailableError, match="a different rightfit version or prices"):
        list(OnRay(address).results(_mortal, [(0, 0)], ""))


def test_what_a_piece_says_is_wrong_comes_back(address: str) -> None:
    with pytest.raises(InputError, match="seven is no answer"):
        list(OnRay(address).results(_refuses, enumerate(range(3)), None))


def _refuses(_: Any, number: int) -> int:
    if number == 1:
        raise InputError("seven is no answer")
    return number


def test_workloads_of_a_fleet_are_searched_there(address: str) -> None:
    questions = [asked({"model": "7B", "method": method, "data": "1Mtok", "cloud": ["aws"]}) for method in ("lora", "qlora", "full")]
    assert searched(questions, OnRay(address)) == [answered(question) for question in questions]


@pytest.mark.parametrize(
    ("word", "kind", "says"),
    [
        ("ray:127.0.0.1:1", NetworkError, "no Ray cluster responds at 127.0.0.1:1"),
        ("ray:nowhere", InputError, "is not a Ray cluster address"),
    ],
)
def test_addresses_that_are_none(word: str, kind: type[Exception], says: str) -> None:
    with pytest.raises(kind, match=says):
        list(place_of(word).results(_refuses, [(0, 0)], None))


def test_the_command_starts_a_cluster_of_its_own(cases: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rightfit", "predict", str(cases), "--out", str(tmp_path / "ray.csv"), "--on", "ray", "--at-once", "1"]
    kept = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(command, env={**kept, "LANG": "C.UTF-8", "RAY_TMPDIR": _short()}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "3,000 rows predicted" in done.stderr  # a slow machine says how far it is before
    predict_table(cases, tmp_path / "here.csv", place=Here())
    assert (tmp_path / "ray.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


def _short() -> str:
    """A folder whose name is short enough for Ray's sockets, in which no cluster is known."""
    import tempfile

    return tempfile.mkdtemp(prefix="r")


def test_plans_of_a_table_are_those_of_one_process(address: str, tmp_path: Path) -> None:
    wishes = tmp_path / "wishes.csv"
    wishes.write_text("id,model,method,data\n1,7B,qlora,1Mtok\n2,7B,lora,1Mtok\n3,nobody,lora,1Mtok\n", "utf-8")
    texts = []
    for on in ("here", f"ray:{address}"):
        rightfit.plan_table(wishes, tmp_path / "plans.csv", on=on, cloud="gcp")
        texts.append((tmp_path / "plans.csv").read_text("utf-8"))
    assert texts[0] == texts[1]
    assert _column(texts[0], "feasible") == ["1", "1", ""]


def _column(text: str, name: str) -> Sequence[str]:
    import csv
    import io

    return [row[name] for row in csv.DictReader(io.StringIO(text))]
