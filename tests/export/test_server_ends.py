"""What the README says of the server when the job ends is what its first boot does."""

from __future__ import annotations

import re

import pytest
from typical_plans import plan_values

from rightfit.exports import find_target, job_of, plan_document
from rightfit.exports.bundle import server_line


@pytest.mark.parametrize("target", ["terraform-azure", "provider-cli"])
def test_azure_says_that_its_server_is_deallocated_and_what_is_billed_on(target: str) -> None:
    job = job_of(plan_document(plan_values("bert-azure")))
    said = server_line(job, target)
    assert "deallocated" in said
    assert f"its disk ({job.disk_gib} GiB)" in said
    assert "deleted when" not in said


@pytest.mark.parametrize(("name", "target"), [("lora-8b-aws", "terraform-aws"), ("lora-8b-aws", "skypilot"), ("bert-azure", "skypilot")])
def test_others_delete_it(name: str, target: str) -> None:
    job = job_of(plan_document(plan_values(name)))
    assert "is deleted" in server_line(job, target)
    assert not re.search("deallocate", "".join(find_target(target).files(job).values()))


@pytest.mark.parametrize("target", ["slurm", "kubernetes"])
def test_a_cluster_s_nodes_are_nobody_s_to_delete(target: str) -> None:
    assert server_line(job_of(plan_document(plan_values("lora-8b-aws"))), target) == ""
