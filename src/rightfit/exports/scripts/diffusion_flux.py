"""FLUX.1 for train_diffusion.py: pictures in packed pieces of 2 x 2."""

import torch
from PIL import Image

plan = {}  # the settings, which the program puts here
GUIDANCE = 1.0  # of distilled models: what the trainers of diffusers give
blocks = ("transformer_blocks", "single_transformer_blocks")


def classes():
    from diffusers import FluxPipeline, FluxTransformer2DModel

    return FluxPipeline, FluxTransformer2DModel


def text(pipe, words):
    embeds, pooled, _ = pipe.encode_prompt(words, None, device=pipe.device, max_sequence_length=plan["text_tokens"])
    return {"embeds": embeds[0], "pooled": pooled[0]}


def latents(vae, pixels):
    found = vae.encode(pixels[:, :, 0]).latent_dist.sample()
    return ((found - vae.config.shift_factor) * vae.config.scaling_factor)[0]


def predict(model, noisy, sigma, batch):
    from diffusers import FluxPipeline

    count, channels, height, width = noisy.shape
    packed = FluxPipeline._pack_latents(noisy, count, channels, height, width)
    places = FluxPipeline._prepare_latent_image_ids(count, height // 2, width // 2, noisy.device, noisy.dtype)
    guidance = torch.full((count,), GUIDANCE, device=noisy.device) if model.config.guidance_embeds else None
    found = model(
        hidden_states=packed,
        timestep=sigma,
        guidance=guidance,
        pooled_projections=batch["pooled"],
        encoder_hidden_states=batch["embeds"],
        txt_ids=torch.zeros(batch["embeds"].shape[1], 3, device=noisy.device, dtype=noisy.dtype),
        img_ids=places,
        return_dict=False,
    )[0]
    pieces = found.view(count, height // 2, width // 2, channels, 2, 2)
    return pieces.permute(0, 3, 1, 4, 2, 5).reshape(noisy.shape)


def images(row, folder, opened):
    """The one picture of a row."""
    return [row["image"] if isinstance(row["image"], Image.Image) else Image.open(opened(row["image"], folder))]
