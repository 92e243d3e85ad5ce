"""The first words of an answer to a question: yes or no, in the verb that it asks with."""

from __future__ import annotations

import re

from rightfit.explain.claim_words import table
from rightfit.messages import Lang

_QUESTION = re.compile(
    r"？|\?(?![A-Za-z0-9&=])|\bwhy\s*$|[吗么呢嘛不没]\s*$|吗(?=[,，;；])|能不能|是不是|有没有|够不够|要不要|会不会|值不值|可不可以|行不行|怎么|怎样|如何|多少|多久|多[大快高长]|什么|啥|哪|几|还是"
    r"|^(?:do|does|is|are|can|could|has|have|will|would|should|which|what|how|why|when|where)\b|[:;,：，；]\s*(?:why\b|what\b|(?:should|can|could|do|does|is|are|will|would)\s+(?:i|we|it|this|that|they|an?|the)\b)|[:;,：，；]\s*how (?:much|many|big|large|long|fast)\b",
    re.IGNORECASE,
)


def is_question(text: str) -> bool:
    """Whether a text asks rather than states."""
    return bool(_QUESTION.search(text.strip()))


def is_open(text: str) -> bool:
    """Whether a question asks for an amount or a choice, which neither yes nor no answers."""
    words = table()["answers"]
    return bool(re.search(words["open"], text, re.IGNORECASE)) and not re.search(words["closed"], text, re.IGNORECASE)


def answer_word(text: str, answer: str, lang: Lang) -> str:
    """The answer to a question of yes or no: `answer` is right, wrong or unknown, or yes, no,
    helped (with offload) or depends."""
    if answer == "none":
        return str(table()["answers"]["none"][lang])
    known = {"right": "yes", "wrong": "no", "unknown": "depends"}.get(answer, answer)
    words = table()["answers"]
    if lang == "zh" and known in ("yes", "no", "helped"):
        verb = next((pair for pair in words["verbs"] if re.search(pair["asked"], text)), words["verbs"][-1])
        told: str = verb["no" if known == "no" else "yes"]
        return told + (words["helped"]["zh"] if known == "helped" else "")
    plain: str = words[known][lang] if known != "helped" else words["yes"][lang] + words["helped"][lang]
    return plain
