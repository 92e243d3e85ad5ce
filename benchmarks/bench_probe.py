"""What `rightfit probe` costs the run that it measures: `python benchmarks/bench_probe.py`. Goal:
under 1 % of steps of 10 ms, and under 1 % of a core beside it.

Processor time, so that a busy machine does not count: of a loop of empty steps with the agent
inside less without (the median of pairs), and of the sampler once a second. The loop calls
PyTorch's two hooked places in a stand-in library, so that nothing but the agent differs.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rightfit.measure.probing.counters import Machine
from rightfit.measure.probing.wrapped import AGENT

STEPS, STEP_S, PAIRS, GOAL = 200_000, 0.010, 5, 0.01
LIBRARY = {
    "torch/__init__.py": "",
    "torch/optim/__init__.py": "",
    "torch/optim/optimizer.py": (
        "_hooks = []\n"
        "def register_optimizer_step_post_hook(hook): _hooks.append(hook)\n"
        "class Optimizer:\n"
        "    def step(self):\n"
        "        for hook in _hooks: hook(self, (), {})\n"
    ),
    "torch/utils/__init__.py": "",
    "torch/utils/data/__init__.py": "",
    "torch/utils/data/dataloader.py": (
        "class _BaseDataLoaderIter:\n    def __next__(self): return ()\n    def __iter__(self): return self\n"
    ),
    "loop.py": (
        "import sys, time\n"
        "from torch.optim.optimizer import Optimizer\n"
        "from torch.utils.data.dataloader import _BaseDataLoaderIter\n"
        "steps = int(sys.argv[1])\n"
        "one, batches = Optimizer(), _BaseDataLoaderIter()\n"
        "begun = time.process_time()\n"
        "for _ in range(steps):\n"
        "    next(batches)\n"
        "    one.step()\n"
        "print(time.process_time() - begun)\n"
    ),
}


def processor_s(folder: Path, *, probed: bool) -> float:
    """Processor time of the loop's steps."""
    paths = [str(AGENT)] * probed + [str(folder)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)} | ({"RIGHTFIT_PROBE_DIR": str(folder)} if probed else {})
    command = [sys.executable, str(folder / "loop.py"), str(STEPS)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def sampler_share(seconds: int = 5) -> float:
    """Processor time of the sampler, once a second, as a share of one core."""
    machine = Machine(os.getpid())
    begun = time.process_time()
    for _ in range(seconds):
        machine.sample()
    return (time.process_time() - begun) / seconds


def main() -> None:
    """Prints one JSON line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for path, text in LIBRARY.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        pairs = [[processor_s(folder, probed=probed) for probed in (True, False)] for _ in range(PAIRS)]
        step_s = statistics.median(inside - without for inside, without in pairs) / STEPS
        found = {
            "hooks_us_per_step": round(1e6 * step_s, 2),
            "share_of_10ms_steps": round(step_s / STEP_S, 6),
            "sampler_share_of_a_core": round(sampler_share(), 4),
            "goal": GOAL,
        }
        print(json.dumps(found))


if __name__ == "__main__":
    main()
