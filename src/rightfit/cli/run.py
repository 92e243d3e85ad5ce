"""The process around a command: exit codes, one-line errors, Ctrl-C, broken pipes."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rightfit.messages import Message

if TYPE_CHECKING:
    from rightfit.errors import RightfitError
    from rightfit.messages import Message

INTERRUPTED, BROKEN_PIPE, INTERNAL_ERROR = 130, 141, 70
_LONGEST_SHOWN = 80


def run(arguments: Sequence[str]) -> int:
    """Run the command line and return the exit code; never lets an exception out."""
    _prepare_streams()
    try:
        return _finish(_dispatch(arguments))
    except KeyboardInterrupt:
        # `python -m` dies of the signal instead of leaving with our code where Ctrl-C came within
        # an exec() of text (every dataclass has one), unless another exec() ends well after it.
        exec("")  # noqa: S102
        return _say("interrupted", INTERRUPTED)
    except BrokenPipeError:
        return _leave_broken_pipe()
    except OSError as error:
        return _unusable(error, arguments)
    except Exception as error:
        return _internal(error, verbose=not {"--verbose", "-v"}.isdisjoint(arguments))


def _prepare_streams() -> None:
    """A terminal that cannot show a character gets a replacement, not a crash; what goes to a
    closed stream (`>&-`) is dropped.

    Warnings of lower rooms go to standard error as they are: so does `logging` where nobody has set
    it up, and loading it takes 4 ms.
    """
    sys.stdout = sys.stdout or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (lives as long as the process)
    sys.stderr = sys.stderr or Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115  (lives as long as the process)
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]


def _dispatch(arguments: Sequence[str]) -> int:
    from rightfit.cli import app
    from rightfit.errors import RightfitError

    try:
        result = app.call(arguments)
    except RightfitError as error:
        return _say(_told(error, arguments), error.exit_code)
    except app.UsageError as error:
        from rightfit.cli.declared import usage_problem

        problem = usage_problem(error, arguments)
        if problem is None:
            sys.stdout.write(str(error) + "\n")
        return _say(_line(problem, arguments), 2) if problem else 0
    except app.Abort:
        raise KeyboardInterrupt from None
    except (app.Exit, SystemExit) as error:  # --help, --version, shell completion
        result = getattr(error, "exit_code", getattr(error, "code", 0))
    if result == INTERRUPTED:  # how a command reports Ctrl-C
        raise KeyboardInterrupt
    return result if isinstance(result, int) else 0


def _told(error: RightfitError, arguments: Sequence[str]) -> str:
    """An error in one line for each problem, in the language of the command line."""
    from rightfit.cli.declared import lang_of

    if lang_of(arguments) == "en":
        return "\n".join(f"error: {line}" for line in str(error).splitlines())
    from rightfit.explain.messages import problems_of

    return "\n".join(f"错误：{line}" for problem in problems_of(error, "zh") for line in problem.message.splitlines())


def _finish(code: int) -> int:
    """Write out what is buffered here, so that a closed pipe or a full disk is noticed while we can
    still answer for it."""
    sys.stdout.flush()
    return code


def _say(line: str, code: int) -> int:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    return code


def _line(message: Message, arguments: Sequence[str]) -> str:
    """One line of the command line's own that something cannot be used, in its language."""
    from rightfit.cli.declared import lang_of

    lang = lang_of(arguments)
    return f"{'error: ' if lang == 'en' else '错误：'}{message.text(lang)}"


def _unusable(error: OSError, arguments: Sequence[str]) -> int:
    """A file that was named and cannot be used is the user's to put right; else it is the answer
    that cannot be written."""
    from rightfit.messages import Message, system_problem

    if isinstance(error.filename, str):
        name = error.filename if len(error.filename) <= _LONGEST_SHOWN else error.filename[:_LONGEST_SHOWN] + "..."
        return _say(_line(Message("usage.file", path=name, error=system_problem(error)), arguments), 2)
    return _say(_line(Message("usage.answer", error=system_problem(error)), arguments), 3)


def _leave_broken_pipe() -> int:
    """The reader has gone (`| head`): say nothing, also not at interpreter exit."""
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return BROKEN_PIPE


def _internal(error: Exception, *, verbose: bool) -> int:
    if verbose:
        import traceback

        _say("".join(traceback.format_exception(error)).rstrip(), INTERNAL_ERROR)
    detail = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    hint = "" if verbose else " (details: --verbose)"
    return _say(f"internal error: {detail}; please report it with the command that you ran{hint}", INTERNAL_ERROR)
