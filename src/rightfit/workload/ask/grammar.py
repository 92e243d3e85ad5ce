"""How people write quantities in a sentence, in English and Chinese: patterns for numbers, times, money, amounts of data and what stands around them.

Every rule has a pattern with a group `value` (what the option takes, in its own friendly form) and says which option it gives. Rules are tried
in order; what one has read, no later one sees.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

_DIGITS = r"(?:(?<![\w.-])\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)"
_HAN = r"(?:[一二三四五六七八九两]?十[一二三四五六七八九]?|[一二三四五六七八九两半])"
NUMBER = rf"(?:{_DIGITS}|{_HAN})"
MULTIPLIER = r"(?:\s?(?:万亿|千亿|百亿|十亿|亿|千万|百万|十万|万|千|百)|\s?(?:thousand|million|billion|trillion)(?![a-z])|[kmbgt](?![a-z]))"
AMOUNT = rf"(?:{NUMBER}{MULTIPLIER}?)"
_ABOUT = r"(?:\s*(?:about|around|roughly|approximately|~|≈|约|大约|大概|差不多|左右|最多|至多|at most|up to|no more than|maximum|max)\s*)?"
_IS = (
    r"(?:\s*(?:is|are|of|to|be|at|=|:|<=|>=|<|≤|under|below|within|less than|at most|up to|no more than|not more than|about|around|roughly|~|为|是|在|约|大约|"
    r"小于|低于|少于|不超过|不高于|控制在|要求|需要|限制|最多|上限|达到)){0,6}\s*"
)
SHORT_TIME = rf"(?:{NUMBER}\s?(?:ms|msec|milliseconds?|毫秒|us|微秒|seconds?|secs?|s|秒钟?)(?![a-z]))"
_LONG_UNIT = r"(?:个?小时|个?钟头|分钟|天|日|周|个?星期|个?月|hours?|hrs?|h|minutes?|mins?|min|days?|d|weeks?|w|months?|mo)(?![a-z])"
LONG_TIME = rf"(?:{NUMBER}\s?{_LONG_UNIT}(?:\s?(?:and\s)?{NUMBER}\s?{_LONG_UNIT})?)"
_UNIT_OF_MONEY = r"(?:usd|us dollars?|dollars?|bucks|美元|美金|刀|cny|rmb|yuan|元人民币|人民币|元|块钱|块(?!\s*(?:显卡|卡|gpu|[a-z]|\d))|eur|euros?|欧元)(?![a-z])"
_SIGN_OF_MONEY = r"(?:us\$|\$|¥|€|usd\s|rmb\s?|cny\s?)"
_A_MONTH = r"(?:\s*(?:/|per|a|each|every|每)?\s*(?:month|mo|monthly|个月|月)(?![a-z]))"
_REQUESTS = (
    r"(?:requests?|reqs?|queries|query|calls?|images?|pictures?|photos?|inferences?|predictions?|transactions?|docs?|documents?|messages?)"
)
_REQUESTS_ZH = r"(?:个|次|条|张|笔|篇)?\s*(?:请求|调用|查询|访问|图片|图像|图|推理|预测|消息|对话|并发请求)?(?:量|数)?"
_PERIOD = r"(?:seconds?|sec|s|minutes?|min|m|hours?|hr|h|days?|d|秒钟?|分钟?|小时|天|日)(?![a-z])"
DATA_UNIT = (
    r"(?:tokens?|toks?|词元|个?token|hours? of (?:audio|speech|recordings?|calls?|video)|小时的?(?:音频|语音|录音|视频)|"
    r"training (?:samples?|examples?)|(?:short |long )?(?:video )?clips?|videos?|段视频|个视频|"
    r"samples?|examples?|instructions?|records?|reviews?|sentences?|tickets?|prompts?|questions?|emails?|tweets?|messages?|abstracts?|articles?|"
    r"conversations?|dialog(?:ue)?s?|轮对话|条对话|images?|imgs?|pictures?|photos?|x-rays?|scans?|张图片|张图像|张照片|张图|张|幅|图片|"
    r"documents?|docs?|pdfs?|pages?|篇文章|篇文档|篇论文|篇|份文档|份|个文档|rows?|行数据|行|pairs?|对|条数据|条样本|条指令|条记录|条文本|条评论|条|个样本|样本|samples)(?![a-z])"
)
_END = r"(?![\w%.]|,\d)(?!\s*(?:百|千|万|亿|张|条|篇|个|images?|pictures?|videos?|clips?|documents?|samples?|million|thousand|billion))"
SIZE = rf"(?:{NUMBER}\s?(?:[kmgtp]i?b|[gtm](?=\s*(?:的)?(?:数据|data|图片|images|语料|text)))(?![a-z]))"


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """One way to say one option. `read` makes of the match what the option takes."""

    option: str
    pattern: re.Pattern[str]
    read: Callable[[re.Match[str]], str]


def value(match: re.Match[str]) -> str:
    """What the pattern calls its value."""
    return match["value"].strip()


def _rule(option: str, *patterns: str, read: Callable[[re.Match[str]], str] = value) -> list[Rule]:
    return [Rule(option, re.compile(pattern, re.IGNORECASE), read) for pattern in patterns]


def _money(match: re.Match[str]) -> str:
    text = re.sub(r"\b(bucks|us dollars?)\b", "usd", match["value"], flags=re.IGNORECASE)
    return text.strip() + ("/month" if match["month"] or match["before"] else "")


def _rate(match: re.Match[str]) -> str:
    period = re.sub(r"秒钟", "秒", match["period"].casefold())
    short = {"m": "min"}.get(period, period)
    return f"{match['value'].strip()}/{short.rstrip('s') if short.isascii() and len(short) > 3 else short}"


def _percentile(match: re.Match[str]) -> str:
    return next(group for group in match.groups() if group)


def _audio(match: re.Match[str]) -> str:
    text = match["value"]
    return re.sub(r"小时的?(音频|语音|录音|视频)", "hours", re.sub(r"(hours?) of \w+", "hours", text, flags=re.IGNORECASE)).strip()


_SAMPLES = re.compile(
    r"\s*(?:training (?:samples?|examples?)|instructions?|records?|reviews?|sentences?|tickets?|prompts?|questions?|emails?|tweets?|messages?|abstracts?|articles?|"
    r"pdfs?|pages?|条(?:数据|样本|指令|记录|文本|评论)?|个?样本|份|篇文章|篇论文)$",
    re.IGNORECASE,
)
_DOCUMENTS = re.compile(r"\s*(?:篇|份|个)文档$")
_IMAGES = re.compile(r"\s*(?:photos?|x-rays?|scans?|张(?:图片|图像|照片|图)?|幅|图片)$", re.IGNORECASE)


def _data(match: re.Match[str]) -> str:
    """An amount with a unit that `--data` knows."""
    text = _audio(match)
    text = re.sub(r"\s*(?:short |long )?(?:video )?clips?$", "clips", text, flags=re.IGNORECASE)
    if text.isascii():
        return _IMAGES.sub("images", _SAMPLES.sub("samples", text))
    return _DOCUMENTS.sub("篇", _IMAGES.sub("张", _SAMPLES.sub("条", text)))


def _table(match: re.Match[str]) -> str:
    return f"{match['rows'].strip()}rows x {match['cols'].strip()}cols".replace(" rows", "rows").replace(" cols", "cols")


_LATENCY_EN = r"(?:latency|response times?|respond(?:s|ing)? (?:in|within)|answers? (?:in|within)|replies within|reply within)"
_LATENCY_ZH = r"(?:延迟|时延|响应时间|响应|返回|耗时|rt)"
_MOST = r"(?:以内|之内|以下|内)?"

QUANTITIES: tuple[Rule, ...] = (
    *_rule(
        "ttft",
        rf"(?:ttft|time[- ]to[- ]first[- ]token|first[- ]token(?:\s(?:latency|time|delay))?|首\s*(?:个)?\s*(?:字|token|包|词元?)(?:的)?\s*(?:延迟|时延|响应|返回)?(?:时间)?){_IS}(?P<value>{SHORT_TIME}){_MOST}",
        rf"(?P<value>{SHORT_TIME})\s*(?:ttft|to (?:the )?first token|内?(?:出|返回)首\s*(?:个)?\s*(?:字|token))",
    ),
    *_rule(
        "tpot",
        rf"(?:tpot|itl|inter[- ]token latency|time per (?:output )?token|per[- ]token latency|per token|每\s*个?\s*(?:输出)?\s*(?:token|字|词)(?:的)?(?:延迟|时延|耗时)?){_IS}(?P<value>{SHORT_TIME}){_MOST}",
        rf"(?P<value>{SHORT_TIME})\s*(?:tpot|per (?:output )?token|/\s*token|a token|每\s*个?\s*token)",
    ),
    *_rule(
        "tpot",
        rf"(?P<value>{_DIGITS})\s*(?:tokens?|tok|字)\s*(?:/|per|a)\s*(?:seconds?|sec|s|秒)\s*(?:per|/|for each|for every|each|每个?)\s*(?:user|stream|request|用户|人|路)",
        rf"每个?(?:用户|人|路)(?:每秒)\s*(?P<value>{_DIGITS})\s*(?:个)?\s*(?:tokens?|字)",
        read=lambda match: f"{1000.0 / float(match['value'].replace(',', '')):.4g}ms",
    ),
    *_rule(
        "percentile",
        r"\bp(\d{2}(?:\.\d+)?)(?![a-z0-9])|(\d{2}(?:\.\d+)?)(?:th|st|nd|rd)?[- ]percentile|(\d{2}(?:\.\d+)?)\s?分位|(\d{2})\s?% of (?:requests|users|the time)",
        read=_percentile,
    ),
    *_rule(
        "latency",
        rf"{_LATENCY_EN}{_IS}(?P<value>{SHORT_TIME})",
        rf"(?P<value>{SHORT_TIME})\s*(?:of\s)?(?:latency|response time|end[- ]to[- ]end)",
        rf"{_LATENCY_ZH}{_IS}(?P<value>{SHORT_TIME}){_MOST}",
        rf"(?P<value>{SHORT_TIME})\s*(?:的)?{_MOST}(?:的)?{_LATENCY_ZH}",
        rf"(?:in|within|under|below|less than|<)\s(?P<value>{NUMBER}\s?ms)(?![a-z])",
    ),
    *_rule(
        "budget",
        rf"(?P<before>每个?月|月)?\s*(?:的)?(?:预算|花费|费用|成本|budgets?|spend|cost|costs)?{_IS}(?P<value>{_SIGN_OF_MONEY}\s?{AMOUNT})(?P<month>{_A_MONTH})?",
        rf"(?P<before>每个?月|月)?\s*(?:的)?(?:预算|花费|费用|成本|budgets?|spend|cost|costs)?{_IS}(?P<value>{AMOUNT}\s?{_UNIT_OF_MONEY})(?P<month>{_A_MONTH})?(?:以内|之内|以下|内)?",
        read=_money,
    ),
    *_rule(
        "rate",
        rf"(?P<value>{AMOUNT})\s*{_REQUESTS}?\s*(?:/|per|a|an|each|every)\s*(?P<period>{_PERIOD})",
        rf"(?:每|一|日均|平均每)\s*(?P<period>秒钟?|分钟|小时|天|日)?\s*(?:大约|约|处理|大概)?\s*(?P<value>{AMOUNT})\s*{_REQUESTS_ZH}(?=[^\d]|$)",
        rf"(?P<value>{AMOUNT})\s*{_REQUESTS_ZH}\s*/\s*(?P<period>秒钟?|分钟|小时|天|日)",
        read=lambda match: _rate(match) if match["period"] else f"{value(match)}/天",
    ),
    *_rule(
        "rate",
        rf"(?P<value>{AMOUNT})\s*(?:qps|rps|tps)(?![a-z])",
        rf"(?:qps|rps|tps){_IS}(?P<value>{AMOUNT})",
        rf"(?P<value>{AMOUNT})\s*{_REQUESTS}\s*(?:daily)(?![a-z])",
        read=lambda match: value(match) + ("/day" if match[0].casefold().endswith("daily") else "/s"),
    ),
    *_rule(
        "users",
        rf"(?P<value>{AMOUNT})\s*(?:concurrent|simultaneous|parallel|active|online)?\s*(?:users?|people|clients?|sessions?|employees|developers|students|customers)(?:\s(?:at once|at the same time|simultaneously|concurrently))?",
        rf"(?:concurrency|concurrent users|concurrent requests){_IS}(?P<value>{AMOUNT})",
        rf"(?P<value>{AMOUNT})\s*(?:concurrent|simultaneous|parallel)(?:\s(?:requests|chats|streams|calls))?",
        rf"(?:并发(?:数|量|用户数?)?|同时在线(?:人数)?){_IS}(?P<value>{AMOUNT})\s*(?:个|人|路)?",
        rf"(?P<value>{AMOUNT})\s*(?:个|名|位|路)?\s*(?:并发|用户同时|人同时|同时在线|用户并发|人并发)(?:用户|请求|使用|访问|在线|用)?",
        rf"(?P<value>{AMOUNT})\s*(?:个|名|位)?\s*(?:用户|人|员工|学生|客户|开发者)(?:同时|在线)?(?:使用|访问|用)?",
    ),
    *_rule(
        "data",
        rf"(?P<rows>{AMOUNT})\s*(?:rows?|records?|samples?|行)\s*(?:x|×|\*|by|with|and|,|，|、)?\s*(?P<cols>{AMOUNT})\s*(?:columns?|cols?|features?|列|个?特征|维特征|维)",
        read=_table,
    ),
    *_rule("columns", rf"(?P<value>{_DIGITS})\s*(?:columns?|cols?|features?|列|个?特征|维特征|维)(?![a-z])"),
    *_rule("epochs", rf"(?P<value>{NUMBER})\s*(?:个?\s*epochs?|passes|轮(?!对话)|遍)", rf"epochs?\s*(?:=|:|of)\s*(?P<value>{_DIGITS})"),
    *_rule(
        "input_tokens",
        rf"(?:inputs?|prompts?|输入|提示词?|问题)\s*(?:lengths?|size|tokens?|长度|token数|平均)?{_IS}(?P<value>{_DIGITS}k?)\s*(?:tokens?|tok|个?token|字)?{_END}",
        rf"(?P<value>{_DIGITS}k?)[- ](?:tokens? )?(?:token )?(?:input|prompt)(?: tokens?| length)?(?![a-z])",
        rf"(?P<value>{_DIGITS}k?)\s*(?:tokens?|个?token|字)\s*(?:的)?(?:in(?:put)?s?|prompts?|输入|提示词)(?![a-z])",
        rf"(?P<value>{_DIGITS}k?)\s(?:in)(?=[,/ ]+\s?{_DIGITS}k?\s(?:out))",
    ),
    *_rule(
        "output_tokens",
        rf"(?:outputs?|answers?|responses?|completions?|replies|generat(?:e|es|ing|ions?)|输出|回答|回复|生成|答案)\s*(?:lengths?|size|tokens?|长度|token数|平均)?{_IS}(?P<value>{_DIGITS}k?)\s*(?:tokens?|tok|个?token|字)?{_END}",
        rf"(?P<value>{_DIGITS}k?)[- ](?:tokens? )?(?:token )?(?:outputs?|answers?|responses?|completions?|replies)(?: tokens?| length)?(?![a-z])",
        rf"(?P<value>{_DIGITS}k?)\s*(?:tokens?|个?token|字)\s*(?:的)?(?:out(?:put)?s?|answers?|responses?|输出|回答|回复)(?![a-z])",
        rf"(?P<value>{_DIGITS}k?)\s(?:out|generated)(?![a-z])",
    ),
    *_rule(
        "seq_len",
        rf"(?:context(?: lengths?| window| size)?|seq(?:uence)?[-_ ]?len(?:gths?)?|max(?:imum)?[-_ ](?:seq(?:uence)?[-_ ])?len(?:gth)?|上下文(?:长度|窗口)?|序列(?:长度)?|最大长度|文本长度|长度){_IS}(?P<value>{_DIGITS}k?)\s*(?:tokens?|个?token)?(?![\w%])",
        rf"(?P<value>{_DIGITS}k?)[- ]?(?:tokens? |token )?(?:context|sequences?|seq|ctx|的?上下文|(?:tokens? )?长度|长文本)(?:\s(?:length|window))?(?![a-z])",
    ),
    *_rule(
        "global_batch",
        rf"(?:global\s)?batch[- _]?(?:size)?{_IS}(?P<value>{_DIGITS}k?)(?![\w%])",
        rf"(?:批大小|批次大小|批量大小|批次){_IS}(?P<value>{_DIGITS}k?)(?![\w%])",
        rf"(?P<value>{_DIGITS}) sequences per step",
    ),
    *_rule("lora_rank", r"(?:rank|秩)\s?[=:]?\s?(?P<value>\d+)", r"\br\s?=\s?(?P<value>\d+)"),
    *_rule(
        "data",
        rf"(?P<value>{AMOUNT}\s*{DATA_UNIT})",
        rf"(?P<value>{SIZE})(?!\s*(?:的)?(?:显存|vram|gpu|memory|内存|ram|卡|cards?|显卡|a100|h100|v100|a800|h800))(?:\s*(?:的)?(?:of )?(?:training )?(?:数据集?|data(?:set)?|文本|语料|text|corpus|logs?|日志|图片|images|文件|files|csvs?|parquet))?",
        read=_data,
    ),
)

DEADLINE_WORDS: tuple[tuple[str, str], ...] = (
    (r"overnight|by tomorrow morning|过夜|一晚上?|一个晚上|一夜|通宵|今晚(?:内|之内|跑完)?|明早之?前?|隔夜", "12h"),
    (r"over the weekend|during the weekend|this weekend|by the end of the weekend|(?:这个)?周末(?:内|之内|跑完|完成)?", "48h"),
    (r"by tomorrow|until tomorrow|before tomorrow|in a day|within a day|明天(?:之?前|完成|要用|内)?|一天之?内", "24h"),
    (r"today|by tonight|今天(?:之?内|完成|要)?|当天", "12h"),
    (r"(?:in|within|about)?\s?a week|one week|this week|by next week|(?:一|本|这)个?(?:周|星期|礼拜)(?:之?内|完成)?", "7d"),
    (r"(?:in|within)\s?(?:half an hour)|半个?小时(?:之?内)?", "30min"),
    (r"(?:in|within)\s?(?:an|one) hour|(?:一|1)个?小时(?:之?内)", "1h"),
    (r"(?:in|within)\s?a month|this month|(?:一|本)个?月(?:之?内)", "30d"),
    (r"half a day|半天(?:之?内)?", "12h"),
)
WEEKDAYS = {
    name: number
    for number, names in enumerate(
        (
            "monday mon 周一 星期一",
            "tuesday tue 周二 星期二",
            "wednesday wed 周三 星期三",
            "thursday thu 周四 星期四",
            "friday fri 周五 星期五",
            "saturday sat 周六 星期六",
            "sunday sun 周日 星期日 星期天 周天",
        )
    )
    for name in names.split()
}
BY_WEEKDAY = re.compile(
    rf"(?:by|before|until|till|due)\s(?:next\s)?(?P<en>{'|'.join(name for name in WEEKDAYS if name.isascii())})(?![a-z])|(?:下)?(?P<zh>{'|'.join(name for name in WEEKDAYS if not name.isascii())})(?:之?前|完成|要|交付)",
    re.IGNORECASE,
)
DEADLINES: tuple[Rule, ...] = tuple(
    _rule(
        "deadline",
        rf"(?:deadline|due|time limit|in|within|under|by|before|for|less than|at most|no more than|max(?:imum)?|finish(?:ed)? in|done in|takes?|限时|时限|截止|期限|不超过|最多|控制在|需要在|在|用|给我|有)?{_IS}(?P<value>{LONG_TIME})\s*(?:之内|以内|内|里|左右)?(?:跑完|完成|训练完|训完|搞定|做完|结束|出结果|处理完|转完|转写完|交付)?",
    )
)

ENGLISH_NUMBERS = {
    word: str(number)
    for number, word in enumerate(
        [
            "one",
            "two",
            "three",
            "four",
            "five",
            "six",
            "seven",
            "eight",
            "nine",
            "ten",
            "eleven",
            "twelve",
            "thirteen",
            "fourteen",
            "fifteen",
            "sixteen",
            "seventeen",
            "eighteen",
            "nineteen",
            "twenty",
        ],
        start=1,
    )
} | {
    "thirty": "30",
    "forty": "40",
    "fifty": "50",
    "sixty": "60",
    "a couple of": "2",
    "a few": "3",
    "a hundred": "100",
    "half a million": "500k",
    "a million": "1M",
    "a thousand": "1000",
    "a billion": "1B",
}
NUMBER_WORDS = re.compile(rf"(?<![\w-])({'|'.join(sorted(ENGLISH_NUMBERS, key=len, reverse=True))})(?![\w-])", re.IGNORECASE)
