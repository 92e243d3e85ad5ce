"""Run real training steps on the CUDA device of this machine and write them as truth rows.

    # writes truth_rows/train_memory.csv and train_throughput.csv
    python validation/measure/train_steps.py --out truth_rows
    # lists the cases, needs neither torch nor a GPU
    python validation/measure/train_steps.py --dry-run
    python validation/measure/train_steps.py --models Qwen/Qwen2.5-0.5B --methods lora,qlora
        --seq-lens 1024,4096

Models are built from their configuration with random weights, so nothing is downloaded. Needs torch
with CUDA and transformers; LoRA needs peft, 4-bit needs bitsandbytes: cases whose package is
missing are skipped by name. One GPU, one process. A case that runs out of memory becomes an
out-of-memory row. Copy the tables into a folder and score them with
`rightfit validate --truth FOLDER`.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import dataclasses
import datetime
import gc
import importlib.util
import itertools
import platform
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

_COLUMN_NAMES = """
    id metric measured source source_where date usable why_not flags trust model kind moe n_layers hidden heads kv_heads head_dim ffn vocab tied
    max_pos mlp params active n_experts topk moe_ffn n_shared method lora_rank lora_targets framework weights_dtype compute_dtype precision
    optimizer gpu gpu_mem_gib n_gpus strategy dp tp pp cp ep sp vp zero shard_degree offload micro_batch grad_accum global_batch seq_len
    recompute attention extra_flags is_oom mem_kind"""
MEMORY_COLUMNS = tuple(_COLUMN_NAMES.split())
THROUGHPUT_COLUMNS = MEMORY_COLUMNS[:-2]
DEFAULT_MODELS = (
    "Qwen/Qwen2.5-0.5B",
    "meta-llama/Llama-3.2-1B",
    "Qwen/Qwen2.5-1.5B",
    "meta-llama/Llama-3.2-3B",
    "meta-llama/Meta-Llama-3-8B",
)
METHODS = ("full", "lora", "qlora")
GIB = 2.0**30
LORA_TARGETS = ("q", "k", "v", "o")


@dataclasses.dataclass(frozen=True)
class Case:
    """One thing to measure."""

    model: str
    method: str
    micro_batch: int
    seq_len: int
    recompute: bool

    def __str__(self) -> str:
        checkpointing = "full" if self.recompute else "none"
        return f"{self.model} {self.method} micro_batch={self.micro_batch} seq_len={self.seq_len} recompute={checkpointing}"


@dataclasses.dataclass
class Outcome:
    """What came out: bytes by counter, tokens a second; `out_of_memory` instead when
    the case did not fit."""

    allocated_bytes: float = 0.0
    reserved_bytes: float = 0.0
    driver_bytes: float = 0.0
    tokens_per_s: float = 0.0
    out_of_memory: bool = False


def positive_list(text: str) -> list[int]:
    """'1,4' -> [1, 4]; argparse turns the error into one line."""
    try:
        values = [int(part) for part in text.split(",") if part.strip()]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,4") from None
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: numbers must be 1 or more")
    return values


def method_list(text: str) -> list[str]:
    """'lora,full' -> ['lora', 'full']."""
    methods = [part.strip() for part in text.split(",") if part.strip()]
    unknown = sorted(set(methods) - set(METHODS))
    if unknown or not methods:
        raise argparse.ArgumentTypeError(f"unknown method {', '.join(unknown) or text!r}; choose from {', '.join(METHODS)}")
    return methods


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    result.add_argument(
        "--models", type=lambda text: text.split(","), default=list(DEFAULT_MODELS), help="hub ids known to rightfit, comma separated"
    )
    result.add_argument("--methods", type=method_list, default=list(METHODS))
    result.add_argument("--micro-batches", type=positive_list, default=[1, 4])
    result.add_argument("--seq-lens", type=positive_list, default=[512, 2048, 8192])
    result.add_argument("--recompute", choices=("both", "none", "full"), default="both")
    result.add_argument("--steps", type=int, default=8, help="most timed steps after two of warm-up")
    result.add_argument("--seconds", type=float, default=60.0, help="about how long a case is timed; two steps at least")
    result.add_argument("--lora-rank", type=int, default=16)
    add_usual(result, out="truth_rows")
    return result


def add_usual(result: argparse.ArgumentParser, *, out: str) -> None:
    """Options of every script that measures on a card."""
    result.add_argument("--gpu-name", default="", help="name in rightfit's accelerator table; by default what the driver says")
    result.add_argument("--source", default="", help="name of this source in the rows; by default own-<gpu>-<date>")
    result.add_argument("--out", type=Path, default=Path(out))
    result.add_argument("--dry-run", action="store_true", help="list the cases and stop")


def cases(options: argparse.Namespace) -> list[Case]:
    """All combinations asked for."""
    recompute = {"both": (False, True), "none": (False,), "full": (True,)}[options.recompute]
    return [
        Case(*values) for values in itertools.product(options.models, options.methods, options.micro_batches, options.seq_lens, recompute)
    ]


def why_impossible(case: Case) -> str:
    """The package that a case needs and that is missing; empty when nothing is."""
    needed = {"full": (), "lora": ("peft",), "qlora": ("peft", "bitsandbytes")}[case.method]
    missing = [name for name in needed if importlib.util.find_spec(name) is None]
    return f"needs {', '.join(missing)}" if missing else ""


def require_cuda() -> Any:
    """The torch module on a machine with CUDA; otherwise exit 3 with one line."""
    for name in ("torch", "transformers"):
        if importlib.util.find_spec(name) is None:
            stop(f"{name} is not installed: pip install torch transformers (or use --dry-run to list the cases)")
    import torch

    if not torch.cuda.is_available():
        stop("no CUDA device: this script measures on a GPU (use --dry-run to list the cases)")
    return torch


def stop(message: str) -> None:
    """Exit 3: something outside is missing."""
    print(f"{Path(sys.argv[0]).stem}: {message}", file=sys.stderr)
    raise SystemExit(3)


def architecture(name: str) -> Any:
    """The model's dimensions from rightfit's own facts."""
    from rightfit import facts

    return facts.model(name)


def build_config(arch: Any, *, seq_len: int) -> Any:
    """A transformers config of the Llama kind (Qwen2 where query, key and value have biases) with
    the dimensions of `arch`."""
    from transformers import LlamaConfig, Qwen2Config

    kind = Qwen2Config if arch.qkv_bias else LlamaConfig
    return kind(
        vocab_size=arch.vocab_size,
        hidden_size=arch.hidden_size,
        intermediate_size=arch.intermediate_size,
        num_hidden_layers=arch.num_layers,
        num_attention_heads=arch.num_heads,
        num_key_value_heads=arch.num_kv_heads,
        head_dim=arch.head_dim,
        max_position_embeddings=max(arch.max_position, seq_len),
        tie_word_embeddings=arch.tied_embeddings,
        use_cache=False,
    )


def build_model(torch: Any, case: Case, *, rank: int, device: str = "cuda") -> Any:
    """The model of a case on the device, in bf16, with adapters and 4-bit weights where asked."""
    from transformers import AutoModelForCausalLM

    config = build_config(architecture(case.model), seq_len=case.seq_len)
    # Random numbers are drawn on the card, a hundred times faster, except where the weights are
    # packed on their way to it.
    with torch.device("cpu" if case.method == "qlora" else device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
    if case.method == "qlora":
        quantize(torch, model)
    model.to(device)
    if case.method != "full":
        from peft import LoraConfig, get_peft_model

        targets = [f"{letter}_proj" for letter in LORA_TARGETS]
        model = get_peft_model(model, LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, task_type="CAUSAL_LM"))
    if case.recompute:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    model.train()
    return model


def quantize(torch: Any, model: Any) -> None:
    """Replace every linear layer but the head by a 4-bit NF4 one; the weights are packed when the
    model moves to the GPU."""
    import bitsandbytes as bnb

    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, torch.nn.Linear) and name != "lm_head":
                layer = bnb.nn.Linear4bit(
                    child.in_features, child.out_features, bias=child.bias is not None, compute_dtype=torch.bfloat16, quant_type="nf4"
                )
                layer.weight = bnb.nn.Params4bit(child.weight.data, requires_grad=False, quant_type="nf4")
                if child.bias is not None:
                    layer.bias = torch.nn.Parameter(child.bias.data, requires_grad=False)
                setattr(parent, name, layer)


def seconds_each(torch: Any, call: Callable[[], Any], *, times: int) -> float:
    """Mean seconds of so many calls one after the other; the card is waited for before the first
    and after the last."""
    torch.cuda.synchronize()
    start = time.perf_counter()
    for _ in range(times):
        call()
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / times


def one_step(model: Any, optimizer: Any, tokens: Any) -> None:
    """Forward, backward, update."""
    model(input_ids=tokens, labels=tokens).loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


@contextlib.contextmanager
def clean_device(torch: Any) -> Iterator[None]:
    """Start and leave with an empty allocator and fresh counters."""
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    try:
        yield
    finally:
        gc.collect()
        torch.cuda.empty_cache()


def run_case(torch: Any, case: Case, options: argparse.Namespace) -> Outcome:
    """Measure one case: two steps of warm-up, then the timed ones."""
    try:
        with clean_device(torch):
            return timed(torch, case, options)
    except torch.cuda.OutOfMemoryError:
        return Outcome(out_of_memory=True)


def timed(torch: Any, case: Case, options: argparse.Namespace) -> Outcome:
    """Steps of a case with the clock and the counters read; models and tensors
    die with this frame."""
    torch.manual_seed(0)
    model = build_model(torch, case, rank=options.lora_rank)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    tokens = torch.randint(0, model.config.vocab_size, (case.micro_batch, case.seq_len), device="cuda")

    def step() -> None:
        one_step(model, optimizer, tokens)

    step()
    times = max(2, min(options.steps, int(options.seconds / seconds_each(torch, step, times=1))))
    seconds = seconds_each(torch, step, times=times)
    free, total = torch.cuda.mem_get_info()
    return Outcome(
        torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), total - free, case.micro_batch * case.seq_len / seconds
    )


def origin(options: argparse.Namespace, script: str, *, gpu: str, versions: str) -> dict[str, str]:
    """Where and when a row was measured."""
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    where = f"validation/measure/{Path(script).name}; {versions}"
    return {"source": options.source or f"own-{gpu}-{today}", "source_where": where, "date": today}


def row_of(case: Case, options: argparse.Namespace, *, gpu: str, memory_gib: float, versions: str) -> dict[str, Any]:
    """The columns that every row of a case has in common."""
    arch = architecture(case.model)
    adapter = case.method != "full"
    row = dict.fromkeys(MEMORY_COLUMNS, "")
    row.update(dict.fromkeys(("n_gpus", "dp", "tp", "pp", "cp", "ep", "sp", "vp", "shard_degree", "grad_accum", "usable"), "1"))
    row.update(zero="0", moe="0", is_oom="0", trust="A", strategy="single", **origin(options, __file__, gpu=gpu, versions=versions))
    row.update(model=case.model, kind=arch.kind, n_layers=arch.num_layers)
    row.update(
        hidden=arch.hidden_size, heads=arch.num_heads, kv_heads=arch.num_kv_heads, head_dim=arch.head_dim, ffn=arch.intermediate_size
    )
    row.update(
        vocab=arch.vocab_size, tied=int(arch.tied_embeddings), max_pos=arch.max_position, mlp=arch.mlp_kind, params=arch.params_total
    )
    row.update(active=arch.params_active, n_experts=0, topk=0, moe_ffn=0, n_shared=0, method=case.method, framework="HF Transformers")
    row.update(lora_rank=options.lora_rank if adapter else "", lora_targets=",".join(LORA_TARGETS) if adapter else "")
    row.update(
        weights_dtype="nf4" if case.method == "qlora" else "bf16", compute_dtype="bf16", precision="bf16", optimizer="adamw", gpu=gpu
    )
    row.update(gpu_mem_gib=round(memory_gib, 1), micro_batch=case.micro_batch, global_batch=case.micro_batch, seq_len=case.seq_len)
    row.update(
        recompute="full" if case.recompute else "none", attention="sdpa", extra_flags="random weights; peft adapters in their default dtype"
    )
    return row


def memory_rows(row: dict[str, Any], outcome: Outcome) -> list[dict[str, Any]]:
    """One row for each counter, or one out-of-memory row."""
    common = {**row, "metric": "peak_mem_gib_per_gpu"}
    if outcome.out_of_memory:
        return [{**common, "is_oom": "1", "mem_kind": "unknown"}]
    counters = {"allocated": outcome.allocated_bytes, "reserved": outcome.reserved_bytes, "nvidia-smi": outcome.driver_bytes}
    return [{**common, "measured": round(value / GIB, 4), "mem_kind": kind} for kind, value in counters.items()]


def throughput_rows(row: dict[str, Any], outcome: Outcome) -> list[dict[str, Any]]:
    """Tokens a second of a case that ran."""
    if outcome.out_of_memory:
        return []
    return [{**row, "metric": "tokens_per_s_per_gpu", "measured": round(outcome.tokens_per_s, 4)}]


def write_table(path: Path, columns: Sequence[str], rows: list[dict[str, Any]], *, prefix: str) -> None:
    """A table with ids in order."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        writer.writerows({**row, "id": f"{prefix}{number:05d}"} for number, row in enumerate(rows, start=1))


def measure(options: argparse.Namespace, todo: list[Case]) -> None:
    """Run the cases one after the other; the tables are rewritten after each, so that a crash
    loses one case only."""
    torch = require_cuda()
    import transformers

    gpu = options.gpu_name or torch.cuda.get_device_name()
    memory_gib = torch.cuda.get_device_properties(0).total_memory / GIB
    versions = f"torch {torch.__version__}, transformers {transformers.__version__}, python {platform.python_version()}"
    options.out.mkdir(parents=True, exist_ok=True)
    memory: list[dict[str, Any]] = []
    throughput: list[dict[str, Any]] = []
    for case in todo:
        if reason := why_impossible(case):
            print(f"skipped: {case}: {reason}", file=sys.stderr)
            continue
        outcome = run_case(torch, case, options)
        row = row_of(case, options, gpu=gpu, memory_gib=memory_gib, versions=versions)
        memory += memory_rows(row, outcome)
        throughput += throughput_rows(row, outcome)
        write_table(options.out / "train_memory.csv", MEMORY_COLUMNS, memory, prefix="OM")
        write_table(options.out / "train_throughput.csv", THROUGHPUT_COLUMNS, throughput, prefix="OT")
        shown = (
            "out of memory" if outcome.out_of_memory else f"{outcome.allocated_bytes / GIB:.2f} GiB, {outcome.tokens_per_s:,.0f} tokens/s"
        )
        print(f"{case}: {shown}", file=sys.stderr)


def carry_out(options: argparse.Namespace, todo: list[Any], measure: Callable[[argparse.Namespace, list[Any]], None]) -> int:
    """List the cases where that is all that was asked for, else measure them."""
    if options.dry_run:
        for case in todo:
            print(case)
    else:
        measure(options, todo)
    return 0


def main(argv: list[str] | None = None) -> int:
    """Entry point."""
    arguments = parser()
    options = arguments.parse_args(argv)
    if options.steps < 1 or options.lora_rank < 1 or options.seconds <= 0:
        arguments.error("--steps and --lora-rank must be 1 or more, --seconds more than 0")
    return carry_out(options, cases(options), measure)


if __name__ == "__main__":
    raise SystemExit(main())
