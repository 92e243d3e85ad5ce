"""The ways between which a wish asks to choose, each planned: servers, GPUs, clouds, models, values
of an option."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.able import assumed_limit
from rightfit.explain.beside.questions import worded, words_table
from rightfit.explain.command_text import command_line
from rightfit.explain.trials import best_for, best_of
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.workload.ask.sentence import Understood


#: Options of which a plan compares several by itself.
_LISTED = frozenset({"avoid", "gpu", "cloud", "region", "country", "purchase", "model", "data"})


@dataclass(frozen=True, slots=True)
class Way:
    """One of the ways between which a sentence asks: its name there, the sentence and the options
    that take it, on which server (empty: any), what leads its plan (None: nothing), and what
    options take it beside a sentence that names the other ways too."""

    name: str
    wish: str
    wishes: Mapping[str, Any]
    option: Option | None
    server: str = ""
    alone: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def command(self) -> str:
        return command_line(self.wishes, server=self.server)

    def under(self, told: Mapping[str, str], catalog: Catalog) -> Way:
        """The same with an option told."""
        wishes = {**self.wishes, **told}
        found = None if self.option is None else _led(wishes, catalog, self.server)
        return dataclasses.replace(self, wishes=wishes, option=found, alone={**self.alone, **told})

    def excluded(self, catalog: Catalog) -> Mapping[Lang, str]:
        """What excludes a way that cannot be done, but for the card or cloud that it is about."""
        from rightfit.explain.plan_words import either_text, smallest_sets

        if self.option is not None:
            return {}
        if "have" in self.wishes:
            return {lang: worded("own_not", lang) for lang in LANGS}
        try:
            blame = _plan_of(self.wishes, self.server, catalog).blame
        except RightfitError as error:
            return {lang: error.text(lang) for lang in LANGS}
        told = smallest_sets([tuple(name for name in group if name not in _LISTED) or group for group in blame])
        return {lang: either_text(told, lang) for lang in LANGS}


def _led(wishes: Mapping[str, Any], catalog: Catalog, server: str = "") -> Option | None:
    """What leads the plan of these options; None where nothing does."""
    if not server:
        return best_for(wishes, catalog)
    try:
        return _plan_of(wishes, server, catalog).best
    except RightfitError:
        return None


def _plan_of(wishes: Mapping[str, Any], server: str, catalog: Catalog) -> Plan:
    from rightfit.planner.given import estimate_one
    from rightfit.planner.plan import plan as plan_again
    from rightfit.workload.model import Workload

    if server:
        return estimate_one(Workload(**wishes), on=server, catalog=catalog)
    return plan_again(Workload(**wishes), catalog=catalog, top=1)


def servers_between(wish: str, given: Mapping[str, Any], catalog: Catalog) -> list[Way]:
    """Servers between which a wish asks to choose, each tried with the rest of it; [] where it
    names fewer than two."""
    from rightfit.market.server_names import exact_servers
    from rightfit.workload.ask import understand

    words = [
        word for word in re.findall(r"[A-Za-z][\w.-]*\w", wish, re.ASCII) if re.search(r"\d", word) and not facts.match_accelerators(word)
    ]
    named = {word: rows for word in words if (rows := exact_servers(catalog, word))}
    if len(named) < 2:
        return []
    rest, table = wish, catalog.servers()
    joins = words_table()["ways"]["joins"]
    for word in named:
        rest = re.sub(rf"(?:\s*(?:{joins})\s*)?{re.escape(word)}(?:\s*[(（][^()（）]*[)）])?", " ", rest, flags=re.IGNORECASE)
    rest = re.sub("^ *(?:哪个|哪台|哪种|which)", " ", rest)
    servers = {word: f"{table.provider[rows[0]]}/{table.instance_type[rows[0]]}" for word, rows in named.items()}
    try:
        wishes = {**understand(rest).settled(), **given}
    except RightfitError:
        return []
    found = [Way(word, rest, wishes, _led(wishes, catalog, server), server) for word, server in servers.items()]
    return found if any(way.option is not None for way in found) else []


def listed_between(wish: str, given: Mapping[str, Any], catalog: Catalog, sentence: str) -> list[Way]:
    """Cards or clouds between which a wish asks to choose, each tried alone with the rest of it;
    [] where it names fewer than two."""
    from rightfit.workload.ask import understand

    try:
        said = understand(wish)
        wishes = {**(said.wishes if said.own_machine and not said.weighty else said.settled()), **given}
    except RightfitError:
        return []
    if "model" in wishes and "gpu" not in given and (cards := _cards_told(said, wishes, sentence)):
        found = _sold_alike([_card_way(name, wish, {**wishes, **told}, told, catalog) for name, told in cards.items()], catalog)
        return [*_own_way(said.own_machine, wish, wishes, catalog), *found] if any(way.option is not None for way in found) else []
    if others := [str(one.fields["other"]) for one in said.assumed if one.key == "workload.assumed_alternative"]:
        return _models_told([str(wishes.get("model")), *others], wish, wishes, given, catalog)
    if said.own_machine or not re.search(words_table()["ways"]["choose"], sentence, re.IGNORECASE):
        return []
    found = []
    names = dict.fromkeys(str(wishes.get("cloud", "")).split(","))
    if "cloud" in given or len(names) < 2 or "model" not in wishes:
        return []
    spoken: Lang = "zh" if re.search(r"[\u4e00-\u9fff]", wish) else "en"
    for name in names:
        found.append(
            Way(q.provider_text(name, spoken), wish, alone := {**wishes, "cloud": name}, _led(alone, catalog), alone={"cloud": name})
        )
    return found if any(way.option is not None for way in found) else []


def _models_told(names: Sequence[str], wish: str, wishes: Mapping[str, Any], given: Mapping[str, Any], catalog: Catalog) -> list[Way]:
    """Models between which a wish asks to choose, each with all of the rest; [] where an option
    names the model, or none can be planned."""
    if "model" in given or "have" in wishes:
        return []
    found = [Way(name, wish, one := {**wishes, "model": name}, _led(one, catalog), alone={"model": name}) for name in names]
    return found if any(way.option is not None for way in found) else []


def _card_way(name: str, wish: str, alone: Mapping[str, Any], told: Mapping[str, str], catalog: Catalog) -> Way:
    """What leads with one of the cards; within a longer wait where only a limit that nobody stated
    is in the way."""
    way = Way(name, wish, alone, _led(alone, catalog), alone=told)
    if way.option is not None:
        return way
    try:
        assumed = assumed_limit(_plan_of(alone, "", catalog))
    except RightfitError:
        return way
    if assumed is None:
        return way
    longer = {assumed["option"]: f"{float(assumed['limit_s']):g}s"}
    option = _led({**alone, **longer}, catalog)
    return way if option is None else dataclasses.replace(way, wishes={**alone, **longer}, option=option, alone={**told, **longer})


#: Of two cards one is sold in so many times as many pieces as the other.
_WHOLE_SERVERS = 4.0


def _sold_alike(ways: list[Way], catalog: Catalog) -> list[Way]:
    """The ways with every seller, where the usual ones sell one of the cards in whole servers alone
    and another seller fewer of it for clearly less: else the sellers decide between the cards."""
    led = [way for way in ways if way.option is not None]
    if len(led) < 2 or any({"sellers", "cloud", "num_gpus"} & set(way.wishes) for way in ways):
        return ways
    counts = [way.option.num_accelerators for way in led if way.option is not None]
    if max(counts) < _WHOLE_SERVERS * min(counts):
        return ways
    told = {"sellers": "all"}
    whole = led[counts.index(max(counts))]
    other = whole.under(told, catalog)
    usual = facts.coefficients("planning")["unmeasured_saves"]
    if whole.option is None or other.option is None or other.option.cost.total_usd > (1.0 - usual) * whole.option.cost.total_usd:
        return ways
    return [other if way is whole else way.under(told, catalog) for way in ways]


def _cards_told(said: Understood, wishes: Mapping[str, Any], sentence: str) -> dict[str, dict[str, str]]:
    """Cards between which a sentence asks to choose, by their names there, and the options that
    take each: different ones, or different numbers of one; beside a machine of one's own also one
    alone. {} where there is no choice."""
    from rightfit.workload.ask.posts import is_post

    named = dict.fromkeys(name for name in str(wishes.get("gpu", "")).split(",") if facts.match_accelerators(name))
    counted = [(name, count) for name, count in dict.fromkeys(said.cards) if said.own_machine or name in named]
    counted += [(name, 0) for name in named if name not in dict(counted)]
    several = {name for name, count in counted if count}
    chosen = [(name, count) for name, count in counted if count or name not in several]
    is_counted = len({count for _, count in chosen}) > 1 or said.own_machine
    if len(chosen) < (1 if said.own_machine else 2) or not (
        said.own_machine or is_counted or is_post(sentence) or re.search(words_table()["ways"]["choose"], sentence, re.IGNORECASE)
    ):
        return {}
    clouds = dict(said.card_clouds)
    return {
        f"{count} x {name}" if count and is_counted else name: {
            "gpu": name,
            **({"num_gpus": str(count)} if count and is_counted else {}),
            **({"cloud": clouds[name]} if name in clouds else {}),
        }
        for name, count in chosen
    }


def _own_way(have: str, wish: str, wishes: Mapping[str, Any], catalog: Catalog) -> list[Way]:
    """The machine of one's own as one of the ways; [] without one."""
    from rightfit.planner.cards import plan_on_own
    from rightfit.planner.plan import plan as plan_again
    from rightfit.workload.model import Workload

    if not have:
        return []
    try:
        best = plan_on_own(Workload(**wishes), have, plan_again, catalog, top=1).best
    except RightfitError:
        best = None
    return [Way(have, wish, {**wishes, "have": have}, best if best is not None and best.purchase == "owned" else None)]


def ways_between(wish: str, sentence: str) -> list[tuple[str, str]]:
    """The ways between which a sentence asks to choose, each with the wish that takes it: they set
    one option, and no list."""
    from rightfit.workload.ask import understand

    table = words_table()["ways"]
    if not re.search(table["choose"], sentence, re.IGNORECASE):
        return _times(wish)
    word = rf"[A-Za-z][A-Za-z0-9+-]*(?:\.[A-Za-z0-9]+)*|{'|'.join(table['words'])}"
    for found in re.finditer(rf"(?:{word})(?:\s*(?:{table['joins']})\s*(?:用|选)?\s*(?:{word}))+", wish, re.IGNORECASE):
        names = [one for one in re.findall(word, re.sub(r"\b(?:or|vs|versus)\b", "、", found[0], flags=re.IGNORECASE)) if one]
        ways = [
            (name, wish[: found.start()] + name + re.sub("^ *(?:哪个|哪种|which)", " ", wish[found.end() :]))
            for name in dict.fromkeys(names)
        ]
        try:
            read = [understand(way) for _, way in ways]
        except RightfitError:
            continue
        wishes = [one.wishes for one in read]
        told = [
            {reading.option for reading in one.readings if _says(reading.words, name)} for (name, _), one in zip(ways, read, strict=True)
        ]
        if any(one in wishes[:at] for at, one in enumerate(wishes)):  # two names of one way are no choice
            continue
        changed = {key for one in wishes for key in one if any(other.get(key) != one[key] for other in wishes)}
        is_one = len(ways) > 1 and len(changed - {"objective"}) == 1 and not changed & _LISTED
        if is_one and all(changed & options for options in told) and not any(one.weighty for one in read):
            return ways
    return _times(wish)


def _says(words: str, name: str) -> bool:
    """Whether a name stands in the words that an option was read from."""
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", words, re.IGNORECASE) is not None


def _times(wish: str) -> list[tuple[str, str]]:
    """Two deadlines: "一天内训练完,和一周内训练完差多少钱"."""
    within = words_table()["ways"]["within"]
    pattern = rf"{within}\s*(?:之?内)?(?P<rest>[^,，]*?)\s*[,，]?\s*(?:{words_table()['ways']['joins']})\s*{within.replace('?P<one>', '?P<two>').replace('?P<unit>', '?P<other>')}\s*(?:之?内)?(?:(?P=rest))?\s*(?:相?差多少钱?|差价多少|哪个便宜|(?:差|贵|便宜)多少钱?)?"
    found = re.search(pattern, wish, re.IGNORECASE)
    if found is None:
        return []
    times = (found["one"] + found["unit"], found["two"] + found["other"])
    return [(time, f"{wish[: found.start()]} {time}内{found['rest']} {wish[found.end() :]}") for time in times]


def tried(name: str, wish: str, given: Mapping[str, Any], catalog: Catalog) -> Way | None:
    """A way and what leads its plan; None where it is no whole wish."""
    from rightfit.workload.ask import understand
    from rightfit.workload.model import Workload

    try:
        wishes = {**understand(wish).settled(), **given}
        return Way(name, wish, wishes, best_of(Workload(**wishes), catalog))
    except RightfitError:
        return None
