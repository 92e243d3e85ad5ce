"""What posts say in turns of their own: hardware that is to be bought, the parts of a prompt,
tokens of a whole day, cards that cannot be had, a checkpoint as it was published.
"""

from __future__ import annotations

import functools
import itertools

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.facts import tables
from rightfit.facts.engines import published_format
from rightfit.facts.expressions import Expression
from rightfit.messages import Message
from rightfit.units import parse_count, parse_money
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.sentence import Reading, Sentence

#: Money is there to buy hardware, which is no limit of a rental.
PURCHASE = "workload.assumed_purchase"
#: Tokens that a request is taken to have where only those of a whole day are told.
_REQUEST_TOKENS = 1000.0


@functools.cache
def _shape(text: str) -> Expression:
    return grammar.shape(text)


_BUYS = r"(?<![A-Za-z]){buys}(?![a-z])|{buys}(?<=[一-鿿])"
_HOUSED = r"(?<![A-Za-z]){housed}(?![a-z])|{housed}(?<=[一-鿿])"
_RENTED = r"(?<![A-Za-z]){rental}(?![a-z])|{rental}(?<=[一-鿿])"
_SYSTEM = (
    r"(?<![A-Za-z]){system_prompt}\s*(?:{length}\s*)?{is}(?:{about}\s*)?(?P<head>\d[\d,.]*k?)\s*{token_plain}"
    r"|(?P<tail>\d[\d,.]*k?)[\s-]?{token_plain}\s*(?:的)?{system_prompt}(?![a-z])"
)
_SAME = r"[\s,]*(?:and\s)?{always_same}(?![a-z])|[\s,，]*{always_same}(?<=[一-鿿])"
_ITEM = r"(?<![A-Za-z]){each_item}\s(?:[a-z]+\s){1,2}?{item_is}\s(?:{about_en}\s)?(?P<en>\d[\d,.]*k?)\s*{token_plain}(?![a-z])|每[条篇个份](?:[一-鿿]{1,4}?)?(?:{about_zh})*\s*(?P<zh>\d[\d,.]*k?)\s*个?{token_plain}"
_DAY = (
    r"{day_of_tokens}\s*(?:{about_zh}\s*)*(?P<in_zh>{amount})\s*个?{token_plain}\s*的?{in_short}\s*[,，、和]?\s*(?P<out_zh>{amount})\s*个?{token_plain}\s*的?{out_short}"
    r"|{day_of_tokens}\s*(?:{about_zh}\s*)*{in_short}\s*(?P<in_head>{amount})\s*个?{token_plain}?\s*[,，、和]?\s*{out_short}\s*(?P<out_head>{amount})\s*个?{token_plain}"
    r"|(?<![\w.,])(?P<in_en>{amount})\s?(?:{token_plain}\s)?{in_short}\s*(?:[,/]|and)\s*(?P<out_en>{amount})\s?(?:{token_plain}\s)?{out_short}\s*(?P<period>{day_of_tokens})(?![a-z])"
)
_FULL = r"{no_capacity}"
_NOT_HAD = r"(?<![A-Za-z]){not_had}(?![a-z])|{not_had}(?<=[一-鿿])"
_END = r"[.!?。！？](?=\s|$|[一-鿿])|\n"


_UNTRAINED = r"(?<![A-Za-z]){denied_training}(?=\s*(?:[,.;!?)]|$|{after_denied_training}(?![a-z])))|{denied_training_zh}(?=\s*(?:[,，.。;；!！?？)）]|$))"
_ASKED_OF = r"(?<![A-Za-z]){asked_of_documents}(?![a-z])|{asked_of_documents}(?<=[一-鿿])"


def read_untrained(sentence: Sentence) -> None:
    """Who trains nothing runs a model as it is; documents told beside that are what it is asked
    of."""
    found = _shape(_UNTRAINED).search(sentence.text)
    if found is None:
        return
    sentence.untrained = sentence.blank(*found.span()).strip(" ,，")


def asked_of_documents(sentence: Sentence) -> bool:
    """Whether questions are asked of documents, which are searched for each."""
    return _shape(_ASKED_OF).search(sentence.whole) is not None


def settle_untrained(sentence: Sentence) -> str:
    """The task of a sentence that trains nothing, "" of another: bytes of text are searched for
    each question, and a small model answers where none is named."""
    if not sentence.untrained or sentence.has("method") or not asked_of_documents(sentence):
        return ""
    for reading in [one for one in sentence.readings if one.option == "data"]:
        sentence.readings.remove(reading)
        sentence.noted.append(reading.words)
        sentence.assumed.append(Message("workload.assumed_searched", words=reading.words))
    if not sentence.has("model"):
        name = tables.words("names", "usual_small_model")[0].word
        sentence.readings.append(Reading("model", name, sentence.untrained))
        sentence.assumed.append(Message("workload.assumed_small_model", model=name))
    return "serve"


def settle_purchase(sentence: Sentence) -> None:
    """Money of a post for hardware that is to be bought, or to stand in its own rooms, is no limit
    of a rental: it is noted, and buying is compared."""
    money = [one for one in sentence.readings if one.option == "budget" and not one.value.endswith("/month")]
    rents = _shape(_RENTED).search(sentence.whole)
    if not (money and sentence.is_post) or rents or not (_shape(_BUYS).search(sentence.whole) or _shape(_HOUSED).search(sentence.text)):
        return
    sentence.readings = [one for one in sentence.readings if one not in money]
    sentence.noted += [one.words for one in money]
    for found in list(_shape(_HOUSED).finditer(sentence.text)):
        sentence.note(*found.span())
    if not sentence.has("currency") and (currency := parse_money(money[0].value).currency) != "usd":
        sentence.readings.append(Reading("currency", currency, money[0].words))
    sentence.assumed.append(Message("workload.assumed_purchase", words=money[0].words))


_BILLS = r"(?:{billing_way}\s*(?:还是说?|或者?是?|,?\s?or|vs\.?|versus)\s*)+{billing_way}(?:租|付费|计费|好|划算|便宜)*(?![a-z])"
_PRIVATE = "{kept_private}"
_OBJECTIVE = r"(?<![A-Za-z0-9-]){objective_name}[- ](?:style\s|based\s)?(?=pre-?train|self-?supervised|预训练|自监督|训练)|(?<=pretrain with )(?:{objective_name})(?![a-z0-9])|(?<=pretraining with )(?:{objective_name})(?![a-z0-9])|用\s?{objective_name}(?:方法|的?方式)?(?=预训练|自监督|训练|从头)"


def note_bills(sentence: Sentence) -> None:
    """Ways to pay that are asked about are no wish for one of them: the plan weighs all. That
    nobody else may compute it, a plan of servers keeps."""
    for found in list(_shape(_PRIVATE).finditer(sentence.text)):
        sentence.note(*found.span())
    for found in list(_shape(_BILLS).finditer(sentence.text)):
        sentence.note(*found.span())
        sentence.assumed.append(Message("workload.assumed_bills", words=found[0].strip()))


def read_objective(sentence: Sentence) -> None:
    """How a network learns, where the network is named too: "MAE pretrain ViT-L"."""
    found = _shape(_OBJECTIVE).search(sentence.text)
    if found is None:
        return
    rest = f"{sentence.text[: found.start()]} {sentence.text[found.end() :]}"
    if any(name.kind == "model" for name in names_in(rest)):
        words = sentence.blank(*found.span()).strip(" -")
        sentence.noted.append(words)
        sentence.assumed.append(Message("workload.assumed_objective", words=words))


_LIGHT = r"(?<![A-Za-z]){light_load}(?![a-z])"
_LEAST = r"(?<![A-Za-z]){least_runs}(?![a-z])|{least_runs}(?<=[一-鿿])"
_LABELS = r"(?<![A-Za-z]){labels}(?![a-z])|{labels}(?<=[一-鿿])"
_SHORT, _SHORT_TEXT = r"(?<![A-Za-z]){short_prompt}(?![a-z])", r"(?<![A-Za-z]){short_text}(?![a-z])"


def assume_small(sentence: Sentence, task: str) -> list[Reading]:
    """What words for little say: the least that runs is few bits for one user."""
    found: list[Reading] = []
    planning = tables.coefficients("planning")
    if task == "serve" and (least := _shape(_LEAST).search(sentence.whole)):
        if not (sentence.has("users") or sentence.has("rate") or sentence.has("quantization") or sentence.own_machine):
            few_bits = [] if draws(sentence) else [Reading("quantization", "int4", "")]
            found += [Reading("users", "1", ""), *few_bits, Reading("objective", "cost", "")]
            sentence.assumed.append(
                Message("workload.assumed_least") if few_bits else Message("workload.assumed_one_tries", words=least[0])
            )
        for again in list(_shape(_LEAST).finditer(sentence.text)):
            sentence.blank(*again.span())
    if task == "serve" and (light := _shape(_LIGHT).search(sentence.text)) is not None:
        if not (sentence.has("users") or sentence.has("rate")):
            found.append(Reading("rate", f"{planning['light_requests_per_min']:g}/min", light[0]))
            sentence.assumed.append(Message("workload.assumed_light", words=light[0], count=f"{planning['light_requests_per_min']:g}"))
        sentence.blank(*light.span())
    return found


def assume_labels(sentence: Sentence, task: str) -> list[Reading]:
    """A short prompt is of so many tokens, and a label is written in a few."""
    found: list[Reading] = []
    planning = tables.coefficients("planning")
    if task not in ("serve", "batch") or sentence.has("image_size"):
        return found
    short = _shape(_SHORT).search(sentence.text)
    labels = _shape(_LABELS).search(sentence.whole) if task == "batch" and sentence.has("data") and _writes(sentence) else None
    if labels and not sentence.has("output_tokens"):
        found.append(Reading("output_tokens", f"{planning['label_tokens']:g}", ""))
        sentence.assumed.append(Message("workload.assumed_label", words=labels[0], count=f"{planning['label_tokens']:g}"))
        short = short or _shape(_SHORT_TEXT).search(sentence.whole)
    if short and _writes(sentence) and not any(sentence.has(one) for one in ("input_tokens", "seq_len")):
        found.append(Reading("input_tokens", f"{planning['short_text_tokens']:g}", ""))
        sentence.assumed.append(Message("workload.assumed_short", words=short[0], count=f"{planning['short_text_tokens']:g}"))
        for again in list(_shape(_SHORT).finditer(sentence.text)):
            sentence.blank(*again.span())
    return found


_FEW_BITS = frozenset({"fp8", "fp4", "nvfp4", "mxfp4", "int8", "int4"})


def drop_impossible(sentence: Sentence) -> None:
    """A number format that the GPU or the model does not take, as settings that were pasted have:
    what does is planned, and said."""
    for reading in [one for one in sentence.readings if one.option == "precision" and one.value in ("bf16", *_FEW_BITS)]:
        cards = [card for one in sentence.readings if one.option == "gpu" for card in facts.match_accelerators(one.value)]
        cards += facts.match_accelerators(sentence.own_machine.partition("@")[0].partition("x")[2])
        without = [card for card in cards if not facts.accelerators()[card].supports_bf16] if reading.value == "bf16" else []
        if not without and not (reading.value != "bf16" and draws(sentence)):
            continue
        sentence.readings.remove(reading)
        sentence.noted.append(reading.words)
        lacks = without[0] if without else next(one.words for one in sentence.readings if one.option == "model")
        sentence.assumed.append(Message("workload.assumed_format", words=reading.words, lacks=lacks))


def draws(sentence: Sentence) -> bool:
    """Whether the model is one that draws."""
    model = next((one.value for one in sentence.readings if one.option == "model"), "")
    try:
        return isinstance(facts.model(model, network=False), facts.DiffusionModel)
    except RightfitError:
        return False


def _writes(sentence: Sentence) -> bool:
    """Whether the model is one that writes text."""
    model = next((one.value for one in sentence.readings if one.option == "model"), "")
    try:
        return str(getattr(facts.model(model, network=False), "kind", "")) in ("decoder", "moe-decoder")
    except RightfitError:
        return False


def read_prompt_parts(sentence: Sentence) -> None:
    """A system prompt and what stands behind it are one prompt, of which the first part is the same
    each time."""
    system = _shape(_SYSTEM).search(sentence.text)
    if system is None or sentence.has("input_tokens"):
        return
    same = parse_count((system["head"] or system["tail"]).strip(",."))
    item = _shape(_ITEM).search(sentence.text)
    end = again.end() if (again := _shape(_SAME).match(sentence.text, system.end())) else system.end()
    words = sentence.text[system.start() : end]
    if item is None:
        return
    each = parse_count((item["en"] or item["zh"]).strip(",."))
    sentence.readings.append(Reading("input_tokens", f"{same + each:.0f}", f"{words.strip()}; {item[0].strip()}"))
    sentence.readings.append(Reading("cached_tokens", f"{same:.0f}", words.strip()))
    sentence.assumed.append(Message("workload.assumed_prompt_parts", same=f"{same:,.0f}", each=f"{each:,.0f}"))
    sentence.blank(system.start(), end)
    sentence.blank(*item.span())


def read_day_tokens(sentence: Sentence) -> None:
    """Tokens of a whole day or month, in and out, as requests of a usual length."""
    found = _shape(_DAY).search(sentence.text)
    if found is None or sentence.has("rate") or not sentence.is_post:
        return
    first, last = (parse_count(next(found[name] for name in names if found[name]).replace(" ", "")) for names in _DAY_GROUPS)
    if not first or not last:
        return
    is_month = _shape("{month_of_tokens}").search(found[0]) is not None
    count = first / _REQUEST_TOKENS
    words = found[0].strip()
    each = max(1.0, _REQUEST_TOKENS * last / first)
    sentence.readings += [
        Reading("rate", f"{count / (30.0 if is_month else 1.0):.6g}/day", words),
        Reading("input_tokens", f"{_REQUEST_TOKENS:.0f}", words),
        Reading("output_tokens", f"{each:.0f}", words),
    ]
    sentence.assumed.append(Message("workload.assumed_day_tokens", words=words, each=f"{_REQUEST_TOKENS:,.0f}", out=f"{each:,.0f}"))
    sentence.blank(*found.span())


_DAY_GROUPS = (("in_zh", "in_head", "in_en"), ("out_zh", "out_head", "out_en"))


def deny_unavailable(sentence: Sentence) -> None:
    """Cards that cannot be had, and clouds without capacity: others are asked for."""
    ends = [0, *(found.end() for found in _shape(_END).finditer(sentence.text)), len(sentence.text)]
    for start, end in itertools.pairwise(ends):
        if gone := _shape(_NOT_HAD).search(sentence.text, start, end):
            cards = [
                name for name in names_in(sentence.text[:end]) if start <= name.start and (name.kind == "gpu" and name.value != "none")
            ]
            if not cards and _shape(_FULL).search(gone[0]):
                cards = [name for name in names_in(sentence.text[:end]) if name.kind == "cloud" and start <= name.start]
            for name in reversed(cards):
                sentence.readings.append(Reading("avoid", name.value, sentence.text[name.start : name.end]))
                sentence.blank(name.start, name.end)
            if cards:
                sentence.note(*gone.span())


def _full_name(model: str) -> str:
    """The name by which a model is known, as far as it is."""
    try:
        return str(getattr(facts.model(model, network=False), "name", model))
    except RightfitError:
        return model


def _name_published(sentence: Sentence) -> None:
    """A family by its name alone, where a post speaks of its whole model elsewhere: DeepSeek and
    满血版 are DeepSeek-R1."""
    told = next((one for one in sentence.readings if one.option == "model"), None)
    said = _shape("{as_published}").search(sentence.whole)
    if told is None or said is None:
        return
    wanted = f"{told.value}{said[0]}".casefold()
    name = next((row["name"] for row in facts.table("chinese_names") if row["chinese"] == wanted), "")
    if name:
        sentence.readings[sentence.readings.index(told)] = Reading("model", name, f"{told.words}; {said[0]}")


#: The format of most tags of Ollama's library.
_PULLED = "q4_k_m"


_FROM_TEXT = r"(?<![A-Za-z]){film_from_text}(?![a-z])|{film_from_text}(?<=[一-鿿])"
_FROM_IMAGE = r"(?<![A-Za-z]){film_from_image}(?![a-z])|{film_from_image}(?<=[一-鿿])"


def settle_source(sentence: Sentence) -> None:
    """What a film is made from chooses between the two models of a generation; words for it behind
    the name say no more."""
    told = next((one for one in sentence.readings if one.option == "model"), None)
    if told is None or not draws(sentence):
        return
    from_image = _shape(_FROM_IMAGE).search(sentence.text)
    for found in [*_shape(_FROM_IMAGE).finditer(sentence.text), *_shape(_FROM_TEXT).finditer(sentence.text)]:
        sentence.blank(*found.span())
    name = _full_name(told.value).rpartition("/")[2]
    other = name.replace("T2V", "I2V")
    if from_image and other != name and _full_name(other) != other:
        sentence.readings[sentence.readings.index(told)] = Reading("model", other, f"{told.words}, {from_image[0]}")


def settle_named(sentence: Sentence) -> None:
    """What a name of the sentence already says: a published checkpoint has its own format, a card
    of a country is of it."""
    _name_published(sentence)
    told = next((one for one in sentence.readings if one.option == "model"), None)
    whole = next((one for one in sentence.readings if one.option == "quantization" and one.value == "none"), None)
    if told and whole and (own := published_format(_full_name(told.value))) and _shape("{as_published}").search(whole.words):
        sentence.readings[sentence.readings.index(whole)] = Reading("quantization", own, whole.words)
        sentence.assumed.append(Message("workload.assumed_published", words=whole.words, format=own))
    engine = next((one for one in sentence.readings if one.option == "framework" and one.words.casefold() == "ollama"), None)
    if engine and told and not sentence.has("quantization") and not sentence.has("precision"):
        sentence.readings.append(Reading("quantization", _PULLED, engine.words))
        sentence.assumed.append(Message("workload.assumed_pulled", format=_PULLED))
    cards = {card for one in sentence.readings if one.option == "gpu" for card in facts.match_accelerators(one.value)}
    if cards and cards <= set(facts.match_accelerators("Ascend")):
        for found in list(_shape("{domestic_only}").finditer(sentence.text)):
            sentence.note(*found.span())
