"""The public functions of rightfit: one for each command but the two servers (serve, mcp), typed,
returning values and never printing.

Every function is thin: it reads the request, calls the room that does the work, and
hands back its result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from rightfit.messages import Message
from rightfit.signatures import refusing_unknown

if TYPE_CHECKING:
    from rightfit.answers import Plan, Verdict
    from rightfit.facts import Accelerator, Dataset, Model
    from rightfit.fleets.result import FleetPlan
    from rightfit.fleets.ways import Search
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.measure.evidence import Evidence
    from rightfit.measure.record import Run
    from rightfit.measure.resizing import Advice
    from rightfit.planner.cards import Fit
    from rightfit.proof.validate import Validation
    from rightfit.search import answer
    from rightfit.search.ownership import Machine
    from rightfit.spread.pieces import Done, Progress
    from rightfit.workload.ask import Understood
    from rightfit.workload.model import Workload
    from rightfit.workload.option_types import WorkloadOptions

Names = str | Sequence[str]
_FILE_ENDINGS = (".yaml", ".yml", ".toml")


def plan(
    workload: Workload | str | Path | None = None,
    /,
    *,
    catalog: Catalog | None = None,
    top: int | None = None,
    simulate: bool = False,
    staged: bool = False,
    runs: str | Path | None = None,
    have: str | None = None,
    **options: Unpack[WorkloadOptions],
) -> Plan:
    """Rank servers for a workload.

    >>> plan("meta-llama/Meta-Llama-3-8B", method="qlora", data="50Mtok", deadline="24h")
    >>> plan("7B", task="serve", rate="5/s", ttft="300ms", cloud=["aws", "gcp"])
    >>> plan("workload.yaml", budget="1500cny")

    `workload` is a model name, a workload file (a `Path`, or text ending in .yaml, .yml or .toml),
    a saved plan (plan.json) or a `Workload`. `options` are those of `rightfit plan --help` with
    underscores: task, method, data, rate, deadline, budget, cloud, gpu, region, purchase, seq_len,
    ... (all of them: `help(rightfit.workload.option_types.WorkloadOptions)`).

    `top`: number of options to return. `simulate`: also simulate each option of a service.
    `staged`: add the smallest trial run that would confirm the plan, in `.sections`. `runs`: a
    folder of run records, a file or a store ("mine" is your own); predictions are corrected by
    these runs. `have`: your own machine ("2xRTX-3090@home"): the plan on it, compared with the best
    rental. `catalog`: servers and prices to use instead of the default.

    The result shows itself in a terminal and in a notebook. It has `.best` (None when nothing is
    feasible), `.options`, `.pareto`, `.rejected`, `.advice`, `.export()`, `.launch()`,
    `.to_dataframe()`, `.to_html()`, `.to_dict()` and `.to_json()`. Raises `InputError` for an
    option that cannot be read.
    """
    from rightfit.answers import plan_of

    if have is not None:
        from rightfit.planner.cards import plan_on_own
        from rightfit.planner.plan import default_catalog

        more: dict[str, Any] = {"top": top, "simulate": simulate, "staged": staged, "runs": runs}
        return plan_of(plan_on_own(read_workload(workload, options), have, plan, catalog or default_catalog(), **more))
    return plan_of(_planned(workload, catalog=catalog, top=top, simulate=simulate, staged=staged, runs=runs, wishes=options))


def _planned(
    workload: Workload | str | Path | None,
    *,
    catalog: Catalog | None,
    top: int | None,
    simulate: bool,
    staged: bool,
    runs: str | Path | None,
    wishes: Mapping[str, Any],
) -> answer.Plan:
    from rightfit.planner.plan import TOP
    from rightfit.planner.plan import plan as search_plan

    shown = TOP if top is None else top
    if runs is None:
        found = search_plan(read_workload(workload, wishes), catalog=catalog, simulate=simulate, top=shown)
    else:
        from rightfit.measure.own_runs import MOST_OPTIONS, with_runs

        evidence = _evidence(runs)
        found = search_plan(read_workload(workload, wishes), catalog=catalog, simulate=simulate, top=max(shown, MOST_OPTIONS))
        found = with_runs(found, evidence, top=shown)
    if not staged:
        return found
    from rightfit.planner.staged import with_trial

    return with_trial(found, catalog)


def _evidence(runs: str | Path) -> Evidence:
    from rightfit.measure.store import runs_at
    from rightfit.proof.predict import evidence

    return evidence(runs_at(runs))


def estimate(
    workload: Workload | str | Path | None = None,
    /,
    *,
    on: str,
    nodes: int = 1,
    catalog: Catalog | None = None,
    runs: str | Path | None = None,
    **options: Unpack[WorkloadOptions],
) -> Plan:
    """Predict memory, time and cost of a workload on one server, without a search.

    >>> estimate("7B", method="qlora", data="50Mtok", on="aws/p4d.24xlarge")

    `on`: the server, as PROVIDER/INSTANCE_TYPE. `nodes`: number of servers. `workload`, `runs` and
    `options` as in `plan`.
    """
    from rightfit.answers import plan_of
    from rightfit.planner.given import estimate_one

    found = estimate_one(read_workload(workload, options), on=on, nodes=nodes, catalog=catalog)
    if runs is None:
        return plan_of(found)
    from rightfit.measure.own_runs import with_runs

    return plan_of(with_runs(found, _evidence(runs), top=len(found.options)))


def resize(
    runs: str | Path | Run | Sequence[Run], /, *, tests: int = 2, catalog: Catalog | None = None, **options: Unpack[WorkloadOptions]
) -> Advice:
    """Find the bottleneck of measured runs of one job, free changes, the server to rent, and
    whether another test pays off.

    `runs`: as in `plan`, a log or table that `ingest` reads, or one or more run records. Set the
    amount of work with `data`, `rate` or `users`; without it no servers are compared. Other options
    default to those of the runs.
    `tests`: number of further test runs you can spend.
    """
    from rightfit.errors import InputError
    from rightfit.measure.ingest import measured_runs
    from rightfit.measure.own_runs import with_runs
    from rightfit.measure.record import Run, wishes_of
    from rightfit.measure.resizing import MOST_OPTIONS, resize
    from rightfit.proof.predict import evidence
    from rightfit.proof.predict import predict as predict_rows

    for name in options:
        _refuse_of_command(name)
    records = measured_runs(runs) if isinstance(runs, str | Path) else [runs] if isinstance(runs, Run) else list(runs)
    if not records:
        raise InputError(Message("units.resize_without_run"), field="runs")
    found = None
    if options.get("data") or options.get("rate") or options.get("users"):
        known: dict[str, Any] = {**wishes_of(records), **{name: value for name, value in options.items() if value is not None}}
        if "model" not in known:
            raise InputError(Message("units.no_model_of_run"), field="model")
        found = with_runs(plan(catalog=catalog, top=MOST_OPTIONS, **known), evidence(records), top=MOST_OPTIONS)
    return resize(records, found, lambda rows: predict_rows(rows), tests=tests)


def why(
    server: str, workload: Workload | str | Path | None = None, /, *, catalog: Catalog | None = None, **options: Unpack[WorkloadOptions]
) -> Verdict:
    """Explain why a server was or was not chosen, and the smallest change that would alter it.

    >>> why("aws/g5.xlarge", "7B", method="qlora", data="50Mtok")

    `server`: PROVIDER/INSTANCE_TYPE, or an accelerator ("L4", "8xH100") or a cloud ("gcp"), judged
    by its best server; or a saved plan alone, judged by its first option. `workload` and `options`
    as in `plan`.
    """
    from rightfit.answers import verdict_of
    from rightfit.planner.given import why as why_server
    from rightfit.workload.model import chosen_server

    if workload is None and (chosen := chosen_server(server)):
        server, workload = chosen, server
    return verdict_of(why_server(read_workload(workload, options), server, catalog=catalog))


@refusing_unknown
def fleet(
    source: str | Path | Mapping[str, Any],
    /,
    *,
    catalog: Catalog | None = None,
    seconds: float = 20.0,
    processes: int | None = None,
    reasons: bool = True,
    last: str | Path | Mapping[str, Any] | None = None,
    runs: str | Path | None = None,
    on: str | None = None,
    workers: int | None = None,
    futures: int = 0,
) -> FleetPlan:
    """Plan many jobs and services together: where and when each runs, and what to buy.

    `source`: a fleet file (YAML, JSON, CSV) or the same as a mapping. `seconds`: time limit of the
    optimizer. `processes`: number of search processes (default: one per core). `reasons`: also
    report what limits cost and how sensitive the plan is to prices. `last`: the previous plan
    (JSON), whose running jobs stay where they are. `runs` as in `plan`: they correct the duration
    of training jobs. `on`, `workers`: where to run the search, as in `predict_table`. `futures`:
    number of random scenarios of prices, demand and capacity to test the purchases against.
    The result has `.to_dict()`. Raises `MissingComponentError` without the extra `fleet`.
    """
    from rightfit.fleets.planning import plan_fleet

    return plan_fleet(
        source,
        catalog=catalog,
        seconds=seconds,
        processes=processes,
        reasons=reasons,
        last=last,
        evidence=_evidence(runs) if runs else None,
        search=_elsewhere(on or "processes", workers, catalog) if on or workers else None,
        futures=futures,
    )


def _elsewhere(on: str, workers: int | None, catalog: Catalog | None) -> Search:
    from rightfit.spread.pieces import list_prices_only, searched
    from rightfit.spread.places import place_of

    place = place_of(on, workers=workers)
    list_prices_only(catalog is not None)
    return lambda questions: searched(questions, place)


def read_workload(workload: Workload | str | Path | None, wishes: Mapping[str, Any]) -> Workload:
    """A Workload from any of the forms that `plan` takes. A model of the user's own is counted
    here: module:function runs their code."""
    from rightfit.search.request_checks import settle_own_model

    for name in wishes:
        _refuse_of_command(name)
    return settle_own_model(_as_workload(workload, wishes))


def _refuse_of_command(name: str) -> None:
    """An option of the command that is no keyword here: how the same is done."""
    from rightfit.workload.options import OPTIONS

    if name in OPTIONS:
        return
    from rightfit.errors import InputError
    from rightfit.facts.tables import read_rows

    text = (Path(__file__).parent / "data" / "python_ways.csv").read_text(encoding="utf-8")
    if way := next((row["way"] for row in read_rows(text) if row["option"] == name), ""):
        raise InputError(Message("units.option_of_command", option=name, way=way), field=name)


def _as_workload(workload: Workload | str | Path | None, wishes: Mapping[str, Any]) -> Workload:
    from rightfit.workload.model import Workload, saved_plan

    if isinstance(workload, Workload):
        return workload.with_changes(**wishes) if wishes else workload
    if isinstance(workload, Path) or (isinstance(workload, str) and (workload.casefold().endswith(_FILE_ENDINGS) or saved_plan(workload))):
        return Workload.from_file(workload, **wishes)
    return Workload(**wishes) if workload is None else Workload(**{"model": workload, **wishes})


@refusing_unknown
def understand(sentence: str) -> Understood:
    """Parse a request in plain English or Chinese.

    >>> plan(**understand("fine-tune Llama-3-8B with LoRA within 2 days").wishes)

    The result also has what was read from which words, and the words that were not used.
    """
    from rightfit.workload.ask import understand as read_sentence

    return read_sentence(sentence)


@refusing_unknown
def predict(rows: Iterable[Mapping[str, Any]], *, runs: str | Path | None = None) -> list[dict[str, Any]]:
    """Predict memory or speed for each row of a table (columns as in `rightfit predict`). A
    row that cannot be predicted has the reason in `error`. `runs` as in `plan`."""
    from rightfit.proof.predict import predict as predict_rows

    if runs is None:
        return predict_rows(list(rows))
    from rightfit.measure.store import runs_at
    from rightfit.proof.predict import predict_with_runs

    return predict_with_runs(list(rows), runs_at(runs))


@refusing_unknown
def predict_table(
    source: str | Path,
    out: str | Path,
    *,
    on: str = "here",
    workers: int | None = None,
    runs: str | Path | None = None,
    progress: Progress | None = None,
) -> Done:
    """Predict every row of a CSV file and write the results to another CSV file. After an
    interruption, the same call resumes.

    `on`: "here", "processes" (on this machine), "ray" (an existing Ray cluster, else a new one) or
    "ray:HOST:PORT"; results are identical. `workers`: number of concurrent workers. `runs` as in
    `plan`. `progress(done, all, rows_per_s)` is called after each batch of rows.
    """
    from rightfit.spread.pieces import predict_table as predict_pieces
    from rightfit.spread.places import place_of

    place, known = place_of(on, workers=workers), _evidence(runs) if runs is not None else None
    return predict_pieces(Path(source), Path(out), place=place, evidence=known, progress=progress or (lambda *_: None))


def plan_table(
    source: str | Path,
    out: str | Path,
    *,
    on: str = "here",
    workers: int | None = None,
    price_book: str | Path | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Done:
    """Plan every row of a CSV file, whose columns are options of `plan` (and `id`), and write the
    best option of each to another CSV file; `options` apply to all rows.

    Other arguments as in `predict_table`. A price book is read by this process only: with
    `price_book`, `on` must be "here".
    """
    from rightfit.spread.pieces import plan_table as plan_pieces
    from rightfit.spread.places import place_of

    place = place_of(on, workers=workers)
    return plan_pieces(Path(source), Path(out), place=place, wishes=options, price_book=price_book, progress=progress or (lambda *_: None))


@refusing_unknown
def check(claims: Names, *, catalog: Catalog | None = None) -> list[CheckResult]:
    """Check whether a server, accelerator, claim ("g5.xlarge=T4") or rule of thumb ("RAM >= 4x
    VRAM") is right, and find the correct or nearest one. A pasted paragraph or table gives one
    result for each statement in it."""
    from rightfit.errors import InputError
    from rightfit.explain.questions import asked_answer, asked_first, nearest_of
    from rightfit.explain.rule_lookup import LONGEST_TEXT, is_pasted, not_judged, rule_lookup, statements_in, told_once
    from rightfit.market.check import check as check_claims

    given = [claims] if isinstance(claims, str) else list(claims)
    if any(len(text) > LONGEST_TEXT for text in given):
        raise InputError(Message("catalog.check_text_length", most=LONGEST_TEXT))
    asked = [(statement, under) for text in given for statement, under in statements_in(text).items()]
    headings = dict(asked)
    is_text = any(map(is_pasted, given))

    def rule(query: str) -> CheckResult | None:
        told = rule_lookup(query, under=headings.get(query, ""), catalog=catalog)
        return told if told is not None or is_text else asked_answer(query, catalog=catalog)

    first = {statement: None if is_text else asked_first(statement, catalog=catalog) for statement, _ in asked}
    others = iter(check_claims([statement for statement, told in first.items() if told is None], catalog=catalog, rule=rule))
    found = [first[statement] or next(others) for statement, _ in asked]
    if not is_text:
        found = [nearest_of(result, catalog=catalog) for result in found]
    # Of a pasted text, headings are left out, and what cannot be judged stands together at its end.
    told = [result for result in found if (result.claim is not None and result.exists) or (result.kind == "server" and result.exists)]
    told += [result for result in found if result not in told and result.claim in ("right", "wrong")]
    return [*told_once(told), *not_judged([result for result in found if result not in told])] if is_text else found


@refusing_unknown
def models(query: str = "", *, kind: str | None = None) -> list[Model]:
    """List models whose name or alias matches `query`, best match first; without a query, all.
    `kind`: a family (transformer, vision, diffusion, other) or a kind within one (decoder,
    encoder, ...)."""
    from rightfit import lookup

    return lookup.models(query, kind=kind)


@refusing_unknown
def accelerators(query: str = "") -> list[Accelerator]:
    """List accelerators that match a name ("A100"), or whose name, vendor or architecture contains
    all words of `query`."""
    from rightfit import lookup

    return lookup.accelerators(query)


@refusing_unknown
def datasets(query: str = "") -> list[Dataset]:
    """List datasets whose name or domain contains all words of `query`."""
    from rightfit import lookup

    return lookup.datasets(query)


@refusing_unknown
def servers(query: str = "", *, cloud: Names = (), gpu: Names = (), catalog: Catalog | None = None) -> list[dict[str, Any]]:
    """List server types, as dictionaries, whose provider, name, family or accelerator contains all
    words of `query`."""
    from rightfit import lookup

    return lookup.servers(query, cloud=cloud, gpu=gpu, catalog=catalog).rows()


@refusing_unknown
def prices(
    query: str = "",
    *,
    cloud: Names = (),
    region: Names = (),
    country: Names = (),
    gpu: Names = (),
    purchase: Names = (),
    catalog: Catalog | None = None,
) -> list[dict[str, Any]]:
    """List prices of the servers that `servers` would list, as dictionaries, cheapest first, each
    with its date and source."""
    from rightfit import lookup

    return lookup.prices(query, cloud=cloud, region=region, country=country, gpu=gpu, purchase=purchase, catalog=catalog).rows()


@refusing_unknown
def providers(*names: str, catalog: Catalog | None = None, lang: str = "en") -> list[dict[str, Any]]:
    """Compare providers (without names, all): GPUs, largest server, interconnect, pricing models,
    in-house chips, regions, price of one A100 and one H100."""
    from rightfit.planner.plan import default_catalog
    from rightfit.search import servers as market

    return market.providers(catalog or default_catalog(), asked=names, lang=lang)


@refusing_unknown
def regions(
    query: str = "",
    *,
    cloud: Names = (),
    country: Names = (),
    residency: Names = (),
    near: str = "",
    catalog: Catalog | None = None,
) -> list[dict[str, Any]]:
    """List regions whose name contains `query`: names in both languages, country, jurisdiction,
    accelerated server types and, with `near` (a place), their distance."""
    from rightfit.lookup import read_names
    from rightfit.planner.plan import default_catalog
    from rightfit.search import servers as market

    return market.regions(
        catalog or default_catalog(),
        query,
        cloud=read_names("cloud", cloud),
        country=read_names("country", country),
        residency=read_names("residency", residency),
        near=near,
    )


@refusing_unknown
def fit(cards: Names, *, count: int | None = None, task: str = "", catalog: Catalog | None = None) -> list[Fit]:
    """List the models that fit your own GPU ("RTX-4090", "2xRTX-3090", or several separated by
    commas), for serving and each fine-tuning method. `task`: only "serve" or only "finetune"."""
    from rightfit.errors import InputError
    from rightfit.planner.cards import fits_of

    named = cards.split(",") if isinstance(cards, str) else list(cards)
    machines = [_machine(name, count) for name in named if name.strip()]
    if not machines:
        raise InputError(Message("cli.fit_no_card"), field="gpu")
    return [one for machine in machines for one in fits_of(machine, task=task, catalog=catalog)]


def _machine(text: str, count: int | None) -> Machine:
    """The cards of a name, "2xRTX-3090" or with `count`; both must say the same."""
    import dataclasses

    from rightfit.errors import ContradictionError
    from rightfit.search.ownership import read_machine

    machine = read_machine(text)
    if count is not None and machine.count not in (1, count):
        raise ContradictionError(Message("cli.count_twice", count=count, card=text.strip()), field="count")
    return machine if count is None else dataclasses.replace(machine, count=count)


#: Figure of `own` -> how it is read, and its name in the comparison.
_FIGURES = {
    "price": ("money", "capex_usd"),
    "electricity": ("money", "electricity_usd_per_kwh"),
    "space": ("money", "space_usd_per_kw_month"),
    "staff": ("money", "staff_usd_per_year"),
    "utilisation": ("share", "utilisation"),
    "maintenance": ("share", "maintenance_share_per_year"),
    "residual": ("share", "residual_share"),
    "interest": ("share", "capital_rate"),
    "years": ("number", "years"),
    "pue": ("number", "pue"),
    "servers_per_admin": ("number", "servers_per_administrator"),
}


def own(
    target: str,
    *,
    count: int | None = None,
    rent: str | None = None,
    cloud: str | None = None,
    place: str | None = None,
    catalog: Catalog | None = None,
    **figures: str | float | None,
) -> answer.Section:
    """Buy or rent an accelerator ("H100", "8xH100") or a server ("aws/p5.48xlarge"): hourly cost of
    owning, and break-even utilization against each rental option, in `.content`.

    `figures` are the other options of `rightfit own`: price="250000usd", utilisation="60%",
    years=4, ... Raises `TypeError` for any other name.
    """
    from rightfit import facts
    from rightfit.planner.plan import default_catalog
    from rightfit.search.ownership import own_of
    from rightfit.workload.vocabulary import read_cards

    if unknown := figures.keys() - _FIGURES.keys():
        raise TypeError(f"own() got an unexpected keyword argument {min(unknown)!r}; allowed: {', '.join(_FIGURES)}")
    texts: dict[str, dict[str, Any]] = {"money": {}, "share": {}, "number": {}}
    for name, (kind, field) in _FIGURES.items():
        texts[kind][field] = figures.get(name)
    said = read_cards(target) if count is None and target[:1].isdigit() else None
    if said and facts.match_accelerators(said[1]):
        count, target = said[0], said[1]
    return own_of(target, count=count, texts=texts, rent=rent, cloud=cloud, place=place, catalog=catalog or default_catalog())


@refusing_unknown
def catalog(*, refresh: Names | None = None) -> Catalog:
    """The catalog of servers and prices: `.status()`, `.verify()`, `.all_offers()`, `.regions()`.

    `refresh`: clouds whose prices are fetched first; () fetches all that need no key. Raises
    `NetworkError` if none could be fetched.
    """
    from rightfit.planner.plan import default_catalog

    if refresh is not None:
        from rightfit.errors import NetworkError
        from rightfit.market.refresh import refresh as fetch

        outcomes = fetch((refresh,) if isinstance(refresh, str) else tuple(refresh))
        if not any(outcome.status == "refreshed" for outcome in outcomes):
            raise NetworkError("; ".join(f"{outcome.provider}: {outcome.message or outcome.status}" for outcome in outcomes))
    return default_catalog()


def export(plan: str | Path | Plan, /, to: str, **options: Any) -> dict[str, str]:
    """Write the files that start an option of a plan: {path: text}.

    >>> export(plan("meta-llama/Meta-Llama-3-8B", method="qlora"), "skypilot", out="job")

    `plan`: a plan, or its JSON file. `to`: the target, as in `rightfit export --to`. `options` as
    in `Plan.export`: option=1, out=FOLDER, force=True, name=..., bucket=...
    """
    from rightfit.answers import exported

    return exported(Path(plan) if isinstance(plan, str | Path) else plan.to_dict(), to, **options)


def launch(plan: str | Path | Plan, /, tool: str = "skypilot", **options: Any) -> None:
    """Launch an option of a plan, or of its JSON file, with SkyPilot or Terraform, without
    confirmation. `options` as in `Plan.launch`: option=1, out=FOLDER, dry_run=True (rents nothing),
    bucket=..., ..."""
    from rightfit.answers import launched

    launched(Path(plan) if isinstance(plan, str | Path) else plan.to_dict(), tool, **options)


@refusing_unknown
def validate(truth: str | Path | None = None) -> Validation:
    """Score the predictors against measured figures, by default those of the checkout. `.headline`
    maps each metric to its value."""
    from rightfit.proof.validate import validate as score

    return score(truth)
