"""Every kind of result is detected, read in the definitions of our metrics, and refused where it is
ambiguous or holds nothing."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rightfit.errors import AmbiguousNameError, FileInputError, InputError, RightfitError, UnknownNameError
from rightfit.measure.ingest import ingest, missing_setup, readers
from rightfit.measure.readers.item import Definitions
from rightfit.measure.readers.prometheus import known
from rightfit.measure.record import Run, metrics

VLLM = {
    "date": "20250801-120000",
    "backend": "vllm",
    "model_id": "m/Tiny",
    "num_prompts": 60,
    "request_rate": "inf",
    "max_concurrency": 4,
    "duration": 1.55,
    "completed": 60,
    "failed": 0,
    "total_input_tokens": 3840,
    "total_output_tokens": 1920,
    "request_throughput": 38.7,
    "output_throughput": 1238.0,
    "total_token_throughput": 3715.0,
    "mean_ttft_ms": 15.6,
    "median_ttft_ms": 15.0,
    "std_ttft_ms": 3.0,
    "p99_ttft_ms": 30.0,
    "mean_tpot_ms": 2.7,
    "median_tpot_ms": 2.6,
    "std_tpot_ms": 0.2,
    "mean_itl_ms": 2.7,
    "mean_e2el_ms": 99.0,
}
_STATS = {"mean": 5.4, "median": 5.3, "std_dev": 1.0, "count": 60, "percentiles": {"p50": 5.3, "p95": 7.0, "p99": 8.0}}
GUIDELLM = {
    "metadata": {"version": 2, "guidellm_version": "0.8.1"},
    "benchmarks": [
        {
            "config": {"strategy": {"type_": "concurrent", "streams": 4}, "backend": {"model": "tiny"}},
            "scheduler_metrics": {"requests_made": {"successful": 60, "errored": 2, "incomplete": 0}},
            "metrics": {
                "time_to_first_token_ms": {"successful": {**_STATS, "mean": 40.0}},
                "inter_token_latency_ms": {"successful": _STATS},
                "time_per_output_token_ms": {"successful": {**_STATS, "mean": 6.7}},
                "request_latency": {"successful": {**_STATS, "mean": 0.21}},
                "requests_per_second": {"successful": {**_STATS, "mean": 17.6}},
                "prompt_token_count": {"successful": {**_STATS, "mean": 64.2}},
                "output_token_count": {"successful": {**_STATS, "mean": 32.0}},
            },
        }
    ],
}
AIPERF = {
    "schema_version": "1.4",
    "request_count": {"unit": "requests", "avg": 60},
    "time_to_first_token": {"unit": "ms", "avg": 26.8, "p50": 26.0, "p95": 40.0, "std": 4.0, "count": 60},
    "inter_token_latency": {"unit": "ms", "avg": 6.2, "std": 0.5, "count": 60},
    "request_latency": {"unit": "ms", "avg": 219.0, "count": 60},
    "output_token_throughput": {"unit": "tokens/sec", "avg": 563.0},
    "request_throughput": {"unit": "requests/sec", "avg": 17.6},
    "output_sequence_length": {"unit": "tokens", "avg": 113.0},
    "usage_completion_tokens": {"unit": "tokens", "avg": 32.0},
    "input_config": {"endpoint": {"model_names": ["tiny"]}, "loadgen": {"concurrency": 4}},
}
GENAI = {name: value for name, value in AIPERF.items() if name != "schema_version"} | {
    "time_to_first_token": {"unit": "ns", "avg": 26_800_000.0}
}
TRAINER = {
    "global_step": 40,
    "max_steps": 40,
    "train_batch_size": 8,
    "log_history": [
        {"loss": 7.0, "step": 10},
        {"train_runtime": 20.0, "train_samples_per_second": 16.0, "train_steps_per_second": 2.0, "step": 40},
    ],
}
SMI = """timestamp, index, name, utilization.gpu [%], memory.used [MiB], memory.total [MiB], power.draw [W]
2025/08/01 12:00:00.000, 0, NVIDIA H100 80GB HBM3, 30 %, 20480 MiB, 81559 MiB, 300.00 W
2025/08/01 12:00:01.000, 0, NVIDIA H100 80GB HBM3, 50 %, 40960 MiB, 81559 MiB, [N/A]
2025/08/01 12:00:01.000, 1, NVIDIA H100 80GB HBM3, [Not Supported], 10240 MiB, 81559 MiB, 500.00 W
"""
DMON = """# gpu   pwr  gtemp  sm   mem    fb
# Idx     W      C   %     %    MB
    0   300     50  80    40  2048
    0   310     50  90    40  4096
# gpu   pwr  gtemp  sm   mem    fb
# Idx     W      C   %     %    MB
    0     -     50   -    40     -
"""
SACCT = """JobID|State|Elapsed|NNodes|AllocTRES|ReqMem|MaxRSS|TotalCPU|TRESUsageInMax|TRESUsageInAve
77|COMPLETED|01:00:00|1|cpu=8,gres/gpu=1|64G||04:00:00||
77.batch|COMPLETED|01:00:00|1|cpu=8,gres/gpu=1||20G|04:00:00|gres/gpuutil=90,gres/gpumem=40777023488|gres/gpuutil=70
78|OUT_OF_MEMORY|00:10:00|1|cpu=4|8G|8G|00:05:00||
"""
SEFF = "Job ID: 77\nState: COMPLETED (exit code 0)\nCPU Efficiency: 50.00% of 08:00:00 core-walltime\nJob Wall-clock time: 01:00:00\nMemory Utilized: 20.00 GB\n"
CLOUD = {
    "MetricDataResults": [
        {"Label": "nvidia_smi_utilization_gpu", "Values": [40.0, 60.0]},
        {"Label": "nvidia_smi_memory_used", "Values": [1000.0, 20000.0]},
    ]
}
DCGM = """# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-a",modelName="NVIDIA H100 80GB HBM3"} 90
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-b",modelName="NVIDIA H100 80GB HBM3"} 70
DCGM_FI_DEV_FB_USED{gpu="0",UUID="GPU-a"} 40960
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE_RATIO{gpu="0",UUID="GPU-a"} 0.35
DCGM_FI_PROF_SM_ACTIVE{gpu="0",UUID="GPU-a"} 1.4
DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-a"} 9223372036854775794
"""
SERVER = """# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{model_name="tiny"} 3.0
vllm:kv_cache_usage_perc{model_name="tiny"} 0.91
vllm:gpu_cache_usage_perc{model_name="tiny"} 0.91
vllm:generation_tokens_total{model_name="tiny"} 5000.0
vllm:time_to_first_token_seconds_bucket{le="0.02",model_name="tiny"} 50
vllm:time_to_first_token_seconds_bucket{le="0.04",model_name="tiny"} 96
vllm:time_to_first_token_seconds_bucket{le="+Inf",model_name="tiny"} 100
vllm:time_to_first_token_seconds_sum{model_name="tiny"} 2.0
vllm:time_to_first_token_seconds_count{model_name="tiny"} 100
"""
API = {
    "status": "success",
    "data": {
        "resultType": "matrix",
        "result": [
            {"metric": {"__name__": "vllm:generation_tokens_total", "pod": "a"}, "values": [[1000, "100"], [1060, "700"], [1120, "50"]]}
        ],
    },
}
MEGATRON = "\n".join(
    f" iteration {i}/ 100 | elapsed time per iteration (ms): {9000.0 if i < 3 else 500.0} | global batch size: 64 |" for i in range(40)
)
TITAN = "\n".join(
    f"[titan] - \x1b[31mstep: {i:2}  \x1b[32mloss:  7.0  \x1b[33mmemory: 45.5GiB(57%)  \x1b[34mtps: 6,120  mfu: 40%" for i in range(1, 30)
)
TQDM = "\r".join(f" {i}%|##| {i}/100 [00:10<00:30,  {2.0 if i > 5 else 0.5}it/s]" for i in range(1, 60))
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.65 GiB of which 500.00 MiB is free. "
    "Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory 22.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
)
SNAPSHOT = {
    "segments": [{"total_size": 4 * 2**30, "allocated_size": 2 * 2**30}],
    "device_traces": [
        [{"action": "alloc", "size": 3 * 2**30}, {"action": "free_requested", "size": 2**30}, {"action": "free_completed", "size": 2**30}]
    ],
}


def tensorboard_file(steps: int = 40, interval_s: float = 0.25) -> bytes:
    """Event files as TensorFlow's record writer frames them."""

    def part(number: int, body: bytes) -> bytes:
        return bytes([number << 3 | 2, len(body)]) + body

    events = []
    for step in range(steps):
        value = part(1, b"train/loss") + bytes([2 << 3 | 5]) + struct.pack("<f", 1.0)
        events.append(bytes([1 << 3 | 1]) + struct.pack("<d", 1.7e9 + step * interval_s) + bytes([2 << 3, step]) + part(5, part(1, value)))
    return b"".join(struct.pack("<QI", len(event), 0) + event + b"\0\0\0\0" for event in events)


def wandb_file(steps: int = 40, interval_s: float = 0.25) -> bytes:
    """An offline file: header, then LevelDB records, the long ones over two blocks."""

    def field(number: int, body: bytes) -> bytes:
        key, size = number << 3 | 2, len(body)
        head = bytes([key]) if key < 128 else bytes([key & 0x7F | 0x80, key >> 7])
        return head + (bytes([size]) if size < 128 else bytes([size & 0x7F | 0x80, size >> 7])) + body

    def items(number: int, values: dict[str, Any]) -> bytes:
        return b"".join(field(number, field(1, name.encode()) + field(16, json.dumps(value).encode())) for name, value in values.items())

    records = [field(2, items(1, {"_timestamp": 1.7e9 + step * interval_s, "_step": step, "note": "x" * 900})) for step in range(steps)]
    records += [field(7, items(3, {"gpu.0.gpu": 80.0, "gpu.0.memoryAllocatedBytes": 8.0 * 2**30, "gpu.0.powerWatts": 250.0}))]
    data = bytearray(b":W&B\xe1\xbe\x00")
    for record in records:
        rest, first = record, True
        while rest or first:
            room = 32768 - len(data) % 32768
            if room < 7:
                data += b"\0" * room
                continue
            piece, rest = rest[: room - 7], rest[room - 7 :]
            kind = 1 if first and not rest else 2 if first else 4 if not rest else 3
            data += b"\0\0\0\0" + struct.pack("<HB", len(piece), kind) + piece
            first = False
    return bytes(data)


def mlflow_database(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            "CREATE TABLE experiments (experiment_id INTEGER); CREATE TABLE runs (run_uuid TEXT, lifecycle_stage TEXT, start_time INTEGER);"
            "CREATE TABLE metrics (key TEXT, value REAL, timestamp INTEGER, run_uuid TEXT, step INTEGER, is_nan INTEGER); CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT);"
            "INSERT INTO runs VALUES ('r1', 'active', 1); INSERT INTO params VALUES ('per_device_train_batch_size', '4', 'r1');"
        )
        connection.executemany(
            "INSERT INTO metrics VALUES ('loss', 1.0, ?, 'r1', ?, 0)", [(1_700_000_000_000 + step * 250, step) for step in range(40)]
        )
        connection.execute("INSERT INTO metrics VALUES ('system/gpu_0_memory_usage_megabytes', 8192.0, 1700000000000, 'r1', 0, 0)")
    connection.close()


def mlflow_folder(path: Path) -> None:
    metrics_folder = path / "mlruns" / "0" / "r1" / "metrics"
    metrics_folder.mkdir(parents=True)
    (path / "mlruns" / "0" / "r1" / "meta.yaml").write_text("run_id: r1")
    (metrics_folder / "loss").write_text("\n".join(f"{1_700_000_000_000 + step * 250} 1.0 {step}" for step in range(40)))


def put(name: str, content: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        path = folder / name
        if isinstance(content, bytes):
            path.write_bytes(content)
        elif callable(content):
            path.mkdir() if not name.count(".") else None
            content(path)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        return path

    return write


#: kind, how the file is made, figures that must be read (metric, statistic) -> value.
VLLM_PRINTED = """\
INFO: starting
============ Serving Benchmark Result ============
Successful requests:                     100
Maximum request concurrency:             16
Benchmark duration (s):                  100.0
Total input tokens:                      199761
Total generated tokens:                  198000
Request throughput (req/s):              0.99
Mean TTFT (ms):                          47.23
P99 TPOT (ms):                           9.5
==================================================
"""
LLMPERF = {
    "model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "num_concurrent_requests": 5, "results_ttft_s_mean": 0.25, "results_ttft_s_quantiles_p95": 0.4,
    "results_end_to_end_latency_s_mean": 1.24, "results_number_input_tokens_mean": 259.78, "results_number_output_tokens_mean": 100.0,
    "results_inter_token_latency_s_mean": 0.0124, "results_number_errors": 0, "results_num_completed_requests": 50, "results_num_completed_requests_per_min": 180.0,
}  # fmt: skip
SACCT_PRINTED = """\
JobID           JobName  AllocCPUS      State ExitCode    Elapsed     MaxRSS
------------ ---------- ---------- ---------- -------- ---------- ----------
1838461      deepvaria+          8 OUT_OF_ME+    0:125   00:12:41
1838461.bat+      batch          8 OUT_OF_ME+    0:125   00:12:41        31G
"""

CASES: list[tuple[str, Callable[[Path], Path], dict[tuple[str, str], float]]] = [
    (
        "vllm-bench",
        put("r.json", VLLM),
        {("tpot_ms", "mean"): 2.7, ("ttft_ms", "p99"): 30.0, ("req_per_s", "mean"): 38.7, ("latency_ms", "mean"): 99.0},
    ),
    (
        "guidellm",
        put("g.json", GUIDELLM),
        {("tpot_ms", "mean"): 5.4, ("ttft_ms", "mean"): 40.0, ("latency_ms", "mean"): 210.0, ("error_share", "mean"): 2 / 62},
    ),
    ("aiperf", put("profile_export_aiperf.json", AIPERF), {("tpot_ms", "mean"): 6.2, ("ttft_ms", "p95"): 40.0}),
    ("genai-perf", put("profile_export_genai_perf.json", GENAI), {("tpot_ms", "mean"): 6.2, ("ttft_ms", "mean"): 26.8}),
    ("trainer-state", put("trainer_state.json", TRAINER), {("step_time_s", "mean"): 0.5, ("samples_per_s", "mean"): 16.0}),
    (
        "trainer-log",
        put(
            "trainer_log.jsonl",
            "\n".join(json.dumps({"current_steps": i, "total_steps": 39, "elapsed_time": f"0:00:{i:02}"}) for i in range(40)),
        ),
        {("step_time_s", "mean"): 1.0},
    ),
    ("tensorboard", put("events.out.tfevents.1.host", tensorboard_file()), {("step_time_s", "mean"): 0.25}),
    (
        "wandb",
        put("run-1.wandb", wandb_file()),
        {("step_time_s", "mean"): 0.25, ("peak_mem_gib_per_gpu", "max"): 8.0, ("gpu_busy_share", "mean"): 0.8},
    ),
    ("mlflow", put("mlflow.db", mlflow_database), {("step_time_s", "mean"): 0.25, ("peak_mem_gib_per_gpu", "max"): 8.0}),
    ("mlflow", put("store", mlflow_folder), {("step_time_s", "mean"): 0.25}),
    (
        "nvidia-smi",
        put("gpu.csv", SMI),
        {("gpu_busy_share", "mean"): 0.4, ("peak_mem_gib_per_gpu", "max"): 40.0, ("power_w", "mean"): 400.0},
    ),
    ("nvidia-smi-dmon", put("dmon.txt", DMON), {("gpu_busy_share", "mean"): 0.85, ("peak_mem_gib_per_gpu", "max"): 4.0}),
    (
        "sacct",
        put("jobs.txt", SACCT),
        {("peak_mem_gib_per_gpu", "max"): 40777023488 / 2**30, ("gpu_busy_share", "mean"): 0.9, ("cpu_share", "mean"): 0.5},
    ),
    ("seff", put("seff.txt", SEFF), {("host_memory_peak_bytes", "max"): 20 * 2**30, ("cpu_share", "mean"): 0.5}),
    ("cloud-monitor", put("cw.json", CLOUD), {("gpu_busy_share", "mean"): 0.5, ("peak_mem_gib_per_gpu", "max"): 2e10 / 2**30}),
    (
        "prometheus-text",
        put("dcgm.prom", DCGM),
        {
            ("gpu_busy_share", "mean"): 0.8,
            ("peak_mem_gib_per_gpu", "max"): 40.0,
            ("tensor_active_share", "mean"): 0.35,
            ("sm_active_share", "mean"): 1.0,
        },
    ),
    (
        "prometheus-text",
        put("vllm.prom", SERVER),
        {
            ("queue_len", "mean"): 3.0,
            ("kv_cache_used_share", "max"): 0.91,
            ("ttft_ms", "mean"): 20.0,
            ("ttft_ms", "p95"): 20.0 + 20.0 * 45 / 46,
        },
    ),
    ("prometheus-api", put("range.json", API), {("output_tok_per_s_total", "mean"): 650 / 120}),
    ("log", put("megatron.log", MEGATRON), {("step_time_s", "median"): 0.5}),
    ("log", put("titan.log", TITAN), {("tokens_per_s_per_gpu", "median"): 6120.0, ("peak_mem_gib_per_gpu", "max"): 45.5}),
    ("log", put("train.log", TQDM), {("step_time_s", "median"): 0.5}),
    ("log", put("oom.log", OOM), {("peak_mem_gib_per_gpu", "max"): 24.0}),
    (
        "vllm-bench",
        put("bench.txt", VLLM_PRINTED),
        {("ttft_ms", "mean"): 47.23, ("tpot_ms", "p99"): 9.5, ("req_per_s", "mean"): 0.99, ("output_tok_per_s_total", "mean"): 1980.0},
    ),
    (
        "llmperf",
        put("summary.json", LLMPERF),
        {("ttft_ms", "p95"): 400.0, ("tpot_ms", "mean"): 10.0, ("req_per_s", "mean"): 3.0, ("latency_ms", "mean"): 1240.0},
    ),
    (
        "nvidia-smi-dmon",
        put("pasted.txt", "$ nvidia-smi dmon\n# gpu   pwr    sm\n# Idx     W     %\n    0    70     5\n    0    68    11\n"),
        {("gpu_busy_share", "mean"): 0.08},
    ),
    ("sacct", put("sacct.txt", SACCT_PRINTED), {("duration_s", "total"): 761.0, ("host_memory_peak_bytes", "max"): 31.0 * 2**30}),
    ("torch-memory", put("snapshot.pickle", pickle.dumps(SNAPSHOT)), {("peak_mem_gib_per_gpu", "max"): 3.0}),
    ("own-table", put("own.csv", "model,gpu,step_time_s\n7B,A100-SXM-80GB,0.5\n"), {("step_time_s", "mean"): 0.5}),
]


@pytest.mark.parametrize(("kind", "make", "wanted"), CASES, ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)])
def test_each_kind_is_detected_and_read_in_our_definitions(
    tmp_path: Path, kind: str, make: Any, wanted: dict[tuple[str, str], float]
) -> None:
    run = ingest(make(tmp_path))[0]
    assert run.source.kind == kind
    found: dict[tuple[str, str], float] = {}
    for item in run.measured:
        found.setdefault((item.metric, item.statistic), item.value)
    assert {key: found.get(key) for key in wanted} == {key: pytest.approx(value, rel=1e-6) for key, value in wanted.items()}
    assert all(item.unit == metrics()[item.metric].unit and item.definition for item in run.measured)


def test_every_reader_has_a_case() -> None:
    assert {reader.kind for reader in readers()} == {case[0] for case in CASES} | {"run-record"}


@pytest.mark.parametrize(
    "junk",
    [
        b"",
        b"\x00\xff" * 50,
        b"{",
        b"[]",
        b"{}",
        b"a,b\n1,2\n",
        b"null",
        "你好\n".encode(),
        b"[1, 2]",
        b'{"benchmarks": [{"metrics": 3}]}',
        b"\x1f\x8b\x08bad",
    ],
)
def test_what_is_no_result_is_refused_in_one_line(tmp_path: Path, junk: bytes) -> None:
    path = tmp_path / "junk"
    path.write_bytes(junk)
    with pytest.raises(RightfitError) as error:
        ingest(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(("kind", "make"), [case[:2] for case in CASES], ids=[f"{at}-{case[0]}" for at, case in enumerate(CASES)])
def test_a_file_cut_anywhere_is_read_or_refused_but_never_a_crash(tmp_path: Path, kind: str, make: Any) -> None:
    path = make(tmp_path)
    if path.is_dir():
        return
    content = path.read_bytes()
    for share in (0.02, 0.3, 0.6, 0.97):
        path.write_bytes(content[: int(len(content) * share)])
        with contextlib.suppress(RightfitError):
            ingest(path, kind)


def test_success_with_every_request_failed_is_no_measurement(tmp_path: Path) -> None:
    failed = [
        {**VLLM, "completed": 0, "failed": 60},
        {
            **GUIDELLM,
            "benchmarks": [{**GUIDELLM["benchmarks"][0], "scheduler_metrics": {"requests_made": {"successful": 0, "errored": 60}}}],
        },  # type: ignore[dict-item]
        {**AIPERF, "request_count": {"avg": 0}, "error_summary": [{"count": 60}]},
    ]
    for at, content in enumerate(failed):
        path = tmp_path / f"{at}.json"
        path.write_text(json.dumps(content))
        with pytest.raises(FileInputError, match="no request succeeded"):
            ingest(path)


def test_tokens_that_the_client_counted_otherwise_than_the_server_are_told(tmp_path: Path) -> None:
    assert "--use-server-token-count" in ingest(put("a.json", AIPERF)(tmp_path))[0].warnings[0]


def test_a_time_per_token_of_an_own_table_is_refused_until_its_definition_is_said(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("model,device,tpot_ms,ttft_ms,output_tokens\nm,H100,10,40,32\n")
    with pytest.raises(InputError, match="--first-token out"):
        ingest(path)
    assert ingest(path, definitions=Definitions(counts_first_token=False))[0].value("tpot_ms") == 10.0
    assert ingest(path, definitions=Definitions(counts_first_token=True))[0].value("tpot_ms") == pytest.approx((320 - 40) / 31)
    path.write_text("model,tpot_ms\nm,10\n")
    with pytest.raises(InputError, match="needs ttft_ms"):
        ingest(path, definitions=Definitions(counts_first_token=True))


def test_memory_of_an_own_table_has_its_counter(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("model,peak_mem_gib_per_gpu\n7B,20\n")
    assert ingest(path)[0].measured[0].counter == "nvidia-smi"
    assert ingest(path, definitions=Definitions(counter="reserved"))[0].measured[0].counter == "reserved"


def test_a_snapshot_that_would_run_code_is_not_read(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "ran",))

    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "x": Evil()}))
    with pytest.raises(FileInputError):
        ingest(path)
    assert not (tmp_path / "ran").exists()


def test_old_and_new_names_of_one_figure_are_not_added(tmp_path: Path) -> None:
    run = ingest(put("vllm.prom", SERVER)(tmp_path))[0]
    assert [item.value for item in run.measured if item.metric == "kv_cache_used_share"] == [0.91]
    assert {row["how"] for row in known().values()} <= {"gauge", "peak", "counter", "histogram"}
    assert {row["metric"] for row in known().values()} <= set(metrics())


def test_unsupported_counters_and_shares_over_one_are_told(tmp_path: Path) -> None:
    run = ingest(put("dcgm.prom", DCGM)(tmp_path))[0]
    assert "dram_active_share" not in {item.metric for item in run.measured}
    assert "MIG" in run.warnings[0]
    assert run.setup == {"gpu": "H100-SXM-80GB", "n_gpus": "2"}


def test_out_of_memory_is_a_lower_bound(tmp_path: Path) -> None:
    run = ingest(put("oom.log", OOM)(tmp_path))[0]
    assert run.oom
    assert run.measured[0].bound == ">="
    job = {found.source.path_or_url[-2:]: found for found in ingest(put("jobs.txt", SACCT)(tmp_path))}["78"]
    assert job.oom
    assert not job.complete


def test_totals_without_a_time_are_not_made_rates(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="give two scrapes"):
        ingest(put("c.prom", "# TYPE x counter\nvllm:generation_tokens_total 5000\n")(tmp_path))


def test_a_folder_is_read_file_by_file_and_what_the_user_says_goes_first(tmp_path: Path) -> None:
    put("a.json", VLLM)(tmp_path)
    put("gpu.csv", SMI)(tmp_path)
    (tmp_path / "README.md").write_text("hello")
    runs: list[Run] = ingest(tmp_path, definitions=Definitions(setup={"model": "mine"}))
    assert {run.source.kind for run in runs} == {"vllm-bench", "nvidia-smi"}
    assert all(run.setup["model"] == "mine" for run in runs)
    assert missing_setup(runs[0]) == ["device", "engine"]


def test_unknown_kinds_name_the_known_ones(tmp_path: Path) -> None:
    path = put("a.json", VLLM)(tmp_path)
    with pytest.raises(UnknownNameError, match="did you mean vllm-bench"):
        ingest(path, "vllm")
    with pytest.raises(FileInputError, match="no such file or folder"):
        ingest(tmp_path / "nowhere")


def test_two_readers_with_equal_claims_are_a_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = {**VLLM, **AIPERF}
    with pytest.raises(AmbiguousNameError, match="--as vllm-bench"):
        ingest(put("both.json", both)(tmp_path))


# ---- what was read wrong without a word


@pytest.mark.parametrize("kept_s", [0, 30])
def test_an_evaluation_is_no_step(tmp_path: Path, kept_s: int) -> None:
    """LLaMA-Factory writes a line of its own for each evaluation, at the step that it
    stands behind."""
    lines, clock = [], 0
    for step in range(10, 210, 10):
        clock += 20
        lines.append({"current_steps": step, "total_steps": 200, "loss": 1.0, "elapsed_time": f"0:{clock // 60:02}:{clock % 60:02}"})
        if kept_s and step % 50 == 0:
            clock += kept_s
            lines.append(
                {"current_steps": step, "total_steps": 200, "eval_loss": 1.0, "elapsed_time": f"0:{clock // 60:02}:{clock % 60:02}"}
            )
    path = tmp_path / "trainer_log.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    (run,) = ingest(path)
    assert {item.statistic: item.value for item in run.measured} == {"mean": pytest.approx(2.0), "median": pytest.approx(2.0)}


@pytest.mark.parametrize(
    ("told", "wanted"),
    [
        ({}, {"micro_batch": "8", "global_batch": "64"}),
        ({"n_gpus": "1"}, {"micro_batch": "8", "global_batch": "64", "grad_accum": "8"}),
        ({"n_gpus": "4"}, {"micro_batch": "8", "global_batch": "64", "grad_accum": "2"}),
        ({"n_gpus": "8"}, {"micro_batch": "8", "global_batch": "64"}),
        ({"n_gpus": "3"}, {"micro_batch": "8", "global_batch": "64"}),
    ],
)
def test_a_trainer_state_tells_its_batch(tmp_path: Path, told: dict[str, str], wanted: dict[str, str]) -> None:
    last = {"train_runtime": 20.0, "train_samples_per_second": 128.3, "train_steps_per_second": 2.005, "step": 40}
    (tmp_path / "trainer_state.json").write_text(json.dumps({**TRAINER, "log_history": [last]}))
    (run,) = ingest(tmp_path / "trainer_state.json", definitions=Definitions(setup=told))
    assert run.setup == {**wanted, **told}


def _histogram(counts: dict[str, int]) -> str:
    lines = [f'vllm:time_to_first_token_seconds_bucket{{le="{edge}"}} {count}' for edge, count in counts.items()]
    return "\n".join([*lines, f"vllm:time_to_first_token_seconds_count {counts['+Inf']}", "vllm:time_to_first_token_seconds_sum 50"]) + "\n"


@pytest.mark.parametrize(
    ("counts", "p50", "p95"),
    [
        ({"0.5": 0, "1.0": 95, "+Inf": 100}, 500.0 + 500.0 * 50 / 95, 1000.0),
        ({"0.5": 0, "1.0": 100, "+Inf": 100}, 750.0, 975.0),
        ({"1.0": 100, "+Inf": 100}, 500.0, 950.0),
        ({"0.1": 50, "0.2": 50, "1.0": 100, "+Inf": 100}, 100.0, 920.0),
    ],
)
def test_percentiles_lie_within_their_bucket(tmp_path: Path, counts: dict[str, int], p50: float, p95: float) -> None:
    """As Prometheus itself takes them (histogram_quantile)."""
    path = tmp_path / "x.prom"
    path.write_text("# TYPE vllm:time_to_first_token_seconds histogram\n" + _histogram(counts))
    found = {item.statistic: item.value for item in ingest(path)[0].measured if item.metric == "ttft_ms"}
    assert (found["p50"], found["p95"]) == (pytest.approx(p50), pytest.approx(p95))


def test_zero_is_a_value(tmp_path: Path) -> None:
    idle = SACCT.replace("gpuutil=90", "gpuutil=0").replace("gpuutil=70", "gpuutil=0").replace("04:00:00", "00:00:00")
    (tmp_path / "jobs.txt").write_text(idle)
    run = ingest(tmp_path / "jobs.txt")[0]
    assert (run.value("gpu_busy_share"), run.value("cpu_share")) == (0.0, 0.0)
    (tmp_path / "own.csv").write_text("model,gpu,error_share,data_wait_share\n7B,H100,0,0.0\n")
    assert {item.metric: item.value for item in ingest(tmp_path / "own.csv")[0].measured} == {"error_share": 0.0, "data_wait_share": 0.0}
    (tmp_path / "none.csv").write_text("model,gpu,step_time_s\n7B,H100,0\n")
    with pytest.raises(FileInputError, match="step_time_s"):
        ingest(tmp_path / "none.csv")
    (tmp_path / "run.wandb").write_bytes(wandb_file().replace(b'"_timestamp": 1700000000.0', b'"_timestamp": 0.0000000000'))
    assert ingest(tmp_path / "run.wandb")[0].value("step_time_s") == pytest.approx(0.25)


def test_two_runs_of_one_folder_are_two_records(tmp_path: Path) -> None:
    import os

    for at, (name, interval_s) in enumerate(
        (("a/events.out.tfevents.1.h", 0.25), ("b/events.out.tfevents.2.h", 0.5), ("b/events.out.tfevents.3.h", 0.75))
    ):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(tensorboard_file(interval_s=interval_s))
        os.utime(path, (1e9 + at, 1e9 + at))
    assert [run.value("step_time_s") for run in ingest(tmp_path)] == [pytest.approx(value) for value in (0.25, 0.5, 0.75)]


def test_the_card_of_an_own_table_has_the_column_of_its_kind(tmp_path: Path) -> None:
    rows = {"step_time_s": ("gpu", "device"), "req_per_s": ("device", "gpu")}
    for figure, (column, other) in rows.items():
        (table := tmp_path / "own.csv").write_text(f"{figure},model\n2,7B\n", encoding="utf-8")
        for name in (column, other):
            [run] = ingest(table, definitions=Definitions(setup={name: "L20"}))
            assert run.setup[column] == "L20"
            assert other not in run.setup


def test_an_own_table_without_a_figure_names_the_columns(tmp_path: Path) -> None:
    (table := tmp_path / "own.csv").write_text("step,dur\n1,2\n", encoding="utf-8")
    with pytest.raises(FileInputError, match=r"accepted: .*step_time_s"):
        ingest(table, kind="own-table")
