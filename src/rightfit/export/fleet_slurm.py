"""The jobs of a fleet on Slurm: partitions of its servers, a QOS with the share of each team, and a script that submits every job with its times, its
cards and what it waits for."""

from __future__ import annotations

import datetime
import math
from collections.abc import Sequence

from rightfit.export.fleet_parts import Files, Row, most_at_once, run_sh, slug
from rightfit.export.quoting import comment, shell, to_yaml

TIERS = {"owned": 100, "bought": 75, "spot": 50, "hour": 10}
LONGER = 2.0  # a job is stopped after so many times its planned hours, at its deadline at the latest

_CONF = """\
# Nodes and partitions of {name}: "Include fleet.conf" in slurm.conf. Rented nodes are of State=CLOUD: your ResumeProgram starts them.
# Nodes that you own stand as State=FUTURE: give them their names, or start slurmd with -F.
# Limits of QOS are kept by slurmdbd; slurm.conf then also says: AccountingStorageType=accounting_storage/slurmdbd, AccountingStorageTRES=gres/gpu,
# AccountingStorageEnforce=limits,qos. Without it take AllowQos out.
GresTypes=gpu
"""


def slurm(found: Row) -> Files:
    """fleet.conf and gres.conf, qos.sh, submit.sh, and a folder for each job with its workload."""
    jobs = sorted((row for row in found["placements"] if row["kind"] == "job"), key=lambda row: (row["start"], row["name"]))
    pools: dict[str, list[Row]] = {}
    for row in jobs:
        pools.setdefault(_partition(row), []).append(row)
    if not pools:
        return {}
    folders = _folders(jobs)
    bought = {(row["provider"], row["instance_type"], row["region"]) for row in found.get("purchases", ())}
    files = {
        "fleet.conf": _conf(found, pools, bought),
        "gres.conf": "".join(
            f"NodeName={_nodes(name, rows)} Name=gpu Type={_card(rows[0])}\n" for name, rows in pools.items() if _cards(rows[0])
        ),
        "qos.sh": _qos(jobs),
        "submit.sh": _submit(found, jobs, folders),
    }
    for row in jobs:
        folder = folders[row["name"]]
        files[f"{folder}/workload.yaml"] = f"# rightfit plan --file {folder}/workload.yaml\n" + to_yaml(dict(row["workload"]))
        files[f"{folder}/run.sh"] = run_sh(row["name"])
    return files


def _folders(jobs: Sequence[Row]) -> dict[str, str]:
    found: dict[str, str] = {}
    for row in jobs:
        name = slug(row["name"])
        found.setdefault(row["name"], name if name not in found.values() else f"{name}-{len(found)}")
    return found


def _partition(row: Row) -> str:
    """The partition of a placement: what is owned by its line, what is rented by type, region and whether it may be taken away."""
    if row["purchase"] == "owned":
        return slug(row.get("owned") or f"own {row['instance_type']}")
    return slug(f"{row['provider']}-{row['instance_type']}-{row['region']}" + ("-spot" if row["purchase"] == "spot" else ""))


def _nodes(name: str, rows: Sequence[Row]) -> str:
    """The nodes of a partition; a host whose cards are shared is one."""
    number = 1 if any(row.get("cards") for row in rows) else most_at_once(rows)
    return f"{name}-[1-{number}]" if number > 1 else f"{name}-1"


def _cards(row: Row) -> int:
    return int(row["accelerators_per_server"]) if row["accelerator"] else 0


def _host_cards(rows: Sequence[Row]) -> int:
    """Cards of a node, also of a host of which jobs take some."""
    return max([*map(_cards, rows), *(row.get("host_cards", 0) for row in rows)], default=0)


def _card(row: Row) -> str:
    return slug(row["accelerator"])


def _conf(found: Row, pools: dict[str, list[Row]], bought: set[tuple[str, str, str]]) -> str:
    lines = [_CONF.format(name=comment(found["name"]))]
    for name, rows in pools.items():
        first = max(rows, key=lambda row: row.get("vcpus_per_server", 0.0))
        processors = max(1, int(first.get("vcpus_per_server", 0)))
        cards = f" Gres=gpu:{_card(first)}:{_host_cards(rows)}" if _cards(first) else ""
        state = "FUTURE" if first["purchase"] == "owned" else "CLOUD"
        lines.append(f"NodeName={_nodes(name, rows)} CPUs={processors}{cards} State={state}\n")
    for name, rows in pools.items():
        first = rows[0]
        place = (first["provider"], first["instance_type"], first["region"])
        kind = {"owned": "owned", "spot": "spot"}.get(first["purchase"], "bought" if place in bought else "hour")
        teams = ",".join(sorted({_team(row) for row in rows}))
        lines.append(
            f"PartitionName={name} Nodes={_nodes(name, rows)} PriorityTier={TIERS[kind]} AllowQos={teams} MaxTime=UNLIMITED State=UP\n"
        )
    return "".join(lines)


def _team(row: Row) -> str:
    return slug(row["team"]) if row["team"] else "all"


def _qos(jobs: Sequence[Row]) -> str:
    """An account and a QOS for each team, whose limit is the most that the plan gives it at once."""
    lines = [
        "#!/usr/bin/env bash",
        "# Accounts and QOS of the teams; their limits are the most that the plan has of each at once.",
        "set -euo pipefail",
    ]
    for team in sorted({_team(row) for row in jobs}):
        mine = [row for row in jobs if _team(row) == team]
        cards = most_at_once([{**row, "servers": _job_cards(row)} for row in mine])
        limits = [f"GrpTRES=node={most_at_once(mine)}" + (f",gres/gpu={cards}" if cards else "")]
        lines.append(shell(["sacctmgr", "-i", "add", "account", team, f"Description={team}"]))
        lines.append(shell(["sacctmgr", "-i", "add", "qos", team, *limits]))
        lines.append(shell(["sacctmgr", "-i", "modify", "account", team, "set", f"qos+={team}", f"DefaultQOS={team}"]))
    return "\n".join(lines) + "\n"


def _job_cards(row: Row) -> int:
    return len(row["cards"][0]) if row.get("cards") else row["servers"] * _cards(row)


def _submit(found: Row, jobs: Sequence[Row], folders: dict[str, str]) -> str:
    lines = [
        "#!/usr/bin/env bash",
        "# Submits every job with its times (UTC), its cards, its team and what it waits for; Slurm does the rest.",
        "set -euo pipefail",
        'cd "$(dirname "$0")"',
        "export TZ=UTC",
        "declare -A ids",
        'submit() { local name=$1 id; shift; id=$(sbatch --parsable "$@"); ids[$name]="${ids[$name]:-}:${id%%;*}"; }',
    ]
    for row in jobs:
        folder = folders[row["name"]]
        waits = "".join(f' "--dependency=afterok${{ids[{folders[name]}]}}"' for name in row.get("after", ())[:1] if name in folders)
        others = [folders[name] for name in row.get("after", ())[1:] if name in folders]
        if waits and others:
            waits = waits[:-1] + "".join(f"${{ids[{name}]}}" for name in others) + '"'
        words = shell([*_options(found, row), f"--job-name={folder}", f"--chdir={folder}"])
        lines += [f"submit {folder} {words}{waits} {folder}/run.sh"] * row["count"]
    return "\n".join(lines) + "\n"


def _options(found: Row, row: Row) -> list[str]:
    start = datetime.datetime.fromisoformat(row["start"])
    hours = row["hours"] * LONGER
    options = [f"--partition={_partition(row)}", f"--account={_team(row)}", f"--qos={_team(row)}", f"--nodes={row['servers']}"]
    if row.get("cards"):
        options.append(f"--gpus-per-node={_card(row)}:{len(row['cards'][0])}")
    else:
        options += ["--exclusive", *([f"--gpus-per-node={_card(row)}:{_cards(row)}"] if _cards(row) else [])]
    options.append(f"--begin={start.isoformat(timespec='seconds')}")
    if row.get("deadline_h") is not None:
        due = datetime.datetime.fromisoformat(found["start"]) + datetime.timedelta(hours=row["deadline_h"])
        options.append(f"--deadline={due.isoformat(timespec='seconds')}")
        hours = min(hours, (due - start).total_seconds() / 3600.0)
    options.append(f"--time={max(1, math.floor(hours * 60))}")
    return [*options, *(["--requeue"] if row["purchase"] == "spot" else [])]
