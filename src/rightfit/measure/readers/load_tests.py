"""Results of load tests: vLLM bench (SGLang's prints the same), guidellm, llmperf, aiperf and
genai-perf.

Time per token is (end to end - first token) / (tokens - 1), without the first token. vLLM bench
calls that tpot; guidellm calls it inter_token_latency_ms, and its time_per_output_token_ms is end
to end / tokens, which is another figure and is not taken, as is llmperf's inter_token_latency.
Every one of these programs exits with 0 when all requests failed, so failures are read from the
file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rightfit.errors import FileInputError
from rightfit.measure.readers.item import Definitions, Item, Reader, figure, number, words
from rightfit.measure.record import Measured, Run
from rightfit.messages import Message

_PERCENTILES = {"50": "p50", "90": "p90", "95": "p95", "99": "p99"}


def _without_answers(item: Item, completed: float | None, failed: float) -> None:
    if not completed:
        raise FileInputError(Message("measure.no_request_succeeded", file=item.shown, failed=failed))


def _failures(completed: float | None, failed: float) -> list[Measured]:
    asked = (completed or 0) + failed
    return figure("error_share", failed / asked, n=int(asked)) if asked else []


# ---- vLLM bench ----------------------------------------------------------------------------------


_PRINTED = "Serving Benchmark Result"
#: Lines of what is printed -> names of the file.
_LINES = {
    "backend": "backend",
    "successful requests": "completed",
    "failed requests": "failed",
    "maximum request concurrency": "max_concurrency",
    "max request concurrency": "max_concurrency",
    "request rate configured (rps)": "request_rate",
    "traffic request rate": "request_rate",
    "benchmark duration (s)": "duration",
    "total input tokens": "total_input_tokens",
    "total generated tokens": "total_output_tokens",
    "request throughput (req/s)": "request_throughput",
    "output token throughput (tok/s)": "output_throughput",
    "total token throughput (tok/s)": "total_token_throughput",
}
_LATENCY_LINE = re.compile(r"(mean|median|std|p\d+) (ttft|tpot|itl|e2el|e2e latency) \(ms\)")


def _is_vllm(item: Item) -> bool:
    if isinstance(item.json, Mapping):
        return {"completed", "request_throughput", "output_throughput"} <= item.json.keys()
    return _PRINTED in item.head


def _printed(text: str) -> dict[str, Any]:
    """What was printed, under the names of the file."""
    found: dict[str, Any] = {}
    for line in text.splitlines():
        said, _, value = (part.strip() for part in line.partition(":"))
        if name := _LINES.get(said.lower()):
            found[name] = value
        elif match := _LATENCY_LINE.fullmatch(said.lower()):
            found[f"{match[1]}_{match[2].replace('e2e latency', 'e2el')}_ms"] = value
    duration = number(found.get("duration"))
    for name, total in (("request_throughput", "completed"), ("output_throughput", "total_output_tokens")):
        if name not in found and duration and (count := number(found.get(total))) is not None:
            found[name] = count / duration
    return found


def _vllm(item: Item, _definitions: Definitions) -> list[Run]:
    found = item.json if isinstance(item.json, Mapping) else _printed(item.text[item.text.find(_PRINTED) :])
    completed, failed = number(found.get("completed")), number(found.get("failed")) or 0.0
    _without_answers(item, completed, failed)
    count = int(completed or 0)
    figures = figure("req_per_s", found.get("request_throughput"), n=count) + figure(
        "output_tok_per_s_total", found.get("output_throughput"), n=count
    )
    figures += figure("total_tok_per_s", found.get("total_token_throughput"), n=count)
    for name, metric in (("ttft", "ttft_ms"), ("tpot", "tpot_ms"), ("itl", "itl_ms"), ("e2el", "latency_ms")):
        figures += _vllm_metric(found, name, metric, count)
    return [
        item.run(
            "vllm-bench",
            figures + _failures(completed, failed),
            tool=str(found.get("backend") or found.get("endpoint_type") or "vllm"),
            setup=words(
                model=found.get("model_id"),
                batch_or_concurrency=found.get("max_concurrency"),
                request_rate=_rate(found.get("request_rate")),
                num_requests=found.get("num_prompts") or count,
                input_tokens=_each(found.get("total_input_tokens"), count),
                output_tokens=_each(found.get("total_output_tokens"), count),
            ),
            duration_s=number(found.get("duration")),
            started=_vllm_date(found.get("date")),
        )
    ]


def _vllm_metric(found: Mapping[str, Any], name: str, metric: str, count: int) -> list[Measured]:
    deviation = number(found.get(f"std_{name}_ms"))
    spread = deviation / count**0.5 if deviation is not None and count else None
    figures = figure(metric, found.get(f"mean_{name}_ms"), n=count, spread=spread) + figure(
        metric, found.get(f"median_{name}_ms"), statistic="median", n=count
    )
    for level, statistic in _PERCENTILES.items():
        figures += figure(metric, found.get(f"p{level}_{name}_ms"), statistic=statistic, n=count)
    return figures


def _rate(value: Any) -> str:
    found = number(value)
    return "" if value is None else "inf" if found is None else f"{found:g}"


def _each(total: Any, count: int) -> float | None:
    found = number(total)
    return round(found / count) if found is not None and count else None


def _vllm_date(text: Any) -> str:
    text = str(text or "")
    return f"{text[:4]}-{text[4:6]}-{text[6:8]}T{text[9:11]}:{text[11:13]}:{text[13:15]}Z" if len(text) == len("20250101-120000") else ""


# ---- guidellm ------------------------------------------------------------------------------------

_GUIDELLM = {
    "time_to_first_token_ms": ("ttft_ms", 1.0),
    "inter_token_latency_ms": ("tpot_ms", 1.0),
    "request_latency": ("latency_ms", 1000.0),
    "requests_per_second": ("req_per_s", 1.0),
    "output_tokens_per_second": ("output_tok_per_s_total", 1.0),
    "tokens_per_second": ("total_tok_per_s", 1.0),
}


def _is_guidellm(item: Item) -> bool:
    found = item.json
    first = found.get("benchmarks") if isinstance(found, Mapping) else None
    return isinstance(first, list) and bool(first) and isinstance(first[0], Mapping) and "metrics" in first[0]


def _guidellm(item: Item, _definitions: Definitions) -> list[Run]:
    found = item.json
    version = str((found.get("metadata") or {}).get("guidellm_version") or (found.get("metadata") or {}).get("version") or "")
    runs, failed_all = [], 0.0
    for benchmark in found["benchmarks"]:
        made = _guidellm_requests(benchmark)
        if not made["successful"]:
            failed_all += made["errored"]
            continue
        runs.append(_guidellm_run(item, benchmark, made, version))
    if not runs:
        _without_answers(item, 0.0, failed_all)
    return runs


def _guidellm_requests(benchmark: Mapping[str, Any]) -> dict[str, float]:
    made = (benchmark.get("scheduler_metrics") or {}).get("requests_made") or (benchmark.get("run_stats") or {}).get("requests_made") or {}
    return {name: number(made.get(name)) or 0.0 for name in ("successful", "errored", "incomplete")}


def _guidellm_run(item: Item, benchmark: Mapping[str, Any], made: Mapping[str, float], version: str) -> Run:
    metrics, count = benchmark["metrics"], int(made["successful"])
    figures: list[Measured] = []
    for name, (metric, scale) in _GUIDELLM.items():
        figures += _guidellm_metric((metrics.get(name) or {}).get("successful") or {}, metric, scale)
    strategy = (benchmark.get("config") or {}).get("strategy") or (benchmark.get("args") or {}).get("strategy") or {}
    mean = {
        name: number(((metrics.get(name) or {}).get("successful") or {}).get("mean"))
        for name in ("prompt_token_count", "output_token_count", "request_concurrency")
    }
    is_open = strategy.get("rate") is not None
    setup = words(
        model=_guidellm_model(benchmark),
        batch_or_concurrency="" if is_open else strategy.get("streams") or mean["request_concurrency"],
        request_rate=strategy.get("rate"),
        input_tokens=_round(mean["prompt_token_count"]),
        output_tokens=_round(mean["output_token_count"]),
        num_requests=count,
    )
    return item.run("guidellm", figures + _failures(made["successful"], made["errored"]), version=version, setup=setup)


def _guidellm_model(benchmark: Mapping[str, Any]) -> str:
    config = benchmark.get("config") or {}
    backend = config.get("backend") or benchmark.get("worker") or {}
    return str(backend.get("model") or backend.get("backend_model") or "") if isinstance(backend, Mapping) else ""


def _round(value: float | None) -> float | None:
    return None if value is None else float(round(value))


def _guidellm_metric(found: Mapping[str, Any], metric: str, scale: float) -> list[Measured]:
    count = int(number(found.get("count")) or 0)
    deviation = number(found.get("std_dev"))
    spread = deviation * scale / count**0.5 if deviation is not None and count else None
    figures = figure(metric, found.get("mean"), scale=scale, n=count, spread=spread)
    if metric in ("ttft_ms", "tpot_ms", "latency_ms"):
        figures += figure(metric, found.get("median"), scale=scale, statistic="median", n=count)
        for level, statistic in _PERCENTILES.items():
            figures += figure(metric, (found.get("percentiles") or {}).get(f"p{level}"), scale=scale, statistic=statistic, n=count)
    return figures


# ---- llmperf -------------------------------------------------------------------------------------


def _is_llmperf(item: Item) -> bool:
    return isinstance(item.json, Mapping) and {"results_ttft_s_mean", "results_end_to_end_latency_s_mean"} <= item.json.keys()


def _llmperf(item: Item, _definitions: Definitions) -> list[Run]:
    def told(name: str) -> float | None:
        return number(item.json.get(name))

    completed, failed = told("results_num_completed_requests"), told("results_number_errors") or 0.0
    _without_answers(item, completed, failed)
    count, minute = int(completed or 0), told("results_num_completed_requests_per_min")
    figures = figure("output_tok_per_s_total", told("results_mean_output_throughput_token_per_s"), n=count)
    figures += figure("req_per_s", None if minute is None else minute / 60.0, n=count)
    for name, metric in (("ttft", "ttft_ms"), ("end_to_end_latency", "latency_ms")):
        figures += figure(metric, told(f"results_{name}_s_mean"), scale=1e3, n=count)
        figures += figure(metric, told(f"results_{name}_s_quantiles_p50"), scale=1e3, statistic="median", n=count)
        for level, statistic in _PERCENTILES.items():
            figures += figure(metric, told(f"results_{name}_s_quantiles_p{level}"), scale=1e3, statistic=statistic, n=count)
    first, whole, answer = (told(f"results_{name}_mean") for name in ("ttft_s", "end_to_end_latency_s", "number_output_tokens"))
    if first is not None and whole is not None and answer and answer > 1:
        figures += figure("tpot_ms", (whole - first) / (answer - 1.0), scale=1e3, n=count)
    setup = words(
        model=item.json.get("model"),
        batch_or_concurrency=told("num_concurrent_requests"),
        num_requests=count,
        input_tokens=_round(told("results_number_input_tokens_mean")),
        output_tokens=_round(answer),
    )
    return [item.run("llmperf", figures + _failures(completed, failed), setup=setup)]


# ---- aiperf and genai-perf -----------------------------------------------------------------------

_PERF = {
    "time_to_first_token": "ttft_ms",
    "inter_token_latency": "tpot_ms",
    "request_latency": "latency_ms",
    "output_token_throughput": "output_tok_per_s_total",
    "request_throughput": "req_per_s",
}
_TO_UNIT = {("ms", "ms"): 1.0, ("us", "ms"): 1e-3, ("ns", "ms"): 1e-6, ("s", "ms"): 1e3}


def _is_perf(item: Item) -> bool:
    found = item.json
    latency = found.get("request_latency") if isinstance(found, Mapping) else None
    return isinstance(latency, Mapping) and "avg" in latency and "unit" in latency


def _is_aiperf(item: Item) -> bool:
    return _is_perf(item) and ("schema_version" in item.json or "aiperf_version" in item.json)


def _is_genai(item: Item) -> bool:
    return _is_perf(item) and not _is_aiperf(item)


def _perf(kind: str) -> Any:
    def read(item: Item, _definitions: Definitions) -> list[Run]:
        found = item.json
        count = number((found.get("request_count") or {}).get("avg"))
        count = number((found.get("request_latency") or {}).get("count")) if count is None else count
        failed = number((found.get("error_request_count") or {}).get("avg")) or float(
            sum(number(error.get("count")) or 0 for error in _errors(found))
        )
        figures: list[Measured] = []
        for name, metric in _PERF.items():
            figures += _perf_metric(found.get(name) or {}, metric)
        _without_answers(item, count if count is not None else float(bool(figures)), failed)
        load = (
            (found.get("input_config") or {}).get("loadgen")
            or (found.get("input_config") or {}).get("perf_analyzer", {}).get("stimulus")
            or {}
        )
        endpoint = (found.get("input_config") or {}).get("endpoint") or {}
        names = endpoint.get("model_names") or (found.get("input_config") or {}).get("model_names") or [""]
        setup = words(
            model=names[0] if isinstance(names, list) else names,
            batch_or_concurrency=load.get("concurrency"),
            request_rate=load.get("request_rate"),
            input_tokens=_round(number((found.get("input_sequence_length") or {}).get("avg"))),
            output_tokens=_round(number((found.get("output_sequence_length") or {}).get("avg"))),
            num_requests=count,
        )
        warnings = _token_warnings(found)
        version = str(found.get("aiperf_version") or found.get("schema_version") or "")
        return [item.run(kind, figures + _failures(count, failed), version=version, setup=setup, warnings=warnings)]

    return read


def _errors(found: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [error for error in found.get("error_summary") or [] if isinstance(error, Mapping)]


def _token_warnings(found: Mapping[str, Any]) -> list[str]:
    """Tokens counted by a tokenizer of the client's own differ from the server's: then the time per
    token is off by that ratio."""
    counted = number((found.get("output_sequence_length") or {}).get("avg"))
    billed = number((found.get("usage_completion_tokens") or {}).get("avg"))
    if counted and billed and abs(counted / billed - 1.0) > 0.05:
        return [f"the client counted {counted:g} output tokens and the server {billed:g}: use --use-server-token-count"]
    return []


def _perf_metric(found: Mapping[str, Any], metric: str) -> list[Measured]:
    scale = _TO_UNIT.get((str(found.get("unit")), "ms"), 1.0) if metric.endswith("_ms") else 1.0
    count = int(number(found.get("count")) or 0) or None
    deviation = number(found.get("std"))
    spread = deviation * scale / count**0.5 if deviation is not None and count else None
    figures = figure(metric, found.get("avg"), scale=scale, n=count, spread=spread)
    if metric.endswith("_ms"):
        for level, statistic in _PERCENTILES.items():
            figures += figure(metric, found.get(f"p{level}"), scale=scale, statistic=statistic, n=count)
    return figures


READERS = (
    Reader("vllm-bench", _is_vllm, _vllm),
    Reader("guidellm", _is_guidellm, _guidellm),
    Reader("llmperf", _is_llmperf, _llmperf),
    Reader("aiperf", _is_aiperf, _perf("aiperf")),
    Reader("genai-perf", _is_genai, _perf("genai-perf")),
)
