"""The training loop of a rightfit plan in plain PyTorch: DDP, or FSDP2 where the plan shards. Used by the train.py beside it.

Checkpoints are sharded, by time, and also when the server is told to stop (SIGTERM: the run then ends with 143); a new start goes on from the
newest whole one with the batch that comes next.
"""

import collections
import contextlib
import functools
import inspect
import itertools
import json
import math
import os
import re
import sys
import time
from pathlib import Path

import numpy as np
import run_core as core
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict, get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

PREFIX = "step-"
plan = core.settings()
output = Path(plan["output"])
rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
cuda = torch.cuda.is_available()
device = torch.device("cuda", local) if cuda else torch.device("cpu")
low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"])
sharded = plan["parallel"] == "fsdp2"
stopping = core.Stop()
# What a model gives that is none of Transformers: FSDP2 looks for the tensors of an output in tuples and dictionaries alone, and gathers nothing
# for the backward pass of what it does not find.
Result = collections.namedtuple("Result", "loss")


def start():
    """Join the other processes."""
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002


def first_alone(work):
    """What `work` gives: the first process prepares it, the others then read what it kept."""
    if rank:
        dist.barrier()
    found = work()
    if rank == 0:
        dist.barrier()
    return found


def with_adapter(model, task_type=None, whole=()):
    """The model with adapters where the plan trains those alone, and the parts of it that are new and learn `whole`; with these alone where it
    freezes the rest."""
    if plan["method"] == "full":
        return model
    if plan["method"] == "freeze":
        return with_frozen(model, whole)
    from peft import LoraConfig, get_peft_model

    found, targets = {name.rpartition(".")[2] for name, _ in model.named_modules()}, plan["lora_targets"]
    new = [name for name in whole if name in found]
    if targets == "all-linear" and task_type is None:  # PEFT's word leaves out no head but that of texts
        last = getattr(model, "get_output_embeddings", lambda: None)()
        fused = {
            f"{name}.out_proj" for name, part in model.named_modules() if isinstance(part, torch.nn.MultiheadAttention)
        }  # never called
        targets = [
            name
            for name, part in model.named_modules()
            if isinstance(part, torch.nn.Linear) and part is not last and name not in fused and not set(name.split(".")) & set(new)
        ]
    adapter = LoraConfig(
        r=plan["lora_rank"],
        lora_alpha=2 * plan["lora_rank"],
        target_modules=targets,
        use_dora=plan["method"] == "dora",
        task_type=task_type,
        **({"modules_to_save": new} if new else {}),
    )
    adapted = get_peft_model(model, adapter)
    for part in adapted.parameters():
        if part.requires_grad:
            part.data = part.data.float()
    return adapted


def with_frozen(model, learning):
    """The model of which only the parts of these names learn; statistics of the others' norms stay as they were published."""
    for name, part in model.named_parameters():
        if set(name.split(".")) & set(learning):
            part.data = part.data.float()
        else:
            part.requires_grad_(False)
    if not any(part.requires_grad for part in model.parameters()):
        raise SystemExit(f"{plan['model']} has no head of its own to train ({', '.join(learning)}): make a plan with --method full or lora")
    for part in model.modules():
        own = list(part.parameters(recurse=False))
        if getattr(part, "running_mean", None) is not None and not any(one.requires_grad for one in own):
            part.eval().train = lambda _mode=True, kept=part: kept
    return model


def kept_dtype():
    """What is trained is kept in fp32 and computed in the plan's precision; a frozen base is kept in the plan's precision."""
    return low if low is not None and plan["method"] != "full" else torch.float32


def layers(model):
    """The layers of each stack: elements of the lists of modules that lie in no other one's element."""
    for part in model.children():
        if isinstance(part, torch.nn.ModuleList):
            yield from (layer for layer in part if not isinstance(layer, torch.nn.ModuleList) and any(True for _ in layer.parameters()))
            yield from itertools.chain.from_iterable(
                layers(torch.nn.ModuleDict({"0": layer})) for layer in part if isinstance(layer, torch.nn.ModuleList)
            )
        else:
            yield from layers(part)


def keep_on_host(model):
    """What the body's forward pass keeps for the backward pass (with checkpointing: the inputs of its layers) lies in host memory; the head's
    stays on the card."""
    body = (model.get_base_model() if hasattr(model, "get_base_model") else model).base_model
    forward = body.forward

    @functools.wraps(forward)
    def kept(*args, **kwargs):
        with torch.autograd.graph.save_on_cpu(pin_memory=cuda):
            return forward(*args, **kwargs)

    body.forward = kept


def model_of(whole, empty):
    """(The model to train, the one whose weights it gets.) A sharded model is built without memory (`empty`) on every process; the first one alone reads
    the weights, as they were published (`whole`), and gives them out when the model is cut. A model that is not sharded is read by all, as it was
    published, and widened on the card: copies in 32 bit for each card would fill the server's memory."""
    if not sharded:
        model = whole("auto" if plan["method"] == "full" else kept_dtype()).to(device)
        return model.float() if plan["method"] == "full" else model, None
    source = whole("auto") if rank == 0 else None
    with torch.device("meta"):
        model = empty()
    torch.manual_seed(0)  # the first process has drawn more numbers than the others
    return model, source


def give_out(source, model):
    """Fill a sharded model of no memory with the first process's weights, one after the other: no process ever holds more than its shards and one whole
    tensor beside them."""
    model.to_empty(device="cpu" if plan["offload"] else device)
    own = dict(itertools.chain(source.named_parameters(), source.named_buffers())) if rank == 0 else {}
    parts = itertools.chain(model.named_parameters(), model.named_buffers())
    with torch.no_grad():
        for name, part in parts:
            values = (
                own.pop(name).detach().to(device, part.dtype) if rank == 0 else torch.empty(part.shape, dtype=part.dtype, device=device)
            )
            dist.broadcast(values, 0)
            if isinstance(part, DTensor):
                shard = distribute_tensor(values, part.device_mesh, part.placements, src_data_rank=None)
                part.to_local().copy_(shard.to_local())
            else:
                part.copy_(values)


def spread(model, source=None):
    """The model on every process: whole (DDP) or sharded (FSDP2), as the plan has it."""
    if not sharded:
        model.to(device)
        return DistributedDataParallel(model, device_ids=[local] if cuda else None) if world > 1 else model
    sizes = (world // plan["gpus_per_node"], plan["gpus_per_node"]) if plan["sharding"] == "hybrid" else (world,)
    mesh = init_device_mesh(device.type, sizes, mesh_dim_names=("replicate", "shard")[-len(sizes) :])
    aside = apart(model)
    # Everything in one dtype, which FSDP2 asks for within a group; the optimizer then works on fp32 shards.
    if not aside:
        model.float()
    settings = {
        **({"ignored_params": aside} if aside else {}),
        "mesh": mesh,
        "reshard_after_forward": plan["reshard_after_forward"],
        "mp_policy": MixedPrecisionPolicy(param_dtype=low, reduce_dtype=torch.float32) if low else MixedPrecisionPolicy(),
        **({"offload_policy": CPUOffloadPolicy(pin_memory=cuda)} if plan["offload"] else {}),
    }
    is_empty = any(part.is_meta for part in model.parameters())
    if not plan["offload"] and not is_empty:
        model.to(device)
    for layer in list(layers(model)):
        fully_shard(layer, **settings)
    fully_shard(model, **settings)
    if is_empty:
        give_out(source, model)
    for parameter in model.parameters() if aside else ():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(device)
            dist.broadcast(parameter.data, 0)
    return model


def apart(model):
    """Adapters, which every process keeps whole and in fp32 beside the shards of a frozen base in the plan's precision; none where all learns, or
    where FSDP2 cannot leave parameters out."""
    if plan["method"] == "full" or plan["offload"] or "ignored_params" not in inspect.signature(fully_shard).parameters:
        return set()
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(torch.float32 if parameter.requires_grad else low or torch.float32)
    return {parameter for parameter in model.parameters() if parameter.requires_grad}


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
    word = torch.tensor([float(bool(flag))], device=device)
    dist.all_reduce(word, dist.ReduceOp.MAX)
    return bool(word.item())


def chance():
    """The state of this process's random numbers: of dropout, and of masks that models draw with NumPy."""
    kind, keys, *rest = np.random.get_state()  # noqa: NPY002  the one that the models use
    return {"cpu": torch.get_rng_state(), "numpy": [kind, keys.tolist(), *rest], **({"cuda": torch.cuda.get_rng_state()} if cuda else {})}


def set_chance(kept):
    torch.set_rng_state(kept["cpu"])
    kind, keys, *rest = kept["numpy"]
    np.random.set_state((kind, np.array(keys, np.uint32), *rest))  # noqa: NPY002
    if cuda and "cuda" in kept:
        torch.cuda.set_rng_state(kept["cuda"])


def save(step, model, optimizer, further):
    folder = output / f"{PREFIX}{step}"
    weights, states = get_state_dict(model, optimizer, options=StateDictOptions(ignore_frozen_params=True))
    dcp.save({"model": weights, "optimizer": states}, checkpoint_id=folder)
    torch.save({"chance": chance(), **{name: part.state_dict() for name, part in further.items()}}, folder / f"process-{rank}.pt")
    dist.barrier()
    if rank == 0:
        core.mark_whole(folder)
        core.tidy(output, PREFIX)


def restore(folder, model, optimizer, further):
    options = StateDictOptions(ignore_frozen_params=True, strict=False)
    weights, states = get_state_dict(model, optimizer, options=options)
    dcp.load({"model": weights, "optimizer": states}, checkpoint_id=folder)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=states, options=options)
    own = folder / f"process-{rank}.pt"
    if own.exists():
        kept = torch.load(own, weights_only=True)
        set_chance(kept["chance"])
        for name, part in further.items():
            part.load_state_dict(kept[name])
    return int(folder.name[len(PREFIX) :])


SHARD_BYTES = 5_000_000_000


def write_model(model, folder):
    """A trained, sharded model as the hub has it: files of a few GB and their index. Weights are gathered one after the other; the first process writes."""
    from safetensors.torch import save_file

    files, pending, size, total = {}, {}, 0, 0

    def flush():
        nonlocal pending, size
        if pending:
            name = f"model-{len(set(files.values())) + 1:05d}.safetensors"
            save_file(pending, folder / name, metadata={"format": "pt"})
            files.update(dict.fromkeys(pending, name))
        pending, size = {}, 0

    if rank == 0:
        folder.mkdir(parents=True, exist_ok=True)
    for group in groups_of(model):
        found = {}
        for name, part in group:
            values = part.full_tensor() if isinstance(part, DTensor) else part
            if rank == 0:
                values = values.detach().to("cpu", low if low is not None and values.is_floating_point() else values.dtype)
                found[name] = values.contiguous().clone()
        for name, values in as_published(model, found).items() if rank == 0 else ():
            pending[name] = values
            size += values.nbytes
            total += values.nbytes
            if size >= SHARD_BYTES:
                flush()
    if rank == 0:
        flush()
        if len(set(files.values())) == 1:
            (folder / next(iter(files.values()))).replace(folder / "model.safetensors")
            return
        index = {"metadata": {"total_size": total}, "weight_map": files}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def groups_of(model):
    """Parameters and kept buffers, those of a layer together."""
    kept = set(model.state_dict())
    parts = itertools.chain(model.named_parameters(), ((name, part) for name, part in model.named_buffers() if name in kept))
    groups = {}
    for name, part in parts:
        groups.setdefault(re.split(r"(?<=\.\d)\.|(?<=\.\d\d)\.|(?<=\.\d\d\d)\.", name)[0], []).append((name, part))
    return groups.values()


def as_published(model, weights):
    """Weights by the names that the checkpoint had: newer releases of Transformers join experts when they read one."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return weights
    return {name: values.contiguous() for name, values in revert_weight_conversion(model, weights).items()}


def save_settings(bare, folder):
    """What stands beside the weights."""
    bare.config.architectures = [next(kind.__name__ for kind in type(bare).__mro__ if not kind.__name__.startswith("FSDP"))]
    bare.config.dtype = str(low or torch.float32).removeprefix("torch.")
    bare.config.save_pretrained(folder)
    if getattr(bare, "generation_config", None) is not None:
        bare.generation_config.save_pretrained(folder)


def save_model(bare, folder, weights):
    """On the first process: a model of given weights, or the settings of one whose weights are written."""
    if weights is None:
        save_settings(bare, folder)
    else:
        bare.save_pretrained(folder, state_dict=weights)


def batches_of(rows, collate, sampler, epoch, skipped):
    """The batches of an epoch behind the first ones, which nobody reads again."""
    sampler.set_epoch(epoch)
    if hasattr(rows, "epoch"):
        rows.epoch = epoch
    places = list(sampler)[skipped * plan["micro_batch"] :]
    own = torch.Generator().manual_seed(epoch)  # of the loader alone: it must not draw from the model's
    return DataLoader(
        rows,
        plan["micro_batch"],
        sampler=places,
        collate_fn=collate,
        num_workers=plan["workers"],
        worker_init_fn=core.deaf,
        pin_memory=cuda,
        generator=own,
    )


def moved(values):
    """Tensors of a batch on this process's device, in whatever they lie."""
    if isinstance(values, dict):
        return {name: moved(value) for name, value in values.items()}
    if isinstance(values, list):
        return [moved(value) for value in values]
    return values.to(device, non_blocking=True) if isinstance(values, torch.Tensor) else values


def computing():
    """The plan's precision, where the model's own parts do not carry it."""
    return contextlib.nullcontext() if sharded or low is None else torch.autocast(device.type, low)


def judge(model, held, collate):
    """Mean loss over the rows that were held out, each process seeing its share."""
    places = DistributedSampler(held, world, rank, shuffle=False, drop_last=False)
    losses = []
    model.train(plan.get("judged_as_learning", False))  # some models give a loss only then
    with torch.no_grad():
        for batch in DataLoader(held, plan["micro_batch"], sampler=list(places), collate_fn=collate):
            with computing():
                losses.append(model(**moved(batch)).loss.detach().float())
    total = torch.stack([torch.stack(losses).sum(), torch.tensor(float(len(losses)), device=device)])
    dist.all_reduce(total)
    return {"eval_loss": (total[0] / total[1]).item(), "rows": float(len(held))}


def one_step(model, optimizer, scaler, group):
    """Forward and backward passes of one optimizer step; the mean loss."""
    loss_sum = torch.zeros((), device=device)
    for number, batch in enumerate(group):
        last = number == len(group) - 1
        if sharded:
            model.set_requires_gradient_sync(last)
        hold = model.no_sync if isinstance(model, DistributedDataParallel) and not last else contextlib.nullcontext
        with hold(), computing():
            loss = model(**moved(batch)).loss / len(group)
            scaler.scale(loss).backward()
        loss_sum += loss.detach()
    if sharded:
        for parameter in model.parameters():
            if parameter.grad is not None and not isinstance(parameter, DTensor):  # kept beside the shards
                dist.all_reduce(parameter.grad)
                parameter.grad /= world
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    return loss_sum.item()


def train(bare, rows, collate, keep, source=None, held=None):
    """Train `bare` (with the weights of `source`, where it has no memory yet) on `rows` to the plan's end; `keep(folder, weights)` writes the finished
    model, on the first process, or what stands beside its weights (None). Rows that are `held` out then judge it."""
    if plan["gradient_checkpointing"]:
        if plan.get("recompute") == "selective":
            core.recompute_selectively(bare)
        bare.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if plan.get("activations_on_host"):
        keep_on_host(bare)
    log = core.Report(plan, speaks=rank == 0)
    model = spread(bare, source)
    del source
    optimizer = make_optimizer(model)
    sampler = DistributedSampler(rows, world, rank, seed=0, drop_last=len(rows) >= world)
    each = math.ceil(len(sampler) / plan["micro_batch"])
    accum = min(plan["grad_accum"], each)
    per_epoch = max(1, each // accum)
    total = plan["steps"] or math.ceil(per_epoch * plan["epochs"])
    rates = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule(total))
    scaler = torch.amp.GradScaler(device.type, enabled=low is torch.float16)
    further = {"rates": rates, "scaler": scaler}
    found = core.whole(output, PREFIX)
    dist.barrier()  # nobody tidies up before all have looked
    step = restore(found[-1], model, optimizer, further) if found else 0
    for _ in range(step - rates.last_epoch):  # a checkpoint of another number of processes
        rates.step()
    log(start=step, total=total, samples=len(rows))
    model.train()
    leaving, saved, began = False, time.monotonic(), time.monotonic()
    while step < total and not leaving:
        epoch, done = divmod(step, per_epoch)
        batches = iter(batches_of(rows, collate, sampler, epoch, done * accum))
        for _ in range(done, per_epoch):
            loss = one_step(model, optimizer, scaler, list(itertools.islice(batches, accum)))
            rates.step()
            step += 1
            log(step=step, loss=loss, s=round(time.monotonic() - began, 3))
            leaving = agreed(stopping)
            if step < total and (leaving or agreed(time.monotonic() - saved >= plan["save_every_s"])):
                save(step, model, optimizer, further)
                saved = time.monotonic()
            if leaving or step >= total:
                break
    if step < total:
        log(stopped=step)
    else:
        save(step, model, optimizer, further)
        if sharded and plan["method"] == "full":
            weights = write_model(model, output / "model")
        else:
            adapters = plan["method"] not in ("full", "freeze")  # their base is where it was
            weights = get_model_state_dict(
                model, options=StateDictOptions(full_state_dict=True, cpu_offload=True, ignore_frozen_params=adapters)
            )
        if rank == 0:
            keep(output / "model", weights)
        if held is not None:
            figures = judge(model, held, collate)
            if rank == 0:
                core.judged(output, figures)
    log.close()
    dist.barrier()
    dist.destroy_process_group()
    sys.stdout.flush()
    # All is written; threads of a back end that are still there can abort an orderly exit, and the run would count as failed.
    os._exit(0 if step >= total else core.STOPPED)
