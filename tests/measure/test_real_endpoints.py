"""rightfit probe --url against real servers: transformers serve and vLLM on a CPU with a tiny
random model made here, and guidellm's mock server.

Each needs its program beside this Python (group `endpoints` of scripts/test has transformers serve
and guidellm), or where RIGHTFIT_TRANSFORMERS, RIGHTFIT_VLLM or RIGHTFIT_GUIDELLM say. Nothing is
read from a network.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit.cli import main
from rightfit.measure.record import Run, read_runs

INPUT, OUTPUT = 200, 16
START_S, TRIES = 180.0, 3
#: Makes a random model with a tokenizer of bytes and a few words, so that many a token of its
#: answers is a part of a character, without text.
MODEL = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
words = Tokenizer(models.BPE())
words.pre_tokenizer, words.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
alphabet = pre_tokenizers.ByteLevel.alphabet()
words.train_from_iterator(["one two three four five"] * 9, trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, special_tokens=["<s>", "</s>"]))
template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, bos_token="<s>", eos_token="</s>", pad_token="</s>", chat_template=template)
tokenizer.save_pretrained(sys.argv[1])
torch.manual_seed(0)
shape = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 4}
config = LlamaConfig(vocab_size=len(tokenizer), max_position_embeddings=1024, bos_token_id=0, eos_token_id=1, pad_token_id=1, **shape)
LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(sys.argv[1])
"""


def program(name: str) -> Path:
    """The program, of the variable RIGHTFIT_NAME or beside this Python; skips the test where
    it is not installed."""
    beside = Path(sys.executable).with_name(name)
    found = Path(os.environ.get(f"RIGHTFIT_{name.upper()}") or beside)
    if not found.exists():
        pytest.skip(f"{name} is not installed here")
    return found


def model_of(path: Path, near: Path) -> Path:
    """A tiny random model in `path`, made by the Python beside the program; skips where
    that lacks PyTorch."""
    done = subprocess.run(["nice", "-n", "15", near.with_name("python"), "-c", MODEL, path], capture_output=True, text=True)
    if "No module named" in done.stderr:
        pytest.skip(f"{near.name}: {done.stderr.splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    return path


@contextlib.contextmanager
def running(words: list[str | Path], port: int, folder: Path, **variables: str) -> Iterator[str]:
    """The address of a server that this command starts, once it listens; its children end with it.
    A process group, no session: where the kernel groups processes by session, niceness counts
    inside one only."""
    cache = folder / "cache"
    cache.mkdir()
    offline = {"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": str(cache), "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    # One thread and less of a right to the processor than the client, which else measures itself on
    # a machine of two cores.
    offline["OMP_NUM_THREADS"] = "1"
    log = folder / "server.log"
    with log.open("w") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, env={**os.environ, **offline, **variables}, cwd=folder, process_group=0)
    try:
        until = time.monotonic() + START_S
        while not listens(port):
            if process.poll() is not None and "serving" in log.read_text() and "issing" in log.read_text():
                pytest.skip("transformers serve lacks its packages: install transformers[serving]")
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < until, log.read_text()[-3000:]
            time.sleep(0.5)
        yield f"http://127.0.0.1:{port}"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def listens(port: int) -> bool:
    """Whether something at the port speaks HTTP; the address is asked for no page that
    a server may lack."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status < 500
    except OSError:
        return False
    finally:
        connection.close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def probed(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> Run:
    """The record of a short load test by the command, kept as well."""
    asked = ("--input-tokens", str(INPUT), "--output-tokens", str(OUTPUT), "--level-time", "2s", "--requests", "40", "--time", "100s")
    out = folder / "run.json"
    for _ in range(TRIES):
        code = main(("probe", *more, *asked, "--out", str(out), "--keep", "--format", "json"))
        shown = capsys.readouterr()
        if "the client was the bottleneck" not in shown.err:
            break  # a machine with other work is refused, as it must be
    assert code == 0, shown.err
    (run,) = read_runs(str(out))
    return run


def is_sound(run: Run) -> dict[tuple[str, str], float]:
    """What is true of every load test: tokens by the server's count, times positive and in order, a
    capacity. Its figures by name and statistic."""
    assert abs(int(run.setup["input_tokens"]) - INPUT) <= 0.05 * INPUT
    assert int(run.setup["output_tokens"]) == OUTPUT
    figures: dict[tuple[str, str], float] = {(item.metric, item.statistic): item.value for item in run.measured}
    for name in ("ttft_ms", "tpot_ms", "latency_ms"):
        shares = [figures[name, share] for share in ("p50", "p90", "p95") if (name, share) in figures]
        if name == "tpot_ms" and any("came in one piece" in text for text in run.warnings):
            continue  # text of random bytes is held back to the end at times: then nothing is told, and never a zero
        assert figures[name, "mean"] > 0
        assert all(share > 0 for share in shares)
        assert shares == sorted(shares)  # a percentile whose bounds the sample leaves open is not told
    assert 0 < figures["ttft_ms", "mean"] <= figures["latency_ms", "mean"]
    if not any("came in one piece" in text for text in run.warnings):
        whole = figures["ttft_ms", "mean"] + (OUTPUT - 1) * figures["tpot_ms", "mean"]
        assert figures["latency_ms", "mean"] == pytest.approx(whole, rel=0.1)
    assert figures["req_per_s", "mean"] > 0
    assert figures["output_tok_per_s_total", "mean"] > 0
    assert figures["error_share", "mean"] <= 0.01
    assert "there is no capacity" not in " ".join(run.warnings), run.warnings
    assert not [text for text in run.warnings if "others use it as well" in text]
    return figures


def is_of_use(run: Run, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    """What reads records reads this one."""
    assert main(("runs", "list")) == 0
    assert run.id[:8] in capsys.readouterr().out
    assert main(("runs", "show", run.id)) == 0
    assert "time to first token" in capsys.readouterr().out
    assert main(("resize", str(folder / "run.json"), "--format", "json")) == 0
    assert json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def own_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("RIGHTFIT_RUNS", str(tmp_path / "runs.sqlite"))


def test_transformers_serve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    serve = program("transformers")
    model, port = model_of(tmp_path / "model", serve), free_port()
    cache = [
        "--cb-block-size",
        "32",
        "--cb-num-blocks",
        "256",
        "--cb-max-batch-tokens",
        "512",
    ]  # else it takes most of the memory of the machine
    with running([serve, "serve", "--continuous-batching", *cache, "--port", str(port), model], port, tmp_path) as url:
        run = probed(capsys, tmp_path, "--url", url, "--model", str(model))
    is_sound(run)
    assert any("ignore_eos" in text for text in run.warnings)  # it refuses what it does not know
    assert any("its list of models lacks" in text for text in run.warnings)  # it lists its cache, and loads what it is asked for
    is_of_use(run, capsys, tmp_path)


def test_vllm_on_a_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vllm = program("vllm")
    model, port = model_of(tmp_path / "model", vllm), free_port()
    options = ["--dtype", "bfloat16", "--max-model-len", "512", "--max-num-seqs", "8", "--enforce-eager", "--port", str(port)]
    with running([vllm, "serve", model, *options], port, tmp_path, VLLM_CPU_KVCACHE_SPACE="1") as url:
        run = probed(capsys, tmp_path, "--url", url)
    figures = is_sound(run)
    assert run.setup["engine"] == "vllm"
    # Its page of metrics: eight at a time at the most, a share of the cache, tokens as many as the
    # answers (is_sound), first tokens sooner than their text.
    assert 0 < figures["running", "mean"] <= 8
    assert 0 <= figures["kv_cache_used_share", "max"] < 1
    assert figures["preemptions_per_s", "mean"] == 0
    is_of_use(run, capsys, tmp_path)


def test_guidellm_mock_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    guidellm, port = program("guidellm"), free_port()
    law = ["--ttft-ms", "40", "--itl-ms", "5"]
    with running([guidellm, "mock-server", "--port", str(port), "--model", "tiny", *law], port, tmp_path) as url:
        run = probed(capsys, tmp_path, "--url", url)
    figures = is_sound(run)
    assert run.setup["model"] == "tiny"
    assert figures["ttft_ms", "mean"] >= 40
    assert figures["tpot_ms", "mean"] >= 5 * 0.95
    is_of_use(run, capsys, tmp_path)
