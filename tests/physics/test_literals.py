"""Numbers in the physics: each comes as an argument from data with a source, or stands in a short
list with the reason why it may stay.

Not counted are 0, 1, 2 and -1; exponents, indices, axes and shapes; members of enumerations; and
guards of a millionth and less, which keep a division from meeting zero.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import rightfit.physics

FOLDER = Path(rightfit.physics.__file__).parent
PLAIN = (0, 1, 2, -1)
GUARD = 1e-6

NUMERICS = "resolution of a numerical method: more changes speed, not the answer"
OVERFLOW = "keeps an exponential within what a float holds"
CAP = "keeps a queue that is almost full from dividing by zero"
USUAL = "what a job starts from before it is described; every plan and every measured row states its own"
COUNTED = "operands counted from the formula that the docstring names"
MEAN = "the middle of an interval, or the mean of a sum that grows evenly"

#: Where a number stays -> (the numbers in ascending order, why).
ALLOWED: dict[str, tuple[tuple[float, ...], str]] = {
    "batch_queue._MOST_SERVERS": ((4096,), NUMERICS),
    "batch_queue._LENGTHS": ((16, 24, 36, 54, 80, 120, 180, 280, 420), NUMERICS),
    "batch_queue._BLOCK": ((2000000.0,), NUMERICS),
    "batch_queue._STATES": ((32,), NUMERICS),
    "batch_queue._HALVINGS": ((11,), NUMERICS),
    "batch_queue._THIRDS": ((3,), NUMERICS),
    "batch_queue._SMALL": ((16,), NUMERICS),
    "batch_queue._MOMENTS": ((6,), NUMERICS),
    "batch_queue._NORMAL": ((3.0, 3.0, 3.0, 6.0, 6.0), COUNTED),
    "batch_queue.latency_s": ((16,), NUMERICS),
    "batch_queue._lengths": ((0.5, 4.0, 7.0, 10.0), NUMERICS),
    "batch_queue._of_large_batches": ((0.5, 0.5), MEAN),
    "batch_queue._of_small_batches": ((4.0, 6.0), NUMERICS),
    "batch_queue._moments": ((0.5, 0.5, 0.5, 0.5), MEAN),
    "batch_queue._quantiles": ((1.001,), NUMERICS),
    "prefill._LIVE": (
        (12.0,),
        "tensors of a block that are live: residual, queries, keys, values, feed-forward of four times the width, each beside its copy",
    ),
    "prefill.tower_flops": ((4.0,), "scores and values: two products of two operations each"),
    "serving_columns.ADAPTED_MATRICES": ((7,), "definition: q, k, v, o, gate, up, down"),
    "operators._FLASH_BACKWARD_FLOPS": ((2.5,), "Dao 2023: five products instead of two"),
    "operators.uses_fused_kernel": ((7.0,), "definition: compute capability of the first tensor cores"),
    "classical_work.workspace_bytes": ((3.0,), "accounting: three square matrices"),
    "classical_work.MOST_LEVELS": ((40.0,), OVERFLOW),
    "classical_work.boosting_work": ((0.5,), COUNTED),
    "classical_work.exact_tree_work": ((0.5,), COUNTED),
    "classical_work.kernel_svm_work": ((0.5,), COUNTED),
    "classical_work.network_work": ((6.0,), COUNTED),
    "classical_work.JobColumns": ((4,), USUAL),
    "columns.SetupColumns": ((4, 6, 8, 8, 8, 10), USUAL),
    "interruption.GRID": ((1024,), NUMERICS),
    "interruption.LARGEST_LOG_REPEATS": ((30.0,), OVERFLOW),
    "interruption.REACH": ((14.0,), NUMERICS),
    "compute._fp8_casts": ((3.0,), "accounting: three inputs of the hidden size a layer"),
    "decode.layers_collective_s": ((3.0,), "accounting: 8 bit to the experts, 16 back"),
    "decode.product_peak": ((8.0,), "definition: compute capability of the cards that halve the rate"),
    "decode.within_power": ((0.25, 0.5), "definition: bits over 16"),
    "transformer.MASKED_SHARE": ((0.15,), "Devlin et al. 2019"),
    "transformer._other_matmuls": ((4,), "definition: expansion of two, for x and for z"),
    "operators.outlier_search_s": ((3.0, 4.0), "definition: matrices of a block: query, key, value, output; gate, up, down"),
    "operators.TILES": ((64.0, 64.0, 128.0, 128.0, 128.0, 256.0), "shapes that vendor libraries offer, NVIDIA's guide"),
    "operators.sustained_flops": ((0.5,), "definition: bits over 16"),
    "interruption.LARGEST_EXPONENT": ((300.0,), OVERFLOW),
    "interruption.NEVER_S": ((1e30,), OVERFLOW),
    "interruption.optimal_interval_s": ((3.0, 9.0), "Daly 2006, equation 37"),
    "waiting._MOST": ((0.9999,), CAP),
    "waiting.of_interruptions": ((0.5, 5.5556), "Shore 1982: quantile of the normal law from its tail"),
    "waiting.SLICES": ((6,), "numerics: shares of an exponential law"),
    "memory_states.decomposed_scratch_bytes": ((3.0,), "accounting: tensors kept"),
    "memory_states._block_bytes": ((3.0,), "accounting: tensors kept"),
    "memory_states.moe_bytes": ((3.0,), "accounting: tensors kept"),
    "memory_states.selective_bytes": ((0.5,), "definition: PyTorch's policy keeps every second product"),
    "transformer.PRODUCT_SHARES": ((0.3, 0.97), "definition: below, layers share weights; above, counts of products and parameters agree"),
    "transformer.LATENT_SHARE": ((0.95,), "definition: below, experts work in a latent width"),
    "transformer.expert_hidden_size": ((3.0,), "definition: matrices of a gated block"),
    "transformer.expert_parameters": ((3.0,), "definition: matrices of a gated block"),
    "transformer.shared_expert_parameters": ((3.0,), "definition: matrices of a gated block"),
    "transformer.mlp_parameters": ((3.0,), "definition: matrices of a gated block"),
    "queueing.ATOM_EDGES": (
        (0.08, 0.16, 0.24, 0.32, 0.4, 0.48, 0.56, 0.64, 0.72, 0.8, 0.86, 0.91, 0.95, 0.975, 0.9875, 0.995, 0.998, 0.9995),
        NUMERICS,
    ),
    "queueing.BISECTIONS": ((50,), NUMERICS),
    "queueing.CAPACITY_POINTS": ((33,), NUMERICS),
    "queueing.LoadColumns.mean_reserved": ((0.5,), MEAN),
    "queueing.slots": ((0.5,), MEAN),
    "queueing.steady": ((0.5,), MEAN),
    "queueing.ReplicaColumns.pieces": ((3.0, 4.0), "the slope between one piece and four"),
    "scaling.awake_share": ((700.0,), OVERFLOW),
    "scaling.scale_to_zero_break_even_per_s": ((0.5, 3.0, 10.0, 10.0, 12.0, 60), NUMERICS),
    "scaling.spot_mix": ((4,), "the columns of a table"),
    "serving_columns.ServeColumns": ((0.9, 8, 16, 256), USUAL),
    "serving_columns.STATE_HEAD": ((64.0,), "Dao and Gu 2024: the usual head of a state-space layer"),
    "serving_columns.prompt_workspace_bytes": ((3.0, 4.0), "accounting: gate, up and product; four tensors of the hidden size"),
    "step.forward_s": ((3.0,), "definition: of the three products of the head (forward, two gradients) the forward pass has one"),
    "step._context_s": ((3.0,), "accounting: keys and values forward, again and their gradients backward"),
    "passes.StepLayout": ((8,), USUAL),
    "passes._pass": ((0.001,), "guards against a device without samples"),
    "passes.compute_s": ((0.5, 3.0), "Dao 2023: fused kernels compute the scores again; Kaplan et al. 2020: three passes"),
    "passes.matrix_factor": ((3.0,), "Kaplan et al. 2020: three passes"),
    "passes.joined_terms": ((3.0,), "Kaplan et al. 2020: two of three passes"),
    "prompt_queue.BATCH_EDGES": ((0.25, 0.5, 0.75, 0.92), NUMERICS),
    "prompt_queue.GRID": ((112,), NUMERICS),
    "prompt_queue.GROUP_EDGES": ((0.15, 0.35, 0.55, 0.75, 0.9, 0.96, 0.985, 0.995), NUMERICS),
    "prompt_queue.PLACES": ((0.5, 6, 6.0), NUMERICS),
    "waiting.SCORES": (
        (0.126, 0.126, 0.3865, 0.3865, 0.6773, 0.6773, 0.999, 1.0446, 1.3486, 1.7027, 1.755, 2.0114, 2.3411, 2.8919),
        "means of the slices of a normal law (tests/physics/test_queueing.py works them out)",
    ),
    "waiting.SCORE_EDGES": ((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.88, 0.94, 0.97, 0.985, 0.995), NUMERICS),
    "waiting.SHARES": ((0.5, 0.95, 0.99), "the percentiles that are asked for"),
    "waiting.SMALLEST_SHAPE": ((0.15,), "the least shape that the formula of Wilson and Hilferty 1931 is asked for"),
    "prompt_queue.SPARE_STATES": ((40,), NUMERICS),
    "prompt_queue.SUB_ATOMS": ((12,), NUMERICS),
    "prompt_queue.TIME_BINS": ((2400,), NUMERICS),
    "waiting.WAIT_QUANTILES": ((0.5, 40, 40.0), NUMERICS),
    "waiting._decode_law": ((0.5, 0.97, 3.0, 9.0), "Wilson and Hilferty 1931; the rest of a step is half of it; " + CAP),
    "prompt_queue._grid": ((0.95, 4.0, 6.0), "how far the grid reaches, in deviations and backlogs; " + CAP),
    "prompt_queue._spread": ((0.5, 0.5), MEAN),
    "waiting._with_slot_wait": ((0.01,), CAP),
    "prompt_queue.backlog_factor": ((0.05, 0.97), CAP),
    "prompt_queue.batch_law": ((0.99,), CAP),
    "prompt_queue.families": ((0.95,), CAP),
    "waiting.latency": ((3,), "the three arrays of the result"),
    "prompt_queue.quantiles": ((0.01, 0.5), "no mass over 2 % is spread over more than its half"),
    "prompt_queue.sharing_step_s": ((40, 1e3), NUMERICS),
}


def literals(text: str, module: str) -> dict[str, tuple[float, ...]]:
    """Counted numbers of a module by where they stand: a constant, a function, a
    method or a class."""
    tree = ast.parse(text)
    plain = {id(node) for part in _structural(tree) for node in ast.walk(part)}
    found: dict[str, list[float]] = defaultdict(list)
    for place, part in _places(tree.body, module):
        for node in ast.walk(part):
            if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and _counts(node.value) and id(node) not in plain:
                found[place].append(node.value)
    return {place: tuple(sorted(numbers)) for place, numbers in found.items()}


def _counts(value: float) -> bool:
    return not isinstance(value, bool) and value not in PLAIN and abs(value) > GUARD


def _structural(tree: ast.AST) -> Iterator[ast.AST]:
    """Parts whose numbers are exponents, indices, axes or codes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            yield node.right
        elif isinstance(node, ast.Subscript):
            yield node.slice
        elif isinstance(node, ast.keyword) and node.arg in ("axis", "n"):
            yield node.value
        elif isinstance(node, ast.ClassDef) and any(isinstance(base, ast.Name) and base.id == "IntEnum" for base in node.bases):
            yield node


def _places(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _places([part for part in node.body if isinstance(part, ast.FunctionDef)], f"{prefix}.{node.name}")
            yield from ((f"{prefix}.{node.name}", part) for part in node.body if not isinstance(part, ast.FunctionDef))
        elif isinstance(node, ast.FunctionDef):
            yield f"{prefix}.{node.name}", node
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            yield f"{prefix}.{ast.unparse(target)}", node
        else:
            yield prefix, node


def test_numbers_have_a_source_or_a_reason() -> None:
    found = {place: numbers for file in sorted(FOLDER.glob("*.py")) for place, numbers in literals(file.read_text(), file.stem).items()}
    assert found == {place: numbers for place, (numbers, _) in ALLOWED.items()}
    assert all(len(reason) > 10 for _, reason in ALLOWED.values())


@pytest.mark.parametrize(
    ("line", "numbers"),
    [
        ("def f(x):\n    return 0.7 * x", {"one.f": (0.7,)}),
        ("FRACTION = 0.85", {"one.FRACTION": (0.85,)}),
        ("class Rates:\n    overlap: Array = column(0.8)", {"one.Rates": (0.8,)}),
        ("class Rates:\n    def f(self):\n        return 1.2", {"one.Rates.f": (1.2,)}),
        ("def f(x):\n    return 2.0 * x[3] ** 0.5 / max(x, 1e-9)", {}),
        ("class Kind(IntEnum):\n    THIRD = 3", {}),
    ],
)
def test_a_number_is_found_where_it_counts(line: str, numbers: dict[str, tuple[float, ...]]) -> None:
    assert literals(line, "one") == numbers
