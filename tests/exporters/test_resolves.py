"""Every set-up line that exports write resolves on the package index, for the Python and the
machine that it is for; and the wheel of the engine that the ten commonest plans start, and of
Transformers where they train, has the class of their model. Wheels of engines are large: the last
test fetches those that are chosen, one after the other."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from kinds import STARTED
from typical_plans import COMMON, FURTHER, OTHER_KINDS, WISHES, plan_values

from rightfit.errors import RightfitError
from rightfit.exports import Job, all_targets, job_of, plan_document
from rightfit.exports.locks import constraints, packages_of
from rightfit.exports.model_words import class_names, engine_release
from rightfit.exports.recipes import has_recipe, recipe_of
from rightfit.exports.stack import installs, setup_files, stack_of, stack_problem
from rightfit.facts.devices import machine_of
from rightfit.facts.engine_releases import model_class, releases

UV = shutil.which("uv", path=f"{Path(sys.executable).parent}") or shutil.which("uv")
PLATFORMS = {"x86_64": "x86_64-manylinux_2_39", "aarch64": "aarch64-manylinux_2_39"}
PYTHON = "3.12"
OLDER_PYTHON = {"2.3.1": "3.11", "2.5.1": "3.11"}  # of the images of old builds of PyTorch
ELSEWHERE = re.compile(r"--(?:extra-)?index-url \S+|\+(?:cu|rocm)[\d.]+|\+cpu|-c \S+\n")
"""PyTorch's builds for a CUDA lie on its own index: they are looked for under their plain version,
which the same packages go with."""
LATER = ("Qwen/Qwen3.5-27B", "Qwen/Qwen3.5-35B-A3B", "google/gemma-4-31B", "zai-org/GLM-5.2", "deepseek-ai/DeepSeek-V4-Flash")

pytestmark = [pytest.mark.deep, pytest.mark.skipif(UV is None, reason="uv is not installed")]


def planned(name: str, **changed: Any) -> Job:
    values = plan_values(name)
    return job_of(plan_document({**values, "workload": {**values["workload"], **changed}}))


def jobs() -> list[Job]:
    """The typical plans, and those of language models with a model of 2026 in
    the place of theirs."""
    plans = [planned(name) for name in (*WISHES, *FURTHER, *OTHER_KINDS, *STARTED)]
    return [
        *plans,
        *(planned(name, model=model) for name in ("lora-8b-aws", "full-8b-gcp", "chat-8b-aws", "chat-8b-sglang") for model in LATER),
    ]


def lines() -> Mapping[tuple[str, str, str], str]:
    """(packages, machine, Python) -> a file that asks for them."""
    found: dict[tuple[str, str, str], str] = {}
    for job in jobs():
        for target in all_targets().values():
            try:
                files = {} if target.problem(job) else target.files(job)
            except RightfitError:
                files = {}
            for path, text in files.items():
                if path.endswith("requirements.txt"):
                    wanted = [word for word in ELSEWHERE.sub("", text).splitlines() if word.strip()]
                    python = next(
                        (OLDER_PYTHON[word[7:]] for word in wanted if word[7:] in OLDER_PYTHON and word.startswith("torch==")), PYTHON
                    )
                    found.setdefault((" ".join(sorted(wanted)), machine_of(job.accelerator), python), f"{target.name}/{path}")
    for release in releases():
        for machine in release.machine if release.package else ():
            found[(release.package, machine, PYTHON)] = f"{release.engine} {release.version}"
    return found


OF_THE_BUILD = re.compile(r"torch|triton|pytorch-triton|nvidia-|cuda-")
"""What PyTorch pins itself, as its build has it."""


def resolved(packages: str, machine: str, python: str, folder: Path) -> str:
    """What uv says of a set of packages with its lock; "" where they go together, and the lock says
    a release of each that is installed."""
    assert UV is not None
    lock = constraints(packages_of(shlex.split(packages)))
    (file := folder / f"{zlib.crc32(packages.encode())}-{machine}.txt").write_text(lock)
    words = [UV, "pip", "compile", "-", "--quiet", "--no-header", "--no-annotate", "-c", str(file)]
    words += ["--python-platform", PLATFORMS[machine], "--python-version", python]
    done = subprocess.run(words, input="\n".join(shlex.split(packages)), capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        return done.stderr[-600:]
    said = {re.split(r"[=<>\[]", line)[0].replace("_", "-").casefold() for line in (*shlex.split(packages), *lock.splitlines())}
    free = [line for line in done.stdout.splitlines() if line.partition("==")[0] not in said and not OF_THE_BUILD.match(line)]
    return f"left open: {' '.join(free)}" if lock and free else ""


def test_every_set_up_line_resolves_with_its_lock_for_its_machine(tmp_path: Path) -> None:
    every = lines()
    assert len(every) > 30
    assert {machine for _, machine, _ in every} == set(PLATFORMS)
    with ThreadPoolExecutor(8) as pool:  # uv waits for the index
        answers = pool.map(lambda asked: resolved(*asked, tmp_path), every)
        faults = {f"{where}: {asked[0]} ({asked[1]})": said for (asked, where), said in zip(every.items(), answers, strict=True) if said}
    assert not faults, "\n".join(f"{key}\n  {said}" for key, said in faults.items())


def imaged(folder: Path, torch: str, build: str) -> Path:
    """The pip of an environment that holds PyTorch's release and what goes with it by name alone,
    as PyTorch's own image has them."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip, report = folder / "bin" / "pip", folder / "report.json"
    minor, patch = torch.split(".")[1:3]
    own = {"torch": torch, "torchaudio": torch, "torchvision": f"0.{int(minor) + 15}.{patch}"}
    words = [pip, "install", "--quiet", "--dry-run", "--ignore-installed", "--report", report, *(f"{name}=={own[name]}" for name in own)]
    subprocess.run(words, check=True, capture_output=True, timeout=900)
    [packages] = folder.glob("lib/python*/site-packages")
    for each in (item["metadata"] for item in json.loads(report.read_text())["install"]):
        version = each["version"] + (f"+{build}" if each["name"] in own else "")
        place = packages / f"{each['name'].replace('-', '_')}-{version}.dist-info"
        place.mkdir(exist_ok=True)
        asks = "".join(f"Requires-Dist: {word}\n" for word in each.get("requires_dist", ()))
        (place / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {each['name']}\nVersion: {version}\n{asks}\n")
        (place / "RECORD").touch()
    return pip


OF_THE_IMAGE = re.compile(r"(?:torch(?:vision|audio)?|triton|nvidia[_-].*)")


def test_a_lock_leaves_pytorch_of_its_own_image_as_it_is(tmp_path: Path) -> None:
    """Every set-up line for PyTorch's images by pip: what is there is not fetched again, nor
    replaced by another release."""
    asked: dict[tuple[str, str], tuple[str, str]] = {}
    for job in jobs():
        stack = None if stack_problem(job) else stack_of(job)
        for line in installs(stack) if stack and stack.image.startswith("pytorch/") else ():
            if found := re.search(r" torch==(\S+)", line):
                asked.setdefault((found[1], setup_files(stack).get("constraints.txt", "")), (job.name, line))  # type: ignore[arg-type]
    assert len(asked) > 10
    pips = {build: imaged(tmp_path / build, *build.split("+")) for build in sorted({build for build, _ in asked})}
    held = {
        build: {name for path in (tmp_path / build).rglob("*.dist-info") if OF_THE_IMAGE.fullmatch(name := path.name.partition("-")[0])}
        for build in pips
    }
    assert all(len(names) > 3 for names in held.values())

    def replaced(build: str, lock: str, line: str) -> str:
        place = tmp_path / f"{zlib.crc32((lock + line).encode())}"
        place.mkdir()
        (place / "constraints.txt").write_text(lock)
        words = shlex.split(re.sub(r"--extra-index-url \S+ ", "", line))[2:]  # as it is there, nobody looks for it
        done = subprocess.run(
            [pips[build], "install", "--quiet", "--dry-run", "--report", "report.json", *words],
            cwd=place,
            capture_output=True,
            text=True,
            check=False,
            timeout=1800,
        )
        if done.returncode:
            return done.stderr[-600:]
        fetched = {item["metadata"]["name"].replace("-", "_") for item in json.loads((place / "report.json").read_text())["install"]}
        return " ".join(sorted(fetched & held[build]))

    with ThreadPoolExecutor(4) as pool:
        answers = pool.map(lambda one: replaced(*one[0], one[1][1]), asked.items())
        faults = {name: said for (name, _), said in zip(asked.values(), answers, strict=True) if said}
    assert not faults


TOLD = re.compile(r"""["']?([A-Za-z][\w.-]*(?:\[[\w,.-]+\])?==\d[\w.]*)""")


def test_every_program_that_a_line_installs_is_there() -> None:
    """Of whatever file, beside the lists of requirements: clients of clouds, launchers, whose old
    releases some sellers take away."""
    pins: dict[str, str] = {}
    for job in jobs():
        for target in all_targets().values():
            try:
                files = {} if target.problem(job) else target.files(job)
            except RightfitError:
                continue
            lines = [line for text in files.values() for line in text.splitlines() if re.search(r"\bpip3? install\b", line)]
            lines += [] if not has_recipe(target.name) or not files else recipe_of(job, target.name).program
            for pin in TOLD.findall(ELSEWHERE.sub("", "\n".join(lines))):
                pins.setdefault(pin, target.name)
    assert {pin.partition("=")[0] for pin in pins} >= {"awscli", "tccli", "dstack[all]"}
    assert UV is not None
    words = [UV, "pip", "compile", "-", "--no-deps", "--quiet", "--no-header", "--python-version", PYTHON]

    def gone(pin: str) -> str:
        done = subprocess.run(words, input=pin, capture_output=True, text=True, check=False, timeout=300)
        return "" if done.returncode == 0 else done.stderr[-300:]

    with ThreadPoolExecutor(4) as pool:
        faults = {f"{pins[pin]}: {pin}": said for pin, said in zip(pins, pool.map(gone, pins), strict=True) if said}
    assert not faults


LISTS = re.compile(r"vllm/model_executor/models/registry\.py|sglang/srt/models/\w+\.py|transformers/models/\w+/modeling_\w+\.py")


def registry(engine: str, version: str, folder: Path) -> str:
    """The text in which the wheel of an engine lists the classes that it has."""
    platforms = [word for number in (17, 28, 31, 34, 35, 39) for word in ("--platform", f"manylinux_2_{number}_x86_64")]
    words = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version", PYTHON, *platforms]
    subprocess.run([*words, "-d", str(folder), f"{engine}=={version}"], check=True, timeout=1200)
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as packed:
        text = "\n".join(packed.read(name).decode() for name in packed.namelist() if LISTS.fullmatch(name))
    wheel.unlink()
    return text


def test_the_transformers_of_a_training_has_the_class_of_its_model(tmp_path: Path) -> None:
    """Of every training of a language model that can be planned here, and of models of 2026."""
    asked: dict[str, set[str]] = {}
    for job in jobs():
        known = model_class(*class_names(job))
        stack = None if job.is_service or not known or stack_problem(job) else stack_of(job)
        pin = re.search(r"^transformers==(\S+)", stack.files.get("requirements.txt", ""), re.MULTILINE) if stack else None
        if known and pin:
            asked.setdefault(pin[1], set()).add(known.architecture)
    assert len(asked) >= 2, "older models and those of 2026"
    assert sum(map(len, asked.values())) >= 4
    for version, classes in asked.items():
        text = registry("transformers", version, tmp_path)
        assert not [name for name in classes if f"class {name}(" not in text], version


def test_the_wheel_of_the_chosen_engine_has_the_class_of_the_model(tmp_path: Path) -> None:
    """Of the commonest plans and of models of 2026."""
    asked: dict[tuple[str, str], set[str]] = {}
    for job in (*(planned(name) for name in COMMON), *(planned("chat-8b-aws", model=model) for model in LATER[:3])):
        engine = job.option.layout.engine.casefold()
        known = model_class(*class_names(job))
        if engine in ("vllm", "sglang") and known:
            asked.setdefault((engine, engine_release(job, engine).version), set()).add(known.architecture)
    assert len(asked) >= 2
    for (engine, version), classes in asked.items():
        text = registry(engine, version, tmp_path)
        assert not [name for name in classes if name not in text], (engine, version)
