"""The jobs of a fleet as bundles: what an export of a job's own plan writes (command, set-up,
data), in a folder of each copy of each job.

A placement holds the plan of its job on its servers under `plan`, where they are in the catalog
(rightfit.fleets.planning.with_plans); without one, and where a target cannot express the job, the
command is the user's.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import math
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from rightfit.exports.buckets import COPIER, copied
from rightfit.exports.bundle import check_script, set_line
from rightfit.exports.fleet_files import Files, Row, in_place, most_at_once, pools_of, run_sh, slug
from rightfit.exports.job import ExportSettings, Job, job_of, plan_document
from rightfit.exports.quoting import comment, shell, to_yaml
from rightfit.exports.recipes import has_recipe, recipe_of
from rightfit.exports.registry import all_targets
from rightfit.exports.stack import launched, stack_of, stack_problem
from rightfit.messages import Message
from rightfit.records import dataclass

LONGEST_NAME = 40
TAIL = 5  # of a name: room for the number of a copy


@dataclass(frozen=True, slots=True)
class FleetJob:
    """One copy of a job on servers of its own. `name`: of its folder and resources; `base`: of the
    job, whose copies share it; `job`: what the exports of a single plan take, None without a
    plan."""

    name: str
    base: str
    row: Row
    job: Job | None

    def problem(self, target: str) -> Message | str:
        """Why a target of single plans cannot express it ("" if it can)."""
        return all_targets()[target].problem(self.job) if self.job else Message("export.fleet_no_plan")

    def files(self, target: str, found: Files) -> dict[str, str]:
        """The files of a target in their folder; beside it the workload, and the look for what is
        missing."""
        recipe = recipe_of(self.job, target) if self.job and has_recipe(target) and not self.problem(target) else None
        check = check_script(self.job, recipe) if self.job and recipe else ""
        return {
            **{f"{self.name}/{target}/{path}": text for path, text in found.items()},
            f"{self.name}/workload.yaml": f"# rightfit plan --file {self.name}/workload.yaml\n" + to_yaml(dict(self.row["workload"])),
            **({f"{self.name}/check.sh": check} if check else {}),
        }

    def written(self, target: str) -> Files:
        """What a target writes for it; call `problem` first."""
        assert self.job is not None
        return all_targets()[target].files(self.job)

    def stack_files(self) -> Files:
        """The files that its command reads."""
        assert self.job is not None
        return stack_of(self.job).files

    def by_hand(self, target: str) -> dict[str, str]:
        """The folder of a job whose command is the user's, and why."""
        return self.files(target, {"run.sh": run_sh(self.row["name"], str(self.problem(target)))})


def fleet_jobs(found: Row, settings: ExportSettings | None = None) -> tuple[FleetJob, ...]:
    """Every copy of every job, by start."""
    numbers: dict[str, int] = {}
    jobs: list[FleetJob] = []
    rows = sorted((row for row in found["placements"] if row["kind"] == "job"), key=lambda row: (row["start"], row["name"]))
    bases = bases_of(rows)
    for row in rows:
        base = bases[row["name"]]
        for _ in range(row["count"]):
            numbers[base] = numbers.get(base, 0) + 1
            name = base if numbers[base] == 1 else f"{base[: LONGEST_NAME - TAIL].rstrip('-')}-{numbers[base]}"
            jobs.append(FleetJob(name, base, row, _job(row, name, settings or ExportSettings())))
    return tuple(jobs)


def bases_of(rows: Iterable[Row]) -> dict[str, str]:
    """Job -> a name that files and resources may have, which no other job has."""
    found: dict[str, str] = {}
    for row in rows:
        name = slug(row["name"])
        name = name if name[0].isalpha() else f"job-{name}"[:LONGEST_NAME].rstrip("-")
        taken = name in found.values() and row["name"] not in found
        found.setdefault(row["name"], f"{name[: LONGEST_NAME - TAIL].rstrip('-')}-x{len(found)}" if taken else name)
    return found


def _job(row: Row, name: str, settings: ExportSettings) -> Job | None:
    plan = row.get("plan")
    return job_of(plan_document(plan, name=row["name"]), settings=dataclasses.replace(settings, name=name)) if plan else None


def start_script(one: FleetJob, target: str, *lines: str) -> str:
    """start.sh: what a job needs is looked for, its data go to where it finds them, and it is
    started by `lines`."""
    assert one.job is not None
    recipe = recipe_of(one.job, target)
    needs = [set_line(one.job, name) for name, _ in recipe.needs]
    data = [f"# the data of this job lie in {one.name}/data"] if any("../data" in line for line in recipe.before) else []
    body = ["#!/usr/bin/env bash", "set -euo pipefail", 'cd "$(dirname "$0")"', *needs, *data, *recipe.before, *lines]
    return "\n".join(body) + "\n"


def submit_script(starts: Sequence[tuple[FleetJob, str, str]], *, first: Sequence[str] = ()) -> str:
    """submit.sh: (job, its target, the line that starts it) in the order of starts. One that could
    not be started keeps no other back."""
    lines = [
        "#!/usr/bin/env bash",
        "# Starts every job at its time (UTC). Before: sh check.sh in the folder of a job says what it lacks.",
        "set -uo pipefail",
        'cd "$(dirname "$0")" || exit 2',
        'until_() { local s=$(( $(date -u -d "$1" +%s) - $(date -u +%s) )); if [ "$s" -gt 0 ]; then sleep "$s"; fi; }',
        "failed=()",
        *first,
    ]
    for one, folder, line in sorted(starts, key=lambda item: item[0].row["start"]):
        lines.append(f"until_ {shell([one.row['start']])}")
        lines.append(f"(cd {shell([folder])} && {line}) || failed+=({shell([one.name])})")
    return "\n".join([*lines, '[ "${#failed[@]}" = 0 ] || { echo "not started: ${failed[*]}" >&2; exit 1; }']) + "\n"


# ---- The jobs of a fleet on Ray: a cluster of AWS for each region, whose kinds of nodes are the
# plan's servers, and jobs as placement groups.

IDLE_MINUTES, HEAD = 5, "m7i.xlarge"
RAY_JOBS = "/home/ubuntu/jobs"
"""Where the files of the jobs lie on every node."""


def ray(found: Row, copies: Sequence[FleetJob]) -> Files:
    """For each region: cluster.yaml, jobs.json, run_jobs.py, which starts every job as a gang at
    its time, and the files of the jobs, which go to every node."""
    jobs = {**found, "placements": [row for row in found["placements"] if row["kind"] == "job"]}
    regions: dict[str, dict[str, tuple[tuple[str, bool], list[Row]]]] = {}
    for (provider, instance, region, spot), rows in pools_of(jobs).items():
        if provider == "aws" and in_place(region):
            name = slug(instance + ("-spot" if spot else ""))
            regions.setdefault(region, {})[name] = ((instance, spot), rows)
    files: dict[str, str] = {}
    for region, pools in regions.items():
        mounts = {"file_mounts": {RAY_JOBS: f"aws-{region}/jobs"}} if any(not ray_problem(one) for one in copies) else {}
        files[f"aws-{region}/cluster.yaml"] = f"# ray up aws-{region}/cluster.yaml\n" + to_yaml(
            {**_cluster(found, region, pools), **mounts}
        )
        placed = [(one, name) for name, (_, rows) in pools.items() for one in copies if any(one.row is row for row in rows)]
        listed = sorted((_ray_job(one, name) for one, name in placed), key=lambda job: (job["start"], job["name"]))
        for one, _ in placed:
            if not ray_problem(one):
                files |= {f"aws-{region}/jobs/{path}": text for path, text in one.files("ray", one.stack_files()).items()}
        files[f"aws-{region}/jobs.json"] = json.dumps(listed, indent=2, ensure_ascii=False) + "\n"
        files[f"aws-{region}/run_jobs.py"] = resources.files("rightfit.exports.scripts").joinpath("run_ray_jobs.py").read_text("utf-8")
    return files


def _cluster(found: Row, region: str, pools: Any) -> dict[str, Any]:
    kinds = {
        name: {
            "node_config": {"InstanceType": instance, **({"InstanceMarketOptions": {"MarketType": "spot"}} if spot else {})},
            "resources": {**_ray_cards(rows[0]), name: 1},
            "min_workers": 0,
            "max_workers": most_at_once(rows),
        }
        for name, ((instance, spot), rows) in pools.items()
    }
    head = {"node_config": {"InstanceType": HEAD}, "resources": {"CPU": 0}, "min_workers": 0, "max_workers": 0}
    return {
        "cluster_name": slug(f"{found['name']}-{region}"),
        "max_workers": sum(kind["max_workers"] for kind in kinds.values()),
        "idle_timeout_minutes": IDLE_MINUTES,
        "provider": {"type": "aws", "region": region},
        "auth": {"ssh_user": "ubuntu"},
        "head_node_type": "head",
        "available_node_types": {"head": head, **kinds},
    }


def _ray_cards(row: Row) -> dict[str, int]:
    cards = int(row["accelerators_per_server"]) if row["accelerator"] else 0
    return {"GPU": cards} if cards else {}


def ray_problem(one: FleetJob) -> Message | str:
    """Why a job has no command here ("" if it has): data and results are copied by S3's program."""
    found = one.problem("cloud-init") if one.job is None else stack_problem(one.job)
    scheme = one.job.settings.bucket.partition("://")[0] if one.job else ""
    return found or (Message("export.copies_to_s3", scheme=scheme) if scheme not in ("", "s3") else "")


def _ray_job(one: FleetJob, pool: str) -> dict[str, Any]:
    """A job as the script reads it: each of its servers is a bundle that takes a
    whole node of its pool."""
    row = one.row
    return {
        "name": one.name,
        "job": row["name"],
        "start": row["start"],
        "servers": row["servers"],
        "bundle": {**_ray_cards(row), pool: 1},
        **({"command": _ray_command(one.job)} if one.job and not ray_problem(one) else {}),
    }


def _ray_command(job: Job) -> str:
    """What bash runs on every server of a job: the set-up, then the command between copies of data
    and checkpoints."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="@rank@", num_nodes="@nodes@", head_address="@head@")
    line = shell(words).replace("@rank@", '"$NODE_RANK"').replace("@nodes@", '"$NUM_NODES"').replace("@head@", '"$MASTER_ADDR"')
    settings = "".join(f"export {shell([f'{name}={value}'])}\n" for name, value in stack.environment.items())
    made = "".join(f"env/bin/{line}\n" for line in stack.setup if line.startswith("pip "))
    return (
        f"set -e\ncd {RAY_JOBS}/{job.name}/ray\n{settings}"
        f"[ -e env/.whole ] || {{ python3 -m venv env; {made.replace(chr(10), '; ')}env/bin/pip install {COPIER}; touch env/.whole; }}\n"
        '. env/bin/activate\nsudo mkdir -p /checkpoints && sudo chown "$(id -u)" /checkpoints\n' + copied(job, line)
    )


# ---- The jobs of a fleet on Slurm: partitions of its servers, a QOS with the share of each team,
# and a script that submits every job with its times, its cards and what it waits for.

TIERS = {"owned": 100, "bought": 75, "spot": 50, "hour": 10}
LONGER = 2.0  # a job is stopped after so many times its planned hours, at its deadline at the latest

_CONF = """\
# Nodes and partitions of {name}: "Include fleet.conf" in slurm.conf. Rented nodes are of State=CLOUD: your ResumeProgram starts them.
# Nodes that you own stand as State=FUTURE: give them their names, or start slurmd with -F.
# Limits of QOS are kept by slurmdbd; slurm.conf then also says: AccountingStorageType=accounting_storage/slurmdbd, AccountingStorageTRES=gres/gpu,
# AccountingStorageEnforce=limits,qos. Without it take AllowQos out.
GresTypes=gpu
"""


def slurm(found: Row, copies: Sequence[FleetJob]) -> Files:
    """fleet.conf and gres.conf, qos.sh, submit.sh, and a folder for each copy of a job with its own
    export."""
    jobs = sorted((row for row in found["placements"] if row["kind"] == "job"), key=lambda row: (row["start"], row["name"]))
    pools: dict[str, list[Row]] = {}
    for row in jobs:
        pools.setdefault(_partition(row), []).append(row)
    if not pools:
        return {}
    bought = {(row["provider"], row["instance_type"], row["region"]) for row in found.get("purchases", ())}
    files = {
        "fleet.conf": _conf(found, pools, bought),
        "gres.conf": "".join(
            f"NodeName={_nodes(name, rows)} Name=gpu Type={_card(rows[0])}\n" for name, rows in pools.items() if _slurm_cards(rows[0])
        ),
        "qos.sh": _qos(jobs),
        "submit.sh": _submit(found, copies),
    }
    for one in copies:
        files |= one.by_hand("slurm") if one.problem("slurm") else one.files("slurm", one.written("slurm"))
    return files


def _partition(row: Row) -> str:
    """The partition of a placement: what is owned by its line, what is rented by type, region and
    whether it may be taken away."""
    if row["purchase"] == "owned":
        return slug(row.get("owned") or f"own {row['instance_type']}")
    return slug(f"{row['provider']}-{row['instance_type']}-{row['region']}" + ("-spot" if row["purchase"] == "spot" else ""))


def _nodes(name: str, rows: Sequence[Row]) -> str:
    """The nodes of a partition; a host whose cards are shared is one."""
    number = 1 if any(row.get("cards") for row in rows) else most_at_once(rows)
    return f"{name}-[1-{number}]" if number > 1 else f"{name}-1"


def _slurm_cards(row: Row) -> int:
    return int(row["accelerators_per_server"]) if row["accelerator"] else 0


def _host_cards(rows: Sequence[Row]) -> int:
    """Cards of a node, also of a host of which jobs take some."""
    return max([*map(_slurm_cards, rows), *(row.get("host_cards", 0) for row in rows)], default=0)


def _card(row: Row) -> str:
    return slug(row["accelerator"])


def _conf(found: Row, pools: dict[str, list[Row]], bought: set[tuple[str, str, str]]) -> str:
    lines = [_CONF.format(name=comment(found["name"]))]
    for name, rows in pools.items():
        first = max(rows, key=lambda row: row.get("vcpus_per_server", 0.0))
        processors = max(1, int(first.get("vcpus_per_server", 0)))
        cards = f" Gres=gpu:{_card(first)}:{_host_cards(rows)}" if _slurm_cards(first) else ""
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
    """An account and a QOS for each team, whose limit is the most that the
    plan gives it at once."""
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
    return len(row["cards"][0]) if row.get("cards") else row["servers"] * _slurm_cards(row)


_SUBMIT = """\
#!/usr/bin/env bash
# Submits every job with its times (UTC), its cards, its team and what it waits for; Slurm does the rest.
# RIGHTFIT_CHECKPOINTS is a folder that all nodes see: each job has one of its own in it, to which its data go from JOB/data.
set -euo pipefail
cd "$(dirname "$0")"
export TZ=UTC
declare -A ids
submit() {
  local name=$1 job=$2 kept id; shift 2
  kept=${RIGHTFIT_CHECKPOINTS:+$RIGHTFIT_CHECKPOINTS/$job}
  if [ -n "$kept" ] && [ -d "$job/data" ]; then mkdir -p "$kept"; cp -r "$job/data" "$kept/"; fi
  id=$(RIGHTFIT_CHECKPOINTS=$kept sbatch --parsable "$@"); ids[$name]="${ids[$name]:-}:${id%%;*}"
}
"""


def _submit(found: Row, copies: Sequence[FleetJob]) -> str:
    bases = {one.row["name"]: one.base for one in copies}
    lines = []
    if any(not one.problem("slurm") for one in copies):
        lines.append(': "${RIGHTFIT_CHECKPOINTS:?set it to a folder that all nodes see, with room for data and checkpoints}"\n')
    for one in copies:
        waited = [bases[name] for name in one.row.get("after", ()) if name in bases]
        waits = ' "--dependency=afterok' + "".join(f"${{ids[{name}]}}" for name in waited) + '"' if waited else ""
        words = shell([*_options(found, one.row), f"--job-name={one.name}", f"--chdir={one.name}/slurm"])
        script = "run.sh" if one.problem("slurm") else "job.sbatch"
        lines.append(f"submit {one.base} {one.name} {words}{waits} {one.name}/slurm/{script}\n")
    return _SUBMIT + "".join(lines)


def _options(found: Row, row: Row) -> list[str]:
    start = datetime.datetime.fromisoformat(row["start"])
    hours = row["hours"] * LONGER
    options = [f"--partition={_partition(row)}", f"--account={_team(row)}", f"--qos={_team(row)}", f"--nodes={row['servers']}"]
    if row.get("cards"):
        options.append(f"--gpus-per-node={_card(row)}:{len(row['cards'][0])}")
    else:
        options += ["--exclusive", *([f"--gpus-per-node={_card(row)}:{_slurm_cards(row)}"] if _slurm_cards(row) else [])]
    options.append(f"--begin={start.isoformat(timespec='seconds')}")
    if row.get("deadline_h") is not None:
        due = datetime.datetime.fromisoformat(found["start"]) + datetime.timedelta(hours=row["deadline_h"])
        options.append(f"--deadline={due.isoformat(timespec='seconds')}")
        hours = min(hours, (due - start).total_seconds() / 3600.0)
    options.append(f"--time={max(1, math.floor(hours * 60))}")
    return [*options, *(["--requeue"] if row["purchase"] == "spot" else [])]
