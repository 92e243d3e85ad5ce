"""A small package of bundled data (two clouds), so that a refresh with its new store takes a
tenth of a second."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

from rightfit.market import packed_tables, tables
from rightfit.market.packed_tables import encode_table

PROVIDERS = ("verda", "lambda")


def write_tiny_package(target: Path) -> Path:
    """The bundled tables cut down to PROVIDERS, in `target`."""
    source = packed_tables._FOLDER
    shutil.copytree(source, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("amendments"))  # they are in the tables read here
    names = json.loads((source / "manifest.json").read_text())["tables"]
    sums: dict[str, dict[str, object]] = {}
    for name in names:
        texts = {column: values.texts() for column, values in tables.load_packed(name).items()}
        count = len(next(iter(texts.values())))
        providers = texts.get("provider", [""] * count)
        wanted = [row for row in range(count) if providers[row] in PROVIDERS] or list(range(min(3, count)))
        data = encode_table({column: [values[row] for row in wanted] for column, values in texts.items()})
        (target / f"{name}.pack").write_bytes(data)
        sums[name] = {"rows": len(wanted), "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    digest = hashlib.sha256(json.dumps(sums, sort_keys=True).encode()).hexdigest()
    (target / "manifest.json").write_text(json.dumps({"fingerprint": digest, "tables": sums}))
    return target
