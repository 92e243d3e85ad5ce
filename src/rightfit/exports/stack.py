"""What runs on the server: image, set-up, command and files. Launch targets (SkyPilot, Terraform,
Slurm ...) start a stack; they never repeat one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from rightfit.errors import InputError
from rightfit.exports.job import SERVING_TASKS, Job
from rightfit.exports.locks import lock_of, locked_files, locked_line
from rightfit.exports.mirrors import mirrored_environment, mirrored_image
from rightfit.exports.model_words import (
    diffusion_family,
    hub_id,
    is_text_encoder,
    limits_problem,
    modality,
    model_kind,
    revision_problem,
    served_problem,
    size_problem,
)
from rightfit.exports.registry import Target, all_targets
from rightfit.facts.devices import ANY, Build, Span, build_for
from rightfit.facts.trainers import tuning_methods
from rightfit.messages import Message, at_place
from rightfit.records import dataclass

# ---- Which build of PyTorch, TensorFlow or JAX runs on the plan's accelerator, with its CUDA,
# cuDNN, driver and image: read from facts/data/software_builds.csv.

FRAMEWORKS = ("pytorch", "tensorflow", "jax")
RECENT: Span = ((2, 6), (99,))
"""First and last release that a stack goes with. Transformers loads no checkpoint of old form under
PyTorch before 2.6; FSDP2 needs it as well."""


def torch_build(job: Job, *, span: Span = RECENT) -> Build:
    """The PyTorch build of a job. Call `torch_problem` first: RuntimeError where there is none."""
    found = build_for(job.accelerator, span=span)
    if found is None:
        raise RuntimeError(f"no PyTorch build for {job.accelerator}")
    return found


def torch_problem(job: Job, *, span: Span = RECENT) -> Message | str:
    """Why no PyTorch release of the span that a stack needs runs on the plan's
    accelerator ("" if one does)."""
    if build_for(job.accelerator, span=span):
        return ""
    name, last = job.accelerator or Message("export.a_processor"), build_for(job.accelerator)
    if last is None:
        return Message("export.no_pytorch", card=name)
    least, most = (".".join(str(part) for part in release) for release in span)
    told = {"card": name, "version": last.version, "platform": last.platform, "least": least}
    return Message("export.pytorch_later", **told) if span[1] == ANY[1] else Message("export.pytorch_between", **told, most=most)


def pip_words(build: Build, packages: tuple[str, ...]) -> tuple[str, ...]:
    """Arguments of pip: the build's own package from its own index, and the others beside it."""
    index = ("--extra-index-url", build.index_url) if build.index_url else ()
    return ("pip", "install", *index, build.package, *packages)


def requirements(build: Build, packages: tuple[str, ...]) -> str:
    """The same as a requirements file."""
    index = (f"--extra-index-url {build.index_url}",) if build.index_url else ()
    return "\n".join((*index, build.package, *packages)) + "\n"


ADAPTERS = ("lora", "qlora", "dora")
TRAINED_BY_TRL = ("full", *ADAPTERS)

SERVING_STACKS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "tensorrt-llm": "tensorrt_llm",
    "tgi": "tgi",
    "llama.cpp": "llama_cpp",
    "tensorrt": "onnx_service",
    "onnx runtime": "onnx_service",
    "openvino": "onnx_service",
    "pytorch": "onnx_service",
    "fastapi": "tabular_service",
    "diffusers": "diffusion_service",
    "faster-whisper": "speech_service",
}
"""Engine of a plan (case-folded) -> module of rightfit.exports.targets that has a `stack`."""
OF_SAMPLES = {
    "speech": "speech",
    "segmentation": "segmentation",
    "detection": "detection",
    "graph": "graph",
    "recommendation": "recommender",
}
"""What a model of samples works on -> the target whose script trains it."""
ADAPTED_FAMILIES = ("flux", "wan")
"""Families of diffusion models whose adapters our own script trains."""
JUDGED_BY_TARGET = ("batch", "tabular", "diffusion_service", "speech_service")
"""Stacks whose own target says what it cannot start."""
BATCHES = ("vllm", "faster-whisper")
"""Engines by which a batch is run to its end; text encoders are too, by any."""


@dataclass(frozen=True, slots=True)
class ExportStack:
    """`image`: a pinned container; `setup`: shell lines that prepare a bare server instead of the
    image; `command`: the job's arguments on each node, in which the words {node_rank}, {num_nodes}
    and {head_address} stand for what the launcher knows; `port`: what a service listens on;
    `beside`: shell lines of pip for what an image that holds the program lacks all the same."""

    name: str
    image: str
    setup: tuple[str, ...]
    command: tuple[str, ...]
    files: Mapping[str, str]
    environment: Mapping[str, str]
    secrets: tuple[str, ...] = ()
    port: int | None = None
    health_path: str = "/health"
    program_inside: bool = False
    beside: tuple[str, ...] = ()


def stack_name(job: Job) -> str:
    """Module of the stack that starts the job; "" where there is none yet."""
    if job.option.layout.job in ("train", "score"):
        return "tabular"
    if job.task == "batch" and (job.option.layout.engine.casefold() in BATCHES or is_text_encoder(job)):
        return "batch"
    if job.task in SERVING_TASKS:
        return SERVING_STACKS.get(job.option.layout.engine.casefold(), "")
    found = _training_stack(job)
    return OTHERWISE if found == "trl" and _target(found).problem(job) and not _target(OTHERWISE).problem(job) else found


OTHERWISE = "axolotl"
"""What fine-tunes where the plainest program cannot: it packs stacked experts, and bases in shards,
of models that came later."""


def _training_stack(job: Job) -> str:
    """The plainest program for the model's kind, the method and the layout."""
    kind, layout = model_kind(job), job.option.layout
    if job.task == "prepare":
        return "prepare"
    if hub_id(job).startswith("ultralytics/"):
        return "yolo"
    if modality(job) in OF_SAMPLES:
        return OF_SAMPLES[modality(job)]
    if kind == "diffusion" and _is_adapted(job):
        return "diffusion_lora"
    if kind in ("embedding", "reranker") or (kind == "encoder-decoder" and not modality(job)):
        return "torchrun"
    if kind == "vision-language":
        return "llama_factory"
    if kind not in ("decoder", "encoder"):
        known = {"diffusion": "diffusers", "vision": "timm" if layout.method == "full" and hub_id(job).startswith("timm/") else "vision"}
        return known.get(kind, "") if modality(job) in ("", "diffusion", "classification") else ""
    if layout.tensor * layout.pipeline * layout.context * layout.expert > 1:
        return "megatron"
    if layout.moves_states and not shards_4_bit(job):
        return "deepspeed"
    if layout.method in tuning_methods():
        return "deepspeed" if layout.sharding in ("zero-1", "zero-2") else "trl"
    if job.task == "train" or kind == "encoder" or shards_all(job):
        return "torchrun"
    return "deepspeed" if layout.sharding in ("zero-1", "zero-2") else "trl"


def _is_adapted(job: Job) -> bool:
    """Whether a diffusion model gets an adapter in a way that diffusers' own scripts have not:
    their base lies whole on each card, in 16 bit."""
    layout, found = job.option.layout, diffusion_family(job)
    asks = layout.method == "qlora" or layout.moves_states or layout.sharding == "zero-3" or bool(job.wish("quantization"))
    return found in ADAPTED_FAMILIES and layout.method in ADAPTERS and (asks or found != "flux")


def shards_all(job: Job) -> bool:
    """Whether every weight is trained and cut into shards: then no process may hold a whole copy in
    32 bit, neither when it loads nor when it saves."""
    return job.option.layout.method == "full" and job.option.layout.sharding in ("zero-3", "hybrid")


def shards_4_bit(job: Job) -> bool:
    """Whether a 4-bit base is cut into shards, which FSDP does and ZeRO-3 does not."""
    layout = job.option.layout
    return "qlora" in (layout.method, layout.update) and layout.sharding in ("zero-3", "hybrid")


def _target(name: str) -> Target:
    return all_targets()[name.replace("_", "-")]


def stack_problem(job: Job) -> Message | str:
    """Why no stack starts the job ("" if one does)."""
    name = stack_name(job)
    if name and (
        problem := size_problem(job) or revision_problem(job, name.replace("_", "-")) or limits_problem(job, name.replace("_", "-"))
    ):
        return problem
    if name and job.task in SERVING_TASKS and name not in JUDGED_BY_TARGET:
        return served_problem(job, name)
    if name:
        # A launcher starts what the program's own target can express, and says what that says.
        problem = _target(name).problem(job)
        return at_place(name, problem) if problem else ""
    if job.task in SERVING_TASKS:
        return Message("export.no_launcher_serving", engine=job.option.layout.engine)
    if modality(job):
        return Message("export.no_program", model=job.model, kind=modality(job))
    return Message("export.no_launcher_job", task=job.task, method=job.option.layout.method)


def stack_of(job: Job) -> ExportStack:
    """The stack of a job. InputError where there is none."""
    if problem := stack_problem(job):
        raise InputError(problem, field="to")
    make = _target(stack_name(job)).stack
    assert make is not None
    found = _locked(make(job))
    image, environment = mirrored_image(found.image, job), {**mirrored_environment(job), **found.environment}
    return dataclasses.replace(found, image=image, environment=environment, program_inside=found.image.startswith(IMAGES_WITH_PROGRAM))


def _locked(stack: ExportStack) -> ExportStack:
    """A stack whose set-up takes its lock where it installs all that the program stands on. An
    image that holds the program is fixed itself: what is added there keeps to what it has."""
    files = locked_files(stack.files)
    return dataclasses.replace(stack, setup=tuple(locked_line(line, files) for line in stack.setup), files=files)


def setup_files(stack: ExportStack) -> Mapping[str, str]:
    """The stack's files where its set-up runs beside them: with the lock also of a program
    that brings no file."""
    return {**lock_of(stack.setup), **stack.files}


IMAGES_WITH_PROGRAM = ("vllm/", "lmsysorg/", "rocm/vllm", "rocm/sgl-dev", "ghcr.io/", "nvcr.io/", "rayproject/")
"""Images that hold the program itself; the others hold what it stands on, and the
set-up adds the rest."""


def installs(stack: ExportStack) -> tuple[str, ...]:
    """The lines of the set-up that its image needs before the command runs."""
    inside = stack.program_inside or stack.image.startswith(IMAGES_WITH_PROGRAM)
    return stack.beside if inside else tuple(line for line in stack.setup if line.startswith("pip "))


def has_amd_cards(job: Job) -> bool:
    """Whether the plan's cards are AMD's, which a container reaches through the devices of their
    driver."""
    return bool(job.gpus_per_node) and str(job.option.facts.get("vendor") or "") == "AMD"


def driver_problem(job: Job, program: str, brings: tuple[str, ...]) -> Message | str:
    """Why a launcher's own image of a server lacks the driver of the plan's cards ("" if it has it,
    or rents at a seller that brings it)."""
    provider = job.option.provider
    return Message("export.no_amd_driver", program=program, provider=provider) if has_amd_cards(job) and provider not in brings else ""


AMD_CARDS = ("--device", "/dev/kfd", "--device", "/dev/dri", "--group-add", "video", "--security-opt", "seccomp=unconfined")
"""Docker's words for AMD's cards, which are reached through the devices of their driver."""


def card_words(job: Job) -> tuple[str, ...]:
    """Docker's words that give a container the cards of its server; none without cards."""
    if not job.gpus_per_node:
        return ()
    return AMD_CARDS if has_amd_cards(job) else ("--gpus", "all")


def key_of(stack: ExportStack) -> str:
    """The variable of the key without which the program answers nobody; "" where it has none."""
    return next((name for name in stack.secrets if name != "HF_TOKEN"), "")


def healthy(stack: ExportStack) -> tuple[str, ...]:
    """A command within the image that fails while the service does not answer; the image of
    llama.cpp's server has curl and no Python."""
    address = f"http://127.0.0.1:{stack.port}{stack.health_path}"
    if stack.command[0] == "llama-server":
        return ("curl", "-sfo", "/dev/null", "--max-time", "5", address)
    return ("python3", "-c", f"import urllib.request as r; r.urlopen('{address}', timeout=5)")


def launched(command: tuple[str, ...], *, node_rank: str, num_nodes: str, head_address: str) -> tuple[str, ...]:
    """The command with a launcher's own words for rank, count and address."""
    words = {"{node_rank}": node_rank, "{num_nodes}": num_nodes, "{head_address}": head_address}
    return tuple(_replaced(word, words) for word in command)


def _replaced(word: str, words: Mapping[str, str]) -> str:
    for mark, text in words.items():
        word = word.replace(mark, text)
    return word
