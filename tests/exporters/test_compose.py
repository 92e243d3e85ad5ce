"""Docker Compose's file against the schema of its specification; its parts meet: names, ports,
secrets, and metrics that are not open."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import HOSTILE, files, hostile, job, taken

from rightfit.exports.stack import stack_of

jsonschema = pytest.importorskip("jsonschema")
SCHEMA = json.loads((Path(__file__).parent / "data" / "compose-spec.json").read_text(encoding="utf-8"))
NAMES = taken("docker-compose")


def compose(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(files("docker-compose", name)["compose.yaml"])
    return found


def check(value: dict[str, Any]) -> None:
    jsonschema.validators.validator_for(SCHEMA)(SCHEMA).validate(value)


def test_services_are_taken() -> None:
    assert {"chat-8b-aws", "chat-8b"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_specification_has_every_key(name: str) -> None:
    for found in (files("docker-compose", name), hostile("docker-compose", name)):
        check(yaml.safe_load(found["compose.yaml"]))
    wrong = compose(name)
    wrong["services"]["engine"]["nosuchkey"] = 1
    with pytest.raises(jsonschema.ValidationError, match="nosuchkey"):
        check(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_its_parts_meet(name: str) -> None:
    found, written, stack = compose(name), files("docker-compose", name), stack_of(job(name))
    services = found["services"]
    # Every variable that must be set stands in the example, and no secret has a value.
    asked = set(re.findall(r"\$\{(\w+)[:}]", written["compose.yaml"]))
    assert asked == {line.partition("=")[0] for line in written["env.example"].splitlines()}
    assert set(stack.secrets) <= asked
    # The engine is reached through the proxy alone, and its metrics from within.
    assert "ports" not in services["engine"]
    assert f"reverse_proxy engine:{stack.port}" in written["Caddyfile"]
    assert "respond @inner 404" in written["Caddyfile"]
    assert services["grafana"]["ports"] == ["127.0.0.1:3000:3000"]
    targets = [
        one
        for each in yaml.safe_load(written["prometheus/prometheus.yml"])["scrape_configs"]
        for one in each["static_configs"][0]["targets"]
    ]
    assert {target.partition(":")[0] for target in targets} <= set(services)
    assert f"engine:{stack.port}" in targets
    # What is mounted is there; what is named as a volume is declared.
    for service in services.values():
        for mount in service.get("volumes", ()):
            source = mount.partition(":")[0]
            if source.startswith("./"):
                assert any(path == source[2:] or path.startswith(f"{source[2:]}/") for path in written), source
            else:
                assert source in found["volumes"]


@pytest.mark.parametrize("name", NAMES)
def test_the_command_is_the_stack_s(name: str) -> None:
    """A dollar of a name stays one: Compose's own variables are doubled away."""
    words = [word.replace("$$", "$") for word in compose(name)["services"]["engine"]["entrypoint"]]
    assert words[-1].endswith(stack_of(job(name)).command[-1]) or words == list(stack_of(job(name)).command)
    evil = yaml.safe_load(hostile("docker-compose", name)["compose.yaml"])["services"]["engine"]["entrypoint"]
    assert not re.search(r"(?<!\$)\$(?!\$)(?:\$\$)*[({]", "\n".join(evil))
    assert HOSTILE in "\n".join(evil).replace("$$", "$") or HOSTILE not in str(stack_of(job(name)).command)


@pytest.mark.skipif(not shutil.which("promtool"), reason="promtool is not installed")
@pytest.mark.parametrize("name", NAMES[:2])
def test_prometheus_reads_its_settings(name: str, tmp_path: Path) -> None:
    for path, text in files("docker-compose", name).items():
        if path.startswith("prometheus/"):
            (tmp_path / Path(path).name).write_text(text, encoding="utf-8")
    ran = subprocess.run(["promtool", "check", "config", str(tmp_path / "prometheus.yml")], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
