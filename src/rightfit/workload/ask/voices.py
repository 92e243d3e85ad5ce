"""Models that speak, of which nothing is known here, tuned on somebody's recordings: planned as a
language model of their size over the tokens of sound, as the answer says.
"""

from __future__ import annotations

from rightfit.facts import tables
from rightfit.messages import Message
from rightfit.units import SECONDS_PER_HOUR, format_count, parse_count, parse_duration
from rightfit.workload.ask import grammar
from rightfit.workload.ask.sentence import Reading, Sentence

VOICE = tables.shape("names", r"(?<![A-Za-z])(?:(?P<name>{voice_maker})|{voice_kind})(?![a-z])|{voice_kind}(?<=[一-鿿])", ignore_case=True)
_TUNES = grammar.shape(r"(?<![A-Za-z]){voice_tuned}(?![a-z])|{voice_tuned}(?<=[一-鿿])")
_MAKES = grammar.shape(r"(?<![A-Za-z]){voice_made}(?![a-z])|{voice_made}(?<=[一-鿿])")
"""What is done with a voice that is there."""
_LENGTH = grammar.shape(
    r"(?<![\w.])(?P<value>{amount}[\s-]?{voice_unit})(?![a-z])(?:\s(?:{lasting}\s)?(?:[a-z]+\s){0,3}?(?:{sound}|{recorded_voice}))?|(?P<zh>{amount}\s*{voice_unit_zh})(?:的?[一-鿿]{0,3}?(?:{sound_zh}|{recorded_voice_zh}))?"
)
_LIMIT = grammar.shape(r"(?:{deadline_head}|(?<![a-z]){limit_head}|{most})\s*$")


def read_voice(sentence: Sentence) -> None:
    """A model that speaks, tuned on so long a recording. One that only speaks is no wish of this
    kind."""
    found = list(VOICE.finditer(sentence.text))
    if sentence.has("model") or not found or not _TUNES.search(sentence.whole) or _MAKES.search(sentence.whole):
        return
    usual = tables.coefficients("planning")
    named = next((one for one in found if one["name"]), found[0])
    name, sized = named[0], grammar.BARE_SIZE.search(sentence.text)
    size = parse_count(sized["latin"].replace(" ", "")) if sized and sized["latin"] else usual["voice_params"]
    sentence.take(*named.span(), "model", f"{size / 1e9:g}B" if size >= 1e9 else f"{size / 1e6:.0f}M")
    for again in [*(one for one in found if one is not named), *((sized,) if sized else ())]:
        sentence.blank(*again.span())
    told = next((one for one in _LENGTH.finditer(sentence.text) if not _LIMIT.search(sentence.text[: one.start()])), None)
    seconds = parse_duration((told["value"] or told["zh"]).replace("-", " ")) if told else usual["voice_s"]
    tokens = seconds * usual["voice_tokens_per_s"]
    value, epochs = f"{tokens:.0f} tokens", f"{usual['voice_epochs']:g}"
    if told:
        sentence.take(*told.span(), "data", value)
    else:
        sentence.readings.append(Reading("data", value, ""))
    for option, one in (("epochs", epochs), ("method", "full"), ("seq_len", "1024")):
        if not sentence.has(option) and not (option == "epochs" and grammar.EPOCHS.search(sentence.text)):
            sentence.readings.append(Reading(option, one, ""))
    for again in list(_TUNES.finditer(sentence.text)):
        sentence.blank(*again.span())
    fields = {
        "name": name,
        "size": format_count(size),
        "length": told[0].strip() if told else f"{seconds / SECONDS_PER_HOUR:g} h",
        "tokens": format_count(tokens),
    }
    sentence.assumed.append(Message("workload.assumed_voice", **fields, epochs=epochs))


def speaks(text: str) -> list[str]:
    """The models that speak which a text names."""
    return list(dict.fromkeys(found[0] for found in VOICE.finditer(text)))


__all__ = ["VOICE", "read_voice", "speaks"]
