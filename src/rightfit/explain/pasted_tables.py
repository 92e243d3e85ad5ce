"""Rows of a pasted table as statements: the header of a column says what its cells state of the
server or the card that the row is about."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain.claim_words import cards_of
from rightfit.market.names import find_provider

_SERVER = re.compile(r"(?<![\w./])[A-Za-z][\w]*(?:[.\-_][\w.\-]+)+(?![\w.])", re.ASCII)
#: What a header calls a column: the unit that a bare number in it has, and the word that its cells
#: are read with.
_COLUMNS = (
    (r"显存|vram|gpu memory", "GB", "显存 {}"),
    (r"内存|\bram\b|\bmemory\b", "GB", "内存 {}"),
    (r"vcpu|cpu|核", " vCPU", "{}"),
    (r"价|price|cost|元|\$|usd", "", "{}"),
    (r"网络|带宽|network|bandwidth", " Gbps", "{}"),
    (r"卡数|张数|数量|count|gpus?\s*(?:数|#)|number", " 张卡", "{}"),
    (r"gpu|显卡|卡|accelerator", "", "{}"),
)
_CARD_COLUMNS = (
    (r"显存带宽|带宽|bandwidth", "显存带宽"),
    (r"nvlink", "NVLink 带宽"),
    (r"显存|vram|memory", "显存"),
    (r"功耗|tdp|power", "功耗"),
)


def cells_of(line: str) -> list[str]:
    """The cells of a row of a table; [] of any other line."""
    bare = line.strip()
    return [re.sub(r"[*`]", "", cell).strip() for cell in bare.strip("|").split("|")] if bare.count("|") >= 2 else []


def is_cloud(cell: str) -> bool:
    """Whether a cell names a cloud and nothing else: "Google Cloud (GCP)"."""
    return find_provider(re.sub(r"[(（].*?[)）]", "", cell).strip(" |")) is not None


def is_row(cells: Sequence[str]) -> bool:
    """Whether cells are a row of values: they name a server or a card, or hold numbers."""
    return bool(facts.match_accelerators(cells[0])) or any(_SERVER.search(cell) or re.match(r"[$¥约~]?\s*\d", cell) for cell in cells)


def row_statement(header: Sequence[str], cells: Sequence[str]) -> str:
    """What a row states: "g5.xlarge=1xA10G, 显存 24GB", or of a card "A100 显存 80GB"; "" of a row
    about neither, or about several servers."""
    if row := _model_row(cells):
        return row
    named = next(((at, found[0]) for at, cell in enumerate(cells) if (found := _SERVER.search(cell))), None)
    if named is not None and _beside(cells[named[0]], named[1]):
        return ""
    if named is not None:
        said = [_cell(header[at], cell) for at, cell in enumerate(cells) if at != named[0] and cell and find_provider(cell) is None]
        stated = ", ".join(one for one in said if one)
        return f"{named[1]}={stated}" if re.search(r"\d", stated) else named[1]
    if not facts.match_accelerators(cells[0]):
        return ""
    told = [f"{words} {cell}" for title, cell in zip(header[1:], cells[1:], strict=True) if cell and (words := _card_words(title, cell))]
    return f"{cells[0]} " + "，".join(told) if told else ""


def _model_row(cells: Sequence[str]) -> str:
    """A row about a model and what it is to run on, as it stands."""
    try:
        facts.model(cells[0], network=False)
    except RightfitError:
        return ""
    return " | ".join(cells) if any(cards_of(cell) for cell in cells[1:]) else ""


def _beside(cell: str, server: str) -> str:
    """What a cell says beside a server and its cloud."""
    rest = cell.replace(server, " ", 1).strip(" /()（）")
    return "" if find_provider(rest) else rest


def _cell(title: str, cell: str) -> str:
    """A cell with what its header says of it."""
    total = "共" if re.search(r"总|合计|total", title, re.IGNORECASE) else ""
    title = re.sub(r"/\s*(?:卡|gpu|card)|每卡|单卡|\(.*?\)|（.*?）", "", title, flags=re.IGNORECASE)
    bare = re.fullmatch(r"[$¥]?\s*\d[\d,.]*", cell)
    for words, unit, form in _COLUMNS:
        if re.search(words, title, re.IGNORECASE):
            return total + form.format(cell + (unit if bare else ""))
    return cell


def _card_words(title: str, cell: str) -> str:
    if re.search(r"\d", cell) is None:
        return ""
    if re.search(r"flops|算力|tops", title + cell, re.IGNORECASE):
        return title if "算力" in title else f"{title} 算力"
    return next((name for words, name in _CARD_COLUMNS if re.search(words, title, re.IGNORECASE)), "")
