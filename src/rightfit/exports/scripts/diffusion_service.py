"""A diffusion model behind HTTP, as OpenAI's interface for images has it: requests that come together and ask alike are drawn together. Started by
uvicorn; reads service.json beside it."""

import base64
import io
import time

import service_core as core
import torch
from diffusers import DiffusionPipeline
from fastapi import Depends, HTTPException
from pydantic import BaseModel, Field

PLAN = core.PLAN
MOST_STEPS = 200


class Request(BaseModel):
    """What to draw. Sizes are the plan's where none is asked for, and no larger: memory was counted for them."""

    prompt: str = Field(min_length=1, max_length=4000)
    negative_prompt: str = Field("", max_length=4000)
    n: int = Field(1, ge=1, le=max(1, PLAN["max_batch"]))
    size: str = Field("", pattern=r"^(|\d{2,4}x\d{2,4})$")
    num_inference_steps: int = Field(PLAN["steps"], ge=1, le=MOST_STEPS)
    guidance_scale: float | None = Field(None, ge=0, le=50)
    seed: int | None = Field(None, ge=0, lt=2**63)


def coded(found):
    """An image as PNG, frames as one moving WebP, in base64."""
    file, frames = io.BytesIO(), found if isinstance(found, list) else [found]
    if len(frames) > 1:
        frames[0].save(file, format="WEBP", save_all=True, append_images=frames[1:], duration=round(1000 / PLAN["frames_per_s"]))
    else:
        frames[0].save(file, format="PNG")
    return base64.b64encode(file.getvalue()).decode()


class Painter(core.Batcher):
    def __init__(self):
        super().__init__()
        card = core.own_card()
        self.device = torch.device("cuda", card) if card is not None else torch.device("cpu")
        kind = {"fp16": torch.float16, "bf16": torch.bfloat16}.get(PLAN["precision"], torch.float32)
        self.pipeline = DiffusionPipeline.from_pretrained(PLAN["model"], revision=PLAN["revision"], torch_dtype=kind).to(self.device)
        self.pipeline.set_progress_bar_config(disable=True)
        if PLAN["compiled"] and card is not None:
            part = getattr(self.pipeline, "transformer", None) or self.pipeline.unet
            part.compile()
            self.answers([Request(prompt="a photo", num_inference_steps=1)])  # it is not healthy before it is ready

    def size(self, asked):
        return asked.n

    def groups(self, batch):
        """Requests of other sizes and steps cannot share a pass, nor can those with something to avoid and those without."""
        found = {}
        for asked, answer in batch:
            alike = asked.size, asked.num_inference_steps, asked.guidance_scale, bool(asked.negative_prompt)
            found.setdefault(alike, []).append((asked, answer))
        return found.values()

    def answers(self, asked):
        first = asked[0]
        width, height = map(int, first.size.split("x")) if first.size else (PLAN["width"], PLAN["height"])
        seeds = [torch.seed() % 2**63 if one.seed is None else one.seed + number for one in asked for number in range(one.n)]
        settings = {
            "prompt": [one.prompt for one in asked for _ in range(one.n)],
            "num_inference_steps": first.num_inference_steps,
            "generator": [torch.Generator(self.device).manual_seed(seed) for seed in seeds],
            **({"height": height, "width": width} if height and width else {}),
            **({"num_frames": PLAN["frames"]} if PLAN["frames"] > 1 else {}),
            **({"guidance_scale": first.guidance_scale} if first.guidance_scale is not None else {}),
            **({"negative_prompt": [one.negative_prompt for one in asked for _ in range(one.n)]} if first.negative_prompt else {}),
        }
        with torch.inference_mode():
            done = self.pipeline(**settings, output_type="pil")
        made = iter(done.frames if PLAN["frames"] > 1 else done.images)
        return [{"created": int(time.time()), "data": [{"b64_json": coded(next(made))} for _ in range(one.n)]} for one in asked]


app = core.service(Painter)


@app.post("/v1/images/generations", dependencies=[Depends(core.check_key)])
async def generations(request: Request):
    width, height = map(int, request.size.split("x")) if request.size else (0, 0)
    if PLAN["width"] and width * height > PLAN["width"] * PLAN["height"]:
        raise HTTPException(422, f"size has at most the pixels of {PLAN['width']}x{PLAN['height']}")
    return await app.state.batcher.answer(request)
