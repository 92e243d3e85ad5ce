"""The jobs of a fleet as bundles: what an export of a job's own plan writes (command, set-up,
data), in a folder of each copy of each job.

A placement holds the plan of its job on its servers under `plan`, where they are in the catalog
(rightfit.fleets.planning.with_plans); without one, and where a target cannot express the job, the
command is the user's.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Sequence
from importlib import resources
from typing import Any

from rightfit.export.buckets import COPIER, copied
from rightfit.export.bundle import check_script, set_line
from rightfit.export.fleet_files import Files, Row, in_place, most_at_once, pools_of, run_sh, slug
from rightfit.export.job import ExportSettings, Job, job_of, plan_document
from rightfit.export.quoting import shell, to_yaml
from rightfit.export.recipes import has_recipe, recipe_of
from rightfit.export.registry import all_targets
from rightfit.export.stack import launched, stack_of, stack_problem
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
        files[f"aws-{region}/run_jobs.py"] = resources.files("rightfit.export.scripts").joinpath("run_ray_jobs.py").read_text("utf-8")
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
