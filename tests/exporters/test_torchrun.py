"""The plain PyTorch script trains: two processes by gloo on the processor, copied (DDP) and sharded
(FSDP2); stopped, it goes on from its checkpoint."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jobs import files, taken
from killed import COMMAND as ALONE
from killed import alone, half_copy, kill_at, undisturbed
from killed import losses as killed_losses
from tiny import SMALL, environment, make_bert, make_data, make_led, make_llama, make_nllb, make_t5, make_tokenizer, run, torchrun

for needed in ("torch", "transformers", "datasets", "peft"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target torchrun")


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llama(tmp_path_factory.mktemp("llama"))


def put(folder: Path, model: Path, *, target: str, plan: str, **changed: Any) -> Path:
    """The exported files in a folder, the settings made small."""
    found = files(target, plan)
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    data = make_data(folder / "data.jsonl")
    small = {**SMALL, "model": str(model), "data": str(data), "output": str(folder / "out"), **changed}
    settings = json.loads(found["train.json"])
    assert set(small) - {"activations_on_host"} <= set(settings), set(small) - set(settings)
    (folder / "train.json").write_text(json.dumps(settings | small), encoding="utf-8")
    return folder


def logged(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def losses(text: str) -> list[float]:
    return [line["loss"] for line in logged(text) if "loss" in line]


COMMAND = [*torchrun(2), "train.py", "train.json"]


@pytest.mark.parametrize("from_scratch", [True, False])
def test_copied_and_sharded_training_are_the_same(from_scratch: bool, llama: Path, tmp_path: Path) -> None:
    """From the same weights and data, DDP and FSDP2 must have the same losses;
    training must lower them."""
    found = {}
    ways = {
        "ddp": {"parallel": "ddp"},
        "fsdp2": {"parallel": "fsdp2", "sharding": "zero-3", "reshard_after_forward": True, "gradient_checkpointing": True},
    }
    for name, changed in ways.items():
        folder = tmp_path / name
        folder.mkdir()
        put(
            folder, llama, target="torchrun", plan="pretrain-1b-alicloud", steps=4, learning_rate=0.01, from_scratch=from_scratch, **changed
        )
        found[name] = losses(run(COMMAND, folder))
        assert (folder / "out/model/model.safetensors").stat().st_size > 50_000
        # A model from the folder that the run left is read by Transformers itself.
        from transformers import AutoModelForCausalLM

        assert AutoModelForCausalLM.from_pretrained(folder / "out/model").num_parameters() > 20_000
    assert len(found["ddp"]) == 4
    assert found["ddp"][-1] < found["ddp"][0] - 0.1
    assert found["fsdp2"] == pytest.approx(found["ddp"], rel=1e-3)


@pytest.mark.parametrize("pooled", [None, "cls_token", "lasttoken"])
def test_embeddings_learn_pairs_copied_and_sharded(pooled: str | None, tmp_path: Path) -> None:
    """The vector is made as the model's own files say, which stay beside the weights; an anchor
    comes nearer to its own text."""
    model = make_bert(tmp_path / "bert")
    if pooled:
        (model / "1_Pooling").mkdir()
        (model / "1_Pooling/config.json").write_text(json.dumps({f"pooling_mode_{pooled}": True}))
        (model / "modules.json").write_text("[]")
    pairs = [{"anchor": f"{number} {letter}", "positive": f"{letter} {number}"} for number in range(4) for letter in "abcdefgh"]
    data = tmp_path / "pairs.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in pairs))
    found = {}
    for name, changed in {
        "ddp": {"parallel": "ddp"},
        "fsdp2": {"parallel": "fsdp2", "sharding": "zero-3", "reshard_after_forward": True},
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        small = {"data": str(data), "micro_batch": 8, "grad_accum": 1, "steps": None, "epochs": 8, "learning_rate": 0.005, "held_out": 0}
        put(folder, model, target="torchrun", plan="embedding-pairs", **small, **changed)
        found[name] = losses(run(COMMAND, folder))
        assert (folder / "out/model/model.safetensors").exists()
        assert (folder / "out/model/modules.json").exists() == bool(pooled)
    assert sum(found["ddp"][-4:]) < 0.9 * sum(found["ddp"][:4])
    assert found["fsdp2"] == pytest.approx(found["ddp"], rel=2e-2)


CHATS = [{"role": "user", "content": "What follows 1?"}, {"role": "assistant", "content": "2 follows 1."}]
FORMS: dict[str, tuple[dict[str, Any], float]] = {
    "text": ({"text": "2 follows 1. " * 4}, 1.0),
    "messages": ({"messages": CHATS * 3}, 1.0),
    "completions": ({"prompt": "What follows 1? " * 4, "completion": "2 follows 1. " * 4}, 0.45),
    "chats": ({"prompt": CHATS[:1], "completion": CHATS[1:]}, 0.4),
}
"""Form of a row -> a row, and the share of its tokens that is learnt, about."""
LOOK = """
import json, os, sys
sys.argv = ["", "train.json"]
os.environ |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
exec(open("train.py").read().rpartition("main()")[0])
tokenizer = AutoTokenizer.from_pretrained(plan["model"])
tokenizer.chat_template = core.CHAT
tokenizer.has_own_template = bool(os.environ.get("OWN"))
for form in sys.stdin.read().split():
    plan["data"] = form + ".jsonl"
    rows = load_data(tokenizer)
    labels = [label for row in rows for label in row["labels"]]
    print("seen", json.dumps([form, sorted({len(row["labels"]) for row in rows}), sum(label != -100 for label in labels) / len(labels)]))
"""


def test_fine_tuning_learns_the_answers_of_every_form_of_row(llama: Path, tmp_path: Path) -> None:
    """In blocks of the plan's length, the last of which is filled up; a base model gets a template
    of chats."""
    for form, (row, _) in FORMS.items():
        (tmp_path / f"{form}.jsonl").write_text("\n".join([json.dumps(row)] * 9), encoding="utf-8")
    chats = {
        "steps": 2,
        "sharding": "zero-3",
        "parallel": "fsdp2",
        "gpus_per_node": 2,
        "seq_len": 48,
        "data": str(tmp_path / "chats.jsonl"),
    }
    put(tmp_path, llama, target="fsdp2", plan="full-70b", **chats)
    assert len(losses(run(COMMAND, tmp_path))) == 2
    (tmp_path / "look.py").write_text(LOOK, encoding="utf-8")
    words = [ALONE[0], "look.py"]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment(tmp_path), input=" ".join(FORMS), capture_output=True, text=True, check=False
    )
    seen = [json.loads(line.partition(" ")[2]) for line in done.stdout.splitlines() if line.startswith("seen")]
    assert [form for form, *_ in seen] == list(FORMS), done.stderr[-2000:]
    for form, lengths, share in seen:
        assert lengths == [48]
        assert share == pytest.approx(FORMS[form][1], abs=0.2), form
        assert form in ("text", "messages") or share < 0.7


WIDE = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 6, "num_attention_heads": 8, "num_key_value_heads": 8}
"""About 100 million parameters."""


def peaks_at_start(folder: Path) -> list[float]:
    """The most host memory that each of the two processes had [bytes] until
    the first step began."""
    started = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment(folder))
    assert started.stdout is not None
    next(line for line in started.stdout if '"start"' in line)
    workers = [int(name) for name in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()]
    found = [re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{worker}/status").read_text()) for worker in workers]
    os.kill(started.pid, signal.SIGTERM)
    started.communicate(timeout=300)
    return [1024.0 * int(peak[1]) for peak in found if peak]


def test_a_sharded_model_is_read_by_one_process_and_given_out(llama: Path, tmp_path: Path) -> None:
    """70B in fp32 eight times over is more than any server's memory: each process may hold
    its shards and one whole tensor beside them; the first one the checkpoint as it was
    published too."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    wide = tmp_path / "wide"
    wide.mkdir()
    vocabulary = make_tokenizer(wide)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=vocabulary, max_position_embeddings=128, **WIDE))
    whole = 4.0 * model.num_parameters()
    model.to(torch.bfloat16).save_pretrained(wide)
    found = {}
    for name, path in {"small": llama, "wide": wide}.items():
        folder = tmp_path / f"run-{name}"
        folder.mkdir()
        changed = {"parallel": "fsdp2", "sharding": "zero-3", "from_scratch": False, "steps": 2, "optimizer": "sgd"}
        put(folder, path, target="torchrun", plan="pretrain-1b-alicloud", **changed)
        found[name] = sorted(peaks_at_start(folder))
    least, most = (wide_peak - small_peak for wide_peak, small_peak in zip(found["wide"], found["small"], strict=True))
    assert whole > 4e8
    print(json.dumps({"whole_bytes": whole, "other_process_bytes": least, "first_process_bytes": most}))
    assert least < 0.75 * whole, "half of it is its shards"
    assert most < 1.3 * whole, "half of it is its shards, half the checkpoint in 16 bits"


@pytest.mark.parametrize("tell", [os.kill, os.killpg], ids=["launcher", "all"])
def test_a_run_that_is_told_to_stop_goes_on(tell: Callable[[int, int], None], llama: Path, tmp_path: Path) -> None:
    """SIGTERM to the launcher, as containers send it, or to every process of the job (those that
    load data too), as Slurm, systemd and timeout do: a whole checkpoint is left, and the next start
    begins behind it."""
    long = {"steps": 100_000, "epochs": 1e6, "save_every_s": 1e6, "workers": 2}
    put(tmp_path, llama, target="torchrun", plan="pretrain-1b-alicloud", parallel="fsdp2", **long)
    started = subprocess.Popen(
        COMMAND,
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(tmp_path),
        start_new_session=True,
    )
    assert started.stdout is not None
    for line in started.stdout:
        if '"step": 3' in line:
            break
    tell(started.pid, signal.SIGTERM)
    started.communicate(timeout=120)
    assert started.returncode != 0  # who starts runs again must not take it for done
    marks = list((tmp_path / "out").glob("step-*/complete.json"))
    assert len(marks) == 1
    done = int(marks[0].parent.name.partition("-")[2])
    assert done >= 3
    settings = json.loads((tmp_path / "train.json").read_text(encoding="utf-8")) | {"steps": done + 2}
    (tmp_path / "train.json").write_text(json.dumps(settings), encoding="utf-8")
    lines = logged(run(COMMAND, tmp_path))
    assert lines[0]["start"] == done
    assert [line["step"] for line in lines if "step" in line] == [done + 1, done + 2]


def test_a_run_that_fails_ends(llama: Path, tmp_path: Path) -> None:
    """And does not wait for the processes that load its data, which signals do not end."""
    put(tmp_path, llama, target="torchrun", plan="pretrain-1b-alicloud", parallel="ddp", steps=4, workers=2, save_every_s=0)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/step-1").write_text("no folder", encoding="utf-8")
    done = subprocess.run(COMMAND, cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=False, timeout=150)
    assert done.returncode
    assert '"step": 1' in done.stdout
    assert "step-1" in done.stderr


@pytest.mark.parametrize("plan", ["pretrain-1b-alicloud", "bert-azure"])
def test_killed_it_goes_on_as_if_nothing_had_happened(plan: str, llama: Path, tmp_path: Path) -> None:
    """SIGKILL, as of a server that is lost: with dropout too (BERT), the losses are those of
    a run that nobody disturbed; a checkpoint whose copy was cut off is passed over. More
    than one epoch."""
    bert = plan == "bert-azure"
    model = make_bert(tmp_path / "model") if bert else llama
    steps = 20 if bert else 8
    put(tmp_path, model, target="torchrun", plan=plan, parallel="ddp", steps=steps, seq_len=128, learning_rate=0.01)
    whole = undisturbed(tmp_path)
    first = kill_at(tmp_path, steps - 2)
    half_copy(tmp_path / "out", "step-", steps - 1)
    told = run(ALONE, tmp_path, further=alone())
    begun = logged(told)[0]["start"]
    assert steps - 3 <= begun <= steps - 2
    second = killed_losses(told)
    assert min(second) == begun + 1
    assert {**first, **second} == pytest.approx(whole, rel=1e-4)


def test_figures_reach_the_run_of_mlflow_that_carries_the_plan(llama: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLFLOW_RUN_ID, which the target mlflow prints, is gone on with."""
    mlflow = pytest.importorskip("mlflow")
    store = f"file://{tmp_path / 'runs'}"
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)  # the next line leaves it to every test behind
    mlflow.set_tracking_uri(store)
    with mlflow.start_run() as made:
        pass
    put(tmp_path, llama, target="torchrun", plan="pretrain-1b-alicloud", parallel="ddp", steps=2)
    allowed = {"MLFLOW_ALLOW_FILE_STORE": "true", "MLFLOW_TRACKING_URI": store, "MLFLOW_RUN_ID": made.info.run_id}
    run(ALONE, tmp_path, further={**alone(), **allowed})
    client = mlflow.tracking.MlflowClient(store)
    assert [metric.step for metric in client.get_metric_history(made.info.run_id, "loss")] == [1, 2]
    assert (
        client.get_run(made.info.run_id).data.tags["rightfit-plan"] == files("torchrun", "pretrain-1b-alicloud")["train.json"].split('"')[3]
    )


def test_adapters_alone_are_trained(llama: Path, tmp_path: Path) -> None:
    put(tmp_path, llama, target="torchrun", plan="lora-8b-aws", parallel="fsdp2", steps=2, lora_rank=2, lora_targets=["q_proj", "v_proj"])
    assert len(losses(run(COMMAND, tmp_path))) == 2
    assert 1_000 < (tmp_path / "out/model/adapter_model.safetensors").stat().st_size < 10_000  # of 120,000 bytes of weights


def test_an_encoder_learns_classes(tmp_path_factory: pytest.TempPathFactory, tmp_path: Path) -> None:
    model = make_bert(tmp_path_factory.mktemp("bert"))
    changed = {"parallel": "ddp", "steps": 3, "seq_len": 128}
    put(tmp_path, model, target="torchrun", plan="bert-azure", **changed)
    found = losses(run(COMMAND, tmp_path))
    assert len(found) == 3
    assert found[0] == pytest.approx(1.0986, abs=0.3)  # ln 3: three classes that it has not seen
    assert (tmp_path / "out/model/model.safetensors").exists()


AFTER = [{"prompt": f"after {number % 4}", "completion": "abcd"[number % 4]} for number in range(20)]
ROWS: dict[str, tuple[Callable[[Path], Path], list[dict[str, Any]]]] = {
    "reranker": (
        make_bert,
        [
            {"query": f"{number}", "text": ("wrong" if wrong else "right") * 3, "label": 1 - wrong}
            for number in range(10)
            for wrong in (0, 1)
        ],
    ),
    "text-to-text": (make_t5, AFTER),
    "long-text": (make_led, AFTER),
    "translation": (make_nllb, [{**row, "source_language": "eng_Latn", "target_language": "fra_Latn"} for row in AFTER]),
}
"""Kind -> a tiny model of it, and rows that it can learn."""


@pytest.mark.parametrize("kind", ROWS)
def test_texts_are_judged_and_answered(kind: str, tmp_path: Path) -> None:
    """Two processes, copied and sharded, have the same losses, which fall; rows that were held out
    are judged."""
    make, rows = ROWS[kind]
    model = make(tmp_path / "model")
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "dropout_rate": 0.0}  # the two would drop other parts
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **{name: value for name, value in still.items() if name in config}}))
    data = tmp_path / "rows.jsonl"
    data.write_text("\n".join(json.dumps(row) for row in rows * 4))
    found, small = {}, {"data": str(data), "micro_batch": 4, "grad_accum": 1, "steps": 24, "learning_rate": 0.01, "method": "full"}
    for name, changed in {
        "ddp": {"parallel": "ddp"},
        "fsdp2": {"parallel": "fsdp2", "sharding": "zero-3", "reshard_after_forward": True},
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        own = json.loads(files("torchrun", kind)["train.json"])["attention"]
        put(folder, model, target="torchrun", plan=kind, **{**small, **changed, "attention": own})
        found[name] = losses(run(COMMAND, folder))
        assert (folder / "out/model/model.safetensors").exists()
    assert sum(found["ddp"][-4:]) < 0.9 * sum(found["ddp"][:4])
    assert found["fsdp2"] == pytest.approx(found["ddp"], rel=2e-2)


def test_a_language_that_the_tokenizer_has_not_ends_the_run_in_a_line(tmp_path: Path) -> None:
    row = {**AFTER[0], "source_language": "eng_Latn", "target_language": "French"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(row) + "\n")
    put(
        tmp_path, make_nllb(tmp_path / "model"), target="torchrun", plan="translation", data=str(tmp_path / "rows.jsonl"), attention="eager"
    )
    done = subprocess.run(ALONE, cwd=tmp_path, env=environment(tmp_path, **alone()), capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "knows no language 'French'; it has eng_Latn, fra_Latn" in done.stderr


def test_weights_may_stay_on_the_host(llama: Path, tmp_path: Path) -> None:
    put(tmp_path, llama, target="fsdp2", plan="full-8b-gcp", steps=2, micro_batch=1, offload=True)
    assert len(losses(run(COMMAND, tmp_path))) == 2


@pytest.mark.parametrize(
    "changed",
    [{"parallel": "ddp"}, {"parallel": "fsdp2"}, {"parallel": "ddp", "lora_rank": 2, "lora_targets": ["q_proj"], "method": "lora"}],
)
def test_activations_on_the_host_change_no_loss(changed: dict[str, object], llama: Path, tmp_path: Path) -> None:
    found = []
    for name, host in (("card", False), ("host", True)):
        folder = tmp_path / name
        folder.mkdir()
        put(
            folder,
            llama,
            target="torchrun",
            plan="full-8b-gcp",
            steps=2,
            micro_batch=1,
            gradient_checkpointing=True,
            activations_on_host=host,
            **changed,
        )
        found.append(losses(run(COMMAND, folder)))
    assert len(found[0]) == 2
    assert found[1] == pytest.approx(found[0], rel=1e-5)


@pytest.mark.parametrize(("target", "name"), [(target, name) for target in ("torchrun", "fsdp2") for name in taken(target)])
def test_settings_are_the_plan_s(target: str, name: str) -> None:
    from jobs import job

    found, layout = json.loads(files(target, name)["train.json"]), job(name).option.layout
    assert (found["micro_batch"], found["grad_accum"], found["precision"]) == (layout.micro_batch, layout.grad_accum, layout.precision)
    assert found["parallel"] == ("fsdp2" if target == "fsdp2" or layout.sharding != "none" else "ddp")
    compile(files(target, name)["train.py"], "train.py", "exec")
