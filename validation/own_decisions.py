"""What a decision is worth: the extra cost of the card that is chosen over the best one, after 0, 1
and 2 tests of one's own.

    python validation/own_decisions.py                  print
    python validation/own_decisions.py --write          and write validation/own_decisions.csv
    python validation/own_decisions.py --prices         write validation/card_prices.csv from the
                                                        market as it is now

A choice is a job of one source that was measured on two cards or more, as many of each, at the same
batch and length (validation/truth). The cost of a unit of work on a card is its price times the
time; prices are the lowest on demand per card-hour (validation/card_prices.csv). Predictions are
those with the source left out, and so are the five numbers of the nested model. The card of the
lowest predicted cost is tested first, then the one of the lowest cost after the update, while that
is none that was tested; chosen is what then costs least. Beside it: a card at random, and the
cheapest by the hour. Sources weigh equally.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parent))

import rightfit
from fit_calibration import TABLES, VALIDATION, by_figure, fit, lines_of, read_second, write_table
from rightfit import facts
from rightfit.errors import RightfitError
from rightfit.measure.evidence import Law, as_cases, case_of, posterior_of
from rightfit.proof.left_out import predict_left_out, read_folds
from rightfit.proof.score import number
from rightfit.proof.tables import read_truth

PRICES, TABLE = VALIDATION / "card_prices.csv", VALIDATION / "own_decisions.csv"
FIGURES = ("training-step", "samples-step", "time-per-token", "serving-throughput")
#: Metrics that say how much work a whole server does; those "per GPU" are multiplied by the cards.
WHOLE = ("samples_per_s", "images_per_s_total", "samples_per_s_total", "output_tok_per_s_total", "total_tok_per_s", "req_per_s")
PER_CARD, TIMES = ("tokens_per_s_per_gpu",), ("step_time_s", "s_per_iter", "tpot_ms")
SINGLE = ("decode_tok_per_s_single",)
TESTS = 2


@dataclasses.dataclass(frozen=True)
class Choice:
    """Cards that one job was measured on. `cost` measured and `guess` predicted cost of a unit of
    work, `hourly` price of the server, rows as `lines_of` knows them."""

    source: str
    figure: str
    cost: NDArray[np.float64]
    guess: NDArray[np.float64]
    hourly: NDArray[np.float64]
    rows: Sequence[Mapping[str, str]]


def card_prices() -> list[dict[str, Any]]:
    """The lowest on-demand price per card-hour of every accelerator that the market
    rents by list price."""
    counts = {(row["provider"], row["instance_type"]): (row["accelerator_name"], row["num_accelerators"]) for row in rightfit.servers()}
    best: dict[str, dict[str, Any]] = {}
    for row in rightfit.prices(purchase="on-demand"):
        name, count = counts.get((row["provider"], row["instance_type"]), ("", 0))
        if not name or not count or row["is_estimate"] or row["is_quarantined"] or row["is_stale"]:
            continue
        usd = row["price_usd_per_h"] / count
        if name not in best or usd < best[name]["usd_per_card_h"]:
            best[name] = {"card": name, "usd_per_card_h": usd, "server": f"{row['provider']}/{row['instance_type']}", "as_of": row["as_of"]}
    return [best[name] for name in sorted(best)]


def read_prices() -> dict[str, float]:
    """Price per card-hour by card."""
    with PRICES.open(encoding="utf-8", newline="") as stream:
        return {row["card"]: float(row["usd_per_card_h"]) for row in csv.DictReader(stream)}


def counted() -> tuple[list[dict[str, str]], list[dict[str, Any]]]:
    """Rows of validation/truth that count, and their predictions with the source left out."""
    truth = read_truth(VALIDATION / "truth")
    kept = [row for row, why, table in zip(truth.rows, truth.excluded, truth.table, strict=True) if not why and table in TABLES]
    rows = [{name: str(value or "") for name, value in row.items() if name} for row in kept]
    return rows, predict_left_out(rows, read_folds(VALIDATION / "folds"))


def choices(rows: Sequence[Mapping[str, str]], answers: Sequence[Mapping[str, Any]]) -> Iterator[Choice]:
    """Every choice among these rows."""
    prices = read_prices()
    groups: dict[tuple[Any, ...], dict[str, tuple[float, float, float, Mapping[str, str]]]] = {}
    for row, answer in zip(rows, answers, strict=True):
        found = _priced(row, number(answer.get("predicted")), prices)
        case = case_of(row, row.get("metric", ""))
        if found is not None and case.figure in FIGURES:
            place = groups.setdefault((row["source"], case.figure, case.job, row["metric"], case.count, case.batch, case.length), {})
            place.setdefault(case.card, (*found, row))
    for (source, figure, *_), servers in groups.items():
        if len(servers) > 1:
            cost, guess, hourly = (np.array([one[at] for one in servers.values()], dtype=np.float64) for at in range(3))
            yield Choice(source, figure, cost, guess, hourly, [one[3] for one in servers.values()])


def _priced(row: Mapping[str, str], predicted: float, prices: Mapping[str, float]) -> tuple[float, float, float] | None:
    """Measured cost, predicted cost and price of a row's server; None where one of
    them is not known."""
    name, measured = row.get("metric", ""), number(row.get("measured"))
    try:
        card = facts.accelerator(row.get("gpu") or row.get("device") or "").name
    except RightfitError:
        return None
    count = number(row.get("n_gpus") or row.get("n_devices") or "1")
    usd = prices.get(card, float("nan"))
    if not (measured > 0 and predicted > 0 and count > 0 and usd > 0):
        return None
    if name in PER_CARD:
        return usd / measured, usd / predicted, usd * count
    if name in WHOLE or name in SINGLE:
        return usd * count / measured, usd * count / predicted, usd * count
    return (usd * count * measured, usd * count * predicted, usd * count) if name in TIMES else None


def chosen(choice: Choice, law: Law, tests: int) -> int:
    """The card that is chosen after so many tests."""
    believed, tested = choice.guess.copy(), []
    for _ in range(tests):
        next_ = int(np.argmin(believed))
        if next_ in tested:
            break
        tested.append(next_)
        believed = _updated(choice, law, tested)
    return int(np.argmin(believed))


def _updated(choice: Choice, law: Law, tested: Sequence[int]) -> NDArray[np.float64]:
    """Costs after these tests: those tested as measured, the others moved by the nested model."""
    cases = as_cases([case_of(row, row["metric"]) for row in choice.rows])
    index = np.array(tested, dtype=np.intp)
    residual = np.log(choice.cost[index] / choice.guess[index])
    found = posterior_of(law, cases.take(index), residual, cases)
    believed = choice.guess * np.exp(found.mean)
    believed[index] = choice.cost[index]
    return believed


def scored(found: Sequence[Choice], laws: Mapping[tuple[str, str], Law]) -> list[dict[str, Any]]:
    """One line a figure, and one of all: extra cost over the best card, mean over
    the sources' means."""
    lines = []
    for figure in (*FIGURES, "all"):
        kept = [choice for choice in found if figure in ("all", choice.figure)]
        extra: dict[str, list[NDArray[np.float64]]] = {}
        for source in sorted({choice.source for choice in kept}):
            own = np.array([_extras(choice, laws[choice.figure, source]) for choice in kept if choice.source == source])
            extra.setdefault("mean", []).append(own.mean(axis=0))
        if extra:
            values = np.mean(extra["mean"], axis=0)
            names = ("test_0", "test_1", "test_2", "random", "cheapest_per_hour")
            lines.append(
                {"figure": figure, "choices": len(kept), "sources": len(extra["mean"]), **dict(zip(names, map(float, values), strict=True))}
            )
    return lines


def _extras(choice: Choice, law: Law) -> list[float]:
    extra = choice.cost / choice.cost.min() - 1.0
    picked = [float(extra[chosen(choice, law, tests)]) for tests in range(TESTS + 1)]
    return [*picked, float(extra.mean()), float(extra[int(np.argmin(choice.hourly))])]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--prices", action="store_true")
    options = parser.parse_args()
    if options.prices:
        write_table(PRICES, card_prices())
        return
    rows, answers = counted()
    found, lines = list(choices(rows, answers)), lines_of(rows, answers)
    sources = by_figure(lines + read_second({source for source, _, _ in lines}))
    wanted = {(choice.figure, choice.source) for choice in found}
    laws = {
        (figure, source): fit(figure, [other for other in sources[figure] if other.name != source]) for figure, source in sorted(wanted)
    }
    table = scored(found, laws)
    for line in table:
        print(*(f"{name} {value:.3f}" if isinstance(value, float) else f"{name} {value}" for name, value in line.items()))
    if options.write:
        write_table(TABLE, table)


if __name__ == "__main__":
    main()
