"""The data path inside the search: starved servers lose rank and say so; data elsewhere
cost their transfer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from rightfit.errors import RightfitError
from rightfit.estimation.data_path import volumes
from rightfit.planner.given import estimate_one
from rightfit.planner.plan import plan, search
from rightfit.proof.left_out import substituted
from rightfit.workload import Workload
from rightfit.workload.vocabulary import VOCABULARIES

WISH: dict[str, Any] = {
    "model": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "task": "finetune",
    "method": "lora",
    "data": "50Mtok",
    "cloud": "aws",
    "gpu": "T4",
}
FEW, MANY = "g4dn.xlarge", "g4dn.8xlarge"


@pytest.fixture
def heavy_text() -> Iterator[None]:
    """As if a core prepared some ten thousand tokens a second: text with much work before it."""
    with substituted({"loading": {"text_s_per_token": 3e-3}}):
        yield


def run_of(found: Any, name: str) -> tuple[float, float]:
    """Computing and run time on one server of a name [s]."""
    row = found.market.offers.servers.instance_type.index(name)
    return float(found.path.compute_s[row, 0]), float(found.path.run_s[row, 0])


def test_tokenised_text_never_starves_a_card() -> None:
    found = search(Workload(**WISH))
    known = np.isfinite(found.path.run_s)
    assert (found.path.run_s[known] == found.path.compute_s[known]).all()


@pytest.mark.usefixtures("heavy_text")
def test_servers_with_few_vcpus_wait_and_lose_rank() -> None:
    """Both have one T4: the computing is the same, the wait is not, and a server with more vCPUs
    wins though it costs more an hour."""
    found = search(Workload(**WISH, decode="text"))
    (compute_few, run_few), (compute_many, run_many) = run_of(found, FEW), run_of(found, MANY)
    assert compute_few == compute_many
    assert run_few > 2 * run_many
    ranked = [option.instance_type for option in plan(Workload(**WISH, decode="text", purchase="on-demand", max_nodes=1), top=50).options]
    plain = [option.instance_type for option in plan(Workload(**WISH, purchase="on-demand", max_nodes=1), top=50).options]
    assert plain[0] == FEW
    assert ranked[0] != FEW


@pytest.mark.usefixtures("heavy_text")
def test_a_starved_server_says_why() -> None:
    option = estimate_one(Workload(**WISH, decode="text"), on=f"aws/{FEW}").best
    assert option is not None
    data = option.data_path
    assert data["stall_share"] > data["rule_share"]
    assert data["limit"] == "prepare"
    assert data["needed_cores"] > data["cores"]
    assert "data_starved_prepare" in {reason.key for reason in option.warnings}
    waiting = option.time_terms["loading_s"]
    assert waiting / sum(option.time_terms.values()) == pytest.approx(data["stall_share"], rel=0.02)
    assert option.estimate["step_s"].mid == pytest.approx(sum(option.time_terms.values()))


def test_data_in_another_region_cost_their_transfer() -> None:
    """10 GB from us-east-1 to servers in Frankfurt; in us-east-1 they cost nothing."""
    wish = WISH | {"data": "10GB", "gpu": "A10G", "purchase": "on-demand", "data_location": "aws/us-east-1"}
    near = plan(Workload(**wish, region="us-east-1"), top=1).best
    far = plan(Workload(**wish, region="eu-central-1"), top=1).best
    assert near is not None
    assert far is not None
    assert (near.data_path["moved_usd"], near.data_path["upload_s"]) == (0, 0)
    assert far.data_path["moved_usd"] == pytest.approx(10 * 0.02, rel=0.01)
    assert far.data_path["upload_s"] == pytest.approx(10e9 / 1e8)
    assert far.cost.terms["egress_usd"] - near.cost.terms["egress_usd"] >= far.data_path["moved_usd"] - 0.01


def test_checkpoints_by_hand() -> None:
    option = estimate_one(Workload(**WISH), on=f"aws/{FEW}").best
    assert option is not None
    part = option.data_path["checkpoint"]
    assert part["bytes"] == option.facts["checkpoint_bytes"]
    assert part["write_s"] == pytest.approx(part["bytes"] / option.data_path["disk_bytes_per_s"])
    assert part["count"] * part["interval_s"] >= option.facts["run_s"] - 1e-6
    assert part["object_usd"] == pytest.approx(
        2 * part["bytes"] / 1e9 * 0.023 * option.estimate["total_time_s"].mid / (730 * 3600), rel=0.02
    )


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"storage": "gp33"}, "gp3"),
        ({"storage": "\u4e91\u76d8"}, "unknown storage"),
        ({"data_location": "mars"}, "unknown region"),
        ({"decode": "dali"}, "language model"),
        ({"decode": "tokenized text"}, "decode"),
        ({"workers": 0}, "workers"),
        ({"workers": "many"}, "workers"),
    ],
)
def test_bad_wishes_have_one_clear_line(wish: dict[str, Any], says: str) -> None:
    with pytest.raises(RightfitError, match=says) as raised:
        plan(Workload(**(WISH | wish)), top=1)
    assert "\n" not in str(raised.value)


def test_a_common_word_for_a_disk_is_the_usual_volume_of_its_kind() -> None:
    known = {volume.name: volume.kind for kinds in volumes().values() for volume in kinds}
    places = {"local": "local", "memory": "ram", "stream": "object"}
    for word, meant in VOCABULARIES["storages"].aliases.items():
        assert Workload(**(WISH | {"storage": word})).storage == meant
        assert meant in places or meant in known, f"{word} means {meant}, which no cloud has"
    for name, kind in known.items():
        taken = Workload(**(WISH | {"storage": name})).storage
        assert places.get(str(taken), known.get(str(taken))) == kind, f"{name} is taken as {taken}"
    assert known[str(Workload(**(WISH | {"storage": "Lustre"})).storage)] == "file"


def test_a_disk_that_a_cloud_does_not_have_is_said() -> None:
    wish = {key: value for key, value in WISH.items() if key not in ("cloud", "gpu")} | {"data": "300GB"}
    other = plan(Workload(**wish, cloud="gcp", storage="gp3"), top=1).best
    own = plan(Workload(**wish, cloud="aws", storage="gp3"), top=1).best
    assert other is not None
    assert own is not None
    assert "storage_not_there" in {reason.key for reason in other.warnings}
    assert "storage_not_there" not in {reason.key for reason in own.warnings}
    assert (own.data_path["why"], own.data_path["volume"]) == ("asked", "gp3")
