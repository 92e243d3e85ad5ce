"""rightfit probe around real programs: PyTorch loops, torchrun, the Trainer of transformers,
XGBoost, scikit-learn. Each needs its library (group `measured` of scripts/test)."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rightfit.measure.probing.wrapped import probe
from rightfit.measure.record import Run

LOOP = """
import os, time, torch
from torch.utils.data import DataLoader, TensorDataset
if "RANK" in os.environ:
    torch.distributed.init_process_group("gloo")
torch.set_num_threads(1)
model = torch.nn.Linear(64, 64)
model = torch.nn.parallel.DistributedDataParallel(model) if "RANK" in os.environ else model
optimizer = torch.optim.AdamW(model.parameters())
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 400
    def __getitem__(self, i):
        time.sleep(0.0005)
        return torch.randn(64)
for at, batch in enumerate(DataLoader(Slow(), batch_size=4, num_workers=int(os.environ.get("WORKERS", "0"))), start=1):
    model(batch).sum().backward()
    if at % 2 == 0:
        optimizer.step(); optimizer.zero_grad()
"""
TRAINER = """
import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments
model = LlamaForCausalLM(LlamaConfig(vocab_size=100, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2, num_key_value_heads=2))
rows = [{"input_ids": torch.randint(0, 100, (16,)), "labels": torch.randint(0, 100, (16,))} for _ in range(400)]
arguments = TrainingArguments(output_dir="out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=60, report_to=[], use_cpu=True, save_strategy="no")
Trainer(model=model, args=arguments, train_dataset=rows).train()
"""
BOOSTED = """
import numpy, xgboost
x = numpy.random.rand(2000, 20)
xgboost.train({"max_depth": 4, "nthread": 1}, xgboost.DMatrix(x, label=x[:, 0]), num_boost_round=60)
"""
FOREST = """
import numpy
from sklearn.ensemble import RandomForestRegressor
x = numpy.random.rand(2000, 20)
RandomForestRegressor(n_estimators=30).fit(x, x[:, 0])
"""


def needs(*names: str) -> None:
    """Skip where a library is not installed; it is not imported here, since the
    command imports it."""
    for name in names:
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"needs {name}")


def run(tmp_path: Path, code: str, *launcher: str) -> Run:
    (tmp_path / "program.py").write_text(code)
    found = probe([sys.executable, *launcher, str(tmp_path / "program.py")])
    assert found.exit_code == 0
    return found


def test_a_plain_loop(tmp_path: Path) -> None:
    needs("torch")
    found = run(tmp_path, LOOP)
    step = next(item for item in found.measured if item.metric == "step_time_s")
    assert step.n == 44  # 50 optimizer steps of 100 batches: 49 intervals, the first 5 are warm-up
    assert found.setup == {"micro_batch": "4", "grad_accum": "2"}
    assert (found.value("data_wait_share") or 0) > 0.5
    assert found.host["versions"]["torch"]


def test_loader_workers_do_not_count_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("torch")
    monkeypatch.setenv("WORKERS", "2")
    assert next(item.n for item in run(tmp_path, LOOP).measured if item.metric == "step_time_s") == 44


def test_torchrun_with_two_ranks(tmp_path: Path) -> None:
    needs("torch")
    found = run(tmp_path, LOOP, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", "29719")
    step = found.value("step_time_s")
    assert step is not None
    assert found.value("samples_per_s") == pytest.approx(2 * 2 * 4 / step, rel=0.02)


def test_the_trainer_of_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs("torch", "transformers", "accelerate")
    monkeypatch.chdir(tmp_path)
    found = run(tmp_path, TRAINER)
    assert {name: found.setup[name] for name in ("micro_batch", "seq_len", "grad_accum")} == {
        "micro_batch": "2",
        "seq_len": "16",
        "grad_accum": "2",
    }
    assert next(item.n for item in found.measured if item.metric == "step_time_s") == 53


def test_boosting_rounds(tmp_path: Path) -> None:
    needs("xgboost")
    found = run(tmp_path, BOOSTED)
    assert next(item.n for item in found.measured if item.metric == "step_time_s") == 53
    assert found.setup["library"] == "xgboost"
    assert found.setup["model"] == "xgboost"


def test_a_fit_of_scikit_learn(tmp_path: Path) -> None:
    needs("sklearn")
    found = run(tmp_path, FOREST)
    fit, whole = found.value("train_time_s"), found.value("duration_s")
    assert fit is not None
    assert whole is not None
    assert 0 < fit < whole


def test_the_agent_costs_less_than_one_per_cent_of_a_step(tmp_path: Path) -> None:
    """Of a step of a millisecond: what the hooks of one step and one batch take,
    measured in the process."""
    needs("torch")
    code = """
import sys, time
sys.path.insert(0, {folder!r})
import sitecustomize as agent
tally = agent.TALLY
begun = time.perf_counter()
for _ in range(100_000):
    tally.batches += 1
    tally.step(1)
print((time.perf_counter() - begun) / 100_000)
"""
    from rightfit.measure.probing.wrapped import AGENT

    command = [sys.executable, "-S", "-c", code.format(folder=str(AGENT))]
    environment = {**os.environ, "RIGHTFIT_PROBE_DIR": str(tmp_path)}
    taken = float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert list(tmp_path.glob("*.json"))  # the count was written while it was measured
    assert taken < 1e-5


STUB = """
#include <string.h>
typedef struct { unsigned int gpu, memory; } rates;
typedef struct { unsigned long long total, free, used; } memory;
static int asked = 0;
int nvmlInitWithFlags(unsigned int f) { return 0; }
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int *n) { *n = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int i, void **d) { *d = (void *)1; return 0; }
int nvmlDeviceGetName(void *d, char *s, unsigned int n) { strncpy(s, "NVIDIA A100-SXM4-80GB", n); return 0; }
int nvmlDeviceGetUtilizationRates(void *d, rates *r) { r->gpu = 80; r->memory = 10; return 0; }
int nvmlDeviceGetPowerUsage(void *d, unsigned int *w) { *w = 250000; return 0; }
int nvmlDeviceGetMemoryInfo(void *d, memory *m) { m->total = 80ULL << 30; m->used = (asked++ ? 15ULL : 10ULL) << 30; m->free = m->total - m->used; return 0; }
"""


def test_the_real_binding_of_nvml_over_a_driver_that_lacks_functions(tmp_path: Path) -> None:
    """A library of the driver with one card and few functions; what it lacks is unknown
    and nothing breaks."""
    needs("pynvml")
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "stub.c").write_text(STUB)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(tmp_path / "libnvidia-ml.so.1"), str(tmp_path / "stub.c")], check=True)
    code = (
        "import os\nfrom rightfit.measure.probing.counters import Machine\nmachine = Machine(os.getpid())\nmachine.sample()\n"
        "print({name: mean.value for name, mean in machine.means.best().items() if name != 'power_w'}, machine.means.best()['power_w'].value, machine.memory, machine.names)"
    )
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    found = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    assert found.strip() == f"{{'gpu_busy_share': 0.8}} 250.0 {{'0': {5 * 2.0**30}}} {{'0': 'NVIDIA A100-SXM4-80GB'}}"
