"""Rows that people add, correct or retire as text: laid over the packed tables, refused by file and
line, unpacked and packed without loss."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from fakes.tiny import write_tiny_package
from loaded import load_module

from rightfit.errors import CatalogError
from rightfit.market import Catalog, OfferFilter, amendments, open_catalog, packed_tables, report, tables

SAID = ",a price page,2026-10-01,looked at"
SERVER = (
    "action,provider,instance_type,family,category,vcpus,memory_gib,arch,gpu_name,gpu_count,gpu_interconnect,source,as_of,note\n"
    "add,verda,9H100.99V,H100,gpu,200,1800,x86_64,H100-SXM-80GB,9,nvswitch" + SAID + "\n"
)
PRICES = "action,provider,instance_type,region,purchase,price_usd_hour,source,as_of,note\n"
PRICE = PRICES + "add,verda,9H100.99V,FIN-02,on-demand,21.5" + SAID + "\n"
Write = Callable[..., None]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_package(tmp_path_factory.mktemp("package") / "data")


@pytest.fixture
def write(tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Give tables of amendments to a package of two clouds."""
    folder = tmp_path / "data"
    shutil.copytree(tiny, folder)
    monkeypatch.setattr(packed_tables, "_FOLDER", folder)

    def put(topic: str = "topic", **files: str) -> None:
        for name, text in files.items():
            path = folder / "amendments" / topic / f"{name}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    return put


@pytest.fixture
def market(tmp_path: Path) -> Iterator[Callable[[], Catalog]]:
    opened: list[Catalog] = []

    def build() -> Catalog:
        opened.append(open_catalog(tmp_path / f"{len(opened)}.sqlite"))
        return opened[-1]

    yield build
    for catalog in opened:
        catalog.close()


def rows(name: str) -> list[dict[str, str]]:
    columns = {column: values.texts() for column, values in tables.load_packed(name).items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def row(name: str, **wanted: str) -> dict[str, str]:
    [found] = [one for one in rows(name) if wanted.items() <= one.items()]
    return found


def sold(catalog: Catalog, **wanted: str) -> list[dict[str, Any]]:
    chosen = OfferFilter(providers=("verda",), has_accelerator=None, include_slices=True, include_not_recommended=True)
    return [one for one in catalog.prices(chosen, limit=None).rows() if wanted.items() <= one.items()]


# ---- what is bundled -----------------------------------------------------------------------------


def test_the_bundled_amendments_are_sound(catalog: Catalog) -> None:
    problems = amendments.problems() or report.amendment_findings(catalog.verify())
    assert not problems, "; ".join(problems)


@pytest.mark.parametrize("name", amendments.TABLES)
def test_the_columns_of_each_table_are_known(name: str) -> None:
    rule = amendments.TABLES[name]
    assert rule.columns == tuple(packed_tables.load_unamended(name))
    assert {*rule.key, *rule.needed, *rule.usual, *rule.numbers, *rule.may_be_empty} <= set(rule.columns)


@pytest.mark.parametrize("name", [name for name in amendments.TABLES if name != "discounts"])
def test_a_key_names_one_row(name: str) -> None:
    columns = packed_tables.load_unamended(name)
    keys = list(zip(*(columns[column].texts() for column in amendments.TABLES[name].key), strict=True))
    assert len(keys) == len(set(keys))


def test_without_amendments_nothing_changes(write: Write) -> None:
    write()
    assert packed_tables.fingerprint() == packed_tables.manifest()["fingerprint"]
    assert amendments.problems() == []
    packed = packed_tables.load_unamended("prices")
    assert amendments.amended("prices", packed) is packed


# ---- what a row does -----------------------------------------------------------------------------


def test_a_server_and_its_price_are_offered(write: Write, market: Callable[[], Catalog]) -> None:
    before = packed_tables.fingerprint()
    write(servers=SERVER, prices=PRICE)
    assert packed_tables.fingerprint() != before
    assert amendments.problems() == []
    catalog = market()
    [offer] = sold(catalog, instance_type="9H100.99V")
    assert (offer["price_usd_per_h"], offer["as_of"], offer["source"]) == (21.5, "2026-10-01", "a price page")
    server = catalog.servers().row(catalog.server_rows["verda", "9H100.99V"])
    assert (server["accelerator_memory_bytes"], server["rdma"], server["status"]) == (80 * 2**30, "none", "active")
    assert (server["not_recommended"], row("servers", instance_type="9H100.99V")["nvlink"]) == ("", "1")
    assert report.amendment_findings(catalog.verify()) == []


def test_a_correction_changes_what_it_names_and_says_why(write: Write) -> None:
    before = row("servers", instance_type="1H100.80S.32V")
    write(servers="action,provider,instance_type,vcpus,cpu_model,source,as_of,note\ncorrect,verda,1H100.80S.32V,177,-" + SAID + "\n")
    after = row("servers", instance_type="1H100.80S.32V")
    changed = {name for name in before if before[name] != after[name]}
    assert changed - {"cpu_model"} == {"vcpus", "source", "note"}
    assert (after["vcpus"], after["cpu_model"]) == ("177", "")
    assert after["source"] == before["source"] + "; vcpus, cpu_model 2026-10-01: a price page"
    assert after["note"].endswith("vcpus, cpu_model 2026-10-01: looked at")


def test_a_corrected_price_is_read_anew(write: Write) -> None:
    key = {"instance_type": "1H100.80S.32V", "region": "FIN-02", "purchase": "on_demand"}
    write(
        prices="action,provider,instance_type,region,purchase,price_original,currency_original,source,as_of,note\n"
        "correct,verda,1H100.80S.32V,FIN-02,on-demand,17.29,EUR" + SAID + "\n"
    )
    after = row("prices", **key)
    assert float(after["price_usd_hour"]) == pytest.approx(20.0)
    assert (after["price_original"], after["currency_original"], after["as_of"], after["note"]) == (
        "17.29",
        "EUR",
        "2026-10-01",
        "looked at",
    )


def test_a_retired_server_is_answered_for_and_never_recommended(write: Write, market: Callable[[], Catalog]) -> None:
    write(servers="action,provider,instance_type,source,as_of,note\nretire,verda,1H100.80S.32V" + SAID + "\n")
    catalog = market()
    server = catalog.servers().row(catalog.server_rows["verda", "1H100.80S.32V"])
    assert (server["status"], server["not_recommended"]) == ("retired", "retired")
    assert server["note"].endswith("retired 2026-10-01: looked at")


def test_a_star_means_every_row(write: Write, market: Callable[[], Catalog]) -> None:
    modes = {one["purchase"] for one in rows("prices") if one["provider"] == "verda"}
    assert "spot" in modes
    write(prices="action,provider,instance_type,region,purchase,source,as_of,note\nretire,verda,*,*,spot" + SAID + "\n")
    assert {one["purchase"] for one in rows("prices") if one["provider"] == "verda"} == modes - {"spot"}
    assert sold(market(), purchase="spot") == []


def test_each_table_takes_a_row(write: Write, market: Callable[[], Catalog]) -> None:
    """The class: every table that can be amended, with every column filled by what the table holds
    already under another key."""
    for name, rule in amendments.TABLES.items():
        cells = {**row_to_copy(name), "action": "add", "source": "a page", "as_of": "2026-10-01"}
        cells = {column: text for column, text in cells.items() if column in (*rule.columns, "action", "as_of")}
        last = rule.key[-1]
        cells[last] = {"purchase": "reserved-3y", "tier_from_gb": "123456"}.get(last, "new")
        line = ",".join(f'"{text}"' for text in cells.values())
        write(name, **{name: ",".join(cells) + "\n" + line + "\n"})
    before = {name: len(packed_tables.load_unamended(name)["provider"].codes) for name in amendments.TABLES}
    problems = [text for text in amendments.problems() if "servers has no" not in text and "regions has no" not in text]
    assert problems == []
    assert {name: len(rows(name)) for name in amendments.TABLES} == {name: count + 1 for name, count in before.items()}
    assert len(market().servers()) == before["servers"] + 1


def row_to_copy(name: str) -> dict[str, str]:
    columns = packed_tables.load_unamended(name)
    return {column: values.texts()[0] for column, values in columns.items()}


# ---- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"serverz": SERVER}, "topic/serverz.csv: no table is called serverz; did you mean servers?"),
        ({"servers": SERVER.replace("vcpus", "vcpu", 1)}, "topic/servers.csv: servers has no column 'vcpu'; did you mean vcpus"),
        ({"servers": SERVER.replace("as_of,", "", 1)}, "topic/servers.csv: the first line lacks as_of"),
        ({"servers": SERVER.replace("add,", "ad,")}, "topic/servers.csv:2: action is 'ad'; choose one of add, correct, retire"),
        ({"servers": SERVER.replace(",200,", ",,")}, "topic/servers.csv:2: vcpus is empty"),
        ({"servers": SERVER.replace(",200,", ",many,")}, "vcpus is 'many', which is no number"),
        ({"servers": SERVER.replace(",a price page,", ",,")}, "topic/servers.csv:2: source is empty"),
        ({"servers": SERVER.replace("2026-10-01", "2026-10")}, "as_of is '2026-10'; write the whole date"),
        ({"servers": SERVER.replace("2026-10-01", "9026-10-01")}, "a day to come"),
        ({"servers": SERVER.replace("verda", "verdaa")}, "no cloud is called verdaa; did you mean verda?; a new one wants a line in"),
        (
            {"servers": SERVER.replace("H100-SXM-80GB", "H100-SXM-81GB")},
            "no accelerator is called H100-SXM-81GB; did you mean H100-SXM-80GB",
        ),
        ({"servers": SERVER.replace("9H100.99V", "1H100.80S.32V")}, "servers has verda/1H100.80S.32V already; use the action correct"),
        ({"servers": SERVER.replace("add", "correct").replace("9H100.99V", "1H100.80S.33V")}, "did you mean verda/1H100.80S.32V"),
        ({"servers": SERVER.replace(",looked at", ",looked, at")}, "has more cells than the first line; quote a cell that holds a comma"),
        (
            {"servers": SERVER + SERVER.splitlines()[1] + "\n"},
            "servers.csv:3: verda/9H100.99V is amended twice; change topic/servers.csv:2",
        ),
        ({"servers": "action,provider,instance_type,source,as_of,note\ncorrect,verda,1H100.80S.32V" + SAID}, "corrects nothing"),
        ({"servers": "action,provider,instance_type,source,as_of,note\nretire,verda,1H100.80S.32V,page,2026-10-01,"}, "note is empty"),
        ({"prices": PRICE}, "topic/prices.csv:2: servers has no verda/9H100.99V"),
        ({"servers": SERVER, "prices": PRICE.replace("FIN-02", "FIN-99")}, "regions has no verda/FIN-99; did you mean FIN-0"),
        ({"prices": PRICE.replace("on-demand", "demand")}, "no purchase mode is called 'demand'; did you mean on-demand"),
        ({"prices": PRICE.replace("9H100.99V", "*")}, "must be named whole"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_is_wrong_is_said_in_one_line_with_its_place(write: Write, files: dict[str, str], said: str) -> None:
    write(**files)
    problems = amendments.problems()
    assert any(said in problem for problem in problems), problems
    assert all(problem.startswith("market/data/amendments/topic/") and "\n" not in problem for problem in problems)


def test_a_store_is_not_built_on_a_broken_row(write: Write, tmp_path: Path) -> None:
    write(servers=SERVER.replace("add,", "ad,"))
    with pytest.raises(CatalogError, match=r"^market/data/amendments/topic/servers.csv:2: action is 'ad'"):
        open_catalog(tmp_path / "c.sqlite")


def test_a_price_that_cannot_be_right_is_named_with_its_place(write: Write, market: Callable[[], Catalog]) -> None:
    write(servers=SERVER, prices=PRICE.replace("21.5", "0"))
    [line] = report.amendment_findings(market().verify())
    assert line.startswith("market/data/amendments/topic/prices.csv:2: check_price_positive: ")


# ---- unpacked and packed -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return load_module(Path(__file__).parents[2] / "scripts" / "build_catalog.py")


def test_unpacked_and_packed_again_is_the_same_to_the_byte(write: Write, script: ModuleType, tmp_path: Path) -> None:
    write()
    script.unpack(tmp_path / "text", amended=False)
    script.pack(tmp_path / "text", target=packed_tables._FOLDER)  # the small package has amended rows at its ends
    shutil.copytree(packed_tables._FOLDER, tmp_path / "again")
    first = script.pack(tmp_path / "text", target=tmp_path / "again")
    script.unpack(tmp_path / "text", amended=False)
    assert script.pack(tmp_path / "text", target=tmp_path / "again") == first
    for name in script.SOURCES:
        packed = packed_tables._FOLDER / f"{name}.pack"
        assert (tmp_path / "again" / f"{name}.pack").read_bytes() == packed.read_bytes(), name


@pytest.mark.deep
def test_the_bundled_tables_come_back_cell_by_cell(script: ModuleType, tmp_path: Path) -> None:
    """What is packed again is the same to the byte where every cell and the order of rows are
    (squeezing all of them takes half a minute)."""
    script.unpack(tmp_path / "text", amended=False)
    for name, (file, order) in script.SOURCES.items():
        columns, rows = script.read_rows(tmp_path / "text" / file)
        rows.sort(key=lambda row, order=order: tuple(row[column] for column in order))
        packed = packed_tables.load_unamended(name)
        assert columns == list(packed)
        assert all([row[column] for row in rows] == packed[column].texts() for column in columns), name


def test_folded_amendments_give_the_same_market(write: Write, script: ModuleType, market: Callable[[], Catalog]) -> None:
    write(servers=SERVER, prices=PRICE)
    write("later", prices="action,provider,instance_type,region,purchase,source,as_of,note\nretire,verda,*,*,spot" + SAID + "\n")
    before = sold(market())
    script.fold(packed_tables._FOLDER)
    assert packed_tables.amendment_files() == {}
    assert sold(market()) == before
    assert before


def test_some_topics_are_folded_and_the_others_stay(write: Write, script: ModuleType, market: Callable[[], Catalog]) -> None:
    write(servers=SERVER)
    write("later", prices="action,provider,instance_type,region,purchase,source,as_of,note\nretire,verda,*,*,spot" + SAID + "\n")
    before = sold(market())
    script.fold(packed_tables._FOLDER, topics=["topic"])
    assert set(packed_tables.amendment_files()) == {"later/prices.csv"}
    assert sold(market()) == before


def test_the_script_names_its_commands(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["chek"]) == 2
    assert "build_catalog.py check" in capsys.readouterr().err
