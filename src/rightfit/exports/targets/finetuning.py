"""axolotl: its settings file with the plan's figures."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rightfit.exports.job import SERVING_TASKS, Job
from rightfit.exports.learning import lora_rank, lora_targets
from rightfit.exports.model_words import architecture, hub_id, model_kind, revision_words
from rightfit.exports.quoting import given, to_json, to_yaml
from rightfit.exports.registry import Target
from rightfit.exports.stack import TRAINED_BY_TRL, ExportStack, shards_4_bit, torch_problem
from rightfit.exports.targets import trl
from rightfit.exports.training_words import (
    PORT,
    WARMUP_SHARE,
    class_problem,
    epochs,
    has_experts,
    hub_packages,
    later_class,
    learning_rate,
    optimizer,
    recomputes,
    save_every_steps,
    told_steps,
    torchrun,
    training_problem,
    training_stack,
    with_launcher,
    workers,
)
from rightfit.facts.devices import Span
from rightfit.facts.resolve import chat_template
from rightfit.messages import Message

AXOLOTL_PACKAGES = ("axolotl==0.19.0",)
AXOLOTL_TRANSFORMERS = "5.16.1"
CHAT = "tokenizer_default_fallback_chatml"
"""The tokenizer's own template; base models have none."""
SPAN: Span = ((2, 11), (2, 13))


def axolotl_settings(job: Job) -> dict[str, Any]:
    """axolotl.yaml."""
    layout = job.option.layout
    adapter = layout.method != "full"
    targets = lora_targets(job)
    return given(
        base_model=hub_id(job),
        revision_of_model=job.settings.revision or None,
        reinit_weights=True if job.task == "train" else None,
        load_in_4bit=True if layout.method == "qlora" else None,
        adapter={"qlora": "qlora", "lora": "lora", "dora": "lora"}.get(layout.method),
        peft_use_dora=True if layout.method == "dora" else None,
        lora_r=lora_rank(job) if adapter else None,
        lora_alpha=2 * lora_rank(job) if adapter else None,
        lora_dropout=0.0 if adapter else None,
        **adapted(job, targets) if adapter else {},
        datasets=[data(job)],
        dataset_prepared_path="/checkpoints/prepared",
        sequence_len=job.seq_len or 2048,
        sample_packing=True,
        attn_implementation="eager" if layout.attention == "eager" else "sdpa",
        micro_batch_size=layout.micro_batch,
        gradient_accumulation_steps=layout.grad_accum,
        num_epochs=epochs(job),
        max_steps=told_steps(job),
        optimizer=optimizer(job),
        learning_rate=learning_rate(job),
        lr_scheduler="cosine",
        warmup_ratio=WARMUP_SHARE,
        max_grad_norm=1.0,
        bf16=layout.precision == "bf16",
        fp16=layout.precision == "fp16",
        gradient_checkpointing=recomputes(job) and "activation_checkpointing" not in fsdp(job).get("fsdp_config", {}),
        gradient_checkpointing_kwargs={"use_reentrant": False} if recomputes(job) and packs_by_shards(job) else None,
        activation_offloading=True if layout.moves_activations else None,
        dataloader_num_workers=workers(job),
        logging_steps=1,
        save_steps=save_every_steps(job),
        save_total_limit=2,
        auto_resume_from_checkpoints=True,
        output_dir="/checkpoints/" + job.name,
        deepspeed="deepspeed.json" if by_deepspeed(job) else None,
        qlora_sharded_model_loading=True if packs_by_shards(job) else None,
        **fsdp(job),
        seed=0,
    )


ATTENTION = ["q_proj", "k_proj", "v_proj", "o_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"]
LINEAR_ATTENTION = ["in_proj_qkvz", "in_proj_ba", "in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"]
"""Projections of attention, latent and linear attention's among them; a name that a model has
not is passed over."""
EXPERTS = {"gate_proj": "experts.gate_up_proj", "up_proj": "experts.gate_up_proj", "down_proj": "experts.down_proj"}
OTHER_EXPERTS = {
    "nemotron-3": {"gate_proj": "experts.up_proj", "up_proj": "experts.up_proj", "down_proj": "experts.down_proj"},
    "dbrx": {"gate_proj": "experts.mlp.w1", "up_proj": "experts.mlp.v1", "down_proj": "experts.mlp.w2"},
}
"""Layers of an expert -> the weights of all experts together, as Transformers keeps them from 5 on:
the ends of their names, which stand under mlp, feed_forward or block_sparse_moe as the architecture
has it; families (of the records) whose experts have no gate, or other names."""


def adapted(job: Job, targets: list[str] | str) -> dict[str, Any]:
    """What gets an adapter. Experts are no layers but stacked weights: a 4-bit base must be told to
    pack them, and they are named apart."""
    if not has_experts(job):
        return {"lora_target_linear": True} if targets == "all-linear" else {"lora_target_modules": targets}
    names = [*ATTENTION, *LINEAR_ATTENTION, *EXPERTS] if isinstance(targets, str) else targets
    known = architecture(job)
    stacked = OTHER_EXPERTS.get(known.family if known else "", EXPERTS)
    weights = sorted({stacked[name] for name in names if name in stacked})
    return given(
        quantize_moe_experts=True if job.option.layout.method == "qlora" else None,
        lora_target_modules=[name for name in names if name not in EXPERTS] or ATTENTION[:4],
        lora_target_parameters=weights or None,
    )


FORMS = (("messages",), ("instruction", "input", "output"), ("prompt", "completion"), ("text",))
"""Forms of a row: a conversation, Alpaca's columns, a prompt with its answer, plain text."""


def row_form(job: Job) -> dict[str, str]:
    """Columns of a row -> what the data call them: of the form that `--data-columns` names, else a
    text to train from scratch and a conversation to fine-tune."""
    pairs = job.settings.columns
    told = dict(pairs) if pairs and not isinstance(pairs, str) else {}
    usual = FORMS[-1 if job.task == "train" else 0]
    form = next((form for form in FORMS if set(form) & set(told)), usual)
    return {name: told.get(name, name) for name in form}


def data(job: Job) -> dict[str, Any]:
    """JSON lines in the form of the data. What stands between a prompt and its answer is what our
    own scripts put there."""
    form, found = row_form(job), {"path": job.settings.data_path, "ds_type": "json"}
    if "text" in form:
        return {**found, "type": "completion", "field": form["text"]}
    if "messages" in form:
        return {**found, "type": "chat_template", "field_messages": form["messages"], "chat_template": CHAT}
    asks, answer = next(iter(form.values())), list(form.values())[-1]
    end = "\n\n" if "input" in form else ""
    words = {"system_prompt": "", "field_instruction": asks, "field_output": answer, "no_input_format": f"{{instruction}}{end}"}
    whole = (
        {"field_input": form["input"], "format": f"{{instruction}}{end}{{input}}{end}"} if "input" in form else {"format": "{instruction}"}
    )
    return {**found, "type": {**words, **whole}}


def by_deepspeed(job: Job) -> bool:
    """Whether DeepSpeed spreads the model."""
    layout = job.option.layout
    return layout.sharding in ("zero-1", "zero-2") or (layout.moves_states and not shards_4_bit(job))


def packs_by_shards(job: Job) -> bool:
    """Whether a 4-bit base is packed weight by weight and kept on the host of the first process
    until it is sharded (the recipe of answer.ai), which axolotl does with FSDP1 and with layers
    alone: experts are none."""
    return shards_4_bit(job) and not has_experts(job)


FOUR_BIT_BYTES = 0.56
"""Of a weight of a 4-bit base with its scales, and of embeddings in 16 bit beside it."""
ROOM_TO_LOAD = 0.9


def sharded_problem(job: Job) -> Message | str:
    """Why axolotl cannot shard the 4-bit base as planned ("" if it can)."""
    layout, known = job.option.layout, architecture(job)
    if packs_by_shards(job):
        return Message("export.no_revision", target="axolotl") if job.settings.revision else trl.host_problem(job)
    room = ROOM_TO_LOAD * job.option.accelerator.memory_bytes
    loads = known is None or FOUR_BIT_BYTES * known.params_total <= room
    return "" if loads and not layout.moves_states else Message("export.base_on_each_card")


def fsdp(job: Job) -> dict[str, Any]:
    """FSDP2 where the plan shards everything, FSDP1 where it shards a base of packed layers."""
    layout = job.option.layout
    if layout.sharding != "zero-3" or by_deepspeed(job):
        return {}
    if packs_by_shards(job):
        return {
            "fsdp_version": 1,
            "fsdp_config": {
                "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                "state_dict_type": "FULL_STATE_DICT",
                "sync_module_states": True,
                "cpu_ram_efficient_loading": True,
                "use_orig_params": False,
                "offload_params": layout.moves_states,
            },
        }
    return {
        "fsdp_version": 2,
        "fsdp_config": {
            "auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "state_dict_type": "SHARDED_STATE_DICT",
            "reshard_after_forward": True,
            "activation_checkpointing": recomputes(job),
            "offload_params": False,
        },
    }


def axolotl_stack(job: Job) -> ExportStack:
    """torchrun on each node."""
    found = axolotl_settings(job)
    files = {"axolotl.yaml": to_yaml(found)}
    if "deepspeed" in found:
        files["deepspeed.json"] = to_json(trl.deepspeed_config(job))
    extra = (trl.VERSION,) if "deepspeed" in found else ()
    command = torchrun(job, ("-m", "axolotl.cli.train", "axolotl.yaml"))
    return training_stack(job, "axolotl", packages=(*AXOLOTL_PACKAGES, *extra), command=command, files=files, span=SPAN)


def _axolotl_refuses(job: Job) -> Message | str:
    layout = job.option.layout
    usual = training_problem(job, methods=TRAINED_BY_TRL, moves_activations=True) or torch_problem(job, span=SPAN)
    if problem := usual or class_problem(job, "axolotl", AXOLOTL_TRANSFORMERS):
        return problem
    if has_experts(job) and layout.method == "qlora" and str(job.option.facts.get("vendor") or "") == "AMD":
        return Message("export.experts_on_cuda")
    if layout.sharding == "hybrid":
        return Message("export.hybrid")
    if shards_4_bit(job):
        return sharded_problem(job)
    return trl.DEEPSPEED.problem(job) if trl.stage(job) else ""


AXOLOTL = Target(
    "axolotl",
    "training",
    "axolotl settings",
    with_launcher(axolotl_stack, span=SPAN),
    _axolotl_refuses,
    checked_by="axolotl's own model of settings, unknown keys refused",
    stack=axolotl_stack,
)


# ---- LLaMA-Factory: the settings of `llamafactory-cli train` with the plan's figures, and the
# description of its data.

LLAMA_FACTORY_PACKAGES = ("llamafactory==0.9.5",)
LLAMA_FACTORY_TRANSFORMERS = "5.6.0"
BITSANDBYTES = "bitsandbytes==0.48.1"
LLAMA_FACTORY_VERSION = LLAMA_FACTORY_PACKAGES[0].partition("==")[2]
DATA = "plan"


def template_of(job: Job) -> Mapping[str, str]:
    """The program's row of the model; empty where it has none: it then takes the tokenizer's own
    template."""
    return chat_template(hub_id(job))


def shows_images(job: Job) -> bool:
    """Whether what is learnt from has images."""
    return model_kind(job) == "vision-language"


def llama_factory_settings(job: Job) -> dict[str, Any]:
    """train.yaml."""
    layout, pretrains = job.option.layout, job.task == "train"
    adapter = layout.method != "full"
    targets = lora_targets(job)
    return given(
        model_name_or_path=hub_id(job),
        model_revision=job.settings.revision or None,
        train_from_scratch=True if pretrains else None,
        stage="pt" if "text" in row_form(job) else "sft",
        do_train=True,
        finetuning_type="lora" if adapter else "full",
        lora_rank=lora_rank(job) if adapter else None,
        lora_alpha=2 * lora_rank(job) if adapter else None,
        lora_target=("all" if isinstance(targets, str) else ",".join(targets)) if adapter else None,
        use_dora=True if layout.method == "dora" else None,
        quantization_method="bnb" if layout.method == "qlora" else None,
        quantization_bit=4 if layout.method == "qlora" else None,
        double_quantization=True if layout.method == "qlora" else None,
        dataset=DATA,
        dataset_dir=".",
        media_dir=job.settings.data_path if shows_images(job) else None,
        template=template_of(job).get("template"),
        cutoff_len=job.seq_len or 2048,
        packing=not shows_images(job),
        preprocessing_num_workers=4,
        dataloader_num_workers=workers(job),
        output_dir="/checkpoints/" + job.name,
        logging_steps=1,
        save_strategy="steps",
        save_steps=save_every_steps(job),
        save_total_limit=2,
        report_to="none",
        per_device_train_batch_size=layout.micro_batch,
        gradient_accumulation_steps=layout.grad_accum,
        learning_rate=learning_rate(job),
        lr_scheduler_type="cosine",
        warmup_ratio=WARMUP_SHARE,
        num_train_epochs=epochs(job),
        max_steps=told_steps(job),
        bf16=layout.precision == "bf16",
        fp16=layout.precision == "fp16",
        disable_gradient_checkpointing=not recomputes(job),
        flash_attn="disabled" if layout.attention == "eager" else "sdpa",
        optim=optimizer(job),
        deepspeed="deepspeed.json" if trl.stage(job) else None,
        ddp_timeout=7200,
    )


def data_description(job: Job) -> dict[str, Any]:
    """dataset_info.json: JSON lines in the form of the data."""
    form = row_form(job)
    if "messages" in form:
        tags = {"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant", "system_tag": "system"}
        columns = {"messages": form["messages"], **({"images": "images"} if shows_images(job) else {})}
        shape = {"formatting": "sharegpt", "columns": columns, "tags": tags}
    else:
        places = {"text": "prompt", "prompt": "prompt", "instruction": "prompt", "input": "query"}
        shape = {"columns": {places.get(name, "response"): theirs for name, theirs in form.items()}}
    return {DATA: {"file_name": job.settings.data_path, **shape}}


def llama_factory_command(job: Job) -> tuple[str, ...]:
    """Its launcher is told by environment variables."""
    told = ["FORCE_TORCHRUN=1", f"NPROC_PER_NODE={max(1, job.gpus_per_node)}"]
    if job.num_nodes > 1:
        told += ["NNODES={num_nodes}", "NODE_RANK={node_rank}", "MASTER_ADDR={head_address}", f"MASTER_PORT={PORT}"]
    return ("env", *told, "llamafactory-cli", "train", "train.yaml")


def llama_factory_stack(job: Job) -> ExportStack:
    """Settings, packages and command."""
    files = {"train.yaml": to_yaml(llama_factory_settings(job)), "dataset_info.json": to_json(data_description(job))}
    if trl.stage(job):
        files["deepspeed.json"] = to_json(trl.deepspeed_config(job))
    extra = ((BITSANDBYTES,) if layout_quantizes(job) else ()) + ((trl.VERSION,) if trl.stage(job) else ())
    return training_stack(
        job,
        "llama-factory",
        packages=(*LLAMA_FACTORY_PACKAGES, hub_pin(job, LLAMA_FACTORY_TRANSFORMERS), *extra),
        command=llama_factory_command(job),
        files=files,
    )


def layout_quantizes(job: Job) -> bool:
    """Whether the base or the optimizer is kept in few bits."""
    return job.option.layout.method == "qlora" or "bit" in optimizer(job)


def refuses_like_deepspeed(job: Job) -> Message | str:
    """What programs that shard by DeepSpeed refuse."""
    if shows_images(job) and not template_of(job).get("images") and job.task not in (*SERVING_TASKS, "prepare"):
        return Message("export.no_chat_of_images", version=LLAMA_FACTORY_VERSION, model=job.model)
    return loads_like(job, "llama-factory", LLAMA_FACTORY_TRANSFORMERS, kinds=("decoder", "vision-language"))


def hub_pin(job: Job, last: str) -> str:
    """The Transformers that goes with a program which takes up to `last`: the usual one, the last
    for classes that came later."""
    return f"transformers=={last}" if later_class(job) else hub_packages(job, "transformers")[0]


def loads_like(job: Job, program: str, last: str, kinds: tuple[str, ...] = ("decoder",)) -> Message | str:
    """What a program that shards by DeepSpeed and takes Transformers up to `last` refuses."""
    problem = training_problem(job, methods=TRAINED_BY_TRL, kinds=kinds) or torch_problem(job) or class_problem(job, program, last)
    sharding_problem = trl.zero_problem if shows_images(job) else trl.DEEPSPEED.own_problem
    return problem or (sharding_problem(job) if trl.stage(job) or job.option.layout.sharding == "hybrid" else "")


LLAMA_FACTORY = Target(
    "llama-factory",
    "training",
    "LLaMA-Factory settings",
    with_launcher(llama_factory_stack),
    refuses_like_deepspeed,
    checked_by="LLaMA-Factory's own parser, unknown keys refused",
    stack=llama_factory_stack,
)


# ---- ms-swift: the command `swift sft` (or `swift pt`) with the plan's figures.

MS_SWIFT_PACKAGES = ("ms-swift==4.6.0",)
MS_SWIFT_TRANSFORMERS = "5.19.0"


def options(job: Job) -> tuple[str, ...]:
    """Arguments behind `swift sft`."""
    layout = job.option.layout
    words = ["--model", hub_id(job), *revision_words(job, "--model_revision"), "--use_hf", "true", "--dataset", job.settings.data_path]
    words += ["--torch_dtype", {"bf16": "bfloat16", "fp16": "float16"}.get(layout.precision, "float32"), *adapter(job)]
    words += ["--max_length", str(job.seq_len or 2048), "--attn_impl", "eager" if layout.attention == "eager" else "sdpa"]
    words += ["--per_device_train_batch_size", str(layout.micro_batch), "--gradient_accumulation_steps", str(layout.grad_accum)]
    words += ["--num_train_epochs", f"{epochs(job):g}", *(["--max_steps", str(told_steps(job))] if told_steps(job) else [])]
    words += ["--learning_rate", f"{learning_rate(job):g}", "--lr_scheduler_type", "cosine", "--warmup_ratio", str(WARMUP_SHARE)]
    words += ["--optim", optimizer(job), "--gradient_checkpointing", str(recomputes(job)).lower()]
    words += ["--dataloader_num_workers", str(workers(job)), "--dataset_num_proc", "4", "--split_dataset_ratio", "0"]
    words += ["--save_steps", str(save_every_steps(job)), "--save_total_limit", "2", "--logging_steps", "1", "--report_to", "none"]
    renamed = {theirs: name for name, theirs in row_form(job).items() if theirs != name}
    words += ["--columns", json.dumps(renamed)] if renamed else []
    words += ["--output_dir", "/checkpoints/" + job.name, "--add_version", "false", "--seed", "0"]
    return (*words, *(["--deepspeed", "deepspeed.json"] if trl.stage(job) else []))


def adapter(job: Job) -> list[str]:
    """Arguments of what is trained."""
    layout, targets = job.option.layout, lora_targets(job)
    if layout.method == "full":
        return ["--tuner_type", "full"]
    words = ["--tuner_type", "lora", "--lora_rank", str(lora_rank(job)), "--lora_alpha", str(2 * lora_rank(job))]
    words += ["--target_modules", *([targets] if isinstance(targets, str) else targets)]
    words += ["--use_dora", "true"] if layout.method == "dora" else []
    if layout.method == "qlora":
        dtype = {"bf16": "bfloat16", "fp16": "float16"}.get(layout.precision, "float32")
        words += ["--quant_method", "bnb", "--quant_bits", "4", "--bnb_4bit_quant_type", "nf4", "--bnb_4bit_compute_dtype", dtype]
        words += ["--bnb_4bit_use_double_quant", "true"]
    return words


def ms_swift_command(job: Job) -> tuple[str, ...]:
    """Its launcher is told by environment variables."""
    told = [f"NPROC_PER_NODE={max(1, job.gpus_per_node)}"]
    if job.num_nodes > 1:
        told += ["NNODES={num_nodes}", "NODE_RANK={node_rank}", "MASTER_ADDR={head_address}", f"MASTER_PORT={PORT}"]
    return ("env", *told, "swift", "pt" if "text" in row_form(job) else "sft", *options(job))


def ms_swift_stack(job: Job) -> ExportStack:
    """Command, packages, and DeepSpeed's settings where the plan shards."""
    files = {"deepspeed.json": to_json(trl.deepspeed_config(job))} if trl.stage(job) else {}
    extra = ((BITSANDBYTES,) if layout_quantizes(job) else ()) + ((trl.VERSION,) if trl.stage(job) else ())
    return training_stack(
        job,
        "ms-swift",
        packages=(*MS_SWIFT_PACKAGES, hub_pin(job, MS_SWIFT_TRANSFORMERS), *extra),
        command=ms_swift_command(job),
        files=files,
    )


def _ms_swift_refuses(job: Job) -> Message | str:
    if job.task == "train":
        return Message("export.from_scratch")
    return loads_like(job, "ms-swift", MS_SWIFT_TRANSFORMERS)


MS_SWIFT = Target(
    "ms-swift",
    "training",
    "ms-swift command",
    with_launcher(ms_swift_stack),
    _ms_swift_refuses,
    checked_by="ms-swift's own parser of arguments",
    stack=ms_swift_stack,
)
