"""Run the rivals that are installed on the usable rows of our measured inference table and score
them as we score ourselves.

    python validation/rivals_inference.py                     print the scores of every rival that
                                                              this Python can import
    python validation/rivals_inference.py --write             and put them into
                                                              validation/rivals.csv (the other lines
                                                              stay)
    python validation/rivals_inference.py --answers FILE.json keep the rivals' answers there, and
        take those that it already holds
    python validation/rivals_inference.py --paired            put rightfit's errors beside theirs,
                                                              on the rows that each answers, into
                                                              rivals_paired.csv
    python validation/rivals_inference.py --truth DIR         the same on another folder of measured
                                                              tables

Each rival is called through its own functions with the row's configuration. The name of a row's
model is turned into dimensions by our table of models, because names are spelled in many ways;
nothing else of ours is used to predict. A row that a rival has no input for (another engine, a card
that it has no data of, an open loop) is not counted for it.
"""

from __future__ import annotations

import csv
import dataclasses
import datetime
import functools
import importlib
import importlib.metadata
import json
import logging
import math
import re
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

VALIDATION = Path(__file__).resolve().parent
sys.path.insert(0, str(VALIDATION.parent / "src"))
sys.path.insert(0, str(VALIDATION))

from rightfit.proof import score
from rightfit.proof.cases.serving import architecture
from rightfit.proof.figures import family
from rightfit.proof.tables import (
    cell_text,
    clean_row,
    read_truth,
)
from rivals import options_of, paired_cells, score_cells, show_and_write, whole

Row = Mapping[str, Any]
Answer = dict[str, Any]
#: Parts of the serving table that a rival can be asked for.
FIGURES = ("time per token", "throughput", "first token")
DENSE_MLP = ("swiglu", "geglu")


@dataclasses.dataclass(frozen=True, slots=True)
class Timing:
    """What a rival says of one configuration: seconds to the first token and for each further one;
    of requests that come all at once also the requests a second of its steady state (0 elsewhere),
    whose first token is not theirs."""

    ttft_s: float
    tpot_s: float
    requests_per_s: float = 0.0


def value_of(row: Row, timing: Timing | None) -> Answer:
    """The row's metric from the two times, as the tables define it."""
    if timing is None or not timing.tpot_s > 0:
        return {}
    batch, tokens_in, tokens_out = whole(row, "batch_or_concurrency"), whole(row, "input_tokens"), whole(row, "output_tokens")
    if timing.requests_per_s and cell_text(row.get("metric")) == "ttft_ms":
        return {}
    total_s = timing.ttft_s + timing.tpot_s * (tokens_out - 1)
    rate = timing.requests_per_s or batch / total_s
    values = {
        "ttft_ms": timing.ttft_s * 1e3,
        "tpot_ms": timing.tpot_s * 1e3,
        "decode_tok_per_s_single": 1.0 / timing.tpot_s,
        "output_tok_per_s_total": rate * tokens_out,
        "total_tok_per_s": rate * (tokens_in + tokens_out),
        "req_per_s": rate,
    }
    return {"predicted": values[cell_text(row.get("metric"))]}


@functools.cache
def dimensions(name: str, params_b: float) -> Any:
    """The row's model as a record of our table; None where it is not known by name."""
    record, assumed = architecture(name, params_b)
    return None if "usual shape" in assumed or not hasattr(record, "num_layers") else record


def record_of(row: Row) -> Any:
    """The dimensions of the row's model."""
    return dimensions(cell_text(row.get("model")), max(score.number(row.get("params_b")), 0.0))


def is_stated(row: Row) -> bool:
    """Whether the row states lengths and a number of requests in flight, or of requests that come
    all at once (no other rate, no 'max')."""
    names = ("input_tokens", "output_tokens", "batch_or_concurrency")
    lengths = all(score.number(row.get(name)) >= 1 for name in names)
    return lengths and cell_text(row.get("request_rate")) in ("", "inf")


def is_at_once(row: Row) -> bool:
    """Whether the row's requests come all at once: no rival has such a load, so it is asked for as
    many in flight as fit."""
    return cell_text(row.get("request_rate")) == "inf"


# aiconfigurator -----------------------------------------------------------------------------------

AIC_SYSTEMS = {
    "H100-SXM-80GB": "h100_sxm", "H200-SXM-141GB": "h200_sxm", "B200-SXM-180GB": "b200_sxm", "B300-SXM": "b300_sxm", "GB200": "gb200",
    "A100-80GB": "a100_sxm", "A100-SXM4-80GB": "a100_sxm", "A100": "a100_sxm", "L40S": "l40s",
}  # fmt: skip
AIC_BACKENDS = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm"}
#: Models whose configuration the package holds: pattern of the row's name, the name there, and the
#: names of its FP8 and its 4-bit weights.
AIC_MODELS = (
    (r"deepseek.*(v3|r1)$", "deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V3", "nvidia/DeepSeek-V3.1-NVFP4"),
    (r"qwen3\.5-397b", "Qwen/Qwen3.5-397B-A17B", "Qwen/Qwen3.5-397B-A17B", "nvidia/Qwen3.5-397B-A17B-NVFP4"),
    (r"minimax-m2\.5", "MiniMaxAI/MiniMax-M2.5", "MiniMaxAI/MiniMax-M2.5", "nvidia/MiniMax-M2.5-NVFP4"),
    (r"gpt-oss-120b", "openai/gpt-oss-120b", "openai/gpt-oss-120b", "openai/gpt-oss-120b"),
    (r"kimi-k2\.5", "moonshotai/Kimi-K2.5", "moonshotai/Kimi-K2.5", "nvidia/Kimi-K2.5-NVFP4"),
    (r"glm-5$", "zai-org/GLM-5", "zai-org/GLM-5-FP8", "nvidia/GLM-5-NVFP4"),
)
#: Of those, the ones whose FP8 weights have no configuration of their own: the modes
#: are named instead.
AIC_NAME_FP8 = ("Qwen/Qwen3.5-397B-A17B",)
AIC_BATCHES = (1024, 512, 256, 128, 64, 32)
AIC_WEIGHTS = {"fp16": "bfloat16", "bf16": "bfloat16", "fp8": "fp8", "int8-gptq": "int8_wo", "int8": "int8_wo"}


@functools.cache
def aic_folder() -> Path:
    """Where configurations that the package does not hold are written."""
    return Path(tempfile.mkdtemp(prefix="rivals-"))


def aic_model(row: Row) -> str:
    """The package's name of the row's model, or a folder with a config.json of its dimensions;
    empty where it cannot be described."""
    name, weights = cell_text(row.get("model")).lower(), cell_text(row.get("weights_dtype"))
    for pattern, *names in AIC_MODELS:
        if re.search(pattern, name):
            return names[2 if "fp4" in weights else 1 if weights == "fp8" else 0]
    record = record_of(row)
    if record is None or record.mlp_kind not in DENSE_MLP or record.attention_kind not in ("mha", "gqa"):
        return ""
    if record.kind == "decoder":
        return aic_config(record, "LlamaForCausalLM")
    return aic_config(record, "MixtralForCausalLM") if "mixtral" in record.name.lower() else ""


def aic_config(record: Any, kind: str) -> str:
    """A folder with the model as one of a kind that the package knows, with its own dimensions."""
    folder = aic_folder() / re.sub(r"\W+", "-", record.name)
    folder.mkdir(exist_ok=True)
    values = {
        "architectures": [kind], "model_type": kind.removesuffix("ForCausalLM").lower(), "hidden_size": record.hidden_size,
        "head_dim": record.head_dim, "intermediate_size": record.moe_intermediate_size or record.intermediate_size,
        "num_attention_heads": record.num_heads, "num_key_value_heads": record.num_kv_heads, "num_hidden_layers": record.num_layers,
        "vocab_size": record.vocab_size, "max_position_embeddings": max(record.max_position, 32768), "torch_dtype": "bfloat16",
        "tie_word_embeddings": record.tied_embeddings,
        **({"num_local_experts": record.num_experts, "num_experts_per_tok": record.experts_per_token} if record.num_experts else {}),
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(values))
    return str(folder)


def aic_arguments(row: Row) -> dict[str, Any] | None:
    """The row as arguments of its estimate; None where it cannot be asked."""
    engine, notes = cell_text(row.get("engine")).lower(), cell_text(row.get("notes"))
    backend = next((code for name, code in AIC_BACKENDS.items() if engine.startswith(name)), "")
    system, model = AIC_SYSTEMS.get(cell_text(row.get("device")), ""), aic_model(row) if backend else ""
    if not (backend and system and model and is_stated(row)):
        return None
    split = {name: int(value) for name, value in re.findall(r"(attn_dp|moe_tp|moe_ep)=(\d+)", notes)}
    weights = cell_text(row.get("weights_dtype"))
    local = model.startswith("/")
    if local and weights not in AIC_WEIGHTS and "int4" not in weights:
        return None
    data, is_moe = split.get("attn_dp", 1), not local or "mixtral" in model.lower()
    return {
        "model_path": model, "system_name": system, "backend_name": backend, "mode": "agg" if "closed-loop" in notes or is_at_once(row) else "static",
        "isl": whole(row, "input_tokens"), "osl": whole(row, "output_tokens"), "batch_size": math.ceil(whole(row, "batch_or_concurrency") / data),
        "tp_size": max(whole(row, "n_devices") // (data * whole(row, "pp")), 1), "pp_size": whole(row, "pp"), "attention_dp_size": data,
        **({"moe_tp_size": split.get("moe_tp"), "moe_ep_size": split.get("moe_ep", 1)} if is_moe else {}),
        **aic_modes(model, weights, is_local=local, is_moe=is_moe),
        **({"kvcache_quant_mode": "fp8"} if cell_text(row.get("kv_dtype")) == "fp8" and local else {}),
    }  # fmt: skip


def aic_modes(model: str, weights: str, *, is_local: bool, is_moe: bool) -> dict[str, str]:
    """Names of the weights' format where the configuration does not say it."""
    if model in AIC_NAME_FP8 and weights == "fp8":
        return {"gemm_quant_mode": "fp8_block", "moe_quant_mode": "fp8_block"}
    if not is_local:
        return {}
    mode = AIC_WEIGHTS.get(weights, "int4_wo")
    return {"gemm_quant_mode": mode, **({"moe_quant_mode": mode} if is_moe and mode != "int8_wo" else {})}


def aic_timing(row: Row) -> Timing | None:
    """Its time to the first token and per token, with the newest database that it
    has for the engine."""
    arguments = aic_arguments(row)
    if arguments is None:
        return None
    batches = [arguments["batch_size"]]
    if is_at_once(row):  # as many as fit, by halves of what an engine holds at most
        batches = [batch for batch in AIC_BATCHES if batch < batches[0]] if batches[0] > AIC_BATCHES[-1] else batches
    for batch in batches:
        try:
            found = importlib.import_module("aiconfigurator.cli.api").cli_estimate(**{**arguments, "batch_size": batch})
        except (Exception, SystemExit) as problem:  # it refuses in many ways: no kernels of this kind, does not fit, division by zero
            text = str(problem)[:100].replace("\n", " ")
            if "OOM" in text and batch != batches[-1]:
                continue
            print("refused:", cell_text(row.get("id")), type(problem).__name__, text, file=sys.stderr)
            return None
        return Timing(float(found.ttft) / 1e3, float(found.tpot) / 1e3, float(found.seq_per_second) if is_at_once(row) else 0.0)
    return None


# llm-analysis and GenZ: rooflines of a described model on a described card, whatever the engine ---

LLM_ANALYSIS_GPUS = {
    "A100-80GB": "a100-sxm-80gb", "A100-SXM4-80GB": "a100-sxm-80gb", "A100-PCIe-80GB": "a100-pcie-80gb", "A100-SXM4-40GB": "a100-sxm-40gb",
    "A100-40GB": "a100-sxm-40gb", "H100-SXM-80GB": "h100-sxm-80gb", "H100-PCIe-80GB": "h100-pcie-80gb", "A10G": "a10g-pcie-24gb",
    "RTX A6000": "a6000-pcie-48gb", "MI250": "mi250-128gb", "V100-32GB": "v100-sxm-32gb", "V100-16GB": "v100-sxm-16gb",
}  # fmt: skip
GENZ_SYSTEMS = {
    "A100-80GB": "A100_80GB_GPU", "A100-SXM4-80GB": "A100_80GB_GPU", "A100-SXM4-40GB": "A100_40GB_GPU", "A100-40GB": "A100_40GB_GPU",
    "H100-SXM-80GB": "H100_GPU", "MI300X": "MI300X",
}  # fmt: skip
PLAIN_WEIGHTS = {"fp16": 16, "bf16": 16, "int8": 8, "int8-gptq": 8, "int4-gptq": 4, "int4-awq": 4, "int4": 4}


def plain_record(row: Row, cards: Mapping[str, str]) -> Any:
    """The dimensions of a dense decoder with stated lengths, on known cards that it is cut over
    evenly; None for every other row."""
    layout = whole(row, "tp") * whole(row, "pp") == whole(row, "n_devices") and not is_at_once(row)
    if not (layout and is_stated(row) and cell_text(row.get("device")) in cards and cell_text(row.get("weights_dtype")) in PLAIN_WEIGHTS):
        return None
    record = record_of(row)
    dense = record is not None and record.kind == "decoder" and record.mlp_kind in DENSE_MLP and record.attention_kind in ("mha", "gqa")
    return record if dense else None


def llm_analysis_timing(row: Row, flops: float, memory: float) -> Timing | None:
    """Its prefill and its decode step at these shares of the peaks."""
    config, analysis = (importlib.import_module(f"llm_analysis.{name}") for name in ("config", "analysis"))
    record = plain_record(row, {name: key for name, key in LLM_ANALYSIS_GPUS.items() if key in config.gpu_configs})
    if record is None:
        return None
    model = config.ModelConfig(
        name="row", num_layers=record.num_layers, n_head=record.num_heads, hidden_dim=record.hidden_size, vocab_size=record.vocab_size,
        max_seq_len=max(record.max_position, 32768), num_key_value_heads=record.num_kv_heads, ffn_embed_dim=record.intermediate_size,
        expansion_ratio=record.intermediate_size / record.hidden_size,
    )  # fmt: skip
    bits = PLAIN_WEIGHTS[cell_text(row.get("weights_dtype"))]
    try:
        tool = analysis.LLMAnalysis(
            model,
            config.gpu_configs[LLM_ANALYSIS_GPUS[cell_text(row.get("device"))]],
            dtype_config=config.DtypeConfig(name=f"w{bits}a16e16", weight_bits=bits, activation_bits=16, embedding_bits=16),
            parallelism_config=config.ParallelismConfig(tp_size=whole(row, "tp"), pp_size=whole(row, "pp")),
            flops_efficiency=flops,
            hbm_memory_efficiency=memory,
        )
        lengths = {"seq_len": whole(row, "input_tokens"), "num_tokens_to_generate": whole(row, "output_tokens")}
        found = tool.inference(batch_size_per_gpu=whole(row, "batch_or_concurrency"), **lengths)
    except (AssertionError, ValueError, ZeroDivisionError):
        return None
    return Timing(found["prefill_latency"], found["total_decode_latency"] / whole(row, "output_tokens"))


def genz_timing(row: Row) -> Timing | None:
    """Its prefill and its decode step half way through the output, at efficiency 1 as installed."""
    record = plain_record(row, GENZ_SYSTEMS)
    if record is None:
        return None
    genz = importlib.import_module("GenZ")
    model = genz.ModelConfig(
        model="row", vocab_size=record.vocab_size, max_model_len=131072, hidden_size=record.hidden_size, head_dim=record.head_dim,
        intermediate_size=record.intermediate_size, num_ffi=2, num_decoder_layers=record.num_layers, num_attention_heads=record.num_heads,
        num_key_value_heads=record.num_kv_heads,
    )  # fmt: skip
    bits = {16: "bf16", 8: "int8", 4: "int4"}[PLAIN_WEIGHTS[cell_text(row.get("weights_dtype"))]]
    tensor, pipeline, tokens_in = whole(row, "tp"), whole(row, "pp"), whole(row, "input_tokens")
    common = {
        "model": model, "batch_size": whole(row, "batch_or_concurrency"), "bits": bits, "tensor_parallel": tensor, "pipeline_parallel": pipeline,
        "system_name": GENZ_SYSTEMS[cell_text(row.get("device"))], "parallelism_heirarchy": f"TP{{{tensor}}}_EP{{1}}_PP{{{pipeline}}}",
    }  # fmt: skip
    try:
        first = genz.prefill_moddeling(input_tokens=tokens_in, **common)
        step = genz.decode_moddeling(input_tokens=tokens_in, output_tokens=max(whole(row, "output_tokens") // 2, 1), Bb=1, **common)
    except (AssertionError, ValueError, ZeroDivisionError, KeyError):
        return None
    return Timing(first["Latency"] / 1e3, step["Latency"] / 1e3)


# scores -------------------------------------------------------------------------------------------

#: (name, package, module, what it says of a row)
RIVALS: tuple[tuple[str, str, str, Callable[[Row], Timing | None]], ...] = (
    ("aiconfigurator", "aiconfigurator", "aiconfigurator.cli.api", aic_timing),
    ("llm-analysis at 60 % / 80 %", "llm-analysis", "llm_analysis.analysis", lambda row: llm_analysis_timing(row, 0.6, 0.8)),
    ("llm-analysis as installed", "llm-analysis", "llm_analysis.analysis", lambda row: llm_analysis_timing(row, 1.0, 1.0)),
    ("GenZ", "genz-llm", "GenZ", genz_timing),
)


def usable_rows(folder: Path) -> list[dict[str, str]]:
    """The rows of the serving family that count on the accuracy page; of another folder those that
    its own table calls usable."""
    if folder != VALIDATION / "truth":
        with (folder / "inference.csv").open(encoding="utf-8", newline="") as stream:
            rows = [row for row in csv.DictReader(stream) if row.get("usable", "1") == "1"]
        return [clean_row(row)[0] for row in rows if any(part.holds(row) for part in family("serving").parts if part.name in FIGURES)]
    truth = family("serving").rows(read_truth(folder))
    return [clean_row(row)[0] for row, reason in zip(truth.rows, truth.excluded, strict=True) if not reason]


def timings(
    name: str, ask: Callable[[Row], Timing | None], rows: Sequence[Row], kept: dict[str, list[float] | None], keep: Callable[[], None]
) -> list[Timing | None]:
    """A rival's answers row by row; rows of one configuration are asked once, and not again where
    `kept` has them. `keep` stores them."""
    ignored = ("id", "metric", "measured", "source_where", "percentile", "date")
    out: list[Timing | None] = []
    for number, row in enumerate(rows):
        key = f"{name}|" + "|".join(f"{cell}={text}" for cell, text in sorted(row.items()) if cell not in ignored)
        if key not in kept:
            found = ask(row)
            kept[key] = [found.ttft_s, found.tpot_s, found.requests_per_s] if found else None
            if number % 20 == 0:
                print(f"{name}: {number} of {len(rows)}", file=sys.stderr, flush=True)
                keep()
        pair = kept[key]
        out.append(Timing(*pair) if pair else None)
    return out


def _keep(kept: Mapping[str, Any], answers: Path | None) -> None:
    """Store the answers; refusals are asked again another time."""
    if answers:
        answers.write_text(json.dumps({key: value for key, value in kept.items() if value}, indent=0))


def scores(today: str, answers: Path | None, folder: Path, *, paired: bool = False) -> list[dict[str, str]]:
    """One line for each figure and rival that can be imported here."""
    rows, lines = usable_rows(folder), []
    kept: dict[str, Any] = json.loads(answers.read_text()) if answers and answers.is_file() else {}
    for name, package, module, ask in RIVALS:
        try:
            importlib.import_module(module)
            version = importlib.metadata.version(package)
        except ImportError as problem:
            print(f"{name}: not run, {problem}", file=sys.stderr)
            continue
        logging.disable(logging.CRITICAL)
        found = timings(name, ask, rows, kept, lambda: _keep(kept, answers))
        _keep(kept, answers)
        for part in family("serving").parts:
            index = [i for i, row in enumerate(rows) if part.name in FIGURES and part.holds(row)]
            theirs = [value_of(rows[i], found[i]) for i in index]
            said = {"tool": name, "version": version, "date": today}
            if paired and any(theirs):
                said["rows_of"] = "own" if folder == VALIDATION / "truth" else folder.name
                lines.append({**said, "figure": f"serving, {part.name}", **paired_cells("", [rows[i] for i in index], theirs)})
            elif any(theirs):
                lines.append({**said, "figure": f"serving, {part.name}", **score_cells("", [rows[i] for i in index], theirs)})
    return lines


def main(argv: Sequence[str] | None = None) -> int:
    """Score, print, write."""
    parser = options_of("Score installed rivals on our measured inference rows.")
    parser.add_argument("--answers", type=Path, help="keep the rivals' answers in this file")
    arguments = parser.parse_args(argv)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    show_and_write(scores(today, arguments.answers, arguments.truth, paired=arguments.paired), arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
