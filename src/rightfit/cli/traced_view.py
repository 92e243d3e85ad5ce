"""`rightfit estimate --engine traced`: from options to the traced engine, and its answer on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rightfit.cli.aside import printing_aside
from rightfit.cli.market import open_market
from rightfit.cli.output import Answer, View
from rightfit.cli.plan_view import terms_table
from rightfit.errors import ContradictionError, InputError, UnknownNameError
from rightfit.explain import quantities as q
from rightfit.explain.labels import label
from rightfit.explain.messages import say_or
from rightfit.explain.plan_words import Term
from rightfit.messages import Message, of_kind
from rightfit.search.honours import Honours, leave_out, refuse_unheeded
from rightfit.workload.options import OPTIONS

if TYPE_CHECKING:
    from rightfit.estimate.traced_estimate import TracedEstimate
    from rightfit.workload.model import Workload

#: What one step of training reads; the rest of a plan's options is not looked at, and so refused.
READ = Honours(
    frozenset({"model", "task", "method", "micro_batch", "seq_len", "precision", "recompute", "sharding", "gpu"}),
    because=dict.fromkeys(OPTIONS, leave_out("one_step")),
    against=lambda _workload: of_kind("engine", "traced"),
    of_all=frozenset(),
)
ENGINES = ("analytic", "traced")


def check_engine(engine: str) -> None:
    """Raise unless `engine` is one of ours."""
    if engine not in ENGINES:
        raise UnknownNameError(
            "engine", engine, allowed=Message("names.part_allowed_are", names=", ".join(ENGINES)), nearest=ENGINES[1:], field="engine"
        )


def trace(workload: Workload, *, on: str | None, nodes: int, view: View) -> Answer:
    """Trace the workload's model for one card, or for one card of a server under FSDP."""
    from rightfit.estimate.traced_estimate import traced_estimate

    if workload.method is None:  # nothing is trained
        raise ContradictionError(Message("cli.traced_option", option="task", word=workload.task, other="task"), field="task")
    if workload.method != "full" and "method" not in workload.assumed:
        raise ContradictionError(Message("cli.traced_option", option="method", word=workload.method, other="method"), field="method")
    refuse_unheeded(workload, READ)
    if on and workload.gpu:
        raise ContradictionError(Message("cli.gpu_and_on", server=on), field="gpu")
    accelerator, cards = card_of(on, view) if on else (workload.gpu[0] if workload.gpu else "", 1)
    sharded = workload.sharding in ("zero3", "fsdp")
    with printing_aside():  # the user's module runs, and may print
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
    from rightfit.search.verdict import find_server, market_of_one

    catalog = open_market(view)
    servers = market_of_one(catalog, find_server(catalog, on))[0].offers.servers
    if not servers.accelerator_name[0]:
        raise InputError(Message("cli.on_without_card", server=on), field="on")
    return servers.accelerator_name[0], int(servers.num_accelerators[0])


def traced_answer(traced: TracedEstimate, view: View) -> Answer:
    """Headline, terms, and whether the card holds it."""
    words: dict[str, Any] = {
        "model": traced.model,
        "micro_batch": traced.micro_batch,
        "seq_len": traced.seq_len,
        "cards": traced.shard_degree,
        "dtype": traced.dtype,
        "peak": q.memory_text(traced.peak_bytes),
        "params": q.count_text(traced.num_parameters, view.lang),
    }
    lines = [label("traced", "headline", view.lang, **words)]
    if traced.capacity_bytes is not None:
        key = "fits" if traced.fits else "does_not_fit"
        lines.append(label("traced", key, view.lang, accelerator=traced.accelerator, capacity=q.memory_text(traced.capacity_bytes)))
    lines.append(label("traced", "caveat", view.lang))
    ordered = sorted(traced.terms.items(), key=lambda term: -term[1])
    terms = [Term(name, say_or(f"terms.{name}", view.lang, name), value, value / traced.peak_bytes, "") for name, value in ordered]
    table = terms_table(label("section", "memory", view.lang), terms, view.lang, show=q.memory_text, most=None)
    data = traced.to_dict()
    return Answer(data, [{**{name: value for name, value in data.items() if name != "terms"}, **traced.terms}], ["\n".join(lines), table])
