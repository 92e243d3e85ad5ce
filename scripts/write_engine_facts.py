"""Write what engines know to src/rightfit/facts/data: engine_support.csv, engine_models.csv and
engine_releases.csv.

Usage: python scripts/write_engine_facts.py FOLDER DATE

FOLDER holds what was read from the wheels of vLLM, SGLang and transformers (engine_support.csv),
from vLLM's recipes (engine_hub_vllm.csv) and from the metadata of released packages
(stack_pins.csv); DATE is the day on which they were read. The image of a release follows from its
version (`vllm/vllm-openai:vVERSION`, `lmsysorg/sglang:vVERSION`); those of ROCm stand in
ROCM_IMAGES, each with the page that names it.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

OUT = Path(__file__).parent.parent / "src/rightfit/facts/data"
Row = dict[str, str]
CLASSES = "vllm 0.8.5-0.33.0, sglang 0.5.4-0.5.23, transformers 4.55.0-5.24.0: registries within the wheels"
PINS = "METADATA of the wheel"
ENDS = (((0,), (0, 11, 1), "5"), ((0, 19, 1), (0, 24), "5.7"), ((0, 24), (0, 31), "5.18"))
"""First release, the one behind the last, and the Transformers below which they stay where their
metadata leave it open: 5 breaks those before 0.11.1; the others end where the newest of their time
did, or where the next release that states an end does."""
VOLTA = ("0.17.0", "0.19.1")
"""vLLM's wheels of this span, and torch 2.10, hold code for 7.0 (the cubins of 0.19.1 and of torch
2.10.0 were read); those behind it begin at 7.5."""
GONE = {("sglang", "0.5.4"): "flashinfer-python 0.4.1, which it pins, asks for apache-tvm-ffi 0.1.0b15, which the index lacks (2026-11-27)"}
"""Releases that cannot be installed any more -> why; their images still are."""
ROCM_IMAGES = (
    (
        "vllm",
        "0.23.0",
        "rocm/vllm:rocm7.14.0_cdna_ubuntu24.04_py3.14_pytorch_2.11.0_vllm_0.23.0",
        "3.14",
        "rocm.docs.amd.com: vLLM inference and serving",
    ),
    ("vllm", "0.22.1", "vllm/vllm-openai-rocm:v0.22.1", "3.12", "vllm-project/recipes@8959cf64"),
    (
        "sglang",
        "0.5.13",
        "rocm/sgl-dev:v0.5.13.post1-ubuntu24.04-py3.14-rocm7.14",
        "3.14",
        "rocm.docs.amd.com: SGLang inference and serving",
    ),
)
ROCM_CARDS = {"rocm/": "CDNA3|CDNA4", "vllm/": "CDNA2|CDNA3|CDNA4"}
"""Owner of the image -> cards that its pages name (vLLM: MI200s, MI300, MI350; AMD:
MI300A to MI355X)."""


def read(folder: Path, name: str) -> list[Row]:
    """The rows of a table."""
    with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write(name: str, rows: list[Row]) -> None:
    """A table with the columns of its first row."""
    with (OUT / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers."""
    return tuple(int(part) for part in version.lstrip("<=").split(".") if part.isdigit())


def support(folder: Path, date: str) -> list[Row]:
    """Architecture -> first and last release of each engine that has its class, and the
    capabilities beside which it runs."""
    return [
        {
            "architecture": row["architecture"],
            "model_type": row["transformers_model_type_dir"],
            "hub_ids": row["hub_ids"],
            "min_vllm": row["min_vllm"].lstrip("<="),
            "last_vllm": row["last_vllm_seen"],
            "min_sglang": row["min_sglang"].lstrip("<="),
            "min_transformers": row["min_transformers_class"].lstrip("<="),
            "capability": row["compute_capability"],
            "as_of": date,
            "source": CLASSES,
        }
        for row in read(folder, "engine_support")
    ]


def models(folder: Path) -> list[Row]:
    """Repository -> the least vLLM that its recipe asks for (the larger one of its variants), and
    the cards on which it does not run."""
    found: dict[str, Row] = {}
    for row in read(folder, "engine_hub_vllm"):
        if not row["min_vllm"][:1].isdigit():
            continue
        made = {key: row[key] for key in ("hub_id", "min_vllm", "cards_unsupported")} | {
            "as_of": row["date_updated"],
            "source": row["source"],
        }
        known = found.setdefault(row["hub_id"], made)
        if numbers(made["min_vllm"]) > numbers(known["min_vllm"]):
            found[row["hub_id"]] = made
    return [found[name] for name in sorted(found, key=str.casefold)]


def releases(folder: Path, date: str) -> list[Row]:
    """Released engines, the newest first: what they stand on and where they run."""
    rows = [_release(row, date) for row in read(folder, "stack_pins") if row["package"] in ("vllm", "sglang")]
    for engine, version, image, python, source in ROCM_IMAGES:
        known = next((row for row in rows if (row["engine"], row["version"], row["vendor"]) == (engine, version, "NVIDIA")), {})
        same = {name: known.get(name, "") for name in ("torch", "transformers")}
        where = {
            "vendor": "AMD",
            "machine": "x86_64",
            "serves": ROCM_CARDS[image.partition("/")[0] + "/"],
            "python": python,
            "cuda": "",
            "package": "",
            "image": image,
        }
        rows.append({"engine": engine, "version": version, **where, **same, "as_of": date, "source": source})
    order = (
        "engine",
        "version",
        "vendor",
        "machine",
        "serves",
        "python",
        "torch",
        "cuda",
        "transformers",
        "package",
        "image",
        "as_of",
        "source",
    )
    rows.sort(key=lambda row: (row["engine"] != "vllm", [-number for number in numbers(row["version"])], row["vendor"] != "NVIDIA"))
    return [{name: row[name] for name in order} for row in rows]


def _release(row: Row, date: str) -> Row:
    engine, version = row["package"], row["version"]
    torch = row["torch"].lstrip("=")
    is_13 = numbers(torch) >= (2, 11)
    least = (
        "7.0"
        if engine == "vllm" and (numbers(version) < (0, 10, 2) or numbers(VOLTA[0]) <= numbers(version) <= numbers(VOLTA[1]))
        else "7.5"
    )
    extra = "" if engine == "vllm" else "[all]"
    open_ended = next((f"transformers<{last}" for first, behind, last in ENDS if first <= numbers(version) < behind), "")
    beside = f" {open_ended}" if engine == "vllm" and open_ended else ""
    return {
        "engine": engine,
        "version": version,
        "vendor": "NVIDIA",
        # PyTorch's package for aarch64 has CUDA from 2.11 on; before it is one for processors.
        "machine": "x86_64|aarch64" if is_13 else "x86_64",
        "serves": least,
        "python": row["python"],
        "torch": torch,
        "cuda": "13.0" if is_13 else "12.8" if numbers(torch) >= (2, 8) else "12.6",
        "transformers": row["transformers"],
        "package": "" if (engine, version) in GONE else f"{engine}{extra}=={version}{beside}",
        "image": f"vllm/vllm-openai:v{version}" if engine == "vllm" else f"lmsysorg/sglang:v{version}",
        "as_of": date,
        "source": "; ".join(filter(None, (PINS, GONE.get((engine, version), "")))),
    }


if __name__ == "__main__":
    given = Path(sys.argv[1])
    write("engine_support", support(given, sys.argv[2]))
    write("engine_models", models(given))
    write("engine_releases", releases(given, sys.argv[2]))
