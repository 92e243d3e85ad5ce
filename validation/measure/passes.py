"""Time forward passes, training on samples and generation on the CUDA device of this machine and
write them as rows of truth tables.

    # writes rows/inference.csv and rows/vision_train.csv
    python validation/measure/passes.py --out rows
    # lists the cases, needs neither torch nor a GPU
    python validation/measure/passes.py --dry-run
    python validation/measure/passes.py --only pass --seconds 0.5

Plain eager PyTorch: no compiler, no CUDA graphs, weights at random, inputs that lie on the card, so
that neither loaders nor disks are in the figures. Needs torch with CUDA, torchvision and
transformers. One GPU, one process. A case that runs out of memory is said and has no row. The
columns are those of `rightfit predict --columns`; score the tables with
`rightfit validate --truth FOLDER`.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import platform
import sys
from collections.abc import Callable, Iterator
from typing import Any

from train_steps import (
    GIB,
    add_usual,
    architecture,
    build_config,
    carry_out,
    clean_device,
    origin,
    require_cuda,
    seconds_each,
    write_table,
)

_PASS_NAMES = """
    id metric measured source source_where date model params_b weights_dtype kv_dtype compute_dtype engine engine_version device
    device_mem_gib n_devices tp pp input_tokens output_tokens batch_or_concurrency arrival latency_scope percentile counter image_size
    flags notes"""
_SAMPLE_NAMES = """
    id metric measured source source_where date task model framework precision gpu gpu_mem_gib n_gpus batch_per_gpu image_size
    extra_flags counter notes"""
PASS_COLUMNS, SAMPLE_COLUMNS = tuple(_PASS_NAMES.split()), tuple(_SAMPLE_NAMES.split())

#: Names of rightfit -> functions of torchvision.models (or below it), side of the picture, task.
PICTURES = {
    "resnet18": ("resnet18", 224, "classification"),
    "resnet50": ("resnet50", 224, "classification"),
    "efficientnet_b0": ("efficientnet_b0", 224, "classification"),
    "efficientnet_b4": ("efficientnet_b4", 380, "classification"),
    "convnext_base": ("convnext_base", 224, "classification"),
    "vit_base_patch16_224": ("vit_b_16", 224, "classification"),
    "vit_large_patch16_224": ("vit_l_16", 224, "classification"),
    "swin_base_patch4_window7_224": ("swin_b", 224, "classification"),
    "mobilenetv3_large_100": ("mobilenet_v3_large", 224, "classification"),
}
DETECTORS = {
    "faster_rcnn_r50_fpn": ("detection.fasterrcnn_resnet50_fpn", 800, "detection"),
    "mask_rcnn_r50_fpn": ("detection.maskrcnn_resnet50_fpn", 800, "instance_segmentation"),
    "retinanet_r50_fpn": ("detection.retinanet_resnet50_fpn", 800, "detection"),
}
SEGMENTERS = {
    "deeplabv3_r50": ("segmentation.deeplabv3_resnet50", 512, "segmentation"),
    "fcn_r50": ("segmentation.fcn_resnet50", 512, "segmentation"),
}
TRAINED = {**PICTURES, **DETECTORS, **SEGMENTERS}
ENCODERS = {"google-bert/bert-base-uncased": (768, 12, 12, 3072), "google-bert/bert-large-uncased": (1024, 24, 16, 4096)}
WRITERS = ("Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-1.5B", "meta-llama/Meta-Llama-3-8B")
OBJECTS_OF_A_PICTURE = 7


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure: `kind` is pass, train or generate; `size` the side of a picture, else
    the tokens of an input."""

    kind: str
    model: str
    precision: str
    batch: int
    size: int

    def __str__(self) -> str:
        return f"{self.kind} {self.model} {self.precision} batch={self.batch} size={self.size}"


def cases() -> list[Case]:
    """All that is measured."""
    formats = ("fp32", "fp16", "bf16")
    result = [Case("pass", name, f, batch, PICTURES[name][1]) for name, f, batch in itertools.product(PICTURES, formats, (1, 8, 64, 256))]
    result += [Case("pass", name, f, b, tokens) for name, f, b, tokens in itertools.product(ENCODERS, formats, (1, 16, 128), (128, 512))]
    result += [
        Case("train", name, f, batch, PICTURES[name][1]) for name, f, batch in itertools.product(PICTURES, ("fp32", "amp"), (32, 128))
    ]
    for table, batches in ((DETECTORS, (2, 8)), (SEGMENTERS, (4, 16))):
        result += [Case("train", name, f, batch, table[name][1]) for name, f, batch in itertools.product(table, ("fp32", "amp"), batches)]
    result += [Case("generate", name, "bf16", batch, tokens) for name, batch, tokens in itertools.product(WRITERS, (1, 16), (256, 2048))]
    return result


def dtype_of(torch: Any, precision: str) -> Any:
    """What the weights are held in."""
    return {"fp16": torch.float16, "bf16": torch.bfloat16}.get(precision, torch.float32)


def torchvision_model(path: str) -> Any:
    """The module of a function of torchvision.models, nothing downloaded."""
    import torchvision

    function = functools.reduce(getattr, path.split("."), torchvision.models)
    return function(weights=None, **({"weights_backbone": None} if "." in path else {}))


def encoder(name: str) -> Any:
    """BERT by its dimensions."""
    from transformers import BertConfig, BertModel

    width, layers, heads, inner = ENCODERS[name]
    return BertModel(BertConfig(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=inner))


def prepared_pass(torch: Any, case: Case) -> Callable[[], Any]:
    """One forward pass of a case."""
    dtype = dtype_of(torch, case.precision)
    with torch.device("cuda"):
        if case.model in ENCODERS:
            model = encoder(case.model).to(dtype).eval()
            tokens = torch.randint(1000, 20000, (case.batch, case.size))
            return lambda: model(input_ids=tokens)
        model = torchvision_model(PICTURES[case.model][0]).to(dtype).eval()
        pictures = torch.randn(case.batch, 3, case.size, case.size, dtype=dtype)
        return lambda: model(pictures)


def targets_of_detection(torch: Any, case: Case) -> list[dict[str, Any]]:
    """Boxes and masks of every picture."""
    corners = torch.rand(OBJECTS_OF_A_PICTURE, 2) * case.size / 2
    boxes = torch.cat([corners, corners + 16 + torch.rand(OBJECTS_OF_A_PICTURE, 2) * case.size / 3], dim=1)
    labels = torch.randint(1, 90, (OBJECTS_OF_A_PICTURE,))
    masks = torch.zeros(OBJECTS_OF_A_PICTURE, case.size, case.size, dtype=torch.uint8)
    return [{"boxes": boxes, "labels": labels, "masks": masks} for _ in range(case.batch)]


def prepared_loss(torch: Any, case: Case, model: Any) -> Callable[[], Any]:
    """The loss of a batch of a case, of its task."""
    pictures = torch.randn(case.batch, 3, case.size, case.size)
    if case.model in DETECTORS:
        batch, targets = list(pictures), targets_of_detection(torch, case)
        return lambda: sum(model(batch, targets).values())
    if case.model in SEGMENTERS:
        classes = torch.randint(0, 21, (case.batch, case.size, case.size))
        return lambda: torch.nn.functional.cross_entropy(model(pictures)["out"], classes)
    labels = torch.randint(0, 1000, (case.batch,))
    return lambda: torch.nn.functional.cross_entropy(model(pictures), labels)


def prepared_step(torch: Any, case: Case) -> Callable[[], Any]:
    """One training step of a case: forward, backward, SGD with momentum; `amp` is autocast to fp16
    with a gradient scaler."""
    with torch.device("cuda"):
        model = torchvision_model(TRAINED[case.model][0]).train()
        loss_of = prepared_loss(torch, case, model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    scaler = torch.amp.GradScaler("cuda", enabled=case.precision == "amp")

    def step() -> None:
        with torch.autocast("cuda", dtype=torch.float16, enabled=case.precision == "amp"):
            loss = loss_of()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)

    return step


def seconds_of(torch: Any, call: Callable[[], Any], *, least_s: float) -> float:
    """Mean seconds of a call after three of warm-up: as many calls as fill `least_s`, two at least,
    the card waited for once at the end."""
    call()
    torch.cuda.reset_peak_memory_stats()  # a model in 16 bits was made in 32: that is not the memory of its pass
    for _ in range(2):
        call()
    times = min(max(2, int(least_s / seconds_each(torch, call, times=1))), 200)
    return seconds_each(torch, call, times=times)


def generation(torch: Any, case: Case, *, answer: int) -> tuple[float, float]:
    """Seconds to the first token and seconds a token after it of `generate` of transformers, its
    cache as it comes."""
    from transformers import AutoModelForCausalLM, GenerationConfig

    with torch.device("cuda"):
        config = build_config(architecture(case.model), seq_len=case.size + answer)
        config.use_cache = True
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa").eval()
        prompt = torch.randint(1000, 20000, (case.batch, case.size))

    def once(tokens: int) -> float:
        settings = GenerationConfig(max_new_tokens=tokens, min_new_tokens=tokens, do_sample=False, pad_token_id=0, eos_token_id=None)
        mask = torch.ones_like(prompt)
        return seconds_each(torch, lambda: model.generate(prompt, attention_mask=mask, generation_config=settings), times=1)

    once(2)
    torch.cuda.reset_peak_memory_stats()
    first = min(once(1) for _ in range(3))
    return first, (once(answer) - first) / (answer - 1)


Rows = list[dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class Bench:
    """The machine and what every row says of it."""

    torch: Any
    options: argparse.Namespace
    gpu: str
    memory_gib: float
    versions: str

    def common(self, case: Case) -> dict[str, Any]:
        """What a row says of its origin and its model."""
        return {**origin(self.options, __file__, gpu=self.gpu, versions=self.versions), "model": case.model}

    def asked(self, case: Case, engine: str) -> dict[str, Any]:
        """The same of a row of the inference table."""
        row = {**self.common(case), "weights_dtype": case.precision, "engine": engine, "device": self.gpu}
        row |= {"device_mem_gib": round(self.memory_gib), "n_devices": 1, "tp": 1, "pp": 1}
        return row | {"batch_or_concurrency": case.batch, "arrival": "batch"}

    def passed(self, case: Case) -> tuple[str, Rows]:
        """Rows of a forward pass: its latency at batch 1, else its rate; its memory."""
        with self.torch.inference_mode():
            seconds = seconds_of(self.torch, prepared_pass(self.torch, case), least_s=self.options.seconds)
        peak = self.torch.cuda.max_memory_allocated() / GIB
        tokens = case.model in ENCODERS
        row = {**self.asked(case, "PyTorch"), "engine_version": self.torch.__version__}
        row |= {"input_tokens" if tokens else "image_size": case.size}
        if case.batch == 1:
            speed = {"metric": "latency_ms", "measured": 1e3 * seconds, "latency_scope": "batch"}
        else:
            speed = {"metric": "sequences_per_s" if tokens else "images_per_s", "measured": case.batch / seconds}
        return f"{1e3 * seconds:.3f} ms, {peak:.2f} GiB", [
            row | speed,
            row | {"metric": "peak_mem_gib", "measured": peak, "counter": "allocator"},
        ]

    def trained(self, case: Case) -> tuple[str, Rows]:
        """Rows of training on samples: rate and memory."""
        seconds = seconds_of(self.torch, prepared_step(self.torch, case), least_s=self.options.seconds)
        peak = self.torch.cuda.max_memory_allocated() / GIB
        row = {**self.common(case), "task": TRAINED[case.model][2], "framework": "PyTorch torchvision", "precision": case.precision}
        row |= {"gpu": self.gpu, "gpu_mem_gib": round(self.memory_gib), "n_gpus": 1, "batch_per_gpu": case.batch, "image_size": case.size}
        row |= {"extra_flags": "synthetic data"}
        rate = {"metric": "images_per_s_total", "measured": case.batch / seconds}
        memory = {"metric": "peak_mem_gib_per_gpu", "measured": peak, "counter": "allocator"}
        return f"{1e3 * seconds:.2f} ms, {peak:.2f} GiB", [row | rate, row | memory]

    def generated(self, case: Case) -> tuple[str, Rows]:
        """Rows of generation: first token, time per token, memory."""
        answer = self.options.answer
        with self.torch.inference_mode():
            first, each = generation(self.torch, case, answer=answer)
        peak = self.torch.cuda.max_memory_allocated() / GIB
        row = {**self.asked(case, "transformers"), "input_tokens": case.size, "output_tokens": answer}
        figures = {"ttft_ms": 1e3 * first, "tpot_ms": 1e3 * each, "peak_mem_gib": peak}
        counters = {"peak_mem_gib": {"counter": "allocator"}}
        rows = [row | {"metric": metric, "measured": value} | counters.get(metric, {}) for metric, value in figures.items()]
        return f"first {1e3 * first:.1f} ms, each {1e3 * each:.2f} ms, {peak:.2f} GiB", rows

    def rows_of(self, case: Case) -> tuple[str, Rows]:
        """What was measured of a case, in words and as rows; none where it ran out of memory."""
        kinds = {"pass": self.passed, "train": self.trained, "generate": self.generated}
        try:
            with clean_device(self.torch):
                return kinds[case.kind](case)
        except self.torch.cuda.OutOfMemoryError:
            return "out of memory", []


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument("--only", choices=("pass", "train", "generate"), help="one kind of case")
    result.add_argument("--seconds", type=float, default=0.5, help="least time of a measurement")
    result.add_argument("--answer", type=int, default=64, help="tokens that are generated")
    add_usual(result, out="rows")
    return result


def measured(bench: Bench, todo: list[Case]) -> Iterator[tuple[Case, Rows]]:
    """The cases one after the other; one that fails is said and left out, so that
    it costs no other."""
    for case in todo:
        try:
            said, rows = bench.rows_of(case)
        except (RuntimeError, TypeError, ValueError, AttributeError, ImportError) as error:
            said, rows = f"failed: {type(error).__name__}: {error}".splitlines()[0], []
        print(f"{case}: {said}", file=sys.stderr, flush=True)
        yield case, rows


def measure(options: argparse.Namespace, todo: list[Case]) -> None:
    """Run the cases; the tables are rewritten after each, so that a crash loses one case only."""
    torch = require_cuda()
    import torchvision
    import transformers

    versions = f"torch {torch.__version__}, torchvision {torchvision.__version__}, transformers {transformers.__version__}"
    memory_gib = torch.cuda.get_device_properties(0).total_memory / GIB
    gpu = options.gpu_name or torch.cuda.get_device_name()
    bench = Bench(torch, options, gpu, memory_gib, f"{versions}, python {platform.python_version()}")
    options.out.mkdir(parents=True, exist_ok=True)
    passes: Rows = []
    samples: Rows = []
    for case, rows in measured(bench, todo):
        (samples if case.kind == "train" else passes).extend(rows)
        write_table(options.out / "inference.csv", PASS_COLUMNS, passes, prefix="OP")
        write_table(options.out / "vision_train.csv", SAMPLE_COLUMNS, samples, prefix="OS")


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    arguments = parser()
    options = arguments.parse_args(argv)
    if options.seconds <= 0 or options.answer < 2:
        arguments.error("--seconds must be more than 0 and --answer 2 or more")
    return carry_out(options, [case for case in cases() if options.only in (None, case.kind)], measure)


if __name__ == "__main__":
    raise SystemExit(main())
