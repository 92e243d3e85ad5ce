"""Batches run to their end: an encoder of texts, a Whisper, and a language model behind a
stand-in for vLLM. Killed, they do only what is missing, and what they leave is what an
undisturbed run leaves."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from killed import lines
from test_samples_training import make_recordings
from tiny import environment, make_llama, run
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.stack import stack_name, stack_of

for needed in ("torch", "transformers", "datasets"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; see requirements.txt of the target batch")

COMMAND = [sys.executable, "run.py", "run.json", "0", "1"]
STAND_IN = Path(__file__).parent / "data" / "stand_ins"


def put(folder: Path, plan: str, **changed: Any) -> None:
    """The exported files of a plan, its settings made small."""
    found = find_target("batch").files(job_of(plan_document(plan_values(plan))))
    for path, text in found.items():
        (folder / path).write_text(text, encoding="utf-8")
    settings = json.loads(found["run.json"])
    changed = {"output": str(folder / "out"), "data": str(folder / "data"), "part_rows": 2, "replicas_per_node": 1, **changed}
    assert set(changed) <= set(settings)
    (folder / "run.json").write_text(json.dumps(settings | changed), encoding="utf-8")


def answers(folder: Path) -> list[dict[str, Any]]:
    """What a batch left, in the order of the rows; vectors lie in arrays."""
    vectors = sorted((folder / "out/results").glob("part-*.npy"))
    if vectors:
        import numpy as np

        found = np.concatenate([np.load(part) for part in vectors])
        assert found.dtype == np.float32
        return [{"row": row, "embedding": vector.tolist()} for row, vector in enumerate(found)]
    parts = sorted((folder / "out/results").glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text(encoding="utf-8").splitlines()]


def killed_and_gone_on(folder: Path, further: dict[str, str], *, parts: int) -> list[dict[str, Any]]:
    """Answers of an undisturbed run, after the test has seen that a killed one
    ends with the same."""
    run(COMMAND, folder, further=further)
    whole = answers(folder)
    assert [answer["row"] for answer in whole] == list(range(len(whole)))
    marked = json.loads((folder / "out/results/complete.json").read_text(encoding="utf-8"))
    assert len(marked) == parts
    shutil.rmtree(folder / "out")
    for how, code in ((signal.SIGKILL, -signal.SIGKILL), (signal.SIGTERM, 143)):
        started = subprocess.Popen(COMMAND, cwd=folder, stdout=subprocess.PIPE, text=True, env=environment(folder, **further))
        assert started.stdout is not None
        next(line for line in started.stdout if '"part"' in line)
        started.send_signal(how)
        started.communicate(timeout=120)
        done = len([*(folder / "out/results").glob("part-*.jsonl"), *(folder / "out/results").glob("part-*.npy")])
        if done == parts:
            pytest.skip("it was done before the signal came")
        assert started.returncode == code
        assert not (folder / "out/results/complete.json").exists()
    (folder / "out/results/part-999999.part").write_text("half", encoding="utf-8")
    told = lines(run(COMMAND, folder, further=further))
    assert told[0]["to_do"] == parts - done
    assert sum("part" in line for line in told) == parts - done
    assert answers(folder) == whole
    assert json.loads((folder / "out/results/complete.json").read_text(encoding="utf-8")) == marked
    return whole


def rows(folder: Path, *values: dict[str, Any]) -> None:
    (folder / "data").mkdir()
    (folder / "data/rows.jsonl").write_text("\n".join(json.dumps(value) for value in values), encoding="utf-8")


def test_a_language_model_answers_every_row(tmp_path: Path) -> None:
    model = make_llama(tmp_path / "model")
    rows(tmp_path, *({"prompt": f"What follows {number}?", "id": number} for number in range(12)))
    put(tmp_path, "batch-8b-tencent", model=str(model), output_tokens=5)
    found = killed_and_gone_on(tmp_path, {"PYTHONPATH": str(STAND_IN), "STAND_IN_S": "0.5"}, parts=6)
    assert all(answer["tokens"] == 5 for answer in found)
    assert stack_name(job_of(plan_document(plan_values("batch-8b-tencent")))) == "batch"


def test_each_replica_of_a_server_does_its_share(tmp_path: Path) -> None:
    model = make_llama(tmp_path / "model")
    rows(tmp_path, *({"text": f"{number}"} for number in range(7)))
    put(tmp_path, "batch-8b-tencent", model=str(model), output_tokens=2, replicas_per_node=2, cards_per_replica=1)
    told = lines(run([*COMMAND[:3], "1", "2"], tmp_path, further={"PYTHONPATH": str(STAND_IN)}))
    assert {line["replica"]: line["to_do"] for line in told if "replica" in line} == {2: 1, 3: 1}  # of 4 parts for 4 replicas
    assert {line["cards"] for line in told if "cards" in line} == {"0", "1"}
    assert not (tmp_path / "out/results/complete.json").exists()
    run([*COMMAND[:3], "0", "2"], tmp_path, further={"PYTHONPATH": str(STAND_IN)})
    assert len(answers(tmp_path)) == 7
    assert (tmp_path / "out/results/complete.json").exists()


def test_the_engine_is_told_the_plan_s_limits() -> None:
    """What vLLM is given are arguments that it has, of the plan's layout."""
    job = job_of(plan_document(plan_values("batch-8b-tencent")))
    settings = json.loads(stack_of(job).files["run.json"])
    layout = job.option.layout
    assert settings["engine"]["max_num_seqs"] == layout.max_batch
    assert settings["engine"].get("tensor_parallel_size", 1) == layout.tensor
    assert {"host", "port", "data_parallel_size"}.isdisjoint(settings["engine"])


def test_texts_become_vectors(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    from tiny import make_bert

    model = make_bert(tmp_path / "model")
    rows(tmp_path, *({"text": f"number {number} " * (number + 1)} for number in range(12)))
    put(tmp_path, "bge-batch", model=str(model), backend="torch", engine={}, half=False, batch=2, part_rows=1)
    found = killed_and_gone_on(tmp_path, {}, parts=12)
    assert {len(answer["embedding"]) for answer in found} == {32}


def make_fast_whisper(folder: Path) -> Path:
    """A Whisper of a few thousand parameters in the format of CTranslate2, with the words that
    Whisper's programs ask for."""
    from ctranslate2.converters import TransformersConverter
    from tiny import make_tokenizer
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

    plain = folder / "plain"
    plain.mkdir(parents=True)
    make_tokenizer(plain)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(plain)
    special = [
        "<|endoftext|>",
        "<|startoftranscript|>",
        "<|en|>",
        "<|transcribe|>",
        "<|translate|>",
        "<|startoflm|>",
        "<|startofprev|>",
        "<|nospeech|>",
    ]
    special += ["<|notimestamps|>", *(f"<|{step / 50:.2f}|>" for step in range(1501))]
    tokenizer.add_tokens([AddedToken(word, special=True) for word in special], special_tokens=True)
    tokenizer.save_pretrained(plain)
    number = dict(zip(special, tokenizer.convert_tokens_to_ids(special), strict=True))
    sizes = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "decoder_attention_heads": 2}
    ends = {"eos_token_id": number["<|endoftext|>"], "pad_token_id": number["<|endoftext|>"], "bos_token_id": number["<|endoftext|>"]}
    config = WhisperConfig(
        vocab_size=len(tokenizer),
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_mel_bins=80,
        max_target_positions=448,
        decoder_start_token_id=number["<|startoftranscript|>"],
        **sizes,
        **ends,
    )
    model = WhisperForConditionalGeneration(config)
    model.generation_config.no_timestamps_token_id = number["<|notimestamps|>"]
    model.generation_config.alignment_heads = [[0, 0]]
    model.generation_config.suppress_tokens = []
    model.generation_config.begin_suppress_tokens = [number["<|endoftext|>"]]
    model.generation_config.lang_to_id = {"<|en|>": number["<|en|>"]}
    model.save_pretrained(plain)
    WhisperFeatureExtractor().save_pretrained(plain)
    TransformersConverter(str(plain), copy_files=["tokenizer.json", "preprocessor_config.json"]).convert(str(folder / "fast"))
    return folder / "fast"


def test_recordings_are_written_down(tmp_path: Path) -> None:
    for needed in ("faster_whisper", "ctranslate2"):
        pytest.importorskip(needed)
    model = make_fast_whisper(tmp_path / "model")
    make_recordings(tmp_path / "data", count=7)
    engine = {"device": "cpu", "compute_type": "float32", "cpu_threads": 1}
    put(tmp_path, "whisper-batch-aws", model=str(model), engine=engine, batch=1, part_rows=1)
    found = killed_and_gone_on(tmp_path, {}, parts=8)
    assert all("text" in answer and answer["language"] for answer in found)
