"""What software stands behind an answer: which accelerators PyTorch's usual stack runs on, and which training stacks can split a model.

A plan must be one that its reader can start. So accelerators with a software stack of their own (TPU, Trainium, Gaudi, Ascend, chips whose
maker a
cloud hides) are offered only where the user names them, and tensor, pipeline and expert parallelism only where a stack that has them is
meant.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from rightfit import facts
from rightfit.errors import ContradictionError
from rightfit.facts.trainers import splits_of
from rightfit.messages import Message, contradiction
from rightfit.physics.columns import Method

if TYPE_CHECKING:
    from rightfit.facts.records import Accelerator
    from rightfit.workload import Workload

ADAPTER_METHODS = frozenset({Method.LORA, Method.QLORA, Method.DORA, Method.PTUNING, Method.PREFIX})
WHOLE_METHODS = frozenset({Method.FULL, Method.GALORE})
UNQUANTISED = frozenset({"", "none", "fp8"})
SPLITTING = {"tensor_parallel": "tensor-parallel", "pipeline_parallel": "pipeline-parallel"}


@functools.cache
def stacks() -> dict[str, str]:
    """Vendor -> the stack that PyTorch's usual libraries run on, from facts/data/software_stacks.csv."""
    return {row["vendor"]: row["stack"] for row in facts.table("software_stacks")}


def stack_of(accelerator: Accelerator) -> str:
    """CUDA or ROCm; empty for accelerators with another stack. A chip that a cloud hides counts as the one that it equals."""
    return stacks().get(facts.accelerators().get(accelerator.equivalent_to, accelerator).vendor, "")


def listed_stacks() -> str:
    """The usual stacks in words."""
    return ", ".join(dict.fromkeys(stacks().values()))


def splits_models(workload: Workload, method: Method) -> bool:
    """Whether the training stack can spread one copy of the model over accelerators by tensor, pipeline or expert parallelism.

    Quantised bases (bitsandbytes) never; adapters only where a stack is named that has it. Where none is named, pre-training is taken to
    run on a stack of the torchtitan or Megatron class, and fine-tuning on Hugging Face's libraries, unless a degree is asked for.
    """
    if is_quantised(workload, method):
        return False
    full, adapters = splits_of(workload.framework or "")
    if method in ADAPTER_METHODS or method not in WHOLE_METHODS:
        return adapters
    return full or (not workload.framework and (workload.task == "train" or bool(asked_splits(workload))))


def assumed_framework(workload: Workload, method: Method) -> str:
    """The stack whose memory conventions and speed are taken where the user names none: Hugging Face's libraries for fine-tuning; for
    pre-training, and where a split is asked for, PyTorch code of the torchtitan class (the physics' own default, an empty name)."""
    return "" if splits_models(workload, method) or workload.task == "train" else "transformers"


def is_quantised(workload: Workload, method: Method) -> bool:
    """Whether the weights that are kept are packed in 8 bits or fewer."""
    return method == Method.QLORA or (workload.quantization or "") not in UNQUANTISED


def asked_splits(workload: Workload) -> dict[str, int]:
    """The degrees over 1 that the user asked for, by option."""
    degrees = {option: getattr(workload, name) for name, option in SPLITTING.items()}
    return {option: int(degree) for option, degree in degrees.items() if degree and degree > 1}


def refuse_impossible_splits(workload: Workload, method: Method) -> None:
    """A degree that the method's libraries do not have is the user's contradiction."""
    asked = asked_splits(workload)
    if not asked or splits_models(workload, method):
        return
    option, degree = next(iter(asked.items()))
    if is_quantised(workload, method):
        cure = Message("search.part_quantised")
    elif workload.framework:
        cure = Message("search.part_libraries_of", framework=workload.framework)
    else:
        cure = Message("search.part_libraries")
    raise ContradictionError(
        contradiction(f"{option} {degree}", workload.method or "full", kind="method", why=cure), field=option.replace("-", "_")
    )
