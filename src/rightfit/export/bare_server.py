"""What a bare server runs at its first boot: container, stack, and an end. The same for every cloud; how secrets are fetched is the cloud's."""

from __future__ import annotations

import base64
from collections.abc import Callable

from rightfit.export.job import Job
from rightfit.export.quoting import comment, shell
from rightfit.export.stack import launched, stack_of

FOLDER = "/opt/rightfit"


def first_boot(job: Job, *, secret: Callable[[str], str]) -> str:
    """A shell script. `secret`: the shell words that print a secret of a name. One server only: several need a launcher that knows them all."""
    stack = stack_of(job)
    files = "".join(
        f"mkdir -p {shell([f'{FOLDER}/{path}'.rpartition('/')[0]])}\nbase64 -d > {shell([f'{FOLDER}/{path}'])} <<'EOF'\n{_base64(text)}EOF\n"
        for path, text in stack.files.items()
    )
    secrets = "".join(f'{name}="$({secret(name)})"\nexport {name}\n' for name in stack.secrets)
    stop = f"shutdown -h +{round(job.stop_after_h * 60)}\n" if job.stop_after_h else ""
    settings = [word for name, value in stack.environment.items() for word in ("--env", f"{name}={value}")]
    settings += [word for name in stack.secrets for word in ("--env", name)]
    ports = ["--publish", f"{stack.port}:{stack.port}"] if stack.port else []
    cards = ["--gpus", "all"] if job.gpus_per_node else []
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    inner = " && ".join([*(line for line in stack.setup if line.startswith("pip ")), f"exec {shell(words)}"])
    run = shell(
        [
            "docker",
            "run",
            "--name",
            "rightfit",
            "--rm",
            *cards,
            "--ipc",
            "host",
            *ports,
            *settings,
            "--volume",
            f"{FOLDER}:/job",
            "--volume",
            "/checkpoints:/checkpoints",
            "--workdir",
            "/job",
            "--entrypoint",
            "sh",
            stack.image,
            "-c",
            inner,
        ]
    )
    end = "" if job.is_service else "shutdown -h now\n"
    return (
        f"#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -euo pipefail\n{stop}mkdir -p {FOLDER} /checkpoints\n{files}{secrets}"
        f"systemctl start docker\n{run}\n{end}"
    )


def _base64(text: str) -> str:
    """Lines of base64, so that no text can end the here-document that carries it."""
    return base64.encodebytes(text.encode()).decode()
