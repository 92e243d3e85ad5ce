"""A workload from plain words, by rules alone: what was understood, what was assumed, what could
not be used.

A sentence is read in steps, and what one has read no later one sees (its place is blanked out).
First the names (`names`), the longest first; then quantities, each with the noun that it counts
(`grammar`); then words for a choice. A word that denies, compares or counts reaches only what it
stands before. What is left at the end is hard (`leftover`): the answer stops with a question.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import functools
import re
from collections.abc import Iterator

from rightfit import facts
from rightfit.errors import InputError, RightfitError
from rightfit.messages import Message
from rightfit.units import normalize, parse_bytes, parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.adapters import read_adapters
from rightfit.workload.ask.asides import (
    assume_labels,
    assume_small,
    deny_unavailable,
    drop_impossible,
    note_bills,
    read_day_tokens,
    read_objective,
    read_prompt_parts,
    read_untrained,
    settle_named,
    settle_purchase,
    settle_source,
)
from rightfit.workload.ask.choices import as_prompt, infer, read_words
from rightfit.workload.ask.dates import ask_for_day, assume_each_day, read_calendar, read_daily, read_dates, read_today, settle_restated
from rightfit.workload.ask.figured import (
    EACH_DAY_AMOUNT,
    drop_staff,
    keep_in_flight,
    pace_pictures,
    read_figured,
    read_folds,
    read_later,
    read_nights,
    read_paged,
    read_pages,
    read_repeats,
    read_volumes,
    read_window,
    score_pairs,
    sets_up,
    settle_each_day,
    settle_per_time,
    settle_speed,
    settle_spoken,
    settle_things_a_day,
    share_limits,
    work_off_daily,
)
from rightfit.workload.ask.leftover import BLANK, left_over
from rightfit.workload.ask.lengths import read_length_law, read_lengths, settle_lengths
from rightfit.workload.ask.likenesses import read_likeness, settle_likeness
from rightfit.workload.ask.mixtures import read_mixture
from rightfit.workload.ask.named import (
    card_count,
    note_links,
    read_cards,
    read_classes,
    read_data_place,
    read_data_store,
    read_families,
    read_hub_id,
    read_lease,
    read_names,
    read_watched,
    settle_data_set,
    settle_data_store,
    settle_lease,
    settle_sizes,
)
from rightfit.workload.ask.names import is_model
from rightfit.workload.ask.numbers import read_ranges, spoken
from rightfit.workload.ask.open_points import open_points
from rightfit.workload.ask.pasted import read_checkpointing, read_errors
from rightfit.workload.ask.posts import compare_cards, give_up_own, is_hearsay, read_post, settle_card_clouds, settle_post, statements
from rightfit.workload.ask.roles import read_roles, settle_choices, settle_remade
from rightfit.workload.ask.sentence import Reading, Sentence, Understood, is_taken
from rightfit.workload.ask.series import read_series, read_vector_rows, read_vector_table, settle_vector_rows
from rightfit.workload.ask.sparse import read_sparse
from rightfit.workload.ask.steps import read_accumulation, read_image_repeats, read_steps, settle_accumulation, settle_steps
from rightfit.workload.ask.told import (
    is_paid_now,
    read_cut,
    read_host,
    read_hours_a_day,
    read_memory_said,
    read_prices,
    read_run,
    settle_cut,
    settle_hours_a_day,
)
from rightfit.workload.ask.voices import read_voice
from rightfit.workload.kept_files import read_typed

LONGEST_SENTENCE, LONGEST_NUMBER = 2000, 24


_DASH = re.compile(r"(?<=\s)(?<!\d\s)[-–—](?=\s)|(?<=\d\s)[-–—](?=\s(?:(?!\d)|\d{1,3}\s?GB(?![a-z])))")
"""Between the parts of a sentence: it stands between no two numbers."""
_ANY_DASH = grammar.shape(r"((?:^|[;,，]|{range_before})\s*\d[\d.,]*\s[-–—](?=\s))|(?<=\s)[-–—](?=\s)")
"""Any dash that stands alone; in the group one behind a number that begins a part: a range."""


def _in_parts(text: str) -> str:
    """The text with the dashes between its parts as semicolons; where several stand so, one between
    two numbers is no range: "under $200 - 4 GPUs"."""
    parts, dashes = _DASH.subn(";", text)
    return _ANY_DASH.sub(lambda found: found[1] or ";", parts) if dashes > 1 else parts


_KIND_BEHIND = grammar.shape(r"(?<=(?-i:[A-Z0-9]))-{kind_behind}(?![A-Za-z])")
"""Behind a name, of which it tells that something near it will do: "a DLRM-style recommender"."""
_JOINED = re.compile(r"(?<=[A-Za-z]{3})\+(?=[A-Z][A-Za-z])|(?:(?<=[A-Za-z]\d)|(?<=\d[Bb]))\+(?=[A-Za-z]{2})")
"""Between two names: "ComfyUI+Flux dev", "bge-m3+Qwen3-14B"."""
_CARD_OF = grammar.shape(r"(单|[一二两三四六八]|\d{1,2})\s?张?卡\s*(\d{2,3})\s?GB?(?![A-Za-z])(?!\s*{no_card_memory})")
"""Cards and the memory of each, which a name of none says: 单卡80G."""
_ASKED_BY_NOT = re.compile(r"(?<=[一-鿿A-Za-z0-9])(?<![也都就才还要是更])[不没](?=\s*(?:[,，。?？!！;；]|$))")
"""A denial that ends a Chinese clause asks, 顶得住不, 能微调7B不: it denies nothing."""
_TAG = re.compile(r"(?<![\w/:])([A-Za-z][A-Za-z0-9.-]*):(?=\d+(?:\.\d+)?b(?![A-Za-z0-9]))", re.IGNORECASE)
"""A model by its tag, as Ollama has it: deepseek-r1:32b."""
_DISTILLED = re.compile(r"(?<=[A-Za-z0-9])\s*的?蒸馏(?:版|模型)?\s*(?=(?:[A-Za-z]+[\d.]*\s*-?\s*)?\d+(?:\.\d+)?B)", re.IGNORECASE)
"""Between the name of a model and the size of what was distilled from it: R1 蒸馏 32B."""


_ARROW = re.compile(r"(?<=[A-Za-z0-9])\s*(?:->|=>|→)\s*(?=[A-Za-z])")
"""From one language or format to another: "en->de"."""


_SIZED_SET = grammar.shape(r"(?<![\w.,-])(\d[\d.,]*[km]?)-({sized_thing})(?=\s{set_of_data}(?![a-z]))")
"""A data set by how many things it has: "my 30k-sample dataset"."""
_ONCE_OVER = re.compile(r"(?<=[提抽取])一遍(?=[一-鿿]{0,2}特征)")
"""What says of features that they are taken once, which is no epoch: 重新提一遍特征."""
_BARE_MEMORY = grammar.shape(
    r"(?<![A-Za-z0-9])((?:A100|A800|V100|4090|3080|H20)\s(?:16|20|32|40|48|80|96))(?=\s*(?:[,，.。;；)）/?？]|{between_cards}(?![a-z])|$))"
)
"""A card with its memory, which is its only number there: "one A100 80 or one H100"."""


_SHORT_TOKENS = re.compile(r"(?<=\d)(\s?k?)\s?toks?(?![a-z])(?!\s?/)", re.IGNORECASE)


def _spelled_out(text: str) -> str:
    """The text with what people write short as the readers know it."""
    text = _SHORT_TOKENS.sub(r"\1 tokens", _ARROW.sub(" to ", text))
    text = _BARE_MEMORY.sub(r"\1GB", text)
    text = _DISTILLED.sub(" distill ", _TAG.sub(r"\1-", _ASKED_BY_NOT.sub("吗", text)))
    text = _ONCE_OVER.sub("", _SIZED_SET.sub(r"\1 \2s", text))
    return _CARD_OF.sub(r"\1张\2GB卡", _JOINED.sub(" + ", _KIND_BEHIND.sub(" ", text)))


_SETTING_END = re.compile(r"(=[^\s;]+)\s+(?=[A-Za-z_][\w.-]*=\S)|(--[A-Za-z][\w-]*(?:[= ][^\s-]\S*)?)\s+(?=--[A-Za-z])")
"""Between the settings of a command line: the value of one is no number of the next."""


_LINE_END = re.compile(r"(?:\\r)?\\n(?![a-z])")
"""The end of a line as it stands in quoted text."""


def understand(text: str, *, today: datetime.date | None = None) -> Understood:
    """Read a wish from plain words. `today` settles "by Monday". InputError when there
    is nothing to read."""
    text = _LINE_END.sub("\n", text)
    plain = normalize(text)
    if not plain:
        raise InputError(Message("workload.say_what"), field="ask")
    if len(plain) > LONGEST_SENTENCE:
        raise InputError(Message("workload.sentence_too_long", count=len(plain), most=LONGEST_SENTENCE), field="ask")
    if endless := re.search(rf"\d{{{LONGEST_NUMBER + 1}}}", plain):  # every rule for quantities would try each of its digits
        raise InputError(Message("workload.endless_number", count=LONGEST_NUMBER, digits=endless[0][:10]), field="ask")
    if (kept := read_typed(text)) is not None:
        told = tuple(Reading(option, value, where.rpartition(": ")[2]) for option, value, where in kept.told)
        return Understood(plain, told, (), (), tuple(key for key, _ in kept.unused))
    return _read_whole(text, plain, today or datetime.date.today())


@functools.lru_cache(maxsize=64)
def _read_whole(text: str, plain: str, today: datetime.date) -> Understood:
    """A sentence as it is understood, once: each reader of a question asks for it."""
    text = _spelled_out(text)
    said, assumed = spoken(normalize(_in_parts(_sizes_apart(_SETTING_END.sub(r"\1\2; ", text.replace("，", ", "))))))
    sentence = Sentence(said)
    sentence.assumed += assumed
    read_errors(sentence)
    read_post(sentence)
    _read_near_methods(sentence)
    read_roles(sentence)
    read_day_tokens(sentence)
    read_prices(sentence)
    read_later(sentence)
    read_run(sentence)
    read_daily(sentence)
    today = read_today(sentence, today)
    read_dates(sentence, today)
    settle_restated(sentence)
    read_ranges(sentence)
    read_vector_rows(sentence)
    periods = [found.span() for found in EACH_DAY_AMOUNT.finditer(sentence.text) if found["hours"] or found["hours_zh"]]
    for match in list(grammar.NOTHING_ASKED.finditer(sentence.text)):
        if not any(start <= match.start() < end for start, end in periods):
            sentence.blank(*match.span())
    if not read_vector_table(sentence):
        for match in list(grammar.VECTORS.finditer(sentence.text)):
            sentence.ask(*match.span())
    for pattern in (grammar.SOLID, grammar.HYPERPARAMETER):
        for match in list(pattern.finditer(sentence.text)):
            sentence.note(*match.span())
    for match in list(grammar.KEPT_HOME.finditer(sentence.text)):
        sentence.take(*match.span(), "residency", "cn-mainland")
    read_untrained(sentence)
    read_data_place(sentence)
    read_hub_id(sentence)
    read_hours_a_day(sentence)
    read_memory_said(sentence)
    read_host(sentence)
    store, owner = read_data_store(sentence)
    deny_unavailable(sentence)
    read_adapters(sentence)
    read_families(sentence)
    read_objective(sentence)
    read_likeness(sentence)
    read_names(sentence)
    read_voice(sentence)
    read_mixture(sentence)
    read_length_law(sentence)
    read_lengths(sentence)
    read_sparse(sentence)
    if store:
        settle_data_store(sentence, store, owner)
    for match in list(grammar.SOLID_BEHIND.finditer(sentence.text)):
        if not _LIMIT_AHEAD.search(sentence.text[: match.start()]):
            sentence.note(*match.span())
    give_up_own(sentence)
    read_cards(sentence)
    note_links(sentence)
    compare_cards(sentence)
    settle_card_clouds(sentence)
    for read in (read_series, read_paged, read_figured, read_watched, read_classes, read_lease):
        read(sentence)
    read_checkpointing(sentence)
    read_prompt_parts(sentence)
    read_accumulation(sentence)
    _read_model_words(sentence)
    read_cut(sentence)
    _read_vector_tables(sentence)
    settle_vector_rows(sentence)
    for rule in grammar.QUANTITIES:
        _apply(sentence, rule)
    _read_length(sentence)
    settle_data_set(sentence)
    read_volumes(sentence)
    read_folds(sentence)
    read_repeats(sentence)
    read_nights(sentence)
    _read_described(sentence)
    settle_lengths(sentence)
    settle_accumulation(sentence)
    read_steps(sentence)
    read_image_repeats(sentence)
    settle_remade(sentence)
    _note_training(sentence)
    _read_deadline(sentence, today)
    note_bills(sentence)
    read_words(sentence)
    score_pairs(sentence)
    read_window(sentence)
    is_daily = work_off_daily(sentence)
    for match in list(grammar.NO_SERVICE.finditer(sentence.text)):
        sentence.blank(*match.span())
    task_text = "; ".join((*(reading.words for reading in sentence.readings if reading.option == "data"), sentence.text))
    _read_size(sentence)
    settle_source(sentence)
    inferred = infer(sentence, task_text)
    if is_daily and not inferred:
        inferred = [Reading("task", "batch", "")]
    settle_each_day(sentence)
    task = inferred[0].value if inferred else ""
    _note_from_scratch(sentence, task)
    settle_hours_a_day(sentence, task)
    settle_cut(sentence, task)
    drop_staff(sentence)
    settle_steps(sentence, task)
    settle_lease(sentence, task)
    settle_per_time(sentence, task)
    if task == "serve" and sentence.is_post:
        settle_things_a_day(sentence)
    tool = grammar.PERSONAL_TOOL.search(sentence.whole)  # its window is open before one person
    if task == "serve" and (sentence.own_machine or tool) and not (sentence.has("users") or sentence.has("rate")):
        inferred.append(Reading("users", "1", ""))
        sentence.assumed.append(Message("workload.assumed_one_person", tool=tool[0]) if tool else Message("workload.assumed_own_use"))
        if tool and grammar.PICTURE_TOOL.search(tool[0]) and not sentence.has("latency"):
            inferred.append(Reading("latency", "1min", ""))
    if task == "serve":
        pace_pictures(sentence)
    inferred += assume_small(sentence, task)
    drop_impossible(sentence)
    settle_sizes(sentence)
    if sentence.is_post and task not in ("", "serve"):
        _note_monthly(sentence)
    if task == "serve" and sentence.is_post:
        _note_deadline(sentence)
    if task == "serve":
        settle_spoken(sentence)
    settle_speed(sentence, next((one.value for one in (*sentence.readings, *inferred) if one.option == "users"), ""))
    if task == "serve" and (pause := keep_in_flight(sentence)):
        inferred.append(pause)
    if task in ("batch", "serve"):
        inferred += read_pages(sentence)
    _read_amount(sentence, inferred)
    inferred += assume_labels(sentence, task)
    made = sentence.has("data") and (sentence.has("denoise_steps") or sentence.has("output_tokens"))
    if sentence.has("denoise_steps") and not made and not _has_task(sentence, inferred) and sentence.has("model"):
        inferred = [Reading("task", "serve", ""), *inferred]  # one after the other: "50 steps, how long is one?"
    if made and not _has_task(sentence, inferred):  # answers are made, nothing is trained
        inferred = [Reading("task", "batch", ""), *inferred]
        sentence.readings = [as_prompt(reading) for reading in sentence.readings]
    if any(one.option == "method" and one.value == "grpo" for one in sentence.readings):  # answers are what is cut
        sentence.readings = [as_prompt(reading, "output_tokens") for reading in sentence.readings]
    _note_known_amount(sentence)
    _note_size_of_samples(sentence)
    _rescale_tokens(sentence)
    assume_each_day(sentence, task)
    ask_for_day(sentence)
    for again in (grammar.GLUE_PHRASE, *((grammar.QUANTIZED,) if sentence.has("quantization") else ())):
        for match in list(again.finditer(sentence.text)):
            sentence.blank(*match.span())
    settle_choices(sentence)
    settle_likeness(sentence, task)
    settle_named(sentence)
    settle_purchase(sentence)
    _note_other_card(sentence)
    _note_unpriced(sentence)
    _drop_wider_card(sentence)
    share_limits(sentence)
    topic = _topic(sentence)
    hard, soft = left_over(sentence.text, is_shouted=plain.isupper() and not re.search("[一-鿿]", plain))
    stops, left_out = settle_post(sentence, [*sentence.asked, *hard])
    soft = [*topic, *sentence.noted, *left_out, *soft]
    used = {one.words for one in sentence.readings}
    weighty = tuple(dict.fromkeys([*(piece for piece in stops if not sentence.is_post or piece not in used), *_stated(sentence, task)]))
    kind = next(iter(sentence.kinds), "")
    unused = tuple(dict.fromkeys((*weighty, *soft)))
    return Understood(
        plain,
        tuple(map(_in_digits, sentence.readings)),
        tuple(inferred),
        weighty,
        unused,
        sentence.own_machine,
        kind,
        tuple(sentence.assumed),
        tuple(sentence.card_counts),
        tuple(sentence.card_clouds),
        open_points(sentence, inferred, weighty, left_out, _is_no_amount),
    )


_HAN = grammar.shape("{han}")


def _in_digits(reading: Reading) -> Reading:
    """The reading with a Chinese numeral in digits, for whoever computes with it: 一个人."""
    if not _HAN.fullmatch(reading.value):
        return reading
    return dataclasses.replace(reading, value=str(card_count(reading.value)))


def _has_task(sentence: Sentence, inferred: list[Reading]) -> bool:
    return any(one.option in ("task", "method") for one in (*inferred, *sentence.readings))


_LIMIT_AHEAD = grammar.shape(r"(?:{deadline_head}|(?<![a-z]){limit_head}|=|:)\s*$")
"""What makes of "3D" days."""


def _read_near_methods(sentence: Sentence) -> None:
    """Methods that no plan knows are planned as the nearest that one does, aloud: without their
    word the sentence would be another wish."""
    for near, pattern in grammar.UNPLANNED.items():
        match = pattern.search(sentence.text)
        if match and not sentence.has("method") and not grammar.NEGATED.search(sentence.text[: match.start()]):
            sentence.assumed.append(Message("workload.assumed_near_method", word=match[0], method=near.upper()))
            sentence.take(*match.span(), "method", near)


# ---- Quantities.


def _apply(sentence: Sentence, rule: grammar.GrammarRule) -> None:
    """The first place where a rule holds and its option takes the value."""
    if sentence.has(rule.option):
        return
    found = list(rule.pattern.finditer(sentence.text))
    if sentence.is_post and rule.option == "users" and len(found) > 1:  # "works with 1 user, at 8 users it stalls"
        found.sort(key=lambda match: -parse_count(match["value"].replace(" ", "")))
    for match in found:
        if sentence.is_post and rule.option == "budget" and is_paid_now(sentence.text, *match.span()):
            continue
        value = rule.read(match)
        is_negative = "value" in match.re.groupindex and grammar.MINUS.search(sentence.text[: match.start("value")])
        if match.end() > match.start() and not is_negative and is_taken(rule.option, value):
            if rule.option == "data" and sentence.is_post and _is_no_amount(sentence, match, value):
                continue
            if rule.option == "data" and (sized := grammar.BARE_SIZE.match(sentence.text, match.start())) and sized.end() > match.end():
                continue  # "a 13B chat model"
            if rule.option == "data" and _is_size_of_counted(sentence, match):
                sentence.note(*match.span())
                continue
            if rule.option == "data" and _is_length(sentence, match.start(), match.end(), value):
                if not sentence.has("seq_len") and not sentence.has("input_tokens"):
                    sentence.take(match.start(), match.end(), "seq_len", value.split()[0])
                continue
            sentence.take(match.start(), match.end(), rule.option, value)
            return


#: What a plan of each kind of task must not assume where it is stated.
_NEEDED = {"train": ("data",), "finetune": ("data",), "batch": ("data",), "serve": ("rate", "users")}


def _stated(sentence: Sentence, task: str) -> Iterator[str]:
    """Amounts that a post states and nothing has read, where the plan would assume such an amount:
    the answer leads with them."""
    needed = _NEEDED.get(task, ())
    if not sentence.is_post or not needed or any(sentence.has(option) for option in (*needed, "steps", "trace")):
        return
    for start, end in statements(sentence.whole):
        text = sentence.whole[start:end]
        if is_hearsay(text):
            continue
        for rule in (one for one in grammar.QUANTITIES if one.option in needed):
            found = rule.pattern.search(sentence.whole, start, end)
            value = rule.read(found) if found else ""
            if found is None or not is_taken(rule.option, value):
                continue
            if any(found[0].strip(" ,，") in reading.words for reading in sentence.readings):
                continue  # a length, say
            if rule.option != "data" or not _is_no_amount(sentence, found, value):
                yield found[0].strip(" ,，")
                return


_TOKENS_ALONE = grammar.shape(
    r"(?:(?<=[,;(，；（])\s*(?:{at_most}\s*)?|(?<=[\w␟])\s+(?:{about})+\s?)(?P<number>\d{1,5}k?)\s?tokens?(?=\s*(?:[,;.)，；。）]|$))"
)
_FEW_TOKENS = re.compile(r"(?P<number>\d{1,5}k?) tokens?")
#: Tokens that each of many samples has at least, where some are told of all of them.
_FEWEST_EACH = 20.0


_BYTES = grammar.shape("{size}")
_DATA_SAID = grammar.shape(r"(?<![A-Za-z])(?:{data_named}|{file_name})(?![A-Za-z])|{data_named}|{sound}|{sound_zh}")


def _is_memory(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether bytes in a post are no data: its statement says nothing of data, "fits in 24 GB"."""
    if not _BYTES.fullmatch(found["value"].strip() if "value" in found.re.groupindex else ""):
        return False
    inside = [sentence.whole[start:end] for start, end in statements(sentence.whole) if start <= found.start() < end]
    return not any(_DATA_SAID.search(text) for text in (*inside, found[0]))


def _is_no_amount(sentence: Sentence, found: re.Match[str], value: str) -> bool:
    """Whether what reads as an amount of data in a post is memory, or the size of one of many."""
    return _is_memory(sentence, found) or _is_of_one(found, value)


def _is_size_of_counted(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether bytes are the size of pictures that are counted beside them: "1.2 million product
    photos (60 GB on disk)"."""
    if not _BYTES.fullmatch(found["value"].strip() if "value" in found.re.groupindex else "") or grammar.OPERATION_VERB.search(
        sentence.whole
    ):
        return False
    counted = (one for pattern in (grammar.DESCRIBED, grammar.COUNTED_DATA) for one in pattern.finditer(sentence.text))
    return any(not _BYTES.search(one[0]) and grammar.data_of(_unit_of(one)).endswith("images") for one in counted)


def _unit_of(found: re.Match[str]) -> str:
    return f"{found['amount']} {found['unit']}" if "unit" in found.re.groupindex else found[0]


_AVERAGE = grammar.shape(r"{size_average}\s*$")
_EACH = grammar.shape(r"\s{apiece_average}(?![a-z])|[\s]each(?![a-z])")
"""An amount of one of many is no amount of all."""
#: So many tokens no sample has: they are those of one of several runs.
_MOST_EACH = 1e6


def _is_of_one(found: re.Match[str], value: str) -> bool:
    """Whether an amount is of one of many, and not of each of several runs: "500 tokens each", 平均
    150KB."""
    if _BYTES.fullmatch(value) and _AVERAGE.search(found.string[: found.start()]):
        return True
    if not _EACH.match(found.string, found.end()):
        return False
    tokens = _OF_TOKENS.search(value)
    return tokens is None or parse_count(value[: tokens.start()].replace(" ", "")) < _MOST_EACH


_ROUNDS = grammar.shape(r"(?<![\w.,])(?P<value>{digits})\s*{round_name}(?![a-z])")
_BOOSTED = grammar.shape("{boosted}")
_SIDE_DRAWN = grammar.shape(r"(?<![A-Za-z]){drawn_at}\s?(?P<value>{usual_side})(?![\w%]|[.,]\d|\s*{by}\s?\d)")
_SIDE_INPUT = grammar.shape(r"(?P<head>{side_input}){is}(?P<value>{usual_side})(?![\w%])")


def _read_model_words(sentence: Sentence) -> None:
    """What means something else of some models: rounds of boosting are trees, the input of a model
    that sees and does not write is the side of its images."""
    model = next((reading.value for reading in sentence.readings if reading.option == "model"), "")
    if _BOOSTED.search(model) and not sentence.has("trees") and (found := _ROUNDS.search(sentence.text)):
        sentence.take(*found.span(), "trees", found["value"])
    if sentence.has("image_size") or not model:
        return
    for pattern, kind in ((_SIDE_INPUT, facts.VisionModel), (_SIDE_DRAWN, facts.DiffusionModel)):
        found = pattern.search(sentence.text)
        with contextlib.suppress(RightfitError):
            if found and isinstance(facts.model(model, network=False), kind):
                sentence.take(*found.span(), "image_size", found["value"])
                return


def _read_vector_tables(sentence: Sentence) -> None:
    """Bytes of tables of embeddings are those of a recommender, not data: "DLRM with 200 GB of
    embedding tables"."""
    told = next((reading for reading in sentence.readings if reading.option == "model"), None)
    if told is None or not grammar.RECOMMENDER.search(told.value) or not (found := grammar.VECTOR_TABLES.search(sentence.text)):
        return
    value = f"{told.value} {parse_bytes(found['size'] or found['behind']) / 1e9:g} GB tables"
    words = sentence.blank(*found.span())
    sentence.readings[sentence.readings.index(told)] = Reading("model", value, f"{told.words}, {words}")


def _is_length(sentence: Sentence, start: int, end: int, value: str) -> bool:
    """Whether a few tokens are the length of what many of are told beside them: "10 million
    reviews, 128 tokens"."""
    few = _FEW_TOKENS.fullmatch(value)
    if few is None:
        return False
    others = sentence.text[:start] + BLANK * (end - start) + sentence.text[end:]
    return any(
        parse_count(one["amount"].replace(" ", "")) * _FEWEST_EACH > parse_count(few["number"])
        for pattern in (grammar.DESCRIBED, grammar.COUNTED_NOUN, grammar.COUNTED_DATA)
        for one in pattern.finditer(others)
        if "token" not in one[0]
    )


def _read_length(sentence: Sentence) -> None:
    """A few tokens left over beside an amount are the length of each: "10 million titles, 128
    tokens"."""
    counted = any(reading.option == "data" and "token" not in reading.value for reading in sentence.readings)
    if not counted or any(sentence.has(option) for option in ("seq_len", "input_tokens", "output_tokens")):
        return
    if found := _TOKENS_ALONE.search(sentence.text):
        sentence.take(*found.span(), "seq_len", found["number"])


def _rescale_tokens(sentence: Sentence) -> None:
    """Requests that were counted from tokens of a day, by the lengths that are told of them."""
    usual = facts.coefficients("serving_planning")
    lengths = {name: float(usual[name]) for name in ("input_tokens", "output_tokens")}
    told = {one.option: float(one.value) for one in sentence.readings if one.option in lengths and one.value.isdigit()}
    settled = {one.words for one in sentence.readings if one.option in lengths}  # tokens in and out: counted with their lengths
    for at, one in enumerate(sentence.readings):
        if told and one.option == "rate" and one.words not in settled and _OF_TOKENS.search(one.words):
            number, _, period = one.value.partition("/")
            scaled = float(number) * sum(lengths.values()) / sum((lengths | told).values())
            sentence.readings[at] = dataclasses.replace(one, value=f"{scaled:.4g}/{period}")


def _note_size_of_samples(sentence: Sentence) -> None:
    """What counted samples take in bytes says nothing more: "100 million texts (about 200 GB)"."""
    if any(one.option == "data" and not re.search(r"[GMT]i?B$", one.value) for one in sentence.readings):
        for match in list(_BYTES_BESIDE.finditer(sentence.text)):
            sentence.note(*match.span())


#: An amount of bytes in brackets, or behind a word that sums up.
_BYTES_BESIDE = grammar.shape(r"[（(]\s*{near_bytes}?\s*\d+(?:\.\d+)?\s*[GMT]i?B\s*[)）]|{summed_bytes}\s*约?\s*\d+(?:\.\d+)?\s*[GMT]i?B")
_OF_TOKENS = grammar.shape("{plain_tokens}")


def _read_described(sentence: Sentence) -> None:
    """An amount of data whose unit has words before it that say which: "20k math prompts", "2
    million scanned pages"."""
    if sentence.has("data"):
        return
    for match in grammar.DESCRIBED.finditer(sentence.text):
        between = match["between"].casefold().split()
        value = grammar.data_of(f"{match['amount']} {match['unit']}")
        if not grammar.NO_ADJECTIVES & set(between) and not is_model(match["between"]) and is_taken("data", value):
            sentence.take(match.start(), match.end(), "data", value)
            return


def _note_known_amount(sentence: Sentence) -> None:
    """About as many things as a named data set holds say nothing more: "GSM8K, 8k problems"."""
    for pattern in (grammar.DESCRIBED, grammar.COUNTED_NOUN, grammar.COUNTED_DATA) if sentence.data_samples else ():
        for match in list(pattern.finditer(sentence.text)):
            if 0.7 <= parse_count(match["amount"].replace(" ", "")) / sentence.data_samples <= 1.3:
                sentence.note(*match.span())


def _note_training(sentence: Sentence) -> None:
    """Data are prepared for a training that is not asked about: "dedup 2 TB before pretraining"."""
    if not sentence.has("model") and grammar.PREPARING.search(sentence.text):
        for match in list(grammar.BEFORE_TRAINING.finditer(sentence.text)):
            sentence.note(*match.span())


#: What is assumed of a large model that is trained on an amount of data that nobody told.
FROM_SCRATCH = "workload.assumed_from_scratch"
#: A model of so many parameters is seldom trained from scratch.
_SELDOM_PARAMS = 1e9


def _note_from_scratch(sentence: Sentence, task: str) -> None:
    """Training of a large model, no amount of data told, is planned from scratch, which may not be
    what is meant: 训练Qwen2.5-7B."""
    told = next((reading for reading in sentence.readings if reading.option == "model"), None)
    if task != "train" or told is None or sentence.has("data") or grammar.FROM_SCRATCH.search(sentence.whole):
        return
    try:
        params = float(getattr(facts.model(told.value, network=False), "params_total", 0) or 0)
    except RightfitError:
        return
    if params >= _SELDOM_PARAMS:
        sentence.assumed.append(Message("workload.assumed_from_scratch", model=told.value))


_TWO_SIZES = grammar.shape(
    r"(?P<card>[A-Z]+\d+[A-Z\d]*)\s*(?P<one>\d{2,3}\s*GB?)(?P<join>\s*{size_join}\s*)(?P<two>\d{2,3}\s*GB?)(?![A-Z\d])"
)


def _sizes_apart(text: str) -> str:
    """Two sizes of one card as two cards: "A100 40G 和 80G"."""
    return _TWO_SIZES.sub(
        lambda found: (
            f"{found['card']} {found['one']}{found['join']}{found['card']} {found['two']}"
            if facts.match_accelerators(found["card"])
            else found[0]
        ),
        text,
    )


def _read_amount(sentence: Sentence, inferred: list[Reading]) -> None:
    """A number with a noun that no rule knows is the amount of data, where data are worked on and
    none were told: "3 million product titles", 300 节课."""
    task = next((reading.value for reading in inferred), "")
    if task == "serve" or sentence.has("data") or any(sentence.has(option) for option in ("rate", "users")):
        return
    for pattern in (grammar.COUNTED_NOUN, grammar.COUNTED_NOUN_ZH):
        for match in pattern.finditer(sentence.text):
            if parse_count(match["amount"].replace(" ", "")) <= 1:  # an article: 一个图像模型
                continue
            words = {*match["thing"].casefold().split()}
            counts = grammar.NO_THING.search(match["thing"])
            if not counts and not grammar.NO_ADJECTIVES & words and is_taken("data", value := f"{match['amount']} samples"):
                sentence.take(match.start(), match.end(), "data", value)
                return


def _drop_wider_card(sentence: Sentence) -> None:
    """Of a card and a wider name that covers it, the card: 910B, 国产卡."""
    cards = {reading: set(facts.match_accelerators(reading.value)) for reading in sentence.readings if reading.option == "gpu"}
    for reading, covered in cards.items():
        if any(covered > other for one, other in cards.items() if one is not reading and other):
            sentence.readings.remove(reading)
            sentence.noted.append(reading.words)


def _note_monthly(sentence: Sentence) -> None:
    """Money for a month is no limit of a job that ends, as a post tells it: it is left out, and
    said."""
    for reading in [one for one in sentence.readings if one.option == "budget" and one.value.endswith("/month")]:
        sentence.readings.remove(reading)
        sentence.noted.append(reading.words)
        sentence.assumed.append(Message("workload.assumed_monthly", words=reading.words))


def _note_deadline(sentence: Sentence) -> None:
    """A service has no end: a time that a post tells beside it is left out, and said."""
    for reading in [one for one in sentence.readings if one.option == "deadline"]:
        sentence.readings.remove(reading)
        (sentence.noted if sets_up(reading.words) else sentence.asked).append(reading.words)


_IN_YUAN = grammar.shape("{yuan_seller}")


def _note_unpriced(sentence: Sentence) -> None:
    """A seller of whom no price is known here: the plan is over the others, and says so. "Only"
    there is asked about."""
    for found in list(grammar.UNPRICED.finditer(sentence.text)):
        if found["only"]:
            sentence.ask(*found.span())
        else:
            name = found["seller"]
            sentence.note(*found.span())
            sentence.assumed.append(Message("workload.assumed_unpriced", seller=name))
            if _IN_YUAN.fullmatch(name) and not sentence.has("currency") and not sentence.has("budget"):
                sentence.readings.append(Reading("currency", "cny", name))


def _note_other_card(sentence: Sentence) -> None:
    """A card named beside one's own machine, which is what is planned."""
    if sentence.own_machine and (others := [reading for reading in sentence.readings if reading.option == "gpu"]):
        words = ", ".join(reading.words for reading in others)
        sentence.readings = [reading for reading in sentence.readings if reading.option not in ("gpu", "num_gpus")]
        sentence.assumed.append(Message("workload.assumed_other_card", words=words, planned=sentence.own_machine))


def _topic(sentence: Sentence) -> list[str]:
    """What the data are about, "100 pictures of my dog", "200万条商品描述": it changes nothing."""
    if sentence.data_end < 0:
        return []
    found = grammar.TOPIC.match(sentence.text, sentence.data_end)
    if found is None or grammar.TOPIC_BAR.search(found[0]):
        return []
    name = "en" if found["en"] else "zh"
    words = sentence.blank(*found.span(name))
    return [words] if any(left_over(words)) else []


def _read_deadline(sentence: Sentence, today: datetime.date) -> None:
    read_calendar(sentence, today)
    if not sentence.has("deadline") and (limited := list(grammar.LIMITED.finditer(sentence.text))):
        others = [
            match
            for match in grammar.DURATION.finditer(sentence.text)
            if match.end() <= limited[0].start() or match.start() >= limited[0].end()
        ]
        if others:  # of two times the one that is a limit ends the work
            sentence.take(*limited[0].span(), "deadline", limited[0]["value"] or limited[0]["within"])
            hours = [match for match in others if grammar.HOURS.fullmatch(match[0].strip())]
            if len(hours) == 1 and not sentence.has("data") and grammar.TURNS_SOUND.search(sentence.whole):
                sentence.take(*hours[0].span(), "data", grammar.data_of(hours[0][0]))
    for rule in grammar.DEADLINES:
        _apply(sentence, rule)
    if sentence.has("deadline"):
        return
    if match := grammar.BY_WEEKDAY.search(sentence.text):
        day = grammar.WEEKDAYS[(match["en"] or match["zh"]).casefold()]
        ahead = (day - today.weekday()) % 7 or 7
        sentence.take(match.start(), match.end(), "deadline", f"{ahead * 24}h")
        return
    for pattern, value in grammar.DEADLINE_WORDS:
        if match := pattern.search(sentence.text):
            sentence.take(match.start(), match.end(), "deadline", value)
            return


def _note_size(sentence: Sentence) -> None:
    """The size beside the name of a model says what the name says, "DeepSeek-R1 671B"; that of a
    family without one, "a 1.3B parameter GPT", is the model."""
    told = next((reading for reading in sentence.readings if reading.option == "model"), None)
    for match in list(grammar.RESTATED_SIZE.finditer(sentence.text)) if told else ():
        params = parse_count(match["size"] + grammar.SIZE_UNITS.get(match["unit"].casefold(), match["unit"]))
        said = f"{params / 1e9:g}B" if params >= 1e9 else f"{params / 1e6:g}M"
        if told and grammar.GENERIC_FAMILY.fullmatch(told.value):
            sentence.readings[sentence.readings.index(told)] = Reading("model", said, f"{match[0].strip()} {told.words}")
            sentence.blank(*match.span())
            return
        if told and _has_size(told.value, params):
            sentence.note(*match.span())


def _has_size(model: str, params: float) -> bool:
    """Whether a model has about so many parameters, or is called by them: "Wan2.2 14B"."""
    try:
        if re.search(rf"(?<![\d.])A?{params / 1e9:g}B(?![A-Za-z0-9])", str(getattr(facts.model(model, network=False), "name", ""))):
            return True
        return 0.85 <= params / float(getattr(facts.model(model, network=False), "params_total", 0) or 1) <= 1.15
    except RightfitError:
        return False


def _read_size(sentence: Sentence) -> None:
    """The model by a bare size: "7B", "70亿参数"."""
    if "recommendation" in sentence.kinds:  # its numbers count users and things
        return
    _note_size(sentence)
    if not sentence.has("model") and (match := grammar.BARE_SIZE.search(sentence.text)):
        size = (
            match["latin"].replace(" ", "").upper() if match["latin"] else f"{parse_count((match['han'] or '1') + match['unit']) / 1e9:g}B"
        )
        sentence.take(match.start(), match.end(), "model", size)
        sentence.kinds.clear()  # "a 350M transformer"


__all__ = ["Reading", "Understood", "understand"]
