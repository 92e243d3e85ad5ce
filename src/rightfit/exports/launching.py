"""Starting a plan through the program that reads its files: SkyPilot or Terraform. Nothing here
rents by itself; it writes the files and runs the program on them."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from rightfit.errors import FileInputError, InputError, MissingComponentError, UnavailableError
from rightfit.exports import skypilot_words
from rightfit.exports.buckets import BUCKET, BUCKET_FILE
from rightfit.exports.job import Job
from rightfit.exports.recipes import Command, bucket_is_there, sky_commands, terraform_commands
from rightfit.exports.registry import Files, all_targets, most_usd
from rightfit.exports.targets import skypilot
from rightfit.messages import Message, system_problem
from rightfit.records import dataclass

# ---- Files onto the disk: never over something that is there, never outside the folder, never
# half. All are drafted first, so that a full disk or a kill leaves none of them behind under
# its own name.

#: Where files wait until all are written: beside a new folder, within one that is there. What a
#: kill leaves in it is thrown away by the next try.
DRAFTS = ".rightfit-part"


def write_files(files: Mapping[str, str], folder: str | Path, *, force: bool = False) -> tuple[Path, ...]:
    """Write the files below `folder`, which must be new or empty unless `force`, or hold an export
    that was cut off. A new folder appears whole; in one that is there the files appear when all of
    them are written. Returns the paths."""
    root = Path(folder)
    names = [_within(name) for name in files]
    try:
        if root.exists() and not root.is_dir():
            raise FileInputError(Message("export.file_no_folder", path=root), field="out")
        if root.is_dir() and not force and not _is_free(root, {name.as_posix() for name in names}):
            raise FileInputError(Message("export.folder_not_empty", path=root), field="out")
        is_new = not root.exists()
        drafts = root.absolute().with_name(f".{root.absolute().name}{DRAFTS}") if is_new else root / DRAFTS
        try:
            _draft(drafts, dict(zip(names, files.values(), strict=True)))
            _put(drafts, root, names, is_new=is_new)
        except BaseException:  # a full disk, Ctrl-C: leave no litter behind
            with contextlib.suppress(OSError):
                shutil.rmtree(drafts)
            raise
    except OSError as error:
        raise FileInputError(Message("problems.cannot_write", name=root, error=system_problem(error, lower=True)), field="out") from None
    return tuple(root / name for name in names)


def _within(name: str) -> PurePosixPath:
    relative = PurePosixPath(name)
    if relative.is_absolute() or ".." in relative.parts:
        raise FileInputError(Message("export.outside_the_folder", file=name), field="out")
    return relative


def _is_free(root: Path, names: set[str]) -> bool:
    """Whether nothing of anybody's lies there: no file at all, or those of an export that was cut
    off while its files were put in place."""
    if not (root / DRAFTS).is_dir():
        return not any(root.iterdir())
    found = (path.relative_to(root) for path in root.rglob("*") if not path.is_dir())
    return all(path.parts[0] == DRAFTS or path.as_posix() in names for path in found)


def _draft(drafts: Path, files: Mapping[PurePosixPath, str]) -> None:
    if drafts.is_dir():
        shutil.rmtree(drafts)
    drafts.mkdir(parents=True)
    for name, text in files.items():
        path = drafts / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        if text.startswith("#!"):
            path.chmod(0o755)


def _put(drafts: Path, root: Path, names: list[PurePosixPath], *, is_new: bool) -> None:
    """Drafts into their places: a new folder at once, else file by file; the folder of drafts goes
    last, so that what is cut off here is known as such."""
    if is_new:
        drafts.replace(root)
        return
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (drafts / name).replace(root / name)
    shutil.rmtree(drafts)


TOOLS = ("skypilot", "terraform")
TERRAFORM_INSTALL = Message("export.see", address="developer.hashicorp.com/terraform/install")
MARK = ".rightfit-plan"
#: Beside a launch while a command runs that would rent once more if it were repeated: it stays
#: where nobody saw how that ended.
BEGUN = ".rightfit-begun"


@dataclass(frozen=True, slots=True)
class Launch:
    """What will be run: `commands` in the folder of `files`, by `program`. `makes_bucket`: before
    them the bucket of the plan is made, and named to them."""

    program: str
    target: str
    files: Files
    commands: tuple[Command, ...]
    install: Message | str
    makes_bucket: bool = False


def launch_of(job: Job, *, tool: str = "skypilot", dry_run: bool = False) -> Launch:
    """The files and commands for a tool. InputError where the tool cannot start the plan."""
    if tool not in TOOLS:
        raise InputError(Message("export.no_tool", tool=tool[:40], tools=", ".join(TOOLS)), field="with")
    if job.settings.trial:
        _check_trial(job, tool)
    target = "skypilot" if tool == "skypilot" else f"terraform-{job.option.provider}"
    if target not in all_targets():
        known = [name.removeprefix("terraform-") for name in all_targets() if name.startswith("terraform-")]
        raise InputError(Message("export.no_terraform", provider=job.option.provider, providers=", ".join(known)), field="with")
    files = {**all_targets()[target].files(job), MARK: job.plan_id + "\n"}
    if tool != "skypilot":
        begun = () if job.is_service or dry_run else (("sh", "-c", "sh wait.sh new || [ $? = 5 ]"),)
        return Launch("terraform", target, files, (*begun, *terraform_commands(dry_run=dry_run)), TERRAFORM_INSTALL)
    if dry_run and not bucket_is_there(job, os.environ):
        files |= skypilot.write_unmounted(job)
    commands = sky_commands(job, dry_run=dry_run, environment=os.environ)
    makes_bucket = skypilot_words.bucket_is_made(job) and not dry_run and not os.environ.get(BUCKET)
    return Launch("sky", target, files, commands, skypilot_words.install(job), makes_bucket)


def _check_trial(job: Job, tool: str) -> None:
    """A trial is one server, measured by a program that waits for it to settle and then goes."""
    if tool != "skypilot":
        raise InputError(
            Message("export.trial_by_skypilot"),
            field="trial",
        )
    if job.is_service:
        raise InputError(Message("export.trial_of_service"), field="trial")
    if job.num_nodes > 1:
        raise InputError(
            Message("export.trial_of_several", number=job.option.rank, count=job.num_nodes),
            field="trial",
        )


def money_at_risk(job: Job) -> dict[str, float]:
    """What it costs: an hour, the whole (a month of a service), and the most that the
    plan holds possible."""
    cost = job.option.cost
    whole = (cost.monthly_usd if job.is_service else cost.total_usd) or 0.0
    return {"hourly_usd": cost.hourly_usd, "whole_usd": whole, "most_usd": max(whole, most_usd(job))}


def check_program(launch: Launch) -> None:
    """MissingComponentError with the line that installs it, where the program is not there."""
    if shutil.which(launch.program) is None:
        raise MissingComponentError(Message("export.not_installed", program=launch.program, why=launch.install))


def prepare(launch: Launch, folder: Path) -> None:
    """Write the files. The folder must be new or empty, or hold an earlier launch of the same plan,
    whose state is kept."""
    mark = folder / MARK
    same = mark.is_file() and mark.read_text(encoding="utf-8", errors="replace") == launch.files[MARK]
    if mark.is_file() and not same:
        raise FileInputError(Message("export.another_launch", folder=folder), field="out")
    write_files(launch.files, folder, force=same)


def run_in(launch: Launch, folder: Path, *, environment: Mapping[str, str] | None = None) -> None:
    """Run the commands there, with this process's streams. UnavailableError where one of them
    fails. Terraform keeps its state and SkyPilot knows clusters and services by name, so a
    repetition goes on where the first ended; a managed job would run twice, and is not
    repeated unseen."""
    begun = folder / BEGUN
    if launch.makes_bucket:
        environment = {**(environment or os.environ), **_bucket(folder, environment)}
    for command in launch.commands:
        if command[:3] == ("sky", "jobs", "launch"):
            _note_begun(begun)
        code = subprocess.run(command, cwd=folder, env=dict(environment) if environment else None, check=False).returncode  # noqa: S603  the user's own program
        begun.unlink(missing_ok=True)
        if code:
            raise UnavailableError(Message("export.ended_with", command=" ".join(command[:2]), code=code))


def _bucket(folder: Path, environment: Mapping[str, str] | None) -> dict[str, str]:
    """The plan's bucket in the account, made where there is none."""
    command = ("sh", BUCKET_FILE)
    made = subprocess.run(  # noqa: S603  our own script
        command, cwd=folder, env=dict(environment) if environment else None, check=False, stdout=subprocess.PIPE, text=True
    )
    if made.returncode:
        raise UnavailableError(Message("export.ended_with", command=" ".join(command), code=made.returncode))
    return {BUCKET: made.stdout.strip(), skypilot_words.ROOT: made.stdout.strip()}


def _note_begun(mark: Path) -> None:
    """FileInputError where an earlier launch began and nobody saw how it ended."""
    if mark.exists():
        raise FileInputError(
            Message("export.cut_off", path=mark),
            field="out",
        )
    try:
        mark.write_text("sky jobs launch\n", encoding="utf-8")
    except OSError as error:
        raise FileInputError(Message("problems.cannot_write", name=mark, error=system_problem(error)), field="out") from None


def start(launch: Launch, *, folder: Path | None = None) -> None:
    """Check for the program, write, run. Without a folder everything happens in a temporary
    one (dry runs only)."""
    check_program(launch)
    if folder is not None:
        prepare(launch, folder)
        run_in(launch, folder)
        return
    with tempfile.TemporaryDirectory(prefix="rightfit-") as made:
        prepare(launch, Path(made))
        run_in(launch, Path(made))
