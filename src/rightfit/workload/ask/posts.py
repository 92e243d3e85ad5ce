"""Posts: texts of several sentences that tell a story beside the wish. What somebody tried, sees,
heard or pays is no limit of the wish and no amount of it: such a statement is taken out whole and
listed. What a post leaves over is asked about only where it demands something.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence

from rightfit import facts
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.figured import EACH_DAY_AMOUNT
from rightfit.workload.ask.leftover import demands
from rightfit.workload.ask.named import card_count, rented_there
from rightfit.workload.ask.names import names_in
from rightfit.workload.ask.sentence import Reading, Sentence

_END = grammar.shape(r"[.!?](?=\s|$)|[!?;\n。！？；]")
_JOINT = grammar.shape(
    r"[.!?](?=\s|$)|[!?;\n。！？；，]|,(?=\s[一-鿿])|(?<=[一-鿿]),(?=\s?\d)|(?<=[一-鿿0-9A-Za-z])[,、](?=\s?[一-鿿])|(?:,\s?|\s){story_joint}\s(?={story_who}[\s'’])"
)
_TOLD = grammar.shape(r"(?<![A-Za-z]){told_en}(?![A-Za-z])|{told_zh}")
_WANTED = grammar.shape(r"(?<![A-Za-z]){wanted_en}(?![A-Za-z])|{wanted_zh}")
_HEARSAY = grammar.shape(r"(?<![A-Za-z]){hearsay}(?![A-Za-z])|{hearsay_zh}")
_WANTS = grammar.shape(r"(?<![A-Za-z]){opinion_who}\s(?:really\s)?wants?(?![a-z])|{opinion_who_zh}(?:非?要|想要)")
_IN_CHARGE = grammar.shape(r"(?<![A-Za-z]){in_charge}(?![A-Za-z])|{in_charge_zh}")
_BINDING = grammar.shape(r"(?<![A-Za-z]){binding}(?![A-Za-z])|{binding_zh}")
_ELSEWHERE = grammar.shape(r"(?<![A-Za-z]){elsewhere_en}(?![A-Za-z])|{elsewhere_zh}")
_ASKS_HARDWARE = grammar.shape(r"(?<![A-Za-z]){asks_hardware}(?![A-Za-z])|{asks_hardware_zh}")
_OF_HARDWARE = grammar.shape(r"s?\s*(?:{hardware_word}\s)?(?:{cloud_joint}\s*)?")
_PRICED = grammar.shape(
    r"(?:{about_en}\s|at\s|for\s|like\s)*(?:{money_sign}\s?{amount}|{amount}\s?{money_unit}(?![a-z])|{amount}(?=\s?(?:{each_period})\s?(?:{budget_period}|gpu)(?![a-z])))"
    r"(?:\s?(?:{each_period})\s?(?:gpu[\s/-])?(?:{budget_period}|{month}|mo)(?![a-z]))?|{leased_money}"
)
"""What somebody takes for it."""
_FAILS = grammar.shape(r"(?<![A-Za-z]){fails}(?![A-Za-z])|{fails_zh}")
_RAN_BEFORE = grammar.shape(r"(?<![A-Za-z]){ran_before}(?![A-Za-z])|{ran_before_zh}")
RENTS = grammar.shape(r"(?<![A-Za-z]){rents_en}(?![A-Za-z])|{rents_zh}")
_GIVES_UP = grammar.shape(r"(?<![A-Za-z]){gives_up}(?![a-z])|{gives_up}(?<=[一-鿿])")
_REJECTS_OWN = grammar.shape(r"(?<![A-Za-z]){rejects_own}(?![a-z])|{rejects_own}(?<=[一-鿿])")
_OF_OWN = grammar.shape(r"(?<![A-Za-z]){asked_of_own}(?![a-z])|{asked_of_own}(?<=[一-鿿])")
_REPLACES = grammar.shape(r"(?<![A-Za-z]){replaces}|{replaces}(?<=[一-鿿])")
_QUESTION = grammar.shape(r"[?？]|{question_zh}|^\s*{question_head}(?![a-z])")
_CLAUSE = grammar.shape(r"[,，]\s*(?:{clause_joint}\s)?")
_WORKS = grammar.shape(r"(?<![A-Za-z]){works_so_far}(?![a-z])|{works_so_far}(?<=[一-鿿])")
_CONTRAST = grammar.shape(r"(?<![A-Za-z]){contrast}(?![a-z])|{contrast}(?<=[一-鿿])")
_BOTH = grammar.shape(
    r"(?<![A-Za-z])(?-i:GPU)s?(?![a-z]).*(?:(?<![A-Za-z])or(?![a-z])|{or_zh})|(?:(?<![A-Za-z])or(?![a-z])|{or_zh}).*(?<![A-Za-z])(?-i:GPU)"
)
"""A choice between a server with cards and one without."""
_OWN_BOX = grammar.shape(r"(?<![A-Za-z]){own_box}(?![A-Za-z])|{own_box_zh}")
"""A computer at home, which is no limit where something is to be rented."""
_CARD_OR = grammar.shape(r"\s*[,，、]?\s*{card_or}\s*(?P<one>{one_card})?\s*")
_CARD_CHOICE = grammar.shape(r"(?<![A-Za-z]){card_choice}(?![a-z])|{card_choice}(?<=[一-鿿])")
_OF_CLOUD = grammar.shape(r"s?\s*(?:{cloud_joint}\s*)?")
_CLOUD_OF = grammar.shape(r"(?:'s)?\s*(?:{cloud_joint_zh})?\s*(?:的|an?\s|single\s|{card_count}\s?[x×*]?\s?)*{card_counter}?\s*")
"""Between a card and its cloud."""
_BRACKETS = re.compile(r"[(（][^()（）]{1,60}[)）]")
_CLAIM_ASKED = grammar.shape(r"(?<![A-Za-z]){claim_asked}|{claim_asked}(?<=[一-鿿])")
_WHETHER = grammar.shape("{asks_whether}")
PERMITTED = grammar.shape(
    r"(?<![A-Za-z]){permits}\s(?:if\sit\s|for\sit\sto\s)?(?:runs?\s)(?:for\s)?(?:{about_en}\s)?(?P<en>{long_time})|跑\s*个?(?P<zh>{long_time})\s*(?:也|都)?{permits_zh}"
)
_OWN_WORK = grammar.shape(r"(?<![A-Za-z]){own_work}(?![a-z])|{own_work}(?<=[一-鿿])")
_LACKED = grammar.shape(r"{lacking}\s*{fast_network}")
"""A network that one's own servers lack."""

#: Sentences of a post, and how many words it has at least.
_MOST_SENTENCES, _FEWEST_WORDS = 1, 25
#: Letters between a word for a replacement and what replaces.
_NEAR = 20


def is_post(text: str) -> bool:
    """Whether a text is told as a story: several sentences, longer than a wish."""
    sentences = [part for part in _END.split(text) if part.strip()]
    return length_in_words(text) >= _FEWEST_WORDS and (len(sentences) > _MOST_SENTENCES or len(list(statements(text))) > 4)


def length_in_words(text: str) -> int:
    """How long a text is: words, three Chinese characters counting as two."""
    return len(re.findall(r"[A-Za-z0-9][\w.,'-]*", text)) + len(re.findall("[一-鿿]", text)) * 2 // 3


def statements(text: str) -> Iterator[tuple[int, int]]:
    """Where each statement of a text begins and ends."""
    edges = [0, *itertools.chain.from_iterable(found.span() for found in _JOINT.finditer(text)), len(text)]
    return ((start, end) for start, end in zip(edges[::2], edges[1::2], strict=True) if text[start:end].strip())


def read_post(sentence: Sentence) -> None:
    """Take out what only tells: it holds a word of a story and none of a wish, and names no
    model that the rest does not name."""
    if not is_post(sentence.text):
        return
    sentence.is_post = True
    parts = list(statements(sentence.text))
    models = [_models(sentence.text[start:end]) for start, end in parts]
    if any(name for named in models for name in named if not grammar.BARE_SIZE.fullmatch(name)):  # a size beside a name tells nothing
        models = [{name for name in named if not grammar.BARE_SIZE.fullmatch(name)} for named in models]
    told, rents = [], RENTS.search(sentence.text)
    for at, (start, end) in enumerate(parts):
        text = sentence.text[start:end]
        elsewhere = {name for other, named in enumerate(models) if other != at for name in named}
        rest = any(named for other, named in enumerate(models) if other != at and _WANTED.search(sentence.text[slice(*parts[other])]))
        if (not models[at] - elsewhere or (rest and _RAN_BEFORE.search(text) and not _WANTED.search(text))) and (
            (_is_told(text) and not (_asks_cards(sentence.text, start, end) or _is_doubted(sentence.text, start, end)))
            or (rents and _OWN_BOX.search(text) and not _WANTED.search(text))
        ):
            kept = _apart(
                [*_choices(sentence.text, start, end), *_loads(sentence.text, start, end), *_own_amounts(sentence.text, start, end)]
            )
            gone = [
                sentence.blank(first, last)
                for first, last in itertools.pairwise([start, *itertools.chain.from_iterable(kept), end])
                if (first, last) not in kept
            ]
            told += [words for one in gone if (words := one.strip(" ,，"))]
        else:
            told += list(_told_clauses(sentence, start, end))
            told += list(_heard_figures(sentence, start, end))
    told += list(_taken_back(sentence, parts))
    told += list(_past_places(sentence))
    told += list(_past_cards(sentence, parts))
    told += list(_replaced_models(sentence))
    _free_cards(sentence, parts)
    if told:
        sentence.noted += told
        sentence.assumed.append(Message("workload.assumed_told", words="; ".join(told)))


def _told_clauses(sentence: Sentence, start: int, end: int) -> Iterator[str]:
    """Of a statement that names the model, clauses that only tell how something goes: "with more
    than 2 or 3 people it crawls"."""
    clauses = list(_CLAUSE.finditer(sentence.text, start, end))
    edges = [start, *itertools.chain.from_iterable(clause.span() for clause in clauses), end]
    for first, last in zip(edges[::2], edges[1::2], strict=True) if clauses else ():
        clause = sentence.text[first:last]
        if _FAILS.search(clause) and not (_models(clause) or _WANTED.search(clause)):
            is_more = 0.0 < _most_users(sentence.text, start, first) < _most_users(sentence.text, first, last)
            kept = _load_figures(sentence.text, first, last) if is_more else []
            for begin, stop in itertools.pairwise([first, *itertools.chain.from_iterable(kept), last]):
                if (begin, stop) not in kept and (words := sentence.blank(begin, stop)):
                    yield words


def _most_users(text: str, start: int, end: int) -> float:
    rules = [rule for rule in grammar.QUANTITIES if rule.option == "users"]
    found = [parse_count(one["value"].replace(" ", "")) for rule in rules for one in rule.pattern.finditer(text, start, end)]
    return max(found, default=0.0)


def _load_figures(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """How many ask, and how long their prompts are: "works with 1 user, at 8 users with long
    prompts (10-12k) it stalls"."""
    return _apart(
        [
            found.span()
            for rule in grammar.QUANTITIES
            if rule.option in ("users", "input_tokens")
            for found in rule.pattern.finditer(text, start, end)
        ]
    )


def _heard_figures(sentence: Sentence, start: int, end: int) -> Iterator[str]:
    """Of a statement that tells what others say, and names the model, its times and cards."""
    if not (heard := _HEARSAY.search(sentence.text, start, end)) or _is_doubted(sentence.text, start, end):
        return
    spans = [found.span() for found in grammar.DURATION.finditer(sentence.text, heard.end(), end)]
    named = [name for name in names_in(sentence.text[:end]) if name.start >= heard.end()]
    hardware = [name for name in named if name.kind in ("gpu", "server")]
    spans += [(_with_count(sentence.text, name.start), name.end) for name in hardware]
    ends = {name.end for name in hardware}
    spans += [  # the cloud of that hardware
        (name.start, name.end)
        for name in named
        if name.kind == "cloud" and any(_OF_HARDWARE.fullmatch(sentence.text, last, name.start) for last in ends if last < name.start)
    ]
    spans += (
        [found.span() for found in _PRICED.finditer(sentence.text, heard.end(), end)]
        if not _BINDING.search(sentence.text, start, end)
        else []
    )
    for first, last in spans:
        yield sentence.blank(first, last)


def _taken_back(sentence: Sentence, parts: Sequence[tuple[int, int]]) -> Iterator[str]:
    """What goes, where the statement behind it, which was taken out, says that it does not do:
    "LoRA works but the quality is not good enough"."""
    for (start, end), (first, last) in itertools.pairwise(parts):
        gone = not sentence.text[first:last].replace(grammar.BLANK, "").strip()
        text = sentence.text[start:end]
        if (
            gone
            and _CONTRAST.search(sentence.whole[end - 8 : first + 4])
            and _WORKS.search(text)
            and not (_models(text) or _WANTED.search(text))
        ):
            yield sentence.blank(start, end)


def give_up_own(sentence: Sentence) -> None:
    """A machine that is there and given up, where something is rented and nothing is asked of it,
    is no machine to plan on."""
    rejects = _REJECTS_OWN.search(sentence.whole)
    if not (sentence.own_machine and (rejects or (sentence.is_post and _GIVES_UP.search(sentence.whole)))):
        return
    asks = [sentence.whole[start : end + 1] for start, end in statements(sentence.whole)]
    if not (rejects or RENTS.search(sentence.whole) or any(reading.option in ("gpu", "cloud") for reading in sentence.readings)):
        return
    if any(_OF_OWN.search(text) and _QUESTION.search(text) for text in asks):
        return
    told = [sentence.own_machine, *_batches_there(sentence)]
    told += [sentence.blank(*found.span()) for found in list(_REJECTS_OWN.finditer(sentence.text))]
    sentence.noted += told
    sentence.assumed.append(Message("workload.assumed_told", words="; ".join(told)))
    sentence.own_machine = ""


def _batches_there(sentence: Sentence) -> Iterator[str]:
    """The batch that went on the machine that is given up: another one takes what it can."""
    ends = [0, *(found.end() for found in _END.finditer(sentence.whole)), len(sentence.whole)]
    start, end = next(((first, last) for first, last in itertools.pairwise(ends) if first <= sentence.own_at < last), (0, 0))
    for rule in grammar.QUANTITIES:
        for found in list(rule.pattern.finditer(sentence.text, start, end)) if rule.option in ("global_batch", "micro_batch") else ():
            yield sentence.blank(*found.span())


def _name_once(sentence: Sentence) -> None:
    """A card that is named again without its number or memory is the same one: "one A10 24G ... can
    the A10 take it?"."""
    known = [set(facts.match_accelerators(name)) for name, _ in sentence.card_counts]
    again = [
        at
        for at, (_, count) in enumerate(sentence.card_counts)
        if at
        and not count
        and known[at]
        and any(other == known[at] and sentence.card_counts[one][1] for one, other in enumerate(known[:at]))
    ]
    for at in reversed(again):
        name = sentence.card_counts[at][0]
        del sentence.card_counts[at], sentence.card_spans[at]
        told = [one for one in sentence.readings if one.option == "gpu"]
        same = [one for one in told if set(facts.match_accelerators(one.value)) == known[at]]
        if len(same) > 1 and (twice := next((one for one in reversed(same) if one.value == name), None)):
            sentence.readings.remove(twice)


def compare_cards(sentence: Sentence) -> None:
    """Cards that a post asks about, or that have "or" between them, are ways to compare: a number
    of one of them limits no other, and a processor beside them is none of them."""
    if sentence.is_post:
        _name_once(sentence)
    joints = [_CARD_OR.fullmatch(sentence.whole, one[1], other[0]) for one, other in itertools.pairwise(sentence.card_spans)]
    if not (sentence.is_post or any(joints) or (len(dict(sentence.card_counts)) > 1 and _CARD_CHOICE.search(sentence.whole))):
        return
    for at, joint in enumerate(joints, 1):  # "8 A100 or H100" are eight of either, "or an H100" is one
        name, count = sentence.card_counts[at]
        if joint and not count and (before := sentence.card_counts[at - 1][1]):
            sentence.card_counts[at] = (name, 1 if joint["one"] else before)
    for reading in [one for one in sentence.readings if one.option == "gpu" and one.value == "none"]:
        said = [text for text in _END.split(sentence.whole) if reading.words in text]
        is_there = sentence.is_post and all(
            any((_is_told(text), *(one.search(text) for one in (_FAILS, _QUESTION, _WHETHER)))) for text in said
        )
        if sentence.card_counts or is_there or any(_BOTH.search(text) for text in said):
            sentence.readings.remove(reading)
            sentence.noted.append(reading.words)
    for reading in [one for one in sentence.readings if one.option == "num_gpus"]:
        told = {pair for pair in sentence.card_counts if pair[1]} if len(dict(sentence.card_counts)) == 1 else set(sentence.card_counts)
        if len(told) > 1 and len({count for _, count in told}) > 1:  # one card, named again without a number, is as many as before
            sentence.readings.remove(reading)
            sentence.noted += [reading.words, *sentence.other_counts]
            sentence.asked = [words for words in sentence.asked if words not in sentence.other_counts]
    asked = _asked_counts(sentence)
    named = next((one for one in sentence.readings if one.option == "gpu"), None)
    cards = {frozenset(facts.match_accelerators(name)) for name, _ in sentence.card_counts}
    if len(asked) == 1 and named and not sentence.has("num_gpus"):
        ((name, count),) = asked
        if len(cards) == 1 or (name == named.value and sum(one.option == "gpu" for one in sentence.readings) == 1):
            sentence.readings.append(Reading("num_gpus", str(count), ""))


def _asked_counts(sentence: Sentence) -> set[tuple[str, int]]:
    """How many of which card are asked about: "is a 4xA10G enough?", where one runs now."""
    asked = set()
    for (name, count), (start, _) in zip(sentence.card_counts, sentence.card_spans, strict=True):
        inside = next((sentence.whole[first : last + 1] for first, last in statements(sentence.whole) if first <= start < last), "")
        if count and _QUESTION.search(inside):
            asked.add((name, count))
    return asked


def settle_card_clouds(sentence: Sentence) -> None:
    """A cloud that stands with one of the cards between which a choice is asked is no limit of the
    others: "a single 4090 on RunPod or 8 H100"."""
    cards = list(zip(sentence.card_counts, sentence.card_spans, strict=True))
    if len({name for (name, _), _ in cards}) < 2:
        return
    bound: list[tuple[str, str, int]] = []
    for cloud, start, end in sentence.cloud_spans:
        before = next((at for at, (_, span) in enumerate(cards) if _OF_CLOUD.fullmatch(sentence.whole, span[1], start)), None)
        after = next((at for at, (_, span) in enumerate(cards) if _CLOUD_OF.fullmatch(sentence.whole, end, span[0])), None)
        at = before if before is not None else after
        if at is None:
            return
        bound.append((cards[at][0][0], cloud, at))
    last = len(cards) - 1
    if not bound or (len(bound) == 1 and bound[0][2] in (0, last) and _is_shared(sentence, cards, bound[0])):
        return
    sentence.card_clouds = [(name, cloud) for name, cloud, _ in bound]
    sentence.readings = [one for one in sentence.readings if one.option != "cloud"]
    sentence.assumed += [Message("workload.assumed_card_cloud", card=name, cloud=cloud) for name, cloud in sentence.card_clouds]


def _is_shared(sentence: Sentence, cards: Sequence[tuple[tuple[str, int], tuple[int, int]]], bound: tuple[str, str, int]) -> bool:
    """Whether a cloud behind or before a list of cards is that of all of them: "A100 or H100 on
    AWS", 阿里云的A10还是L20."""
    joints = [_CARD_OR.fullmatch(sentence.whole, one[1][1], other[1][0]) for one, other in itertools.pairwise(cards)]
    return all(joints)


def _past_places(sentence: Sentence) -> Iterator[str]:
    """Clouds in brackets, where something fails: it is tried there, and may be done elsewhere."""
    if not _FAILS.search(sentence.whole):
        return
    for inside in list(_BRACKETS.finditer(sentence.text)):
        for name in names_in(inside[0]):
            if name.kind == "cloud":
                yield sentence.blank(inside.start() + name.start, inside.start() + name.end)


def _past_cards(sentence: Sentence, parts: Sequence[tuple[int, int]]) -> Iterator[str]:
    """Cards on which something fails, where it is asked what else would do, or on which it ran
    before, where another is asked about: none is a limit."""
    yield from _replaced_cards(sentence)
    asks = _ASKS_HARDWARE.search(sentence.whole) is not None
    named = [any(name.kind == "gpu" for name in names_in(sentence.text[start:end])) for start, end in parts]
    if not asks and sum(named) < 2:
        return
    fails_elsewhere = asks and sum(named) == 1 and _FAILS.search(sentence.whole)
    for start, end in parts:
        text = sentence.whole[start : end + 1]
        is_past = (
            _FAILS.search(_WHETHER.sub(" ", text))
            or tells_past(text)
            or (fails_elsewhere and not (_QUESTION.search(text) or _WHETHER.search(text)))
            if asks
            else _RAN_BEFORE.search(text)
        )
        if not is_past:
            continue
        for name in names_in(sentence.text[start:end]):
            first, last = start + name.start, start + name.end
            first = _with_count(sentence.text, first)
            is_there = name.kind == "gpu" and not grammar.OWNED.search(sentence.text[:first])
            if is_there or (name.kind == "cloud" and rented_there(sentence.whole, start) and named[parts.index((start, end))]):
                yield sentence.blank(first, last)


def _replaced_models(sentence: Sentence) -> Iterator[str]:
    """The model that runs now, where another is to take its place."""
    for word in _REPLACES.finditer(sentence.text):
        models = [name for name in names_in(sentence.text) if name.kind == "model"]
        after = next((name for name in models if 0 <= name.start - word.end() <= _NEAR), None)
        if after is None:
            continue
        for name in (one for one in models if one.end <= word.start() and one.value.casefold() != after.value.casefold()):
            yield sentence.blank(name.start, name.end)
        return


_UNNAMED = grammar.shape(r"{card_count}\s?{card_counter}?\s?{card_name}(?![a-z])")
_NEEDED = grammar.shape(r"(?<![A-Za-z]){needed_really}(?![a-z])|{needed_really}(?<=[一-鿿])")


def _free_cards(sentence: Sentence, parts: Sequence[tuple[int, int]]) -> None:
    """A card of which a post asks whether it is needed at all is no limit: the plan, over all
    cards, says it. Where another card is named beside it they are compared."""
    for start, end in parts:
        if not (found := _NEEDED.search(sentence.text, start, end)) or not _QUESTION.search(sentence.text[start : end + 1]):
            continue
        for many in list(_UNNAMED.finditer(sentence.text, found.end(), end)):  # 有没有必要上 8 卡
            sentence.note(*many.span())
        cards = [
            name for name in names_in(sentence.text[:end]) if name.kind == "gpu" and name.start >= found.end() and name.value != "none"
        ]
        if len(cards) != 1 or _OF_OWN.search(sentence.text[start:end]):
            continue
        words = sentence.blank(_with_count(sentence.text, cards[0].start), cards[0].end)
        sentence.noted.append(words)
        sentence.assumed.append(Message("workload.assumed_free_card", card=words))


def _replaced_cards(sentence: Sentence) -> Iterator[str]:
    """Cards that are to be replaced by others, which are named behind the word for it."""
    if not (word := _REPLACES.search(sentence.text)):
        return
    cards = [name for name in names_in(sentence.text) if name.kind == "gpu" and name.value != "none"]
    if not any(0 <= name.start - word.end() <= _NEAR for name in cards):
        return
    for name in (one for one in cards if one.end <= word.start()):
        counted = grammar.COUNT_BEFORE.search(sentence.text[: name.start])
        first = counted.start() if counted else name.start
        if grammar.OWNED.search(sentence.text[:first]):
            continue
        if counted and not sentence.own_machine and not rented_there(sentence.whole, first):  # what it is to be compared with
            sentence.own_machine = f"{card_count(counted['count'])}x{name.value}"
        yield sentence.blank(first, name.end)


def _with_count(text: str, start: int) -> int:
    """Where a card begins that is named at `start`: with its number, where one stands before it."""
    counted = grammar.COUNT_BEFORE.search(text[:start])
    return counted.start() if counted else start


def _choices(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where a statement says how something is done that the rest of the text does not say: the
    method and the framework are those of the wish."""
    kept = []
    if not _FAILS.search(text[start:end]):  # what was tried before is past
        return []
    for kind in (grammar.TUNING_METHODS | grammar.METHODS, grammar.FRAMEWORKS):
        found = [match for pattern in kind.values() for match in pattern.finditer(text)]
        inside = [match for match in found if start <= match.start() and match.end() <= end]
        if inside and len(inside) == len(found):
            kept.append(max(inside, key=lambda match: match.end() - match.start()).span())
    return sorted(kept) if len(kept) < 2 or kept[0][1] <= kept[1][0] or kept[1][1] <= kept[0][0] else kept[:1]


def _loads(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Where a statement that tells how things are says in a clause of its own how much is to be
    done: "900 hours of audio a month, currently we pay for an API"."""
    clauses = [found.span() for found in _CLAUSE.finditer(text, start, end)]
    edges = [start, *itertools.chain.from_iterable(clauses), end]
    return [span for span in zip(edges[::2], edges[1::2], strict=True) if clauses and _states_load(text[slice(*span)])]


def _own_amounts(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """How much one's own work is, where a statement that is told says it in a question: "or should
    I rent something for my 30k-sample dataset (about 300 tokens)?"."""
    other = _ELSEWHERE.search(text, start, end)
    own = _OWN_WORK.search(text, other.end(), end) if other else None
    return [(own.start(), end)] if own else []


def _states_load(clause: str) -> bool:
    if any(pattern.search(clause) for pattern in (_TOLD, _HEARSAY, _ELSEWHERE, _FAILS, _RAN_BEFORE)):
        return False
    return bool(EACH_DAY_AMOUNT.search(clause)) or any(
        rule.pattern.search(clause) for rule in grammar.QUANTITIES if rule.option in ("rate", "users")
    )


def _apart(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in their order, without those that another one covers in part."""
    kept: list[tuple[int, int]] = []
    for start, end in sorted(spans, key=lambda span: span[0] - span[1]):
        if all(end <= first or last <= start for first, last in kept):
            kept.append((start, end))
    return sorted(kept)


def _models(text: str) -> set[str]:
    """The models that a statement names, by a name or by a size."""
    return {name.value for name in names_in(text) if name.kind == "model"} or {match[0] for match in grammar.BARE_SIZE.finditer(text)}


def _asks_cards(text: str, start: int, end: int) -> bool:
    """Whether a statement asks which of some cards would do."""
    named = [name for name in names_in(text[start:end]) if name.kind == "gpu" and name.value != "none"]
    return len(named) > 1 and bool(_QUESTION.search(text[start : end + 1]))


def _is_doubted(text: str, start: int, end: int) -> bool:
    """Whether what others say of a card is asked about: "my friend says that an L4 is enough, is he
    right?"."""
    if not _HEARSAY.search(text, start, end) or not any(name.kind == "gpu" for name in names_in(text[start:end])):
        return False
    following = _END.split(text[end:], maxsplit=1)[0]
    return bool(_CLAIM_ASKED.search(text[start:end] + following + "?"))


def _is_told(text: str) -> bool:
    if PERMITTED.search(text):
        return False
    return bool((_TOLD.search(text) and not _WANTED.search(text)) or _ELSEWHERE.search(text) or is_hearsay(text))


def tells_past(text: str) -> bool:
    """Whether a statement tells of a run that is over."""
    return bool(_RAN_BEFORE.search(text)) and not _WANTED.search(text)


def is_hearsay(text: str) -> bool:
    """Whether a statement tells what others say: of who decides no limit, and only what is said of
    hardware."""
    if _WANTS.search(text) and not _HEARSAY.search(text):
        return _names_hardware(text)
    if not _HEARSAY.search(text):
        return False
    return not _IN_CHARGE.search(text) or (not _BINDING.search(text) and _names_hardware(text))


def _names_hardware(text: str) -> bool:
    return any(name.kind in ("gpu", "server") and name.value != "none" for name in names_in(text))


def settle_post(sentence: Sentence, hard: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of what is left of a post: (what demands something, what is said to be left out)."""
    if not sentence.is_post or not sentence.has("model"):
        return list(hard), []
    stops = [piece for piece in hard if demands(piece) and not _LACKED.fullmatch(piece)]
    doubtful = [piece for piece in hard if piece not in stops]
    if doubtful:
        sentence.assumed.append(Message("workload.assumed_without", words="; ".join(doubtful)))
    return stops, doubtful
