"""NGINX in front of the servers of a service: spreads requests by requests in flight, streams answers, takes no more than the plan's
rate."""

from __future__ import annotations

import math

from rightfit.export.job import Job
from rightfit.export.quoting import comment
from rightfit.export.registry import Files, Target
from rightfit.export.serving_words import spans_servers
from rightfit.export.stack import stack_of, stack_problem
from rightfit.messages import Message

PORT = 8080
ADDRESSES = "10.60.0."
FIRST_HOST = 10
MOST_BODY_MIB = 32
LONGEST_ANSWER_S = 600
BURST_S = 10.0  # of the rate that may wait rather than be turned away
FAILS_BEFORE_REST = 3
REST_S = 30
LEAST_KEPT = 16


def rate(job: Job) -> float:
    """Requests a second that the plan's servers bear [1/s]: where they saturate, else what was wished."""
    most = job.section("saturation").get("all_per_s")
    return float(most or job.wish("rate_per_s") or 0.0)


def upstream(job: Job) -> str:
    """The servers: addresses that the user puts in."""
    port = stack_of(job).port
    lines = [
        f"  server {ADDRESSES}{FIRST_HOST + number}:{port} max_fails={FAILS_BEFORE_REST} fail_timeout={REST_S}s;"
        for number in range(job.num_nodes)
    ]
    kept = max(LEAST_KEPT, min(1024, job.num_nodes * job.option.layout.replicas_per_node * max(1, job.option.layout.max_batch)))
    return "\n".join(["upstream servers {", "  least_conn;", *lines, f"  keepalive {kept};", "}"])


def limits(job: Job) -> tuple[str, str]:
    """(zone, use) of the limit of requests; empty where the plan knows no rate. NGINX counts whole requests a second, or a minute where
    there are fewer."""
    most = rate(job)
    if most <= 0:
        return "", ""
    words = f"{math.ceil(most)}r/s" if most >= 1 else f"{max(1, math.ceil(60 * most))}r/m"
    burst = max(1, math.ceil(BURST_S * most))
    return (
        f"limit_req_zone $server_name zone=all:1m rate={words};\n",
        f"    limit_req zone=all burst={burst} nodelay;\n    limit_req_status 429;\n",
    )


def write(job: Job) -> Files:
    """One file for /etc/nginx/conf.d."""
    zone, limit = limits(job)
    stack = stack_of(job)
    body = f"""# {comment(job.model)}, plan {job.plan_id}: put the addresses of the servers in, then `nginx -t && nginx -s reload`.
# It listens on this machine alone: put TLS (or the cloud's balancer) before it.
{zone}{upstream(job)}

server {{
  listen 127.0.0.1:{PORT};
  server_name {job.name};
  client_max_body_size {MOST_BODY_MIB}m;
  add_header X-Rightfit-Plan {job.plan_id} always;

  location / {{
{limit}    proxy_pass http://servers;
    proxy_http_version 1.1;
    proxy_set_header Connection "";
    proxy_set_header Host $host;
    proxy_set_header X-Request-Id $request_id;
    proxy_buffering off;
    proxy_connect_timeout 5s;
    proxy_read_timeout {LONGEST_ANSWER_S}s;
    proxy_next_upstream error timeout http_503;
    proxy_next_upstream_tries 2;
  }}

  location = {stack.health_path} {{
    proxy_pass http://servers;
    access_log off;
  }}
}}
"""
    return {f"{job.name}.conf": body}


def _refuses(job: Job) -> Message | str:
    if not job.is_service:
        return Message("export.part_only_services_spread", task=job.task)
    return spans_servers(job) or stack_problem(job)


TARGET = Target(
    "nginx",
    "serving",
    "NGINX before the servers of a service",
    write,
    _refuses,
    checked_by="nginx -t, and requests through a running nginx",
)
