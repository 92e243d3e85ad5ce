"""What is named in a sentence: model, cards and how many, clouds and places, and what is denied,
counted or owned of them."""

from __future__ import annotations

import re

from rightfit import facts
from rightfit.messages import Message
from rightfit.units import parse_count
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import Name, names_in
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken


def read_hub_id(sentence: Sentence) -> None:
    for found in (*grammar.HUB_ID.finditer(sentence.text), *grammar.PATH.finditer(sentence.text)):
        is_unit = grammar.shape("(?:{rate_not_id}|{money_unit}|{amount})/(?:{rate_period}s?|{budget_period}|{month})").fullmatch(found[0])
        if is_unit or sentence.has("model") or is_taken("data", found[0]):
            continue
        sentence.take(found.start(), found.end(), "model", found[0])


def read_names(sentence: Sentence) -> None:
    """What is named. The model is the longest of the names of models, one behind "reward model"
    rewards; other models, servers and kinds that no usual model stands for are asked about."""
    names = names_in(sentence.text)
    models = [name for name in names if name.kind == "model"]
    rewarding = _rewarding(sentence, models)
    model = max((name for name in models if name is not rewarding), key=lambda one: one.end - one.start, default=None)
    chain = _alternatives(sentence, [name for name in models if name is not rewarding], model)
    model = chain[0] if chain else model
    for name in names:
        if name.kind == "gpu":
            _read_gpu(sentence, name)
        elif name.kind in ("cloud", "country", "region", "city"):
            _read_place(sentence, name)
        elif name.kind == "data" and not sentence.has("data") and is_taken("data", name.value):
            sentence.take(name.start, name.end, "data", name.value)
            sentence.data_samples = facts.dataset(name.value).samples or 0
            if not (model or sentence.has("model")) and (kind := grammar.KINDS_OF_DOMAIN.get(facts.dataset(name.value).domain, "")):
                sentence.kinds.append(kind)
        elif name.kind == "server":
            sentence.ask(name.start, name.end)
        elif name.kind == "choice":
            sentence.blank(name.start, name.end)
        elif name in chain[1:]:
            _note_alternative(sentence, chain[0].value, name.start, name.end)
        elif name is model and not sentence.has("model"):
            sentence.take(name.start, name.end, "model", name.value)
        elif name.kind == "work":
            _read_kind(sentence, name, is_named=model is not None or sentence.has("model"))
    if chain:
        _read_unknown_alternative(sentence, chain, names)


def _alternatives(sentence: Sentence, models: list[Name], model: Name | None) -> list[Name]:
    """The models that stand beside `model` with "or" between them, and it: the first is planned."""
    chain = [model] if model else []
    for name in reversed(models):
        if chain and name.end <= chain[0].start and grammar.ALTERNATIVE.fullmatch(sentence.text[name.end : chain[0].start]):
            chain.insert(0, name)
    for name in models:
        if chain and name.start >= chain[-1].end and grammar.ALTERNATIVE.fullmatch(sentence.text[chain[-1].end : name.start]):
            chain.append(name)
    return chain


def _note_alternative(sentence: Sentence, planned: str, start: int, end: int) -> None:
    other = sentence.text[start:end].strip()
    sentence.assumed.append(Message("workload.assumed_alternative", planned=planned, other=other))
    sentence.note(start, end)


def _read_unknown_alternative(sentence: Sentence, chain: list[Name], names: list[Name]) -> None:
    """A name that nobody knows, with "or" beside the models: a plan of the known one serves."""
    before, after = (
        grammar.UNKNOWN_BEFORE.search(sentence.text[: chain[0].start]),
        grammar.UNKNOWN_AFTER.match(sentence.text, chain[-1].end),
    )
    for found in filter(None, (before, after)):
        start, end = found.span("name" if found["name"] else "en")
        if all(end <= name.start or name.end <= start for name in names):
            _note_alternative(sentence, chain[0].value, start, end)


def _rewarding(sentence: Sentence, models: list[Name]) -> Name | None:
    """The model after "reward model": it rewards the answers of another one, which is trained."""
    for name in models if len(models) > 1 else ():
        if head := grammar.shape(r"{reward_model_head}\s*$").search(sentence.text[: name.start]):
            sentence.take(head.start(), name.end, "reward_model", name.value)
            return name
    return None


def _read_kind(sentence: Sentence, name: Name, *, is_named: bool) -> None:
    """A kind of work: beside a model it says nothing more; alone, usual models of its kind of data
    stand for it, or it is asked which model is meant."""
    kind = grammar.KINDS_OF_DATA.get(name.value.casefold(), "")
    if not is_named and kind not in {row["kind"] for row in facts.table("typical_models")}:
        sentence.ask(name.start, name.end)
        return
    if not is_named:
        sentence.kinds.append(kind)
    sentence.blank(name.start, name.end)


def _read_place(sentence: Sentence, name: Name) -> None:
    option = "region" if name.kind == "city" else name.kind
    if option == "country" and name.value == "Europe" and sentence.text[name.start : name.end].isupper():
        option = "residency"  # the union is an area of law
    value = "eu" if option == "residency" else name.value
    whose = option != "cloud" and (
        grammar.PLACE_OF.match(sentence.text, name.end) or grammar.PLACED_BEFORE.search(sentence.text[: name.start])
    )
    if whose:  # where somebody is says nothing of the server
        sentence.note(min(whose.start(), name.start), max(whose.end(), name.end))
        return
    if denied := sentence.denied_from(name.start, name.end):
        sentence.deny(denied, option, value)
    else:
        sentence.take(name.start, name.end, option, value)


def _read_gpu(sentence: Sentence, name: Name) -> None:
    """An accelerator, how many of it, and whether it is one's own."""
    start, end = name.start, name.end
    if denied := sentence.denied_from(start, end):
        sentence.deny(denied, "gpu", name.value)
        return
    if name.value == "none":
        sentence.take(start, end, "gpu", name.value)
        return
    before = sentence.text[:start]
    counted = grammar.COUNT_BEFORE.search(before)
    after = None if counted else grammar.COUNT_AFTER.match(sentence.text, end)
    count = card_count(counted["count"]) if counted else card_count(after["times"] or after["cards"]) if after else 0
    first, last = counted.start() if counted else start, after.end() if after else end
    nodes = grammar.NODES_BEFORE.search(sentence.text[:first]) if counted else None
    if owned := grammar.OWNED.search(sentence.text[: nodes.start() if nodes else first]):
        last += len(memory[0]) if (memory := grammar.MEMORY_BEHIND.match(sentence.text[last:])) else 0
        if nodes and card_count(nodes["nodes"]) > 1:  # several servers of one's own: no option says so
            sentence.ask(nodes.start(), last)
            return
        _own(sentence, owned.start(), last, f"{count or 1}x{name.value}")
        return
    if owned := grammar.OWNED_AFTER.match(sentence.text, last):
        if nodes and card_count(nodes["nodes"]) > 1:
            sentence.ask(nodes.start(), owned.end())
            return
        _own(sentence, nodes.start() if nodes else first, owned.end(), f"{count or 1}x{name.value}")
        return
    if compared := grammar.COMPARED.search(sentence.text[:first]):
        sentence.ask(compared.start(), last)
        return
    sentence.take(start, end, "gpu", name.value)
    if after:
        sentence.take(end, last, "num_gpus", str(count))
    _count(sentence, counted, nodes, count)


def _count(sentence: Sentence, counted: re.Match[str] | None, nodes: re.Match[str] | None, count: int) -> None:
    """So many cards, each of so many servers having them where that is said."""
    if counted is None or sentence.has("num_gpus"):
        return
    if grammar.HOW_MANY.search(sentence.text[: counted.start()]):  # cards of one server, of which the number is asked
        sentence.note(*counted.span())
        return
    sentence.take(counted.start(), counted.end(), "num_gpus", str(count * (card_count(nodes["nodes"]) if nodes else 1)))
    if nodes:
        sentence.take(nodes.start(), nodes.end(), "max_nodes", str(card_count(nodes["nodes"])))


def card_count(text: str) -> int:
    return grammar.CARD_COUNTS.get(text.casefold()) or int(parse_count(text))


def _own(sentence: Sentence, start: int, end: int, machine: str) -> None:
    """A machine that somebody has, and where it stands."""
    places = [(place, stands) for place, spelled in grammar.OWN_PLACES.items() if (stands := spelled.search(sentence.text))]
    sentence.blank(start, end)
    for _, stands in places:
        sentence.blank(*stands.span())
    sentence.own_machine = machine + (f"@{places[0][0]}" if places else "")


def read_cards(sentence: Sentence) -> None:
    """Cards by their number or their memory, without a name; memory of servers and tokens a second
    of a whole service are for the plan to say, so they are asked about."""
    for pattern in (grammar.CARD_RANGE, grammar.TOKEN_RATE):
        while match := pattern.search(sentence.text):
            sentence.ask(*match.span())
    while match := grammar.CARD_MEMORY.search(sentence.text):
        size = f"{match['value'] or match['size']}GB" + ("+" if match["more"] or match["up"] else "")
        counted = grammar.COUNT_BEFORE.search(sentence.text[: match.start()])
        if facts.accelerators_of_memory(size):
            sentence.take(*match.span(), "gpu", size)
        else:
            sentence.ask(*match.span())
        if counted:
            _count(sentence, counted, grammar.NODES_BEFORE.search(sentence.text[: counted.start()]), card_count(counted["count"]))
    while match := grammar.HOST_MEMORY.search(sentence.text):
        sentence.ask(*match.span())
    while match := grammar.UNNAMED_CARDS.search(sentence.text):  # "8 张卡" is no amount of pictures
        nodes = grammar.NODES_BEFORE.search(sentence.text[: match.start()])
        if denied := sentence.denied_from(*match.span()):
            sentence.ask(*denied)
        elif sentence.has("num_gpus"):
            sentence.ask(*match.span())
        else:
            _count(sentence, match, nodes, card_count(match["count"]))


def read_watched(sentence: Sentence) -> None:
    """Frames that cameras send, as requests a second: cameras times frames a second of each."""
    watched, rate = grammar.CAMERAS.search(sentence.text), grammar.FRAME_RATE.search(sentence.text)
    if rate is None or (watched is None and grammar.DRAWING.search(sentence.text)):
        return
    frames = parse_count(next(filter(None, rate.groups())))
    cameras = card_count(watched["en"] or watched["zh"]) if watched else 1
    said = "; ".join(part[0].strip(" ,，") for part in (watched, rate) if part)
    sentence.readings.append(Reading("rate", f"{frames * cameras:g}/s", said))
    for part in filter(None, (rate, watched)):
        sentence.blank(*part.span())


def read_classes(sentence: Sentence) -> None:
    """How many classes are told apart changes nothing, save where groups are looked for."""
    if grammar.CLUSTERING.search(sentence.text):
        return
    while found := grammar.CLASSES.search(sentence.text):
        sentence.note(*found.span())


def read_lease(sentence: Sentence) -> None:
    """How long a server is rented is no time in which the work must end."""
    while found := grammar.RENTING.search(sentence.text):
        sentence.ask(*found.span())
