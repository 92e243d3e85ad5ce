"""Twenty lines by default, in every family and both languages; the choice alone with --quiet,
everything with --verbose."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from rightfit.cli import main
from rightfit.market.sellers import is_major

ROOT = Path(__file__).parents[2]
KINDS: dict[str, dict[str, Any]] = tomllib.loads((ROOT / "tests" / "data" / "options.toml").read_text(encoding="utf-8"))["kinds"]
MOST_LINES = 20


def arguments(wish: dict[str, Any]) -> list[str]:
    options = [
        word for name, value in wish.items() if name not in ("model", "cloud") for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    return ["plan", *([wish["model"]] if "model" in wish else []), *options]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) in (0, 1)
    return capsys.readouterr().out


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def servers_of(text: str) -> list[str]:
    """The servers of the table, by rank."""
    rows = [line.split() for line in text.splitlines() if line[:1].isdigit() and "/" in line]
    return [next(word for word in row[1:] if "/" in word) for row in rows]


@pytest.fixture(autouse=True)
def _narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


@pytest.mark.parametrize("lang", ["en", "zh"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_is_twenty_lines(kind: str, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, *arguments(KINDS[kind]), "--lang", lang)
    lines = lines_of(text)
    assert len(text.splitlines()) <= MOST_LINES, text
    assert ("Rent " if lang == "en" else "租用") in lines[0] or "API" in lines[0]
    assert lines[-1].startswith(("Next: ", "下一步：")) or lines[-2].startswith(("Next: ", "下一步："))
    servers = servers_of(text)
    # A warning that matters takes the place of a row.
    assert len(servers) == 3 or (len(servers) == 2 and ("Caution" in text or "请注意" in text)), text
    named = re.findall(r"([a-z]+)/[\w.-]+", " ".join(servers) + " " + "".join(lines[-2:]))
    assert any(is_major(provider) for provider in named), text


@pytest.mark.parametrize("kind", KINDS)
def test_quiet_is_the_choice_alone(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole, quiet = (printed(capsys, *arguments(KINDS[kind]), *more) for more in ((), ("--quiet",)))
    assert len(quiet.splitlines()) <= 3  # the choice, with the day and the interval of its price
    assert "".join(quiet.split()) in "".join(whole.split())


@pytest.mark.parametrize(
    "words",
    [
        "7B --data 5Mtok --budget 0.01usd",
        "Qwen/Qwen2.5-1.5B-Instruct --task serve --ttft 1ms",
        "xgboost --data 1Mrows --columns 20 --deadline 1s",
    ],
)
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_nothing_to_rent_is_said_in_twenty_lines(words: str, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, "plan", *shlex.split(words), "--lang", lang)
    assert 1 < len(text.splitlines()) <= MOST_LINES, text


def test_the_number_of_options_asked_for_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(servers_of(printed(capsys, "plan", "7B", "--data", "5Mtok", "--top", "7"))) == 7


def test_verbose_holds_what_the_short_answer_holds_and_more(capsys: pytest.CaptureFixture[str]) -> None:
    wish = arguments(KINDS["language/adapters"])
    short, whole = (printed(capsys, *wish, *more) for more in ((), ("--verbose",)))
    assert lines_of(short)[0] in whole
    assert len(lines_of(whole)) > 3 * len(lines_of(short))


def test_a_cheaper_api_is_the_first_line(capsys: pytest.CaptureFixture[str]) -> None:
    wish = ("plan", "Qwen/Qwen2.5-7B-Instruct", "--task", "serve", "--rate", "0.01/s")
    for more in ((), ("--verbose",)):
        assert "at any volume" in printed(capsys, *wish, "--api-price", "0.0001/0.0001", *more).split("\n\n")[0]
        assert "at any volume" not in printed(capsys, *wish, "--api-price", "900/900", *more).split("\n\n")[0]


def commands_of(page: str) -> list[str]:
    """Every plan that a page shows, in blocks and in sentences."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return list(
        dict.fromkeys(
            found.strip() for found in re.findall(r"(?:^\$ |`)(rightfit plan [^`\n]*[^`\n.])", text, re.MULTILINE) if "..." not in found
        )
    )


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_every_plan_of_the_first_page_has_twenty_lines(
    page: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("axolotl.yaml").write_text("base_model: NousResearch/Meta-Llama-3-8B\nadapter: lora\nsequence_len: 2048\nmicro_batch_size: 2\n")
    commands = commands_of(page)
    assert len(commands) >= 2
    for command in commands:
        assert len(printed(capsys, *shlex.split(command)[1:]).splitlines()) <= 20, command


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_read_one_two_three_and_the_first_of_another_kind_is_named(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, *arguments(KINDS[kind]))
    ranks = [int(line.split()[0]) for line in out.splitlines() if line[:1].isdigit() and "/" in line]
    assert ranks in ([1, 2, 3], [1, 2]), out
    following = out[out.rindex("Next:") :].replace("\n", " ")
    if found := re.search(r"--top (\d+) \(down to (?:\d+ x )?([a-z]+/[\w.-]+) for", following):
        assert int(found[1]) > len(ranks)
        listed = printed(capsys, *arguments(KINDS[kind]), "--top", found[1])
        assert found[2] in servers_of(listed)[-1] or found[2][:20] in servers_of(listed)[-1]


def test_all_options_are_shown_where_none_is_the_number(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(servers_of(printed(capsys, "plan", "gpt2", "--data", "10Mtok", "--top", "0"))) > 100


@pytest.mark.parametrize(
    ("words", "lang", "first"),
    [
        ("Llama-3-8B --data 20ksamples --method qlora --have 2xRTX-3090@home", "en", "Run on your own 2x-RTX-3090-home (home)"),
        ("Llama-3-8B --data 20ksamples --method qlora --have 2xRTX-3090@home", "zh", "用自有的 2x-RTX-3090-home"),
        ("Llama-3-8B --task serve --rate 1/s --have 2xRTX-3090@home", "en", "Run on your own 2x-RTX-3090-home (home)"),
    ],
)
def test_nobody_rents_a_machine_that_he_has(words: str, lang: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    out = printed(capsys, "plan", *words.split(), "--lang", lang)
    assert out.startswith(first)


def test_a_card_without_a_price_is_named_where_several_servers_do_its_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = printed(
        capsys, "plan", "deepseek-ai/DeepSeek-R1", "--task", "serve", "--users", "100", "--country", "CN", "--quantization", "none"
    )
    assert "publishes no price for" in out
    servers = [int(line.split("x ")[0].split()[-1]) if "x " in line.split("/")[0] else 1 for line in out.splitlines() if line[:1].isdigit()]
    assert max(servers) < 4 * servers[0], "no crowd of old cards at prices of years ago beside the choice"
