"""Everything at once: each target that can express the job in a folder of its own, and a README that says what to run in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rightfit.export.job import Job
from rightfit.export.operations import most_usd
from rightfit.export.quoting import comment
from rightfit.export.registry import Files, Target, all_targets
from rightfit.export.stack import stack_name, stack_of, stack_problem

_STEPS = {
    "environment": "Build the environment, or use the images that the other files name.",
    "training": "The training command by itself, on a server that you have. The launchers below start the first of these.",
    "serving": "The serving command by itself, on a server that you have. The launchers below start the first of these.",
    "launch": "Rent the servers and start the job, with ONE of these.",
    "kubernetes": "Or start it on a cluster of your own, with ONE of these.",
    "operations": "Watch it and end it: the thresholds are the plan's own figures.",
}
_ORDER = ("environment", "training", "serving", "launch", "kubernetes", "operations")
_RUNS = {
    "dockerfile": "docker build --tag NAME .",
    "keda": "kubectl apply -f scaled-object.yaml   # besides the objects of kubernetes",
    "slurm": "sbatch job.sbatch",
}
"""What to type for targets that say nothing themselves."""
_TERRAFORM = "terraform init\nterraform plan    # shows what would be made\nterraform apply"
_SKY = {
    "service": "sky launch --dryrun task.yaml   # chooses a server and stops there\nsky serve up --service-name NAME task.yaml",
    "spot": "sky launch --dryrun task.yaml   # chooses a server and stops there\nsky jobs launch --name NAME task.yaml",
    "run": "sky launch --dryrun task.yaml   # chooses a server and stops there\nsky launch --cluster NAME task.yaml",
}
_ENDS = {
    "skypilot": "`sky down NAME`, `sky jobs cancel --name NAME` or `sky serve down NAME`",
    "slurm": "`scancel --name=NAME`",
    "kubernetes": "`kubectl delete -f` the same file",
}


def bundle(job: Job) -> Files:
    """{target/path: text} of every target that takes the job."""
    files: dict[str, str] = {}
    written: dict[str, Files] = {}
    refused: list[tuple[str, str]] = []
    for name, target in all_targets().items():
        problem = target.refuses(job)
        if problem:
            refused.append((name, problem))
            continue
        written[name] = target.files(job)
        files.update({f"{name}/{path}": text for path, text in written[name].items()})
    return {"README.md": readme(job, written, refused), **files}


def readme(job: Job, written: Mapping[str, Files], refused: list[tuple[str, str]]) -> str:
    """What is in the bundle and what to run in which order."""
    groups = [group for group in _ORDER if any(all_targets()[name].group == group for name in written)]
    lines = [f"# {job.name}", "", *_about(job), "", "## In this order", ""]
    for number, group in enumerate(groups, start=1):
        lines += [f"{number}. {_STEPS[group]}", ""]
        chosen = [all_targets()[name] for name in written if all_targets()[name].group == group]
        for target in sorted(chosen, key=lambda target: target.name.replace("-", "_") != stack_name(job)):
            lines += _entry(target, typed_for(job, target, written[target.name]))
        lines.append("")
    lines += ["## To end it", "", *_endings(job, written), ""]
    if refused:
        lines += ["## Left out", "", *[f"- {name}: {comment(problem)}" for name, problem in refused], ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def _about(job: Job) -> list[str]:
    """What is started, what it costs, and what must be in the environment."""
    option = job.option
    whole = (
        f"${option.cost.total_usd:,.2f} in all" if option.cost.total_usd is not None else f"${option.cost.monthly_usd or 0:,.0f} a month"
    )
    gpus = f" ({job.gpus_per_node} x {job.accelerator} each)" if job.gpus_per_node else ""
    server = f"{option.nodes} x {option.provider} {option.instance_type}{gpus}, {option.region}, {option.purchase}"
    lines = [f"Plan `{job.plan_id}`: {job.task} `{comment(job.model)}` on {server}: ${option.cost.hourly_usd:,.2f} an hour, {whole}."]
    if most_usd(job) > (option.cost.total_usd or option.cost.monthly_usd or 0.0):
        lines.append(f"By the plan's 95 % interval, or at its busiest hours, at most ${most_usd(job):,.2f}.")
    if not stack_problem(job) and (secrets := stack_of(job).secrets):
        lines.append(f"Set {', '.join(f'`{name}`' for name in secrets)} in the environment first: secrets are in none of these files.")
    return lines


def typed_for(job: Job, target: Target, files: Files) -> str:
    """What to type in the target's folder, a command a line; "" where its files are read by something else."""
    scripts = [f"sh {path}" for path in files if path.endswith(".sh") and "/" not in path]
    sky = _SKY["service" if job.is_service else "spot" if job.is_spot else "run"]
    known = {**_RUNS, "skypilot": sky, **({target.name: _TERRAFORM} if target.name.startswith("terraform-") else {})}
    return (target.run or known.get(target.name) or next(iter(scripts), "")).replace("NAME", job.name)


def _entry(target: Target, typed: str) -> list[str]:
    """One target with what to type in its folder."""
    lines = [f"         cd {target.name}", *[f"         {line}" for line in typed.splitlines()], ""] if typed else []
    return [f"   - `{target.name}/`: {target.summary}", *(["", *lines] if lines else [])]


def _endings(job: Job, written: Mapping[str, Files]) -> list[str]:
    """How each launcher gives back what it rented."""
    endings = {**_ENDS, **{name: "`terraform destroy` in the same folder" for name in written if name.startswith("terraform-")}}
    found = [f"- {name}: {how.replace('NAME', job.name)}" for name, how in endings.items() if name in written]
    stops = f" By itself after {job.stop_after_h:g} h where the launcher can." if job.stop_after_h else " A service runs until you end it."
    return [*found, "", f"Then look once more in the console of {job.option.provider}: what is left there is billed.{stops}"]
