"""Work that no plan has is answered by public rates in the units of the wish."""

from __future__ import annotations

import pytest

from rightfit.cli import main
from rightfit.explain.rated_work import _amount, rated_text
from rightfit.facts import tables
from rightfit.market import Catalog

AMOUNTS = [
    ("MD with a MACE potential, 20k atoms, 10 ns at 1 fs", "potentials", 2e11),
    ("NequIP, 5000 atoms for 500 ps with 0.5 fs steps", "potentials", 5e9),
    ("用MACE跑2万个原子,10纳秒,步长1飞秒", "potentials", 2e11),
    ("CosyVoice2,一本80万字,要出200本", "speech", 9876.5),
    ("narrate 120 books of 90k words each with F5-TTS", "speech", 1200.0),
    ("XTTS for 300 hours of podcasts", "speech", 300.0),
    ("fold 3000 protein complexes with boltz-2", "structures", 3000.0),
    ("3dgs重建200个样板间", "scenes", 200.0),
    ("gaussian splatting of 50 rooms", "scenes", 50.0),
]


@pytest.mark.parametrize(("sentence", "kind", "amount"), AMOUNTS)
def test_the_amount_is_told_in_its_own_units(sentence: str, kind: str, amount: float, catalog: Catalog) -> None:
    found = [one for row in tables.table("work_rates") if row["kind"] == kind and (one := _amount(sentence, row))]
    assert found[0] == pytest.approx(amount, rel=0.01)
    for lang in ("en", "zh"):
        assert rated_text(sentence, catalog, lang)


def test_other_work_and_amounts_that_nobody_tells_are_not_rated(catalog: Catalog) -> None:
    for sentence in (
        "fine-tune Qwen2.5-7B on 20k samples",
        "which GPU for MACE",
        "serve Llama-3-8B for 20 users",
        "bark at 20 dogs for 3 hours",
    ):
        assert rated_text(sentence, catalog, "en") == ""


def test_more_work_takes_more_and_more_gpus_less_time(capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for words in ("MACE, 20k atoms, 10 ns at 1 fs", "MACE, 20k atoms, 20 ns at 1 fs", "boltz-2, 3000 complexes, 4 GPUs"):
        assert main(["plan", "--ask", words]) == 0
        told.append(" ".join(capsys.readouterr().out.split()))
    assert "560 to 2.8k GPU hours" in told[0]
    assert "1.12k to 5.6k GPU hours" in told[1]
    assert "4 of them need" in told[2]
