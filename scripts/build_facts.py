#!/usr/bin/env python
"""Turn the collected fact tables into the compact data files of `rightfit.facts`.

    python scripts/build_facts.py SOURCE_FOLDER [--out FOLDER] [--add]

Reads accelerators.csv, models_{transformer,vision,diffusion,other}.csv and datasets.csv from
SOURCE_FOLDER and writes one CSV per record type, whose columns are the fields of the record and
whose numbers are base units (bytes, bytes/s, FLOP/s, parameters). Every row is kept; a row without
a source stops the build. The same input gives the same bytes.

Hand-kept files (data/*_aliases.csv, data/parameter_exceptions.csv, data/config_keys.toml
...) are not touched.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from rightfit.facts import records

Row = Mapping[str, str]
Rule = str | tuple[str, float] | Callable[[Row], object]

CORRECTIONS = ROOT / "src" / "rightfit" / "facts" / "data" / "corrections.csv"
MORE_ALIASES = ROOT / "src" / "rightfit" / "facts" / "data" / "model_aliases.csv"
GIB = 2.0**30
MIB = 2.0**20
BYTE_UNITS = {"GB": 1e9, "GiB": GIB}
LICENCE_SPELLING = {"apache-2.0": "Apache-2.0", "mit": "MIT"}


def number(text: str, factor: float = 1.0) -> str:
    """Shortest exact text of `text` x `factor`; empty stays empty."""
    if not text:
        return ""
    return f"{float(text) * factor:.15g}"


def first_integer(text: str) -> str:
    """Leading pixels of an image size such as '800x1333', '800 (min side)' or '(14, 14)': the
    shorter side as written first."""
    match = re.match(r"\(?(\d+)", text)
    return match.group(1) if match else ""


def size_in_bytes(text: str) -> str:
    """'421 GiB', '15.0 GB (checkpoint)' or '7484928 (fp32)' in bytes."""
    match = re.match(r"([\d.]+)(?: (GB|GiB))?", text)
    return number(match.group(1), BYTE_UNITS.get(match.group(2) or "", 1.0)) if match else ""


def count_moe_layers(row: Row) -> int:
    """Layers that hold experts.

    Hybrid stacks (Nemotron-3) have attention, state-space and MoE layers in turn, so the MoE layers
    are what the other two leave. Otherwise the first `first_dense_layers` are dense and then every
    `moe_layer_freq`-th layer has experts.
    """
    if not row["n_experts"]:
        return 0
    layers = int(row["n_layers"])
    mixers = sum(int(row[key] or 0) for key in ("n_full_attn_layers", "n_sliding_layers", "n_linear_layers"))
    if 0 < mixers < layers:
        return layers - mixers
    dense, every = int(row["first_dense_layers"] or 0), int(row["moe_layer_freq"] or 1)
    return (layers - dense) // every


def has_both_tables(row: Row) -> bool:
    """Whether a row counts the head with the embedding: twice the vocabulary's table."""
    table = int(row["vocab_size"] or 0) * int(row["hidden_size"] or 0)
    return not row["tied_embeddings"] and bool(table) and int(row["params_embedding"] or 0) >= 1.9 * table


def ties_embeddings(row: Row) -> str:
    """Whether the head shares the input embedding. Blank rows have no head of their own (encoders)
    or share it (BART, Whisper, CLIP), unless their embedding is counted with a head."""
    return "0" if has_both_tables(row) else row["tied_embeddings"] or "1"


def embedding_table(row: Row) -> str:
    """Parameters of the input embedding alone."""
    return str(int(row["vocab_size"]) * int(row["hidden_size"])) if has_both_tables(row) else row["params_embedding"]


def count_layers(row: Row) -> str:
    """All layers: both stacks of an encoder-decoder, where the source counts the encoder only."""
    both = int(row["encoder_layers"] or 0) + int(row["decoder_layers"] or 0)
    return str(both or row["n_layers"])


def count_full_attention_layers(row: Row) -> str:
    """Layers whose self-attention sees the whole sequence; both stacks of an encoder-decoder."""
    return count_layers(row) if row["kind"] == "encoder-decoder" else row["n_full_attn_layers"]


def feed_forward_width(row: Row) -> str:
    """One width for all layers: the rounded mean where the source lists one for
    each layer (Gemma 3n)."""
    widths = [int(width) for width in re.findall(r"\d+", row["intermediate_size"])]
    return str(round(sum(widths) / len(widths))) if widths else ""


def flops_by_output(row: Row) -> str:
    """'512x512:803.3; 768x768:2148.1' in GFLOP as the same list in FLOP; one size says no more than
    `forward_flops` and is left out."""
    parts = [part.strip().partition(":") for part in row["gflops_by_output"].split(";") if part.strip()]
    return "; ".join(f"{size}:{number(gflops, 1e9)}" for size, _, gflops in parts) if len(parts) > 1 else ""


def best_dataset_source(row: Row) -> str:
    """The precise place where there is one, and the general source before it when it says more."""
    place = row["source_where"]
    return place if not row["source"] or row["source"].split(" ")[0] in place else f"{row['source']}: {place}"


TRANSFORMER: dict[str, Rule] = {
    "num_layers": count_layers, "num_heads": "n_heads", "num_kv_heads": "n_kv_heads", "num_experts": "n_experts",
    "num_shared_experts": "n_shared_experts", "learned_positions": "learned_pos_embeddings", "attention_out_bias": "attn_out_bias",
    "num_encoder_layers": "encoder_layers", "num_decoder_layers": "decoder_layers", "num_full_attention_layers": count_full_attention_layers,
    "num_sliding_layers": "n_sliding_layers", "num_linear_layers": "n_linear_layers", "num_moe_layers": count_moe_layers,
    "tied_embeddings": ties_embeddings, "params_embedding": embedding_table, "intermediate_size": feed_forward_width,
    "vision_patch": lambda row: first_integer(row["vision_patch"]),
    "vision_image_size": lambda row: first_integer(row["vision_image_size"]), "qk_norm": lambda row: int(bool(row["qk_norm"])), "qk_norm_full": lambda row: int(row["qk_norm"] == "full"),
    "params_published_basis": "published_basis", "params_stored": "hub_safetensors_total",
    "fields_without_source": "fields_without_read_source", "licence": lambda row: LICENCE_SPELLING.get(row["licence"], row["licence"]),
}  # fmt: skip

VISION: dict[str, Rule] = {
    "params_total": ("params_m", 1e6), "macs": ("gmacs", 1e9), "activations": ("activations_m", 1e6),
    "image_size": lambda row: first_integer(row["image_size"]),
    "image_size_note": lambda row: "" if row["image_size"].isdigit() else row["image_size"],
    "other_resolutions": "extra_resolutions", "infer_samples_per_s_rtx3090": "infer_sps_rtx3090_amp",
    "infer_samples_per_s_rtx4090": "infer_sps_rtx4090_amp", "infer_samples_per_s_rtx5090": "infer_sps_rtx5090_amp",
    "infer_samples_per_s_rtxpro6000maxq": "infer_sps_rtxpro6000maxq_amp", "infer_samples_per_s_cpu": "infer_sps_cpu_i9_10940x_fp32",
    "train_samples_per_s_rtx3090": "train_sps_rtx3090_amp",
}  # fmt: skip

DIFFUSION: dict[str, Rule] = {
    "forward_flops": ("gflops_per_forward", 1e9), "vae_decode_flops": ("gflops_vae_decode", 1e9), "other_params": ("other_params", 1.0),
    "denoiser_params_published": "published_denoiser_params", "flops_by_output": flops_by_output,
    "denoiser_tokens": lambda row: first_integer(row["denoiser_tokens"]),
}  # fmt: skip

OTHER: dict[str, Rule] = {
    "embedding_bytes": lambda row: size_in_bytes(row["embedding_bytes"]), "forward_flops": ("gflops_forward", 1e9),
    "embedding_rows": "embedding_rows_total",
}  # fmt: skip

ACCELERATOR: dict[str, Rule] = {
    "memory_bytes": ("memory_gib", GIB), "memory_bandwidth": ("memory_bw_gbps", 1e9), "fp32_flops": ("fp32_tflops", 1e12),
    "tf32_flops": ("tf32_tflops", 1e12), "fp16_flops": ("fp16_dense_tflops", 1e12), "bf16_flops": ("bf16_dense_tflops", 1e12),
    "fp8_flops": ("fp8_dense_tflops", 1e12), "int8_ops": ("int8_dense_tops", 1e12), "int4_ops": ("int4_dense_tops", 1e12),
    "fp4_flops": ("fp4_dense_tflops", 1e12), "fp64_flops": ("fp64_tflops", 1e12), "nvlink_bandwidth": ("nvlink_gbps", 1e9),
    "pcie_generation": "pcie_gen", "num_sms": "sm_count", "l2_bytes": ("l2_mb", MIB), "structured_sparsity": "sparsity",
}  # fmt: skip

DATASET: dict[str, Rule] = {"size_bytes": ("size_gb_on_disk", 1e9), "source": best_dataset_source}

ARCHITECTURES: dict[str, tuple[type, dict[str, Rule]]] = {
    "transformer": (records.TransformerArchitecture, TRANSFORMER),
    "vision": (records.VisionModel, VISION),
    "diffusion": (records.DiffusionModel, DIFFUSION),
    "other": (records.OtherModel, OTHER),
}

# Filled when a record is made, never stored.
NOT_STORED = frozenset({"aliases", "certainty"})


def cell(row: Row, field: str, rule: Rule | None) -> str:
    """One output cell by its rule: a column to copy, a column and a factor, or a
    function of the row."""
    if rule is None:
        return row.get(field, "")
    if isinstance(rule, str):
        return row[rule]
    if isinstance(rule, tuple):
        return number(row[rule[0]], rule[1])
    return str(rule(row))


def read_rows(path: Path) -> list[dict[str, str]]:
    """All rows, cells stripped and on one line."""
    with path.open(encoding="utf-8", newline="") as stream:
        return [{key: " ".join(value.split()) for key, value in row.items()} for row in csv.DictReader(stream)]


def write_rows(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Write a CSV with Unix line ends and minimal quotes."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def convert(rows: Sequence[Row], record: type, rules: Mapping[str, Rule]) -> tuple[list[str], list[list[str]]]:
    """Header and cells in the order of the record's fields; columns that are empty in
    every row are left out."""
    fields = [field.name for field in dataclasses.fields(record) if field.name not in NOT_STORED]
    table = [[cell(row, field, rules.get(field)) for field in fields] for row in rows]
    filled = [index for index in range(len(fields)) if any(line[index] not in ("", "0") for line in table)]
    return [fields[index] for index in filled], [[blank_zero(line[index]) for index in filled] for line in table]


def blank_zero(text: str) -> str:
    """A zero is every numeric field's default: an empty cell says the same in less space."""
    return "" if text == "0" else text


def refuse_without_source(name: str, rows: Sequence[Row]) -> None:
    """Stop when a row does not say where it comes from."""
    missing = [row["name"] for row in rows if not row["source"]]
    if missing:
        raise SystemExit(f"{name}: no source for {', '.join(missing[:5])}")


def refuse_shared_names(index: Sequence[tuple[str, str, str]]) -> None:
    """Stop when a name or alias belongs to two models: resolution would depend on file order."""
    owner: dict[str, str] = {}
    for _, name, aliases in index:
        for text in {name.casefold(), *filter(None, aliases.casefold().split(";"))}:
            if owner.setdefault(text, name) != name:
                raise SystemExit(f"{text!r} names both {owner[text]} and {name}")


def correct(header: Sequence[str], table: Sequence[list[str]]) -> None:
    """Apply data/corrections.csv: cells that the sources have wrong or leave out,
    each with its reason."""
    by_name = {line[0]: line for line in table}
    for row in read_rows(CORRECTIONS):
        if row["name"] in by_name:
            by_name[row["name"]][header.index(row["field"])] = row["value"]


def build_models(source: Path, out: Path) -> None:
    """models_<family>.csv for the four families and the index of names and
    aliases over all of them."""
    index: list[tuple[str, str, str]] = []
    more = {row["name"]: row["aliases"] for row in read_rows(MORE_ALIASES)}
    for family, (record, rules) in ARCHITECTURES.items():
        rows = read_rows(source / f"models_{family}.csv")
        refuse_without_source(family, rows)
        header, table = convert(rows, record, rules)
        correct(header, table)
        write_rows(out / f"models_{family}.csv", header, table)
        index += [(family, row["name"], ";".join(filter(None, (row["aliases"], more.pop(row["name"], ""))))) for row in rows]
    if more:
        raise SystemExit(f"{MORE_ALIASES.name} names unknown models: {', '.join(more)}")
    refuse_shared_names(index)
    write_rows(out / "models_index.csv", ("family", "name", "aliases"), index)


def joined(path: Path, header: Sequence[str], table: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """A table that is there, with the rows of another; a row of the same name takes the place of
    the older one, columns that only one of them has stay empty in the other."""
    with path.open(encoding="utf-8", newline="") as stream:
        before = list(csv.DictReader(stream))
    columns = [*before[0], *(name for name in header if name not in before[0])]
    rows = {row["name"]: row for row in before} | {line[0]: dict(zip(header, line, strict=True)) for line in table}
    return columns, [[row.get(name) or "" for name in columns] for row in rows.values()]


def joined_index(path: Path, added: Sequence[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """The index with new records: what is a name of theirs is no alias of another any more."""
    with path.open(encoding="utf-8", newline="") as stream:
        before = {row["name"]: (row["family"], row["aliases"].split(";")) for row in csv.DictReader(stream)}
    theirs = {text.casefold() for _, name, aliases in added for text in (name, *aliases.split(";")) if text}
    kept = {name: (family, [one for one in aliases if one.casefold() not in theirs]) for name, (family, aliases) in before.items()}
    new = {name: (family, aliases.split(";")) for family, name, aliases in added}
    return [(family, name, ";".join(filter(None, aliases))) for name, (family, aliases) in (kept | new).items()]


def add(source: Path, out: Path) -> None:
    """Models and accelerators of a later collection beside those that are there."""
    index: list[tuple[str, str, str]] = []
    for family, (record, rules) in ARCHITECTURES.items():
        rows = read_rows(source / f"models_{family}.csv")
        refuse_without_source(family, rows)
        columns, lines = joined(out / f"models_{family}.csv", *convert(rows, record, rules))
        correct(columns, lines)
        write_rows(out / f"models_{family}.csv", columns, [[blank_zero(cell) for cell in line] for line in lines])
        index += [(family, row["name"], row["aliases"]) for row in rows]
    whole = joined_index(out / "models_index.csv", index)
    refuse_shared_names(whole)
    write_rows(out / "models_index.csv", ("family", "name", "aliases"), whole)
    if not (source / "accelerators.csv").exists():
        return
    cards = read_rows(source / "accelerators.csv")
    refuse_without_source("accelerators", cards)
    write_rows(out / "accelerators.csv", *joined(out / "accelerators.csv", *convert(cards, records.Accelerator, ACCELERATOR)))


def build_plain(source: Path, out: Path, name: str, record: type, rules: Mapping[str, Rule]) -> None:
    """A table that is loaded whole."""
    rows = read_rows(source / f"{name}.csv")
    refuse_without_source(name, rows)
    write_rows(out / f"{name}.csv", *convert(rows, record, rules))


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="folder with the collected tables")
    parser.add_argument("--out", type=Path, default=ROOT / "src" / "rightfit" / "facts" / "data")
    parser.add_argument("--add", action="store_true", help="join models and accelerators to those that are there")
    arguments = parser.parse_args()
    if arguments.add:
        add(arguments.source, arguments.out)
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    build_models(arguments.source, arguments.out)
    build_plain(arguments.source, arguments.out, "accelerators", records.Accelerator, ACCELERATOR)
    build_plain(arguments.source, arguments.out, "datasets", records.Dataset, DATASET)
    for path in sorted(arguments.out.glob("*.csv")):
        print(f"{path.stat().st_size:>9,} {path.name}")


if __name__ == "__main__":
    main()
