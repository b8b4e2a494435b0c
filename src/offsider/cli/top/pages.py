"""The pages of ``offsider top``: the screens of the web UI as tables of texts, independent of how they are drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import parse_qsl

from offsider.cli.command import myself
from offsider.cli.screen_text import cell_text, chart_lines
from offsider.cli.show import TerminalRequest, perform
from offsider.cli.text import plain
from offsider.config.addresses import NOW
from offsider.config.installation import Installation
from offsider.config.web_tab import (
    WebButton,
    WebButtons,
    WebLink,
    WebPage,
    WebPager,
    WebScan,
    WebTab,
    WebTable,
)
from offsider.core.segments import from_segment, segment
from offsider.screens import findings, job, plain as values
from offsider.screens.job_lookup import jid_of
from offsider.screens.request import PAGE
from offsider.screens.tabs import all_tabs, current_tab, find

_MAX_LETTERS = 100


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        key: identifies the row across refreshes.
        cells: one text per column.
        links: the pages that it leads to, the first one on Enter.
        buttons: its actions.
        selectable: whether the actions of the table apply to it.
    """

    key: str
    cells: tuple[str, ...]
    links: Sequence[WebLink] = ()
    buttons: Sequence[WebButton] = ()
    selectable: bool = False


@dataclass(frozen=True)
class Sheet:
    """One table of a page, and everything else of the page as lines.

    Attributes:
        title: heading of the page.
        tables: headings of all tables of the page.
        number: number of the shown one.
        columns: column titles.
        rows: its rows.
        pages: number of its pages.
        lines: facts, notes and charts.
        buttons: actions of the page.
        for_selected: actions on the selected rows.
        empty: shown without rows.
        note: progress of a search.
        filters: the fields of its filter.
    """

    title: str = ""
    tables: Sequence[str] = ()
    number: int = 0
    columns: Sequence[str] = ()
    rows: Sequence[Row] = ()
    pages: int = 1
    lines: Sequence[str] = ()
    buttons: Sequence[WebButton] = ()
    for_selected: Sequence[WebButton] = ()
    empty: str = ""
    note: str = ""
    filters: Sequence[str] = ()


@dataclass(frozen=True)
class Address:
    """A page of a screen.

    Attributes:
        server: the server.
        tab: the screen.
        path: the path of the page below that of the screen.
        fields: its query.
        number: number of the page of a list.
    """

    server: Installation
    tab: WebTab
    path: str = ""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    number: int = 1

    def follow(self, link: WebLink) -> Address | None:
        """Return the page that a link leads to; None if it is not one of a screen."""
        path, _, query = link.path.partition("?")
        if path.startswith(f"{job.TAB.path}/"):
            *where, name = path.removeprefix(f"{job.TAB.path}/").split("/")
            jid = jid_of(from_segment(where[0]), from_segment(name)) if where else from_segment(name)
            return Address(self.server, job.TAB, f"/{segment(jid)}")
        tab = _tab_of(self.server, path)
        return None if tab is None else Address(self.server, tab, path.removeprefix(tab.path), dict(parse_qsl(query)))

    def filtered(self, text: str, names: Sequence[str]) -> Address:
        """Return the page with a filter.

        Args:
            text: ``FIELD=VALUE …``, or a value for the first field.
            names: the fields of the page's filter.
        """
        words = text.split()
        if words and not all("=" in word for word in words):
            words = [f"{name}={text}" for name in names[:1]]
        kept = {name: value for name, value in self.fields.items() if name not in names}
        return replace(self, number=1, fields=kept | dict(word.split("=", 1) for word in words))

    def page(self) -> WebPage | None:
        """Read the page; None if it no longer exists. Raises RedisFailure, or an error of the fields."""
        found = find(self.tab.routes, self.path)
        if found is None:
            return None
        return found[1](TerminalRequest(self.server, {**self.fields, "page": str(self.number)}, parts=found[2]))

    def sheet(self, table: int) -> Sheet:
        """Read the page and return its table of this number, from 0."""
        page = self.page()
        return Sheet(empty="It is gone.") if page is None else _sheet(page, table)

    def act(self, button: WebButton, keys: Iterable[str] = ()) -> str:
        """Do the action of a button, for selected rows by their keys; return its message."""
        path, _, query = button.path.partition("?")
        tab = _tab_of(self.server, path)
        found = None if tab is None else find(tab.actions, path.removeprefix(tab.path))
        if tab is None or found is None:
            return f"{button.text} is on the web pages only"
        fields = {**dict(parse_qsl(query)), **button.fields}
        request = TerminalRequest(self.server, fields, myself(), found[2], tuple(keys))
        return perform(tab, found, request).text


def _tab_of(server: Installation, path: str) -> WebTab | None:
    if path == NOW:
        return findings.TAB
    return job.TAB if path.startswith(f"{job.TAB.path}/") else current_tab(server, path)


def tabs_of(server: Installation) -> list[WebTab]:
    """Return the screens of the navigation bar; the first page is the list of findings."""
    return [findings.TAB, *(tab for tab in all_tabs(server) if not tab.within)]


def _sheet(page: WebPage, number: int) -> Sheet:
    tables = [block for block in page.blocks if isinstance(block, WebTable)]
    title = f"{page.title} {page.subject}".strip()
    buttons = [button for block in page.blocks if isinstance(block, WebButtons) for button in block.buttons]
    lines = [*_lines(page)]
    if not tables:
        return Sheet(title, lines=lines, buttons=buttons)
    number = min(number, len(tables) - 1)
    table = tables[number]
    kept = [at for at, _ in enumerate(table.columns) if not any(isinstance(row[at], WebButton) for row in table.rows)]
    pages = -(-table.pager.total // PAGE) if isinstance(table.pager, WebPager) else 1
    scan = table.pager if isinstance(table.pager, WebScan) and table.pager.cursor else None
    return Sheet(
        title,
        [each.title for each in tables],
        number,
        [table.columns[at].upper() for at in kept],
        [_row(table, at, kept) for at in range(len(table.rows))],
        max(1, pages),
        lines,
        buttons,
        table.actions,
        table.empty,
        "" if scan is None else f"{scan.scanned:,} of {scan.total:,} scanned",
        [*page.filter.fields] if page.filter else [],
    )


def _row(table: WebTable, at: int, kept: Sequence[int]) -> Row:
    cells = table.rows[at]
    texts = tuple(plain(cell_text(values.cell(cells[column])), _MAX_LETTERS) for column in kept)
    return Row(
        table.keys[at] if table.keys else texts[0],
        texts,
        [cell for cell in cells if isinstance(cell, WebLink)],
        [cell for cell in cells if isinstance(cell, WebButton)],
        bool(table.keys and table.actions),
    )


def _lines(page: WebPage) -> Iterator[str]:
    for block in page.blocks:
        shown: Mapping[str, Any] = values.block(block)
        match shown["is"]:
            case "note":
                yield shown["text"]
            case "facts":
                yield "  ".join(f"{fact['name']}: {cell_text(fact['cell'])}" for fact in shown["facts"])
            case "text":
                yield from shown["text"].splitlines()
            case "chart" | "heat":
                yield from chart_lines(shown)
            case _:
                pass
