"""Build the documentation site: one set of pages in English and in Chinese, with nothing
fetched from outside.

Usage: python scripts/build_site.py OUT     (needs the extra `docs`; scripts/site makes an
                                            environment with it)

The reference and the report of accuracy are made first; docs/accuracy.md that is there already
is taken as it is.

A page `x.md` is the English one and `x.zh.md` its Chinese twin. Both sites have the same
addresses, so that a reader can switch language on any page; a page without a twin appears in
English on the Chinese site and says so. A link that leads nowhere, or any other warning, ends the
build with an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent
LANGUAGES = {"en": "en", "zh": "zh_CN"}
BESIDE = (
    "README.md",
    "README.zh.md",
    "CONTRIBUTING.md",
    "CONTRIBUTING.zh.md",
    "CHANGELOG.md",
    "NOTICE",
    "LICENSE",
    "src/rightfit/schema",
    "changelog.d",
)
BESIDE += ("validation/truth/README.md", "benchmarks/history.csv")
WRAPPED = re.compile(r"([\u4e00-\u9fff，。；：、（）“”？！])\n(?=[\u4e00-\u9fff，。；：、（）“”？！`A-Za-z\[])")
# Left to right: a block or a piece of code stays as it is, so that a link within one is none; the
# text of a link may hold code.
LINK = re.compile(r"^```.*?^```$|(\[(?:[^\]`]|`[^`\n]*`)*\])\(((?!https?://|mailto:|#)[^)\s]+)\)|`[^`\n]+`", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
FIRST_HEADING = re.compile(r"^# .*$", re.MULTILINE)
FIRST = {
    "start": ("docs/index", "docs/coverage", "docs/tutorial", "docs/faq", "docs/scenarios", "docs/comparison"),
    "faces": ("docs/web", "docs/notebook"),
    "tasks": ("docs/tasks/index",),
    "reference": ("docs/models", "docs/nomenclature", "docs/accuracy", "docs/rules-of-thumb"),
    "project": ("docs/architecture", "CONTRIBUTING", "CHANGELOG"),
}
FOLDERS = {
    "docs/tasks": "tasks",
    "docs/commands": "commands",
    "docs/concepts": "concepts",
    "docs/reference": "reference",
    "docs/decisions": "project",
    "changelog.d": "project",
    "validation": "reference",
    "docs": "faces",
}


def words() -> Mapping[str, Mapping[str, Mapping[str, str]]]:
    """The words that stand on no page."""
    return tomllib.loads((ROOT / "docs/site/words.toml").read_text(encoding="utf-8"))


def make_pages() -> None:
    """The pages that are made and not kept: the reference, and where it is not there yet (minutes)
    the report of accuracy with its plots."""
    commands = [("scripts/build_docs.py",), ("benchmarks/bench_kernels.py", "--write")]
    if not (ROOT / "docs/accuracy.md").exists():
        commands.append(("-m", "rightfit", "validate", "--write", "--quiet"))
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH")))))
    for words in commands:
        subprocess.run([sys.executable, *words], check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)  # noqa: S603  (our own commands)


def gather(stage: Path, *, lang: str) -> None:
    """Copy the pages of one language into `stage`, laid out as in the repository so that their
    links hold, README as index."""
    shutil.copytree(ROOT / "docs", stage / "docs", ignore=shutil.ignore_patterns("_build", ".ipynb_checkpoints"))
    shutil.copytree(ROOT / "docs/site", stage / "site", dirs_exist_ok=True)
    shutil.rmtree(stage / "docs/site")
    for name in BESIDE:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, stage / name)
        elif source.exists():
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, stage / name)
    translate(stage, lang=lang)
    (stage / "README.md").rename(stage / "index.md")
    merge_changes(stage / "changelog.d", lang=lang)
    for folder in sorted(path for path in (stage / "docs").rglob("*/") if path.is_dir()):
        add_index(folder, lang=lang)
    for page in stage.rglob("*.md"):
        page.write_text(linked(page.read_text(encoding="utf-8"), page.relative_to(stage), stage=stage, lang=lang), encoding="utf-8")
    index = stage / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + contents(pages_of(stage), lang=lang), encoding="utf-8")


def translate(stage: Path, *, lang: str) -> None:
    """Put Chinese twins in the place of English pages, or drop them; mark what has no twin."""
    twins = set(stage.rglob("*.zh.md"))
    if lang == "zh":
        note = f"\n\n:::{{note}}\n{words()['text']['untranslated']['zh']}\n:::\n"
        for page in set(stage.rglob("*.md")) - twins:
            if page.with_suffix(".zh.md") not in twins:
                text = page.read_text(encoding="utf-8")
                page.write_text(FIRST_HEADING.sub(lambda found: found[0] + note, text, count=1), encoding="utf-8")
    for twin in twins:
        if lang == "zh":
            twin.replace(twin.with_name(twin.name.replace(".zh.md", ".md")))
        else:
            twin.unlink()


def add_index(folder: Path, *, lang: str) -> None:
    """A page that lists a folder of pages without one, for links to the folder."""
    pages = sorted(page for page in folder.glob("*.md") if page.name != "index.md")
    if not pages or (folder / "index.md").exists() or folder.name != "decisions":
        return
    title = words()["text"][folder.name][lang]
    lines = [f"* [{title_of(page)}]({page.name})" for page in pages]
    (folder / "index.md").write_text(f"# {title}\n\n" + "\n".join(lines) + "\n", encoding="utf-8")


def merge_changes(folder: Path, *, lang: str) -> None:
    """The fragments of the next release, one section each kind of change, on the
    page about fragments."""
    parts = [(folder / "README.md").read_text(encoding="utf-8")]
    for kind in ("added", "changed", "fixed", "removed"):
        fragments = sorted(folder.glob(f"*.{kind}.md"))
        parts += [f"\n## {words()['text'][kind][lang]}\n\n"] if fragments else []
        parts += [fragment.read_text(encoding="utf-8").strip() + "\n\n" for fragment in fragments]
    for fragment in folder.glob("*.md"):
        fragment.unlink()
    (folder / "README.md").write_text("".join(parts), encoding="utf-8")


def title_of(page: Path) -> str:
    """The first heading."""
    found = FIRST_HEADING.search(page.read_text(encoding="utf-8"))
    return found[0].removeprefix("# ") if found else page.stem


def linked(text: str, page: Path, *, stage: Path, lang: str) -> str:
    """The text with its links as the site has them."""

    def replaced(found: re.Match[str]) -> str:
        if found[2] is None:
            return found[0]
        target, hash_, anchor = found[2].partition("#")
        path = Path(os.path.normpath(page.parent / target))
        up = "../" * (len(page.parts) - 1)
        if target.endswith("README.zh.md") and lang == "en":
            return f'<a href="{up}../zh/index.html">{found[1][1:-1]}</a>'
        if target.endswith("README.md") and lang == "zh" and (stage / path.with_name("index.md")).exists() and page.name == "index.md":
            return f'<a href="{up}../en/index.html">{found[1][1:-1]}</a>'
        target = re.sub(r"\.zh\.md$", ".md", target)
        if path in (Path("README.md"), Path("README.zh.md")):
            target = target.replace("README.md", "index.md")
        if (stage / path / "index.md").exists():
            target = target.rstrip("/") + "/index.md"
        return f"{found[1]}({target}{hash_}{anchor})"

    joined = "".join(piece if number % 2 else WRAPPED.sub(r"\1", piece) for number, piece in enumerate(BLOCK.split(text)))
    return LINK.sub(replaced, joined)


def pages_of(stage: Path) -> list[str]:
    """Every page but the first, by its path without ending."""
    found = [str(page.relative_to(stage).with_suffix("")) for page in stage.rglob("*.md")]
    return sorted(name for name in found if name != "index" and not name.startswith("site/"))


def contents(pages: Iterable[str], *, lang: str) -> str:
    """The hidden tables of contents of the first page: known pages first, then the
    rest of each folder."""
    left = dict.fromkeys(pages)
    groups: dict[str, list[str]] = {name: [] for name in words()["captions"]}
    for group, names in FIRST.items():
        groups[group] += [name for name in names if name in left]
        for name in names:
            left.pop(name, None)
    for name in left:
        folder = next(folder for folder in [str(parent) for parent in Path(name).parents] if folder in FOLDERS)
        groups[FOLDERS[folder]].append(name)
    parts = [
        f"\n```{{toctree}}\n:hidden:\n:caption: {words()['captions'][group][lang]}\n\n" + "\n".join(names) + "\n```\n"
        for group, names in groups.items()
        if names
    ]
    return "".join(parts)


def build(out: Path, *, lang: str) -> None:
    """One language. Raises CalledProcessError where a page has a warning."""
    with tempfile.TemporaryDirectory() as folder:
        stage = Path(folder) / "pages"
        stage.mkdir()
        gather(stage, lang=lang)
        environment = dict(os.environ, RIGHTFIT_SITE_LANGUAGE=LANGUAGES[lang], RIGHTFIT_SITE_VERSION=version())
        command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html"]
        subprocess.run([*command, "-d", f"{folder}/doctrees", "-c", stage / "site", stage, out / lang], check=True, env=environment)  # noqa: S603  (our own command)


def version() -> str:
    """The version of the package, read without importing it."""
    found = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/rightfit/__init__.py").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None
    return found[1]


FRONT = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>rightfit</title><meta http-equiv="refresh" content="0; url=en/index.html"></head>
<body><a href="en/index.html">English</a> <a lang="zh-CN" href="zh/index.html">中文</a></body></html>
"""


def main() -> None:
    """Build both languages and a front page that leads to them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    make_pages()
    for lang in LANGUAGES:
        build(out, lang=lang)
    (out / "index.html").write_text(FRONT, encoding="utf-8")
    sys.stdout.write(f"{out}/index.html\n")


if __name__ == "__main__":
    main()
