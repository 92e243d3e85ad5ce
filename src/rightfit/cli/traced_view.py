"""`rightfit estimate --engine traced`: from options to the traced engine, and its answer on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import terms_table
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import say_or
from rightfit.explain.plan_words import Term

if TYPE_CHECKING:
    from rightfit.estimate.traced_estimate import TracedEstimate
    from rightfit.workload.model import Workload

ENGINES = ("analytic", "traced")


def check_engine(engine: str) -> None:
    """Raise unless `engine` is one of ours."""
    if engine not in ENGINES:
        raise UnknownNameError("engine", engine, allowed="allowed are " + ", ".join(ENGINES), nearest=ENGINES[1:], field="engine")


def trace(workload: Workload, *, on: str | None, nodes: int, view: View) -> Answer:
    """Trace the workload's model for one card, or for one card of a server under FSDP."""
    from rightfit.estimate.traced_estimate import traced_estimate

    if workload.method != "full" and "method" not in workload.assumed:
        raise ContradictionError(f"method {workload.method} contradicts engine traced: it traces full training; leave the method out")
    accelerator, cards = card_of(on, view) if on else (workload.gpu[0] if workload.gpu else "", 1)
    sharded = workload.sharding in ("zero3", "fsdp")
    found = traced_estimate(
        workload.model,
        micro_batch=workload.micro_batch or 1,
        seq_len=workload.seq_len or 2048,
        dtype=workload.precision or "bf16",
        recompute=workload.recompute == "full",
        shard_degree=cards * nodes if sharded else 1,
        accelerator=accelerator,
    )
    return traced_answer(found, view)


def card_of(on: str, view: View) -> tuple[str, int]:
    """Accelerator of a server, and how many it has."""
    from rightfit.search.single import find_server, market_of_one

    catalog = open_market(view)
    servers = market_of_one(catalog, find_server(catalog, on))[0].offers.servers
    if not servers.accelerator_name[0]:
        raise InputError(f"on: {on} has no accelerator; name a server with one", field="on")
    return servers.accelerator_name[0], int(servers.num_accelerators[0])


def traced_answer(found: TracedEstimate, view: View) -> Answer:
    """Headline, terms, and whether the card holds it."""
    words: dict[str, Any] = {
        "model": found.model,
        "micro_batch": found.micro_batch,
        "seq_len": found.seq_len,
        "cards": found.shard_degree,
        "dtype": found.dtype,
        "peak": q.memory_text(found.peak_bytes),
        "params": q.count_text(found.num_parameters, view.lang),
    }
    lines = [label("traced", "headline", view.lang, **words)]
    if found.capacity_bytes is not None:
        key = "fits" if found.fits else "does_not_fit"
        lines.append(label("traced", key, view.lang, accelerator=found.accelerator, capacity=q.memory_text(found.capacity_bytes)))
    lines.append(label("traced", "caveat", view.lang))
    ordered = sorted(found.terms.items(), key=lambda term: -term[1])
    terms = [Term(name, say_or(f"terms.{name}", view.lang, name), value, value / found.peak_bytes, "") for name, value in ordered]
    table = terms_table(label("section", "memory", view.lang), terms, view.lang, show=q.memory_text, most=None)
    data = found.to_dict()
    return Answer(data, [{**{name: value for name, value in data.items() if name != "terms"}, **found.terms}], ["\n".join(lines), table])
