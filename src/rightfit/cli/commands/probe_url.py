"""rightfit probe --url: the load test of an endpoint, from options to record."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rightfit.cli.output import View, note
from rightfit.errors import InputError
from rightfit.explain.messages import say
from rightfit.messages import Message, at_place

if TYPE_CHECKING:
    from rightfit.measure.load_test.capacity import Trial

_PERCENTILES = (50, 90, 95, 99)


def load_test(url: str, asked: dict[str, Any], *, setup: dict[str, str], out: Path | None, keep: bool, view: View) -> int:
    """Trial the endpoint, say what it bears, hand over the record."""
    from rightfit.cli.commands.runs import hand_over
    from rightfit.explain.run_text import load_lines
    from rightfit.measure.load_test.capacity import measure
    from rightfit.measure.load_test.http import place_of
    from rightfit.measure.load_test.result import run_of
    from rightfit.measure.store import RunStore

    place = place_of(url)
    planned, planned_setup, server, usd = _of_plan(asked.pop("plan"), asked.pop("option"))
    given = asked.pop("usd_per_hour")
    usd = given if given is not None else usd
    test = _test({**planned, **{name: value for name, value in asked.items() if value is not None}})
    found = measure(place, test)
    known = {name: value for name, value in planned_setup.items() if name not in ("input_tokens", "output_tokens")}
    run = run_of(found, test, place, setup={**known, **setup}, server=server, usd_per_h=usd)
    note("\n".join(load_lines(found, test, usd, view.lang)), view)
    if keep:
        store = RunStore()
        note(say("measure.kept", view.lang, count=store.save([run]), total=1, path=store.path), view)
    hand_over([run], out, view)
    return 0


def _of_plan(path: Path | None, rank: int) -> tuple[dict[str, Any], dict[str, str], dict[str, Any], float | None]:
    """What a plan's option says: wish, set-up, server, USD per hour of all its servers."""
    if path is None:
        return {}, {}, {}, None
    from rightfit.export.document import read_plan
    from rightfit.measure.from_plan import service_of
    from rightfit.measure.readers.item import number

    document = read_plan(path)
    if document.workload.get("task") != "serve":
        raise InputError(Message("cli.plan_of_no_service", path=path), field="plan")
    option = document.option(rank).model_dump()
    wish = {name: number(document.workload.get(name)) for name in ("input_tokens", "output_tokens", "ttft_s", "tpot_s")}
    setup, server = service_of({"workload": document.workload}, option)
    return {name: value for name, value in wish.items() if value is not None}, setup, server, option["cost"]["hourly_usd"]


def _test(asked: dict[str, Any]) -> Trial:
    from rightfit.measure.load_test.capacity import Trial

    variable = asked.pop("key_env", None)
    if variable and variable not in os.environ:
        raise InputError(Message("cli.key_variable", variable=variable), field="key_env")
    for name in ("input_tokens", "output_tokens"):
        if name not in asked:
            raise InputError(Message("cli.url_lacks", option=f"--{name.replace('_', '-')}"), field=name)
        asked[name] = int(asked[name])
    seconds = {name: _seconds(asked.pop(option), option) for name, option in _DURATIONS.items() if option in asked}
    percentile = asked.pop("percentile", 95)
    if percentile not in _PERCENTILES:
        raise InputError(
            Message("cli.not_among", option="--percentile", word=percentile, allowed=", ".join(map(str, _PERCENTILES))), field="percentile"
        )
    more = {"least_requests": asked.pop("requests")} if "requests" in asked else {}
    return Trial(**{**asked, **seconds, **more}, percentile=percentile / 100.0, key=os.environ.get(variable or "", "") if variable else "")


#: Field of the test -> option.
_DURATIONS = {"ttft_s": "ttft", "tpot_s": "tpot", "level_s": "level_time", "limit_s": "time"}


def _seconds(text: str, option: str) -> float:
    from rightfit.units import SECONDS_PER_DAY, parse_duration

    shown = f"--{option.replace('_', '-')}"
    try:
        seconds = parse_duration(text)
    except InputError as error:
        raise InputError(at_place(shown, error.message), field=option) from None
    if not 1e-5 <= seconds <= SECONDS_PER_DAY:
        raise InputError(Message("cli.target_outside", option=shown, text=text), field=option)
    return seconds
