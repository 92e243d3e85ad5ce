"""Train or fine-tune a text model as a rightfit plan says, in plain PyTorch: DDP, or FSDP2 where the plan shards. Usage: torchrun ... train.py train.json

Checkpoints are sharded, by time, and also when the server is told to stop (SIGTERM); a new start goes on from the newest whole one.
"""

import contextlib
import itertools
import json
import math
import os
import shutil
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from datasets import load_dataset
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification, AutoTokenizer

plan = json.loads(Path(sys.argv[1]).read_text())
output = Path(plan["output"])
rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
cuda = torch.cuda.is_available()
device = torch.device("cuda", local) if cuda else torch.device("cpu")
low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"])
sharded = plan["parallel"] == "fsdp2"
stopping = False


def stop(*_):
    global stopping
    stopping = True


def load_data(tokenizer):
    """JSON lines (a file or a folder of them) or a data set of the hub: "text", for classification also "label"."""
    path, length = Path(plan["data"]), plan["seq_len"]
    names = [str(file) for file in sorted(path.glob("*.jsonl"))] if path.is_dir() else [str(path)] if path.is_file() else None
    rows = load_dataset("json", data_files=names, split="train") if names else load_dataset(plan["data"], split="train")
    if plan["objective"] == "classification":
        kept = [name for name in rows.column_names if name != "label"]
        return rows.map(lambda row: tokenizer(row["text"], truncation=True, max_length=length), batched=True, remove_columns=kept)

    def blocks(batch):
        ids = list(itertools.chain.from_iterable([*tokenizer(text)["input_ids"], tokenizer.eos_token_id] for text in batch["text"]))
        cut = [ids[start : start + length] for start in range(0, len(ids) - length + 1, length)]
        return {"input_ids": cut}

    return rows.map(blocks, batched=True, batch_size=1000, remove_columns=rows.column_names)


def collate(tokenizer):
    def causal(rows):
        ids = torch.tensor([row["input_ids"] for row in rows])
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}

    def classes(rows):
        labels = torch.tensor([row.pop("label") for row in rows])
        return {**tokenizer.pad(rows, return_tensors="pt"), "labels": labels}

    return classes if plan["objective"] == "classification" else causal


def load_model(num_labels):
    kind = AutoModelForSequenceClassification if plan["objective"] == "classification" else AutoModelForCausalLM
    extra = {"num_labels": num_labels} if plan["objective"] == "classification" else {}
    # What is trained is kept in fp32 and computed in the plan's precision; a frozen base is kept in the plan's precision.
    dtype = low if low is not None and plan["method"] != "full" else torch.float32
    if plan["from_scratch"]:
        config = AutoConfig.from_pretrained(plan["model"], attn_implementation=plan["attention"], **extra)
        model = kind.from_config(config, dtype=torch.float32)
    else:
        model = kind.from_pretrained(plan["model"], dtype=dtype, attn_implementation=plan["attention"], **extra)
    model.config.use_cache = False
    if plan["method"] == "full":
        return model
    from peft import LoraConfig, get_peft_model

    adapter = LoraConfig(
        r=plan["lora_rank"],
        lora_alpha=2 * plan["lora_rank"],
        target_modules=plan["lora_targets"],
        use_dora=plan["method"] == "dora",
        task_type="SEQ_CLS" if plan["objective"] == "classification" else "CAUSAL_LM",
    )
    if plan["gradient_checkpointing"]:
        model.enable_input_require_grads()
    return get_peft_model(model, adapter)


def layers(model):
    """The stack of equal layers: the longest list of modules."""
    return max((part for part in model.modules() if isinstance(part, torch.nn.ModuleList)), key=len)


def spread(model):
    """The model on every process: whole (DDP) or sharded (FSDP2), as the plan has it."""
    if not sharded:
        model.to(device)
        return DistributedDataParallel(model, device_ids=[local] if cuda else None) if world > 1 else model
    sizes = (world // plan["gpus_per_node"], plan["gpus_per_node"]) if plan["sharding"] == "hybrid" else (world,)
    mesh = init_device_mesh(device.type, sizes, mesh_dim_names=("replicate", "shard")[-len(sizes) :])
    # Everything in one dtype, which FSDP2 asks for within a group; the optimizer then works on fp32 shards.
    model.float()
    settings = {
        "mesh": mesh,
        "reshard_after_forward": plan["reshard_after_forward"],
        "mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32) if low else MixedPrecisionPolicy(),
        **({"offload_policy": CPUOffloadPolicy(pin_memory=cuda)} if plan["offload"] else {}),
    }
    if not plan["offload"]:
        model.to(device)
    for layer in layers(model):
        fully_shard(layer, **settings)
    return fully_shard(model, **settings)


def make_optimizer(model):
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    name, rate = plan["optimizer"], plan["learning_rate"]
    if name == "adafactor":
        from transformers import Adafactor

        return Adafactor(trained, lr=rate, relative_step=False, scale_parameter=False)
    if name == "sgd":
        return torch.optim.SGD(trained, lr=rate, momentum=0.9)
    if name == "adagrad":
        return torch.optim.Adagrad(trained, lr=rate)
    if name in ("adamw_8bit", "paged_adamw_8bit", "paged_adamw_32bit", "lion_32bit"):
        import bitsandbytes

        kinds = {
            "adamw_8bit": "AdamW8bit",
            "paged_adamw_8bit": "PagedAdamW8bit",
            "paged_adamw_32bit": "PagedAdamW32bit",
            "lion_32bit": "Lion",
        }
        return getattr(bitsandbytes.optim, kinds[name])(trained, lr=rate)
    return torch.optim.AdamW(trained, lr=rate, fused=cuda and not plan["offload"])


def schedule(total):
    """Linear warm-up, then half a cosine."""
    warm = max(1, round(plan["warmup_share"] * total))
    return lambda step: min(1.0, (step + 1) / warm) * 0.5 * (1 + math.cos(math.pi * min(1.0, step / total)))


def agreed(flag):
    """Whether any process says so: all must save together."""
    word = torch.tensor([float(flag)], device=device)
    dist.all_reduce(word, dist.ReduceOp.MAX)
    return bool(word.item())


def checkpoints():
    """Whole checkpoints, oldest first: only those have their mark."""
    return sorted((found.parent for found in output.glob("step-*/complete")), key=lambda folder: int(folder.name.partition("-")[2]))


def save(step, model, optimizer):
    folder = output / f"step-{step}"
    weights, states = get_state_dict(model, optimizer, options=StateDictOptions(ignore_frozen_params=True))
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
    dist.barrier()
    if rank == 0:
        (folder / "complete").touch()
        for old in checkpoints()[:-2]:
            shutil.rmtree(old)


def restore(folder, model, optimizer):
    options = StateDictOptions(ignore_frozen_params=True, strict=False)
    weights, states = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=states, options=options)
    return int(folder.name.partition("-")[2])


def groups(batches, size):
    """The batches of one optimizer step after the other."""
    while group := list(itertools.islice(batches, size)):
        yield group


def log(**values):
    if rank == 0:
        print(json.dumps(values), flush=True)


def main():
    signal.signal(signal.SIGTERM, stop)
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(plan["model"])
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    if rank:
        dist.barrier()
    rows = load_data(tokenizer)  # the first process prepares the data, the others then read what it kept
    if rank == 0:
        dist.barrier()
    bare = load_model(len(set(rows["label"])) if plan["objective"] == "classification" else 0)
    bare.config.pad_token_id = tokenizer.pad_token_id
    if plan["gradient_checkpointing"]:
        bare.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model = spread(bare)
    optimizer = make_optimizer(model)
    sampler = DistributedSampler(rows, world, rank, seed=0, drop_last=len(rows) >= world)
    loader = DataLoader(
        rows, plan["micro_batch"], sampler=sampler, collate_fn=collate(tokenizer), num_workers=plan["workers"], pin_memory=cuda
    )
    accum = min(plan["grad_accum"], len(loader))
    per_epoch = max(1, len(loader) // accum)
    total = plan["steps"] or math.ceil(per_epoch * plan["epochs"])
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(total))
    scaler = torch.amp.GradScaler(device.type, enabled=low is torch.float16)
    autocast = contextlib.nullcontext if sharded or low is None else lambda: torch.autocast(device.type, low)
    step = restore(checkpoints()[-1], model, optimizer) if checkpoints() else 0
    for _ in range(step):
        rates.step()
    log(start=step, total=total, samples=len(rows))
    model.train()
    leaving, saved, began = False, time.monotonic(), time.monotonic()
    while step < total:
        epoch, done = divmod(step, per_epoch)
        sampler.set_epoch(epoch)
        batches = itertools.islice(iter(loader), done * accum, per_epoch * accum)
        for group in groups(batches, accum):
            loss_sum = torch.zeros((), device=device)
            for number, batch in enumerate(group):
                last = number == len(group) - 1
                if sharded:
                    model.set_requires_gradient_sync(last)
                hold = model.no_sync if isinstance(model, DistributedDataParallel) and not last else contextlib.nullcontext
                with hold(), autocast():
                    loss = model(**{name: values.to(device, non_blocking=True) for name, values in batch.items()}).loss / len(group)
                    scaler.scale(loss).backward()
                loss_sum += loss.detach()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            rates.step()
            optimizer.zero_grad(set_to_none=True)
            step += 1
            log(step=step, loss=loss_sum.item(), s=round(time.monotonic() - began, 3))
            leaving = agreed(stopping)
            if step < total and (leaving or agreed(time.monotonic() - saved >= plan["save_every_s"])):
                save(step, model, optimizer)
                saved = time.monotonic()
            if leaving or step >= total:
                break
        if leaving and step < total:
            log(stopped=step)
            break
    if step >= total:
        save(step, model, optimizer)
        weights = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
        if rank == 0:
            bare.save_pretrained(output / "model", state_dict=weights)
            tokenizer.save_pretrained(output / "model")
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    os._exit(0)  # all is written; threads of a back end that are still there can abort an orderly exit, and the run would count as failed


main()
