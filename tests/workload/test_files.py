"""Workload files: read with the line and key of each problem, written so that they
read back the same."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rightfit.errors import FileInputError, InputError
from rightfit.workload import Workload

GOOD_YAML = "# my job\nmodel: meta-llama/Meta-Llama-3-8B\nmethod: qlora\ndata: 50Mtok\ndeadline: 24h\ncloud: [aws, gcp]\ncountry: NO\n"


def write(folder: Path, text: str | bytes, name: str = "workload.yaml") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_reads_yaml_toml_and_json_alike(tmp_path: Path) -> None:
    toml = 'model = "meta-llama/Meta-Llama-3-8B"\nmethod = "qlora"\ndata = "50Mtok"\ndeadline = "24h"\ncloud = ["aws", "gcp"]\ncountry = "NO"\n'
    json = '{"model": "meta-llama/Meta-Llama-3-8B", "method": "qlora", "data": "50Mtok", "deadline": "24h", "cloud": "aws,gcp", "country": "NO"}'
    read = [
        Workload.from_file(write(tmp_path, text, name))
        for text, name in ((GOOD_YAML, "w.yml"), (toml, "w.toml"), (json, "w.json"), (json, "w"))
    ]
    assert all(workload == read[0] for workload in read)
    assert read[0].country == ("NO",)  # Norway, not false
    assert read[0].deadline_s == 86400.0


def test_options_win_over_the_file(tmp_path: Path) -> None:
    workload = Workload.from_file(write(tmp_path, GOOD_YAML), deadline="3h", cloud=None)
    assert workload.deadline_s == 10800.0
    assert workload.cloud == ("aws", "gcp")


def test_dashes_and_a_byte_order_mark_are_accepted(tmp_path: Path) -> None:
    assert Workload.from_file(write(tmp_path, b"\xef\xbb\xbfmodel: 7B\nseq-len: 4k\n")).seq_len == 4096


def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(GOOD_YAML.encode())))
    assert Workload.from_file("-").method == "qlora"


@pytest.mark.parametrize("name", ["w.yaml", "w.toml", "w.json"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    framework=st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20),
    deadline=st.floats(min_value=1.0, max_value=1e8),
    seq_len=st.integers(1, 10**6),
    cloud=st.lists(st.sampled_from(["aws", "gcp", "腾讯云"]), min_size=1, max_size=2),
)
def test_save_and_read_back(tmp_path: Path, name: str, framework: str, deadline: float, seq_len: int, cloud: list[str]) -> None:
    workload = Workload(model="7B", framework=framework, deadline_s=deadline, seq_len=seq_len, cloud=cloud, budget="1500cny", data="10万条")
    assert Workload.from_file(workload.save(tmp_path / name)) == workload
    assert [path.name for path in tmp_path.iterdir()] == [name]


BAD_FILES = [
    ("w.yaml", "", "is empty"),
    ("w.yaml", "# only a comment\n", "no content"),
    ("w.yaml", "- a\n- b\n", "line 1: expected lines of the form 'key: value'"),
    ("w.yaml", "model: 7B\nmethod: [lora\n", "line 3, column 1: not valid YAML"),
    ("w.yaml", "model: 7B\nmethd: lora\n", "line 2, key 'methd': unknown option 'methd'; did you mean method?"),
    ("w.yaml", "model: 7B\n\ndeadline: 24\n", "line 3, key 'deadline': '24' has no unit; did you mean 24h?"),
    ("w.yaml", "model: 7B\nmodel: 8B\n", "line 2: key 'model' is given twice (first on line 1)"),
    ("w.yaml", "model: 7B\nseq-len: 4k\nseq_len: 8k\n", "line 3: key 'seq_len' is given twice (first on line 2)"),
    ("w.yaml", "a: &a [x]\nb: *a\n", "line 2: aliases (*a) are not allowed"),
    ("w.yaml", "model: {name: 7B}\n", "line 1, key 'model': expected one value or a list of values"),
    ("w.yaml", "model: " + "[" * 5000 + "\n", "nested too deeply"),
    ("w.yaml", "model: !!python/object/apply:os.system [ls]\n", "line 1, key 'model'"),
    ("w.yaml", b"model: 7B\nmethod: \xff\xfe\n", "line 2: not UTF-8 text (byte 0xff)"),
    ("w.yaml", b"model: 7B\x00\n", "zero byte"),
    ("w.yaml", "model: 7B\n" + "#" * 1_000_001, "too large"),
    ("w.toml", "model = 7B\n", "line 1, column 10: not valid TOML"),
    ("w.toml", 'model = "7B"\nmodel = "8B"\n', "not valid TOML: Cannot overwrite a value"),
    ("w.toml", 'model = "7B"\n[data]\nsize = 3\n', "key 'data': expected one value"),
    ("w.toml", 'model = "7B"\n\nmax_nodes = nan\n', "line 3, key 'max_nodes': 'nan' is not a quantity"),
    ("w.json", '{"model": "7B",}', "line 1, column 1"),
    ("w.json", '{"model": "7B",\n "model": "8B"}', "line 2: key 'model' is given twice"),
    ("w.json", '{"model": "7B", "epochs": NaN}', "NaN is not a number"),
    ("w.json", "[1, 2]", "expected an object"),
    ("w.json", '{"model": "7B", "seq_len": ' + "9" * 5000 + "}", "not usable JSON"),
    ("w.json", "[" * 100_000, "nested too deeply"),
    ("w.json", '{"model": "7B",\n"max_nodes": true}', "line 2, key 'max_nodes': true or false"),
]


@pytest.mark.parametrize(("name", "text", "message"), BAD_FILES, ids=[message[:40] for _, _, message in BAD_FILES])
def test_bad_files_name_line_and_key(tmp_path: Path, name: str, text: str | bytes, message: str) -> None:
    with pytest.raises(FileInputError) as caught:
        Workload.from_file(write(tmp_path, text, name))
    assert message in str(caught.value)
    assert name in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 500


def test_missing_file_proposes_a_neighbour(tmp_path: Path) -> None:
    write(tmp_path, GOOD_YAML, "workload.yaml")
    with pytest.raises(FileInputError, match=r"no such file: .*workloda.yaml; did you mean .*workload.yaml\?"):
        Workload.from_file(tmp_path / "workloda.yaml")


def test_a_folder_and_a_device_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match="is a folder"):
        Workload.from_file(tmp_path)
    with pytest.raises(FileInputError, match="too large"):
        Workload.from_file("/dev/zero")
    with pytest.raises(FileInputError, match="cannot read"):
        Workload.from_file("a\x00b")


def test_every_problem_of_a_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        Workload.from_file(write(tmp_path, "model: 7B\nmethod: qlroa\ndeadline: 24\n"))
    lines = str(caught.value).splitlines()
    assert ["line 2" in lines[0], "line 3" in lines[1], len(lines)] == [True, True, 2]


def test_save_refuses_what_it_cannot_write(tmp_path: Path) -> None:
    with pytest.raises(FileInputError, match=r"use the extension \.yaml"):
        Workload(model="7B").save(tmp_path / "w.ini")
    with pytest.raises(FileInputError, match="cannot write"):
        Workload(model="7B").save(tmp_path / "no folder" / "w.yaml")
