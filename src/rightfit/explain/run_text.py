"""Records of runs as sentences and tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.explain.messages import has, say
from rightfit.explain.quantities import Column, Table, cards_text, duration_text, memory_text, money_text, percent_text, plain
from rightfit.explain.reasons import OWN_RUNS, renderer
from rightfit.explain.sheets import Choice, Lines, Part
from rightfit.messages import Lang

if TYPE_CHECKING:
    from rightfit.measure.load_test.level import Level
    from rightfit.measure.load_test.result import Capacity, Trial
    from rightfit.measure.own_runs import Beside, Explanation
    from rightfit.measure.record import Measured, Run
    from rightfit.measure.resizing import Advice
    from rightfit.measure.resizing import Finding as Symptom
    from rightfit.measure.watching.judging import Compared, Finding, State


_SHOWN_FIGURES, _SHOWN_OPERATORS = 3, 5


def amount(value: Any) -> str:
    """A figure in four digits."""
    return "" if value is None else f"{value:,.4g}"


def figure_table(runs: Sequence[Run], lang: Lang, *, most: int | None = None) -> Table:
    """One line a figure; `most`: of each run so many."""
    records = [figure_record(item, lang) for run in runs for item in run.measured[:most]]
    columns = [
        Column("figure"),
        Column("value", right=True),
        Column("unit"),
        Column("statistic"),
        Column("n", lambda n: "" if n is None else f"{n:,}", right=True, drop=1),
        Column("definition", flexible=True, drop=2),
    ]
    return Table(columns, records)


def figure_record(item: Measured, lang: Lang) -> dict[str, Any]:
    """A figure as a line of a table."""
    from rightfit.measure.record import metric

    known = metric(item.metric)
    name = known.zh if lang == "zh" else known.en
    counter = f" ({item.counter})" if item.counter else ""
    bound = f"{item.bound} " if item.bound else ""
    return {
        "figure": name + counter,
        "value": bound + amount(item.value),
        "unit": item.unit,
        "statistic": item.statistic,
        "n": item.n,
        "definition": f"{item.metric}: {item.definition}",
    }


def run_lines(run: Run, lang: Lang) -> list[str]:
    """What a record says beside its figures."""
    tool = f" ({' '.join(filter(None, (run.source.tool, run.source.version)))})" if run.source.tool else ""
    started = f", {run.started[:19]}" if run.started else ""
    lines = [say("measure.run_head", lang, id=run.id, kind=run.source.kind, tool=tool, started=started, state=_state(run, lang))]
    if run.setup:
        lines.append(say("measure.run_setup", lang, setup=pairs(run.setup)))
    if run.server:
        lines.append(say("measure.run_server", lang, server=pairs(run.server)))
    if run.command:
        lines.append(say("measure.run_command", lang, command=run.command))
    return lines + [say("measure.run_warning", lang, text=text) for text in run.warnings]


def pairs(mapping: Mapping[str, Any]) -> str:
    """`name value` pairs in one line."""
    return ", ".join(f"{name} {value}" for name, value in mapping.items())


def _state(run: Run, lang: Lang) -> str:
    if run.oom:
        return say("measure.state_oom", lang)
    if run.exit_code:
        return say("measure.state_failed", lang, code=run.exit_code)
    return "" if run.complete else say("measure.state_incomplete", lang)


def beside_table(pairs: Sequence[Beside], lang: Lang) -> Table:
    """What was measured beside what was predicted."""
    columns = [Column("figure"), *(Column(key, right=True) for key in ("measured", "predicted", "interval95")), Column("inside")]
    return Table(columns, [_beside_record(one, lang) for one in pairs])


def _beside_record(one: Beside, lang: Lang) -> dict[str, str]:
    item, predicted = one.item, one.predicted
    return {
        "figure": figure_record(item, lang)["figure"],
        "measured": f"{amount(item.value)} {item.unit}",
        "predicted": f"{amount(predicted.mid)} ({say(f'measure.origin_{one.origin}', lang)})",
        "interval95": f"{amount(predicted.low95)} – {amount(predicted.high95)}",
        "inside": say(f"watch.verdict_{one.verdict}", lang),
    }


def explanation_lines(one: Beside, found: Sequence[Explanation], lang: Lang) -> list[str]:
    """Which set-ups would explain a figure that left its interval; that none of those tried does,
    where none does; that too little is said of the set-up, where its prediction says nothing."""
    if one.verdict == "inside":
        return []
    name = figure_record(one.item, lang)["figure"]
    if one.verdict == "open":
        return [say("measure.open", lang, figure=name, factor=amount(one.predicted.high95 / one.predicted.mid))]
    if not found:
        return [say("measure.unexplained", lang, figure=name)]
    names = [f"{say(f'measure.explains_{one_.name}', lang)} ({100 * one_.missed:+.0f} %)" for one_ in found]
    return [say("measure.explained", lang, figure=name, names=", ".join(names))]


def profile_lines(run: Run, lang: Lang) -> list[str]:
    """Where a step's time goes, by kind of operator, and the operators that take most."""
    profile = run.profile
    whole = sum(profile["kinds_s"].values()) or 1.0
    shares = ", ".join(
        f"{say('measure.kind_' + kind.replace(' ', '_'), lang)} {100 * seconds / whole:.0f} %"
        for kind, seconds in profile["kinds_s"].items()
    )
    lines = [say(f"measure.profile_{profile['where']}", lang, steps=profile["steps"], shares=shares)]
    return lines + [
        f"  {row['name']}: {amount(1e3 * row['seconds'])} ms, {amount(row['calls'])} x" for row in profile["operators"][:_SHOWN_OPERATORS]
    ]


def list_records(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One line a run."""
    return [
        {
            "id": run.id,
            "started": run.started[:19],
            "kind": run.source.kind,
            "model": run.setup.get("model", ""),
            "gpu": run.setup.get("gpu", "") or run.setup.get("device", ""),
            "figures": ", ".join(f"{item.metric} {item.bound}{amount(item.value)}" for item in run.measured[:_SHOWN_FIGURES]),
        }
        for run in runs
    ]


LIST_COLUMNS = (Column("id"), Column("started", drop=2), Column("kind"), Column("model"), Column("gpu"), Column("figures", flexible=True))


def advice_lines(advice: Advice, lang: Lang) -> list[str]:
    """Advice from runs: the verdict, what says so, what to change, which servers, which test."""
    inner = [*_finding_lines(advice, lang), *_change_lines(advice, lang), *_option_lines(advice, lang)]
    return [_verdict_line(advice, lang), *(f"  {line}" for line in inner), *_test_lines(advice, lang), *_moved_lines(advice, lang)]


def advice_parts(advice: Advice, lang: Lang) -> list[Part]:
    """The same as parts of a sheet, for faces that draw: the verdict with the next test,
    then headed lists."""
    groups = {"evidence": _finding_lines(advice, lang), "changes": _change_lines(advice, lang), "servers": _option_lines(advice, lang)}
    lists = [Lines(name, say(f"measure.heading_{name}", lang), tuple(lines)) for name, lines in groups.items() if lines]
    return [Choice(_verdict_line(advice, lang), (*_test_lines(advice, lang), *_moved_lines(advice, lang))), *lists]


def _verdict_line(advice: Advice, lang: Lang) -> str:
    fields = {"bottleneck": _bound(advice.bottleneck, lang)} if advice.verdict == "change" else {}
    if advice.verdict == "test" and not advice.findings and advice.next_test is None:
        return say("measure.verdict_unknown", lang)
    return say(f"measure.verdict_{advice.verdict}", lang, **fields)


def _finding_lines(advice: Advice, lang: Lang) -> list[str]:
    lines = []
    for finding in advice.findings:
        if has(f"measure.unfit_{finding.code}"):
            lines.append(_unfit_line(finding, lang))
            continue
        figures = ", ".join(f"{name} {amount(value)}" for name, value in finding.figures.items())
        conditions = finding.conditions.replace(";", ", ")
        code = finding.code if finding.bottleneck == "none" else _bound(finding.bottleneck, lang)
        lines.append(say("measure.finding", lang, figures=figures, conditions=conditions, code=code, source=finding.source))
    return lines


def _unfit_line(finding: Symptom, lang: Lang) -> str:
    """Why a run says nothing of what its server is worth: its rule has one figure and one limit."""
    [(name, value)], limit = finding.figures.items(), float(re.split("[<>=]+", finding.conditions)[1])
    shown = percent_text if name.endswith("_share") else plain
    return say(f"measure.unfit_{finding.code}", lang, value=shown(value), limit=shown(limit))


def _change_lines(advice: Advice, lang: Lang) -> list[str]:
    lines = []
    for change in advice.changes:
        slower = "-" if change.slower is None else f"{100 * change.slower:+.0f} %"
        name = say(f"measure.change_{change.name}", lang)
        lines.append(say("measure.change", lang, name=name, saved=amount(change.saved_gib), slower=slower))
    return lines


def _option_lines(advice: Advice, lang: Lang) -> list[str]:
    lines = []
    for option in advice.options:
        money = option.cost.total if hasattr(option.cost, "total") else None
        bounds = {"low": amount(money.low80), "high": amount(money.high80)} if money else {"low": "-", "high": "-"}
        bounds["source"] = say("measure.by_runs" if "own_runs" in option.facts else "measure.by_prediction", lang)
        server = f"{option.nodes} x {option.provider}/{option.instance_type} ({cards_text(option, lang)})"
        place = {"rank": option.rank, "server": server, "region": option.region, "purchase": option.purchase}
        lines.append(say("measure.option", lang, **place, total=amount(option.cost.total_usd), **bounds))
    return lines


def _moved_lines(advice: Advice, lang: Lang) -> list[str]:
    """How far the runs moved the figures of the first server, or why they moved none."""
    render = renderer(lang)
    return [render(reason) for option in advice.options[:1] for reason in option.why if reason.key in OWN_RUNS]


def _test_lines(advice: Advice, lang: Lang) -> list[str]:
    if not advice.next_test:
        return []
    test = advice.next_test
    numbers = {"minutes": amount(test.minutes), "usd": amount(test.usd), "saving": amount(test.expected_saving_usd)}
    return [
        say(
            "measure.next_test" if test.over == "job" else "measure.next_test_month",
            lang,
            server=f"{test.nodes} x {test.provider}/{test.instance_type}",
            region=test.region,
            **numbers,
        )
    ]


def _bound(name: str, lang: Lang) -> str:
    return say(f"measure.bound_{name}", lang)


# ---- load tests ----------------------------------------------------------------------------------


def load_lines(found: Capacity, test: Trial, usd_per_h: float | None, lang: Lang) -> list[str]:
    """A load test: each level, the capacity with its interval, the price."""
    from rightfit.measure.load_test.result import price_of

    lines = [_level_line(level, test, lang) for level in found.levels]
    if found.best is None:
        return [*lines, say("measure.load_none", lang)]
    bounds = {"low": amount(found.low80), "high": amount(found.high80), "percentile": f"{100 * test.percentile:g}"}
    name = "measure.load_capacity_least" if found.is_bound else "measure.load_capacity"
    lines.append(say(name, lang, rate=amount(found.best.rate), tokens=amount(found.best.tokens_per_s), **bounds))
    price = price_of(found, usd_per_h)
    if price:
        lines.append(say("measure.load_price", lang, mid=amount(price[0]), low=amount(price[1]), high=amount(price[2])))
    return lines


def _level_line(level: Level, test: Trial, lang: Lang) -> str:
    from rightfit.measure.load_test.result import holds, quantile

    tpot = [one.tpot for one in level.good if one.tokens_out > 1]
    kind = ("open", amount(level.rate)) if level.rate else ("closed", level.streams)
    return say(
        f"measure.load_{kind[0]}",
        lang,
        load=kind[1],
        served=amount(level.requests_per_s),
        tokens=amount(level.tokens_per_s),
        percentile=f"{100 * test.percentile:g}",
        ttft=amount(1e3 * quantile([one.ttft for one in level.good], test.percentile)[0]),
        tpot=amount(1e3 * quantile(tpot, test.percentile)[0]),
        errors=f"{100 * level.error_share:.1f}",
        verdict=say("measure.load_holds" if holds(level, test)[0] else "measure.load_misses", lang),
    )


# ---- A run that is followed, in words.


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
