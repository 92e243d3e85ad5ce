"""A server that ends its own rent: after the plan's time, or when its cards have
had nothing to do."""

from __future__ import annotations

import math
from typing import Any

from rightfit.exports.buckets import COPIERS, place_of, scheme_of
from rightfit.exports.job import Job
from rightfit.exports.quoting import comment, shell, shell_lines, to_json
from rightfit.exports.registry import Files, Target, most_usd
from rightfit.exports.training_words import FOLDER
from rightfit.messages import Message
from rightfit.records import dataclass

IDLE_MIN = 30
BUSY_PERCENT = 5
FETCH = "curl --fail --silent --max-time 5 --noproxy '*'"
STOPS = {
    "aws": "shutdown -h now",
    "gcp": "shutdown -h now",
    "azure": "az login --identity --output none && az vm deallocate --no-wait --ids "
    f'"$({FETCH} --header "Metadata: true" "http://169.254.169.254/metadata/instance/compute/resourceId?api-version=2021-02-01&format=text")"',
    "alicloud": "aliyun ecs StopInstance --StoppedMode StopCharging --InstanceId "
    f'"$({FETCH} http://100.100.100.200/latest/meta-data/instance-id)"',
    "tencent": "tccli cvm StopInstances --StoppedMode STOP_CHARGING --InstanceIds "
    f'"[\\"$({FETCH} http://metadata.tencentyun.com/latest/meta-data/instance-id)\\"]"',
}
"""What ends the bill of the server itself. A shutdown from inside does on AWS and Google; the
others go on billing until they are told through their own program."""

AUTO_STOP_BODY = """
busy() {
  if command -v nvidia-smi >/dev/null; then
    nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits | awk -v least="$busy_percent" '$1 > least { found = 1 } END { exit !found }'
  else
    awk -v cores="$(getconf _NPROCESSORS_ONLN)" -v least="$busy_percent" '{ exit !($1 * 100 > least * cores) }' "${LOADAVG:-/proc/loadavg}"
  fi
}

begun=$(date +%s) idle_since=$(date +%s)
while :; do
  now=$(date +%s)
  if busy; then idle_since=$now; fi
  if [ $((now - begun)) -ge "$limit_s" ]; then why="the plan's time is over"; break; fi
  if [ $((now - idle_since)) -ge "$idle_s" ]; then why="nothing has run for $((idle_s / 60)) minutes"; break; fi
  sleep "${POLL_S:-60}"
done
echo "stopping this server: $why"
stop_server
"""

UNIT = """[Unit]
Description=Stops this server when plan %s is over or idle
After=network-online.target

[Service]
Type=simple
ExecStart=/bin/sh /var/lib/rightfit/auto-stop.sh
Restart=on-failure

[Install]
WantedBy=multi-user.target
"""


def auto_stop_write(job: Job) -> Files:
    """The script, and the unit that runs it from the start of the server."""
    stop = STOPS.get(job.option.provider, 'sh -c "$STOP_COMMAND"')
    needs = (
        []
        if job.option.provider in STOPS
        else [': "${STOP_COMMAND:?set STOP_COMMAND to what gives this server back; a shutdown may not end its bill}"']
    )
    limit_s = round(job.stop_after_h * 3600)
    head = [
        "#!/bin/sh",
        f"# Stops this server {job.stop_after_h:g} h after the start, or after {IDLE_MIN} idle minutes. Plan {job.plan_id}, {comment(job.model)}.",
        "set -eu",
        *needs,
        f'limit_s="${{LIMIT_S:-{limit_s}}}" idle_s="${{IDLE_S:-{IDLE_MIN * 60}}}" busy_percent="${{BUSY_PERCENT:-{BUSY_PERCENT}}}"',
        f"stop_server() {{ {stop}; }}",
    ]
    return {"auto-stop.sh": "\n".join(head) + "\n" + AUTO_STOP_BODY.lstrip("\n"), "auto-stop.service": UNIT % job.plan_id}


def _auto_stop_refuses(job: Job) -> Message | str:
    if job.is_service:
        return Message("export.runs_until_stopped")
    return "" if job.stop_after_h else Message("export.no_time")


AUTO_STOP = Target(
    "auto-stop",
    "operations",
    "stop the server after the plan's time, or idle",
    auto_stop_write,
    _auto_stop_refuses,
    checked_by="shellcheck; runs with stand-ins for nvidia-smi and the programs that stop; systemd reads the unit",
    run="install -D auto-stop.sh /var/lib/rightfit/auto-stop.sh && install -D -m 644 auto-stop.service /etc/systemd/system/auto-stop.service && systemctl enable --now auto-stop",
)


# ---- An alarm on the cloud's own budget service: at the plan's cost, and when the forecast passes
# the most that the plan holds possible.

CLOUDS = ("aws", "azure", "gcp")
MOST_PERCENT = 100


def planned_usd(job: Job) -> float:
    """What the plan says that it costs: a month of a service, the whole of a run."""
    cost = job.option.cost
    return (cost.monthly_usd if job.is_service else cost.total_usd) or 0.0


def limit_usd(job: Job) -> int:
    """The budget, in whole dollars."""
    return max(1, math.ceil(max(most_usd(job), planned_usd(job))))


def planned_percent(job: Job) -> int:
    """The plan's cost as a share of the budget."""
    return max(1, min(MOST_PERCENT, math.ceil(planned_usd(job) / limit_usd(job) * 100)))


def budget_alarm_write(job: Job) -> Files:
    """A script that makes the budget, and what it sends."""
    return {"aws": _amazon, "azure": _azure, "gcp": _google}[job.option.provider](job)


def _script(job: Job, *, needs: dict[str, str], lines: list[str]) -> str:
    about = f"# A budget of {limit_usd(job)} USD for plan {job.plan_id}: mails at {planned_percent(job)} % (the plan's cost) and when the forecast passes the budget."
    return "\n".join(
        ["#!/bin/sh", about, "set -eu", *(f': "${{{name}:?set {name} to {meaning}}}"' for name, meaning in needs.items()), *lines, ""]
    )


def _amazon(job: Job) -> Files:
    budget = {
        "BudgetName": job.name,
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": str(limit_usd(job)), "Unit": "USD"},
        "CostFilters": {"TagKeyValue": [f"user:rightfit-plan${job.plan_id}"]},
    }
    kinds = (("ACTUAL", planned_percent(job)), ("FORECASTED", MOST_PERCENT))
    notices = [
        {"NotificationType": kind, "ComparisonOperator": "GREATER_THAN", "Threshold": percent, "ThresholdType": "PERCENTAGE"}
        for kind, percent in kinds
    ]
    lines = [
        'case "$RIGHTFIT_EMAIL" in *[!A-Za-z0-9.@_+-]*) echo "RIGHTFIT_EMAIL is not an address" >&2; exit 2 ;; esac',
        "account=$(aws sts get-caller-identity --query Account --output text)",
        'here=$(cd "$(dirname "$0")" && pwd)',
        'aws budgets create-budget --account-id "$account" --budget "file://$here/budget.json"',
        *(
            f'aws budgets create-notification --account-id "$account" --budget-name {job.name} --notification {shell([to_json(notice).strip()])} '
            '--subscribers "SubscriptionType=EMAIL,Address=$RIGHTFIT_EMAIL"'
            for notice in notices
        ),
    ]
    lines = [line.replace("\n", " ") for line in lines]
    return {"budget.sh": _script(job, needs={"RIGHTFIT_EMAIL": "who is told"}, lines=lines), "budget.json": to_json(budget)}


def _google(job: Job) -> Files:
    words = [
        "gcloud",
        "billing",
        "budgets",
        "create",
        f"--display-name={job.name}",
        f"--budget-amount={limit_usd(job)}USD",
        f"--filter-labels=rightfit-plan={job.plan_id}",
        "--calendar-period=month",
        f"--threshold-rule=percent={planned_percent(job) / 100:g}",
        "--threshold-rule=percent=1.0,basis=forecasted-spend",
    ]
    needs = {"BILLING_ACCOUNT": "the billing account, 012345-567890-ABCDEF", "PROJECT": "the project that pays"}
    line = shell_lines(words) + ' \\\n  --billing-account="$BILLING_ACCOUNT" \\\n  --filter-projects="projects/$PROJECT"'
    return {"budget.sh": _script(job, needs=needs, lines=[line])}


def _azure(job: Job) -> Files:
    def notice(kind: str, percent: int) -> dict[str, Any]:
        return {
            "enabled": True,
            "operator": "GreaterThan",
            "threshold": percent,
            "thresholdType": kind,
            "contactEmails": ["[parameters('email')]"],
        }

    budget = {
        "type": "Microsoft.Consumption/budgets",
        "apiVersion": "2023-11-01",
        "name": job.name,
        "properties": {
            "category": "Cost",
            "amount": limit_usd(job),
            "timeGrain": "Monthly",
            "timePeriod": {"startDate": "[parameters('start')]"},
            "filter": {"tags": {"name": "rightfit-plan", "operator": "In", "values": [job.plan_id]}},
            "notifications": {"plan": notice("Actual", planned_percent(job)), "ceiling": notice("Forecasted", MOST_PERCENT)},
        },
    }
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {"email": {"type": "string"}, "start": {"type": "string"}},
        "resources": [budget],
    }
    line = (
        f'az deployment sub create --name {job.name} --location {shell([job.option.region])} --template-file "$(dirname "$0")/budget.json" '
        '--parameters email="$RIGHTFIT_EMAIL" start="$(date +%Y-%m-01)"'
    )
    return {"budget.sh": _script(job, needs={"RIGHTFIT_EMAIL": "who is told"}, lines=[line]), "budget.json": to_json(template)}


def _budget_alarm_refuses(job: Job) -> Message | str:
    if job.option.provider not in CLOUDS:
        return Message("export.no_budget_service", provider=job.option.provider, limit=limit_usd(job))
    return ""


BUDGET_ALARM = Target(
    "budget-alarm",
    "operations",
    "budget with mails at the plan's cost and ceiling",
    budget_alarm_write,
    _budget_alarm_refuses,
    checked_by="shellcheck; AWS: the real program against a simulated AWS; Google: gcloud's own parser",
    run="sh budget.sh",
)


# ---- Checkpoints to the bucket while a run goes on, and back before it starts: one script on the
# cloud's own command line.

CHECKPOINT_SYNC_POLL_S = 60
SETTLE_S = 20


CHECKPOINT_SYNC_BODY = """
copy_folder() { %(folder_words)s; }
copy_file() { %(file_words)s; }

seen() { find "$1" -printf "%%P %%s %%T@\n" | sort | cksum; }

# The newest checkpoint that nothing has written to for $1 seconds; a program that saves still changes sizes or times.
settled() {
  newest=$(cd "$folder" && for found in checkpoint-*; do [ -d "$found" ] && echo "${found#checkpoint-}"; done | sort -n | tail -n 1)
  [ -n "$newest" ] || return 1
  before=$(seen "$folder/checkpoint-$newest")
  sleep "$1" >/dev/null 2>&1
  [ "$before" = "$(seen "$folder/checkpoint-$newest")" ] && echo "checkpoint-$newest"
}

# "latest" is written when all of a checkpoint is in the bucket, so that half a copy is never restored.
push() {
  name=$(settled "$1") || return 0
  [ "$name" != "$(cat "$folder/.sent" 2>/dev/null)" ] || return 0
  copy_folder "$folder/$name" "$remote/$name" || return 1
  echo "$name" > "$folder/.sent.part"
  copy_file "$folder/.sent.part" "$remote/latest" || return 1
  echo "kept $name in $remote" # said first: a signal here ends the watch, and what is kept would go unsaid
  mv "$folder/.sent.part" "$folder/.sent"
}

restore() {
  date > "$folder/.reached"
  copy_file "$folder/.reached" "$remote/reached" || { echo "cannot write to $remote" >&2; return 1; }
  if ! copy_file "$remote/latest" "$folder/.latest" 2>/dev/null; then
    echo "no checkpoint in $remote yet"
    return 0
  fi
  name=$(cat "$folder/.latest")
  case "$name" in checkpoint-*[!0-9]* | checkpoint-) echo "$remote/latest names no checkpoint" >&2; return 1 ;; checkpoint-*) ;; *) return 1 ;; esac
  copy_folder "$remote/$name" "$folder/$name" || return 1
  cp "$folder/.latest" "$folder/.sent"
  echo "restored $name from $remote"
}

watch() {
  nap=""
  # The signal may come at any moment: between naps there is nothing to end, and that must not end the last copy (set -e).
  trap 'trap "" TERM INT; { [ -z "$nap" ] || kill "$nap"; } 2>/dev/null || :; push 2 || echo "could not copy to $remote at the end" >&2; exit 0' TERM INT
  while :; do
    push "$settle_s" || echo "could not copy to $remote; trying again in $every_s s" >&2
    sleep "$every_s" >/dev/null 2>&1 &
    nap=$!
    wait "$nap" || :
    nap=""
  done
}

mkdir -p "$folder"
case "${1:-}" in
  restore) restore ;;
  push) push 2 ;;
  watch) watch ;;
  *) echo "usage: $0 restore|push|watch" >&2; exit 2 ;;
esac
"""


def sync_script(job: Job) -> str:
    """The script. The bucket is that of the settings unless the environment names another."""
    copier = COPIERS[scheme_of(job)]
    bucket = job.settings.bucket
    where = (
        f'bucket="${{RIGHTFIT_BUCKET:-{bucket}}}"'
        if bucket
        else 'bucket="${RIGHTFIT_BUCKET:?set RIGHTFIT_BUCKET to the bucket that keeps checkpoints}"'
    )
    head = [
        "#!/bin/sh",
        f"# Checkpoints of {comment(job.model)}, plan {job.plan_id}, in a bucket: restore | push (now) | watch (until stopped).",
        "set -eu",
        where,
        f'remote="${{bucket%/}}/{place_of(job)}{"/node-${NODE_RANK:-0}" if job.num_nodes > 1 else ""}"',
        f'folder="${{CHECKPOINTS:-${{{FOLDER}:-$(cd "$(dirname "$0")/.." && pwd)}}/{job.name}}}"',
        f'every_s="${{EVERY_S:-{CHECKPOINT_SYNC_POLL_S}}}" settle_s="${{SETTLE_S:-{SETTLE_S}}}"',
        f"command -v {shell([copier.program])} >/dev/null || {{ echo {shell([copier.program + ' is not installed'])} >&2; exit 3; }}",
    ]
    return "\n".join(head) + CHECKPOINT_SYNC_BODY % {"folder_words": copier.folder, "file_words": copier.file}


def checkpoint_sync_write(job: Job) -> Files:
    """One script."""
    return {"checkpoint-sync.sh": sync_script(job)}


CHECKPOINT_SYNC = Target(
    "checkpoint-sync",
    "operations",
    "checkpoints to the bucket and back",
    checkpoint_sync_write,
    works=("train",),
    checked_by="shellcheck; runs against a simulated S3 with the real aws program, and with stand-ins for the other clouds' programs",
    run="sh checkpoint-sync.sh restore   # before the run\nsh checkpoint-sync.sh watch &    # beside it",
)


# ---- Runs on spot servers: the last checkpoint back before the start, the cloud's notice heard
# while it runs, a last copy before the server is taken.

TAKEN_AWAY = 75  # the exit code that says "try again" (EX_TEMPFAIL)
SPOT_RECOVERY_POLL_S = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """Where a cloud says that it takes the server: base address, the shell words that succeed once
    it has said so, and the seconds from then."""

    base: str
    heard: str
    grace_s: int


QUIET = "curl --fail --silent --max-time 2 --noproxy '*'"
NOTICES = {
    "aws": Notice(
        "http://169.254.169.254",
        f'token=$({QUIET} --request PUT --header "X-aws-ec2-metadata-token-ttl-seconds: 60" "$metadata/latest/api/token") &&\n'
        f'  {QUIET} --header "X-aws-ec2-metadata-token: $token" "$metadata/latest/meta-data/spot/instance-action" >/dev/null',
        120,
    ),
    "gcp": Notice(
        "http://metadata.google.internal",
        f'[ "$({QUIET} --header "Metadata-Flavor: Google" "$metadata/computeMetadata/v1/instance/preempted")" = TRUE ]',
        30,
    ),
    "azure": Notice(
        "http://169.254.169.254",
        f'{QUIET} --header "Metadata: true" "$metadata/metadata/scheduledevents?api-version=2020-07-01" | grep -q \'"Preempt"\'',
        30,
    ),
    "alicloud": Notice("http://100.100.100.200", f'{QUIET} "$metadata/latest/meta-data/instance/spot/termination-time" >/dev/null', 300),
    "tencent": Notice("http://metadata.tencentyun.com", f'{QUIET} "$metadata/latest/meta-data/spot/termination-time" >/dev/null', 120),
}
"""From the clouds' pages on spot interruption notices (memory: written down without
a source at hand)."""

SPOT_RECOVERY_BODY = """
heard() {
  %(heard)s
}

[ "$#" -gt 0 ] || { echo "usage: $0 COMMAND [ARGUMENT ...]" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
sh "$here/checkpoint-sync.sh" restore
sh "$here/checkpoint-sync.sh" watch &
copies=$!
"$@" &
work=$!
taken=""
while kill -0 "$work" 2>/dev/null; do
  if [ -z "$taken" ] && heard; then
    echo "the server will be taken in %(grace_s)s s: stopping the run" >&2
    taken=yes
    kill -TERM "$work" 2>/dev/null || :
  fi
  sleep "${POLL_S:-%(poll_s)s}"
done
status=0
wait "$work" || status=$?
# Seconds count now: the copier that waits for quiet is ended at once, and the last copy is made here.
kill -KILL "$copies" 2>/dev/null || :
wait "$copies" 2>/dev/null || :
sh "$here/checkpoint-sync.sh" push || echo "the last checkpoint could not be copied" >&2
[ -z "$taken" ] || exit %(code)s
exit "$status"
"""


def spot_recovery_write(job: Job) -> Files:
    """The starter and the copier that it uses."""
    notice = NOTICES[job.option.provider]
    head = [
        "#!/bin/sh",
        f"# Start a run of plan {job.plan_id} ({comment(job.model)}) on a spot server: sh start.sh COMMAND. Exit code {TAKEN_AWAY}: the server was taken, start again.",
        "set -eu",
        f'metadata="${{METADATA_URL:-{notice.base}}}"',
    ]
    words = {"heard": notice.heard, "grace_s": notice.grace_s, "poll_s": SPOT_RECOVERY_POLL_S, "code": TAKEN_AWAY}
    return {"start.sh": "\n".join(head) + SPOT_RECOVERY_BODY % words, "checkpoint-sync.sh": sync_script(job)}


def _spot_recovery_refuses(job: Job) -> Message | str:
    if not job.is_spot:
        return Message("export.only_spot_taken", purchase=job.option.purchase)
    if job.option.provider not in NOTICES:
        return Message("export.no_notice", provider=job.option.provider)
    return ""


SPOT_RECOVERY = Target(
    "spot-recovery",
    "operations",
    "hear a spot server's notice, keep the checkpoint, go on from it",
    spot_recovery_write,
    _spot_recovery_refuses,
    checked_by="shellcheck; runs against a local server that speaks as the cloud's metadata does, with a stand-in for its copying program",
    run="sh start.sh sh ../PROGRAM",
    works=("train",),
)
