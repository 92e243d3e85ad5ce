"""A refresh from end to end over real HTTP: what comes in, what is refused, what stays when it
fails, and what is remembered."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fakes import clouds
from fakes.server import Fake, Reply, running
from fakes.tiny import write_tiny_package

import rightfit
from rightfit.errors import CatalogError, UnknownNameError
from rightfit.market import Catalog, OfferFilter, build, open_catalog, packed_tables, providers, refresh, refresh_rows, store
from rightfit.market.providers.base import Pace, PriceRow

pytest.importorskip("httpx")
FAST = Pace(between_s=0.0, first_pause_s=0.001, longest_pause_s=0.01, timeout_s=2.0, tries=3)
TODAY = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
EVERY = OfferFilter(has_accelerator=None, include_slices=True, include_not_recommended=True)


@pytest.fixture(scope="session")
def tiny_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_package(tmp_path_factory.mktemp("tiny") / "data")


@pytest.fixture
def fake() -> Iterator[Fake]:
    with running() as server:
        yield server


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fake: Fake, tiny_package: Path) -> None:
    monkeypatch.setattr(packed_tables, "_FOLDER", tiny_package)
    monkeypatch.setenv("RIGHTFIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("RIGHTFIT_DATA_DIR", raising=False)
    for name, value in environment(fake).items():
        monkeypatch.setenv(name, value)


def environment(fake: Fake) -> dict[str, str]:
    places = {f"RIGHTFIT_ENDPOINT_{name.upper()}": f"{fake.url}/{name}" for name in ("verda", "lambda")}
    return {**places, "VERDA_CLIENT_ID": "me", "VERDA_CLIENT_SECRET": "right", "LAMBDA_API_KEY": "right"}


def bundled(provider: str) -> dict[tuple[str, str, str], float]:
    """Real prices of now, as the catalog has them."""
    with_catalog = open_catalog()
    rows = with_catalog.prices(
        OfferFilter(providers=(provider,), has_accelerator=None, include_slices=True, include_not_recommended=True), limit=None
    ).rows()
    return {(row["instance_type"], row["region"], row["purchase"]): row["price_usd_per_h"] for row in rows}


def offer(fake: Fake, *, factor: float = 1.0, **changed: float) -> dict[tuple[str, str, str], float]:
    """Let the fake serve Verda's own prices times a factor."""
    prices = {key: round(price * factor, 6) for key, price in bundled("verda").items()}
    fake.answers["verda"] = clouds.verda(prices)
    return prices


def run(*names: str) -> dict[str, refresh.Outcome]:
    return {outcome.provider: outcome for outcome in refresh.refresh(names, pace=FAST)}


def unmoved(outcome: refresh.Outcome) -> bool:
    return (outcome.new, outcome.gone, outcome.dearer, outcome.cheaper, outcome.largest_moves) == (0, 0, 0, 0, ())


def state() -> tuple[str, float, int]:
    """What a user sees: the store, the sum of its prices, their number."""
    catalog = open_catalog()
    table = catalog.all_offers()
    return packed_tables.current(), float(table.price_usd_per_h.sum()), len(table)


# ---- what comes in -------------------------------------------------------------------------------


def test_refreshed_prices_lie_over_the_bundled_ones_with_source_and_date(fake: Fake) -> None:
    before = bundled("verda")
    offer(fake, factor=1.1)
    outcome = run("verda")["verda"]
    assert (outcome.status, outcome.quarantined) == ("refreshed", 0)
    catalog = open_catalog()
    rows = {
        (row["instance_type"], row["region"], row["purchase"]): row
        for row in catalog.prices(EVERY, limit=None).rows()
        if row["source"] == "Verda API"
    }
    assert len(rows) == outcome.prices >= len(before)
    assert set(before) <= set(rows)
    assert (outcome.new_servers, outcome.dearer, outcome.cheaper, outcome.gone) == (0, len(before), 0, 0)
    for key, price in before.items():
        if key[1] == min(region for name, region, mode in before if (name, mode) == (key[0], key[2])):
            assert rows[key]["price_usd_per_h"] == pytest.approx(1.1 * price, abs=1e-6)
        assert (rows[key]["as_of"], rows[key]["is_stale"]) == (TODAY, False)
    assert bundled("lambda")  # the other cloud is as it was
    assert catalog.status().newest == TODAY
    assert [finding for finding in catalog.verify() if finding.severity == "error" and finding.provider == "verda"] == []


def test_a_second_refresh_keeps_what_the_first_brought(fake: Fake) -> None:
    offer(fake, factor=1.1)
    run("verda")
    fake.answers["lambda"] = clouds.lambda_cloud({name: price * 1.2 for (name, _, _), price in bundled("lambda").items()})
    assert run("lambda")["lambda"].status == "refreshed"
    sources = {row["source"] for row in open_catalog().prices(EVERY, limit=None).rows()}
    assert {"Verda API", "Lambda Cloud API"} <= sources


def test_a_new_server_type_is_added_when_the_provider_describes_it(fake: Fake) -> None:
    prices = offer(fake)
    prices["9A100.99V", min(region for _, region, _ in prices), "on-demand"] = 1.5
    fake.answers["verda"] = clouds.verda(prices)
    outcome = run("verda")["verda"]
    assert outcome.new_servers == 1
    (row,) = open_catalog().find_servers(name="9A100.99V").rows()
    assert (row["accelerator_name"], row["num_accelerators"], row["vcpus"]) == ("A100-SXM-80GB", 1.0, 22.0)


def test_types_and_regions_that_the_catalog_cannot_place_are_left_out_and_counted(fake: Fake) -> None:
    prices = offer(fake)
    name = next(iter(prices))[0]
    prices[name, "MARS-01", "on-demand"] = 1.3
    fake.answers["verda"] = clouds.verda(prices)
    outcome = run("verda")["verda"]
    assert outcome.status == "refreshed"
    assert "left out for a region not in the catalog (MARS-01)" in outcome.message


def test_what_cannot_be_asked_is_skipped_unless_named(monkeypatch: pytest.MonkeyPatch, fake: Fake) -> None:
    for name in ("LAMBDA_API_KEY", "VERDA_CLIENT_ID"):
        monkeypatch.delenv(name)
    assert run("verda")["verda"].status == "failed"
    assert "no credentials found; give VERDA_CLIENT_ID and VERDA_CLIENT_SECRET" in run("verda")["verda"].message
    with pytest.raises(UnknownNameError):
        run("nosuch")


# ---- what is refused -----------------------------------------------------------------------------


def refused_or_failed(fake: Fake, said: str, *, status: str) -> refresh.Outcome:
    before = state()
    outcome = run("verda")["verda"]
    assert outcome.status == status
    assert said in outcome.message
    assert "\n" not in outcome.message
    assert state() == before
    return outcome


def test_zero_prices_refuse_the_list(fake: Fake) -> None:
    prices = offer(fake)
    fake.answers["verda"] = clouds.verda({key: 0.0 if index < 6 else price for index, (key, price) in enumerate(sorted(prices.items()))})
    refused_or_failed(fake, "have a price of zero or less; the old prices are kept", status="refused")


def test_an_unknown_currency_refuses_the_list(fake: Fake) -> None:
    fake.answers["verda"] = clouds.verda(offer(fake), currency="jpy")
    refused_or_failed(fake, "a price in JPY, for which no rate is known", status="refused")


@pytest.mark.parametrize(("factor", "said"), [(7.2, "7.2 times"), (100, "100 times"), (1 / 7.2, "0.139 times")])
def test_a_wrong_currency_or_unit_shows_in_the_level_of_prices(fake: Fake, factor: float, said: str) -> None:
    offer(fake, factor=factor)
    refused_or_failed(fake, f"{said} the old ones; a currency or unit may be wrong", status="refused")


def test_euros_are_converted(fake: Fake) -> None:
    prices = offer(fake, factor=0.8645)
    fake.answers["verda"] = clouds.verda(prices, currency="eur")
    before = bundled("verda")
    assert run("verda")["verda"].status == "refreshed"
    after = bundled("verda")
    firsts = [key for key in before if key[1] == min(region for name, region, mode in before if (name, mode) == (key[0], key[2]))]
    assert len(firsts) > 20
    assert all(after[key] == pytest.approx(before[key], rel=1e-3) for key in firsts)


def test_prices_that_fail_the_integrity_checks_are_refused_with_the_list(fake: Fake) -> None:
    prices = offer(fake)
    spots = [key for key in prices if key[2] == "spot"]
    listed = {key[:2]: prices[key] for key in prices if key[2] == "on-demand"}
    for key in spots:
        prices[key] = listed.get(key[:2], 1.0) * 2  # spot above on demand; far below what the level test notices
    fake.answers["verda"] = clouds.verda(prices)
    outcome = refused_or_failed(fake, "fail the integrity checks (most often check_spot_below_on_demand", status="refused")
    assert outcome.findings[0].startswith("check_spot_below_on_demand: verda/")
    assert "limit: at most" in outcome.findings[0]


def test_an_empty_list_is_no_refresh(fake: Fake) -> None:
    fake.answers["verda"] = lambda request: Reply({"access_token": "t"}) if "token" in request.path else Reply([])
    refused_or_failed(fake, "returned no usable price", status="failed")


def test_a_changed_form_of_the_answer_is_one_line(fake: Fake) -> None:
    fake.answers["verda"] = lambda request: Reply({"access_token": "t"}) if "token" in request.path else Reply([{"kode": 1}])
    refused_or_failed(fake, "verda: unexpected response format for types (no 'code')", status="failed")


@pytest.mark.parametrize("fault", [429, 500, "truncated", "broken", "html"])
def test_faults_that_stay_leave_the_old_catalog(fake: Fake, fault: int | str) -> None:
    offer(fake)
    fake.faults["verda"] = [fault] * 50
    refused_or_failed(fake, "(3 tries); try again later", status="failed")


def test_one_failing_source_does_not_stop_the_others(fake: Fake) -> None:
    offer(fake, factor=1.1)
    fake.answers["lambda"] = lambda request: Reply({}, 500)
    outcomes = run("verda", "lambda")
    assert {name: outcome.status for name, outcome in outcomes.items()} == {"verda": "refreshed", "lambda": "failed"}


def test_a_clock_before_the_newest_price_is_refused(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    offer(fake)
    run("verda")
    monkeypatch.setattr(refresh, "_today", lambda: datetime.date(2020, 1, 1))
    with pytest.raises(CatalogError, match="clock is at 2020-01-01, but there are prices from 20"):
        run("verda")


# ---- what is remembered --------------------------------------------------------------------------


def points(name: str, purchase: str) -> list[refresh_rows.PricePoint]:
    rows = open_catalog().prices(EVERY, name=name, limit=None).rows()
    return [point for point in refresh_rows.price_history(rows) if point.purchase == purchase]


def test_history_holds_each_change_with_its_dates(fake: Fake) -> None:
    before = {key: price for key, price in bundled("verda").items() if key[1] == min(place for _, place, _ in bundled("verda"))}
    (name, region, _), price = next(entry for entry in sorted(before.items()) if entry[0][2] == "on-demand")
    for factor in (1.1, 1.1, 0.9):
        fake.answers["verda"] = clouds.verda({key: round(value * factor, 6) for key, value in before.items()})
        run("verda")
    found = [point for point in points(name, "on-demand") if (point.instance_type, point.region) == (name, region)]
    assert [point.price_usd_per_h for point in found] == pytest.approx([price, price * 1.1, price * 0.9], abs=1e-6)
    assert [point.as_of for point in found][1:] == [TODAY, TODAY]
    assert found[2].change == pytest.approx(0.9 / 1.1 - 1, abs=1e-4)
    assert [point.source for point in found][1:] == ["Verda API", "Verda API"]


def test_what_is_new_gone_dearer_and_cheaper_is_counted_and_the_largest_moves_are_named(fake: Fake) -> None:
    prices = offer(fake)
    run("verda")
    first, second, third = sorted({name for name, _, mode in prices if mode == "on-demand"})[:3]
    factors = {(first, "on-demand"): 1.5, (second, "on-demand"): 0.8}
    moved = {key: price * factors.get((key[0], key[2]), 1.0) for key, price in prices.items() if key[0] != third}
    moved["9A100.99V", min(region for _, region, _ in prices), "on-demand"] = 1.5
    fake.answers["verda"] = clouds.verda(moved)
    before = bundled("verda")
    outcome = run("verda")["verda"]
    assert (outcome.gone, outcome.new) == (sum(name == third for name, _, _ in before), len({region for _, region, _ in before}))
    assert outcome.dearer == sum((name, mode) == (first, "on-demand") for name, _, mode in before)
    assert outcome.cheaper == sum((name, mode) == (second, "on-demand") for name, _, mode in before)
    move = outcome.largest_moves[0]
    assert (move.provider, move.instance_type, move.purchase) == ("verda", first, "on-demand")
    assert move.now_usd_per_h / move.before_usd_per_h == pytest.approx(1.5, abs=1e-4)
    assert len(outcome.largest_moves) <= 5
    after = bundled("verda")
    assert all(after[key] == price for key, price in before.items() if key[0] == third)  # what is gone stays, with its old date


def test_a_dated_list_never_lies_over_newer_prices(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that says its own day keeps it, and gives way to what is known of a later one."""
    before = open_catalog().prices(EVERY, limit=None).rows()
    days = [row["as_of"] for row in before if row["provider"] == "verda"]
    for day, known in ((max(days), len(days)), ("2020-01-01", 0)):
        listed = [PriceRow("verda", *key, price * 1.01, as_of=day) for key, price in bundled("verda").items()]
        monkeypatch.setattr(type(providers.provider("verda")), "fetch", lambda *_, rows=listed, **__: iter(rows))
        outcome = run("verda")["verda"]
        if not known:
            assert (outcome.status, len(days) > 5) == ("failed", True)
            assert f"{len(days):,} were older than what is known ({day})" in outcome.message
            continue
        assert (outcome.status, outcome.prices, outcome.dearer) == ("refreshed", known, known)
        now = [row for row in open_catalog().prices(EVERY, limit=None).rows() if row["source"] == "Verda API"]
        assert {row["as_of"] for row in now} == {day}


def test_unchanged_prices_add_nothing_to_the_history(fake: Fake) -> None:
    fake.answers["verda"] = clouds.verda({key: value * 1.1 for key, value in bundled("verda").items()})
    run("verda")
    rows = build.num_rows(build.load(packed_tables.current())[build.HISTORY])
    assert unmoved(run("verda")["verda"])
    assert build.num_rows(build.load(packed_tables.current())[build.HISTORY]) == rows


# ---- interruptions and rivals --------------------------------------------------------------------


def test_an_interrupted_refresh_goes_on_where_it_stopped(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    module = refresh.providers.provider("verda")
    offer(fake)
    asked: list[str] = []
    real = type(module).fetch

    def fetch(self: object, client: object, part: str, *, inventory: object) -> Iterator[object]:
        asked.append(part)
        if part == "b" and len(asked) < 3:
            raise KeyboardInterrupt
        yield from real(self, client, "types", inventory=inventory)  # type: ignore[arg-type]

    monkeypatch.setattr(type(module), "parts", lambda self, known: ["a", "b"])
    monkeypatch.setattr(type(module), "fetch", fetch)
    with pytest.raises(KeyboardInterrupt):
        run("verda")
    assert run("verda")["verda"].status == "refreshed"
    assert asked == ["a", "b", "b"]


def test_two_refreshes_at_once(fake: Fake) -> None:
    with (
        refresh._only_refresh(),
        pytest.raises(CatalogError, match=rf"another refresh is running \(process {os.getpid()}\); wait until it finishes"),
    ):
        run("verda")
    offer(fake)
    assert run("verda")["verda"].status == "refreshed"  # the lock is free again


def test_damaged_refreshed_prices_cost_one_warning_and_a_refresh_repairs_them(fake: Fake, caplog: pytest.LogCaptureFixture) -> None:
    before = state()
    offer(fake, factor=1.1)
    run("verda")
    generation = packed_tables.current()
    path = packed_tables.folder() / generation / "prices.pack"
    path.write_bytes(path.read_bytes()[:-20])
    store.store_path().unlink()
    assert state()[1:] == before[1:]
    assert [record.getMessage().count("\n") for record in caplog.records] == [0]
    assert "are damaged; run `rightfit catalog refresh`" in caplog.records[0].getMessage()
    assert run("verda")["verda"].status == "refreshed"
    assert state()[1] > before[1]


def test_the_same_prices_again_do_not_touch_the_generation_that_counts(fake: Fake) -> None:
    offer(fake)
    run("verda")
    first = packed_tables.folder() / packed_tables.current() / "prices.pack"
    inode = first.stat().st_ino
    assert unmoved(run("verda")["verda"])
    assert packed_tables.folder() / packed_tables.current() / "prices.pack" == first
    assert first.stat().st_ino == inode


def test_old_generations_and_their_stores_are_removed(fake: Fake, tmp_path: Path) -> None:
    for factor in (1.1, 1.2, 1.3, 1.4):
        offer(fake, factor=1.0 + (factor - 1.0) / 10)
        run("verda")
        time.sleep(0.01)
    kept = [path for path in packed_tables.folder().iterdir() if path.is_dir() and path.name != "work"]
    assert len(kept) == 2
    assert len(list(tmp_path.glob("catalog-*-*-*.sqlite"))) == 2


KILLS = """
import json, os, random, signal, sys, time
from pathlib import Path
from rightfit.market import open_catalog, packed_tables, refresh
from rightfit.market.providers.base import Pace, PriceRow
import httpx, tenacity
packed_tables._FOLDER = Path(sys.argv[1])
def go():
    refresh.refresh(["verda"], pace=Pace(between_s=0.0))
def child(work):
    process = os.fork()
    if not process:
        try:
            work()
        finally:
            os._exit(0)
    return process
open_catalog().close()
took = []
for _ in range(3):
    start = time.monotonic()
    os.waitpid(child(go), 0)
    took.append(time.monotonic() - start)
chance, seen, alive = random.Random(20261120), set(), 0
for _ in range(100):
    process, start, done = child(go), time.monotonic(), (0, 0)
    delay = chance.uniform(0.0, 1.1 * min(took))
    while time.monotonic() - start < delay and not (done := os.waitpid(process, os.WNOHANG))[0]:
        time.sleep(0.001)
    if done[0]:
        took.append(time.monotonic() - start)  # the machine got quieter: aim earlier
    else:
        os.kill(process, signal.SIGKILL)
        alive += os.WIFSIGNALED(os.waitpid(process, 0)[1])
    catalog = open_catalog()
    bad = [finding.check for finding in catalog.verify() if finding.severity == "error"]
    table = catalog.all_offers()
    seen.add((packed_tables.current() != "", len(table), len(bad)))
    catalog.close()
os.waitpid(child(go), 0)
left = [path.name for path in packed_tables.folder().iterdir()]
print(json.dumps({"killed": alive, "seen": sorted(seen), "current": packed_tables.current(), "work": left}))
"""


@pytest.mark.deep
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
def test_a_hundred_kills_at_random_moments_never_break_the_catalog(fake: Fake, tmp_path: Path, tiny_package: Path) -> None:
    base = offer(fake)
    prices = clouds.verda(base)
    served: list[int] = []

    def moving(request: object) -> Reply:  # prices go to and fro, so that new generations and the same one again both occur
        served.append(1)
        return clouds.verda({key: value * (1 + len(served) % 2 / 1000) for key, value in base.items()})(request)  # type: ignore[arg-type]

    assert prices
    fake.answers["verda"] = moving
    source = str(Path(rightfit.__file__).resolve().parent.parent)
    variables = {**os.environ, **environment(fake), "RIGHTFIT_CACHE_DIR": str(tmp_path / "killed"), "PYTHONPATH": source}
    done = subprocess.run(
        [sys.executable, "-c", KILLS, str(tiny_package)], env=variables, capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["killed"] > 50  # most were hit in the middle
    assert len({(rows, bad) for _, rows, bad in answer["seen"]}) == 1  # every time the whole catalog, sound
    assert answer["current"]


# ---- the command line ----------------------------------------------------------------------------


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    from rightfit.cli import main

    def call(*arguments: str) -> tuple[int, str, str]:
        code = main(arguments)
        output = capsys.readouterr()
        return code, output.out, output.err

    return call


def test_command(fake: Fake, cli: Callable[..., tuple[int, str, str]]) -> None:
    offer(fake, factor=1.1)
    code, out, err = cli("catalog", "refresh", "verda", "--format", "json")
    assert (code, err) == (0, "")
    assert json.loads(out)[0]["status"] == "refreshed"
    offer(fake, factor=1.05)
    code, out, _ = cli("catalog", "refresh", "verda")
    assert (code, "dearer" in out, "The largest moves:" in out, "+5.0%" in out) == (0, True, True, True)
    name = next(iter(bundled("verda")))[0]
    code, out, _ = cli("prices", name, "--history", "--cloud", "verda")
    assert code == 0
    assert "+10.0%" in out
    code, out, _ = cli("prices", name, "--history", "--cloud", "verda", "--format", "json")
    assert [point["source"] for point in json.loads(out)][1] == "Verda API"


def test_a_failing_command_says_why_and_exits_with_three(
    fake: Fake, cli: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERDA_CLIENT_SECRET", "wrong")
    offer(fake)
    code, out, err = cli("catalog", "refresh", "verda")
    assert code == 3
    assert "failed" in out
    assert err.startswith("error: verda: credentials are missing, expired")
    assert "wrong" not in out + err
    code, _, err = cli("catalog", "refresh", "azur")
    assert code == 2
    assert "did you mean azure" in err
    assert err.count("\n") == 1


def test_two_commands_at_once(fake: Fake, cli: Callable[..., tuple[int, str, str]]) -> None:
    with refresh._only_refresh():
        code, _, err = cli("catalog", "refresh", "verda")
    assert (code, err.count("\n")) == (3, 1)
    assert "another refresh is running" in err


def test_the_catalog_type_is_the_same(catalog: Catalog) -> None:
    """Without refreshed prices nothing changes: a store by path holds the bundled ones."""
    assert packed_tables.current() == ""
    assert len(catalog.servers()) > 0
