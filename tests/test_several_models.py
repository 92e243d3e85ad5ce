"""Sentences that name several models: none of them is lost, and all can stand on one GPU."""

from __future__ import annotations

import pytest

from rightfit.explain.open_wishes import wishes_by_model
from rightfit.explain.together import together, wants_one_gpu
from rightfit.market import Catalog
from rightfit.workload.ask import understand

#: Sentences, the models that are planned, and what speaks beside them.
SEVERAL = {
    "serve whisper turbo + a 14b llm + TTS on one gpu for a voice bot, 5 parallel calls": (["whisper turbo", "14B"], ["TTS"]),
    "whisper large-v3 plus llama 3.1 8B on the same gpu, 10 concurrent users": (["whisper large-v3", "llama 3.1 8B"], []),
    "voice agent: whisper small, qwen2.5 7b and XTTS on a single L40S": (["whisper small", "qwen2.5 7b"], ["XTTS"]),
    "语音助手：paraformer + Qwen2.5-7B + CosyVoice，一张4090，3路并发": (["paraformer", "Qwen2.5-7B"], ["CosyVoice"]),
    "bge-m3 and bge-reranker-v2-m3 and qwen2.5-32b on one server, 20 users": (["bge-m3", "bge-reranker-v2-m3", "qwen2.5-32b"], []),
    "comfyui跑图玩玩，按小时租，sdxl和flux都想试，哪里便宜": (["sdxl", "flux"], []),
    "SDXL and FLUX on one box for our design team of 6, ComfyUI": (["SDXL", "FLUX"], []),
}


@pytest.mark.parametrize("sentence", SEVERAL)
def test_each_model_of_a_sentence_is_planned(sentence: str) -> None:
    models, _ = SEVERAL[sentence]
    parts = wishes_by_model(understand(sentence))
    assert [str(one["model"]) for one in parts] == models
    assert all(one["task"] == "serve" for one in parts)


@pytest.mark.parametrize("sentence", [sentence for sentence, (_, voices) in SEVERAL.items() if voices or "same gpu" in sentence][:3])
def test_all_of_them_fit_on_the_gpu(sentence: str, catalog: Catalog) -> None:
    models, voices = SEVERAL[sentence]
    found = understand(sentence)
    assert wants_one_gpu(found)
    shared = together(found, wishes_by_model(found), catalog, is_asked=True)
    assert shared is not None
    assert shared.plan.best is not None
    best = shared.plan.best
    assert best.nodes * best.accelerator.count_per_node == 1
    peak = float(best.estimate["peak_memory_bytes"].mid)
    assert peak + sum(size for _, size, _ in shared.others) <= best.accelerator.memory_bytes
    said = " ".join(shared.lines("en"))
    assert all(name in said for name in (*(one for one in models if one != shared.wishes["model"]), *voices))


def test_what_is_searched_for_answers_is_embedded() -> None:
    parts = wishes_by_model(understand("RAG over 200k pdf pages with bge-m3 and llama 3.1 8b for 50 staff"))
    assert [(one["model"], one["task"]) for one in parts] == [("bge-m3", "batch"), ("llama 3.1 8b", "serve")]
