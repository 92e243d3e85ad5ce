"""Every attribute of a workload holds what it is declared to hold, whichever way it was given;
pydantic's strict reading is the judge."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any, get_type_hints

import pytest
from pydantic import TypeAdapter

from rightfit.errors import InputError
from rightfit.workload import Workload
from rightfit.workload.attributes import Attributes
from rightfit.workload.options import OPTIONS, read_wish

HINTS = get_type_hints(Attributes)
ATTRIBUTES = {name: option for option in OPTIONS.values() for name in option.attributes}


def judge(attributes: dict[str, Any]) -> None:
    for name, value in attributes.items():
        found = TypeAdapter(HINTS[name]).validate_python(value, strict=True)
        assert type(found) is type(value), (name, value)  # 3 passes as a float and is none


@pytest.mark.parametrize("name", OPTIONS)
def test_an_option_sets_attributes_of_their_kind(name: str) -> None:
    option = OPTIONS[name]
    words = option.vocabulary.words if option.vocabulary else ()
    judge(read_wish(name, option.example))
    for value in (*words, 1, 2, 3.0, 0.5, "7", "0.9", True, False, ["1"], ["a", "b"]):
        try:
            read = read_wish(name, value)
        except InputError:
            continue
        judge(read)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_attribute_takes_its_kind_and_refuses_the_rest_in_one_line(name: str) -> None:
    for value in (1, 2.0, 2.5, "x", "3h", True, False, float("nan"), float("inf"), -1, 10**400, (), {}, b"x", object()):
        try:
            read, refused = read_wish(name, value), None
        except InputError as error:
            read, refused = {}, error
        judge(read)
        assert refused is None or (refused.field in (name, ATTRIBUTES[name].name) and len(str(refused).splitlines()) == 1), value


def test_what_rules_settle_is_of_its_kind() -> None:
    wishes = (
        {"model": "7B"},
        {"model": "7B", "rate": "10/s"},
        {"model": "resnet50", "data": "imagenet"},
        {"model": "7B", "users": 10, "latency": "3s"},
        {"model": "xgboost", "data": "1Mrows x 30cols"},
        {"task": "prepare", "data": "1TB"},
    )
    for wish in wishes:
        workload = Workload(**wish)
        judge({field.name: getattr(workload, field.name) for field in dataclasses.fields(workload)})


def test_a_workload_is_a_record() -> None:
    workload = Workload(model="7B", gpu="H100", deadline="3h")
    assert pickle.loads(pickle.dumps(workload)) == workload
    assert hash(workload) == hash(Workload(model="7B", gpu=["H100"], deadline_s=10800))
    assert repr(workload).startswith("Workload(model='7B', task='finetune'")
    settled = workload.settled(method="full", assumed=())
    assert (settled.method, settled.deadline_s, workload.method) == ("full", 10800.0, "lora")
    assert type(settled) is Workload
    with pytest.raises(TypeError, match="no attribute mehtod"):
        workload.settled(mehtod="full")
    with pytest.raises(AttributeError):
        del workload.model


def test_reading_a_wish_loads_no_library_of_models() -> None:
    import subprocess
    import sys

    script = "import sys; from rightfit.workload import Workload; Workload(model='7B'); print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
