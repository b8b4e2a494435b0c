"""Data and actions of a tab, independent of how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Row:
    """One row of a table.

    Attributes:
        key: identifies the row across refreshes.
        cells: one text per column.
        subject: object of actions; None for a read-only row.
    """

    key: str
    cells: tuple[str, ...]
    subject: Any = None


@dataclass(frozen=True)
class Table:
    """One page of a table.

    Attributes:
        columns: column titles.
        rows: rows of this page.
        total: number of rows on all pages.
        note: text for the status line, such as the progress of a filter.
        samples: numbers of the sparkline, the latest last; empty without a sparkline.
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    total: int
    note: str = ""
    samples: Sequence[float] = field(default=())


@dataclass(frozen=True)
class Action:
    """An action on rows, bound to a key.

    Attributes:
        verb: verb for the confirmation and the hint: ``"Delete"``.
        done: participle for the status line: ``"{} deleted"``, with the count in place of ``{}``.
        asks: whether it needs a confirmation.
        act: acts on one subject; returns False if it skips it.
        noun: what the status line counts: ``"process"``; empty for a bare number.
        skipped: participle for skipped subjects, with the reason if there is only one.
    """

    verb: str
    done: str
    asks: bool
    act: Callable[[Any], bool]
    noun: str = ""
    skipped: str = "skipped"


@dataclass(frozen=True)
class View:
    """The visible part of a tab: page number from 0, page size, filter text."""

    page: int = 0
    size: int = 20
    text: str = ""


class Tab(Protocol):
    """One tab."""

    @property
    def title(self) -> str: ...

    @property
    def actions(self) -> Mapping[str, Action]:
        """Actions by key."""
        ...

    def read(self, view: View) -> Table:
        """Read the current data. Raises RedisFailure."""
        ...


def paged(columns: tuple[str, ...], rows: Sequence[Row], view: View) -> Table:
    """Return a page of these rows; the filter matches every cell."""
    wanted = view.text.casefold()
    found = [row for row in rows if any(wanted in cell.casefold() for cell in row.cells)] if wanted else rows
    start = view.page * view.size
    return Table(columns, found[start : start + view.size], len(found))
