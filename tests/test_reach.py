"""For clients of a server nothing beyond our own data is touched; at a terminal
everything is as it was."""

from __future__ import annotations

from pathlib import Path

import pytest

import rightfit
from rightfit import reach
from rightfit.errors import InputError, RightfitError


def test_a_file_is_read_at_a_terminal_and_not_for_a_client(tmp_path: Path) -> None:
    trace = tmp_path / "requests.csv"
    trace.write_text("time,input_tokens,output_tokens\n" + "".join(f"{second},100,20\n" for second in range(50)))
    wish = {"model": "7B", "task": "serve", "trace": str(trace)}
    assert rightfit.plan(**wish, top=1).workload.trace == str(trace)
    with reach.closed(), pytest.raises(InputError, match="which a server does not read"):
        rightfit.plan(**wish, top=1)
    assert not reach.is_closed()


def test_code_of_the_user_s_own_is_not_run_for_a_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "evil.py").write_text("open('done', 'w').close()\ndef model(): raise SystemExit\n")
    monkeypatch.chdir(tmp_path)
    with reach.closed(), pytest.raises(RightfitError, match="runs no code"):
        rightfit.plan(model="evil:model", data="1ksamples", image_size="224")
    assert not (tmp_path / "done").exists()


def test_a_folder_named_like_a_model_is_not_seen_by_clients(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org/name").mkdir(parents=True)
    (tmp_path / "org/name/config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RightfitError, match="num_hidden_layers"):
        rightfit.plan(model="org/name")
    with reach.closed(), pytest.raises(RightfitError, match="unknown model 'org/name'"):
        rightfit.plan(model="org/name")


def test_workload_files_are_not_read_for_clients(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text("model: 7B\n")
    assert rightfit.Workload.from_file(path).model == "7B"
    with reach.closed(), pytest.raises(InputError, match="which a server does not read"):
        rightfit.Workload.from_file(path)
