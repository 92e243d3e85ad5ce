"""Which client of a load test is honest: `python benchmarks/bench_clients.py --tokenizer DIR
[--guidellm BIN] [--aiperf BIN] [--vllm BIN]`.

Each client asks the same server, which obeys a known law (40 ms to the first token, 5 ms a token,
more slots than streams), so that every figure has a truth: first token 40 ms, time per token 5 ms,
streams / 0.195 s requests a second. What a client shows beyond that is its own time. Processor time
is that of the client's whole process tree. Rounds of all clients are interleaved, and the median
round counts. BIN are the programs in environments of their own; DIR a local tokenizer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rightfit.measure.load_test.http import Client, Question, place_of
from rightfit.measure.load_test.level import closed

SERVER = Path(__file__).parents[1] / "tests" / "measure" / "endpoint.py"
FIRST_S, TOKEN_S, INPUT, OUTPUT = 0.040, 0.005, 64, 32
LATENCY_S = FIRST_S + (OUTPUT - 1) * TOKEN_S
SECONDS = 8.0


def ours(url: str, streams: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """rightfit's own client, in a process of its own."""
    script = [sys.executable, __file__, "--own", url, "--streams", str(streams)]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def own_level(url: str, streams: int) -> None:
    """Prints what our client measures, as one JSON line."""

    async def measure() -> Any:
        client = Client(place_of(url))
        try:
            return await closed(client, Question("tiny", INPUT // 2, OUTPUT), streams=streams, seconds=SECONDS)
        finally:
            await client.close()

    level = asyncio.run(measure())
    good = level.good
    print(
        json.dumps(
            {
                "ttft_ms": 1e3 * statistics.fmean(one.ttft for one in good),
                "tpot_ms": 1e3 * statistics.fmean(one.tpot for one in good),
                "requests_per_s": level.requests_per_s,
                "requests": len(level.answers),
            }
        )
    )


def guidellm(url: str, streams: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """guidellm run."""
    result = folder / "guidellm.json"
    words = ["--backend", f"kind=openai_http,target={url},model=tiny", "--profile", f"kind=concurrent,streams={streams}"]
    words += [
        "--constraint",
        f"kind=max_duration,seconds={SECONDS:g}",
        "--tokenizer",
        f"kind=huggingface_auto,model={options.tokenizer}",
    ]
    words += ["--data", f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}", "--output", f"kind=json,path={result}"]
    run([options.guidellm, "run", *words, "--disable-console"])
    found = json.loads(result.read_text())["benchmarks"][0]
    metrics = found["metrics"]
    return {
        "ttft_ms": metrics["time_to_first_token_ms"]["successful"]["mean"],
        "tpot_ms": metrics["inter_token_latency_ms"]["successful"]["mean"],
        "requests_per_s": metrics["requests_per_second"]["successful"]["mean"],
        "requests": found["scheduler_metrics"]["requests_made"]["successful"],
    }


def aiperf(url: str, streams: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """aiperf profile."""
    words = ["-m", "tiny", "--url", url, "--endpoint-type", "chat", "--streaming", "--concurrency", str(streams)]
    words += ["--benchmark-duration", f"{SECONDS:g}", "--synthetic-input-tokens-mean", str(INPUT), "--output-tokens-mean", str(OUTPUT)]
    words += ["--tokenizer", options.tokenizer, "--use-server-token-count", "--ui", "none", "--output-artifact-dir", str(folder / "aiperf")]
    run([options.aiperf, "profile", *words, "--extra-inputs", "ignore_eos:true"])
    found = json.loads(next((folder / "aiperf").rglob("profile_export_aiperf.json")).read_text())
    return {
        "ttft_ms": found["time_to_first_token"]["avg"],
        "tpot_ms": found["inter_token_latency"]["avg"],
        "requests_per_s": found["request_throughput"]["avg"],
        "requests": found["request_count"]["avg"],
    }


def vllm(url: str, streams: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """vllm bench serve."""
    words = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", url, "--model", "tiny"]
    words += [
        "--tokenizer",
        options.tokenizer,
        "--dataset-name",
        "random",
        "--random-input-len",
        str(INPUT),
        "--random-output-len",
        str(OUTPUT),
    ]
    words += [
        "--num-prompts",
        str(round(streams * SECONDS / LATENCY_S)),
        "--max-concurrency",
        str(streams),
        "--ignore-eos",
        "--save-result",
    ]
    run([options.vllm, "bench", "serve", *words, "--result-dir", str(folder), "--result-filename", "vllm.json", "--disable-tqdm"])
    found = json.loads((folder / "vllm.json").read_text())
    return {
        "ttft_ms": found["mean_ttft_ms"],
        "tpot_ms": found["mean_tpot_ms"],
        "requests_per_s": found["request_throughput"],
        "requests": found["completed"],
    }


def run(command: list[str]) -> None:
    """Run a client offline."""
    environment = {**os.environ, "VLLM_NO_USAGE_STATS": "1", "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{command[0]}: {(done.stdout + done.stderr)[-2000:]}")


CLIENTS: dict[str, Callable[[str, int, Path, argparse.Namespace], dict[str, float]]] = {
    "rightfit": ours,
    "vllm bench": vllm,
    "guidellm": guidellm,
    "aiperf": aiperf,
}


def main() -> None:
    """Prints one JSON line for each client and number of streams."""
    reader = argparse.ArgumentParser()
    for name in ("tokenizer", "guidellm", "aiperf", "vllm", "own"):
        reader.add_argument(f"--{name}", default="")
    reader.add_argument("--streams", type=int, nargs="+", default=[4, 32])
    reader.add_argument("--rounds", type=int, default=3)
    reader.add_argument("--role-at-once", action="store_true", help="an empty chunk comes at once, before the first token")
    options = reader.parse_args()
    if options.own:
        own_level(options.own, options.streams[0])
        return
    taken = [name for name in CLIENTS if name == "rightfit" or getattr(options, name.split()[0])]
    law = {"slots": 512, "first_s": FIRST_S, "token_s": TOKEN_S, "role_at_once": options.role_at_once}
    server = subprocess.Popen([sys.executable, str(SERVER), json.dumps(law)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        url = f"http://127.0.0.1:{int(server.stdout.readline())}"
        for streams in options.streams:
            rounds: dict[str, list[dict[str, float]]] = {name: [] for name in taken}
            for _ in range(options.rounds):
                for name in taken:
                    with tempfile.TemporaryDirectory() as folder:
                        rounds[name].append(one_round(name, url, streams, Path(folder), options))
            for name, found in rounds.items():
                middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
                shown = {key: float(f"{value:.4g}") for key, value in middle.items()}
                print(
                    json.dumps({"client": name, "streams": streams, **shown, "true_requests_per_s": round(streams / LATENCY_S, 1)}),
                    flush=True,
                )
    finally:
        server.terminate()
        server.wait(10)


def one_round(name: str, url: str, streams: int, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """What a client says, and the processor time of its process tree."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found = CLIENTS[name](url, streams, folder, options)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {**found, "cpu_ms_per_request": 1e3 * used / max(found["requests"], 1), "wall_s": time.perf_counter() - began}


if __name__ == "__main__":
    main()
