"""Started by `process`: count one model and write the answer as JSON. Whatever goes wrong is told
in the answer, in one line."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rightfit.facts.own.reference import RefusedError, one_line
from rightfit.messages import Message


def limit(address_bytes: int, seconds: int) -> None:
    """Bound memory and computing time where the system can."""
    try:
        import resource
    except ImportError:  # Windows; the limit of time outside holds
        return
    if address_bytes:
        resource.setrlimit(resource.RLIMIT_AS, (address_bytes, address_bytes))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def counter_of(kind: str) -> Callable[[str, str], dict[str, Any]]:
    """The function that counts a kind of model."""
    if kind == "onnx":
        from rightfit.facts.own.onnx_file import count_file

        return count_file
    from rightfit.facts.own.torch_module import count_function

    return count_function


def answer_of(kind: str, target: str, shape: str) -> dict[str, Any]:
    """Counts, or what is wrong."""
    try:
        return counter_of(kind)(target, shape)
    except RefusedError as refusal:
        return {"error": refusal.message.to_data(), "type": refusal.kind}
    except ModuleNotFoundError as error:
        if error.name in ("onnx", "torch"):
            return {"missing": {"onnx": "the onnx package", "torch": "PyTorch"}[error.name]}
        return {"error": Message("others.no_module", module=repr(error.name)).to_data(), "type": "input"}
    except MemoryError:
        return {"error": Message("facts.own_memory").to_data(), "type": "file" if kind == "onnx" else "input"}
    except Exception as error:  # what a parser or the user's code raises is not ours to list
        return {
            "error": Message("facts.own_not_understood", kind=type(error).__name__, problem=one_line(str(error))).to_data(),
            "type": "file" if kind == "onnx" else "input",
        }


def main() -> None:
    """Arguments: kind, target, shape, file for the answer, address space [bytes], seconds."""
    kind, target, shape, path, address, seconds = sys.argv[1:7]
    limit(int(address), int(seconds))
    sys.stdout = sys.stderr  # what the user's code prints is no answer
    answer = answer_of(kind, target, shape)
    Path(path).write_text(json.dumps(answer), "utf-8")


if __name__ == "__main__":
    main()
