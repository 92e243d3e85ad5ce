"""Usual turns of phrase, by class: every member of a denied list, every limit of money, every place
that data must not leave, every rate of one user is read, however it is said."""

from __future__ import annotations

import datetime
import itertools

import pytest

from rightfit.units import parse_money
from rightfit.workload.ask import understand
from rightfit.workload.ask.sentence import Understood

FRIDAY = datetime.date(2026, 11, 20)
JOB = "LoRA of Llama-3.1-8B on 10k samples"
SERVICE = "serve Llama-3.1-8B to 40 users"


def read(text: str) -> Understood:
    found = understand(text, today=FRIDAY)
    assert not found.weighty, found
    return found


SELLERS = {"AWS": "aws", "Azure": "azure", "Google": "gcp", "Oracle": "oci", "RunPod": "runpod", "阿里云": "alicloud", "腾讯云": "tencent"}
DENIED_PAIRS = (
    "neither {0} nor {1}",
    "not on {0} or {1}",
    "we can't use {0} or {1}",
    "nothing from {0} or {1}",
    "no {0} and no {1}",
    "anything but {0} and {1}",
    "avoid {0} and {1}",
    "I won't go with {0} or {1}",
    "keep away from {0} and {1}",
    "不要{0}和{1}",
    "{0}和{1}都不要",
    "除了{0}和{1}都行",
    "{0} and {1} are both out of the question",
    "{0} or {1} is not an option",
    "legal won't let us use {0} or {1}",
    "I don't like {0} and won't touch {1}",
    "拒绝使用{0}和{1}",
)


@pytest.mark.parametrize("turn", DENIED_PAIRS)
def test_every_member_of_a_denied_list_is_avoided(turn: str) -> None:
    for first, second in itertools.permutations(SELLERS, 2):
        found = read(f"{JOB}, {turn.format(first, second)}")
        assert set(found.wishes["avoid"].split(",")) == {SELLERS[first], SELLERS[second]}, (first, second)
        assert "cloud" not in found.wishes, (first, second)


@pytest.mark.parametrize(
    "turn", ["nothing from {0}, {1} or {2}", "none of {0}, {1}, {2}", "neither {0}, {1} nor {2}", "{0}、{1}和{2}都不要"]
)
def test_every_member_of_a_longer_list_is_avoided(turn: str) -> None:
    for members in itertools.permutations(SELLERS, 3):
        found = read(f"{JOB}, {turn.format(*members)}")
        assert set(found.wishes["avoid"].split(",")) == {SELLERS[one] for one in members}, members


@pytest.mark.parametrize("turn", ["not on {0}, only on {1}", "no {0}, {1} instead of it", "{1}, but not {0}"])
def test_what_stands_behind_a_comma_is_not_denied(turn: str) -> None:
    found = understand(f"{JOB}, {turn.format('AWS', 'Azure')}", today=FRIDAY)
    assert found.wishes["avoid"] == "aws"
    assert found.wishes["cloud"] == "azure"


@pytest.mark.parametrize(
    ("said", "avoided"),
    [("用4090，V100以外", {"V100"}), ("用4090，V100、A100以外", {"V100", "A100"}), ("4090，V100都不要", {"4090", "V100"})],
)
def test_a_denial_behind_a_list_reaches_to_its_comma(said: str, avoided: set[str]) -> None:
    assert set(read(f"LoRA微调Qwen2.5-7B，1万条，{said}").wishes["avoid"].split(",")) == avoided


@pytest.mark.parametrize("card", ["H100", "A100", "L40S", "V100"])
@pytest.mark.parametrize("turn", ["anything that isn't an {0} or a T4", "no {0}s or T4s", "neither {0} nor T4", "别给我推荐{0}和T4"])
def test_cards_of_a_denied_list_are_avoided(turn: str, card: str) -> None:
    assert set(read(f"{JOB}, {turn.format(card)}").wishes["avoid"].split(",")) == {card, "T4"}


LIMITS = (
    "I'd rather not spend more than {0}",
    "not willing to pay over {0}",
    "I'd rather not pay over {0}",
    "it must not exceed {0}",
    "the total can't be more than {0}",
    "it shouldn't cost me more than {0}",
    "I refuse to pay more than {0}",
    "we can't afford more than {0}",
    "please don't go over {0}",
    "for less than {0}",
    "under {0}",
    "at most {0}",
    "anything above {0} is too much",
)
MONEY = {
    "$40": "40 usd",
    "40 dollars": "40 usd",
    "40 bucks": "40 usd",
    "€40": "40 eur",
    "40 euros": "40 eur",
    "40 quid": "40 gbp",
    "£40": "40 gbp",
}


@pytest.mark.parametrize("limit", LIMITS)
def test_money_is_the_budget_in_any_verb(limit: str) -> None:
    for said, meant in MONEY.items():
        budget = read(f"{JOB}, {limit.format(said)}").wishes["budget"]
        assert parse_money(budget) == parse_money(meant), said


@pytest.mark.parametrize(
    "limit", ["千万别超过{0}", "不想花超过{0}", "总价不得高于{0}", "花费不要超过{0}", "预算{0}以内", "最好控制在{0}以内"]
)
@pytest.mark.parametrize("money", ["300元", "300块"])
def test_money_is_the_budget_in_any_chinese_verb(limit: str, money: str) -> None:
    assert parse_money(read(f"LoRA微调Qwen2.5-7B，1万条，{limit.format(money)}").wishes["budget"]) == parse_money("300元")


PLACES = {
    "the EU": ("residency", "eu"),
    "Germany": ("country", "DE"),
    "Japan": ("country", "JP"),
    "the UK": ("country", "GB"),
    "Canada": ("country", "CA"),
}
KEPT = (
    "the recordings must not leave {0}",
    "patient data may not leave {0}",
    "our data can't leave {0}",
    "documents never leave {0}",
    "the data is not allowed to leave {0}",
    "all data has to remain in {0}",
    "everything needs to stay within {0}",
    "audio must be kept in {0}",
    "it has to be processed in {0}",
    "they may not be moved out of {0}",
    "data must stay in {0}",
    "under no circumstances may the files leave {0}",
    "nothing must be sent outside {0}",
)


@pytest.mark.parametrize("turn", KEPT)
def test_where_data_stay_is_where_they_are_worked_on(turn: str) -> None:
    for place, (option, value) in PLACES.items():
        found = read(f"{JOB}; {turn.format(place)}")
        assert found.wishes[option] == value, place
        assert "avoid" not in found.wishes, place


@pytest.mark.parametrize(
    "turn",
    [
        "数据不能出境",
        "数据不许出境",
        "录音不得离开中国大陆",
        "数据必须留在国内",
        "数据不可以出国",
        "资料只能存放在境内",
        "内容不能传到国外",
        "客户数据严禁传出境外",
    ],
)
def test_data_stay_in_china(turn: str) -> None:
    assert read(f"LoRA微调Qwen2.5-7B，1万条，{turn}").wishes["residency"] == "cn-mainland"


RATES = (
    "each should see at least {0} tokens per second",
    "each user gets at least {0} tokens/s",
    "everybody should have {0} tokens a second",
    "no user should get less than {0} tokens per second",
    "{0} tok/s for everyone",
    "{0} tokens per second per user",
    "at {0} tokens/s each",
    "streaming at {0} tokens per second to every user",
)


@pytest.mark.parametrize("turn", RATES)
def test_a_rate_of_one_user_is_the_time_of_a_token(turn: str) -> None:
    for rate, tpot in ((10, "100ms"), (25, "40ms"), (50, "20ms")):
        found = read(f"{SERVICE}, {turn.format(rate)}")
        assert found.wishes["tpot"] == tpot
        assert found.wishes["users"] == "40"


def test_a_rate_of_a_whole_service_is_asked_about() -> None:
    assert understand(f"{SERVICE}, 3000 tokens per second in total", today=FRIDAY).weighty


@pytest.mark.parametrize("name", ["42B-A4B", "99B-A9B", "77b a7b"])
def test_a_mixture_that_nobody_knows_is_never_a_dense_model(name: str) -> None:
    found = understand(f"serve {name} to 10 users", today=FRIDAY)
    assert found.wishes["model"] == name.upper().replace(" ", "-")
    assert not found.weighty


@pytest.mark.parametrize("amount", ["10B tokens", "7 billion tokens", "500M tokens"])
@pytest.mark.parametrize("turn", ["{0} of {1}", "{0} from {1}", "a {0} sample of {1}", "{1}, {0}"])
def test_an_amount_of_a_data_set_is_the_amount(turn: str, amount: str) -> None:
    for name in ("FineWeb", "FineWeb-Edu", "The Pile", "SlimPajama", "C4"):
        found = read(f"pretrain a 350M model on {turn.format(amount.replace('tokens', 'token') if 'sample' in turn else amount, name)}")
        assert found.wishes["data"].startswith(amount.split("tokens")[0].strip()), name
        assert name in found.unused


STORES = (
    ("S3", "us-west-2", "aws"),
    ("GCS", "europe-west4", "gcp"),
    ("Azure Blob Storage", "westeurope", "azure"),
    ("OSS", "cn-hangzhou", "alicloud"),
)


@pytest.mark.parametrize(("store", "region", "cloud"), STORES)
@pytest.mark.parametrize(
    "turn", ["they sit in {0} in {1}", "stored in {0} {1}", "the data is in {0} ({1})", "数据放在{0}的{1}", "图片存在{0} {1}"]
)
def test_data_sit_in_a_region_and_the_server_is_free(turn: str, store: str, region: str, cloud: str) -> None:
    found = read(f"train resnet50 on 2 million images, {turn.format(store, region)}")
    assert found.wishes["data_location"] == f"{cloud}/{region}"
    assert not {"region", "cloud"} & set(found.wishes)


@pytest.mark.parametrize(("store", "region", "cloud"), STORES)
@pytest.mark.parametrize("turn", ["images that sit in {0}", "images, the data is in {0}", "images. 数据放在{0}上", "images. 图片都存在{0}"])
def test_a_store_without_its_region_chooses_its_cloud_and_says_so(turn: str, store: str, region: str, cloud: str) -> None:
    found = understand(f"train resnet50 on 2 million {turn.format(store)}", today=FRIDAY)
    assert found.wishes["cloud"] == cloud
    assert not found.weighty
    assert any(store in one.text("en") for one in found.assumed)


@pytest.mark.parametrize(("store", "region", "cloud"), STORES)
def test_a_store_beside_the_name_of_another_cloud_is_asked_about(store: str, region: str, cloud: str) -> None:
    other = "Lambda"
    found = understand(f"train resnet50 on 2 million images on {other}, the data is in {store}", today=FRIDAY)
    assert found.wishes["cloud"].casefold() == "lambda"
    assert found.weighty


@pytest.mark.parametrize("model", ["Qwen2.5-7B", "Llama-3-8B", "Mistral-7B"])
def test_training_of_a_large_model_says_that_it_is_planned_from_scratch(model: str) -> None:
    def says(sentence: str) -> bool:
        return any("from scratch" in one.text("en") for one in understand(sentence, today=FRIDAY).assumed)

    assert says(f"训练{model}")
    assert says(f"train {model} in two days")
    for sentence in (f"从头训练{model}", f"pretrain {model}", f"微调{model}", f"训练{model},100亿token", "训练resnet50"):
        assert not says(sentence), sentence


KINDS = (("text", "文本", "tokenize"), ("images", "图片", "resize-images"), ("tables", "表格", "features"))


@pytest.mark.parametrize(("english", "chinese", "operation"), KINDS)
def test_preparation_without_a_verb_is_the_usual_one_of_its_data(english: str, chinese: str, operation: str) -> None:
    for sentence in (f"preprocess 200 GB of {english}", f"数据预处理 50GB {chinese}", f"50GB的{chinese}要预处理"):
        found = understand(sentence, today=FRIDAY)
        assert (found.wishes["task"], found.wishes["operation"]) == ("prepare", operation), sentence
        assert any(operation in one.text("en") for one in found.assumed)


@pytest.mark.parametrize("library", ["scikit-learn", "Scikit-Learn"])
def test_a_library_that_prepares_nothing_trains_or_is_noted(library: str) -> None:
    assert understand(f"{library} 特征工程和训练,2GB CSV", today=FRIDAY).wishes["task"] == "train"
    for name in ("polars", "duckdb"):
        assert understand(f"用{name}做特征工程,2GB CSV", today=FRIDAY).wishes["task"] == "prepare"


@pytest.mark.parametrize(
    "rows", ["10M users and 2M items", "2M users, 200k movies", "140k customers on 27k products", "1000万用户，200万商品"]
)
@pytest.mark.parametrize("kind", ["two-tower recommender", "matrix factorization", "collaborative filtering", "双塔模型"])
def test_users_and_items_are_rows_and_no_load(kind: str, rows: str) -> None:
    found = read(f"train a {kind} with 100M interactions, {rows}")
    assert found.wishes["data"] == "100M interactions"
    assert not {"users", "model"} & set(found.wishes)
    assert found.kind == "recommendation"
    assert "embedding tables" in found.assumed[0].text("en")


@pytest.mark.parametrize("turn", ["I don't want quantization", "without quantization", "no quantizing please", "unquantized", "不要量化"])
def test_quantization_that_is_not_wanted(turn: str) -> None:
    assert read(f"{SERVICE}, {turn}").wishes["quantization"] == "none"


@pytest.mark.parametrize("number", ["250M", "7B", "1.5B"])
def test_a_number_with_its_noun_is_no_size_of_a_model(number: str) -> None:
    assert "model" not in understand(f"train on {number} zephyranths", today=FRIDAY).wishes
    assert understand(f"train a {number} model on 20k samples", today=FRIDAY).wishes["model"] == number


@pytest.mark.parametrize("turn", ["the day after tomorrow", "by the day after tomorrow", "后天之前完成", "后天要用"])
def test_the_day_after_tomorrow_is_a_deadline(turn: str) -> None:
    assert read(f"{JOB}, {turn}").wishes["deadline"] == "48h"


UNSURE = (
    "I don't know which GPU to take",
    "I can't decide between clouds",
    "I don't have a GPU",
    "we haven't got a cluster",
    "I'm not sure what I need",
    "isn't there something cheaper",
    "it doesn't matter which cloud",
)


@pytest.mark.parametrize("turn", UNSURE)
def test_who_does_not_know_or_have_denies_nothing(turn: str) -> None:
    assert not {"avoid", "gpu"} & set(read(f"{turn}, {JOB}").wishes)
