"""What training software does, found by name: habits, optimizers, formats, matrices
that take an adapter."""

from __future__ import annotations

import dataclasses
import difflib

import pytest

from rightfit import facts
from rightfit.facts import trainers
from rightfit.facts.trainers import (
    Habits,
    adapter_targets,
    habits_of,
    optimizer,
    packed_base,
    splits_of,
    stack_habits,
    stack_rules,
    stack_settings,
    strange_words,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("q,v", (1, 1, 0, 0, 0)),
        ("q,k,v,o", (1, 2, 1, 0, 0)),
        ("q_proj+k_proj+v_proj+o_proj", (1, 2, 1, 0, 0)),
        ("all-linear", (1, 2, 1, 2, 1)),
        ("ALL (all linear)", (1, 2, 1, 2, 1)),
        ("c_attn,c_proj,w1,w2", (1, 2, 1, 2, 1)),
        ("DEFAULT(c_attn/qkv)", (1, 2, 0, 0, 0)),
        ("query_key_value,dense,dense_h_to_4h,dense_4h_to_h", (1, 2, 1, 1, 1)),
        ("W_pack", (1, 2, 0, 0, 0)),
        (r"model.layers.[\d]+.(mlp|self_attn).(up|down|gate|q|k|v|o)_proj", (1, 2, 1, 2, 1)),
        ("", (1, 1, 0, 0, 0)),
    ],
)
def test_targets(text: str, expected: tuple[int, ...]) -> None:
    found = adapter_targets(text)
    assert (found.query, found.key_value, found.output, found.up, found.down) == expected


def test_blocks_and_the_head_are_targets() -> None:
    assert adapter_targets("mlp") == adapter_targets("gate,up,down") == adapter_targets("ffn")
    assert adapter_targets("q,v,o,mlp") == adapter_targets("q,v,o,gate,up,down")
    path = adapter_targets(r"model.layers.[\d]+.(mlp|self_attn).(q|k|v|o)_proj")
    assert path.query == path.output == 1.0
    assert adapter_targets("head").head == adapter_targets("q,v,head").head == adapter_targets("all+output").head == 1.0
    assert (
        adapter_targets("q,k,v,o").head == adapter_targets("all").head == adapter_targets("c_attn,w1 + wte+lm_head trainable").head == 0.0
    )


def test_every_rule_names_its_source() -> None:
    for table in ("frameworks", "optimizers", "quantizations", "dtypes", "accelerator_variants"):
        assert all(row["source"].strip() for row in facts.table(table)), table


# Settings of frameworks.csv that have no usual value in its first row: absent means that nothing is
# known or that it is not so.
OPTIONAL_SETTINGS = frozenset({"weights", "nf4", "loss", "compiled"})
METHOD_WORDS = frozenset({"full", "lora", "qlora", "dora", "ptuning", "prefix", "freeze"})


@pytest.mark.parametrize("row", facts.table("frameworks")[1:], ids=lambda row: row["source"][:40])
def test_every_habit_of_a_framework_is_one_that_is_read(row: dict[str, str]) -> None:
    """A setting under a wrong name, or for a method that there is not, would be without effect."""
    known = {pair.split("=", 1)[0] for pair in facts.table("frameworks")[0]["set"].split(";")} | OPTIONAL_SETTINGS
    known |= {found["name"] for found in facts.table("quantizations")}  # how the framework stores such weights
    name = row["framework"] or row["flags"] or row["source"][:40]
    for pair in row["set"].split(";"):
        key, sign, value = pair.partition("=")
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        assert sign, f"frameworks.csv: {name}: {pair!r} is not name=value; several are parted by ';'"
        assert value or key == "attention_forced", f"frameworks.csv: {name}: {key} has no value"
        assert key in known, f"frameworks.csv: {name}: nothing reads the setting {key!r}{hint}"
    strange = set(filter(None, row["method"].split("|"))) - METHOD_WORDS
    assert not strange, f"frameworks.csv: {name}: no method is called {', '.join(strange)}"
    for column in ("framework", "flags", "strategy", "weights", "model", "optimizer"):
        assert row[column] == row[column].lower(), f"frameworks.csv: {name}: {column} is compared in small letters"
    assert row["source"].strip(), f"frameworks.csv: {name} has no source"


def test_a_plan_is_not_moved_by_rules_that_only_a_measured_run_can_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Flags, layouts, stored weights and dates are words of rows: whatever their patterns match,
    the habits of a named stack stay."""
    stacks = ("", "transformers", "megatron-lm", "torchtitan", "axolotl")
    before = [stack_settings(framework=name, method=method) for name in stacks for method in ("full", "qlora")]
    rules = stack_rules()
    loose = [
        rule._replace(flags=rule.flags and ".*", before=rule.before and "9999-12", strategy=rule.strategy and "zero3|ddp|single")
        for rule in rules
    ]
    assert loose != list(rules)
    monkeypatch.setattr(trainers, "stack_rules", lambda: tuple(loose))
    assert [stack_settings(framework=name, method=method) for name in stacks for method in ("full", "qlora")] == before


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Habits)])
def test_every_habit_has_a_usual_value(field: str) -> None:
    habits = habits_of(stack_rules()[0].settings)
    assert getattr(habits, field) is not None or field in ("weights", "residual")


def test_habits_by_name() -> None:
    plain = stack_habits(framework="", method="full", model="meta-llama/Meta-Llama-3-8B", optimizer="adamw")
    megatron = stack_habits(framework="megatron-lm", method="full", model="meta-llama/Meta-Llama-3-8B", optimizer="adamw")
    assert (plain.gradient, plain.accumulation, megatron.gradient, megatron.accumulation) == (2.0, 0.0, 0.0, 4.0)
    assert stack_habits(framework="transformers", method="lora", model="bert-base", optimizer="").dropout == 0.1


def test_optimizers_and_formats_by_name() -> None:
    assert (optimizer("").states, optimizer("paged_adamw_32bit").paged, optimizer("lomo").gradient_kept) == (2.0, True, 0.0)
    packed = packed_base("nf4", nf4="nf4-dq", always=False)
    assert packed is not None
    assert packed.name == "nf4-dq"
    assert packed_base("bf16", nf4="", always=False) is None


@pytest.mark.parametrize(
    ("text", "strange"),
    [("transformers 4.38+peft", []), ("megatron-lm", []), ("axolotl acmetune", ["acmetune"]), ("ms swift v3", []), ("zzz", ["zzz"])],
)
def test_words_that_name_no_framework(text: str, strange: list[str]) -> None:
    assert strange_words(text) == strange


def test_which_stacks_split_a_model() -> None:
    assert splits_of("NeMo 2.0") == (True, True)
    assert splits_of("torchtitan") == (True, False)
    assert splits_of("transformers") == splits_of("") == (False, False)
