"""The table of ``offsider top``: rows, the cursor, and the selected rows."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.widgets import DataTable

from offsider.cli.top.pages import Row, Sheet

_SELECTED = "● "
_NOT_SELECTED = "  "


class RowTable(DataTable[Text]):
    """One page of rows. The cursor and the selection stay on their rows while the table is drawn again.

    Attributes:
        shown: the page.
        selected: keys of the selected rows.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j", "cursor_down"),
        Binding("k", "cursor_up"),
        Binding("x", "select"),
        Binding("A", "select_all"),
    ]

    class SelectionChanged(Message):
        """A key has changed the selection."""

    def __init__(self) -> None:
        super().__init__(cursor_type="row", zebra_stripes=True)
        self.shown = Sheet()
        self.selected: set[str] = set()

    def empty(self) -> None:
        """Remove all rows and columns, and the selection."""
        self.shown = Sheet()
        self.selected.clear()
        self.clear(columns=True)

    def draw(self, data: Sheet) -> None:
        """Replace the rows; selected rows that are gone are no longer selected."""
        cursor = self.current()
        row_number = self.cursor_row
        keys = [row.key for row in data.rows]
        self.shown = data
        self.selected.intersection_update(keys)
        self.clear(columns=True)
        drawn = [self._cells(row) for row in data.rows]
        for number, column in enumerate(data.columns):
            title = Text(f"{'' if number else _NOT_SELECTED}{column}")
            # Textual would measure new rows when it is idle, and can miss them: the columns are then too narrow.
            self.add_column(title, width=max([title.cell_len, *(cells[number].cell_len for cells in drawn)]))
        for cells in drawn:
            self.add_row(*cells)
        self.move_cursor(row=keys.index(cursor.key) if cursor and cursor.key in keys else row_number)

    def current(self) -> Row | None:
        """Return the row of the cursor."""
        number = self.cursor_row
        return self.shown.rows[number] if 0 <= number < len(self.shown.rows) else None

    def targets(self) -> list[Row]:
        """Return the selected rows, or else the row of the cursor."""
        chosen = [row for row in self.shown.rows if row.key in self.selected]
        cursor = self.current()
        return chosen or ([cursor] if cursor is not None else [])

    def action_select(self) -> None:
        row = self.current()
        if row is not None and _is_selectable(row):
            self.selected ^= {row.key}
            self._redraw_marks()
            self.action_cursor_down()

    def action_select_all(self) -> None:
        every = {row.key for row in self.shown.rows if _is_selectable(row)}
        self.selected = set() if self.selected == every else every
        self._redraw_marks()

    def _redraw_marks(self) -> None:
        for number, row in enumerate(self.shown.rows):
            self.update_cell_at(Coordinate(number, 0), self._cells(row)[0])
        self.post_message(self.SelectionChanged())

    def _cells(self, row: Row) -> list[Text]:
        mark = _SELECTED if row.key in self.selected else _NOT_SELECTED
        return [Text(mark + row.cells[0]), *map(Text, row.cells[1:])]


def _is_selectable(row: Row) -> bool:
    return row.selectable or bool(row.buttons)
