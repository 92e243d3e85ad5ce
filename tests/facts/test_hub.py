"""Models from a hub, against a real HTTP server on this machine."""

from __future__ import annotations

import http.server
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from rightfit import facts
from rightfit.errors import FileInputError, MissingComponentError, NetworkError, UnknownNameError
from rightfit.facts import hub
from rightfit.facts.records import TransformerArchitecture

constants = pytest.importorskip("huggingface_hub.constants")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 512,
    "vocab_size": 100,
}
BODY = json.dumps(CONFIG).encode()
PARAMS = 2 * 100 * 256 + 2 * (4 * 256 * 256 + 3 * 256 * 512 + 2 * 256) + 256


class FakeHub(http.server.BaseHTTPRequestHandler):
    """Answers by the name of the repository that is asked for."""

    seen: ClassVar[list[tuple[str, str | None]]] = []

    def log_message(self, *_: object) -> None:
        """Keep the test output clean."""

    def do_GET(self) -> None:
        self.seen.append((self.path, self.headers.get("authorization")))
        repository = self.path.removeprefix("/models").split("/")[2]
        answers = {
            "good": (200, {}, BODY),
            "gone": (404, {"X-Error-Code": "RepoNotFound"}, b""),
            "bare": (404, {"X-Error-Code": "EntryNotFound"}, b""),
            "gated": (401, {"X-Error-Code": "GatedRepo"}, b""),
            "forbidden": (403, {}, b""),
            "broken": (503, {}, b"down"),
            "truncated": (200, {}, BODY[:40]),
            "huge": (200, {}, b" " * 6_000_000),
            "html": (200, {}, b"<html>please log in</html>"),
            "cut-off": (200, {"Content-Length": "5000"}, BODY[:20]),
            "moved": (302, {"Location": "/models/org/good/resolve/master/config.json"}, b""),
        }
        if repository == "slow":
            time.sleep(0.6)
        status, headers, body = answers.get(repository, (404, {}, b""))
        self.send_response(status)
        for key, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        try:
            self.wfile.write(body)
        except OSError:
            self.close_connection = True


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The running fake hub."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), FakeHub)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(autouse=True)
def _user(monkeypatch: pytest.MonkeyPatch, address: str, tmp_path: Path) -> None:
    """A user of the fake hub without login, cache or settings of his own."""
    for key in ("MODELSCOPE_ENDPOINT", "HF_HUB_OFFLINE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HF_ENDPOINT", address)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    FakeHub.seen.clear()


def test_an_unbundled_id_is_read_from_the_hub(address: str) -> None:
    result = facts.resolve_model("org/good")
    record = result.record
    assert isinstance(record, TransformerArchitecture)
    assert (record.name, record.params_total, record.certainty, result.how) == ("org/good", PARAMS, "config", "hub")
    assert record.source == f"{address}/org/good/resolve/main/config.json"
    assert FakeHub.seen == [("/org/good/resolve/main/config.json", None)]


def test_redirects_are_followed() -> None:
    assert facts.model("org/moved").params_total == PARAMS


@pytest.mark.parametrize("query", ["ms:org/good", "modelscope:org/good", "MS:org/good"])
def test_modelscope_by_prefix(query: str, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", address + "/")
    assert facts.model(query).name == "org/good"
    assert FakeHub.seen == [("/models/org/good/resolve/master/config.json", None)]


def test_modelscope_by_environment(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_ENDPOINT")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", address)
    assert facts.model("org/good").params_total == PARAMS
    assert FakeHub.seen[0][0].startswith("/models/")


def test_the_users_login_goes_to_the_hub_and_nowhere_else(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_test")
    monkeypatch.setenv("MODELSCOPE_ENDPOINT", address)
    facts.model("org/good")
    facts.model("ms:org/good")
    assert [login for _, login in FakeHub.seen] == ["Bearer hf_test", None]


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("org/gone", UnknownNameError, "unknown model 'org/gone'; neither bundled nor on http://127"),
        ("org/unheard-of", UnknownNameError, "neither bundled nor on"),
        ("org/bare", UnknownNameError, "has it, but without a config.json"),
        (
            "org/gated",
            NetworkError,
            r"gated, private or missing on http://127.* \(HTTP 401\); accept its license and log in with `hf auth login`",
        ),
        ("org/forbidden", NetworkError, r"\(HTTP 403\)"),
        ("org/broken", NetworkError, "answered HTTP 503 for org/broken"),
        ("org/cut-off", NetworkError, "cannot be reached"),
        ("org/truncated", FileInputError, "org/truncated config.json: not JSON at line 1"),
        ("org/html", FileInputError, "org/html config.json: not JSON at line 1, column 1"),
        ("org/huge", FileInputError, "larger than 5 MB, so not a model configuration"),
    ],
)
def test_what_a_hub_may_answer(query: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        facts.model(query)
    assert "\n" not in str(caught.value)


def test_a_slow_hub_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "CONNECT_AND_READ_S", 0.1)
    started = time.monotonic()
    with pytest.raises(NetworkError, match="cannot be reached"):
        facts.model("org/slow")
    assert time.monotonic() - started < 0.5


def test_a_dripping_hub_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "WHOLE_TRANSFER_S", -1.0)
    with pytest.raises(NetworkError, match=r"to send the config\.json of org/good"):
        facts.model("org/good")


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "ftp://127.0.0.1", "http://no-such-host.invalid", "not a url", "http://["])
def test_no_network_is_one_line_with_bundled_names(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", endpoint)
    with pytest.raises(NetworkError, match="nearest bundled models: meta-llama/Meta-Llama-3-8B") as caught:
        facts.model("someone/my-llama-3-8b-tuned")
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 3


def test_offline_mode_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(NetworkError, match="HF_HUB_OFFLINE blocks"):
        facts.model("org/good")
    with pytest.raises(UnknownNameError):
        facts.model("org/good", network=False)
    assert FakeHub.seen == []


def test_bundled_and_respelt_names_ask_nobody() -> None:
    facts.model("meta-llama/Meta-Llama-3-8B")
    facts.model("NousResearch/Meta-Llama-3-8B-Instruct")
    assert FakeHub.seen == []


def test_the_local_hub_cache_answers_without_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    repository = tmp_path / "models--org--cached"
    snapshot = repository / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_bytes(BODY)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("abc")
    record = facts.model("org/cached")
    assert record.params_total == PARAMS
    assert record.source == "local hub cache of org/cached"
    assert FakeHub.seen == []


def test_without_the_optional_library_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingComponentError, match=r"pip install 'rightfit\[hub\]'"):
        facts.model("org/good")


def test_the_library_is_imported_only_when_asked() -> None:
    code = "import rightfit.facts as f, sys; f.model('llama3-8b'); print('huggingface_hub' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
