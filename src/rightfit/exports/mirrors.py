"""Mirrors of the hub, of the package index and of image registries, for servers of a country from
which those are slow or out of reach (mirrors.toml)."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from rightfit.exports.job import Job
from rightfit.facts.devices import builds
from rightfit.facts.engine_releases import every_image
from rightfit.facts.tables import read_text

DOCKER_HUB = "docker.io/"


def mirrors_of(job: Job) -> Mapping[str, Any]:
    """The mirrors of the country where the servers stand; empty where none are needed."""
    found: Mapping[str, Any] = _mirrors().get(str(job.option.facts.get("country") or ""), {})
    return found


@functools.cache
def _mirrors() -> Mapping[str, Any]:
    return tomllib.loads(read_text("mirrors.toml"))


def mirrored_image(image: str, job: Job) -> str:
    """An image by the name that its mirror gives it."""
    prefix = str(mirrors_of(job).get("image", ""))
    if not prefix or image.startswith(prefix):
        return image
    first, _, rest = image.partition("/")
    named = image if "." in first or ":" in first else DOCKER_HUB + image
    return prefix + (named if rest else f"{DOCKER_HUB}library/{image}")


def mirrored_files(files: Mapping[str, str], job: Job) -> Mapping[str, str]:
    """Files with every image that the tables know by the name that its mirror gives it."""
    if not mirrors_of(job).get("image"):
        return files
    return {path: _known().sub(lambda found: mirrored_image(found[0], job), text) for path, text in files.items()}


@functools.cache
def _known() -> re.Pattern[str]:
    names = sorted({*every_image(), *(build.image for build in builds())}, key=len, reverse=True)
    return re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, names))})(?![\w.-])")


def mirrored_environment(job: Job) -> dict[str, str]:
    """Variables that the programs read."""
    return {name: str(value) for name, value in mirrors_of(job).get("environment", {}).items()}
