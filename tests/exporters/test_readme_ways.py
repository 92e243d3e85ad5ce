"""Every way of the README of every kind of bundle is done, one after the other in the same folder,
with stand-ins for clouds and launchers (stand_ins.py): a run that fails, one that is killed, one
that goes on to the end, each by the README's own lines; without the model's token, and without a
bucket where a way makes none."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from bundles import Bundle
from typical_plans import plan_values
from walked import EVERY_WAY, NAMED_BY_HAND

ENDS = ("given back", "shutdown", "DeleteInstance", "TerminateInstances", "kubectl delete")


def ways(bundle: Bundle) -> dict[str, str]:
    """Each way of a bundle and its lines; the first without the look before it."""
    return {name: lines for name, lines in bundle.others.items() if name not in NAMED_BY_HAND}


def emptied(bundle: Bundle) -> None:
    """Stores, servers and results as they are before anything was started."""
    for name in ("store", "server", "volume", "files", "rightfit", "checkpoints", "shared", "secret.json", "run", "calls", "job-failed"):
        path = bundle.box / name
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    (bundle.box / "store").mkdir()
    shutil.rmtree(bundle.folder / "result", ignore_errors=True)


@pytest.mark.deep
@pytest.mark.parametrize("name", EVERY_WAY)
def test_every_way_fails_is_killed_and_goes_on_to_the_result(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert plan_values(name)["workload"]["task"] != "serve"
    bundle = Bundle(name, tmp_path, monkeypatch)
    faults = []
    for way, lines in ways(bundle).items():
        emptied(bundle)
        failed = bundle.run(lines, JOB_FAILS="1")
        if "ended well" in failed.stdout or (bundle.folder / "result/result").exists():
            faults.append(f"{way}: a run that failed is said to have ended well: {failed.stdout[-300:]}")
        ends = sum(bundle.calls.count(word) for word in ENDS)
        if not ends and way != "slurm":
            faults.append(f"{way}: nothing is given back after a failure: {bundle.calls[-600:]}")
        killed = bundle.run(lines, JOB_KILLED="1", HF_TOKEN="")
        done = bundle.run(lines)
        told = f"{killed.stderr[-400:]} | {done.stderr[-700:]} | {bundle.calls[-300:]}"
        if "FAILED" in done.stderr:
            faults.append(f"{way}: {told}")
        made = [path for path in bundle.folder.glob("result/**/*") if path.is_file()]
        if not made:
            faults.append(f"{way}: no result: {told}")
        elif (first := bundle.folder / "result" / "result").exists() and first.read_text() != "made, gone on\n":
            faults.append(f"{way}: it began again from the start: {told}")
        if "RIGHTFIT_BUCKET:?}" in lines:
            emptied(bundle)
            stopped = bundle.run(lines, RIGHTFIT_BUCKET="")
            if "server begun" in bundle.calls or not stopped.returncode:
                faults.append(f"{way}: started without a bucket: {stopped.returncode} {bundle.calls[-300:]}")
    assert ways(bundle)
    assert not faults, "\n".join(faults)
