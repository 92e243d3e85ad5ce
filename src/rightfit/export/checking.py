"""check.sh of a bundle: what is missing (program, variable, token, data, bucket, quota, image), said before money is spent; and one step or one
request on the spot."""

from __future__ import annotations

import json

from rightfit.export.buckets import BUCKET, CLIENTS, bucket_of, scheme_of, whole, whole_words
from rightfit.export.job import Job
from rightfit.export.model_words import hub_id
from rightfit.export.quoting import shell
from rightfit.export.recipes import OPTIONAL_SECRETS, Recipe, brings
from rightfit.export.stack import ExportStack, stack_name, stack_of, stack_problem

HUB_STACKS = ("vllm", "sglang", "tgi", "tensorrt_llm", "trl", "torchrun", "deepspeed", "diffusers", "megatron")
"""Stacks that fetch the plan's model from the hub under its name."""
SCRIPT_STACKS = dict.fromkeys(("trl", "torchrun", "speech", "segmentation"), "train.json") | {
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
unknown() { echo "not looked at: $1"; }
"""
TAIL = """[ "$missing" = 0 ] || { echo "$missing missing" >&2; exit 1; }
echo "nothing is missing"
"""


def check_script(job: Job, recipe: Recipe | None) -> str:
    """The script, at the top of the bundle."""
    if stack_problem(job):
        return ""
    stack = stack_of(job)
    step, request = step_of(job), request_of(job, stack)
    usage = " [step]" if step else " [request ADDRESS]" if request else ""
    parts = [HEAD % (job.plan_id, usage), step, request]
    if recipe is not None:
        parts += [_program(recipe), *(_variable(name, about) for name, about in recipe.needs)]
    parts += [_token(job), _data(job), _bucket(job, recipe), _region(job), _quota(job), _image(stack), TAIL]
    return "".join(parts)


def _program(recipe: Recipe) -> str:
    name, install = recipe.program
    return f"if command -v {name} >/dev/null 2>&1; then there {shell([name])}; else lacks {shell([f'the program {name}: {install}'])}; fi\n"


def _variable(name: str, about: str) -> str:
    if name in OPTIONAL_SECRETS:
        return ""
    return f'if [ -n "${{{name}:-}}" ]; then there "{name}"; else lacks {shell([f"{name}: {about}"])}; fi\n'


def _token(job: Job) -> str:
    """Whether the hub gives the model to who holds the token."""
    model = hub_id(job)
    if stack_name(job) not in HUB_STACKS or "/" not in model:
        return ""
    page = shell([model])
    return (
        f'code=$(curl -s -o /dev/null -w "%{{http_code}}" --max-time 20 ${{HF_TOKEN:+-H "Authorization: Bearer $HF_TOKEN"}} '
        f'"${{HF_ENDPOINT:-https://huggingface.co}}"/{page}/resolve/main/config.json)\n'
        f'case "$code" in\n  200 | 30?) there {shell([f"the model {model}"])} ;;\n'
        f"  401 | 403) lacks {shell([f'leave to fetch {model}: ask for it on the page of the model, and set HF_TOKEN'])} ;;\n"
        f"  404) lacks {shell([f'{model}: the hub has no model of that name'])} ;;\n"
        f"  *) unknown {shell([f'whether the hub gives {model} (it cannot be reached)'])} ;;\nesac\n"
    )


def _data(job: Job) -> str:
    """Whether what the user brings lies there."""
    lines = ""
    for name, about in brings(job).items():
        columns = data_columns(job) if name == "data" else ""
        lacking = f"{name}: put {about} into the folder {name} beside this file{f' ({columns})' if columns else ''}"
        lines += f'if [ -n "$(ls -A {name} 2>/dev/null)" ]; then there {name}; else lacks {shell([lacking])}; fi\n'
    return lines


def data_columns(job: Job) -> str:
    """What a row of the data holds, as the stack's own settings say; "" where they do not."""
    text = stack_of(job).files.get("train.json", "")
    wanted = json.loads(text).get("data_columns", []) if text else []
    return "JSON lines with " + ", or ".join(" and ".join(names) for names in wanted) if wanted else ""


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
    return (
        f"if ! command -v {program} >/dev/null 2>&1; then lacks {shell([f'the program {program}: {install}'])}\n"
        f"elif {LISTS[scheme]} {address} >/dev/null 2>&1; then there bucket\n"
        f"else lacks {shell([f'the bucket {job.settings.bucket or BUCKET}: it is not there, or these keys may not read it'])}; fi\n"
    )


def _region(job: Job) -> str:
    """Whether the account has the region: new ones of AWS are closed to an account until it asks for them."""
    region = job.option.region
    if job.option.provider != "aws" or job.option.facts.get("is_pseudo_region"):
        return ""
    asked = f"aws ec2 describe-regions --region us-east-1 --all-regions --region-names {shell([region])} --query 'Regions[0].OptInStatus' --output text"
    ask = f"the region {region}, which this account has not asked for: aws account enable-region --region-name {region}"
    return (
        f'case "$({asked} 2>/dev/null)" in\n  opted-in | opt-in-not-required) there {shell([f"the region {region}"])} ;;\n'
        f"  not-opted-in) lacks {shell([ask])} ;;\n  *) unknown {shell([f'whether this account has the region {region}'])} ;;\nesac\n"
    )


def _quota(job: Job) -> str:
    """Whether the account may start the servers: asked where the cloud answers by one command."""
    option = job.option
    if option.provider != "aws" or not job.gpus_per_node or not option.vcpus:
        return f"unknown {shell([f'whether the account on {option.provider} may start {job.num_nodes} x {option.instance_type}: its console says so'])}\n"
    family, kind = option.instance_type[:1].upper(), "Spot" if job.is_spot else "On-Demand"
    needed = int(option.vcpus * job.num_nodes)
    query = f"max(Quotas[?contains(QuotaName, '{kind}') && contains(QuotaName, '{family}')].Value)"
    what = f"a quota of {needed} vCPUs of {kind} {family} servers in {option.region}"
    return (
        f"quota=$(aws service-quotas list-service-quotas --service-code ec2 --region {shell([option.region])} --query {shell([query])} --output text 2>/dev/null)\n"
        f'case "${{quota%.*}}" in\n  "" | *[!0-9]*) unknown {shell([what])} ;;\n'
        f'  *) if [ "${{quota%.*}}" -ge {needed} ]; then there quota; else lacks {shell([what])}; fi ;;\nesac\n'
    )


def _image(stack: ExportStack) -> str:
    image = shell([stack.image])
    return (
        f"if ! command -v docker >/dev/null 2>&1; then unknown {shell([f'whether the image {stack.image} is there (no docker here)'])}\n"
        f"elif docker manifest inspect {image} >/dev/null 2>&1; then there {shell([f'the image {stack.image}'])}\n"
        f"else unknown {shell([f'whether the image {stack.image} is there (its registry cannot be reached from here)'])}; fi\n"
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
