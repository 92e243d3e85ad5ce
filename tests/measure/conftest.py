"""What the tests of measuring share: a training loop over a library that has the places of PyTorch
which the agent hooks."""

from __future__ import annotations

from pathlib import Path

import pytest

#: A library with the two places of PyTorch that the agent hooks, so that the core
#: tests need no PyTorch.
TORCH = {
    "torch/__init__.py": "__version__ = '0.0'\n",
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
        "import time\n"
        "class Tensor:\n"
        "    def __init__(self, *shape): self.shape = shape\n"
        "class _BaseDataLoaderIter:\n"
        "    def __init__(self, count, wait_s): self.left, self.wait_s = count, wait_s\n"
        "    def __iter__(self): return self\n"
        "    def __next__(self):\n"
        "        if not self.left: raise StopIteration\n"
        "        self.left -= 1; time.sleep(self.wait_s)\n"
        "        return {'input_ids': Tensor(4, 128), 'labels': Tensor(4, 128)}\n"
    ),
}
LOOP = """
import sys, time
from torch.optim.optimizer import Optimizer
from torch.utils.data.dataloader import _BaseDataLoaderIter
count, wait_s, work_s, accumulate = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
optimizer = Optimizer()
for at, batch in enumerate(_BaseDataLoaderIter(count, wait_s), start=1):
    time.sleep(work_s)
    if at % accumulate == 0:
        optimizer.step()
print("done")
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with that library and a training loop, on the path of what is started."""
    for name, text in TORCH.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "train.py").write_text(LOOP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path
