"""What a tab shows and does, without a word about how it is drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        key: what it is known by from one look to the next.
        cells: its texts, one for each column.
        subject: what an action acts on; None for a line that is only to be read.
    """

    key: str
    cells: tuple[str, ...]
    subject: Any = None


@dataclass(frozen=True)
class Sheet:
    """One page of a table.

    Attributes:
        columns: their titles.
        rows: of this page.
        total: rows on all pages.
        note: what else is to be said: how much a filter has looked through.
        samples: numbers for the sparkline, the latest last; empty where there is none.
    """

    columns: tuple[str, ...]
    rows: Sequence[Row]
    total: int
    note: str = ""
    samples: Sequence[float] = field(default=())


@dataclass(frozen=True)
class Action:
    """What a key does to rows.

    Attributes:
        verb: ``"Delete"``, as the question and the hint say it.
        done: ``"deleted"``, as the answer says it.
        asks: whether it has to be confirmed.
        act: does it to one subject; False when that had gone meanwhile.
    """

    verb: str
    done: str
    asks: bool
    act: Callable[[Any], bool]


@dataclass(frozen=True)
class View:
    """Which part of a tab is looked at: the page counts from 0."""

    page: int = 0
    size: int = 20
    text: str = ""


class Tab(Protocol):
    """One tab."""

    @property
    def title(self) -> str: ...

    @property
    def actions(self) -> Mapping[str, Action]:
        """By key."""
        ...

    def read(self, view: View) -> Sheet:
        """Look now. Raises RedisFailure."""
        ...


def paged(columns: tuple[str, ...], rows: Sequence[Row], view: View) -> Sheet:
    """A page of rows that are all at hand; the filter looks at every cell."""
    wanted = view.text.casefold()
    found = [row for row in rows if any(wanted in cell.casefold() for cell in row.cells)] if wanted else rows
    start = view.page * view.size
    return Sheet(columns, found[start : start + view.size], len(found))
