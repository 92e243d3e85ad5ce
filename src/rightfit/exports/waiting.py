"""wait.sh of the ways that start a run: it gives the run an id, waits for the end of that very run,
and says how it ended.

What decides is what an object says, never how a program that lists objects exits: `coscli ls` and
`azcopy list` exit with 0 where nothing is. A run leaves `ended` in its folder of the bucket, with
its id and the exit code of its program, so that what an earlier run left is told from it. Each look
also asks the seller whether the server is there: one that is gone without a word is rented again
where it was on spot, and else ends the wait.
"""

from __future__ import annotations

import json

from rightfit.exports.buckets import COPIERS, Copier, place_of, place_words, scheme_of
from rightfit.exports.job import Job
from rightfit.exports.model_words import longest_start_s
from rightfit.exports.quoting import comment, shell
from rightfit.exports.registry import Files
from rightfit.records import dataclass

RUN = "RIGHTFIT_RUN"
"""The variable by which a server knows which run it is."""
TOKEN = "RIGHTFIT_TOKEN"  # noqa: S105  names no secret
"""The variable that says whether the optional token lies in the store of secrets: where none lies
nothing is asked for."""
RUN_FILE = "run.id"
TOKEN_FILE = "token.given"  # noqa: S105
"""Beside a Terraform folder where the optional token was put into the store of secrets."""
ENDED = "ended"
POLL_S = 60
GONE_AFTER = 3
"""Looks in a row that find no server before it is lost: lists of sellers are minutes behind."""
MARGIN_H = 2.0  # over a run's own longest time: room for the boot and the last copies
UNLIMITED_H = 31 * 24.0
MOST_RENTED = 20


@dataclass(frozen=True, slots=True)
class Way:
    """How a way is asked, as bodies of shell functions. `told` prints how this run ended, and
    nothing while it runs; `servers` prints the ids of the servers that run or come up, and fails
    where nobody answers; `again` rents a server for the same run ("" where a lost one ends the
    wait); `begin`: what else a new run begins with; `before`: lines that find what the others
    need; `hint`: what is typed to start it again by hand; `gone_after`: looks without a server
    before it is lost."""

    told: str
    servers: str
    again: str = ""
    begin: str = ""
    before: tuple[str, ...] = ()
    hint: str = "start it again: it goes on from its last checkpoint"
    gone_after: int = GONE_AFTER


SCRIPT = r"""#!/bin/sh
# Plan %(plan)s, %(model)s. sh wait.sh new: a run begins (before it is started). sh wait.sh: waits for that run and says how it ended.
# Exit code 0: it ended well; 1: it failed; 2: there is nothing to wait for; 3: its server is lost; 4: its time is over; 5: the run before still runs.
set -u
cd "$(dirname "$0")" || exit 2
run="$(cat %(file)s 2>/dev/null)"

%(functions)s
if [ "${1:-}" = new ]; then
  if [ -n "$run" ]%(if_ready)s && [ -z "$(told)" ] && [ -n "$(servers 2>/dev/null)" ]; then
    echo "run $run still runs: sh wait.sh waits for it" >&2
    exit 5
  fi
  run="$(date -u +%%Y%%m%%dT%%H%%M%%SZ)-$$"
  echo "$run" > %(file)s || exit 2
%(begin)s  echo "run $run begins"
  exit 0
fi
[ -n "$run" ] || { echo "no run was begun here: sh wait.sh new" >&2; exit 2; }
%(or_leave)s
finish() {
  case "$1" in
    0) echo "run $run ended well"; exit 0 ;;
    time) echo "the time of run $run was over before it ended: what it made so far is kept" >&2 ;;
    *) echo "run $run failed ($1): what it made so far is kept" >&2 ;;
  esac
  exit 1
}

limit_s="${LIMIT_S:-%(limit_s)s}" every_s="${EVERY_S:-%(every_s)s}"
begun=$(date +%%s) gone=0%(rented)s
while :; do
  # Whether a server is there is asked first: what one says at its end is then seen before it is called lost.
  if ids=$(servers); then count=$(printf '%%s' "$ids" | wc -w); else count=unknown; fi
  status=$(told)
  [ -z "$status" ] || finish "$status"
  if [ "$count" = unknown ]; then echo "the seller does not answer; asking again" >&2
  elif [ "$count" -gt 0 ]; then gone=0
  else gone=$((gone + 1))
  fi
  if [ "$gone" -ge %(gone_after)s ]; then
%(lost)s  fi
  if [ $(($(date +%%s) - begun)) -ge "$limit_s" ]; then
    echo "run $run has not ended in $limit_s s, which is longer than it may take: look at its server" >&2
    exit 4
  fi
  sleep "$every_s"
done
"""
LOST = r"""echo "the server of run $run is gone and the run has not ended: %s" >&2
exit 3
"""
TAKEN = r"""if [ "$rented" -ge %s ]; then
%s
fi
echo "the server was taken: renting another, which goes on from the last checkpoint" >&2
if again; then begun=$(date +%%s) gone=0 rented=$((rented + 1)); fi
"""


def wait_script(job: Job, way: Way) -> str:
    """The script of a way: of what only some ways do, the others have no line."""
    bodies = {"ready": "\n".join(way.before), "told": way.told, "servers": way.servers, "again": way.again}
    lost = LOST % way.hint
    words = {
        "plan": job.plan_id,
        "model": comment(job.model),
        "file": RUN_FILE,
        "functions": "".join(f"{name}() {{\n{_indented(body)}}}\n" for name, body in bodies.items() if body),
        "if_ready": " && ready 2>/dev/null" if way.before else "",
        "or_leave": "ready || exit 2\n" if way.before else "",
        "begin": _indented(way.begin),
        "lost": _indented(_indented(TAKEN % (MOST_RENTED, _indented(lost).rstrip("\n")) if way.again else lost)),
        "rented": " rented=1" if way.again else "",
        "limit_s": limit_s(job),
        "every_s": POLL_S,
        "gone_after": way.gone_after,
    }
    return SCRIPT % words


def wait_files(job: Job, way: Way) -> Files:
    """wait.sh of a run; nothing for a service, which ends when its owner ends it."""
    return {} if job.is_service else {"wait.sh": wait_script(job, way)}


def limit_s(job: Job) -> int:
    """Seconds after which a run is not waited for any longer: its own longest time
    and room around it."""
    return round((job.stop_after_h + MARGIN_H if job.stop_after_h else UNLIMITED_H) * 3600)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines())


# ------------------------------------------------------------------------------------------------
# what a run leaves in its bucket


def told_by_store(copier: Copier) -> str:
    """Reads `ended` of the run's folder ($place). Only its own words count: another run's are
    passed over, and so is what a program says of nothing."""
    get = copier.file.replace('"$1"', f'"$place/{ENDED}"').replace('"$2"', '"$PWD/.ended"')
    return (
        "rm -rf .ended\n"
        f"{get} </dev/null >/dev/null 2>&1 || :\n"
        "[ -f .ended ] || return 0\n"
        'of="" status=""\n'
        "read -r of status < .ended || :\n"
        '[ "$of" != "$run" ] || printf %s "${status:-1}"'
    )


def by_store(
    job: Job, *, servers: str, again: str = "", begin: str = "", place: str = "", scheme: str = "", gone_after: int = GONE_AFTER
) -> Way:
    """The way of a server that leaves `ended` in a bucket. `place`: shell words of the run's folder
    in it; `scheme`: of the bucket."""
    before = (
        f"place={place or place_words(job)}",
        'case "$place" in *://*) ;; *) echo "no bucket is known here: $place" >&2; return 2 ;; esac',
    )
    return Way(
        told_by_store(COPIERS[scheme or scheme_of(job)]),
        servers,
        again=again if job.is_spot else "",
        begin=begin,
        before=before,
        gone_after=gone_after,
    )


def terraform_way(job: Job) -> Way:
    """Terraform's own state knows the bucket, and `apply` rents what is gone."""
    return by_store(
        job,
        servers=servers_of(job),
        again="terraform apply -input=false -auto-approve",
        place=terraform_place(job),
    )


def terraform_place(job: Job) -> str:
    """Shell words of the plan's folder in the bucket of the settings, or in the one
    that Terraform makes."""
    if job.settings.bucket:
        return place_words(job)
    return f'"$(terraform output -raw bucket)"/{place_of(job)}'


# ------------------------------------------------------------------------------------------------
# who is asked for servers


RUNNING = {
    "aws": "pending,running",
    "azure": "(powerState=='VM running' || powerState=='VM starting' || powerState=='VM creating')",
    "gcp": "status:(PROVISIONING STAGING RUNNING REPAIRING)",
    "alicloud": ("Pending", "Starting", "Running"),
    "tencent": ("PENDING", "STARTING", "RUNNING", "REBOOTING"),
}
"""States of a server that works or comes up."""
THERE = "pending,running,stopping,stopped"
"""States of a server of AWS that can be ended."""


def servers_of(job: Job, *, all_states: bool = False) -> str:
    """A body that prints the ids of the plan's servers, by the label that each carries.
    `all_states`: those that only stand and cost, too."""
    return _SERVERS[job.option.provider](job, all_states)


def _amazon(job: Job, all_states: bool) -> str:
    states = THERE if all_states else RUNNING["aws"]
    filters = [f"Name=tag:rightfit-plan,Values={job.plan_id}", f"Name=instance-state-name,Values={states}"]
    words = ("aws", "ec2", "describe-instances", "--region", job.option.region, "--filters", *filters)
    return shell((*words, "--query", "Reservations[].Instances[].InstanceId", "--output", "text"))


def _google(job: Job, all_states: bool) -> str:
    label = f"labels.rightfit-plan={job.plan_id}"
    words = ("--filter", label if all_states else f"{label} AND {RUNNING['gcp']}", "--format", "value(name)")
    return f'gcloud compute instances list --project "${{PROJECT:-${{TF_VAR_project:?}}}}" {shell(words)}'


def _azure(job: Job, all_states: bool) -> str:
    condition = f"tags.\"rightfit-plan\"=='{job.plan_id}'"
    query = f"[?{condition}].id" if all_states else f"[?{condition} && {RUNNING['azure']}].id"
    return shell(("az", "vm", "list", *(() if all_states else ("--show-details",)), "--query", query, "--output", "tsv"))


def _by_python(command: str, *program: str) -> str:
    """The JSON that a command prints, read by Python; a command that fails is a failure."""
    return f'found=$({command}) || return 1\nprintf %s "$found" | python3 -c {shell(program)}'


def _alibaba(job: Job, all_states: bool) -> str:
    words = ("aliyun", "ecs", "DescribeInstances", "--RegionId", job.option.region, "--PageSize", "100")
    test = "" if all_states else f' if one["Status"] in {RUNNING["alicloud"]!r}'
    program = f'import json, sys; print(*[one["InstanceId"] for one in json.load(sys.stdin)["Instances"]["Instance"]{test}])'
    return _by_python(shell((*words, "--Tag.1.Key", "rightfit-plan", "--Tag.1.Value", job.plan_id)), program)


def _tencent(job: Job, all_states: bool) -> str:
    filters = json.dumps([{"Name": "tag:rightfit-plan", "Values": [job.plan_id]}])
    words = ("tccli", "cvm", "DescribeInstances", "--region", job.option.region, "--Limit", "100", "--Filters", filters)
    test = "" if all_states else f' if one["InstanceState"] in {RUNNING["tencent"]!r}'
    return _by_python(shell(words), f'import json, sys; print(*[one["InstanceId"] for one in json.load(sys.stdin)["InstanceSet"]{test}])')


_SERVERS = {"aws": _amazon, "azure": _azure, "gcp": _google, "alicloud": _alibaba, "tencent": _tencent}


# ------------------------------------------------------------------------------------------------
# the other ways


def cloudformation_way(job: Job, start: str) -> Way:
    """A stack whose server is gone is deleted before another is made: deploying it again would find
    nothing to change."""
    stack = shell(("--stack-name", job.name, "--region", job.option.region))
    again = f"aws cloudformation delete-stack {stack} && aws cloudformation wait stack-delete-complete {stack} && {start}"
    return by_store(job, servers=servers_of(job), again=again)


def cloud_init_way(job: Job) -> Way:
    """Nobody but the server itself can be asked: one that is new, or was started again, takes
    minutes until it answers."""
    answers = 'ssh -o BatchMode=yes -o ConnectTimeout=20 "${SERVER:?}" true </dev/null >/dev/null 2>&1'
    return by_store(job, servers=f'if {answers}; then echo "$SERVER"; fi', gone_after=30)


RUNS_OF_DSTACK = (
    'import json, sys; runs = [run for run in json.load(sys.stdin)["runs"] if run["run_spec"]["run_name"] == sys.argv[1]]; '
    'print(*[run["id"] for run in runs if run["status"] not in ("done", "failed", "terminated", "terminating")])'
)


def dstack_way(job: Job) -> Way:
    """dstack rents again by itself; its list says whether the run still has, or
    waits for, a server."""
    return by_store(job, servers=_by_python("dstack ps --all --json", RUNS_OF_DSTACK, job.name), scheme="s3")


PODS = 'import json, sys; print(*[pod["id"] for pod in json.load(sys.stdin)])'


def runpod_way(job: Job) -> Way:
    """Pods that run, by their name; a pod ends itself."""
    return by_store(job, servers=pods_of(job), scheme="s3")


def pods_of(job: Job) -> str:
    """A body that prints the ids of pods that run."""
    return _by_python(f"runpodctl pod list --name {shell([job.name])}", PODS)


CLUSTER_ENDS = {
    "job": ("Complete", "Failed"),
    "trainjob": ("Complete", "Failed"),
    "jobset": ("Completed", "Failed"),
    "rayjob": ("SUCCEEDED", "FAILED STOPPED"),
}
"""Kind of a cluster -> what it says of a run that ended well, and of one that did not."""
RUN_MARK = "rightfit-run"
"""The annotation that tells which run an object is."""


def cluster_way(job: Job, kind: str) -> Way:
    """A cluster starts lost servers again by itself; its object says how the run ended."""
    good, bad = CLUSTER_ENDS[kind]
    named = f"{kind}/{job.name}"
    state = "{.status.jobStatus}" if kind == "rayjob" else '{range .status.conditions[?(@.status=="True")]}{.type}{" "}{end}'
    path = f"jsonpath={{.metadata.annotations.{RUN_MARK}}} {state}"
    ends = " | ".join(f'*" {word} "*' for word in bad.split())
    told = (
        f"found=$(kubectl get {named} --ignore-not-found --output {shell([path])} 2>/dev/null) || return 0\n"
        'case "$found" in "$run "*) ;; *) return 0 ;; esac\n'
        f'case "$found " in\n  *" {good} "*) echo 0 ;;\n  {ends}) echo failed ;;\nesac'
    )
    begin = f"kubectl delete --ignore-not-found {named} # an earlier run's: applied again it would stay as it is"
    return Way(told, f"kubectl get {named} --ignore-not-found --output name", begin=begin, hint="it was deleted: apply it again")


SERVICE_READY = {
    "deployment": "Available",
    "inferenceservice": "Ready",
    "leaderworkerset": "Available",
    "rayservice": "Ready",
    "dynamographdeployment": "Ready",
}
"""Kind of a cluster -> the condition of a service that answers."""
BROKEN_PODS = (
    *("ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"),
    *("CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"),
)
"""What a pod waits for that will not come by itself: the first of these is believed when it is seen
in several looks in a row, for a registry can be busy."""
PULL_S = 1800
"""Longest time until a node is there and has the image."""
READY_POLL_S = 10
READY_FILE = "ready.sh"
READY_SCRIPT = r"""#!/bin/sh
# Plan %(plan)s, %(model)s: waits until the service is ready, or something of it has failed, whichever comes first.
# Exit code 0: it is ready; 1: it failed; 4: its time is over.
set -u
limit_s="${LIMIT_S:-%(limit_s)s}" every_s="${EVERY_S:-%(every_s)s}"
begun=$(date +%%s) broken=0
while :; do
  state=$(kubectl get %(named)s --ignore-not-found --output %(conditions)s) || echo "the cluster does not answer; asking again" >&2
  case " $state " in
    *" %(ready)s=True "*) echo "the service is ready"; exit 0 ;;
    *" ReplicaFailure=True "* | *" Failed=True "*) echo "the cluster makes no pods of it: kubectl describe %(named)s" >&2; exit 1 ;;
  esac
  pods=$(kubectl get pods --selector rightfit.dev/plan=%(plan)s --output %(reasons)s)
  case " $pods " in
    %(bad)s) broken=$((broken + 1)) ;;
    *) broken=0 ;;
  esac
  if [ "$broken" -ge %(believed)s ]; then
    echo "a pod fails: $pods; kubectl describe pods and kubectl logs --previous say why" >&2
    exit 1
  fi
  if [ $(($(date +%%s) - begun)) -ge "$limit_s" ]; then
    echo "it is not ready after $limit_s s: kubectl get pods says what it waits for" >&2
    exit 4
  fi
  sleep "$every_s"
done
"""


def ready_files(job: Job, kind: str, name: str = "") -> Files:
    """ready.sh of a service on a cluster; nothing for a run."""
    named = f"{kind}/{name or job.name}"
    words = {
        "plan": job.plan_id,
        "model": comment(job.model),
        "named": named,
        "ready": SERVICE_READY[kind],
        "conditions": shell(['jsonpath={range .status.conditions[*]}{.type}={.status}{" "}{end}']),
        "reasons": shell(
            [
                "jsonpath={range .items[*]}{.metadata.name} {range .status.initContainerStatuses[*]}{.state.waiting.reason} {end}"
                "{range .status.containerStatuses[*]}{.state.waiting.reason} {end}{end}"
            ]
        ),
        "bad": " | ".join(f'*" {reason} "*' for reason in BROKEN_PODS),
        "believed": GONE_AFTER,
        "limit_s": longest_start_s(job) + PULL_S,
        "every_s": READY_POLL_S,
    }
    return {READY_FILE: READY_SCRIPT % words} if job.is_service else {}


# ------------------------------------------------------------------------------------------------
# the end


END_SCRIPT = r"""#!/bin/sh
# Gives back every server of plan %(plan)s, and says whether that is so. Exit code 0: nothing is left.
set -u
cd "$(dirname "$0")" || exit 2
servers() {
%(servers)s
}

for pause in 0 10 20 30 60 60; do
  sleep "$pause"
  if ! ids=$(servers); then echo "the seller does not answer" >&2; continue; fi
  if [ -z "$ids" ]; then echo "nothing of plan %(plan)s runs any more"; exit 0; fi
  for id in $ids; do
    echo "giving back $id"
    %(end)s </dev/null >/dev/null || echo "could not delete $id" >&2
  done
done
echo "something of plan %(plan)s may still run, and cost: look into the console of the seller" >&2
exit 1
"""


def end_script(job: Job, servers: str, end: str) -> str:
    """The script that ends what carries the plan's label. `servers`: a body that prints ids; `end`:
    a command that ends "$id"."""
    return END_SCRIPT % {"plan": job.plan_id, "servers": _indented(servers).rstrip("\n"), "end": end}


def end_of_provider(job: Job) -> str:
    """end.sh for a server that a provider's own command line rented."""
    region = shell([job.option.region])
    ends = {
        "aws": f'aws ec2 terminate-instances --region {region} --instance-ids "$id"',
        "gcp": 'gcloud compute instances delete "$id" --quiet --project "${PROJECT:?}" --zone "${ZONE:?}"',
        "azure": 'az resource delete --ids "$id"',
        "alicloud": f'aliyun ecs DeleteInstance --RegionId {region} --Force true --InstanceId "$id"',
        "tencent": f'tccli cvm TerminateInstances --region {region} --InstanceIds "[\\"$id\\"]"',
    }
    return end_script(
        job,
        _AZURE_PARTS.format(plan=job.plan_id) if job.option.provider == "azure" else servers_of(job, all_states=True),
        ends[job.option.provider],
    )


_AZURE_PARTS = """found=$(az resource list --tag rightfit-plan={plan} --query "[?type!='Microsoft.Storage/storageAccounts'].id" --output tsv) || return 1
echo "$found" | grep /virtualMachines/ || echo "$found"
"""
"""The server first, then what it leaves behind: its card, its address and its disk bear the label
too, and each costs."""


def end_of_pods(job: Job) -> str:
    """end.sh for pods of RunPod."""
    return end_script(job, pods_of(job), 'runpodctl pod delete "$id"')
