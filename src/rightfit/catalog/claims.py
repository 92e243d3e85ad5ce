"""What people say about a server: "8 x A100 80GB", "T4", "32 cores 256GB", "general CPU server", "3200 Gbps EFA".

A claim may hold several statements ("A10 (post a) / T4 (post b)", "post 0: A10G; post 1: 1 x T4", "H100 or A100"); each is judged alone.
"""

from __future__ import annotations

import dataclasses
import re

from rightfit.facts import match_accelerators
from rightfit.records import dataclass

_STATEMENTS = re.compile(r"\s*(?:[;；、]|/(?!\s*(?:h|hr|hour|s)\b)|\bor\b|或)\s*", re.IGNORECASE)
_LABEL = re.compile(r"^\s*(?:post|text|文)\s*\w{1,3}\s*[:：]\s*|\(\s*(?:post|text)\s*\w{1,3}\s*\)", re.IGNORECASE)
_TIMES = re.compile(r"(?<![\w.])(\d{1,3})\s*(?:[x×*]\s*|块|张|个|卡)(?=[^\W\d_]|\d{4}\b|\s)|\bx\s*(\d{1,3})\b", re.IGNORECASE)
_CORES = re.compile(r"(\d+)\s*(?:-\s*)?(?:v?cpus?\b|cores?\b|核|c(?=\d+\s*g\b))", re.IGNORECASE)
_MEMORY = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?)\s*(t|g|m)(?:i?b)?(?![\w/])", re.IGNORECASE)
_NETWORK = re.compile(r"(\d+(?:\.\d+)?)\s*([gt])(?:bps|bit/?s|b/s)", re.IGNORECASE)
_PRICE = re.compile(
    r"(?:(?:\$|us\$)\s*(\d+(?:\.\d+)?)|(\d+(?:\.\d+)?)\s*(?:usd|dollars?|\$))(?:\s*(?:/|per|an)\s*(?:h|hr|hour)\b)?", re.IGNORECASE
)
_BILLION = re.compile(r"(\d+(?:\.\d+)?)\s*([bm])(?:illion)?(?:\s*param\w*)?(?![\w])", re.IGNORECASE)
_CPU_ONLY = re.compile(r"\bcpu\b|no gpu|without gpu|无 ?gpu", re.IGNORECASE)
_PROVIDER = re.compile(r"provider|cloud\b|云厂商|云平台|服务商", re.IGNORECASE)
_RDMA = re.compile(r"\b(efa|infiniband|ib|roce|rdma|erdma)\b", re.IGNORECASE)
_UNIT = {"t": 1e12, "g": 1e9, "m": 1e6}


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement. Empty or zero where it says nothing; memory that follows an accelerator is the accelerator's."""

    text: str
    accelerators: tuple[str, ...] = ()
    accelerator_words: str = ""
    count: int = 0
    up_to: bool = False
    accelerator_memory_bytes: float = 0.0
    vcpus: int = 0
    memory_bytes: float = 0.0
    network_bytes_per_s: float = 0.0
    rdma: str = ""
    price_usd_per_h: float = 0.0
    parameters: float = 0.0
    cpu_only: bool = False
    is_provider: bool = False

    @property
    def says_something(self) -> bool:
        """Whether anything in it could be understood."""
        blank = Claim(text=self.text)
        return dataclasses.replace(self, up_to=False, accelerator_words="") != blank


def parse_claims(text: str, *, subject: str = "") -> tuple[Claim, ...]:
    """The statements of a claim, in order. `subject` is what they are about: its own name in them says nothing ("A2 offers H100")."""
    said = text.replace("（", "(").replace("）", ")").replace("，", ",")
    if subject:
        said = re.sub(rf"(?<![\w.-]){re.escape(subject)}(?![\w.-])", " ", said, flags=re.IGNORECASE)
    parts = [part.strip() for part in _STATEMENTS.split(said)]
    return tuple(parse_claim(part) for part in parts if part)


def parse_claim(text: str) -> Claim:
    """One statement, read piece by piece; what was understood is cut out before the accelerator's name is looked for."""
    said = _LABEL.sub(" ", text)
    fields: dict[str, float | int | str | bool] = {"up_to": bool(re.search(r"\bup to\b|最多|最高", said, re.IGNORECASE))}
    said = re.sub(r"\bup to\b|最多|最高|\bper (?:vm|server|node|instance)\b|每台", " ", said, flags=re.IGNORECASE)
    network, said = _cut(_NETWORK, said)
    price, said = _cut(_PRICE, said)
    cores, said = _cut(_CORES, said)
    count, said = _cut(_TIMES, said)
    if network:
        fields["network_bytes_per_s"] = float(network[1]) * (1e12 if network[2].lower() == "t" else 1e9) / 8
    if price:
        fields["price_usd_per_h"] = float(price[1] or price[2])
    if cores:
        fields["vcpus"] = int(cores[1])
    if rdma := _RDMA.search(said):
        fields["rdma"] = {"ib": "infiniband"}.get(rdma[1].lower(), rdma[1].lower())
    names, words = _accelerators(said)
    memory = _MEMORY.search(said)
    if memory:
        fields["accelerator_memory_bytes" if names else "memory_bytes"] = float(memory[1]) * _UNIT[memory[2].lower()]
    if count and names:
        fields["count"] = int(count[1] or count[2])
    if (size := _BILLION.search(said)) and not names:
        fields["parameters"] = float(size[1]) * (1e9 if size[2].lower() == "b" else 1e6)
    fields["cpu_only"] = not names and bool(_CPU_ONLY.search(text))
    fields["is_provider"] = not names and bool(_PROVIDER.search(text))
    return Claim(text=text.strip(), accelerators=names, accelerator_words=words, **fields)  # type: ignore[arg-type]


def _cut(pattern: re.Pattern[str], text: str) -> tuple[re.Match[str] | None, str]:
    found = pattern.search(text)
    return (found, text[: found.start()] + " " + text[found.end() :]) if found else (None, text)


def _accelerators(text: str) -> tuple[tuple[str, ...], str]:
    """The accelerators a phrase names: the longest run of words that is one ("A100 PCIe" before "A100")."""
    words = re.findall(r"[\w.+-]+", text)
    for length in range(min(4, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            phrase = " ".join(words[start : start + length])
            if not re.fullmatch(r"\d+\s*g(?:i?b)?", phrase, re.IGNORECASE) and (names := _match(phrase)):
                return names, _without_memory(phrase)
    return (), ""


def _match(phrase: str) -> tuple[str, ...]:
    """Accelerators of the phrase without its memory: the memory is judged by itself, so that "A10 32GB" is an A10 with a wrong size."""
    bare = _without_memory(phrase)
    return match_accelerators(bare) if any(character.isdigit() for character in bare) else ()


def _without_memory(phrase: str) -> str:
    return re.sub(r"[\s-]*\b\d+(?:\.\d+)?\s*g(?:i?b)?\b", "", phrase, flags=re.IGNORECASE).strip()
