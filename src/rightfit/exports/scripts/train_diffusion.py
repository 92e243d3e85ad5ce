"""Train adapters of FLUX or Wan as a rightfit plan says, on one card or several, with the base in 16 or 8 bit and its blocks in host memory where
the plan swaps them. Usage: torchrun ... train.py train.json

Rows have a "text" and an "image" or a "video" (files beside the data, or of a data set of the hub). Text and images are encoded once, before the
model is loaded, and kept; the adapter is written as pipelines of diffusers load it.
"""

import functools
import importlib
import io
import math
from pathlib import Path

import numpy as np
import run_core as core
import torch
import torch.distributed as dist
import train_loop as loop
from peft import LoraConfig, get_peft_model_state_dict
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import Dataset

plan = loop.plan
CACHE = Path(plan["output"]) / "encoded"
low = loop.low or torch.float32


def opened(value, folder):
    """A file of a row: bytes, or a path beside the data."""
    found = value if isinstance(value, dict) else {"path": value}
    return io.BytesIO(found["bytes"]) if found.get("bytes") else folder / found["path"]


def fitted(image):
    """A picture in the plan's size, its middle where the sides differ, from -1 to 1."""
    width, height = plan["width"], plan["height"]
    scale = max(width / image.width, height / image.height)
    image = image.convert("RGB").resize((max(width, round(image.width * scale)), max(height, round(image.height * scale))))
    left, top = (image.width - width) // 2, (image.height - height) // 2
    return np.asarray(image.crop((left, top, left + width, top + height)), np.float32) / 127.5 - 1


family = importlib.import_module(f"diffusion_{plan['family']}")
family.plan = plan


def encode(rows):
    """Each process encodes its share of the rows and keeps what it finds; what is there already is passed over."""
    missing = [number for number in range(loop.rank, len(rows), loop.world) if not (CACHE / f"{number}.pt").exists()]
    if missing:
        CACHE.mkdir(parents=True, exist_ok=True)
        place = Path(core.local(plan["data"]))
        folder = place if place.is_dir() else place.parent
        pipeline, _ = family.classes()
        pipe = pipeline.from_pretrained(plan["model"], revision=plan["revision"], transformer=None, torch_dtype=low)
        pipe.to(loop.device)
        pipe.vae.to(torch.float32)
        for number in missing:
            pixels = (
                torch.from_numpy(np.stack([fitted(image) for image in family.images(rows[number], folder, opened)]))
                .permute(3, 0, 1, 2)[None]
                .to(loop.device)
            )
            with torch.no_grad():
                found = {**family.text(pipe, rows[number]["text"]), "latents": family.latents(pipe.vae, pixels)}
            part = CACHE / f"{number}.part"
            torch.save({name: values.to("cpu", low) for name, values in found.items()}, part)
            part.replace(CACHE / f"{number}.pt")
        del pipe
        if loop.cuda:
            torch.cuda.empty_cache()
    dist.barrier()


class Encoded(Dataset):
    """What is kept of some rows."""

    def __init__(self, numbers):
        self.numbers = numbers

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, place):
        return torch.load(CACHE / f"{self.numbers[place]}.pt", weights_only=True)


def collate(samples):
    return {name: torch.stack([sample[name] for sample in samples]) for name in samples[0]}


# ---- The model: a frozen base with adapters.


def eight_bits(name, values):
    """Whether a weight is kept in 8 bit: the matrices, which are nearly all of it."""
    return plan["base"] == "fp8" and values.dim() == 2 and name.endswith("weight") and "norm" not in name


def swap(block):
    """Keep a block's frozen weights in host memory, or in 8 bit on the card, and bring them to where it computes when it does: forward, and once more
    backward, when what it kept is computed again."""
    kept = {}
    place = torch.device("cpu") if plan["swaps"] else loop.device
    for name, parameter in list(block.named_parameters()):
        if parameter.requires_grad:
            continue
        values = parameter.detach().to(place, torch.float8_e4m3fn if eight_bits(name, parameter) else parameter.dtype)
        kept[name] = values.pin_memory() if plan["swaps"] and loop.cuda else values
        parameter.data = torch.empty(0, dtype=parameter.dtype, device=loop.device)
    inner = block.forward

    def computed(*args, **kwargs):
        here = {name: values.to(loop.device, non_blocking=True).to(low) for name, values in kept.items()}
        block.forward = inner
        try:
            return torch.func.functional_call(block, here, args, kwargs)
        finally:
            block.forward = outer

    @functools.wraps(inner)
    def outer(*args, **kwargs):
        return checkpoint(computed, *args, use_reentrant=False, **kwargs) if torch.is_grad_enabled() else computed(*args, **kwargs)

    block.forward = outer


class Denoiser(nn.Module):
    """The model with its loss: flow matching (rectified flow), noise levels drawn as for Stable Diffusion 3."""

    def __init__(self, *, empty=False):
        super().__init__()
        _, kind = family.classes()
        told = {"subfolder": "transformer", "revision": plan["revision"]}
        if empty:
            self.transformer = kind.from_config(kind.load_config(plan["model"], **told)).to(low)
        else:
            self.transformer = kind.from_pretrained(plan["model"], torch_dtype=low, **told)
        self.transformer.requires_grad_(False)
        rank = plan["lora_rank"]
        self.transformer.add_adapter(LoraConfig(r=rank, lora_alpha=rank, init_lora_weights="gaussian", target_modules=plan["lora_targets"]))
        for parameter in self.trained():
            parameter.data = parameter.data.float()
        if plan["swaps"] or plan["base"] == "fp8":
            for name in family.blocks:
                for block in getattr(self.transformer, name):
                    swap(block)
        elif plan["gradient_checkpointing"]:
            self.transformer.enable_gradient_checkpointing()

    def trained(self):
        return [parameter for parameter in self.transformer.parameters() if parameter.requires_grad]

    def gradient_checkpointing_enable(self, **_):
        """Done above: the loop asks every model for it."""

    def forward(self, latents, **batch):
        sigma = torch.sigmoid(torch.randn(len(latents), device=latents.device))
        noise = torch.randn_like(latents)
        share = sigma.view(-1, *[1] * (latents.dim() - 1)).to(latents.dtype)
        noisy = (1 - share) * latents + share * noise
        found = family.predict(self.transformer, noisy, sigma.to(latents.dtype), batch)
        return loop.Result(nn.functional.mse_loss(found.float(), (noise - latents).float()))


def main():
    loop.start()
    rows = loop.first_alone(lambda: core.rows(plan))
    encode(rows)
    count = min(math.floor(len(rows) * plan["held_out"]), core.MOST_HELD_OUT)
    held = [number * (len(rows) // count) for number in range(count)] if count else []
    learnt = [number for number in range(len(rows)) if number not in set(held)]
    bare, source = loop.model_of(lambda _: Denoiser(), lambda: Denoiser(empty=True))

    def keep(folder, weights):
        pipeline, _ = family.classes()
        own = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
        pipeline.save_lora_weights(str(folder), transformer_lora_layers=get_peft_model_state_dict(bare.transformer, state_dict=own))

    loop.train(bare, Encoded(learnt), collate, keep, source, held=Encoded(held) if held else None)


main()
