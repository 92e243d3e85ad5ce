"""Everything at once: each target that can express the job in a folder of its own, and a README that says what to run in which order."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rightfit.export.buckets import CLIENTS, OPT_IN_REGIONS
from rightfit.export.checking import check_script, data_columns, step_of
from rightfit.export.job import Job
from rightfit.export.operations import most_usd
from rightfit.export.quoting import comment
from rightfit.export.recipes import OPTIONAL_SECRETS, Recipe, brings, has_recipe, launcher_of, recipe_of
from rightfit.export.registry import ALL, Files, Target, all_targets, find_target
from rightfit.export.stack import stack_name
from rightfit.messages import Message

_GROUPS = {
    "environment": "The environment that they run in, or use the images that the other files name.",
    "training": "The training command by itself, on a server that you have. The launchers start the first of these.",
    "serving": "The serving command by itself, on a server that you have. The launchers start the first of these.",
    "operations": "Watch it and end it: the thresholds are the plan's own figures.",
    "kubernetes": "Beside the objects of kubernetes.",
}
_RUNS = {
    "dockerfile": "docker build --tag NAME .",
    "keda": "kubectl apply -f scaled-object.yaml",
    "karpenter": "kubectl apply -f nodepool.yaml",
}
"""What to type for targets that say nothing themselves."""


def bundle(job: Job) -> Files:
    """{target/path: text} of every target that takes the job."""
    files: dict[str, str] = {}
    written: dict[str, Files] = {}
    refused: list[tuple[str, Message | str]] = []
    for name, target in all_targets().items():
        problem = target.problem(job)
        if problem:
            refused.append((name, problem))
            continue
        written[name] = target.files(job)
        files.update({f"{name}/{path}": text for path, text in written[name].items()})
    launcher = launcher_of(job, written)
    recipe = recipe_of(job, launcher) if launcher else None
    check = check_script(job, recipe)
    return {"README.md": readme(job, written, refused), **({"check.sh": check} if check else {}), **files}


def readme(job: Job, written: Mapping[str, Files], refused: list[tuple[str, Message | str]]) -> str:
    """What is in the bundle; from top to bottom how it is started, followed and ended with the first launcher; then everything else."""
    launcher = launcher_of(job, written)
    recipe = recipe_of(job, launcher) if launcher else None
    lines = [f"# {job.name}", "", kept_line(job, recipe), "", *_about(job), ""]
    lines += (
        _whole(job, recipe)
        if recipe
        else ["Nothing here rents a server for this plan: start the command below on a server that you have.", ""]
    )
    others = [name for name in written if has_recipe(name) and name != launcher]
    if others:
        lines += ["## Other ways to start it", "", "ONE of these, in the place of the steps above.", ""]
        for name in others:
            lines += _other(job, recipe_of(job, name))
    for group, words in _GROUPS.items():
        chosen = [all_targets()[name] for name in written if all_targets()[name].group == group and not has_recipe(name)]
        if chosen:
            lines += [f"## {group.capitalize()}", "", words, ""]
            for target in sorted(chosen, key=lambda target: target.name.replace("-", "_") != stack_name(job)):
                lines += _entry(target, typed_for(job, target, written[target.name]))
            lines.append("")
    if refused:
        lines += ["## Left out", "", *[f"- {name}: {comment(str(problem))}" for name, problem in refused], ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def kept_line(job: Job, recipe: Recipe | None) -> str:
    """The first line: where what the job makes outlives the server."""
    if job.is_service:
        opened = (
            " Everyone can reach its address; who sends the key is answered." if recipe and recipe.target in ("skypilot", "dstack") else ""
        )
        return f"This is a service: it runs, and costs, until you end it.{opened}"
    if recipe is None or not recipe.kept:
        return "**Nothing here keeps what the job makes: copy /checkpoints away before the server is given back.**"
    return f"What the job makes is kept in `{_plainly(recipe.kept)}`; the server is given back when the job ends, however it ends."


def _plainly(words: str) -> str:
    """A word of shell for people."""
    return words.replace('"', "").replace("${RIGHTFIT_BUCKET%/}", "$RIGHTFIT_BUCKET")


def _about(job: Job) -> list[str]:
    """What is started and what it costs."""
    option = job.option
    whole = (
        f"${option.cost.total_usd:,.2f} in all" if option.cost.total_usd is not None else f"${option.cost.monthly_usd or 0:,.0f} a month"
    )
    gpus = f" ({job.gpus_per_node} x {job.accelerator} each)" if job.gpus_per_node else ""
    server = f"{option.nodes} x {option.provider} {option.instance_type}{gpus}, {option.region}, {option.purchase}"
    lines = [f"Plan `{job.plan_id}`: {job.task} `{comment(job.model)}` on {server}: ${option.cost.hourly_usd:,.2f} an hour, {whole}."]
    if most_usd(job) > (option.cost.total_usd or option.cost.monthly_usd or 0.0):
        lines.append(f"By the plan's 95 % interval, or at its busiest hours, at most ${most_usd(job):,.2f}.")
    return lines


def _whole(job: Job, recipe: Recipe) -> list[str]:
    """The way from here to the result, and the end."""
    target = all_targets()[recipe.target]
    lines = ["## 1. What it needs", "", *_needs(job, recipe), "", *_block([line for name, _ in recipe.needs if (line := _set(name))])]
    lines += [
        "## 2. Look before money is spent",
        "",
        f"Tells what is missing: program, variable, token, data, bucket, quota, image.{_step(job)}",
        "",
    ]
    lines += _block(["sh check.sh"])
    lines += [f"## 3. Start it ({target.summary})", "", *_block([f"cd {recipe.target}", *recipe.before, *recipe.start, "cd .."])]
    title = "Follow it" if job.is_service else "Wait, and take the result home: it lies in `result/`"
    lines += [f"## 4. {title}", "", *_block([f"cd {recipe.target}", *recipe.result, "cd .."])]
    lines += ["Once it is up, `sh check.sh request http://ADDRESS` sends it one request.", ""] if job.is_service else []
    stops = f" By itself it ends after {job.stop_after_h:g} h at the latest." if job.stop_after_h else " A service runs until you end it."
    lines += ["## 5. End it", "", f"Run this however the job ended; what is gone already is passed over.{stops}", ""]
    lines += _block([f"cd {recipe.target}", *recipe.end, "cd .."])
    return [*lines, f"Then look once more in the console of {job.option.provider}: what is left there is billed.", ""]


def _step(job: Job) -> str:
    """How the program is tried on this machine."""
    if not step_of(job):
        return ""
    folder = stack_name(job).replace("_", "-")
    return (
        f" `sh check.sh step` takes one step with the plan's own program on this machine (`pip install -r {folder}/requirements.txt`), with the model "
        "`RIGHTFIT_CHECK_MODEL` where the plan's is too large for it."
    )


def _needs(job: Job, recipe: Recipe) -> list[str]:
    """Programs, variables and data, one a line."""
    name, install = recipe.program
    lines = [f"- the program `{name}`: `{install}`"]
    typed = set() if job.is_service else {line.split()[0] for line in (*recipe.before, *recipe.result)} - {name}
    lines += [f"- the program `{client}`, which copies to the bucket: `{how}`" for client, how in CLIENTS.values() if client in typed]
    lines += [f"- `{variable}` in the environment: {about}" for variable, about in recipe.needs]
    if job.option.provider == "aws" and job.option.region in OPT_IN_REGIONS:
        lines.append(
            f"- the region {job.option.region}, which is closed to an account until it asks for it: `aws account enable-region --region-name {job.option.region}`"
        )
    for name, about in brings(job).items():
        columns = data_columns(job) if name == "data" else ""
        lines.append(f"- {about} in the folder `{name}/` beside this file{': ' + columns if columns else ''}")
    return lines


def _set(name: str) -> str:
    """A shell line that makes sure of a variable."""
    return f'export {name}="${{{name}:-}}"' if name in OPTIONAL_SECRETS else f'export {name}="${{{name}:?}}"'


def _block(lines: Sequence[str]) -> list[str]:
    """Lines of shell, to be run as they stand."""
    return ["```sh", *lines, "```", ""] if lines else []


def _other(job: Job, recipe: Recipe) -> list[str]:
    """Another launcher, whole."""
    where = "" if job.is_service else f" What the job makes is kept in `{_plainly(recipe.kept)}`."
    lines = [f"### `{recipe.target}/`: {all_targets()[recipe.target].summary}", "", f"{where}".strip(), "", *_needs(job, recipe), ""]
    steps = [f"cd {recipe.target}", *recipe.before, *recipe.start, *recipe.result, "# in the end, however it ended:", *recipe.end, "cd .."]
    return [*lines, "```bash", *steps, "```", ""]


def typed_for(job: Job, target: Target, files: Files) -> str:
    """What to type in the target's folder, a command a line; "" where its files are read by something else."""
    scripts = [f"sh {path}" for path in files if path.endswith(".sh") and "/" not in path]
    return (target.run or _RUNS.get(target.name) or next(iter(scripts), "")).replace("NAME", job.name)


def _entry(target: Target, typed: str) -> list[str]:
    """One target with what to type in its folder."""
    lines = [f"       cd {target.name}", *[f"       {line}" for line in typed.splitlines()], ""] if typed else []
    return [f"- `{target.name}/`: {target.summary}", *(["", *lines] if lines else [])]


def files_of(job: Job, name: str) -> Files:
    """The files of one target, or with "all" of every target that can express the job, each in a folder of its own, with a README that
    orders them."""
    if name.strip().casefold() == ALL:
        return bundle(job)
    return find_target(name, job).files(job)
