"""Wan 2.1 for train_diffusion.py: videos, an image being one of a single frame."""

import numpy as np
import torch
from PIL import Image

plan = {}  # the settings, which the program puts here
blocks = ("blocks",)


def classes():
    from diffusers import WanPipeline, WanTransformer3DModel

    return WanPipeline, WanTransformer3DModel


def text(pipe, words):
    embeds, _ = pipe.encode_prompt(words, do_classifier_free_guidance=False, device=pipe.device, max_sequence_length=plan["text_tokens"])
    return {"embeds": embeds[0]}


def latents(vae, pixels):
    found = vae.encode(pixels).latent_dist.sample()
    mean, deviation = (
        torch.tensor(values, device=found.device, dtype=found.dtype).view(1, -1, 1, 1, 1)
        for values in (vae.config.latents_mean, vae.config.latents_std)
    )
    return ((found - mean) / deviation)[0]


def predict(model, noisy, sigma, batch):
    return model(hidden_states=noisy, timestep=1000 * sigma, encoder_hidden_states=batch["embeds"], return_dict=False)[0]


def images(row, folder, opened):
    """The frames of a row: of a video as many as the plan has, evenly, one more than a multiple of four."""
    if row.get("video") is None:
        return [row["image"] if isinstance(row["image"], Image.Image) else Image.open(opened(row["image"], folder))]
    import av

    with av.open(opened(row["video"], folder) if isinstance(row["video"], dict) else str(opened(row["video"], folder))) as file:
        frames = [frame.to_image() for frame in file.decode(video=0)]
    count = min(plan["frames"], 1 + 4 * ((len(frames) - 1) // 4))
    return [frames[place] for place in np.linspace(0, len(frames) - 1, count).round().astype(int)]
