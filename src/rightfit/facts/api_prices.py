"""Published prices of token APIs for a model: facts/data/api_prices.csv, matched by name, or by
family and size where the model itself has none."""

from __future__ import annotations

import functools
import re

from rightfit.facts.tables import filled, table
from rightfit.records import dataclass

_ORNAMENTS = re.compile(
    r"[-_. ](instruct|chat|it|hf|base|turbo|fp8|fp16|bf16|tput|awq|gptq|gguf|preview|v\d+(\.\d+)?|\d{4})(?=$|[-_. ])|^meta[-_]",
    re.IGNORECASE,
)
_SIZE = re.compile(r"(?<![a-z\d.])(\d+x)?(\d+(?:\.\d+)?)b(?:[-_]a(\d+(?:\.\d+)?)b)?(?![a-z])", re.IGNORECASE)
_FAMILY = re.compile(r"[a-z]+", re.IGNORECASE)
#: Parts of a name that say what a model takes beside text: one that takes images is not priced by
#: one that does not.
_SENSES = re.compile(r"(?<![a-z])(vl|vlm|vision|omni|audio|ocr)(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ApiPrice:
    """A price of an API [USD per million tokens]. `match`: "user" (given by the user), "same" (this
    model) or "similar" (same family and size)."""

    model: str
    provider: str
    input_usd_per_million: float
    output_usd_per_million: float
    as_of: str
    source: str
    match: str
    note: str = ""

    def usd_of(self, input_tokens: float, output_tokens: float) -> float:
        """Price of so many tokens [USD]."""
        return (input_tokens * self.input_usd_per_million + output_tokens * self.output_usd_per_million) / 1e6


def bare_name(model: str) -> str:
    """A model's name without its organisation and what fine-tuning, dates and number
    formats add to it."""
    last, previous = model.rsplit("/", 1)[-1].casefold(), ""
    while last != previous:
        previous, last = last, _ORNAMENTS.sub("", last)
    return re.sub(r"[-_. ]+", "-", last)


def family_and_size(model: str) -> tuple[str, str]:
    """ "llama" and "8" of Meta-Llama-3.1-8B-Instruct; "8x7" for a mixture, "30-3" where the active
    part is named, "qwen-senses" for one that sees or hears; empty where a name has none."""
    bare = bare_name(model)
    size, family = _SIZE.search(bare), _FAMILY.match(bare)
    if size is None or family is None:
        return "", ""
    senses = "-senses" if _SENSES.search(bare) else ""
    return family[0] + senses, f"{size[1] or ''}{float(size[2]):g}{'-' + size[3] if size[3] else ''}"


@functools.cache
def _rows() -> tuple[tuple[str, tuple[str, str], dict[str, str]], ...]:
    return tuple((bare_name(row["model"]), family_and_size(row["model"]), row) for row in table("api_prices"))


def api_prices(model: str) -> tuple[ApiPrice, ...]:
    """All published prices of a model; where there is none, those of models of its family and
    size; else nothing."""
    name, kin = bare_name(model), family_and_size(model)
    same = [(row, "same") for bare, _, row in _rows() if bare == name]
    similar = [(row, "similar") for _, other, row in _rows() if kin[0] and other == kin]
    notes = ("quantization", "note")
    found = same or similar
    return tuple(filled(ApiPrice, row, match=match, note="; ".join(row[name] for name in notes if row[name])) for row, match in found)
