"""Make a release: fold the fragments into CHANGELOG.md, set the version, build, try the
wheel, commit and tag.

Usage: scripts/release VERSION [--date YYYY-MM-DD] [--dry-run]

Nothing is pushed; the last lines say what to push. With --dry-run all of it happens in a clone
that is thrown away.
"""

from __future__ import annotations

import argparse
import datetime
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = "src/rightfit/__init__.py"


def run(*command: str, at: Path) -> str:
    """What a program prints; it stops the release where it fails."""
    done = subprocess.run(command, cwd=at, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)  # noqa: S603
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}release stopped: this command failed")
    return done.stdout


def check(root: Path, version: str) -> None:
    """A version that can follow, nothing uncommitted, and no such release yet."""
    if not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", version):
        sys.exit(f"{version!r} is no version; write it as 0.3.0 or 0.3.0rc1")
    if changed := run("git", "status", "--porcelain", at=root):
        sys.exit(f"commit or stash these first:\n{changed}")
    if run("git", "tag", "--list", f"v{version}", at=root):
        sys.exit(f"there is a tag v{version} already")


def write(root: Path, version: str, date: str) -> None:
    """The section of the changelog and the version. A section that was written by hand stays as it
    is, if no fragment is left to go into it."""
    written = f"## {version} (" in (root / "CHANGELOG.md").read_text(encoding="utf-8")
    fragments = [path.name for path in (root / "changelog.d").glob("*.*.md")]
    if written and fragments:
        sys.exit(f"CHANGELOG.md has a section {version} already; move these into it by hand: {', '.join(sorted(fragments))}")
    if not written:
        run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version, "--date", date, at=root)
    path = root / VERSION_FILE
    path.write_text(re.sub(r'(?m)^__version__ = ".*"$', f'__version__ = "{version}"', path.read_text(encoding="utf-8")), encoding="utf-8")


def build(root: Path, version: str) -> list[Path]:
    """The wheel and the source distribution; the wheel is installed into a fresh environment and
    must say its version."""
    run(sys.executable, "-m", "build", "--outdir", "dist", at=root)
    files = sorted((root / "dist").glob(f"rightfit-{version}[-.]*"))
    wheel = next(file for file in files if file.suffix == ".whl")
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = str(Path(folder) / "bin" / "python")
        run(python, "-m", "pip", "install", "--quiet", str(wheel), at=Path(folder))
        said = run(str(Path(folder) / "bin" / "rightfit"), "--version", at=Path(folder)).strip()
    if said != f"rightfit {version}":
        sys.exit(f"the wheel says {said!r} and not 'rightfit {version}'")
    return files


def release(root: Path, version: str, date: str) -> None:
    """All steps in one checkout."""
    check(root, version)
    write(root, version, date)
    files = build(root, version)
    run("git", "add", "--all", "CHANGELOG.md", "changelog.d", VERSION_FILE, at=root)
    if run("git", "diff", "--cached", "--name-only", at=root):
        run("git", "commit", "--quiet", "--message", f"Release {version}", at=root)
    run("git", "tag", "--annotate", f"v{version}", "--message", f"rightfit {version}", at=root)
    print(*(f"built and tried: {file}" for file in files), f"committed and tagged: v{version}", sep="\n")


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version")
    parser.add_argument("--date", default=datetime.datetime.now(tz=datetime.UTC).date().isoformat())
    parser.add_argument("--dry-run", action="store_true")
    given = parser.parse_args()
    check(ROOT, given.version)
    if given.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            clone = Path(folder) / "clone"
            run("git", "clone", "--quiet", str(ROOT), str(clone), at=ROOT)
            release(clone, given.version, given.date)
            print(run("git", "show", "--stat", "--format=%s", "HEAD", at=clone) + "dry run: nothing was kept")
        return 0
    release(ROOT, given.version, given.date)
    branch = run("git", "branch", "--show-current", at=ROOT).strip()
    print(f"to publish:\n  git push origin {branch} v{given.version}\n  python -m twine upload dist/rightfit-{given.version}*")
    return 0


if __name__ == "__main__":
    sys.exit(main())
