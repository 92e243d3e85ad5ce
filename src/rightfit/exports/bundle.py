"""Everything at once: each target that can express the job in a folder of its own, and a README
that says what to run in which order."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from rightfit.errors import InputError
from rightfit.exports import skypilot_words
from rightfit.exports.afterwards import FOLDER as THEN_FOLDER
from rightfit.exports.afterwards import then_files, then_problem
from rightfit.exports.bare_server import OPTIONAL_SECRETS
from rightfit.exports.buckets import BUCKET, CLIENTS, OPT_IN_REGIONS, bucket_of, scheme_of, whole, whole_words
from rightfit.exports.finding import CLOUD_CLIENTS, found_by
from rightfit.exports.job import COMMITMENTS, GB, SERVING_TASKS, Job
from rightfit.exports.model_words import hub_id, own_folder
from rightfit.exports.quoting import comment, in_quotes, shell
from rightfit.exports.recipes import PRIVATE, PROGRAM, Recipe, brings, has_recipe, here, launcher_of, program_of, recipe_of
from rightfit.exports.registry import ALL, Files, Target, all_targets, find_target, most_usd
from rightfit.exports.stack import ExportStack, shards_all, stack_name, stack_of, stack_problem
from rightfit.exports.waiting import READY_FILE
from rightfit.messages import Message

# ---- check.sh of a bundle: what is missing (program, variable, token, data, bucket, quota, image),
# said before money is spent; and one step or one request on the spot.

HUB_STACKS = ("vllm", "sglang", "tgi", "tensorrt_llm", "trl", "torchrun", "deepspeed", "diffusers", "megatron", "llama_factory")
"""Stacks that fetch the plan's model from the hub under its name."""
SCRIPT_STACKS = dict.fromkeys(("trl", "torchrun", "speech", "segmentation", "detection", "yolo", "graph", "recommender"), "train.json") | {
    "tabular": "run.json",
    "prepare": "run.json",
}
"""Stacks whose program takes one step here, or works on one file, and its settings."""
CHAT_STACKS = ("vllm", "sglang", "tgi", "tensorrt_llm", "llama_cpp")
LISTS = {"s3": "aws s3 ls", "gs": "gcloud storage ls", "oss": "ossutil ls", "cos": "coscli ls", "https": "azcopy list"}
HEAD = """#!/bin/sh
# Plan %s: what is missing before money is spent. Usage: sh check.sh%s
set -u
cd "$(dirname "$0")" || exit 2
missing=0
lacks() { echo "missing: $1" >&2; missing=$((missing + 1)); }
there() { echo "there: $1"; }
unknown() { echo "not checked: $1"; }
"""
TAIL = """[ "$missing" = 0 ] || { echo "$missing missing" >&2; exit 1; }
echo "nothing is missing"
"""


def check_script(job: Job, recipe: Recipe | None, others: Sequence[Recipe] = ()) -> str:
    """The script, at the top of the bundle. `others`: further ways of starting that it can be asked
    about by their name."""
    if stack_problem(job):
        return ""
    stack = stack_of(job)
    step, request = step_of(job), request_of(job, stack)
    usage = f"{' [WAY]' if others else ''}{' | step' if step else ' | request ADDRESS' if request else ''}"
    parts = [HEAD % (job.plan_id, usage), step, request]
    ways = {way.target: _way(job, way) for way in (recipe, *others) if way is not None}
    if others:
        cases = "".join(f"  {name})\n{lines}  ;;\n" for name, lines in ways.items())
        known = " | ".join((*ways, *(("step",) if step else ())))
        parts += [f'case "${{1:-{next(iter(ways))}}}" in\n{cases}  *) echo "usage: sh check.sh [ {known} ]" >&2; exit 2 ;;\nesac\n']
    else:
        parts += ways.values()
    parts += [_token(job), _data(job), *(() if recipe and recipe.target == here(job) else (_image(stack),)), TAIL]
    return "".join(parts)


CLUSTERS = ("kubernetes", "jobset", "kubeflow-trainjob", "kserve", "leaderworkerset", "llm-d", "dynamo", "ray", "slurm", "docker-compose")
"""Ways that rent nothing by themselves."""


def _way(job: Job, recipe: Recipe) -> str:
    """What one way of starting asks for."""
    programs = {recipe.program[0]: recipe.program[1], **further_programs(job, recipe)}
    rents = recipe.target not in (*CLUSTERS, here(job))
    client = CLOUD_CLIENTS.get(job.option.provider, ("",))[0] if rents and recipe.target != "cloud-init" else ""
    lines = [
        *(_program(name, install) for name, install in programs.items()),
        *(_login(name) for name in LOGINS if name in programs or name == client),
        *(_variable(job, name, about) for name, about in recipe.needs),
        _bucket(job, recipe),
    ]
    return "".join([*lines, *((_region(job), _quota(job)) if rents else ())])


def _program(name: str, install: str) -> str:
    return f"if command -v {name} >/dev/null 2>&1; then there {plainly(name)}; else lacks {plainly(f'the program {name}: {install}')}; fi\n"


LOGINS = {
    "aws": ("aws sts get-caller-identity", "a login at AWS: aws configure"),
    "az": ("az account show", "a login at Azure: az login"),
    "gcloud": ("gcloud auth print-access-token", "a login at Google Cloud: gcloud auth login; gcloud auth application-default login"),
    "aliyun": ("aliyun sts GetCallerIdentity", "a login at Alibaba Cloud: aliyun configure"),
    "tccli": ("tccli sts GetCallerIdentity", "a login at Tencent Cloud: tccli configure"),
    "kubectl": ("kubectl auth can-i create pods", "a cluster that lets you start pods: kubectl config use-context NAME"),
}
"""Client -> (a command that fails where nobody is logged in, what to do then)."""


def _login(program: str) -> str:
    """Whether somebody is logged in; Terraform and SkyPilot take the login of the cloud's client,
    where that is there."""
    command, about = LOGINS[program]
    found = about.partition(":")[0]
    return (
        f"if ! command -v {program} >/dev/null 2>&1; then :; elif {command} >/dev/null 2>&1; then there {plainly(found)}; "
        f"else lacks {plainly(about)}; fi\n"
    )


def _variable(job: Job, name: str, about: str) -> str:
    if name in OPTIONAL_SECRETS:
        return ""
    given, found = dict(job.settings.given).get(name), found_by(job, name)
    before = f'{name}="${{{name}:-{in_quotes(given)}}}"\n' if given is not None else ""
    if found and not before:
        before = f'export {name}="${{{name}:-$({{ {found}; }} 2>/dev/null)}}"\n'
    return f'{before}if [ -n "${{{name}:-}}" ]; then there "{name}"; else lacks {plainly(f"{name}: {about}")}; fi\n'


def _token(job: Job) -> str:
    """Whether the hub gives the model to who holds the token."""
    model = hub_id(job)
    if stack_name(job) not in HUB_STACKS:
        return ""
    if own_folder(job):
        return f"lacks {plainly(folder_words(job))}\n" if job.is_service else ""  # of a run it is looked for as its data are
    if "/" not in model:
        return ""
    page = shell([model])
    return (
        f'code=$(curl -s -o /dev/null -w "%{{http_code}}" --max-time 20 ${{HF_TOKEN:+-H "Authorization: Bearer $HF_TOKEN"}} '
        f'"${{HF_ENDPOINT:-https://huggingface.co}}"/{page}/resolve/main/config.json)\n'
        f'case "$code" in\n  200 | 30?) there {plainly(f"the model {model}")} ;;\n'
        f"  401 | 403) lacks {plainly(f'leave to fetch {model}: ask for it on the page of the model, and set HF_TOKEN')} ;;\n"
        f"  404) lacks {plainly(f'{model}: the hub has no model of that name')} ;;\n"
        f"  *) unknown {plainly(f'access to {model} (Hugging Face is unreachable)')} ;;\nesac\n"
    )


def folder_words(job: Job) -> str:
    """What is to be done where a server would have to serve a folder of another machine."""
    name = comment(job.model)
    return f"{name} is a folder of this machine, which the server does not have: hf upload YOU/NAME {shell([name])}, and plan with YOU/NAME"


def plainly(text: str) -> str:
    """A sentence as one word of the shell, without the marks that only Markdown shows."""
    return shell([text.replace("`", "")])


def _data(job: Job) -> str:
    """Whether what the user brings lies there."""
    lines = ""
    for name, about in brings(job).items():
        columns = data_columns(job) if name == "data" else ""
        lacking = f"{name}: put {about} into the folder {name} beside this file{f' ({columns})' if columns else ''}"
        lines += f'if [ -n "$(ls -A {name} 2>/dev/null)" ]; then there {name}; else lacks {plainly(lacking)}; fi\n'
        lines += columns_check(job) if columns else ""
    return lines


COLUMNS_CHECK = """columns=$(python3 - %(wanted)s %(names)s 2>/dev/null <<'EOF'
import csv, json, pathlib, sys
wanted, names = json.loads(sys.argv[1]), json.loads(sys.argv[2])
files = sorted(file for file in pathlib.Path("data").rglob("*") if file.suffix in (".jsonl", ".json", ".csv") and file.stem != "metadata")
with files[0].open(encoding="utf-8", newline="") as text:
    if files[0].suffix == ".csv":
        has = next(csv.reader(text))
    else:
        line = text.readline()
        has = list(json.loads(line)) if line.lstrip().startswith("{") else list(json.loads(line + text.read())[0])
known = {ours for ours, theirs in names.items() if theirs in has} | (set(has) - set(names.values()))
known |= {"prompt", "completion"} if {"instruction", "output"} <= known else set()
if not any(set(columns) <= known for columns in wanted):
    print(f"{files[0]} has {', '.join(has)}")
EOF
)
[ -z "$columns" ] || lacks "columns of the data: $columns; needed: "%(needed)s
"""


def rewarded(job: Job) -> tuple[str, ...]:
    """Columns that rewards read beside the prompt."""
    text = "" if json.loads(stack_of(job).files.get("train.json", "{}")).get("reward_model") else stack_of(job).files.get("reward.py", "")
    return tuple(re.findall(r"(\w+)=None", text))


def columns_check(job: Job) -> str:
    """Shell lines that look at the form of the data: the first row of JSON lines, JSON or CSV, or
    the files that there must be; "" for other data."""
    if form := FORMS.get(stack_name(job)):
        return "" if form[1] == "true" else f"{form[1]} || lacks {plainly(f'the form of the data: {form[0]}')}\n"
    files = stack_of(job).files
    wanted = json.loads(files.get("train.json") or files.get("run.json") or "{}").get("data_columns", [])
    if stack_name(job) == "tabular":
        wanted = [["label"]] if job.task != "batch" else []
    wanted = [[*names, *rewarded(job)] for names in wanted]
    if not wanted or any(".npy" in name for names in wanted for name in names):
        return ""
    named = f"{' or '.join(', '.join(names) for names in wanted)} (other names: rightfit export --data-columns)"
    pairs = job.settings.columns
    told = dict(pairs) if not isinstance(pairs, str) else {}
    return COLUMNS_CHECK % {"wanted": shell([json.dumps(wanted)]), "names": shell([json.dumps(told)]), "needed": plainly(named)}


FORMS = {
    "timm": ("`train/` and `validation/`, in each a folder of images for every class", "[ -d data/train ] && [ -d data/validation ]"),
    "diffusers": (
        'images, and `metadata.jsonl` with a line {"file_name": ..., "text": ...} for each',
        "[ -n \"$(find data -name 'metadata.*' | head -n 1)\" ]",
    ),
    "megatron": (
        "JSON lines with text, and the tokens that sh megatron/prepare.sh makes of them here, once",
        "[ -f data/tokens_text_document.idx ]",
    ),
    "llama_factory": ("`train.jsonl`, its rows messages and the names of their images in this folder", "[ -f data/train.jsonl ]"),
    "prepare": ("the files to prepare", "true"),
    "yolo": ("`data.yaml` with the folders that it names, or images with `metadata.jsonl`", "true"),
}
"""Stack -> the form of its data, and a test of the shell whether they have it; of others the
settings say which columns a row has."""


def data_columns(job: Job) -> str:
    """What the data hold, as the stack's own settings or its program say; "" where neither does."""
    if form := FORMS.get(stack_name(job)):
        return form[0]
    if stack_name(job) == "tabular":
        return "CSV or Parquet with " + ("the columns that the model was trained on" if job.task == "batch" else "a column `label`")
    files = stack_of(job).files
    wanted = json.loads(files.get("train.json") or files.get("run.json") or "{}").get("data_columns", [])
    if scored := rewarded(job):
        return f"JSON lines with {' and '.join((*wanted[0], *scored))}; `{here(job)}/reward.py` says what an answer is worth: change it for other columns"
    arrays = any(".npy" in name for names in wanted for name in names)
    told = ", or ".join(" and ".join(names) for names in wanted)
    return "" if not wanted else f"the files {told}" if arrays else f"JSON lines with {told}"


def _bucket(job: Job, recipe: Recipe | None) -> str:
    """Whether the bucket answers; one that the launcher makes is not there yet."""
    if job.is_service or recipe is None:
        return ""
    scheme = scheme_of(job)
    asked = any(name == BUCKET for name, _ in recipe.needs)
    if not job.settings.bucket and not asked:
        return ""
    # A folder of it may not be there yet.
    address = shell([whole(bucket_of(job.settings.bucket))]) if job.settings.bucket else whole_words(job)
    program, install = CLIENTS[scheme]
    named = "" if job.settings.bucket else f'if [ -z "${{{BUCKET}:-}}" ]; then :\nel'  # said already
    said = program == recipe.program[0] or program in further_programs(job, recipe)
    lacking = ":" if said else f"lacks {plainly(f'the program {program}: {install}')}"
    return (
        f"{named}if ! command -v {program} >/dev/null 2>&1; then {lacking}\n"
        f"elif {LISTS[scheme]} {address} >/dev/null 2>&1; then there bucket\n"
        f"else lacks {plainly(f'the bucket {job.settings.bucket or BUCKET}: it is not there, or these keys may not read it')}; fi\n"
    )


def _region(job: Job) -> str:
    """Whether the account has the region: new ones of AWS are closed to an account
    until it asks for them."""
    region = job.option.region
    if job.option.provider != "aws" or job.option.facts.get("is_pseudo_region"):
        return ""
    asked = f"aws ec2 describe-regions --region us-east-1 --all-regions --region-names {shell([region])} --query 'Regions[0].OptInStatus' --output text"
    ask = f"the region {region}, which this account has not asked for: aws account enable-region --region-name {region}"
    return (
        f'case "$({asked} 2>/dev/null)" in\n  opted-in | opt-in-not-required) there {plainly(f"the region {region}")} ;;\n'
        f"  not-opted-in) lacks {plainly(ask)} ;;\n  *) unknown {plainly(f'region {region} on this account')} ;;\nesac\n"
    )


def _quota(job: Job) -> str:
    """Whether the account may start the servers: asked where the cloud answers by one command."""
    option = job.option
    if option.provider == PRIVATE:
        return ""
    if option.provider != "aws" or not job.gpus_per_node or not option.vcpus:
        return f"unknown {plainly(f'quota of {option.provider} for {job.num_nodes} x {option.instance_type} (see its console)')}\n"
    family, kind = option.instance_type[:1].upper(), "Spot" if job.is_spot else "On-Demand"
    needed = int(option.vcpus * job.num_nodes)
    query = f"max(Quotas[?contains(QuotaName, '{kind}') && contains(QuotaName, '{family}')].Value)"
    what = f"a quota of {needed} vCPUs of {kind} {family} servers in {option.region}"
    return (
        f"quota=$(aws service-quotas list-service-quotas --service-code ec2 --region {shell([option.region])} --query {shell([query])} --output text 2>/dev/null)\n"
        f'case "${{quota%.*}}" in\n  "" | *[!0-9]*) unknown {plainly(what)} ;;\n'
        f'  *) if [ "${{quota%.*}}" -ge {needed} ]; then there quota; else lacks {plainly(what)}; fi ;;\nesac\n'
    )


def _image(stack: ExportStack) -> str:
    image = shell([stack.image])
    return (
        f"if ! command -v docker >/dev/null 2>&1; then unknown {plainly(f'image {stack.image} (docker is not installed here)')}\n"
        f"elif docker manifest inspect {image} >/dev/null 2>&1; then there {plainly(f'the image {stack.image}')}\n"
        f"else unknown {plainly(f'image {stack.image} (its registry is unreachable)')}; fi\n"
    )


STEP = """if [ "${1:-}" = step ]; then
  # One step of the plan's own program on this machine, RIGHTFIT_CHECK_MODEL in the place of the model where that is too large for it.
  command -v %(program)s >/dev/null 2>&1 || { echo "missing: %(program)s: pip install -r %(folder)s/requirements.txt" >&2; exit 2; }
  folder=$(mktemp -d)
  cp %(folder)s/* "$folder" && python3 - "$folder" "$PWD" %(settings)s <<'EOF' || exit 2
import json, os, pathlib, shutil, sys
folder, here, name = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
plan = json.loads((folder / name).read_text())
small = {"steps": 1, "micro_batch": 1, "grad_accum": 1, "seq_len": min(plan.get("seq_len", 128), 128), "workers": 0, "trees": 1, "threads": 1}
small |= {"sharding": "none", "parallel": "ddp", "offload": False, "gpus_per_node": 1, "output": str(folder / "out")}
if not shutil.which("nvidia-smi"):
    small |= {"attention": "sdpa", "optimizer": "adamw_torch", "device": "cpu"}
    small |= {"precision": "fp32"} if "optimizer" in plan else {}
    small |= {"method": "lora"} if plan.get("method") == "qlora" else {}
if plan["data"] == "/checkpoints/data":
    small["data"] = str(here / "data")
    if name == "run.json":  # one file of the data
        (folder / "data").mkdir()
        first = min(file for file in (here / "data").rglob("*") if file.is_file())
        shutil.copy(first, folder / "data")
        small["data"] = str(folder / "data")
if str(plan.get("model", "")).startswith("/checkpoints/model/"):
    small["model"] = plan["model"].replace("/checkpoints", str(here))
if os.environ.get("RIGHTFIT_CHECK_MODEL"):
    small["model"] = os.environ["RIGHTFIT_CHECK_MODEL"]
(folder / name).write_text(json.dumps({**plan, **{key: value for key, value in small.items() if key in plan}}))
EOF
  (cd "$folder" && exec %(command)s) && echo "one step is taken: $folder/out"
  exit
fi
"""


def step_of(job: Job) -> str:
    """Shell lines of `check.sh step`; "" where the stack has no script that runs here."""
    name = stack_name(job)
    if job.is_service or name not in SCRIPT_STACKS:
        return ""
    settings = SCRIPT_STACKS[name]
    torch = settings == "train.json"
    words = ("torchrun", "--standalone", "--nproc_per_node", "1", "train.py", settings) if torch else stack_of(job).command
    folder = name.replace("_", "-")
    return STEP % {"folder": folder, "settings": settings, "program": "torchrun" if torch else "python", "command": shell(words)}


INFER = """python3 - "$2" <<'EOF'
import json, os, sys, urllib.request
def ask(path, body=None):
    words = {"Authorization": "Bearer " + os.environ["%s"], "Content-Type": "application/json"}
    wanted = urllib.request.Request(sys.argv[1].rstrip("/") + path, data=body and json.dumps(body).encode(), headers=words)
    return json.load(urllib.request.urlopen(wanted, timeout=120))
def ones(shape):
    return [ones(shape[1:]) for _ in range(shape[0] if isinstance(shape[0], int) else 8)] if shape else 1
try:
    answer = ask("/v1/infer", {"inputs": {name: ones(shape) for name, shape in ask("/v1/inputs").items()}})
except OSError as error:
    sys.exit(f"{sys.argv[1]}: {error}")
print("outputs: " + ", ".join(answer))
EOF
"""


def request_of(job: Job, stack: ExportStack) -> str:
    """Shell lines of `check.sh request ADDRESS`."""
    if not job.is_service:
        return ""
    key = next((name for name in stack.secrets if name != "HF_TOKEN"), "")
    header = f'-H "Authorization: Bearer ${{{key}:?}}" ' if key else ""
    if stack_name(job) in CHAT_STACKS:
        body = json.dumps({"model": hub_id(job), "prompt": "One word:", "max_tokens": 8})  # base models have no template of chats
        call = f"curl -sSf --max-time 120 {header}-H 'Content-Type: application/json' -d {shell([body])} \"$2\"/v1/completions && echo"
    elif stack_name(job) == "onnx_service":
        call = INFER % key
    else:
        call = f'curl -sSf --max-time 120 {header}"$2"{stack.health_path} && echo'
    told = ': "${2:?give the address of the service: sh check.sh request http://HOST:PORT}"'
    return f'if [ "${{1:-}}" = request ]; then\n  {told}\n  if {call.rstrip()}\n  then echo "it answers"; exit\n  else exit 1\n  fi\nfi\n'


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
    check = check_script(job, recipe, [recipe_of(job, name) for name in written if has_recipe(name) and name != launcher])
    return {"README.md": readme(job, written, refused), **({"check.sh": check} if check else {}), **files}


def readme(job: Job, written: Mapping[str, Files], refused: list[tuple[str, Message | str]]) -> str:
    """What is in the bundle; from top to bottom how it is started, followed and ended with the
    first launcher; then everything else."""
    launcher = launcher_of(job, written)
    recipe = recipe_of(job, launcher) if launcher else None
    lines = [f"# {job.name}", "", kept_line(job, recipe), "", *_about(job), ""]
    lines += (
        _whole(job, recipe)
        if recipe
        else [f"**Nothing here starts this plan: {comment(str(problem))}.**", ""]
        if (problem := stack_problem(job))
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
    if job.settings.then:
        lines += _then(job)
    if refused:
        lines += ["## Left out", "", *[f"- {name}: {comment(str(problem))}" for name, problem in refused], ""]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines))


def kept_line(job: Job, recipe: Recipe | None) -> str:
    """The first line: where what the job makes outlives the server."""
    if job.is_service:
        opened = (
            " Started the first way, everyone can reach its address; who sends the key is answered."
            if recipe and recipe.target in ("skypilot", "dstack")
            else ""
        )
        return f"This is a service: it runs, and costs, until you end it.{opened}"
    if recipe is not None and recipe.target == here(job):
        return f"What the job makes is kept in `{job.name}/` beside this file, on this machine. Nothing is rented."
    if recipe is None or not recipe.kept:
        return "**Nothing here keeps what the job makes: copy /checkpoints away before the server is deleted.**"
    return f"What the job makes is kept in `{_plainly(recipe.kept)}`.{server_line(job, recipe.target)}"


def server_line(job: Job, target: str) -> str:
    """What becomes of the server when the job ends, and what is billed on."""
    if target in CLUSTERS or target == here(job):
        return ""
    if target == "cloud-init":
        return " The server shuts down when the job ends, and may be billed until you delete it."
    if job.option.provider == "azure" and target in ("terraform-azure", "provider-cli"):
        return (
            " When the job ends, whether it succeeds or fails, the server is stopped and deallocated: GPU, vCPUs and memory are billed no more, "
            f"its disk ({job.disk_gib} GiB) and its public address are until the last step below deletes them."
        )
    return " The server is deleted when the job ends, whether it succeeds or fails."


def _then(job: Job) -> list[str]:
    """How the result is served."""
    return [
        "## Then serve it",
        "",
        "On a server with the same card: the folder of the result, `result/` here, is the argument.",
        "",
        *_block([f"cd {THEN_FOLDER}", "pip install -r requirements.txt", "sh serve.sh ../result", "cd .."]),
    ]


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
    if job.is_service and own_folder(job):
        lines.append(f"**{folder_words(job)}.**")
    if host := host_line(job):
        lines.append(host)
    if option.purchase in COMMITMENTS:
        lines.append(
            f"It starts on demand: that price needs the commitment {option.purchase}, which is bought apart and applies by itself."
        )
    if most_usd(job) > (option.cost.total_usd or option.cost.monthly_usd or 0.0):
        lines.append(f"By the plan's 95 % interval, or at its busiest hours, at most ${most_usd(job):,.2f}.")
    return lines


def host_line(job: Job) -> str:
    """What a training takes of each server's own memory, and when: the plan's figure."""
    needed, has = job.option.estimate.get("host_memory_bytes"), job.option.memory_bytes
    if needed is None or not has or job.task in (*SERVING_TASKS, "prepare") or not job.gpus_per_node:
        return ""
    cut = job.option.layout.sharding in ("zero-3", "hybrid")
    how = "one process reads the weights and gives out the shards" if cut else "each process reads the weights onto its card"
    saved = " A finished model is written weight by weight." if shards_all(job) and stack_name(job) == "torchrun" else ""
    return f"Of each server's {has / GB:,.0f} GB of memory it takes about {needed.mid / GB:,.0f} GB, most while it loads: {how}.{saved}"


def _whole(job: Job, recipe: Recipe) -> list[str]:
    """The way from here to the result, and the end."""
    target = all_targets()[recipe.target]
    lines = ["## 1. What it needs", "", *_needs(job, recipe), "", *_block([set_line(job, name) for name, _ in recipe.needs])]
    lines += [
        "## 2. Look before money is spent",
        "",
        f"Tells what is missing: program, variable, token, data, bucket, quota, image. For another way below, give its name: `sh check.sh slurm`.{_step(job)}",
        "",
    ]
    lines += _block(["sh check.sh"])
    lines += [f"## 3. Start it ({target.summary})", "", *_block([f"cd {recipe.target}", *recipe.before, *recipe.start, "cd .."])]
    title = "Follow it" if job.is_service else "Wait, and take the result home: it lies in `result/`"
    lines += [f"## 4. {title}", "", *_block([f"cd {recipe.target}", *recipe.result, "cd .."])]
    lines += ["Once it is up, `sh check.sh request http://ADDRESS` sends it one request.", ""] if job.is_service else []
    if not recipe.end:
        return lines
    stops = (
        ends_words(job, recipe.target) or f" By itself it ends after {job.stop_after_h:g} h at the latest."
        if job.stop_after_h
        else " A service runs until you end it."
    )
    lines += ["## 5. End it", "", f"Run this however the job ended; what is gone already is passed over.{stops}", ""]
    lines += _block([f"cd {recipe.target}", *recipe.end, "cd .."])
    if job.option.provider == PRIVATE:
        return lines
    return [*lines, f"Then look once more in the console of {job.option.provider}: what is left there is billed.", ""]


def ends_words(job: Job, target: str) -> str:
    """What ends a managed job, whose limit is that of each start; "" for other ways."""
    if target != "skypilot" or not job.is_spot or not skypilot_words.managed(job) or not job.stop_after_h:
        return ""
    most = skypilot_words.MOST_RESTARTS
    return (
        f" Each start ends after {job.stop_after_h:g} h at the latest; SkyPilot starts it again when the server is taken away, and {most} times "
        f"after an error or that limit, so that it may cost up to {most + 1} times as much."
    )


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
    copies = {line.split()[0] for line in (*recipe.before, *recipe.result)} if not job.is_service else set()
    for client, how in further_programs(job, recipe).items():
        does = "copies to the bucket" if client in copies else "keeps the secrets, and knows some of what must be set"
        lines.append(f"- the program `{client}`, which {does}: `{how}`")
    lines += [f"- `{variable}` in the environment: {about}" for variable, about in recipe.needs]
    if job.option.provider == "aws" and job.option.region in OPT_IN_REGIONS:
        lines.append(
            f"- the region {job.option.region}, which is closed to an account until it asks for it: `aws account enable-region --region-name {job.option.region}`"
        )
    for name, about in brings(job).items():
        columns = data_columns(job) if name == "data" else ""
        lines.append(f"- {about} in the folder `{name}/` beside this file{': ' + columns if columns else ''}")
    return lines


def further_programs(job: Job, recipe: Recipe) -> dict[str, str]:
    """Programs of clouds and stores that the lines of a way call beside its own, and where each is
    had."""
    asked = [set_line(job, name) for name, _ in recipe.needs]
    lines = "\n".join((*asked, *recipe.before, *recipe.start, *recipe.result, *recipe.end))
    every = dict((*CLIENTS.values(), *CLOUD_CLIENTS.values()))
    return {name: how for name, how in every.items() if name != recipe.program[0] and re.search(rf"(?<![\w./-]){name} ", lines)}


def set_line(job: Job, name: str) -> str:
    """A shell line that makes sure of a variable: as it is set, as the export was told, or as the
    programs of the cloud know it."""
    if name in OPTIONAL_SECRETS:
        return f'export {name}="${{{name}:-}}"'
    given, found = dict(job.settings.given).get(name), found_by(job, name)
    if given is not None:
        return f'export {name}="${{{name}:-{in_quotes(given)}}}"'
    return f'export {name}="${{{name}:-$({found})}}"; : "${{{name}:?}}"' if found else f'export {name}="${{{name}:?}}"'


def _block(lines: Sequence[str]) -> list[str]:
    """Lines of shell, to be run as they stand."""
    return ["```sh", *lines, "```", ""] if lines else []


def _other(job: Job, recipe: Recipe) -> list[str]:
    """Another launcher, whole."""
    where = "" if job.is_service else f"What the job makes is kept in `{_plainly(recipe.kept)}`.{server_line(job, recipe.target)}"
    lines = [f"### `{recipe.target}/`: {all_targets()[recipe.target].summary}", "", f"{where}".strip(), "", *_needs(job, recipe), ""]
    asked = [set_line(job, name) for name, _ in recipe.needs]
    steps = [
        *asked,
        f"cd {recipe.target}",
        *recipe.before,
        *recipe.start,
        *recipe.result,
        "# in the end, however it ended:",
        *recipe.end,
        "cd ..",
    ]
    return [*lines, "```bash", *steps, "```", ""]


def typed_for(job: Job, target: Target, files: Files) -> str:
    """What to type in the target's folder, a command a line; "" where its files are read
    by something else."""
    scripts = [f"sh {path}" for path in files if path.endswith(".sh") and "/" not in path and path != READY_FILE]
    typed = (target.run or _RUNS.get(target.name) or next(iter(scripts), "")).replace("NAME", job.name)
    return typed.replace(PROGRAM, program_of(job)) if PROGRAM in typed else typed


def start_of(job: Job, name: str, files: Files, plan: str) -> str:
    """The command that starts what a target wrote; "" where something else reads the files."""
    if name in ("skypilot", f"terraform-{job.option.provider}"):
        return f"rightfit launch {shell([plan])} --with {name.partition('-')[0]}"
    if name not in all_targets():
        return ""
    lines = recipe_of(job, name).start if has_recipe(name) else typed_for(job, all_targets()[name], files).splitlines()
    return lines[-1].strip() if lines else ""


def _entry(target: Target, typed: str) -> list[str]:
    """One target with what to type in its folder."""
    lines = [f"       cd {target.name}", *[f"       {line}" for line in typed.splitlines()], ""] if typed else []
    return [f"- `{target.name}/`: {target.summary}", *(["", *lines] if lines else [])]


def files_of(job: Job, name: str) -> Files:
    """The files of one target, or with "all" of every target that can express the job, each in a
    folder of its own, with a README that orders them; and those of what follows the run."""
    then = then_files(job) if job.settings.then else {}
    if name.strip().casefold() == ALL:
        return {**bundle(job), **then}
    target = find_target(name, job)
    if problem := target.other_work(job):
        told = {"target": target.name, "problem": problem, "instead": _starts(job, target) or target.instead(job)}
        raise InputError(Message("export.not_expressed", **told), field="to")
    return {**target.files(job), **then}


def _starts(job: Job, other: Target) -> Message | str:
    """What starts a job that a target of other work was asked for ("" if nothing does)."""
    if stack_problem(job):
        return ""
    program = stack_name(job).replace("_", "-")
    launcher = launcher_of(job, [target.name for target in all_targets().values() if has_recipe(target.name) and not target.problem(job)])
    serves = "serve" in other.works_for and not then_problem(job)
    told = {"program": program, "launcher": launcher or program, "then": Message("export.instead_then") if serves else ""}
    return Message("export.instead_starts" if launcher and launcher != program else "export.instead_starts_here", **told)
