"""Servers as processes, and a browser, for the tests of the faces."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parent.parent.parent
CHROMIUM = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), "")
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
#: What no server may ever say: a handler whose coroutine was dropped, or one that writes on what
#: is no longer there.
DROPPED = ("was never awaited", "has been deleted but is still being used")


@contextlib.contextmanager
def serving(folder: Path, *arguments: str, port: int = 0) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """`rightfit serve`, ready: its address and its process; `port` 0 takes one that is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(("127.0.0.1", port))
        port = probe.getsockname()[1]
    environment = {**os.environ, "RIGHTFIT_DATA_DIR": str(folder), "PYTHONPATH": str(ROOT / "src"), "LANG": "C.UTF-8"}
    command = [sys.executable, "-m", "rightfit", "serve", "--port", str(port), "--rate", "100000", *arguments]
    with (folder / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        address = f"http://127.0.0.1:{port}"
        try:
            _await(address, process, folder / "server.log")
            yield address, process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
    assert said_in(folder / "server.log", DROPPED) == []


def said_in(log: Path, wordings: tuple[str, ...]) -> list[str]:
    """The lines of a server's log with one of these wordings."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if any(wording in line for wording in wordings)]


def _await(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(log.read_text())
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{address}/api/v1/ready", timeout=5):
            return
        time.sleep(0.1)
    raise RuntimeError("the server does not get ready")


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Start a server with its data in this test's folder."""
    return lambda *arguments: serving(tmp_path, *arguments)


# ---- a browser


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of this source tree that has answered once."""
    folder = tmp_path_factory.mktemp("server")
    with serving(folder) as (found, _):
        urllib.request.urlopen(found, timeout=60).read()
        yield found
    assert said_in(folder / "server.log", ('"level": "error"',)) == []


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium of this machine, without a window."""
    playwright = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium on this machine (apt-get install chromium fonts-wqy-microhei)")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"]
    with playwright.sync_playwright() as tool:
        found = tool.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield found
        found.close()


class Watched:
    """A page of the browser with all that it asks for and complains about."""

    def __init__(self, browser: Any, address: str, *, size: dict[str, int] = DESKTOP, dark: bool = False) -> None:
        self.context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light", accept_downloads=True)
        self.context.set_default_timeout(20_000)
        self.page, self.address = self.context.new_page(), address
        self.hosts: set[str] = set()
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc or urlsplit(request.url).scheme))
        self.page.on("websocket", lambda found: self.hosts.add(urlsplit(found.url).netloc))
        self.page.on("console", lambda message: self.complaints.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def open(self, path: str, lang: str, *, ready: str = "") -> Any:
        self.page.goto(f"{self.address}{path}{'&' if '?' in path else '?'}lang={lang}")
        self.page.wait_for_selector("main h1")
        if ready:
            self.page.wait_for_selector(ready)
        return self.page

    def mark(self, name: str) -> Any:
        """The element that says this; marks of the server's tests do not reach the browser."""
        return self.page.get_by_text(name, exact=True).first

    def close(self) -> None:
        """Nothing from elsewhere, nothing wrong."""
        self.context.close()
        assert self.hosts <= {urlsplit(self.address).netloc, "data", "blob"}, self.hosts
        assert self.complaints == []


@pytest.fixture
def watched(browser: Any, address: str) -> Iterator[Any]:
    opened: list[Watched] = []

    def make(**settings: Any) -> Watched:
        opened.append(Watched(browser, address, **settings))
        return opened[-1]

    yield make
    for one in opened:
        one.close()
