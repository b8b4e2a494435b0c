"""Are the command lines in a page ones that `offsider` and `dev.py` understand? Parsed, not run."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from offsider.cli import main as command_line

ROOT = Path(__file__).parents[2]
ASSIGNMENT = re.compile(r"[A-Z_][A-Z0-9_]*=")


def check(text: str) -> None:
    """Parse every line that calls one of our commands; other programs are other people's business."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        while words and ASSIGNMENT.match(words[0]):
            words = words[1:]
        _check_words(words)


def _check_words(words: list[str]) -> None:
    match words:
        case ["offsider", *arguments] | ["python" | "python3", "-m", "offsider", *arguments]:
            _parse(_root(), "offsider", [word for word in arguments if word not in {"&", "|"}])
        case ["python3" | "python", "dev.py", word, *_]:
            assert re.search(rf"^    python3 dev\.py {word}\b", (ROOT / "dev.py").read_text(), re.MULTILINE), word
        case _:
            pass


def _root() -> click.Command:
    return next(value for value in vars(command_line).values() if isinstance(value, click.Group))


def _parse(command: click.Command, name: str, arguments: list[str], parent: click.Context | None = None) -> None:
    try:
        context = command.make_context(name, list(arguments), parent=parent)
    except click.exceptions.Exit:
        return  # --help, --version
    if isinstance(command, click.Group):
        rest = [*context._protected_args, *context.args]
        if rest:
            found, chosen, left = command.resolve_command(context, rest)
            assert chosen is not None
            _parse(chosen, found or "", left, context)
