"""Figures of a training plan in the words that its programs share, and the command that starts one
of them on each node."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from importlib import resources
from typing import Any

from rightfit.exports.buckets import place_of
from rightfit.exports.job import Job
from rightfit.exports.learning import lora_rank, lora_targets, objective, trained
from rightfit.exports.model_words import architecture, class_names, hub_id, model_kind
from rightfit.exports.quoting import comment, shell, shell_lines, to_json
from rightfit.exports.registry import Files
from rightfit.exports.stack import ADAPTERS, RECENT, ExportStack, launched, pip_words, requirements, torch_build
from rightfit.facts.devices import Span
from rightfit.facts.engine_releases import model_class, numbers
from rightfit.messages import Message

PORT = 29500
LEAST_SAVE_S = 60.0
SAVE_S = 1800.0
"""Seconds between checkpoints where the plan has no interval of its own (servers that
cannot be taken away)."""
MOST_SAVE_S, MOST_SAVE_SHARE = 3600.0, 0.05
"""No run loses more than an hour or a twentieth of itself, whatever ends it: the plan's interval
weighs interruptions only, not failures."""
LEARNING_RATES = {"train": 3e-4, "full": 2e-5, "adapter": 2e-4}
"""Not part of a plan: usual values to begin with, of pre-training, full
fine-tuning and adapters."""
WARMUP_SHARE = 0.03
HELD_OUT_SHARE = 0.01
"""Of the rows, at most 512, that judge the result instead of being learnt from; none of fewer than
a hundred."""
OPTIMIZERS = {
    "adamw": "adamw_torch",
    "adamw-fused": "adamw_torch_fused",
    "adamw-8bit": "adamw_8bit",
    "adamw-8bit-paged": "paged_adamw_8bit",
    "adamw-paged": "paged_adamw_32bit",
    "adafactor": "adafactor",
    "lion": "lion_32bit",
    "sgd": "sgd",
    "sgd-momentum": "sgd",
    "adagrad": "adagrad",
}
"""A plan's optimizer -> that of the Trainer of Transformers."""
STORES = {"s3": "s3fs==2025.9.0", "gs": "gcsfs==2025.9.0", "oss": "ossfs==2025.5.0"}
"""Scheme of a bucket with data -> the package that reads it."""
DRIVERS = {"13.0": "580.65.06", "12.8": "570.26", "12.6": "560.28.03"}
"""CUDA of an engine's release -> the driver that it asks for, as facts/data/software_builds.csv
has it."""
ALLOCATOR = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def optimizer(job: Job) -> str:
    """The optimizer as the Trainer of Transformers calls it."""
    wished = str(job.wish("optimizer") or "adamw-fused")
    fused = "adamw_torch_fused" if job.gpus_per_node else "adamw_torch"
    return fused if wished in ("adamw", "adamw-fused") else OPTIMIZERS.get(wished, fused)


def optimizer_problem(job: Job) -> Message | str:
    """Why no program here has the plan's optimizer ("" if they have)."""
    wished = job.wish("optimizer")
    return "" if not wished or wished in OPTIMIZERS else Message("export.no_optimizer", optimizer=wished, known=", ".join(OPTIMIZERS))


def learning_rate(job: Job) -> float:
    """A usual value to begin with; the plan has none."""
    if trained(job) in ADAPTERS:
        return LEARNING_RATES["adapter"]
    return LEARNING_RATES["train" if job.task == "train" else "full"]


def steps(job: Job) -> int | None:
    """Optimizer steps of the run, None where the plan does not count them."""
    return int(job.option.facts.get("steps") or 0) or None


def told_steps(job: Job) -> int | None:
    """Optimizer steps where the amount of work is told in tokens or steps; None where it is told in
    passes over the data or in samples: a program then ends with the data."""
    return None if job.wish("epochs") or job.wish("data_unit") in ("samples", "rows") else steps(job)


def epochs(job: Job) -> float:
    """Passes over the data."""
    return float(job.wish("epochs") or job.option.facts.get("epochs") or 1)


def workers(job: Job) -> int:
    """Loader processes of one accelerator, within the server's processors."""
    wished = int(job.wish("workers") or job.option.data_path.get("workers") or 4)
    share = int((job.option.vcpus or 0) / max(1, job.gpus_per_node))
    return max(1, min(wished, share - 1)) if share else wished


def save_every_s(job: Job) -> float:
    """Seconds between checkpoints: the plan's interval, at most an hour and a twentieth of the run,
    and no shorter than a minute or than twenty times what saving takes."""
    risk = job.option.facts.get("risk")
    known = risk if isinstance(risk, dict) else {}
    interval = min(float(known.get("interval_s") or SAVE_S), MOST_SAVE_S, MOST_SAVE_SHARE * run_s(job) or MOST_SAVE_S)
    dear = float(known.get("save_s") or 0.0) / MOST_SAVE_SHARE
    if job.is_spot and run_s(job):  # whatever saving takes, one checkpoint lies there before the end
        dear = min(dear, run_s(job) / 2)
    return math.floor(10.0 * max(LEAST_SAVE_S, interval, dear)) / 10.0


def run_s(job: Job) -> float:
    """Seconds of the run, without its start."""
    return float(job.option.facts.get("run_s") or 0.0)


def save_every_steps(job: Job) -> int:
    """The same in optimizer steps."""
    step = job.option.estimate.get("step_s")
    every = save_every_s(job) / step.mid if step and step.mid > 0 else 500.0
    return max(1, min(round(every), steps(job) or 10**9))


def recomputes(job: Job) -> bool:
    """Whether activations are computed again in the backward pass."""
    return job.option.layout.recompute != "none"


WHOLE_LAYERS = ("axolotl", "llama-factory", "ms-swift", "colossalai")
"""Programs that recompute whole layers or nothing."""
BY_FSDP1 = ("trl", "accelerate")
"""Programs that shard each adapter by itself within its layer: what is gathered for them is not
the same twice, which parts of a layer cannot be recomputed beside."""


def recomputes_whole(job: Job, program: str) -> bool:
    """Whether a program recomputes whole layers where the plan counts parts of them."""
    whole = program in WHOLE_LAYERS or (program in BY_FSDP1 and job.option.layout.sharding in ("zero-3", "hybrid"))
    return job.option.layout.recompute == "selective" and whole


def recomputes_more(job: Job, program: str) -> str:
    """A line of comment where a program recomputes more than the plan counts."""
    if not recomputes_whole(job, program):
        return ""
    return "# Recomputes whole layers, not the parts that the plan counts: less memory, a longer run. Plan with --recompute full for its time.\n"


def splits_model(job: Job) -> bool:
    """Whether the layout splits the model's layers or their stack among accelerators."""
    layout = job.option.layout
    return layout.tensor * layout.pipeline * layout.context * layout.expert > 1


def training_problem(
    job: Job,
    *,
    methods: tuple[str, ...],
    kinds: tuple[str, ...] = ("decoder",),
    objectives: tuple[str, ...] = ("sft",),
    moves_activations: bool = False,
) -> Message | str:
    """What Trainer-like programs cannot do: other tasks, models, methods, and models split among
    accelerators. `moves_activations`: the program keeps the inputs of layers in host memory where
    the plan does."""
    layout = job.option.layout
    if model_kind(job) not in kinds:
        return Message("export.trains_kinds", why=_listed(kinds), problem=_kind(job))
    if splits_model(job):
        return Message("export.splits_megatron")
    if objective(job) not in objectives:
        known = (*methods, *(name for name in objectives if name != "sft"))
        return Message("export.method", method=layout.method, known=", ".join(known))
    if trained(job) not in methods:
        return Message("export.method", method=trained(job), known=", ".join(methods))
    if layout.moves_activations and not moves_activations:
        return ACTIVATIONS_ELSEWHERE
    return optimizer_problem(job)


ACTIVATIONS_ELSEWHERE = Message("export.activations_elsewhere")


def sample_problem(job: Job, *, methods: tuple[str, ...]) -> Message | str:
    """What the scripts for models of samples (speech, segmentation) cannot do: other tasks, methods
    and optimizers, split models, data they cannot reach."""
    if splits_model(job):
        return Message("export.splits_script")
    if job.option.layout.method not in methods:
        return Message("export.method", method=job.option.layout.method, known=", ".join(methods))
    return optimizer_problem(job) or data_problem(job)


def _listed(kinds: tuple[str, ...]) -> Message:
    first = Message(f"export.kind_{kinds[0].replace('-', '_')}")
    return Message("export.two_kinds", first=first, other=_listed(kinds[1:])) if kinds[1:] else first


def _kind(job: Job) -> Message:
    return Message(f"export.one_of_{model_kind(job).replace('-', '_')}")


def torchrun(job: Job, script: tuple[str, ...]) -> tuple[str, ...]:
    """One launcher on each node; on several they meet at the first."""
    many = ("--nnodes", "{num_nodes}", "--node_rank", "{node_rank}", "--master_addr", "{head_address}", "--master_port", str(PORT))
    where = many if job.num_nodes > 1 else ("--standalone",)
    return ("torchrun", *where, "--nproc_per_node", str(max(1, job.gpus_per_node)), *script)


def scripts(first: str, *beside: str) -> Files:
    """A program of rightfit.exports.scripts as train.py, and the modules that it imports,
    under their own names."""
    folder = resources.files("rightfit.exports") / "scripts"
    texts = {name: folder.joinpath(name).read_text(encoding="utf-8") for name in (first, *beside)}
    return {"train.py": texts.pop(first), **texts}


def data_problem(job: Job) -> Message | str:
    """Why the scripts cannot read the data from where they lie ("" if they can)."""
    scheme, mark, _ = job.settings.data_path.partition("://")
    known = ", ".join(f"{name}://" for name in STORES)
    return Message("export.data_stores", known=known, scheme=scheme) if mark and scheme not in STORES else ""


def data_packages(job: Job) -> tuple[str, ...]:
    """What reads the bucket that the data lie in; nothing for a folder or the hub."""
    scheme, mark, _ = job.settings.data_path.partition("://")
    return (STORES[scheme],) if mark and scheme in STORES else ()


USUAL = ("transformers==4.57.1", "trl==0.24.0", "peft==0.17.1", "accelerate==1.11.0", "datasets==4.3.0")
LATER = ("transformers==5.24.0", "trl==1.16.0", "peft==0.21.2", "accelerate==1.15.0", "datasets==5.2.0")
"""Packages that go together: the ones that know every class up to 4.57, and those for classes
that came later. The first stay in use because they keep experts as layers, which 4-bit bases
are packed by."""


def version_of(packages: tuple[str, ...], name: str) -> str:
    """The version of a package among pins."""
    return next(word.partition("==")[2] for word in packages if word.startswith(f"{name}=="))


def later_class(job: Job) -> str:
    """The first Transformers that has the model's class, where the usual ones have it
    not; "" elsewhere."""
    known = model_class(*class_names(job))
    least = known.transformers if known else ""
    return least if numbers(least) > numbers(version_of(USUAL, "transformers")) else ""


def hub_packages(job: Job, *names: str) -> tuple[str, ...]:
    """The pins of these packages that know the model's class."""
    pins = LATER if later_class(job) else USUAL
    return tuple(f"{name}=={version_of(pins, name)}" for name in names)


def class_problem(job: Job, program: str, last: str = version_of(LATER, "transformers")) -> Message | str:
    """Why a program that stands on Transformers up to `last` cannot load the model ("" if it can,
    or the class is not known)."""
    known = model_class(*class_names(job))
    if known is None or not known.architecture:
        return ""
    if not known.transformers:
        return Message("export.class_beside_weights", architecture=known.architecture, model=job.model)
    if numbers(known.transformers) > numbers(last):
        told = {"architecture": known.architecture, "least": known.transformers, "program": program, "last": last}
        return Message("export.class_later", **told)
    if later_class(job) and trained(job) == "qlora" and has_experts(job) and program != "axolotl":
        return Message("export.experts_by_axolotl", architecture=known.architecture)
    return ""


def has_experts(job: Job) -> bool:
    """Whether the model is one of experts."""
    known = architecture(job)
    return known is not None and known.num_experts > 1


def training_stack(
    job: Job,
    name: str,
    *,
    packages: tuple[str, ...],
    command: tuple[str, ...],
    files: Files,
    environment: dict[str, str] | None = None,
    span: Span = RECENT,
) -> ExportStack:
    """A stack on the PyTorch build that suits the plan's accelerator, among the releases that
    its packages go with."""
    build = torch_build(job, span=span)
    packages = (*packages, *(data_packages(job) if "run_core.py" in files else ()))
    return ExportStack(
        name=name,
        image=build.image,
        setup=(shell(pip_words(build, packages)),),
        command=command,
        files={**files, "requirements.txt": requirements(build, packages)},
        environment={**(ALLOCATOR if job.gpus_per_node else {}), **(environment or {})},
        secrets=("HF_TOKEN",),
    )


FOLDER = "RIGHTFIT_CHECKPOINTS"
"""The variable that names the folder in which stands what a container finds at /checkpoints, where
a program runs in none: of a cluster that all nodes see, or of a machine of the user's own."""
WITHOUT_MOUNT = {"/checkpoints": f"${FOLDER}"}
BESIDE = f'{FOLDER}="${{{FOLDER}:-$(cd .. && pwd)}}"\nexport {FOLDER}\n'
"""Shell lines that take the folder above that of the script where none is named."""
MOVED = (
    'find . -maxdepth 1 -type f \\( -name "*.json" -o -name "*.y*ml" -o -name "*.sh" -o -name "*.toml" \\) '
    f'-exec sed -i "s|\\([ \\"\'=:]\\)/checkpoints|\\1${FOLDER}|g" {{}} +\n'
)
"""A shell line that names that folder in the files of the folder in which it runs."""


def launch_script(job: Job, stack: ExportStack, *, span: Span = RECENT, ground: tuple[str, str] | None = None) -> str:
    """train.sh: the stack's command, with rank and first node from the environment where there are
    several nodes. `ground`: platform and driver of a stack that brings a PyTorch of its own."""
    words = launched(stack.command, node_rank="{node_rank}", num_nodes=str(job.num_nodes), head_address="{head_address}")
    variables = {"{node_rank}": "${NODE_RANK:-0}", "{head_address}": "${HEAD_ADDRESS:?address of the first node}", **WITHOUT_MOUNT}
    many = " Set NODE_RANK (0 on the first) and HEAD_ADDRESS on each node." if job.num_nodes > 1 else ""
    platform, least = ground or ((build := torch_build(job, span=span)).platform, build.driver)
    driver = f" Driver {least} or later." if least else ""
    settings = "".join(f"export {shell([f'{key}={value}'], WITHOUT_MOUNT)}\n" for key, value in stack.environment.items())
    return (
        "#!/bin/sh\n"
        f"# {comment(job.model)}, plan {job.plan_id}.{many}\n{recomputes_more(job, stack.name)}"
        f"# Before: pip install -r requirements.txt ({platform}).{driver}\n"
        f"# Data and results: the folders data and {job.name} of ${FOLDER}, or beside this folder.\n"
        f'set -eu\ncd "$(dirname "$0")"\n{BESIDE}work="${FOLDER}/{place_of(job)}.job${{NODE_RANK:-}}"\nmkdir -p "$work"\n'
        f'find . -maxdepth 1 -type f -exec cp {{}} "$work" \\;\ncd "$work"\n{MOVED}'
        f"{settings}exec {shell_lines(words, variables)}\n"
    )


def with_launcher(stack: Callable[[Job], ExportStack], *, span: Span = RECENT) -> Callable[[Job], Files]:
    """What a target writes: train.sh and the files of its stack, in whose module it stands."""

    @functools.wraps(stack, assigned=("__module__",), updated=())
    def write(job: Job) -> Files:
        found = stack(job)
        return {"train.sh": launch_script(job, found, span=span), **found.files}

    return write


def common_settings(job: Job, *, columns: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
    """What a train.json holds whatever the script: the plan's figures. `columns`: sets of columns,
    one of which the data must have."""
    layout, pairs = job.option.layout, job.settings.columns
    return {
        "plan": job.plan_id,
        "model": hub_id(job),
        "revision": job.settings.revision or "main",
        "from_scratch": job.task == "train",
        "method": trained(job),
        "data": job.settings.data_path,
        "data_columns": [list(names) for names in columns],
        **({"columns": dict(pairs)} if pairs and not isinstance(pairs, str) else {}),
        "held_out": HELD_OUT_SHARE,
        "output": "/checkpoints/" + job.name,
        "seq_len": job.seq_len or 2048,
        "micro_batch": layout.micro_batch,
        "grad_accum": layout.grad_accum,
        "steps": told_steps(job),
        "epochs": epochs(job),
        "precision": layout.precision,
        "gradient_checkpointing": recomputes(job),
        "recompute": layout.recompute,
        "optimizer": optimizer(job),
        "learning_rate": learning_rate(job),
        "warmup_share": WARMUP_SHARE,
        "lora_rank": lora_rank(job),
        "lora_targets": lora_targets(job),
        "sharding": layout.sharding,
        "workers": workers(job),
        "save_every_s": save_every_s(job),
    }


# ---- Programs that are no package: one script, or the archive of one commit, fetched and checked
# on the server by scripts/run_pinned.py.

TIMM_COMMIT = "aa4b5850c1543fa488abf260f18390eda46cf85d"
DIFFUSERS_COMMIT = "58eb52c0803ea9af3abec60841c2a093bdf1f951"
MEGATRON_COMMIT = "d98e8a64ddf34856e74b24714e3bedb2f5a39553"
RAW = "https://raw.githubusercontent.com"

SHA256 = {
    "train.py": "f0bb70b9e1c8c576eb1f7beba9cb46953d01ec1308d68c59ec055a6266f76388",
    "examples/text_to_image/train_text_to_image.py": "4c5f10d3986bc41c96d595215600a98a8c7b24f384e7f276e57d5df9c7e62a8c",
    "examples/text_to_image/train_text_to_image_lora.py": "6634df6b80bc428a4ed8229a3a7023dc8c7439dc2ed8e633dae2b12560a3958d",
    "examples/text_to_image/train_text_to_image_sdxl.py": "53ec3cd6cd34cd7500006422fe277626921b1b77967ddda7f1e4bc4215357fcd",
    "examples/text_to_image/train_text_to_image_lora_sdxl.py": "077e947b54a02c47fdf304fb547990bed6d31398884c2519a221d987bd0585f1",
    "examples/dreambooth/train_dreambooth_flux.py": "97acda11c6fe799ad85cb7cdbfbf5d1588f5632d068ae3309e58167b09ff6dc2",
    "examples/dreambooth/train_dreambooth_lora_flux.py": "1e7862bbfb16f2d5fa6f3424a93c2d8383ba4b5f1509c6265777e1eb84d070ef",
    "examples/dreambooth/train_dreambooth_sd3.py": "54101e338c6992f36dcb6ef0e9514802e543e590ced467c9977ee7246463ccc9",
    "examples/dreambooth/train_dreambooth_lora_sd3.py": "74f4cfd22527673c10f4e7a7b2a2b117ef554a0190bfa5876210f7d365e393bb",
}
"""Of the files at the commits above."""


def pinned_file(repository: str, commit: str, path: str, **further: tuple[str, str]) -> Files:
    """run_pinned.py and what it must know of one script (`resume`, `count`: see there)."""
    facts: dict[str, object] = {"url": f"{RAW}/{repository}/{commit}/{path}", "sha256": SHA256[path]}
    return _files({**facts, **{name: list(pair) for name, pair in further.items()}})


def pinned_archive(repository: str, commit: str, script: str) -> Files:
    """run_pinned.py and what it must know of a script that needs the rest of its repository."""
    name = repository.rpartition("/")[2]
    return _files({"url": f"https://github.com/{repository}/archive/{commit}.tar.gz", "script": f"{name}-{commit}/{script}"})


def _files(facts: dict[str, object]) -> Files:
    text = resources.files("rightfit.exports").joinpath("scripts/run_pinned.py").read_text(encoding="utf-8")
    return {"run_pinned.py": text, "pinned.json": to_json(facts)}
