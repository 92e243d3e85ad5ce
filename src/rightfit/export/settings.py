"""What an export needs beside the plan: names and places of the user's own, each with a safe default."""

from __future__ import annotations

import ipaddress
import re

from rightfit.errors import InputError
from rightfit.messages import Message
from rightfit.records import dataclass

DATA_FOLDER = "/checkpoints/data"
"""Where a job finds the data set that was not named: beside its checkpoints, in the plan's own folder of the bucket or on its volume."""
_NAME = re.compile(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?")
_REVISION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_QUEUE = re.compile(r"(kueue|volcano)/[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_BUCKET = re.compile(r"(s3|gs|oss|cos|https)://[A-Za-z0-9][A-Za-z0-9.\-_/]{1,200}")


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """`name`: of the job, as cloud resources allow it (lower case, digits, hyphens). `ssh_cidr`: who may reach the servers; empty opens
    nothing.
    `bucket`: where checkpoints go, empty leaves a reference to the environment variable RIGHTFIT_BUCKET. `data_path`: the data set as the
    job sees it; without one the folder "data" of the plan in its bucket or on its volume.
    `queue`: the queue of a cluster that its jobs wait in, "kueue/NAME" or "volcano/NAME"; empty starts them at once.
    `stop_after_h`: servers stop themselves after this many hours; 0 takes the plan's 95 % time and a quarter. `trial`: the job runs under `rightfit probe` until its
    step time has settled, and no longer. `revision`: the commit of the model's repository on the hub; empty takes its newest."""

    name: str = "rightfit-job"
    ssh_cidr: str = ""
    bucket: str = ""
    data_path: str = ""
    stop_after_h: float = 0.0
    queue: str = ""
    trial: bool = False
    revision: str = ""

    def __post_init__(self) -> None:
        if not self.data_path:
            object.__setattr__(self, "data_path", DATA_FOLDER)
        if not _NAME.fullmatch(self.name):
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
        if not 0 <= self.stop_after_h <= 24 * 366:
            raise InputError(Message("export.stop_after"), field="stop_after")


def _check_cidr(text: str) -> None:
    try:
        network = ipaddress.ip_network(text, strict=False)
    except ValueError:
        raise InputError(Message("export.no_address_range", word=text[:60]), field="ssh_cidr") from None
    if network.prefixlen == 0:
        raise InputError(Message("export.open_to_everyone"), field="ssh_cidr")
