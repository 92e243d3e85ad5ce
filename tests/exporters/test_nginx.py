"""NGINX itself tests the file, then runs it: requests are spread over two servers, streamed, and
turned away over the plan's rate."""

from __future__ import annotations

import http.server
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from jobs import files, hostile, job, taken

NGINX = shutil.which("nginx", path="/usr/sbin:/usr/local/sbin:/usr/bin:/opt/nginx/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: apt-get install nginx-light)")


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def settings(folder: Path, text: str) -> Path:
    """A whole configuration around the exported file, in a folder of its own."""
    (folder / "job.conf").write_text(text, encoding="utf-8")
    whole = f"daemon off;\nmaster_process off;\npid {folder}/pid;\nerror_log {folder}/error.log;\nevents {{}}\nhttp {{\n  access_log off;\n"
    paths = "".join(f"  {kind}_temp_path {folder}/{kind};\n" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    path = folder / "nginx.conf"
    path.write_text(f"{whole}{paths}  include {folder}/job.conf;\n}}\n", encoding="utf-8")
    return path


@pytest.mark.parametrize("name", taken("nginx"))
def test_nginx_takes_the_file(name: str, tmp_path: Path) -> None:
    for maker in (files, hostile):
        [text] = maker("nginx", name).values()
        done = subprocess.run([str(NGINX), "-t", "-c", str(settings(tmp_path, text))], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert f"server {'10.60.0.10'}:8000" in text
    wrong = settings(tmp_path, text.replace("least_conn", "least_con"))
    assert subprocess.run([str(NGINX), "-t", "-c", str(wrong)], capture_output=True, check=False).returncode != 0


class Answer(http.server.BaseHTTPRequestHandler):
    """A server that says which it is."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.server.server_address[1]).encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def servers() -> Iterator[list[int]]:
    found = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer) for _ in range(2)]
    for server in found:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield [server.server_address[1] for server in found]
    for server in found:
        server.shutdown()


def test_requests_are_spread_and_limited(servers: list[int], tmp_path: Path) -> None:
    name = "bert-service-azure"
    assert job(name).num_nodes == 2
    [text] = files("nginx", name).values()
    port = free_port()
    for host, server in zip(("10.60.0.10:8000", "10.60.0.11:8000"), servers, strict=True):
        text = text.replace(host, f"127.0.0.1:{server}")
    [rate] = [line for line in text.splitlines() if line.startswith("limit_req_zone")]
    text = text.replace("127.0.0.1:8080", f"127.0.0.1:{port}").replace(rate, "limit_req_zone $server_name zone=all:1m rate=1r/s;")
    text = text.replace(next(line for line in text.splitlines() if "burst=" in line), "limit_req zone=all burst=20 nodelay;")
    running = subprocess.Popen([str(NGINX), "-c", str(settings(tmp_path, text))], stderr=subprocess.PIPE)
    try:
        answers = [ask(port) for _ in range(40)]
    finally:
        running.terminate()
        running.communicate(timeout=10)
    assert {answer for answer in answers if answer != "429"} == {str(server) for server in servers}
    assert 15 <= answers.count("429") <= 19


def ask(port: int) -> str:
    """The answer, or the status that it was turned away with."""
    for _ in range(50):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/infer", timeout=5) as found:
                assert found.headers["X-Rightfit-Plan"] == job("bert-service-azure").plan_id
                return str(found.read().decode())
        except urllib.error.HTTPError as error:
            return str(error.code)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("nginx does not answer")
