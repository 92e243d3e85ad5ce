"""What the plan's model is: its kind and shape, where it is one that rightfit knows by name. Files
and network are never asked."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from typing import Any

from rightfit.exports.job import LIMITS, SERVING_TASKS, Job
from rightfit.exports.quoting import shell
from rightfit.facts import DiffusionModel, Resolution, TransformerArchitecture, VisionModel, hub_repository, resolve_offline
from rightfit.facts.devices import accelerators, machine_of, stands_for
from rightfit.facts.engine_releases import (
    READ,
    EngineRelease,
    image_for,
    images,
    is_of_its_time,
    model_class,
    newest_release,
    release_for,
)
from rightfit.facts.engines import engine_class, makes, packed_copy, published_format
from rightfit.facts.records import Accelerator
from rightfit.facts.tables import says
from rightfit.messages import Message


@functools.lru_cache(maxsize=64)
def _found(name: str) -> Resolution | None:
    return resolve_offline(name)


def _record(name: str) -> Any:
    found = _found(name)
    return found.record if found is not None else None


def architecture(job: Job) -> TransformerArchitecture | None:
    """Layers and widths of a language model; None where they are not known, or only
    guessed from a size."""
    found = _record(job.model)
    return found if isinstance(found, TransformerArchitecture) and found.certainty != "typical" else None


def model_kind(job: Job) -> str:
    """decoder, encoder, encoder-decoder, embedding, reranker, vision-language, vision, diffusion or
    other."""
    found, facts = _record(job.model), job.option.facts
    if isinstance(found, DiffusionModel) or facts.get("modality") == "diffusion":
        return "diffusion"
    if isinstance(found, VisionModel) or facts.get("modality") == "classification":
        return "vision"
    if isinstance(found, TransformerArchitecture) and found.kind == "embedding":
        return "reranker" if says("setup", "reranker", found.name.casefold()) else "embedding"
    if isinstance(found, TransformerArchitecture) and job.seq_len:
        return {"encoder": "encoder", "encoder-decoder": "encoder-decoder", "vlm": "vision-language"}.get(found.kind, "decoder")
    return "decoder" if job.seq_len else "other"


MODEL_FOLDER = "/checkpoints/model/"
"""Where a job finds a model that the user brings: beside its data."""
A_FOLDER = re.compile(r"[./~]|[A-Za-z]:|.*\\|[^/]*/[^/]*/")
"""A place on a disk: it begins as one, or has more parts than a name of the hub."""


def own_folder(job: Job) -> str:
    """Last part of the name of a model that is a folder of the user's machine; "" for others."""
    return re.split(r"[\\/]", job.model.rstrip("\\/"))[-1] if A_FOLDER.match(job.model) else ""


def hub_id(job: Job) -> str:
    """The repository that the programs fetch the model from: the one that was asked for by its
    owner and name, whichever record lent the plan its shape; else that of the common name; else the
    name as given. A folder of the user's machine goes to a run's server with its data."""
    if (folder := own_folder(job)) and not job.is_service:
        return MODEL_FOLDER + folder
    return hub_repository(job.model, _found(job.model)) or job.model


def class_names(job: Job) -> tuple[str, ...]:
    """The names by which engines' tables know the model's class: the repository, and
    that of its record."""
    return tuple(dict.fromkeys(name for name in (hub_id(job), lender(job)) if "/" in name))


def lender(job: Job) -> str:
    """The record that the model's shape is taken from; "" where that is not one of ours."""
    found = _record(job.model)
    return str(found.name) if found is not None else ""


def size_problem(job: Job) -> Message | str:
    """Why a plan cannot be started that was made for a size ("7B") and names no model whose weights
    there are ("" if it can)."""
    found = _record(job.model)
    if isinstance(found, TransformerArchitecture) and found.certainty == "typical":
        return Message("export.of_a_size", model=job.model)
    return ""


def diffusion_family(job: Job) -> str:
    """sdxl, flux, stable-diffusion ...; empty for other models."""
    found = _record(job.model)
    return found.family if isinstance(found, DiffusionModel) else ""


def image_size(job: Job) -> int:
    """Pixels of a side of a training image; 0 where there are none."""
    return int(sample(job).get("height") or 0)


def modality(job: Job) -> str:
    """What the model works on, as a plan of samples says it (speech, segmentation, classification
    ...); "" for other plans."""
    return str(job.option.facts.get("modality") or "")


def sample(job: Job) -> dict[str, Any]:
    """Sizes of a sample of the plan (height, width, seconds); empty where there are none."""
    found = job.option.facts.get("sample")
    return found if isinstance(found, dict) else {}


def is_text_encoder(job: Job) -> bool:
    """Whether the model is one that makes vectors of texts (BERT and its like)."""
    found = _record(job.model)
    return isinstance(found, TransformerArchitecture) and found.kind in ("encoder", "embedding")


WITHOUT_REVISION = (
    "tensorrt-llm",
    "megatron",
    "timm",
    "tabular",
    "tabular-service",
    "prepare",
    "batch",
    "speech-service",
    "llama-cpp",
    "onnx-service",
    "bentoml",
    "triton",
)
"""Targets whose program takes a model's newest files, or files that the user brings."""


READS_COLUMNS = (
    "trl",
    "deepspeed",
    "accelerate",
    "torchrun",
    "fsdp2",
    "colossalai",
    "axolotl",
    "llama-factory",
    "ms-swift",
    "speech",
    "segmentation",
)
READS_COLUMNS_OF_SAMPLES = ("vision", "detection", "yolo", "diffusion-lora")
"""Targets whose programs are told what the columns of the data are called."""


def columns_problem(job: Job, target: str) -> Message | str:
    """Why a program cannot be told what the columns of the data are called ("" if it can, or need
    not be)."""
    reads = (*READS_COLUMNS, *READS_COLUMNS_OF_SAMPLES)
    return Message("export.no_columns", target=target) if job.settings.columns and target not in reads else ""


def revision_problem(job: Job, target: str) -> Message | str:
    """Why a program cannot take the commit that the user names ("" if it can)."""
    if job.settings.revision and target in WITHOUT_REVISION:
        return Message("export.no_revision", target=target)
    return ""


ENGINE_LIMITS = {
    "vllm": ("--max-model-len", "--max-num-seqs", "--gpu-memory-utilization"),
    "sglang": ("--context-length", "--max-running-requests", "--mem-fraction-static"),
    "tgi": ("--max-total-tokens", "--max-concurrent-requests", "--cuda-memory-fraction"),
    "tensorrt-llm": ("--max_seq_len", "--max_batch_size", ""),  # its share is one of what is free: another thing
}
"""Engine -> its words for LIMITS; "" where it has none."""


def told_limits(job: Job) -> dict[str, str]:
    """Limits that the user names, as the settings have read them."""
    return {} if isinstance(job.settings.limits, str) else dict(job.settings.limits)


def limited(job: Job, engine: str, words: Sequence[str]) -> tuple[str, ...]:
    """Words of an engine with its share of the cards, and the limits that the user told in the
    place of the plan's. vLLM's own share differs from release to release: that of the plan is
    written."""
    found, flags = list(words), dict(zip(LIMITS, ENGINE_LIMITS[engine], strict=True))
    share = job.wish("gpu_memory_utilization")
    if engine == "vllm" and job.gpus_per_node and not share:
        share = engine_class(engine).memory_fraction
    planned = {LIMITS[2]: f"{float(share):g}"} if share and flags[LIMITS[2]] else {}
    for name, value in (planned | told_limits(job)).items():
        if flags[name] in found:
            found[found.index(flags[name]) + 1] = value
        else:
            found += [flags[name], value]
    return tuple(found)


def limits_problem(job: Job, target: str) -> Message | str:
    """Why a program cannot be told the limits that the user names ("" if it can, or need not)."""
    told = told_limits(job)
    if not told or job.settings.then:
        return ""
    flags = dict(zip(LIMITS, ENGINE_LIMITS.get(target, ("",) * len(LIMITS)), strict=True))
    if lacking := [name for name in told if not flags[name]]:
        return Message("export.no_limit", target=target, limit=lacking[0])
    longest = int(told.get(LIMITS[0], 0))
    stated = sum(int(float(job.wish(name) or 0)) for name in ("input_tokens", "output_tokens"))
    if longest and stated > longest:
        return Message("export.limit_too_short", limit=LIMITS[0], count=longest, needed=stated)
    return ""


# ---- What the servers of language models have in common: lengths, formats, replicas, as
# the plan found them.

PORT = 8000
KEY = ("RIGHTFIT_API_KEY", "the key that clients must send")


def revision_words(job: Job, flag: str = "--revision") -> list[str]:
    """The commit of the model's repository, where the user names one."""
    return [flag, job.settings.revision] if job.settings.revision else []


def request_tokens(job: Job) -> tuple[int, int]:
    """Tokens of prompt (what is seen and heard included) and answer of a usual request: those that
    the plan counted with, told or assumed; else those of the workload, 0 where it names none."""
    counted = [int(float(job.option.facts.get(name) or 0)) for name in ("input_tokens", "output_tokens")]
    if any(counted):
        return counted[0], counted[1]
    if any(job.wish(name) for name in _SEEN):
        return 0, 0
    told = [int(float(job.wish(name) or 0)) for name in ("input_tokens", "output_tokens")]
    return told[0], told[1]


def context_tokens(job: Job) -> int:
    """Prompt and answer of a usual request, 0 where the plan names none."""
    return sum(request_tokens(job))


MOST_TIMES_USUAL = 4
STEP_TOKENS, LEAST_STEP_TOKENS = 256, 16


def longest_tokens(job: Job) -> int:
    """Prompt and answer of the longest request that a server takes, 0 where the plan names none.

    Requests differ in length, and one that is longer than the plan's must not be turned away for a
    token. The cache that the plan keeps for `max_batch` usual requests holds a longer one as well:
    up to four usual lengths and half of that cache, within what the model was made for.
    """
    usual, batch = context_tokens(job), max(1, job.option.layout.max_batch)
    if not usual:
        return 0
    step = STEP_TOKENS if batch > 1 else LEAST_STEP_TOKENS
    longest = math.ceil(usual * max(1, min(MOST_TIMES_USUAL, batch // 2)) / step) * step
    known = architecture(job)
    return max(usual, min(longest, known.max_position)) if known is not None and known.max_position else longest


def servers_range(job: Job) -> tuple[int, int]:
    """Fewest and most servers: those of the plan's day where it has a daily profile, else
    the plan's number."""
    day = job.section("autoscaling")
    least, most = (int(float(day.get(name) or job.num_nodes)) for name in ("min_servers", "max_servers"))
    return max(1, least), max(least, most, 1)


LEAST_START_S = 1800
START_MARGIN = 3.0  # over the plan's cold start before a service that does not answer is given up


def longest_start_s(job: Job) -> int:
    """Seconds that a service may take until it answers: weights come first, and large ones take
    longer than any fixed time."""
    planned = float((job.section("autoscaling").get("cold_start") or {}).get("total_s") or 0.0)
    kept = job.option.estimate.get("disk_bytes")
    fetched = kept.mid / SLOW_BYTES_PER_S if kept is not None else 0.0
    return max(LEAST_START_S, math.ceil(START_MARGIN * planned), math.ceil(fetched))


SLOW_BYTES_PER_S = 100e6
"""A hub on a bad day; plans without a cold start of their own (options below the
first) are held to it."""


def is_half(job: Job) -> bool:
    """Whether the plan computes in fp16 (cards without bf16) rather than bf16; narrow weights are
    computed with in one of the two."""
    card = chip_of(job)
    old = card is not None and card.vendor == "NVIDIA" and 0 < card.compute_capability < BF16_CAPABILITY
    return job.option.layout.precision == "fp16" or (job.task in SERVING_TASKS and old)


BF16_CAPABILITY = 8.0
WIDE = ("", "bf16", "fp16", "fp32")


def is_stored(job: Job) -> bool:
    """Whether the repository that was asked for holds its weights in the plan's narrow format: an
    engine then reads it from the model's own settings, and is told none."""
    wanted = job.option.layout.weight_format.casefold()
    return wanted not in WIDE and wanted in {published_format(name) for name in (job.model, hub_id(job))}


def stored_problem(job: Job, engine: str) -> Message | str:
    """Why an engine cannot load the weights in the format of the plan ("" if it can)."""
    wanted = job.option.layout.weight_format.casefold()
    if job.task not in SERVING_TASKS or wanted in WIDE or makes(engine, wanted) or is_stored(job) or own_folder(job):
        return ""
    return Message("export.not_stored", model=job.model, format=wanted, engine=engine, copy=packed_copy(hub_id(job), wanted))


#: What a request holds beside text.
_SEEN = ("images", "image_size", "frames", "audio_length_s")
#: What a plan may have beside the model that a program must be told to do.
_BESIDE = ("speculative", "adapters", "kv_offload")


def wrong_engine(job: Job, *engines: str, carries: tuple[str, ...] = ()) -> Message | str:
    """Why a server program cannot serve the plan ("" if it can): another task, a plan made for
    another engine, or one with something beside the model that is not among those that the
    file `carries`."""
    planned = job.option.layout.engine
    if planned.casefold() not in {engine.casefold() for engine in engines}:
        framework = engines[0].casefold()
        return (
            Message("export.made_for", engine=planned, framework=framework)
            if planned
            else Message("export.made_for_none", framework=framework)
        )
    beside = next((name for name in _BESIDE if job.wish(name) and name not in carries), "")
    if beside:
        told = {"feature": beside, "value": job.wish(beside), "option": beside.replace("_", "-")}
        return Message("export.not_carried", **told) if "vLLM" in engines else Message("export.not_carried_vllm", **told)
    return ""


def servers_of_replica(job: Job) -> int:
    """Servers of one replica: 1, or as many as its layout needs."""
    layout = job.option.layout
    if job.task not in SERVING_TASKS or not job.gpus_per_node:
        return 1
    return math.ceil(layout.tensor * layout.pipeline / job.gpus_per_node)


def spans_servers(job: Job) -> Message | str:
    """Why a service's or batch's replicas cannot each be started by one command on one
    server ("" if they can)."""
    if (servers := servers_of_replica(job)) > 1:
        return Message("export.replica_spans_one", count=servers)
    return ""


def group_problem(job: Job) -> Message | str:
    """Why a replica on several servers cannot be started ("" if it can, or needs one server)."""
    if servers_of_replica(job) > 1 and (job.task != "serve" or job.option.layout.engine.casefold() != "vllm"):
        return Message("export.replica_spans_vllm", count=servers_of_replica(job))
    return ""


LAST_WITH = {"vllm": {"int8": "0.26.0", "nf4": "0.26.0"}}
"""Formats of weights that later releases of an engine dropped -> the last release in whose wheel
they were found (bitsandbytes of vLLM)."""


def _found_release(job: Job, engine: str) -> EngineRelease | None:
    until = LAST_WITH.get(engine, {}).get(job.option.layout.weight_format.casefold(), "")
    return release_for(engine, class_names(job), job.accelerator, until=until)


def engine_release(job: Job, engine: str) -> EngineRelease:
    """The newest release of an engine that knows the model and its format and runs on the card of
    the plan. Call `release_problem` first: where there is none, the newest stands in, for words
    that are shown before the refusal."""
    return _found_release(job, engine) or newest_release(engine)


def release_problem(job: Job, engine: str) -> Message | str:
    """Why no release of an engine starts the model on the card of the plan ("" if one does)."""
    if problem := stored_problem(job, engine):
        return problem
    if _found_release(job, engine):
        return ""
    known = model_class(*class_names(job))
    told = {"engine": engine, "card": job.accelerator or Message("export.a_processor"), "model": job.model}
    if known is None or not known.architecture:
        return Message("export.no_release", **told)
    return Message("export.no_release_class", **told, architecture=known.architecture, least=known.least.get(engine) or "-")


def chip_of(job: Job) -> Accelerator | None:
    """The chip of the plan's cards, also where a cloud hides it behind a label of its own; None
    without cards and where they are not known."""
    card = accelerators().get(job.accelerator)
    return stands_for(card) if card else None


def image_of(name: str, job: Job) -> str:
    """The image of a program for the plan's cards, or for its processors; "" where there is none.
    A card that nobody knows is taken for the first that the program has an image for."""
    card = job.accelerator if job.gpus_per_node else ""
    if card and card not in accelerators():
        return images(name)[0].image
    found = image_for(name, card)
    return found.image if found else ""


IMAGES_READ = {"tensorrt_llm": "tensorrt-llm", "tgi": "tgi", "llama_cpp": "llama.cpp"}
"""Stacks whose one image is of a day whose models are known
(facts/data/engine_ages.csv) -> the engine there."""


def served_problem(job: Job, stack: str) -> Message | str:
    """Why the image or package of a serving stack cannot start the model on the card of the plan
    ("" if it can, or nothing is known against it)."""
    if stack in READ:
        return release_problem(job, stack)
    if stack == "onnx_service":
        return onnx_problem(job)
    if stack not in IMAGES_READ:
        return ""
    if problem := "" if stack == "llama_cpp" else stored_problem(job, IMAGES_READ[stack]):
        return problem
    known = model_class(*class_names(job))
    told = {"engine": IMAGES_READ[stack], "card": job.accelerator or Message("export.a_processor"), "model": job.model}
    if not image_of(IMAGES_READ[stack], job):
        return Message("export.no_release", **told)
    if known is not None and not is_of_its_time(IMAGES_READ[stack], known):
        return Message("export.no_release_class", **told, architecture=known.architecture, least="-")
    return ""


ONNX_GPU = "onnxruntime-gpu==1.23.2"
"""For CUDA 12, as the images and the PyTorch beside it: the newest releases are for CUDA 13."""


def onnx_problem(job: Job) -> Message | str:
    """Why ONNX Runtime's package for cards does not run on those of the plan ("" if it does, or
    there are none): it is for NVIDIA's beside x86."""
    card = chip_of(job)
    if not job.gpus_per_node or card is None or (card.vendor == "NVIDIA" and machine_of(card.name) == "x86_64"):
        return ""
    return Message("export.no_release", engine=ONNX_GPU.partition("=")[0], card=job.accelerator)


def release_setup(release: EngineRelease) -> tuple[str, ...]:
    """Shell lines that put the release on a bare server: by pip, or its image where
    that is all there is."""
    return (f"pip install {shell(release.package.split())}",) if release.package else (f"docker pull {release.image}",)
