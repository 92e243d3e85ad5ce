"""A plan's option as a job to start: every figure that exporters write, derived once, in base
units and plain names."""

from __future__ import annotations

import hashlib
import ipaddress
import json
import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from rightfit.errors import FileInputError, InputError
from rightfit.messages import Message, at_place, foreign, system_problem
from rightfit.records import dataclass

# ---- What an export needs beside the plan: names and places of the user's own, each
# with a safe default.

DATA_FOLDER = "/checkpoints/data"
"""Where a job finds the data set that was not named: beside its checkpoints, in the plan's own
folder of the bucket or on its volume."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_REVISION = re.compile(r"(?=.{1,100}$)[A-Za-z0-9][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*(/[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*)*")
"""A commit, branch or tag: words with points, dashes and slashes, no step upwards; it becomes part
of addresses."""
_QUEUE = re.compile(r"(kueue|volcano)/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_COLUMN = re.compile(r"(\w{1,80})=([^=,\s][^=,]{0,199})")
THEN = ("serve",)
LIMITS = ("max-model-len", "max-num-seqs", "gpu-memory-utilization")
"""Of a server of language models, as vLLM calls them: tokens, requests, share of the memory."""
_LIMIT = re.compile(rf"({'|'.join(LIMITS)})=(0\.\d{{1,4}}|[1-9]\d{{0,8}})")
_VARIABLE = re.compile(r"[A-Z][A-Za-z0-9_]{0,59}")
_SECRET = re.compile(r"TOKEN|PASSWORD|SECRET|API_KEY|ACCESS_KEY")
_BUCKET = re.compile(r"(s3|gs|oss|cos|https)://[A-Za-z0-9][A-Za-z0-9.\-_/]{1,200}")


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """`name`: of the job, as cloud resources allow it (lower case, digits, hyphens); empty takes
    the model and the beginning of the plan's id, so that no two plans share a thing. `ssh_cidr`:
    who may reach the servers; empty opens nothing.
    `bucket`: where checkpoints go, empty leaves a reference to the environment variable
    RIGHTFIT_BUCKET. `data_path`: the data set as the job sees it; without one the folder "data" of
    the plan in its bucket or on its volume.
    `queue`: the queue of a cluster that its jobs wait in, "kueue/NAME" or "volcano/NAME"; empty
    starts them at once.
    `stop_after_h`: servers stop themselves after this many hours; 0 takes the plan's 95 % time and
    a quarter. `trial`: the job runs under `rightfit probe` until its step time has settled, and no
    longer. `revision`: the commit of the model's repository on the hub; empty takes its newest.
    `columns`: names that a program knows -> names that the data have ("prompt=question,..." or
    pairs). `then`: what follows a run, "serve" or nothing. `limits`: of a server of language
    models, in the place of the plan's ("max-model-len=8192,..." or pairs).
    `given`: variables that a way of starting asks for, with their values; no secrets."""

    name: str = ""
    ssh_cidr: str = ""
    bucket: str = ""
    data_path: str = ""
    stop_after_h: float = 0.0
    queue: str = ""
    trial: bool = False
    revision: str = ""
    columns: str | tuple[tuple[str, str], ...] = ()
    then: str = ""
    limits: str | tuple[tuple[str, str], ...] = ()
    given: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if not self.data_path:
            object.__setattr__(self, "data_path", DATA_FOLDER)
        if self.name and not _NAME.fullmatch(self.name):
            raise InputError(Message("export.name", word=self.name[:60]), field="name")
        if self.ssh_cidr:
            _check_cidr(self.ssh_cidr)
        if self.bucket and not _BUCKET.fullmatch(self.bucket):
            raise InputError(Message("export.bucket", word=self.bucket[:60]), field="bucket")
        if self.queue and not _QUEUE.fullmatch(self.queue):
            raise InputError(Message("export.queue", word=self.queue[:60]), field="queue")
        if self.revision and not _REVISION.fullmatch(self.revision):
            raise InputError(
                Message("export.revision", word=self.revision[:60]),
                field="revision",
            )
        if isinstance(self.columns, str):
            object.__setattr__(self, "columns", _columns(self.columns))
        if isinstance(self.limits, str):
            object.__setattr__(self, "limits", _limits(self.limits))
        if self.then not in ("", *THEN):
            raise InputError(Message("export.then", word=self.then[:60], known=", ".join(THEN)), field="then")
        for name, _ in self.given:
            if not _VARIABLE.fullmatch(name) or _SECRET.search(name):
                raise InputError(Message("export.given", word=name[:60]), field="set")
        if not 0 <= self.stop_after_h <= 24 * 366:
            raise InputError(Message("export.stop_after"), field="stop_after")


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    """ "prompt=question,completion=answer" as pairs."""
    found = [_COLUMN.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    if not all(found):
        raise InputError(Message("export.columns", word=text[:60]), field="data_columns")
    return tuple((match[1], match[2].strip()) for match in found if match)


def _limits(text: str) -> tuple[tuple[str, str], ...]:
    """ "max-model-len=8192,gpu-memory-utilization=0.85" as pairs."""
    found = [_LIMIT.fullmatch(part.strip()) for part in text.split(",") if part.strip()]
    pairs = [(match[1], match[2]) for match in found if match]
    if len(pairs) < len(found) or any((name == LIMITS[2]) != ("." in value) or not float(value) for name, value in pairs):
        raise InputError(Message("export.limits", word=text[:80], known=", ".join(LIMITS)), field="limits")
    return tuple(dict(pairs).items())


def _check_cidr(text: str) -> None:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InputError(Message("export.no_address_range", word=text[:60]), field="ssh_cidr") from None
    if network.prefixlen == 0:
        raise InputError(Message("export.open_to_everyone"), field="ssh_cidr")


# ---- A plan as it comes back from a file: what exporters read, checked once. Anything a person may
# have edited by hand is doubted here and nowhere else.

SCHEMA_VERSION = 1
LARGEST_FILE_BYTES = 20_000_000

MIGRATIONS: Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Version of a plan -> function that makes it a plan of the next version. Empty while there has
been one version only."""


class _Part(BaseModel):
    """Plans grow new keys; those that no exporter reads are let through."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)


class FigurePart(_Part):
    """A predicted number with its intervals."""

    mid: float
    low80: float
    high80: float
    low95: float
    high95: float


class AcceleratorPart(_Part):
    """The accelerator of an option; the name is empty on servers without one."""

    name: str = Field(max_length=80)
    count_per_node: int = Field(ge=0, le=1024)
    memory_bytes: float = Field(ge=0)


class LayoutPart(_Part):
    """How the job is spread and run. Serving plans add engine, formats and replicas; plans of
    tables what works on how much of the server (kept out of what identifies a plan, which was there
    before them)."""

    data: int = Field(1, ge=1)
    tensor: int = Field(1, ge=1)
    pipeline: int = Field(1, ge=1)
    expert: int = Field(1, ge=1)
    context: int = Field(1, ge=1)
    sharding: str = "none"
    shard_degree: int = Field(1, ge=1)
    micro_batch: int = Field(1, ge=1)
    grad_accum: int = Field(1, ge=1)
    recompute: str = "none"
    precision: str = "bf16"
    attention: str = "flash"
    offload: str = "none"
    method: str = "full"
    update: str = ""
    rollout: str = ""
    engine: str = ""
    weight_format: str = ""
    kv_format: str = ""
    replicas: int = Field(1, ge=1)
    replicas_per_node: int = Field(1, ge=1)
    max_batch: int = Field(0, ge=0)
    device: str = Field("", exclude=True)
    library: str = Field("", exclude=True)
    job: str = Field("", exclude=True)
    threads: int = Field(0, ge=0, exclude=True)
    cards: int = Field(0, ge=0, exclude=True)

    @property
    def moves_states(self) -> bool:
        """Whether the optimizer's state, or weights, lie in host memory."""
        return self.offload not in ("none", "", "activations")

    @property
    def moves_activations(self) -> bool:
        """Whether the inputs of layers lie in host memory between forward and backward pass."""
        return self.offload == "activations"


class CostPart(_Part):
    """Money of an option: `total_usd` of a run or `monthly_usd` of a service."""

    hourly_usd: float = Field(ge=0)
    total_usd: float | None = Field(None, ge=0)
    monthly_usd: float | None = Field(None, ge=0)


class AlternativePart(_Part):
    """Nearly the same thing elsewhere."""

    region: str = Field(max_length=80)
    instance_type: str = Field(max_length=120)
    purchase: str = Field(max_length=40)


class OptionPart(_Part):
    """One option of a plan."""

    rank: int = Field(ge=1)
    provider: str = Field(max_length=40)
    region: str = Field(max_length=80)
    instance_type: str = Field(max_length=120)
    nodes: int = Field(ge=1, le=100_000)
    purchase: str = Field(max_length=40)
    vcpus: float | None = None
    memory_bytes: float | None = None
    accelerator: AcceleratorPart
    layout: LayoutPart
    estimate: Mapping[str, FigurePart]
    cost: CostPart
    alternatives: tuple[AlternativePart, ...] = ()
    facts: Mapping[str, Any] = {}
    data_path: Mapping[str, Any] = {}

    @property
    def started_as(self) -> str:
        """The way to pay that a launcher asks for."""
        return "on-demand" if self.purchase in (*COMMITMENTS, "on-demand-tier3") else self.purchase


class PlanDocument(_Part):
    """A plan file."""

    schema_version: int
    workload: Mapping[str, Any]
    options: tuple[OptionPart, ...]
    sections: Mapping[str, Any] = {}

    def option(self, rank: int) -> OptionPart:
        """The option of a rank; InputError naming the ranks there are."""
        for option in self.options:
            if option.rank == rank:
                return option
        if not self.options:
            raise InputError(Message("export.nothing_to_export"), field="option")
        raise InputError(Message("export.no_rank", number=rank, count=len(self.options)), field="option")


def read_plan(path: str | Path) -> PlanDocument:
    """The plan of a file written by `rightfit plan --format json`."""
    name = str(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise FileInputError(Message("problems.cannot_read", name=name, error=system_problem(error, lower=True))) from None
    if len(data) > LARGEST_FILE_BYTES:
        raise FileInputError(Message("export.too_large", file=name, size=len(data) / 1000000.0, most=LARGEST_FILE_BYTES / 1000000.0))
    try:
        values = json.loads(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise FileInputError(Message("export.not_text", file=name)) from None
    except (json.JSONDecodeError, RecursionError) as error:
        place = Message("export.at_line", file=name, number=error.lineno) if isinstance(error, json.JSONDecodeError) else name
        raise FileInputError(Message("export.not_json", line=place)) from None
    return plan_document(values, name=name)


def plan_document(values: Any, *, name: str = "plan") -> PlanDocument:
    """A plan from the dictionary that `Plan.to_dict` gives; older versions are migrated."""
    if not isinstance(values, dict) or "options" not in values or "schema_version" not in values:
        raise FileInputError(Message("export.not_a_plan", file=name))
    version = values["schema_version"]
    while version in MIGRATIONS:
        values = MIGRATIONS[version](values)
        version = values["schema_version"]
    if version != SCHEMA_VERSION:
        raise FileInputError(Message("export.version", file=name, version=version, known=SCHEMA_VERSION))
    try:
        return PlanDocument.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise FileInputError(at_place(name, at_place(place, foreign(first["msg"][:1].lower() + first["msg"][1:])))) from None


SPOT = "spot"
MOST_OF_MODEL = 17
"""Letters of a model in the name of its job: the shortest names that a cloud takes have 24."""
COMMITMENTS = ("reserved-1y", "reserved-3y", "savings-plan-1y")
"""A discount that is bought apart, on servers that are started on demand."""
GIB = 1024**3
GB = 1e9
LEAST_DISK_GIB = 100
ROOM_FOR_IMAGES_GB = 60
DISK_MARGIN = 1.2  # over what the plan keeps: part files of downloads, logs, what a file system keeps for itself
STOP_MARGIN = 1.25  # over the plan's 95 % time before a server stops itself
SERVING_TASKS = ("serve", "batch")


AUDIO_BYTES_PER_H = 16_000 * 2 * 3600
"""Speech as it is read: 16 kHz, 16 bit, one channel, uncompressed."""
BYTES_PER_TOKEN = 8.0
"""Of text in JSON lines, generously: English has 4 to 5, Chinese 3 to 5, and each row
its keys and escapes."""
USUAL_TOKENS = 2048.0
"""Of a row with its answer where the plan tells none."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to start. `plan_id` names the plan and option (12 hex digits); `option` and `workload`
    hold what is rarely needed."""

    plan_id: str
    settings: ExportSettings
    task: str
    model: str
    option: OptionPart
    workload: Mapping[str, Any]
    alternatives: tuple[OptionPart, ...]
    sections: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Name of the job's resources."""
        if self.settings.name:
            return self.settings.name
        words = re.sub(r"[^a-z0-9]+", "-", re.split(r"[\\/]", self.model.rstrip("\\/"))[-1].casefold()).strip("-")
        words = words if words[:1].isalpha() and words.isascii() else f"{self.task}-{words}"
        return f"{words[:MOST_OF_MODEL].strip('-')}-{self.plan_id[:6]}"

    @property
    def is_service(self) -> bool:
        """Serves requests until stopped."""
        return self.task == "serve"

    @property
    def is_spot(self) -> bool:
        """Can be taken away."""
        return self.option.purchase == SPOT

    @property
    def num_nodes(self) -> int:
        """Servers."""
        return self.option.nodes

    @property
    def gpus_per_node(self) -> int:
        """Accelerators of one server, 0 without any."""
        return self.option.accelerator.count_per_node

    @property
    def num_gpus(self) -> int:
        """Accelerators in all."""
        return self.num_nodes * self.gpus_per_node

    @property
    def accelerator(self) -> str:
        """Name of the accelerator as in the plan, empty without one."""
        return self.option.accelerator.name if self.gpus_per_node else ""

    @property
    def disk_gib(self) -> int:
        """Volume to rent on each server: what the plan keeps on disk, with room for
        images, in steps of 10.

        Counted in GB, so that it is enough where a program reads the number as GB rather than GiB.
        """
        kept = self.option.estimate.get("disk_bytes")
        if kept is None:
            raise InputError(Message("export.no_disk"), field="plan")
        return max(LEAST_DISK_GIB, math.ceil((DISK_MARGIN * (kept.mid + self.data_beside_bytes) / GB + ROOM_FOR_IMAGES_GB) / 10) * 10)

    @property
    def data_beside_bytes(self) -> float:
        """Data [bytes] that the plan leaves in a bucket and that the exported job copies to its
        disk or keeps there on the way: what is read, and of a preparation as much again for
        what it writes."""
        if self.task == "prepare":
            data, kept = float(self.option.facts.get("data_bytes") or 0.0), self.option.estimate.get("disk_bytes")
            return 0.0 if kept is None or kept.mid >= data else 2.0 * data - kept.mid
        return batch_data_bytes(self) if self.task == "batch" and self.option.layout.job != "score" else 0.0

    @property
    def stop_after_h(self) -> float:
        """Hours after which a run's server stops itself; 0 for a service."""
        if self.settings.stop_after_h:
            return self.settings.stop_after_h
        total = self.option.estimate.get("total_time_s")
        return 0.0 if self.is_service or total is None else math.ceil(total.high95 * STOP_MARGIN / 360.0) / 10.0

    @property
    def seq_len(self) -> int:
        """Tokens of a sample, 0 where the model has none."""
        return int(self.workload.get("seq_len") or self.option.facts.get("seq_len") or 0)

    @property
    def labels(self) -> dict[str, str]:
        """On everything that is made: who made it and from which plan."""
        return {"managed-by": "rightfit", "rightfit-plan": self.plan_id}

    def section(self, name: str) -> Mapping[str, Any]:
        """One of the plan's further sections (autoscaling, api ...), empty where it has none. They
        speak of the plan's first option."""
        found = self.sections.get(name) if self.option.rank == 1 else None
        return found if isinstance(found, Mapping) else {}

    def wish(self, name: str) -> Any:
        """One value of the workload, None where it was not given."""
        return self.workload.get(name)


def batch_data_bytes(job: Job) -> float:
    """Rows of a batch and what is made of them [bytes]: as told, else by hours of audio or
    by tokens of text."""
    if job.wish("data_bytes"):
        return float(job.wish("data_bytes"))
    amount = float(job.wish("data_samples") or job.option.facts.get("requests") or 0.0)
    if job.wish("data_unit") == "hours":
        return amount * AUDIO_BYTES_PER_H
    tokens = float(job.wish("input_tokens") or 0.0) + float(job.wish("output_tokens") or 0.0)
    return amount * (tokens or USUAL_TOKENS) * BYTES_PER_TOKEN


def plan_id(plan: PlanDocument, option: OptionPart) -> str:
    """12 hex digits that are the same for the same workload and the same servers
    with the same layout.

    Predicted figures and prices stay out: their last digits differ between machines, and neither
    changes what is started.
    """
    identity = [
        dict(plan.workload),
        option.model_dump(mode="json", exclude={"facts", "data_path", "alternatives", "estimate", "cost", "rank"}),
    ]
    if option.layout.library:  # the same table by another library is another job
        identity.append({"library": option.layout.library, "device": option.layout.device})
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:12]


def job_of(plan: PlanDocument, *, rank: int = 1, settings: ExportSettings | None = None) -> Job:
    """The job of a plan's option. The other options of the plan stand by as
    alternatives, in their order."""
    option = plan.option(rank)
    return Job(
        plan_id=plan_id(plan, option),
        settings=settings or ExportSettings(),
        task=str(plan.workload.get("task") or "train"),
        model=str(plan.workload.get("model") or ""),
        option=option,
        workload=plan.workload,
        alternatives=tuple(other for other in plan.options if other.rank != rank),
        sections=plan.sections,
    )
