"""Write the published JSON Schemas under src/rightfit/schema: plan, workload, fleet, fleet-plan.
Usage: python scripts/build_schema.py [--check]

The workload inside a plan follows from its attributes; the workload file follows
from the option table.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "src"))
DRAFT = "https://json-schema.org/draft/2020-12/schema"

NUMBER, TEXT, INTEGER, FLAG = {"type": "number"}, {"type": "string"}, {"type": "integer"}, {"type": "boolean"}
COUNT = {"type": "integer", "minimum": 0}
AMOUNT = {"type": "number", "minimum": 0}
MAYBE_NUMBER = {"type": ["number", "null"]}
NEEDED = {"type": ["number", "string", "null"]}


def structure(description: str, **properties: Any) -> dict[str, Any]:
    """An object whose named properties are required (a name ending in _ is optional)
    and which may grow."""
    required = [name for name in properties if not name.endswith("_")]
    named = {name.removesuffix("_"): value for name, value in properties.items()}
    return {"type": "object", "description": description, "properties": named, "required": required}


def listing(items: dict[str, Any], description: str) -> dict[str, Any]:
    """An array."""
    return {"type": "array", "items": items, "description": description}


def mapping(values: dict[str, Any], description: str) -> dict[str, Any]:
    """An object with free keys."""
    return {"type": "object", "additionalProperties": values, "description": description}


def ref(name: str) -> dict[str, Any]:
    """A definition of this schema."""
    return {"$ref": f"#/$defs/{name}"}


def reason() -> dict[str, Any]:
    """A statement in the chosen language, or its code and parameters."""
    return {"anyOf": [TEXT, ref("coded_reason")]}


def definitions() -> dict[str, Any]:
    """The parts of a plan."""
    place = {"provider": TEXT, "region": TEXT, "instance_type": TEXT, "nodes": {"type": "integer", "minimum": 1}, "purchase": TEXT}
    degrees = {
        name: {"type": "integer", "minimum": 1} for name in ("data", "tensor", "pipeline", "expert", "context", "micro_batch", "grad_accum")
    }
    words = dict.fromkeys(("sharding", "recompute", "precision", "offload"), TEXT)
    bounds = dict.fromkeys(("mid", "low80", "high80", "low95", "high95"), MAYBE_NUMBER)
    source = {"enum": ["formula", "calibrated", "measured", "published", "extrapolated"]}
    return {
        "reason": reason(),
        "coded_reason": structure("a code and its numbers in base units", key=TEXT, params={"type": "object"}),
        "figure": structure("a predicted number in base units with its 80 % and 95 % interval", **bounds, source=source),
        "accelerator": structure("the accelerator of a server", name=TEXT, count_per_node=AMOUNT, memory_bytes=AMOUNT),
        "layout": structure("how the job is spread and run", **degrees, **words),
        "cost": structure(
            "money in US dollars; terms add up to the total",
            hourly_usd=AMOUNT,
            total_usd_=AMOUNT,
            monthly_usd_=AMOUNT,
            terms=mapping(NUMBER, "USD by term"),
            per_million_tokens_usd_=MAYBE_NUMBER,
            per_million_samples_usd_=MAYBE_NUMBER,
            per_thousand_requests_usd_=MAYBE_NUMBER,
        ),
        "option": structure(
            "one way to run the job",
            rank={"type": "integer", "minimum": 1},
            **place,
            accelerator=ref("accelerator"),
            probability=structure(
                "probabilities (0 to 1) that it fits the memory and keeps deadline and budget; null where not asked for or not known",
                **dict.fromkeys(("fits", "deadline", "budget"), MAYBE_NUMBER),
            ),
            vcpus=MAYBE_NUMBER,
            memory_bytes=MAYBE_NUMBER,
            network_gbps=MAYBE_NUMBER,
            price_as_of=TEXT,
            price_source=TEXT,
            layout=ref("layout"),
            estimate={
                **mapping(ref("figure"), "figures by name: peak_memory_bytes, step_s, tokens_per_s, mfu, total_time_s ..."),
                "properties": {"disk_bytes": ref("figure"), "peak_memory_bytes": ref("figure")},
                "required": ["disk_bytes", "peak_memory_bytes"],
            },
            memory_terms=mapping(NUMBER, "bytes of one accelerator at the peak, by term"),
            time_terms=mapping(NUMBER, "seconds of one step, by term"),
            cost=ref("cost"),
            why=listing(ref("reason"), "why it stands where it does"),
            warnings=listing(ref("reason"), "what to take care of"),
        ),
        "point": structure(
            "a point of the cost-time front", **place, accelerator=ref("accelerator"), total_usd=AMOUNT, total_time_s=AMOUNT
        ),
        "rejection": structure(
            "offers refused by one criterion, with the nearest miss",
            criterion=TEXT,
            count=COUNT,
            needed=NEEDED,
            had=NEEDED,
            example=TEXT,
            nearest={
                "anyOf": [
                    {"type": "null"},
                    structure("the offer that came nearest", **place, needed=NEEDED, had=NEEDED, change=ref("reason")),
                ]
            },
        ),
        "assumption": structure("a default that was taken", field=TEXT, value={}, why=ref("reason")),
    }


def workload_attributes() -> dict[str, Any]:
    """The attributes of a workload as a plan gives them."""
    from pydantic import ConfigDict, create_model

    from rightfit.workload.fields import attribute_fields
    from rightfit.workload.model import Workload

    fields: dict[str, Any] = attribute_fields()
    model: Any = create_model("Workload", __config__=ConfigDict(extra="forbid"), __doc__=Workload.__doc__, **fields)
    found: dict[str, Any] = model.model_json_schema()
    return found


def plan_schema() -> dict[str, Any]:
    """The plan as `rightfit plan --format json` prints it."""
    workload = workload_attributes()
    workload["description"] = "what was asked for, in base units; attributes that are not set are left out"
    top = structure(
        "A ranked, priced, explained server plan. All numbers are in base units (bytes, seconds, US dollars).",
        schema_version={"const": 1},
        workload=workload,
        assumptions=listing(ref("assumption"), "defaults that were taken, with why"),
        options=listing(ref("option"), "ranked, best first; empty when nothing is feasible"),
        pareto=listing(ref("point"), "the front of cost and time"),
        rejected=listing(ref("rejection"), "what was refused, by criterion"),
        advice=listing(ref("reason"), "what would do with less, or make it feasible"),
        rules_=listing({"type": "object"}, "rules of thumb of well-known posts beside our own figures: holds, fails, misleading, unknown"),
        unfit_={
            "anyOf": [{"type": "null"}, ref("option")],
            "description": "of estimate: the setup that needs least memory, where none fits",
        },
        blame_=listing(listing(TEXT, "criteria"), "the smallest sets of criteria that exclude everything"),
        sections_=mapping(
            {"type": "object"},
            "further parts by name: buy and bill of every answer with an option; of serving plans api, serverless, spot, formats, fleet, disaggregated ...",
        ),
        counts_=mapping(COUNT, "how much was looked at"),
        catalog={"type": "object", "description": "date of the newest price by provider, and more"},
    )
    return {"$schema": DRAFT, "title": "rightfit plan", **top, "$defs": definitions()}


def option_schema(option: Any) -> dict[str, Any]:
    """One key of a workload file."""
    text = {"type": "string", "examples": [option.example]}
    words = list(option.vocabulary.words) if option.vocabulary else []
    form: dict[str, Any] = {
        "word": {"enum": words} if words else text,
        "words": {"anyOf": [text, {"type": "array", "items": {"enum": words}}]},
        "names": {"anyOf": [text, {"type": "array", "items": TEXT}]},
        **{
            key: {"type": ["number", "string"], "examples": [option.example]}
            for key in ("count", "number", "length", "lengths", "percent", "share")
        },
    }.get(option.kind, text)
    return {"description": option.help, **form}


def workload_schema() -> dict[str, Any]:
    """A workload file, for editors: option names and friendly values."""
    from rightfit.workload.options import OPTIONS

    return {
        "$schema": DRAFT,
        "title": "rightfit workload file",
        "description": "What `rightfit plan --file` reads and `--save` writes: the options of `rightfit plan` by name.",
        "type": "object",
        "properties": {"schema_version": {"const": 1}, **{name: option_schema(option) for name, option in OPTIONS.items()}},
        "additionalProperties": False,
    }


def fleet_schema() -> dict[str, Any]:
    """A fleet file, for editors; workloads are those of the workload file."""
    from rightfit.fleets.sources import FleetRecord

    schema = FleetRecord.model_json_schema()
    workload = {"type": "object", "properties": workload_schema()["properties"], "additionalProperties": False}
    for name in ("JobRecord", "ServiceRecord"):
        schema["$defs"][name]["properties"]["workload"] = {"$ref": "#/$defs/Workload"}
    schema["properties"]["defaults"] = {"$ref": "#/$defs/Workload"}
    for name, key in (("LimitRecord", one) for one in ("quota", "clouds", "regions", "sellers", "purchase")):
        listed = schema["$defs"][name]["properties"][key]
        listed["anyOf"] = [{"type": "string"}, {"type": "array", "items": listed.pop("items")}]
        listed.pop("type")
    schema["$defs"]["Workload"] = workload
    about = "What `rightfit fleet` reads: jobs, services, what is owned, limits."
    return {"$schema": DRAFT, **schema, "title": "rightfit fleet file", "description": about}


def fleet_plan_schema() -> dict[str, Any]:
    """The plan of a fleet as `rightfit fleet --format json` prints it."""
    place = {"provider": TEXT, "instance_type": TEXT, "region": TEXT, "purchase": TEXT}
    rows = {"type": "object"}
    placement = structure(
        "where a job or service runs, when, and how it is paid",
        **{
            "name": TEXT,
            "kind": {"enum": ["job", "service", "server"]},
            "count": COUNT,
            **place,
            "servers": COUNT,
            "start": TEXT,
            "end": TEXT,
        },
        **dict.fromkeys(("start_h", "end_h", "cost_usd"), AMOUNT),
    )
    purchase = structure(
        "a commitment or a capacity block, with its break-even",
        **{**place, "count": COUNT, "start": TEXT, "end": TEXT, "team": TEXT},
        **dict.fromkeys(("usd_per_h", "term_h", "owed_usd", "cost_usd", "utilisation"), AMOUNT),
        **dict.fromkeys(("break_even_share", "break_even_months"), MAYBE_NUMBER),
    )
    top = structure(
        "One plan to buy and place many jobs and services. Money in US dollars, times in hours from the start and as dates.",
        schema_version={"const": 1},
        kind={"const": "fleet"},
        name=TEXT,
        start=TEXT,
        horizon_h=AMOUNT,
        period_h=AMOUNT,
        cost=structure(
            "money",
            total_usd=AMOUNT,
            terms=mapping(NUMBER, "USD by way to pay"),
            own_best_usd=AMOUNT,
            own_best_feasible=FLAG,
            greedy_usd=MAYBE_NUMBER,
        ),
        bound_usd=AMOUNT,
        gap=AMOUNT,
        placements=listing(placement, "by start"),
        purchases=listing(purchase, "what to buy"),
        calendar=listing(rows, "one bar a placement"),
        unplaced=listing(
            structure("what is left out", name=TEXT, count=COUNT, why={"enum": ["no_server", "too_slow", "no_room", "waits"]}),
            "empty where all is placed",
        ),
        **{name: listing(rows, meaning) for name, meaning in _FLEET_LISTS.items()},
        moves_={"type": "object", "description": "against the last plan"},
        futures_={
            "type": "object",
            "description": "what is bought, judged by draws of prices, demand and stock: mean and greatest regret of each way to buy",
        },
    )
    return {"$schema": DRAFT, "title": "rightfit fleet plan", **top}


_FLEET_LISTS = {
    "considered": "commitments that were looked at and not bought",
    "utilisation": "of what is owned, quotas and budgets",
    "shadow_prices": "what more of each limit saves",
    "limit_costs": "what each limit costs",
    "deadlines": "what a day more saves",
    "scenarios": "what a wrong price, or a server that cannot be had, changes",
    "relaxations": "the least changes that would place everything",
    "assumptions": "defaults that were taken",
}


def build() -> dict[Path, str]:
    """Path -> text of each schema."""
    folder = ROOT / "src/rightfit/schema"
    schemas = {"plan": plan_schema(), "workload": workload_schema(), "fleet": fleet_schema(), "fleet-plan": fleet_plan_schema()}
    return {folder / f"{name}.schema.json": json.dumps(schema, indent=2, ensure_ascii=False) + "\n" for name, schema in schemas.items()}


def main() -> None:
    """Write or check."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    for path, text in build().items():
        if options.check and (not path.exists() or path.read_text(encoding="utf-8") != text):
            raise SystemExit(f"{path.relative_to(ROOT)} is behind the code; run python scripts/build_schema.py")
        if not options.check:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
