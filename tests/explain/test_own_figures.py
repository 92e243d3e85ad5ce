"""Figures of the asker's own are reckoned with, whatever their order, money and language."""

from __future__ import annotations

import pytest

from rightfit.explain.own_figures import own_question
from rightfit.explain.questions import asked_first
from rightfit.search.offers import open_priced

HOURS = 730.0


@pytest.mark.parametrize("committed", [1.2, 1.9, 2.6])
@pytest.mark.parametrize("flexible", [2.0, 2.8, 4.5])
@pytest.mark.parametrize("share", [20, 60, 95])
@pytest.mark.parametrize(
    "form",
    [
        "reserved 1yr H100 at {c}/h vs on demand {f}, where is break-even? I use it {s}% of the time",
        "we pay ${f} an hour on demand for an H100, a 1-year commit is ${c}/h, which is better at {s}% utilization?",
        "预留每小时{c}美元，按需每小时{f}美元，利用率{s}%，哪个划算",
    ],
)
def test_two_prices_break_even_where_they_cost_the_same(form: str, committed: float, flexible: float, share: int) -> None:
    found = own_question(form.format(c=committed, f=flexible, s=share), open_priced())
    assert found is not None
    assert found.facts["share"] == pytest.approx(committed / flexible)
    assert found.facts["used_hours"] == pytest.approx(share / 100 * HOURS)
    is_flexible = share / 100 * flexible <= committed
    if committed < flexible:
        assert ("Take on demand" in found.explanation_en) == is_flexible
        assert ("选按量" in found.explanation_zh.splitlines()[1]) == is_flexible


@pytest.mark.parametrize(
    ("sentence", "hours"),
    [
        ("4090包月1200，按量2.2一小时，我每天用5小时，哪个划算", 1200 / 2.2),
        ("A100 monthly plan $1,100/month or $2.2/hr hourly, cheaper for 9 hours a day on weekdays?", 500.0),
        ("按量3.5元/小时，月租1750元/月，一个月用400小时选哪个", 500.0),
        ("买一张4090要1.6万，租的话2元一小时，多久回本", 8000.0),
        ("a 3090 costs $700 used, renting is $0.25/hr. when does buying pay off?", 2800.0),
    ],
)
def test_prices_for_a_month_and_for_good(sentence: str, hours: float) -> None:
    found = own_question(sentence, open_priced())
    assert found is not None
    assert found.facts["hours"] == pytest.approx(hours)


@pytest.mark.parametrize(
    ("sentence", "totals"),
    [
        ("8x H100 at $2.49/hr for 3 days, how much in total?", [2.49 * 72 * 8]),
        ("2.5刀一小时跑72小时多少钱", [180.0]),
        ("租8张A100每卡每小时12元，跑5天一共多少钱", [12 * 8 * 120.0]),
        ("cheaper: H100 at $2.5/h for 10 hours or 4090 at $0.4/h for 55 hours?", [25.0, 22.0]),
    ],
)
def test_a_price_over_a_time(sentence: str, totals: list[float]) -> None:
    found = own_question(sentence, open_priced())
    assert found is not None
    assert found.facts["totals"] == pytest.approx(totals)


@pytest.mark.parametrize(
    ("sentence", "seconds"),
    [
        ("10000 steps at 1.8 s/step, how long and what at $2.10/h?", 18000.0),
        ("每步2.3秒，要跑5万步，多久跑完", 115000.0),
        ("200M tokens at 2500 tok/s how many hours?", 80000.0),
        ("50万张图每秒处理40张要多久", 12500.0),
        ("1.2M images, 400 images/sec, how long for one epoch?", 3000.0),
        ("10亿token，每秒5000token要几天", 200000.0),
    ],
)
def test_an_amount_at_a_rate(sentence: str, seconds: float) -> None:
    found = own_question(sentence, open_priced())
    assert found is not None
    assert found.facts["seconds"] == pytest.approx(seconds)


@pytest.mark.parametrize(
    "sentence",
    [
        "how much is an H100 per hour?",
        "LoRA 7B on 10M tokens, budget $50, how long?",
        "A100包月多少钱",
        "fine-tune Qwen2.5-7B on 20k samples within 6 hours, what does it cost?",
        "4090包月便宜还是按量便宜，我每天大概用6小时",
    ],
)
def test_questions_without_two_figures_are_left_to_others(sentence: str) -> None:
    assert own_question(sentence, open_priced()) is None


def test_the_command_answers_with_them() -> None:
    found = asked_first("reserved at 1.90/h vs on demand 2.80/h, where is break-even?")
    assert found is not None
    assert "68%" in found.explanation_en
