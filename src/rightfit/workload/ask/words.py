"""Words that name a choice (task, method, purchase mode, cloud, precision ...) in a sentence, in English and Chinese."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from rightfit.workload.vocabulary import CLOUDS, COUNTRIES

_LATIN_EDGE = r"(?<![A-Za-z0-9_./-])", r"(?![A-Za-z0-9_/])"


def pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Any of the names: Latin ones as whole words (a blank stands for blank or hyphen), Chinese ones anywhere; the longest first."""
    parts = []
    for name in sorted(names, key=len, reverse=True):
        escaped = re.escape(name).replace(r"\ ", r"[\s-]?").replace(r"\-", r"[\s-]?")
        parts.append(f"{_LATIN_EDGE[0]}{escaped}{_LATIN_EDGE[1]}" if name.isascii() else escaped)
    return re.compile("|".join(parts), re.IGNORECASE)


def _spelled(groups: Mapping[str, str]) -> dict[str, re.Pattern[str]]:
    """Value -> pattern of its names, which are separated by ";"."""
    return {value: pattern(name.strip() for name in names.split(";")) for value, names in groups.items()}


METHODS = _spelled(
    {
        "qlora": "qlora;q-lora;4bit lora;4-bit lora;lora 4bit;量化lora",
        "dora": "dora",
        "lora": "lora;low rank adapter;low rank adapters",
        "galore": "galore",
        "ptuning": "p-tuning;ptuning;p-tuning v2;prompt tuning",
        "prefix": "prefix tuning;prefix-tuning",
        "freeze": "freeze;frozen backbone;linear probe;linear probing;冻结;只训最后几层",
        "full": "full fine-tune;full finetune;full fine-tuning;full finetuning;full parameter;full-parameter;all parameters;full sft;全参数;全参;全量微调;全量;全微调",
    }
)
PURCHASES = _spelled(
    {
        "spot": "spot;spot instances;spot instance;preemptible;preemptible instances;竞价实例;抢占式实例;抢占式;抢占实例;竞价;抢占",
        "on-demand": "on-demand;on demand;ondemand;pay as you go;pay-as-you-go;按量付费;按需付费;按量;按需",
        "subscription": "subscription;prepaid;包年包月;包月;包年",
        "reserved": "reserved;reserved instances;reserved instance;committed use;savings plan;savings plans;预留实例;预留",
        "capacity-block": "capacity block;capacity blocks",
    }
)
PRECISIONS = _spelled(
    {
        "bf16": "bf16;bfloat16",
        "fp16": "fp16;float16;half precision;mixed precision;半精度;混合精度",
        "fp32": "fp32;float32;single precision;单精度",
        "tf32": "tf32",
        "fp8": "fp8;float8",
    }
)
QUANTIZATIONS = _spelled(
    {
        "awq": "awq",
        "gptq": "gptq",
        "int8": "int8;8-bit;8bit;w8a8;8位量化",
        "int4": "int4;w4a16",
        "nf4": "nf4;4-bit;4bit;4位量化",
        "fp8": "fp8 quantized;fp8量化",
        "gguf": "gguf",
    }
)
OPTIMIZERS = _spelled(
    {
        "adamw-8bit": "8-bit adam;8bit adam;adam 8bit;8-bit adamw;adamw 8bit",
        "adafactor": "adafactor",
        "sgd": "sgd",
        "lion": "lion optimizer",
        "muon": "muon",
        "adamw": "adamw;adam",
    }
)
SHARDINGS = _spelled({"zero3": "zero-3;zero3;zero stage 3", "zero2": "zero-2;zero2;zero stage 2", "zero1": "zero-1;zero1", "fsdp": "fsdp"})
FRAMEWORKS = _spelled(
    {
        "vllm": "vllm",
        "sglang": "sglang",
        "tensorrt-llm": "tensorrt-llm;trt-llm;tensorrt llm",
        "tgi": "tgi;text-generation-inference",
        "llama.cpp": "llama.cpp;ollama",
        "onnxruntime": "onnx runtime;onnxruntime;onnx",
        "deepspeed": "deepspeed",
        "megatron": "megatron-lm;megatron",
        "unsloth": "unsloth",
        "llama-factory": "llama-factory;llamafactory;llama factory",
        "transformers": "hugging face transformers;huggingface transformers",
    }
)
OBJECTIVES = _spelled(
    {
        "time": "as fast as possible;fastest;as soon as possible;asap;quickest;speed matters;as quickly as possible;尽快;最快;越快越好;速度优先;尽可能快",
        "balanced": "balanced;balance of cost and speed;best value;性价比高;性价比最高;性价比;均衡",
        "cost": "cheapest;as cheap as possible;lowest cost;low cost;cheaply;cheap;minimal cost;save money;最便宜;便宜点;便宜;最省钱;省钱;成本最低;越便宜越好;低成本;价格最低",
    }
)
MAX_NODES = _spelled(
    {
        "1": "single node;one node;single server;one server;one machine;single machine;1 node;1 server;1 machine;单机;一台机器;单台",
        "2": "2 nodes;2 servers;2 machines;两台;2台;两机;双机",
        "4": "4 nodes;4 servers;4 machines;四台;4台;四机",
        "8": "8 nodes;8 servers;8 machines;八台;8台;八机",
    }
)
# Names of providers that are plain English or mean something else are left out ("do"), and those that need their full form stand in it.
_PROVIDERS = [
    "aws",
    "azure",
    "gcp",
    "alicloud",
    "tencent",
    "oci",
    "lambda",
    "runpod",
    "vast",
    "nebius",
    "crusoe",
    "coreweave",
    "verda",
    "datacrunch",
    "hyperstack",
    "fluidstack",
    "paperspace",
    "cudo",
    "digitalocean",
    "vultr",
    "scaleway",
    "ovh",
    "linode",
    "together",
    "seeweb",
]
_NOT_ALONE = {"do", "ali", "google", "microsoft", "amazon", "oracle", "telekom", "ec2", "gce", "together"}
_MORE = {
    "谷歌云": "gcp",
    "华为云": "huawei",
    "火山引擎": "volcengine",
    "百度云": "baidu",
    "天翼云": "ctyun",
    "amazon cloud": "aws",
    "lambda cloud": "lambda",
    "lambda labs": "lambda",
}
CLOUD_NAMES = {
    **{name: name for name in _PROVIDERS if name not in _NOT_ALONE},
    **{alias.replace("-", " "): cloud for alias, cloud in CLOUDS.items() if alias not in _NOT_ALONE},
    **_MORE,
}
CLOUD = pattern(CLOUD_NAMES)
_CONTINENTS = {
    "europe": "Europe",
    "asia": "Asia",
    "north america": "North America",
    "欧洲": "Europe",
    "亚洲": "Asia",
    "北美": "North America",
}
COUNTRY_NAMES = {
    **{alias.replace("-", " "): code for alias, code in COUNTRIES.items() if len(alias) > 2 or not alias.isascii()},
    **_CONTINENTS,
}
COUNTRY = pattern(COUNTRY_NAMES)
COUNTRY_CODE = re.compile(
    r"(?:(?<=in )|(?<=in the )|(?<=within the )|(?<=on )|(?<=inside the ))(?P<code>US|EU|UK|CN|JP|SG|DE|FR|IN)(?![A-Za-z])"
)
REGION = re.compile(
    r"(?<![\w-])(?:(?:us|eu|ap|cn|ca|sa|me|af|il|mx)-[a-z]+(?:-?[a-z]+)?-?\d?[a-z]?|(?:us|europe|asia|northamerica|australia)-[a-z]+\d)(?![\w-])"
)
_CITIES = [
    "北京",
    "上海",
    "深圳",
    "广州",
    "杭州",
    "张家口",
    "呼和浩特",
    "乌兰察布",
    "成都",
    "南京",
    "青岛",
    "弗吉尼亚",
    "俄勒冈",
    "法兰克福",
    "东京",
    "首尔",
    "孟买",
    "伦敦",
    "悉尼",
    "Beijing",
    "Shanghai",
    "Shenzhen",
    "Guangzhou",
    "Hangzhou",
    "Virginia",
    "Oregon",
    "Ohio",
    "Frankfurt",
    "Tokyo",
    "Seoul",
    "Mumbai",
    "London",
    "Sydney",
    "Paris",
    "Dublin",
    "Stockholm",
]
CITY = pattern(_CITIES)

TASKS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "prepare",
        pattern(
            [
                "tokenize",
                "tokenise",
                "tokenization",
                "preprocess",
                "pre-process",
                "preprocessing",
                "clean the data",
                "data cleaning",
                "deduplicate",
                "dedup",
                "feature engineering",
                "prepare the data",
                "prepare data",
                "resize images",
                "convert to parquet",
                "分词",
                "预处理",
                "数据清洗",
                "清洗",
                "去重",
                "特征工程",
                "数据准备",
                "数据处理",
            ]
        ),
    ),
    (
        "batch",
        pattern(
            [
                "batch inference",
                "offline inference",
                "batch job",
                "batch",
                "offline",
                "transcribe",
                "label",
                "annotate",
                "summarize",
                "summarise",
                "translate",
                "caption",
                "classify all",
                "embed",
                "embeddings for",
                "score all",
                "generate",
                "process",
                "extract",
                "run through",
                "rewrite",
                "批量推理",
                "批量",
                "离线推理",
                "离线",
                "转写",
                "打标",
                "标注",
                "摘要",
                "翻译",
                "生成",
                "抽取",
                "跑一遍",
                "处理",
            ]
        ),
    ),
    (
        "serve",
        pattern(
            [
                "serve",
                "serving",
                "deploy",
                "deployment",
                "host",
                "hosting",
                "inference",
                "production",
                "endpoint",
                "api",
                "chatbot",
                "chat bot",
                "online",
                "real-time",
                "realtime",
                "service",
                "in production",
                "self-host",
                "推理服务",
                "推理",
                "部署",
                "上线",
                "线上",
                "在线",
                "服务",
                "接口",
                "聊天机器人",
                "客服",
                "实时",
                "私有化",
            ]
        ),
    ),
    (
        "finetune",
        pattern(
            [
                "fine-tune",
                "fine-tuning",
                "finetune",
                "finetuning",
                "fine tune",
                "fine tuning",
                "fine-tuned",
                "sft",
                "instruction tuning",
                "instruction-tune",
                "dreambooth",
                "textual inversion",
                "adapt",
                "lora",
                "qlora",
                "dora",
                "domain adaptation",
                "微调",
                "精调",
                "指令微调",
                "对齐",
                "后训练",
            ]
        ),
    ),
    (
        "train",
        pattern(
            [
                "pre-train",
                "pretrain",
                "pretraining",
                "pre-training",
                "continued pretraining",
                "train from scratch",
                "from scratch",
                "train",
                "training",
                "retrain",
                "fit a",
                "预训练",
                "从头训练",
                "从零训练",
                "继续预训练",
                "训练",
                "训一个",
                "训个",
                "训",
            ]
        ),
    ),
)
STRONG = {
    "finetune": pattern(
        "fine-tune;fine-tuning;finetune;finetuning;fine tune;fine tuning;tune;sft;instruction-tune;dreambooth;微调;精调;qlora;lora;dora".split(
            ";"
        )
    ),  # noqa: SIM905
    "train": pattern(
        "pre-train;pretrain;pretrained;pretraining;pre-training;from scratch;预训练;从头训练;从零训练;train;retrain;训练".split(";")
    ),  # noqa: SIM905
    "batch": pattern("batch inference;offline inference;批量推理;离线推理;批量;transcribe;转写".split(";")),  # noqa: SIM905
    "serve": pattern("deploy;serve;serving;host;部署;上线;推理服务;在线推理".split(";")),  # noqa: SIM905
    "prepare": pattern("tokenize;tokenise;preprocess;deduplicate;feature engineering;预处理;分词;清洗;去重;特征工程".split(";")),  # noqa: SIM905
}
FILLERS = frozenset(
    [
        "i",
        "we",
        "you",
        "it",
        "my",
        "our",
        "your",
        "a",
        "an",
        "the",
        "to",
        "of",
        "on",
        "in",
        "for",
        "with",
        "and",
        "or",
        "but",
        "is",
        "are",
        "be",
        "am",
        "was",
        "will",
        "would",
        "like",
        "want",
        "need",
        "needs",
        "wants",
        "wanna",
        "gonna",
        "please",
        "help",
        "me",
        "us",
        "how",
        "what",
        "which",
        "should",
        "could",
        "can",
        "do",
        "does",
        "did",
        "have",
        "has",
        "had",
        "get",
        "give",
        "take",
        "use",
        "using",
        "run",
        "running",
        "rent",
        "buy",
        "server",
        "servers",
        "machine",
        "machines",
        "cloud",
        "gpu",
        "gpus",
        "card",
        "cards",
        "model",
        "models",
        "data",
        "dataset",
        "datasets",
        "at",
        "by",
        "from",
        "as",
        "so",
        "that",
        "this",
        "these",
        "those",
        "there",
        "here",
        "just",
        "only",
        "also",
        "about",
        "around",
        "some",
        "any",
        "all",
        "not",
        "no",
        "too",
        "very",
        "most",
        "more",
        "less",
        "than",
        "then",
        "if",
        "when",
        "while",
        "per",
        "each",
        "every",
        "best",
        "good",
        "right",
        "cheap",
        "price",
        "cost",
        "costs",
        "budget",
        "deadline",
        "job",
        "jobs",
        "task",
        "time",
        "day",
        "hours",
        "plan",
        "config",
        "configuration",
        "setup",
        "hardware",
        "instance",
        "instances",
        "recommend",
        "recommendation",
        "suggest",
        "suggestion",
        "thanks",
        "hi",
        "hello",
        "hey",
        "ok",
        "user",
        "users",
        "request",
        "requests",
        "token",
        "tokens",
        "input",
        "output",
        "prompt",
        "answer",
        "second",
        "seconds",
        "s",
        "into",
        "over",
        "under",
        "within",
        "up",
        "one",
        "ll",
        "m",
        "re",
        "ve",
        "d",
        "t",
        "let",
        "lets",
        "s",
        "samples",
        "images",
        "text",
        "texts",
        "company",
        "team",
        "customers",
        "product",
        "must",
        "ideally",
        "maybe",
        "possibly",
        "roughly",
        "average",
        "typical",
        "size",
        "length",
        "latency",
        "throughput",
        "load",
        "traffic",
        "llm",
        "large",
        "language",
        "vision",
        "image",
    ]
)
FILLERS_ZH = re.compile(
    "我们|我|你|您|想要|想|要|需要|打算|准备|希望|请|帮忙|帮|推荐|一下|一个|一份|一套|什么|哪个|哪些|哪种|怎么|多少|服务器|云服务器|云主机|机器|实例|配置|方案|合适|适合|模型|数据集|数据|用|使用|"
    "来|做|跑|租|买|给|在|把|对|和|与|及|的|了|吗|呢|啊|吧|是|有|能|可以|应该|每个|每|左右|大概|大约|以内|之内|不|超过|最好|必须|所有|都|就|也|还|上|下|里|中|个|台|张|块|卡|显卡|次|条|"
    "场景|业务|公司|团队|项目|用于|进行|支持|满足|要求|处理|预算|时间|完成|并且|而且|但是|如果|这|那|到|从|为|或者|或|以及|等|只|多|大|小|新|吧|平均|单|级别|参数|规模|一台|一张|数|量|价格|钱|谢谢|你好|请问|哪|几|才|够|行"
)
