"""`check` against the 28 server names of the blog posts, and against names and
claims of every kind."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from rightfit.errors import InputError
from rightfit.market import Catalog
from rightfit.market.check import check
from rightfit.market.server_names import parse_claims
from rightfit.market.verdicts import CheckResult

GIB = 2.0**30
with (Path(__file__).parent / "data" / "seed_check.csv").open(encoding="utf-8", newline="") as stream:
    SEEDS = list(csv.DictReader(stream))
# What the rows call a verdict, in the contract's words; half wrong is wrong, and the
# facts say which half.
VERDICTS = {
    "right": "right",
    "wrong": "wrong",
    "half wrong": "wrong",
    "right but retiring": "right",
    "right (model), count unstated": "right",
    "post 0 right, post 1 wrong": "wrong",
}


def one(catalog: Catalog, query: str) -> CheckResult:
    (answer,) = check([query], catalog=catalog)
    return answer


def test_all_28_rows_are_here() -> None:
    assert len(SEEDS) == 28
    assert {row["claim_verdict"] for row in SEEDS} == set(VERDICTS)


@pytest.mark.parametrize("row", SEEDS, ids=lambda row: row["name_in_post"])
def test_the_posts_names_come_out_as_written(catalog: Catalog, row: dict[str, str]) -> None:
    answer = one(catalog, f"{row['name_in_post']}={row['post_claim']}")
    assert answer.exists == row["exists"].startswith("yes")
    assert answer.claim == VERDICTS[row["claim_verdict"]]
    assert answer.kind == ("provider" if row["exists"] == "yes (provider)" else "server")
    assert answer.facts["provider"] == row["provider"]
    for name in re.findall(r"[\w.]+-[\w.-]+|GN\w+\.\w+", row["nearest_real_instances"]):
        assert name in answer.nearest
    assert answer.explanation_en
    assert answer.explanation_zh


@pytest.mark.parametrize(
    "row", [row for row in SEEDS if row["exists"] == "yes" and row["claim_verdict"] != "half wrong"], ids=lambda row: row["name_in_post"]
)
def test_the_facts_of_the_posts_servers_are_those_written(catalog: Catalog, row: dict[str, str]) -> None:
    facts = one(catalog, f"{row['name_in_post']}={row['post_claim']}").facts
    assert facts["instance_type"] == row["catalog_instance_type"]
    assert facts["vcpus"] == float(row["vcpus"])
    assert facts["memory_bytes"] == float(row["memory_gib"]) * GIB
    if row["gpu_name"]:
        assert facts["accelerator"]["name"] == row["gpu_name"]
        assert facts["accelerator"]["count"] == float(row["gpu_count"])
        assert facts["accelerator"]["memory_bytes"] == pytest.approx(float(row["gpu_memory_gib_each"]) * GIB)
    else:
        assert facts["accelerator"] is None
    assert (facts["network_gbps"] or 0) == pytest.approx(float(row["network_gbps"] or 0))
    assert facts["price"]["price_usd_per_h"] == pytest.approx(float(row["price_usd_hour_example"].split()[0]), rel=1e-3)
    [written] = re.findall(r"\d{4}-\d{2}-\d{2}", row["price_usd_hour_example"])
    assert facts["price"]["as_of"] >= written  # read again since, and unchanged


def test_each_statement_of_a_claim_has_its_own_verdict(catalog: Catalog) -> None:
    answer = one(catalog, "g5.xlarge=post 0: A10G; post 1: 1 x T4")
    assert [claim["verdict"] for claim in answer.facts["claims"]] == ["right", "wrong"]
    answer = one(catalog, "A2 instance (H100/A100)=A2 offers H100 or A100")
    assert [claim["verdict"] for claim in answer.facts["claims"]] == ["wrong", "right"]
    assert "a2-highgpu-8g" in answer.facts["members"]


def test_a_series_that_never_had_the_claimed_card_says_so(catalog: Catalog) -> None:
    answer = one(catalog, "ecs.gn7i-c8g1.4xlarge=A10 / T4")
    assert "always with A10" in answer.explanation_en
    assert "ecs.gn7i-c8g1.2xlarge" in answer.explanation_en
    assert "ecs.gn7i-c16g1.4xlarge" in answer.explanation_zh


def test_a_server_on_its_way_out_names_what_stands_in(catalog: Catalog) -> None:
    answer = one(catalog, "p3.2xlarge=V100")
    assert answer.facts["status"] == "retiring"
    assert "being withdrawn" in answer.explanation_en
    assert "即将下线" in answer.explanation_zh
    assert "g5.xlarge" in answer.nearest
    azure = one(catalog, "Standard_NC24rs_v3")
    assert (azure.facts["status"], azure.nearest[0]) == ("retired", "Standard_NC96ads_A100_v4")


@pytest.mark.parametrize(
    ("query", "verdict"),
    [
        ("g5.xlarge=T4", "wrong"),
        ("A2=H100", "wrong"),
        ("A100=40GB", "right"),
        ("A100=80GB", "right"),
        ("A100=24GB", "wrong"),
        ("H100=A100", "wrong"),
        ("A10=24GB", "right"),
        ("p4d.24xlarge=8 x A100 80GB", "wrong"),
        ("p4d.24xlarge=8xA100 40G", "right"),
        ("p4d=8*A100", "right"),
        ("p4d.24xlarge=4 x A100", "wrong"),
        ("p5.48xlarge=3200 Gbps EFA", "right"),
        ("p5.48xlarge=400 Gbps", "wrong"),
        ("p5.48xlarge=InfiniBand", "wrong"),
        ("p5.48xlarge=$55.04/h", "right"),
        ("p5.48xlarge=$98.32/h", "wrong"),
        ("p5.48xlarge=192 vCPU 2048 GiB", "right"),
        ("p5.48xlarge=96 vCPU", "wrong"),
        ("p5.48xlarge=512 GB", "wrong"),
        ("p5.48xlarge=the best", "unknown"),
        ("m5.xlarge=T4", "wrong"),
        ("g4dn.xlarge=CPU server", "wrong"),
        ("ecs.gn7e-c16g1.8xlarge=1 x A100", "wrong"),
        ("ecs.gn7e-c16g1.8xlarge=2卡A100 80G", "right"),
        ("r7.8xlarge=32核256G", "right"),
        ("aws/g5.xlarge=24GB", "right"),
        ("NDv4=8 x A100", "right"),
        ("NDm A100 v4=8 x A100 80GB", "right"),
        ("NDv4=8 x A100 80GB", "wrong"),
        ("NC_T4_v3=T4", "right"),
        ("A2 up to 16 x A100", "right"),
        ("A2 up to 8 x A100", "wrong"),
        ("G2=L4", "right"),
        ("gn7i=T4", "wrong"),
        ("Lambda GPU Cloud=GPU cloud provider", "right"),
        ("hetzner=GPU cloud", "wrong"),
        ("阿里云=GPU云厂商", "right"),
        ("Llama-3-8B=8B", "right"),
        ("Llama-3-8B=13B", "wrong"),
        ("g5.xlarge", None),
        ("no-such-thing=8B", "unknown"),
    ],
)
def test_claims(catalog: Catalog, query: str, verdict: str | None) -> None:
    assert one(catalog, query).claim == verdict


@pytest.mark.parametrize(
    ("query", "kind", "exists"),
    [
        ("g5.xlarge", "server", True),
        ("G5.XLARGE", "server", True),
        ("gn6i-c4g1.xlarge", "server", True),
        ("nd96asr_v4", "server", True),
        ("azure/Standard_ND96asr_v4", "server", True),
        ("g5.tiny", "server", False),
        ("Standard_ND96asr_v9", "server", False),
        ("a3-highgpu-16g", "server", False),
        ("A2", "accelerator", True),
        ("A2 instance", "server", True),
        ("A100", "accelerator", True),
        ("H100", "accelerator", True),
        ("4090", "accelerator", True),
        ("aws", "provider", True),
        ("腾讯云", "provider", True),
        ("Llama-3-8B", "model", True),
        ("llama-3-8c", "model", False),
    ],
)
def test_kinds(catalog: Catalog, query: str, kind: str, exists: bool) -> None:
    answer = one(catalog, query)
    assert (answer.kind, answer.exists) == (kind, exists)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("g5.xlarge=T4", "g4dn.xlarge"),
        ("A2=H100", "a3-highgpu-8g"),
        ("ecs.gn7e-c16g1.8xlarge=1 x A100", "ecs.gn7e-c16g1.4xlarge"),
        ("p4d.24xlarge=8 x A100 80GB", "p4de.24xlarge"),
        ("p5.12xlarge=4 x H100", "p5.4xlarge"),
        ("Standard_ND96asr_v5=8 x H100", "Standard_ND96isr_H100_v5"),
        ("a3-highgpu-16g", "a3-highgpu-8g"),
        ("g5.9xlarge", "g5.8xlarge"),
        ("g5.tiny", "g5.xlarge"),
        ("GN7.3XLARGE32=T4", "GN7.2XLARGE32"),
        ("X100", "A100"),
        ("llama-3-8c", "meta-llama/Meta-Llama-3-8B"),
        ("Standard_ND96asr_A100_v4", "Standard_ND96asr_v4"),
    ],
)
def test_the_nearest_names(catalog: Catalog, query: str, name: str) -> None:
    assert name in one(catalog, query).nearest


def test_the_answer_is_the_contracts_object(catalog: Catalog) -> None:
    answer = one(catalog, "g5.xlarge=T4")
    english, chinese = answer.to_dict(), answer.to_dict(lang="zh")
    assert list(english) == ["query", "kind", "exists", "claim", "facts", "nearest", "explanation"]
    assert english["explanation"] != chinese["explanation"]
    assert "it has 1 x A10G, not T4" in english["explanation"]
    assert "它是 1 x A10G，不是 T4" in chinese["explanation"]


def test_a_rule_may_answer_first(catalog: Catalog) -> None:
    def rule(query: str) -> CheckResult | None:
        return CheckResult(query, "rule", True, "wrong", {}, (), "en", "zh") if query.startswith("VRAM") else None

    answers = check(["VRAM >= 1.5x", "g5.xlarge"], catalog=catalog, rule=rule)
    assert [(answer.query, answer.kind) for answer in answers] == [("VRAM >= 1.5x", "rule"), ("g5.xlarge", "server")]


@pytest.mark.parametrize("query", ["", "   ", "=T4", "x" * 500])
def test_empty_and_endless_names_are_refused(catalog: Catalog, query: str) -> None:
    with pytest.raises(InputError, match=r"g5\.xlarge=T4"):
        check([query], catalog=catalog)


@pytest.mark.parametrize(
    "query",
    ["(((((=)))))", "a" * 390, "{name}={claim}", "%s=%d", "x x x x/x/x=/;/;", "ecs..=..", "Standard_=v", "💥=💥", "c1g0.0xlarge=0 x T4"],
)
def test_odd_text_is_answered_without_a_crash(catalog: Catalog, query: str) -> None:
    answer = one(catalog, query)
    assert not answer.exists
    assert answer.query == query


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("8 x A100", {"count": 8, "accelerator_words": "A100"}),
        ("8 块 A800 80G", {"count": 8, "accelerator_words": "A800", "accelerator_memory_bytes": 80e9}),
        ("RTX 4090 x 2", {"count": 2, "accelerators": ("RTX-4090",)}),
        ("A10G", {"accelerators": ("A10G",), "accelerator_memory_bytes": 0.0}),
        ("32 cores 256GB", {"vcpus": 32, "memory_bytes": 256e9}),
        ("3200 Gbps EFA", {"network_bytes_per_s": 400e9, "rdma": "efa"}),
        ("general CPU server", {"cpu_only": True}),
        ("up to 16 x A100 per VM", {"up_to": True, "count": 16}),
        ("$1.006/h", {"price_usd_per_h": 1.006}),
        ("70B", {"parameters": 70e9}),
    ],
)
def test_what_a_claim_says(text: str, expected: dict[str, object]) -> None:
    (claim,) = parse_claims(text)
    assert {name: getattr(claim, name) for name in expected} == expected


@pytest.mark.parametrize("text", ["16 核 64GB {}", "{} 16G 8核 61GB", "64GB 内存 {}", "8 vCPUs, {} and 32 GB of RAM", "8核32G {}"])
@pytest.mark.parametrize("card", ["T4", "V100", "A10G"])
def test_memory_beside_cores_is_the_hosts(text: str, card: str) -> None:
    claims = parse_claims(text.format(card))
    (host,) = [claim for claim in claims if claim.memory_bytes]
    assert host.is_host_memory
    assert all(not claim.accelerator_memory_bytes or claim.accelerator_memory_bytes == 16e9 for claim in claims)
    assert any(claim.accelerators for claim in claims)


def test_a_claim_may_hold_several_statements() -> None:
    claims = parse_claims("A10 (post a) / T4 (post b) / 1 x A10 32GB (post c)")
    assert [(claim.accelerators, claim.count, claim.accelerator_memory_bytes) for claim in claims] == [
        (("A10",), 0, 0.0),
        (("T4",), 0, 0.0),
        (("A10",), 1, 32e9),
    ]


@pytest.mark.parametrize(
    ("name", "successor", "nearest"),
    [
        ("g2.2xlarge", "g4dn", "g4dn.2xlarge"),
        ("cg1.4xlarge", "g4dn", "g4dn.4xlarge"),
        ("t1.micro", "t3", "t3.micro"),
        ("cc2.8xlarge", "c5", "c5."),
    ],
)
def test_a_family_of_the_past_leads_to_what_took_its_place(catalog: Catalog, name: str, successor: str, nearest: str) -> None:
    found = check([name], catalog=catalog)[0].to_dict(lang="en")
    assert not found["exists"]
    assert f"no longer sells the family {name.split('.')[0]}; {successor} took its place" in found["explanation"]
    assert found["nearest"][0].startswith(nearest)


def test_every_successor_is_a_family_of_the_catalog(catalog: Catalog) -> None:
    from rightfit.market.server_names import _former_families

    servers = catalog.servers()
    families = set(zip(servers.provider, servers.family, strict=True))
    for provider, former in _former_families().items():
        assert {(provider, entry["successor"]) for entry in former.values()} <= families
        assert not {(provider, family) for family in former} & families
        assert all(entry["source"] for entry in former.values())


@pytest.mark.parametrize("name", ["datacrunch/1A100.22V", "Verda/1A100.22V", "amazon/g5.xlarge"])
def test_a_cloud_may_go_by_its_old_or_another_name(catalog: Catalog, name: str) -> None:
    assert check([name], catalog=catalog)[0].to_dict(lang="en")["exists"]
