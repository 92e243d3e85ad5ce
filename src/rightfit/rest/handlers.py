"""Where questions are taken in and answers handed out: one function for each route, from a settled
question to a response."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from rightfit import __version__
from rightfit.errors import InputError
from rightfit.explain.messages import json_bytes
from rightfit.facts.tables import constant_group
from rightfit.market.offers import today
from rightfit.messages import Lang, Message
from rightfit.records import dataclass
from rightfit.rest import answers, reading
from rightfit.rest.guard import Metrics
from rightfit.rest.reading import Refused
from rightfit.rest.settings import Settings
from rightfit.rest.work import RETRY_S, Workshop, key_of

if TYPE_CHECKING:
    from rightfit.rest.store import Store


logger = logging.getLogger("rightfit.rest")
_Answer = TypeVar("_Answer")
Question = dict[str, Any]
_STORE_THREADS = 4
_JSON = "application/json"
_SMALL_BYTES = 10_000  # a body that is read in no time
#: Of a fleet, each of whose distinct workloads is a search: how many lines, how long the optimiser
#: may think and the whole answer take [s], and how many are worked out or waited for at once.
_MOST_IN_FLEET, _FLEET_S, _FLEET_ANSWER_S, _MOST_FLEETS = 24, 5.0, 15.0, 2


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: what the query and the body say, the language of the answer, and the request for
    what else matters."""

    query: Question
    body: Question
    lang: Lang
    request: Request


class Desk:
    """The application's state: its settings, where answers are worked out, the saved
    plans and the counts."""

    def __init__(self, settings: Settings) -> None:
        self.settings, self.workshop = settings, Workshop(settings)
        few = dataclasses.replace(settings, most_waiting=_MOST_FLEETS, answer_s=min(settings.answer_s, _FLEET_ANSWER_S))
        self.fleets = Workshop(few, beside=self.workshop)
        self.metrics = Metrics(self.workshop)
        self._store: Store | None = None
        self._store_lock = threading.Lock()
        self._store_pool = ThreadPoolExecutor(max_workers=_STORE_THREADS, thread_name_prefix="rightfit-store")
        self._reading_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rightfit-reading")

    def close(self) -> None:
        """Let go of everything."""
        self.workshop.close()
        self.fleets.close()
        self._reading_pool.shutdown(wait=False, cancel_futures=True)
        self._store_pool.shutdown(wait=True, cancel_futures=True)
        if self._store is not None:
            self._store.close()

    async def apart(self, work: Callable[[], _Answer], *, size: int = _SMALL_BYTES + 1) -> _Answer:
        """What reading or writing so many bytes gives, worked out beside the event loop
        where it is much."""
        if size <= _SMALL_BYTES:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._reading_pool, work)

    def store(self) -> Store:
        """The saved plans, opened on first use."""
        from rightfit.rest.store import Store

        with self._store_lock:
            if self._store is None:
                settings = self.settings
                self._store = Store(settings.database_url, most_plans=settings.most_saved, most_bytes=settings.most_saved_bytes)
            return self._store

    async def stored(self, work: Callable[[Store], _Answer]) -> _Answer:
        """The answer of the saved plans; refused for a while where they cannot be reached."""
        from rightfit.rest.store import FullError, StoreError

        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._store_pool, lambda: work(self.store()))
        except FullError as error:
            raise Refused("full", {"most": error.most}) from None
        except StoreError as error:
            logger.error("%s", error)
            raise Refused("database", {"seconds": RETRY_S}, headers={"Retry-After": str(RETRY_S)}) from None

    async def kept(self, asked: Asked, route: str, find: Callable[[Any], Any], *parts: Any, at: Workshop | None = None) -> Response:
        """The answer of a question about the market, worked out once: `find(catalog)`; `parts` are
        all that it depends on. `at`: the workshop beside that works it out."""

        def question() -> bytes:
            return json_bytes(find(self.workshop.market.catalog()))

        return await self._answer(self._key(asked, route, parts), question, at)

    async def kept_of_workload(
        self,
        asked: Asked,
        route: str,
        find: Callable[..., Any],
        wishes: Question,
        *parts: Any,
        read: Callable[[Question, Any], tuple[Any, ...]] = lambda wishes, _: (answers.workload_of(wishes),),
        known: Callable[[Question, Lang, Any], Any] = lambda *_: None,
    ) -> Response:
        """The answer of a question about a workload, `find(workload, catalog, ...)`: worked out
        once however the workload is spelt.

        `read(wishes, catalog)` gives the workload and what else `find` takes; `known` the answer
        of a question that is about none.
        """

        def question() -> bytes:
            catalog = self.workshop.market.catalog()
            if told := known(wishes, asked.lang, catalog):
                return json_bytes(told)
            workload, *beside = read(wishes, catalog)
            key = self._key(asked, route, workload.to_dict(), parts)
            found = self.workshop.cache.get(key)
            if found is None:
                found = json_bytes(find(workload, catalog, *beside))
                self.workshop.cache.put(key, found)
            return found

        return await self._answer(self._key(asked, route, wishes, "as asked", parts), question)

    def _key(self, asked: Asked, route: str, *parts: Any) -> str:
        """The day is in it, because credits of a price book expire and "by
        Monday" depends on it."""
        return key_of(route, asked.lang, parts, self.workshop.market.version, today())

    async def _answer(self, key: str, question: Callable[[], bytes], at: Workshop | None = None) -> Response:
        found, was_kept = await self.workshop.answer(key, question, at=at)
        headers = {"x-rightfit-cache": "hit" if was_kept else "miss"}
        if not was_kept:
            # Clients stay with the process that took their connection, however idle the others are;
            # a new connection finds a free one.
            headers["connection"] = "close"
        return Response(found, media_type=_JSON, headers=headers)


# ---- plans ---------------------------------------------------------------------------------------

_OWN_FIELDS = frozenset({"top", "simulate", "staged", "lang", "on", "nodes", "server"})


def _wishes(asked: Asked) -> Question:
    """The options of a workload in a question, from its body or, without one, its query."""
    values = {**asked.query, **asked.body}
    return {name: value for name, value in values.items() if name not in _OWN_FIELDS and value is not None}


async def plan(desk: Desk, asked: Asked) -> Response:
    """Rank servers for a workload."""
    top, simulate, staged, wishes = asked.query["top"], asked.query["simulate"], asked.query["staged"], _wishes(asked)
    if top > desk.settings.most_options:
        raise InputError(Message("rest.top", most=desk.settings.most_options), field="top", allowed=f"1 to {desk.settings.most_options}")

    def find(workload: Any, catalog: Any, beside: Any) -> Any:
        return answers.plan(workload, beside, top=top, simulate=simulate, staged=staged, lang=asked.lang, catalog=catalog)

    parts = (top, simulate, staged, wishes.get("ask"))
    return await desk.kept_of_workload(asked, "plan", find, wishes, *parts, read=answers.settled, known=answers.question)


async def estimate(desk: Desk, asked: Asked) -> Response:
    """What a workload does on one given server."""
    values, wishes = {**asked.query, **asked.body}, _wishes(asked)
    on, nodes = values["on"], values["nodes"]

    def find(workload: Any, catalog: Any) -> Any:
        return answers.estimate(workload, on=on, nodes=nodes, lang=asked.lang, catalog=catalog)

    return await desk.kept_of_workload(asked, "estimate", find, wishes, on, nodes)


async def why(desk: Desk, asked: Asked) -> Response:
    """Why a server was or was not chosen."""
    server, wishes = {**asked.query, **asked.body}["server"], _wishes(asked)

    def find(workload: Any, catalog: Any) -> Any:
        return answers.why(workload, server=server, lang=asked.lang, catalog=catalog)

    return await desk.kept_of_workload(asked, "why", find, wishes, server)


async def check(desk: Desk, asked: Asked) -> Response:
    """Whether names and claims hold."""
    claims = asked.body["claims"]
    return await desk.kept(asked, "check", lambda catalog: answers.check(claims, lang=asked.lang, catalog=catalog), claims)


async def understand(desk: Desk, asked: Asked) -> Response:
    """What plain words say."""
    sentence = asked.body["sentence"]
    return await desk.kept(asked, "understand", lambda _catalog: answers.understood(sentence, asked.lang), sentence)


# ---- looking around ------------------------------------------------------------------------------


async def _list(desk: Desk, asked: Asked, route: str, find: Callable[[Any, Question], list[Any]]) -> Response:
    """A page of a list; the filters are in the query."""
    chosen = {name: value for name, value in asked.query.items() if name not in ("limit", "offset", "lang")}
    limit, offset = asked.query["limit"], asked.query["offset"]

    def page(catalog: Any) -> Any:
        found = find(catalog, chosen)
        return answers.listed(found[offset : offset + limit], total=len(found))

    return await desk.kept(asked, route, page, chosen, limit, offset)


async def models(desk: Desk, asked: Asked) -> Response:
    """Models by name or alias."""
    return await _list(desk, asked, "models", lambda _catalog, chosen: answers.models(**chosen))


async def accelerators(desk: Desk, asked: Asked) -> Response:
    """Accelerators: memory, bandwidth, rates."""
    return await _list(desk, asked, "accelerators", lambda _catalog, chosen: answers.accelerators(**chosen))


async def datasets(desk: Desk, asked: Asked) -> Response:
    """Public data sets."""
    return await _list(desk, asked, "datasets", lambda _catalog, chosen: answers.datasets(**chosen))


async def servers(desk: Desk, asked: Asked) -> Response:
    """Server types of all clouds."""
    return await _list(desk, asked, "servers", lambda catalog, chosen: answers.servers(**chosen, catalog=catalog))


async def prices(desk: Desk, asked: Asked) -> Response:
    """Prices, cheapest first."""
    chosen = {name: value for name, value in asked.query.items() if name != "lang"}
    return await desk.kept(asked, "prices", lambda catalog: answers.prices(**chosen, catalog=catalog), chosen)


async def providers(desk: Desk, asked: Asked) -> Response:
    """Providers side by side."""
    return await _list(desk, asked, "providers", lambda catalog, chosen: answers.providers(**chosen, lang=asked.lang, catalog=catalog))


async def regions(desk: Desk, asked: Asked) -> Response:
    """Regions: names, country, law, distance."""
    return await _list(desk, asked, "regions", lambda catalog, chosen: answers.regions(**chosen, catalog=catalog))


async def targets(desk: Desk, asked: Asked) -> Response:
    """What a plan can be exported to."""
    return await desk.kept(asked, "targets", lambda _catalog: answers.targets())


# ---- files ---------------------------------------------------------------------------------------


async def _files(desk: Desk, asked: Asked, document: Any, values: Mapping[str, Any]) -> Response:
    found = await desk.workshop.run(lambda: answers.files(document, values))
    if "application/zip" in asked.request.headers.get("accept", ""):
        disposition = f'attachment; filename="{values["name"]}.zip"'
        return Response(answers.archive(found), media_type="application/zip", headers={"Content-Disposition": disposition})
    return Response(json_bytes({"target": values["to"], "files": found}), media_type=_JSON)


async def fleet(desk: Desk, asked: Asked) -> Response:
    """Plan many jobs and services at once."""
    values, last, futures = asked.body["fleet"], asked.body["last"], asked.body["futures"]

    def find(catalog: Any) -> Any:
        return answers.fleet(values, last=last, futures=futures, most=_MOST_IN_FLEET, seconds=_FLEET_S, lang=asked.lang, catalog=catalog)

    return await desk.kept(asked, "fleet", find, values, last, futures, at=desk.fleets)


async def export(desk: Desk, asked: Asked) -> Response:
    """The files that start a plan."""
    return await _files(desk, asked, asked.body["plan"], asked.body)


async def export_saved(desk: Desk, asked: Asked) -> Response:
    """The files that start a saved plan."""
    return await _files(desk, asked, (await _saved(desk, asked))["document"], asked.query)


# ---- saved plans ---------------------------------------------------------------------------------


async def _saved(desk: Desk, asked: Asked) -> dict[str, Any]:
    id_ = str(asked.request.path_params["id"])[:40]
    found = await desk.stored(lambda store: store.plan(id_)) if id_.isascii() and id_.isprintable() else None
    if found is None:
        raise Refused("no_plan", {"id": id_.encode("ascii", "backslashreplace").decode()})
    return found


async def save_plan(desk: Desk, asked: Asked) -> Response:
    """Keep a plan."""
    from rightfit.exports import plan_document

    document, name = asked.body["plan"], asked.body["name"]
    await desk.apart(lambda: plan_document(document))  # a plan that could not be exported is not kept
    if not name.isprintable():
        raise InputError(Message("rest.name_control"), field="name")
    saved = await desk.stored(lambda store: store.save_plan(document, name=name))
    return Response(json_bytes(saved), status_code=201, media_type=_JSON, headers={"Location": f"/api/v1/plans/{saved['id']}"})


async def list_plans(desk: Desk, asked: Asked) -> Response:
    """Saved plans, newest first."""
    items, total = await desk.stored(lambda store: store.plans(**asked.query))
    return Response(json_bytes(answers.listed(items, total=total)), media_type=_JSON)


async def read_plan(desk: Desk, asked: Asked) -> Response:
    """A saved plan."""
    found = await _saved(desk, asked)
    return Response(
        json_bytes({"id": found["id"], "name": found["name"], "saved_at": found["saved_at"], "plan": found["document"]}), media_type=_JSON
    )


async def delete_plan(desk: Desk, asked: Asked) -> Response:
    """Forget a saved plan and what was measured of it."""
    id_ = (await _saved(desk, asked))["id"]
    await desk.stored(lambda store: store.delete_plan(id_))
    return Response(status_code=204)


async def save_measurement(desk: Desk, asked: Asked) -> Response:
    """Keep what a real run of a saved plan did."""
    values = asked.body
    found = await desk.stored(lambda store: store.plan(values["plan_id"])) if values["plan_id"].isprintable() else None
    if found is None:
        raise InputError(Message("rest.no_plan"), field="plan_id")
    document = found["document"]
    await desk.apart(lambda: _check_figure(document, values["option"], values["figure"], values["value"]))
    if not values["remark"].isprintable():
        raise InputError(Message("rest.remark_control"), field="remark")
    saved = await desk.stored(lambda store: store.save_measurement(**values))
    if saved is None:  # deleted in between
        raise InputError(Message("rest.no_plan"), field="plan_id")
    return Response(json_bytes(saved), status_code=201, media_type=_JSON)


def _check_figure(document: Any, rank: int, figure: str, value: float) -> None:
    """The option must be one of the plan's, the figure one of its estimate, and the value one that
    can have been measured: no further from the estimate than evidence may be."""
    from rightfit.errors import UnknownNameError
    from rightfit.exports import plan_document
    from rightfit.workload.vocabulary import nearest_words

    estimate = plan_document(document).option(rank).estimate
    known = list(estimate)
    if figure not in known:
        near = nearest_words(figure, known, count=2)
        raise UnknownNameError(
            "figure", figure, nearest=near, allowed=Message("names.allowed_words", names=", ".join(known)), field="figure"
        )
    rule, said = constant_group("measure", "evidence"), float(estimate[figure].mid)
    least, most = said / rule["most_slower"], said * rule["most_slower"]
    if said > 0 and not least <= value <= most:
        raise InputError(
            Message("rest.impossible_figure", figure=figure, value=f"{value:g}", low=f"{least:.3g}", high=f"{most:.3g}"), field="value"
        )


async def list_measurements(desk: Desk, asked: Asked) -> Response:
    """What was measured, newest first."""
    if not asked.query["plan_id"].isprintable():
        raise InputError(Message("rest.no_plan"), field="plan_id")
    items, total = await desk.stored(lambda store: store.measurements(**asked.query))
    return Response(json_bytes(answers.listed(items, total=total)), media_type=_JSON)


def _plan_of(store: Any, *, id_: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = store.plan(id_)
    return found


async def list_runs(desk: Desk, asked: Asked) -> Response:
    """Records that were sent, then what was measured of saved plans as records (figures that are
    none of a run's are left out), each newest first; `rightfit ingest` and `--runs` read it."""
    if not asked.query["plan_id"].isprintable():
        raise InputError(Message("rest.no_plan"), field="plan_id")
    sent, num_sent = await desk.stored(lambda store: _sent_runs(store, **asked.query))
    further = {
        "plan_id": asked.query["plan_id"],
        "limit": asked.query["limit"] - len(sent),
        "offset": max(asked.query["offset"] - num_sent, 0),
    }
    items, total = await desk.stored(lambda store: store.measurements(**further))
    plans = {id_: await desk.stored(functools.partial(_plan_of, id_=id_)) for id_ in {item["plan_id"] for item in items}}
    found = await desk.workshop.run(lambda: answers.runs(items, plans))
    listed = answers.listed([*sent, *found], total=num_sent + total)
    return Response(await desk.apart(lambda: json_bytes(listed)), media_type=_JSON)


def _sent_runs(store: Any, *, plan_id: str, limit: int, offset: int) -> tuple[list[dict[str, Any]], int]:
    """Records that were sent; none of them belongs to a saved plan."""
    found: tuple[list[dict[str, Any]], int] = ([], 0) if plan_id else store.runs(limit=limit, offset=offset)
    return found


async def save_runs(desk: Desk, asked: Asked) -> Response:
    """Keep records of real runs for everybody who asks this server; secrets are taken
    out of them first."""
    found = await desk.workshop.run(lambda: answers.checked_runs(asked.body["runs"]))
    new = await desk.stored(lambda store: store.save_runs(found))
    return Response(json_bytes({"new": new, "ids": [one["id"] for one in found]}), status_code=201, media_type=_JSON)


async def delete_run(desk: Desk, asked: Asked) -> Response:
    """Forget a record that was sent."""
    id_ = str(asked.request.path_params["id"])[:40]
    if not (id_.isascii() and id_.isprintable() and await desk.stored(lambda store: store.delete_run(id_))):
        raise Refused("no_run", {"id": id_.encode("ascii", "backslashreplace").decode()})
    return Response(status_code=204)


# ---- tables --------------------------------------------------------------------------------------


async def predict(desk: Desk, asked: Asked) -> Response:
    """Predictions for a table of cases, streamed in pieces."""
    request = asked.request
    form = reading.form_of(request.headers.get("content-type", ""))
    body = await request.body()
    rows = await desk.workshop.run(lambda: reading.rows_of(body, form, most_rows=desk.settings.most_rows))
    wanted = asked.query["form"] or _accepted(request.headers.get("accept", ""), form)
    return StreamingResponse(_predictions(desk, rows, wanted), media_type=reading.MEDIA_TYPES[wanted])


def _accepted(accept: str, form: str) -> str:
    """The form that a client wants: the first that it names, else that of its question."""
    named = [name for part in accept.casefold().split(",") for name, media in reading.MEDIA_TYPES.items() if part.strip().startswith(media)]
    return named[0] if named else form


async def _predictions(desk: Desk, rows: list[Mapping[str, Any]], form: str) -> AsyncIterator[bytes]:
    columns, is_first = reading.columns_of(rows), True
    for piece in reading.pieces(rows):
        found = await _patiently(desk, functools.partial(reading.predicted, piece))
        yield reading.written(found, form, columns=columns, is_first=is_first)
        is_first = False
    yield reading.ending(form, count=len(rows))


async def _patiently(desk: Desk, question: Callable[[], _Answer]) -> _Answer:
    """A piece of an answer that has begun: it waits where the server is busy, because it can no
    longer be refused."""
    while True:
        try:
            return await desk.workshop.run(question)
        except Refused as refused:
            if refused.code != "busy":
                raise
        await asyncio.sleep(0.05)


# ---- the server itself ---------------------------------------------------------------------------


async def health(_desk: Desk, _asked: Asked) -> Response:
    """Whether the process lives."""
    return Response(json_bytes({"status": "ok", "version": __version__}), media_type=_JSON)


async def ready(desk: Desk, _asked: Asked) -> Response:
    """Whether it can answer: the prices are read and the saved plans can be reached."""
    catalog = await desk.workshop.run(lambda: desk.workshop.market.catalog().location)
    loop = asyncio.get_running_loop()
    has_store = await loop.run_in_executor(desk._store_pool, lambda: desk.store().is_ready())
    body = {"status": "ready" if has_store else "waiting", "catalog": bool(catalog), "store": has_store}
    return Response(json_bytes(body), status_code=200 if has_store else 503, media_type=_JSON)


async def metrics(desk: Desk, _asked: Asked) -> Response:
    """Counts for Prometheus."""
    return Response(desk.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")
