"""The nearest that is known to a question or a statement that nothing else answers: the plan of
what is understood of it, texts about its subject, and what is known of the things that it names. It
is always said that this is the nearest, so that it never passes for the answer.

Texts are data (data/nearest.toml, and those of glossary, topics and rules). A text and a query are
compared by their words, rare ones counting more.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.explain.claim_words import cards_of
from rightfit.explain.glossary import glossary, term_text, with_figures
from rightfit.explain.messages import topic
from rightfit.explain.rules import all_rules
from rightfit.explain.topic_questions import all_topics
from rightfit.explain.yes_or_no import is_open, is_question
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult

#: What a phrasing of a question, and prose, must share with a query to be told; from where on a
#: phrasing is told before what is planned, and from where on it is what was asked.
_RELEVANT, _RELEVANT_PROSE, _SURE, _SAME = 0.46, 0.55, 0.6, 0.8
#: What prose must share in all: one rare word is no subject.
_LEAST_WEIGHT = 7.0
_MOST_TEXTS, _MOST_THINGS = 2, 3
#: A second text is told where it is so near beside the first.
_BESIDE = 0.85
#: A word that stands nowhere in our texts counts less than a rare one that does: names, amounts.
_UNKNOWN = 0.6
#: What a phrasing of a question weighs beside the prose of its answer, and how much a long text
#: loses for holding many words.
_PROSE, _LENGTH = 0.92, 0.003


@dataclass(frozen=True, slots=True)
class Near:
    """A text that is known: where it is from (known, topic, term, rule), its name, how much of a
    query it shares, and the phrasing that it shares it with ("": its prose)."""

    source: str
    name: str
    score: float
    phrase: str = ""

    @property
    def is_relevant(self) -> bool:
        return self.score >= (_RELEVANT if self.phrase else _RELEVANT_PROSE)


def _table() -> Mapping[str, Any]:
    return topic("nearest")


def _text(key: str, lang: Lang, **fields: Any) -> str:
    text: str = _table()["texts"][key][lang]
    return text.format(**fields)


# ---- Which texts are near.


def words_in(text: str) -> list[str]:
    """The words of a text in its order: Latin ones without their ending, pairs of Chinese letters;
    those that every question has are left out."""
    found, stopped = list[str](), set(_table()["words"]["stop"].split())
    for run in re.findall(r"[a-z][a-z0-9_.+-]*[a-z0-9+]|[a-z]|[\u4e00-\u9fff]+", _stopped().sub(" ", text.casefold())):
        if run[0].isascii():
            found += [] if run in stopped else [_stem(run)]
        else:
            found += [run[at : at + 2] for at in range(len(run) - 1)] or [run]
    return found


def _stem(word: str) -> str:
    for ending in ("ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) > 3:
            return word.removesuffix(ending).rstrip("e")
    return word.rstrip("e") if len(word) > 4 else word


@functools.cache
def _stopped() -> re.Pattern[str]:
    return re.compile(_table()["words"]["stop_zh"])


@functools.cache
def _documents() -> tuple[tuple[str, str, frozenset[str], str], ...]:
    """Every text: where it is from, its name, its words, and the phrasing of a question or a
    statement that it is ("": prose)."""
    found: list[tuple[str, str, frozenset[str], str]] = []

    def add(source: str, name: str, asks: Iterable[str], prose: Iterable[str]) -> None:
        found.extend((source, name, frozenset(words_in(one)), one) for one in asks)
        found.extend((source, name, frozenset(words_in(one)), "") for one in prose)

    for name, entry in _table()["known"].items():
        add("known", name, [*entry["asks"], *_claims_of(entry)], (entry["zh"], entry["en"]))
    for name, entry in glossary().items():
        words = " ".join(map(str, entry["words"]))
        add("term", name, entry["words"] if entry.get("is_symptom") else (), (f"{words} {entry['zh']}", f"{words} {entry['en']}"))
    for entry in all_topics():
        if "figures" not in entry:
            add("topic", entry["id"], (), (entry["zh"], f"{entry['id'].replace('_', ' ')} {entry['en']}"))
    for name, rule in all_rules().items():
        add("rule", name, (*rule.aliases, *rule.statement.values()), ())
    return tuple(found)


def _claims_of(entry: Mapping[str, Any]) -> dict[str, str]:
    """The statements that an entry judges, each with its verdict."""
    return {said: claim for claim in ("right", "wrong", "depends") for said in entry.get(claim, ())}


@functools.cache
def _rarity() -> Mapping[str, float]:
    documents = _documents()
    counts = Counter(word for _, _, words, _ in documents for word in words)
    return {word: math.log(len(documents) / (count + 0.5)) for word, count in counts.items()}


def _weight(words: Iterable[str]) -> float:
    rarity, rare = _rarity(), math.log(len(_documents()) / 0.5) * _UNKNOWN
    return sum(rarity.get(word, rare) for word in words)


@functools.lru_cache(maxsize=64)
def nearest_texts(sentence: str) -> tuple[Near, ...]:
    """The texts that share most with a sentence, the nearest first, each once."""
    bare, asked = frozenset(words_in(_bare(sentence)) or words_in(sentence)), frozenset(words_in(sentence))
    whole = _weight(bare)
    best: dict[tuple[str, str], Near] = {}
    for source, name, words, phrase in _documents():
        if not (shared := asked & words):
            continue
        part = _weight(shared)
        if not phrase and part < _LEAST_WEIGHT:
            continue
        # names that a phrasing lacks make it no farther, those that it has beside the query do
        score = 2.0 * part / (_weight(bare | shared) + _weight(words)) if phrase else _PROSE * part / whole / (1.0 + _LENGTH * len(words))
        if (source, name) not in best or best[source, name].score < score:
            best[source, name] = Near(source, name, score, phrase)
    return tuple(sorted(best.values(), key=lambda one: -one.score))


def _bare(sentence: str) -> str:
    """A sentence without the names of cards, servers and models, and without amounts: those are
    told from our tables."""
    rest = sentence
    for spoken, _ in cards_of(sentence):
        rest = rest.replace(spoken, " ")
    return re.sub(r"(?<![A-Za-z0-9.-])\d[\d.,]*\s*(?:[万亿]|[kKmMgGtT]i?[bB]?(?![A-Za-z]))?", " ", rest)


# ---- What is told.


def known_answer(sentence: str, *, least: float = _SAME) -> CheckResult | None:
    """The answer to a question, or the verdict on a statement, that is asked so or almost so in our
    table; None of any other."""
    from rightfit.market.verdicts import CheckResult

    near, claim = None if is_question(sentence) else _claimed(sentence, least), None
    if near is not None:
        claim = _claims_of(_table()["known"][near.name])[near.phrase]
    elif asks_something(sentence):
        same = _asks().get(_plain(sentence))
        near = (
            Near("known", same, 1.0, sentence)
            if same
            else next((one for one in nearest_texts(sentence)[:1] if _is_asked(one, sentence) and one.score >= least), None)
        )
    if near is None:
        return None
    told = {lang: _told(near, lang) for lang in LANGS}
    word = {"depends": "unknown"}.get(str(claim), claim)
    return CheckResult(sentence, "rule" if claim else "market", True, word, {"known": near.name}, (), told["en"], told["zh"])


def _is_asked(near: Near, sentence: str) -> bool:
    """Whether a text answers by its phrasing, which is not of other cards than the sentence."""
    if near.source != "known" or not near.phrase:
        return False
    mine, theirs = ({name for _, names in cards_of(text) for name in names} for text in (sentence, near.phrase))
    return not mine or not theirs or bool(mine & theirs)


def _plain(sentence: str) -> str:
    """A sentence without what its meaning does not hang on: capitals, blanks, marks at its end."""
    return re.sub(r"\s+|[?？!！。.]+\s*$", "", sentence).casefold()


@functools.cache
def _asks() -> Mapping[str, str]:
    """The entry of each way to ask of our table."""
    return {_plain(ask): name for name, entry in _table()["known"].items() for ask in entry["asks"]}


def general_lines(sentence: str) -> dict[Lang, str] | None:
    """What our table says of the subject of a sentence, in a line that says so; None where nothing
    is near enough."""
    near = next(iter(nearest_texts(sentence)), None)
    if near is None or not _is_asked(near, sentence) or near.score < _SURE:
        return None
    return {lang: f"{_text('general', lang)}{'' if lang == 'zh' else ' '}{_told(near, lang)}" for lang in LANGS}


def _claimed(sentence: str, least: float) -> Near | None:
    """The statement of our table that says the same as a sentence."""
    asked = frozenset(words_in(sentence))
    found = [
        Near(source, name, score, phrase)
        for source, name, words, phrase in _documents()
        if source == "known"
        and phrase in _claims_of(_table()["known"][name])
        and (score := 2.0 * _weight(asked & words) / (_weight(asked) + _weight(words) or 1.0)) >= least
    ]
    return next((one for one in sorted(found, key=lambda one: -one.score) if _is_said_alike(sentence, one.phrase)), None)


def _is_said_alike(sentence: str, phrase: str) -> bool:
    """Whether two sentences say the same way round: their words for more and less, for all and for
    none are the same, and what they compare stands in the same order."""
    polar = re.compile(_table()["words"]["polar"], re.IGNORECASE)
    if Counter(map(str.casefold, polar.findall(sentence))) != Counter(map(str.casefold, polar.findall(phrase))):
        return False
    mine, theirs = words_in(sentence), words_in(phrase)
    if not sentence.isascii() and {word for word in mine if word.isascii()} != {word for word in theirs if word.isascii()}:
        return False  # of something else
    shared = set(mine) & set(theirs)
    order = [list(dict.fromkeys(word for word in words if word in shared)) for words in (mine, theirs)]
    return order[0] == order[1] and _amounts(sentence) == _amounts(phrase)


def _amounts(text: str) -> list[str]:
    """The amounts of a text, without the digits of names."""
    return re.findall(r"(?<![A-Za-z0-9.-])\d+(?:\.\d+)?", text)


def nearest_answer(sentence: str, catalog: Catalog) -> CheckResult | None:
    """What comes nearest to a question that nothing answers, or to a statement that cannot be
    judged; None where nothing is near."""
    from rightfit.market.verdicts import CheckResult

    asks = asks_something(sentence)
    near = [one for one in nearest_texts(sentence) if one.is_relevant][:_MOST_TEXTS]
    near = [one for one in near if one.score >= _BESIDE * near[0].score]
    texts = {lang: [line for one in near if (line := _told(one, lang))] for lang in LANGS}
    planned = _planned(sentence, catalog) if asks else None
    things = _things(sentence, catalog)
    is_first = bool(near) and near[0].score >= _SURE
    told: dict[Lang, list[str]] = {}
    for lang in LANGS:
        plans = planned[lang] if planned else []
        shown = [*texts[lang], *plans] if is_first or not plans else [*plans, *texts[lang]]
        told[lang] = [*shown, *(things[lang] if not plans else [])]
    if not told["en"]:
        return None
    is_general = is_first and near[0].source == "known" and bool(near[0].phrase)
    for lang in LANGS:
        told[lang].insert(0, _text("general" if asks and is_general else "head" if asks else "head_said", lang))
    known = {"nearest": [f"{one.source}:{one.name}" for one in near]}
    return CheckResult(sentence, "market", True, None if asks else "unknown", known, (), "\n".join(told["en"]), "\n".join(told["zh"]))


def asks_something(sentence: str) -> bool:
    """Whether a sentence asks, and is no wish alone."""
    return is_question(sentence) or is_open(sentence)


def askable_note(sentence: str, lang: Lang) -> str:
    """The nearest things that can be asked, as a line beside a refusal."""
    return _text("ask_instead", lang, asks=("、" if lang == "zh" else "; ").join(f"“{one}”" for one in askable(sentence, lang)))


def askable(sentence: str, lang: Lang, *, count: int = 2) -> list[str]:
    """The nearest things that can be asked, as somebody would ask them."""
    found = list[str]()
    for one in nearest_texts(sentence):
        if one.source == "known":
            asks: Sequence[str] = _table()["known"][one.name]["asks"]
            found.append(next((ask for ask in asks if ask.isascii() == (lang == "en")), asks[0]))
        elif one.source == "term":
            words = glossary()[one.name]["words"]
            found.append(str(next((word for word in words if word.isascii() == (lang == "en")), words[0])))
        elif one.source == "rule":
            found.append(all_rules()[one.name].statement[lang])
    return list(dict.fromkeys(found))[:count]


def _told(near: Near, lang: Lang) -> str:
    """A text, with the figures of our tables."""
    if near.source == "term":
        return term_text(near.name, lang)
    if near.source == "topic":
        entry = next(one for one in all_topics() if one["id"] == near.name)
        return with_figures(entry[lang]) + (f" `{entry['ask']}`" if "ask" in entry and "{" not in entry["ask"] else "")
    if near.source == "rule":
        return _text("rule", lang, statement=all_rules()[near.name].statement[lang], rule=near.name)
    entry = _table()["known"][near.name]
    return with_figures(entry[lang]) + (f" `{entry['ask']}`" if "ask" in entry else "")


def _planned(sentence: str, catalog: Catalog) -> dict[Lang, list[str]] | None:
    """The plan of what is understood of a sentence, with the words that it leaves out; None where
    that names no model."""
    from rightfit.explain.beside.settled import settle
    from rightfit.explain.command_text import command_line
    from rightfit.explain.voices import plan_line
    from rightfit.planner.plan import plan
    from rightfit.workload.ask import understand
    from rightfit.workload.model import Workload

    for told_by in (_on_series, _on_both):
        if (found_so := told_by(sentence, catalog)) is not None:
            return found_so
    try:
        asked = settle(sentence, catalog)
        found = understand(asked.wish)
    except RightfitError:
        return None
    wishes = {**found.wishes, **asked.chosen}
    told: dict[Lang, list[str]] = {lang: [] for lang in LANGS}
    for row in _wishes_planned(sentence, wishes, found.kind):
        try:
            made = plan(Workload(**row), catalog=catalog, top=1)
        except RightfitError:
            continue
        if made.best is None:
            continue
        for lang in LANGS:
            told[lang] += asked.lines(made, catalog, lang) if "model" in wishes else []
            told[lang].append(plan_line(made, command_line(row), lang))
    left = [word for word in found.weighty if _is_hard(word)]
    for lang in LANGS:
        if told[lang] and left:
            told[lang].insert(0, _text("left_out", lang, words=("、" if lang == "zh" else ", ").join(left)))
    return told if told["en"] else None


def _wishes_planned(sentence: str, wishes: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    """What is planned: the model that is named, else usual ones for the kind of data that is."""
    from rightfit.planner.typical import typical_rows, typical_wishes

    if "model" in wishes:
        return [wishes]
    if not {"data", "rate", "users"} & set(wishes):
        return []
    rows = typical_rows(sentence, kind, str(wishes.get("task", "")))
    return [dict(one) for _, one in typical_wishes(list(rows), wishes)][:_MOST_TEXTS]


def _is_hard(word: str) -> bool:
    """Whether a word that no option takes says more than that something is asked."""
    return bool(re.search(r"[A-Za-z0-9]", word)) or (len(word) > 3 and not asks_something(word))


def _on_both(sentence: str, catalog: Catalog) -> dict[Lang, list[str]] | None:
    """A job on each of two sets of GPUs that a question compares, each at its best, and how many
    times the time and the money of the second the first takes; None of any other question."""
    from rightfit.explain.beside.in_words import way_text
    from rightfit.explain.trials import best_for
    from rightfit.workload.ask import understand

    parts = re.split(_table()["words"]["than"], sentence, maxsplit=1, flags=re.IGNORECASE)
    if len(parts) != 2 or not all(cards_of(part) for part in parts):
        return None
    try:
        job = {**understand(parts[1]).wishes, **understand(parts[0]).wishes}
        hardware = [{name: value for name, value in understand(part).wishes.items() if name in ("gpu", "num_gpus")} for part in parts]
    except RightfitError:
        return None
    if "model" not in job or not all("gpu" in one for one in hardware):
        return None
    bare = {name: value for name, value in job.items() if name not in ("gpu", "num_gpus", "max_nodes")}
    found = [best_for({**bare, **one, "objective": "time"}, catalog) for one in hardware]
    if found[0] is None or found[1] is None or not all("total_time_s" in one.estimate for one in found if one):
        return None
    times = [one.estimate["total_time_s"].mid for one in found if one]
    costs = [float(one.cost.total_usd) for one in found if one]
    fields = {"time": f"{times[0] / times[1]:.2g}", "cost": f"{costs[0] / costs[1]:.2g}"}
    return {lang: [*(way_text(one, lang) for one in found if one), _text("ratio", lang, **fields)] for lang in LANGS}


def _on_series(sentence: str, catalog: Catalog) -> dict[Lang, list[str]] | None:
    """The size of a named series that does a job for least money; None where no series, no model,
    or more than one series is named."""
    from rightfit.explain.server_questions import cheapest_of, done_text, servers_named
    from rightfit.workload.ask import understand

    named = servers_named(sentence, catalog)
    if len(named) != 1:
        return None
    ((name, rows),) = named.items()
    try:
        wishes = understand(sentence.replace(name, " ")).wishes
    except RightfitError:
        return None
    if "model" not in wishes:
        return None
    for lighter in (wishes, {key: value for key, value in wishes.items() if key != "framework"}):
        kind, found = cheapest_of(lighter, rows, catalog)
        if found is not None:
            return {lang: [done_text(kind, found, "yes", lang)] for lang in LANGS}
    return None


def _things(sentence: str, catalog: Catalog) -> dict[Lang, list[str]]:
    """What is known of the cards and series that a sentence names."""
    from rightfit.explain.market_questions import card_line
    from rightfit.explain.server_questions import series_lines, servers_named

    cards = [facts.accelerator(spoken, typical=True) for spoken, _ in cards_of(sentence)]
    cards = list({card.name: card for card in cards}.values())[:_MOST_THINGS]
    servers = list(servers_named(sentence, catalog).items())[:_MOST_THINGS]
    return {
        lang: [line for name, rows in servers for line in series_lines(name, rows, catalog, lang)]
        + [card_line(card, catalog, lang) for card in cards]
        for lang in LANGS
    }
