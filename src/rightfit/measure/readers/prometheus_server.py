"""A Prometheus by its address: the history of every known exporter in a window, asked through its API.

Gauges are averaged and peaks are taken by Prometheus itself over each step (`avg_over_time`, `max_over_time`), so that a peak between two points is not lost;
counters and histograms count what was added within the window. Several models in one answer are a question to the user: their figures are no one's.
"""

from __future__ import annotations

import datetime
import json
import math
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

from rightfit.errors import AmbiguousNameError, FileInputError, InputError, NetworkError
from rightfit.facts.constants import constant_group
from rightfit.measure.readers.exposition import Sample, known, known_name, record_of, samples_of_api, unit_name
from rightfit.measure.readers.item import MOST_BYTES, Definitions
from rightfit.measure.record import Run
from rightfit.messages import Message, cause

KIND = "prometheus-server"
_TIMEOUT_S = 30
_OVER = {"gauge": "avg_over_time", "peak": "max_over_time"}


def is_server(address: str) -> bool:
    """Whether a Prometheus answers at this address (without a path)."""
    if urllib.parse.urlsplit(address).path.strip("/"):
        return False
    try:
        return _asked(address, "status/buildinfo", {}).get("status") == "success"
    except (NetworkError, FileInputError):
        return False


def runs_of_server(address: str, definitions: Definitions) -> list[Run]:
    """The record of the window that the user asks for. Raises NetworkError, FileInputError (no known exporter), AmbiguousNameError (several models), InputError (a selector that Prometheus refuses)."""
    until = definitions.until if definitions.until is not None else datetime.datetime.now(tz=datetime.UTC).timestamp()
    window = {"start": f"{until - definitions.last_s:.3f}", "end": f"{until:.3f}"}
    selector = "{" + definitions.match + "}"
    some = {"match[]": '{__name__!="",' + definitions.match + "}"}  # Prometheus refuses a selector that an empty label would meet
    names = _asked(address, "label/__name__/values", {**window, **(some if definitions.match else {})}).get("data") or []
    step = max(constant_group("measure", "history")["least_step"], definitions.last_s / constant_group("measure", "history")["points"])
    samples: list[Sample] = []
    for name in names:
        if not known_name(name):
            continue
        function = _OVER.get(known()[unit_name(name)]["how"], "")
        query = f"{function}({name}{selector}[{math.ceil(step)}s])" if function else f"{name}{selector}"
        answer = _asked(address, "query_range", {**window, "query": query, "step": f"{step:.3f}"})
        samples += [Sample(name, sample.labels, sample.value, sample.at) for sample in samples_of_api(answer)]
    if not samples:
        ours = Message("measure.part_other_names", count=len(names)) if names else ""
        raise FileInputError(Message("measure.no_figure_in_window", address=shown(address), line=ours))
    _refuse_several(samples, address)
    started = datetime.datetime.fromtimestamp(min(sample.at for sample in samples if sample.at is not None), tz=datetime.UTC)
    return [record_of(samples, KIND, where=shown(address), started=started.isoformat(timespec="seconds"))]


def _refuse_several(samples: Sequence[Sample], address: str) -> None:
    models = sorted({sample.labels["model_name"] for sample in samples if sample.labels.get("model_name")})
    if len(models) > 1:
        raise AmbiguousNameError("model", shown(address), [f"--match 'model_name=\"{model}\"'" for model in models])


def _asked(address: str, path: str, question: Mapping[str, str]) -> dict[str, Any]:
    """The answer of the API to a question."""
    url = f"{address.rstrip('/')}/api/v1/{path}?{urllib.parse.urlencode(question)}"
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:  # noqa: S310 (http and https only)
            content = answer.read(MOST_BYTES)
    except urllib.error.HTTPError as error:
        raise _refused(error, address, path) from None
    except (OSError, ValueError) as error:
        raise NetworkError(Message("problems.cannot_read", name=shown(address), error=cause(getattr(error, "reason", error)))) from None
    try:
        found = json.loads(content)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FileInputError(Message("measure.no_prometheus", address=shown(address), path=path))
    return found


def _refused(error: urllib.error.HTTPError, address: str, path: str) -> Exception:
    try:
        said = json.loads(error.read(10_000)).get("error", "")
    except (OSError, ValueError, AttributeError):
        said = ""
    if error.code in (400, 422) and said:
        return InputError(Message("measure.question_refused", message=str(said)[:200]), field="match")
    told = str(said)[:200].rstrip()
    problem = Message("measure.part_prometheus_status", path=path, status=error.code)
    if told:
        problem = Message("measure.part_prometheus_answers", path=path, status=error.code, message=told)
    return NetworkError(Message("problems.cannot_read", name=shown(address), error=problem))


def shown(address: str) -> str:
    """An address without name and password."""
    parts = urllib.parse.urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
