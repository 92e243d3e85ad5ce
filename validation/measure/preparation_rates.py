"""Turn the measured grid into rates of preparing data: bytes a second and core, peak
memory per byte held.

    python validation/measure/preparation_rates.py validation/measured_classical.csv
        src/rightfit/facts/data/preparation_rates.csv

Rates are those of one thread by CPU time, divided by the speed of the measuring core against a
Skylake core at 3 GHz, so that they carry over to other processors as the time of classical machine
learning does. Lines whose source starts with "memory" or "published" are kept as they are.
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

from rightfit.estimation.classical_rates import UNIT_CLOCK_GHZ
from rightfit.facts.machines import host_processor

COLUMNS = ("operation", "library", "mb_per_core_s", "ram_factor", "max_threads", "spills", "source")
_IMPORTED_MIB = {"pandas": 120.0, "polars": 90.0, "duckdb": 100.0, "pyarrow": 90.0}
_NAMES = {
    "csv-read": "read-csv",
    "csv-to-parquet": "convert",
    "parquet-read": "read-parquet",
    "tokenize bpe": "tokenize",
    "train tokenizer": "train-tokenizer",
    "dedup text exact": "dedup-text",
    "dedup text minhash": "dedup-fuzzy",
    "filter text": "filter-text",
}
_LIBRARIES = {"hashlib": "python", "numpy": "datasketch"}
#: Steps that a pipeline of images chains, by the operation that it makes.
_CHAINS = {
    "decode-images": ("decode",),
    "augment-images": ("decode", "augment"),
    "resize-images": ("decode", "resize", "encode"),
    "encode-images": ("encode",),
}
_THREADS = {"pandas": 1, "python": 0, "pillow": 0, "opencv": 0}


def speed_of(hardware: str) -> float:
    """Speed of the measuring core."""
    found = host_processor(hardware)
    return found.clock_hz / 1e9 / UNIT_CLOCK_GHZ * found.work_per_cycle


def image_rows(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """Chains of image steps: JPEG bytes a second through decode, crop, resize, encode of a
    400 x 500 picture."""
    found = []
    for library in ("pillow", "opencv"):
        small = {
            row["algorithm"].split()[0]: row
            for row in rows
            if row["library"] == library and row["cols"] == "400" and row["algorithm"].endswith("image")
        }
        for operation, steps in _CHAINS.items():
            if not all(step in small for step in steps):
                continue
            seconds = sum(float(small[step]["cpu_s"]) for step in steps)
            rate = float(small["decode"]["bytes_in"]) / seconds / speed_of(small["decode"]["hardware"]) / 1e6
            found.append(_line(operation, library, rate, 0.0, 0, "measured: " + " + ".join(steps) + " of 400 x 500 JPEG, one thread"))
    return found


def _line(operation: str, library: str, rate: float, ram: float, spills: int, source: str) -> dict[str, str]:
    threads = _THREADS.get(library, 0)
    return dict(zip(COLUMNS, (operation, library, f"{rate:.4g}", f"{ram:.3g}", str(threads), str(spills), source), strict=True))


def measured_lines(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    """One line an operation and library from its largest case of one thread."""
    best: dict[tuple[str, str], dict[str, str]] = {}
    for row in rows:
        if (
            row["task"] != "prepare"
            or row["threads"] != "1"
            or row["algorithm"].endswith("image")
            or row["algorithm"] == "tokenize wordpiece"
        ):
            continue
        key = (_NAMES.get(row["algorithm"], row["algorithm"]), _LIBRARIES.get(row["library"], row["library"]))
        if key not in best or float(row["bytes_in"]) > float(best[key]["bytes_in"]):
            best[key] = row
    lines = []
    for (operation, library), row in sorted(best.items()):
        size = float(row["bytes_in"])
        rate = size / float(row["cpu_s"]) / speed_of(row["hardware"]) / 1e6
        ram = max((float(row["peak_mib"]) - _IMPORTED_MIB.get(library, float(row["imported_mib"]))) * 2**20 / size, 0.1)
        spills = int(library in ("duckdb",))
        lines.append(
            _line(operation, library, rate, ram, spills, f"measured: {row['library']} {row['version']}, {size / 1e6:.0f} MB, one thread")
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measured", type=Path)
    parser.add_argument("rates", type=Path)
    arguments = parser.parse_args()
    rows = list(csv.DictReader(arguments.measured.read_text(encoding="utf-8").splitlines()))
    kept = []
    if arguments.rates.exists():
        kept = [
            row
            for row in csv.DictReader(arguments.rates.read_text(encoding="utf-8").splitlines())
            if row["source"].startswith(("memory", "published"))
        ]
    with arguments.rates.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows([*measured_lines(rows), *image_rows(rows), *kept])


if __name__ == "__main__":
    main()
