"""Text for the terminal: tables, numbers, sizes and durations, and the one place that prints.

`say` escapes control characters: stored text comes from any client of the server, and must stay text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import click

from offsider.core.errors import OffsiderError
from offsider.core.wording import duration as duration  # noqa: PLC0414  # a public name of this module


class CannotPrint(OffsiderError):
    """The standard stream takes no output, for example because the disk is full."""


def say(*lines: str, start: str = "", err: bool = False) -> None:
    """Print lines. Control characters and line breaks within a line become Python escapes.

    Args:
        lines: the lines.
        start: our own text before each line; it may have colors.
        err: print to standard error.

    Raises:
        CannotPrint: the stream takes no output.
    """
    for line in lines:
        _print(f"{start}{plain(line, None)}", err=err)


def say_json(text: str) -> None:
    """Print a JSON document, in which only DEL is not escaped yet."""
    _print(text.replace("\x7f", "\\u007f"))


def confirm(question: str) -> None:
    """Ask a question. Raises click.Abort unless the answer is yes."""
    click.confirm(plain(question, None), abort=True)


def _print(text: str, *, err: bool = False) -> None:
    try:
        click.echo(text, err=err)
    except BrokenPipeError:
        raise  # click ends the program
    except OSError as error:
        raise CannotPrint(f"cannot write the output: {error.strerror}") from error


def aligned(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """Return one line per row, with aligned columns.

    Args:
        rows: the first row is the header; all rows have the same number of cells.
        numbers: indexes of right-aligned columns.
    """
    rows = [[plain(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    sides = [">" if index in numbers else "<" for index in range(len(widths))]
    return [
        "  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, sides, widths, strict=True)).rstrip()
        for row in rows
    ]


def ago(at: float | None, now: float) -> str:
    """Format as ``3 min 20 s ago``, ``in 5 h 10 min``; empty if the time is unknown."""
    if at is None:
        return ""
    seconds = int(abs(at - now))
    length = duration(seconds) if seconds >= 10 else f"{seconds} s"
    return f"in {length}" if at > now else f"{length} ago"


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,3})?)([smhd]?)", re.ASCII)


def seconds_typed(_context: click.Context | None, _option: click.Parameter | None, typed: str | None) -> float | None:
    """Option callback: return the duration in seconds, or None if the option was not given.

    Raises:
        click.BadParameter: the text is not a duration; the message shows the expected format.
    """
    if typed is None:
        return None
    match = _SPAN.fullmatch(typed)
    if match is None or not float(match[1]):
        raise click.BadParameter(
            f"{typed!r} is not a duration: expected a number with s, m, h or d, such as 90s, 5m, 2h"
        )
    return float(match[1]) * _UNITS[match[2]]


def plain(text: str, most: int | None = 200) -> str:
    """Return one line of at most ``most`` characters; control characters become Python escapes."""
    cut = text if most is None or len(text) <= most else f"{text[: most - 1]}…"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in cut)
