"""What people say in their own words: rules in other wordings, features of cards and servers, what
a card suits, whether a model fits, and pasted texts. The facts are read from the tables again."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest

from rightfit import api, facts
from rightfit.explain.claims import claim_lookup
from rightfit.explain.rule_lookup import find_rule, is_pasted, statements_in
from rightfit.explain.rule_match import sense
from rightfit.explain.rules import RuleOfThumb, all_rules
from rightfit.market import open_catalog
from rightfit.search.offers import open_priced

PARAPHRASES = list(csv.DictReader((Path(__file__).parents[1] / "data" / "paraphrases.csv").read_text(encoding="utf-8").splitlines()))


def rule_of(text: str) -> str:
    found = find_rule(text)
    return "" if found is None else found if isinstance(found, str) else found.id


def test_rules_are_known_in_other_words() -> None:
    wrong = [f"{row['sentence']}: {rule_of(row['sentence'])}" for row in PARAPHRASES if rule_of(row["sentence"]) != row["rule"]]
    assert not wrong


def test_every_rule_is_known_in_each_of_its_wordings_whatever_is_said_around_them() -> None:
    wrong = []
    for rule in all_rules().values():
        for words in (*rule.aliases, *rule.statement.values()):
            said = sense(words)
            for before, after in (("", ""), ("我听说", "。"), ("usually ", "."), ("建议：", "！")):
                found = rule_of(f"{before}{words}{after}")
                # A single concept with nothing beside it could be anything but a wording repeated.
                is_bare = len(said.concepts) + len(said.quantities) < 2
                if found not in (rule.id, SAME_AS.get(rule.id), SAME_AS.get(found)) and not is_bare:
                    wrong.append(f"{before}{words}{after}: {found} instead of {rule.id}")
    assert not wrong


#: Rules that say the same of the whole market or with one condition more.
SAME_AS = {
    "cluster_for_1tb": "multi_node_over_1tb_data",
    "price_per_tflops": "market_price_per_tflops",
    "spot_saves_50_to_90": "market_spot_saves_50_to_90",
    "long_jobs_subscription": "market_subscription_for_long_use",
}


@pytest.mark.parametrize(("text", "value"), [("7B needs 48 GB", 48 * 2**30), ("fine-tuning an LLM needs 512GB of RAM", 512 * 2**30)])
def test_a_rule_with_another_number_is_judged_by_that_number(text: str, value: float) -> None:
    found = find_rule(text)
    assert isinstance(found, RuleOfThumb)
    assert found.value == pytest.approx(value)
    assert found.statement["en"] == text


def test_the_same_quantity_in_other_units_and_scripts_is_one_quantity() -> None:
    for one, other in (
        ("显存至少 24GB", "显存 ≥ 24 GiB"),
        ("单卡", "1 张卡"),
        ("25 Gbps", "25Gbit/s"),
        ("50%–90%", "50%到90%"),
        ("1.5倍", "1.5 times"),
    ):
        assert [item.high for item in sense(one).quantities] == pytest.approx([item.high for item in sense(other).quantities], rel=0.08)


FEATURES = {"BF16": "bf16_flops", "FP8": "fp8_flops", "INT8": "int8_ops", "FP64": "fp64_flops", "TF32": "tf32_flops"}


def test_features_of_all_cards_are_those_of_the_table() -> None:
    """All cards with a name of their own x features x languages, asked for and denied."""
    market, wrong = open_priced(), []
    for name, card in facts.accelerators().items():
        if facts.match_accelerators(name) != (name,) or not name.replace("-", "").isascii():
            continue
        for feature, column in FEATURES.items():
            has = getattr(card, column) > 0
            for text, says in ((f"{name} supports {feature}", True), (f"{name}支持{feature}吗", True), (f"{name} has no {feature}", False)):
                found = claim_lookup(text, market)
                if found is None or (found.claim == "right") != (has == says):
                    wrong.append(f"{text}: {found and found.claim}")
    assert not wrong


@pytest.mark.parametrize(
    ("text", "claim"),
    [
        ("p4d有NVLink", "right"),
        ("gn7i支持NVLink", "wrong"),
        ("NDv4支持InfiniBand", "right"),
        ("P100支持Tensor Core", "wrong"),
        ("T4 has Tensor Cores", "right"),
        ("A2有16×A100", "right"),
        ("g5.xlarge(1xT4)", "wrong"),
        ("g5.xlarge: A10G", "right"),
        ("ecs.gn7i-c2g1.xlarge（T4）", "wrong"),
        ("A100 (48GB)", "wrong"),
        ("H100显存高达80GB", "right"),
        ("腾讯云 GN10Xp.2XLARGE32（V100 32G）", "wrong"),
        ("谷歌云 a2-highgpu-1g 是一张 80G 的 A100", "wrong"),
        ("t3.large 满足 4核8G 的最低要求", "wrong"),
        ("g4dn.xlarge是T4", "right"),
        ("ecs.r7.8xlarge 32核256G", "right"),
        ("ecs.r7.8xlarge（32核CPU, 256GB内存）", "right"),
        ("ecs.gn7i-c8g1.2xlarge：A10，8核，30G", "right"),
        ("p4d.24xlarge 是 8 张 80G 的 A100", "wrong"),
        ("g5.xlarge has one T4", "wrong"),
    ],
)
def test_what_is_said_of_servers_and_cards(text: str, claim: str) -> None:
    assert [result.claim for result in api.check(text)] == [claim]


def test_a_claim_in_brackets_after_a_colon_and_after_an_equals_sign_is_one_claim() -> None:
    catalog = open_catalog()
    servers = catalog.servers()
    rng = random.Random(7)
    rows = [row for row in range(len(servers)) if servers.num_accelerators[row] >= 1 and servers.provider[row] in ("aws", "gcp", "tencent")]
    for row in rng.sample(rows, 8):
        name, card = servers.instance_type[row], servers.accelerator_name[row]
        for said in (card, "T4", "H100"):
            answers = {
                api.check(f"{name}{form.format(said)}", catalog=catalog)[0].claim for form in ("={}", "({})", " ({})", "：{}", "（{}）")
            }
            assert len(answers) == 1, (name, said, answers)


def test_a_sentence_is_never_echoed_as_something_that_exists() -> None:
    for text in ("V100适合大模型训练", "P100支持Tensor Core", "超大模型要用H100吗请问", "每台机器都应该装A100才行呀"):
        assert not any(result.kind == "accelerator" and result.exists and result.claim is None for result in api.check(text))


@pytest.mark.parametrize(
    ("text", "answer"),
    [("Llama-3-70B full fine-tuning fits on one T4", "no"), ("QLoRA微调7B需要一张4090", "yes"), ("70B QLoRA 一张A100 80G能微调吗", "yes")],
)
def test_whether_a_model_fits_is_said_first(text: str, answer: str) -> None:
    found = claim_lookup(text, open_priced())
    assert found is not None
    assert found.facts["answer"] == answer
    said = {"yes": "it fits on", "no": "it does not fit on"}[answer]
    assert said in found.explanation_en.partition("(")[0]


def test_which_cloud_is_cheaper_turns_with_the_question() -> None:
    market = open_priced()
    one, other = claim_lookup("Lambda is cheaper than AWS", market), claim_lookup("AWS比Lambda便宜", market)
    dearer = claim_lookup("AWS is more expensive than Lambda", market)
    assert one is not None
    assert other is not None
    assert dearer is not None
    assert {one.claim, other.claim} == {"right", "wrong"}
    assert dearer.claim == one.claim


@pytest.mark.parametrize(
    ("said", "denied"),
    [("多卡训练需要NVLink", "多卡训练不需要NVLink"), ("spot instances save 50-90%", "spot instances do not save 50-90%")],
)
def test_a_denial_is_not_judged_as_what_it_denies(said: str, denied: str) -> None:
    assert {api.check(text)[0].claim for text in (said, denied)} == {"right", "wrong"}


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("训练的时候报 CUDA out of memory，显存不足怎么办", "out_of_memory"),
        ("why is GPU utilization is low", "low_utilization"),
        ("显存和内存有什么区别", "vram"),
        ("what's the difference between LoRA and QLoRA", "lora"),
        ("训练很慢怎么办", "slower_than_planned"),
    ],
)
def test_symptoms_and_differences_are_found_in_a_sentence(text: str, term: str) -> None:
    [found] = api.check(text)
    assert found.kind == "term"
    assert found.facts["id"] == term


def test_which_card_is_faster_follows_the_table() -> None:
    market, cards = open_priced(), facts.accelerators()
    for one, other in (("A10", "T4"), ("L4", "T4"), ("V100-SXM-16GB", "T4"), ("L40S", "L4")):
        found, back = claim_lookup(f"{one}比{other}快吗", market), claim_lookup(f"{other} is faster than {one}", market)
        assert found is not None
        assert back is not None
        assert back.claim == "wrong"
        assert found.facts["bandwidth"] == pytest.approx(cards[one].memory_bandwidth / cards[other].memory_bandwidth)


PASTED = """## Which server?
| Cloud | Servers | For |
| AWS | p4d.24xlarge (8xA100), g5.xlarge (1xT4) | training |
- 7B models need 24 GB of VRAM
- RAM should be four times the GPU memory
We hope that this helps you to choose. 每100GB数据建议至少配备：
- 64GB RAM
"""


def test_a_pasted_text_gives_an_answer_for_each_thing_that_it_states() -> None:
    assert is_pasted(PASTED)
    stated = statements_in(PASTED)
    assert {"p4d.24xlarge (8xA100)", "g5.xlarge (1xT4)"} <= set(stated)
    answers = {result.query: result.claim for result in api.check(PASTED)}
    assert answers["p4d.24xlarge (8xA100)"] == "right"
    assert answers["g5.xlarge (1xT4)"] == "wrong"
    assert {rule_of(text) for text in answers} >= {"vram_24gb_for_7b", "ram_4x_vram", "ram_64gb_per_100gb_data"}
    assert not any("hope" in text for text in answers)


@pytest.mark.parametrize(
    ("said", "claim"),
    [
        ("CUDA 12.4 needs driver >= 550", "right"),
        ("CUDA 12.4 需要驱动 550", "right"),
        ("CUDA 12.4 需要驱动 570", "wrong"),
        ("驱动535能跑CUDA 12.4", "right"),
        ("驱动470能跑CUDA 12.4", "wrong"),
        ("V100支持CUDA 13", "wrong"),
        ("V100 works with CUDA 13", "wrong"),
        ("V100不支持CUDA 13", "right"),
        ("H100支持CUDA 12.4", "right"),
        ("B200支持CUDA 12.4", "wrong"),
        ("CUDA 14 needs driver 600", "unknown"),
    ],
)
def test_claims_about_cuda_are_held_against_its_releases_and_the_card(said: str, claim: str) -> None:
    (found,) = api.check(said)
    assert found.claim == claim
    assert "{" not in found.explanation_zh + found.explanation_en


def test_weights_in_few_bits_are_judged_as_such() -> None:
    few, plain = (api.check(f"Qwen2.5-14B{word}推理 4090能跑吗")[0] for word in (" INT4", ""))
    assert (few.claim, plain.claim) == ("right", "unknown")
    assert "用 8 位（FP8）" in plain.explanation_zh
    assert "权重（INT4）" in few.explanation_zh
    (tight,) = api.check("Llama-2-13B INT8 能在T4上跑吗")
    assert (tight.claim, tight.facts["answer"]) == ("unknown", "just")
    (wrong,) = api.check("Llama-2-13B FP16 能在T4上跑吗")
    assert wrong.claim == "wrong"


def test_a_service_that_fits_is_judged_by_no_limit_that_nobody_asked_for() -> None:
    (found,) = api.check("INT8量化的Llama-3-8B能在T4上跑吗")
    assert found.claim == "right"
    assert "放得下" in found.explanation_zh


def test_a_host_that_publishes_no_memory_is_no_reason_to_say_no() -> None:
    (found,) = api.check("4090能LoRA微调Llama-3-8B吗")
    assert found.claim == "right"


def test_a_card_that_nobody_rents_is_tried_as_ones_own() -> None:
    (found,) = api.check("RTX 3060部署ResNet50够吗")
    assert found.claim == "right"
    assert "自己的机器" in found.explanation_zh


@pytest.mark.parametrize("feature", ["BF16", "FP8", "TF32", "NVLink", "FP4"])
@pytest.mark.parametrize("card", ["H100", "V100", "A10"])
def test_that_one_card_alone_has_a_feature_is_held_against_all_cards(card: str, feature: str) -> None:
    catalog = open_priced()
    sentences = (
        f"{feature} 只有 {card} 支持",
        f"only {card} supports {feature}",
        f"{card} is the only GPU with {feature}",
        f"只有 {card} 支持 {feature}",
    )
    for sentence in sentences:
        found = claim_lookup(sentence, catalog)
        assert found is not None, sentence
        others = found.facts["others"]
        assert found.claim == "wrong", sentence
        assert others, sentence
        assert not set(others) & set(facts.match_accelerators(card))
        assert others[0] in found.explanation_zh
        assert others[0] in found.explanation_en


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("A10 has 24 GB and NVLink", "wrong"),
        ("T4 has 16 GB and BF16", "wrong"),
        ("T4 有 16GB 显存和 BF16", "wrong"),
        ("A10 有 24GB 显存和 NVLink", "wrong"),
        ("A100 has 80 GB and NVLink", "right"),
        ("H100 有 80GB 显存和 FP8", "right"),
        ("L4 has 24 GB and no NVLink", "right"),
        ("A100 has 80 GB and no NVLink", "wrong"),
        ("T4 显存 16GB 训练 Llama-3-70B 够用", "wrong"),
        ("T4 has 16 GB and is enough to train Llama-3-70B", "wrong"),
        ("不是只有 H100 支持 FP8", "right"),
    ],
)
def test_each_part_of_what_is_said_of_a_card_is_judged(sentence: str, claim: str) -> None:
    (found,) = api.check(sentence)
    assert found.claim == claim


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("PyTorch DataParallel is as fast as DDP", "wrong"),
        ("DataParallel 和 DDP 一样快", "wrong"),
        ("DDP is slower than DataParallel", "wrong"),
        ("DDP 比 DataParallel 慢", "wrong"),
        ("DataParallel is slower than DDP", "right"),
        ("DDP 比 DataParallel 快", "right"),
    ],
)
def test_a_rule_that_compares_is_judged_by_the_direction_that_is_said(sentence: str, claim: str) -> None:
    (found,) = api.check(sentence)
    assert found.claim == claim


@pytest.mark.parametrize("noun", ["text", "documents", "log files", "images"])
@pytest.mark.parametrize("verb", ["preprocess", "tokenize"])
def test_a_size_of_data_is_no_memory_of_a_server(verb: str, noun: str) -> None:
    (found,) = api.check(f"ecs.g7.2xlarge is enough to {verb} 500 GB of {noun} in a day")
    assert found.claim != "wrong"
    (memory,) = api.check("ecs.g7.2xlarge has 500 GB of memory")
    assert memory.claim == "wrong"


@pytest.mark.parametrize("cards", [("V100", "A10"), ("A100", "H100"), ("T4", "L4")])
@pytest.mark.parametrize("cloud", ["Azure", "Alibaba", "AWS"])
@pytest.mark.parametrize(
    "asked",
    [
        "{0} or {1} for training a small transformer, both on {cloud}?",
        "{0} 还是 {1} 适合训练？",
        "Is {cloud} the only one for {0}/{1} training?",
        "Is {0} on {cloud} good for training?",
        "Does {0} training with NVLink suit inference?",
        "{0} or {1} for inference?",
    ],
)
def test_what_a_job_costs_on_a_card_judges_nothing_else(asked: str, cloud: str, cards: tuple[str, str]) -> None:
    """A choice, a cloud, a feature and "only" are not evaluated by a plan of a usual job."""
    found = claim_lookup(asked.format(*cards, cloud=cloud), open_priced())
    assert found is None or "workload" not in found.facts


@pytest.mark.parametrize("link", ["infiniband", "efa", "roce", "erdma"])
def test_the_only_cloud_with_a_link_is_told_by_the_servers(link: str) -> None:
    market = open_priced()
    servers = market.servers()
    having = {cloud.partition("-")[0] for cloud, one in zip(servers.provider, servers.rdma, strict=True) if one == link}
    for cloud, spoken in (("azure", "Azure"), ("aws", "AWS"), ("alicloud", "Alibaba Cloud"), ("coreweave", "CoreWeave")):
        for asked in (f"Is {spoken} the only cloud with {link} for A100 training?", f"{spoken} is the only cloud with {link}"):
            found = claim_lookup(asked, market)
            assert found is not None, asked
            assert found.claim == ("right" if having == {cloud} else "wrong"), asked
            assert all(other.partition("-")[0] in having for other in found.facts["others"])


def test_all_that_a_question_says_of_a_server_is_judged() -> None:
    """Count of cards and memory of servers of the catalog, right and wrong, in either language."""
    catalog = open_catalog()
    servers, rng, wrong = catalog.servers(), random.Random(3), list[str]()
    rows = [
        row for row in range(len(servers)) if servers.num_accelerators[row] in (1, 2, 4) and servers.provider[row] in ("alicloud", "aws")
    ]
    named = [row for row in rows if facts.match_accelerators(servers.accelerator_name[row].split("-")[0]) and servers.memory_bytes[row] > 0]
    for at, row in enumerate(rng.sample(named, 8)):
        name, card = servers.instance_type[row], servers.accelerator_name[row].split("-")[0]
        count, memory = int(servers.num_accelerators[row]), round(float(servers.memory_bytes[row]) / 2**30)
        for said, size, claim in ((count, memory, "right"), (count + 1, memory, "wrong"), (count, 3 * memory, "wrong")):
            asked = f"{name} 是{said}张{card}加{size}G内存吗" if at % 2 else f"Is {name} {said} {card} with {size} GB RAM?"
            (found,) = api.check(asked, catalog=catalog)
            wrong += [] if found.claim == claim else [f"{asked}: {found.claim}"]
    assert not wrong


@pytest.mark.parametrize("card", ["V100", "T4", "RTX 4090"])
@pytest.mark.parametrize("behind", [" RAM", "内存", " of host memory", " SSD", "硬盘"])
def test_memory_of_the_host_is_not_that_of_the_card(card: str, behind: str) -> None:
    from rightfit.explain.judged_parts import parts_of

    said = f"ResNet-50 with one {card} memory, is 64 GB{behind} enough"
    assert not [part for part in parts_of(said, open_catalog()) if part.word == "wrong"]


@pytest.mark.parametrize("server", ["c7", "c7.large", "g4dn.xlarge"])
@pytest.mark.parametrize("asked", ["Can TensorFlow Lite serve a BERT model on {}?", "Can {} serve BERT with TensorFlow Lite?"])
def test_what_could_not_be_evaluated_is_no_verdict(asked: str, server: str) -> None:
    for result in api.check(asked.format(server)):
        assert result.claim not in ("right", "wrong"), result.explanation_en


@pytest.mark.parametrize("asked", ["硬盘读取{}GB/s才够训练用？", "does training need a disk of {} GB/s?", "{} GB/s of disk reads to train"])
def test_a_rate_is_no_amount_of_data(asked: str) -> None:
    from rightfit.workload.ask import understand

    for rate in (1, 3, 12):
        assert "data" not in understand(asked.format(rate)).wishes
        assert understand(f"train resnet50 on {rate} GB").wishes["data"] == f"{rate} GB"
