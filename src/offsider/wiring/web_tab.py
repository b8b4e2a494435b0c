"""Pages that an extension adds to the web UI, as plain data: it needs no import of the web, and writes no HTML.

A function is given the visit (`WebVisit`) and answers a `WebPage`, which is made of tables, facts, notes and buttons.
Everything in them is text: whatever letters it has, it is shown and never becomes a part of the page.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offsider.core.errors import ConfigurationError

if TYPE_CHECKING:
    from offsider.wiring.config import Config


@dataclass(frozen=True)
class WebLink:
    """A text that leads to a path below the UI's root, of the extension's own pages or of others.

    Raises:
        ConfigurationError: the path does not begin with exactly one slash: it would lead to another site.
    """

    text: str
    path: str

    def __post_init__(self) -> None:
        check_path("WebLink", self.path)


@dataclass(frozen=True)
class WebTime:
    """A moment, epoch seconds, shown as how long ago it was."""

    at: float | None


@dataclass(frozen=True)
class WebBadge:
    """A word about a state. ``tone`` is ``""``, ``good``, ``warn``, ``bad`` or ``info``."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class WebButton:
    """Something that can be done: a POST to one of the tab's ``actions``.

    Attributes:
        text: on the button.
        path: below the UI's root.
        fields: sent along.
        confirm: asked before; empty: nothing is asked.
        danger: shown as something that cannot be undone.

    Raises:
        ConfigurationError: the path does not begin with exactly one slash: it would lead to another site.
    """

    text: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    confirm: str = ""
    danger: bool = False

    def __post_init__(self) -> None:
        check_path("WebButton", self.path)


_PATH = re.compile(r"(/[A-Za-z0-9_.-]+)+")
# Browsers take a backslash for a slash, and leave out tabs and line feeds.
_BELOW_THE_ROOT = re.compile(r"/(?![/\\\s\x00-\x1f])")


def is_path(text: str) -> bool:
    """Whether a text is a path below the UI's root, and nothing that leads elsewhere: ``javascript:``, ``//host``."""
    return _BELOW_THE_ROOT.match(text) is not None


def check_path(kind: str, path: str) -> None:
    """Raise ConfigurationError unless it is one."""
    if not is_path(path):
        raise ConfigurationError(
            f"{kind}: the path {path[:100]!r} has to begin with exactly one slash: it is below the root of the pages, "
            "for example /customers/kim"
        )


#: What stands in a table or beside a fact. Numbers are grouped as the visitor's language does it.
Cell: TypeAlias = str | int | float | bool | WebLink | WebTime | WebBadge | WebButton | None


@dataclass(frozen=True)
class WebTable:
    """Rows below the names of their columns."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "There is nothing here."


@dataclass(frozen=True)
class WebFacts:
    """Names and what is so."""

    title: str
    facts: Mapping[str, Cell]


@dataclass(frozen=True)
class WebNote:
    """A sentence. ``tone`` as of `WebBadge`."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class WebButtons:
    """Buttons beside each other."""

    buttons: Sequence[WebButton]


Block: TypeAlias = WebTable | WebFacts | WebNote | WebButtons


@dataclass(frozen=True)
class WebPage:
    """A page of an extension.

    Attributes:
        title: what people read first.
        blocks: from top to bottom.
        subject: a name behind the title.
    """

    title: str
    blocks: Sequence[Block]
    subject: str = ""


class WebVisit(Protocol):
    """What the functions of a tab get: one request, its numbers and texts within bounds."""

    @property
    def config(self) -> Config: ...
    @property
    def who(self) -> str: ...
    def path(self, name: str) -> str: ...
    def number(self, name: str, default: int = 1, lowest: int = 1, highest: int = 1_000_000) -> int: ...
    def choice(self, name: str, choices: Sequence[str], default: str) -> str: ...
    def text(self, name: str, most: int = 100) -> str: ...


#: Answers a page; None when there is no such thing as the path names.
WebView: TypeAlias = Callable[[WebVisit], WebPage | None]
#: Does something and says what was done.
WebAction: TypeAlias = Callable[[WebVisit], str]


@dataclass(frozen=True)
class WebTab:
    """A tab of the web UI.

    Attributes:
        name: of the tab, unique; its actions are authorised as ``"name.…"``.
        title: what people read.
        path: below the UI's root, for example ``"/batches"``.
        routes: path below it -> the function that answers its page. ``""`` is the tab itself; a part in braces,
            ``"/{bid}"``, is handed over by ``visit.path("bid")``.
        actions: path below it -> the function that does something; afterwards the tab is shown.
        job_facts: facts about a job, for its page: given its payload, answers names and what is so.
        assets: file name -> file, of style sheets and scripts for the tab's pages.
    """

    name: str
    title: str
    path: str
    routes: Mapping[str, WebView] = field(default_factory=dict[str, WebView])
    actions: Mapping[str, WebAction] = field(default_factory=dict[str, WebAction])
    job_facts: Callable[[Mapping[str, Any]], Mapping[str, Cell]] | None = None
    assets: Mapping[str, Path] = field(default_factory=dict[str, Path])

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigurationError(f"the web tab {self.name!r}: path is written as /batches, not as {self.path!r}")
