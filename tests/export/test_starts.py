"""How long a service may take until it answers, and what asks it: whatever the size of its weights
and whether it has a template of chats."""

from __future__ import annotations

import re

import pytest
import yaml
from typical_plans import plan_values

from rightfit.exports import Job, find_target, job_of, plan_document
from rightfit.exports.bundle import request_of
from rightfit.exports.model_words import LEAST_START_S, SLOW_BYTES_PER_S, START_MARGIN, longest_start_s
from rightfit.exports.stack import stack_of


def planned(name: str, *, weights_bytes: float = 0.0, cold_start_s: float = 0.0) -> Job:
    values = plan_values(name)
    first, *others = values["options"]
    kept = dict.fromkeys(("mid", "low80", "high80", "low95", "high95"), weights_bytes) if weights_bytes else first["estimate"]["disk_bytes"]
    first = {**first, "estimate": {**first["estimate"], "disk_bytes": {**first["estimate"]["disk_bytes"], **kept}}}
    sections = values.get("sections", {})
    if cold_start_s:
        sections = {**sections, "autoscaling": {**sections.get("autoscaling", {}), "cold_start": {"total_s": cold_start_s}}}
    return job_of(plan_document({**values, "options": [first, *others], "sections": sections}))


@pytest.mark.parametrize(("weights_bytes", "cold_start_s"), [(16e9, 60.0), (1.5e12, 60.0), (16e9, 5000.0)])
def test_every_probe_waits_as_long_as_loading_may_take(weights_bytes: float, cold_start_s: float) -> None:
    job = planned("chat-8b-aws", weights_bytes=weights_bytes, cold_start_s=cold_start_s)
    longest = longest_start_s(job)
    assert longest >= max(LEAST_START_S, START_MARGIN * cold_start_s, weights_bytes / SLOW_BYTES_PER_S)
    objects = list(yaml.safe_load_all(find_target("kubernetes").files(job)["objects.yaml"]))
    [pod] = [one["spec"]["template"]["spec"] for one in objects if one["kind"] == "Deployment"]
    probe = pod["containers"][0]["startupProbe"]
    assert probe["failureThreshold"] * probe["periodSeconds"] >= longest
    compose = yaml.safe_load(find_target("docker-compose").files(job)["compose.yaml"])
    assert compose["services"]["engine"]["healthcheck"]["start_period"] == f"{longest}s"
    assert f"--start-period={longest}s" in find_target("dockerfile").files(job)["Dockerfile"]


@pytest.mark.parametrize("name", ["chat-8b-aws", "chat-8b-sglang", "chat-8b-tgi", "chat-8b-llama-cpp"])
def test_the_request_that_checks_a_service_needs_no_template_of_chats(name: str) -> None:
    job = planned(name)
    text = request_of(job, stack_of(job))
    assert re.search(r'"\$2"/v1/completions', text)
    assert '"prompt"' in text
