"""Play the recipes of CONTRIBUTING.md in a scratch copy of the sources, and show that the suite
names what is missing until a recipe is whole.

Usage: python scripts/play_recipes.py [RECIPE ...]     (all without names; prints what the suite
                                                       said at each step; exits 1 where a recipe is
                                                       untrue)

A recipe is a list of steps. After each step the tests that CONTRIBUTING.md names for it run in the
copy: while something is missing each failure must be one of the lines that the step foretells, and
after the last step all must pass and the product must show the new thing. The steps of all recipes
are played side by side, so that the suite runs once for each step and not once for each recipe.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("src", "tests", "docs", "scripts", "validation", "changelog.d", "benchmarks")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[.*?\])?(?: - (.*))?$", re.MULTILINE)
LONGEST_S = 300


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """What is done to the copy (texts changed, then scripts run), and the lines that the suite must
    say afterwards (none after the last step)."""

    do: Callable[[Path], None]
    said: tuple[str, ...] = ()
    scripts: tuple[tuple[str, ...], ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe: its steps, the tests that judge them, and what the product shows in the end: a
    command line and a text in its answer."""

    title: str  # as in CONTRIBUTING.md
    steps: tuple[Step, ...]
    tests: tuple[str, ...]
    shows: tuple[tuple[tuple[str, ...], str], ...]


# ---- how a file is changed -----------------------------------------------------------------------


def put(folder: Path, name: str, text: str) -> None:
    """Write a file; the copy shares files with the sources, so that one is
    never written in place."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def change(name: str, *pairs: tuple[str, str], end: str = "") -> Callable[[Path], None]:
    """Replace texts that must be there, and write `end` at the end."""

    def do(folder: Path) -> None:
        text = (folder / name).read_text(encoding="utf-8") if (folder / name).exists() else ""
        for old, new in pairs:
            if old not in text:
                raise SystemExit(f"{name} no longer holds {old!r}; change scripts/play_recipes.py with it")
            text = text.replace(old, new, 1)
        put(folder, name, text + end)

    return do


def both(*changes: Callable[[Path], None]) -> Callable[[Path], None]:
    """Several changes."""

    def do(folder: Path) -> None:
        for one in changes:
            one(folder)

    return do


def nothing(folder: Path) -> None:
    """Only scripts are run."""


def run_script(folder: Path, words: Sequence[str]) -> None:
    """Run a script of the copy, as CONTRIBUTING.md says."""
    for name in (
        "README.md",
        "README.zh.md",
        "docs/coverage.md",
        "docs/coverage.zh.md",
        "docs/concepts/reasons.md",
        "docs/rules-of-thumb.md",
    ):
        put(folder, name, (folder / name).read_text(encoding="utf-8"))  # a file of its own, since the script writes it in place
    done = run(folder, words)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)}: {done.stderr}")


def like(table: str, row: str, **cells: str) -> Callable[[Path], None]:
    """Add a row to a table: that whose first cell is `row`, with other cells."""

    def do(folder: Path) -> None:
        text = (folder / table).read_text(encoding="utf-8")
        lines = list(csv.reader(text.splitlines()))
        header, found = lines[0], next(line for line in lines if line[0] == row)
        new = {**dict(zip(header, found, strict=True)), **cells}
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerow(new[column] for column in header)
        put(folder, table, text + stream.getvalue())

    return do


def toy(source: str, name: str, *without: str) -> Callable[[Path], None]:
    """Write a file of the toy family of work; `without`: parts that are left out, from where each
    begins to the next line that begins like it."""

    def do(folder: Path) -> None:
        text = (TOY / source).read_text(encoding="utf-8")
        for start in without:
            begin = text.index(start)
            end = text.find(f"\n{start[0]}", begin + 1) + 1 if start[0] == "[" else text.index("\n", begin) + 1
            text = text[:begin] + (text[end:] if end else "")
        put(folder, name, text)

    return do


# ---- the recipes ---------------------------------------------------------------------------------

FACTS = "src/rightfit/facts/data"
TOY = ROOT / "tests" / "data" / "toy_family"
SORTS = '"sorting/files" = { task = "prepare", operation = "sort", data = "1TB" }'
SORTING, WORDS = "src/rightfit/families/sorting", "src/rightfit/explain/data/families/sorting.toml"
SORT = ("--task", "prepare", "--operation", "sort", "--data", "1TB", "--lang")
AMENDED = "src/rightfit/market/data/amendments/acme"
SIZES = ("tests/test_docs_figures.py::test_pages_say_how_much_is_known",)
COUNT = ("scripts/write_sizes.py",)
TOO_FEW = "; run scripts/write_sizes.py"
RULE = """
[acme_four_gpus]
post = 0
kind = "gpus"
figure = "num_gpus"
value = 4
unit = "count"
statement = { en = "acme wants four cards", zh = "acme 要四张卡" }
holds = { en = "our pick has {gpus}", zh = "方案有 {gpus}" }
fails = { en = "our pick has {gpus}", zh = "方案有 {gpus}" }
misleading = { en = "our pick has {gpus}", zh = "方案有 {gpus}" }
"""
PROVIDER = '''"""Acme: one price list for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rightfit.market.providers.base import Known, Need, PriceRow, Row
from rightfit.market.providers.base import Client, endpoint


class _Acme:
    name = "acme"
    covers = ("verda",)
    source = "Acme API"
    needs = Need()

    def parts(self, inventory: Known) -> Sequence[str]:
        return ["all"]

    def fetch(self, client: Client, part: str, *, inventory: Known) -> Iterator[Row]:
        for item in client.json(endpoint("acme", "https://prices.example.com") + "/prices"):
            yield PriceRow("verda", item["type"], item["region"], "on-demand", float(item["price"]))


PROVIDER = _Acme()
'''
TARGET = '''"""acme-notes: what was planned, in one line."""

from __future__ import annotations

from rightfit.exports.job import Job
from rightfit.exports.registry import Files, Target


def write(job: Job) -> Files:
    """The note."""
    return {"note.txt": f"{job.option.instance_type}\\n"}


TARGET = Target("acme-notes", "environment", "what was planned, in one line", write)
'''
MEASURED = (
    "id,metric,measured,source,source_where,date,usable,trust,model,kind,gpu,n_gpus,method,framework,seq_len,micro_batch,is_oom,mem_kind\n"
    "ACME1,peak_mem_gib_per_gpu,21.5,{source},our own run,2026-10-01,1,A,meta-llama/Meta-Llama-3-8B,decoder,A100-SXM-80GB,1,lora,transformers,1024,1,0,allocated\n"
)
HABIT = "acmetune,,,,,,,,{setting}=full;logit=12,Acme Tune 1.0 src/train.py\n"

RECIPES: Mapping[str, Recipe] = {
    "model": Recipe(
        "A model",
        (
            Step(
                like(f"{FACTS}/models_transformer.csv", "openai-community/gpt2", name="acme/tiny-124m"),
                ("models_index.csv lacks 'transformer,acme/tiny-124m,' for the row of models_transformer.csv",),
            ),
            Step(change(f"{FACTS}/models_index.csv", end="transformer,acme/tiny-124m,acme-tiny\n"), (TOO_FEW,)),
            Step(nothing, scripts=(COUNT,)),
        ),
        (
            "tests/facts/test_architectures.py::test_every_row_of_a_family_has_its_line_in_the_index",
            "tests/facts/test_architectures.py::test_no_name_or_alias_has_two_owners",
            "tests/facts/test_parameter_count.py::test_every_bundled_transformer_within_half_a_percent_or_explained",
            *SIZES,
        ),
        ((("models", "acme-tiny"), "acme/tiny-124m"),),
    ),
    "accelerator": Recipe(
        "An accelerator",
        (
            Step(
                like(f"{FACTS}/accelerators.csv", "H100-SXM-80GB", name="ACME-H999-80GB", architecture="Hoper", equivalent_to=""),
                ("accelerators.csv: no row of architectures.csv has NVIDIA Hoper of compute capability 9", TOO_FEW),
            ),
            Step(change(f"{FACTS}/accelerators.csv", (",Hoper,", ",Hopper,")), (TOO_FEW,)),
            Step(nothing, scripts=(COUNT,)),
        ),
        ("tests/facts/test_devices.py::test_every_accelerator_says_what_a_prediction_needs", *SIZES),
        ((("accelerators", "h999"), "ACME-H999-80GB"),),
    ),
    "server": Recipe(
        "A server, a price, a region",
        (
            Step(
                change(
                    f"{AMENDED}/prices.csv",
                    end="action,provider,instance_type,region,purchase,price_usd_hour,source,as_of,note\n"
                    "add,verda,9H100.ACME,FIN-02,on-demand,21.5,the price page of acme,2026-10-01,\n",
                ),
                ("market/data/amendments/acme/prices.csv:2: servers has no verda/9H100.ACME",),
            ),
            Step(
                change(
                    f"{AMENDED}/servers.csv",
                    end="action,provider,instance_type,family,category,vcpus,memory_gib,arch,gpu_name,gpu_count,gpu_interconnect,source,as_of\n"
                    "add,verda,9H100.ACME,H100,gpu,200,1800,x86_64,H100-SXM-80GB,9,nvswitch,the page of acme,2026-10-01\n",
                ),
                (TOO_FEW,),
            ),
            Step(nothing, scripts=(COUNT,)),
        ),
        ("tests/catalog/test_amendments.py::test_the_bundled_amendments_are_sound", *SIZES),
        ((("servers", "9h100.acme"), "9H100.ACME"), (("prices", "9h100.acme"), "$21.50")),
    ),
    "provider": Recipe(
        "A source of live prices",
        (
            Step(
                change("src/rightfit/market/providers/acme.py", end=PROVIDER),
                ("market/providers/__init__.py: NAMES lacks 'acme', so that providers/acme.py is never asked",),
            ),
            Step(
                change("src/rightfit/market/providers/__init__.py", ('"verda", "crusoe"', '"verda", "crusoe", "acme"')),
                (
                    "tests/catalog/fakes/clouds.py: FAKES lacks acme",
                    "docs/concepts/refresh.md has no row | `acme` | in its table of sources",
                ),
            ),
            Step(
                both(
                    change(
                        "tests/catalog/fakes/clouds.py",
                        (
                            "# What plays each source",
                            'def acme(prices: Prices) -> Answer:\n    """GET /prices."""\n'
                            '    return lambda _request: Reply([{"type": key[0], "region": key[1], "price": price} for key, price in prices.items()])\n'
                            "\n\n# What plays each source",
                        ),
                        ('    "crusoe": (crusoe,),\n', '    "crusoe": (crusoe,),\n    "acme": (acme,),\n'),
                    ),
                    change(
                        "tests/catalog/test_providers.py",
                        ('        "aws_spot",\n', '        "aws_spot",\n        "acme",\n'),
                        end='\n\ndef test_acme(fake: Fake) -> None:\n    fake.answers["acme"] = clouds.acme({("a", "b", "on-demand"): 2.5})\n'
                        '    assert prices(ask("acme")) == {("a", "b", "on-demand"): (2.5, "USD")}\n',
                    ),
                    change(
                        "docs/concepts/refresh.md",
                        ("| `skypilot` |", "| `acme` | on demand | its price list | `prices` | none |\n| `skypilot` |"),
                    ),
                )
            ),
        ),
        (
            "tests/catalog/test_providers.py::test_every_module_of_a_source_is_asked",
            "tests/catalog/test_providers.py::test_every_source_is_whole",
            "tests/catalog/test_providers.py::test_every_source_is_played_by_a_fake_and_asked_in_a_test",
            "tests/catalog/test_providers.py::test_every_source_is_on_the_page_of_refresh",
            "tests/catalog/test_providers.py::test_no_fake_and_no_row_is_left_of_a_source_that_is_gone",
        ),
        ((("catalog", "refresh", "acm"), "acme"),),
    ),
    "rule": Recipe(
        "A rule of thumb",
        (
            Step(
                change("src/rightfit/explain/data/rules.toml", end="\n".join(RULE.splitlines()[:-2]) + "\n"),
                ("explain/data/rules.toml: acme_four_gpus lacks fails, misleading",),
            ),
            Step(
                change("src/rightfit/explain/data/rules.toml", end="\n".join(RULE.splitlines()[-2:]) + "\n"),
                ("docs/rules-of-thumb.md lacks acme_four_gpus; run scripts/write_rules_page.py acme_four_gpus", TOO_FEW),
            ),
            Step(nothing, scripts=(("scripts/write_rules_page.py", "acme_four_gpus"), COUNT)),
        ),
        (
            "tests/explain/test_rules.py::test_every_rule_is_whole",
            "tests/explain/test_rules_page.py",
            *SIZES,
        ),
        ((("check", "acme wants four cards"), "acme wants four cards"),),
    ),
    "export": Recipe(
        "An export target",
        (
            Step(
                change("src/rightfit/exports/targets/acme_notes.py", end=TARGET),
                (
                    "the target acme-notes does not say in checked_by which program reads its files",
                    "there is no docs/exports/acme-notes.md; run scripts/write_export_pages.py acme-notes and write its prose",
                    "docs/commands/export.md has no row [acme-notes](../exports/acme-notes.md) in its table of checks",
                ),
            ),
            Step(
                both(
                    change("src/rightfit/exports/targets/acme_notes.py", (", write)", ', write, checked_by="a reader")')),
                    change("docs/exports/acme-notes.md", end="# acme-notes\n"),
                    change(
                        "docs/commands/export.md", ("| [keda]", "| [acme-notes](../exports/acme-notes.md) | a reader | none |\n| [keda]")
                    ),
                )
            ),
        ),
        (
            "tests/export/test_registry.py::test_every_module_holds_targets_and_no_name_is_given_twice",
            "tests/export/test_registry.py::test_every_target_says_what_it_is_and_what_checks_it",
            "tests/export/test_pages.py::test_every_target_has_a_page",
            "tests/export/test_pages.py::test_the_table_says_what_checks_it",
        ),
        ((("-c", "from rightfit.exports import all_targets; print(*all_targets())"), "acme-notes"),),
    ),
    "family": Recipe(
        "A family of work",
        (
            Step(
                both(toy("family/__init__.py", f"{SORTING}/__init__.py"), toy("family/match.py", f"{SORTING}/match.py", "EXAMPLE", "PAGE")),
                (
                    "families/sorting/match.py lacks EXAMPLE, PAGE; families/sorting/kind.py lacks FAMILY",
                    "explain/data/families/sorting.toml is missing: it words outcome, setup, speed and the family's own reasons",
                    "tests/data/options.toml has no wish of sorting",
                ),
            ),
            Step(
                both(toy("family/match.py", f"{SORTING}/match.py"), toy("family/kind.py", f"{SORTING}/kind.py")),
                (
                    "explain/data/families/sorting.toml is missing: it words outcome, setup, speed and the family's own reasons",
                    "there is no docs/tasks/sorting.md; there is no docs/tasks/sorting.zh.md",
                    "tests/data/options.toml has no wish of sorting",
                ),
            ),
            Step(
                both(
                    toy("words.toml", WORDS, "[speed]"),
                    toy("page.md", "docs/tasks/sorting.md"),
                    toy("page.zh.md", "docs/tasks/sorting.zh.md"),
                ),
                (
                    "explain/data/families/sorting.toml lacks speed",
                    "docs/index.md has no link to tasks/sorting.md; docs/index.zh.md has no link to tasks/sorting.zh.md",
                    "tests/data/options.toml has no wish of sorting",
                ),
            ),
            Step(
                both(
                    toy("words.toml", WORDS, "[sort_spills]", "[time_spill]"),
                    change("docs/index.md", end="\n[Sorting](tasks/sorting.md)\n"),
                    change("docs/index.zh.md", end="\n[排序](tasks/sorting.zh.md)\n"),
                ),
                ("explain/data/families/sorting.toml lacks sort_spills, time_spill", "tests/data/options.toml has no wish of sorting"),
            ),
            Step(
                both(
                    toy("words.toml", WORDS),
                    change("tests/data/options.toml", ("[kinds]\n", f"[kinds]\n{SORTS}\n")),
                )
            ),
        ),
        (
            "tests/families/test_options.py::test_the_table_has_every_option_and_every_family",
            *(
                f"tests/families/test_whole.py::{test}"
                for test in (
                    "test_its_folder_is_whole[sorting]",
                    "test_it_has_words[sorting]",
                    "test_it_has_a_page[sorting]",
                    "test_its_example_is_taken_by_it_alone[sorting]",
                    "test_its_options_say_what_every_face_reads[sorting]",
                    "test_every_verb_answers_its_example[sorting]",
                    "test_its_documents_are_as_the_schema_says[en-sorting]",
                    "test_its_plan_is_exported_or_refused_in_a_line[sorting]",
                    "test_its_words_name_what_its_answers_have[sorting]",
                    "test_its_reasons_and_terms_have_words[sorting]",
                    "test_its_answers_are_drawn_with_no_field_left_open[en-sorting]",
                    "test_its_answers_are_drawn_with_no_field_left_open[zh-sorting]",
                )
            ),
        ),
        (
            (("plan", *SORT, "en"), "Sorts 1 TB in"),
            (("plan", *SORT, "zh"), "对 1 TB 排序需要"),
            (("estimate", "--on", "aws/m7i.8xlarge", *SORT, "zh"), "个有序段写入磁盘后归并"),
            (("why", "aws/m7i.8xlarge", *SORT, "en"), "aws/m7i.8xlarge can run this job (sort)."),
        ),
    ),
    "message": Recipe(
        "A message",
        (
            Step(
                both(
                    change("src/rightfit/explain/data/terms.toml", end='\n[acme]\nen = "acme says {what}"\n'),
                    change("src/rightfit/explain/messages.py", end='\n\ndef acme() -> str:\n    return say("terms.acmes", "en", what=1)\n'),
                ),
                (
                    "explain/data/terms.toml: acme has no text in zh",
                    "messages.py says terms.acmes, which explain/data/terms.toml lacks",
                ),
            ),
            Step(
                both(
                    change("src/rightfit/explain/data/terms.toml", end='zh = "acme 说 {what}"\n'),
                    change("src/rightfit/explain/messages.py", ("terms.acmes", "terms.acme")),
                )
            ),
        ),
        (
            "tests/explain/test_messages.py::test_every_message_has_both_languages_with_the_same_fields_and_marks",
            "tests/explain/test_messages.py::test_every_message_that_is_said_is_there",
        ),
        ((("-c", "from rightfit.explain.messages import say; print(say('terms.acme', 'zh', what=1))"), "acme 说 1"),),
    ),
    "figure": Recipe(
        "A measured figure",
        (
            Step(
                change("validation/truth/acme/train_memory.csv", end=MEASURED.format(source="")),
                ("validation/truth/acme/train_memory.csv: row ACME1 lacks source",),
            ),
            Step(change("validation/truth/acme/train_memory.csv", (",21.5,,our", ",21.5,acme,our"))),
        ),
        (
            "tests/proof/test_truth.py::test_every_measured_row_says_where_it_was_read",
            "tests/proof/test_truth.py::test_rows_that_people_added_are_like_those_of_their_table",
        ),
        (
            (("predict", "validation/truth/acme/train_memory.csv", "--format", "csv"), "ACME1,peak_mem_gib_per_gpu"),
            (
                ("-c", "from rightfit.proof.tables import read_truth; print(read_truth('validation/truth').files)"),
                "acme/train_memory.csv",
            ),
        ),
    ),
    "habit": Recipe(
        "A framework's habits",
        (
            Step(
                change(f"{FACTS}/frameworks.csv", end=HABIT.format(setting="recomputes")),
                ("frameworks.csv: acmetune: nothing reads the setting 'recomputes'; did you mean recompute?",),
            ),
            Step(change(f"{FACTS}/frameworks.csv", ("recomputes=full", "recompute=full"))),
        ),
        ("tests/facts/test_trainers.py::test_every_habit_of_a_framework_is_one_that_is_read",),
        ((("-c", "from rightfit.facts.trainers import stack_settings; print(stack_settings(framework='acmetune')['recompute'])"), "full"),),
    ),
    "currency": Recipe(
        "A currency",
        (
            Step(
                change(f"{FACTS}/currencies.csv", end="acm,2.5,2026-10,a bank,Acme crown,,,\n"),
                (
                    "units.toml: currencies has no word for acm of currencies.csv",
                    "currencies.csv: acm has no Chinese name",
                ),
            ),
            Step(
                both(
                    change(
                        f"{FACTS}/currencies.csv",
                        ("acm,2.5,2026-10,a bank,Acme crown,,", "acm,2.5,2026-10-01,a bank,Acme crown,爱克米克朗,"),
                    ),
                    change("src/rightfit/data/units.toml", ('  ["thb", "thb"],\n', '  ["thb", "thb"],\n  ["acm", "acm"],\n')),
                )
            ),
        ),
        (
            "tests/workload/test_money.py::test_every_rate_has_a_source_and_foreign_ones_a_date",
            "tests/workload/test_money.py::test_every_currency_that_can_be_written_has_a_rate_and_the_other_way_round",
        ),
        ((("plan", "xgboost", "--data", "100krows x 20cols", "--currency", "acm"), "ACM "),),
    ),
    "page": Recipe(
        "A page of documentation",
        (
            Step(change("docs/concepts/acme.md", end="# Acme\n\nText.\n"), ("docs/index.md has no link to concepts/acme.md",)),
            Step(change("docs/index.md", end="\n[Acme](concepts/acme.md)\n")),
        ),
        ("tests/test_docs_coverage.py::test_concept_pages_are_in_the_index",),
        (),
    ),
}


# ---- how they are played -------------------------------------------------------------------------


def environment(folder: Path) -> dict[str, str]:
    """Of a process in the copy: its sources, a catalog of its own, no settings of a
    suite that plays this."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "RIGHTFIT_", "COV_"))}
    own = {"PYTHONPATH": str(folder / "src"), "RIGHTFIT_CACHE_DIR": str(folder / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **own, "COLUMNS": "500", "CI": "true", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}  # with CI pytest cuts no line short


def run(folder: Path, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run Python in the copy."""
    command, own = [sys.executable, *words], environment(folder)
    return subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False, timeout=LONGEST_S)  # noqa: S603


def copy_sources(folder: Path) -> None:
    """The sources in a folder of their own, as further names of the same files."""
    for part in PARTS:
        shutil.copytree(ROOT / part, folder / part, copy_function=link, ignore=shutil.ignore_patterns("__pycache__", ".*", "*.egg-info"))
    for path in ROOT.iterdir():
        if path.is_file() and not path.name.startswith("."):
            link(path, folder / path.name)


def link(source: str | Path, target: str | Path) -> None:
    """A further name of a file; a copy where the file system has none."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def failures(folder: Path, recipes: Sequence[Recipe]) -> list[tuple[str, str]]:
    """Run the tests of the recipes in the copy: test and first line of its message,
    for each that fails."""
    tests = list(dict.fromkeys(test for recipe in recipes for test in recipe.tests))
    done = run(folder, ("-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=no", *tests))
    found = [(test, line or "") for test, line in FAILED.findall(done.stdout)]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not found):
        raise SystemExit(f"the suite could not be run:\n{done.stdout[-3000:]}{done.stderr[-2000:]}")
    return found


def play(names: Sequence[str] = ()) -> Iterator[tuple[str, str]]:
    """Play recipes; gives (recipe, what is untrue of it) as it is found, nothing for a recipe that
    is true, and ("", what happened) for the reader."""
    chosen = {name: RECIPES[name] for name in names or RECIPES}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        copy_sources(folder)
        for number in range(max(len(recipe.steps) for recipe in chosen.values())):
            yield from _played_step(folder, {name: recipe for name, recipe in chosen.items() if number < len(recipe.steps)}, number)
        for name, recipe in chosen.items():
            yield from ((name, line) for line in _unseen(folder, recipe))


def _played_step(folder: Path, chosen: Mapping[str, Recipe], number: int) -> Iterator[tuple[str, str]]:
    foretold: dict[str, tuple[str, ...]] = {}
    scripts: dict[tuple[str, ...], None] = {}
    for name, recipe in chosen.items():
        recipe.steps[number].do(folder)
        scripts |= dict.fromkeys(recipe.steps[number].scripts)
        foretold[name] = recipe.steps[number].said
    for words in scripts:
        run_script(folder, words)
    found = failures(folder, list(chosen.values()))
    yield from (("", line) for line in dict.fromkeys(f"step {number + 1}: {test.split('::')[-1]}: {line}" for test, line in found))
    for name, said in foretold.items():
        yield from ((name, f"after step {number + 1} no test says {text!r}") for text in said if not any(text in line for _, line in found))
    for test, line in found:
        if not any(text in line for said in foretold.values() for text in said):
            owners = [name for name, recipe in chosen.items() if any(test.startswith(own.split("[")[0]) for own in recipe.tests)]
            yield from ((name, f"after step {number + 1} {test} fails with another line: {line or '(none)'}") for name in owners)


def _unseen(folder: Path, recipe: Recipe) -> Iterator[str]:
    """What the product does not show although the recipe is whole."""
    for words, text in recipe.shows:
        done = run(folder, words if words[0] == "-c" else ("-m", "rightfit", *words))
        if text not in done.stdout + done.stderr:
            yield f"`{' '.join(words)}` does not show {text!r}: {(done.stdout + done.stderr)[-300:]}"


def main(names: list[str]) -> int:
    """Play and tell."""
    strange = [name for name in names if name not in RECIPES]
    if strange:
        sys.stderr.write(f"no recipe is called {strange[0]}; the recipes are {', '.join(RECIPES)}\n")
        return 2
    untrue = 0
    for name, line in play(names):
        untrue += bool(name)
        print(f"UNTRUE {name}: {line}" if name else line)
    print(f"{len(names or RECIPES)} recipes played, {untrue or 'nothing'} untrue")
    return int(bool(untrue))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
