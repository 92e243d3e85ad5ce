"""The exported script tunes by preferences and by rewards: tiny models with random weights on the
processor, each trainer of TRL's own class, judged by rows that were held out, and served after its
adapter was put into the base."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import SMALL, make_llama, run, torchrun
from typical_plans import plan_values

from rightfit.exports import ExportSettings, files_of, find_target, job_of, plan_document

for needed in ("torch", "trl", "peft", "datasets", "tokenizers"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target trl")

BETTER = {
    "dpo": {"prompt": "What follows 1? ", "chosen": "2 follows 1.", "rejected": "Nothing does."},
    "orpo": {
        "prompt": "What follows 1?",
        "chosen": [{"role": "user", "content": "What follows 1?"}, {"role": "assistant", "content": "2 follows 1."}],
        "rejected": [{"role": "user", "content": "What follows 1?"}, {"role": "assistant", "content": "Nothing."}],
    },
    "reward": {"chosen": "What follows 1? 2 follows 1.", "rejected": "What follows 1? Nothing does."},
    "kto": {"prompt": "What follows 1? ", "completion": "2 follows 1."},
    "grpo": {"prompt": "What is 1 and 1? ", "solution": "1 + 1 is #### 2"},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_llama(tmp_path_factory.mktemp("model"))


def files(objective: str, update: str, **settings: Any) -> dict[str, str]:
    """The files of a plan to tune so, with a model and a card that everything knows."""
    values = plan_values("lora-8b-aws")
    option = values["options"][0]
    layout = {
        **option["layout"],
        "method": objective,
        "update": update,
        "rollout": "colocated" if objective == "grpo" else "",
        "micro_batch": 2,
    }
    changed = {**values, "options": [{**option, "layout": {**layout, "grad_accum": 4}}]}
    return dict(find_target("trl").files(job_of(plan_document(changed), settings=ExportSettings(**settings))))


def put(folder: Path, objective: str, update: str, model: Path, *, rows: int = 24, **changed: Any) -> None:
    """The exported script with its settings made small, and data."""
    found = files(objective, update, **({"columns": "answer=solution"} if objective == "grpo" else {}))
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    data = [{**BETTER[objective], **({"label": bool(number % 2)} if objective == "kto" else {})} for number in range(rows)]
    (folder / "data.jsonl").write_text("\n".join(json.dumps(row) for row in data), encoding="utf-8")
    settings = json.loads(found["train.json"])
    small = {
        **SMALL,
        "model": str(model),
        "data": str(folder / "data.jsonl"),
        "output": str(folder / "out"),
        "sharding": "none",
        "steps": 2,
    }
    if objective == "grpo":
        answers = {"num_generations": 2, "max_completion_length": 8, "use_vllm": False}
        small["rollout"] = {**{name: value for name, value in settings["rollout"].items() if not name.startswith("vllm")}, **answers}
    (folder / "train.json").write_text(json.dumps({**settings, **small, "held_out": 0.1, **changed}), encoding="utf-8")


@pytest.mark.parametrize(
    ("objective", "update", "processes"),
    [("dpo", "full", 1), ("dpo", "lora", 2), ("orpo", "lora", 1), ("kto", "full", 1), ("reward", "lora", 1), ("grpo", "lora", 2)],
)
def test_it_learns_and_is_judged(objective: str, update: str, processes: int, model: Path, tmp_path: Path) -> None:
    put(tmp_path, objective, update, model)
    run([*torchrun(processes), "train.py", "train.json"], tmp_path)
    out = tmp_path / "out"
    assert (out / ("adapter_model.safetensors" if update == "lora" else "model.safetensors")).stat().st_size > 1_000
    state = json.loads((out / "checkpoint-2" / "trainer_state.json").read_text(encoding="utf-8"))
    assert state["global_step"] == 2
    judged = json.loads((out / "evaluation.json").read_text(encoding="utf-8"))
    assert {"eval_loss"} <= set(judged), judged
    if objective in ("dpo", "orpo", "kto"):
        assert any("rewards" in name for name in judged)
    if objective == "grpo":
        assert any("right_number" in name for name in judged)
    if update == "lora":
        run([sys.executable, "merge.py", "train.json"], tmp_path)
        assert (out / "merged" / "config.json").exists()


def test_the_adapter_changes_the_merged_model(model: Path, tmp_path: Path) -> None:
    """A merged model gives what base and adapter give together, and not what the base gives."""
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    put(tmp_path, "dpo", "lora", model, learning_rate=0.5)
    run([sys.executable, "train.py", "train.json"], tmp_path)
    run([sys.executable, "merge.py", "train.json"], tmp_path)
    ids = torch.arange(8)[None]
    base = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        plain = base(ids).logits
        adapted = PeftModel.from_pretrained(base, str(tmp_path / "out"))(ids).logits
        merged = AutoModelForCausalLM.from_pretrained(tmp_path / "out" / "merged")(ids).logits
    assert torch.allclose(adapted, merged, atol=1e-4)
    assert not torch.allclose(plain, merged, atol=1e-2)


def test_it_goes_on_from_its_checkpoint(model: Path, tmp_path: Path) -> None:
    put(tmp_path, "dpo", "full", model)
    run([sys.executable, "train.py", "train.json"], tmp_path)
    put(tmp_path, "dpo", "full", model, steps=3)
    run([sys.executable, "train.py", "train.json"], tmp_path)
    state = json.loads((tmp_path / "out/checkpoint-3/trainer_state.json").read_text(encoding="utf-8"))
    assert [entry["step"] for entry in state["log_history"] if "loss" in entry] == [1, 2, 3]


def test_data_without_an_answer_say_where_rewards_are_written(model: Path, tmp_path: Path) -> None:
    put(tmp_path, "grpo", "lora", model, columns={})
    with pytest.raises(AssertionError, match=r'the data have no column "answer": say in reward\.py'):
        run([sys.executable, "train.py", "train.json"], tmp_path)


ENGINE = """
import json, sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

folder = sys.argv[2]
model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
ids = tokenizer("What follows 1?", return_tensors="pt").input_ids
found = model.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False, pad_token_id=0)
with torch.no_grad():
    logits = model(torch.arange(8)[None]).logits[0, -1, :8].tolist()
answer = {"words": sys.argv[1:], "tokens": found.shape[1] - ids.shape[1], "text": tokenizer.decode(found[0]), "logits": logits}
print(json.dumps(answer))
"""


def logits_of(folder: Path) -> list[float]:
    """What the base says of the same tokens."""
    import torch
    from transformers import AutoModelForCausalLM

    with torch.no_grad():
        found: list[float] = AutoModelForCausalLM.from_pretrained(folder)(torch.arange(8)[None]).logits[0, -1, :8].tolist()
    return found


def test_what_was_trained_is_served_whole(model: Path, tmp_path: Path) -> None:
    """serve.sh with Transformers in the place of the engine: it reads the folder that the engine is
    told, and answers with the adapter in it."""
    found = files_of(job_of(plan_document(plan_values("lora-8b-aws")), settings=ExportSettings(then="serve")), "trl")
    for name, text in found.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    put(tmp_path, "dpo", "lora", model, learning_rate=0.5)
    run([sys.executable, "train.py", "train.json"], tmp_path)
    folder = tmp_path / "then-serve"
    (folder / "merge.json").write_text(json.dumps({"model": str(model), "precision": "fp32"}), encoding="utf-8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "vllm").write_text(f"#!{sys.executable}\n{ENGINE}", encoding="utf-8")
    (tmp_path / "bin" / "vllm").chmod(0o755)
    started = f"PATH={tmp_path}/bin:{Path(sys.executable).parent}:$PATH exec sh serve.sh ../out"
    told = run(["sh", "-c", started], folder, further={"VLLM_API_KEY": "key"})
    answer = json.loads(next(line for line in told.splitlines() if line.startswith('{"words"')))
    assert answer["words"][:4] == [
        "serve",
        f"{tmp_path}/out/merged",
        "--served-model-name",
        job_of(plan_document(plan_values("lora-8b-aws"))).name,
    ]
    assert answer["tokens"] == 5
    assert answer["text"]
    assert answer["logits"] != pytest.approx(logits_of(model), abs=1e-3)


@pytest.mark.parametrize("objective", ["dpo", "kto", "grpo"])
def test_strings_are_learnt_in_the_template_that_the_model_is_served_with(objective: str, model: Path, tmp_path: Path) -> None:
    """Where the tokenizer has one of its own, as instruct models do."""
    put(tmp_path, objective, "lora", model)
    look = "\n".join(
        [
            "import sys",
            "sys.argv = ['', 'train.json']",
            "exec(open('train.py').read().partition('saving = SaveInTime')[0])",
            "tokenizer = load_tokenizer()",
            "for own in (False, True):",
            "    tokenizer.has_own_template = own",
            "    row = load_data(tokenizer)[0]",
            "    strings = [isinstance(value, str) for name, value in row.items() if name in core.ROLES]",
            "    assert strings and all(strings) != own and any(strings) != own, (own, row)",
        ]
    )
    (tmp_path / "look.py").write_text(look)
    run([sys.executable, "look.py"], tmp_path)
