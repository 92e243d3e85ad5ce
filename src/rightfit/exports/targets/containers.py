"""conda: an environment file with the stack's pinned packages, and which builds of PyTorch,
TensorFlow and JAX go with the plan's accelerator."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from rightfit.exports.job import SERVING_TASKS, Job
from rightfit.exports.kubernetes_words import shared_gib
from rightfit.exports.locks import CONSTRAINTS, LOCKED, REQUIREMENTS, VALUED, locked_files
from rightfit.exports.model_words import longest_start_s, spans_servers
from rightfit.exports.quoting import comment, given, shell, to_json, to_yaml
from rightfit.exports.registry import Files, Target
from rightfit.exports.stack import FRAMEWORKS, ExportStack, has_amd_cards, healthy, installs, launched, stack_of, stack_problem
from rightfit.exports.targets import observability
from rightfit.facts.devices import build_for
from rightfit.facts.engine_releases import image_named
from rightfit.messages import Message

PYTHON = "3.12"
PIP = "pip=25.3"
CHANNEL = "conda-forge"


def pip_lines(stack: ExportStack) -> tuple[str, ...]:
    """The stack's packages, a line each, as pip reads them from a file; empty where it comes
    in an image alone."""
    lines: list[str] = []
    for command in stack.setup:
        words = shlex.split(command)
        if words[:2] != ["pip", "install"]:
            continue
        rest = iter(words[2:])
        for word in rest:
            if word in VALUED:
                value = next(rest)
                lines += [f"{word} {value}"] if word != "-c" else []  # a list of packages names its lock itself
            elif not word.startswith("-"):
                lines.append(word)
    return tuple(dict.fromkeys(lines))


def environment(job: Job, lines: tuple[str, ...]) -> dict[str, Any]:
    """environment.yml. CUDA and cuDNN come inside the packages of pip, so that only the
    driver is the server's."""
    build = build_for(job.accelerator)
    python = build.python if build and build.package in lines else PYTHON
    return {"name": job.name, "channels": [CHANNEL, "nodefaults"], "dependencies": [f"python={python}", PIP, {"pip": list(lines)}]}


def compatibility(job: Job) -> dict[str, Any]:
    """compatibility.json: for each framework the preferred release that runs on the
    accelerator, or null."""
    found = {framework: build_for(job.accelerator, framework=framework) for framework in FRAMEWORKS}
    return {
        "plan": job.plan_id,
        "accelerator": job.accelerator or "processor",
        "frameworks": {
            framework: build
            and {
                "package": build.package,
                "index": build.index_url,
                "platform": build.platform,
                "cudnn": build.cudnn,
                "least_driver": build.driver,
                "python": build.python,
                "image": build.image,
                "source": build.source,
            }
            for framework, build in found.items()
        },
    }


def conda_write(job: Job) -> Files:
    """Environment, the same packages for pip alone, and what goes with the accelerator."""
    lines = pip_lines(stack_of(job))
    build = build_for(job.accelerator)
    driver = f": {build.platform}, driver {build.driver} or later" if build and build.driver and build.package in lines else ""
    head = f"# {comment(job.model)}, plan {job.plan_id}{driver}\n"
    lists = locked_files({REQUIREMENTS: "\n".join(lines) + "\n"})
    return {
        "environment.yml": head + to_yaml(environment(job, tuple(lists[REQUIREMENTS].splitlines()))),
        **lists,
        "compatibility.json": to_json(compatibility(job)),
    }


def _conda_refuses(job: Job) -> Message | str:
    if problem := stack_problem(job):
        return problem
    lines = pip_lines(stack_of(job))
    whole = lines and (job.task in SERVING_TASKS or any(line.startswith("torch==") for line in lines))
    return "" if whole else Message("export.container_image")


CONDA = Target(
    "conda",
    "environment",
    "conda environment of the stack, and the builds that go with the card",
    conda_write,
    _conda_refuses,
    checked_by="conda-lock's reader, and pip's resolver",
)


# ---- A container image with the stack's packages and files, pinned.


def dockerfile_write(job: Job) -> Files:
    """Dockerfile, the files that it copies, and what it leaves out."""
    stack = stack_of(job)
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    missing = installs(stack)
    health = f"HEALTHCHECK --interval=30s --timeout=10s --start-period={longest_start_s(job)}s CMD {one_line(healthy(stack))}"
    lines = [
        f"# {comment(job.model)}, plan {job.plan_id}",
        f"FROM {stack.image}",
        f"LABEL managed-by=rightfit rightfit-plan={job.plan_id}",
        *(f"ENV {name}={value}" for name, value in stack.environment.items()),
        "WORKDIR /job",
        *([f"COPY {CONSTRAINTS} /job/"] if any(line.startswith(LOCKED) for line in missing) else []),
        *(f"RUN {line.replace('pip install', 'pip install --no-cache-dir')}" for line in missing),
        *(["COPY . /job/"] if stack.files else []),
        *([f"EXPOSE {stack.port}", health] if stack.port else []),
        "ENTRYPOINT []",
        f"CMD {one_line(words)}",
    ]
    return {"Dockerfile": "\n".join(lines) + "\n", ".dockerignore": "*\n" + "".join(f"!{path}\n" for path in stack.files), **stack.files}


def one_line(words: Sequence[str]) -> str:
    """An argument vector as Docker's files have it."""
    return to_json(list(words)).replace("\n", "").replace("  ", " ")


def _dockerfile_refuses(job: Job) -> Message | str:
    return Message("export.started_by_launcher") if job.num_nodes > 1 and not job.is_service else stack_problem(job)


DOCKERFILE = Target(
    "dockerfile", "environment", "container image with pinned packages", dockerfile_write, _dockerfile_refuses, checked_by="hadolint"
)


# ---- Docker Compose: a service on one server of your own, behind TLS and its key, watched by
# Prometheus and Grafana with the plan's thresholds.

EXPORTER_PORT = 9400
KEPT_DAYS = 30
RUN = """cp env.example .env   # then fill it in: secrets, and the name under which the server is found
docker compose config --quiet
docker compose up --detach
docker compose logs --follow engine   # to end it: docker compose down"""


def engine(job: Job, stack: ExportStack) -> dict[str, Any]:
    """The stack's command in its image, on the plan's cards. Nothing of it is
    open but to the proxy."""
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    if missing := installs(stack):
        words = ("sh", "-c", " && ".join([*missing, f"exec {shell(words)}"]))
    cards = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    amd = has_amd_cards(job)
    secrets = {name: f"${{{name}:-}}" if name == "HF_TOKEN" else f"${{{name}:?set {name} in .env}}" for name in stack.secrets}
    return given(
        image=stack.image,
        # "$" is doubled: alone it would begin a variable of Compose.
        entrypoint=[word.replace("$", "$$") for word in words],
        working_dir="/job" if stack.files else None,
        environment={**{name: value.replace("$", "$$") for name, value in stack.environment.items()}, **secrets} or None,
        volumes=["models:/root/.cache", *(["./job:/job:ro"] if stack.files else [])],
        shm_size=f"{shared_gib(job)}gb",
        expose=[str(stack.port)],
        restart="unless-stopped",
        security_opt=["no-new-privileges:true", *(["seccomp:unconfined"] if amd else [])],
        devices=["/dev/kfd", "/dev/dri"] if amd else None,
        group_add=["video"] if amd else None,
        deploy={"resources": {"reservations": {"devices": [cards]}}} if job.gpus_per_node and not amd else None,
        healthcheck={"test": ["CMD", *healthy(stack)], "interval": "30s", "timeout": "10s", "start_period": f"{longest_start_s(job)}s"},
        labels=job.labels,
    )


def services(job: Job, stack: ExportStack) -> dict[str, Any]:
    """Everything that is started."""
    plain = {"restart": "unless-stopped", "security_opt": ["no-new-privileges:true"]}
    found = {
        "engine": engine(job, stack),
        "proxy": {
            "image": image_named("caddy"),
            "ports": ["80:80", "443:443"],
            "environment": {"DOMAIN": "${DOMAIN:?set DOMAIN in .env: the name under which the server is found}"},
            "volumes": ["./Caddyfile:/etc/caddy/Caddyfile:ro", "certificates:/data"],
            "depends_on": ["engine"],
            **plain,
        },
        "prometheus": {
            "image": image_named("prometheus"),
            "command": [
                "--config.file=/etc/prometheus/prometheus.yml",
                f"--storage.tsdb.retention.time={KEPT_DAYS}d",
                "--storage.tsdb.path=/prometheus",
            ],
            "volumes": ["./prometheus:/etc/prometheus:ro", "metrics:/prometheus"],
            **plain,
        },
        "grafana": {
            "image": image_named("grafana"),
            "environment": {
                "GF_SECURITY_ADMIN_PASSWORD": "${GRAFANA_PASSWORD:?set GRAFANA_PASSWORD in .env}",
                "GF_USERS_ALLOW_SIGN_UP": "false",
            },
            # Of this machine alone: reach it by ssh -L 3000:127.0.0.1:3000.
            "ports": ["127.0.0.1:3000:3000"],
            "volumes": [
                "./grafana/datasources.yaml:/etc/grafana/provisioning/datasources/rightfit.yaml:ro",
                "./grafana/dashboards.yaml:/etc/grafana/provisioning/dashboards/rightfit.yaml:ro",
                "./grafana/dashboard.json:/var/lib/grafana/dashboards/rightfit.json:ro",
                "dashboards:/var/lib/grafana",
            ],
            "depends_on": ["prometheus"],
            **plain,
        },
    }
    if watches_cards(job):
        cards = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
        found["dcgm-exporter"] = {
            "image": image_named("dcgm-exporter"),
            "cap_add": ["SYS_ADMIN"],  # which profiling counters of cards ask for
            "expose": [str(EXPORTER_PORT)],
            "deploy": {"resources": {"reservations": {"devices": [cards]}}},
            "restart": "unless-stopped",
        }
    return found


def watches_cards(job: Job) -> bool:
    """Whether NVIDIA's exporter has cards to tell of."""
    return not observability.refuses(job)


def scraped(job: Job, stack: ExportStack) -> dict[str, Any]:
    """Prometheus' settings with the names of Compose's network for the addresses."""
    found = observability.scrape(job)
    places = {"service": f"engine:{stack.port}", "dcgm": f"dcgm-exporter:{EXPORTER_PORT}"}
    kept = [each for each in found["scrape_configs"] if each["job_name"] in places and (each["job_name"] != "dcgm" or watches_cards(job))]
    jobs = [{**each, "static_configs": [{**one, "targets": [places[each["job_name"]]]} for one in each["static_configs"]]} for each in kept]
    return {**found, "scrape_configs": jobs}


def caddyfile(job: Job, stack: ExportStack) -> str:
    """TLS with a certificate that renews itself; the metrics are for Prometheus alone."""
    return (
        f"# {comment(job.model)}, plan {job.plan_id}\n"
        "{$DOMAIN} {\n"
        "\t@inner path /metrics /metrics/*\n"
        "\trespond @inner 404\n"
        f"\treverse_proxy engine:{stack.port} {{\n"
        "\t\tflush_interval -1\n"
        "\t}\n"
        "}\n"
    )


def docker_compose_write(job: Job) -> Files:
    """What Compose reads, and the settings of what it starts."""
    stack = stack_of(job)
    body = {
        "name": job.name,
        "services": services(job, stack),
        "volumes": {"models": {}, "certificates": {}, "metrics": {}, "dashboards": {}},
    }
    source = {"name": "Prometheus", "type": "prometheus", "uid": "prometheus", "url": "http://prometheus:9090", "isDefault": True}
    provider = {"name": "rightfit", "type": "file", "options": {"path": "/var/lib/grafana/dashboards"}}
    names = (*(name for name in stack.secrets), "DOMAIN", "GRAFANA_PASSWORD")
    watched = watches_cards(job)
    return {
        "compose.yaml": f"# {comment(job.model)}, plan {job.plan_id}\n" + to_yaml(body),
        "env.example": "".join(f"{name}=\n" for name in names),
        "Caddyfile": caddyfile(job, stack),
        "prometheus/prometheus.yml": to_yaml(scraped(job, stack)),
        "prometheus/alerts.yml": (observability.prometheus_write(job)["alerts.yml"] if watched else to_yaml({"groups": []})),
        "grafana/datasources.yaml": to_yaml({"apiVersion": 1, "datasources": [source]}),
        "grafana/dashboards.yaml": to_yaml({"apiVersion": 1, "providers": [provider]}),
        "grafana/dashboard.json": observability.grafana_write(job)["dashboard.json"],
        **{f"job/{path}": text for path, text in stack.files.items()},
    }


def _docker_compose_refuses(job: Job) -> Message | str:
    if problem := spans_servers(job) or stack_problem(job):
        return problem
    if stack_of(job).port is None:
        return Message("export.no_port")
    vendor = str(job.option.facts.get("vendor") or "")
    if job.gpus_per_node and vendor not in ("NVIDIA", "AMD"):
        return Message("export.docker_cards", vendor=vendor)
    return ""


DOCKER_COMPOSE = Target(
    "docker-compose",
    "launch",
    "Docker Compose: engine, TLS, metrics and dashboards on one server",
    docker_compose_write,
    _docker_compose_refuses,
    checked_by="the schema of the Compose specification; promtool reads the settings of Prometheus",
    run=RUN,
    works=("serve",),
)
