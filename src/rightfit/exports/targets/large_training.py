"""Megatron-LM: the flags of pretrain_gpt.py for the plan's layout and the model's shape, and the
preparation of its data."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import DATA_FOLDER, Job
from rightfit.exports.model_words import architecture, hub_id, model_kind
from rightfit.exports.quoting import HEAD, comment, shell_lines, to_json
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ExportStack, torch_problem
from rightfit.exports.training_words import (
    ACTIVATIONS_ELSEWHERE,
    BESIDE,
    FOLDER,
    MEGATRON_COMMIT,
    WARMUP_SHARE,
    WITHOUT_MOUNT,
    common_settings,
    data_problem,
    launch_script,
    learning_rate,
    pinned_archive,
    save_every_steps,
    scripts,
    splits_model,
    steps,
    torchrun,
    training_stack,
    with_launcher,
    workers,
)
from rightfit.facts import TransformerArchitecture
from rightfit.facts.devices import Span
from rightfit.facts.engine_releases import images
from rightfit.messages import Message

IMAGE = images("megatron")[0]
"""What Megatron-LM's own checks of the pinned commit build on: Transformer Engine
and Apex are inside."""
LEAST_CAPABILITY = float(IMAGE.serves[0])
ROTARY_BASES = {"llama3": 500_000, "qwen2": 1_000_000, "qwen3": 1_000_000, "mixtral": 1_000_000}
STRATEGIES = {"zero-2": "optim_grads", "zero-3": "optim_grads_params"}
TOKENS = "tokens"
PRETRAINED = "/checkpoints/pretrained"
DATA = f"/checkpoints/data/{TOKENS}_text_document"


def shape(model: TransformerArchitecture) -> list[str]:
    """Flags of the model's layers and widths."""
    words = [
        "--num-layers",
        str(model.num_layers),
        "--hidden-size",
        str(model.hidden_size),
        "--ffn-hidden-size",
        str(model.intermediate_size),
    ]
    words += ["--num-attention-heads", str(model.num_heads), "--kv-channels", str(model.head_dim)]
    words += ["--group-query-attention", "--num-query-groups", str(model.num_kv_heads)] if model.num_kv_heads < model.num_heads else []
    words += ["--normalization", "RMSNorm" if model.norm == "rmsnorm" else "LayerNorm"]
    words += ["--swiglu"] if model.mlp_kind == "swiglu" else []
    if model.learned_positions:
        words += ["--position-embedding-type", "learned_absolute"]
    else:
        words += ["--position-embedding-type", "rope", "--rotary-base", str(ROTARY_BASES.get(model.family, 10_000))]
    words += ["--add-qkv-bias"] if model.qkv_bias and not model.mlp_bias else []
    words += ["--disable-bias-linear"] if not model.mlp_bias else []
    words += ["--qk-layernorm"] if model.qk_norm else []
    words += ["--untie-embeddings-and-output-weights"] if not model.tied_embeddings else []
    words += ["--attention-dropout", "0", "--hidden-dropout", "0"]
    return words + (experts(model) if model.num_experts else [])


def experts(model: TransformerArchitecture) -> list[str]:
    """Flags of a mixture of experts."""
    words = ["--num-experts", str(model.num_experts), "--moe-router-topk", str(model.experts_per_token), "--moe-grouped-gemm"]
    words += [
        "--moe-token-dispatcher-type",
        "alltoall",
        "--moe-ffn-hidden-size",
        str(model.moe_intermediate_size or model.intermediate_size),
    ]
    return words


def layout_words(job: Job) -> list[str]:
    """Flags of how the model is spread and what it keeps."""
    layout = job.option.layout
    words = ["--tensor-model-parallel-size", str(layout.tensor), "--pipeline-model-parallel-size", str(layout.pipeline)]
    words += ["--context-parallel-size", str(layout.context), "--expert-model-parallel-size", str(layout.expert)]
    words += ["--sequence-parallel"] if layout.tensor > 1 else []
    words += [
        "--micro-batch-size",
        str(layout.micro_batch),
        "--global-batch-size",
        str(layout.micro_batch * layout.grad_accum * layout.data),
    ]
    if layout.recompute == "full":
        words += ["--recompute-granularity", "full", "--recompute-method", "uniform", "--recompute-num-layers", "1"]
    elif layout.recompute != "none":
        words += ["--recompute-granularity", "selective"]
    words += ["--fp16"] if layout.precision == "fp16" else ["--bf16"] if layout.precision in ("bf16", "fp8") else []
    words += ["--fp8-format", "hybrid"] if layout.precision == "fp8" else []
    return words + sharding(job)


def sharding(job: Job) -> list[str]:
    """Flags of what data-parallel copies divide among themselves."""
    layout = job.option.layout
    if layout.sharding in STRATEGIES:
        return [
            "--use-megatron-fsdp",
            "--data-parallel-sharding-strategy",
            STRATEGIES[layout.sharding],
            "--ckpt-format",
            "fsdp_dtensor",
            "--no-gradient-accumulation-fusion",
            "--use-distributed-optimizer",
        ]
    host = ["--optimizer-cpu-offload", "--use-precision-aware-optimizer"] if layout.offload == "optimizer" else []
    divided = ["--use-distributed-optimizer"] if layout.sharding == "zero-1" or host else []
    overlap = ["--overlap-grad-reduce"] if layout.data > 1 else []
    gather = ["--overlap-param-gather"] if layout.data > 1 and divided else []
    return [*divided, *overlap, *gather, *host, "--ckpt-format", "torch_dist"]


def options(job: Job) -> tuple[str, ...]:
    """Arguments of pretrain_gpt.py."""
    model = architecture(job)
    if model is None:
        raise RuntimeError("refused before")
    rate, folder = learning_rate(job), "/checkpoints/" + job.name
    words = [*shape(model), "--seq-length", str(job.seq_len), "--max-position-embeddings", str(max(job.seq_len, model.max_position))]
    words += [*layout_words(job), "--use-mcore-models", "--transformer-impl", "transformer_engine"]
    words += ["--train-iters", str(steps(job)), "--lr", f"{rate:g}", "--min-lr", f"{rate / 10:g}", "--lr-decay-style", "cosine"]
    words += ["--lr-warmup-fraction", str(WARMUP_SHARE), "--weight-decay", "0.1", "--clip-grad", "1.0", "--adam-beta2", "0.95"]
    words += ["--tokenizer-type", "HuggingFaceTokenizer", "--tokenizer-model", hub_id(job), "--data-path", DATA, "--split", "99,1,0"]
    words += [
        "--num-workers",
        str(workers(job)),
        "--log-interval",
        "10",
        "--log-throughput",
        "--eval-interval",
        "1000",
        "--eval-iters",
        "10",
    ]
    words += ["--save", folder, "--load", folder, "--save-interval", str(save_every_steps(job)), "--exit-signal-handler"]
    words += ["--pretrained-checkpoint", PRETRAINED] if job.task == "finetune" else []
    return tuple(words)


def megatron_stack(job: Job) -> ExportStack:
    """torchrun on each node, in NVIDIA's own image."""
    capability = _capability(job)
    ordered = job.option.layout.tensor > 1 and capability < 10 and job.option.layout.sharding not in STRATEGIES
    return ExportStack(
        name="megatron",
        image=IMAGE.image,
        setup=("pip install transformers==4.57.1 sentencepiece==0.2.1",),
        command=torchrun(job, ("run_pinned.py", "pinned.json", *options(job))),
        files=pinned_archive("NVIDIA/Megatron-LM", MEGATRON_COMMIT, "pretrain_gpt.py"),
        environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"} if ordered else {},
        secrets=("HF_TOKEN",),
    )


def prepare(job: Job) -> str:
    """prepare.sh: text lines to the file of tokens that Megatron reads, beside them; run once.
    Megatron's program reads one file."""
    own = job.settings.data_path == DATA_FOLDER
    prefix = DATA.removesuffix("_text_document")
    words = [
        "python",
        f"Megatron-LM-{MEGATRON_COMMIT}/tools/preprocess_data.py",
        "--input",
        f"{prefix}.lines" if own else job.settings.data_path,
    ]
    words += ["--output-prefix", prefix, "--json-keys", "text", "--tokenizer-type", "HuggingFaceTokenizer"]
    words += ["--tokenizer-model", hub_id(job), "--workers", str(max(1, int(job.option.vcpus or 8) - 1)), "--append-eod"]
    folder = f'"${FOLDER}/data'
    lines = [
        f"{HEAD}\n# Tokens of {'the folder data' if own else comment(job.settings.data_path)} (JSON lines with a text) for plan {job.plan_id}. In {IMAGE.image}, or with PyTorch.",
        f'set -eu\ncd "$(dirname "$0")"\n{BESIDE}test -d Megatron-LM-{MEGATRON_COMMIT} ||',
        f"  wget -qO- https://github.com/NVIDIA/Megatron-LM/archive/{MEGATRON_COMMIT}.tar.gz | tar xz",
        *([f'awk 1 {folder}"/*.jsonl > {folder}/{TOKENS}.lines"'] if own else [f'mkdir -p {folder}"']),
        ("" if own else "exec ") + shell_lines(words, WITHOUT_MOUNT),
        *([f'rm {folder}/{TOKENS}.lines"'] if own else []),
    ]
    return "\n".join(lines) + "\n"


def megatron_write(job: Job) -> Files:
    """The command, what fetches Megatron-LM, and the preparation of the data."""
    found = megatron_stack(job)
    text = launch_script(job, found)
    lines = text.splitlines()
    head = [line for line in lines if line.startswith("#")]
    rest = lines[len(head) :]
    where = [f"# In {IMAGE.image}, after pip install {comment(' '.join(found.setup[0].split()[2:]))} and prepare.sh."]
    if job.task == "finetune":
        where.append(f"# ${FOLDER}/pretrained: the model's weights in Megatron's own form, made with Megatron Bridge.")
    return {"train.sh": "\n".join([*head[:2], *where, *rest]) + "\n", "prepare.sh": prepare(job), **found.files}


def _capability(job: Job) -> float:
    from rightfit.errors import RightfitError
    from rightfit.facts import accelerator

    try:
        return float(accelerator(job.accelerator).compute_capability or 0.0)
    except RightfitError:
        return 0.0


def _megatron_refuses(job: Job) -> Message | str:
    layout, model = job.option.layout, architecture(job)
    if model_kind(job) != "decoder" or model is None:
        return Message("export.no_decoder")
    if layout.moves_activations:
        return ACTIVATIONS_ELSEWHERE
    if layout.method != "full":
        return Message("export.pretrain_gpt", method=layout.method)
    if model.mlp_kind not in ("swiglu", "gelu") or model.kv_lora_rank or model.num_linear_layers or model.num_sliding_layers:
        return Message("export.no_flags")
    if not steps(job):
        return Message("export.no_steps")
    if "param" in layout.offload or layout.sharding == "hybrid":
        return Message("export.sharding_offloading", sharding=layout.sharding, offload=layout.offload)
    if layout.moves_states and layout.sharding in STRATEGIES:
        return Message("export.offloads_under", sharding=layout.sharding)
    if job.wish("optimizer") not in (None, "adamw", "adamw-fused"):
        return Message("export.asked_for_adamw", optimizer=job.wish("optimizer"))
    if _capability(job) < LEAST_CAPABILITY:
        return Message("export.capability", least=LEAST_CAPABILITY, card=job.accelerator or Message("export.a_processor"))
    return torch_problem(job)


MEGATRON = Target(
    "megatron",
    "training",
    "Megatron-LM flags of pretrain_gpt.py",
    megatron_write,
    _megatron_refuses,
    checked_by="the options of Megatron-LM's parser at the pinned commit",
    stack=megatron_stack,
)


# ---- ColossalAI: a training script with the plug-in that suits the plan's layout (DDP, ZeRO,
# Gemini, or tensor and pipeline parallelism).

PACKAGES = ("colossalai==0.5.0", "transformers==4.51.3", "datasets==4.3.0", "numpy==1.26.4")
SPAN: Span = ((2, 2), (2, 5, 1))
SHARDED_FAMILIES = ("llama", "llama2", "llama3", "mistral", "mixtral", "qwen2", "qwen3", "gpt2", "opt", "bloom", "falcon", "deepseek")
"""Families that its policies split by tensor and pipeline parallelism."""


def plugin(job: Job) -> tuple[str, dict[str, Any]]:
    """Name and arguments of the booster's plug-in."""
    layout = job.option.layout
    precision = layout.precision if layout.precision in ("bf16", "fp16") else "fp32"
    if splits_model(job):
        found = {"tp_size": layout.tensor, "pp_size": layout.pipeline, "precision": precision, "max_norm": 1.0}
        found |= {"zero_stage": {"zero-1": 1, "zero-2": 2}.get(layout.sharding, 0), "microbatch_size": layout.micro_batch}
        return "HybridParallelPlugin", found
    if layout.sharding == "zero-3" or "param" in layout.offload:
        offload = 1.0 if layout.moves_states else 0.0
        found = {
            "precision": precision,
            "placement_policy": "static",
            "shard_param_frac": 1.0,
            "offload_optim_frac": offload,
            "max_norm": 1.0,
        }
        return "GeminiPlugin", found | {
            "offload_param_frac": 1.0 if "param" in layout.offload else 0.0,
            "enable_gradient_accumulation": True,
        }
    if layout.sharding in ("zero-1", "zero-2") or layout.moves_states or precision != "fp32":
        stage = 1 if layout.sharding == "zero-1" or layout.grad_accum > 1 else 2
        return "LowLevelZeroPlugin", {"stage": stage, "precision": precision, "cpu_offload": layout.moves_states, "max_norm": 1.0}
    return "TorchDDPPlugin", {}


def settings(job: Job) -> dict[str, Any]:
    """train.json. A pipeline takes all micro-batches of a step at once; the others take
    one after the other."""
    layout = job.option.layout
    name, arguments = plugin(job)
    pipelined = layout.pipeline > 1
    return {
        **{name: value for name, value in common_settings(job, columns=(("text",),)).items() if name != "held_out"},
        "attention": "eager" if layout.attention == "eager" else "sdpa",
        "plugin": name,
        "plugin_settings": arguments,
        "loader_batch": layout.micro_batch * (layout.grad_accum if pipelined else 1),
        "loader_accum": 1 if pipelined else layout.grad_accum,
    }


def colossalai_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    files = {**scripts("train_colossalai.py", "run_core.py"), "train.json": to_json(settings(job))}
    return training_stack(job, "colossalai", packages=PACKAGES, command=torchrun(job, ("train.py", "train.json")), files=files, span=SPAN)


def _colossalai_refuses(job: Job) -> Message | str:
    layout, known = job.option.layout, architecture(job)
    if model_kind(job) != "decoder":
        return Message("export.no_language_model")
    if layout.moves_activations:
        return ACTIVATIONS_ELSEWHERE
    if layout.method != "full":
        return Message("export.script_trains_all", method=layout.method)
    if layout.sharding == "hybrid" or layout.context * layout.expert > 1 or (splits_model(job) and layout.sharding == "zero-3"):
        return Message(
            "export.layout_beside_tensor", sharding=layout.sharding, context=layout.context, expert=layout.expert, tensor=layout.tensor
        )
    if splits_model(job) and (known is None or known.family not in SHARDED_FAMILIES):
        return Message("export.no_policy")
    if job.wish("optimizer") not in (None, "adamw", "adamw-fused"):
        return Message("export.its_adam", optimizer=job.wish("optimizer"))
    if not job.gpus_per_node:
        return Message("export.kernels_for_accelerators")
    return data_problem(job) or torch_problem(job, span=SPAN)


COLOSSALAI = Target(
    "colossalai",
    "training",
    "ColossalAI script with the plug-in of the layout",
    with_launcher(colossalai_stack, span=SPAN),
    _colossalai_refuses,
    checked_by="the arguments of ColossalAI's own plug-ins",
    stack=colossalai_stack,
)
