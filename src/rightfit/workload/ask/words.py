"""Words that name a choice (task, method, purchase mode, cloud, precision ...) in a sentence: workload/data/ask.toml as patterns."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib import resources

from rightfit.workload.vocabulary import CLOUDS, COUNTRIES

_LATIN_EDGE = r"(?<![A-Za-z0-9_./-])", r"(?![A-Za-z0-9_/])"


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names: Latin ones as whole words (a blank stands for blank or hyphen), Chinese ones anywhere; the longest first."""
    parts = []
    for name in sorted(names, key=len, reverse=True):
        escaped = re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?")
        parts.append(f"{_LATIN_EDGE[0]}{escaped}{_LATIN_EDGE[1]}" if name.isascii() else escaped)
    return re.compile("|".join(parts), re.IGNORECASE)


_LISTS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    resources.files("rightfit.workload").joinpath("data/ask.toml").read_text(encoding="utf-8")
)


def _spelled(group: str) -> dict[str, re.Pattern[str]]:
    """Value -> pattern of its names."""
    return {value: pattern(names.split(";")) for value, names in _LISTS[group].items()}


METHODS = _spelled("methods")
PURCHASES = _spelled("purchases")
PRECISIONS = _spelled("precisions")
QUANTIZATIONS = _spelled("quantizations")
OPTIMIZERS = _spelled("optimizers")
SHARDINGS = _spelled("shardings")
FRAMEWORKS = _spelled("frameworks")
OBJECTIVES = _spelled("objectives")
MAX_NODES = _spelled("max_nodes")
TASKS = _spelled("tasks")
"""Words that hint at a task, the most telling task first."""
STRONG = _spelled("strong")
"""Words that say it."""
_PLACES = _LISTS["places"]
_NOT_ALONE = frozenset(_PLACES["not_alone"].split(";"))  # plain words, or names of model makers too
CLOUD_NAMES = {
    **{name: name for name in _PLACES["clouds"].split(";") if name not in _NOT_ALONE},
    **{alias.replace("-", " "): cloud for alias, cloud in CLOUDS.items() if alias not in _NOT_ALONE},
    **_LISTS["more_clouds"],
}
CLOUD = pattern(CLOUD_NAMES)
COUNTRY_NAMES = {
    **{alias.replace("-", " "): code for alias, code in COUNTRIES.items() if len(alias) > 2 or not alias.isascii()},
    **_LISTS["continents"],
}
COUNTRY = pattern(COUNTRY_NAMES)
COUNTRY_CODE = re.compile(
    r"(?:(?<=in )|(?<=in the )|(?<=within the )|(?<=on )|(?<=inside the ))(?P<code>US|EU|UK|CN|JP|SG|DE|FR|IN)(?![A-Za-z])"
)
REGION = re.compile(
    r"(?<![\w-])(?:(?:us|eu|ap|cn|ca|sa|me|af|il|mx)-[a-z]+(?:-?[a-z]+)?-?\d?[a-z]?|(?:us|europe|asia|northamerica|australia)-[a-z]+\d)(?![\w-])"
)
CITY = pattern(_PLACES["cities"].split(";"))
FILLERS = frozenset(_LISTS["fillers"]["en"].split())
FILLERS_ZH = re.compile(_LISTS["fillers"]["zh"])
MODEL_WORDS = _LISTS["models"]
"""Words of models' names that are everyday words: `common` ones take part in names, `plain` ones never make a name of what stands around them."""

# What is done with data in a sentence of task prepare; English words are in facts/data/preparation_operations.csv. The most particular first.
OPERATIONS_ZH = {
    "训练分词": "train-tokenizer",
    "分词|词元化": "tokenize",
    "模糊去重|近似去重": "dedup-fuzzy",
    "文本.{0,6}去重|去重.{0,6}文本": "dedup-text",
    "去重": "dedup",
    "缩放|调整.{0,4}尺寸": "resize-images",
    "解码": "decode-images",
    "图像增强|数据增强": "augment-images",
    "特征": "features",
    "清洗|过滤|筛选": "filter",
    "打乱|洗牌": "shuffle",
    "排序": "sort",
    "分组|聚合": "group",
    "连接|关联|合并": "join",
    "转换|转为": "convert",
}
