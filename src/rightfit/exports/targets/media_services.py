"""Diffusion models and Whisper behind FastAPI: services that gather requests into batches as the
plan counted on, one worker a card."""

from __future__ import annotations

from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.model_words import KEY, PORT, hub_id
from rightfit.exports.quoting import script, shell, to_json
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import ExportStack, pip_words, requirements, torch_build, torch_problem
from rightfit.exports.targets.data_jobs import model_name, whisper_engine
from rightfit.exports.targets.model_servers import LONGEST_WAIT_S, SHARE_OF_LATENCY, service_programs
from rightfit.messages import Message

WEB = ("fastapi==0.121.0", "uvicorn==0.38.0")
DIFFUSION_PACKAGES = (
    "diffusers==0.40.0",
    "transformers==5.23.0",
    "accelerate==1.15.0",
    "sentencepiece==0.2.1",
    "ftfy==6.3.1",
    "pillow==12.0.0",
    *WEB,
)
SPEECH_PACKAGES = ("faster-whisper==1.2.1", "python-multipart==0.0.20", "numpy==2.3.4", *WEB)
FRAMES_PER_S = 16


def _shared(job: Job) -> dict[str, Any]:
    """What service.json holds of either."""
    layout, allowed = job.option.layout, float(job.wish("latency_s") or 0.0)
    return {
        "plan": job.plan_id,
        "model": hub_id(job),
        "cards": job.gpus_per_node,
        "max_batch": max(1, layout.max_batch),
        "wait_s": min(SHARE_OF_LATENCY * allowed, LONGEST_WAIT_S) if allowed else LONGEST_WAIT_S,
    }


def diffusion_settings(job: Job) -> dict[str, Any]:
    """What service.json holds: sizes and steps are those that the plan counted."""
    given = job.option.facts.get("one_input")
    counted = given if isinstance(given, dict) else {}
    sizes = {"height": 0, "width": 0, "frames": 0}
    return {
        **_shared(job),
        "revision": job.settings.revision or "main",
        **sizes,
        **{name: int(value) for name, value in counted.items() if name in sizes},
        "steps": int(counted.get("denoise_steps") or 50),
        "frames_per_s": FRAMES_PER_S,
        "precision": job.option.layout.precision,
        "compiled": bool(job.gpus_per_node),
    }


def speech_settings(job: Job) -> dict[str, Any]:
    """What service.json holds."""
    return {**_shared(job), "model": model_name(job), "engine": whisper_engine(job)}


def _stack(job: Job, name: str, kind: str, packages: tuple[str, ...], settings: dict[str, Any]) -> ExportStack:
    """One worker a card, on the PyTorch build that suits it: its image has CUDA and cuDNN."""
    build = torch_build(job)
    return ExportStack(
        name=name,
        image=build.image,
        setup=(shell(pip_words(build, packages)),),
        command=("uvicorn", "service:app", "--host", "0.0.0.0", "--port", str(PORT), "--workers", str(max(1, job.gpus_per_node))),  # noqa: S104  see vllm.py
        files={**service_programs(kind), "service.json": to_json(settings), "requirements.txt": requirements(build, packages)},
        environment={},
        secrets=(KEY[0], "HF_TOKEN"),
        port=PORT,
    )


def diffusion_stack(job: Job) -> ExportStack:
    """diffusers' own pipeline of the model."""
    return _stack(job, "diffusion-service", "diffusion", DIFFUSION_PACKAGES, diffusion_settings(job))


def speech_stack(job: Job) -> ExportStack:
    """faster-whisper's batched pipeline."""
    return _stack(job, "speech-service", "speech", SPEECH_PACKAGES, speech_settings(job))


def _written(job: Job, found: ExportStack, program: str) -> Files:
    about = f"{job.model} with {program}, plan {job.plan_id}; before: pip install -r requirements.txt"
    return {"serve.sh": script(about, found.command, needs=[KEY]), **found.files}


def diffusion_write(job: Job) -> Files:
    """Program, settings, packages and the command."""
    return _written(job, diffusion_stack(job), DIFFUSION_PACKAGES[0])


def speech_write(job: Job) -> Files:
    """Program, settings, packages and the command."""
    return _written(job, speech_stack(job), SPEECH_PACKAGES[0])


def _problem(job: Job, engine: str, planned: str) -> Message | str:
    if planned != engine:
        return (
            Message("export.made_for", engine=job.option.layout.engine, framework=engine)
            if planned
            else Message("export.made_for_none", framework=engine)
        )
    if "/" not in hub_id(job):
        return Message("export.no_repository_served", model=job.model)
    return torch_problem(job)


def _diffusion_refuses(job: Job) -> Message | str:
    return _problem(job, "diffusers", job.option.layout.engine.casefold())


def _speech_refuses(job: Job) -> Message | str:
    vendor = str(job.option.facts.get("vendor") or "NVIDIA")
    problem = _problem(job, "faster-whisper", job.option.layout.engine.casefold())
    return problem or ("" if vendor == "NVIDIA" else Message("export.no_release", engine="faster-whisper", card=job.accelerator))


DIFFUSION_SERVICE = Target(
    "diffusion-service",
    "serving",
    "diffusers behind FastAPI: images and clips, with batching",
    diffusion_write,
    _diffusion_refuses,
    checked_by="a run on the processor with a tiny Stable Diffusion",
    stack=diffusion_stack,
    works=("serve",),
)
SPEECH_SERVICE = Target(
    "speech-service",
    "serving",
    "faster-whisper behind FastAPI: transcription, with batching",
    speech_write,
    _speech_refuses,
    checked_by="a run on the processor with a tiny Whisper",
    stack=speech_stack,
    works=("serve",),
)
