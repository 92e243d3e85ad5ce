"""What a bare server runs at its first boot: container, stack, checkpoints to and from a store, and an end. The same for every cloud; how
secrets are
fetched, how the store is reached and how a server is given back is the cloud's."""

from __future__ import annotations

import base64
import gzip
import hashlib
from collections.abc import Callable, Mapping

from rightfit.export.buckets import BUCKET, place_of
from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell
from rightfit.export.serving_words import longest_start_s
from rightfit.export.stack import ExportStack, card_words, installs, launched, stack_of
from rightfit.export.waiting import ENDED, RUN, TOKEN
from rightfit.records import dataclass

FOLDER = "/var/lib/rightfit"
RCLONE = "rclone/rclone:1.71.2"
KEEP_EVERY_S = 300
POWER_OFF = "shutdown -h now"
RUN_PLACE = "/etc/rightfit/run"
RUN_WORDS = f"${{{RUN}:-$(cat {RUN_PLACE} 2>/dev/null || true)}}"
"""The run's id: of the words before the boot, or of a file where a server is made without them."""
CHECKPOINTS = "/var/lib/rightfit-checkpoints"
"""Container-Optimized OS of Google mounts everything else read-only, and this without leave to execute: scripts are called by their shell."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a cloud gives a bare server. `secret`: shell words that print a secret of a name. `end`: shell lines that give the server back,
    so that it costs
    no more. `before`: lines that install what the other two need. `store`: shell words of the rclone remote and the bucket in it, "" to keep no
    checkpoints; `credentials`: lines that set the
    variables (RCLONE_...) by which it is reached."""

    secret: Callable[[str], str]
    end: str = POWER_OFF
    before: tuple[str, ...] = ()
    store: str = ""
    credentials: tuple[str, ...] = ()


def first_boot(job: Job, ground: Ground) -> str:
    """A shell script. One server only: several need a launcher that knows them all.

    Whatever happens in it, a run ends by `end.sh`, which keeps what there is and gives the server back; a service does so when it does not come up.
    """
    stack = stack_of(job)
    parts = [
        f"#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -euo pipefail\n"
        f"trap {shell([POWER_OFF])} EXIT # until there is more\nmkdir -p {FOLDER} {CHECKPOINTS}\n",
        endings(job, ground),
        packed_files({f"{FOLDER}/{path}": text for path, text in stack.files.items()}),
        RETRY,
        "".join(f"retry bash -c {shell([line])}\n" for line in ground.before),
        "".join(_secret(name, ground.secret(name)) for name in stack.secrets),
        "retry systemctl start docker\n",
        keeping(job, ground),
        container(job, stack) + "\n",
        await_health(job, stack) if job.is_service else "",
    ]
    return "".join(parts)


PAUSES_S = "5 10 20 30 60 60 60 60 60 60 60"
"""Before each further try: eight minutes in all, as roles and their rights reach a new server late."""
RETRY = f"""retry() {{
  for pause in {PAUSES_S}; do
    if "$@"; then return 0; fi
    echo "rightfit: $1 failed; again in $pause s" >&2
    sleep "$pause"
  done
  "$@"
}}
"""
OPTIONAL_SECRETS = ("HF_TOKEN",)  # models that everybody may fetch need none


def _secret(name: str, words: str) -> str:
    """A secret, asked for until the server's role may read it. One that is optional is asked for where it was stored, and left empty where it is not given."""
    line = f'{name}="$(retry fetch_{name})"'
    if name in OPTIONAL_SECRETS:
        line = f'{name}=""\n[ "${{{TOKEN}-yes}}" != yes ] || {line} || {{ echo "rightfit: going on without {name}" >&2; {name}=""; }}'
    return f"fetch_{name}() {{ {words}; }}\n{line}\nexport {name}\n"


def endings(job: Job, ground: Ground) -> str:
    """The script that keeps what there is and gives the server back; the trap that calls it however the job ends; the clock that calls it
    whatever the job does meanwhile."""
    keep = f"bash {FOLDER}/keep.sh {CHECKPOINTS} {store_of(job, ground)}" if keeps(job, ground) else ""
    kept = f'for pause in 0 10 60; do sleep "$pause"; if [ -z "${{{BUCKET}:-}}" ] || {keep}; then break; fi; done\n' if keep else ""
    lines = (
        f"#!/bin/bash\n# Keeps what there is and gives the server back. Called when the job ends, however, and when its time is over.\n"
        f"exec 9>{FOLDER}/.ending\nflock -n 9 || exit 0\n"
        f"[ ! -f {FOLDER}/environment ] || . {FOLDER}/environment\n"
        f'[ "${{1:-}}" != time ] || touch {FOLDER}/.over\n'
        f"docker stop --time {STOP_S} rightfit >/dev/null 2>&1 || true\n"
        f'for pause in 1 2 3 4 5; do [ ! -f {CHECKPOINTS}/{ENDED} ] || break; sleep "$pause"; done\n'
        f'[ -f {CHECKPOINTS}/{ENDED} ] || echo "{RUN_WORDS} time" > {CHECKPOINTS}/{ENDED}\n'
        f"{kept}end() {{\n" + "".join(f"  {line}\n" for line in ground.end.splitlines()) + "}\n"
        f'for pause in 0 10 30 60 120 300; do sleep "$pause"; if end; then exit 0; fi; done\n{POWER_OFF}\n'
    )
    clock = f"systemd-run --on-active={round(job.stop_after_h * 3600)}s /bin/bash {FOLDER}/end.sh time\n" if job.stop_after_h else ""
    place = f'printf \'export {BUCKET}=%q\\nexport {RUN}=%q\\n\' "${{{BUCKET}:?}}" "${{{RUN}:-}}" > {FOLDER}/environment\n' if keep else ""
    trap = f"""finish() {{
  status=$?
  trap - EXIT
  [ -z "${{copies:-}}" ] || kill "$copies" 2>/dev/null || true
  [ "$status" = 0 ] || echo "rightfit: ended with $status; the server is given back" >&2
  said="$status"
  [ ! -f {FOLDER}/.over ] || said=time
  echo "{RUN_WORDS} $said" > {CHECKPOINTS}/{ENDED}
  bash {FOLDER}/end.sh
  exit "$status"
}}
trap finish EXIT
"""
    return packed_file(f"{FOLDER}/end.sh", lines) + trap + clock + place


STOP_S = 120  # for a last checkpoint when the time is over


def keeps(job: Job, ground: Ground) -> bool:
    """Whether checkpoints go to a store."""
    return bool(ground.store) and not job.is_service


def store_of(job: Job, ground: Ground) -> str:
    """Shell words of the place in the store: the bucket, and in it a folder of this plan's own."""
    return f"{ground.store}/{place_of(job)}"


def in_bucket(remote: str) -> str:
    """Shell words of a remote of rclone and the bucket that the environment names, with its scheme or without."""
    return f'{shell([remote])}"${{{BUCKET}#*://}}"'


def keeping(job: Job, ground: Ground) -> str:
    """What lies in the store comes first: the data, and checkpoints of an earlier server. From then on checkpoints are copied away every few
    minutes."""
    if not keeps(job, ground):
        return ""
    names = [line.partition("=")[0] for line in ground.credentials if line.startswith("RCLONE_")]
    settings = [word for name in names for word in ("--env", name)]
    words = ("docker", "run", "--rm", "--network", "host", *settings, "--volume", f"{CHECKPOINTS}:{CHECKPOINTS}", RCLONE, "copy")
    lines = "".join(f"{line}\n" for line in (*ground.credentials, *([f"export {' '.join(names)}"] if names else [])))
    body = f'#!/bin/bash\nset -euo pipefail\n{lines}{shell(words)} "$1" "$2"\n'
    copy, store = f"{FOLDER}/keep.sh", store_of(job, ground)
    return (
        packed_file(copy, body) + f"retry bash {copy} {store} {CHECKPOINTS}\n"
        f"rm -f {CHECKPOINTS}/{ENDED} # an earlier run's\n"
        f"(while sleep {KEEP_EVERY_S} >/dev/null 2>&1; do bash {copy} {CHECKPOINTS} {store} || true; done) & copies=$!\n"
    )


def await_health(job: Job, stack: ExportStack) -> str:
    """The end of a service's boot: it answers in time, or its server is given back. Docker starts it again when it fails later."""
    seconds = longest_start_s(job)
    return (
        f"until curl -sf --noproxy '*' http://127.0.0.1:{stack.port}{stack.health_path} >/dev/null; do\n"
        f'  if [ "$SECONDS" -gt {seconds} ]; then docker logs --tail 50 rightfit >&2 || true; exit 1; fi\n'
        "  sleep 10\ndone\ntrap - EXIT\n"
    )


def container(job: Job, stack: ExportStack) -> str:
    """The stack's image with its files, cards, settings and port."""
    settings = [word for name, value in stack.environment.items() for word in ("--env", f"{name}={value}")]
    settings += [word for name in stack.secrets for word in ("--env", name)]
    ports = ["--publish", f"{stack.port}:{stack.port}"] if stack.port else []
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    inner = " && ".join([*installs(stack), f"exec {shell(words)}"])
    lasts = ["--detach", "--restart", "unless-stopped"] if job.is_service else ["--rm"]
    places = ["--volume", f"{FOLDER}:/job", "--volume", f"{CHECKPOINTS}:/checkpoints", "--workdir", "/job", "--entrypoint", "sh"]
    return shell(
        [
            "docker",
            "run",
            "--name",
            "rightfit",
            *lasts,
            *card_words(job),
            "--ipc",
            "host",
            *ports,
            *settings,
            *places,
            stack.image,
            "-c",
            inner,
        ]
    )


def packed_files(files: Mapping[str, str]) -> str:
    """Shell lines that put many files at their paths, packed as one, which is shorter than each alone: a first boot may be no longer than 16 kB on some
    clouds. A file ends at a line that stands in none of them."""
    mark = "EOF-" + hashlib.sha256("".join(files.values()).encode()).hexdigest()[:12]
    whole = {path: text if text.endswith("\n") or not text else text + "\n" for path, text in files.items()}
    lines = "".join(
        f"mkdir -p {shell([path.rpartition('/')[0]])}\ncat > {shell([path])} <<'{mark}'\n{text}{mark}\n" for path, text in whole.items()
    )
    packed = base64.encodebytes(gzip.compress(lines.encode(), mtime=0)).decode()
    return f"base64 -d <<'EOF' | gunzip | bash -e\n{packed}EOF\n" if files else ""


def packed_file(path: str, text: str) -> str:
    """Shell lines that put a file at a path, packed, and make its folder: first boots may be no longer than 16 kB on some clouds, and no text can
    end the here-document that carries it."""
    folder = path.rpartition("/")[0]
    packed = base64.encodebytes(gzip.compress(text.encode(), mtime=0)).decode()
    made = "" if folder in ("", FOLDER) else f"mkdir -p {shell([folder])}\n"  # that of the job is there
    return f"{made}base64 -d <<'EOF' | gunzip > {shell([path])}\n{packed}EOF\n"
