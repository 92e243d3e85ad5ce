"""Every export of plans of all kinds by checkers of good practice. What they find is mended where
it is written; what stays is an exception with its reason in data/checker_exceptions.toml, and none
of these is out of use."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from checkers import CHECKERS, EXCEPTIONS, excused, program, told
from jobs import job
from typical_plans import FURTHER, OTHER_KINDS, WISHES

from rightfit.exports import files_of, write_files
from rightfit.exports.fleets import FLEET_TARGETS, files_of_fleet

FLEET: dict[str, Any] = json.loads((Path(__file__).parent / "data/fleet.json").read_text("utf-8"))
VARIANTS: dict[str, dict[str, Any]] = {
    "lora-8b-aws": {"bucket": "s3://mine/runs", "ssh_cidr": "203.0.113.7/32"},
    "full-8b-gcp": {"bucket": "gs://mine/runs", "queue": "kueue/team-a"},
    "full-70b": {"bucket": "s3://mine/runs", "queue": "volcano/team-a"},
}
"""Plans with what their users may add: a bucket and an address of their own, a
queue of their cluster."""


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TARGET/PLAN/FILE of every plan, with what stands around the targets under
    "bundle", and the fleets'."""
    folder = tmp_path_factory.mktemp("exports")
    plans = [(name, name, {}) for name in (*WISHES, *FURTHER, *OTHER_KINDS)]
    for name, plan, settings in [*plans, *((f"{plan}-more", plan, settings) for plan, settings in VARIANTS.items())]:
        found = job(plan, **settings)
        for path, text in files_of(found, "all").items():
            target, _, rest = path.rpartition("/") if path.count("/") == 0 else path.partition("/")
            write_files({f"{target or 'bundle'}/{name}/{rest}": text}, folder, force=True)
        if (folder / "cloudformation" / name).is_dir():
            (folder / "cloudformation" / name / "REGION").write_text(found.option.region)
    for target in FLEET_TARGETS:
        write_files({f"fleet-{target}/fleet/{path}": text for path, text in files_of_fleet(FLEET, target).items()}, folder, force=True)
    return folder


used: set[int] = set()


@pytest.mark.parametrize("name", CHECKERS)
def test_nothing_is_found_that_is_not_excused(name: str, exports: Path) -> None:
    if program(name) is None:
        pytest.skip(f"{name} is not installed")
    found = list(CHECKERS[name](exports))
    numbers = [excused(one) for one in found]
    used.update(number for number in numbers if number is not None)
    assert None not in numbers, told(one for one, number in zip(found, numbers, strict=True) if number is None)
    unused = [one["rule"] for number, one in enumerate(EXCEPTIONS) if one["checker"] == name and number not in used]
    assert not unused, f"exceptions that nothing needs any more: {unused}"


def test_every_exception_has_its_reason() -> None:
    for one in EXCEPTIONS:
        assert one["checker"] in CHECKERS
        assert len(one["reason"]) > 20, one["rule"]
        assert set(one) <= {"checker", "rule", "targets", "said", "reason"}


FAULTS = {
    "yamllint": ("x/p/a.yaml", "a: 1\na: 2\n", "key-duplicates"),
    "shellcheck": ("x/p/a.sh", "#!/bin/sh\nrm -rf $1/*\n", "SC2086"),
    "bandit": ("x/p/a.py", "import subprocess\nsubprocess.run('ls ' + input(), shell=True)\n", "B602"),
    "hadolint": ("x/p/Dockerfile", 'FROM python\nCMD ["python"]\n', "DL3006"),
    "cfn-lint": (
        "cloudformation/p/template.yaml",
        "Resources:\n  A:\n    Type: AWS::S3::Bucket\n    Properties:\n      Nmae: x\n",
        "E3002",
    ),
    "kubernetes-validate": ("x/p/a.yaml", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\nspec: {prots: []}\n", "Service"),
    "checkov": (
        "x/p/main.tf",
        'resource "aws_security_group_rule" "a" {\n  type        = "ingress"\n  from_port   = 22\n  to_port     = 22\n  protocol    = "tcp"\n'
        '  cidr_blocks = ["0.0.0.0/0"]\n}\n',
        "CKV_AWS_24",
    ),
}
"""Checker -> (path, a file with a fault, the rule that names it)."""


@pytest.mark.parametrize("name", CHECKERS)
def test_a_fault_is_found(name: str, tmp_path: Path) -> None:
    if program(name) is None:
        pytest.skip(f"{name} is not installed")
    path, text, rule = FAULTS[name]
    write_files({path: text, str(Path(path).with_name("REGION")): "us-east-1\n"}, tmp_path / "exports")
    found = [one for one in CHECKERS[name](tmp_path / "exports") if one.rule == rule]
    assert found
    assert excused(found[0]) is None
