"""A run that is followed, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import Lang, say
from rightfit.explain.quantities import duration_text, memory_text, money_text, percent_text, plain
from rightfit.explain.tables import Column, Table

if TYPE_CHECKING:
    from rightfit.measure.watching.judging import Compared, Finding, State


def head_line(state: State, name: str, lang: Lang) -> str:
    """Which run, and whether it goes on."""
    condition = say("watch.state_running" if state.look.is_alive else "watch.state_ended", lang)
    server = state.expected.server
    return (
        say("watch.head_plan", lang, name=name, state=condition, server=server)
        if server
        else say("watch.head", lang, name=name, state=condition)
    )


def progress_lines(state: State, lang: Lang) -> list[str]:
    """How far, until when, for how much."""
    lines = [] if _is_service(state) else [_progress(state, lang)]
    if state.left_s is not None and state.look.is_alive:
        left = state.left_s
        source = say("watch.source_measured" if left.source == "measured" else "watch.source_planned", lang)
        ends = {"mid": duration_text(left.mid, lang), "low": duration_text(left.low80, lang), "high": duration_text(left.high80, lang)}
        lines.append(say("watch.left", lang, source=source, **ends))
    spent = state.spent_usd
    if spent is not None and state.usd is not None:
        cost = {
            name: money_text(value, lang=lang)
            for name, value in (("mid", state.usd.mid), ("low", state.usd.low80), ("high", state.usd.high80))
        }
        lines.append(say("watch.cost", lang, spent=money_text(spent, lang=lang), **cost))
    elif spent is not None:
        lines.append(say("watch.spent", lang, spent=money_text(spent, lang=lang)))
    return lines


def _is_service(state: State) -> bool:
    return state.expected.is_service or (state.look.step is None and "running" in state.look.figures)


def _progress(state: State, lang: Lang) -> str:
    step, whole = state.look.step, state.look.whole or state.expected.steps
    if step is None:
        return say("watch.progress_none", lang)
    if not whole or state.share is None:
        return say("watch.progress_open", lang, step=f"{step:,.0f}")
    return say("watch.progress", lang, step=f"{step:,.0f}", whole=f"{whole:,.0f}", share=percent_text(state.share))


def compared_table(state: State, lang: Lang) -> Table:
    """Each figure beside the plan's."""
    columns = [Column("figure"), *(Column(key, right=True) for key in ("now", "planned", "interval95")), Column("inside")]
    return Table(columns, compared_records(state, lang))


def compared_records(state: State, lang: Lang) -> list[dict[str, str]]:
    """The lines of that table; what no plan speaks of stands there with its value alone."""
    lines = [_compared(item, lang) for item in state.compared]
    shown = {item.name for item in state.compared}
    return [
        *lines,
        *(_further(name, value, lang) for name, value in sorted(state.look.figures.items()) if name not in shown and _is_told(name)),
    ]


def _is_told(name: str) -> bool:
    from rightfit.measure.record import metrics

    return name in metrics()


def _compared(item: Compared, lang: Lang) -> dict[str, str]:
    text = text_of(item.name)
    plan, interval = "-", "-"
    if item.planned is not None:
        plan, interval = text(item.planned.mid, lang), f"{text(item.planned.low95, lang)} – {text(item.planned.high95, lang)}"
    name, verdict = say(f"watch.figure_{item.name}", lang), say(f"watch.verdict_{item.verdict}", lang)
    return {"figure": name, "now": text(item.value, lang), "planned": plan, "interval95": interval, "inside": verdict}


def _further(name: str, value: float, lang: Lang) -> dict[str, str]:
    from rightfit.measure.record import metric

    known = metric(name)
    shown = percent_text(value) if known.unit == "share" else f"{plain(value)} {known.unit}"
    return {"figure": known.zh if lang == "zh" else known.en, "now": shown, "planned": "-", "interval95": "-", "inside": "-"}


def text_of(name: str) -> Callable[[float, Lang], str]:
    """How a figure is written, by the ending of its name."""
    if name.endswith("_bytes"):
        return lambda value, _lang: memory_text(value)
    if name.endswith("_s"):
        return duration_text
    return lambda value, _lang: plain(value)


def finding_lines(state: State, lang: Lang) -> list[str]:
    """What is wrong; that nothing is, where nothing is."""
    lines = [finding_line(finding, lang) for finding in state.findings]
    notes = [say(f"watch.note_{note}", lang) for note in state.look.notes]
    if not lines:
        lines = [say("watch.fine" if any(item.planned for item in state.compared) else "watch.fine_alone", lang)]
    return [*lines, *notes]


def finding_line(finding: Finding, lang: Lang) -> str:
    """One finding in a sentence, with the money that it costs."""
    name = f"watch.finding_{finding.code}" + ("_full" if "full_in_s" in finding.figures else "")
    wasted = finding.figures.get("wasted_usd_per_h")
    text = say(name, lang, **_words(finding, lang))
    return text + (" " if lang == "en" else "") + say("watch.wasted", lang, usd=money_text(wasted, lang=lang)) if wasted else text


def _words(finding: Finding, lang: Lang) -> Mapping[str, Any]:
    subject = finding.code.removesuffix("_above").removesuffix("_below")
    found = {}
    for name, value in finding.figures.items():
        if name in ("now", "low95", "high95"):
            found[name] = text_of(subject)(value, lang)
        elif name.endswith("_share") or name == "ratio":
            found[name] = percent_text(value, 3)
        else:
            found[name] = text_of("_bytes" if name.endswith("bytes_per_h") else name)(value, lang)
    return found


def to_dict(state: State, name: str) -> dict[str, Any]:
    """The state as JSON, in base units."""
    return {
        "name": name,
        "running": state.look.is_alive,
        "step": state.look.step,
        "steps": state.look.whole or state.expected.steps,
        "share": state.share,
        "left_s": state.left_s.to_dict() if state.left_s else None,
        "spent_usd": state.spent_usd,
        "cost_usd": state.usd.to_dict() if state.usd else None,
        "figures": [
            {
                **{name: getattr(one, name) for name in ("name", "value", "low95", "high95")},
                "planned": one.planned.to_dict() if one.planned else None,
                "verdict": one.verdict,
            }
            for one in state.compared
        ],
        "measured": dict(state.look.figures),
        "findings": [{"code": one.code, **one.figures} for one in state.findings],
    }
