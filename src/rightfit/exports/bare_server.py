"""What a bare server runs at its first boot: container, stack, checkpoints to and from a store, and
an end. The same for every cloud; how secrets are fetched, how the store is reached and how a server
is given back is the cloud's."""

from __future__ import annotations

import ast
import base64
import bz2
import hashlib
import io
import tokenize
from collections.abc import Callable, Mapping

from rightfit.exports.buckets import BUCKET, place_of
from rightfit.exports.job import Job
from rightfit.exports.mirrors import mirrored_image
from rightfit.exports.model_words import longest_start_s, spans_servers
from rightfit.exports.quoting import comment, hcl, shell
from rightfit.exports.stack import ExportStack, card_words, installs, launched, stack_of, stack_problem
from rightfit.exports.waiting import ENDED, RUN, RUN_FILE, TOKEN, TOKEN_FILE
from rightfit.facts.engine_releases import image_named
from rightfit.messages import Message
from rightfit.records import dataclass

FOLDER = "/var/lib/rightfit"
KEEP_EVERY_S = 300
POWER_OFF = "shutdown -h now"
RUN_PLACE = "/etc/rightfit/run"
RUN_WORDS = f"${{{RUN}:-$(cat {RUN_PLACE} 2>/dev/null || true)}}"
"""The run's id: of the words before the boot, or of a file where a server is made without them."""
CHECKPOINTS = "/var/lib/rightfit-checkpoints"
"""Container-Optimized OS of Google mounts everything else read-only, and this without leave to
execute: scripts are called by their shell."""


@dataclass(frozen=True, slots=True)
class Ground:
    """What a cloud gives a bare server. `secret`: shell words that print a secret of a name.
    `end`: shell lines that give the server back, so that it costs no more. `before`: lines that
    install what the other two need. `store`: shell words of the rclone remote and the bucket in
    it, "" to keep no checkpoints; `credentials`: lines that set the variables (RCLONE_...) by
    which it is reached."""

    secret: Callable[[str], str]
    end: str = POWER_OFF
    before: tuple[str, ...] = ()
    store: str = ""
    credentials: tuple[str, ...] = ()


def first_boot(job: Job, ground: Ground) -> str:
    """A shell script. One server only: several need a launcher that knows them all.

    Whatever happens in it, a run ends by `end.sh`, which keeps what there is and gives the server
    back; a service does so when it does not come up. What it calls is packed with the job's files:
    first boots may be no longer than 16 kB on some clouds.
    """
    stack = stack_of(job)
    files = {FUNCTIONS: functions(stack, ground), END: end_file(job, ground), **keep_file(job, ground), **stack.files}
    parts = [
        f"#!/bin/bash\n# {comment(job.model)}, plan {job.plan_id}\nset -euo pipefail\n"
        f"trap {shell([POWER_OFF])} EXIT # until there is more\nmkdir -p {FOLDER} {CHECKPOINTS}\n",
        packed_files({f"{FOLDER}/{path}": text for path, text in files.items()}),
        f". {FOLDER}/{FUNCTIONS}\ntrap finish EXIT\n{clock(job, ground)}",
        "".join(f"retry prepare_{number}\n" for number in range(len(ground.before))),
        "".join(map(_secret, stack.secrets)),
        "retry systemctl start docker\n",
        keeping(job, ground),
        # Google's servers run this at every boot, and the container of the last one is still there.
        "docker rm --force rightfit >/dev/null 2>&1 || true\n",
        container(job, stack) + "\n",
        await_health(job, stack) if job.is_service else "",
    ]
    return "".join(parts)


FUNCTIONS, END, KEEP = "functions.sh", "end.sh", "keep.sh"
PAUSES_S = "5 10 20 30 60 60 60 60 60 60 60"
"""Before each further try: eight minutes in all, as roles and their rights reach
a new server late."""
RETRY = f"""retry() {{
  for pause in {PAUSES_S}; do
    if "$@"; then return 0; fi
    echo "rightfit: $1 failed; again in $pause s" >&2
    sleep "$pause"
  done
  "$@"
}}
"""
OPTIONAL_SECRETS = ("HF_TOKEN",)  # models that everybody may fetch need none


def functions(stack: ExportStack, ground: Ground) -> str:
    """What the boot calls: the trap that ends the server however the job ends, tries, and how each
    secret is fetched."""
    finish = f"""finish() {{
  status=$?
  trap - EXIT
  kill "${{!:-}}" 2>/dev/null || true # the copies
  [ "$status" = 0 ] || echo "rightfit: job exited with status $status; giving the server back" >&2
  said="$status"
  [ ! -f {FOLDER}/.over ] || said="time"
  echo "{RUN_WORDS} $said" > {CHECKPOINTS}/{ENDED}
  bash {FOLDER}/{END}
  exit "$status"
}}
"""
    # Who unpacks may stop reading before the sender has sent all.
    prepared = "".join(f"prepare_{number}() ( set +o pipefail; {line} )\n" for number, line in enumerate(ground.before))
    fetched = "".join(f"fetch_{name}() {{ {ground.secret(name)}; }}\n" for name in stack.secrets)
    return f"#!/bin/bash\n{finish}{RETRY}{prepared}{fetched}"


def _secret(name: str) -> str:
    """A secret, asked for until the server's role may read it. One that is optional is asked for
    where it was stored, and left empty where it is not given."""
    line = f'{name}="$(retry fetch_{name})"'
    if name in OPTIONAL_SECRETS:
        line = f'{name}=""\n[ "${{{TOKEN}-yes}}" != yes ] || {line} || {{ echo "rightfit: going on without {name}" >&2; {name}=""; }}'
    return f"{line}\nexport {name}\n"


def end_file(job: Job, ground: Ground) -> str:
    """The script that keeps what there is and gives the server back."""
    keep = f"bash {FOLDER}/{KEEP}"
    kept = f'for pause in 0 10 60; do sleep "$pause"; if [ -z "${{{BUCKET}:-}}" ] || {keep}; then break; fi; done\n'
    return (
        f"#!/bin/bash\n# Keeps what there is and gives the server back. Called when the job ends, however, and when its time is over.\n"
        f"exec 9>{FOLDER}/.ending\nflock -n 9 || exit 0\n"
        f"[ ! -f {FOLDER}/environment ] || . {FOLDER}/environment\n"
        f'[ "${{1:-}}" != time ] || touch {FOLDER}/.over\n'
        f"docker stop --time {STOP_S} rightfit >/dev/null 2>&1 || true\n"
        f'for pause in 1 2 3 4 5; do [ ! -f {CHECKPOINTS}/{ENDED} ] || break; sleep "$pause"; done\n'
        f'[ -f {CHECKPOINTS}/{ENDED} ] || echo "{RUN_WORDS} time" > {CHECKPOINTS}/{ENDED}\n'
        + (kept if keeps(job, ground) else "")
        + "end() {\n"
        + "".join(f"  {line}\n" for line in ground.end.splitlines())
        + "}\n"
        f'for pause in 0 10 30 60 120 300; do sleep "$pause"; if end; then exit 0; fi; done\n{POWER_OFF}\n'
    )


def clock(job: Job, ground: Ground) -> str:
    """What calls end.sh whatever the job does meanwhile, and what that needs to know then."""
    words = f"systemd-run --on-active={round(job.stop_after_h * 3600)}s /bin/bash {FOLDER}/{END} time\n" if job.stop_after_h else ""
    place = f'printf \'export {BUCKET}=%q\\nexport {RUN}=%q\\n\' "${{{BUCKET}:?}}" "${{{RUN}:-}}" > {FOLDER}/environment\n'
    return words + (place if keeps(job, ground) else "")


STOP_S = 120  # for a last checkpoint when the time is over


def keeps(job: Job, ground: Ground) -> bool:
    """Whether checkpoints go to a store."""
    return bool(ground.store) and not job.is_service


def store_of(job: Job, ground: Ground) -> str:
    """Shell words of the place in the store: the bucket, and in it a folder of this plan's own."""
    return f"{ground.store}/{place_of(job)}"


def in_bucket(remote: str) -> str:
    """Shell words of a remote of rclone and the bucket that the environment names, with its
    scheme or without."""
    return f'{shell([remote])}"${{{BUCKET}#*://}}"'


def keep_file(job: Job, ground: Ground) -> dict[str, str]:
    """The script that copies checkpoints to the store, or with a word what lies there back."""
    if not keeps(job, ground):
        return {}
    names = [line.partition("=")[0] for line in ground.credentials if line.startswith("RCLONE_")]
    settings = [word for name in names for word in ("--env", name)]
    words = (
        "docker",
        "run",
        "--rm",
        "--network",
        "host",
        *settings,
        "--volume",
        f"{CHECKPOINTS}:{CHECKPOINTS}",
        mirrored_image(image_named("rclone"), job),  # before the files are packed
        "copy",
    )
    lines = "".join(f"{line}\n" for line in (*ground.credentials, *([f"export {' '.join(names)}"] if names else [])))
    store = f'from={CHECKPOINTS} to={store_of(job, ground)}\n[ "${{1:-}}" != back ] || from=$to to={CHECKPOINTS}\n'
    return {KEEP: f'#!/bin/bash\nset -euo pipefail\n{lines}{store}{shell(words)} "$from" "$to"\n'}


def keeping(job: Job, ground: Ground) -> str:
    """What lies in the store comes first: the data, and checkpoints of an earlier server. From then
    on checkpoints are copied away every few minutes."""
    if not keeps(job, ground):
        return ""
    return (
        f"retry bash {FOLDER}/{KEEP} back\n"
        f"rm -f {CHECKPOINTS}/{ENDED} # an earlier run's\n"
        f"(while sleep {KEEP_EVERY_S} >/dev/null 2>&1; do bash {FOLDER}/{KEEP} || true; done) &\n"
    )


def await_health(job: Job, stack: ExportStack) -> str:
    """The end of a service's boot: it answers in time, or its server is given back. Docker starts
    it again when it fails later."""
    seconds = longest_start_s(job)
    return (
        f"until curl -sf --noproxy '*' http://127.0.0.1:{stack.port}{stack.health_path} >/dev/null; do\n"
        f'  if [ "$SECONDS" -gt {seconds} ]; then docker logs --tail 50 rightfit >&2 || true; exit 1; fi\n'
        "  sleep 10\ndone\ntrap - EXIT\n"
    )


def container(job: Job, stack: ExportStack) -> str:
    """The stack's image with its files, cards, settings and port."""
    settings = [word for name, value in stack.environment.items() for word in ("--env", f"{name}={value}")]
    settings += [word for name in stack.secrets for word in ("--env", name)]
    ports = ["--publish", f"{stack.port}:{stack.port}"] if stack.port else []
    words = launched(stack.command, node_rank="0", num_nodes="1", head_address="127.0.0.1")
    inner = " && ".join([*installs(stack), f"exec {shell(words)}"])
    lasts = ["--detach", "--restart", "unless-stopped"] if job.is_service else ["--rm"]
    places = ["--volume", f"{FOLDER}:/job", "--volume", f"{CHECKPOINTS}:/checkpoints", "--workdir", "/job", "--entrypoint", "sh"]
    return shell(
        [
            "docker",
            "run",
            "--name",
            "rightfit",
            *lasts,
            *card_words(job),
            "--ipc",
            "host",
            *ports,
            *settings,
            *places,
            stack.image,
            "-c",
            inner,
        ]
    )


def packed_files(files: Mapping[str, str]) -> str:
    """Shell lines that put many files at their paths, packed as one, which is shorter than each
    alone: a first boot may be no longer than 16 kB on some clouds. A file ends at a line that
    stands in none of them."""
    mark = "EOF-" + hashlib.sha256("".join(files.values()).encode()).hexdigest()[:12]
    read = {path: without_prose(text) if path.endswith(".py") else text for path, text in files.items()}
    whole = {path: text if text.endswith("\n") or not text else text + "\n" for path, text in read.items()}
    lines = "".join(
        f"mkdir -p {shell([path.rpartition('/')[0] or '.'])}\ncat > {shell([path])} <<'{mark}'\n{text}{mark}\n"
        for path, text in whole.items()
    )
    packed = base64.b85encode(bz2.compress(lines.encode())).decode().translate(SAFE)
    rows = "\n".join(packed[start : start + ROW] for start in range(0, len(packed), ROW))
    return f"{UNPACK} <<'EOF' | bash -e\n{rows}\nEOF\n" if files else ""


ROW = 120
SAFE = str.maketrans("$%`", ".,:")
UNPACK = (
    'python3 -c "import base64 as b,bz2,sys;'
    "sys.stdout.buffer.write(bz2.decompress(b.b85decode(''.join(sys.stdin.read().split()).translate({46:36,44:37,58:96}))))\""
)
"""A sixth shorter than gzip and base64 make of programs, without letters that mean something to a
shell or a template; whatever reads a first boot stands on Python."""


def without_prose(program: str) -> str:
    """A Python program without the docstrings and the lines of comment that only its readers need:
    the bundle shows it whole."""
    tree = ast.parse(program)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and len(node.body) > 1]
    said = [body[0] for body in bodies if isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant)]
    left_out = {line for node in said for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(program).readline)
    left_out |= {one.start[0] for one in tokens if one.type == tokenize.COMMENT and one.line.lstrip().startswith("#")}
    return "".join(line for number, line in enumerate(program.splitlines(keepends=True), 1) if number not in left_out)


# ---- What the Terraform folders of all clouds share: variables with their checks, what a bare
# server is told at its first boot, and what cannot be expressed.

CHECKPOINTS_FOLDER = "checkpoints"
OVERWRITTEN_DAYS = 30
"""So long a bucket that is made here keeps what was overwritten or deleted in it;
then it costs no more."""
HALF_SENT_DAYS = 7
"""So long it keeps the parts of files that never arrived whole."""
MONTH = "subscription-1m"
SCHEMES = {"aws": "s3", "gcp": "gs", "azure": "https", "alicloud": "oss", "tencent": "cos"}
"""Provider of a plan -> scheme of its buckets' addresses."""


def variable(name: str, about: str, *, default: object = None, kind: str = "string") -> str:
    """One variable; without a default the user must give it."""
    value = "" if default is None else f"\n  default     = {hcl(default)}"
    return f'variable "{name}" {{\n  description = {hcl(about)}\n  type        = {kind}{value}\n}}\n'


def cidr_variable(name: str, about: str, *, default: str = "") -> str:
    """A variable that holds an address range and refuses everything (/0)."""
    return f"""variable "{name}" {{
  description = {hcl(about)}
  type        = string
  default     = {hcl(default)}
  validation {{
    condition     = var.{name} == "" || (can(cidrhost(var.{name}, 0)) && !endswith(var.{name}, "/0"))
    error_message = "Give a range such as 203.0.113.7/32, not everything."
  }}
}}
"""


def variables(
    job: Job, *further: str, bucket: str | None = None, about: str = "Bucket (and path) of yours for checkpoints; empty makes one."
) -> str:
    """variables.tf: the name, who may come in, the bucket of a run (the cloud's own way to name it,
    or path after the scheme), and what a cloud needs beside."""
    found = [
        variable("name", "Name of everything that is made.", default=job.name),
        cidr_variable("ssh_cidr", "Address range that may reach the server by SSH; empty opens nothing.", default=job.settings.ssh_cidr),
    ]
    if job.is_service:
        found.append(cidr_variable("client_cidr", "Address range whose clients may reach the balancer; empty opens nothing."))
    else:
        found.append(
            variable(
                "bucket",
                about,
                default=own_bucket(job) if bucket is None else bucket,
            )
        )
    return "\n".join([*found, *further])


def aligned(values: Mapping[str, object], *, indent: int) -> str:
    """Attributes below each other as `terraform fmt` has them; the first line is not indented."""
    width = max(len(name) for name in values)
    return f"\n{' ' * indent}".join(f"{name:<{width}} = {hcl(value)}" for name, value in values.items())


def own_bucket(job: Job) -> str:
    """Bucket and path of --bucket without the scheme; "" where none was given."""
    return job.settings.bucket.partition("://")[2].strip("/")


def bucket_output(address: str) -> str:
    """Where what a run makes is kept, as its cloud's programs take it. `address`: a Terraform
    template on local.bucket."""
    return f'\noutput "bucket" {{\n  value = "{address}"\n}}\n'


def made_bucket(job: Job, account: str) -> str:
    """A Terraform template: name of the bucket that is made where none was given. The same for the
    same plan in the same account, and another's in another: names of buckets are one list for all
    the world. `account`: an expression."""
    return f"{job.name}-{job.plan_id}-${{{account_hash(account)}}}"


ACCOUNT_DIGITS = 8


def account_hash(account: str) -> str:
    """A Terraform expression."""
    return f"substr(sha256({account}), 0, {ACCOUNT_DIGITS})"


RUN_LOCALS = f"""
locals {{
  run   = fileexists("${{path.module}}/{RUN_FILE}") ? trimspace(file("${{path.module}}/{RUN_FILE}")) : "" # sh wait.sh new
  token = fileexists("${{path.module}}/{TOKEN_FILE}") ? "yes" : "no"
}}
"""


def run_words(job: Job) -> str:
    """Blocks: which run it is, and whether the optional token was stored. A new run gets a new
    server, also where the first one's still lies there."""
    change = (
        ""
        if job.is_service
        else """
resource "terraform_data" "run" {
  input = local.run
}
"""
    )
    return RUN_LOCALS + change


def replaced(job: Job, **more: str) -> str:
    """The lifecycle block of a server. `more`: further attributes, as expressions."""
    found = {**more, **({} if job.is_service else {"replace_triggered_by": "[terraform_data.run]"})}
    width = max(map(len, found), default=0)
    return "\n  lifecycle {\n" + "".join(f"    {name:<{width}} = {value}\n" for name, value in found.items()) + "  }\n" if found else ""


def user_data(job: Job, *, bucket: str, before: tuple[str, ...] = ()) -> str:
    """A Terraform expression: the first boot's script, and before it what only whoever starts the
    server knows. `bucket`: an expression; `before`: further templates of lines."""
    told = [*before, f"export {TOKEN}='${{local.token}}'"]
    told += [] if job.is_service else [f"export {BUCKET}='${{{bucket}}}'", f"export {RUN}='${{local.run}}'"]
    parts = ", ".join(f'"{line}"' for line in ("#!/bin/bash", *told))
    return f'join("\\n", [{parts}, file("${{path.module}}/first-boot.sh")])'


def problem(job: Job, provider: str, *, by_the_month: bool = False) -> Message | str:
    """Why servers of a cloud, each on its own, cannot run the job ("" if they can). `by_the_month`:
    the target rents services for a month too."""
    option = job.option
    if option.provider != provider:
        return Message("export.rented_from", provider=option.provider)
    if option.started_as not in ("on-demand", "spot") and not (by_the_month and job.is_service and option.purchase == MONTH):
        return Message("export.buys_on_demand", purchase=option.purchase)
    if option.facts.get("is_pseudo_region"):
        return Message("export.no_region_named", region=option.region)
    if option.nodes > 1 and not job.is_service:
        return Message("export.several_need_launcher")
    if spanning := spans_servers(job):
        return spanning
    if job.settings.bucket and job.settings.bucket.partition("://")[0] != SCHEMES[provider]:
        return Message("export.buckets_as", scheme=SCHEMES[provider], bucket=job.settings.bucket)
    return stack_problem(job)
