"""A language model of the user's own reads a sentence, behind a fake endpoint over HTTP: what it
leaves out, invents or changes is never taken."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from rightfit import reach
from rightfit.cli import main
from rightfit.errors import InputError, NetworkError
from rightfit.workload.ask.by_model import schema, understand_with
from rightfit.workload.options import OPTIONS

SENTENCE = "fine-tune Llama-3-8B with LoRA on 50k samples within 2 days, in Vastwing"
RIGHT = [
    {"option": "model", "value": "Llama-3-8B", "words": "Llama-3-8B"},
    {"option": "task", "value": "finetune", "words": "fine-tune"},
    {"option": "method", "value": "lora", "words": "LoRA"},
    {"option": "data", "value": "50ksamples", "words": "50k samples"},
    {"option": "deadline", "value": "2d", "words": "within 2 days"},
]


class Endpoint:
    """An endpoint that answers what it was given, and keeps what it was asked."""

    def __init__(self) -> None:
        self.content: str = ""
        self.asked: dict[str, Any] = {}
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/chat/completions"
                endpoint.asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = json.dumps({"choices": [{"message": {"content": endpoint.content}}]}).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.place = f"http://127.0.0.1:{self.server.server_port}/v1#small"

    def says(self, readings: list[dict[str, str]]) -> str:
        self.content = json.dumps({"readings": readings})
        return self.place


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    found = Endpoint()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()


def test_what_it_reads_is_held_to_the_sentence(endpoint: Endpoint) -> None:
    found = understand_with(SENTENCE, endpoint.says(RIGHT))
    assert found.wishes == {one["option"]: one["value"] for one in RIGHT}
    assert found.weighty == ("Vastwing",), "what it left out stops the answer"
    assert endpoint.asked["model"] == "small"
    assert endpoint.asked["response_format"]["json_schema"]["schema"] == schema()
    assert endpoint.asked["messages"][-1]["content"] == SENTENCE


@pytest.mark.parametrize(
    ("change", "asked"),
    [
        ({"option": "data", "value": "5ksamples", "words": "50k samples"}, "50k samples"),
        ({"option": "data", "value": "50ksamples", "words": "50k pictures"}, "50k"),
        ({"option": "data", "value": "much", "words": "50k samples"}, "50k"),
        ({"option": "no_option", "value": "50ksamples", "words": "50k samples"}, "50k"),
    ],
)
def test_what_is_not_said_so_is_not_taken(endpoint: Endpoint, change: dict[str, str], asked: str) -> None:
    found = understand_with(SENTENCE, endpoint.says([one for one in RIGHT if one["option"] != "data"] + [change]))
    assert "data" not in found.wishes
    assert any(asked in piece for piece in found.weighty)


@pytest.mark.parametrize("content", ["", "no JSON", "[]", '{"readings": 7}'])
def test_what_is_no_answer_reads_nothing(endpoint: Endpoint, content: str) -> None:
    endpoint.content = content
    if content.startswith(("[", "{")):
        assert not understand_with(SENTENCE, endpoint.place).readings
    else:
        with pytest.raises(NetworkError, match="not JSON by the schema"):
            understand_with(SENTENCE, endpoint.place)


def test_places_that_are_none() -> None:
    for place in ("qwen2.5", "http://localhost:1/v1", "file:///etc/passwd#x"):
        with pytest.raises(InputError, match="URL#MODEL"):
            understand_with(SENTENCE, place)
    with pytest.raises(NetworkError, match="nothing answers"):
        understand_with(SENTENCE, "http://127.0.0.1:9/v1#x")
    with reach.closed(), pytest.raises(InputError, match="only at a terminal"):
        understand_with(SENTENCE, "http://127.0.0.1:9/v1#x")


def test_a_plan_is_made_of_it(endpoint: Endpoint, capsys: pytest.CaptureFixture[str]) -> None:
    sentence = SENTENCE.removesuffix(", in Vastwing")
    assert main(["plan", "--ask", sentence, "--ask-with", endpoint.says(RIGHT)]) == 0
    by_model = capsys.readouterr().out
    assert main(["plan", "--ask", sentence]) == 0
    assert capsys.readouterr().out == by_model


def test_the_schema_names_every_option() -> None:
    assert schema()["properties"]["readings"]["items"]["properties"]["option"]["enum"] == list(OPTIONS)
