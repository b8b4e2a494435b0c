"""Pages that an extension adds to the web UI, as plain data: extensions do not import the web UI or write HTML.

A function takes the request (`WebRequest`) and returns a `WebPage`, which consists of tables, facts, notes and buttons.
All texts in them are escaped: HTML in a text is displayed and never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias
from urllib.parse import quote

from offsider.core.errors import ConfigurationError

if TYPE_CHECKING:
    from offsider.config.installation import Installation


@dataclass(frozen=True)
class WebLink:
    """A link to any path below the UI's root.

    Raises:
        ConfigurationError: the path does not begin with exactly one slash, so that it could link to another site.

    Attributes:
        text: the text to click.
        path: the path.
    """

    text: str
    path: str

    def __post_init__(self) -> None:
        check_path("WebLink", self.path)

    @classmethod
    def to_job(cls, jid: str) -> WebLink:
        """Return a link to the search that finds a job, wherever it is stored."""
        return cls(jid, f"/search?q={quote(jid)}")


@dataclass(frozen=True)
class WebLinks:
    """Several links in one cell, such as tags.

    Attributes:
        links: the links; a plain text is shown without a link.
    """

    links: Sequence[WebLink | str]


@dataclass(frozen=True)
class WebTime:
    """A time, shown as its age.

    Attributes:
        at: epoch seconds; None if unknown.
    """

    at: float | None


@dataclass(frozen=True)
class WebBadge:
    """A state as one word.

    Attributes:
        text: the word.
        tone: ``""``, ``good``, ``warn``, ``bad`` or ``info``.
    """

    text: str
    tone: str = ""


@dataclass(frozen=True)
class WebProgress:
    """A bar with ``done / total`` beside it; without a total only the number."""

    done: float
    total: float | None


@dataclass(frozen=True)
class WebButton:
    """A button that sends a POST to one of the tab's ``actions``.

    Attributes:
        text: the label.
        path: the path below the UI's root.
        fields: form fields of the request.
        confirm: a question to confirm first; empty for none.
        danger: whether the action cannot be undone, which the button shows.

    Raises:
        ConfigurationError: the path does not begin with exactly one slash, so that it could link to another site.
    """

    text: str
    path: str
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    confirm: str = ""
    danger: bool = False

    def __post_init__(self) -> None:
        check_path("WebButton", self.path)


_PATH = re.compile(r"(/[A-Za-z0-9_.-]+)+")
# Browsers treat a backslash as a slash, and ignore tabs and line feeds.
_BELOW_THE_ROOT = re.compile(r"/(?![/\\\s\x00-\x1f])")


def is_path(text: str) -> bool:
    """Return whether a text is a path below the UI's root, unlike ``javascript:…`` and ``//host``."""
    return _BELOW_THE_ROOT.match(text) is not None


def check_path(kind: str, path: str) -> None:
    """Raise ConfigurationError unless ``path`` is a path below the UI's root."""
    if not is_path(path):
        raise ConfigurationError(
            f"{kind}: the path {path[:100]!r} has to begin with exactly one slash: it is below the root of the pages, "
            "for example /customers/kim"
        )


#: A value in a table or of a fact. Numbers are formatted for the visitor's language.
Cell: TypeAlias = str | int | float | bool | WebLink | WebLinks | WebTime | WebBadge | WebProgress | WebButton | None


@dataclass(frozen=True)
class WebPager:
    """Links to the other pages of a table, whose rows are those at `WebRequest.rows`.

    Attributes:
        total: number of rows on all pages.
    """

    total: int


@dataclass(frozen=True)
class WebScan:
    """How far one step of a scan got, and a link to the next step, which adds its rows to the table.

    The first cell of each row identifies it: a row that a later step returns again is shown once.

    Attributes:
        scanned: number of entries that this step has scanned.
        total: number of all entries.
        cursor: the query field ``cursor`` of the next step; empty at the end of the scan.
    """

    scanned: int
    total: int
    cursor: str


@dataclass(frozen=True)
class WebTable:
    """A table.

    Attributes:
        title: the heading.
        columns: names of the columns.
        rows: the cells of each row.
        empty: shown if there are no rows.
        pager: set if the rows are a part of all; for one table of a page.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "There is nothing here."
    pager: WebPager | WebScan | None = None


@dataclass(frozen=True)
class WebFacts:
    """A list of names and values.

    Attributes:
        title: the heading.
        facts: the values by name.
    """

    title: str
    facts: Mapping[str, Cell]


@dataclass(frozen=True)
class WebNote:
    """A sentence.

    Attributes:
        text: the sentence.
        tone: as in `WebBadge`.
    """

    text: str
    tone: str = ""


@dataclass(frozen=True)
class WebButtons:
    """Buttons in a row.

    Attributes:
        buttons: the buttons, from left to right.
    """

    buttons: Sequence[WebButton]


@dataclass(frozen=True)
class WebField:
    """An input of a form.

    Attributes:
        name: the form field.
        label: shown beside it.
        value: shown at first.
        is_number: whether it takes whole numbers.
        required: whether it must not be empty.
        choices: value -> its text, for a choice of one.
    """

    name: str
    label: str
    value: str = ""
    is_number: bool = False
    required: bool = False
    choices: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True)
class WebForm:
    """Inputs, and buttons that send them.

    Attributes:
        title: the heading.
        fields: the inputs, from left to right.
        buttons: each sends the inputs to its path; ``fields`` and ``confirm`` of the buttons are not used.
        confirm: a question to confirm first; empty for none.
    """

    title: str
    fields: Sequence[WebField]
    buttons: Sequence[WebButton]
    confirm: str = ""


Block: TypeAlias = WebTable | WebFacts | WebNote | WebButtons | WebForm

#: Query fields of pagers and scans, and the format of the response.
POSITION_FIELDS = frozenset({"page", "cursor", "seen", "found", "format"})


@dataclass(frozen=True)
class WebFilter:
    """Text fields by which the visitor filters a page; `WebRequest.text` returns their values.

    Attributes:
        fields: query field -> its label.

    Raises:
        ConfigurationError: a field has the name of a field of pagers: ``page``, ``cursor``, ``seen``, ``found`` or
            ``format``.
    """

    fields: Mapping[str, str]

    def __post_init__(self) -> None:
        taken = sorted(POSITION_FIELDS.intersection(self.fields))
        if taken:
            raise ConfigurationError(f"WebFilter: pagers use the field {taken[0]!r}; choose another name")


@dataclass(frozen=True)
class WebPage:
    """A page of an extension.

    Attributes:
        title: the heading.
        blocks: the contents from top to bottom.
        subject: a name after the title.
        filter: fields of a filter, shown above the contents.

    Raises:
        ConfigurationError: several tables have a pager.
    """

    title: str
    blocks: Sequence[Block]
    subject: str = ""
    filter: WebFilter | None = None

    def __post_init__(self) -> None:
        paged = [each.title for each in self.blocks if isinstance(each, WebTable) and each.pager is not None]
        if len(paged) > 1:
            raise ConfigurationError(f"WebPage {self.title!r}: only one table can have a pager, got {paged}")


class WebRequest(Protocol):
    """The argument of the functions of a tab: one request, with numbers and texts limited to safe bounds."""

    @property
    def installation(self) -> Installation:
        """The server."""
        ...

    @property
    def who(self) -> str:
        """The user's name; empty without authentication."""
        ...

    def path(self, name: str) -> str:
        """Return the value of a placeholder in the route's path."""
        ...

    def number(self, name: str, default: int | None = 1, lowest: int = 1, highest: int = 1_000_000) -> int:
        """Return an integer field; None as default: it is required. Raises BadRequest if it is not valid."""
        ...

    def choice(self, name: str, choices: Sequence[str], default: str) -> str:
        """Return a field with one of several values. Raises BadRequest for any other value."""
        ...

    def text(self, name: str, most: int = 100) -> str:
        """Return a text field, stripped. Raises BadRequest if it is longer than ``most`` characters."""
        ...

    def unquoted(self, text: str) -> str:
        """Return a text that may quote arguments of a job; hidden if the pages redact arguments."""
        ...

    def rows(self) -> slice[int, int, None]:
        """Return the positions of the rows of the requested page, 25 per page, as a slice of all rows."""
        ...


#: Returns a page; None if it does not exist.
WebView: TypeAlias = Callable[[WebRequest], WebPage | None]
#: Returns JSON values; None if their subject does not exist.
WebJson: TypeAlias = Callable[[WebRequest], object]
#: Does the action and returns a message about it.
WebAction: TypeAlias = Callable[[WebRequest], str]


@dataclass(frozen=True)
class WebTab:
    """A tab of the web UI.

    Attributes:
        name: the unique name of the tab; its actions are authorized as ``"name.…"``.
        title: the label of the tab.
        path: the path below the UI's root, for example ``"/batches"``.
        routes: path below ``path`` -> the function that returns its page. ``""`` is the tab itself; for a part in
            braces, such as ``"/{bid}"``, ``request.path("bid")`` returns the value.
        actions: path below ``path`` -> the function that does the action; then the UI shows the tab.
        fields: path of an action -> names of the form fields that it reads. A request with any other field is refused.
        job_facts: returns names and values for the page of a job, given its payload.
        json: path below the UI's root -> the function that returns JSON values for programs.
        assets: file name -> path of a style sheet or script for the tab's pages.
    """

    name: str
    title: str
    path: str
    routes: Mapping[str, WebView] = field(default_factory=dict[str, WebView])
    actions: Mapping[str, WebAction] = field(default_factory=dict[str, WebAction])
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    job_facts: Callable[[Mapping[str, Any]], Mapping[str, Cell]] | None = None
    json: Mapping[str, WebJson] = field(default_factory=dict[str, WebJson])
    assets: Mapping[str, Path] = field(default_factory=dict[str, Path])

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigurationError(f"the web tab {self.name!r}: path must be like /batches, got {self.path!r}")
