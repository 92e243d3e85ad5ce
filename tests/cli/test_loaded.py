"""What a plan from the command line does not need is not loaded (docs/decisions/cold-start.md)."""

from __future__ import annotations

import subprocess
import sys

import pytest

_READERS = ("rightfit.workload.ask", "rightfit.workload.kept_files", "rightfit.workload.code_files", "rightfit.explain.beside")
_JUDGES = (
    "rightfit.explain.claims",
    "rightfit.explain.glossary",
    "rightfit.explain.rule_lookup",
    "rightfit.explain.rule_trials",
    "rightfit.explain.questions",
)
_SERVING = ("rightfit.estimation.serving", "rightfit.physics.queueing", "rightfit.search.service")
#: Masked arrays of NumPy, which `np.unique` loads to ask whether it was given some.
_MASKED = ("numpy.ma",)
_OTHER_WORK = ("rightfit.estimation.classical", "rightfit.physics.classical")


def _loaded(*words: str) -> set[str]:
    script = (
        "import contextlib, io, sys\n"
        "from rightfit.cli import main\n"
        "with contextlib.redirect_stdout(io.StringIO()):\n"
        f"    code = main({list(words)!r})\n"
        "assert code == 0, code\n"
        "print(*sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("words", "spared"),
    [
        (("plan", "7B", "--method", "lora", "--data", "10Mtok"), (*_READERS, *_JUDGES, *_SERVING, *_OTHER_WORK, *_MASKED)),
        (("plan", "7B", "--task", "serve", "--rate", "2/s"), (*_READERS, *_JUDGES, *_OTHER_WORK, *_MASKED)),
        (("plan", "bge-base-en", "--task", "batch", "--data", "10kdocs"), (*_READERS, *_JUDGES, *_MASKED)),
        (("plan", "resnet50", "--data", "10kimages"), (*_READERS, *_JUDGES, *_MASKED)),
    ],
)
def test_a_plan_by_options_loads_no_reader_of_sentences(words: tuple[str, ...], spared: tuple[str, ...]) -> None:
    loaded = _loaded(*words)
    assert "rightfit.planner.plan" in loaded
    assert sorted(name for name in loaded if name in spared or name.startswith(tuple(f"{one}." for one in spared))) == []
