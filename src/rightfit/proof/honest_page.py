"""The head of the accuracy page and the table of the README: blind scores first, then first
contact, then what is left out, then the named stack."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from rightfit.proof.accuracy_page import percent, table
from rightfit.proof.left_out import FIGURES, WAYS, LeftOutScore
from rightfit.proof.tables import cell_text, read_cases

Line = Mapping[str, str]
Scores = Mapping[str, Mapping[str, LeftOutScore]]
BLIND, CONTACT, GOALS = "blind/scores.csv", "first_contact", "goals.csv"


def _lines(path: Path) -> list[dict[str, str]]:
    return [{name: cell_text(cell) for name, cell in line.items() if name} for line in read_cases(path)] if path.is_file() else []


def _value(line: Line, name: str) -> float:
    try:
        return float(line.get(name) or "nan")
    except ValueError:
        return float("nan")


def blind_lines(validation: Path) -> dict[str, dict[str, str]]:
    """The latest blind score of each figure over all rows that are kept back."""
    return {line["figure"]: line for line in _lines(validation / BLIND) if line["rows_of"] == "blind, all"}


def contact_lines(validation: Path) -> dict[str, dict[str, str]]:
    """The first contact of each figure: of every new source before anybody looked at its rows; the
    latest table where several hold a figure."""
    found: dict[str, dict[str, str]] = {}
    for path in sorted((validation / CONTACT).glob("*.csv")):
        if not path.stem.endswith("_by_source"):
            for line in _lines(path):
                if line.get("metric") == "all" or line["figure"] not in found or found[line["figure"]].get("date") != line["date"]:
                    found[line["figure"]] = line
    return found


def goals(validation: Path) -> dict[str, tuple[float, float]]:
    """Goal of each figure on blind rows: (median over sources of each source's
    median, 90th percentile)."""
    return {line["figure"]: (float(line["median"]), float(line["p90"])) for line in _lines(validation / GOALS)}


def pair(median: float, p90: float) -> str:
    """Two errors: "14 % / 44 %"."""
    return "-" if math.isnan(median) else f"{percent(median)} / {percent(p90)}"


def _of_line(line: Line | None) -> str:
    return pair(_value(line, "median_by_source"), _value(line, "p90_ape")) if line else "-"


def _of_score(scores: Mapping[str, LeftOutScore], way: str) -> str:
    found = scores.get(way)
    return pair(found.median, found.p90) if found and found.rows else "-"


def is_met(line: Line | None, goal: tuple[float, float] | None) -> str:
    """Whether the blind rows meet the goal."""
    if line is None or goal is None:
        return "-"
    return "yes" if _value(line, "median_by_source") <= goal[0] and _value(line, "p90_ape") <= goal[1] else "no"


_HEADER = (
    "figure", "blind", "first contact", "left out: stack unknown", "left out: publisher", "left out: class of device", "stack named", "goal, blind", "met",
)  # fmt: skip


def error_rows(validation: Path, scores: Scores) -> list[list[str]]:
    """One row a figure: errors as "median / P90"."""
    blind, contact, aims = blind_lines(validation), contact_lines(validation), goals(validation)
    rows = []
    for figure in FIGURES:
        name, mine = figure.name, scores.get(figure.name, {})
        if name not in blind and name not in contact and not mine:
            continue
        aim = aims.get(name)
        left_out = [_of_score(mine, way) for way in ("stack", "publisher", "device", "named")]
        rows.append(
            [
                name,
                _of_line(blind.get(name)),
                _of_line(contact.get(name)),
                *left_out,
                pair(*aim) if aim else "-",
                is_met(blind.get(name), aim),
            ]
        )
    return rows


def _inside(validation: Path, scores: Scores) -> list[list[str]]:
    blind, contact = blind_lines(validation), contact_lines(validation)
    rows = []
    for figure in FIGURES:
        name, mine = figure.name, scores.get(figure.name, {})
        told = [percent(_value(lines[name], "in_95_by_source")) if name in lines else "-" for lines in (blind, contact)]
        own = [percent(mine[way].in_95) if way in mine and mine[way].rows else "-" for way in ("stack", "named")]
        counts = [f"{mine['named'].rows:,}", str(mine["named"].publishers)] if "named" in mine else ["-", "-"]
        kept_back = [f"{blind[name]['rows']} of {blind[name]['sources']}" if name in blind else "-"]
        rows.append([name, *kept_back, *counts, *told, *own])
    return rows


def _fits(validation: Path) -> str:
    parts = []
    for words, lines in (("Blind", blind_lines(validation)), ("First contact", contact_lines(validation))):
        oom = [
            (int(line["out_of_memory_rows"]), int(line["called_fits"]))
            for line in lines.values()
            if line.get("out_of_memory_rows") and line["figure"].startswith("memory")
        ]
        if total := sum(count for count, _ in oom):
            wrong = sum(count for _, count in oom)
            parts.append(
                f"{words}: {wrong} of {total} runs that were out of memory were called fitting ({percent(wrong / total)}; goal at most 4 %)."
            )
    return " ".join(parts)


def head(validation: Path, scores: Scores) -> str:
    """The part of the page that comes first; empty where a folder holds neither blind scores
    nor a first contact."""
    if not blind_lines(validation) and not contact_lines(validation):
        return ""
    commit = next((f" (commit {line['commit']}, {line['date']})" for line in blind_lines(validation).values()), "")
    met = contact_lines(validation)
    when = next((f" ({line['date']}, commit {line['commit']})" for line in met.values()), "")
    return f"""## What a stranger gets

Errors as "median / P90" of |predicted / measured - 1|.

- **Blind**{commit}: rows of sources that nobody who works on the program has seen, scored elsewhere and copied (`validation/blind/scores.csv`); the median over sources of each source's median, and the 90th percentile of all rows.
- **First contact**{when}: every new source, scored once before anybody looked at its rows, and never edited (`validation/first_contact/`); as before.
- **Left out**: our own rows, every publisher weighing the same (MLPerf is one; a publisher of fewer than five rows weighs a fifth for each). *Stack unknown*: the name of the software withheld, with every rule and coefficient keyed to it, and its publisher left out. *Publisher*: coefficients fitted without the publisher; of one
  with several sources, coefficients before any fit (their priors). *Class of device*: fitted without the source, the device's own coefficients before any fit. A coefficient of the memory formulas has no prior: there the publisher is left out source by source.
- **Stack named**: coefficients fitted without the source, the rules that name its software kept. This is what was published before; rules were partly written from these very rows, so it is not what a stranger gets.

{table(_HEADER, error_rows(validation, scores))}
{_fits(validation)}

Share of measured values inside the 95 % interval, by source (goal 90-98 %); rows behind each figure:

{table(("figure", "blind rows of sources", "own rows", "publishers", "blind", "first contact", "left out: stack unknown", "stack named"), _inside(validation, scores))}
{missed(validation)}"""


def left_out_cells(scores: Scores) -> list[tuple[Sequence[str], list[list[str]]]]:
    """The table of what is left out, for a terminal; nothing without scores."""
    rows = [[figure, *(_of_score(ways, way) for way in WAYS)] for figure, ways in scores.items()]
    return [(("figure, publishers equal", "stack unknown", "publisher out", "class of device out", "stack named"), rows)] if rows else []


def missed(validation: Path) -> str:
    """Goals that the blind rows do not meet: by how far, the floor that stands
    against it, and why."""
    blind, aims = blind_lines(validation), goals(validation)
    reasons = {line["figure"]: line for line in _lines(validation / GOALS)}
    far = [
        f"- {name}: {_of_line(blind[name])}, goal {pair(*aim)}. Floor: “{reasons[name]['floor_of']}” under “What is left within a source”. Why: {reasons[name]['why']}."
        for name, aim in aims.items()
        if name in blind and is_met(blind[name], aim) == "no"
    ]
    return "Goals that are missed on blind rows:\n\n" + "\n".join(far) + "\n\n" if far else ""


def readme_rows(validation: Path, headline: Mapping[str, float], names: Sequence[tuple[str, str, str]], *, chinese: bool) -> list[str]:
    """Lines of the README's table: (figure, English, Chinese) in `names`; left-out figures as
    `headline` holds them."""
    blind, contact = blind_lines(validation), contact_lines(validation)
    rows = []
    for figure, english, zh in names:
        own = [
            pair(headline.get(f"{way}: {figure}: median", math.nan), headline.get(f"{way}: {figure}: P90", math.nan))
            for way in ("left out, stack unknown", "left out, stack named")
        ]
        rows.append(
            f"| {zh if chinese else english} | {_of_line(blind.get(figure))} | {_of_line(contact.get(figure))} | {' | '.join(own)} |"
        )
    return rows


def headline_numbers(scores: Scores) -> dict[str, float]:
    """The left-out figures that must not get worse."""
    words = {"stack": "left out, stack unknown", "named": "left out, stack named"}
    return {
        f"{words[way]}: {figure}: {kind}": round(value, 4)
        for figure, ways in scores.items()
        for way, found in ways.items()
        if way in words and found.rows
        for kind, value in (("median", found.median), ("P90", found.p90))
    }
