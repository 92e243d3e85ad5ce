"""The tables of the market: packed into src/rightfit/market/data, unpacked into text, and
amended row by row.

    scripts/build_catalog.py check            judge the amendments: what they name, and the
                                              integrity checks over what they change
    scripts/build_catalog.py unpack FOLDER    write every table as CSV, with the amendments laid
                                              over it (--unamended: as packed)
    scripts/build_catalog.py pack FOLDER      pack such a folder; unpack --unamended and pack again
                                              give the same bytes
    scripts/build_catalog.py fold [TOPIC...]  take the amendments (of some topics) into the packed
                                              tables and remove their files
    scripts/build_catalog.py stamp            after a change of rules.toml: write the fingerprint of
                                              the data anew

A row is added, corrected or retired as text, in
src/rightfit/market/data/amendments/TOPIC/TABLE.csv (docs/concepts/market.md says how); nothing
need be packed for that. A folder to pack holds instances.csv, prices.csv.gz (or prices.csv),
storage_prices.csv, egress_prices.csv, spot_interruption.csv, discounts.csv, regions.csv,
market_gpu_prices.csv and seed_check.csv. Every row and column is kept, text exactly as it stands;
rows are sorted so that like stands by like. The result is deterministic: the same folder gives
the same bytes.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import io
import json
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from rightfit.market import amendments, open_catalog, report, tables
from rightfit.market.packed_tables import PackedColumn, encode_table, load_unamended

DATA = Path(__file__).resolve().parent.parent / "src" / "rightfit" / "market" / "data"
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
    if not path.exists() and path.suffix == ".gz":
        path = path.with_suffix("")
    raw = path.read_bytes()
    text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode("utf-8")
    reader = csv.DictReader(io.StringIO(text, newline=""))
    rows = list(reader)
    return list(reader.fieldnames or ()), rows


def packed(source: Path, *, order: tuple[str, ...]) -> tuple[bytes, int]:
    """One CSV file as packed bytes, and its number of rows."""
    names, rows = read_rows(source)
    rows.sort(key=lambda row: tuple(row[name] for name in order))  # stable: tier rows keep their order
    return encode_table({name: [row[name] for row in rows] for name in names}), len(rows)


def pack(source_folder: Path, *, target: Path = DATA) -> dict[str, object]:
    """Write every table and the manifest; returns the manifest."""
    target.mkdir(parents=True, exist_ok=True)
    entries: dict[str, dict[str, object]] = {}
    for name, (file_name, order) in SOURCES.items():
        data, num_rows = packed(source_folder / file_name, order=order)
        (target / f"{name}.pack").write_bytes(data)
        entries[name] = {"rows": num_rows, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "from": file_name}
    return _write_manifest(entries, target)


def stamp(target: Path = DATA) -> dict[str, object]:
    """Write the fingerprint anew; the tables stay as they are."""
    return _write_manifest(json.loads((target / "manifest.json").read_text(encoding="utf-8"))["tables"], target)


def _write_manifest(entries: Mapping[str, Mapping[str, object]], target: Path) -> dict[str, object]:
    digest = hashlib.sha256()
    for entry in entries.values():
        digest.update(str(entry["sha256"]).encode())
    for rule in RULES:
        digest.update(hashlib.sha256((target / rule).read_bytes()).hexdigest().encode())
    manifest: dict[str, object] = {"fingerprint": digest.hexdigest(), "tables": entries}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def unpack(folder: Path, *, amended: bool = True) -> None:
    """Every table as CSV, under the name under which `pack` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (file_name, _) in SOURCES.items():
        columns = tables.load_packed(name) if amended else load_unamended(name)
        text = _text_of(columns).encode()
        (folder / file_name).write_bytes(gzip.compress(text, mtime=0) if file_name.endswith(".gz") else text)


def _text_of(columns: Mapping[str, PackedColumn]) -> str:
    stream = io.StringIO(newline="")
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*(column.texts() for column in columns.values()), strict=True))
    return stream.getvalue()


def fold(target: Path = DATA, *, topics: Collection[str] = ()) -> dict[str, object]:
    """The amendments of some topics (by default of all) into the packed tables; their files go."""
    with tempfile.TemporaryDirectory() as folder:
        aside = Path(folder) / "aside"
        for topic in sorted((target / "amendments").glob("*")):
            if topics and topic.name not in topics:
                aside.mkdir(exist_ok=True)
                shutil.move(topic, aside / topic.name)
        unpack(Path(folder) / "text")
        manifest = pack(Path(folder) / "text", target=target)
        shutil.rmtree(target / "amendments", ignore_errors=True)
        if aside.exists():
            shutil.move(aside, target / "amendments")
    return manifest


def check() -> list[str]:
    """Everything that is wrong with the amendments, one line each."""
    problems = amendments.problems()
    if problems:
        return problems
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(open_catalog(Path(folder) / "catalog.sqlite")) as catalog:
        return report.amendment_findings(catalog.verify())


def main(words: list[str]) -> int:
    """Run one of the commands; 2 where the words are none."""
    match words:
        case ["check"]:
            problems = check()
            print("\n".join(problems) or "the amendments are sound")
            return 1 if problems else 0
        case ["unpack", folder, *flags] if set(flags) <= {"--unamended"}:
            unpack(Path(folder), amended=not flags)
        case ["pack", folder]:
            print(json.dumps(pack(Path(folder)), indent=2))
        case ["fold", *topics]:
            print(json.dumps(fold(topics=topics), indent=2))
        case ["stamp"]:
            print(json.dumps(stamp(), indent=2))
        case _:
            sys.stderr.write(__doc__ or "")
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
