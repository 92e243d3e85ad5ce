"""The user's bucket in the words of each cloud: where it lies, how its driver mounts it, how its
command line copies to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rightfit.exports.job import Job
from rightfit.exports.quoting import given, shell
from rightfit.records import dataclass

BUCKET = "RIGHTFIT_BUCKET"
"""The variable that names the bucket where the settings do not."""
COPY_EVERY_S = 300
OPT_IN_REGIONS = (
    *(
        "af-south-1",
        "ap-east-1",
        "ap-east-2",
        "ap-south-2",
        "ap-southeast-3",
        "ap-southeast-4",
        "ap-southeast-5",
        "ap-southeast-6",
        "ap-southeast-7",
    ),
    *("ca-west-1", "eu-central-2", "eu-south-1", "eu-south-2", "il-central-1", "me-central-1", "me-south-1", "mx-central-1"),
)
"""Regions of AWS that are closed to an account until it asks for them: those since March 2019 (its
guide to accounts, from memory); check.sh asks AWS itself."""
COPIER = "awscli==1.42.66"
COPIER_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
ROLES_OPEN = {"aws": "s3", "gcp": "gs"}
"""Cloud whose servers have a role of their own -> scheme of the buckets that it opens."""
PASSED_ON = ("AWS_ENDPOINT_URL", "MLFLOW_TRACKING_URI", "MLFLOW_RUN_ID")
"""Variables that a job gets from whoever starts it, where they are set: another store that speaks
S3, and the run that figures are told to."""


@dataclass(frozen=True, slots=True)
class Copier:
    """How a cloud's program copies: a folder, and one file. "$1" is what, "$2" is where to.
    `without`: the option that leaves CHECKPOINTS behind."""

    program: str
    folder: str
    file: str
    without: str


CHECKPOINTS = ("checkpoint-*", "step-*", "rounds")
"""What a run goes on from, among what it leaves: weights once more, with the optimizer's state. The
programs' results have other names."""
_NAMED = "(checkpoint-|step-|rounds/)"
_TREES = " ".join(f'--exclude "{name}/**"' for name in CHECKPOINTS)


COPIERS = {
    "s3": Copier(
        "aws",
        'aws s3 sync --only-show-errors "$1" "$2"',
        'aws s3 cp --only-show-errors "$1" "$2"',
        " ".join(f'--exclude "{name}/*"' for name in CHECKPOINTS),
    ),
    "gs": Copier("gcloud", 'gcloud storage rsync --recursive "$1" "$2"', 'gcloud storage cp "$1" "$2"', f'--exclude="{_NAMED}.*$"'),
    "oss": Copier("ossutil", 'ossutil sync --force "$1/" "$2/"', 'ossutil cp --force "$1" "$2"', _TREES),
    "cos": Copier("coscli", 'coscli sync --recursive "$1/" "$2/"', 'coscli cp "$1" "$2"', f'--exclude "(^|/){_NAMED}"'),
    "https": Copier("azcopy", 'azcopy sync --recursive "$1" "$2"', 'azcopy copy "$1" "$2"', f'--exclude-regex "(^|/){_NAMED}"'),
}
"""Scheme of a bucket -> how its program copies to it and from it."""
CLIENTS = {
    "s3": ("aws", "pip install awscli"),
    "gs": ("gcloud", "https://cloud.google.com/sdk/docs/install"),
    "oss": ("ossutil", "https://help.aliyun.com/zh/oss/developer-reference/install-ossutil"),
    "cos": ("coscli", "https://cloud.tencent.com/document/product/436/63144"),
    "https": ("azcopy", "https://learn.microsoft.com/azure/storage/common/storage-use-azcopy-v10, then azcopy login"),
}
"""Scheme of a bucket -> the program that copies to it, and where it is had."""
SCHEMES = {"aws": "s3", "gcp": "gs", "alicloud": "oss", "tencent": "cos", "azure": "https"}
"""Provider -> scheme of its own buckets. Other providers rent servers without a store of their own;
s3 is what most of them reach."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """An address in pieces. For Azure `name` is the container and `account` the account's host."""

    scheme: str
    name: str
    prefix: str
    account: str = ""


def bucket_of(address: str) -> Bucket:
    """scheme://name/prefix, and for Azure https://ACCOUNT.blob.core.windows.net/name/prefix."""
    scheme, _, rest = address.partition("://")
    first, _, path = rest.partition("/")
    if scheme != "https":
        return Bucket(scheme, first, path.strip("/"))
    name, _, prefix = path.strip("/").partition("/")
    return Bucket(scheme, name, prefix, account=first)


def whole(bucket: Bucket) -> str:
    """Address of the bucket itself, without a folder."""
    return "/".join((f"{bucket.scheme}:/", *filter(None, (bucket.account, bucket.name))))


def whole_words(job: Job) -> str:
    """The same as one word of shell, of the address that the environment holds."""
    return f'"$(printf %s "${BUCKET}" | cut -d / -f 1-{_depth(job)})"'


def folder_words(job: Job) -> str:
    """The folder of that address as one word of shell, empty where it has none."""
    return f'"$(printf %s "${BUCKET}" | cut -s -d / -f {_depth(job) + 1}-)"'


def _depth(job: Job) -> int:
    """Fields between slashes that name a bucket: s3: "" NAME, and of Azure https:
    "" HOST CONTAINER."""
    return 4 if scheme_of(job) == "https" else 3


def place_of(job: Job) -> str:
    """Folder of a bucket that belongs to this plan alone: two plans in one bucket never restore
    each other's checkpoints."""
    return f"{job.name}-{job.plan_id}"


def kept_in(job: Job) -> str:
    """Where in the bucket of the settings the job keeps what it makes: address and folder; "" where
    no bucket was given."""
    address = job.settings.bucket.rstrip("/")
    return f"{address}/{place_of(job)}" if address else ""


def kept_words(job: Job) -> str:
    """The same as one word of shell. Without a bucket in the settings it is that of the
    environment, and nothing starts where there is none."""
    return shell([kept_in(job)]) if kept_in(job) else f'"${{{BUCKET}:?set it to a bucket, s3://NAME/PATH}}"/{place_of(job)}'


def place_words(job: Job) -> str:
    """The plan's folder in the bucket as a word of shell: that of the settings, or of the variable,
    which the README has made sure of."""
    return kept_words(job) if job.settings.bucket else f'"${{{BUCKET}%/}}"/{place_of(job)}'


def copied(job: Job, run: str) -> str:
    """Shell lines around a command, on servers that mount no bucket: data and earlier checkpoints
    come from S3, and checkpoints go back every few minutes and at the end, whatever the end is."""
    place = kept_words(job)
    return (
        f"kept={place}\n"
        'for pause in 10 30 60 0; do aws s3 sync --only-show-errors "$kept" /checkpoints && break; sleep "$pause"; [ "$pause" != 0 ] || exit 1; done\n'
        "rm -f /checkpoints/ended\n"
        f'(while sleep {COPY_EVERY_S} >/dev/null 2>&1; do aws s3 sync --only-show-errors /checkpoints "$kept" || true; done) & copies=$!\n'
        f"status=0\n{run} || status=$?\n"
        'kill "$copies" 2>/dev/null || true\n'
        'echo "${RIGHTFIT_RUN:-} $status" > /checkpoints/ended\n'
        'for pause in 10 30 60 0; do aws s3 sync --only-show-errors /checkpoints "$kept" && break; sleep "$pause"; [ "$pause" != 0 ] || status=1; done\n'
        'exit "$status"'
    )


def scheme_of(job: Job) -> str:
    """Scheme of the bucket that the job writes to: that of the settings, else
    the provider's own."""
    return job.settings.bucket.partition("://")[0] or SCHEMES.get(job.option.provider, "s3")


def bucket_volume(job: Job) -> dict[str, Any]:
    """`csi` and `mountOptions` of a PersistentVolume on the bucket. Drivers:

    https://github.com/awslabs/mountpoint-s3-csi-driver,
    https://github.com/GoogleCloudPlatform/gcs-fuse-csi-driver,
    https://github.com/kubernetes-sigs/blob-csi-driver,
    https://github.com/kubernetes-sigs/alibaba-cloud-csi-driver,
    https://github.com/TencentCloud/kubernetes-csi-tencentcloud
    """
    return _VOLUMES[scheme_of(job)](bucket_of(kept_in(job)), job)


def _amazon(bucket: Bucket, job: Job) -> dict[str, Any]:
    options = ["allow-delete", "allow-overwrite", *([f"prefix {bucket.prefix}/"] if bucket.prefix else [])]
    return {
        "mountOptions": options,
        "csi": {"driver": "s3.csi.aws.com", "volumeHandle": job.name, "volumeAttributes": {"bucketName": bucket.name}},
    }


def _google(bucket: Bucket, job: Job) -> dict[str, Any]:
    options = ["implicit-dirs", *([f"only-dir={bucket.prefix}"] if bucket.prefix else [])]
    return {"mountOptions": options, "csi": {"driver": "gcsfuse.csi.storage.gke.io", "volumeHandle": bucket.name}}


def _azure(bucket: Bucket, job: Job) -> dict[str, Any]:
    account = bucket.account.partition(".")[0]
    options = ["-o allow_other", *([f"--subdirectory={bucket.prefix}"] if bucket.prefix else [])]
    attributes = {"protocol": "fuse2", "storageAccount": account, "containerName": bucket.name}
    return {
        "mountOptions": options,
        "csi": {"driver": "blob.csi.azure.com", "volumeHandle": f"{account}_{bucket.name}", "volumeAttributes": attributes},
    }


def _alibaba(bucket: Bucket, job: Job) -> dict[str, Any]:
    attributes = {"bucket": bucket.name, "url": f"oss-{job.option.region}-internal.aliyuncs.com", "path": f"/{bucket.prefix}"}
    return {"csi": _with_secret(job, "ossplugin.csi.alibabacloud.com", attributes)}


def _tencent(bucket: Bucket, job: Job) -> dict[str, Any]:
    attributes = {"bucket": bucket.name, "url": f"https://cos.{job.option.region}.myqcloud.com", "path": f"/{bucket.prefix}"}
    return {"csi": _with_secret(job, "com.tencent.cloud.csi.cosfs", attributes)}


def _with_secret(job: Job, driver: str, attributes: dict[str, str]) -> dict[str, Any]:
    """Drivers that read the keys of the store from a Secret of the job's name."""
    return given(
        driver=driver,
        volumeHandle=job.name,
        volumeAttributes=attributes,
        nodePublishSecretRef={"name": f"{job.name}-bucket", "namespace": "default"},
    )


_VOLUMES: dict[str, Callable[[Bucket, Job], dict[str, Any]]] = {
    "s3": _amazon,
    "gs": _google,
    "https": _azure,
    "oss": _alibaba,
    "cos": _tencent,
}


# ---- The bucket of an account, where the user names none.

BUCKET_FILE = "bucket.sh"

BUCKET_SCRIPT = r"""#!/bin/sh
# The bucket of plan %(plan)s in this account: made where there is none, refused where it is somebody else's. Prints its address.
# Names of buckets are one list for all the world: this one bears a hash of the account, so that two accounts never ask for the same.
set -u
%(account)s
[ -n "$account" ] || { echo "no account is known here" >&2; exit 1; }
if command -v sha256sum >/dev/null; then digits=$(printf %%s "$account" | sha256sum); else digits=$(printf %%s "$account" | shasum -a 256); fi
name=%(name)s-$(printf %%s "$digits" | cut -c 1-8)
owned() {
  %(owned)s
}
owned || %(make)s >&2
owned || { echo "the bucket $name is not yours, or could not be made: give one of your own, export RIGHTFIT_BUCKET=..." >&2; exit 1; }
echo "%(scheme)s://$name"
"""


def bucket_script(job: Job, region: str) -> str:
    """The script that makes the bucket of a plan and prints its address, for S3 and Google. Whoever
    made one of that name before would read what the job writes, so that only one of the account's
    own will do."""
    where = shell([region])
    if scheme_of(job) == "gs":
        listed = (
            'gcloud storage buckets list --project "$account" --filter "name=$name" --format "value(name)" 2>/dev/null | grep -qx "$name"'
        )
        words = {
            "account": "account=$(gcloud config get-value project 2>/dev/null)",
            "owned": listed,
            "make": f'gcloud storage buckets create "gs://$name" --project "$account" --location {where}',
        }
    else:
        words = {
            "account": f"account=$(aws sts get-caller-identity --region {where} --query Account --output text)",
            "owned": 'aws s3api head-bucket --bucket "$name" --expected-bucket-owner "$account" >/dev/null 2>&1',
            "make": f'aws s3 mb "s3://$name" --region {where}',
        }
    return BUCKET_SCRIPT % {**words, "plan": job.plan_id, "name": f"{job.name}-{job.plan_id}", "scheme": scheme_of(job)}


def bucket_file(job: Job) -> dict[str, str]:
    """bucket.sh for a run on a server of the clouds whose programs make one; empty where the user
    names it."""
    if job.is_service or job.settings.bucket or job.option.provider not in ("aws", "gcp"):
        return {}
    return {BUCKET_FILE: bucket_script(job, job.option.region)}
