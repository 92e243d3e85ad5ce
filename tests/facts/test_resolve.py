"""Models by whatever the user typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from complaints import complaint
from hypothesis import given, settings
from hypothesis import strategies as st

from rightfit import facts
from rightfit.errors import AmbiguousNameError, FileInputError, InputError, NetworkError, UnknownNameError
from rightfit.facts import bundled, tables
from rightfit.facts.records import TransformerArchitecture
from rightfit.workload.ask import understand

STEADY = settings(deadline=None, derandomize=True, max_examples=60)


LLAMA_3_8B = "meta-llama/Meta-Llama-3-8B"


@pytest.mark.parametrize(
    ("query", "name"),
    [
        (LLAMA_3_8B, LLAMA_3_8B),
        ("META-LLAMA/meta-llama-3-8b", LLAMA_3_8B),
        ("llama3-8b", LLAMA_3_8B),
        ("Llama 3 8B", LLAMA_3_8B),
        ("llama-3-8b-instruct", LLAMA_3_8B),
        ("  Llama_3_8B  ", LLAMA_3_8B),
        ("LLaMA v3 8B", LLAMA_3_8B),
        ("NousResearch/Meta-Llama-3-8B-Instruct", LLAMA_3_8B),
        ("unsloth/llama-3-8b-bnb-4bit", LLAMA_3_8B),
        ("llama 3.1 8b", "meta-llama/Llama-3.1-8B"),
        ("llama 8b", "meta-llama/Llama-3.1-8B"),
        ("mistral 7b", "mistralai/Mistral-7B-v0.1"),
        ("8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("qwen2.5 7b", "Qwen/Qwen2.5-7B"),
        ("Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"),
        ("Qwen-1_8B", "Qwen/Qwen-1_8B"),
        ("chatglm3", "THUDM/chatglm3-6b"),
        ("deepseek v3", "deepseek-ai/DeepSeek-V3"),
        ("gemma 2 9b it", "google/gemma-2-9b"),
        ("bert", "google-bert/bert-base-uncased"),
        ("bert large", "google-bert/bert-large-uncased"),
        ("flan t5 xl", "google/flan-t5-xl"),
        ("whisper large v3", "openai/whisper-large-v3"),
        ("ResNet-50", "timm/resnet50"),
        ("ResNet-50 v1.5", "timm/resnet50"),
        ("yolov8n", "ultralytics/yolov8n"),
        ("sdxl", "stabilityai/stable-diffusion-xl-base-1.0"),
        ("stable diffusion 1.5", "stable-diffusion-v1-5/stable-diffusion-v1-5"),
        ("xgboost", "xgboost"),
        ("Qwen/Qwen3-32B-FP8", "Qwen/Qwen3-32B"),
        ("gptj 6b", "EleutherAI/gpt-j-6b"),
        ("通义千问2.5 7B", "Qwen/Qwen2.5-7B"),
        ("百川2-13B", "baichuan-inc/Baichuan2-13B-Base"),
        ("ms:Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"),
    ],
)
def test_names_however_spelt(query: str, name: str) -> None:
    assert facts.model(query, network=False).name == name


def test_resolution_says_how() -> None:
    hows = {
        LLAMA_3_8B: "name",
        "llama3-8b": "alias",
        "Llama 3 8B": "spelling",
        "7B": "size",
        "layers=2,hidden=128": "dimensions",
    }
    for query, how in hows.items():
        assert facts.resolve_model(query, network=False).how == how


@pytest.mark.parametrize(
    ("query", "candidates"),
    [
        ("llama3", {LLAMA_3_8B, "meta-llama/Meta-Llama-3-70B"}),
        ("qwen2.5", {"Qwen/Qwen2.5-0.5B", "Qwen/Qwen2.5-7B", "Qwen/Qwen2.5-72B"}),
        ("t5", {"google-t5/t5-small", "google-t5/t5-base", "google-t5/t5-11b"}),
        ("mixtral", {"mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"}),
    ],
)
def test_several_equally_good_are_ambiguous(query: str, candidates: set[str]) -> None:
    with pytest.raises(AmbiguousNameError) as caught:
        facts.model(query, network=False)
    assert candidates <= set(caught.value.candidates)
    assert "it could be" in str(caught.value)


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("lama-3-8b", LLAMA_3_8B),
        ("metallama/Lama-3-8B", LLAMA_3_8B),
        ("qwen25-7b", "Qwen/Qwen2.5-7B"),
        ("mixtrall-8x7b", "mistralai/Mixtral-8x7B-v0.1"),
        ("bert-bse", "google-bert/bert-base-uncased"),
        ("resnet500", "timm/resnet50"),
    ],
)
def test_misspelt_names_suggest(query: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        facts.model(query, network=False)
    assert nearest in caught.value.nearest
    assert "did you mean" in str(caught.value)


@pytest.mark.parametrize("query", ["", "   ", "\x00", "zzzzzzzzzz", "你好", "x" * 5000])
def test_nonsense_says_what_is_allowed(query: str) -> None:
    with pytest.raises(UnknownNameError, match=r"give a name, a hub id, a config\.json"):
        facts.model(query, network=False)


def test_paths_to_files_and_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"model_type": "llama", "hidden_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 1000}))
    monkeypatch.chdir(tmp_path)
    for query in (str(folder), str(folder / "config.json"), "my-model", "./my-model", "my-model/config.json"):
        record = facts.model(query, network=False)
        assert isinstance(record, TransformerArchitecture)
        assert (record.name, record.num_layers, record.certainty) == (query, 2, "config")
    with pytest.raises(FileInputError, match="no such file"):
        facts.model("./absent", network=False)


def test_a_bundled_name_beats_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "llama3-8b").mkdir()
    (tmp_path / "llama3-8b" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert facts.model("llama3-8b", network=False).name == LLAMA_3_8B


def test_search() -> None:
    names = [record.name for record in facts.search_models("llama 3 8b")]
    assert LLAMA_3_8B in names
    assert all(isinstance(record, TransformerArchitecture) for record in facts.search_models("llama", kind="transformer"))
    assert {record.kind for record in facts.search_models("", kind="encoder-decoder")} == {"encoder-decoder"}
    assert len(facts.search_models("", kind="diffusion")) == 84
    assert facts.search_models("lamma-3-8b")
    assert facts.search_models("zzzzzzzzzz") == []


@STEADY
@given(st.text(max_size=80))
def test_any_text_gives_a_record_or_our_error(text: str) -> None:
    assert "\n" not in complaint(lambda query: facts.model(query, network=False), text)


@STEADY
@given(
    st.lists(
        st.sampled_from(
            [
                "llama",
                "qwen",
                "bert",
                "3",
                "7b",
                "8b",
                "2.5",
                "-",
                "_",
                "/",
                ".",
                "instruct",
                "v3",
                "=",
                "layers",
                "hidden",
                "4096",
                ",",
                "@",
                "./",
                "~",
                "ms:",
                "1e9",
                "nan",
            ]
        ),
        max_size=8,
    )
)
def test_pieces_of_names_give_a_record_or_our_error(pieces: list[str]) -> None:
    assert "\n" not in complaint(lambda query: facts.model(query, network=False), "".join(pieces))


def test_a_search_begins_with_what_is_called_so() -> None:
    """A name or alias of the index (every seventeenth) finds its record first; the beginning of
    names comes before what only holds the words."""
    names = [(entry.name, name) for entry in bundled.index() for name in (entry.name, *entry.aliases) if "(" not in name][::17]
    assert [name for record, name in names if facts.search_models(name)[0].name != record] == []
    assert facts.search_models("llama-3")[0].name.startswith("meta-llama/Meta-Llama-3-")
    assert facts.search_models("qwen3")[0].name.startswith("Qwen/Qwen3-")


def test_a_checkpoint_that_borrows_a_shape_keeps_its_own_context_and_steps() -> None:
    """Every row of alias_differences.csv: by the name of the repository, and by the common name
    that means it."""
    rows = tables.table("alias_differences")
    assert len(rows) > 25
    for row in rows:
        lender = bundled.load(bundled.exact_names()[row["alias"].casefold()])
        assert row["source"]
        assert lender.name != row["alias"], "a record of its own says it itself"
        assert getattr(lender, row["field"]) != int(row["value"])
        for name in (row["alias"], row["alias"].lower()):
            record = facts.model(name)
            assert getattr(record, row["field"]) == int(row["value"])
            assert record.name == lender.name
        for form in (f"{row['alias']}-FP8", f"someone/{tables.base_name(row['alias'])}-NVFP4", f"{row['alias']}-quantized.w4a16"):
            found = facts.resolve_offline(form)
            assert found, form
            assert getattr(found.record, row["field"]) == int(row["value"]), form
    assert facts.model("glm-4.6").max_position == 202752  # type: ignore[union-attr]
    assert facts.model("zai-org/GLM-4.5").max_position == 131072  # type: ignore[union-attr]


def test_a_checkpoint_known_by_its_size_is_found_and_refused_in_one_line() -> None:
    rows = tables.table("checkpoints_by_size")
    assert len(rows) > 50
    for row in rows:
        assert row["name"].casefold() not in bundled.exact_names(), "a record says more"
        assert row["source"]
        for name in (row["name"], tables.base_name(row["name"])):
            found = facts.search_models(name)[0].name
            assert row["name"] in (found, f"{row['name'].partition('/')[0]}/{tables.base_name(found)}")
            with pytest.raises(InputError, match="known by its size only") as caught:
                facts.model(name, network=False)
            assert "\n" not in str(caught.value)


def test_a_checkpoint_known_by_its_size_is_the_model_of_a_sentence() -> None:
    """All but those of one everyday word ("Glyph"), which the owner must stand before."""
    for row in tables.table("checkpoints_by_size")[::5]:
        bare = tables.base_name(row["name"])
        for sentence in (f"serve {row['name']} for 10 users", f"部署{bare if '-' in bare else row['name']}，10人用"):
            assert bare in understand(sentence).wishes["model"], sentence


def test_a_checkpoint_known_by_its_size_is_said_to_be_one_where_the_hub_is_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(InputError, match="known by its size only"):
        facts.model("deepseek-ai/DeepSeek-OCR-2")
    with pytest.raises(NetworkError):
        facts.model("deepseek-ai/no-such-repository")


def test_a_search_begins_with_what_a_plan_would_take() -> None:
    """A quantised checkpoint (every ninth repository of the index in four forms) is listed as the
    record that a plan takes for it, not as its nearest spelling."""
    repositories = [
        name for entry in bundled.index() if entry.family == "transformer" for name in (entry.name, *entry.aliases) if "/" in name
    ]
    wrong = []
    for name in repositories[::9]:
        for form in (f"{name}-FP8", f"{name}-NVFP4", f"someone/{tables.base_name(name)}-AWQ", f"{tables.base_name(name)}-qat-w4a16-ct"):
            found = facts.resolve_offline(form)
            if found and facts.search_models(form)[0].name != found.record.name:
                wrong.append((form, found.record.name))
    assert wrong == []


NAMES = (Path(__file__).parents[1] / "data/published_names.txt").read_text("utf-8").split()


@pytest.mark.parametrize("part", range(12))
def test_every_name_of_2026_is_found_first_by_repository_and_by_common_name(part: int) -> None:
    """Names under which a review of November 2026 found models published: each is listed first as
    what a plan takes for it, or as known by its size only, which a plan refuses."""
    assert len(NAMES) > 700
    wrong = []
    for name in sorted({*NAMES, *(tables.base_name(name) for name in NAMES)})[part::12]:
        found, listed = facts.resolve_offline(name), facts.search_models(name)
        if not listed or (found.record.name != listed[0].name if found else getattr(listed[0], "kind", "") != "known by size only"):
            wrong.append(name)
    assert wrong == []
