"""Which repository on the hub a model's name means: the one that was asked for, whoever
lends it its shape."""

from __future__ import annotations

import pytest

from rightfit.facts import bundled, hub_repository, resolve_offline
from rightfit.facts.resolve import is_repository


def meant(text: str) -> str:
    return hub_repository(text, resolve_offline(text))


LENT = tuple((entry, name) for entry in bundled.index() for name in entry.aliases if is_repository(name))
COMMON = tuple((entry, name) for entry in bundled.index() for name in entry.aliases if "/" not in name)


def bare(name: str) -> str:
    return name.rpartition("/")[2].casefold()


def test_an_asked_repository_is_itself_in_whatever_case_it_is_written() -> None:
    wrong = [
        (name, text, meant(text)) for _, name in LENT for text in (name, name.lower(), name.upper(), f" {name} ") if meant(text) != name
    ]
    assert not wrong
    assert len(LENT) >= 257


def test_a_record_that_is_a_repository_is_itself() -> None:
    names = [entry.name for entry in bundled.index() if is_repository(entry.name)]
    assert not [(name, meant(text)) for name in names for text in (name, name.lower()) if meant(text) != name]


def test_the_bare_name_of_a_repository_means_it_unless_the_record_has_that_name() -> None:
    """Owners of images' networks hold the weights that timm has: there the
    record stands for both."""
    wrong = []
    for entry, name in LENT:
        same = [other for other in (entry.name, *entry.aliases) if is_repository(other) and bare(other) == bare(name)]
        expected = entry.name if entry.family == "vision" else same[0]
        if not is_repository(entry.name) and "/" not in entry.name:
            expected = ""  # the record itself is on no hub
        if (found := meant(bare(name))) != expected:
            wrong.append((bare(name), found, expected))
    assert not wrong


def test_a_common_name_means_the_record_or_a_repository_that_the_index_or_the_table_of_names_knows() -> None:
    elsewhere = {text: meant(text) for entry, text in COMMON if meant(text) not in (entry.name, "")}
    assert elsewhere == {
        "kimi-k2.7": "moonshotai/Kimi-K2.7-Code",
        "kimi-k2.7-code": "moonshotai/Kimi-K2.7-Code",
        "minimax-m2.1": "MiniMaxAI/MiniMax-M2.1",
        "vicuna-7b": "lmsys/vicuna-7b-v1.5",
        "vicuna-13b": "lmsys/vicuna-13b-v1.5",
        "phind codellama 34b": "Phind/Phind-CodeLlama-34B-v2",
        "phind-codellama-34b-v2": "Phind/Phind-CodeLlama-34B-v2",
        "zephyr-7b": "HuggingFaceH4/zephyr-7b-beta",
        "internlm2.5-1.8b": "internlm/internlm2_5-1_8b",
        "internlm2.5-7b": "internlm/internlm2_5-7b",
        "internlm2.5-20b": "internlm/internlm2_5-20b",
        "glm-4.6": "zai-org/GLM-4.6",
        "glm-4.7": "zai-org/GLM-4.7",
        "glm-5.1": "zai-org/GLM-5.1",
        "deepseek-coder-v2-lite": "deepseek-ai/DeepSeek-Coder-V2-Lite-Instruct",
        "deepseek-v2.5": "deepseek-ai/DeepSeek-V2.5",
        "deepseek-coder-v2": "deepseek-ai/DeepSeek-Coder-V2-Instruct",
        "deepseek-v3.1": "deepseek-ai/DeepSeek-V3.1",
        "phi-3.5-mini": "microsoft/Phi-3.5-mini-instruct",
        "granite-3.0-2b": "ibm-granite/granite-3.0-2b-base",
        "granite-3.0-8b": "ibm-granite/granite-3.0-8b-base",
        "minimax-m1": "MiniMaxAI/MiniMax-M1-80k",
        "minimax-m2.5": "MiniMaxAI/MiniMax-M2.5",
        "minimax-m2.7": "MiniMaxAI/MiniMax-M2.7",
        "jamba-1.5-mini": "ai21labs/AI21-Jamba-1.5-Mini",
        "smollm-135m": "HuggingFaceTB/SmolLM-135M",
        "smollm-360m": "HuggingFaceTB/SmolLM-360M",
        "smollm-1.7b": "HuggingFaceTB/SmolLM-1.7B",
        "flan-ul2": "google/flan-ul2",
        "whisper-large": "openai/whisper-large",
        "pixtral-12b": "mistral-community/pixtral-12b",
        "hy4": "tencent/Hy4",
        "laguna-xs-2.1": "poolside/Laguna-XS-2.1",
        "qwen-image-edit": "Qwen/Qwen-Image-Edit",
        "qwen-image-edit-2511": "Qwen/Qwen-Image-Edit-2511",
        "sd1.4": "CompVis/stable-diffusion-v1-4",
        "sdxl-lightning": "ByteDance/SDXL-Lightning",
        "flux-kontext": "black-forest-labs/FLUX.1-Kontext-dev",
        "dit-xl-2": "facebook/DiT-XL-2-256",
        "wav2vec2-base-960h": "facebook/wav2vec2-base-960h",
        "wav2vec2-large-960h": "facebook/wav2vec2-large-960h",
        "wav2vec2-large-xlsr-53": "facebook/wav2vec2-large-xlsr-53",
        "wavlm-base": "microsoft/wavlm-base",
        "parakeet-rnnt-1.1b": "nvidia/parakeet-rnnt-1.1b",
        "parakeet-tdt-1.1b": "nvidia/parakeet-tdt-1.1b",
    }


@pytest.mark.parametrize(
    ("text", "repository"),
    [
        ("llama-3-8b", "meta-llama/Meta-Llama-3-8B"),
        ("llama-3-8b-instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("Llama 3 8B Chat", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("gemma-2-9b-instruct", "google/gemma-2-9b-it"),
        ("qwen2.5-coder-7b-instruct", "Qwen/Qwen2.5-Coder-7B-Instruct"),
        ("Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct"),
        ("qwen3-4b-thinking", "Qwen/Qwen3-4B-Thinking-2507"),
        ("kimi-k2", "moonshotai/Kimi-K2-Instruct"),
        ("phi-3-mini", "microsoft/Phi-3-mini-4k-instruct"),
        ("phi-3-mini-128k", "microsoft/Phi-3-mini-128k-instruct"),
        ("internlm2.5-7b-chat", "internlm/internlm2_5-7b"),
        ("deepseek-v2-instruct", "deepseek-ai/DeepSeek-V2-Chat"),
        ("通义千问2.5 7B instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("google/gemma 2 9b", "google/gemma-2-9b"),
        ("whisper", "openai/whisper-large-v3"),
        ("vit-b/16", "timm/vit_base_patch16_224"),
        ("dinov2-base", "timm/vit_base_patch14_dinov2"),
        ("facebook/dinov2-base", "facebook/dinov2-base"),
        ("DiT-XL/2", "facebook/DiT-XL-2-256"),
        # not in the index: the name as it is
        ("unsloth/Meta-Llama-3.1-8B-Instruct", "unsloth/Meta-Llama-3.1-8B-Instruct"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "Qwen/Qwen2.5-7B-Instruct-AWQ"),
        ("TheBloke/Llama-2-7B-Chat-GGUF", "TheBloke/Llama-2-7B-Chat-GGUF"),
        ("my/own-model", "my/own-model"),
        # with the hub's name before it
        ("hf:qwen/qwen2.5-7b-instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("https://huggingface.co/Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("hf-mirror.com/Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("ms:Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct"),
        ("ms:LLM-Research/Meta-Llama-3-8B-Instruct", "meta-llama/Meta-Llama-3-8B-Instruct"),
        ("https://modelscope.cn/models/ZhipuAI/glm-4-9b-chat", "THUDM/glm-4-9b-chat"),
        ("modelscope:their/unknown-model", "their/unknown-model"),
        # nothing that a hub has
        ("7B", ""),
        ("layers=32,hidden=4096", ""),
        ("dlrm", ""),
        ("tacotron2", ""),
        ("xgboost", ""),
        ("./Qwen2.5-7B", ""),
        ("/data/models/Qwen2.5-7B", ""),
        ("a/b/Qwen2.5-7B", ""),
        ("model.onnx", ""),
        ("", ""),
    ],
)
def test_what_a_name_means(text: str, repository: str) -> None:
    assert meant(text) == repository
