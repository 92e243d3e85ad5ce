"""The third set of facts (November 2026: prices, servers, API prices, models, formats, engines,
cards), recomputed against the catalog: none of its corrections is missing.

The set lies beside the checkout (`../shared/facts/third`); where it does not, these tests are
skipped, and the copies in tests/data (november_prices.csv, stale_twins.csv, reviewed_models.csv)
hold what the catalog took of it.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rightfit import facts
from rightfit.errors import InputError
from rightfit.facts import devices, tables
from rightfit.facts.api_prices import bare_name
from rightfit.facts.engine_releases import numbers
from rightfit.market import Catalog, open_catalog
from rightfit.units import GB, GIB

PACK = Path(__file__).parents[2] / "shared/facts/third"
COPIES = Path(__file__).parent / "data"
pytestmark = pytest.mark.skipif(not PACK.is_dir(), reason="NOT CHECKED: the third set of facts is not beside this checkout")

Row = dict[str, str]
#: Half a year before the set.
MONTHS_AGO = "2026-05-26"


@functools.cache
def rows(name: str, folder: Path = PACK) -> list[Row]:
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    opened = open_catalog(tmp_path_factory.mktemp("store") / "catalog.sqlite")
    yield opened
    opened.close()


# ---- The market.


def test_each_price_is_there_as_it_was_read_or_newer(catalog: Catalog) -> None:
    unknown = {(row["provider"], row["instance_type"]) for row in rows("servers") if not row["vcpus"]}  # nothing can be planned on them
    checked, wrong = 0, []
    for row in rows("prices"):
        server = (row["provider"], row["instance_type"])
        if row["status"] == "disputed" or server in unknown:
            continue
        offers = catalog.offers_of(catalog.server_rows[server])
        found = [one for one in (offers.row(at) for at in range(len(offers))) if one["purchase"] == row["purchase"].replace("_", "-")]
        found = [one for one in found if row["region"] in ("*", "any", one["region"])]
        checked += 1
        right = [
            one["as_of"] > row["as_of"] or one["price_usd_per_h"] == pytest.approx(float(row["price_usd_hour"]), rel=0.005) for one in found
        ]
        if not right or not all(right) or min(one["as_of"] for one in found) < row["as_of"]:
            wrong.append(f"{'/'.join(server)} {row['region']} {row['purchase']}: {row['price_usd_hour']} on {row['as_of']}")
    assert checked > 500
    assert wrong == []


def test_each_server_with_a_size_and_a_dated_price_is_there(catalog: Catalog) -> None:
    """The others are of lists without a date, or hosts of a marketplace of which none is like
    another: they say who sells what."""
    priced = {(row["provider"], row["instance_type"]) for row in rows("prices")}
    sized = {(row["provider"], row["instance_type"]) for row in rows("servers") if row["vcpus"] and row["memory_gib"]}
    assert len(sized & priced) >= 5
    assert (sized & priced) - set(catalog.server_rows) == set()


def test_each_old_price_was_judged() -> None:
    ours = {(row["provider"], row["instance_type"], row["region"], row["purchase"]) for row in rows("stale_twins", COPIES)}
    theirs = {(row["provider"], row["old_instance_type"], row["old_region"], row["purchase"]) for row in rows("stale_twins")}
    assert len(theirs) > 75
    assert theirs - ours == set()


def test_no_spot_price_far_below_its_own_type_leads(catalog: Catalog) -> None:
    """What was an outlier in the list is expected near its type's median."""
    from rightfit.market.expected import expected

    table = catalog.offers()
    told = expected(table, among=table)
    found = 0
    for row in rows("spot_outliers"):
        server = catalog.server_rows.get((row["provider"], row["instance_type"]))
        own = [] if server is None else (table.server_index == server).nonzero()[0]
        for at in own:
            one = table.row(int(at))
            if one["purchase"] == "spot" and one["region"] == row["region"]:
                found += 1
                assert told.usd_per_h[at] > 1.2 * float(row["spot_usd_hour"]) or one["as_of"] > row["as_of"], row
    assert found > 5


# ---- Prices of tokens.


def test_each_token_price_that_changed_is_the_new_one() -> None:
    """`ended`: the seller has announced its end, so that nobody can buy it today. The newest list
    is the one that the table is made of (scripts/build_api_prices.py); the second, older one has
    rows of models that the newest dropped."""
    newest = max(row["as_of"] for row in rows("api_prices"))
    ended = {
        (bare_name(row["model"]), row["provider"])
        for row in rows("api_prices")
        if row["deprecation_date"] and row["deprecation_date"] <= row["as_of"]
    }
    ours: dict[tuple[str, str], list[Row]] = {}
    for row in tables.table("api_prices"):
        ours.setdefault((bare_name(row["model"]), row["provider"]), []).append(row)
    wrong = []
    for row in rows("api_compare"):
        known = ours.get((bare_name(row["model"]), row["provider"]), [])
        new = (row["new_input"], row["new_output"])
        if row["verdict"] != "not listed now" and row["new_as_of"] < newest:
            continue
        if row["verdict"] == "not listed now" or (bare_name(row["model"]), row["provider"]) in ended:
            # sellers whom the newest list does not know keep theirs for half a year
            wrong += [f"{row['model']} at {row['provider']} is gone" for one in known if one["as_of"] < MONTHS_AGO]
        elif not any(
            (float(one["input_usd_per_million"]), float(one["output_usd_per_million"])) == tuple(map(float, new)) for one in known
        ):
            wrong.append(f"{row['model']} at {row['provider']}: now {new}")
    assert wrong == []


# ---- Models.


def names() -> Iterator[tuple[str, str]]:
    """Each name of the set with the model that it means: hub id, aliases, and the name without its
    owner."""
    for kind in ("transformer", "diffusion", "vision", "other"):
        for row in rows(f"models_{kind}"):
            for name in (row["name"], *filter(None, row["aliases"].split(";"))):
                yield name, row["name"]
                yield tables.base_name(name), row["name"]


def test_each_model_is_found_first_by_every_name() -> None:
    wanted = list(names())
    assert len(wanted) > 600
    assert [(name, model) for name, model in wanted if facts.search_models(name)[0].name != model] == []


AT_LOAD = re.compile(r" \(\w+ at load\)$")


def test_each_published_checkpoint_is_found_by_hub_id_and_common_name() -> None:
    missing = []
    for row in rows("checkpoint_formats"):
        hub_id = AT_LOAD.sub("", row["hub_id"])
        for name in (hub_id, tables.base_name(hub_id)):
            found = facts.search_models(name)
            if not found:
                missing.append(name)
    assert missing == []


# ---- Engines, attention, cards.


def test_each_class_says_which_engines_and_cards_have_it() -> None:
    ours = {row["architecture"]: row for row in tables.table("engine_support")}
    wrong = []
    for row in rows("engine_support"):
        known = ours[row["architecture"]]
        same = {
            "min_vllm": row["min_vllm"],
            "min_sglang": row["min_sglang"],
            "min_transformers": row["min_transformers_class"],
            "capability": row["compute_capability"],
        }
        wrong += [
            (row["architecture"], name, known[name], value) for name, value in same.items() if known[name] != value.removeprefix("<=")
        ]
    assert wrong == []


def test_each_recipe_says_its_least_engine() -> None:
    """A repository with several variants has the release that all of them run on."""
    ours = {row["hub_id"]: row["min_vllm"] for row in tables.table("engine_models")}
    most: dict[str, tuple[int, ...]] = {}
    for row in rows("engine_hub_vllm"):
        if row["min_vllm"] != "nightly":
            most[row["hub_id"]] = max(most.get(row["hub_id"], ()), numbers(row["min_vllm"]))
    assert len(most) > 300
    assert [hub_id for hub_id, least in most.items() if numbers(ours[hub_id]) < least] == []


#: Fields of attention_kinds.csv -> columns of the set.
ATTENTION = {
    "index_heads": "index_heads",
    "index_width": "index_head_dim",
    "cache_bytes": "kv_bytes_per_token_bf16",
    "window_bytes": "kv_bytes_per_token_window_bf16",
    "index_bytes": "index_bytes_per_token_bf16",
    "state_bytes": "state_bytes_per_sequence_fp32",
}


def test_each_kind_of_attention_holds_what_was_counted() -> None:
    ours = {row["model"]: row for row in tables.table("attention_kinds")}
    wrong = []
    for row in rows("attention_kinds"):
        known = ours.get(row["model"].split(" (and ")[0])
        if known is None:
            wrong.append((row["model"], "is missing", "", ""))
            continue
        wrong += [
            (row["model"], ours_name, known[ours_name], row[name])
            for ours_name, name in ATTENTION.items()
            if (known[ours_name] or "0") != (row[name] or "0")
        ]
    assert wrong == []


def test_no_alias_is_planned_as_another_model() -> None:
    """Aliases of which the review said that the plan is wrong (3) or refused (2): the field that
    differs is their own, and repositories that do not exist mean nothing."""
    wrong = []
    for row in rows("aliases_check"):
        found = facts.resolve_offline(row["alias"])
        if row["kind"] == "no such repository":
            if found is not None and found.how in ("name", "alias"):
                wrong.append((row["alias"], found.record.name))
        elif row["severity"] in ("2", "3") and "context" in row["what_differs"]:
            length = next(iter(re.findall(r"context (\d+)", row["what_differs"])), "")
            if found is None or (length and getattr(found.record, "max_position", 0) != int(length)):
                wrong.append((row["alias"], row["what_differs"]))
    assert wrong == []
    turbo = facts.resolve_offline("stabilityai/stable-diffusion-3.5-large-turbo")
    assert turbo is not None
    assert turbo.record.default_steps == 4


def test_each_card_has_its_memory_and_bandwidth_or_says_what_is_missing() -> None:
    wrong = []
    for row in rows("accelerators"):
        name = row["name"]
        known = devices.accelerators().get(name)
        if known is None:
            with pytest.raises(InputError, match="is known, but"):
                devices.named_accelerators(name, field="gpu")
            continue
        if known.memory_bytes / GIB != pytest.approx(float(row["memory_gib"]), abs=0.01):
            wrong.append((name, "memory"))
        if row["memory_bw_gbps"] and known.memory_bandwidth / GB != pytest.approx(float(row["memory_bw_gbps"]), rel=0.01):
            wrong.append((name, "bandwidth"))
    assert wrong == []
