"""Tables, coefficients and rows as records."""

from __future__ import annotations

from pathlib import Path

import pytest

from rightfit import facts
from rightfit.errors import InputError, UnknownNameError
from rightfit.facts import tables
from rightfit.facts.records import Accelerator, Dataset, DiffusionModel, OtherModel, TransformerArchitecture, VisionModel


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder in place of the bundled one."""
    (tmp_path / "coefficients").mkdir()
    monkeypatch.setattr(tables, "DATA", tmp_path)
    for cached in (tables.coefficients, tables.coefficient_entries, tables._table):
        cached.cache_clear()
    yield tmp_path
    for cached in (tables.coefficients, tables.coefficient_entries, tables._table):
        cached.cache_clear()


def test_every_bundled_record_loads_with_a_source() -> None:
    counts: dict[type, int] = {}
    for record in facts.models().values():
        counts[type(record)] = counts.get(type(record), 0) + 1
        assert record.source
    least = {TransformerArchitecture: 533, VisionModel: 725, DiffusionModel: 58, OtherModel: 149}  # rows are added, none is lost
    assert all(counts[kind] >= number for kind, number in least.items())
    assert len(facts.accelerators()) >= 133
    assert len(facts.datasets()) >= 153
    assert all(record.source for record in (*facts.accelerators().values(), *facts.datasets().values()))


def test_a_record_without_source_is_refused() -> None:
    with pytest.raises(InputError, match=r"Dataset 'X' has no source"):
        tables.to_record(Dataset, {"name": "X", "domain": "text", "source": ""})


def test_units_are_base_units() -> None:
    card = facts.accelerators()["A100-SXM-80GB"]
    assert isinstance(card, Accelerator)
    assert card.memory_bytes == 80 * 2**30
    assert card.memory_bandwidth == 2.039e12
    assert card.bf16_flops == 312e12
    assert card.nvlink_bandwidth == 600e9
    assert card.l2_bytes == 40 * 2**20
    assert card.supports_bf16
    assert card.supports_flash_attention
    old = facts.accelerators()["V100-SXM-16GB"]
    assert not old.supports_bf16
    assert not old.supports_flash_attention


def test_vision_diffusion_and_other_units() -> None:
    resnet = facts.model("timm/resnet50")
    assert isinstance(resnet, VisionModel)
    assert (resnet.params_total, resnet.macs, resnet.image_size) == (25_560_000, 4.11e9, 224)
    assert resnet.train_samples_per_s_rtx3090 == pytest.approx(826.06)
    sdxl = facts.model("sdxl")
    assert isinstance(sdxl, DiffusionModel)
    assert (sdxl.denoiser_params, sdxl.total_params) == (2_567_463_684, 3_468_837_867)
    assert sdxl.forward_flops == pytest.approx(6761.2e9)
    dlrm = facts.model("dlrm-mlperf-v1")
    assert isinstance(dlrm, OtherModel)
    assert dlrm.embedding_bytes > 90e9


def test_layer_counts_of_moe_and_encoder_decoder() -> None:
    expected = {
        "deepseek-ai/DeepSeek-V3": 58,
        "meta-llama/Llama-4-Maverick-17B-128E": 24,
        "mistralai/Mixtral-8x7B-v0.1": 32,
        "ai21labs/Jamba-v0.1": 16,
        "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": 23,
        "meta-llama/Meta-Llama-3-8B": 0,
    }
    for name, layers in expected.items():
        assert facts.model(name).num_moe_layers == layers, name
    t5 = facts.model("google/byt5-small")
    assert (t5.num_layers, t5.num_encoder_layers, t5.num_decoder_layers) == (16, 12, 4)


def test_table_gives_the_caller_his_own_rows() -> None:
    first = facts.table("accelerator_aliases")
    first[0]["alias"] = "changed"
    assert facts.table("accelerator_aliases")[0]["alias"] != "changed"


def test_unknown_table_and_coefficients_name_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="unknown table 'no-such'"):
        facts.table("no-such")
    with pytest.raises(UnknownNameError, match="unknown coefficient file 'no-such'"):
        facts.coefficients("no-such")


def test_every_bundled_coefficient_is_a_number_with_unit_and_source() -> None:
    files = sorted((Path(tables.DATA) / "coefficients").glob("*.toml"))
    assert files
    for file in files:
        values = facts.coefficients(file.stem)
        entries = facts.coefficient_entries(file.stem)
        assert values == {key: float(str(entry["value"])) for key, entry in entries.items()}


def test_plain_entries_are_read_without_their_sources(data_folder: Path) -> None:
    text = '["a.b"]\nvalue = -1.5e-3\nunit = "s"\nsource = "a fit"\n\n[c]\nprior = 1\nvalue = 2\nunit = "1"\nsource = "a [1] fit"\n'
    (data_folder / "coefficients" / "x.toml").write_text(text)
    assert dict(facts.coefficients("x")) == {"a.b": -1.5e-3, "c": 2.0}
    assert tables.coefficient_entries.cache_info().currsize == 0
    (data_folder / "coefficients" / "y.toml").write_text(text.replace("= 2", "= 2_000"))
    assert facts.coefficients("y")["c"] == 2000.0
    assert tables.coefficient_entries.cache_info().currsize == 1


def test_coefficients_are_read_as_numbers(data_folder: Path) -> None:
    text = '[slack]\nvalue = 3\nunit = "1"\nsource = "fit of 10 rows"\n'
    (data_folder / "coefficients" / "x.toml").write_text(text)
    assert dict(facts.coefficients("x")) == {"slack": 3.0}
    with pytest.raises(TypeError):
        facts.coefficients("x")["slack"] = 4.0  # type: ignore[index]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[a]\nvalue = 1\nunit = "s"\n', "a has no source"),
        ('[a]\nvalue = 1\nunit = "s"\nsource = " "\n', "a has no source"),
        ('[a]\nvalue = 1\nsource = "x"\n', "a has no unit"),
        ('[a]\nvalue = "1"\nunit = "s"\nsource = "x"\n', "a has no numeric value"),
        ('[a]\nvalue = true\nunit = "s"\nsource = "x"\n', "a has no numeric value"),
        ("a = 1\n", "a is not a table"),
    ],
)
def test_a_coefficient_without_source_or_number_is_refused(data_folder: Path, text: str, message: str) -> None:
    (data_folder / "coefficients" / "x.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        facts.coefficients("x")


def test_bundled_tables_have_as_many_cells_as_columns() -> None:
    for file in sorted(Path(tables.DATA).glob("*.csv")):
        assert facts.table(file.stem), file.name


def test_data_stays_small() -> None:
    ours = [*Path(tables.DATA).glob("models_*.csv"), Path(tables.DATA) / "accelerators.csv", Path(tables.DATA) / "datasets.csv"]
    assert sum(file.stat().st_size for file in ours) < 1_200_000
