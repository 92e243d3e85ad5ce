"""Train DLRM or DCNv2 on clicks as a rightfit plan says. Usage: torchrun ... train.py train.json

The data are a folder of NumPy's own files: labels.npy (rows, 0 or 1), dense.npy (rows x numbers) and sparse.npy (rows x categories, numbers from
0), in an order that says nothing: batches are cut from it as it lies. Each table of embeddings lies on one process, the dense layers on all;
what a batch looks up is exchanged. Checkpoints are by time, and when the server is told to stop (the run then ends with 143).
"""

import contextlib
import itertools
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np
import run_core as core
import torch
import torch.distributed as dist
from torch import nn

PREFIX = "step-"
FILES = ("labels.npy", "dense.npy", "sparse.npy")
plan = core.settings()
output = Path(plan["output"])
rank, world, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
cuda = torch.cuda.is_available()
device = torch.device("cuda", local) if cuda else torch.device("cpu")
low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(plan["precision"])
stopping = core.Stop()
MOST_HELD_OUT = 1 << 20


class Exchange(torch.autograd.Function):
    """What each process looked up for all samples -> what all processes looked up for its own samples."""

    @staticmethod
    def forward(ctx, found, given, taken):
        ctx.given, ctx.taken = given, taken
        answer = found.new_empty(sum(taken))
        dist.all_to_all_single(answer, found.contiguous(), taken, given)
        return answer

    @staticmethod
    def backward(ctx, gradient):
        answer = gradient.new_empty(sum(ctx.given))
        dist.all_to_all_single(answer, gradient.contiguous(), ctx.given, ctx.taken)
        return answer / world, None, None  # each process's loss is the mean of its own samples


def layers(sizes, *, ends):
    """Linear layers with ReLU between, and behind the last one unless it ends the model."""
    parts = []
    for number, (before, after) in enumerate(itertools.pairwise(sizes)):
        parts += [nn.Linear(before, after), *([] if ends and number + 2 == len(sizes) else [nn.ReLU()])]
    return nn.Sequential(*parts)


class Cross(nn.Module):
    """Crosses of low rank (DCNv2, Wang et al. 2021)."""

    def __init__(self, width, depth=3, rank=512):
        super().__init__()
        self.down = nn.ModuleList(nn.Linear(width, min(rank, width), bias=False) for _ in range(depth))
        self.up = nn.ModuleList(nn.Linear(min(rank, width), width) for _ in range(depth))

    def forward(self, first):
        found = first
        for down, up in zip(self.down, self.up, strict=True):
            found = first * up(down(found)) + found
        return found


class Dense(nn.Module):
    """What all processes hold: layers below and above the meeting of numbers and categories."""

    def __init__(self, numbers, tables):
        super().__init__()
        width, both = plan["width"], tables + 1
        self.below = layers([numbers, *plan["below"], width], ends=False)
        self.cross = Cross(both * width) if plan["interaction"] == "cross" else None
        self.register_buffer("pairs", torch.tril_indices(both, both, -1), persistent=False)
        self.above = layers([both * width if self.cross else width + self.pairs.shape[1], *plan["above"], 1], ends=True)

    def forward(self, numbers, looked_up):
        base = self.below(torch.log1p(numbers.clamp(min=0)))
        whole = torch.cat([base[:, None], looked_up.to(base.dtype)], 1)
        if self.cross:
            return self.above(self.cross(whole.flatten(1))).squeeze(1)
        products = (whole @ whole.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.above(torch.cat([base, products], 1)).squeeze(1)


class Recommender:
    """Tables of this process, the dense layers, and their optimizers."""

    def __init__(self, numbers, sizes):
        torch.manual_seed(0)
        self.dense, self.count = Dense(numbers, len(sizes)).to(device), len(sizes)
        self.mine = [number for number in range(len(sizes)) if number % world == rank]
        self.of = [len([number for number in range(len(sizes)) if number % world == other]) for other in range(world)]
        self.order = [number for other in range(world) for number in range(len(sizes)) if number % world == other]
        torch.manual_seed(1 + rank)
        self.sizes = [sizes[number] for number in self.mine]
        self.tables = nn.ModuleList(self.table(size) for size in self.sizes)
        kinds = {"sgd": (torch.optim.SGD, torch.optim.SGD), "adagrad": (torch.optim.Adagrad, torch.optim.Adagrad)}
        dense, sparse = kinds.get(plan["optimizer"], (torch.optim.AdamW, torch.optim.SparseAdam))
        self.optimizers = [dense(self.dense.parameters(), lr=plan["learning_rate"])]
        self.optimizers += [sparse(list(self.tables.parameters()), lr=plan["learning_rate"])] if self.mine else []

    def table(self, size):
        found = nn.Embedding(size, plan["width"], sparse=True, device=device)
        nn.init.uniform_(found.weight, -math.sqrt(1 / size), math.sqrt(1 / size))
        return found

    def logits(self, batch):
        """Of this process's samples. `sparse` holds the categories of all processes' samples."""
        numbers, sparse = batch["dense"].to(device), batch["sparse"]
        own, width = len(numbers), plan["width"]
        found = [
            table((sparse[:, number] % size).to(device)) for number, table, size in zip(self.mine, self.tables, self.sizes, strict=True)
        ]
        looked_up = torch.stack(found, 1) if found else torch.empty(len(sparse), 0, width, device=device)
        given, taken = [own * len(self.mine) * width] * world, [own * count * width for count in self.of]
        parts = Exchange.apply(looked_up.reshape(-1), given, taken).split(taken)
        met = torch.cat([part.view(own, count, width) for part, count in zip(parts, self.of, strict=True)], 1)
        return self.dense(numbers, met[:, torch.tensor(self.order, device=device).argsort()])

    def step(self, batches):
        """Mean loss of one optimizer step."""
        whole = 0.0
        for batch in batches:
            with torch.autocast(device.type, low) if low else contextlib.nullcontext():
                logits = self.logits(batch)
            loss = nn.functional.binary_cross_entropy_with_logits(logits.float(), batch["labels"].to(device)) / len(batches)
            loss.backward()
            whole += loss.item()
        for parameter in self.dense.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return whole

    def state(self):
        return {
            "dense": self.dense.state_dict(),
            "tables": self.tables.state_dict(),
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "world": world,
        }

    def load(self, kept):
        self.dense.load_state_dict(kept["dense"])
        self.tables.load_state_dict(kept["tables"])
        for optimizer, state in zip(self.optimizers, kept["optimizers"], strict=True):
            optimizer.load_state_dict(state)


class Clicks:
    """Rows of the data; the last ones are held out."""

    def __init__(self, folder):
        if missing := [name for name in FILES if not (folder / name).is_file()]:
            raise SystemExit(f"{plan['data']} lacks {', '.join(missing)}; see the first lines of train.py")
        self.labels, self.dense, self.sparse = (np.load(folder / name, mmap_mode="r") for name in FILES)
        self.held = min(int(len(self.labels) * plan["held_out"]), MOST_HELD_OUT)
        self.batch = plan["micro_batch"] * world
        self.count = (len(self.labels) - self.held) // self.batch
        if not self.count:
            raise SystemExit(f"{len(self.labels)} rows are fewer than a batch of {self.batch}")

    def sizes(self):
        """Rows of each table: as many as there are categories, no more than the plan's."""
        return [min(int(self.sparse[:, number].max()) + 1, plan["most_rows"]) for number in range(self.sparse.shape[1])]

    def at(self, begin):
        """A batch from a row on: this process's labels and numbers, everyone's categories."""
        mine = slice(begin + rank * plan["micro_batch"], begin + (rank + 1) * plan["micro_batch"])
        return {
            "labels": torch.from_numpy(np.array(self.labels[mine], np.float32)),
            "dense": torch.from_numpy(np.array(self.dense[mine], np.float32)),
            "sparse": torch.from_numpy(np.array(self.sparse[begin : begin + self.batch], np.int64)),
        }

    def order(self, epoch):
        """Batches of an epoch in an order of its own."""
        return np.random.default_rng(epoch).permutation(self.count)


def agreed(flag):
    """Whether any process says so: all must save together."""
    word = torch.tensor([float(bool(flag))], device=device)
    dist.all_reduce(word, dist.ReduceOp.MAX)
    return bool(word.item())


def save(step, model):
    folder = output / f"{PREFIX}{step}"
    folder.mkdir(parents=True, exist_ok=True)
    torch.save(model.state(), folder / f"process-{rank}.pt")
    dist.barrier()
    if rank == 0:
        core.mark_whole(folder)
        core.tidy(output, PREFIX)
    dist.barrier()


def restore(model):
    """The step that the newest whole checkpoint is of, 0 without one."""
    found = core.whole(output, PREFIX)
    dist.barrier()  # nobody tidies up before all have looked
    if not found:
        return 0
    kept = torch.load(found[-1] / f"process-{rank}.pt", map_location=device, weights_only=True)
    if kept["world"] != world:
        raise SystemExit(f"{found[-1]} is of {kept['world']} processes, and this run has {world}: tables lie where they lay")
    model.load(kept)
    return int(found[-1].name[len(PREFIX) :])


def area(labels, logits):
    """Area under the curve of hits and false alarms: how often a click is given more than a row without."""
    ranks = np.empty(len(logits))
    ranks[np.argsort(logits, kind="stable")] = np.arange(1, len(logits) + 1)
    hits = int(labels.sum())
    return float((ranks[labels > 0.5].sum() - hits * (hits + 1) / 2) / max(1, hits * (len(labels) - hits)))


def judge(model, clicks):
    """What the held-out rows say."""
    begins = range(len(clicks.labels) - clicks.held, len(clicks.labels) - clicks.batch + 1, clicks.batch)
    labels, logits = [], []
    with torch.no_grad():
        for begin in begins:
            batch = clicks.at(begin)
            logits.append(model.logits(batch).float().cpu())
            labels.append(batch["labels"])
    if not logits:
        return
    mine = torch.stack([torch.cat(labels), torch.cat(logits)]).to(device)
    every = [torch.empty_like(mine) for _ in range(world)]
    dist.all_gather(every, mine)
    truth, found = torch.cat(every, 1).cpu()
    if rank == 0:
        loss = nn.functional.binary_cross_entropy_with_logits(found, truth).item()
        core.judged(output, {"eval_loss": loss, "auc": area(truth.numpy(), found.numpy()), "rows": float(len(truth))})


def main():
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo")
    clicks, log = Clicks(Path(core.local(plan["data"]))), core.Report(plan, speaks=rank == 0)
    model = Recommender(clicks.dense.shape[1], clicks.sizes())
    accum = min(plan["grad_accum"], clicks.count)
    per_epoch = clicks.count // accum
    total = plan["steps"] or math.ceil(per_epoch * plan["epochs"])
    step = restore(model)
    log(start=step, total=total, samples=len(clicks.labels) - clicks.held)
    leaving, saved, began = False, time.monotonic(), time.monotonic()
    while step < total and not leaving:
        epoch, done = divmod(step, per_epoch)
        order = clicks.order(epoch)
        for place in range(done, per_epoch):
            loss = model.step([clicks.at(int(number) * clicks.batch) for number in order[place * accum : (place + 1) * accum]])
            step += 1
            log(step=step, loss=loss, s=round(time.monotonic() - began, 3))
            leaving = agreed(stopping)
            if step < total and (leaving or agreed(time.monotonic() - saved >= plan["save_every_s"])):
                save(step, model)
                saved = time.monotonic()
            if leaving or step >= total:
                break
    if step < total:
        log(stopped=step)
        sys.exit(core.STOPPED)
    folder = output / "model"
    folder.mkdir(parents=True, exist_ok=True)
    names = {str(number): table.weight.detach().cpu() for number, table in zip(model.mine, model.tables, strict=True)}
    torch.save({"tables": names, **({"dense": model.dense.state_dict()} if rank == 0 else {})}, folder / f"part-{rank}.pt")
    dist.barrier()
    if rank == 0:
        (folder / "settings.json").write_text(
            json.dumps({name: plan[name] for name in ("width", "below", "above", "interaction", "most_rows")})
        )
        core.mark_whole(folder)
    judge(model, clicks)
    log.close()
    dist.barrier()
    dist.destroy_process_group()


main()
