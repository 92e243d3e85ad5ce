"""Training targets: each of the plan's figures under its program's name, options that the program
has, and builds that run on the card."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import re
import shlex
from typing import Any

import pytest
import yaml
from option_lists import parser
from sharded import sharded_job
from typical_plans import FURTHER, WISHES, plan_values

from rightfit.exports import ExportSettings, Job, find_target, job_of, plan_document
from rightfit.exports.bundle import host_line
from rightfit.exports.learning import lora_rank, lora_targets
from rightfit.exports.model_words import architecture, hub_id, model_kind
from rightfit.exports.stack import FRAMEWORKS, stack_name, stack_of, stack_problem, torch_problem
from rightfit.exports.targets.large_training import options as megatron_options
from rightfit.exports.targets.vision_and_speech import SCRIPTS, script_of
from rightfit.exports.training_words import LEAST_SAVE_S, SHA256, WHOLE_LAYERS, optimizer, recomputes_whole, run_s, save_every_s, told_steps
from rightfit.facts import accelerators
from rightfit.facts.devices import build_for, builds

PLANS = (*WISHES, *FURTHER)
TRAINING = (
    "accelerate",
    "axolotl",
    "colossalai",
    "deepspeed",
    "diffusers",
    "fsdp2",
    "llama-factory",
    "megatron",
    "ms-swift",
    "timm",
    "torchrun",
    "trl",
)
HOSTILE = "a\"b'c $(reboot) `id` ${x} %{y}\n--flag: 日本"


def job(name: str, **changed: Any) -> Job:
    """The job of a typical plan, with its layout or workload changed."""
    values = plan_values(name)
    option = values["options"][0]
    layout = {**option["layout"], **{key: value for key, value in changed.items() if key in option["layout"]}}
    gpu = {**option["accelerator"], **({"name": changed["gpu"]} if "gpu" in changed else {})}
    workload = {
        **values["workload"],
        **{key: value for key, value in changed.items() if key in ("model", "task", "optimizer", "lora_targets", "lora_rank")},
    }
    facts = {**option["facts"], **changed.get("facts", {})}
    options = [{**option, "layout": layout, "accelerator": gpu, "facts": facts}]
    return job_of(
        plan_document({**values, "workload": workload, "options": options}),
        settings=ExportSettings(data_path=changed.get("data_path", "data")),
    )


@functools.cache
def taken(target: str) -> list[str]:
    return [name for name in PLANS if not find_target(target).problem(job(name))]


def words_of(target: str, given: Job) -> list[str]:
    """The words of train.sh behind exec."""
    text = find_target(target).files(given)["train.sh"]
    return shlex.split(text.partition("\nexec ")[2].replace(" \\\n", " "))


@pytest.mark.parametrize("name", PLANS)
def test_the_stack_of_a_plan_is_one_that_takes_it(name: str) -> None:
    found = job(name)
    assert not stack_problem(found)
    if found.task not in ("serve", "batch"):
        files = stack_of(found).files
        assert "requirements.txt" in files or stack_name(found) == "megatron"


def test_each_kind_of_plan_has_its_own_stack() -> None:
    chosen = {name: stack_name(job(name)) for name in PLANS}
    assert chosen["qlora-8b"] == "trl"
    assert stack_name(job("full-8b-gcp", offload="optimizer")) == "deepspeed"  # the optimizer lies on the host
    assert stack_name(job("qlora-8b", offload="activations")) == "trl"
    assert chosen["bert-azure"] == "torchrun"  # TRL trains no text encoders
    assert chosen["pretrain-1b-alicloud"] == "torchrun"  # from random weights
    assert (chosen["resnet-gcp"], chosen["sdxl-aws"], chosen["pretrain-8b-megatron"]) == ("timm", "diffusers", "megatron")
    assert stack_name(job("full-70b", sharding="zero-2")) == "deepspeed"


@pytest.mark.parametrize("sharding", ["zero-3", "hybrid"])
@pytest.mark.parametrize("name", ["full-70b", "full-8b-gcp"])
def test_a_model_that_is_trained_whole_in_shards_is_loaded_and_saved_in_shards(name: str, sharding: str) -> None:
    """The Trainer upcasts whole copies in the server's memory, and gathers the state on one process
    or (from shards) writes no model at all."""
    found = job(name, sharding=sharding)
    assert stack_name(found) == "torchrun"
    settings = json.loads(stack_of(found).files["train.json"])
    assert (settings["parallel"], settings["from_scratch"]) == ("fsdp2", False)
    assert settings["data_columns"] == [["messages"], ["prompt", "completion"], ["text"]]
    for target in ("trl", "accelerate"):
        assert re.search(r"gathers it on one process|hybrid", str(find_target(target).problem(found)))
    adapters = job(name, sharding="zero-3", method="lora")
    told = yaml.safe_load(find_target("accelerate").files(adapters)["accelerate.yaml"])
    assert told["fsdp_config"]["fsdp_state_dict_type"] == "FULL_STATE_DICT"


def test_the_readme_tells_the_memory_of_the_server() -> None:
    for name in ("full-70b", "lora-8b-aws", "chat-8b-aws"):
        found = job(name)
        needed = found.option.estimate.get("host_memory_bytes")
        told = host_line(found)
        assert bool(told) == (found.task == "finetune" and needed is not None), name
        if needed is not None and told:
            assert f"{needed.mid / 1e9:,.0f} GB, most while it loads" in told
    assert host_line(job("full-70b"))


def test_every_training_target_takes_a_typical_plan() -> None:
    assert all(taken(target) for target in TRAINING)


@pytest.mark.parametrize("name", PLANS)
def test_megatron_has_the_options(name: str) -> None:
    if name not in taken("megatron"):
        return
    found, layout = job(name), job(name).option.layout
    values = vars(parser("megatron").parse_args(list(megatron_options(found))))
    assert values["global_batch_size"] == layout.micro_batch * layout.grad_accum * layout.data
    assert values["tensor_model_parallel_size"] * values["pipeline_model_parallel_size"] * layout.data * layout.context == found.num_gpus
    assert values["seq_length"] == found.seq_len
    assert (values["num_layers"], values["hidden_size"]) == {"full-70b": (80, 8192), "pretrain-1b-alicloud": (16, 2048)}.get(
        name, (32, 4096)
    )
    assert values["bf16"] is (layout.precision == "bf16")


@pytest.mark.parametrize(
    "changed",
    [
        {"recompute": "full"},
        {"precision": "fp8", "sharding": "zero-1"},
        {"offload": "optimizer", "sharding": "zero-1"},
        {"model": "mistralai/Mixtral-8x7B-v0.1", "expert": 2, "sharding": "none"},
        {"model": "gpt2", "precision": "fp16"},
        {"model": "Qwen/Qwen2.5-7B", "pipeline": 2, "context": 2},
    ],
)
def test_megatron_has_the_options_of_other_layouts(changed: dict[str, Any]) -> None:
    found = job("pretrain-8b-megatron", **changed)
    assert not find_target("megatron").problem(found)
    parser("megatron").parse_args(list(megatron_options(found)))


def test_an_option_that_a_program_lacks_is_found() -> None:
    with pytest.raises(ValueError, match="unrecognized arguments: --no-such-option"):
        parser("megatron").parse_args(["--no-such-option"])
    with pytest.raises(ValueError, match="invalid choice"):
        parser("megatron").parse_args(["--ckpt-format", "zip"])


def test_timm_has_the_options() -> None:
    values = parser("timm").parse_args(words_of("timm", job("resnet-gcp"))[words_of("timm", job("resnet-gcp")).index("pinned.json") + 1 :])
    layout = job("resnet-gcp").option.layout
    assert (values.model, values.batch_size, values.grad_accum_steps, values.epochs) == (
        "resnet50",
        layout.micro_batch,
        layout.grad_accum,
        90,
    )
    assert (values.amp, values.amp_dtype, values.channels_last, values.img_size) == (True, "bfloat16", True, 224)
    words = words_of("timm", job("resnet-gcp", task="finetune", recompute="full", precision="fp16", optimizer="lamb", model="vit-b-16"))
    values = parser("timm").parse_args(words[words.index("pinned.json") + 1 :])
    assert (values.pretrained, values.grad_checkpointing, values.amp_dtype, values.opt) == (True, True, "float16", "lamb")


@pytest.mark.parametrize(
    "model", ["sdxl", "stable-diffusion-v1-5/stable-diffusion-v1-5", "flux.1-dev", "stabilityai/stable-diffusion-3-medium"]
)
@pytest.mark.parametrize("method", ["full", "lora"])
def test_diffusers_scripts_have_the_options(model: str, method: str) -> None:
    found = job("sdxl-aws", model=model, method=method, recompute="full", optimizer="adamw-8bit")
    if problem := find_target("diffusers").problem(found):
        assert "no script is chosen" in str(problem)
        assert model.endswith("medium")
        return
    words = words_of("diffusers", found)
    values = parser("diffusers", script_of(found)).parse_args(words[words.index("pinned.json") + 1 :])
    assert values.train_batch_size == found.option.layout.micro_batch
    assert values.pretrained_model_name_or_path == hub_id(found)
    assert script_of(found) in json.loads(find_target("diffusers").files(found)["pinned.json"])["url"]


def test_every_script_is_pinned_by_its_content() -> None:
    assert set(SCRIPTS.values()) <= set(SHA256)
    assert all(len(value) == 64 for value in SHA256.values())


@pytest.mark.parametrize(("steps", "warm"), [(24, "3"), (400, "40"), (5000, "100")])
def test_a_short_run_of_diffusers_reaches_its_learning_rate(steps: int, warm: str) -> None:
    words = words_of("diffusers", job("sdxl-aws", facts={"steps": steps}))
    assert words[words.index("--lr_warmup_steps") + 1] == warm


@pytest.mark.parametrize("target", [name for name in TRAINING if name not in ("diffusers", "timm")])
def test_activations_alone_are_moved_or_the_plan_is_refused(target: str) -> None:
    name = next(name for name in taken(target) if "param" not in job(name).option.layout.offload)
    changed = job(name, offload="activations", recompute="full")
    if problem := find_target(target).problem(changed):
        assert "activations in host memory" in str(problem), problem
        return
    assert target in ("trl", "axolotl", "torchrun", "fsdp2")
    written = "".join(find_target(target).files(changed).values())
    assert "deepspeed.json" not in find_target(target).files(changed)
    assert '"activations_on_host": true' in written or "activation_offloading: true" in written
    assert '"offload": true' not in written


def test_deepspeed_carries_stage_buckets_and_offloading() -> None:
    found = json.loads(find_target("deepspeed").files(job("full-8b-gcp", sharding="zero-2", offload="optimizer"))["deepspeed.json"])
    assert found["zero_optimization"]["stage"] == 2
    assert found["zero_optimization"]["offload_optimizer"] == {"device": "cpu", "pin_memory": True}
    assert "offload_param" not in found["zero_optimization"]
    assert found["zero_optimization"]["reduce_bucket_size"] == 4096**2
    assert found["bf16"] == {"enabled": True}
    found = json.loads(find_target("deepspeed").files(job("full-8b-gcp", offload="optimizer+parameters"))["deepspeed.json"])
    assert found["zero_optimization"]["stage"] == 3
    assert found["zero_optimization"]["offload_param"]["device"] == "cpu"


@pytest.mark.parametrize("name", PLANS)
def test_the_batch_is_the_plan_s_everywhere(name: str) -> None:
    if name not in taken("deepspeed"):
        return
    found, layout = job(name), job(name).option.layout
    settings = json.loads(find_target("deepspeed").files(found)["deepspeed.json"])
    assert settings["train_batch_size"] == layout.micro_batch * layout.grad_accum * max(1, found.num_gpus)
    if not find_target("llama-factory").problem(found):
        factory = yaml.safe_load(find_target("llama-factory").files(found)["train.yaml"])
        assert (factory["per_device_train_batch_size"], factory["gradient_accumulation_steps"]) == (layout.micro_batch, layout.grad_accum)
        assert factory.get("max_steps") == told_steps(found)
    tool = yaml.safe_load(find_target("axolotl").files(found)["axolotl.yaml"])
    assert (tool["micro_batch_size"], tool["gradient_accumulation_steps"]) == (layout.micro_batch, layout.grad_accum)
    if not find_target("accelerate").problem(found):
        accelerate = yaml.safe_load(find_target("accelerate").files(found)["accelerate.yaml"])
        assert accelerate["num_processes"] == max(1, found.num_gpus)


def test_adapters_have_the_plan_s_rank_and_modules() -> None:
    found = job("qlora-8b", lora_rank=64, lora_targets=["q", "v"])
    factory = yaml.safe_load(find_target("llama-factory").files(found)["train.yaml"])
    assert (factory["lora_rank"], factory["lora_target"], factory["quantization_bit"]) == (64, "q_proj,v_proj", 4)
    tool = yaml.safe_load(find_target("axolotl").files(found)["axolotl.yaml"])
    assert (tool["lora_r"], tool["lora_target_modules"], tool["load_in_4bit"]) == (64, ["q_proj", "v_proj"], True)
    words = words_of("ms-swift", found)
    assert words[words.index("--target_modules") : words.index("--target_modules") + 3] == ["--target_modules", "q_proj", "v_proj"]
    train = json.loads(find_target("trl").files(found)["train.json"])
    assert (train["lora_rank"], train["lora_targets"]) == (64, ["q_proj", "v_proj"])


@pytest.mark.parametrize("name", PLANS)
def test_adapters_that_the_wish_leaves_open_are_those_that_the_plan_counted(name: str) -> None:
    """Every matrix at twice the rank takes a fifth more memory and time than the plan says: the
    adapter's parameters, from the files, are the plan's."""
    if name not in taken("trl"):
        return
    found = job(name)
    counted = plan_values(name)["options"][0]["memory_terms"].get("adapters")
    if not counted:  # whole models learn
        return
    settings = json.loads(find_target("trl").files(found)["train.json"])
    known = architecture(found)
    assert known is not None
    assert settings["lora_targets"] == ["q_proj", "v_proj"]
    width, keys = known.num_heads * known.head_dim, known.num_kv_heads * known.head_dim
    per_rank = known.num_layers * (2 * known.hidden_size + width + keys)
    cards = max(1, found.option.layout.shard_degree)
    assert 4 * settings["lora_rank"] * per_rank / cards == pytest.approx(counted, rel=0.01)


@pytest.mark.parametrize("model", ["openai-community/gpt2", "deepseek-ai/DeepSeek-V3", "microsoft/Phi-3-mini-4k-instruct"])
def test_models_whose_modules_have_other_names_get_adapters_everywhere(model: str) -> None:
    assert lora_targets(job("qlora-8b", model=model)) == "all-linear"


@pytest.mark.parametrize(("model", "names"), [("google-bert/bert-base-uncased", ["query", "value"]), ("google-t5/t5-base", ["q", "v"])])
def test_letters_are_the_names_of_the_model(model: str, names: list[str]) -> None:
    for asked in ([], ["q", "v"]):
        assert lora_targets(job("qlora-8b", model=model, lora_targets=asked)) == names


def test_pictures_and_sound_keep_the_rank_that_their_plans_assume() -> None:
    assert lora_rank(job("whisper-train-aws", method="lora")) == 16


@pytest.mark.parametrize("words", [["all-linear"], ["all"], ["linear"]])
def test_every_matrix_is_asked_for_by_the_programs_own_word(words: list[str]) -> None:
    """PEFT takes "all-linear" as a word alone: in a list it looks for a module of that name."""
    found = job("qlora-8b", lora_targets=words)
    assert yaml.safe_load(find_target("llama-factory").files(found)["train.yaml"])["lora_target"] == "all"
    assert yaml.safe_load(find_target("axolotl").files(found)["axolotl.yaml"])["lora_target_linear"] is True
    asked = words_of("ms-swift", found)
    assert asked[asked.index("--target_modules") + 1] == "all-linear"
    assert json.loads(find_target("trl").files(found)["train.json"])["lora_targets"] == "all-linear"


@pytest.mark.parametrize("name", PLANS)
def test_no_run_loses_more_than_an_hour_or_a_twentieth_of_itself(name: str) -> None:
    if name not in taken("trl"):
        return
    found = job(name)
    every_s = json.loads(find_target("trl").files(found)["train.json"])["save_every_s"]
    least = max(60.0, 20 * float((found.option.facts.get("risk") or {}).get("save_s") or 0.0))
    assert every_s <= max(least, min(3600.0, 0.05 * found.option.facts["run_s"])) + 0.1


def test_checkpoints_come_at_the_plan_s_interval() -> None:
    found = job("pretrain-1b-alicloud")
    facts = found.option.facts
    interval_s = min((facts["risk"] or {}).get("interval_s", 1800.0), 3600.0, 0.05 * facts["run_s"])
    assert json.loads(find_target("torchrun").files(found)["train.json"])["save_every_s"] == pytest.approx(interval_s, abs=0.1)
    steps = yaml.safe_load(find_target("llama-factory").files(found)["train.yaml"])["save_steps"]
    assert steps == pytest.approx(interval_s / found.option.estimate["step_s"].mid, abs=1)


@pytest.mark.parametrize(
    ("target", "changed", "said"),
    [
        ("trl", {"sharding": "zero-2"}, "use deepspeed or torchrun"),
        ("trl", {"optimizer": "muon"}, "no optimizer muon"),
        ("deepspeed", {"sharding": "hybrid"}, "use fsdp2"),
        ("deepspeed", {"offload": "optimizer", "optimizer": "lion"}, "only AdamW runs"),
        ("trl", {"tensor": 2}, "use megatron"),
        ("torchrun", {"method": "qlora"}, "quantized weights"),
        ("trl", {"method": "galore"}, "the method is galore"),
        ("megatron", {"model": "deepseek-ai/DeepSeek-V3"}, "latent"),
        ("megatron", {"gpu": "V100-SXM-16GB"}, "compute capability 7.5"),
        ("trl", {"gpu": "K80"}, "K80 runs PyTorch 2.3.1 (CUDA 11.8), and this stack needs 2.6 or later"),
        ("colossalai", {"gpu": "B200-SXM-180GB"}, "this stack needs 2.2 to 2.5.1"),
        ("trl", {"gpu": "TPU-v4"}, "no PyTorch release of our table runs on TPU-v4"),
    ],
)
def test_what_a_target_cannot_express_is_named(target: str, changed: dict[str, Any], said: str) -> None:
    assert said in str(find_target(target).problem(job("full-70b", **changed)))


@pytest.mark.parametrize("target", TRAINING)
def test_hostile_names_stay_in_their_place(target: str) -> None:
    """A model and a data set with quotes, newlines and commands in their names come back whole from
    JSON, YAML and the shell's own words."""
    for name in taken(target):
        changed = job(name, data_path=HOSTILE) if name in FURTHER else job(name, model=HOSTILE, data_path=HOSTILE, facts={"seq_len": 512})
        if find_target(target).problem(changed):
            continue
        files = find_target(target).files(changed)
        scripts = "\0".join(
            shlex.split(
                "\0".join(text.partition("\nexec ")[2] for path, text in files.items() if path.endswith(".sh")).replace(" \\\n", " ")
            )
        )
        assert HOSTILE in scripts or any(_holds(files[path], path) for path in files)


def _holds(text: str, path: str) -> bool:
    if path.endswith(".json"):
        return HOSTILE in _values(json.loads(text))
    return path.endswith((".yaml", ".yml")) and HOSTILE in _values(yaml.safe_load(text))


def _values(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [found for item in value.values() for found in _values(item)]
    return [found for item in value for found in _values(item)] if isinstance(value, list) else [value]


@pytest.mark.parametrize(
    ("card", "package"),
    [
        ("H100-SXM-80GB", "torch==2.8.0+cu128"),
        ("L4", "torch==2.8.0+cu128"),  # 8.9 runs the kernels of 8.6
        ("B200-SXM-180GB", "torch==2.8.0+cu128"),
        ("B300-SXM-288GB", "torch==2.8.0+cu129"),  # 10.3 runs the kernels of 10.0; no compiler of CUDA 12.8 knows it
        ("T4", "torch==2.8.0+cu128"),
        ("V100-SXM-16GB", "torch==2.8.0+cu126"),  # CUDA 12.8 builds have no Volta kernels in every release
        ("P40", "torch==2.8.0+cu126"),
        ("K80", "torch==2.3.1+cu118"),
        ("GB200", "torch==2.8.0+cu129"),  # beside Arm processors
        ("MI300X", "torch==2.8.0+rocm6.4"),
        ("", "torch==2.8.0+cpu"),
    ],
)
def test_the_build_runs_on_the_card(card: str, package: str) -> None:
    found = build_for(card)
    assert found is not None
    assert found.package == package


def _has_cuda(given: tuple[int, ...], least: str) -> bool:
    return not least or given[:2] >= tuple(map(int, least.split(".")))


def test_builds_are_whole_and_every_rented_nvidia_card_has_one() -> None:
    for build in builds():
        assert build.source
        assert build.framework in FRAMEWORKS
        assert not build.vendor or (build.serves and build.driver)
    cards = {name: card for name, card in accelerators().items() if card.vendor == "NVIDIA"}
    older = {
        name: build.platform for name, card in cards.items() if (build := build_for(name)) and not _has_cuda(build.cuda, card.min_cuda)
    }
    assert not older, "the fact base says that these cards need a later CUDA"
    without = {name for name in cards if build_for(name) is None}
    assert without == {"GRID-K520", "T4G"}  # compute capability 3.0; Turing beside Arm, for which nobody builds
    assert not torch_problem(job("qlora-8b"))


def test_kinds_of_models() -> None:
    assert {name: model_kind(job(name)) for name in ("qlora-8b", "bert-azure", "resnet-gcp", "sdxl-aws")} == {
        "qlora-8b": "decoder",
        "bert-azure": "encoder",
        "resnet-gcp": "vision",
        "sdxl-aws": "diffusion",
    }
    assert hub_id(job("qlora-8b", model="llama3-8b")) == "meta-llama/Meta-Llama-3-8B"
    assert hub_id(job("qlora-8b", model="my/own-model")) == "my/own-model"


def test_a_conda_environment_lists_the_stack_s_packages() -> None:
    files = find_target("conda").files(job("bert-azure"))
    found = yaml.safe_load(files["environment.yml"])
    assert found["dependencies"][0] == "python=3.12"
    assert found["dependencies"][2]["pip"] == files["requirements.txt"].splitlines()
    assert "torch==2.8.0+cu128" in found["dependencies"][2]["pip"]
    combinations = json.loads(files["compatibility.json"])["frameworks"]
    assert combinations["tensorflow"]["package"] == "tensorflow[and-cuda]==2.20.0"
    assert combinations["pytorch"]["least_driver"] == "570.26"
    assert "container image" in str(find_target("conda").problem(job("pretrain-8b-megatron")))


def test_a_run_on_spot_saves_on_its_way_whatever_saving_takes() -> None:
    for name in ("full-70b", "qlora-8b", "resnet-gcp", "pretrain-8b-megatron"):
        values = plan_values(name)
        found = job_of(plan_document({**values, "options": [{**values["options"][0], "purchase": "spot"}]}))
        assert save_every_s(found) <= max(LEAST_SAVE_S, run_s(found) / 2), name


LANGUAGE = ("trl", "deepspeed", "accelerate", "torchrun", "fsdp2", "colossalai", "axolotl", "llama-factory", "ms-swift")
WHOLE = {True: "full", False: "none"}


def set_up(target: str, given: Job) -> dict[str, Any]:
    """The words of the plan's set-up as a program's own files have them."""
    files = find_target(target).files(given)
    if target == "ms-swift":
        words = words_of(target, given)
        told = dict(itertools.pairwise(words))
        precision = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}[told["--torch_dtype"]]
        steps_told = told.get("--max_steps")
        numbers = [told["--per_device_train_batch_size"], told["--gradient_accumulation_steps"], told["--max_length"], steps_told or 0]
        found = dict(zip(("micro", "accum", "length", "steps"), map(int, numbers), strict=True))
        recompute = WHOLE[told["--gradient_checkpointing"] == "true"]
        return {
            **found,
            "epochs": float(told["--num_train_epochs"]),
            "optimizer": told["--optim"],
            "precision": precision,
            "recompute": recompute,
        }
    name = {"axolotl": "axolotl.yaml", "llama-factory": "train.yaml"}.get(target, "train.json")
    told = yaml.safe_load(files[name])
    keys = {
        "axolotl": ("micro_batch_size", "gradient_accumulation_steps", "sequence_len", "num_epochs", "optimizer"),
        "llama-factory": ("per_device_train_batch_size", "gradient_accumulation_steps", "cutoff_len", "num_train_epochs", "optim"),
    }.get(target, ("micro_batch", "grad_accum", "seq_len", "epochs", "optimizer"))
    found = dict(zip(("micro", "accum", "length", "epochs", "optimizer"), (told[key] for key in keys), strict=True))
    found["steps"] = (told.get("steps") if name == "train.json" else told.get("max_steps")) or 0
    found["precision"] = told.get("precision") or ("bf16" if told["bf16"] else "fp16" if told["fp16"] else "fp32")
    if target == "axolotl":
        found["recompute"] = WHOLE[told["gradient_checkpointing"] or told.get("fsdp_config", {}).get("activation_checkpointing", False)]
    elif target == "llama-factory":
        found["recompute"] = WHOLE[not told["disable_gradient_checkpointing"]]
    else:
        found["recompute"] = told["recompute"] if told["gradient_checkpointing"] else "none"
    return found


@pytest.mark.parametrize("target", LANGUAGE)
def test_what_runs_is_the_set_up_that_the_plan_counted(target: str) -> None:
    """Recomputation, micro-batch, accumulation, length, epochs or steps, optimizer and precision,
    in every program's own words; what a program cannot do so finely is said in its file."""
    names = taken(target)
    assert names
    for name in names:
        for epochs_told, recompute in ((0, "none"), (3, "selective"), (0, "full")):
            runs_as_counted(target, name, epochs_told, recompute)


def runs_as_counted(target: str, name: str, epochs_told: int, recompute: str) -> None:
    base = job(name, recompute=recompute)
    given = dataclasses.replace(base, workload={**base.workload, **({"epochs": epochs_told} if epochs_told else {})})
    if find_target(target).problem(given):
        return
    layout, found = given.option.layout, set_up(target, given)
    assert (found["micro"], found["accum"], found["length"]) == (layout.micro_batch, layout.grad_accum, given.seq_len)
    assert (found["optimizer"], found["precision"]) == (optimizer(given), layout.precision)
    counted = given.workload.get("data_unit") in ("samples", "rows")
    assert found["steps"] == (0 if epochs_told or counted else given.option.facts["steps"])
    assert found["epochs"] == (epochs_told or given.workload.get("epochs") or 1)
    said = "Recomputes whole layers" in "".join(find_target(target).files(given).values())
    assert said == recomputes_whole(given, target)
    assert said or recompute != "selective" or target not in WHOLE_LAYERS
    assert found["recompute"] == ("full" if said and target != "colossalai" else recompute)


SHARDERS = {"trl", "accelerate", "axolotl"}


def test_a_4_bit_base_in_shards_is_started_by_fsdp() -> None:
    """By every program that has it; launchers start the plainest of them. What FSDP cannot move is
    refused, and so are releases that load the whole base on every card."""
    for further in ({}, {"offload": "params"}):
        found = sharded_job(**further)
        takes = {name for name in LANGUAGE if not find_target(name).problem(found)}
        assert takes == SHARDERS, {name: str(find_target(name).problem(found)) for name in SHARDERS - takes}
        assert (stack_name(found), stack_problem(found)) == ("trl", "")
    moved = sharded_job(offload="params")
    eight_bit = dataclasses.replace(moved, workload={**moved.workload, "optimizer": "adamw-8bit"})
    layout = moved.option.layout.model_copy(update={"offload": "optimizer"})
    halved = dataclasses.replace(moved, option=moved.option.model_copy(update={"layout": layout}))
    for found, said in ((eight_bit, "only AdamW runs"), (halved, "--offload params")):
        assert {name for name in LANGUAGE if said in str(find_target(name).problem(found))} >= SHARDERS
    later = dataclasses.replace(sharded_job(), model="openbmb/MiniCPM3-4B")
    assert "whole 4-bit base on every GPU" in str(find_target("trl").problem(later))
    assert not find_target("axolotl").problem(later)
    assert find_target("axolotl").problem(dataclasses.replace(later, settings=ExportSettings(revision="main")))


@pytest.mark.parametrize("name", ["qlora-8b", "lora-8b-aws"])
def test_adapters_that_nobody_asked_for_are_assumed_aloud(name: str) -> None:
    """Rank and modules under "Assumed" of the plan are those of the exported files."""
    assumed = {one["field"]: one["value"] for one in plan_values(name)["assumptions"]}
    told = json.loads(find_target("trl").files(job(name))["train.json"])
    assert assumed["lora_rank"] == told["lora_rank"]
    assert [f"{letter}_proj" for letter in assumed["lora_targets"].split(",")] == told["lora_targets"]
