"""A plan's option as a job to start: every figure that exporters write, derived once, in base units and plain names."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from rightfit.errors import InputError
from rightfit.export.document import OptionPart, PlanDocument
from rightfit.export.settings import ExportSettings
from rightfit.messages import Message
from rightfit.records import dataclass

SPOT = "spot"
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
"""Of text in JSON lines, generously: English has 4 to 5, Chinese 3 to 5, and each row its keys and escapes."""
USUAL_TOKENS = 2048.0
"""Of a row with its answer where the plan tells none."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to start. `plan_id` names the plan and option (12 hex digits); `option` and `workload` hold what is rarely needed."""

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
        return self.settings.name

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
        """Volume to rent on each server: what the plan keeps on disk, with room for images, in steps of 10.

        Counted in GB, so that it is enough where a program reads the number as GB rather than GiB.
        """
        kept = self.option.estimate.get("disk_bytes")
        if kept is None:
            raise InputError(Message("export.no_disk"), field="plan")
        return max(LEAST_DISK_GIB, math.ceil((DISK_MARGIN * (kept.mid + self.data_beside_bytes) / GB + ROOM_FOR_IMAGES_GB) / 10) * 10)

    @property
    def data_beside_bytes(self) -> float:
        """Data [bytes] that the plan leaves in a bucket and that the exported job copies to its disk or keeps there on the way: what is read, and of a
        preparation as much again for what it writes."""
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
        """One of the plan's further sections (autoscaling, api ...), empty where it has none. They speak of the plan's first option."""
        found = self.sections.get(name) if self.option.rank == 1 else None
        return found if isinstance(found, Mapping) else {}

    def wish(self, name: str) -> Any:
        """One value of the workload, None where it was not given."""
        return self.workload.get(name)


def batch_data_bytes(job: Job) -> float:
    """Rows of a batch and what is made of them [bytes]: as told, else by hours of audio or by tokens of text."""
    if job.wish("data_bytes"):
        return float(job.wish("data_bytes"))
    amount = float(job.wish("data_samples") or job.option.facts.get("requests") or 0.0)
    if job.wish("data_unit") == "hours":
        return amount * AUDIO_BYTES_PER_H
    tokens = float(job.wish("input_tokens") or 0.0) + float(job.wish("output_tokens") or 0.0)
    return amount * (tokens or USUAL_TOKENS) * BYTES_PER_TOKEN


def plan_id(plan: PlanDocument, option: OptionPart) -> str:
    """12 hex digits that are the same for the same workload and the same servers with the same layout.

    Predicted figures and prices stay out: their last digits differ between machines, and neither changes what is started.
    """
    identity = [
        dict(plan.workload),
        option.model_dump(mode="json", exclude={"facts", "data_path", "alternatives", "estimate", "cost", "rank"}),
    ]
    if option.layout.library:  # the same table by another library is another job
        identity.append({"library": option.layout.library, "device": option.layout.device})
    return hashlib.sha256(json.dumps(identity, sort_keys=True, default=str).encode()).hexdigest()[:12]


def job_of(plan: PlanDocument, *, rank: int = 1, settings: ExportSettings | None = None) -> Job:
    """The job of a plan's option. The other options of the plan stand by as alternatives, in their order."""
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
