"""Files that people keep are read as wishes: settings of trainers, launchers, commands copied from
a page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import FileInputError
from rightfit.workload import Workload
from rightfit.workload.kept_files import read_adapter, read_kept

FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "axolotl": ("a.yml", "base_model: NousResearch/Llama-2-7b-hf\nload_in_4bit: true\nadapter: qlora\nlora_r: 32\nsequence_len: 4096\nmicro_batch_size: 2\ngradient_accumulation_steps: 4\nnum_epochs: 4\noptimizer: paged_adamw_32bit\nbf16: auto\ndatasets:\n  - path: mhenrichsen/alpaca_2k_test\n    type: alpaca\nflash_attention: true\ndeepspeed: deepspeed_configs/zero2.json\n", {"model": "NousResearch/Llama-2-7b-hf", "method": "qlora", "lora_rank": 32, "seq_len": 4096, "micro_batch": 2, "global_batch": 8, "epochs": 4.0, "optimizer": "paged-adamw", "attention": "flash", "sharding": "zero2"}),
    "LLaMA-Factory": ("l.yaml", "model_name_or_path: Qwen/Qwen2.5-7B\nstage: dpo\nfinetuning_type: lora\nlora_rank: 8\ncutoff_len: 2048\nper_device_train_batch_size: 1\ngradient_accumulation_steps: 8\nnum_train_epochs: 3.0\nbf16: true\n", {"model": "Qwen/Qwen2.5-7B", "method": "dpo", "update": "lora", "lora_rank": 8, "seq_len": 2048, "global_batch": 8, "epochs": 3.0, "precision": "bf16"}),
    "TRL": ("t.yaml", "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: trl-lib/Capybara\nuse_peft: true\nload_in_4bit: true\nlora_r: 32\nper_device_train_batch_size: 4\n", {"model": "Qwen/Qwen2.5-0.5B", "method": "qlora", "lora_rank": 32, "micro_batch": 4}),
    "SkyPilot": ("s.yaml", "resources:\n  accelerators: A100-80GB:8\n  use_spot: true\n  infra: gcp/us-central1\nnum_nodes: 2\nrun: |\n  torchrun --nproc_per_node 8 train.py \\\n    --model_name_or_path meta-llama/Llama-2-7b-hf --per_device_train_batch_size 2 --num_train_epochs 3 --bf16 True\n", {"model": "meta-llama/Llama-2-7b-hf", "gpu": "A100-80GB", "max_nodes": 2, "purchase": "spot", "cloud": ["gcp"], "region": ["us-central1"], "micro_batch": 2, "global_batch": 32, "epochs": 3.0, "precision": "bf16"}),
    "Kubernetes": ("k.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: x\n          command: [\"/bin/sh\", \"-c\", \"vllm serve Qwen/Qwen2.5-7B --tensor-parallel-size 2\"]\n          resources:\n            limits:\n              nvidia.com/gpu: 2\n", {"model": "Qwen/Qwen2.5-7B", "task": "serve", "framework": "vllm", "tensor_parallel": 2}),
    "README": ("README.md", "# How to serve\n\n```bash\n$ pip install vllm\n$ python -m vllm.entrypoints.openai.api_server \\\n    --model Qwen/Qwen2.5-72B-Instruct-AWQ --quantization awq_marlin \\\n    -tp 4 --max-model-len 32768 --kv-cache-dtype fp8\n```\n", {"model": "Qwen/Qwen2.5-72B-Instruct-AWQ", "task": "serve", "framework": "vllm", "quantization": "awq", "tensor_parallel": 4, "kv_cache": "fp8"}),
    "SGLang": ("run.sh", "#!/bin/bash\nexport HF_TOKEN=x\npython3 -m sglang.launch_server --model-path meta-llama/Meta-Llama-3-8B --tp 2 --dtype bfloat16 --port 30000 &\n", {"model": "meta-llama/Meta-Llama-3-8B", "task": "serve", "framework": "sglang", "tensor_parallel": 2, "precision": "bf16"}),
    "ms-swift": ("train.sh", "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --train_type lora --lora_rank 8 --max_length 4096 --per_device_train_batch_size 1 --torch_dtype bfloat16", {"model": "Qwen/Qwen2.5-7B", "task": "finetune", "method": "lora", "lora_rank": 8, "seq_len": 4096, "precision": "bf16"}),
    "docker run": ("README.md", "```bash\ndocker run --runtime nvidia --gpus '\"device=0,1\"' -v ~/.cache:/root/.cache --env \"HF_TOKEN=x\" \\\n    -p 8000:8000 --ipc=host vllm/vllm-openai:latest \\\n    --model Qwen/Qwen2.5-14B --tensor-parallel-size 2 --max-model-len 8192\n```\n", {"model": "Qwen/Qwen2.5-14B", "task": "serve", "framework": "vllm", "tensor_parallel": 2}),
    "docker run, TGI": ("run.sh", "sudo docker run --gpus all --shm-size 1g -e MODEL_ID=mistralai/Mistral-7B-v0.1 -e NUM_SHARD=2 ghcr.io/huggingface/text-generation-inference:3.0 --quantize awq\n", {"model": "mistralai/Mistral-7B-v0.1", "task": "serve", "framework": "tgi", "quantization": "awq"}),
    "Kubernetes, image": ("k.yaml", "apiVersion: apps/v1\nkind: Deployment\nspec:\n  template:\n    spec:\n      containers:\n        - name: proxy\n          image: nginx:1\n          args: [\"-g\", \"daemon off;\"]\n        - name: x\n          image: docker.io/vllm/vllm-openai:v0.9.0\n          args: [\"--model\", \"Qwen/Qwen2.5-7B\", \"--tensor-parallel-size=2\", \"--kv-cache-dtype\", \"fp8\"]\n          resources:\n            limits:\n              nvidia.com/gpu: 2\n", {"model": "Qwen/Qwen2.5-7B", "task": "serve", "framework": "vllm", "tensor_parallel": 2, "kv_cache": "fp8"}),
    "Kubernetes, environment": ("k.yaml", "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - name: x\n      image: ghcr.io/huggingface/text-generation-inference:2.4\n      env:\n        - name: MODEL_ID\n          value: Qwen/Qwen2.5-7B\n        - name: HF_TOKEN\n          value: x\n", {"model": "Qwen/Qwen2.5-7B", "task": "serve", "framework": "tgi"}),
    "Docker Compose, image": ("compose.yaml", "services:\n  llm:\n    image: vllm/vllm-openai:latest\n    command: --model Qwen/Qwen2.5-7B --dtype bfloat16\n    deploy:\n      resources:\n        reservations:\n          devices:\n            - driver: nvidia\n              count: 1\n              capabilities: [gpu]\n", {"model": "Qwen/Qwen2.5-7B", "task": "serve", "framework": "vllm", "precision": "bf16"}),
}  # fmt: skip


@pytest.mark.parametrize("form", FILES)
def test_a_kept_file_says_its_wish(form: str, tmp_path: Path) -> None:
    name, text, wanted = FILES[form]
    file = tmp_path / name
    file.write_text(text)
    found = read_kept(file)
    assert found is not None
    assert {key: found.wishes.get(key) for key in wanted} == wanted
    assert not any("TOKEN" in key.upper() for key, _ in found.unused)
    assert Workload.from_file(file, data="1Mtok" if found.wishes["task"] != "serve" else None).model == wanted["model"]


def test_options_beside_it_win(tmp_path: Path) -> None:
    file = tmp_path / "a.yml"
    file.write_text(FILES["axolotl"][1])
    workload = Workload.from_file(file, seq_len="2k", data="1Mtok")
    assert (workload.seq_len, workload.method) == (2048, "qlora")


def test_settings_without_a_model_say_so(tmp_path: Path) -> None:
    file = tmp_path / "ds.json"
    file.write_text(
        '{"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}, "bf16": {"enabled": true}}'
    )
    with pytest.raises(FileInputError, match=r"ds.json \(DeepSpeed\) names no model: add it"):
        Workload.from_file(file)
    found = Workload.from_file(file, model="7B", data="1Mtok", task="finetune")
    assert (found.sharding, found.offload, found.micro_batch, found.precision) == ("zero3", "optimizer", 2, "bf16")


@pytest.mark.parametrize(
    "text", ["model: 7B\nmethod: lora\ndata: 1Mtok\n", "model: 7B\nseq-len: 4k\n", "# nothing\n", "a: &x [1]\nb: *x\n", "- 1\n"]
)
def test_a_workload_file_is_none_of_these(text: str, tmp_path: Path) -> None:
    file = tmp_path / "w.yaml"
    file.write_text(text)
    assert read_kept(file) is None


#: What a script or launcher may write for a value, and what that is worth: with the lines that come
#: before. None: nobody here knows it, so it is said and not taken.
WAYS_OF_SAYING = {
    "plain": ("", "{v}", True),
    "variable": ("X={v}\n", "$X", True),
    "exported": ("export X={v}\n", "${{X}}", True),
    "quoted, with a comment": ('X="{v}"  # as it was\n', '"${{X}}"', True),
    "default": ("", "${{X:-{v}}}", True),
    "default, set": ("X={v}\n", "${{X:-other}}", True),
    "its own default": ('X="${{X:-{v}}}"\n', "$X", True),
    "of a variable": ("Y={v}\nX=$Y\n", "$X", True),
    "unset": ("", "$X", False),
    "argument": ("", "$1", False),
    "set twice": ("X={v}\nif true; then\n  X=other\nfi\n", "$X", False),
}
#: A command, the option that names its model, a number of it, and where the number goes.
COMMANDS = {
    "vllm": ("vllm serve --model {m} --tensor-parallel-size {n}", "tensor_parallel"),
    "torchrun": ("torchrun train.py --model_name_or_path {m} --num_train_epochs {n}", "epochs"),
    "python": ("python train.py --model_name_or_path {m} --num_train_epochs {n}", "epochs"),
    "kept in a variable": ('CMD="torchrun train.py --model_name_or_path {m}"\nCMD="$CMD --num_train_epochs {n}"\n$CMD', "epochs"),
    "behind a comment that seems continued": (
        "# A=1 \\\ntorchrun train.py \\\n  --model_name_or_path {m} --num_train_epochs {n} \\",
        "epochs",
    ),
}


@pytest.mark.parametrize("ending", [".sh", ".slurm", ".sbatch"])
@pytest.mark.parametrize("way", WAYS_OF_SAYING)
@pytest.mark.parametrize("command", COMMANDS)
def test_a_value_is_what_the_script_sets_or_is_said_to_be_open(command: str, way: str, ending: str, tmp_path: Path) -> None:
    text, option = COMMANDS[command]
    before, written, known = WAYS_OF_SAYING[way]
    file = tmp_path / f"run{ending}"
    file.write_text("#!/bin/bash\n" + before.format(v="4") + text.format(m="Qwen/Qwen2.5-7B", n=written.format(v="4")))
    found = read_kept(file)
    assert found is not None
    assert found.wishes.get("model") == "Qwen/Qwen2.5-7B"
    assert (found.wishes.get(option) == 4) is known
    assert any("$" in key for key, _ in found.unused) is not known


@pytest.mark.parametrize("ending", [".sh", ".slurm", ".sbatch", ".job"])
@pytest.mark.parametrize("text", ["make all\n", "#SBATCH --gres=gpu:4\nsrun ./simulate --steps 10\n", "python eval.py --model x\n"])
def test_a_script_without_a_known_command_is_not_called_yaml(text: str, ending: str, tmp_path: Path) -> None:
    file = tmp_path / f"run{ending}"
    file.write_text(text)
    with pytest.raises(FileInputError, match="starts no supported command"):
        Workload.from_file(file)


@pytest.mark.parametrize("place", ["beside", "above", "nowhere"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "model_name_or_path: Qwen/Qwen2.5-7B\nfinetuning_type: full\nstage: sft\ndeepspeed: conf/ds.json\n"),
        ("a.yml", "base_model: Qwen/Qwen2.5-7B\ndeepspeed: conf/ds.json\n"),
        ("run.sh", "deepspeed train.py --model_name_or_path Qwen/Qwen2.5-7B --deepspeed conf/ds.json\n"),
        ("run.sh", "accelerate launch --config_file conf/acc.yaml train.py --model_name_or_path Qwen/Qwen2.5-7B\n"),
        ("sky.yaml", "resources:\n  accelerators: H100:8\nenvs:\n  C: conf/acc.yaml\nrun: |\n  accelerate launch --config_file $C train.py --model_name_or_path Qwen/Qwen2.5-7B\n"),
    ],
)  # fmt: skip
def test_settings_that_a_file_names_are_read_where_they_lie(name: str, text: str, place: str, tmp_path: Path) -> None:
    folder = tmp_path / "scripts"
    (folder / "conf").mkdir(parents=True)
    (tmp_path / "conf").mkdir()
    home = {"beside": folder, "above": tmp_path, "nowhere": tmp_path / "other"}[place] / "conf"
    home.mkdir(parents=True, exist_ok=True)
    (home / "ds.json").write_text('{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"}}}')
    (home / "acc.yaml").write_text(
        "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 3\n  zero_optimization:\n    offload_optimizer:\n      device: cpu\n"
    )
    file = folder / name
    file.write_text(text)
    found = read_kept(file)
    assert found is not None
    if place == "nowhere":
        assert any("conf/" in key for key, _ in found.unused)
        assert "sharding" not in found.wishes
    else:
        assert (found.wishes["sharding"], found.wishes["offload"]) == ("zero3", "optimizer")


@pytest.mark.parametrize("key", ["google.com/tpu", "habana.ai/gaudi", "aws.amazon.com/neuron"])
def test_cards_that_no_plan_takes_are_said(key: str, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(FILES["Kubernetes"][1].replace("nvidia.com/gpu", key))
    found = read_kept(file)
    assert found is not None
    assert any(word.endswith("=2") for word, _ in found.unused)


@pytest.mark.parametrize(
    "written",
    ["{L40S:1, A10G:1, T4:1}", "[L40S:1, A10G:1, T4:1]", "\n    L40S: 1\n    A10G: 1\n    T4: 1"],
)
def test_cards_of_which_any_would_do_are_all_taken(written: str, tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"resources:\n  accelerators: {written}\nrun: vllm serve Qwen/Qwen2.5-7B\n")
    found = read_kept(file)
    assert found is not None
    assert found.wishes["gpu"] == "L40S,A10G,T4"


@pytest.mark.parametrize("rank", [4, 64])
@pytest.mark.parametrize("targets", [["q_proj", "v_proj"], "all-linear"])
@pytest.mark.parametrize("dora", [False, True])
@pytest.mark.parametrize("as_folder", [False, True])
def test_an_adapter_says_how_it_was_trained(rank: int, targets: Any, dora: bool, as_folder: bool, tmp_path: Path) -> None:
    file = tmp_path / "adapter_config.json"
    file.write_text(
        json.dumps(
            {"base_model_name_or_path": "Qwen/Qwen2.5-7B", "peft_type": "LORA", "r": rank, "target_modules": targets, "use_dora": dora}
        )
    )
    found = read_adapter(str(tmp_path if as_folder else file))
    assert found is not None
    assert found.wishes["lora_rank"] == rank
    assert found.wishes["method"] == ("dora" if dora else "lora")
    assert found.wishes["lora_targets"] == ("q,v" if isinstance(targets, list) else "all-linear")


@pytest.mark.parametrize("text", ["7B", "no/such", ""])
def test_what_is_no_adapter_is_none(text: str, tmp_path: Path) -> None:
    assert read_adapter(text) is None
    (tmp_path / "adapter_config.json").write_text(json.dumps({"peft_type": "PREFIX_TUNING"}))
    assert read_adapter(str(tmp_path)) is None


#: Ways to say how much a script goes through, and the passes over the 52,002 rows of alpaca.
@pytest.mark.parametrize("steps", [100, 6500, 65000])
@pytest.mark.parametrize("epochs", ["", "num_train_epochs: 3\n"])
def test_steps_decide_how_often_a_known_data_set_is_passed(steps: int, epochs: str, tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text(
        f"model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 8\ndataset_name: tatsu-lab/alpaca\nmax_steps: {steps}\n{epochs}"
    )
    found = read_kept(file)
    assert found is not None
    workload = Workload.from_file(file)
    assert found.wishes["epochs"] == pytest.approx(steps * 8 / workload.data_samples, rel=0.01)


def test_steps_without_a_length_are_so_many_samples(tmp_path: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("model_name_or_path: Qwen/Qwen2.5-0.5B\nper_device_train_batch_size: 8\nmax_steps: 100\n")
    found = read_kept(file)
    assert found is not None
    assert found.wishes["data"] == "800samples"


@pytest.mark.parametrize("start", ["python", "torchrun --nproc_per_node 2", "accelerate launch", "deepspeed"])
@pytest.mark.parametrize("stage", ["dpo", "grpo", "orpo", "kto", "ppo", ""])
@pytest.mark.parametrize("script", ["{s}_train.py", "scripts/train-{s}.py", "run_{s}.py"])
def test_what_a_script_is_called_after_is_trained(start: str, stage: str, script: str, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    named = script.format(s=stage or "sft")
    file.write_text(f"{start} {named} --model_name_or_path Qwen/Qwen2.5-7B --num_train_epochs 1 --per_device_train_batch_size 2\n")
    found = read_kept(file)
    assert found is not None
    assert found.wishes["method"] == (stage or "full")
    assert found.wishes.get("update") == ("full" if stage else None)


@pytest.mark.parametrize("completions", [4, 8])
def test_several_answers_a_prompt_are_a_training_by_reward(completions: int, tmp_path: Path) -> None:
    file = tmp_path / "run.sh"
    file.write_text(f"accelerate launch train.py --model_name_or_path Qwen/Qwen2.5-7B --num_generations {completions}\n")
    found = read_kept(file)
    assert found is not None
    assert (found.wishes["method"], found.wishes["completions"]) == ("grpo", completions)


@pytest.mark.parametrize(("dataset", "samples"), [("identity", "1000samples"), ("identity,alpaca_en_demo", "2000samples")])
@pytest.mark.parametrize(("more", "recompute"), [("", "full"), ("disable_gradient_checkpointing: true\n", "none")])
def test_llama_factory_takes_so_many_rows_and_recomputes(tmp_path: Path, dataset: str, samples: str, more: str, recompute: str) -> None:
    path = tmp_path / "sft.yaml"
    path.write_text(
        f"model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nstage: sft\nfinetuning_type: lora\ndataset: {dataset}\nmax_samples: 1000\n"
        f"cutoff_len: 2048\nper_device_train_batch_size: 1\n{more}"
    )
    found = read_kept(path)
    assert found is not None
    assert (found.wishes["data"], found.wishes["recompute"]) == (samples, recompute)
