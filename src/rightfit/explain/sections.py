"""A statement of a pasted text under a heading that says which job it is for: its amounts of cores,
memory and disk held against that job (data/claims.toml), not against another."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rightfit.errors import RightfitError
from rightfit.explain import quantities as q
from rightfit.explain.claim_words import job_text, table, verb, word_pattern
from rightfit.explain.fit_claims import job_on_data
from rightfit.explain.rule_match import Quantity, sense
from rightfit.explain.trials import best_of, need_on_one_card
from rightfit.explain.yes_or_no import is_question
from rightfit.messages import LANGS, Lang

if TYPE_CHECKING:
    from rightfit.market import Catalog
    from rightfit.market.verdicts import CheckResult
    from rightfit.search.answer import Option
    from rightfit.workload.model import Workload

#: So many times what is needed is more than a reserve.
_RESERVE = 4.0
_HEADING = re.compile(r"^\s*(?:#+\s*|[一二三四五六七八九十]+[、.．]\s*|\d{1,2}[.、)）]\s*|\*\*)(?P<words>.{2,60})$")


def heading_of(line: str) -> str | None:
    """The words of a line that is a heading: one for a job that is known, "" for any other, None
    where the line is none."""
    found = _HEADING.match(line)
    if found is None or re.search(r"[:：]\s*\S", found["words"]):
        return None
    words = found["words"].strip(" *#")
    return words if _workload_of(words) else ""


def _workload_of(heading: str) -> Mapping[str, Any] | None:
    return next((entry["workload"] for entry in table()["sections"] if word_pattern(tuple(entry["words"])).search(heading)), None)


def section_lookup(query: str, heading: str, catalog: Catalog) -> CheckResult | None:
    """The verdict on a statement of amounts under a heading; None where it states none."""
    from rightfit.market.verdicts import CheckResult
    from rightfit.workload.model import Workload

    wishes = _workload_of(heading)
    said = sense(query)
    stated = [(kind, one) for one in said.quantities if (kind := _kind(one, said.concepts))]
    if wishes is None or not stated or len(said.leftover) > len(stated) + 2:
        return None
    judged = _judged(stated, Workload(**wishes, purchase=("on-demand",)), catalog)
    if not judged:
        return None
    texts = {lang: _told(judged, table()["section_texts"]["job"][lang].format(**wishes), lang) for lang in LANGS}
    # more than is needed does it too, but not of what is not needed at all
    claim = "wrong" if any(verdict == "wrong" or (verdict == "more" and not need) for *_, need, verdict in judged) else "right"
    facts = {"heading": heading, "workload": dict(wishes), "needs": {kind: need for kind, _, need, _ in judged}}
    return CheckResult(
        f"{heading}：{query}" if re.search(r"[\u4e00-\u9fff]", heading) else f"{heading}: {query}",
        "rule",
        True,
        claim,
        facts,
        (),
        texts["en"],
        texts["zh"],
    )


def job_lookup(query: str, catalog: Catalog) -> CheckResult | None:
    """The verdict on so many cores, or so much host memory or disk, that a job of a named model is
    said to need or to have enough of; None of any other statement."""
    from rightfit.explain.beside.questions import without_questions
    from rightfit.market.verdicts import CheckResult
    from rightfit.workload.ask import understand
    from rightfit.workload.model import Workload

    said = sense(query)
    stated = [(kind, one) for one in said.quantities if (kind := _kind(one, said.concepts)) in ("cores", "ram", "disk")]
    is_need = bool(verb("needs").search(query))
    if not stated or not (is_need or verb("enough").search(query)):
        return None
    try:
        found = understand(without_questions(query).wish)
        wishes = dict(found.wishes)
        if len(found.weighty) > len(stated):
            return None
        if "model" not in wishes and is_question(query):  # so much beside a card, or for a data set: by a usual job
            wishes = job_on_data(query) or (
                dict(table()["usual_job"]) if len(stated) > 1 and "gpu" in wishes and "data" not in wishes else {}
            )
        elif wishes.get("gpu", "none") != "none":
            return None
        if "model" not in wishes:
            return None
        workload = Workload(**{name: value for name, value in wishes.items() if name in _OF_JOB})
        judged = _judged(stated, workload, catalog)
    except RightfitError:
        return None
    if not judged:
        return None
    method = str(wishes.get("method", "lora" if workload.task == "finetune" else ""))
    job = job_text({"model": workload.model, "task": workload.task}, method)
    texts = {lang: _told(judged, job[lang], lang) for lang in LANGS}
    verdicts = {verdict for *_, verdict in judged}
    claim = "wrong" if "wrong" in verdicts or (is_need and "more" in verdicts) else "right"
    known = {"workload": wishes, "needs": {kind: need for kind, _, need, _ in judged}}
    return CheckResult(query, "rule", True, claim, known, (), texts["en"], texts["zh"])


#: What of a wish says which job is meant: the rest is what is said of it.
_OF_JOB = frozenset({"model", "task", "method", "data", "epochs", "seq_len", "quantization", "rate", "users"})
_Judged = tuple[str, Quantity, float, str]


def _judged(stated: Sequence[tuple[str, Quantity]], workload: Workload, catalog: Catalog) -> list[_Judged]:
    """Each amount with what the job needs of it, and whether that is enough."""
    if (best := best_of(workload, catalog)) is None:
        return []
    needs = ((kind, one, _need(kind, best, workload, catalog)) for kind, one in stated)
    return [(kind, one, need, _verdict(kind, one, need)) for kind, one, need in needs if not math.isnan(need)]


def _kind(quantity: Quantity, concepts: frozenset[str]) -> str:
    """What an amount is an amount of: cores, ram, vram or disk; "" for any other."""
    if quantity.dimension == "cores":
        return "cores"
    if quantity.dimension != "bytes":
        return ""
    kinds = [kind for kind in ("vram", "ram", "disk") if kind in concepts or (kind == "disk" and "nvme" in concepts)]
    of = quantity.of or (kinds[0] if len(kinds) == 1 else "")
    return of if of in ("vram", "ram", "disk") else ""


def _need(kind: str, best: Option, workload: Workload, catalog: Catalog) -> float:
    """What the job needs [bytes or cores]; 0 of GPU memory where it needs no GPU."""
    if kind == "cores":
        cores = float(best.data_path.get("needed_cores", math.nan))
        return float(best.vcpus) if math.isnan(cores) else float(math.ceil(cores))
    if kind == "vram":
        return need_on_one_card(workload, catalog=catalog) if best.num_accelerators else 0.0
    key = "host_memory_bytes" if kind == "ram" else "disk_bytes"
    return float(best.estimate[key].high80) if key in best.estimate else math.nan


def _verdict(kind: str, said: Quantity, need: float) -> str:
    if said.high < need:
        return "wrong"
    usual = float(table()["usual"][kind]) * (1.0 if kind == "cores" else 1e9)
    return "more" if said.low > max(_RESERVE * need, usual) else "right"


def _told(judged: Sequence[_Judged], job: str, lang: Lang) -> str:
    texts = table()["section_texts"]
    parts = []
    for kind, said, need, verdict in judged:
        size = 1.0 if kind == "cores" else 1e9
        amount = f"{said.low / size:g}" + (f"–{said.high / size:g}" if said.high > said.low else "")
        shown = f"{need:g}" if kind == "cores" else q.data_text(need) if kind == "disk" else q.memory_text(need)
        key = "vram_none" if kind == "vram" and not need else kind
        parts.append(texts[key][lang].format(said=amount, need=shown) + ("，" if lang == "zh" else ", ") + texts[verdict][lang])
    told: str = texts["line"][lang].format(job=job, told=("；" if lang == "zh" else "; ").join(parts))
    return told
