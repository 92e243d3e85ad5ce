"""Every source of prices against its fake over real HTTP: what rows it gives, and what it says when
something is wrong."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fakes import clouds
from fakes.server import Fake, running

from rightfit.errors import NetworkError, UnknownNameError
from rightfit.market import providers
from rightfit.market.providers.base import Client, InterruptionRow, Known, KnownServer, MarketRow, Pace, PriceRow, Row, ServerRow

pytest.importorskip("httpx")
FAST = Pace(between_s=0.0, first_pause_s=0.001, longest_pause_s=0.01, timeout_s=0.5, tries=4)
SECRETS = ("secret detail", "wrong-secret", "AKIAEXAMPLE")


@pytest.fixture
def fake() -> Iterator[Fake]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, fake: Fake, tmp_path: Path) -> None:
    """Every address leads to the fake; no credentials of this machine are seen."""
    for name in (
        "azure",
        "verda",
        "lambda",
        "runpod",
        "vast",
        "oci",
        "skypilot",
        "gpuhunt",
        "gcp",
        "crusoe",
        "aws_advisor",
        "aws_spot",
        "aws_page",
        "gcp_list",
        "tencent_list",
        "alicloud_list",
    ):
        monkeypatch.setenv(f"RIGHTFIT_ENDPOINT_{name.upper()}", f"{fake.url}/{name}")
    monkeypatch.setenv("RIGHTFIT_ENDPOINT_ALICLOUD_PAGE", f"{fake.url}/alicloud_list/page")
    for name in ("alicloud", "tencent"):
        monkeypatch.setenv(f"RIGHTFIT_ENDPOINT_{name.upper()}", fake.url)
    monkeypatch.setenv("AWS_ENDPOINT_URL_PRICING", f"{fake.url}/pricing")
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", f"{fake.url}/ec2")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIAEXAMPLE", "AWS_SECRET_ACCESS_KEY": "wrong-secret"}.items():
        monkeypatch.setenv(name, value)
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "TENCENTCLOUD_SECRET_ID"):
        monkeypatch.setenv(name, "AKIAEXAMPLE")
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "TENCENTCLOUD_SECRET_KEY"):
        monkeypatch.setenv(name, "wrong-secret")


def known(provider: str, *, regions: tuple[str, ...] = (), servers: tuple[KnownServer, ...] = ()) -> Known:
    return Known({provider: regions}, {provider: {server.instance_type: server for server in servers}})


def ask(name: str, part: str = "", *, world: Known | None = None, pace: Pace = FAST) -> list[Row]:
    module = providers.provider(name)
    context = world or known(module.covers[0])
    with Client(name, credentials=module.needs.credentials, pace=pace) as client:
        return list(module.fetch(client, part or module.parts(context)[0], inventory=context))


def prices(rows: list[Row]) -> dict[tuple[str, str, str], tuple[float, str]]:
    return {
        (row.instance_type, row.region, row.purchase): (round(row.price / row.hours, 9), row.currency)
        for row in rows
        if isinstance(row, PriceRow)
    }


# ---- Azure, and everything that can go wrong with HTTP -------------------------------------------

T4 = {
    (f"Standard_NC{n}as_T4_v3", "eastus", mode): n * 0.1 * (0.3 if mode == "spot" else 1)
    for n in (4, 8, 16, 64)
    for mode in ("on-demand", "spot")
}


def test_azure_pages_are_followed_and_modes_told_apart(fake: Fake) -> None:
    fake.answers["azure"] = clouds.azure({**T4, ("Standard_NC4as_T4_v3", "eastus", "reserved-1y"): 0.2})
    rows = prices(ask("azure", "eastus"))
    assert len(rows) == 9
    assert rows["Standard_NC64as_T4_v3", "eastus", "spot"] == (pytest.approx(1.92), "USD")
    assert rows["Standard_NC4as_T4_v3", "eastus", "reserved-1y"] == (pytest.approx(0.2), "USD")
    assert fake.count("azure") == 3  # nine items, four of them on the last page's predecessor


@pytest.mark.parametrize(
    "faults", [[429, 429], [500, 503], ["truncated"], ["broken"], ["html"], ["slow"], [429, "truncated", 502]], ids=str
)
def test_faults_that_pass_are_survived(fake: Fake, faults: list[Any]) -> None:
    fake.answers["azure"] = clouds.azure(T4)
    fake.faults["azure"] = list(faults)
    assert len(prices(ask("azure", "eastus"))) == 8
    assert fake.count("azure") == 3 + len(faults)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        (429, "returned 429"),
        (500, "returned 500"),
        ("truncated", "truncated"),
        ("slow", "did not respond within 0.1 s"),
        ("broken", "cut off"),
    ],
)
def test_faults_that_stay_are_one_line(fake: Fake, fault: int | str, said: str) -> None:
    fake.answers["azure"] = clouds.azure(T4)
    fake.faults["azure"] = [fault] * 10
    with pytest.raises(NetworkError, match=said) as caught:
        ask(
            "azure",
            "eastus",
            pace=Pace(between_s=0, first_pause_s=0.001, longest_pause_s=0.01, timeout_s=0.1 if fault == "slow" else 5.0, tries=2),
        )
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("azure: 127.0.0.1/azure/api/retail/prices ")
    assert fake.count("azure") == 2


def test_a_page_that_leads_back_is_noticed(fake: Fake) -> None:
    fake.answers["azure"] = clouds.azure(T4, repeats=True)
    with pytest.raises(NetworkError, match="azure: page 2 of the paginated list loops"):
        ask("azure", "eastus")


def test_what_the_server_asks_to_wait_is_waited(fake: Fake) -> None:
    fake.answers["azure"] = clouds.azure({key: T4[key] for key in list(T4)[:2]})
    fake.faults["azure"] = [503]  # with Retry-After: 0
    slow = Pace(between_s=0, first_pause_s=60, longest_pause_s=60, timeout_s=5, tries=2)
    assert len(ask("azure", "eastus", pace=slow)) == 2  # a minute if the header were ignored


def test_an_address_that_nobody_serves_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RIGHTFIT_ENDPOINT_AZURE", "http://127.0.0.1:9")
    with pytest.raises(NetworkError, match=r"azure: 127\.0\.0\.1/api/retail/prices cannot be reached"):
        ask("azure", "eastus")


def test_a_clock_that_is_days_off_is_refused_before_prices_get_wrong_dates(fake: Fake) -> None:
    fake.answers["azure"] = clouds.azure(T4)
    fake.clock_s = 40 * 86400.0
    with pytest.raises(NetworkError, match="azure: this machine's clock is 40 days behind"):
        ask("azure", "eastus")


# ---- sources with a key --------------------------------------------------------------------------


def test_lambda(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.answers["lambda"] = clouds.lambda_cloud({"gpu_1x_a10": 1.29})
    monkeypatch.setenv("LAMBDA_API_KEY", "right")
    rows = ask("lambda", world=known("lambda", regions=("us-east-1",)))
    assert prices(rows) == {("gpu_1x_a10", place, "on-demand"): (1.29, "USD") for place in ("us-east-1", "us-west-1")}
    assert [row.gpu_name for row in rows if isinstance(row, ServerRow)] == ["A10"]


def test_an_expired_key_is_one_line_without_the_key_and_names_a_clock_that_is_off(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.answers["lambda"] = clouds.lambda_cloud({"gpu_1x_a10": 1.29})
    fake.clock_s = 3600.0
    monkeypatch.setenv("LAMBDA_API_KEY", "wrong-secret")
    with pytest.raises(
        NetworkError, match=r"lambda: credentials are missing, expired .* LAMBDA_API_KEY .* clock is 60 minutes off"
    ) as caught:
        ask("lambda")
    assert "wrong-secret" not in str(caught.value)
    assert fake.count("lambda") == 1  # a refusal is not asked again


def test_verda(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.answers["verda"] = clouds.verda(
        {("1A100.22V", place, mode): price for place in ("FIN-01", "FIN-02") for mode, price in (("on-demand", 1.29), ("spot", 0.45))}
    )
    monkeypatch.setenv("VERDA_CLIENT_ID", "me")
    monkeypatch.setenv("VERDA_CLIENT_SECRET", "right")
    rows = ask("verda")
    assert prices(rows)["1A100.22V", "FIN-02", "spot"] == (0.45, "USD")
    assert [row.gpu_name for row in rows if isinstance(row, ServerRow)] == ["A100-SXM-80GB"]
    monkeypatch.setenv("VERDA_CLIENT_SECRET", "wrong-secret")
    with pytest.raises(NetworkError, match="VERDA_CLIENT_ID and VERDA_CLIENT_SECRET") as caught:
        ask("verda")
    assert "wrong-secret" not in str(caught.value)


# ---- public lists --------------------------------------------------------------------------------


def test_runpod_gives_prices_for_the_counts_that_the_catalog_knows(fake: Fake) -> None:
    gpu = {"id": "NVIDIA A100-SXM4-80GB", "displayName": "A100 SXM", "memoryInGb": 80, "maxGpuCount": 8, "secureCloud": True}
    unsold = {**gpu, "id": "NVIDIA A40", "displayName": "A40", "memoryInGb": 48, "secureCloud": False}
    fake.answers["runpod"] = clouds.runpod(
        [{**gpu, "securePrice": 1.49, "secureSpotPrice": 0.95}, {**unsold, "securePrice": 0.4, "secureSpotPrice": None}]
    )
    world = known("runpod", servers=tuple(KnownServer(f"{n}x_A100-SXM-80GB", 0, 0, "A100-SXM-80GB", n) for n in (1, 8)))
    assert prices(ask("runpod", world=world)) == {
        (f"{n}x_A100-SXM-80GB", "any", mode): (pytest.approx(n * price), "USD")
        for n in (1, 8)
        for mode, price in (("on-demand", 1.49), ("spot", 0.95))
    }


def test_runpod_hosts_of_third_parties_are_a_way_to_pay_of_their_own(fake: Fake) -> None:
    gpu = {"id": "NVIDIA A40", "displayName": "A40", "memoryInGb": 48, "maxGpuCount": 1, "secureCloud": False, "securePrice": 0.4}
    fake.answers["runpod"] = clouds.runpod([{**gpu, "communityCloud": True, "communityPrice": 0.35}])
    world = known("runpod", servers=(KnownServer("1x_A40", 0, 0, "A40", 1),))
    assert prices(ask("runpod", world=world)) == {("1x_A40", "any", "on-demand-community"): (0.35, "USD")}


def test_the_spot_feed_of_aws_needs_no_account(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    feed, bands = clouds.aws_spot(
        {("us-east-1", "g5.xlarge"): "0.4886", ("us-east-1", "m6g.large"): "9.0E-4", ("eu-west-1", "p5.48xlarge"): "N/A*"}
    )
    fake.answers["aws_spot"], fake.answers["aws_advisor"] = feed, bands
    assert prices(ask("aws-spot", "prices")) == {
        ("g5.xlarge", "us-east-1", "spot"): (0.4886, "USD"),
        ("m6g.large", "us-east-1", "spot"): (0.0009, "USD"),
    }
    assert ask("aws-spot", "advisor") == [InterruptionRow("aws", "us-east-1", "g5.xlarge", 3, 62.0)]
    fake.answers["aws_spot"] = lambda request: clouds.Reply({"regions": []})
    with pytest.raises(NetworkError, match="format changed"):
        ask("aws-spot", "prices")


def test_the_price_page_of_aws_is_read_by_region_with_its_own_date(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    listed = {
        ("US East (N. Virginia)", "g5.xlarge"): "1.0060000000",
        ("US East (N. Virginia)", "p5.48xlarge"): "55.0400000000",
        ("EU (Stockholm)", "g5.xlarge"): "1.0670000000",
        ("AWS GovCloud (US-East)", "g5.xlarge"): "1.2670000000",
    }
    fake.answers["aws_page"] = clouds.aws_page(listed, published="2026-11-20T21:50:09Z")
    world = Known({"aws": ("us-east-1", "eu-north-1", "cn-north-1", "xx-nowhere-9"), "aws-gov": ("us-gov-east-1",)}, {"aws": {}})
    asked = providers.provider("aws-list").parts(world)
    assert set(asked) == {"aws:us-east-1", "aws:eu-north-1", "aws:xx-nowhere-9", "aws-gov:us-gov-east-1"}
    rows = [row for part in asked for row in ask("aws-list", part, world=world)]
    assert {row.as_of for row in rows if isinstance(row, PriceRow)} == {"2026-11-20"}
    assert prices(rows) == {
        ("g5.xlarge", "us-east-1", "on-demand"): (1.006, "USD"),
        ("p5.48xlarge", "us-east-1", "on-demand"): (55.04, "USD"),
        ("g5.xlarge", "eu-north-1", "on-demand"): (1.067, "USD"),
        ("g5.xlarge", "us-gov-east-1", "on-demand"): (1.267, "USD"),
    }
    assert {row.provider for row in rows if isinstance(row, PriceRow) and row.region.startswith("us-gov")} == {"aws-gov"}
    for wrong in ({"places": []}, {"EU (Stockholm)": "eu-north-1"}, []):
        fake.answers["aws_page"] = lambda request, wrong=wrong: clouds.Reply(wrong)
        with pytest.raises(NetworkError, match="aws-list: the feed format changed"):
            ask("aws-list", "aws:eu-north-1")


def test_the_list_of_google_prices_needs_no_account(fake: Fake) -> None:
    fake.answers["gcp_list"] = clouds.gcp_list(
        {
            ("a2-highgpu-1g", "us-central1"): {"hour": 3.673385, "hour_spot": 2.2, "month": 2681.6, "month_1y": 1689.4, "month_3y": 938.6},
            ("g2-standard-4", "europe-west4"): {"hour": 0.78, "month": 569.4},
        },
        made=1_795_000_000,
    )
    rows = ask("gcp-list")
    assert {row.as_of for row in rows if isinstance(row, PriceRow)} == {"2026-11-18"}
    assert prices(rows) == {
        ("a2-highgpu-1g", "us-central1", "on-demand"): (3.673385, "USD"),
        ("a2-highgpu-1g", "us-central1", "spot"): (2.2, "USD"),
        ("a2-highgpu-1g", "us-central1", "reserved-1y"): (round(1689.4 / 730, 9), "USD"),
        ("a2-highgpu-1g", "us-central1", "reserved-3y"): (round(938.6 / 730, 9), "USD"),
        ("g2-standard-4", "europe-west4", "on-demand"): (0.78, "USD"),
    }
    for wrong in (b"a: [", b"[]", b"about: {timestamp: soon}", b"about: {timestamp: 1}\ncompute: {instance: {x: {cost: {y: 3}}}}"):
        fake.answers["gcp_list"] = lambda request, wrong=wrong: clouds.Reply(wrong)
        with pytest.raises(NetworkError, match="gcp-list: the feed format changed"):
            ask("gcp-list")


# ---- Answers as they were recorded: lines of the files as their repositories had them
# (skypilot-org/skypilot-catalog@0082b043, Cyclenerd/google-cloud-pricing-cost-calculator@0166a59e,
# both Apache-2.0), so that the fakes are not the only ones that say how a file looks.

RECORDED = Path(__file__).parent / "data/recorded"


def recorded(name: str) -> clouds.Answer:
    page = (RECORDED / name).read_bytes()
    return lambda request: clouds.Reply(page, headers={"Content-Type": "text/plain"})


def test_a_file_of_skypilot_as_it_was_recorded(fake: Fake) -> None:
    fake.answers["skypilot"] = recorded("skypilot_nebius_vms.csv")
    world = Known({}, {name: {} for name in providers.provider("skypilot").covers})
    assert prices(ask("skypilot", "nebius", world=world)) == {
        ("cpu-d3_4vcpu-16gb", "eu-north1", "on-demand"): (0.0992, "USD"),
        ("cpu-e2_80vcpu-320gb", "eu-north1", "on-demand"): (1.984, "USD"),
        ("gpu-h100-sxm_1gpu-16vcpu-200gb", "eu-north1", "on-demand"): (2.95, "USD"),
        ("gpu-h100-sxm_1gpu-16vcpu-200gb", "eu-north1", "spot"): (1.25, "USD"),
        ("gpu-h100-sxm_8gpu-128vcpu-1600gb", "eu-north1", "on-demand"): (23.6, "USD"),
        ("gpu-h100-sxm_8gpu-128vcpu-1600gb", "eu-north1", "spot"): (10.0, "USD"),
        ("gpu-l40s-d_4gpu-192vcpu-1152gb", "eu-north1", "on-demand"): (11.0064, "USD"),
        ("gpu-b200-sxm_8gpu-160vcpu-1792gb", "us-central1", "on-demand"): (44.0, "USD"),
    }


def test_the_list_of_google_prices_as_it_was_recorded(fake: Fake) -> None:
    fake.answers["gcp_list"] = recorded("gcp_pricing.yml")
    rows = ask("gcp-list")
    assert {row.as_of for row in rows if isinstance(row, PriceRow)} == {"2025-03-06"}
    assert {key: price for key, (price, _) in prices(rows).items() if key[1] == "us-central1"} == {
        ("a2-highgpu-1g", "us-central1", "on-demand"): 3.673385,
        ("a2-highgpu-1g", "us-central1", "spot"): 1.293355,
        ("a2-highgpu-1g", "us-central1", "reserved-1y"): round(1689.3711392 / 730, 9),
        ("a2-highgpu-1g", "us-central1", "reserved-3y"): round(938.56707798 / 730, 9),
    }


def test_vast_offers_become_prices_per_accelerator(fake: Fake) -> None:
    offer = {"gpu_name": "RTX 4090", "gpu_ram": 24564, "min_bid": 0.2}
    fake.answers["vast"] = clouds.vast([{**offer, "id": n, "num_gpus": 2, "dph_base": 0.6 + 0.1 * n} for n in (1, 2, 3, 3)])
    assert ask("vast") == [
        MarketRow("vast", "RTX-4090", 2, "global", "on_demand", pytest.approx(0.35), pytest.approx(0.4), pytest.approx(0.45), 3),
        MarketRow("vast", "RTX-4090", 2, "global", "spot", pytest.approx(0.1), pytest.approx(0.1), pytest.approx(0.1), 3),
    ]


def test_oci_shapes_cost_their_gpus_or_their_cores_and_memory(fake: Fake) -> None:
    def shape(name: str, parts: list[tuple[str, str, float]], gpus: int | None = None) -> dict[str, Any]:
        products = [{"partNumber": number, "qty": count, "type": {"value": kind}} for number, kind, count in parts]
        return {
            "name": name,
            "hidden": False,
            "status": "ACTIVE",
            "allowPreemptible": name.startswith("VM"),
            "gpuQty": gpus,
            "products": products,
        }

    shapes = [
        shape("BM.GPU.A10.4", [("G", "ocpu", 64)], 4),
        shape("VM.X", [("C", "ocpu", 4), ("M", "memory", 64)]),
        shape("VM.Lost", [("?", "ocpu", 4)]),
    ]
    fake.answers["oci"] = clouds.oci(shapes, {"G": 2.0, "C": 0.025, "M": 0.0015})
    world = known("oci", servers=tuple(KnownServer(name, 0, 0, "", 0) for name in ("BM.GPU.A10.4", "VM.X", "VM.Lost")))
    expected = 4 * 0.025 + 64 * 0.0015
    assert prices(ask("oci", world=world)) == {
        ("BM.GPU.A10.4", "global", "on-demand"): (8.0, "USD"),
        ("VM.X", "global", "on-demand"): (pytest.approx(expected), "USD"),
        ("VM.X", "global", "spot"): (pytest.approx(expected / 2), "USD"),
    }


def test_skypilot_files_keep_the_cheapest_zone_and_notice_a_file_cut_short(fake: Fake) -> None:
    fake.answers["skypilot"] = clouds.skypilot(
        {"lambda": {("gpu_1x_a10", "us-east-1", "on-demand"): 1.29, ("gpu_1x_a10", "us-west-1", "on-demand"): 1.3}}
    )
    world = Known({}, {name: {} for name in providers.provider("skypilot").covers})
    assert prices(ask("skypilot", "lambda", world=world))["gpu_1x_a10", "us-west-1", "on-demand"] == (1.3, "USD")
    fake.faults["skypilot"] = ["truncated"]
    with pytest.raises(NetworkError, match=r"skypilot: the file of lambda (is truncated|is missing the columns)"):
        ask("skypilot", "lambda", world=world)


def test_nebius_from_the_list_that_gpuhunt_collects(fake: Fake) -> None:
    line = {
        "instance_name": "gpu-h100-sxm 1gpu-16vcpu-200gb",
        "location": "eu-north1",
        "price": 2.95,
        "cpu": 16,
        "memory": 200.0,
        "gpu_count": 1,
    }
    fake.answers["gpuhunt"] = clouds.gpuhunt(
        [
            {**line, "gpu_name": "H100", "gpu_memory": 80.0, "spot": "False"},
            {**line, "gpu_name": "H100", "gpu_memory": 80.0, "spot": "True", "price": 1.25},
        ]
    )
    rows = ask("nebius")
    name = "gpu-h100-sxm_1gpu-16vcpu-200gb"
    assert prices(rows) == {(name, "eu-north1", "on-demand"): (2.95, "USD"), (name, "eu-north1", "spot"): (1.25, "USD")}
    assert {row.gpu_name for row in rows if isinstance(row, ServerRow)} == {"H100-SXM-80GB"}
    fake.faults["gpuhunt"] = ["", "truncated"]
    with pytest.raises(NetworkError, match="nebius: the price list is damaged or truncated"):
        ask("nebius")


def test_crusoe_through_gpuhunt(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("gpuhunt")
    kind = {
        "product_name": "a100-80gb-sxm-ib.8x",
        "gpu_type": "A100-SXM-80GB",
        "num_gpu": 8,
        "cpu_cores": 192,
        "memory_gb": 960,
        "disk_gb": 0,
    }
    fake.answers["crusoe"] = clouds.crusoe([kind], [{"type": "a100-80gb-sxm-ib.8x", "location": "us-east1-a", "quantity": 3}])
    monkeypatch.setenv("CRUSOE_ACCESS_KEY", "right")
    monkeypatch.setenv("CRUSOE_SECRET_KEY", "c2VjcmV0")
    monkeypatch.setenv("CRUSOE_PROJECT_ID", "p")
    world = known(
        "crusoe",
        regions=("us-east1-a",),
        servers=(KnownServer("8x_A100-SXM-80GB", 0, 0, "", 8), KnownServer("a100-80gb-sxm-ib.8x", 0, 0, "", 8)),
    )
    found = prices(ask("crusoe", world=world))
    assert set(found) == {("8x_A100-SXM-80GB", "any", "on-demand"), ("a100-80gb-sxm-ib.8x", "us-east1-a", "on-demand")}
    assert all(5 < price < 40 for price, _ in found.values())
    monkeypatch.setenv("CRUSOE_ACCESS_KEY", "wrong")
    with pytest.raises(NetworkError, match="CRUSOE_ACCESS_KEY"):
        ask("crusoe", world=world)


# ---- the SDKs ------------------------------------------------------------------------------------


def test_aws_price_list(fake: Fake) -> None:
    pytest.importorskip("boto3")
    reserved = {
        "1yr/No Upfront": {"Hrs": "0.63"},
        "3yr/All Upfront": {"Quantity": "10512", "Hrs": "0"},
        "1yr/All Upfront": {"Quantity": "5000"},
    }
    products = [clouds.aws_product("g5.xlarge", "us-east-1", "1.006", reserved=reserved)]
    products += [clouds.aws_product(f"g5.{n}xlarge", "us-east-1", str(n)) for n in (2, 4, 8)] + [
        clouds.aws_product("g5.xlarge", "eu-west-1", "1.1")
    ]
    fake.answers["pricing"] = clouds.aws_pricing(products)
    rows = prices(ask("aws", "listed:us-east-1"))
    assert rows["g5.xlarge", "us-east-1", "on-demand"] == (1.006, "USD")
    assert rows["g5.xlarge", "us-east-1", "reserved-1y"] == (0.63, "USD")
    assert rows["g5.xlarge", "us-east-1", "reserved-3y"] == (pytest.approx(10512 / 26280), "USD")
    assert len(rows) == 6


def test_aws_spot_history_gives_the_cheapest_zone(fake: Fake) -> None:
    pytest.importorskip("boto3")
    fake.answers["ec2"] = clouds.aws_ec2(
        [("g5.xlarge", "us-east-1a", "0.5"), ("g5.xlarge", "us-east-1b", "0.41"), ("p4d.24xlarge", "us-east-1a", "9")]
    )
    assert prices(ask("aws", "spot:us-east-1")) == {
        ("g5.xlarge", "us-east-1", "spot"): (0.41, "USD"),
        ("p4d.24xlarge", "us-east-1", "spot"): (9.0, "USD"),
    }


def test_aws_types_and_advisor(fake: Fake) -> None:
    pytest.importorskip("boto3")
    gpu = "<gpuInfo><gpus><item><name>H100</name><manufacturer>NVIDIA</manufacturer><count>8</count><memoryInfo><sizeInMiB>81920</sizeInMiB></memoryInfo></item></gpus></gpuInfo>"
    fake.answers["ec2"] = clouds.aws_ec2(
        [],
        "<item><instanceType>p9.48xlarge</instanceType><vCpuInfo><defaultVCpus>192</defaultVCpus></vCpuInfo><memoryInfo><sizeInMiB>2097152</sizeInMiB></memoryInfo>"
        f"<processorInfo><supportedArchitectures><item>x86_64</item></supportedArchitectures></processorInfo>{gpu}</item>",
    )
    (row,) = ask("aws", "types:us-east-1")
    assert isinstance(row, ServerRow)
    assert (row.vcpus, row.memory_gib, row.gpu_count, row.gpu_memory_gib) == (192, 2048, 8, 80)
    fake.answers["aws_advisor"] = lambda request: clouds.Reply(
        {"spot_advisor": {"us-east-1": {"Linux": {"g5.xlarge": {"r": 3, "s": 62}}, "Windows": {}}}}
    )
    assert ask("aws", "advisor:") == [InterruptionRow("aws", "us-east-1", "g5.xlarge", 3, 62.0)]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ExpiredTokenException", "aws: credentials are missing, expired"),
        ("AccessDeniedException", "aws: credentials are missing, expired"),
        ("RequestExpired", "aws: .*clock is off"),
        ("SomethingNew", r"aws: the request failed \(SomethingNew\)"),
    ],
)
def test_aws_errors_are_one_line_without_its_message(fake: Fake, code: str, said: str) -> None:
    pytest.importorskip("boto3")
    fake.answers["pricing"] = clouds.aws_pricing([], error=code)
    with pytest.raises(NetworkError, match=said) as caught:
        ask("aws", "listed:us-east-1")
    assert not any(secret in str(caught.value) for secret in SECRETS)


def test_an_aws_list_that_leads_back_is_noticed(fake: Fake) -> None:
    pytest.importorskip("boto3")
    fake.answers["pricing"] = clouds.aws_pricing(
        [clouds.aws_product(f"g5.{n}xlarge", "us-east-1", "1") for n in range(2, 12)], repeats=True
    )
    with pytest.raises(NetworkError, match="aws: the paginated list loops"):
        ask("aws", "listed:us-east-1")


def service_account(folder: Path, token_uri: str) -> Path:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    text = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    path = folder / "account.json"
    path.write_text(
        json.dumps(
            {
                "type": "service_account",
                "client_email": "a@b",
                "private_key": text,
                "private_key_id": "k",
                "token_uri": token_uri,
                "project_id": "p",
            }
        )
    )
    return path


def test_gcp_prices_are_the_sum_of_cores_memory_and_gpus(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("google.auth")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{fake.url}/gcp/token")))
    places = ["us-central1", "us-east1"]
    skus = [
        clouds.gcp_sku("A2 Instance Core running in Americas", "OnDemand", places, 31611000),
        clouds.gcp_sku("A2 Instance Ram running in Americas", "OnDemand", places, 4237000),
        clouds.gcp_sku("Nvidia Tesla A100 GPU running in Americas", "OnDemand", places, 933908000 + 2 * 10**9),
        clouds.gcp_sku("Spot Preemptible A2 Instance Core running in Americas", "Preemptible", places, 10000000),
        clouds.gcp_sku("Spot Preemptible A2 Instance Ram running in Americas", "Preemptible", places, 1000000),
        clouds.gcp_sku("Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas", "Preemptible", places, 10**9),
        clouds.gcp_sku("Commitment v1: N2 Cpu in Americas for 1 Year", "Commit1Yr", places, 19915000),
        clouds.gcp_sku("Commitment v1: N2 Ram in Americas for 1 Year", "Commit1Yr", places, 2669000),
        clouds.gcp_sku("N2 Custom Instance Core running in Americas", "OnDemand", places, 99),
    ]
    fake.answers["gcp"] = clouds.gcp(skus)
    servers = (KnownServer("a2-highgpu-1g", 12, 85, "A100-SXM-40GB", 1), KnownServer("n2-standard-4", 4, 16, "", 0))
    found = prices(ask("gcp", world=known("gcp", regions=("us-central1", "europe-west4"), servers=servers)))
    assert found["a2-highgpu-1g", "us-central1", "on-demand"] == (pytest.approx(12 * 0.031611 + 85 * 0.004237 + 2.933908, rel=1e-9), "USD")
    assert found["a2-highgpu-1g", "us-central1", "spot"] == (pytest.approx(12 * 0.01 + 85 * 0.001 + 1.0), "USD")
    assert found["n2-standard-4", "us-central1", "reserved-1y"] == (pytest.approx(4 * 0.019915 + 16 * 0.002669), "USD")
    assert len(found) == 3  # neither the region without prices nor the custom core


def test_gcp_refuses_another_currency_and_bad_credentials(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("google.auth")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(service_account(tmp_path, f"{fake.url}/gcp/token")))
    fake.answers["gcp"] = clouds.gcp(
        [clouds.gcp_sku("N2 Instance Core running in Japan", "OnDemand", ["asia-northeast1"], 9, currency="JPY")]
    )
    with pytest.raises(NetworkError, match="gcp: requested USD and got prices in JPY"):
        ask("gcp")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "none.json"))
    with pytest.raises(NetworkError, match="gcp: credentials are missing, expired"):
        ask("gcp")


ALI = {
    ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "on-demand"): 9.5,
    ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "subscription-1m"): 3213.99,
    ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "subscription-1y"): 32000.0,
}


def test_alicloud(fake: Fake) -> None:
    pytest.importorskip("alibabacloud_ecs20140526")
    fake.answers["alicloud"] = clouds.alicloud(
        ALI, {("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou-i"): 1.2, ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou-j"): 1.1}
    )
    server = KnownServer("ecs.gn7i-c8g1.2xlarge", 8, 30, "A10", 1)
    world = known("alicloud", regions=("cn-hangzhou",), servers=(server, KnownServer("ecs.gone", 8, 30, "A10", 1)))
    found = prices(ask("alicloud", "listed:cn-hangzhou", world=world))
    assert found == {
        key: (pytest.approx(price / {"on-demand": 1, "subscription-1m": 730, "subscription-1y": 8760}[key[2]]), "CNY")
        for key, price in ALI.items()
    }
    assert prices(ask("alicloud", "spot:cn-hangzhou", world=world)) == {("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "spot"): (1.1, "CNY")}
    (row,) = ask("alicloud", "types:cn-hangzhou", world=world)
    assert isinstance(row, ServerRow)
    assert (row.instance_type, row.gpu_name, row.gpu_count) == ("ecs.gn9z.new", "L40S", 1.0)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("InvalidAccessKeyId.NotFound", "credentials are missing"),
        ("InvalidTimeStamp.Expired", "clock is off"),
        ("Odd", r"failed \(Odd\)"),
    ],
)
def test_alicloud_errors(fake: Fake, code: str, said: str) -> None:
    pytest.importorskip("alibabacloud_ecs20140526")
    fake.answers["alicloud"] = clouds.alicloud({}, {}, error=code)
    with pytest.raises(NetworkError, match=f"alicloud: .*{said}") as caught:
        ask("alicloud", "listed:cn-hangzhou")
    assert not any(secret in str(caught.value) for secret in SECRETS)


def tencent_item(
    charge: str, price: dict[str, float] | None, *, zone: str = "ap-guangzhou-6", name: str = "GN10Xp.2XLARGE40", gpu: int = 1
) -> dict[str, Any]:
    shape = {"InstanceType": name, "InstanceFamily": name.split(".")[0], "Cpu": 10, "Memory": 40, "Gpu": gpu, "Zone": zone}
    return {**shape, "InstanceChargeType": charge, "Status": "SELL", "Price": price}


def test_tencent(fake: Fake) -> None:
    pytest.importorskip("tencentcloud.cvm")
    hourly = {
        "UnitPrice": 12.0,
        "UnitPriceDiscount": 12.0,
        "UnitPriceThirdStep": 6.0,
        "UnitPriceDiscountThirdStep": 6.0,
        "ChargeUnit": "HOUR",
    }
    items = [
        tencent_item("POSTPAID_BY_HOUR", hourly),
        tencent_item("POSTPAID_BY_HOUR", {**hourly, "UnitPriceDiscount": 11.5}, zone="ap-guangzhou-7"),
        tencent_item("POSTPAID_BY_HOUR", None, name="S9.MEDIUM4", gpu=0),
        tencent_item("PREPAID", {"OriginalPrice": 7300.0, "DiscountPrice": 7300.0, "DiscountPriceOneYear": 70080.0}),
        tencent_item("SPOTPAID", {"UnitPrice": 3.0, "UnitPriceDiscount": 2.4, "ChargeUnit": "HOUR"}),
    ]
    fake.answers["tencent"] = clouds.tencent(items, inquiry=0.35)
    rows = ask("tencent", "POSTPAID_BY_HOUR:ap-guangzhou")
    assert prices(rows) == {
        ("GN10Xp.2XLARGE40", "ap-guangzhou", "on-demand"): (11.5, "CNY"),
        ("GN10Xp.2XLARGE40", "ap-guangzhou", "on-demand-tier3"): (6.0, "CNY"),
        ("S9.MEDIUM4", "ap-guangzhou", "on-demand"): (0.35, "CNY"),
    }
    assert [row.instance_type for row in rows if isinstance(row, ServerRow)] == ["S9.MEDIUM4"]  # a GPU that is not named is not guessed
    found = prices(ask("tencent", "PREPAID:ap-guangzhou"))
    assert found["GN10Xp.2XLARGE40", "ap-guangzhou", "subscription-1m"] == (10.0, "CNY")
    assert found["GN10Xp.2XLARGE40", "ap-guangzhou", "subscription-1y"] == (8.0, "CNY")
    assert prices(ask("tencent", "SPOTPAID:ap-guangzhou")) == {("GN10Xp.2XLARGE40", "ap-guangzhou", "spot"): (2.4, "CNY")}


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("AuthFailure.SecretIdNotFound", "credentials are missing"),
        ("AuthFailure.SignatureExpire", "clock is off"),
        ("RequestLimitExceeded", r"failed \(RequestLimitExceeded\)"),
    ],
)
def test_tencent_errors(fake: Fake, code: str, said: str) -> None:
    pytest.importorskip("tencentcloud.cvm")
    fake.answers["tencent"] = clouds.tencent([], error=code)
    with pytest.raises(NetworkError, match=f"tencent: .*{said}") as caught:
        ask("tencent", "SPOTPAID:ap-guangzhou")
    assert not any(secret in str(caught.value) for secret in SECRETS)


# ---- public lists of the two, without an account -------------------------------------------------


def without_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ALIBABA_CLOUD_ACCESS_KEY_ID", "ALIBABA_CLOUD_ACCESS_KEY_SECRET", "TENCENTCLOUD_SECRET_ID", "TENCENTCLOUD_SECRET_KEY"):
        monkeypatch.delenv(name)


def test_alicloud_list_is_read_in_the_version_that_the_page_names_with_its_own_date(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_keys(monkeypatch)
    listed = {
        ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "on-demand"): 9.5,
        ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "subscription-1m"): 5.0,
        ("ecs.gn7i-c8g1.2xlarge", "cn-hangzhou", "subscription-3y"): 2.5,
        ("ecs.g7.xlarge", "us-east-1", "on-demand"): 1.2,
    }
    fake.answers["alicloud_list"] = clouds.alicloud_list(listed, published="2026-11-21T08:15:52Z", versions=("2.0.99", "2.0.430"))
    rows = ask("alicloud-list")
    assert prices(rows) == {key: (price, "CNY") for key, price in listed.items()}  # not those of Windows or of the classic network
    assert {row.as_of for row in rows if isinstance(row, PriceRow)} == {"2026-11-21"}
    assert "/2.0.430/" in fake.asked[-1].path


def test_alicloud_list_of_a_page_without_a_version_is_the_last_one_known(fake: Fake) -> None:
    fake.answers["alicloud_list"] = clouds.alicloud_list(
        {("ecs.g7.xlarge", "us-east-1", "on-demand"): 1.2}, published="2026-03-01", versions=()
    )
    assert {row.as_of for row in ask("alicloud-list") if isinstance(row, PriceRow)} == {"2026-03-01"}
    fake.answers["alicloud_list"] = clouds.alicloud_list({}, published="")
    with pytest.raises(NetworkError, match="has no publication date"):
        ask("alicloud-list")


def test_tencent_list(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    without_keys(monkeypatch)
    hourly = {"UnitPrice": 12.0, "UnitPriceDiscount": 11.5, "UnitPriceDiscountThirdStep": 6.0, "ChargeUnit": "HOUR"}
    items = [
        tencent_item("POSTPAID_BY_HOUR", hourly),
        tencent_item("POSTPAID_BY_HOUR", {**hourly, "UnitPriceDiscount": 11.0}, zone="ap-guangzhou-7"),
        tencent_item("POSTPAID_BY_HOUR", None, name="S9.MEDIUM4", gpu=0),
        tencent_item("PREPAID", {"OriginalPrice": 7300.0, "DiscountPrice": 7300.0, "DiscountPriceOneYear": 70080.0}),
    ]
    fake.answers["tencent_list"] = clouds.tencent_list(items)
    rows = ask("tencent-list", "POSTPAID_BY_HOUR:ap-guangzhou")
    assert prices(rows) == {
        ("GN10Xp.2XLARGE40", "ap-guangzhou", "on-demand"): (11.0, "CNY"),
        ("GN10Xp.2XLARGE40", "ap-guangzhou", "on-demand-tier3"): (6.0, "CNY"),
    }
    assert [row.instance_type for row in rows if isinstance(row, ServerRow)] == ["S9.MEDIUM4"]
    assert prices(ask("tencent-list", "PREPAID:ap-guangzhou"))["GN10Xp.2XLARGE40", "ap-guangzhou", "subscription-1y"] == (8.0, "CNY")
    assert not any("authorization" in request.headers for request in fake.asked)


@pytest.mark.parametrize("error", ["RequestLimitExceeded", "-1"])
def test_tencent_list_that_refuses_is_one_line(fake: Fake, error: str) -> None:
    fake.answers["tencent_list"] = clouds.tencent_list([], error=error)
    with pytest.raises(NetworkError, match=rf"tencent-list: the request failed \({error}\)"):
        ask("tencent-list", "SPOTPAID:ap-guangzhou")


# ---- names ---------------------------------------------------------------------------------------


ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in Path(providers.__file__).parent.glob("*.py"))
SHARED = ("__init__", "base")
REFRESH_PAGE = (ROOT / "docs" / "concepts" / "refresh.md").read_text("utf-8")
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]


@pytest.mark.parametrize("stem", [stem for stem in MODULES if stem not in SHARED])
def test_every_module_of_a_source_is_asked(stem: str) -> None:
    """A module that nothing names would never be asked, and no other test would look at it."""
    name = stem.removesuffix("_cloud")
    assert name in providers.NAMES, f"market/providers/__init__.py: NAMES lacks {name!r}, so that providers/{stem}.py is never asked"
    has_public = any(asked.startswith(f"{name}-") for asked in providers.NAMES)
    module = import_module(f"rightfit.market.providers.{stem}")
    assert hasattr(module, "PUBLIC") == has_public, f"the PUBLIC list of providers/{stem}.py and NAMES disagree"


@pytest.mark.parametrize("name", providers.NAMES)
def test_every_source_is_whole(name: str) -> None:
    cloud = name.partition("-")[0].replace("lambda", "lambda_cloud")
    assert cloud in MODULES, f"there is no market/providers/{cloud}.py"
    module = providers.provider(name)
    assert module.name == name, f"the source {name} calls itself {module.name}"
    assert module.covers, f"the source {name} does not say in covers whose rows it gives"
    assert module.source, f"the source {name} does not say in source what stands beside its prices"
    assert not module.needs.credentials or module.needs.variables or module.needs.files
    assert module.needs.extra in EXTRAS, f"pyproject.toml has no extra {module.needs.extra}, which the source {name} asks for"


@pytest.mark.parametrize("name", providers.NAMES)
def test_every_source_is_played_by_a_fake_and_asked_in_a_test(name: str) -> None:
    assert name in clouds.FAKES, (
        f"tests/catalog/fakes/clouds.py: FAKES lacks {name}: write what the source says, in the form of its documented answers"
    )
    asked = f'ask("{name}"' in Path(__file__).read_text("utf-8")
    assert asked, f'tests/catalog/test_providers.py never asks {name}: write a test that reads the rows of ask("{name}") from its fake'


@pytest.mark.parametrize("name", providers.NAMES)
def test_every_source_is_on_the_page_of_refresh(name: str) -> None:
    rows = [line for line in REFRESH_PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    assert rows, f"docs/concepts/refresh.md has no row | `{name}` | in its table of sources"
    assert rows[0].count("|") == 6, f"docs/concepts/refresh.md: the row of {name} has not five cells"
    needs = providers.provider(name).needs
    assert f"`{needs.extra}`" in rows[0], f"docs/concepts/refresh.md: the row of {name} does not name the extra {needs.extra}"


def test_no_fake_and_no_row_is_left_of_a_source_that_is_gone() -> None:
    listed = re.findall(r"^\| `([a-z-]+)` \|", REFRESH_PAGE, re.MULTILINE)
    gone = {*clouds.FAKES, *listed} - set(providers.NAMES)
    assert not gone, f"fakes/clouds.py or docs/concepts/refresh.md still has {', '.join(sorted(gone))}"


@pytest.mark.parametrize(
    ("said", "meant"), [("Amazon", "aws"), ("阿里云", "alicloud"), ("腾讯云", "tencent"), ("vast.ai", "vast"), ("GCP", "gcp")]
)
def test_sources_go_by_other_names_too(said: str, meant: str) -> None:
    assert providers.provider(said).name == meant


def test_an_unknown_source_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown source of prices 'azur'.*azure"):
        providers.provider("azur")
