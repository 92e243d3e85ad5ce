"""The words that options take, with the other names people use for them, and the search for the nearest word."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Iterable, Mapping

from rightfit.errors import UnknownNameError
from rightfit.facts.currencies import currencies
from rightfit.messages import Message
from rightfit.records import dataclass
from rightfit.units import normalize

_CLEARLY_WORSE = 0.12  # a second proposal this much less similar than the first only confuses


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`words` are the valid values; `aliases` maps other names to them."""

    words: tuple[str, ...]
    aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def find(self, text: str, *, kind: str, field: str) -> str:
        """The word meant by `text`, ignoring case and the kind of dash; UnknownNameError with the nearest otherwise."""
        folded = fold(text)
        if folded in self.words:
            return folded
        if folded in self.aliases:
            return self.aliases[folded]
        allowed = Message("names.part_allowed_words", names=", ".join(self.words))
        raise UnknownNameError(kind, text, nearest=nearest_words(folded, self.words, aliases=self.aliases), allowed=allowed, field=field)


def fold(text: str) -> str:
    """Case, blanks and underscores do not matter in a word."""
    return normalize(text).casefold().replace("_", "-").replace(" ", "-")


def nearest_words(text: str, words: Iterable[str], *, aliases: Mapping[str, str] | None = None, count: int = 2) -> tuple[str, ...]:
    """The closest valid words, best first; an alias that is close counts for its word."""
    meaning = {**(aliases or {}), **{word: word for word in words}}
    scores = {word: difflib.SequenceMatcher(None, text, word).ratio() for word in difflib.get_close_matches(text, meaning, n=6, cutoff=0.6)}
    close = [word for word, score in scores.items() if score > max(scores.values()) - _CLEARLY_WORSE]
    close = close or [word for word in meaning if len(text) > 1 and word.startswith(text)]
    return tuple(dict.fromkeys(meaning[word] for word in close))[:count]


def _aliases(**groups: str) -> dict[str, str]:
    """Keyword names are the words (with "_" for "-"); each value lists their other names, separated by blanks."""
    return {alias: word.replace("_", "-") for word, names in groups.items() for alias in names.split()}


TASKS = Vocabulary(
    ("train", "finetune", "serve", "batch", "prepare"),
    _aliases(
        train="training pretrain pretraining pre-train pre-training from-scratch 训练 预训练",
        finetune="fine-tune finetuning fine-tuning tune sft 微调 精调",
        serve="serving inference online deploy online-inference 推理 部署 在线推理",
        batch="batch-inference offline offline-inference 批量 批量推理 离线推理",
        prepare="prep data preprocess data-preparation 数据准备 预处理",
    ),
)
#: Methods that learn from preferences or rewards: what they train is said by `update`.
PREFERENCES = ("dpo", "orpo", "kto", "reward")
REINFORCEMENTS = ("ppo", "grpo")
TUNINGS = (*PREFERENCES, *REINFORCEMENTS)
METHODS = Vocabulary(
    ("full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze", "galore", "dreambooth", "textual-inversion", *TUNINGS),
    _aliases(
        full="sft full-finetune full-parameter all 全参 全量 全参数",
        qlora="q-lora lora-4bit 4bit-lora",
        ptuning="p-tuning p-tuning-v2 ptuning-v2 prompt-tuning",
        prefix="prefix-tuning",
        dreambooth="dream-booth db",
        textual_inversion="inversion ti embedding 文本反演",
        freeze="frozen linear-probe 冻结",
        dpo="direct-preference-optimization 直接偏好优化",
        reward="reward-model reward-modeling reward-modelling rm 奖励模型",
        ppo="rlhf 近端策略优化",
        grpo="rlvr",
    ),
)
UPDATES = Vocabulary(("full", "lora", "qlora", "dora"), _aliases(full="all whole 全参 全量 全参数", qlora="q-lora"))
ROLLOUTS = Vocabulary(
    ("colocated", "separate", "async"),
    _aliases(
        colocated="colocate inside hybrid 同卡", separate="server beside 分离", **{"async": "asynchronous overlapped one-step-off 异步"}
    ),
)
PURCHASES = Vocabulary(
    (
        "on-demand",
        "spot",
        "reserved",
        "reserved-1y",
        "reserved-3y",
        "savings-plan-1y",
        "subscription",
        "subscription-1m",
        "subscription-1y",
        "subscription-3y",
        "subscription-5y",
        "capacity-block",
        "on-demand-tier3",
        "on-demand-community",
        "owned",
        "any",
    ),
    {
        **_aliases(on_demand="ondemand od pay-as-you-go payg hourly 按量 按量付费 按需", spot="preemptible preempt bid 竞价 抢占式 抢占"),
        **_aliases(reserved="reserve ri committed 预留", subscription="prepaid monthly 包月 包年包月 包年", savings_plan_1y="savings-plan"),
        **_aliases(on_demand_community="community community-cloud 社区云 社区主机"),
        **_aliases(capacity_block="capacity-blocks", any="all 任意 全部"),
    },
)
PRECISIONS = Vocabulary(
    ("fp32", "tf32", "fp16", "bf16", "fp8"),
    _aliases(
        fp32="float32 single full", fp16="float16 half amp mixed", bf16="bfloat16 bf16-mixed", tf32="tensorfloat32", fp8="float8 e4m3"
    ),
)
QUANTIZATIONS = Vocabulary(
    (
        *("none", "int8", "int4", "nf4", "fp4", "fp8", "awq", "gptq", "any"),
        *("gguf-q8-0", "gguf-q6-k", "gguf-q5-k-m", "gguf-q4-k-m", "gguf-q4-0", "gguf-q3-k-m", "gguf-q2-k"),
    ),
    {
        **_aliases(
            none="no off fp16 bf16", int8="8bit 8-bit llm.int8 w8a8", nf4="4bit 4-bit bnb-nf4", int4="w4a16 q4", any="free auto 任意"
        ),
        **{name: f"gguf-{name}" for name in ("q8-0", "q6-k", "q5-k-m", "q4-k-m", "q4-0", "q3-k-m", "q2-k")},
        "gguf": "gguf-q4-k-m",
    },
)
KV_OFFLOADS = Vocabulary(
    ("host", "ssd"),
    _aliases(host="cpu ram memory dram 内存 主机内存", ssd="disk nvme 硬盘 固态硬盘 磁盘"),
)
KV_CACHES = Vocabulary(
    ("16bit", "fp8", "any"),
    {
        **_aliases(fp8="fp8-e4m3 fp8-e5m2 float8 8bit", any="free 任意"),
        "16-bit": "16bit",
        "fp16": "16bit",
        "bf16": "16bit",
        "none": "16bit",
        "auto": "16bit",
    },
)
FLEETS = Vocabulary(("single", "mixed"), _aliases(single="one uniform 单一", mixed="mix hybrid heterogeneous 混合"))
OBJECTIVES = Vocabulary(
    ("cost", "time", "balanced"),
    _aliases(cost="cheap cheapest price money 便宜 成本 最便宜", time="fast fastest speed 最快 时间", balanced="balance both 均衡"),
)
CURRENCIES = Vocabulary(tuple(currencies()), _aliases(usd="$ dollar dollars 美元", cny="rmb ¥ yuan 人民币 元"))
OPTIMIZERS = Vocabulary(
    (
        *("adamw", "adamw-8bit", "adamw-4bit", "paged-adamw", "paged-adamw-8bit", "adafactor", "sgd", "lion"),
        *("lamb", "muon", "adagrad", "came", "sophia", "lomo", "badam", "apollo"),
    ),
    _aliases(
        adamw="adam adamw-torch fused-adam adamw-torch-fused adamw-hf",
        adamw_8bit="adam8bit adam-8bit adamw8bit adamw-bnb-8bit 8bit-adam 8-bit-adamw",
        paged_adamw="paged-adam paged-adamw-32bit",
        sgd="momentum sgd-momentum",
    ),
)
DECODES = Vocabulary(
    ("tokenized", "text", "pillow", "opencv", "ffcv", "dali", "raw"),
    _aliases(
        tokenized="tokens tokenised pretokenized packed memmap 已分词",
        text="tokenize on-the-fly raw-text jsonl 文本",
        pillow="pil torchvision jpeg webdataset",
        opencv="cv2 albumentations turbojpeg",
        dali="nvjpeg gpu",
        raw="decoded npy uint8",
    ),
)
LATENTS = Vocabulary(
    ("cached", "live"),
    _aliases(cached="cache precomputed precompute on yes 缓存", live="uncached on-the-fly off no 实时"),
)
RECOMPUTES = Vocabulary(
    ("none", "selective", "full"),
    _aliases(none="off no false 0", full="on yes true 1 checkpoint gradient-checkpointing activation-checkpointing"),
)
ATTENTIONS = Vocabulary(
    ("eager", "sdpa", "flash"),
    _aliases(
        eager="naive standard", sdpa="torch xformers memory-efficient", flash="flash-attention flash-attn flash2 fa2 flash-attention-2"
    ),
)
SHARDINGS = Vocabulary(
    ("none", "zero1", "zero2", "zero3", "fsdp"),
    _aliases(none="ddp 0 off", zero1="zero-1 1", zero2="zero-2 2 sdp", zero3="zero-3 3", fsdp="fsdp2 full-shard"),
)
OFFLOADS = Vocabulary(
    ("none", "optimizer", "params", "activations", "all"),
    _aliases(none="off no", optimizer="cpu zero-offload opt", params="parameters weights", all="both"),
)
CLOUDS = _aliases(
    aws="amazon amazon-web-services ec2 亚马逊 亚马逊云",
    azure="microsoft microsoft-azure 微软 微软云",
    gcp="google google-cloud gce 谷歌 谷歌云",
    alicloud="aliyun alibaba alibaba-cloud alibabacloud ali 阿里 阿里云",
    tencent="tencent-cloud tencentcloud qcloud 腾讯 腾讯云",
    oci="oracle oracle-cloud",
    verda="datacrunch",
    otc="open-telekom-cloud telekom",
    digitalocean="do digital-ocean",
) | {"lambda-labs": "lambda", "lambdalabs": "lambda"}
COUNTRIES = _aliases(
    CN="china mainland-china prc 中国 中国大陆 国内",
    HK="hong-kong hongkong 香港 中国香港",
    TW="taiwan 台湾",
    US="usa united-states america 美国",
    GB="uk united-kingdom britain england 英国",
    DE="germany 德国",
    FR="france 法国",
    NL="netherlands holland 荷兰",
    IE="ireland 爱尔兰",
    SE="sweden 瑞典",
    FI="finland 芬兰",
    NO="norway 挪威",
    CH="switzerland 瑞士",
    IT="italy 意大利",
    ES="spain 西班牙",
    PL="poland 波兰",
    JP="japan 日本",
    KR="korea south-korea 韩国",
    SG="singapore 新加坡",
    IN="india 印度",
    ID="indonesia 印度尼西亚 印尼",
    MY="malaysia 马来西亚",
    TH="thailand 泰国",
    AU="australia 澳大利亚 澳洲",
    CA="canada 加拿大",
    BR="brazil 巴西",
    MX="mexico 墨西哥",
    ZA="south-africa 南非",
    IL="israel 以色列",
    AE="uae united-arab-emirates 阿联酋",
    SA="saudi-arabia 沙特 沙特阿拉伯",
)
