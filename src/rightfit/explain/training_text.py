"""What a plan says differently where samples (images, clips, recordings, rows) are trained on and not tokens."""

from __future__ import annotations

from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, join, say, say_or
from rightfit.search.answer import Option


def trains_samples(option: Option) -> bool:
    """Whether an option counts samples."""
    return "sample" in option.facts


def sample_setup_text(option: Option, layout: str, lang: Lang) -> str:
    """How to lay the job out over the cards."""
    setup, facts = option.layout, option.facts
    accumulated = say("choice.accumulated", lang, count=setup.grad_accum) if setup.grad_accum > 1 else say("choice.not_accumulated", lang)
    precision = setup.precision if setup.precision not in ("fp16", "bf16") else say("training.mixed", lang, precision=setup.precision)
    parts = [accumulated, say("training.global_batch", lang, count=f"{setup.global_batch:,}")]
    tail = [say_or(f"choice.recompute_{setup.recompute}", lang, setup.recompute), precision]
    tail += [say("training.channels_last", lang)] if facts["channels_last"] and precision != setup.precision else []
    tail += [say(f"training.latents_{facts['latents']}", lang)] if facts["latents"] else []
    batch = say("training.batch", lang, count=f"{setup.micro_batch:,}", samples=samples_text(facts["sample"], setup.micro_batch, lang))
    return say("training.setup", lang, layout=layout, batch=batch, accumulation=join(parts, lang), rest=join(tail, lang))


def samples_text(sample: Any, count: float, lang: Lang) -> str:
    """ "images of 224 x 224", "utterances of 30 s"."""
    unit = unit_text(sample["unit"], lang, one=count == 1)
    size = f"{sample['height']:.0f} x {sample['width']:.0f}" if sample["height"] else ""
    if size and sample["frames"] > 1:
        return say("training.clips_of", lang, unit=unit, frames=f"{sample['frames']:.0f}", size=size)
    if size and sample["domain"] in ("vision", "video"):
        return say("training.images_of", lang, unit=unit, size=size)
    if sample["domain"] == "speech":
        return say("training.seconds_of", lang, unit=unit, time=q.duration_text(sample["seconds"], lang))
    return unit


def unit_text(unit: str, lang: Lang, *, one: bool = False) -> str:
    """What one sample is called."""
    return say_or(f"training.unit_{unit}{'_one' if one else ''}", lang, unit)


def sample_speed_text(option: Option, lang: Lang) -> str:
    """Samples per second, step time and the share of peak arithmetic; arithmetic is no measure for tables and graphs."""
    estimate, facts = option.estimate, option.facts
    fields = {
        "rate": q.plain(estimate["samples_per_s"].mid),
        "unit": unit_text(facts["sample"]["unit"], lang),
        "step": q.duration_text(estimate["step_s"].mid, lang),
        "epoch": q.duration_text(facts["samples_per_epoch"] / estimate["samples_per_s"].mid, lang),
        "epochs": q.plain(facts["epochs"]),
    }
    if facts["modality"] in ("recommendation", "graph"):
        return say("training.speed_plain", lang, **fields)
    return say("training.speed", lang, **fields, mfu=q.percent_text(estimate["mfu"].mid))
