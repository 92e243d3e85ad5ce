"""Copy the measured tables into the repository as compressed data, byte for byte reproducible.

    python validation/copy_truth.py FOLDER_WITH_CSV_TABLES

The tables are the published figures that rightfit is scored and calibrated on;
`validation/truth/README.md` explains the columns.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

TRUTH = Path(__file__).resolve().parent / "truth"


def compress(source: Path, target: Path) -> int:
    """Write `source` gzipped without a time stamp, so that the same table gives the same bytes; the
    number of bytes written."""
    data = gzip.compress(source.read_bytes(), compresslevel=9, mtime=0)
    target.write_bytes(data)
    return len(data)


def main(argv: list[str] | None = None) -> int:
    """Copy every CSV table and the README's text on conventions and sources."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder that holds the CSV tables")
    folder = parser.parse_args(argv).folder
    TRUTH.mkdir(exist_ok=True)
    for source in sorted(folder.glob("*.csv")):
        size = compress(source, TRUTH / f"{source.name}.gz")
        print(f"{source.name}: {size:,} bytes")
    for name in ("README.md", "peers_training_scores.md"):
        if (folder / name).is_file():
            (TRUTH / name).write_text((folder / name).read_text(encoding="utf-8"), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
