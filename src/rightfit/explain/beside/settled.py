"""A sentence settled: the wish to plan, the questions beside it, what is told before its plan."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.beside.able import able_lines
from rightfit.explain.beside.answers import answers
from rightfit.explain.beside.choices import Way, listed_between, servers_between, tried, ways_between
from rightfit.explain.beside.compared import OBJECTIVES, compared_lines, currency_of, peak_bytes, time_ratio, told_alike
from rightfit.explain.beside.in_words import told_in, total_usd, usd
from rightfit.explain.beside.questions import Beside, Question, without_questions, worded, words_table
from rightfit.explain.memory_out import Shortage, shortage_lines, shortage_of
from rightfit.messages import LANGS, Lang
from rightfit.records import dataclass
from rightfit.units import SECONDS_PER_MONTH

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.search.answer import Option, Plan
    from rightfit.workload.ask.sentence import Understood


@dataclass(frozen=True, slots=True)
class Asked:
    """A sentence settled: the wish to plan (with the cheaper of two ways that it asks about), the
    questions beside it, and what is told already, in each language."""

    wish: str
    questions: tuple[Question, ...] = ()
    told: Mapping[Lang, tuple[str, ...]] = dataclasses.field(default_factory=dict)
    is_able: bool = False
    #: Options that take the way that is told to be better, where its sentence names all of them.
    chosen: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: How often the work is done that is planned once, and as what (a key of the texts).
    repeated: tuple[str, float] = ("", 1.0)
    #: Whether hardware is to be bought, so that buying is compared with renting.
    is_purchase: bool = False
    #: GPU memory that ran out in its story.
    short: Shortage | None = None
    #: Whether facts of it that decide have no sure place, so that an answer holds for one reading.
    is_open: bool = False

    @property
    def _asks_room(self) -> bool:
        """Whether it is asked of so much memory, which has its own answer."""
        return any(one.key == "room" for one in self.questions)

    def lines(self, plan: Plan, catalog: Catalog, lang: Lang) -> list[str]:
        """What is said before the plan of the wish."""
        told = self.told.get(lang, ())
        left = [
            one for one in self.questions if not told or words_table()["questions"][one.key].get("answer") != "cost"
        ]  # rows of ways have it
        with told_in(plan.workload.currency):
            able = able_lines(plan, lang, catalog) if self.is_able and not self.told and not self._asks_room else []
            return [
                *(worded("able_reading", lang, words=line) if self.is_open else line for line in able),
                *repeated_lines(self.repeated, plan.best, lang),
                *told,
                *answers(left, plan, catalog, lang),
                *(answers([Question("buying", worded("buying", lang))], plan, catalog, lang) if self.is_purchase else []),
                *shortage_lines(self.short, plan, catalog, lang),
            ]


#: What a sentence assumes of work that comes again: the text of its line, and how often.
_REPEATS = {"workload.assumed_jobs": "repeated_jobs", "workload.assumed_each_day": "repeated_days", "workload.assumed_term": "term"}


_DAYS = 30.0


def repeats_of(said: Understood) -> tuple[str, float]:
    """How often the work of a sentence is done: each of its jobs, or each day of a month."""
    found = next((one for one in said.assumed if one.key in _REPEATS), None)
    if found is None:
        return "", 1.0
    return _REPEATS[found.key], float(str(found.fields.get("jobs", found.fields.get("months", _DAYS))).replace(",", ""))


def repeated_lines(repeated: tuple[str, float], best: Option | None, lang: Lang) -> list[str]:
    """What all of the work takes and costs, where one part of it is planned."""
    key, count = repeated
    if key == "term" and best is not None:
        return [worded(key, lang, time=q.duration_text(count * SECONDS_PER_MONTH, lang), cost=usd(total_usd(best) * count))]
    if not key or best is None or "total_time_s" not in best.estimate:
        return []
    time = q.duration_text(float(best.estimate["total_time_s"].mid) * count, lang)
    return [worded(key, lang, count=q.plain(count), time=time, cost=usd(total_usd(best) * count))]


def settle(sentence: str, catalog: Catalog, given: Mapping[str, Any] | None = None) -> Asked:
    """Take a sentence apart; `given`: options beside it, which win."""
    from rightfit.explain.server_questions import with_cards
    from rightfit.workload.ask import understand
    from rightfit.workload.ask.asides import PURCHASE

    sentence = with_cards(sentence, catalog)
    asked = _settled(sentence, catalog, given)
    try:
        said = understand(asked.wish)
        return dataclasses.replace(
            asked,
            repeated=repeats_of(said),
            is_purchase=any(one.key == PURCHASE for one in said.assumed),
            short=shortage_of(said, sentence, catalog),
            is_open=bool(said.open),
        )
    except RightfitError:
        return asked


def _settled(sentence: str, catalog: Catalog, given: Mapping[str, Any] | None) -> Asked:
    beside = without_questions(sentence)
    is_able = bool(re.search(words_table()["ways"]["able"], sentence, re.IGNORECASE))
    chosen = {name: value for name, value in (given or {}).items() if value is not None}
    ways: Sequence[Way | None] = (
        servers_between(beside.wish, chosen, catalog)
        or listed_between(beside.wish, chosen, catalog, sentence)
        or [tried(name, wish, chosen, catalog) for name, wish in ways_between(beside.wish, sentence)]
    )
    done = [way for way in ways if way is not None]
    if len(ways) < 2 or len(done) < len(ways):
        return Asked(beside.wish, beside.questions, is_able=is_able, chosen={} if "task" in chosen else _tuned_first(beside))
    has_own = any("have" in way.wishes for way in done)
    done = done if has_own else told_alike(done, catalog)
    measure = (
        peak_bytes
        if re.search(words_table()["ways"]["memory"], sentence, re.IGNORECASE)
        else OBJECTIVES[str(done[0].wishes.get("objective", "cost"))]
    )
    done.sort(key=lambda way: math.inf if way.option is None else measure(way.option))
    why = [way.excluded(catalog) for way in done]
    with told_in(currency_of(done)):
        told = {lang: compared_lines(done, measure, why, lang) for lang in LANGS}
    apart = re.compile(words_table()["ways"]["apart"], re.IGNORECASE)
    timed = [way for way in done if way.option is not None and "total_time_s" in way.option.estimate]
    questions = beside.questions
    if apart.search(sentence) and len(timed) > 1:
        questions = tuple(one for one in questions if one.key != "time" or not apart.search(one.words))
        for lang in LANGS:
            told[lang].insert(1, time_ratio(timed, lang))
    return Asked(done[0].wish, questions, {lang: tuple(lines) for lang, lines in told.items()}, is_able, {} if has_own else done[0].alone)


def _tuned_first(beside: Beside) -> dict[str, Any]:
    """What a sentence means by training a large model that it serves afterwards: fine-tuning, where
    nothing says that it begins from scratch."""
    from rightfit.workload.ask import FROM_SCRATCH, understand

    if "then" not in {one.key for one in beside.questions}:
        return {}
    try:
        found = understand(beside.wish)
    except RightfitError:
        return {}
    return {"task": "finetune"} if any(one.key == FROM_SCRATCH for one in found.assumed) else {}
