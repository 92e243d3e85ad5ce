"""Run the examples of the hand-written pages, and write what they print into the pages.

Usage: python scripts/docs_examples.py [--check] [PAGE ...]     (--check writes nothing and exits 1
                                                                when a page is behind)

What a page may hold:

    ```console                   each line `$ rightfit ...` is run; `# exit 2` behind it says which
                                 exit code is right (else 0)
    <!-- excerpt: all -->        before such a block: what follows the command is what it prints
    <!-- excerpt: 1-7; "Refused:" 4 -->     the same, but only these lines: line numbers, or the
                                            first line that holds a text and so many lines
                                 ("^text": begins with it)
    <!-- file: cases.csv -->     before any block: its text is put in this file, where the commands
                                 of the page run
    ```python                    is run; a ```text block right behind it is what it prints
    <!-- accuracy -->            up to <!-- end -->: the table of accuracy, from validation:
                                 headline.json, blind and first-contact scores

The first command of each README with its answer is drawn as well (docs/examples/plan.*.svg).

The commands of a page run one after the other in one empty folder, so a later one finds the files
of an earlier one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
os.environ.setdefault("RIGHTFIT_TODAY", (ROOT / "tests/data/day.txt").read_text().strip())  # prices age by the clock
sys.path.insert(0, str(ROOT / "src"))

WIDTH = "100"
GAP = "..."
FENCE = re.compile(r"(?P<mark><!-- (?P<kind>excerpt|file): (?P<what>.+?) -->\n)?```(?P<language>\w+)\n(?P<body>.*?)```\n", re.DOTALL)
ACCURACY = re.compile(r"(<!-- accuracy -->\n).*?(<!-- end -->\n)", re.DOTALL)
COMMAND = re.compile(r"^\$ (rightfit .*?)(?:\s+# exit (\d+))?$")
PIECE = re.compile(r'\s*(?:(\d+)-(\d+)|"([^"]+)"\s*(\d+)?)\s*')
FONT_FACES = re.compile(r"\n *@font-face \{.*?\}", re.DOTALL)  # of another site: pages work offline
CHINESE = re.compile(r"\.zh\.md$")

ACCURACY_ROWS = (
    ("memory, full fine-tuning", "Peak memory per GPU, full fine-tuning", "单卡峰值显存，全参数微调"),
    ("memory, adapters", "Peak memory per GPU, LoRA, QLoRA and the like", "单卡峰值显存，LoRA、QLoRA 等"),
    ("training speed, one server", "Training speed, one server", "训练速度，单机"),
    ("training speed, several servers", "Training speed, several servers", "训练速度，多机"),
    ("serving, time per token", "Serving, time per token", "推理服务，每 token 时间"),
    ("serving, throughput", "Serving, throughput", "推理服务，吞吐"),
    ("serving, first token", "Serving, first token", "推理服务，首 token 时间"),
    ("serving, memory", "Serving, memory", "推理服务，显存"),
    (
        "forward passes (encoders, vision, diffusion, speech)",
        "Vision, encoders, diffusion, speech: one pass",
        "视觉、编码器、扩散、语音：单次前向",
    ),
    ("training on samples, rates", "Training on pictures, sound and the like: rates", "图像、语音等训练：速率"),
    ("training on samples, memory", "Training on pictures, sound and the like: memory", "图像、语音等训练：显存"),
    ("classical, time", "Classical machine learning, time", "经典机器学习，时间"),
)


#: Pages that are made whole, and not kept: by scripts/build_docs.py, `rightfit validate --write`
#: and benchmarks/bench_kernels.py.
MADE = ("docs/reference/", "docs/accuracy.md", "docs/accuracy/")


def is_made(path: Path) -> bool:
    """Whether a page (or a folder) of the checkout is made and not kept."""
    return f"{path.relative_to(ROOT).as_posix()}/".startswith(tuple(f"{name.rstrip('/')}/" for name in MADE))


def pages() -> list[Path]:
    """The hand-written pages."""
    found = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md")]
    return sorted(page for page in found if not is_made(page))


class ExampleError(Exception):
    """An example that does not do what its page says."""


class Session:
    """Runs what a page shows, in one folder, with one set of Python names."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.names: dict[str, Any] = {"__name__": "docs"}

    def command(self, line: str, *, code: int) -> str:
        """What `rightfit ...` prints, on both streams."""
        from rightfit.cli import main

        with self._captured() as printed:
            found = main(shlex.split(line)[1:])
        if found != code:
            raise ExampleError(f"$ {line}\nexits with {found}, not {code}:\n{text_of(printed)[-2000:]}")
        return text_of(printed).replace(str(self.folder), ".")

    def python(self, text: str) -> str:
        """What a block of Python prints."""
        with self._captured() as printed:
            exec(compile(text, "<example>", "exec"), self.names)  # noqa: S102  (our own pages)
        return text_of(printed)

    def file(self, name: str, text: str) -> None:
        """Put a file where the commands run."""
        (self.folder / name).write_text(text, encoding="utf-8")

    @contextlib.contextmanager
    def _captured(self) -> Iterator[io.TextIOWrapper]:
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="")
        kept = {name: os.environ.get(name) for name in ("COLUMNS", "LANG", "LC_ALL", "TERM")}
        os.environ.update(COLUMNS=WIDTH, LANG="C.UTF-8", LC_ALL="C.UTF-8", TERM="dumb")
        try:
            with contextlib.chdir(self.folder), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield printed
        finally:
            for name, value in kept.items():
                os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def text_of(printed: io.TextIOWrapper) -> str:
    """What was written to a captured stream."""
    printed.flush()
    return printed.buffer.getvalue().decode("utf-8")  # type: ignore[attr-defined]


def refreshed(text: str, session: Session, *, chinese: bool = False) -> str:
    """A page with its examples run and what they print filled in. Raises ExampleError
    where an example fails."""
    fences = list(FENCE.finditer(text))
    parts, end, before = [], 0, None
    for fence in fences:
        output = None
        if before is not None and fence["language"] == "text" and text[before[0] : fence.start()].strip() == "":
            output = before[1]
        parts += [text[end : fence.start()], _fence(fence, session, output)]
        end = fence.end()
        before = (fence.end(), session.python(fence["body"])) if fence["language"] == "python" else None
    whole = "".join([*parts, text[end:]])
    return ACCURACY.sub(lambda found: found[1] + accuracy_table(chinese=chinese) + found[2], whole)


def _fence(fence: re.Match[str], session: Session, output: str | None) -> str:
    body = fence["body"]
    if fence["kind"] == "file":
        session.file(fence["what"], body)
    if output is not None:
        body = output
    if fence["language"] == "console":
        body = _console(body, session, fence["what"] if fence["kind"] == "excerpt" else "")
    return f"{fence['mark'] or ''}```{fence['language']}\n{body}```\n"


def _console(body: str, session: Session, selector: str) -> str:
    """The commands of a console block, run; with a selector their output is written anew."""
    lines = body.splitlines()
    out: list[str] = []
    for line in lines:
        found = COMMAND.match(line)
        if found is None:
            out += [] if selector else [line]
            continue
        printed = session.command(found[1], code=int(found[2] or 0))
        if "Traceback" in printed:
            raise ExampleError(f"{line}\n{printed}")
        out.append(line)
        out += excerpt(printed, selector) if selector else []
    return "".join(line.rstrip() + "\n" for line in out)


def excerpt(printed: str, selector: str) -> list[str]:
    """The lines that a selector names, with a gap mark where lines are left out."""
    lines = printed.rstrip("\n").splitlines()
    if selector == "all":
        return lines
    kept: list[str] = []
    last = 0
    for piece in selector.split(";"):
        first, stop = _piece(piece, lines)
        kept += ([GAP] if first > last and kept else []) + lines[first:stop]
        last = stop
    return [*kept, GAP] if last < len(lines) else kept


def _piece(piece: str, lines: list[str]) -> tuple[int, int]:
    """First line and the line after the last, from "2-7" or '"text" 5'; without a number up to
    the next blank line."""
    found = PIECE.fullmatch(piece)
    if found is None:
        raise ExampleError(f"cannot read the excerpt {piece!r}")
    if found[1]:
        return int(found[1]) - 1, int(found[2])
    first = next((number for number, line in enumerate(lines) if _holds(line, found[3])), None)
    if first is None:
        raise ExampleError(f"no line of the output holds {found[3]!r}:\n" + "\n".join(lines[:40]))
    blank = next((number for number in range(first, len(lines)) if not lines[number].strip()), len(lines))
    return first, first + int(found[4]) if found[4] else blank


def _holds(line: str, text: str) -> bool:
    return line.startswith(text[1:]) if text.startswith("^") else text in line


def accuracy_table(*, chinese: bool = False) -> str:
    """The accuracy of the README: blind scores first, then first contact, then the last validation
    with the stack unknown and named."""
    headline: Mapping[str, float] = json.loads((ROOT / "validation/headline.json").read_text(encoding="utf-8"))
    english_head = "| figure (median / 90th percentile) | blind | first contact | own rows, stack unknown | own rows, stack named |"
    chinese_head = "| 量（中位数 / 九成以内） | 盲测 | 首次接触 | 自有数据，软件栈未知 | 自有数据，软件栈已知 |"
    from rightfit.proof.honest_page import readme_rows

    rows = [chinese_head if chinese else english_head, "|---|---|---|---|---|"]
    return "\n".join([*rows, *readme_rows(ROOT / "validation", headline, ACCURACY_ROWS, chinese=chinese)]) + "\n"


def refresh_page(page: Path) -> tuple[str, str]:
    """A page as it is, and as it should be."""
    text = page.read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as folder:
        try:
            return text, refreshed(text, Session(Path(folder).resolve()), chinese=bool(CHINESE.search(page.name)))
        except ExampleError as error:
            raise ExampleError(f"{page.relative_to(ROOT)}: {error}") from None


#: Page -> the picture of its first command with the answer.
PICTURES = {ROOT / "README.md": ROOT / "docs/examples/plan.en.svg", ROOT / "README.zh.md": ROOT / "docs/examples/plan.zh.svg"}


def drawn(page: str) -> str:
    """The first console block of a page as an SVG terminal."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI

    block = next(match for match in FENCE.finditer(page) if match["language"] == "console")["body"]
    console = Console(record=True, width=int(WIDTH), file=io.StringIO(), legacy_windows=False)
    console.print(block.rstrip(), markup=False, highlight=False)
    return FONT_FACES.sub("", console.export_svg(title="rightfit plan", theme=MONOKAI, unique_id="rightfit"))


def main() -> None:
    """Write or check."""
    from rightfit.market import open_catalog

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("pages", nargs="*", type=Path)
    options = parser.parse_args()
    behind = []
    open_catalog()  # builds the store, which the first command would otherwise tell of
    for page in [path.resolve() for path in options.pages] or pages():
        before, after = refresh_page(page)
        if before != after:
            behind.append(str(page.relative_to(ROOT)))
            if not options.check:
                page.write_text(after, encoding="utf-8")
        if page in PICTURES and not options.check:
            PICTURES[page].write_text(drawn(after), encoding="utf-8")
    if options.check and behind:
        raise SystemExit("examples are behind the program, run scripts/docs: " + ", ".join(behind))


if __name__ == "__main__":
    main()
