"""What a bare server runs at its first boot: container, stack, checkpoints to and from a store, and an end. The same for every cloud; how secrets are
fetched, how the store is reached and how a server is given back is the cloud's."""

from __future__ import annotations

import base64
import dataclasses
import gzip
from collections.abc import Callable

from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell
from rightfit.export.stack import Stack, launched, stack_of

FOLDER = "/opt/rightfit"
RCLONE = "rclone/rclone:1.71.2"
KEEP_EVERY_S = 300
POWER_OFF = "shutdown -h now"
BUCKET = "RIGHTFIT_BUCKET"  # the variable that holds the bucket (and path) of checkpoints; who starts the server sets it


@dataclasses.dataclass(frozen=True, slots=True)
class Ground:
    """What a cloud gives a bare server. `secret`: shell words that print a secret of a name. `end`: shell lines that give the server back, so that it costs
    no more. `before`: lines that install what the other two need. `store`: the rclone remote before the bucket's name, "" to keep no checkpoints; `credentials`: lines that set the
    variables (RCLONE_...) by which it is reached."""

    secret: Callable[[str], str]
    end: str = POWER_OFF
    before: tuple[str, ...] = ()
    store: str = ""
    credentials: tuple[str, ...] = ()


def first_boot(job: Job, ground: Ground) -> str:
    """A shell script. One server only: several need a launcher that knows them all."""
    stack = stack_of(job)
    parts = [
        f"#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -euo pipefail\nmkdir -p {FOLDER} /checkpoints\n",
        ending(job, ground),
        "".join(_put(f"{FOLDER}/{path}", text) for path, text in stack.files.items()),
        "".join(f"{line}\n" for line in ground.before),
        "".join(f'{name}="$({ground.secret(name)})"\nexport {name}\n' for name in stack.secrets),
        "systemctl start docker\n",
        keeping(job, ground),
        container(job, stack) + "\n",
        "" if job.is_service else ("keep\n" if keeps(job, ground) else "") + f"{FOLDER}/end.sh\n",
    ]
    return "".join(parts)


def ending(job: Job, ground: Ground) -> str:
    """The script that gives the server back, and the clock that calls it whatever the job does meanwhile."""
    if job.is_service and not job.stop_after_h:
        return ""
    clock = f"systemd-run --on-active={round(job.stop_after_h * 3600)}s {FOLDER}/end.sh\n" if job.stop_after_h else ""
    return _put(f"{FOLDER}/end.sh", f"#!/bin/bash\n{ground.end}\n") + f"chmod 755 {FOLDER}/end.sh\n" + clock


def keeps(job: Job, ground: Ground) -> bool:
    """Whether checkpoints go to a store."""
    return bool(ground.store) and not job.is_service


def keeping(job: Job, ground: Ground) -> str:
    """Checkpoints of an earlier server come back; from then on they are copied away every few minutes."""
    if not keeps(job, ground):
        return ""
    names = [line.partition("=")[0] for line in ground.credentials if line.startswith("RCLONE_")]
    settings = [word for name in names for word in ("--env", name)]
    words = ("docker", "run", "--rm", "--network", "host", *settings, "--volume", "/checkpoints:/checkpoints", RCLONE, "copy")
    lines = "".join(f"  {line}\n" for line in (*ground.credentials, *([f"export {' '.join(names)}"] if names else [])))
    store = f'{shell([ground.store])}"${{{BUCKET}:?}}"'
    return (
        f'copy() {{\n{lines}  {shell(words)} "$1" "$2"\n}}\n'
        f"keep() {{ copy /checkpoints {store}; }}\n"
        f"copy {store} /checkpoints\n"
        f"while sleep {KEEP_EVERY_S}; do keep || true; done &\n"
    )


def container(job: Job, stack: Stack) -> str:
    """The stack's image with its files, cards, settings and port."""
    settings = [word for name, value in stack.environment.items() for word in ("--env", f"{name}={value}")]
    settings += [word for name in stack.secrets for word in ("--env", name)]
    ports = ["--publish", f"{stack.port}:{stack.port}"] if stack.port else []
    cards = ["--gpus", "all"] if job.gpus_per_node else []
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    inner = " && ".join([*(line for line in stack.setup if line.startswith("pip ")), f"exec {shell(words)}"])
    lasts = ["--detach", "--restart", "unless-stopped"] if job.is_service else ["--rm"]
    places = ["--volume", f"{FOLDER}:/job", "--volume", "/checkpoints:/checkpoints", "--workdir", "/job", "--entrypoint", "sh"]
    return shell(
        ["docker", "run", "--name", "rightfit", *lasts, *cards, "--ipc", "host", *ports, *settings, *places, stack.image, "-c", inner]
    )


def _put(path: str, text: str) -> str:
    """A file, packed: first boots may be no longer than 16 kB on some clouds, and no text can end the here-document that carries it."""
    packed = base64.encodebytes(gzip.compress(text.encode(), mtime=0)).decode()
    return f"mkdir -p {shell([path.rpartition('/')[0]])}\nbase64 -d <<'EOF' | gunzip > {shell([path])}\n{packed}EOF\n"
