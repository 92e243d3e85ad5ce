"""Inputs made from sound ones by small damage, given to every door: what is not answered with a
result or one of our own errors is a finding.

Usage: python benchmarks/fuzz.py [--count 100000] [--start 0] [--seconds 600]
[--doors wishes,files,...]

Input number N is the same on every machine: a run that ended early goes on with --start, and a
finding is tried again with --start N --count 1. A finding is an exception that is not ours, more
than 10 seconds, or an answer of the API of 500 and above. At the end the number of inputs by door,
how they ended, the slowest, and the growth of memory; exit code 1 with findings, or where memory
grew by more than 1 GB.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import contextlib
import json
import logging
import random
import resource
import signal
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rightfit import api, reach
from rightfit.errors import RightfitError

LONGEST_S, LARGEST_GROWTH_BYTES = 10, 1e9
ENDS = ("answered", "refused")


class HangError(BaseException):
    """Longer than allowed; no handler of ours may take it for a problem."""


# ---- damage

WISHES: tuple[dict[str, str], ...] = (
    {"model": "meta-llama/Meta-Llama-3-8B", "task": "finetune", "method": "qlora", "data": "50Mtok", "deadline": "24h", "budget": "200usd"},
    {"model": "Qwen2.5-7B", "task": "serve", "users": "200", "ttft": "500ms", "input_tokens": "1000", "cloud": "aws,gcp"},
    {"model": "resnet50", "task": "train", "data": "1.28Mimages", "epochs": "90", "gpu": "A100", "purchase": "spot"},
    {"model": "xgboost", "task": "train", "data": "10Mrows", "columns": "100", "region": "us-east-1"},
    {"operation": "tokenize", "task": "prepare", "data": "100GB", "deadline": "2h"},
    {"model": "whisper-small", "task": "batch", "data": "100h", "country": "DE", "currency": "eur", "objective": "balanced"},
)
SENTENCES = (
    "Fine-tune Llama-3-8B with LoRA on 50k samples, under $200",
    "部署 Qwen2.5-7B，200 人同时在线，首 token 延迟 500ms",
    "Train ResNet-50 on ImageNet for 90 epochs within 24 hours on spot A100",
    "用 XGBoost 训练 1000 万行 x 100 列数据，预算 1500 元",
)
CLAIMS = ("g5.xlarge=T4", "RAM >= 4x VRAM", "aws/p4d.24xlarge", "A100=80GB", "8xH100", "训练显存是参数的 16 倍")
BOOK = """currency = "usd"\n[[discount]]\nprovider = "aws"\npurchase = "on-demand"\npercent = 30\n[[server]]\nname = "box"\ngpu = "L40S"\ngpus = 2\nprice = 0.9\n[[tax]]\npercent = 19\n"""
FLEET = """name: lab\nstart: 2026-12-01\nhorizon: 2w\njobs:\n- {name: a, count: 4, deadline: 3d, workload: {model: 7B, method: qlora, data: 50Mtok}}\nlimits:\n  clouds: [aws]\n"""
RUN = {
    "kind": "run",
    "source": {"kind": "probe"},
    "setup": {"model": "7B", "method": "lora", "gpu": "L40S", "n_gpus": "1"},
    "measured": [{"metric": "step_time_s", "value": 4.1, "unit": "s", "n": 60}],
}
ROW = {
    "model": "meta-llama/Meta-Llama-3-8B",
    "method": "lora",
    "gpu": "A100-SXM-80GB",
    "n_gpus": "1",
    "micro_batch": "4",
    "seq_len": "1024",
    "metric": "peak_mem_gib",
}
ODD = (
    "", " ", "0", "-1", "1e400", "nan", "-inf", "1e-320", "9" * 40, "None", "null", "[]", "{}", "\x00", "\ud800", "\u202e", "٣", "１２", "½", "😀" * 50, "a" * 5000, "../../etc/passwd",
    "C:\\x", "'; DROP TABLE", "${HOME}", "%s%n", "=1+1", "<script>", "1GB1GB", "10 usd / month / day", "1x" * 300, "((((", "*" * 90, "--data", "\n", "true", "1_000", "0x10", "1,2,3,,",
)  # fmt: skip


def damaged(text: str, chance: random.Random) -> str:
    """A text with up to three small wrongs."""
    for _ in range(chance.randint(0, 3)):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(6)
        if kind == 0:
            text = text[:at] + chance.choice(ODD) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + chance.randint(1, 8) :]
        elif kind == 2 and text:
            text = text[:at] + chr(chance.choice((0, 9, 10, 34, 39, 44, 58, 91, 123, 0x4E00, 0x1F600, 0xFFFF))) + text[at + 1 :]
        elif kind == 3:
            text = text[:at] + text[at : at + chance.randint(1, 60)] * chance.randint(2, 30) + text[at:]
        elif kind == 4:
            text = text[:at]
        else:
            text = text.swapcase() if chance.random() < 0.2 else text[at:] + text[:at]
    return text


def odd_value(value: Any, chance: random.Random) -> Any:
    """A value near a sound one, or of another kind altogether."""
    kind = chance.randrange(5)
    if kind < 3:
        return damaged(str(value), chance)
    if kind == 3:
        return chance.choice(ODD)
    return chance.choice(
        (None, True, -1, 0, 1e308, float("nan"), float("inf"), [], [value], {}, {"a": value}, 10**30, [[[]]], b"x".decode())
    )


def odd_mapping(sound: dict[str, Any], chance: random.Random, names: tuple[str, ...] = ()) -> dict[str, Any]:
    """A mapping with some values wrong, some keys gone, some keys too many."""
    found = dict(sound)
    for _ in range(chance.randint(1, 3)):
        kind = chance.randrange(4)
        key = chance.choice(list(found)) if found else "model"
        if kind == 0 and found:
            found.pop(key)
        elif kind == 1:
            found[chance.choice(names) if names and chance.random() < 0.9 else chance.choice(ODD)] = odd_value("10", chance)
        else:
            found[key] = odd_value(found.get(key, ""), chance)
    return found


def odd_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bytes with up to six of them wrong, cut, or repeated."""
    found = bytearray(data)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found)) if found else 0
        kind = chance.randrange(4)
        if kind == 0 and found:
            found[at] = chance.randrange(256)
        elif kind == 1:
            del found[at : at + chance.randint(1, 16)]
        elif kind == 2:
            found[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 9)))
        elif found:
            found[at : at + 8] = struct.pack("<Q", chance.choice((0, 1, 2**31, 2**32, 2**63 - 1, 2**64 - 1)))
    return bytes(found)


def wire(value: Any) -> Any:
    """A value as it comes over a wire: no client can send half a character."""
    return json.loads(json.dumps(value, default=str, ensure_ascii=False).encode("utf-8", "replace"))


# ---- doors: each takes chance and gives how it ended


def wishes(chance: random.Random, _: Path) -> str:
    """Options of a workload as Python takes them; one in two hundred is planned too."""
    from rightfit.workload.options import OPTIONS

    work = api.read_workload(None, odd_mapping(dict(chance.choice(WISHES)), chance, tuple(OPTIONS)))
    if chance.random() < 0.005:
        api.plan(work, top=1)
        return "planned"
    return "answered"


def sentences(chance: random.Random, _: Path) -> str:
    """Plain words."""
    api.understand(damaged(chance.choice(SENTENCES), chance))
    return "answered"


def claims(chance: random.Random, _: Path) -> str:
    """Names and claims to check."""
    text = damaged(chance.choice(CLAIMS), chance)
    if any(letter in text for letter in "<>≥≤%") and chance.random() < 0.9:
        return "left out"  # a rule is a search: one in ten is enough
    api.check([text])
    return "answered"


def rows(chance: random.Random, _: Path) -> str:
    """A row of a table of cases."""
    api.predict([odd_mapping(dict(ROW), chance, ("dataset", "nodes", "zero", "arrival", "tp", "precision", "framework"))])
    return "answered"


def files(chance: random.Random, folder: Path) -> str:
    """Workloads, price books, fleets and run records as files."""
    from rightfit.fleets.reading import read_fleet
    from rightfit.market.price_book import read_price_book
    from rightfit.measure.record import read_runs
    from rightfit.workload.model import load

    lines = chance.choice(WISHES)
    yaml, toml = "".join(f"{k}: {v}\n" for k, v in lines.items()), "".join(f'{k} = "{v}"\n' for k, v in lines.items())
    kinds: tuple[tuple[str, str, Callable[[Path], Any]], ...] = (
        ("a.yaml", yaml, lambda path: load(path, {})),
        ("a.toml", toml, lambda path: load(path, {})),
        ("a.json", json.dumps(lines), lambda path: load(path, {})),
        ("book.toml", BOOK, read_price_book),
        ("book.csv", "entry,provider,purchase,percent\ndiscount,aws,on-demand,30\n", read_price_book),
        ("fleet.yaml", FLEET, read_fleet),
        ("run.json", json.dumps(RUN), read_runs),
    )
    name, text, read = chance.choice(kinds)
    data = damaged(text, chance).encode("utf-8", "surrogatepass")
    path = folder / name
    path.write_bytes(odd_bytes(data, chance) if chance.random() < 0.3 else data)
    read(path)
    return "answered"


def tensors(chance: random.Random, folder: Path) -> str:
    """Headers of safetensors."""
    from rightfit.facts.own.models import own_model

    names = ["model.embed_tokens.weight", "lm_head.weight", *(f"model.layers.0.self_attn.{one}_proj.weight" for one in "qkvo")]
    head = {name: {"dtype": "F16", "shape": [64, 64], "data_offsets": [at * 8192, at * 8192 + 8192]} for at, name in enumerate(names)}
    if chance.random() < 0.5:
        key = chance.choice(names)
        head[key] = odd_mapping(head[key], chance)  # type: ignore[assignment]
    text = json.dumps(head)
    body = (damaged(text, chance) if chance.random() < 0.4 else text).encode("utf-8", "surrogatepass")
    data = struct.pack("<Q", len(body)) + body + bytes(8192 * len(names))
    path = folder / "net.safetensors"
    path.write_bytes(odd_bytes(data[: len(body) + 200], chance) if chance.random() < 0.5 else data)
    own_model(str(path))
    return "answered"


def networks(chance: random.Random, folder: Path) -> str:
    """ONNX files, read as the process that reads them does."""
    from onnx import TensorProto, helper

    from rightfit.facts.own.worker import answer_of

    sides: list[Any] = [chance.choice((1, 1, "batch", 0, -1, 2**40)), 3, chance.choice((8, 8, 224, 0)), 8]
    image = helper.make_tensor_value_info("x", TensorProto.FLOAT, sides)
    out = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    weight = TensorProto(name="w", data_type=chance.choice((1, 10, 0, 77)), dims=[chance.choice((8, 8, 8, 0, 2**50)), 3, 3, 3])
    nodes = [
        helper.make_node(chance.choice(("Conv", "Conv", "Conv", "MatMul", "Gemm", "Nothing")), ["x", "w"], ["h"]),
        helper.make_node("Relu", ["h"], ["y"]),
    ]
    data = helper.make_model(helper.make_graph(nodes, "g", [image], [out], [weight])).SerializeToString()
    path = folder / "net.onnx"
    path.write_bytes(odd_bytes(data, chance) if chance.random() < 0.5 else data)
    answer = answer_of("onnx", str(path), chance.choice(("", "", "3x8x8", "x", "9" * 30)))
    return "refused" if "error" in answer else "answered"


class Service:
    """The REST application without a socket."""

    def __init__(self, folder: Path) -> None:
        from starlette.testclient import TestClient

        from rightfit.rest import Settings, create_app

        settings = Settings(page=False, database_url=f"sqlite:///{folder / 'plans.sqlite'}", rate_per_s=1e6, burst=1_000_000)
        self.client: Any = TestClient(create_app(settings), raise_server_exceptions=False)
        self.client.__enter__()

    def __call__(self, chance: random.Random, _: Path) -> str:
        """A request; one in twenty may ask for a plan, as sound ones take long."""
        from rightfit.workload.options import OPTIONS

        body = odd_mapping(dict(chance.choice(WISHES)), chance, tuple(OPTIONS))
        calls: list[Callable[[], Any]] = [
            lambda: self.client.get("/api/v1/models", params=wire({"q": damaged("llama", chance), "limit": str(odd_value(5, chance))})),
            lambda: self.client.get("/api/v1/servers", params=wire({"q": damaged("g5.xlarge", chance)})),
            lambda: self.client.get("/api/v1/prices", params=wire({"q": damaged("g5.xlarge", chance), "limit": chance.choice(ODD)})),
            lambda: self.client.get(f"/api/v1/plans/{chance.getrandbits(64):x}"),
            lambda: self.client.post(
                "/api/v1/plan", content=damaged(json.dumps(body, default=str), chance)[:-1].encode("utf-8", "replace")
            ),
            lambda: self.client.post("/api/v1/understand", json=wire({"sentence": damaged(chance.choice(SENTENCES), chance)})),
            lambda: self.client.request(chance.choice(("PUT", "QUERY", "PATCH")), "/api/v1/plan"),
        ]
        if chance.random() < 0.02:
            calls = [lambda: self.client.post("/api/v1/plan?top=1", content=json.dumps(body).encode())]
        found = chance.choice(calls)()
        if found.status_code >= 500 and found.status_code not in (503, 504):
            raise RuntimeError(f"{found.status_code}: {found.text[:300]}")
        return "answered" if found.status_code < 400 else "refused"


class Assistant:
    """The tools of the MCP server."""

    def __init__(self, _: Path) -> None:
        from mcp import Client
        from rightfit.mcp.server import create_server

        self.loop = asyncio.new_event_loop()
        self.client = Client(create_server())
        self.loop.run_until_complete(self.client.__aenter__())

    def __call__(self, chance: random.Random, _: Path) -> str:
        """A call of a tool; those that search are rare, as they take long."""
        from rightfit.workload.options import OPTIONS

        sound: dict[str, dict[str, Any]] = {
            "search_catalog": {"kind": "models", "query": "llama", "limit": 5},
            "understand": {"sentence": chance.choice(SENTENCES)},
            "options": {"query": "data"},
            "details": {"answer": "x", "part": "memory"},
            "predict": {"rows": [ROW]},
        }
        if chance.random() < 0.02:
            sound = {"plan": dict(chance.choice(WISHES))}
        name = chance.choice(list(sound))
        values = odd_mapping(sound[name], chance, tuple(OPTIONS))
        found = self.loop.run_until_complete(self.client.call_tool(name, wire(values)))
        return "refused" if getattr(found, "is_error", False) else "answered"


DOORS: dict[str, Callable[[Path], Callable[[random.Random, Path], str]]] = {
    "wishes": lambda _: wishes,
    "sentences": lambda _: sentences,
    "claims": lambda _: claims,
    "rows": lambda _: rows,
    "files": lambda _: files,
    "tensors": lambda _: tensors,
    "networks": lambda _: networks,
    "rest": Service,
    "mcp": Assistant,
}


# ---- the run


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """No longer than allowed."""

    def late(*_: object) -> None:
        raise HangError

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def tried(door: Callable[[random.Random, Path], str], number: int, name: str, folder: Path) -> tuple[str, str]:
    """How an input ended, and the finding where it is one."""
    chance = random.Random(f"{name} {number}")
    try:
        with limited():
            return door(chance, folder), ""
    except RightfitError:
        return "refused", ""
    except HangError:
        return "finding", f"longer than {LONGEST_S} s"
    except Exception as error:  # what is looked for
        return "finding", f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def main() -> int:
    """Try the inputs, one door after the other in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so long")
    parser.add_argument("--doors", default=",".join(DOORS))
    asked = parser.parse_args()
    logging.disable(logging.CRITICAL)
    names = [name for name in asked.doors.split(",") if name in DOORS]
    if not names:
        parser.error(f"no such doors; allowed: {', '.join(DOORS)}")
    ends: dict[str, collections.Counter[str]] = {name: collections.Counter() for name in names}
    slowest: dict[str, tuple[float, int]] = dict.fromkeys(names, (0.0, 0))
    findings: list[str] = []
    with tempfile.TemporaryDirectory() as where:
        folder = Path(where)
        doors = {name: DOORS[name](folder) for name in names}
        for name in names:  # what is loaded once is not counted as growth
            tried(doors[name], -1, name, folder)
        before, began, number = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic(), asked.start
        while number < asked.start + asked.count and time.monotonic() - began < asked.seconds:
            name = names[number % len(names)]
            start = time.monotonic()
            with reach.closed() if name in ("wishes", "sentences", "claims", "rows") else contextlib.nullcontext():
                end, finding = tried(doors[name], number, name, folder)
            took = time.monotonic() - start
            ends[name][end] += 1
            slowest[name] = max(slowest[name], (took, number))
            if finding:
                findings.append(f"{name} {number}: {finding}")
                print(findings[-1], file=sys.stderr, flush=True)
            number += 1
        seconds = time.monotonic() - began
        logging.disable(logging.NOTSET)
        growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    for name in names:
        told = ", ".join(f"{count:,} {end}" for end, count in sorted(ends[name].items()))
        print(f"{name:10} {sum(ends[name].values()):7,}: {told}; the slowest {slowest[name][0]:.2f} s (number {slowest[name][1]})")
    print(
        f"{number - asked.start:,} inputs (numbers {asked.start} to {number - 1}) in {seconds:.0f} s: {len(findings)} findings; memory grew by {growth / 1e6:.0f} MB"
    )
    return 1 if findings or growth > LARGEST_GROWTH_BYTES else 0


if __name__ == "__main__":
    sys.exit(main())
