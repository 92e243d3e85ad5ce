"""What is named in a sentence: model, cards and how many, clouds and places, and what is denied,
counted or owned of them."""

from __future__ import annotations

import itertools
import re

from rightfit import facts
from rightfit.errors import AmbiguousNameError, RightfitError
from rightfit.facts import resolve, tables
from rightfit.messages import Message
from rightfit.units import parse_count, parse_data
from rightfit.workload.ask import grammar
from rightfit.workload.ask.names import Name, meant, names_in, relative
from rightfit.workload.ask.sentence import Reading, Sentence, is_taken

_TWO_NUMBERS = re.compile(r"[\d.]+[kKmM]?/[\d.]+[kKmM]?")
"""Tokens in and out, "1k/300": no repository."""


def read_hub_id(sentence: Sentence) -> None:
    for found in (*grammar.HUB_ID.finditer(sentence.text), *grammar.PATH.finditer(sentence.text)):
        is_unit = grammar.shape("(?:{rate_not_id}|{money_unit}|{amount})/(?:{rate_period}s?|{budget_period}|{month})").fullmatch(
            found[0]
        ) or _TWO_NUMBERS.fullmatch(found[0])
        if is_unit or sentence.has("model") or is_taken("data", found[0]) or _is_choice_of(found[0]):
            continue
        if _is_beside_model(sentence, found):  # a module of a log, a choice: NET/Plugin, bf16/gpu
            sentence.ask(*found.span())
            continue
        sentence.take(found.start(), found.end(), "model", found[0])


def _is_choice_of(words: str) -> bool:
    """Whether a slash stands between two words for a choice, "QLoRA/LoRA", and no identifier."""
    return all(any(pattern.fullmatch(part) for pattern in grammar.named_words()) for part in words.split("/"))


def settle_sizes(sentence: Sentence) -> None:
    """A name that several sizes of a family have: the one of a size that is told beside it, else
    the middle one."""
    told = next((one for one in sentence.readings if one.option == "model"), None)
    if told is None or not any(char.isdigit() for char in told.value):  # a kind, "LSTM", has no usual size
        return
    try:
        facts.model(told.value, network=False)
    except AmbiguousNameError as ambiguous:
        names = ambiguous.candidates
    except RightfitError:
        return
    else:
        return
    sizes = [found["latin"].replace(" ", "").casefold() for found in grammar.BARE_SIZE.finditer(sentence.whole) if found["latin"]]
    beside = [name for size in sizes for name in names if size in name.casefold().split("-")]
    known = [name for name in names if _is_one(name)]
    if not (beside or known):
        return
    chosen = beside[0] if beside else sorted(known, key=_parameters)[len(known) // 2]
    sentence.readings[sentence.readings.index(told)] = Reading("model", chosen, told.words)
    others = ", ".join(name for name in names[:6] if name != chosen)
    sentence.assumed.append(Message("workload.assumed_size", words=told.words, model=chosen, others=others))


def _parameters(name: str) -> float:
    record = facts.model(name, network=False)
    return float(getattr(record, "params_total", None) or getattr(record, "params", 0.0) or 0.0)


def _is_beside_model(sentence: Sentence, found: re.Match[str]) -> bool:
    """Whether what is spelled as an identifier is no model that is known, and a model is named
    elsewhere."""
    if _is_one(found[0]) or any(name.kind == "model" and _is_one(name.value) for name in names_in(found[0])):
        return False
    return any(
        name.kind == "model" and (name.end <= found.start() or name.start >= found.end()) and _is_one(name.value)
        for name in names_in(sentence.text)
    )


def read_names(sentence: Sentence) -> None:
    """What is named. The model is the longest of the names of models, one behind "reward model"
    rewards; other models, servers and kinds that no usual model stands for are asked about."""
    names = names_in(sentence.text)
    _deny_lists(sentence, names)
    models = [name for name in names if name.kind == "model"]
    rewarding = _rewarding(sentence, models)
    is_ranked = grammar.CANDIDATES.search(sentence.text) is not None
    model = max(
        (name for name in models if name is not rewarding),
        key=lambda one: (is_ranked and grammar.RERANKS.search(one.value) is not None, one.end - one.start),
        default=None,
    )
    chain = _alternatives(sentence, [name for name in models if name is not rewarding], model)
    model = chain[0] if chain else model
    for name in names:
        if name.kind == "gpu":
            _read_gpu(sentence, name)
        elif name.kind in ("cloud", "country", "region", "city"):
            _read_place(sentence, name)
        elif name.kind == "data" and not sentence.data_set[0] and is_taken("data", name.value):
            sentence.data_set = (name.value, sentence.blank(name.start, name.end))
            sentence.data_samples = facts.dataset(name.value).samples or 0
            if not (model or sentence.has("model")) and (kind := grammar.KINDS_OF_DOMAIN.get(facts.dataset(name.value).domain, "")):
                sentence.kinds.append(kind)
        elif name.kind == "server":
            sentence.ask(name.start, name.end)
        elif name.kind == "choice":
            sentence.blank(name.start, name.end)
        elif name in chain[1:]:
            _note_alternative(sentence, chain[0].value, name.start, name.end)
        elif (
            name is model
            and not sentence.has("model")
            and (sized := grammar.SIZED_FAMILY.fullmatch(name.value))
            and not _is_one(name.value)
        ):
            sentence.take(name.start, name.end, "model", sized["size"].replace(" ", "").upper())
        elif name is model and not sentence.has("model"):
            sentence.take(name.start, name.end, "model", name.value)
        elif name.kind == "work":
            _read_kind(sentence, name, is_named=model is not None or sentence.has("model"))
    if chain:
        _read_unknown_alternative(sentence, chain, names)
    if not sentence.has("model") and (known := relative(sentence.text)[0]) and resolve.usual_model(known):
        start = sentence.text.index(known)  # its nearest relative is planned, as the answer says
        sentence.take(start, start + len(known), "model", known)


def _is_one(name: str) -> bool:
    """Whether just one model is meant by a name."""
    try:
        return bool(facts.model(name, network=False))
    except RightfitError:
        return False


_FAMILY = tables.shape(
    "names",
    rf"(?:(?P<cloud>{grammar.CLOUD.pattern})(?:的|\s|'s\s)+(?:ec2\s)?(?P<named>{{family_card}})|(?<![\w.-])(?P<counted>{{family_card}}))(?![\w.-]*\w)(?(cloud)(?:\s?{{family_thing}})?|\s?{{family_thing}})(?![a-z])",
    ignore_case=True,
)


def read_families(sentence: Sentence) -> None:
    """A family of servers, by its cloud before it or a word for servers behind it, as the
    accelerator that its servers have: "AWS p5"."""
    for found in list(_FAMILY.finditer(sentence.text)):
        name = "named" if found["cloud"] else "counted"
        gpu = tables.meaning("names", "family_card", found[name], ignore_case=True)
        start, words = found.start(name), found[0][found.start(name) - found.start() :]
        if sentence.denied_from(*found.span()) or sentence.denied_from(start, found.end()):
            continue
        sentence.take(start, found.end(), "gpu", gpu)
        sentence.assumed.append(Message("workload.assumed_family", words=words.strip(), gpu=gpu))


_PLACES = ("country", "region", "city")


def _deny_lists(sentence: Sentence, names: list[Name]) -> None:
    """Where a list of clouds, places or cards is denied, by a word before or behind it, each of its
    members is: "neither X nor Y", "nothing from X, Y or Z", "X 和 Y 都不要"."""
    kinds = [("place" if name.kind in _PLACES else name.kind) for name in names]
    first = 0
    for last, name in enumerate(names):
        ends = last + 1 == len(names) or kinds[last + 1] != kinds[last]
        joint = sentence.text[name.end : names[last + 1].start] if not ends else ""
        if not ends and (grammar.LIST_JOINT.fullmatch(joint) or grammar.LIST_COMMA.fullmatch(joint)):
            continue
        if kinds[first] in ("cloud", "place", "gpu") and last > first:
            _deny_list(sentence, names[first : last + 1])
        first = last + 1


def _deny_list(sentence: Sentence, names: list[Name]) -> None:
    wanted = next((at for at, name in enumerate(names) if at and _is_wanted(sentence.text, name)), len(names))
    if wanted == 1:
        return
    names = names[:wanted]
    before = grammar.NEGATED.search(sentence.text[: names[0].start])
    after = grammar.NEGATED_AFTER.match(sentence.text, names[-1].end)
    joints = [sentence.text[one.end : other.start] for one, other in itertools.pairwise(names)]
    commas = [at for at, joint in enumerate(joints) if joint.strip() in (",", "，")]
    if before and (grammar.DENIES_ALL.match(before[0]) or len(joints) - 1 not in commas):
        first = 0
    elif after:  # a denial behind the list reaches back to its last comma
        first = commas[-1] + 1 if commas and "都" not in after[0] else 0
    else:
        return  # "no X, Y": the comma may begin what is wanted
    for at, name in enumerate(names[first:], first):
        start = names[at - 1].end if at > first else before.start() if before and not first else name.start
        sentence.denied[name.start] = (start, after.end() if after and name is names[-1] else name.end)


def _is_wanted(text: str, name: Name) -> bool:
    """A card of which a number is named, or on which something runs, ends a list of denied ones:
    "no V100, and 2 A100"."""
    is_counted = grammar.COUNT_AFTER.match(text, name.end) or grammar.COUNT_BEFORE.search(text[: name.start])
    return name.kind == "gpu" and bool(is_counted or grammar.RUNS_ON_ZH.match(text, name.end))


_HOURS_OF = grammar.shape(rf"(?<![\w.,-])(?P<amount>(?P<value>{{amount}})\s?(?:{{hour_en}}|个?小时))\s(?:of\s)?{grammar.BLANK}")
"""Hours of sound of a data set by its name: "the 1000hr librispeech"."""


_THINGS_OF = grammar.shape(rf"(?<![\w.,$€¥-])(?P<amount>{{amount}})\s{grammar.BLANK}+\s[a-z]{{3,}}s(?![a-z])")
"""Things of a data set by its name: "40 million Wikipedia paragraphs"."""


def settle_data_set(sentence: Sentence) -> None:
    """How much of a named data set is worked on: what is told of it, "10B tokens of FineWeb", else
    the whole; an amount near the whole, or in bytes, says nothing more."""
    name, words = sentence.data_set
    if not name:
        return
    part = None if sentence.has("data") else grammar.OF_DATA_SET.search(sentence.text)
    if part is None and not sentence.has("data") and (hours := _HOURS_OF.search(sentence.text)):
        sentence.take(*hours.span("amount"), "data", f"{hours['value']} hours")
    inside = grammar.shape(r"[(（]\s*(?:{about_en}\s|{about_zh}|~\s?)?(?P<value>{digits})\s?(?:{hour_en}|个?{hour_zh})\s*[)）]")
    if part is None and not sentence.has("data") and (hours := inside.search(sentence.text)):  # "Common Voice in Hindi (20 hours)"
        sentence.take(*hours.span(), "data", f"{hours['value']} hours")
    if part is None and not sentence.has("data") and (counted := _THINGS_OF.search(sentence.text)):
        sentence.take(*counted.span(), "data", f"{counted['amount']} samples")
    if part:
        is_sound = part["zh"] or grammar.HOURS.fullmatch(f"{part['amount']} {part['unit']}")
        sentence.take(part.start(), part.end() - 1, "data", f"{part['amount']} {'hours' if is_sound else 'samples'}")
    told = next((reading for reading in sentence.readings if reading.option == "data"), None)
    if told is not None:
        amount, whole = parse_data(told.value), facts.dataset(name).samples or 0
        if amount.tokens or amount.unit == "hours" or (amount.samples and not (whole and 0.7 <= amount.samples / whole <= 1.3)):
            sentence.noted.append(words)
            return
        sentence.readings.remove(told)
        sentence.noted.append(told.words)
    sentence.readings.append(Reading("data", name, words))


def read_data_place(sentence: Sentence) -> None:
    """Where the data are: a region of a cloud, or at home."""
    for shape in grammar.DATA_AT:
        if found := shape.search(sentence.text):
            groups = found.groupdict()
            cloud = grammar.OBJECT_STORES.get(" ".join((groups.get("store") or "").casefold().split()), "")
            end, seller = found.end(), groups.get("cloud") or ""
            if not seller and not cloud and (behind := grammar.DATA_ON.match(sentence.text, end)):
                end, seller = behind.end(), behind["cloud"]
            cloud = cloud or (meant(seller, grammar.CLOUD_NAMES) if seller else "")
            sentence.take(found.start(), end, "data_location", f"{cloud}/{groups['place']}".lstrip("/"))
            return
    if found := grammar.DATA_AT_HOME.search(sentence.text):
        sentence.take(*found.span(), "data_location", "home")


def read_data_store(sentence: Sentence) -> tuple[str, str]:
    """The object store that the data lie in, nobody says in which region, and whose it is."""
    found = None if sentence.has("data_location") else grammar.DATA_IN_STORE.search(sentence.text)
    if found is None:
        return "", ""
    store = found["store"]
    sentence.blank(found.start("store"), found.end())
    return store, grammar.OBJECT_STORES[" ".join(store.casefold().split())]


def settle_data_store(sentence: Sentence, store: str, cloud: str) -> None:
    """The cloud of the store: its own servers read the data free of charge. Where another cloud is
    named it is asked about."""
    named = [meant(reading.value, grammar.CLOUD_NAMES) for reading in sentence.readings if reading.option == "cloud"]
    if named:
        (sentence.noted if cloud in named else sentence.asked).append(store)
    elif store:
        sentence.readings.append(Reading("cloud", cloud, store))
        sentence.assumed.append(Message("workload.assumed_store_cloud", store=store, cloud=cloud))


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


_SIZED_REWARD = grammar.shape(r"(?<![\w.])(?P<size>\d+(?:\.\d+)?\s?[BM])[\s-]+{reward_model_head}(?![a-z])")
"""A model that rewards, by its size."""


def _rewarding(sentence: Sentence, models: list[Name]) -> Name | None:
    """The model after "reward model": it rewards the answers of another one, which is trained."""
    sized = _SIZED_REWARD.search(sentence.text)
    if sized and is_taken("reward_model", size := sized["size"].upper().replace(" ", "")):
        sentence.take(*sized.span(), "reward_model", size)
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
    if kept := grammar.KEPT_IN.search(sentence.text[: name.start]):
        if denial := grammar.NEGATED.search(sentence.text[: kept.start()]):  # "must not be stored in the US"
            sentence.deny((denial.start(), name.end), option, value)
        else:
            sentence.take(kept.start(), name.end, option, value)
    elif denied := sentence.denied_from(name.start, name.end):
        sentence.deny(denied, option, value)
    elif not sentence.wished_softly(name.start, name.end):
        if option == "cloud":
            sentence.cloud_spans.append((value, name.start, name.end))
        sentence.take(name.start, name.end, option, value)


def _read_gpu(sentence: Sentence, name: Name) -> None:
    """An accelerator, how many of it, and whether it is one's own."""
    start, end = name.start, name.end
    if denied := sentence.denied_from(start, end):
        sentence.deny(denied, "gpu", name.value)
        return
    if name.value == "none" and _PLACED_ON.search(sentence.text[:start]):  # where states are kept is no wish
        sentence.note(start, end)
        return
    if name.value == "none":
        sentence.take(start, end, "gpu", name.value)
        return
    name, start, end = _with_memory(sentence, name)
    before = sentence.text[:start]
    counted = grammar.COUNT_BEFORE.search(before)
    after = None if counted else grammar.COUNT_AFTER.match(sentence.text, end)
    count = card_count(counted["count"]) if counted else card_count(after["times"] or after["cards"]) if after else 0
    first, last = counted.start() if counted else start, after.end() if after else end
    nodes = (grammar.NODES_BEFORE.search(sentence.text[:first]) or _EACH_OF_NODES.search(sentence.text[:first])) if counted else None
    owned = None if rented_there(sentence.whole, first) else grammar.OWNED.search(sentence.text[: nodes.start() if nodes else first])
    if owned is None and counted and not rented_there(sentence.whole, first):
        owned = _HAS_COUNTED.search(sentence.text[: nodes.start() if nodes else first])
    if owned:
        last += len(memory[0]) if (memory := grammar.MEMORY_BEHIND.match(sentence.text[last:])) else 0
        if nodes and card_count(nodes["nodes"]) > 1:
            _own_servers(sentence, name, nodes, count, owned.start(), last)
            return
        _own(sentence, owned.start(), last, f"{count or 1}x{name.value}")
        return
    if owned := grammar.OWNED_AFTER.match(sentence.text, last):
        if nodes and card_count(nodes["nodes"]) > 1:
            _own_servers(sentence, name, nodes, count, nodes.start(), owned.end())
            return
        _own(sentence, nodes.start() if nodes else first, owned.end(), f"{count or 1}x{name.value}")
        return
    if compared := grammar.COMPARED.search(sentence.text[:first]):
        sentence.ask(compared.start(), last)
        return
    if sentence.wished_softly(first, last):
        return
    better = None if after else grammar.OR_BETTER.match(sentence.text, end)
    if better and facts.accelerators_at_least(f"{name.value}+"):
        name, end, last = Name(name.kind, f"{name.value}+", start, better.end()), better.end(), better.end()
    sentence.card_counts.append((name.value, count))
    sentence.card_spans.append((first, last))
    sentence.take(start, end, "gpu", name.value)
    if after:
        sentence.take(end, last, "num_gpus", str(count))
    _count(sentence, counted, nodes, count)


_PLACED_ON = grammar.shape(r"(?<![A-Za-z]){placed_on}[\"']?\s*[:=]?\s*[\"']?\s*$")
"""A setting that puts states or weights on a device: "device": "cpu"."""
_EACH_OF_NODES = grammar.shape(r"(?<![A-Za-z0-9.])(?<!\d,)(?P<nodes>{card_count})\s*{node_name}[^,，。；;]{0,4}\s*[,，]?\s*{each_node}\s*$")
"""So many servers, each of them with the cards that follow: 两台服务器，每台 8 张 4090."""
_HAS_COUNTED = grammar.shape(r"(?<![一-鿿]){has_counted}\s*$")
_STATEMENT_END = re.compile(r"[.!?](?=\s|$)|[!?;\n。！？；]")


def rented_there(text: str, at: int) -> bool:
    """Whether the statement at a place says that its machine is a cloud's, or rented."""
    start = max((found.end() for found in _STATEMENT_END.finditer(text, 0, at)), default=0)
    end = next((found.start() for found in _STATEMENT_END.finditer(text, at)), len(text))
    said = grammar.shape("{rejects_own}").sub(" ", text[start:end])  # what is to be rented instead is not there
    return any(name.kind == "cloud" for name in names_in(said)) or bool(grammar.shape("{rented_now}").search(said))


def _with_memory(sentence: Sentence, name: Name) -> tuple[Name, int, int]:
    """A card with the memory that is told before or behind its name, where one of the name has so
    much; where it stands then."""
    ahead = grammar.MEMORY_AHEAD.search(sentence.text[: name.start])
    behind = grammar.MEMORY_BEHIND.match(sentence.text, name.end)
    for found in filter(None, (behind, ahead)):
        if facts.match_accelerators(sized := f"{name.value} {found['size']}GB"):
            start = ahead.start() if found is ahead else name.start
            end = behind.end() if behind and found is behind else name.end
            return Name(name.kind, sized, start, end), start, end
        if facts.match_accelerators(name.value) and set(facts.match_accelerators(name.value)) <= set(
            facts.accelerators_of_memory(f"{found['size']}GB")
        ):  # its only size
            start = ahead.start() if found is ahead else name.start
            return name, start, behind.end() if behind and found is behind else name.end
    return name, name.start, name.end


#: Cards that a server has at most, but for a few: more of several servers are those of all of them.
_MOST_A_SERVER = 8


def _count(sentence: Sentence, counted: re.Match[str] | None, nodes: re.Match[str] | None, count: int) -> None:
    """So many cards, each of so many servers having them where that is said."""
    if counted is None:
        return
    if sentence.has("num_gpus"):  # another number, of other cards, is a plan of its own
        told = next(reading.value for reading in sentence.readings if reading.option == "num_gpus")
        if told == str(count):
            sentence.note(*counted.span())
        else:
            sentence.ask(*counted.span())
            sentence.other_counts.append(sentence.asked[-1])
        return
    if grammar.HOW_MANY.search(sentence.text[: counted.start()]):  # cards of one server, of which the number is asked
        sentence.note(*counted.span())
        return
    servers = card_count(nodes["nodes"]) if nodes else 1
    is_sum = servers > 1 and count > _MOST_A_SERVER and count % servers == 0  # 两机16卡, 4 机 32 卡
    sentence.take(counted.start(), counted.end(), "num_gpus", str(count if is_sum else count * servers))
    if nodes:
        sentence.take(nodes.start(), nodes.end(), "max_nodes", str(card_count(nodes["nodes"])))


def card_count(text: str) -> int:
    return grammar.CARD_COUNTS.get(text.casefold()) or int(parse_count(text))


def _own_servers(sentence: Sentence, name: Name, nodes: re.Match[str], count: int, start: int, end: int) -> None:
    """Several servers of one's own: planned as rented ones with as many of the same cards."""
    servers = card_count(nodes["nodes"])
    words = sentence.blank(start, end)
    told = {"gpu": name.value, "num_gpus": str(servers * max(count, 1)), "max_nodes": str(servers)}
    sentence.readings += [Reading(option, value, words) for option, value in told.items() if not sentence.has(option)]
    sentence.assumed.append(Message("workload.assumed_own_servers", words=words))


def _own(sentence: Sentence, start: int, end: int, machine: str) -> None:
    """A machine that somebody has, and where it stands."""
    places = [(place, stands) for place, spelled in grammar.OWN_PLACES.items() if (stands := spelled.search(sentence.text))]
    sentence.blank(start, end)
    for _, stands in places:
        sentence.blank(*stands.span())
    if sentence.own_machine:  # a plan is for one machine of one kind of card
        sentence.assumed.append(Message("workload.assumed_one_machine", planned=sentence.own_machine, other=machine))
        return
    sentence.own_machine = machine + (f"@{places[0][0]}" if places else "")
    sentence.own_at = start


def read_cards(sentence: Sentence) -> None:
    """Cards by their number or their memory, without a name; memory of servers and tokens a second
    of a whole service are for the plan to say, so they are asked about."""
    for rule in grammar.USER_RATES:  # before the rate of a whole service
        found = rule.pattern.search(sentence.text)
        if found and not sentence.has("tpot") and is_taken("tpot", value := rule.read(found)):
            sentence.take(*found.span(), "tpot", value)
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
        (sentence.note if sentence.own_machine else sentence.ask)(*match.span())
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


_RENT_ASKED = grammar.shape(r"\s*{rent_asked_zh}|\s*,?\s*{rent_asked}(?![a-z])")
_RENT_ASKED_BEFORE = grammar.shape(r"(?<![A-Za-z]){rent_asked}(?:\s{rent_glue})*\s*$|{rent_asked_zh}\s*$")


def read_lease(sentence: Sentence) -> None:
    """How long a server is rented is no time in which the work must end."""
    while found := grammar.RENTING.search(sentence.text):
        asked = _RENT_ASKED.match(sentence.text, found.end()) or _RENT_ASKED_BEFORE.search(sentence.text[: found.start()])
        (sentence.note if asked else sentence.ask)(*found.span())
        if not asked:
            sentence.lease = sentence.asked[-1]


def settle_lease(sentence: Sentence, task: str) -> None:
    """The term of a service is no limit of it: its cost is told by the month."""
    if task == "serve" and sentence.lease in sentence.asked:
        sentence.asked.remove(sentence.lease)
        sentence.noted.append(sentence.lease)
        sentence.assumed.append(Message("workload.assumed_lease", words=sentence.lease))


_LINKS = grammar.shape(
    r"(?:{link_denial}(?:[\s,，/、]|{between_cards}\s)*{fast_link}(?:(?:[\s,，/、]|{between_cards}\s)+{fast_link})*(?![A-Za-z])(?:桥接?)?\s*)+"
    r"|(?<![A-Za-z]){nothing_but}\s?pcie(?![A-Za-z])|(?<![A-Za-z])pcie(?:\s?[345](?:\.0)?)?\s{nothing_but}(?![A-Za-z])"
)


def note_links(sentence: Sentence) -> None:
    """That cards have no fast link is no wish where none of that name has one: it is how they are
    planned."""
    named = [one for reading in sentence.readings if reading.option == "gpu" for one in reading.value.split(",")]
    if sentence.own_machine:
        named.append(re.sub(r"^\d+\s?x\s?|@.*$", "", sentence.own_machine))
    records = [facts.accelerators()[one] for name in named for one in facts.match_accelerators(name)]
    if records and not any(card.nvlink_bandwidth for card in records):
        for found in list(_LINKS.finditer(sentence.text)):
            sentence.note(*found.span())
