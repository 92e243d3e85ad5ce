"""The page from two processes on one PostgreSQL behind nginx, as docs/commands/serve.md writes it:
visitors stay with their process, and go on with another when it ends."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("nicegui")
pytest.importorskip("psycopg", reason="the extra postgres is not installed")

import yaml
from tests.faces.conftest import ROOT, Watched, serving
from tests.faces.postgres import running

from rightfit.web.words import word

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/nginx/sbin")
PAGE = (ROOT / "docs/commands/serve.md").read_text(encoding="utf-8")
PLAN = "/?model=Llama-3-8B&task=finetune&method=lora&data=50k+samples&budget=200usd"


def block(kind: str) -> str:
    """The one block of the page in this language."""
    [found] = re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def balanced(folder: Path, addresses: list[str]) -> Iterator[str]:
    """nginx with the configuration of the page, before these servers."""
    port = free_port()
    text = block("nginx").replace("listen 8000", f"listen 127.0.0.1:{port}")
    for number, address in enumerate(addresses, 8001):
        text = text.replace(f"127.0.0.1:{number}", address.removeprefix("http://"))
    paths = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    head = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\nhttp {{\n  access_log off;\n"
    (folder / "nginx.conf").write_text(f"{head}{paths}{text}}}\n", encoding="utf-8")
    process = subprocess.Popen([str(NGINX), "-c", str(folder / "nginx.conf")])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/health", timeout=5):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


def told(folder: Path, path: str) -> list[dict[str, Any]]:
    """The requests for a path in a server's log."""
    lines = (folder / "server.log").read_text(encoding="utf-8").splitlines()
    return [found for line in lines if line.startswith("{") and (found := json.loads(line)).get("path") == path]


def asked(address: str, body: dict[str, Any] | None = None) -> Any:
    request = urllib.request.Request(address, json.dumps(body).encode() if body else None, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.mark.deep
@pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")
def test_two_processes_serve_the_page_and_share_what_is_saved(browser: Any, tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in (*folders, proxy := tmp_path / "nginx"):
        folder.mkdir()
    with running() as database, contextlib.ExitStack() as stack:
        words = ("--proxy", "127.0.0.1", "--database", database.url.replace("+psycopg", ""))
        servers = [stack.enter_context(serving(folder, *words)) for folder in folders]
        address = stack.enter_context(balanced(proxy, [found for found, _ in servers]))
        visits: dict[int, Watched] = {}
        for _ in range(12):  # until each process has a visitor
            before = [len(told(folder, "/")) for folder in folders]
            visit = Watched(browser, address)
            page = visit.open(PLAN, "en", ready=".card")
            page.locator("[role=tab]", has_text=word("tab.breakdown", "en")).click()
            page.wait_for_selector(".breakdowns")
            after = [len(told(folder, "/")) for folder in folders]
            [chosen] = [at for at in (0, 1) if after[at] > before[at]]
            if chosen in visits:
                visit.close()
            else:
                visits[chosen] = visit
            if len(visits) == 2:
                break
        assert set(visits) == {0, 1}
        # limits count who asks, not nginx
        other = http.client.HTTPConnection(address.removeprefix("http://"), timeout=30, source_address=("127.0.0.9", 0))
        other.request("GET", "/api/v1/targets", headers={"X-Forwarded-For": "198.51.100.1"})
        assert other.getresponse().status == 200
        other.close()
        for _ in range(50):  # the line of the log follows the answer
            if found := [one["client"] for folder in folders for one in told(folder, "/api/v1/targets")]:
                break
            time.sleep(0.1)
        assert found == ["127.0.0.9"]
        # what is saved by one is there for the other
        plan = asked(f"{servers[0][0]}/api/v1/plan?top=1", {"model": "7B", "method": "qlora", "data": "50Mtok"})
        saved = asked(f"{servers[0][0]}/api/v1/plans", {"plan": plan, "name": "ours"})
        assert asked(f"{servers[1][0]}/api/v1/plans/{saved['id']}")["plan"] == plan
        # both pages live on their own process: an edit is answered
        for visit in visits.values():
            field = visit.page.locator('input[aria-label="Data"]')
            field.fill("31Mtok")
            field.press("Enter")
            visit.page.wait_for_url("**data=31Mtok**")
        # one process ends: its visitor goes on with the other from the address, the
        # other notices nothing
        servers[0][1].send_signal(signal.SIGTERM)
        assert servers[0][1].wait(30) == 0
        moved = visits[0]
        field = moved.page.locator('input[aria-label="Data"]')
        for _ in range(60):
            moved.page.wait_for_timeout(500)
            if len(told(folders[1], "/")) > after[1]:
                break
        moved.page.wait_for_selector(".card")
        assert "data=31Mtok" in moved.page.url
        assert field.input_value() == "31Mtok"
        field.fill("32Mtok")
        field.press("Enter")
        moved.page.wait_for_url("**data=32Mtok**")
        moved.complaints.clear()  # the browser says that a server went away
        for visit in visits.values():
            visit.close()


def test_the_files_for_kubernetes_fit_together() -> None:
    deployment, service, ingress = yaml.safe_load_all(block("yaml"))
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    assert deployment["spec"]["replicas"] > 1
    assert "--workers" not in container["args"]  # the page would not be served
    assert deployment["spec"]["template"]["metadata"]["labels"].items() >= service["spec"]["selector"].items()
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]
    assert ingress["metadata"]["annotations"]["nginx.ingress.kubernetes.io/affinity"] == "cookie"
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert backend == {"name": service["metadata"]["name"], "port": {"name": service["spec"]["ports"][0]["name"]}}
    validator = pytest.importorskip("kubernetes_validate")
    for document in (deployment, service, ingress):
        validator.validate(document, "1.30", strict=True)


def test_the_command_of_the_deployment_is_one_that_starts(tmp_path: Path) -> None:
    """The very words of the container, on a free port, with the token from the environment."""
    [container] = next(iter(yaml.safe_load_all(block("yaml"))))["spec"]["template"]["spec"]["containers"]
    words = list(container["args"][2:])
    at = words.index("--port")
    del words[at : at + 2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RIGHTFIT_TOKEN", "a-token-of-some-length")
        with serving(tmp_path, *words) as (address, _):
            for probe in ("readinessProbe", "livenessProbe"):
                with urllib.request.urlopen(f"{address}{container[probe]['httpGet']['path']}", timeout=30) as answer:
                    assert answer.status == 200
