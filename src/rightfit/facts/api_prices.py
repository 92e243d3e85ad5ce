"""Published prices of token APIs for a model: facts/data/api_prices.csv, matched by name, or by
family and size where the model itself has none."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

from rightfit.facts.tables import filled, table
from rightfit.records import dataclass

_ORNAMENTS = re.compile(
    r"[-_. ](instruct|chat|it|hf|base|turbo|fp8|fp16|bf16|int[48]|nvfp4|w4a16|w8a8|tput|awq|gptq|gguf|preview|\d{4})(?=$|[-_. ])|^meta[-_]"
    # a version after the size is a release of one model; without a size it names the model
    r"|(?<=\db)[-_. ]v\d+(\.\d+)?(?=$|[-_. ])",
    re.IGNORECASE,
)
_GENERATION = re.compile(r"^([a-z]{3,})(?=\d)")
#: "llama-v3" of some lists is Llama 3; a family whose versions begin so (DeepSeek-V3) keeps it.
_VERSION = re.compile(r"(?<=^llama-)v(?=\d)")
_MAJOR = re.compile(r"-v?(\d+)(?![\dbx])(?!\.\d*b)")
_SIZE = re.compile(r"(?<![a-z\d.])(\d+x)?(\d+(?:\.\d+)?)b(?:[-_]a(\d+(?:\.\d+)?)b)?(?![a-z])", re.IGNORECASE)
_FAMILY = re.compile(r"[a-z]+", re.IGNORECASE)
_NEAR = 1.5
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
    return _VERSION.sub("", _GENERATION.sub(r"\1-", re.sub(r"[-_. ]+", "-", last)))


def family_and_size(model: str) -> tuple[str, str]:
    """ "llama" and "8" of Meta-Llama-3.1-8B-Instruct; "8x7" for a mixture, "30-3" where the active
    part is named, "qwen-senses" for one that sees or hears; empty where a name has none."""
    bare = bare_name(model)
    sizes, family = list(_SIZE.finditer(bare)), _FAMILY.match(bare)
    if len(sizes) != 1 or family is None:  # of two sizes, one is that of a model beside it
        return "", ""
    size = sizes[0]
    senses = "-senses" if _SENSES.search(bare) else ""
    return family[0] + senses, f"{size[1] or ''}{float(size[2]):g}{'-' + size[3] if size[3] else ''}"


def generation(model: str) -> str:
    """The first number of a model's version, "3" of Llama-3.1-70B and of Llama-v3p1; "" where its
    name has none. Generations are priced apart: Llama 2 tells nothing of Llama 3."""
    bare = bare_name(model)
    size = _SIZE.search(bare)
    found = _MAJOR.search(bare[: size.start() if size else None])
    return found[1] if found else ""


@functools.lru_cache(maxsize=256)
def api_prices(model: str) -> tuple[ApiPrice, ...]:
    """All published prices of a model; where there is none, those of models of its family,
    generation and size; else nothing."""
    name, kin = bare_name(model), (*family_and_size(model), generation(model))
    family = _FAMILY.match(name)
    near = [row for row in table("api_prices") if family is None or family[0] in row["model"].casefold()]
    found, match = [row for row in near if bare_name(row["model"]) == name], "same"
    if not found and kin[0]:
        found, match = [row for row in near if (*family_and_size(row["model"]), generation(row["model"])) == kin], "similar"
    return tuple(
        filled(ApiPrice, row, match=match, note="; ".join(row[name] for name in ("quantization", "note") if row[name])) for row in found
    )


def price_to_expect(prices: Sequence[ApiPrice], *, input_tokens: float, output_tokens: float) -> ApiPrice:
    """The cheapest price for so many tokens that other sellers bear out.

    One that asks less than half of what they ask at the median, and that no other comes near, is a
    promotion, or a price that a list kept after the seller had dropped the model.
    """
    in_order = sorted(prices, key=lambda one: one.usd_of(input_tokens, output_tokens))
    usd = [one.usd_of(input_tokens, output_tokens) for one in in_order]
    half = usd[len(usd) // 2] / 2.0
    borne_out = (at for at in range(len(usd) - 1) if usd[at] >= half or usd[at + 1] <= _NEAR * usd[at])
    return in_order[next(borne_out, len(usd) - 1)]
