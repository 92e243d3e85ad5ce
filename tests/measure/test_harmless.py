"""What a record keeps of a command, an address or a text: a walk over spellings of secrets and
keys of many makers, and settings that must stay."""

from __future__ import annotations

import itertools
import random
import shlex
import string
import sys
import time

import pytest

from rightfit.measure.harmless import HIDDEN, harmless_address, harmless_command, harmless_text
from rightfit.measure.record import Run, Source, measured, sealed, written

DICE = random.Random(7)


def _drawn(alphabet: str, count: int) -> str:
    return "".join(DICE.choices(alphabet, k=count))


WORDS = string.ascii_letters + string.digits
#: Keys as their makers draw them, and passwords as people do.
KEYS = {
    "huggingface": "hf_" + _drawn(WORDS, 34),
    "openai": "sk-proj-" + _drawn(WORDS + "-_", 40),
    "wandb": _drawn("0123456789abcdef", 40),
    "aws": "AKIA" + _drawn(string.ascii_uppercase + string.digits, 16),
    "aws secret": _drawn(WORDS + "+/", 40),
    "alicloud": "LTAI5t" + _drawn(WORDS, 18),
    "google": "AIza" + _drawn(WORDS + "-_", 35),
    "github": "ghp_" + _drawn(WORDS, 36),
    "github fine": "github_pat_" + _drawn(WORDS, 22) + "_" + _drawn(WORDS, 40),
    "stripe": "sk_" + "live_" + _drawn(WORDS, 24),
    "slack": "xoxb-" + _drawn(string.digits, 11) + "-" + _drawn(WORDS, 24),
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + _drawn(WORDS, 30) + "." + _drawn(WORDS, 30),
    "azure": _drawn(WORDS + "+/", 86) + "==",
    "gitlab": "glpat-" + _drawn(WORDS, 20),
    "npm": "npm_" + _drawn(WORDS, 36),
}
PASSWORDS = {"word": "hunter2", "number": "70614", "phrase": "correct horse battery", "marks": "p@ss:w0rd/&=#", "dash": "-Sec9ret"}
#: Spellings of a command that tells a secret.
SPELT = """
python train.py --wandb-key {s}|python train.py --wandb_key={s}|wandb login {s}|aws configure --access-key {s}|az x --sas {s}
curl -H {H} https://host/v1/models|curl --header={H} https://host|curl -u user:{s} https://host|curl --user user:{s} https://host|curl -uuser:{s} https://host
mysql -p{s} base|mysql --pwd {s}|mysql --password={s} base|psql --dsn user:{s}@host/base|psql postgresql://user:{s}@host:5432/base
tool --auth {s}|tool --auth=bearer:{s}|tool --private-key={s}|tool -k {s}|tool -k={s}|tool -t{s}|tool {s}|tool sub {s}|tool -- {s}
AZURE_STORAGE_KEY={s} python train.py|env WANDB_API_KEY={s} python train.py|MY_THING={s} torchrun train.py|SSHPASS={s} sshpass -e ssh host
curl https://host/blob?sig={s}|curl https://host/o?X-Amz-Signature={s}&X-Amz-Date=1|curl https://host/{s}/x|curl https://host/x#{s}|curl https://{s}@host/x
python train.py trainer.logger.api_key={s}|python train.py +wandb.key={s}|python train.py --model.hub_token {s}|python -c {P}|bash -c {P}
docker run -e HF_TOKEN={s} image python train.py|docker run --env=HF_TOKEN={s} image|sudo -S {s} python train.py|kubectl create secret --from-literal=key={s}
vllm serve m --api-key {s} --max-model-len 4096|python train.py --hf-token {s} --lr 1e-4|az storage blob --connection-string DefaultEndpointsProtocol=https;AccountKey={s}
"""
SPELLINGS = [one for line in SPELT.strip().splitlines() for one in line.split("|")]


def _commands(secret: str) -> list[str]:
    whole = {"s": secret, "H": f"Authorization: Bearer {secret}", "P": f"import os; os.environ['K'] = '{secret}'"}
    return [shlex.join(word.format(**whole) for word in spelt.split(" ")) for spelt in SPELLINGS]


@pytest.mark.parametrize("secret", [*KEYS.values(), *PASSWORDS.values()], ids=[*KEYS, *PASSWORDS])
def test_no_spelling_of_a_secret_comes_into_a_record(secret: str) -> None:
    for command in _commands(secret):
        run = sealed(Run(source=Source(kind="probe"), command=command))
        assert secret not in run.command, command
        assert not any(word == secret or secret in word for word in shlex.split(run.command) if word not in command.split()[:1]), command
        assert sealed(run) == run


@pytest.mark.parametrize("secret", KEYS.values(), ids=KEYS)
def test_no_other_text_of_a_record_tells_a_key(secret: str) -> None:
    texts = [f"failed with {secret}"] * ("+" not in secret and "/" not in secret) + [
        f"Authorization: Bearer {secret}",
        f"https://user:{secret}@host/v1?key={secret}",
        f"api_key = '{secret}'",
    ]
    for text in texts:
        run = sealed(
            Run(
                source=Source(kind="probe", tool=text, path_or_url=text),
                warnings=[text],
                setup={"notes": text},
                host={"env": {"A": [text]}, "versions": {"torch": "2.9"}},
                server={"name": text},
                workload={"data": text, "wandb_key": secret},
                measured=[measured("step_time_s", 0.5, definition=text)],
            )
        )
        assert secret not in written([run]), text
        assert sealed(run) == run


@pytest.mark.parametrize(
    "command",
    [
        "torchrun --nproc_per_node=8 --nnodes 2 train.py --lr 1e-4 --bf16 true --max_steps=100",
        "python -m torch.distributed.run --nproc-per-node 4 src/train.py --model meta-llama/Meta-Llama-3-8B --method lora",
        "accelerate launch --num_processes 8 --mixed_precision bf16 train.py --config conf/run.yaml",
        "CUDA_VISIBLE_DEVICES=0,1 OMP_NUM_THREADS=8 python train.py",
        "llamafactory-cli train examples/llama3_lora_sft.yaml learning_rate=1e-5",
        "vllm serve --model Qwen/Qwen2.5-7B --tensor-parallel-size 2 --dtype bfloat16 --max-model-len 32768",
        "bench --input-tokens 512 --output-tokens=64",
        "serve --max_new_tokens 4",
        "train --tokenizer gpt2",
        "bash scripts/train.sh",
        "python -u train.py trainer.max_steps=10 optim=adamw_torch",
        "mpirun -np 8 ./bench.exe -b 8M -n 20",
    ],
)
def test_settings_that_are_known_stay(command: str) -> None:
    assert harmless_command(command) == command


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("https://host/v1?limit=5", "https://host/v1?limit=5"),
        ("http://user:pw@prometheus:9090/metrics?x=1", f"http://prometheus:9090/metrics?x={HIDDEN}"),
        ("runs/a.csv#3", "runs/a.csv#3"),
        ("http://[::1", HIDDEN),
    ],
)
def test_of_an_address_the_place_stays(text: str, kept: str) -> None:
    assert harmless_address(text) == kept


def test_counts_of_tokens_and_sentences_of_ours_stay() -> None:
    for text in (
        "max_tokens: 512",
        "tokens per second: 30",
        "the step time has not settled: fewer than 20 steps",
        "total_tokens=8192",
        "basic facts",
    ):
        assert harmless_text(text) == text


def test_what_is_left_out_is_found_by_a_kept_library_of_detectors_too() -> None:
    pytest.importorskip("detect_secrets")
    from rightfit.measure.harmless import _detectors

    for secret, spelt in itertools.product(KEYS.values(), SPELLINGS[:10]):
        clean = harmless_command(spelt.format(s=secret, H=secret, P=secret))
        assert not [found for detector in _detectors() for found in detector.analyze_string(clean) if HIDDEN not in found]


@pytest.mark.parametrize("part", ["a", "a-", "ey-", "token-", "://a:", "-----BEGIN ", "basic ", "a1", "://", "'"])
def test_the_time_of_a_text_grows_as_its_length(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the text takes sixteen times as long where a pattern of ours goes over it again
    and again. A ratio of processor times, the least of three, so that a busy machine does not
    matter."""
    monkeypatch.setattr(sys.modules[harmless_text.__module__], "_detectors", lambda: ())

    def took_s(length: int) -> float:
        text, times = part * (length // len(part)), []
        for _ in range(3):
            began = time.process_time()
            for clean in (harmless_text, harmless_command, harmless_address):
                clean(text)
            times.append(time.process_time() - began)
        return min(times)

    assert took_s(24_000) < 9.0 * took_s(6_000) + 0.02
