"""What a day must do, lengths of clips and recordings, deadlines that are told twice, parts of
China, and kinds of work, in many spellings."""

from __future__ import annotations

import itertools

import pytest

from rightfit.market.names import Region, find_regions
from rightfit.workload.ask import understand

FILMS = {
    "en": [
        f"Make {n} {what} {per} day with Wan2.1 14B at 720p{each}"
        for n, what, per, each in itertools.product(
            ("200", "1,000"), ("clips", "videos"), ("per", "a", "every"), (", 5 seconds each", ", each 5 seconds long")
        )
    ],
    "zh": [
        f"用 Wan2.1 14B 文生视频，720P，{each}，每天{how}{n}条。"
        for n, how, each in itertools.product(
            ("200", "1000"), ("", "大概", "大概要出", "要生成", "需要"), ("每条5秒", "单条约5秒", "5秒一条")
        )
    ]
    + ["用 Wan2.1 14B 每天生成200条5秒视频，一个月大概多少钱"],
}


@pytest.mark.parametrize("lang", FILMS)
def test_films_of_a_day_are_made_within_it(lang: str) -> None:
    wrong = []
    for said in FILMS[lang]:
        found = understand(said).wishes
        amount = found.get("data", "").replace(",", "").rstrip("clips条 ")
        if (amount, found.get("deadline"), found.get("task"), found.get("frames")) != (
            "200" if "200" in said else "1000",
            "24h",
            "batch",
            "81",
        ):
            wrong.append((said, found))
    assert not wrong


@pytest.mark.parametrize(
    "said",
    [
        "serve Whisper for 200 hours of audio per day, latency not important",
        "run whisper-large-v3 over 200 hours of calls every day",
        "transcribe 200 hours of podcasts each day with whisper-large-v3",
        "用 whisper-large-v3 每天转写200小时的录音，延迟不重要",
        "每天200小时录音，whisper-medium 转写",
    ],
)
def test_hours_of_sound_of_a_day_are_worked_off_within_it(said: str) -> None:
    found = understand(said)
    assert {name: found.wishes[name].replace("小时", " hours") for name in ("task", "data", "deadline")} == {
        "task": "batch",
        "data": "200 hours",
        "deadline": "24h",
    }
    assert not found.weighty


def test_what_is_answered_at_once_stays_a_service() -> None:
    found = understand("real-time transcription service with whisper-medium, 20 concurrent streams")
    assert found.wishes["task"] == "serve"


@pytest.mark.parametrize("seconds", ["4", "6"])
@pytest.mark.parametrize("head", ["生成", "批量生成", "做", "出"])
def test_counted_clips_are_data(head: str, seconds: str) -> None:
    for counter in "段个条":
        found = understand(f"用 CogVideoX-5B {head} 2000 {counter} {seconds} 秒视频，48 小时内出完，按量付费。").wishes
        assert found["data"].startswith("2000")
        assert found["frames"] == str(int(seconds) * 8 + 1)
        assert "output_tokens" not in found


@pytest.mark.parametrize("each", ["每段 5 秒", "每条录音5秒", "单条约 5 秒", "每段语音大约5秒"])
def test_seconds_of_each_recording_are_its_length(each: str) -> None:
    found = understand(f"用 whisper-medium 做实时语音识别服务，{each}，高峰 100 路并发，延迟要 1 秒以内。").wishes
    assert found["audio_length"].replace(" ", "") == "5秒"
    assert found["latency"].replace(" ", "") == "1秒"


TWICE = (
    "by tomorrow evening (24 h)",
    "by tomorrow morning (in 24 hours)",
    "by tomorrow evening, that is 24 hours from now",
    "by Friday (24h)",
    "by tomorrow noon (about 24 h from now)",
)


@pytest.mark.parametrize("said", TWICE)
def test_a_deadline_told_twice_is_its_number(said: str) -> None:
    found = understand(f"Transcribe 5,000 hours of audio with Whisper large-v3 {said}.")
    assert found.wishes["deadline"].replace("hours", "h").replace(" ", "") == "24h"
    assert not found.weighty


REGIONS = tuple(
    Region(
        provider="alicloud", region=code, country="CN", continent="Asia", city=city, display_en=f"China ({city})", display_zh="", source=""
    )
    for code, city in (
        ("cn-shanghai", "Shanghai"),
        ("cn-hangzhou", "Hangzhou"),
        ("cn-shenzhen", "Shenzhen"),
        ("cn-beijing", "Beijing"),
        ("cn-chengdu", "Chengdu"),
    )
)


@pytest.mark.parametrize(
    ("said", "cities"),
    [
        ("华东", {"Shanghai", "Hangzhou"}),
        ("华东地区", {"Shanghai", "Hangzhou"}),
        ("East China", {"Shanghai", "Hangzhou"}),
        ("华南", {"Shenzhen"}),
        ("华北", {"Beijing"}),
        ("西南", {"Chengdu"}),
    ],
)
def test_a_part_of_china_is_the_regions_in_it(said: str, cities: set[str]) -> None:
    assert {one.city for one in find_regions(said, REGIONS)} == cities
    wish = "部署 Qwen2.5-7B，每秒 2 个请求，机房要在{}。" if said[0] > "z" else "Serve Qwen2.5-7B at 2 requests/s in {}"
    assert understand(wish.format(said)).wishes["region"] == said


@pytest.mark.parametrize("kind", ["CTR", "ctr", "click-through rate", "CTR prediction"])
def test_a_kind_of_recommender_says_nothing_beside_its_model(kind: str) -> None:
    found = understand(f"Train a {kind} model (DeepFM) on 500 million click records, budget $50")
    assert not found.weighty
    assert found.wishes["model"] == "DeepFM"
