"""What somebody says of oneself in many spellings: cards that one lacks, has, or has and will not
use, and the length to which texts are cut."""

from __future__ import annotations

import itertools

import pytest

from rightfit.workload.ask import understand

WISHES = {
    "en": ("Embed 40 million abstracts of 220 tokens with BAAI/bge-m3 on AWS.", "Fine-tune Mistral-7B with LoRA on 10M tokens, cheapest."),
    "zh": ("用BAAI/bge-m3给4000万条文本做向量化，每条220 token，用阿里云。", "用LoRA微调Qwen2.5-7B，数据1000万token，越便宜越好。"),
}
LACKS = {
    "en": [
        f"{who} {has} no {what}{where}."
        for who, has in (("We", "have"), ("I", "have"), ("Our lab", "has"), ("The team", "currently has"), ("We", "own"))
        for what in ("GPU", "GPUs", "graphics card")
        for where in ("", " ourselves", " of our own", " in house", " at home")
        if (who != "I") or where != " ourselves"
    ]
    + ["There is no GPU in our office.", "No GPU of my own.", "We don't have any GPU ourselves."],
    "zh": [
        f"{who}{lacks}{what}。"
        for who in ("我们", "我", "实验室", "公司", "手上", "学校里")
        for lacks in ("没有", "目前没有", "也没有")
        for what in ("GPU", "显卡")
    ]
    + ["没有自己的显卡。"],
}


@pytest.mark.parametrize("lang", WISHES)
def test_a_card_that_nobody_has_limits_nothing(lang: str) -> None:
    wrong = []
    meant = [understand(wish).wishes for wish in WISHES[lang]]
    for at, said in enumerate(LACKS[lang]):
        wish = WISHES[lang][at % 2]
        found = understand(f"{wish} {said}" if at % 3 else f"{said} {wish}")
        if found.wishes != meant[at % 2] or found.weighty:
            wrong.append((said, found.wishes, found.weighty))
    assert not wrong


@pytest.mark.parametrize("said", ["without a GPU", "on CPU only", "no GPU please"])
def test_a_wish_for_no_card_is_one(said: str) -> None:
    assert understand(f"Embed 1 million abstracts with BAAI/bge-m3 {said}").wishes["gpu"] == "none"


OWNS = {
    "en": (
        "I do have a {card} at home",
        "I have a {card}",
        "We still have a {card} in the lab",
        "My {card} is here",
        "There is my own {card}",
        "Sitting on a {card} here",
    ),
    "zh": ("我家里有一张{card}", "手上有一张{card}", "实验室有一张{card}"),
}
REJECTS = {
    "en": (
        ", but I'd rather rent something.",
        " but it's loud, so I would rather rent.",
        ". I prefer to rent.",
        ", I don't want to use it for this. Which GPU should I rent?",
        ", but I would prefer renting.",
    ),
    "zh": ("，但是不想用它，想租。", "，不过太吵，更想租一张。", "，不打算用家里的，想租云上的。"),
}


@pytest.mark.parametrize("lang", OWNS)
@pytest.mark.parametrize("card", ["4090", "RTX 3090"])
def test_a_card_that_is_there_and_not_to_be_used_is_no_filter(lang: str, card: str) -> None:
    wish = WISHES[lang][1]
    meant, wrong = understand(wish).wishes, []
    for owns, rejects in itertools.product(OWNS[lang], REJECTS[lang]):
        said = owns.format(card=card) + rejects
        found = understand(f"{said} {wish}")
        if found.wishes != meant or found.own_machine or found.weighty:
            wrong.append((said, found.wishes, found.own_machine, found.weighty))
    assert not wrong


@pytest.mark.parametrize(
    "said",
    [
        "Sitting on two 3090s (no NVLink).",
        "I do have two 3090s.",
        "We actually have two 3090s here.",
        "I happen to have two 3090s at home.",
        "My rig has two 3090s.",
        "My homelab has two 3090s.",
        "我手上有两张3090。",
    ],
)
def test_cards_that_somebody_has_are_ones_own(said: str) -> None:
    found = understand(f"{said} Can I QLoRA Llama-3.3-70B on them with 5M tokens?")
    assert found.own_machine.startswith("2x3090")
    assert "gpu" not in found.wishes


CUTS = {
    "en": [
        f"{how} {most}{tokens}"
        for how in ("truncated to", "text truncated at", "cut to", "cut off at", "clipped to", "padded to", "max length")
        for most in ("128", "512")
        for tokens in ("", " tokens")
    ],
    "zh": [
        f"{how}{most}{tokens}"
        for how in ("长度截断到", "截断到", "截断长度", "文本截断为", "统一截断到", "最大长度截到", "填充到")
        for most in ("128", "512")
        for tokens in ("", "个token")
    ],
}


@pytest.mark.parametrize("lang", CUTS)
def test_the_length_that_texts_are_cut_to_is_that_of_a_sequence(lang: str) -> None:
    wish = {
        "en": "Train hfl/chinese-roberta-wwm-ext on 300k reviews, {}, 3 epochs on a T4",
        "zh": "用 hfl/chinese-roberta-wwm-ext 做情感分类，30万条评论，{}，训练3轮",
    }[lang]
    wrong = []
    for cut in CUTS[lang]:
        found = understand(wish.format(cut))
        if found.wishes.get("seq_len") != ("128" if "128" in cut else "512") or found.weighty or found.wishes.get("epochs") != "3":
            wrong.append((cut, found.wishes, found.weighty))
    assert not wrong


@pytest.mark.parametrize("said", ["at 4k context", "with a 4k context window", "with sequence length 4k", "truncated to 4k"])
def test_samples_beside_a_longer_sequence_are_tokens(said: str) -> None:
    found = understand(f"QLoRA Llama-3.3-70B {said} on 5k samples of about 800 tokens each, two epochs")
    assert found.wishes["seq_len"] == "4k"
    assert found.wishes["data"] == "4000000 tokens"
    assert not found.weighty


ALTERNATIVES = (
    ("I was going to rent a single 4090 on RunPod or 8xH100", {"4090": "runpod"}, ""),
    ("a 4090 on RunPod or 8 H100", {"4090": "runpod"}, ""),
    ("8 H100 or a 4090 at RunPod", {}, "runpod"),
    ("a 4090 on RunPod or an H100 on Lambda", {"4090": "runpod", "H100": "lambda"}, ""),
    ("an A10 from AWS, or should it be an L40S", {"A10": "aws"}, ""),
    ("A100 or H100 on AWS", {}, "aws"),
    ("on AWS, A100 or H100", {}, "aws"),
)


@pytest.mark.parametrize(("said", "own", "shared"), ALTERNATIVES)
def test_each_alternative_has_its_own_cloud(said: str, own: dict[str, str], shared: str) -> None:
    found = understand(f"LoRA Llama-3-8B on 10M tokens, {said}, which is cheaper?")
    assert dict(found.card_clouds) == own
    assert found.wishes.get("cloud", "") == shared


@pytest.mark.parametrize(
    "said", ["8-10 of them hitting the chatbot at the same moment", "8 to 10 of them at the same time", "10 of them using it at once"]
)
def test_the_number_there_at_once_beats_a_share_of_all(said: str) -> None:
    found = understand(f"Serve Qwen3-32B to about 60 employees, maybe {said} during office hours.")
    assert found.wishes["users"] == "10"


@pytest.mark.parametrize("said", ["高峰期同时在线提问的也就20个人左右", "同时在线的就20人", "同时使用的最多20人"])
def test_people_at_once_beat_those_who_have_it(said: str) -> None:
    found = understand(f"部署 DeepSeek-R1 671B，大概200人用，{said}。")
    assert found.wishes["users"] == "20"
    assert not any("staff" in one.key for one in found.assumed)


@pytest.mark.parametrize(
    ("said", "meant"), [("in 4 bit", "awq"), ("in 4-bit", "awq"), ("4bit", "awq"), ("in nf4", "nf4"), ("4-bit with bitsandbytes", "nf4")]
)
def test_four_bits_are_served_in_the_format_that_engines_run(said: str, meant: str) -> None:
    assert understand(f"Serve Qwen3-32B {said} to 10 concurrent users").wishes["quantization"] == meant


@pytest.mark.parametrize("said", ["满血版 DeepSeek-R1", "DeepSeek-R1 满血版", "满血 DeepSeek-R1 671B"])
def test_the_whole_model_is_in_the_format_that_was_published(said: str) -> None:
    assert understand(f"部署{said}，同时 20 人在线").wishes["quantization"] == "fp8"


@pytest.mark.parametrize("said", ["deepseek满血版", "DeepSeek 满血", "满血版 DeepSeek"])
def test_the_whole_deepseek_is_its_model_of_671b(said: str) -> None:
    assert understand(f"部署{said}，同时 20 人在线").wishes["model"] == "deepseek-r1"


@pytest.mark.parametrize("engine", ["vLLM", "SGLang", "TGI"])
def test_what_answers_while_a_model_learns_is_no_trainer(engine: str) -> None:
    found = understand(f"GRPO on Qwen2.5-7B with {engine} rollouts, 8k prompts")
    assert "framework" not in found.wishes
    assert found.wishes["method"] == "grpo"
    assert engine in found.unused
    assert not found.weighty


def test_the_whole_model_is_not_quantized() -> None:
    assert understand("部署满血版 Qwen2.5-72B，同时 20 人在线").wishes["quantization"] == "none"


@pytest.mark.parametrize(
    ("said", "option", "value"),
    [
        ("run 400k prompts of 600 tokens with 100-token answers on Llama-3.1-70B", "input_tokens", "600"),
        ("run 400k prompts of 600 tokens with 100-token answers on Llama-3.1-70B", "data", "400k samples"),
        ("run 400k prompts of 600 tokens with 100-token answers on Llama-3.1-70B", "task", "batch"),
        ("What would 1 million text-to-image generations with SD 1.5 (25 steps, 512px) cost?", "task", "batch"),
        ("GRPO on Qwen2.5-1.5B with 20k prompts, 8 samples each, max 2k tokens, single node", "output_tokens", "2k"),
        ("fine-tune Qwen2.5-7B on 20k samples, max 2048 tokens", "seq_len", "2048"),
        ("serve Qwen2.5-7B at 2 requests per second, prompts of 600 tokens", "input_tokens", "600"),
    ],
)
def test_an_amount_keeps_its_length_and_what_is_made_is_no_training(said: str, option: str, value: str) -> None:
    assert understand(said).wishes[option] == value


@pytest.mark.parametrize("said", ["双路", "双卡", "两张", "四路"])
def test_cards_on_one_board_are_counted(said: str) -> None:
    count = 4 if said[0] == "四" else 2
    assert understand(f"我有一台{said} RTX 4090 的机器，想部署 Qwen2.5-72B").own_machine == f"{count}xRTX 4090"
