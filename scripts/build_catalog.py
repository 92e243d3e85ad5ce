"""Pack the fact tables of the market into src/rightfit/catalog/data.

    python scripts/build_catalog.py SOURCE_FOLDER

SOURCE_FOLDER holds instances.csv, prices.csv.gz, storage_prices.csv, egress_prices.csv, spot_interruption.csv, discounts.csv, regions.csv,
market_gpu_prices.csv and seed_check.csv. Every row and column is kept, text exactly as it stands; rows are sorted so that like stands by
like. The result is deterministic: the same source folder gives the same bytes.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from rightfit.catalog.pack import encode_table

DATA = Path(__file__).resolve().parent.parent / "src" / "rightfit" / "catalog" / "data"
SOURCES: dict[str, tuple[str, tuple[str, ...]]] = {
    "servers": ("instances.csv", ("provider", "family", "instance_type")),
    "prices": ("prices.csv.gz", ("provider", "instance_type", "purchase", "region")),
    "storage_prices": ("storage_prices.csv", ("provider", "region", "product", "unit")),
    "egress_prices": ("egress_prices.csv", ("provider", "region", "destination")),
    "interruptions": ("spot_interruption.csv", ("provider", "instance_type", "region")),
    "discounts": ("discounts.csv", ("provider", "mechanism", "scope")),
    "regions": ("regions.csv", ("provider", "region")),
    "market_gpu_prices": ("market_gpu_prices.csv", ("provider", "gpu_name", "region")),
    "seed_check": ("seed_check.csv", ("provider",)),
}
# Written by hand, part of the catalog: a change of a rule makes a new store.
RULES = ("rules.toml",)


def read_rows(path: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The column names and rows of a CSV file, gzipped or not."""
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = list(reader)
    return list(reader.fieldnames or ()), rows


def pack(source: Path, *, order: tuple[str, ...]) -> tuple[bytes, int]:
    """One CSV file as packed bytes, and its number of rows."""
    names, rows = read_rows(source)
    rows.sort(key=lambda row: tuple(row[name] for name in order))  # stable: tier rows keep their order
    return encode_table({name: [row[name] for row in rows] for name in names}), len(rows)


def build(source_folder: Path, *, target: Path = DATA) -> dict[str, object]:
    """Write every table and the manifest; returns the manifest."""
    target.mkdir(parents=True, exist_ok=True)
    tables: dict[str, dict[str, object]] = {}
    digest = hashlib.sha256()
    for name, (file_name, order) in SOURCES.items():
        data, num_rows = pack(source_folder / file_name, order=order)
        path = target / f"{name}.pack"
        path.write_bytes(data)
        sha256 = hashlib.sha256(data).hexdigest()
        digest.update(sha256.encode())
        tables[name] = {"rows": num_rows, "bytes": len(data), "sha256": sha256, "from": file_name}
    for rule in RULES:
        digest.update(hashlib.sha256((target / rule).read_bytes()).hexdigest().encode())
    manifest: dict[str, object] = {"fingerprint": digest.hexdigest(), "tables": tables}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    done = build(Path(sys.argv[1]))
    print(json.dumps(done, indent=2))
