"""The plan of a fleet as files: what SkyPilot, dstack, Kueue, Karpenter, Ray, Slurm, Terraform
(`fleet_*`) and finance read. Pure, from the document alone.

The files rent, queue and count what the plan has chosen. Each job has a folder with what an export
of its own plan writes (fleet_jobs.py); where there is no such plan, or the target cannot express
it, `run.sh` in the job's folder says why and runs the user's command.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rightfit.errors import FileInputError, InputError, UnknownNameError
from rightfit.exports.fleet_files import Files, Row, in_place, most_at_once, option_of, pools_of, slug, terraform
from rightfit.exports.fleet_jobs import FleetJob, fleet_jobs, ray, slurm, start_script, submit_script
from rightfit.exports.job import GIB, LARGEST_FILE_BYTES, ExportSettings, Job
from rightfit.exports.quoting import given, label, shell, to_yaml
from rightfit.exports.recipes import sky_queued
from rightfit.exports.registry import all_targets
from rightfit.exports.skypilot_words import CLOUDS, dstack_cards, dstack_name, is_by_the_card, skypilot_name
from rightfit.exports.stack import stack_of
from rightfit.exports.targets import dstack as one_run
from rightfit.exports.targets import skypilot as one_task
from rightfit.exports.targets.dstack import BACKENDS
from rightfit.exports.targets.kubernetes_addons import CLASSES
from rightfit.facts.devices import accelerators
from rightfit.files import safe_cell
from rightfit.messages import Message
from rightfit.records import dataclass

RECOVERY = {"strategy": "FAILOVER", "max_restarts_on_errors": 0}
IDLE = "5m"
KUEUE, FIRST_WEIGHT = "kueue.x-k8s.io/v1beta2", 100


@dataclass(frozen=True, slots=True)
class FleetTarget:
    """One kind of files of a fleet. `checked_by`: what reads them in our tests."""

    name: str
    summary: str
    write: Callable[[Row, Sequence[FleetJob]], Files]
    checked_by: str


def is_fleet(values: Any) -> bool:
    """Whether a document is the plan of a fleet."""
    return isinstance(values, dict) and values.get("kind") == "fleet"


def read_document(path: str | Path) -> Row | None:
    """The plan of a fleet in a file; None where the file holds something else (whose reader will
    say what is wrong)."""
    try:
        if Path(path).stat().st_size > LARGEST_FILE_BYTES:
            return None
        values = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return checked(values, name=str(path)) if is_fleet(values) else None


def checked(values: Any, *, name: str = "plan") -> Row:
    """The document, doubted once: every placement names a server that can be written into files."""
    if not is_fleet(values) or not isinstance(values.get("placements"), list):
        raise FileInputError(Message("export.not_of_a_fleet", file=name))
    for number, row in enumerate(values["placements"], start=1):
        try:
            option_of(row)
            text = (row["name"], row["kind"], row["start"], row["end"])
            whole = (row["count"], row["servers"])
            if not all(isinstance(item, str) for item in text) or not all(isinstance(item, int) and item >= 0 for item in whole):
                raise TypeError
        except (KeyError, TypeError, ValidationError):
            raise FileInputError(Message("export.placement", file=name, number=number)) from None
    return dict(values)


def files_of_fleet(found: Row, to: str, settings: ExportSettings | None = None) -> Files:
    """The files of a target, those of its jobs by the settings; InputError where nothing of the
    fleet can be expressed."""
    import difflib

    wanted = to.strip().casefold()
    if wanted not in FLEET_TARGETS:
        near = difflib.get_close_matches(wanted, FLEET_TARGETS, n=2, cutoff=0.5)
        raise UnknownNameError(
            "export target of a fleet", to, nearest=near, allowed=Message("names.choose", names=", ".join(FLEET_TARGETS)), field="to"
        )
    files = FLEET_TARGETS[wanted].write(found, fleet_jobs(found, settings))
    if not files and wanted == "terraform":
        raise InputError(Message("export.fleet_nothing_steady"), field="to")
    if not files and wanted == "slurm":
        raise InputError(Message("export.fleet_no_jobs"), field="to")
    if not files:
        raise InputError(Message("export.fleet_not_expressed", target=wanted), field="to")
    return files


# -- SkyPilot --------------------------------------------------------------------------------------


def skypilot(found: Row, jobs: Sequence[FleetJob]) -> Files:
    """A managed job for each copy of a job, with the servers that it may take in order, its own
    export beside, and a script that submits all by start."""
    files: dict[str, str] = {}
    starts = []
    for one in jobs:
        first = _sky(one.row)
        if first is None:
            continue
        alike = [row for row in one.row.get("alternatives", ()) if (row["servers"], *_cards(row)) == (one.row["servers"], *_cards(one.row))]
        places = [first, *(place for row in alike if (place := _sky(row)))]
        where = {"job_recovery": RECOVERY, **({"ordered": places} if len(places) > 1 else places[0])}
        if one.job is None or one.problem("skypilot"):
            task = {"name": one.name, "num_nodes": one.row["servers"], "workdir": ".", "resources": where, "run": "bash run.sh\n"}
            words = ["sky", "jobs", "launch", "-y", "-d", "-n", one.name, "task.yaml"]
            files |= {**one.by_hand("skypilot"), f"{one.name}/skypilot/task.yaml": to_yaml(task)}
            starts.append((one, f"{one.name}/skypilot", shell(words)))
            continue
        common = {name: value for name, value in one_task.resources(one.job).items() if name not in ("ordered", *first, "job_recovery")}
        text = one_task.header(one.job) + to_yaml({**one_task.task(one.job), "resources": {**common, **where}})
        files |= one.files(
            "skypilot", {**one_task.write(one.job), "task.yaml": text, "start.sh": start_script(one, "skypilot", sky_queued(one.job))}
        )
        starts.append((one, f"{one.name}/skypilot", "bash start.sh"))
    if files:
        files["submit.sh"] = submit_script(starts)
    return files


def _cards(row: Row) -> tuple[str, float]:
    return row["accelerator"], row["accelerators_per_server"]


def _sky(row: Row) -> dict[str, Any] | None:
    option = option_of(row)
    if option.provider not in CLOUDS or row["purchase"] not in ("on-demand", "spot") or not (instance := skypilot_name(option)):
        return None
    infra = CLOUDS[option.provider] + (f"/{option.region}" if in_place(option.region) else "")
    return {"infra": infra, "instance_type": instance, "use_spot": row["purchase"] == "spot"}


# -- dstack ----------------------------------------------------------------------------------------


def dstack(found: Row, jobs: Sequence[FleetJob]) -> Files:
    """A fleet for each type, region and way to pay, from nothing to the most that the plan has at
    once; and each job's run, which is placed in its own."""
    files: dict[str, str] = {}
    for (provider, instance, region, spot), rows in pools_of(found).items():
        option = option_of(rows[0])
        if provider not in BACKENDS or not (dstack_name(option) or is_by_the_card(option)):
            continue
        name = _pool_name(provider, instance, region, spot=spot)
        fleet = given(
            type="fleet",
            name=name,
            nodes=f"0..{most_at_once(rows)}",
            placement="cluster" if any(row["servers"] > 1 and row["kind"] == "job" for row in rows) else None,
            resources={"gpu": dstack_cards(option)} if is_by_the_card(option) else None,
            backends=[BACKENDS[provider]],
            regions=[region] if in_place(region) else None,
            instance_types=None if is_by_the_card(option) else [dstack_name(option)],
            spot_policy="spot" if spot else "on-demand",
            idle_duration=IDLE,
        )
        files[f"{name}.dstack.yml"] = f"# dstack apply -f {name}.dstack.yml\n" + to_yaml(fleet)
    fleets = [shell(["dstack", "apply", "--yes", "-f", path]) for path in files]
    starts = []
    for one in jobs:
        pool = _pool_name(one.row["provider"], one.row["instance_type"], one.row["region"], spot=one.row["purchase"] == "spot")
        if one.job is None or one.problem("dstack") or f"{pool}.dstack.yml" not in files:
            continue
        text = to_yaml({**one_run.run(one.job), "fleets": [pool]})
        files |= one.files(
            "dstack", {**stack_of(one.job).files, "run.dstack.yml": text, "start.sh": start_script(one, "dstack", DSTACK_START)}
        )
        starts.append((one, f"{one.name}/dstack", "bash start.sh"))
    if starts:
        files["submit.sh"] = submit_script(starts, first=fleets)
    return files


DSTACK_START = "dstack apply --yes --detach -f run.dstack.yml"


def _pool_name(provider: str, instance: str, region: str, *, spot: bool) -> str:
    return slug(f"{provider}-{instance}-{region}" + ("-spot" if spot else ""))


# -- Kueue -----------------------------------------------------------------------------------------


def kueue(found: Row, jobs: Sequence[FleetJob]) -> Files:
    """A flavour for each kind of server, a queue for each team with what the plan gives it (cards,
    processors, memory), one cohort so that idle quota may be borrowed; and each job's own export,
    which waits in the queue of its team."""
    kinds = {(*key,): list(rows) for key, rows in pools_of(found).items()}
    for row in found["placements"]:
        if row["purchase"] == "owned":
            kinds.setdefault((row["provider"], row["instance_type"], "owned", False), []).append(row)
    if not kinds:
        return {}
    order = sorted(kinds, key=lambda key: (key[2] != "owned", not key[3], key))  # what is owned is filled first, then spot
    flavours = [_flavour(key) for key in order]
    cohort = {"apiVersion": KUEUE, "kind": "Cohort", "metadata": {"name": slug(found["name"])}, "spec": {}}
    documents: list[Mapping[str, Any]] = [*flavours, cohort]
    for team in sorted({row["team"] or "all" for rows in kinds.values() for row in rows}):
        documents += _queues(found, team, [(key, kinds[key]) for key in order])
    files, starts = {"kueue.yaml": to_yaml(*documents)}, []
    for one in jobs:
        team = slug(one.row["team"] or "all")
        waiting = dataclasses.replace(one, job=in_queue(one.job, team)) if one.job else one
        if waiting.job is None or waiting.problem("kubernetes"):
            continue
        inside = f'kubectl() {{ command kubectl --namespace {shell([team])} "$@"; }}'
        begun = start_script(waiting, "kubernetes", "kubectl apply -f objects.yaml").replace("pipefail\n", f"pipefail\n{inside}\n", 1)
        written = {path: text for path, text in all_targets()["kubernetes"].files(waiting.job).items() if path != "wait.sh"}
        files |= waiting.files("kubernetes", {**written, "start.sh": begun})
        starts.append((one, f"{one.name}/kubernetes", "bash start.sh"))
    if starts:
        files["submit.sh"] = submit_script(starts, first=["kubectl apply -f kueue.yaml"])
    return files


def in_queue(job: Job, team: str) -> Job:
    """The job as one that waits in the queue of a team."""
    return dataclasses.replace(job, settings=dataclasses.replace(job.settings, queue=f"kueue/{team}"))


def _flavour_name(key: tuple[str, str, str, bool]) -> str:
    provider, instance, region, spot = key
    return _pool_name(provider, instance, region, spot=spot)


def _flavour(key: tuple[str, str, str, bool]) -> dict[str, Any]:
    _, instance, region, spot = key
    labels = {"node.kubernetes.io/instance-type": label(instance)}
    if region != "owned" and in_place(region):
        labels["topology.kubernetes.io/region"] = label(region)
    if spot:
        labels["karpenter.sh/capacity-type"] = "spot"
    return {"apiVersion": KUEUE, "kind": "ResourceFlavor", "metadata": {"name": _flavour_name(key)}, "spec": {"nodeLabels": labels}}


def _queues(found: Row, team: str, kinds: Sequence[tuple[Any, Sequence[Row]]]) -> list[Mapping[str, Any]]:
    name = slug(team)
    mine = [(key, [row for row in rows if (row["team"] or "all") == team]) for key, rows in kinds]
    cards = sorted({card_of(row) for _, rows in kinds for row in rows if row["accelerator"]})
    known = {"cpu": "vcpus_per_server", "memory": "memory_bytes_per_server"}  # a quota of what is not known would hold everything back
    covered = [*(name for name, key in known.items() if all(row.get(key) for _, rows in kinds for row in rows)), *cards]
    flavours = [{"name": _flavour_name(key), "resources": _quotas(covered, rows)} for key, rows in mine]
    queue = {
        "apiVersion": KUEUE,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "cohortName": slug(found["name"]),
            "namespaceSelector": {},
            "flavorFungibility": {"whenCanBorrow": "MayStopSearch", "whenCanPreempt": "TryNextFlavor"},
            "preemption": {"reclaimWithinCohort": "Any", "withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": covered, "flavors": flavours}],
        },
    }
    local = {"apiVersion": KUEUE, "kind": "LocalQueue", "metadata": {"name": name, "namespace": name}, "spec": {"clusterQueue": name}}
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}, queue, local]


def _quotas(covered: Sequence[str], rows: Sequence[Row]) -> list[dict[str, Any]]:
    """What a team has at once of a flavour: its servers' processors, memory and cards."""
    servers, first = most_at_once(rows), rows[0] if rows else {}
    each = {"cpu": int(first.get("vcpus_per_server", 0)), "memory": int(first.get("memory_bytes_per_server", 0) / GIB)}
    if rows and first["accelerator"]:
        each[card_of(first)] = int(first["accelerators_per_server"])
    return [
        {"name": name, "nominalQuota": f"{servers * each.get(name, 0)}Gi" if name == "memory" else servers * each.get(name, 0)}
        for name in covered
    ]


def card_of(row: Row) -> str:
    """The resource by which a cluster counts the cards of a placement."""
    known = accelerators().get(row["accelerator"])
    return "amd.com/gpu" if known and known.vendor == "AMD" else "nvidia.com/gpu"


# -- Karpenter -------------------------------------------------------------------------------------


def karpenter(found: Row, _: Sequence[FleetJob]) -> Files:
    """A pool for each kind of server, the heavier the sooner: what is bought for a term first, then
    spot, then on demand."""
    pools: dict[tuple[str, str, str, bool], list[Row]] = {
        key: rows for key, rows in pools_of(found).items() if key[0] in CLASSES and in_place(key[2])
    }
    bought = {(row["provider"], row["instance_type"], row["region"]): row["count"] for row in found.get("purchases", ())}
    documents = []
    for (provider, instance, region, spot), rows in pools.items():
        number = bought.get((provider, instance, region), 0) if not spot else 0
        name = slug(f"{provider}-{instance}-{region}" + ("-spot" if spot else ""))
        if number:
            documents.append(_node_pool(f"{name}-reserved", provider, instance, region, spot=False, weight=FIRST_WEIGHT, nodes=number))
        documents.append(_node_pool(name, provider, instance, region, spot=spot, weight=50 if spot else 10, nodes=most_at_once(rows)))
    return {"nodepools.yaml": to_yaml(*documents)} if documents else {}


def _node_pool(name: str, provider: str, instance: str, region: str, *, spot: bool, weight: int, nodes: int) -> dict[str, Any]:
    group, kind = CLASSES[provider]

    def one_of(key: str, value: str) -> dict[str, Any]:
        return {"key": key, "operator": "In", "values": [label(value)]}

    requirements = [
        one_of("node.kubernetes.io/instance-type", instance),
        one_of("karpenter.sh/capacity-type", "spot" if spot else "on-demand"),
        one_of("topology.kubernetes.io/region", region),
    ]
    spec = {"nodeClassRef": {"group": group, "kind": kind, "name": "default"}, "requirements": requirements, "expireAfter": "720h"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": spec},
            "weight": weight,
            "limits": {"nodes": str(nodes)},
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "1m"},
        },
    }


# -- finance ---------------------------------------------------------------------------------------

_PURCHASE_COLUMNS = (
    *("line", "provider", "instance_type", "region", "purchase", "count", "start", "end", "usd_per_h", "owed_usd", "this_plan_usd"),
    *("break_even_share", "break_even_months", "utilisation", "price_as_of"),
)


def purchases(found: Row, _: Sequence[FleetJob]) -> Files:
    """Two tables for finance: what is bought for a term with its break-even, and every
    placement with its money."""
    rows = [
        {**row, "line": number, "owed_usd": row["owed_usd"] * row["count"], "this_plan_usd": row["cost_usd"]}
        for number, row in enumerate(found.get("purchases", ()), start=1)
    ]
    columns = ("name", "kind", "team", "count", "provider", "instance_type", "region", "purchase", "servers", "start", "end", "cost_usd")
    return {"purchases.csv": _csv(_PURCHASE_COLUMNS, rows), "placements.csv": _csv(columns, found["placements"])}


def _csv(columns: Sequence[str], rows: Sequence[Row]) -> str:
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(row.get(key)) for key in columns} for row in rows)
    return buffer.getvalue()


def _cell(value: Any) -> Any:
    """No cell that a spreadsheet would run."""
    return "" if value is None else safe_cell(value)


FLEET_TARGETS: Mapping[str, FleetTarget] = {
    target.name: target
    for target in (
        FleetTarget(
            "skypilot",
            "managed jobs with their servers in order, and a script that submits them by start",
            skypilot,
            "SkyPilot's task parser",
        ),
        FleetTarget("dstack", "fleets from nothing to the most that the plan has at once", dstack, "dstack's own models"),
        FleetTarget("kueue", "flavours, cohort and a queue for each team with its share", kueue, "the schemas of Kueue's definitions"),
        FleetTarget("karpenter", "node pools with weights: terms, spot, on demand", karpenter, "the schema of Karpenter's definition"),
        FleetTarget(
            "ray",
            "a cluster for each region of AWS, and a script that runs jobs as placement groups",
            ray,
            "Ray's own validator, and a run",
        ),
        FleetTarget(
            "slurm",
            "partitions, QOS of the teams, and a script that submits every job with what it waits for",
            slurm,
            "Slurm's own controller and sbatch",
        ),
        FleetTarget(
            "terraform",
            "reservations of capacity that is needed at every hour, and capacity blocks",
            terraform,
            "terraform validate (AWS), the providers' schemas (Google Cloud, Azure)",
        ),
        FleetTarget("purchases", "the purchase list and all placements as CSV", purchases, "Python's csv reader, money added up"),
    )
}
