"""Pages that an extension adds to the web UI, as plain data: extensions do not import the web UI or write HTML.

A function takes the request (`WebRequest`) and returns a `WebPage`, which consists of tables, facts, notes,
charts, forms and buttons. All texts in them are escaped: HTML in a text is displayed and never interpreted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from offsider.core.errors import ConfigurationError
from offsider.core.segments import segment

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
        count: a number beside it.
    """

    text: str
    path: str
    count: int | None = None

    def __post_init__(self) -> None:
        check_path("WebLink", self.path)

    @classmethod
    def to_job(cls, jid: str) -> WebLink:
        """Return a link to a job, wherever it is stored."""
        return cls(jid, f"/job/{segment(jid)}")


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
class WebDuration:
    """A length of time, shown in its largest unit.

    Attributes:
        seconds: the length; None if unknown.
    """

    seconds: float | None


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
class WebSpark:
    """Values over time as a small drawing.

    Attributes:
        values: the values, oldest first.
        tone: as in `WebBadge`.
    """

    values: Sequence[float]
    tone: str = ""


@dataclass(frozen=True)
class WebButton:
    """A button that sends a POST to one of the tab's ``actions``.

    Attributes:
        text: the label.
        path: the path below the UI's root.
        fields: form fields of the request.
        confirm: a question to confirm first; empty for none. ``{number}`` is the number of selected rows.
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
Cell: TypeAlias = (
    str
    | int
    | float
    | bool
    | WebLink
    | WebLinks
    | WebTime
    | WebDuration
    | WebBadge
    | WebProgress
    | WebSpark
    | WebButton
    | None
)


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
        more: a link after the rows, such as one to the page of all of them.
        keys: the key of each row, which identifies it; required for ``actions``.
        actions: buttons for the selected rows, whose keys the request has as fields ``key``.
        sort: column -> the path of the same table in another order.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    empty: str = "There is nothing here."
    pager: WebPager | WebScan | None = None
    more: WebLink | None = None
    keys: Sequence[str] = ()
    actions: Sequence[WebButton] = ()
    sort: Mapping[str, str] = field(default_factory=dict[str, str])


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
class WebCount:
    """A count of a large set, in steps: our script follows them in place, and without it there is a link.

    Attributes:
        title: the heading.
        scanned: number of entries read so far.
        total: number of all entries.
        more: path of the page with the next step, which has this block again; empty at the end.
        facts: what was counted so far.
        buttons: what to do with the counted entries.
        waits: whether the next step waits for a click.
        doing: the button of an action in progress, which our script continues.
    """

    title: str
    scanned: int
    total: int
    more: str = ""
    facts: Mapping[str, Cell] = field(default_factory=dict[str, "Cell"])
    buttons: Sequence[WebButton] = ()
    waits: bool = False
    doing: WebButton | None = None


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
class WebText:
    """A text with its own line breaks, such as a traceback or lines of a log.

    Attributes:
        title: the heading; empty for none.
        text: the text.
        folded: a line that is shown instead of the text until the visitor opens it; empty to show the text.
    """

    title: str
    text: str
    folded: str = ""


@dataclass(frozen=True)
class WebChart:
    """Values over time as stacked bars, with a table of the numbers.

    Attributes:
        title: the heading.
        starts_at: start of the first bar, in epoch seconds.
        step_seconds: time between two bars.
        bars: name of a series -> its values; later series are stacked on earlier ones.
        marks: times (epoch seconds) of events, such as deploys, with a label.
        tones: name of a series -> its tone, as in `WebBadge`; others have colors by position.
        unit: unit of the values, such as ``"s"``.

    Raises:
        ConfigurationError: the series have different lengths.
    """

    title: str
    starts_at: float
    step_seconds: float
    bars: Mapping[str, Sequence[float]]
    marks: Sequence[tuple[float, str]] = ()
    tones: Mapping[str, str] = field(default_factory=dict[str, str])
    unit: str = ""

    def __post_init__(self) -> None:
        if len({len(values) for values in self.bars.values()}) > 1:
            raise ConfigurationError(f"WebChart {self.title!r}: all series must have the same number of values")


@dataclass(frozen=True)
class WebHeatMap:
    """Counts by time and range, such as runs by duration; darker fields have more.

    Attributes:
        title: the heading.
        starts_at: start of the first column, in epoch seconds.
        step_seconds: time between two columns.
        rows: name of a range -> its count in each column, lowest range first.
        failed: the part of `rows` that is hatched.
        marks: as in `WebChart`.
    """

    title: str
    starts_at: float
    step_seconds: float
    rows: Mapping[str, Sequence[int]]
    failed: Mapping[str, Sequence[int]] = field(default_factory=dict[str, Sequence[int]])
    marks: Sequence[tuple[float, str]] = ()


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


Block: TypeAlias = WebTable | WebFacts | WebCount | WebNote | WebText | WebChart | WebHeatMap | WebButtons | WebForm

#: Query fields of pagers and scans, and the format of the response.
POSITION_FIELDS = frozenset({"page", "cursor", "seen", "found", "format"})


@dataclass(frozen=True)
class WebFilter:
    """Text fields by which the visitor filters a page; `WebRequest.text` returns their values.

    Attributes:
        fields: query field -> its label.
        values: what links have in these fields, if it is not what the visitor wrote, such as absolute times.

    Raises:
        ConfigurationError: a field has the name of a field of pagers: ``page``, ``cursor``, ``seen``, ``found`` or
            ``format``.
    """

    fields: Mapping[str, str]
    values: Mapping[str, str] | None = None

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


#: ``redact(name, args, kwargs)`` returns the arguments and keyword arguments of a job to show.
Redact: TypeAlias = Callable[[str, list[Any], dict[str, Any]], tuple[list[Any], dict[str, Any]]]


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

    @property
    def actor(self) -> str:
        """Who does an action, for the event log: the user, or else the address of the client."""
        ...

    @property
    def redact(self) -> Redact | None:
        """Returns the arguments of jobs to show; None: all, as in a terminal."""
        ...

    @property
    def is_foreign(self) -> bool:
        """Whether another site made a browser send it."""
        ...

    def path(self, name: str) -> str:
        """Return the value of a placeholder in the route's path."""
        ...

    def all(self, name: str) -> Sequence[str]:
        """Return all values of a field, such as the keys of selected rows. Raises BadRequest if there are too many."""
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
#: Returns a plain text.
WebPlainText: TypeAlias = Callable[[WebRequest], str]


@dataclass(frozen=True)
class WebDone:
    """The result of an action.

    Attributes:
        text: a message about it.
        path: the page to show next; empty: the tab.
        data: details for programs.
    """

    text: str
    path: str = ""
    data: Mapping[str, object] = field(default_factory=dict[str, object])

    def __str__(self) -> str:
        return self.text


#: Does the action and returns a message about it.
WebAction: TypeAlias = Callable[[WebRequest], str | WebDone]


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
        texts: path below the UI's root -> the function that returns a plain text, such as Markdown.
        assets: file name -> path of a style sheet or script for the tab's pages.
        within: path of the tab whose pages link to it, for example ``"/fleet"``; empty: it is in the navigation bar.
    """

    name: str
    title: str
    path: str
    routes: Mapping[str, WebView] = field(default_factory=dict[str, WebView])
    actions: Mapping[str, WebAction] = field(default_factory=dict[str, WebAction])
    fields: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    job_facts: Callable[[Mapping[str, Any]], Mapping[str, Cell]] | None = None
    json: Mapping[str, WebJson] = field(default_factory=dict[str, WebJson])
    texts: Mapping[str, WebPlainText] = field(default_factory=dict[str, WebPlainText])
    assets: Mapping[str, Path] = field(default_factory=dict[str, Path])
    within: str = ""

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.path):
            raise ConfigurationError(f"the web tab {self.name!r}: path must be like /batches, got {self.path!r}")
