"""What a visitor may type or send: one clear line in their language, nothing read,
nothing run, no trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from nicegui.testing import User
from tests.web.conftest import MARKET, one, sees, settled, texts

from rightfit.web.answers import Answers
from rightfit.web.words import word

BASE = "/?task=finetune&method=lora&data=50k+samples"


@pytest.mark.parametrize(("lang", "said"), [("en", "Did you mean"), ("zh", "没有名为")])
def test_an_unknown_model_is_a_line_by_its_field(visit: Any, lang: str, said: str) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{BASE}&model=Lama-3-9Z&lang={lang}")
        await sees(user, word("error.heading", lang))
        field = one(user, "field-model")
        assert field.props["error"] is True
        assert said.casefold() in field.props["error-message"].casefold()
        assert "Traceback" not in " ".join(texts(user))

    visit(steps)


NONSENSE = {"deadline": "-3h", "budget": "many", "data": "💥", "cloud": "narnia", "seq_len": "1e99", "purchase": "<b>"}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nonsense_in_any_field_is_told(visit: Any, lang: str) -> None:
    async def steps(user: User) -> None:
        for field, value in NONSENSE.items():
            query = {"model": "7B", "task": "finetune", "method": "lora", "data": "50k samples", field: value, "lang": lang}
            await user.open(f"/?{urlencode(query)}")
            await sees(user, word("error.heading", lang))
            assert one(user, f"field-{field}").props["error"] is True

    visit(steps)


MARKUP = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "{{7*7}}",
    "javascript:alert(1)",
    "'; DROP TABLE prices; --",
)


def test_markup_stays_text(visit: Any) -> None:
    async def steps(user: User) -> None:
        from nicegui import ElementFilter, ui

        for text in MARKUP:
            await user.open(f"{BASE}&{urlencode({'model': text, 'lang': 'en'})}")
            await sees(user, word("error.heading", "en"))
            assert one(user, "field-model").value == text
            with user:
                assert not list(ElementFilter(kind=ui.html))

    visit(steps)


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_of_this_machine_is_read_for_a_visitor(visit: Any, tmp_path: Path, lang: str) -> None:
    secret = tmp_path / "config.json"
    secret.write_text('{"model_type": "llama", "hidden_size": 123457}', encoding="utf-8")
    table = tmp_path / "profile.csv"
    table.write_text("\n".join(["987.25"] * 24), encoding="utf-8")

    async def steps(user: User) -> None:
        for query in (
            f"model={secret}",
            f"model={tmp_path}",
            "model=os:getcwd",
            f"model=7B&task=serve&users=5&profile={table}",
            "model=nobody/no-such-model-x",
        ):
            await user.open(f"/?task=finetune&data=1Mtok&{query}&lang={lang}")
            await sees(user, word("error.heading", lang))
            shown = " ".join(texts(user))
            assert "123457" not in shown
            assert "987.25" not in shown
            assert "no such file" not in shown.casefold()

    visit(steps)


def test_files_cannot_even_be_named() -> None:
    from rightfit.web.forms import WISHES, PageState

    assert "trace" not in WISHES
    assert PageState.from_query({"trace": "/etc/passwd", "input_shape": "3x3"}).wishes == {}


def test_a_wish_that_nothing_fulfils_says_why(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{BASE}&model=Llama-3-70B&gpu=T4&max_nodes=1&deadline=1h&lang=en")
        await user.should_not_see(marker="card-1")
        for _ in range(60):
            if any("Refused" in text for text in texts(user)):
                return
            import asyncio

            await asyncio.sleep(0.1)
        raise AssertionError(texts(user))

    visit(steps)


def test_a_failure_of_ours_shows_a_number_and_never_a_trace(visit: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Answers):
        async def plan(self, wishes: Any) -> Any:
            def fail() -> Any:
                raise ZeroDivisionError("secret of the house")

            return await self.ask(("broken",), fail)

    async def steps(user: User) -> None:
        await user.open(f"{BASE}&model=7B&lang=zh")
        await sees(user, word("error.heading", "zh"))
        shown = " ".join(texts(user))
        assert "secret of the house" not in shown
        number = next(text for text in texts(user) if "日志编号" in text).rstrip("。").split()[-1]
        assert number in caplog.text

    visit(steps, Broken(market=MARKET))


def test_a_full_house_says_so(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"{BASE}&model=7B&lang=en")
        await sees(user, word("error.busy", "en", seconds=1))

    visit(steps, Answers(market=MARKET, most_waiting=0))


def test_very_long_values_are_cut(visit: Any) -> None:
    async def steps(user: User) -> None:
        await user.open(f"/?ask={'x' * 5000}&model={'y' * 5000}&lang=en")
        await settled(user, "sentence")
        assert len(one(user, "sentence").value) <= 2000
        assert len(one(user, "field-model").value) <= 300

    visit(steps)
