"""What people try first, without the manual: each does what is meant or says in one line how."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path

import pytest

import rightfit
from rightfit import facts
from rightfit.cli import main
from rightfit.cli.app import build
from rightfit.errors import InputError
from rightfit.market.names import find_provider
from rightfit.measure.record import Run, Source
from rightfit.workload.ask import understand
from rightfit.workload.kept_files import kept_words, read_typed
from rightfit.workload.options import OPTIONS
from rightfit.workload.vocabulary import JOINTS

JOB = ("8B", "--method", "lora", "--data", "50Mtok")
_LOG = """{'loss': 2.31, 'grad_norm': 1.2, 'learning_rate': 2e-4, 'epoch': 0.01}
  1%|          | 10/1000 [00:21<35:10,  2.13s/it]
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB \
of which 1.10 GiB is free. Of the allocated memory 21.90 GiB is allocated by PyTorch.
"""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("planned") / "plan.json"
    place.write_text(rightfit.plan("8B", method="lora", data="50Mtok").to_json(), encoding="utf-8")
    return place


@pytest.mark.parametrize("cloud", ["gcp", "Google Cloud", "谷歌云", "aws", "lambda"])
def test_a_cloud_is_explained_by_its_best_server(cloud: str) -> None:
    found = rightfit.why(cloud, "8B", method="lora", data="50Mtok")
    assert found.provider == find_provider(cloud)
    assert found.standing
    lonely = rightfit.plan("8B", method="lora", data="50Mtok", cloud=cloud).best
    assert lonely is not None
    assert (found.provider, found.instance_type) == (lonely.provider, lonely.instance_type)


def test_a_cloud_that_was_left_out_says_what_did() -> None:
    found = rightfit.why("gcp", "8B", method="lora", data="50Mtok", cloud="aws")
    assert found.provider == "gcp"
    assert "cloud" in [one.criterion for one in found.failed]


def test_why_reads_a_saved_plan(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = json.loads(planned.read_text(encoding="utf-8"))["options"][0]
    assert main(["why", str(planned), "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["provider"], told["instance_type"]) == (first["provider"], first["instance_type"])
    assert main(["why", "gcp", str(planned), "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["provider"] == "gcp"
    found = rightfit.why(str(planned))
    assert (found.provider, found.instance_type) == (first["provider"], first["instance_type"])


def test_a_saved_plan_is_planned_again_with_changes(planned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ways in ([str(planned)], ["--file", str(planned)]):
        assert main(["plan", *ways, "--data", "100Mtok", "--format", "json"]) == 0
        told = json.loads(capsys.readouterr().out)["workload"]
        assert (told["model"], told["method"], told["data_tokens"]) == ("8B", "lora", 1e8)
    again, first = (
        rightfit.plan(*one, **more).best for one, more in (((str(planned),), {}), (("8B",), {"method": "lora", "data": "50Mtok"}))
    )
    assert again
    assert first
    assert (again.instance_type, again.cost.total_usd) == (first.instance_type, first.cost.total_usd)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_planned_run_is_served_by_its_export(planned: Path, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(planned), "--task", "serve", "--lang", lang]) == 2
    assert "--then serve" in capsys.readouterr().err


@pytest.mark.parametrize("setup", [{}, {"model": "8B", "method": "lora", "gpu": "RTX-4090", "micro_batch": "4", "seq_len": "2048"}])
def test_a_log_out_of_memory_is_resized_as_it_is(setup: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "oom.log"
    log.write_text(_LOG, encoding="utf-8")
    assert main(["resize", str(log), "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["bottleneck"] == "memory"
    assert "rightfit ingest" in shown.err
    advice = rightfit.resize(rightfit.ingest(log, setup=setup))
    assert bool(advice.changes) == bool(setup)
    assert all(change.saved_gib and change.saved_gib > 0 for change in advice.changes)


def test_what_is_neither_log_nor_record_names_ingest(tmp_path: Path) -> None:
    other = tmp_path / "notes.txt"
    other.write_text("nothing was measured here", encoding="utf-8")
    with pytest.raises(InputError, match="rightfit ingest"):
        rightfit.resize(other)


#: Options with which every command of the table is pasted, by what it is for.
_OPTIONS = {"serve": "--tensor-parallel-size 2 --max-model-len 8192", None: "--max_seq_length 4096 --per_device_train_batch_size 2"}
_MODEL = "meta-llama/Llama-3.1-8B-Instruct"


def _pasted(row: dict[str, str]) -> str:
    options = _OPTIONS["serve" if row.get("task") == "serve" else None]
    named = (
        _MODEL if row.get("model") == "first" else f"--model {_MODEL}" if row.get("task") == "serve" else f"--model_name_or_path {_MODEL}"
    )
    return f"{' '.join(row['words'])} {named} {options}"


@pytest.mark.parametrize("row", kept_words()["commands"], ids=lambda row: " ".join(row["words"]))
def test_a_pasted_command_is_read_as_its_file(row: dict[str, str], tmp_path: Path) -> None:
    text = _pasted(row)
    script = tmp_path / "run.sh"
    script.write_text(text, encoding="utf-8")
    assert rightfit.Workload(**understand(text).wishes) == rightfit.Workload.from_file(script)
    assert not understand(text).weighty


@pytest.mark.parametrize(
    "text",
    [
        "vllm serve Llama-3-8B at 5 requests per second on an L4",
        "torchrun a full fine-tuning of Llama-3-8B on 8 H100 with 50M tokens",
        "which is better for Llama-3-8B, vllm serve or TGI?",
        "用 vllm serve 部署 Qwen2.5-7B，每秒 5 个请求",
    ],
)
def test_a_sentence_that_names_a_command_stays_a_sentence(text: str) -> None:
    assert read_typed(text) is None


def test_a_pasted_command_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    command = f"vllm serve {_MODEL} --tensor-parallel-size 2 --max-model-len 8192"
    assert main(["plan", "--ask", command, "--rate", "5/s", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["workload"]["tensor_parallel"] == 2
    assert "max_model_len=8192" in shown.err
    assert main(["plan", "--ask", "torchrun --nproc_per_node 8 train.py --max_seq_length 4096"]) == 2
    assert "--file" in capsys.readouterr().err


@pytest.mark.parametrize("gpus", ["L40S or A100-80GB", "L40S 还是 A100-80GB", "L40S vs A100-80GB", "L40S或A100-80GB"])
def test_two_cards_are_named_as_people_say_it(gpus: str) -> None:
    assert rightfit.Workload(model="8B", gpu=gpus) == rightfit.Workload(model="8B", gpu="L40S,A100-80GB")


def test_names_of_the_market_contain_no_word_between_entries() -> None:
    names = [*facts.accelerators(), *(f"{one['provider']} {one['region']}" for one in rightfit.regions())]
    assert not [name for name in names if JOINTS.search(name)]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_a_machine_of_ones_own_belongs_to_have(lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    for machine in ("2x4090", "RTX-3090", "4xA100-SXM-80GB@home"):
        assert main(["plan", *JOB, "--own", machine, "--lang", lang]) == 2
        assert f"--have {machine}" in capsys.readouterr().err


def test_every_option_of_a_plan_has_its_place_in_a_fleet_file(capsys: pytest.CaptureFixture[str]) -> None:
    places = {}
    for name in OPTIONS:
        assert main(["fleet", "fleet.yaml", f"--{name.replace('_', '-')}", "1"]) == 2
        told = re.search(r"fleet file: ([\w.\[\]]+)", capsys.readouterr().err)
        places[name] = told[1] if told else ""
    assert not [name for name, place in places.items() if not place]
    assert (places["budget"], places["deadline"], places["cloud"], places["method"]) == (
        "limits.budget",
        "jobs[].deadline",
        "limits.clouds",
        "defaults.method",
    )


@pytest.mark.parametrize("name", ["plan", "estimate", "why", "resize"])
def test_every_option_of_a_command_is_a_keyword_or_names_the_way(name: str) -> None:
    function = getattr(rightfit, name)
    known = {*inspect.signature(function).parameters, *OPTIONS}
    options = {
        flag.removeprefix("--").replace("-", "_")
        for one in build([name]).commands[name].params
        for flag in one.opts
        if flag.startswith("--")
    }
    assert len(options) > 50
    first = {"why": ["aws/g5.xlarge", "8B"], "resize": [[Run(source=Source(kind="probe"))]]}.get(name, ["8B"])
    silent = []
    for option in sorted(options - known):
        with pytest.raises(InputError) as caught:
            function(*first, **{"data": "1Mtok", **({"on": "aws/g5.xlarge"} if name == "estimate" else {})}, **{option: "1"})
        if "instead" not in str(caught.value):
            silent.append(option)
    assert not silent


def test_a_machine_of_ones_own_is_planned_in_python() -> None:
    plan = rightfit.plan("8B", method="qlora", data="5Mtok", have="1x4090")
    assert plan.best is not None
    assert plan.best.purchase == "owned"
    assert next(section.name for section in plan.sections) == "rental"
