"""The grammar of server names: family, specification and size; series as people write them ("NDv4",
"A2", "p4d"); and the nearest real ones.

alicloud  ecs.<family>-<spec>.<size>      ecs.gn7i-c8g1.2xlarge   c8g1: 8 cores a GPU, 2xlarge: 8
                                                                  vCPU
aws       <family>.<size>                 p4d.24xlarge
tencent   <FAMILY>.<SIZE><RAM GiB>        GN10Xp.2XLARGE40
azure     Standard_<FAMILY><vCPU><features>[_<accelerator>]_v<n>
gcp       <family>-<shape>-<n>[g]         a2-highgpu-8g
"""

from __future__ import annotations

import dataclasses
import functools
import math
import re
import tomllib
from collections.abc import Iterable

from rightfit.facts import match_accelerators, tables
from rightfit.facts.expressions import Expression, expression
from rightfit.market.market import Catalog
from rightfit.market.names import find_provider, fold
from rightfit.market.offers import ServerTable
from rightfit.market.packed_tables import data_bytes
from rightfit.records import dataclass

# ---- What people say about a server: "8 x A100 80GB", "T4", "32 cores 256GB", "general CPU
# server", "3200 Gbps EFA".
#
# A claim may hold several statements ("A10 (post a) / T4 (post b)", "post 0: A10G; post 1: 1 x T4",
# "H100 or A100"); each is judged alone.

_STATEMENTS = expression(r"\s*(?:[;；、]|,(?!\d{3}\b)|/(?!\s*(?:h|hr|hour|s|卡|张|小?时|天|月|台)(?![a-z]))|\bor\b|或)\s*")
_SPOKEN = {"一": "1", "单": "1", "两": "2", "双": "2", "四": "4", "八": "8", "one": "1", "two": "2", "four": "4", "eight": "8"}
_SPOKEN_COUNT = re.compile(r"((?<![A-Za-z])(?:one|two|four|eight)(?=\s+[A-Za-z]+\d)|[一单两双四八](?=[块张个卡]))", re.IGNORECASE)
_JOIN = expression(r"\s*(?:[加+配和与带]|\b(?:with|and|plus)\b)\s*$")
_ASKED_END = re.compile(r"[吗么嘛呢吧?？]+(?=\s*(?:[,;]|$))")
_LABEL = re.compile(r"^\s*(?:post|text|文)\s*\w{1,3}\s*[:：]\s*|\(\s*(?:post|text)\s*\w{1,3}\s*\)", re.IGNORECASE)
_TIMES = re.compile(
    r"(?<![\w.])(\d{1,3})\s*(?:[x×*]\s*|块|张|个|卡)(?=[^\W\d_]|\d{4}\b|\s)|\bx\s*(\d{1,3})\b|(?<![\w.])(\d{1,3})\s+(?=[A-Z]+\d+\w*\b)",
    re.IGNORECASE,
)
_CORES = expression(r"(\d+)\s*(?:-\s*)?(?:个\s*)?(?:v?cpus?\b|cores?\b|核|c(?=\d+\s*g\b))")
_MEMORY = re.compile(  # of the data of a job it says nothing
    r"(?<![\w.])(\d+(?:\.\d+)?)\s*(t|g|m)(?:i?b)?(?![A-Za-z0-9/])(?!\s*(?:的|of\s)?\s*(?:训练|图片|文本|表格|training\s)?\s*(?:数据|图片|文本|表格|data))",
    re.IGNORECASE,
)
_NETWORK = re.compile(r"(\d+(?:\.\d+)?)\s*([gt])(?:bps|bit/?s|b/s)", re.IGNORECASE)
_PRICE = re.compile(
    r"(?:每小时\s*)?(?:(?P<sign>\$|us\$|¥|￥)\s*(?P<signed>\d+(?:\.\d+)?)|(?P<plain>\d+(?:\.\d+)?)\s*(?P<unit>usd|dollars?|\$|美元|美金|刀|元|人民币|rmb|cny|yuan))"
    r"(?P<period>\s*(?:(?:/|per|an|a|每|一)\s*(?:个\s*)?(?:h|hr|hours?|小?时|month|月|天|day|year|年)(?![a-z]))?)",
    re.IGNORECASE,
)
_YUAN = re.compile(r"¥|￥|^元|人民币|rmb|cny|yuan", re.IGNORECASE)
_LONGER = re.compile(r"month|月|天|day|year|年", re.IGNORECASE)
_TOTAL = expression(r"总共|一共|合计|总计|共计?|总显存|\btotal\b|altogether")
_OF_CARD = expression(r"显存|\bvram\b|gpu memory|memory per gpu")
_OF_HOST = expression(r"(?<!显)内存|\bram\b|host memory")
#: Cores with memory right behind them, or memory that is called the host's.
_HOST_SHAPE = re.compile(
    rf"{_CORES.pattern}\s*(?:的?\s*cpu)?[\s,，+]*(?:内存\s*)?{_MEMORY.pattern.partition(')')[2]}(?:\s*的?(?:{_OF_HOST.pattern}))?"
    rf"|(?:{_OF_HOST.pattern})\s*{_MEMORY.pattern}|{_MEMORY.pattern}\s*(?:的|of\s)?(?:{_OF_HOST.pattern})",
    re.IGNORECASE,
)
_CARDS_ALONE = expression(r"(?<![\w.])(\d{1,3})\s*(?:张|块|个|x)?\s*(?:显?卡|gpus?\b|cards?\b)")
_BILLION = re.compile(r"(\d+(?:\.\d+)?)\s*([bm])(?:illion)?(?:\s*param\w*)?(?![\w])", re.IGNORECASE)
_CPU_ONLY = expression(r"\bcpu\b|no gpu|without gpu|无 ?gpu")
_PROVIDER = expression(r"provider|cloud\b|云厂商|云平台|服务商")
_RDMA = expression(r"\b(efa|infiniband|ib|roce|rdma|erdma)\b")
_UNIT = {"t": 1e12, "g": 1e9, "m": 1e6}


@dataclass(frozen=True, slots=True)
class Claim:
    """One statement. Empty or zero where it says nothing; memory that follows an accelerator is
    the accelerator's."""

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
    total_memory_bytes: float = 0.0
    is_host_memory: bool = False
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
    """The statements of a claim, in order. `subject` is what they are about: its own name in them
    says nothing ("A2 offers H100")."""
    said = text.replace("（", "(").replace("）", ")").replace("，", ",")
    said = _SPOKEN_COUNT.sub(lambda found: _SPOKEN[found[1].casefold()], _ASKED_END.sub("", said))
    if subject:
        said = re.sub(rf"(?<![\w.-]){re.escape(subject)}(?![\w.-])", " ", said, flags=re.IGNORECASE)
    parts = [part.strip() for part in _STATEMENTS.split(said)]
    return tuple(claim for part in parts if part for claim in _claims_of(part))


def _claims_of(statement: str) -> tuple[Claim, ...]:
    """A statement; the host's shape apart from what else it says ("16 cores 64GB T4")."""
    if found := _HOST_SHAPE.search(statement):
        rest = f"{_JOIN.sub('', statement[: found.start()])} {statement[found.end() :]}".strip()
        if _accelerators(rest)[0]:
            return (parse_claim(found[0].strip(), is_host=True), parse_claim(rest))
    return (parse_claim(statement),)


def parse_claim(text: str, *, is_host: bool = False) -> Claim:
    """One statement, read piece by piece; what was understood is cut out before the accelerator's
    name is looked for. `is_host`: its memory is the host's."""
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
        fields["price_usd_per_h"] = _usd_per_h(price)
    if cores:
        fields["vcpus"] = int(cores[1])
    if rdma := _RDMA.search(said):
        fields["rdma"] = {"ib": "infiniband"}.get(rdma[1].lower(), rdma[1].lower())
    names, words = _accelerators(said)
    memory = _MEMORY.search(said)
    if memory:
        is_host = is_host or (bool(_OF_HOST.search(text)) and not _OF_CARD.search(text))
        is_card = bool(names or _OF_CARD.search(text)) and not is_host
        key = "total_memory_bytes" if _TOTAL.search(text) else "accelerator_memory_bytes" if is_card else "memory_bytes"
        fields[key] = float(memory[1]) * _UNIT[memory[2].lower()]
        fields["is_host_memory"] = key == "memory_bytes" and (is_host or bool(_OF_HOST.search(text)))
    if count and names:
        fields["count"] = int(count[1] or count[2] or count[3])
    elif not names and (alone := _CARDS_ALONE.search(text)):
        fields["count"] = int(alone[1])
    if size := _BILLION.search(said):
        fields["parameters"] = float(size[1]) * (1e9 if size[2].lower() == "b" else 1e6)
    fields["cpu_only"] = not names and bool(_CPU_ONLY.search(text))
    fields["is_provider"] = not names and bool(_PROVIDER.search(text))
    return Claim(text=text.strip(), accelerators=names, accelerator_words=words, **fields)  # type: ignore[arg-type]


def _usd_per_h(price: re.Match[str]) -> float:
    """A price as it is written, in US dollars an hour; 0 of a day, month or year."""
    if _LONGER.search(price["period"]):
        return 0.0
    rate = 1.0
    if _YUAN.search(price["sign"] or price["unit"]):
        rate = next(float(row["units_per_usd"]) for row in tables.table("currencies") if row["currency"] == "cny")
    return float(price["signed"] or price["plain"]) / rate


def _cut(pattern: re.Pattern[str] | Expression, text: str) -> tuple[re.Match[str] | None, str]:
    found = pattern.search(text)
    return (found, text[: found.start()] + " " + text[found.end() :]) if found else (None, text)


def _accelerators(text: str) -> tuple[tuple[str, ...], str]:
    """The accelerators a phrase names: the longest run of words that is one ("A100
    PCIe" before "A100")."""
    words = re.findall(r"[\w.+-]+", text)
    for length in range(min(4, len(words)), 0, -1):
        for start in range(len(words) - length + 1):
            phrase = " ".join(words[start : start + length])
            if not is_amount(phrase) and (names := _match(phrase)):
                return names, _without_memory(phrase)
    return (), ""


def is_amount(phrase: str) -> bool:
    """Whether a phrase is memory alone, which names no accelerator."""
    return bool(re.fullmatch(r"\s*\d+\s*g(?:i?b)?\s*", phrase, re.IGNORECASE))


def _match(phrase: str) -> tuple[str, ...]:
    """Accelerators of the phrase without its memory: the memory is judged by itself, so that "A10
    32GB" is an A10 with a wrong size."""
    bare = _without_memory(phrase)
    return match_accelerators(bare) if any(character.isdigit() for character in bare) else ()


def _without_memory(phrase: str) -> str:
    return re.sub(r"[\s-]*\b\d+(?:\.\d+)?\s*g(?:i?b)?\b", "", phrase, flags=re.IGNORECASE).strip()


_SIZE_VCPUS = {"nano": 1, "micro": 1, "small": 1, "medium": 1, "large": 2, "xlarge": 4}
_DOTTED = re.compile(r"^(?P<rest>.+)\.(?P<multiple>\d*)(?P<word>nano|micro|small|medium|large|xlarge|metal)(?P<ram>\d*)$", re.IGNORECASE)
_ALI_SPEC = re.compile(r"^c(?P<cores>\d+)(?:g(?P<gpus>\d+)|m\d+)$|^(?P<count>\d+)x$", re.IGNORECASE)
_NOISE = re.compile(
    r"\b(?:instances?|series|famil(?:y|ies)|servers?|vms?|machines?|types?|nodes?)\b|实例|系列|服务器|机型|规格族?", re.IGNORECASE
)
# Clouds whose family names are names of their own; elsewhere a "family" is only a piece of
# the server's name.
_NAMED_FAMILIES = frozenset(["aws", "azure", "gcp", "alicloud", "tencent", "oci"])


@dataclass(frozen=True, slots=True)
class NameParts:
    """A server name taken apart. Zero or empty where the name does not tell."""

    provider: str
    family: str
    spec: str = ""
    size: str = ""
    vcpus: int = 0
    gpus: int = 0


@functools.lru_cache(maxsize=4)
def _exact_rows(servers: ServerTable) -> dict[str, tuple[int, ...]]:
    """Folded name -> rows of every provider that has a server of that name."""
    rows: dict[str, list[int]] = {}
    for row, (provider, name) in enumerate(zip(servers.provider, servers.instance_type, strict=True)):
        keys = {name.casefold(), f"{provider}/{name}".casefold()}
        if provider == "alicloud":
            keys |= {key.replace("ecs.", "", 1) for key in keys}
        if provider == "azure":
            keys |= {key.replace("standard_", "", 1) for key in keys}
        for key in keys:
            rows.setdefault(key, []).append(row)
    return {key: tuple(found) for key, found in rows.items()}


def exact_servers(catalog: Catalog, text: str) -> tuple[int, ...]:
    """Rows of the servers called exactly so, with or without the provider's prefix; a full name
    beats one that lacks its prefix."""
    servers = catalog.servers()
    said, slash, rest = text.strip().partition("/")
    if slash and (provider := find_provider(said)):  # "datacrunch/1A100.22V": a cloud by its old or another name
        text = f"{provider}/{rest}"
    rows = _exact_rows(servers).get(text.strip().casefold(), ())
    whole = tuple(row for row in rows if servers.instance_type[row].casefold() == text.strip().casefold())
    return whole or rows


def bare_name(text: str) -> str:
    """A name without brackets and without words like "instance" and "series"."""
    return " ".join(_NOISE.sub(" ", re.sub(r"\(.*?\)", " ", text)).split())


def series_members(catalog: Catalog, text: str) -> tuple[int, ...]:
    """Rows of all servers of a series such as "A2", "p4d", "gn7i", "NDv4", "NDm A100 v4"; ()
    when it names none."""
    word = bare_name(text).casefold()
    servers = catalog.servers()
    by_family = [
        row
        for row, (provider, family) in enumerate(zip(servers.provider, servers.family, strict=True))
        if _is_family(word, provider, family)
    ]
    return tuple(by_family) or _generation(servers, word) or _azure_series(servers, word)


def _generation(servers: ServerTable, word: str) -> tuple[int, ...]:
    """Servers with GPUs of all series of a generation that none is called like: p4d and p4de."""
    if not re.fullmatch(r"[gp]\d", word):
        return ()
    return tuple(
        row
        for row, (provider, family) in enumerate(zip(servers.provider, servers.family, strict=True))
        if provider == "aws" and servers.num_accelerators[row] > 0 and re.fullmatch(rf"{word}[a-z]+", family.casefold())
    )


def _is_family(word: str, provider: str, family: str) -> bool:
    if provider not in _NAMED_FAMILIES or not word:
        return False
    folded = family.casefold()
    return folded in (word, f"ecs.{word}") or (provider in ("gcp", "oci") and (folded + "-").startswith(word + "-"))


def _azure_series(servers: ServerTable, word: str) -> tuple[int, ...]:
    """Sizes of an Azure series: family letters, version and accelerator agree, and the size has the
    features the series names."""
    wanted = _azure_parts(word)
    if wanted is None or wanted["vcpus"]:
        return ()
    found = []
    for row, (provider, name) in enumerate(zip(servers.provider, servers.instance_type, strict=True)):
        parts = _azure_parts(name) if provider == "azure" else None
        if parts and _in_series(parts, wanted):
            found.append(row)
    return tuple(found)


def _in_series(parts: dict[str, str], words: dict[str, str]) -> bool:
    """A feature letter or accelerator that the series does not name sets another series apart ("NDm
    A100 v4" is not "NDv4")."""
    same = all(parts[key] == words[key] for key in ("family", "version", "accelerator"))
    return same and set(words["features"]) <= set(parts["features"]) and ("m" in parts["features"]) == ("m" in words["features"])


@functools.cache
def _azure_parts(name: str) -> dict[str, str] | None:
    """Family letters are capitals in a size's name; in a series' name ("NDm A100 v4") the
    shortest reading counts."""
    folded = name.casefold().replace("standard_", "")
    found = re.match(r"^(nc|nd|nv|hb|hc|hx|[a-z])(\d*)(?:-\d+)?([a-z]*)(?:[_ ]([a-z]+\d+[a-z]*))?[_ ]?v(\d+)$", folded)
    if not found:
        return None
    keys = ("family", "vcpus", "features", "accelerator", "version")
    return dict(zip(keys, (value or "" for value in found.groups()), strict=True))


def take_apart(catalog: Catalog, text: str) -> NameParts | None:
    """Family, specification and size of a name that looks like a server's; None otherwise."""
    name = text.strip().split("/", 1)[-1]
    if dotted := _DOTTED.match(name):
        return _dotted_parts(catalog, name, dotted)
    if name.casefold().startswith("standard_") or ((parts := _azure_parts(name)) and parts["vcpus"]):
        parts = _azure_parts(name)
        family = f"{parts['family'].upper()} v{parts['version']}" if parts else ""
        return NameParts("azure", family, vcpus=int(parts["vcpus"] or 0) if parts else 0)
    if gcp := re.match(r"^([a-z]\d+[a-z]?-[a-z]+)-(\d+)(g?)$", name.casefold()):
        count = int(gcp[2])
        return NameParts("gcp", gcp[1], size=gcp[2] + gcp[3], vcpus=0 if gcp[3] else count, gpus=count if gcp[3] else 0)
    return _known_family(catalog, name)


def _known_family(catalog: Catalog, name: str) -> NameParts | None:
    """ "g5.tiny": no size anybody uses, but the family is real."""
    family, _, size = name.casefold().rpartition(".")
    known = _families(catalog.servers())
    for provider, spelled in (("aws", family), ("alicloud", f"ecs.{family.removeprefix('ecs.')}"), ("tencent", family)):
        if family and (provider, spelled) in known:
            return NameParts(provider, spelled, size=size)
    return None


def _dotted_parts(catalog: Catalog, name: str, dotted: re.Match[str]) -> NameParts:
    rest, size = dotted["rest"], dotted["multiple"] + dotted["word"]
    vcpus = int(dotted["multiple"] or 1) * _SIZE_VCPUS.get(dotted["word"].casefold(), 0)
    if dotted["ram"]:
        return NameParts("tencent", rest, size=size, vcpus=vcpus)
    bare = rest.casefold().removeprefix("ecs.")
    family, _, spec = bare.rpartition("-") if "-" in bare else (bare, "", "")
    families = _families(catalog.servers())
    is_ali = rest.casefold().startswith("ecs.") or bool(_ALI_SPEC.match(spec)) or ("alicloud", f"ecs.{bare}") in families
    if ("aws", bare) in families and not rest.casefold().startswith("ecs."):
        return NameParts("aws", bare, size=size, vcpus=vcpus)
    if not is_ali:
        return NameParts("aws", bare, size=size, vcpus=vcpus)
    if ("alicloud", f"ecs.{bare}") in families:
        family, spec = bare, ""
    return NameParts("alicloud", f"ecs.{family}", spec=spec, size=size, vcpus=vcpus, gpus=_spec_gpus(spec))


def _spec_gpus(spec: str) -> int:
    found = _ALI_SPEC.match(spec)
    return int(found["gpus"] or found["count"] or 0) if found else 0


@functools.lru_cache(maxsize=4)
def _families(servers: ServerTable) -> frozenset[tuple[str, str]]:
    return frozenset((provider, family.casefold()) for provider, family in zip(servers.provider, servers.family, strict=True))


@functools.cache
def _former_families() -> dict[str, dict[str, dict[str, str]]]:
    return tomllib.loads(data_bytes("former_families.toml").decode())


def successor(parts: NameParts) -> str:
    """The family that took the place of one that the cloud no longer sells; empty where the family
    is not known as such."""
    return _former_families().get(parts.provider, {}).get(parts.family.casefold(), {}).get("successor", "")


def nearest_servers(
    catalog: Catalog, text: str, *, parts: NameParts | None, claims: Iterable[Claim] = (), count: int = 5
) -> tuple[int, ...]:
    """Rows of the servers nearest to a name that does not exist.

    Same family and specification first, then same family and size, then what carries the claimed
    accelerator at the same provider, then the rest of the family by size; without a known family,
    by spelling.
    """
    stated = tuple(claims)
    found: dict[int, None] = {}
    if parts is not None and (taken_over := successor(parts)):
        parts = dataclasses.replace(parts, family=taken_over)
    if parts is not None:
        family = family_rows(catalog, parts)
        found.update(dict.fromkeys(_by_distance(catalog, (row for row in family if _same_spec(catalog, row, parts)), parts)[:1]))
        found.update(dict.fromkeys(_by_distance(catalog, (row for row in family if same_size(catalog, row, parts)), parts)[:1]))
        for claim in stated:
            if claim.count or not any(carries(catalog.servers(), row, claim) for row in family):
                found.update(dict.fromkeys(servers_for_claim(catalog, claim, provider=parts.provider, parts=parts, family=family)[:2]))
        found.update(dict.fromkeys(_by_distance(catalog, family, parts)))
    if not found:
        found.update(dict.fromkeys(_by_spelling(catalog, text, provider=parts.provider if parts else "", count=count)))
    return tuple(found)[:count]


def family_rows(catalog: Catalog, parts: NameParts) -> tuple[int, ...]:
    servers = catalog.servers()
    if parts.provider == "azure":
        family, _, version = parts.family.partition(" v")
        keys = ((row, _azure_parts(servers.instance_type[row])) for row, name in enumerate(servers.provider) if name == "azure")
        return tuple(row for row, found in keys if found and (found["family"].upper(), found["version"]) == (family, version))
    wanted = parts.family.casefold()
    pairs = enumerate(zip(servers.provider, servers.family, strict=True))
    return tuple(row for row, (provider, family) in pairs if provider == parts.provider and family.casefold() == wanted)


def _same_spec(catalog: Catalog, row: int, parts: NameParts) -> bool:
    return bool(parts.spec) and f"-{parts.spec}." in catalog.servers().instance_type[row].casefold()


def same_size(catalog: Catalog, row: int, parts: NameParts) -> bool:
    """Whether a server has the size word of the name (the RAM that Tencent appends aside)."""
    tail = catalog.servers().instance_type[row].casefold().rpartition(".")[2]
    return bool(parts.size) and re.sub(r"(?<=e)\d+$|(?<=l)\d+$|(?<=m)\d+$", "", tail) == parts.size.casefold()


def _by_distance(catalog: Catalog, rows: Iterable[int], parts: NameParts) -> list[int]:
    """Rows by how far their cores and accelerators are from what the name implies; whole, priced,
    current servers first."""
    servers = catalog.servers()

    def distance(row: int) -> tuple[bool, bool, float, float, str]:
        is_gone, is_slice = servers.not_recommended[row] not in ("", "no price"), 0 < servers.num_accelerators[row] < 1
        return is_gone, bool(is_slice), _distance(servers, row, parts), float(servers.vcpus[row]), servers.instance_type[row]

    return sorted(rows, key=distance)


def _distance(servers: ServerTable, row: int, parts: NameParts) -> float:
    vcpus, gpus = float(servers.vcpus[row]), float(servers.num_accelerators[row])
    far = abs(math.log(vcpus / parts.vcpus)) if vcpus > 0 and parts.vcpus else 0.0
    wanted = _implied_gpus(parts)
    return far + (0.5 * abs(math.log(gpus / wanted)) if gpus > 0 and wanted else 0.0)


def _implied_gpus(parts: NameParts) -> float:
    """c8g1.20xlarge: 80 vCPU at 8 a GPU are 10 GPUs; otherwise the number in the name."""
    found = _ALI_SPEC.match(parts.spec)
    if found and found["cores"] and found["gpus"] and int(found["gpus"]) == 1 and parts.vcpus:
        return max(1.0, parts.vcpus / int(found["cores"]))
    return float(parts.gpus)


def servers_for_claim(
    catalog: Catalog, claim: Claim, *, provider: str, parts: NameParts | None = None, family: tuple[int, ...] = ()
) -> list[int]:
    """Rows of the provider's servers that carry what is claimed: accelerator, its count and memory;
    nearest in size first."""
    servers = catalog.servers()
    if not claim.accelerators:  # of the host's shape: the size of the family that has it
        return [row for row in family if _has_shape(servers, row, claim)]
    carrying = [row for row in _provider_rows(servers, provider) if carries(servers, row, claim)]
    wanted = claim.count or (parts.gpus if parts else 0) or 1
    near = parts or NameParts(provider, "")

    def rank(row: int) -> tuple[bool, bool, bool, bool, float, float, str]:
        gpus = float(servers.num_accelerators[row])
        is_gone = servers.not_recommended[row] not in ("", "no price")
        return (
            is_gone,
            gpus < 1,
            gpus != wanted,
            row not in family,
            _distance(servers, row, near),
            abs(gpus - wanted),
            servers.instance_type[row],
        )

    return sorted(carrying, key=rank)


def _provider_rows(servers: ServerTable, provider: str) -> list[int]:
    return [row for row, name in enumerate(servers.provider) if name == provider and servers.num_accelerators[row] > 0]


def carries(servers: ServerTable, row: int, claim: Claim) -> bool:
    """Whether a server has the claimed accelerator, of the claimed memory where one is claimed."""
    if servers.accelerator_name[row] not in claim.accelerators:
        return False
    return not claim.accelerator_memory_bytes or memory_agrees(claim.accelerator_memory_bytes, float(servers.accelerator_memory_bytes[row]))


def _has_shape(servers: ServerTable, row: int, claim: Claim) -> bool:
    """Whether a server has the cores and the memory that are claimed of one; not where none are."""
    if not (claim.vcpus or claim.memory_bytes) or servers.not_recommended[row] not in ("", "no price"):
        return False
    is_memory = not claim.memory_bytes or memory_agrees(claim.memory_bytes, float(servers.memory_bytes[row]))
    return is_memory and claim.vcpus in (0, float(servers.vcpus[row]))


def memory_agrees(claimed_bytes: float, real_bytes: float) -> bool:
    """ "80 GB" may be said of 80 GB or 80 GiB; usable sizes are up to 8 % below the name."""
    return any(abs(claimed_bytes * unit / real_bytes - 1) <= 0.08 for unit in (1.0, 2.0**30 / 1e9)) if real_bytes > 0 else False


def _by_spelling(catalog: Catalog, text: str, *, provider: str, count: int) -> list[int]:
    servers = catalog.servers()
    rows = {servers.instance_type[row]: row for row in reversed(range(len(servers))) if provider in ("", servers.provider[row])}
    return [rows[name] for name in tables.nearest(fold(text), rows, count=count)]
