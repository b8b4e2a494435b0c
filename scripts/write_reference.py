"""Write the tables of settings and options into the docs from the code; ``--check`` only lists outdated pages."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from offsider.cli.main import main as offsider
from offsider.config.settings import SECTIONS, CapsuleSection, Section, Setting, ShardSection, declared_in

ROOT = Path(__file__).resolve().parents[1]
NAMED = {"capsules": CapsuleSection, "shards": ShardSection}
COMMENT = re.compile(r"((?: {4}#: .+\n)+) {4}(\w+): ")
PART = re.compile(r"(<!-- (?P<name>[\w .]+): written by `python3 dev\.py docs` -->\n).*?(<!-- end -->)", re.DOTALL)


def section_table(section: type[Section]) -> str:
    """Return a table with one row per setting of a section."""
    lines = ["| Key | Default | Accepts | What it does |", "| --- | --- | --- | --- |"]
    texts = comments(section)
    for setting in declared_in(section).values():
        cells = _default(setting.default), _cell(setting.kind.expects), _cell(_what(setting, texts[setting.key]))
        lines.append(f"| `{setting.key}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def comments(section: type[Section]) -> dict[str, str]:
    """Return the comment of each setting, its own or that of a base class."""
    found: dict[str, str] = {}
    for base in reversed(section.__mro__[: section.__mro__.index(Section)]):
        for lines, key in COMMENT.findall(inspect.getsource(base)):
            found[key] = " ".join(line.strip().removeprefix("#: ") for line in lines.splitlines())
    return found


def _what(setting: Setting, text: str) -> str:
    notes = [text]
    if setting.aliases:
        notes.append(f"Alias: {_codes(setting.aliases)}.")
    if setting.environment:
        first = " (the first one that is set)" if len(setting.environment) > 1 else ""
        notes.append(f"Environment: {_codes(setting.environment)}{first}.")
    if setting.option:
        notes.append(f"Option `{setting.option}`.")
    return " ".join(notes)


def _codes(words: tuple[str, ...]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _default(value: object) -> str:
    if value in ("", ()):
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value:g}`" if isinstance(value, float) and value < 1e6 else f"`{_whole(value)}`"


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) else value


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


#: Options, or lines of options, that the page describes once, for all commands.
COMMON = ("config", "environment")
COMMON_LINES = (
    "* `--json`: Print JSON.",
    "* `--server NAME`: One server. Default: all.",
    "* `-r APP`, `--require APP`: Application. Default: worker.require.",
)


def command_help(name: str) -> str:
    """Return the help of a command and a list of its options."""
    command = offsider.get_command(click.Context(offsider), name)
    assert command is not None, name  # noqa: S101  # a page names a command that does not exist
    paragraphs = [" ".join(text.split()) for text in re.split(r"\n\s*\n", command.help or "")]
    options = [option for option in command.params if isinstance(option, click.Option) and not option.hidden]
    own = [option for option in options if name == "worker" or option.name not in COMMON]
    rows = [_option_line(option, click.Context(command)) for option in own]
    rows = [row for row in rows if row not in COMMON_LINES]
    return "\n".join(["\n\n".join(paragraphs), *(["", *rows] if rows else [])])


def _option_line(option: click.Option, context: click.Context) -> str:
    metavar = "" if option.is_flag else f" {option.make_metavar(context)}"
    names = ", ".join(f"`{name}{metavar}`" for name in option.opts)
    return f"* {names}: {' '.join((option.help or '').split())}"


def parts() -> dict[str, str]:
    """Return every generated part by its name in the pages."""
    tables = {f"settings of {section.section}": section_table(section) for section in SECTIONS}
    tables |= {f"settings of {name}": section_table(section) for name, section in NAMED.items()}
    names = offsider.list_commands(click.Context(offsider))
    return tables | {"commands": "\n\n".join(f"## `offsider {name}`\n\n{command_help(name)}" for name in names)}


def updated(page: str, written: dict[str, str]) -> str:
    """Return the page with regenerated parts. Raises KeyError for an unknown part."""
    return PART.sub(lambda part: f"{part[1]}\n{written[part['name']]}\n\n{part[3]}", page)


def outdated() -> Iterator[tuple[Path, str]]:
    """Yield each page that differs from the code, with its new text."""
    written = parts()
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = path.read_text()
        if (wanted := updated(page, written)) != page:
            yield path, wanted


def main() -> int:
    old = list(outdated())
    for path, wanted in old:
        if "--check" in sys.argv:
            print(f"{path.relative_to(ROOT)} is outdated: run python3 dev.py docs")
        else:
            path.write_text(wanted)
    return 1 if old and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
