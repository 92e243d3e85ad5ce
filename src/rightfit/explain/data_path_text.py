"""The data path of an option in sentences: where the data lie, whether cards wait for them, loaders and checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rightfit.explain import quantities as q
from rightfit.explain.messages import Lang, say, say_or

_FASTER_LATER = 0.99
_LARGE = 1e5


def data_path_lines(part: Mapping[str, Any], lang: Lang, *, currency: str = "usd") -> tuple[str, ...]:
    """What there is to say about the data of an option (its `data_path`); nothing where it has none."""
    if not part:
        return ()
    texts = _texts(part, lang)
    lines = [say(f"data_path.staged_{part['why']}", lang, **texts), _waits(part, texts, lang), _epochs(part, lang)]
    lines.append(say("data_path.loaders", lang, **texts))
    if part["upload_s"] > 0:
        lines.append(
            say("data_path.moved", lang, time=q.duration_text(part["upload_s"], lang), usd=q.money_text(part["moved_usd"], currency))
        )
    lines.append(_checkpoint(part["checkpoint"], lang, currency))
    return tuple(lines)


def _texts(part: Mapping[str, Any], lang: Lang) -> dict[str, str]:
    return {
        "dataset": q.data_text(part["dataset_bytes"]),
        "volume": part["volume"],
        "place": part["volume"] or part["staging"],
        "time": q.duration_text(part["staging_s"], lang),
        "rate": f"{q.data_text(part['read_bytes_per_s'])}/s",
        "needed": f"{q.data_text(part['needed_bytes_per_s'])}/s",
        "samples": q.count_text(part["samples_per_s"], lang) if part["samples_per_s"] >= _LARGE else q.plain(part["samples_per_s"]),
        "decode": say_or(f"data_path.decode_{part['decode']}", lang, part["decode"]),
        "unit": say(f"data_path.unit_{'tokens' if part['decode'] in ('tokenized', 'text') else 'samples'}", lang),
        "needed_cores": q.plain(part["needed_cores"], 2),
        "cores": q.plain(part["cores"]),
        "workers": q.counted("worker", part["workers"], lang),
        "stall": q.percent_text(part["stall_share"]),
        "loading": q.percent_text(part["loading_share"]),
        "rule": q.percent_text(part["rule_share"]),
    }


def _waits(part: Mapping[str, Any], texts: Mapping[str, str], lang: Lang) -> str:
    if part["stall_share"] <= part["rule_share"]:
        return say("data_path.waits", lang, **texts)
    return say("data_path.starves", lang, **texts, cause=say(f"data_path.cause_{part['limit']}", lang, **texts))


def _epochs(part: Mapping[str, Any], lang: Lang) -> str:
    first, later = (q.duration_text(part[name], lang) for name in ("first_epoch_s", "later_epoch_s"))
    same = part["later_epoch_s"] > _FASTER_LATER * part["first_epoch_s"]
    return say("data_path.even_epochs" if same else "data_path.epochs", lang, first=first, later=later)


def _checkpoint(part: Mapping[str, float], lang: Lang, currency: str) -> str:
    return say(
        "data_path.checkpoint",
        lang,
        size=q.data_text(part["bytes"]),
        interval=q.duration_text(part["interval_s"], lang),
        count=f"{part['count']:,.0f}",
        write=q.duration_text(part["write_s"], lang),
        upload=q.duration_text(part["upload_s"], lang),
        kept=f"{part['kept']:.0f}",
        usd=q.money_text(part["object_usd"], currency),
    )
