"""SkyPilot's words for clouds and buckets: what it can do where, which bucket it mounts and how,
what must be installed and set up for it."""

from __future__ import annotations

import re

from rightfit.exports.buckets import BUCKET, COPIER, COPIER_SECRETS, Bucket, bucket_of, folder_words, kept_in, place_of, scheme_of, whole
from rightfit.exports.job import Job, OptionPart
from rightfit.exports.quoting import shell
from rightfit.exports.stack import stack_of
from rightfit.facts.tables import table
from rightfit.messages import Message

# ---- What a launcher calls a seller's server, where that is not the seller's instance type: RunPod
# rents cards by the pod and has no types.

RUNPOD_PROVIDER = "runpod"
_BY_THE_CARD = re.compile(r"\d+x_")
_MEMORY = re.compile(r"\d+GB$")


def skypilot_name(option: OptionPart, instance_type: str = "") -> str:
    """The instance type in SkyPilot's catalog, "1x_RTX4090_SECURE" on RunPod's own hosts; "" where
    it has none for the card.

    `instance_type`: another host of the seller with the option's accelerators.
    """
    if option.provider != RUNPOD_PROVIDER:
        return instance_type or option.instance_type
    card = _card(option, "skypilot")
    return f"{option.accelerator.count_per_node}x_{card}_SECURE" if option.accelerator and card else ""


def dstack_name(option: OptionPart) -> str:
    """The instance type that dstack knows: on RunPod the identifier of the card, of which
    `resources` says how many; "" where unknown."""
    return _card(option, "runpod") if option.provider == RUNPOD_PROVIDER else option.instance_type


def is_by_the_card(option: OptionPart) -> bool:
    """Whether the price list names cards and no instance type ("8x_H200-SXM-141GB"): then a
    launcher is told the cards."""
    return option.provider != RUNPOD_PROVIDER and _BY_THE_CARD.match(option.instance_type) is not None


def dstack_cards(option: OptionPart) -> dict[str, str | int]:
    """The cards as dstack's `resources.gpu` names them: H200 of 141 GB, eight of them."""
    assert option.accelerator is not None
    name, memory = option.accelerator.name.partition("-")[0], _MEMORY.search(option.accelerator.name)
    return {"name": name, **({"memory": memory[0]} if memory else {}), "count": option.accelerator.count_per_node}


def name_problem(option: OptionPart, name: str, program: Message | str) -> Message | str:
    """Why the program cannot be asked for this server ("" if it can)."""
    card = option.accelerator.name if option.accelerator else Message("export.a_server_without_cards")
    return "" if name else Message("export.no_pod", program=program, provider=option.provider, card=card)


def _card(option: OptionPart, column: str) -> str:
    wanted = option.accelerator.name if option.accelerator else ""
    return next((row[column] for row in table("runpod_cards") if row["accelerator"] == wanted), "")


VERSION = "0.14.1"
CLOUDS = {
    "aws": "aws",
    "azure": "azure",
    "gcp": "gcp",
    "lambda": "lambda",
    "oci": "oci",
    "runpod": "runpod",
    "fluidstack": "fluidstack",
    "paperspace": "paperspace",
    "cudo": "cudo",
    "vast": "vast",
    "nebius": "nebius",
    "ibm": "ibm",
    "digitalocean": "do",
    "verda": "verda",
    "hyperbolic": "hyperbolic",
    "seeweb": "seeweb",
    "primeintellect": "primeintellect",
    "shadeform": "shadeform",
    "mithril": "mithril",
    "scp": "scp",
    "vsphere": "vsphere",
    "yotta": "yotta",
}
LACKS = {
    "lambda": {"spot"},
    "runpod": {"mount", "nodes"},
    "fluidstack": {"spot"},
    "paperspace": {"spot"},
    "cudo": {"spot"},
    "vast": {"mount", "nodes"},
    "ibm": {"ports"},
    "do": {"spot"},
    "verda": {"mount", "nodes", "ports", "stop"},
    "hyperbolic": {"mount", "nodes", "ports", "stop", "spot"},
    "seeweb": {"mount", "nodes", "spot"},
    "primeintellect": {"nodes", "stop"},
    "shadeform": {"mount", "nodes", "spot"},
    "mithril": {"ports"},
    "scp": {"spot"},
    "vsphere": {"nodes", "ports", "spot"},
    "yotta": {"mount", "nodes", "stop", "spot"},
}
"""What SkyPilot 0.14 cannot do on a cloud: mount buckets, several nodes, open ports, stop by
itself, spot. Compared with SkyPilot's own table in our tests."""
NO_CONTROLLER = ("cudo", "fluidstack", "hyperbolic", "lambda", "mithril", "seeweb", "shadeform", "verda", "yotta")
"""Clouds where SkyPilot's controller of managed jobs and services cannot run: it needs another
cloud beside them. Compared with SkyPilot's own table too."""
CONTROLLER = "aws"
"""The cloud for the controller where none of those that a job needs can have it."""
STORES = {"s3": "aws", "gs": "gcp", "https": "azure"}
"""Scheme of a bucket that SkyPilot mounts for us -> the cloud that must be set up for it."""
_FOLDERS = r"(/(?!\.{1,2}(/|$))[^/]+)*"
_NO_IP = r"(?!\d{1,3}(\.\d{1,3}){3}(/|$))"
ADDRESSES = {
    "s3": re.compile(rf"s3://{_NO_IP}(?!xn--)(?![^/]*(\.\.|(-s3alias|--ol-s3)(/|$)))[a-z0-9][a-z0-9.-]{{1,61}}[a-z0-9]{_FOLDERS}"),
    "gs": re.compile(
        rf"gs://{_NO_IP}(?!goog)(?![^/]*(g[o0]{{2}}gle|\.\.|\.-|-\.|[^./]{{64}}))[a-z0-9][a-z0-9._-]{{1,220}}[a-z0-9]{_FOLDERS}"
    ),
    "https": re.compile(rf"https://[a-z0-9]{{3,24}}\.blob\.core\.windows\.net/(?![^/]*--)[a-z0-9][a-z0-9-]{{1,61}}[a-z0-9]{_FOLDERS}"),
}
"""Addresses whose bucket SkyPilot takes, and whose folder lies within it. Compared with its own
checks in our tests."""
MOUNTED = "/bucket"
"""Where the bucket lies on the server. SkyPilot mounts whole buckets only; /checkpoints leads to
the plan's own folder in it."""
MOST_RESTARTS = 3
"""Of a managed job after errors of its own, SkyPilot's exit of `timeout` among them."""
ROOT = "RIGHTFIT_BUCKET_ROOT"
"""The variable that holds the bucket of RIGHTFIT_BUCKET without its folder: SkyPilot replaces names
of variables, and cuts nothing off."""


def lacks(provider: str) -> set[str]:
    """What SkyPilot cannot do there."""
    return LACKS.get(CLOUDS[provider], set())


def mounts(job: Job) -> bool:
    """Whether checkpoints go to a bucket that SkyPilot mounts."""
    return not job.is_service and "mount" not in lacks(job.option.provider)


def copies(job: Job) -> bool:
    """Whether the job itself copies them to S3, because SkyPilot mounts nothing on that cloud."""
    return not job.is_service and not mounts(job)


S3_FALLBACK = "us-east-1"
S3_OPT_IN = (
    "ap-east-1",
    "me-south-1",
    "af-south-1",
    "eu-south-1",
    "eu-south-2",
    "ap-south-2",
    "ap-southeast-3",
    "ap-southeast-4",
    "me-central-1",
    "il-central-1",
)
"""Regions whose buckets SkyPilot does not mount; it puts those of their servers into S3_FALLBACK.
Compared with its own list in our tests."""
MAKES_BUCKETS = ("aws", "gcp")
"""Clouds where a bucket of a given name is made under an address that is known before."""


def bucket_is_told(job: Job) -> bool:
    """Whether the bucket is named at launch, by a variable without which
    SkyPilot starts nothing."""
    return not job.is_service and not job.settings.bucket


def bucket_is_made(job: Job) -> bool:
    """Whether one is made for the plan in the account, by bucket.sh before SkyPilot is started,
    where nobody names one."""
    return mounts(job) and not job.settings.bucket and job.option.provider in MAKES_BUCKETS


def bucket_variables(job: Job) -> tuple[str, ...]:
    """Variables of the task that say where the bucket is, where it is named at launch."""
    return (BUCKET, ROOT) if mounts(job) else (BUCKET,)


def secrets(job: Job) -> tuple[str, ...]:
    """Names of what the task is given at launch and no file holds."""
    return (*stack_of(job).secrets, *(COPIER_SECRETS if copies(job) else ()))


def managed(job: Job) -> bool:
    """Whether a controller of SkyPilot's watches the run: it comes back when its spot server is
    taken, and the server goes when the run ends, where SkyPilot's own timer cannot do that."""
    return not job.is_service and ((job.is_spot and not job.settings.trial) or "stop" in lacks(job.option.provider))


def folder(job: Job) -> list[str]:
    """The folder of checkpoints: the plan's own in the bucket, or one on the server where no
    bucket is mounted."""
    if job.is_service:
        return []
    if mounts(job):
        inside = f"{folder_words(job)}/{place_of(job)}" if bucket_is_told(job) else shell([stored(job).prefix])
        return [f"kept={MOUNTED}/{inside}", 'mkdir -p "$kept" && sudo ln -sfnT "$kept" /checkpoints']
    made = ['sudo mkdir -p /checkpoints && sudo chown "$(id -u)" /checkpoints']
    return [*made, f"pip install {COPIER}"]


def kept_address(job: Job) -> str:
    """The plan's own folder in the bucket of the settings, or in the one that the
    environment names."""
    return kept_in(job) or f"${{{BUCKET}}}/{place_of(job)}"


def stored(job: Job) -> Bucket:
    """The same in pieces."""
    return bucket_of(kept_address(job))


def source(job: Job) -> str:
    """What SkyPilot mounts: the whole bucket, by its address, which must be there before. By `name`
    it would take none but what it made itself, on this very machine; an address with a folder it
    refuses, and of Azure it drops the folder."""
    return f"${{{ROOT}}}" if bucket_is_told(job) else whole(stored(job))


def bucket_region(job: Job) -> str:
    """Where the bucket of the plan is made: beside its server, where SkyPilot can mount it."""
    return S3_FALLBACK if job.option.region in S3_OPT_IN else job.option.region


def address_problem(address: str) -> Message | str:
    """Why SkyPilot cannot mount a bucket of this address and work in its folder ("" if it can)."""
    known = ADDRESSES.get(address.partition("://")[0])
    if known and known.fullmatch(address.rstrip("/")):
        return ""
    return Message("export.skypilot_address", address=address[:100])


def clouds(job: Job) -> tuple[str, ...]:
    """Clouds that must be set up in SkyPilot: the server's, that of the bucket which it mounts, and
    one where its controller can run."""
    found = [CLOUDS[job.option.provider], *([STORES[scheme_of(job)]] if mounts(job) else [])]
    if (managed(job) or job.is_service) and all(cloud in NO_CONTROLLER for cloud in found):
        found.append(CONTROLLER)
    return tuple(dict.fromkeys(found))


def install(job: Job) -> str:
    """The line that installs SkyPilot with what the job needs; the aws extra brings the program
    that copies to S3."""
    extras = dict.fromkeys((*clouds(job), *(["aws"] if copies(job) else [])))
    return f'pip install "skypilot[{",".join(extras)}]=={VERSION}"'


def controller_words(job: Job) -> str:
    """What a job needs whose own cloud has no place for SkyPilot's controller; "" for others."""
    cloud = CLOUDS[job.option.provider]
    if cloud not in NO_CONTROLLER or not (managed(job) or job.is_service):
        return ""
    other = next(name for name in clouds(job) if name not in NO_CONTROLLER)
    return f"SkyPilot's controller cannot run on {cloud}: a cloud that can have it, such as {other}, must be set up too (sky check)"
