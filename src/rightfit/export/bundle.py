"""Everything at once: each target that can express the job in a folder of its own, and a README that says what to run in which order."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.registry import GROUPS, Files, all_targets

_STEPS = {
    "environment": "Build the environment (or use the images that the files name).",
    "training": "Look through the training command; it carries the plan's batch, layout and precision.",
    "serving": "Look through the serving command; it carries the plan's layout, formats and limits.",
    "launch": "Start it with ONE of these.",
    "kubernetes": "Or start it on a cluster of your own with ONE of these.",
    "operations": "Watch it: the thresholds are the plan's own figures.",
}
_ORDER = ("environment", "training", "serving", "launch", "kubernetes", "operations")


def bundle(job: Job) -> Files:
    """{target/path: text} of every target that takes the job."""
    files: dict[str, str] = {}
    chosen: dict[str, list[str]] = {group: [] for group in GROUPS}
    refused: list[tuple[str, str]] = []
    for name, target in all_targets().items():
        problem = target.refuses(job)
        if problem:
            refused.append((name, problem))
            continue
        chosen[target.group].append(name)
        files.update({f"{name}/{path}": text for path, text in target.files(job).items()})
    return {"README.md": readme(job, chosen, refused), **files}


def readme(job: Job, chosen: dict[str, list[str]], refused: list[tuple[str, str]]) -> str:
    """What is in the bundle and what to run in which order."""
    option = job.option
    money = (
        f"${option.cost.total_usd:,.2f} in all" if option.cost.total_usd is not None else f"${option.cost.monthly_usd or 0:,.0f} a month"
    )
    gpus = f" ({job.gpus_per_node} x {job.accelerator} each)" if job.gpus_per_node else ""
    lines = [
        f"# {job.name}",
        "",
        f"Plan `{job.plan_id}`: {job.task} `{job.model}` on {option.nodes} x {option.provider} {option.instance_type}{gpus}, {option.region}, {option.purchase}: {money}.",
        "",
        "## In this order",
        "",
    ]
    summaries = all_targets()
    for number, group in enumerate([group for group in _ORDER if chosen[group]], start=1):
        lines += [f"{number}. {_STEPS[group]}", *[f"   - `{name}/`: {summaries[name].summary}" for name in chosen[group]]]
    if refused:
        lines += ["", "## Left out", "", *[f"- {name}: {problem}" for name, problem in refused]]
    return "\n".join(lines) + "\n"
