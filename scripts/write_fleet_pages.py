"""Write what `rightfit fleet` says of docs/examples/fleet.yaml into docs/fleet.md and its Chinese
twin, and draw the calendars beside them.
Usage: python scripts/write_fleet_pages.py [--check]

--check compares money, placements and purchases with the pages and writes nothing.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
os.environ.setdefault("RIGHTFIT_TODAY", (ROOT / "tests/data/day.txt").read_text().strip())  # prices age by the clock
sys.path.insert(0, str(ROOT / "src"))
EXAMPLE = ROOT / "docs/examples/fleet.yaml"
PAGES = {"en": ROOT / "docs/fleet.md", "zh": ROOT / "docs/fleet.zh.md"}
BLOCK = re.compile(r"(<!-- output (\w+) -->\n```text\n).*?(```\n<!-- end -->)", re.DOTALL)


def pages(found: dict[str, Any]) -> dict[Path, str]:
    """Path -> text of each page and chart."""
    from rightfit.cli.output import View, text_of
    from rightfit.explain.fleet_text import calendar_svg, parts

    os.environ["COLUMNS"] = "110"
    written: dict[Path, str] = {}
    for lang, page in PAGES.items():
        view = View(lang=lang)  # type: ignore[arg-type]
        texts = {"short": text_of(parts(found, view.lang), view), "verbose": text_of(parts(found, view.lang, verbose=True), view)}
        written[page] = BLOCK.sub(lambda match, texts=texts: match[1] + texts[match[2]].rstrip() + "\n" + match[3], page.read_text("utf-8"))
        written[ROOT / f"docs/examples/fleet.{lang}.svg"] = calendar_svg(found, view.lang)
    return written


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    import rightfit

    found = rightfit.fleet(EXAMPLE, seconds=60.0, reasons=not options.check).to_dict()
    if options.check:
        check(found)
        return
    for path, text in pages(found).items():
        path.write_text(text, encoding="utf-8")


def check(found: dict[str, Any]) -> None:
    """Money and purchases stand in the pages as they come out; equal placements may be told in
    another order, and a busy machine finds fewer reasons."""
    from rightfit.explain.fleet_text import buy_lines, head_lines

    for lang, page in PAGES.items():
        text = "".join(page.read_text("utf-8").split())
        told = [head_lines(found, lang)[0].split("$")[1].split()[0].rstrip(";；"), *buy_lines(found, lang)]  # type: ignore[arg-type]
        if any("".join(line.split()) not in text for line in told):
            raise SystemExit(f"{page.relative_to(ROOT)} is behind; run python scripts/write_fleet_pages.py")


if __name__ == "__main__":
    main()
