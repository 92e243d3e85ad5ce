"""Run the rivals that are installed on the usable rows of our measured training tables and score
them as we score ourselves.

    python validation/rivals.py            print the scores of every rival that this Python can
                                           import
    python validation/rivals.py --write    and put them into validation/rivals.csv (rivals that are
                                           not importable here keep their rows)

Each rival is called through its own functions with the row's configuration and its own table of
GPUs; a row that it has no input for is not counted for it. Nothing of ours is used to predict. What
each answer stands for is said at the function that asks for it.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib
import importlib.metadata
import logging
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

VALIDATION = Path(__file__).resolve().parent
sys.path.insert(0, str(VALIDATION.parent / "src"))

from rightfit.proof import score
from rightfit.proof.left_out import predict_left_out, read_folds
from rightfit.proof.tables import (
    cell_text,
    read_truth,
)

Row = Mapping[str, Any]
Answer = dict[str, Any]
GIB = 2.0**30
PAIRED = (
    "tool", "version", "date", "rows_of", "figure", "rows", "sources", "their_median_ape", "their_p90", "their_by_source", "our_median_ape", "our_p90", "our_by_source",
)  # fmt: skip
COLUMNS = (
    "tool", "version", "date", "figure", "rows", "asked", "median_ape", "signed", "p90", "by_source", "within_20",
    "false_fits", "out_of_memory", "false_refusals", "ran",
)  # fmt: skip
_TIS_PRECISION = {"bf16": "bf16", "fp16": "fp16", "fp8": "bf16", "fp32": "fp32", "tf32": "fp32", "tf32?": "fp32"}
_LLM_ANALYSIS_DTYPES = ("bf16", "fp16")
_RECOMPUTATION = {"none": "NONE", "selective": "SELECTIVE", "full": "FULL"}


def whole(row: Row, name: str, default: int = 1) -> int:
    """A cell as a positive whole number; `default` where there is none."""
    value = score.number(row.get(name))
    return default if math.isnan(value) or value <= 0 else int(value)


def memory_answer(row: Row, needed_gib: float) -> Answer:
    """A prediction of GiB per GPU with its verdict against the row's card."""
    capacity = score.number(row.get("gpu_mem_gib"))
    fits = "" if math.isnan(capacity) else str(int(needed_gib <= capacity))
    return {"predicted": needed_gib, "fits": fits, "fits95": fits}


def model_parallel(row: Row) -> bool:
    """Whether layers are cut over GPUs."""
    return cell_text(row.get("strategy")) == "naive-mp" or any(whole(row, name) > 1 for name in ("tp", "pp", "cp", "ep"))


# Train-in-Silence ---------------------------------------------------------------------------------


def tis_workload(row: Row, tokens: int) -> Any:
    """The row as a workload of `tokens` training tokens."""
    models = importlib.import_module("tis.planner.models")
    expert_names = {"num_experts": "n_experts", "active_experts": "topk"}
    experts = {name: whole(row, cell, 0) for name, cell in expert_names.items()} if whole(row, "n_experts", 0) > 1 else {}
    sizes = {"num_layers": "n_layers", "num_heads": "heads", "num_kv_heads": "kv_heads", "hidden_dim": "hidden", "params": "params"}
    spec = models.ModelSpec(name=cell_text(row.get("model")) or "model", **{k: whole(row, v) for k, v in sizes.items()}, **experts)
    training = models.TrainingSpec(
        method=cell_text(row.get("method")) or "full",
        precision=_TIS_PRECISION[cell_text(row.get("precision"))],
        batch_size=whole(row, "micro_batch"),
        seq_len=whole(row, "seq_len", 2048),
    )
    return models.Workload(model=spec, training=training, data=models.DataSpec(dataset_tokens=tokens))


def tis_memory(row: Row) -> Answer:
    """Required VRAM over the GPUs: the tool compares it with the sum of the GPUs' memory."""
    estimate = importlib.import_module("tis.planner.estimator").ResourceEstimator().estimate(tis_workload(row, 10**6))
    return memory_answer(row, estimate.required_vram_gb / whole(row, "n_gpus"))


def tis_tflops(gpu: str) -> float:
    """The GPU's speed in the tool's own list, by the longest part of the name that it
    knows; NaN without."""
    catalog = importlib.import_module("tis.planner.market.catalog").GPUSpecCatalog()
    words = gpu.split("-")
    names = [" ".join(words[:count]) for count in range(len(words), 0, -1)]
    return next((float(catalog.flops_for(name)) for name in names if catalog.get(name)), math.nan)


def tis_hours(row: Row, tflops: float, tokens: int) -> float:
    """The tool's time for that many tokens on the row's GPUs."""
    models, optimizer = importlib.import_module("tis.planner.models"), importlib.import_module("tis.planner.optimizer")
    estimator = importlib.import_module("tis.planner.estimator").ResourceEstimator()
    workload = tis_workload(row, tokens)
    offer = models.MarketOffer(
        gpu=cell_text(row.get("gpu")), gpu_count=whole(row, "n_gpus"), vram_gb=80.0, price_per_hour=1.0, cpu=8, ram_gb=64.0,
        gpu_flops_tflops=tflops, platform="runpod", region="any",
    )  # fmt: skip
    estimate = estimator.estimate(workload)
    return float(optimizer.OptimizerEngine._estimate_time_hours(estimate, offer, models.Constraints(), workload))


def tis_time(row: Row, *, preprocessing: bool) -> Answer:
    """Tokens/s per GPU from the hours of two runs, so that the fixed times drop out; with or
    without its 50,000 tokens/s of preprocessing."""
    tflops = tis_tflops(cell_text(row.get("gpu")))
    if math.isnan(tflops):
        return {}
    few, many = 10**10, 2 * 10**10
    seconds = 3600.0 * (tis_hours(row, tflops, many) - tis_hours(row, tflops, few)) / (many - few)
    if not preprocessing:
        seconds -= 1.0 / importlib.import_module("tis.planner.optimizer").OptimizerEngine.PREPROCESSING_TPS
    return {"predicted": 1.0 / seconds / whole(row, "n_gpus")}


# DeepSpeed and accelerate -------------------------------------------------------------------------


def deepspeed_memory(row: Row) -> Answer:
    """Model states of ZeRO 2 or 3 without offload, full fine-tuning; the largest layer is the
    embedding or one MLP matrix."""
    stage, params, num_gpus = whole(row, "zero", 0), whole(row, "params"), whole(row, "n_gpus")
    if stage not in (2, 3) or cell_text(row.get("method")) != "full" or model_parallel(row) or cell_text(row.get("offload")) == "cpu":
        return {}
    if stage == 2:
        module = importlib.import_module("deepspeed.runtime.zero.stage_1_and_2")
        return memory_answer(row, module.estimate_zero2_model_states_mem_needs(params, num_gpus, 1, cpu_offload=False)[1] / GIB)
    module = importlib.import_module("deepspeed.runtime.zero.stage3")
    largest = whole(row, "hidden") * max(whole(row, "vocab"), whole(row, "ffn"))
    return memory_answer(row, module.estimate_zero3_model_states_mem_needs(params, largest, num_gpus, 1, cpu_offload=False)[1] / GIB)


def accelerate_memory(row: Row) -> Answer:
    """Its training figure, the largest of the four stages, of full fine-tuning that is not sharded
    (it assumes Adam)."""
    precision = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32"}.get(cell_text(row.get("precision")))
    if precision is None or cell_text(row.get("method")) != "full" or model_parallel(row) or whole(row, "zero", 0):
        return {}
    module = importlib.import_module("accelerate.commands.estimate")
    return memory_answer(row, max(module.estimate_training_usage(4 * whole(row, "params"), precision).values()) / GIB)


# llm-analysis -------------------------------------------------------------------------------------


def llm_analysis_model(row: Row) -> Any:
    """The row's dimensions as its model; of a mixture of experts the experts' width."""
    experts = whole(row, "n_experts", 0)
    ffn = whole(row, "moe_ffn") if experts > 1 else whole(row, "ffn")
    return importlib.import_module("llm_analysis.config").ModelConfig(
        name="row",
        num_layers=whole(row, "n_layers"),
        n_head=whole(row, "heads"),
        hidden_dim=whole(row, "hidden"),
        vocab_size=whole(row, "vocab"),
        max_seq_len=whole(row, "seq_len"),
        num_key_value_heads=whole(row, "kv_heads"),
        ffn_embed_dim=ffn,
        expansion_ratio=ffn / whole(row, "hidden"),
        moe_num_experts=max(experts, 1),
        moe_top_k=whole(row, "topk") if experts > 1 else 1,
    )


def llm_analysis_expresses(row: Row) -> bool:
    """Full training of a decoder in 16 bits, a stated length, a layout of tensor, pipeline and data
    parallelism that fills the GPUs."""
    gpus = importlib.import_module("llm_analysis.config").gpu_configs
    layout = whole(row, "tp") * whole(row, "pp") * whole(row, "dp") == whole(row, "n_gpus") and whole(row, "cp") == 1
    named = cell_text(row.get("gpu")).lower() in gpus and "decoder" in cell_text(row.get("kind"))
    full = cell_text(row.get("method")) == "full" and cell_text(row.get("precision")) in _LLM_ANALYSIS_DTYPES
    known = bool(cell_text(row.get("seq_len"))) and cell_text(row.get("strategy")) != "naive-mp"
    return layout and named and full and known and not cell_text(row.get("offload"))


def llm_analysis_summary(row: Row, efficiency: float) -> Mapping[str, Any] | None:
    """Its analysis of the row; None where it refuses the configuration."""
    if not llm_analysis_expresses(row):
        return None
    config, analysis = importlib.import_module("llm_analysis.config"), importlib.import_module("llm_analysis.analysis")
    layout = {f"{name}_size": whole(row, name) for name in ("tp", "pp", "dp", "ep")}
    layout["sp_size"] = layout["tp_size"] if whole(row, "sp") > 1 else 1
    try:
        tool = analysis.LLMAnalysis(
            llm_analysis_model(row),
            config.gpu_configs[cell_text(row.get("gpu")).lower()],
            parallelism_config=config.ParallelismConfig(**layout),
            flops_efficiency=efficiency,
        )
        summary: Mapping[str, Any] = tool.training(
            batch_size_per_gpu=whole(row, "micro_batch"),
            gradient_accumulation_steps=whole(row, "grad_accum"),
            seq_len=whole(row, "seq_len"),
            activation_recomputation=analysis.ActivationRecomputation[_RECOMPUTATION.get(cell_text(row.get("recompute")), "NONE")],
            ds_zero=analysis.DSZeRO(whole(row, "zero", 0)),
            flash_attn=cell_text(row.get("attention")) in ("flash", "sdpa", ""),
            mlp_gated_linear_units=cell_text(row.get("mlp")) in ("swiglu", "geglu"),
        )
    except (AssertionError, ValueError, ZeroDivisionError):
        return None
    return summary


def llm_analysis_memory(row: Row) -> Answer:
    """Weights, gradients, optimiser and activations of a GPU."""
    summary = llm_analysis_summary(row, 1.0)
    return memory_answer(row, summary["(weight+op_state+grad+act)_memory_per_gpu"] / GIB) if summary else {}


def llm_analysis_time(row: Row, efficiency: float) -> Answer:
    """Tokens/s per GPU of an iteration at a share of the peak."""
    summary = llm_analysis_summary(row, efficiency)
    if not summary:
        return {}
    return {"predicted": summary["global_batch_size"] * whole(row, "seq_len") / summary["latency_per_iter"] / whole(row, "n_gpus")}


# scores -------------------------------------------------------------------------------------------

#: (name, package, module, memory or throughput, what predicts a row)
RIVALS: tuple[tuple[str, str, str, str, Callable[[Row], Answer]], ...] = (
    ("Train-in-Silence", "train-in-silence", "tis", "memory", tis_memory),
    ("llm-analysis", "llm-analysis", "llm_analysis.analysis", "memory", llm_analysis_memory),
    ("DeepSpeed estimators (states only)", "deepspeed", "deepspeed.runtime.zero.stage3", "memory", deepspeed_memory),
    ("accelerate estimate-memory", "accelerate", "accelerate.commands.estimate", "memory", accelerate_memory),
    ("Train-in-Silence, compute part", "train-in-silence", "tis", "throughput", lambda row: tis_time(row, preprocessing=False)),
    ("Train-in-Silence, as printed", "train-in-silence", "tis", "throughput", lambda row: tis_time(row, preprocessing=True)),
    ("llm-analysis at 50 % efficiency", "llm-analysis", "llm_analysis.analysis", "throughput", lambda row: llm_analysis_time(row, 0.5)),
    ("llm-analysis as installed", "llm-analysis", "llm_analysis.analysis", "throughput", lambda row: llm_analysis_time(row, 1.0)),
)


def usable_rows(figure: str, folder: Path) -> list[Row]:
    """The rows of the figure that count on the accuracy page; of another folder those that its own
    table calls usable, and that ran."""
    table = "train_memory" if figure == "memory" else "train_throughput"
    if folder != VALIDATION / "truth":
        with (folder / f"{table}.csv").open(encoding="utf-8", newline="") as stream:
            return [row for row in csv.DictReader(stream) if row["usable"] == "1" and row["measured"]]
    truth = read_truth(folder).select([table])
    return [row for row, reason in zip(truth.rows, truth.excluded, strict=True) if not reason]


def score_cells(figure: str, rows: Sequence[Row], answers: Sequence[Answer]) -> dict[str, str]:
    """The error columns of one rival."""
    group = score.group_score(figure, score.pair(rows, answers))
    errors = {
        "median_ape": group.median_ape,
        "signed": group.signed_median,
        "p90": group.p90_ape,
        "by_source": group.by_source_median_ape,
        "within_20": group.within_20,
    }
    cells = {"rows": str(group.rows), "asked": str(sum(score.number(row.get("measured")) > 0 for row in rows))}
    cells |= {name: f"{value:.4f}" for name, value in errors.items()}
    if figure == "memory":
        fits = score.fits_score(figure, rows, answers)
        cells |= {name: str(getattr(fits, name)) for name in ("false_fits", "out_of_memory", "false_refusals", "ran")}
    return cells


def paired_cells(figure: str, rows: Sequence[Row], theirs: Sequence[Answer]) -> dict[str, str]:
    """Their errors and ours on the rows that they answer: ours as a user's case, without remarks,
    own rows with coefficients that were fitted without the source."""
    at = [i for i, answer in enumerate(theirs) if answer.get("predicted") and score.number(rows[i].get("measured")) > 0]
    asked = [rows[i] for i in at]
    ours = predict_left_out(asked, read_folds(VALIDATION / "folds"))
    cells = {"rows": str(len(at)), "sources": str(len({cell_text(row.get("source")) for row in asked}))}
    for name, answers in (("their", [theirs[i] for i in at]), ("our", ours)):
        found = score_cells(figure, asked, answers)
        cells |= {f"{name}_{key}": found[key] for key in ("median_ape", "p90", "by_source")}
    return cells


def answer_of(predict: Callable[[Row], Answer], row: Row) -> Answer:
    """A rival's answer; none where it refuses the row (a method, a length or a card that
    it has no word for)."""
    try:
        return predict(row)
    except (ValueError, KeyError, ZeroDivisionError) as problem:
        print("refused:", cell_text(row.get("id")), str(problem).splitlines()[0][:80], file=sys.stderr)
        return {}


def scores(today: str, folder: Path, *, paired: bool = False) -> list[dict[str, str]]:
    """One line for each rival that can be imported here."""
    lines = []
    for name, package, module, figure, predict in RIVALS:
        try:
            importlib.import_module(module)
            version = importlib.metadata.version(package)
        except ImportError as problem:
            print(f"{name}: not run, {problem}", file=sys.stderr)
            continue
        logging.disable(logging.CRITICAL)
        rows = usable_rows(figure, folder)
        theirs = [answer_of(predict, row) for row in rows]
        said = {"tool": name, "version": version, "date": today, "figure": figure}
        if not paired:
            lines.append({**said, **score_cells(figure, rows, theirs)})
        elif any(answer.get("predicted") for answer in theirs):
            said["rows_of"] = "own" if folder == VALIDATION / "truth" else folder.name
            lines.append({**said, **paired_cells(figure, rows, theirs)})
    return lines


def merge_lines(lines: Sequence[dict[str, str]], path: Path) -> list[dict[str, str]]:
    """The lines of the file with these in place of their older ones; new ones stand behind
    those of their figure."""
    old = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines())) if path.is_file() else []
    found = {(line["figure"], line["tool"]): line for line in (*old, *lines)}
    figures = list(dict.fromkeys(figure for figure, _ in found))
    return sorted(found.values(), key=lambda line: figures.index(line["figure"]))


def write(lines: Sequence[dict[str, str]], path: Path) -> None:
    """Write the table."""
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def write_paired(lines: Sequence[dict[str, str]]) -> None:
    """Lines of rivals_paired.csv: those of the same tool, rows and figure are replaced."""
    path, keys = VALIDATION / "rivals_paired.csv", ("tool", "rows_of", "figure")
    kept: dict[tuple[str, ...], dict[str, str]] = {}
    if path.is_file():
        with path.open(encoding="utf-8", newline="") as stream:
            kept = {tuple(line[key] for key in keys): line for line in csv.DictReader(stream)}
    kept |= {tuple(line[key] for key in keys): line for line in lines}
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, PAIRED, lineterminator="\n")
        writer.writeheader()
        writer.writerows(kept[key] for key in sorted(kept))


def options_of(about: str) -> argparse.ArgumentParser:
    """The options of a script that scores rivals."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--write", action="store_true", help="put the scores into validation/rivals.csv")
    parser.add_argument(
        "--paired", action="store_true", help="rightfit beside each rival on the rows that it answers, into validation/rivals_paired.csv"
    )
    parser.add_argument("--truth", type=Path, default=VALIDATION / "truth", help="folder of measured tables")
    return parser


def show_and_write(lines: Sequence[dict[str, str]], arguments: argparse.Namespace) -> None:
    """Print the scores; write them where that was asked for."""
    for line in lines:
        print("  ".join(f"{name}={value}" for name, value in line.items()))
    if arguments.paired:
        write_paired(lines)
    elif arguments.write:
        path = VALIDATION / "rivals.csv"
        write(merge_lines(lines, path), path)


def main(argv: Sequence[str] | None = None) -> int:
    """Score, print, write."""
    arguments = options_of("Score installed rivals on our measured training rows.").parse_args(argv)
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    show_and_write(scores(today, arguments.truth, paired=arguments.paired), arguments)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
