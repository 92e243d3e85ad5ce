"""Write the table of rivals beside rightfit, each on the rows that it answers, into the two
pages of comparison.

python scripts/write_rivals_paired.py           write
python scripts/write_rivals_paired.py --check   fail where a page is behind
                                                validation/rivals_paired.csv
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "validation" / "rivals_paired.csv"
BEGIN, END = "<!-- paired -->", "<!-- end -->"
HEADS = {
    "comparison.md": ("tool", "figure", "measured rows", "rows it answers", "sources", "its error", "rightfit, same rows"),
    "comparison.zh.md": ("工具", "指标", "实测数据", "它能回答的行", "来源数", "它的误差", "rightfit，同样的行"),
}
ROWS = {"comparison.md": {"own": "first set", "second": "second set"}, "comparison.zh.md": {"own": "第一批", "second": "第二批"}}
FIGURES = {
    "serving, time per token": "服务：每 token 时间",
    "serving, throughput": "服务：吞吐",
    "serving, first token": "服务：首 token",
    "memory": "训练：峰值显存",
    "throughput": "训练：速度",
}


def errors(line: dict[str, str], whose: str) -> str:
    """Median, 90th percentile and median by source, in percent."""
    return " / ".join(f"{100 * float(line[f'{whose}_{name}']):.0f} %" for name in ("median_ape", "p90", "by_source"))


def table(page: str) -> str:
    """The table of one page."""
    with SOURCE.open(encoding="utf-8", newline="") as stream:
        lines = list(csv.DictReader(stream))
    out = ["| " + " | ".join(HEADS[page]) + " |", "|" + "---|" * len(HEADS[page])]
    for line in lines:
        figure = FIGURES[line["figure"]] if page.endswith(".zh.md") else line["figure"]
        figure = (
            figure
            if line["figure"].startswith("serving") or page.endswith(".zh.md")
            else f"training, {line['figure'].replace('throughput', 'speed')}"
        )
        cells = (
            f"{line['tool']} {line['version']}",
            figure,
            ROWS[page][line["rows_of"]],
            f"{int(line['rows']):,}",
            line["sources"],
            errors(line, "their"),
            errors(line, "our"),
        )
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def written(page: str) -> str:
    """The page with its table as the figures are."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    return f"{before}{BEGIN}\n{table(page)}\n{END}{rest.split(END, 1)[1]}"


def main() -> int:
    """Write, or check."""
    behind = [page for page in HEADS if written(page) != (ROOT / "docs" / page).read_text(encoding="utf-8")]
    if "--check" in sys.argv[1:]:
        print("\n".join(f"docs/{page} is behind: run scripts/write_rivals_paired.py" for page in behind))
        return int(bool(behind))
    for page in behind:
        (ROOT / "docs" / page).write_text(written(page), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
