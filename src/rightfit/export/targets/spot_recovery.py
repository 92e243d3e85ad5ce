"""Runs on spot servers: the last checkpoint back before the start, the cloud's notice heard while it runs, a last copy before the server is
taken."""

from __future__ import annotations

from rightfit.export.job import Job
from rightfit.export.operations import only_runs
from rightfit.export.quoting import comment
from rightfit.export.registry import Files, Target
from rightfit.export.targets.checkpoint_sync import sync_script
from rightfit.messages import Message
from rightfit.records import dataclass

TAKEN_AWAY = 75  # the exit code that says "try again" (EX_TEMPFAIL)
POLL_S = 5


@dataclass(frozen=True, slots=True)
class Notice:
    """Where a cloud says that it takes the server: base address, the shell words that succeed once it has said so, and the seconds from
    then."""

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
"""From the clouds' pages on spot interruption notices (memory: written down without a source at hand)."""

BODY = """
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


def write(job: Job) -> Files:
    """The starter and the copier that it uses."""
    notice = NOTICES[job.option.provider]
    head = [
        "#!/bin/sh",
        f"# Start a run of plan {job.plan_id} ({comment(job.model)}) on a spot server: sh start.sh COMMAND. Exit code {TAKEN_AWAY}: the server was taken, start again.",
        "set -eu",
        f'metadata="${{METADATA_URL:-{notice.base}}}"',
    ]
    words = {"heard": notice.heard, "grace_s": notice.grace_s, "poll_s": POLL_S, "code": TAKEN_AWAY}
    return {"start.sh": "\n".join(head) + BODY % words, "checkpoint-sync.sh": sync_script(job)}


def _refuses(job: Job) -> Message | str:
    if problem := only_runs(job):
        return problem
    if not job.is_spot:
        return Message("export.part_only_spot_taken", purchase=job.option.purchase)
    if job.option.provider not in NOTICES:
        return Message("export.part_no_notice", provider=job.option.provider)
    return ""


TARGET = Target(
    "spot-recovery",
    "operations",
    "hear a spot server's notice, keep the checkpoint, go on from it",
    write,
    _refuses,
    checked_by="shellcheck; runs against a local server that speaks as the cloud's metadata does, with a stand-in for its copying program",
    run="sh start.sh sh ../TRAINING-TARGET/train.sh",
)
