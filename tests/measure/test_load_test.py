"""rightfit probe --url: what is measured of a server with a known law, over real HTTP,
and what is refused."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import heapq
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli import main
from rightfit.errors import InputError, UnavailableError
from rightfit.measure.load_test import result
from rightfit.measure.load_test.http import Answer, Place, Question, place_of
from rightfit.measure.load_test.level import Endpoint, Level, arrivals
from rightfit.measure.load_test.result import Capacity, Trial, measure, quantile
from rightfit.measure.record import Run, read_runs

SERVER = Path(__file__).parent / "endpoint.py"
SLOTS, FIRST_S, TOKEN_S, TOKENS = 4, 0.04, 0.005, 7
SERVICE_S = FIRST_S + (TOKENS - 1) * TOKEN_S
TARGET_S = 0.1
#: A short test: levels of a second, a quarter of the requests that a p95 deserves.
SHORT = ("--input-tokens", "51", "--output-tokens", "5", "--level-time", "1s", "--requests", "25", "--time", "12s")
Start = Callable[..., str]
Call = Callable[..., tuple[int, str, str]]


@contextlib.contextmanager
def serving(**law: Any) -> Iterator[str]:
    """The address of a server of that law."""
    process = subprocess.Popen([sys.executable, str(SERVER), json.dumps(law)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.fixture
def start() -> Iterator[Start]:
    with contextlib.ExitStack() as stack:
        yield lambda **law: stack.enter_context(serving(**law))


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.setenv("RIGHTFIT_RUNS", str(tmp_path / "runs.sqlite"))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return run


# ---- against the law -----------------------------------------------------------------------------


def waiting(rate: float, share: float) -> float:
    """That quantile of the wait [s] of Poisson arrivals at `rate` for the slots, first come first
    served, each for SERVICE_S."""
    dice = random.Random(1)
    free, now, waits = [0.0] * SLOTS, 0.0, []
    for _ in range(40_000):
        now += dice.expovariate(rate)
        begin = max(now, heapq.heappop(free))
        heapq.heappush(free, begin + SERVICE_S)
        waits.append(begin - now)
    return sorted(waits)[int(share * len(waits))]


def true_capacity() -> float:
    """The largest rate at which p95 of the first token is within TARGET_S, by the law."""
    low, high = 0.0, SLOTS / SERVICE_S
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if waiting(middle, 0.95) + FIRST_S <= TARGET_S else (low, middle)
    return low


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[Place, Trial, Capacity]]:
    random.seed(7)  # the same arrivals every time; how often the interval holds is counted below, without a server
    with serving(slots=SLOTS, first_s=FIRST_S, token_s=TOKEN_S) as url:
        test = Trial(input_tokens=101, output_tokens=TOKENS, ttft_s=TARGET_S, tpot_s=0.02, level_s=2.0, least_requests=100)
        yield place_of(url), test, measure(place_of(url), test)


@pytest.mark.deep
def test_times_and_tokens_are_those_of_the_law(measured: tuple[Place, Trial, Capacity]) -> None:
    found = measured[2]
    alone = next(level for level in found.levels if level.streams == 1)
    assert 1e3 * quantile([one.ttft for one in alone.good], 0.5)[0] == pytest.approx(1e3 * FIRST_S, abs=15)
    assert {(one.tokens_in, one.tokens_out) for level in found.levels for one in level.good} == {(101, TOKENS)}
    for level in found.levels:
        assert 1e3 * quantile([one.tpot for one in level.good], 0.5)[0] == pytest.approx(1e3 * TOKEN_S, abs=1)


def test_throughput_grows_with_the_streams_up_to_the_slots(measured: tuple[Place, Trial, Capacity]) -> None:
    for level in measured[2].levels:
        if level.streams:
            assert level.requests_per_s == pytest.approx(min(level.streams, SLOTS) / SERVICE_S, rel=0.12)
            assert level.tokens_per_s == pytest.approx(TOKENS * level.requests_per_s)


def test_the_capacity_is_that_of_the_law(measured: tuple[Place, Trial, Capacity]) -> None:
    found, true = measured[2], true_capacity()
    assert found.best is not None
    assert not found.is_bound
    assert found.low80 <= true * 1.3
    assert found.high80 >= true * 0.7
    assert 0.5 * true <= found.best.rate <= 1.5 * true  # one draw of two seconds a step
    assert found.low80 <= found.best.rate <= found.high80


def queue(moments: list[float], seconds: float, **more: Any) -> Level:
    """What the law makes of these arrivals, at once."""
    free, answers = [0.0] * SLOTS, []
    for at in moments:
        begin = max(at, heapq.heappop(free))
        heapq.heappush(free, begin + SERVICE_S)
        answers.append(Answer(at, at, begin + FIRST_S, begin + SERVICE_S, 101, TOKENS))
    return Level(
        **{"streams": 0, "rate": 0.0, "window": (0.1 * seconds, seconds), "answers": tuple(answers), "cpu_share": 0.1, "lag_s": 0.0, **more}
    )


@pytest.mark.deep
def test_the_interval_of_the_capacity_holds_as_often_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found_at(*_: Any, **__: Any) -> Endpoint:
        alone = Answer(0.0, 0.0, FIRST_S, SERVICE_S, 101, TOKENS)
        return Endpoint(Question("tiny", 10, TOKENS), "", (alone,), ())

    async def closed(*_: Any, streams: int, seconds: float) -> Level:
        rate = min(streams, SLOTS) / SERVICE_S
        return queue([at / rate for at in range(int(rate * seconds))], seconds, streams=streams)

    async def opened(*_: Any, rate: float, seconds: float, most: int) -> Level:
        return queue(arrivals(rate, seconds), seconds, rate=rate)

    for name, stand_in in (("found_at", found_at), ("closed", closed), ("opened", opened)):
        monkeypatch.setattr(result, name, stand_in)
    random.seed(7)
    true, place = true_capacity(), place_of("http://127.0.0.1:9")
    for level_s in (3.0, 30.0):
        found = [measure(place, Trial(101, TOKENS, ttft_s=TARGET_S, level_s=level_s)) for _ in range(40)]
        covered = sum(one.low80 <= true <= one.high80 for one in found) / len(found)
        middle = sorted(one.best.rate if one.best else 0.0 for one in found)[20]
        assert covered >= 0.75
        assert middle == pytest.approx(true, rel=0.15)


def test_the_record_is_one_that_every_consumer_reads(measured: tuple[Place, Trial, Capacity], tmp_path: Path, call: Call) -> None:
    place, test, found = measured
    run = result.run_of(found, test, place, usd_per_h=3.6)
    assert found.best is not None
    assert run.setup["engine"] == "vllm"
    assert (run.setup["input_tokens"], run.setup["output_tokens"]) == ("101", str(TOKENS))
    assert run.value("req_per_s") == pytest.approx(found.best.rate)
    assert run.value("usd_per_million_tokens") == pytest.approx(1000.0 / found.best.tokens_per_s)
    assert run.value("queue_len") is not None
    assert not [text for text in run.warnings if "counted" in text]
    from rightfit.measure.record import written

    Path("run.json").write_text(written([run]))
    assert [one.id for one in read_runs("run.json")] == [run.id]
    assert call("resize", "run.json")[0] == 0
    assert "requests/s" in call("runs", "show", "run.json")[1]


# ---- what can be wrong ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("law", "more", "code", "words"),
    [
        ({"api": "html"}, (), 2, "is not an OpenAI API"),
        ({"models": ["a", "b"]}, (), 2, "serves 2 models: name one with --model"),
        ({"models": ["llama", "qwen"]}, ("--model", "lama"), 2, "did you mean llama? (HTTP 404"),
        ({"usage": False}, (), 2, "reports no usage on a stream"),
        ({"fails_after": 0}, (), 3, "HTTP 503: out of memory"),
        ({"fails_after": 0, "status": 404}, (), 2, "HTTP 404: out of memory"),
        ({"fails_after": 13}, (), 3, "requests failed at 1 streams, so nothing was measured: HTTP 503"),
        ({"key": "secret"}, (), 2, "name the environment variable with --key-env"),
        ({"drop": True}, (), 3, "did not return a chat completion"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else None,
)
def test_an_endpoint_that_cannot_be_measured_is_told_in_one_line(
    start: Start, call: Call, law: dict[str, Any], more: tuple[str, ...], code: int, words: str
) -> None:
    got, out, err = call("probe", "--url", start(**law), *SHORT, *more, "--out", "run.json")
    assert (got, out, len(err.splitlines())) == (code, "", 1), err
    assert words in err
    assert not Path("run.json").exists()


@pytest.mark.deep
def test_a_named_model_that_is_on_no_list_is_tried(start: Start, call: Call) -> None:
    code, out, err = call("probe", "--url", start(takes_any_model=True), *SHORT, "--model", "/models/own", "--format", "json")
    assert code == 0, err
    run = json.loads(out)
    assert run["setup"]["model"] == "/models/own"
    assert any("which its list of models lacks" in text for text in run["warnings"])


def test_tokens_without_text_are_tokens(start: Start) -> None:
    test = Trial(input_tokens=51, output_tokens=3, level_s=0.5, least_requests=10, limit_s=10)
    found = measure(place := place_of(start(silent=True)), test)
    assert {(one.tokens_in, one.tokens_out, one.error) for level in found.levels for one in level.answers} == {(51, 3, "")}
    assert 1e3 * quantile([one.ttft for one in found.levels[0].good], 0.5)[0] == pytest.approx(1e3 * FIRST_S, abs=15)
    run = result.run_of(found, dataclasses.replace(test, input_tokens=102), place)
    assert any("prompts had 51 tokens by the server's count, not the 102" in text for text in run.warnings)


def test_an_address_where_nothing_listens(call: Call) -> None:
    code, out, err = call("probe", "--url", "http://127.0.0.1:9", *SHORT)
    assert (code, out) == (3, "")
    assert "cannot reach http://127.0.0.1:9/v1" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--ttft", "1s", "--", "true"), "--ttft belongs to a load test"),
        (("--url", "http://127.0.0.1:9", *SHORT, "--", "true"), "leave the command"),
        (("--url", "127.0.0.1:9", *SHORT), "is not a server URL"),
        (("--url", "http://me:pw@127.0.0.1:9", *SHORT), "must not contain a user, password or query"),
        (("--url", "http://127.0.0.1:9"), "--url needs --input-tokens"),
        (("--url", "http://127.0.0.1:9", *SHORT, "--ttft", "300"), "--ttft: '300' has no unit"),
        (("--url", "http://127.0.0.1:9", *SHORT, "--percentile", "80"), "allowed: 50, 90, 95, 99"),
        (("--url", "http://127.0.0.1:9", *SHORT, "--key-env", "NO_SUCH_KEY"), "no variable NO_SUCH_KEY"),
        ((), "probe needs a command"),
    ],
)
def test_wishes_that_make_no_sense(call: Call, arguments: tuple[str, ...], words: str) -> None:
    code, out, err = call("probe", *arguments)
    assert (code, out) == (2, "")
    assert words in err


@pytest.mark.deep
def test_a_key_is_sent_and_never_kept(start: Start, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "s3cret")
    url = start(key="s3cret", takes_ignore_eos=False, slots=2)
    code, out, err = call("probe", "--url", f"{url}/v1/chat/completions", *SHORT, "--key-env", "MY_KEY", "--format", "json", "--keep")
    assert code == 0, err
    assert "s3cret" not in out + err
    assert any("ignore_eos" in text for text in json.loads(out)["warnings"])
    assert "load-test" in call("runs", "list")[1]


@pytest.mark.deep
def test_a_target_that_nothing_keeps_is_said_and_the_record_has_no_capacity(start: Start, call: Call) -> None:
    code, out, err = call("probe", "--url", start(), *SHORT, "--ttft", "5ms", "--lang", "zh", "--usd-per-hour", "2", "--format", "json")
    assert code == 0, err
    assert "达不到目标" in err
    run = json.loads(out)
    assert "usd_per_million_tokens" not in {item["metric"] for item in run["measured"]}
    assert any("there is no capacity" in text for text in run["warnings"])


@pytest.mark.deep
def test_a_plan_gives_lengths_targets_server_and_price(start: Start, call: Call) -> None:
    wish = ("7B", "--task", "serve", "--rate", "1/s", "--input-tokens", "51", "--output-tokens", "5", "--ttft", "2s", "--top", "1")
    code, plan, err = call("plan", *wish, "--format", "json")
    assert code == 0, err
    Path("plan.json").write_text(plan)
    option = json.loads(plan)["options"][0]
    code, out, err = call("probe", "--url", start(), *SHORT[4:], "--time", "6s", "--plan", "plan.json", "--format", "json")
    assert code == 0, err
    run = json.loads(out)
    assert run["server"]["instance_type"] == option["instance_type"]
    assert (run["workload"]["input_tokens"], run["workload"]["ttft_s"]) == (51, 2.0)
    figures = {item["metric"]: item["value"] for item in run["measured"] if item["statistic"] == "mean"}
    tokens = figures["output_tok_per_s_total"]
    assert figures["usd_per_million_tokens"] == pytest.approx(option["cost"]["hourly_usd"] / (tokens * 3600) * 1e6)
    Path("other.json").write_text(plan.replace('"task": "serve"', '"task": "train"'))
    assert call("probe", "--url", "http://127.0.0.1:9", *SHORT, "--plan", "other.json")[0] == 2


@pytest.mark.deep
def test_a_server_that_counts_otherwise_is_noticed(start: Start) -> None:
    place = place_of(start(factor=2.0))
    test = Trial(input_tokens=51, output_tokens=5, level_s=0.5, least_requests=10, limit_s=20)
    run: Run = result.run_of(measure(place, test), test, place)
    assert any("others use it as well" in text for text in run.warnings)
    assert any("first token" in text and "by the server" in text for text in run.warnings)


def test_the_whole_test_ends_in_time(start: Start) -> None:
    began = time.perf_counter()
    place = place_of(start())
    found = measure(place, Trial(input_tokens=51, output_tokens=5, level_s=0.6, least_requests=10, limit_s=3.0))
    assert time.perf_counter() - began < 3.0 + 2.0
    assert found.is_bound
    assert any("more is given with --time" in text for text in found.notes)
    with pytest.raises(UnavailableError, match="no load level finished within 1 s"):
        measure(place, Trial(input_tokens=51, output_tokens=5, level_s=10.0, limit_s=1.0))


def test_a_client_that_is_the_limit_measures_nothing(start: Start) -> None:
    async def busy() -> None:
        while True:
            time.sleep(0.03)
            await asyncio.sleep(0)

    async def both() -> Capacity:
        task = asyncio.create_task(busy())
        try:
            return await result._measured(place_of(start()), Trial(input_tokens=51, output_tokens=5, level_s=1.0))
        finally:
            task.cancel()

    with pytest.raises(UnavailableError, match="the client was the bottleneck at 1 streams"):
        asyncio.run(both())


# ---- parts ---------------------------------------------------------------------------------------


def level_of(ttft: list[float], **more: Any) -> Level:
    answers = tuple(Answer(float(at), float(at), at + first, at + first + 1.0, 10, 11) for at, first in enumerate(ttft))
    return Level(
        **{"streams": 1, "rate": 0.0, "window": (0.0, float(len(ttft))), "answers": answers, "cpu_share": 0.1, "lag_s": 0.0, **more}
    )


def test_a_level_counts_a_failed_request_and_a_queue_that_grows() -> None:
    test = Trial(10, 11, ttft_s=0.5, tpot_s=0.2)
    assert result.holds(level_of([0.1] * 200), test) == (True, True, False)
    assert result.holds(level_of(([0.1] * 9 + [0.9]) * 20), test) == (False, False, True)
    assert result.holds(level_of([0.1] * 180 + [0.9] * 20), test) == (False, False, False)  # one bad while of ten says less
    assert result.holds(level_of(([0.1] * 24 + [0.9]) * 8), test)[:2] == (True, False)
    assert result.holds(level_of([float(at) for at in range(200)], rate=1.0), Trial(10, 11)) == (False, False, True)
    failed = level_of([0.1] * 200)
    broken = dataclasses.replace(failed, answers=(*failed.answers[:-5], *[Answer(1.0, 1.0, error="no")] * 5))
    assert result.holds(broken, test) == (False, False, True)
    assert level_of([0.1] * 9, cpu_share=0.6).is_client_bound
    assert not level_of([0.1] * 9, lag_s=0.005).is_client_bound


def test_an_answer_in_one_piece_tells_no_time_per_token() -> None:
    answers = tuple(Answer(float(at), float(at), at + 0.5, at + 0.5, 10, 11) for at in range(20))
    level = dataclasses.replace(level_of([0.1] * 20), answers=answers)
    assert all(math.isnan(one.tpot) for one in level.good)
    found = Capacity(Endpoint(Question("tiny", 10, 11), "", answers[:1], ()), (level,), None, 0.0, 0.0, False, 1.0, ())
    run = result.run_of(found, Trial(10, 11), place_of("http://127.0.0.1:9"))
    assert "tpot_ms" not in {item.metric for item in run.measured}
    assert any("20 of 20 answers came in one piece" in text for text in run.warnings)


def test_quantiles_have_the_bounds_of_their_sample() -> None:
    values = [float(37 * at % 100 + 1) for at in range(100)]
    assert quantile(sorted(values), 0.95)[2] == math.inf  # all the slow ones in one while: as if far fewer had been seen
    assert quantile(values, 0.95) == (95.0, 92.0, 98.0)
    assert quantile(values[:10], 0.95)[2] == math.inf
    dice = random.Random(3)
    inside = [low <= 0.9 <= high for _ in range(500) for _, low, high in [quantile([dice.random() for _ in range(100)], 0.9)]]
    assert 0.75 <= sum(inside) / len(inside) <= 0.97


@pytest.mark.parametrize("text", ["http://127.0.0.1:8000", "http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000/v1/chat/completions"])
def test_every_address_of_an_api_is_the_same_place(text: str) -> None:
    assert place_of(text) == Place("http", "127.0.0.1", 8000, "/v1")
    assert str(place_of("https://[::1]/openai/v1")) == "https://[::1]:443/openai/v1"
    with pytest.raises(InputError):
        place_of("http://x:port")
