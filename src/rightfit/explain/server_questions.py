"""Questions about a server or a series by its name ("gn6v 是什么", "gn7i or gn6i", "can r-series
instances train", "can g4dn.xlarge fine-tune BERT"), answered from the catalog and by an estimate.

Words and texts are data (data/server_questions.toml).
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import card_pattern, cards_of
from rightfit.explain.command_text import command_line
from rightfit.explain.messages import topic, topic_text
from rightfit.explain.reasons import offload_text
from rightfit.explain.trials import UNHURRIED, cost_text, outcome_of, outcome_text
from rightfit.explain.yes_or_no import is_question
from rightfit.facts.expressions import expression
from rightfit.market.names import find_provider
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult


def with_cards(sentence: str, catalog: Catalog) -> str:
    """A sentence with the GPUs and the cloud of a server in place of its name, "on a p4d.24xlarge":
    they are what a plan takes. Of a post the first server, on which it runs; as it is where several
    servers are to be chosen between, which are tried by their names, or where nobody knows it."""
    from rightfit.market.server_names import exact_servers, series_members
    from rightfit.workload.ask.names import SERVER
    from rightfit.workload.ask.posts import is_post

    found, table = list(SERVER.finditer(sentence)), catalog.servers()
    several = len({one[0].casefold() for one in found}) > 1 and not is_post(sentence)
    if not found or (several and all(exact_servers(catalog, one[0]) for one in found)):
        return sentence
    for one in reversed([one for one in found if several or one[0].casefold() == found[0][0].casefold()]):
        is_exact = bool(rows := exact_servers(catalog, one[0]))
        rows = rows or series_members(catalog, one[0])
        cards = {str(table.accelerator_name[row]) for row in rows} - {""}
        if len(cards) != 1:
            continue
        cloud, counts = str(table.provider[rows[0]]), {int(table.num_accelerators[row]) for row in rows}
        number = f"{max(counts)}x " if is_exact or len(counts) == 1 else ""
        servers = _SERVERS_BEFORE.search(sentence[: one.start()]) if number else None
        start, told = (servers.start(), f"{servers['count']} nodes of ") if servers else (one.start(), "")
        behind = _SERVERS_BEHIND.match(sentence, one.end())
        end = behind.end() if behind else one.end()
        sentence = f"{sentence[:start]} {told}{number}{cards.pop()} on {cloud} {sentence[end:]}"
    return sentence


_SERVERS_BEFORE = re.compile(
    r"(?<![\w.])(?P<count>[2-9]|\d\d|two|three|four|five|six|eight|[两二三四五六八])\s*(?:x|×|台|个)?\s*$", re.IGNORECASE
)
_SERVERS_BEHIND = re.compile(r"\s*(?:nodes?|instances?|machines?|servers?|box(?:es)?|vms?|实例|服务器|机器|机型)(?![a-z])", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z][\w.-]*\d[\w.-]*", re.ASCII)
_CARD_OR_SERIES = re.compile(r"(?<![A-Za-z0-9.])[agp]\d(?![A-Za-z0-9.])", re.ASCII)
_LETTER = expression(r"(?<![A-Za-z0-9])(?P<letter>[a-z])\d?(?:\s*系列|\s*系(?!统)|[ -](?:series|family)\b|\s*族)")
_CARDS = card_pattern()
_MOST_SIZES = 8
#: Options that say how much a service has to do; without them it is a request now and then.
_LOAD = frozenset({"rate", "users", "concurrency", "latency", "ttft", "tpot"})
#: The table of which nobody tells the size.
_USUAL_TABLE = "1Mrows x 30cols"


def _table() -> Mapping[str, Any]:
    return topic("server_questions")


_text = functools.partial(topic_text, "server_questions")


def _says(name: str, sentence: str) -> bool:
    return bool(re.search(_table()["words"][name], sentence, re.IGNORECASE))


def server_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to a question about named servers or series; None for any other sentence."""
    if not (is_question(sentence) or _says("what", sentence)):
        return None
    named = servers_named(sentence, catalog)
    if not named:
        return _letter(sentence, catalog) if _says("able", sentence) else None
    rest = _beside_names(sentence, named)
    if cloud := _wishes(rest).get("cloud"):
        named = {name: _of_cloud({name: rows}, _own_cloud(name, sentence) or str(cloud), catalog)[name] for name, rows in named.items()}
    if len(named) > 1:
        named = _alike(named, catalog)
    if len(named) > 1 and (_says("choose", rest) or _says("which", rest)):
        return _chosen(sentence, rest, named, catalog)
    if len(named) == 1 and _says("is", rest) and len(cards := cards_of(rest)) == 1:
        (name,) = named
        return None if _is_exact(name, catalog) else _is_of(sentence, name, cards[0][0], catalog)
    if _says("able", sentence):
        return _able(sentence, rest, named, catalog) if len(named) == 1 else None
    is_card = _says("choose", rest) and bool(_CARDS.sub("", rest) != rest)
    if _wishes(rest).get("model") or not (is_card or _says("what", rest)):
        return None
    if len(named) == 1 and not is_card and _is_exact(next(iter(named)), catalog):
        return None
    told = {lang: [line for name, rows in named.items() for line in series_lines(name, rows, catalog, lang)] for lang in LANGS}
    for lang in LANGS:
        told[lang] = [*_apart(named, catalog, lang), *told[lang]]
    if is_card:
        from rightfit.explain.market_questions import compared

        own = {catalog.servers().accelerator_name[row] for rows in named.values() for row in rows} - {""}
        spoken = list(dict.fromkeys([*(one for one, _ in cards_of(rest)), *(own if len(own) == 1 else ())]))
        spoken = list({facts.accelerator(one, typical=True).name: one for one in spoken}.values())
        for lang in LANGS if len(spoken) > 1 else ():
            told[lang] += compared(spoken, rest, catalog, lang)
    return _result(sentence, " ".join(named), told)


def able_question(sentence: str, catalog: Catalog) -> CheckResult | None:
    """The answer to whether one named server or series runs a model that is named; None of any
    other."""
    if not _says("able", sentence) or len(named := servers_named(sentence, catalog)) != 1:
        return None
    rest = _beside_names(sentence, named)
    return _able(sentence, rest, named, catalog) if "model" in _wishes(rest, every_word=False) else None


def _beside_names(sentence: str, named: Iterable[str]) -> str:
    """A sentence without the names of servers in it."""
    return functools.reduce(lambda text, name: text.replace(name, " "), named, sentence)


def servers_named(sentence: str, catalog: Catalog) -> dict[str, Sequence[int]]:
    """The servers and series that a sentence names, each with its rows of the catalog."""
    from rightfit.market.server_names import exact_servers, series_members
    from rightfit.workload.ask import grammar

    found: dict[str, Sequence[int]] = {}
    stores = re.compile(topic("topic_questions")["classes"]["object_store"], re.IGNORECASE)
    is_store = stores.search(sentence) is not None and not _says("series", sentence)
    for match in _NAME.finditer(grammar.PROCESSOR.sub(" ", sentence)):
        word = match[0].rstrip(".")
        if is_store and stores.fullmatch(word):
            continue  # "10 TB on S3" are kept in no server
        if not facts.match_accelerators(word) and (rows := exact_servers(catalog, word) or series_members(catalog, word)):
            found.setdefault(word, _usual(rows, catalog))
    for word in _CARD_OR_SERIES.findall(sentence) if found else ():  # P4 beside G5 and P5 is no Tesla P4
        beside = {catalog.servers().provider[row] for rows in found.values() for row in rows}
        members = [row for row in series_members(catalog, word) if catalog.servers().provider[row] in beside]
        if word not in found and members:
            found[word] = members
    return found


def _of_cloud(named: Mapping[str, Sequence[int]], cloud: str, catalog: Catalog) -> dict[str, Sequence[int]]:
    """The rows of the cloud that is named, where it has servers of the name."""
    from rightfit.lookup import read_names

    clouds, providers = set(read_names("cloud", cloud)), catalog.servers().provider
    return {name: [row for row in rows if providers[row] in clouds] or rows for name, rows in named.items()}


def _own_cloud(name: str, sentence: str) -> str:
    """The cloud that stands right before the name of a series ("腾讯云 GN7 和阿里云 gn6i")."""
    before = sentence[: sentence.find(name)].rstrip(" 的")
    return (
        next((cloud for size in range(2, 12) if (cloud := find_provider(before[-size:].strip() if len(before) >= size else ""))), "") or ""
    )


def _is_exact(name: str, catalog: Catalog) -> bool:
    """Whether one server is called so, of which `check` tells more than of a series."""
    from rightfit.market.server_names import exact_servers

    return bool(exact_servers(catalog, name))


def _usual(rows: Sequence[int], catalog: Catalog) -> Sequence[int]:
    """The rows of clouds that most companies have a contract with, where there are any."""
    from rightfit.market.sellers import is_major

    providers = catalog.servers().provider
    return [row for row in rows if is_major(providers[row])] or rows


def _wishes(rest: str, *, every_word: bool = True) -> dict[str, Any]:
    """What is named beside the servers; {} where a word is left that no option takes, unless
    not `every_word` counts."""
    from rightfit.workload.ask import understand

    try:
        found = understand(rest)
    except RightfitError:
        return {}
    return {} if (found.weighty and every_word) or found.own_machine else dict(found.settled() if every_word else found.wishes)


def _result(query: str, name: str, told: Mapping[Lang, Sequence[str]], claim: str | None = None, answer: str = "") -> CheckResult:
    from rightfit.market.verdicts import CheckResult

    known = {"name": name, **({"answer": answer} if answer else {})}
    return CheckResult(query, "market", True, claim, known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


# ---- What a series is.


def series_lines(name: str, rows: Sequence[int], catalog: Catalog, lang: Lang) -> list[str]:
    """A line for each cloud that has servers of this name."""
    clouds: dict[str, list[int]] = {}
    for row in rows:
        clouds.setdefault(catalog.servers().provider[row], []).append(row)
    return [_series_text(name, group, catalog, lang) for group in clouds.values()]


def _series_text(name: str, rows: Sequence[int], catalog: Catalog, lang: Lang) -> str:
    """Whose it is, its GPUs, its sizes, its least price."""
    from rightfit.market.verdicts import by_size, named_shape, server_facts

    servers = catalog.servers()
    ordered = by_size(catalog, rows)
    cards = sorted({servers.accelerator_name[row] for row in rows if servers.num_accelerators[row] > 0})
    priced = [(price["price_usd_per_h"], row) for row in ordered if (price := server_facts(catalog, row)["price"]) is not None]
    counts = sorted({float(servers.num_accelerators[row]) for row in rows if servers.num_accelerators[row] > 0})
    memory = [q.memory_text(float(servers.accelerator_memory_bytes[row])) for row in ordered if servers.num_accelerators[row] > 0]
    hardware = (
        _text(
            "gpus", lang, cards=", ".join(cards), memory="/".join(dict.fromkeys(memory)), counts="/".join(f"{count:g}" for count in counts)
        )
        if cards
        else _text("no_gpu", lang)
    )
    sizes = " … ".join(dict.fromkeys((named_shape(catalog, ordered[0]), named_shape(catalog, ordered[-1]))))
    price = _text("from", lang, price=q.money_text(min(priced)[0])) if priced else ""
    return _text(
        "series", lang, name=name, cloud=q.provider_text(servers.provider[rows[0]], lang), hardware=hardware, sizes=sizes, price=price
    )


# ---- Whether a server or a series does a job.


def _able(sentence: str, rest: str, named: Mapping[str, Sequence[int]], catalog: Catalog) -> CheckResult | None:
    from rightfit.market.verdicts import by_size

    ((name, rows),) = named.items()
    servers, wishes = catalog.servers(), _wishes(rest, every_word=False)
    if "model" not in wishes:
        if not _says("job", rest) or _says("choose", rest):
            return None
        return _able_at_all(sentence, name, rows, catalog)
    is_what = _says("what", rest)
    told: dict[Lang, list[str]] = {lang: series_lines(name, rows, catalog, lang) if is_what else [] for lang in LANGS}
    kinds = [f"{servers.provider[row]}/{servers.instance_type[row]}" for row in by_size(catalog, rows)]
    if "data" not in wishes and not _LOAD & set(wishes) and _estimate(wishes, kinds[-1], catalog) is None:
        sized = {**wishes, "data": _USUAL_TABLE, "task": "train"}  # a model of tables is planned for none without its size
        wishes = sized if _estimate(sized, kinds[-1], catalog) is not None else wishes
    is_open = wishes.get("task") == "serve" and not _LOAD & set(wishes)  # able at all: a request now and then
    small = ""
    for kind in kinds[:_MOST_SIZES]:
        found = _estimate(wishes, kind, catalog)
        if is_open and (found is None or found.best is None):
            found = _estimate({**wishes, **UNHURRIED}, kind, catalog)
        if found is not None and found.best is not None:
            answer = _way(found)
            for lang in LANGS:
                told[lang] += (
                    [_text("too_small", lang, why=outcome_text(short, lang))]
                    if small and (short := outcome_of(wishes, small, catalog=catalog)).fits is False
                    else []
                )
                told[lang] += _held_lines(wishes, found, lang) if wishes.get("task") == "serve" else []
                told[lang].append(done_text(kind, found, answer, lang))
            break
        small = kind
    else:
        answer = "no"
        outcome = outcome_of(wishes, kinds[-1], catalog=catalog)
        if outcome.fits is None:  # not evaluated: no verdict, but what other software does there
            answer = ""
            usual = {option: value for option, value in wishes.items() if option != "framework"}
            usual |= UNHURRIED if is_open else {}
            kind, found = cheapest_of(usual, rows, catalog) if "framework" in wishes else ("", None)
            for lang in LANGS if found is not None else ():
                told[lang].append(_text("other_software", lang, done=done_text(kind, found, _way(found), lang)))
            wishes = usual
        burst = _burstable_lines(kinds[-1], wishes, catalog) if outcome.fits is None else None
        answer = burst[0] if burst else answer
        for lang in LANGS:
            why = burst[1][lang] if burst else outcome_text(outcome, lang)
            told[lang].insert(len(told[lang]) - (not answer and outcome.fits is None and found is not None), why)
    if len(kinds) == 1:
        command = _command(wishes, kinds[0])
        for lang in LANGS:
            told[lang].append(command)
    return _result(sentence, name, told, {"": None, "no": "wrong"}.get(answer, "right"), answer)


def _burstable_lines(kind: str, wishes: Mapping[str, Any], catalog: Catalog) -> tuple[str, dict[Lang, str]] | None:
    """Whether a server whose CPUs run on credits holds a language model, and what that means; None
    of any other server or model."""
    from rightfit.explain.fit_claims import ROOMY, counted_weights, format_of

    servers, name = catalog.servers(), kind.partition("/")[2]
    weights = counted_weights(wishes) if _says("burstable", name) else None
    if weights is None:
        return None
    row = catalog.server_rows[kind.partition("/")[0], name]
    memory, is_held = float(servers.memory_bytes[row]), weights <= ROOMY * float(servers.memory_bytes[row])
    told: dict[Lang, str] = {}
    for lang in LANGS:
        fields = {"server": name, "vcpus": f"{servers.vcpus[row]:g}", "memory": q.memory_text(memory), "weights": q.memory_text(weights)}
        fields |= {"model": str(wishes["model"]), "format": format_of(wishes).upper() or _text("bits", lang)}
        told[lang] = _text("burstable", lang, verdict=_text("burstable_tight" if is_held else "burstable_full", lang), **fields)
    return "depends" if is_held else "no", told


def _held_lines(wishes: Mapping[str, Any], found: Any, lang: Lang) -> list[str]:
    """The weights of a service against the memory of its GPUs; where several hold what one does
    not, what one holds in fewer bits."""
    from rightfit.explain.fit_claims import ROOMY, counted_weights, format_of

    weights, option = counted_weights(wishes), found.best
    if weights is None or not option.num_accelerators:
        return []
    own = float(option.accelerator.memory_bytes)
    fields = {"model": wishes["model"], "weights": q.memory_text(weights), "card": option.accelerator.name, "own": q.memory_text(own)}
    fields |= {"format": format_of(wishes).upper() or _text("bits", lang), "all": q.memory_text(option.num_accelerators * own)}
    if weights <= ROOMY * own or "quantization" in wishes:
        return [_text("held", lang, count=f"{option.num_accelerators}", **fields)]
    fewer = [q.memory_text(size) for bits in ("fp8", "awq") if (size := counted_weights({**wishes, "quantization": bits})) is not None]
    return [_text("held_by_several", lang, fewer=" / ".join(fewer), **fields)]


def _is_of(sentence: str, name: str, card: str, catalog: Catalog) -> CheckResult:
    """Whether a series is of a card, as the claim is checked."""
    from rightfit.market.check import check_one

    return dataclasses.replace(check_one(f"{name} ({card})", catalog=catalog), query=sentence)


def _chosen(sentence: str, rest: str, named: Mapping[str, Sequence[int]], catalog: Catalog) -> CheckResult | None:
    """Between series: what each is, and for a model the size of each that does the job for least
    money, the cheapest series first."""
    wishes = _wishes(rest)
    if "model" not in wishes and {"model", "task"} <= set(understood := _wishes(rest, every_word=False)):
        wishes = understood  # whatever else is asked beside it
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    if "model" not in wishes:
        for lang in LANGS:
            told[lang] += [line for name, rows in named.items() for line in series_lines(name, rows, catalog, lang)]
            told[lang] += _weighed(named, catalog, lang)
            told[lang] = [*_apart(named, catalog, lang), *told[lang]]
        return _result(sentence, " ".join(named), told)
    done = [(name, *cheapest_of(wishes, rows, catalog)) for name, rows in named.items()]
    if wishes.get("task") == "serve" and not any(one[2] for one in done) and not _LOAD & set(wishes):
        done = [(name, *cheapest_of({**wishes, **UNHURRIED}, rows, catalog)) for name, rows in named.items()]  # what it is able to at all
    able = sorted((one for one in done if one[2] is not None), key=lambda one: float(one[2].best.cost.total_usd))
    if not able:
        return None
    for lang in LANGS:
        told[lang].append(_text("chosen", lang, name=able[0][0]))
        told[lang] += [f"{name}: {done_text(kind, found, _way(found), lang)}" for name, kind, found in able]
        told[lang] += [_text("unable", lang, name=name) for name, _, found in done if found is None]
        told[lang] += (
            [line for name, rows in named.items() for line in series_lines(name, rows, catalog, lang)] if _says("purpose", rest) else []
        )
    if (smaller := _on_one(wishes, able[0][1], able[0][2].best, catalog)) is not None:
        for lang in LANGS:
            told[lang].append(
                _text("on_one", lang, done=done_text(f"{smaller.best.provider}/{smaller.best.instance_type}", smaller, "yes", lang))
            )
    return _result(sentence, able[0][0], told)


def _on_one(wishes: Mapping[str, Any], kind: str, chosen: Any, catalog: Catalog) -> Any:
    """What does the job for no more money on one GPU of far less memory than those of the chosen
    server, at the same cloud; None where nothing does."""
    from rightfit.explain.fit_claims import least_bytes
    from rightfit.explain.trials import best_for
    from rightfit.planner.given import estimate_one
    from rightfit.workload.model import Workload

    need = least_bytes({"task": "serve", **wishes}, catalog)
    cards = facts.accelerators()
    had = chosen.num_accelerators * float(chosen.accelerator.memory_bytes)
    if not need < _FAR * had:
        return None
    fitting = [name for name in set(catalog.servers().accelerator_name) - {""} if need <= _USABLE * cards[name].memory_bytes <= _FAR * had]
    cloud = kind.partition("/")[0]
    found = (
        best_for({**wishes, "cloud": cloud, "gpu": ",".join(sorted(fitting)), "num_gpus": 1, "purchase": ("on-demand",)}, catalog)
        if fitting
        else None
    )
    if found is None:
        return None
    try:
        one = estimate_one(Workload(**wishes), on=f"{found.provider}/{found.instance_type}", catalog=catalog)
    except RightfitError:
        return None
    return one if one.best is not None and one.best.cost.total_usd <= chosen.cost.total_usd else None


#: Share of the memory of a chosen server under which a job has no use for it, and of a GPU's memory
#: that a job may take.
_FAR, _USABLE = 0.5, 0.9


def _alike(named: Mapping[str, Sequence[int]], catalog: Catalog) -> dict[str, Sequence[int]]:
    """The rows of series that are compared: of a cloud that has them all, and of those with GPUs
    where each has some (g6 is a series without one elsewhere)."""
    servers = catalog.servers()
    common = set.intersection(*({servers.provider[row] for row in rows} for rows in named.values()))
    found = {name: [row for row in rows if not common or servers.provider[row] in common] for name, rows in named.items()}
    having = {name: [row for row in rows if servers.num_accelerators[row] > 0] for name, rows in found.items()}
    return dict(having if all(having.values()) else found)


def _apart(named: Mapping[str, Sequence[int]], catalog: Catalog, lang: Lang) -> list[str]:
    """What tells two series apart, by their largest sizes, and in what they are the same."""
    from rightfit.market.verdicts import by_size

    if len(named) != 2:
        return []
    servers = catalog.servers()
    largest = [by_size(catalog, rows)[-1] for rows in named.values()]
    if any(servers.num_accelerators[row] < 1 for row in largest):
        return []
    figures = {
        "gpu": [f"{servers.num_accelerators[row]:g} x {servers.accelerator_name[row]}" for row in largest],
        "vcpus": [q.plain(float(servers.vcpus[row])) for row in largest],
        "ram": [q.memory_text(float(servers.memory_bytes[row])) for row in largest],
        "network": [f"{8.0 * servers.network_bytes_per_s[row] / 1e9:,.4g} Gbit/s" for row in largest],
        "disk": [q.data_text(float(servers.local_nvme_bytes[row])) for row in largest],
    }
    known = {name: both for name, both in figures.items() if not any("nan" in one for one in both)}
    same = [_text(f"part_{name}", lang, value=both[0]) for name, both in known.items() if both[0] == both[1]]
    apart = [_text(f"part_{name}", lang, value=f"{both[0]} / {both[1]}") for name, both in known.items() if both[0] != both[1]]
    joined = "、" if lang == "zh" else ", "
    names = " / ".join(f"{servers.instance_type[row]}" for row in largest)
    line = _text("apart" if apart else "apart_in_nothing", lang, names=names, apart=joined.join(apart), same=joined.join(same))
    notes = [row[lang] for row in _table()["notes"] if any(re.fullmatch(row["words"], name, re.IGNORECASE) for name in named)]
    return [line + (_text("apart_same", lang, same=joined.join(same)) if apart and same else ""), *notes]


def _weighed(named: Mapping[str, Sequence[int]], catalog: Catalog, lang: Lang) -> list[str]:
    """Which of several servers or series costs least an hour, and what more of a GPU it has, or
    the dearer one."""
    from rightfit.market.verdicts import server_facts

    servers, least = catalog.servers(), list[tuple[float, str, int]]()
    for name, rows in named.items():
        whole = [row for row in rows if servers.num_accelerators[row] >= 1] or rows  # a slice of a GPU is no match for one
        priced = [(price["price_usd_per_h"], name, row) for row in whole if (price := server_facts(catalog, row)["price"]) is not None]
        least += [min(priced)] if priced else []
    if len(least) < 2:
        return []
    (price, name, row), (dearer, other, at) = sorted(least)[:2]
    told = _text("cheaper", lang, name=name, price=q.money_text(price), other=other, dearer=q.money_text(dearer))
    cards = [facts.accelerators().get(servers.accelerator_name[one]) for one in (row, at)]
    if cards[0] is None or cards[1] is None or cards[0] is cards[1]:
        return [told]
    memory = [float(servers.accelerator_memory_bytes[one]) for one in (row, at)]
    is_more = memory[0] >= memory[1]
    fields = {f"memory{number}": q.memory_text(one) for number, one in enumerate(memory)}
    fields |= {f"bandwidth{number}": f"{card.memory_bandwidth / 1e9:,.4g}" for number, card in enumerate(cards) if card is not None}
    key = "cheaper_and_more" if is_more else "cheaper_but_less"
    return [told + _text(key, lang, card0=cards[0].name, card1=cards[1].name, **fields)]


def cheapest_of(wishes: Mapping[str, Any], rows: Sequence[int], catalog: Catalog) -> tuple[str, Any]:
    """The size of a series that does the job for least money, with its estimate."""
    from rightfit.market.verdicts import by_size

    servers = catalog.servers()
    kinds = [f"{servers.provider[row]}/{servers.instance_type[row]}" for row in by_size(catalog, rows)][:_MOST_SIZES]
    tried = [(kind, found) for kind in kinds if (found := _estimate(wishes, kind, catalog)) is not None and found.best is not None]
    return min(tried, key=lambda one: float(one[1].best.cost.total_usd), default=("", None))


def _way(found: Any) -> str:
    return "helped" if getattr(found.best.layout, "offload", "none") not in ("", "none") else "yes"


def _command(wishes: Mapping[str, Any], server: str) -> str:
    return f"`{command_line(wishes, server=server)}`"


def _estimate(wishes: Mapping[str, Any], server: str, catalog: Catalog) -> Any:
    from rightfit.planner.given import estimate_one
    from rightfit.workload.model import Workload

    try:
        return estimate_one(Workload(**wishes), on=server, catalog=catalog)
    except RightfitError:
        return None


def done_text(kind: str, found: Any, answer: str, lang: Lang) -> str:
    option = found.best
    time = option.estimate.get("total_time_s")
    told = _text("time", lang, time=q.duration_text(time.mid, lang)) if time else ""
    offload = _text("offload", lang, what=offload_text(option.layout.offload, lang)) if answer == "helped" else ""
    cards = f" ({option.num_accelerators} x {option.accelerator.name}, {getattr(option.layout, 'weight_format', '') or option.layout.precision})"
    hardware = cards if option.num_accelerators else _text("on_cpu", lang)
    return _text("done", lang, server=kind, time=told, cost=cost_text(option)[lang], offload=offload, hardware=hardware)


def _able_at_all(sentence: str, name: str, rows: Sequence[int], catalog: Catalog) -> CheckResult:
    """Of no model in particular: with a GPU yes, as far as its memory goes; without one no."""
    servers = catalog.servers()
    has_gpu = any(servers.num_accelerators[row] > 0 for row in rows)
    told = {
        lang: [*series_lines(name, rows, catalog, lang), _text("with_gpu" if has_gpu else "without_gpu", lang, name=name)] for lang in LANGS
    }
    return _result(sentence, name, told, "right" if has_gpu else "wrong", "yes" if has_gpu else "no")


def _letter(sentence: str, catalog: Catalog) -> CheckResult | None:
    """A series by its letter alone: which clouds' series of it have GPUs, which have none."""
    found = _LETTER.search(sentence)
    if found is None:
        return None
    letter = found["letter"].casefold()
    servers = catalog.servers()
    members: dict[str, list[int]] = {}
    for row, (provider, family) in enumerate(zip(servers.provider, servers.family, strict=True)):
        if re.match(rf"(?:ecs\.)?{letter}\d", family.casefold()):
            members.setdefault(provider, []).append(row)
    if not members:
        return None
    cards = {
        provider: sorted({servers.accelerator_name[row] for row in rows if servers.num_accelerators[row] > 0})
        for provider, rows in members.items()
    }
    answer = "no" if not any(cards.values()) else "yes" if all(cards.values()) else "depends"
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        bare = q.provider_text(", ".join(provider for provider, names in cards.items() if not names), lang)
        told[lang] = [_text("letter_none", lang, letter=letter, clouds=bare)] if bare else []
        for provider, names in cards.items():
            if names:
                told[lang].append(_text("letter_gpu", lang, letter=letter, cloud=q.provider_text(provider, lang), cards=", ".join(names)))
        told[lang].append(_text("without_gpu", lang, name=letter) if answer == "no" else _text("with_gpu", lang, name=letter))
    return _result(sentence, letter, told, {"yes": "right", "no": "wrong"}.get(answer, "unknown"), answer)
