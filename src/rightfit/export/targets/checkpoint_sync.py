"""Checkpoints to the bucket while a run goes on, and back before it starts: one script on the cloud's own command line."""

from __future__ import annotations

from rightfit.export.buckets import COPIERS, place_of, scheme_of
from rightfit.export.job import Job
from rightfit.export.operations import folder_of, only_runs
from rightfit.export.quoting import comment, shell
from rightfit.export.registry import Files, Target

POLL_S = 60
SETTLE_S = 20


BODY = """
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
        f'folder="${{CHECKPOINTS:-{folder_of(job)}}}"',
        f'every_s="${{EVERY_S:-{POLL_S}}}" settle_s="${{SETTLE_S:-{SETTLE_S}}}"',
        f"command -v {shell([copier.program])} >/dev/null || {{ echo {shell([copier.program + ' is not installed'])} >&2; exit 3; }}",
    ]
    return "\n".join(head) + BODY % {"folder_words": copier.folder, "file_words": copier.file}


def write(job: Job) -> Files:
    """One script."""
    return {"checkpoint-sync.sh": sync_script(job)}


TARGET = Target(
    "checkpoint-sync",
    "operations",
    "checkpoints to the bucket and back",
    write,
    only_runs,
    checked_by="shellcheck; runs against a simulated S3 with the real aws program, and with stand-ins for the other clouds' programs",
    run="sh checkpoint-sync.sh restore   # before the run\nsh checkpoint-sync.sh watch &    # beside it",
)
