"""The plan of a fleet in sentences and tables: what to place and buy, what limits
cost, what is left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from rightfit.explain.messages import join, say
from rightfit.explain.quantities import Column, Table, counted, duration_text, money_text, percent_text, purchase_text, region_text
from rightfit.messages import Lang
from rightfit.units import SECONDS_PER_HOUR

Doc = Mapping[str, Any]
_ROWS, _LINES, _CENT = 10, 4, 0.005


def head_lines(found: Doc, lang: Lang) -> list[str]:
    """The whole in two or three sentences."""
    jobs = sum(row["count"] for row in found["placements"] if row["kind"] == "job")
    services = sum(row["kind"] == "service" for row in found["placements"])
    cost = found["cost"]
    lines = [
        say(
            "fleet.head",
            lang,
            name=found["name"],
            jobs=counted("job", jobs, lang),
            services=counted("service", services, lang),
            start=found["start"][:10],
            horizon=duration_text(found["horizon_h"] * SECONDS_PER_HOUR, lang),
            total=money_text(cost["total_usd"], lang=lang),
            bound=money_text(found["bound_usd"], lang=lang),
            gap=percent_text(found["gap"]) if found["gap"] > 1e-6 else "0%",
        )
    ]
    greedy = "-" if cost["greedy_usd"] is None else money_text(cost["greedy_usd"], lang=lang)
    own, total = cost["own_best_usd"], cost["total_usd"]
    if not found["unplaced"]:
        key = "own_best_not" if not cost["own_best_feasible"] else "own_best" if own > total * 1.001 else "own_best_same"
        fields: dict[str, Any] = {"greedy": greedy}
        if key != "own_best_same":
            fields["usd"] = money_text(own, lang=lang)
        if key == "own_best":
            fields["share"] = percent_text(own / total - 1.0) if total else "-"
        lines.append(say(f"fleet.{key}", lang, **fields))
    terms = [_term(name, usd, lang) for name, usd in sorted(cost["terms"].items(), key=lambda item: -item[1])]
    if terms:
        lines.append(say("fleet.terms", lang, terms=join(terms, lang)))
    return lines


def _term(name: str, usd: float, lang: Lang) -> str:
    money = money_text(usd, lang=lang)
    return (
        say("fleet.term_beside", lang, usd=money)
        if name == "beside_servers"
        else say("fleet.term", lang, purchase=purchase_text(name, lang), usd=money)
    )


def placement_table(found: Doc, lang: Lang, *, most: int | None) -> Table:
    """One line for equal placements: services first, then jobs by start."""
    records = placement_records(found, lang)
    columns = [
        Column("name", flexible=True),
        Column("count", right=True),
        Column("server"),
        Column("accelerator_name", drop=3),
        Column("region", drop=2),
        Column("purchase"),
        Column("starts", drop=1),
        Column("ends"),
        Column("cost", right=True),
    ]
    return Table(columns, records if most is None else records[:most])


def placement_records(found: Doc, lang: Lang) -> list[dict[str, str]]:
    """Placements that differ in their start alone are one line, from the first
    start to the last end."""
    grouped: dict[tuple[Any, ...], list[Doc]] = {}
    for row in found["placements"]:
        key = (row["kind"] == "job", row["name"], row["provider"], row["instance_type"], row["region"], row["purchase"], row["servers"])
        grouped.setdefault(key, []).append(row)
    records = []
    for rows in sorted(grouped.values(), key=lambda rows: (rows[0]["kind"] == "job", rows[0]["start_h"], rows[0]["name"])):
        first = rows[0]
        cards = f"{first['servers'] * first['accelerators_per_server']:g} x {first['accelerator']}" if first["accelerator"] else ""
        records.append(
            {
                "name": first["name"],
                "count": str(sum(row["count"] for row in rows)),
                "server": server_text(first, lang),
                "accelerator_name": cards,
                "region": region_text(first["region"], lang),
                "purchase": paid_text(first, lang),
                "starts": min(row["start"] for row in rows)[5:].replace("T", " "),
                "ends": max(row["end"] for row in rows)[5:].replace("T", " "),
                "cost": money_text(sum(row["cost_usd"] for row in rows), lang=lang),
            }
        )
    return records


def server_text(row: Doc, lang: Lang) -> str:
    """What a placement stands on: servers, cards of a host, or parts of cards."""
    server = row.get("owned") or f"{row['provider']}/{row['instance_type']}"
    if row["kind"] == "job" and row.get("cards"):
        return say("fleet.on_cards", lang, cards=counted("gpu", len(row["cards"][0]), lang), server=server)
    if row.get("on"):
        return say("fleet.on_slices", lang, count=len(row["on"]), slice=row["on"][0]["slice"], server=server)
    return f"{row['servers']} x {server}"


def shared_lines(found: Doc, lang: Lang) -> list[str]:
    """Which share of which card each service has, and what sharing saves."""
    lines = []
    for row in found["placements"]:
        if row["kind"] != "server":
            continue
        usd = {name: money_text(row[f"{name}_usd"], lang=lang) for name in ("paid", "alone")}
        fields = {
            "count": row["servers"],
            "server": f"{row['provider']}/{row['instance_type']}",
            "region": region_text(row["region"], lang),
        }
        lines.append(say("fleet.shared_head", lang, services=len(row["holds"]), **fields, **usd))
        for card in row["cards"]:
            names = [
                say("fleet.shared_slice", lang, service=one["service"], slice=one["slice"], start=one["start"])
                for one in card["slices"]
                if one["service"]
            ]
            free = [one["slice"] for one in card["slices"] if not one["service"]]
            rest = say("fleet.shared_free", lang, slices=join(free, lang)) if free else ""
            lines.append(
                "  " + say("fleet.shared_card", lang, server=card["server"] + 1, card=card["card"], slices=join(names, lang)) + rest
            )
    return lines


def paid_text(row: Doc, lang: Lang) -> str:
    """How a placement is paid; the parts of a service with their servers."""
    parts = row.get("parts")
    if not parts:
        return say("fleet.owned", lang) if row["purchase"] == "owned" else purchase_text(row["purchase"], lang)
    number: dict[str, int] = {}
    for part in parts:
        number[part["purchase"]] = number.get(part["purchase"], 0) + part["servers"]
    own = {"owned": "fleet.owned", "part": "fleet.part"}
    names = {name: say(own[name], lang) if name in own else purchase_text(name, lang) for name in number}
    return " + ".join(f"{count} {names[name]}" if len(number) > 1 else names[name] for name, count in number.items())


def buy_lines(found: Doc, lang: Lang) -> list[str]:
    """What to buy, with its break-even."""
    if not found["purchases"]:
        return [say("fleet.buy_none", lang)]
    lines = [say("fleet.buy_head", lang)]
    for row in found["purchases"]:
        fields = _of_purchase(row, lang)
        used = percent_text(row["utilisation"]) if row["utilisation"] else "0%"
        money = {
            "count": row["count"],
            "start": row["start"][:10],
            "end": row["end"][:10],
            "usd": money_text(row["cost_usd"], lang=lang),
            "used": used,
        }
        if row["break_even_months"] is None:
            lines.append(
                "  " + say("fleet.buy_plain", lang, server=fields["server"], region=fields["region"], purchase=fields["purchase"], **money)
            )
        else:
            owed = money_text(row["owed_usd"] * row["count"], lang=lang)
            lines.append("  " + say("fleet.buy", lang, owed=owed, **fields, **money))
    return lines


def _of_purchase(row: Doc, lang: Lang) -> dict[str, str]:
    months = row["break_even_months"]
    return {
        "server": f"{row['provider']}/{row['instance_type']}",
        "region": region_text(row["region"], lang),
        "purchase": purchase_text(row["purchase"], lang),
        "share": "-" if row["break_even_share"] is None else percent_text(row["break_even_share"]),
        "months": "-" if months is None else f"{months:.1f}",
    }


def considered_lines(found: Doc, lang: Lang) -> list[str]:
    """Commitments that were looked at and not bought."""
    return [say("fleet.considered", lang, **_of_purchase(row, lang)) for row in found["considered"]]


def limit_lines(found: Doc, lang: Lang, *, most: int | None = None) -> list[str]:
    """What more of each limit saves, what limits cost, what a day saves."""
    lines = []
    for row in found["shadow_prices"]:
        weekly = money_text(row["usd_per_unit_week"], lang=lang)
        saved = row.get("step_saves_usd")
        if saved is not None and saved > _CENT:
            unit = money_text(row["step"], lang=lang) if row["unit"] == "USD" else f"{row['step']:g}"
            lines.append(
                "  "
                + say("fleet.shadow_step", lang, step=unit, limit=quoted(row["limit"]), usd=money_text(saved, lang=lang), weekly=weekly)
            )
        elif saved is None:
            lines.append("  " + say("fleet.shadow", lang, limit=quoted(row["limit"]), weekly=weekly))
    costs = [(row["limit"], row["costs_usd"]) for row in found["limit_costs"] if row["costs_usd"] and row["costs_usd"] > _CENT]
    lines += ["  " + say("fleet.limit_cost", lang, limit=quoted(limit), usd=money_text(usd, lang=lang)) for limit, usd in costs]
    days = [(row["job"], row["saves_usd"]) for row in found["deadlines"] if row["saves_usd"]]
    lines += ["  " + say("fleet.deadline", lang, job=job, usd=money_text(usd, lang=lang)) for job, usd in days]
    shown = lines if most is None else lines[:most]
    return [say("fleet.limits_head", lang), *shown] if shown else []


def quoted(text: str) -> str:
    """A limit as the user wrote it."""
    return f'"{text}"'


def scenario_lines(found: Doc, lang: Lang) -> list[str]:
    """What a wrong price, or a server that cannot be had, would change."""
    lines = []
    for row in found["scenarios"]:
        fields = {"server": row["server"], "purchase": purchase_text(row["purchase"], lang)}
        if row["kind"] == "price" and "best_usd" in row:
            usd = {name: money_text(row[f"{name}_usd"], lang=lang) for name in ("plan", "best", "regret")}
            lines.append(say("fleet.price", lang, **fields, **usd))
        elif row["kind"] == "gone":
            missing = row["missing"] > 1e-6
            lines.append(
                say("fleet.gone_missing", lang, **fields)
                if missing
                else say("fleet.gone", lang, usd=money_text(row["extra_usd"], lang=lang), **fields)
            )
    return lines


def future_lines(found: Doc, lang: Lang) -> list[str]:
    """How what to buy fares where prices, demand and stock turn out otherwise."""
    if not (rows := found.get("futures")):
        return []
    usd = {name: money_text(rows[f"{name}_usd"], lang=lang) for name in ("least", "mean", "greatest")}
    shares = {name: percent_text(rows[f"{name}_share"]) for name in ("price", "demand", "gone")}
    lines = [say("fleet.futures_head", lang, draws=rows["draws"], **usd, **shares)]
    for row in rows["ways_to_buy"]:
        known = row["mean_regret_usd"] is not None
        regret = {key: money_text(row[f"{key}_regret_usd"], lang=lang) if known else "-" for key in ("mean", "greatest")}
        fields = {"way": say(f"fleet.future_{row['name']}", lang), "usd": money_text(row["mean_usd"], lang=lang)}
        text = say("fleet.future", lang, **fields, mean_regret=regret["mean"], greatest_regret=regret["greatest"])
        lines.append("  " + text + (say("fleet.future_short", lang, short=row["short"]) if row["short"] else ""))
    if rows["best"] != "plan":
        best = next(row for row in rows["ways_to_buy"] if row["name"] == rows["best"])
        items = [
            f"{one['count']} x {one['provider']}/{one['instance_type']} {purchase_text(one['purchase'], lang)}" for one in best["buys"]
        ]
        lines.append("  " + say("fleet.future_best", lang, buys=join(items, lang) or say("fleet.future_none", lang)))
    return lines


def unplaced_lines(found: Doc, lang: Lang) -> list[str]:
    """What is left out, why, and the least change that would place it."""
    if not found["unplaced"]:
        return []
    lines = [say("fleet.unplaced_head", lang)]
    for row in found["unplaced"]:
        blame = join([" + ".join(one) for one in row["blame"]], lang) or "-"
        fastest = "-" if row.get("fastest_h") is None else duration_text(row["fastest_h"] * SECONDS_PER_HOUR, lang)
        key, fields = f"fleet.unplaced_{row['why']}", {"count": row["count"], "name": row["name"]}
        extra = {"too_slow": {"fastest": fastest}, "no_server": {"blame": blame}, "waits": {"blame": blame}}.get(row["why"], {})
        lines.append("  " + say(key, lang, **fields, **extra))
    return [*lines, *_relax_lines(found["relaxations"], lang)]


def _relax_lines(rows: Sequence[Doc], lang: Lang) -> list[str]:
    told = [row for row in rows if row["kind"] != "workload"]
    if not told:
        return [] if rows else [say("fleet.relax_none", lang)]
    lines = [say("fleet.relax_head", lang)]
    for row in told:
        later = duration_text(row.get("later_h", 0.0) * SECONDS_PER_HOUR, lang)
        fields = {"later": later} if row["kind"] == "deadline" else {"factor": _rounded_up(row["factor"])}
        lines.append("  " + say(f"fleet.relax_{row['kind']}", lang, **fields))
    return lines


def assumption_lines(found: Doc, lang: Lang) -> list[str]:
    """Defaults that were taken."""
    lines = []
    for row in found["assumptions"]:
        value = row["params"]["value"]
        lines.append(say(f"fleet.assumed_{row['key']}", lang, value=join(list(value), lang) if isinstance(value, list) else value))
    return lines


def moved_lines(found: Doc, lang: Lang) -> list[str]:
    """What changed against the last plan."""
    moves = found.get("moves")
    if not moves:
        return []
    counts = {name: moves[name] for name in ("kept", "added", "gone")}
    lines = [say("fleet.moved_head", lang, moved=len(moves["moved"]), **counts)]
    return lines + [
        "  " + say("fleet.moved", lang, **{key: row[key] for key in ("name", "before", "after")}) for row in moves["moved"][:_LINES]
    ]


def parts(found: Doc, lang: Lang, *, most: int | None = _ROWS, quiet: bool = False, verbose: bool = False) -> list[str | Table]:
    """The whole answer in reading order: a screen, or with `verbose` everything."""
    shown: list[str | Table] = ["\n".join(head_lines(found, lang)[: 1 if quiet else None])]
    if found["placements"]:
        shown.append(placement_table(found, lang, most=None if verbose else most))
        hidden = len(placement_records(found, lang)) - (most or 0)
        if most is not None and hidden > 0 and not verbose:
            shown.append(say("fleet.more", lang, count=hidden))
    lines = unplaced_lines(found, lang)
    if lines:
        shown.append("\n".join(lines))
    if quiet:
        return shown
    lines = [
        *buy_lines(found, lang),
        *shared_lines(found, lang),
        *limit_lines(found, lang, most=None if verbose else _LINES),
        *future_lines(found, lang),
        *moved_lines(found, lang),
    ]
    if verbose:
        lines += [*considered_lines(found, lang), *scenario_lines(found, lang), *assumption_lines(found, lang)]
    if found["solver"]["reasons_skipped"]:
        lines.append(say("fleet.skipped", lang))
    shown.append("\n".join(lines))
    return shown


# ---- The calendar of a fleet as SVG text that takes the colours of the page around it: one bar a
# placement, one row a job or service. No library.

_ROW, _LEFT, _WIDTH, _TOP, _BOTTOM, _MOST = 20, 190, 760, 34, 30, 80
#: How strongly a bar is drawn by how it is paid: what is owned darkest, spot lightest.
_STRENGTH = {"owned": 1.0, "capacity-block": 0.85, "on-demand": 0.55, "spot": 0.3}
_COMMITTED = 0.85
_HOURS_PER_DAY = 24.0


def calendar_svg(found: Mapping[str, Any], lang: Lang) -> str:
    """The chart: rows by name in the order of the document's calendar, days across; every bar has
    its server and way to pay as a title."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    by_start = sorted(found["placements"], key=lambda row: (row["kind"] == "job", row["start_h"], row["name"]))
    for row in by_start:
        rows.setdefault(row["name"], []).append(row)
    names = list(rows)[:_MOST]
    horizon = max(float(found["horizon_h"]), 1.0)
    height = _TOP + _ROW * len(names) + _BOTTOM
    scale = (_WIDTH - _LEFT - 10) / horizon
    title = say("fleet.chart_title", lang, name=found["name"])
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}" font-family="sans-serif" font-size="11">',
        f'<text x="4" y="16" font-size="13" fill="currentColor">{escape(title)}</text>',
    ]
    days = horizon / _HOURS_PER_DAY
    step = next(step for step in (1, 2, 7, 14, 28, 91, 182, 365) if days / step <= 16 or step == 365)
    for day in range(0, int(days) + 1, step):
        x = _LEFT + day * _HOURS_PER_DAY * scale
        out.append(f'<line x1="{x:.1f}" y1="{_TOP - 6}" x2="{x:.1f}" y2="{height - _BOTTOM}" stroke="currentColor" stroke-opacity="0.15"/>')
        out.append(f'<text x="{x:.1f}" y="{height - _BOTTOM + 14}" text-anchor="middle" fill="currentColor">{day}</text>')
    for number, name in enumerate(names):
        y = _TOP + number * _ROW
        out.append(f'<text x="{_LEFT - 6}" y="{y + 13}" text-anchor="end" fill="currentColor">{escape(name[:30])}</text>')
        out += [_bar(row, y, scale, lang) for row in rows[name]]
    out.append(
        f'<text x="{_WIDTH - 10}" y="{height - 4}" text-anchor="end" fill="currentColor">{escape(say("fleet.chart_days", lang, start=found["start"][:10]))}</text>'
    )
    return "\n".join([*out, "</svg>", ""])


def _bar(row: Mapping[str, Any], y: int, scale: float, lang: Lang) -> str:
    x, width = _LEFT + row["start_h"] * scale, max((row["end_h"] - row["start_h"]) * scale, 1.5)
    told = (
        f"{row['name']}: {row['count']} x {server_text(row, lang)} {row['region']}, {paid_text(row, lang)}, {row['start']} - {row['end']}"
    )
    strength = _STRENGTH.get(row["purchase"], _COMMITTED)
    colour = f'fill="currentColor" fill-opacity="{strength}"'
    return f'<rect x="{x:.1f}" y="{y + 3}" width="{width:.1f}" height="{_ROW - 6}" rx="2" {colour}><title>{escape(told)}</title></rect>'


def _rounded_up(factor: float) -> str:
    """A factor with two figures that is not less than it: one that is rounded down would not do."""
    step = 10.0 ** (math.floor(math.log10(factor)) - 1) if factor > 0 else 1.0
    return f"{math.ceil(factor / step - 1e-9) * step:.3g}"
