"""A server that ends its own rent: after the plan's time, or when its cards have had nothing to do."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.quoting import comment
from rightfit.export.registry import Files, Target
from rightfit.messages import Message

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
"""What ends the bill of the server itself. A shutdown from inside does on AWS and Google; the others go on billing until they are told through their own program."""

BODY = """
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


def write(job: Job) -> Files:
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
    return {"auto-stop.sh": "\n".join(head) + "\n" + BODY.lstrip("\n"), "auto-stop.service": UNIT % job.plan_id}


def _refuses(job: Job) -> Message | str:
    if job.is_service:
        return Message("export.part_runs_until_stopped")
    return "" if job.stop_after_h else Message("export.part_no_time")


TARGET = Target(
    "auto-stop",
    "operations",
    "stop the server after the plan's time, or idle",
    write,
    _refuses,
    checked_by="shellcheck; runs with stand-ins for nvidia-smi and the programs that stop; systemd reads the unit",
    run="install -D auto-stop.sh /var/lib/rightfit/auto-stop.sh && install -D -m 644 auto-stop.service /etc/systemd/system/auto-stop.service && systemctl enable --now auto-stop",
)
