"""The built wheel as people start it: pip in a fresh environment, uvx, pipx, and its extras."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("build")

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 15e6
PLAN = ["plan", "meta-llama/Meta-Llama-3-8B", "--method", "qlora", "--data", "50Mtok"]
PATIENCE_S = 90


def environment(folder: Path) -> dict[str, str]:
    """As of somebody who has nothing of ours: no source path, a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV", "RIGHTFIT_CACHE_DIR")}
    return {**kept, "RIGHTFIT_CACHE_DIR": str(folder / "cache"), "LC_ALL": "C.UTF-8", "COLUMNS": "100", "PIPX_HOME": str(folder / "pipx")}


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run in `folder`; the output is kept."""
    return subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=folder, env=environment(folder), timeout=600
    )


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from this tree."""
    out = tmp_path_factory.mktemp("dist")
    result = subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", out, ROOT], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    [found] = out.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def home(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel and its faces, in a folder far from the sources."""
    folder = tmp_path_factory.mktemp("home")
    assert run(sys.executable, "-m", "venv", folder / "venv", folder=folder).returncode == 0
    result = run(folder / "venv/bin/python", "-m", "pip", "install", "-q", f"{wheel}", folder=folder)
    assert result.returncode == 0, result.stderr[-2000:]
    return folder


def test_the_wheel_is_small_and_whole(wheel: Path) -> None:
    assert wheel.stat().st_size < LARGEST_BYTES
    names = zipfile.ZipFile(wheel).namelist()
    assert not [name for name in names if name.startswith(("tests/", "docs/", "validation/")) or name.endswith(".pyc")]
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src/rightfit").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    tracked = set(subprocess.run(["git", "ls-files", "src"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split())
    carried = {name for name in sources if f"src/{name}" in tracked}
    compiled = {name.removesuffix(".po") + ".mo" for name in carried if name.endswith(".po")}
    assert compiled, "catalogs of messages travel as they are read"
    assert {name for name in carried if not name.endswith(".po")} | compiled <= set(names)
    assert not [name for name in names if name.endswith(".po")]


def test_pip_install_and_the_main_job(home: Path) -> None:
    for arguments, start in ((PLAN, "Rent "), ([*PLAN, "--lang", "zh"], "租用"), ([*PLAN, "--format", "html"], "<!DOCTYPE html>")):
        result = run(home / "venv/bin/rightfit", *arguments, folder=home)
        assert result.returncode == 0, result.stderr
        assert result.stdout.startswith(start)


def test_what_needs_an_extra_says_which(home: Path) -> None:
    for command, extra in ((["serve"], "web"), (["mcp"], "mcp")):
        result = run(home / "venv/bin/rightfit", *command, folder=home)
        assert result.returncode == 3, result.stdout + result.stderr
        assert f"rightfit[{extra}]" in result.stderr
        assert "Traceback" not in result.stderr


@pytest.mark.parametrize("tool", ["uvx", "pipx"])
def test_start_without_installing(tool: str, wheel: Path, home: Path) -> None:
    found = shutil.which(tool) or shutil.which(tool, path=str(Path(sys.executable).parent))
    if found is None:
        pytest.skip(f"{tool} is not here")
    words = ["--from", str(wheel), "rightfit"] if tool == "uvx" else ["run", "--spec", str(wheel), "rightfit"]
    result = run(found, *words, *PLAN, folder=home)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.startswith("Rent ")


def free_port() -> int:
    """A port that nobody uses just now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def faces(wheel: Path, home: Path) -> Path:
    """The same environment with the extras of the faces."""
    result = run(home / "venv/bin/python", "-m", "pip", "install", "-q", f"{wheel}[web,mcp]", folder=home)
    if result.returncode != 0:
        pytest.skip("the packages of the faces cannot be had here: " + result.stderr[-300:])
    return home


def test_mcp_of_the_wheel(faces: Path) -> None:
    result = run(faces / "venv/bin/rightfit", "mcp", "--help", folder=faces)
    assert result.returncode == 0, result.stderr
    assert "mcp" in result.stdout.casefold()


def test_serve_of_the_wheel(faces: Path) -> None:
    port = free_port()
    command = [str(faces / "venv/bin/rightfit"), "serve", "--no-page", "--port", str(port)]
    server = subprocess.Popen(command, cwd=faces, env=environment(faces), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        assert answer(f"http://127.0.0.1:{port}/api/v1/health", server) == 200
    finally:
        server.terminate()
        server.communicate(timeout=30)


def answer(address: str, server: subprocess.Popen[str]) -> int:
    """The status of an address, as soon as the server answers."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert server.poll() is None, server.communicate()[1][-2000:]
        try:
            with urllib.request.urlopen(address, timeout=20) as reply:
                return int(reply.status)
        except (urllib.error.URLError, OSError):  # not listening yet, or slow to answer for the first time
            time.sleep(0.2)
    raise AssertionError(f"no answer within {PATIENCE_S} s")
