"""Docker Compose: a service on one server of your own, behind TLS and its key, watched by Prometheus and Grafana with the plan's thresholds."""

from __future__ import annotations

from typing import Any

from rightfit.export.job import Job
from rightfit.export.kubernetes_words import shared_gib
from rightfit.export.quoting import comment, given, shell, to_yaml
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import longest_start_s, spans_servers
from rightfit.export.stack import ExportStack, healthy, installs, launched, stack_of, stack_problem
from rightfit.export.targets import grafana, prometheus
from rightfit.messages import Message

CADDY, PROMETHEUS, GRAFANA = "caddy:2.10.2", "prom/prometheus:v3.7.3", "grafana/grafana:12.2.1"
EXPORTER, EXPORTER_PORT = "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-ubuntu22.04", 9400
KEPT_DAYS = 30
RUN = """cp env.example .env   # then fill it in: secrets, and the name under which the server is found
docker compose config --quiet
docker compose up --detach
docker compose logs --follow engine   # to end it: docker compose down"""


def engine(job: Job, stack: ExportStack) -> dict[str, Any]:
    """The stack's command in its image, on the plan's cards. Nothing of it is open but to the proxy."""
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    if missing := installs(stack):
        words = ("sh", "-c", " && ".join([*missing, f"exec {shell(words)}"]))
    cards = {"driver": "nvidia", "count": "all", "capabilities": ["gpu"]}
    amd = is_amd(job)
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


def is_amd(job: Job) -> bool:
    """Whether the cards are AMD's, which a container reaches through the devices of their driver."""
    return bool(job.gpus_per_node) and str(job.option.facts.get("vendor") or "") == "AMD"


def services(job: Job, stack: ExportStack) -> dict[str, Any]:
    """Everything that is started."""
    plain = {"restart": "unless-stopped", "security_opt": ["no-new-privileges:true"]}
    found = {
        "engine": engine(job, stack),
        "proxy": {
            "image": CADDY,
            "ports": ["80:80", "443:443"],
            "environment": {"DOMAIN": "${DOMAIN:?set DOMAIN in .env: the name under which the server is found}"},
            "volumes": ["./Caddyfile:/etc/caddy/Caddyfile:ro", "certificates:/data"],
            "depends_on": ["engine"],
            **plain,
        },
        "prometheus": {
            "image": PROMETHEUS,
            "command": [
                "--config.file=/etc/prometheus/prometheus.yml",
                f"--storage.tsdb.retention.time={KEPT_DAYS}d",
                "--storage.tsdb.path=/prometheus",
            ],
            "volumes": ["./prometheus:/etc/prometheus:ro", "metrics:/prometheus"],
            **plain,
        },
        "grafana": {
            "image": GRAFANA,
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
            "image": EXPORTER,
            "cap_add": ["SYS_ADMIN"],  # which profiling counters of cards ask for
            "expose": [str(EXPORTER_PORT)],
            "deploy": {"resources": {"reservations": {"devices": [cards]}}},
            "restart": "unless-stopped",
        }
    return found


def watches_cards(job: Job) -> bool:
    """Whether NVIDIA's exporter has cards to tell of."""
    return not prometheus.refuses(job)


def scraped(job: Job, stack: ExportStack) -> dict[str, Any]:
    """Prometheus' settings with the names of Compose's network for the addresses."""
    found = prometheus.scrape(job)
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


def write(job: Job) -> Files:
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
        "prometheus/alerts.yml": (prometheus.write(job)["alerts.yml"] if watched else to_yaml({"groups": []})),
        "grafana/datasources.yaml": to_yaml({"apiVersion": 1, "datasources": [source]}),
        "grafana/dashboards.yaml": to_yaml({"apiVersion": 1, "providers": [provider]}),
        "grafana/dashboard.json": grafana.write(job)["dashboard.json"],
        **{f"job/{path}": text for path, text in stack.files.items()},
    }


def _refuses(job: Job) -> Message | str:
    if not job.is_service:
        return Message("export.part_keeps_a_service", task=job.task)
    if problem := spans_servers(job) or stack_problem(job):
        return problem
    if stack_of(job).port is None:
        return Message("export.part_no_port")
    vendor = str(job.option.facts.get("vendor") or "")
    if job.gpus_per_node and vendor not in ("NVIDIA", "AMD"):
        return Message("export.part_docker_cards", vendor=vendor)
    return ""


TARGET = Target(
    "docker-compose",
    "launch",
    "Docker Compose: engine, TLS, metrics and dashboards on one server",
    write,
    _refuses,
    checked_by="the schema of the Compose specification; promtool reads the settings of Prometheus",
    run=RUN,
)
