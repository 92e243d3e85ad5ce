"""The answers of each route as JSON: every function here calls the library and lays
nothing out of its own."""

from __future__ import annotations

import dataclasses
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import api, lookup
from rightfit.errors import InputError
from rightfit.explain.beside.questions import without_questions
from rightfit.explain.beside.settled import Asked, settle
from rightfit.explain.questions import question_or_open_wish
from rightfit.explain.voices import plan_document, verdict_document
from rightfit.messages import Lang, Message, at_place

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.workload.model import Workload

_ZIP_DATE = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive


def workload_of(values: Mapping[str, Any]) -> Workload:
    """The workload of a question: options, or plain words with options beside them."""
    return _read(values, lambda sentence, _: Asked(without_questions(sentence).wish))[0]


def settled(values: Mapping[str, Any], catalog: Catalog) -> tuple[Workload, Asked]:
    """The same with the cheaper of two ways between which the words ask to choose, and what they
    ask beside it."""
    return _read(values, lambda sentence, wishes: settle(sentence, catalog, wishes))


def _read(values: Mapping[str, Any], taken_apart: Callable[[str, Mapping[str, Any]], Asked]) -> tuple[Workload, Asked]:
    wishes = {name: value for name, value in values.items() if value is not None}
    sentence = wishes.pop("ask", None)
    asked = taken_apart(sentence, wishes) if sentence else Asked("")
    said = api.understand(asked.wish).settled() if sentence else {}
    return api.read_workload(None, {**said, **asked.chosen, **wishes}), asked


def plan(
    workload: Workload, asked: Asked, *, top: int, simulate: bool, staged: bool = False, lang: Lang, catalog: Catalog
) -> dict[str, Any]:
    """A ranked plan, with the answers to what the sentence asks beside its wish."""
    found = api.plan(workload, catalog=catalog, top=top, simulate=simulate, staged=staged)
    told = asked.lines(found, catalog, lang)
    return {**plan_document(found, lang, catalog=catalog), **({"answers": told} if told else {})}


def question(values: Mapping[str, Any], lang: Lang, catalog: Catalog) -> dict[str, Any] | None:
    """The answer to a sentence that asks what something is, costs or is worth; None of a wish."""
    told = question_or_open_wish(values["ask"], catalog) if set(values) == {"ask"} else None
    return None if told is None else {"options": [], **listed([told.to_dict(lang=lang)])}


def fleet(
    values: Mapping[str, Any],
    *,
    last: Mapping[str, Any] | None,
    futures: int = 0,
    most: int,
    seconds: float,
    lang: Lang,
    catalog: Catalog,
) -> dict[str, Any]:
    """One plan for many jobs and services, with its sentences in `text` and its
    calendar in `chart` (SVG)."""
    from rightfit.explain.fleet_text import calendar_svg, parts
    from rightfit.fleets.sources import lines_of

    lines = lines_of(values)
    if lines > most:
        raise InputError(Message("rest.too_many_lines", lines=lines, most=most), field="fleet", allowed=f"at most {most}")
    found = api.fleet(values, catalog=catalog, seconds=seconds, processes=1, last=last, futures=futures).to_dict()
    told = [line for part in parts(found, lang, verbose=True) if isinstance(part, str) for line in part.splitlines()]
    return {**found, "text": told, "chart": calendar_svg(found, lang)}


def estimate(workload: Workload, *, on: str, nodes: int, lang: Lang, catalog: Catalog) -> dict[str, Any]:
    """One given server."""
    return plan_document(api.estimate(workload, on=on, nodes=nodes, catalog=catalog), lang, catalog=catalog)


def why(workload: Workload, *, server: str, lang: Lang, catalog: Catalog) -> dict[str, Any]:
    """Why a server was or was not chosen."""
    return verdict_document(api.why(server, workload, catalog=catalog), lang)


def check(claims: Sequence[str], *, lang: Lang, catalog: Catalog) -> dict[str, Any]:
    """What holds of names and claims."""
    return listed([result.to_dict(lang=lang) for result in api.check(claims, catalog=catalog)])


def understood(sentence: str, lang: Lang = "en") -> dict[str, Any]:
    """What plain words say."""
    found = api.understand(sentence)
    return {**dataclasses.asdict(found), "assumed": [one.text(lang) for one in found.assumed], "wishes": found.wishes}


def models(q: str, kind: str | None) -> list[Any]:
    """Models."""
    return [lookup.model_record(record) for record in api.models(q, kind=kind)]


def accelerators(q: str) -> list[Any]:
    """Accelerators."""
    return list(api.accelerators(q))


def datasets(q: str) -> list[Any]:
    """Data sets."""
    return list(api.datasets(q))


def servers(q: str, *, cloud: str, gpu: str, catalog: Catalog) -> list[Any]:
    """Server types."""
    return lookup.servers(q, cloud=cloud, gpu=gpu, catalog=catalog).rows()


def prices(
    q: str, *, limit: int, offset: int, cloud: str, gpu: str, region: str, country: str, purchase: str, catalog: Catalog
) -> dict[str, Any]:
    """Prices, cheapest first; only those asked for are laid out."""
    found = lookup.prices(q, cloud=cloud, gpu=gpu, region=region, country=country, purchase=purchase, limit=offset + limit, catalog=catalog)
    return listed(found.rows()[offset:], total=found.total)


def providers(q: str, *, lang: Lang, catalog: Catalog) -> list[Any]:
    """Providers side by side."""
    from rightfit.search import servers as places

    return places.providers(catalog, asked=q.replace(",", " ").split(), lang=lang)


def regions(q: str, *, cloud: str, country: str, residency: str, near: str, catalog: Catalog) -> list[Any]:
    """Regions."""
    from rightfit.search import servers as places

    names = {name: lookup.read_names(name, value) for name, value in (("cloud", cloud), ("country", country), ("residency", residency))}
    return places.regions(catalog, q, near=near, **names)


def targets() -> dict[str, Any]:
    """What a plan can be exported to."""
    from rightfit import exports

    return listed(
        [
            {"target": found.name, "group": found.group, "summary": found.summary, "checked_by": found.checked_by}
            for found in exports.all_targets().values()
        ]
    )


def files(plan: Any, values: Mapping[str, Any]) -> dict[str, str]:
    """The files that start an option of a plan."""
    from rightfit import exports

    settings = exports.ExportSettings(
        name=values["name"],
        ssh_cidr=values["ssh_cidr"],
        bucket=values["bucket"],
        data_path=values["data_path"],
        stop_after_h=values["stop_after"],
        queue=values["queue"],
        revision=values["revision"],
        columns=values["data_columns"],
        then=values["then"],
        limits=values["limits"],
    )
    job = exports.job_of(exports.plan_document(plan), rank=values["option"], settings=settings)
    return dict(exports.files_of(job, values["to"]))


def archive(files: Mapping[str, str]) -> bytes:
    """Files as one zip archive."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        for path, text in files.items():
            bundle.writestr(zipfile.ZipInfo(path, _ZIP_DATE), text.encode("utf-8"), zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def listed(items: Sequence[Any], *, total: int | None = None) -> dict[str, Any]:
    """A list as an object, so that it can grow."""
    return {"total": len(items) if total is None else total, "items": list(items)}


def checked_runs(given: Sequence[Any]) -> list[dict[str, Any]]:
    """Run records as they are kept: valid, without secrets, under the id of their content. Raises
    InputError with the number of the one at fault."""
    from rightfit.errors import InputError, RightfitError
    from rightfit.measure.evidence import refuse_impossible
    from rightfit.measure.record import document, run_of, sealed
    from rightfit.proof.predict import predict

    found = []
    for number, one in enumerate(given, start=1):
        try:
            run = sealed(run_of(one, where=f"record {number}"))
            refuse_impossible([run], lambda rows: predict(rows))
            found.append(document(run))
        except RightfitError as error:
            raise InputError(at_place("runs", error.message), field="runs") from None
    return found


def runs(measured: Sequence[Mapping[str, Any]], plans: Mapping[str, Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """Measurements of saved plans as run records; `plans`: saved plans by id (None for one that was
    deleted meanwhile)."""
    from rightfit.measure.own_runs import run_of_measurement
    from rightfit.measure.record import document

    found = []
    for item in measured:
        plan = plans.get(item["plan_id"])
        if plan is not None:
            named = {"option": item["option"], "name": item["figure"], "value": item["value"], "started": item["saved_at"]}
            run = run_of_measurement(plan["document"], **named, where=f"measurement {item['id']}")
            found += [document(run)] if run else []
    return found
