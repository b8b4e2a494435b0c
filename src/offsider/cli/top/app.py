"""The terminal application: tabs, keys, and a table that refreshes itself.

1. Each tick, each change of the view and each action requests a read of the current tab.
2. A read runs in a thread, so that the screen never waits for the server. One read runs at a time; a request during a
   read starts another one after it.
3. The result is drawn if its tab is still selected. An error is shown in the status line, the last table stays, and
   the next read tries again.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import DataTable, Input, Sparkline, Static, Tab as TabLabel, Tabs

from offsider.cli.text import plain
from offsider.cli.top.tabs import Action, Busy, Home, Metrics, Queues, Row, Tab, Table, View, set_tabs
from offsider.config.installation import Installation
from offsider.core.errors import OffsiderError
from offsider.logs.setup import describe

KEYS = """\
←  →      previous, next tab             1 … 7   tab by number
h  l      previous, next page
j  k      next, previous row
x         select the row                 A       select the page, or none
/         filter; Escape clears it
D         delete                         R       retry
E         enqueue now (Scheduled)        K       kill (to the dead set)
T  Q      stop, quiet a process          p       pause, resume a queue
?         help                           q       quit

An action applies to the selected rows, or to the row of the cursor."""


class Question(ModalScreen[bool]):
    """Asks for a yes or a no."""

    CSS = """
    Question { align: center middle; }
    Question Static { width: auto; max-width: 76; height: auto; padding: 1 2; border: heavy $error; }
    Question Static { background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("y", "answer(True)", "Yes"),
        ("n,escape,q,enter", "answer(False)", "No"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(f"{self._text}\n\ny  yes    n  no", markup=False)

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - called by its name in a binding
        self.dismiss(yes)


class Help(ModalScreen[None]):
    """Lists all keys."""

    CSS = """
    Help { align: center middle; }
    Help Static { width: auto; height: auto; padding: 1 2; border: heavy $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("question_mark,escape,q,enter", "close", "Close")]

    def compose(self) -> ComposeResult:
        yield Static(KEYS, markup=False)

    def action_close(self) -> None:
        self.dismiss(None)


#: Lines of the screen other than rows: tabs, column titles, hints, status.
_OTHER_LINES = 6
_SELECTED = "● "
_NOT_SELECTED = "  "


class Top(App[None]):
    """The whole screen.

    Args:
        here: the server to show.
        interval_seconds: refresh interval.
    """

    CSS = """
    Tabs { height: 2; }
    #chart { height: 3; display: none; margin: 0 2; }
    DataTable { height: 1fr; }
    Input { display: none; height: 1; border: none; padding: 0 1; }
    #status, #hints { height: 1; padding: 0 1; }
    #hints { color: $text-muted; }
    #status.-outage { background: $error; color: $text; }
    """
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "tab(-1)", priority=True),
        Binding("right", "tab(1)", priority=True),
        *(Binding(str(number + 1), f"go({number})") for number in range(7)),
        Binding("h", "page(-1)"),
        Binding("l", "page(1)"),
        Binding("j", "row(1)"),
        Binding("k", "row(-1)"),
        Binding("x", "select"),
        Binding("A", "select_all"),
        Binding("slash", "filter"),
        Binding("escape", "unfilter", priority=True),
        *(Binding(key, f"act('{key}')") for key in "DREKTQp"),
        Binding("question_mark", "help"),
        Binding("q", "quit"),
    ]

    class Loaded(Message):
        """A read has finished, with a table or an error message."""

        def __init__(self, tab: Tab, data: Table | None, outage: str) -> None:
            super().__init__()
            self.tab = tab
            self.data = data
            self.outage = outage

    class Acted(Message):
        """An action has finished or failed."""

        def __init__(self, answer: str) -> None:
            super().__init__()
            self.answer = answer

    def __init__(self, here: Installation, interval_seconds: float) -> None:
        super().__init__()
        self._here = here
        self._interval_seconds = interval_seconds
        self.tabs: tuple[Tab, ...] = (
            Home(here),
            Busy(here),
            Queues(here),
            *set_tabs(here),
            Metrics(here),
        )
        self._number = 0
        self._view = View()
        self._table_data = Table((), (), 0)
        self.selected: set[str] = set()
        self._reading = False
        self._read_again = False
        self._answer = ""
        self._outage = ""

    @property
    def tab(self) -> Tab:
        """The selected tab."""
        return self.tabs[self._number]

    def compose(self) -> ComposeResult:
        yield Tabs(*(TabLabel(tab.title) for tab in self.tabs))
        yield Sparkline(id="chart")
        yield DataTable[Text](cursor_type="row", zebra_stripes=True)
        yield Input(placeholder="filter", compact=True)
        yield Static(id="status", markup=False)
        yield Static(id="hints", markup=False)

    def on_mount(self) -> None:
        self.title = f"offsider top {self._here.settings.redacted_url}"
        self.query_one(Tabs).can_focus = False
        self.table.focus()
        self.set_interval(self._interval_seconds, self.request_read)
        self._show_tab(0)

    @property
    def table(self) -> DataTable[Text]:
        return self.query_one(DataTable[Text])

    # ------------------------------------------------------------------------------------- reading

    def request_read(self) -> None:
        """Request a read of the current tab; the result is drawn when it arrives."""
        if self._reading:
            self._read_again = True
            return
        self._reading, self._read_again = True, False
        rows = self.size.height - _OTHER_LINES
        self._view = replace(self._view, size=max(1, rows))
        self._beside(partial(self._read, self.tab, self._view))

    def _beside(self, work: Callable[[], Message]) -> None:
        """Run work in a thread and post its message. Quitting does not wait for it."""
        threading.Thread(target=self._work, args=(work,), daemon=True).start()

    def _work(self, work: Callable[[], Message]) -> None:
        message = work()
        with suppress(RuntimeError):  # the application has ended
            self.post_message(message)

    def _read(self, tab: Tab, view: View) -> Loaded:
        try:
            return self.Loaded(tab, tab.read(view), "")
        except Exception as error:  # noqa: BLE001 - show any error: the next read may succeed
            return self.Loaded(tab, None, _reason(error))

    def on_top_loaded(self, event: Loaded) -> None:
        self._reading = False
        if not self.query(DataTable):
            return  # a dialog is open, or the application is exiting
        self._outage = event.outage
        if event.data is not None and event.tab is self.tab and not self._read_again:
            self._draw(event.data)
        self._draw_status()
        if self._read_again:
            self.request_read()

    # ------------------------------------------------------------------------------------- drawing

    def _draw(self, data: Table) -> None:
        cursor = self._row_of_cursor()
        row_number = self.table.cursor_row
        self._table_data = data
        self.selected &= {row.key for row in data.rows}
        table = self.table
        table.clear(columns=True)
        drawn = [self._cells(row) for row in data.rows]
        for number, column in enumerate(data.columns):
            title = Text(f"{'' if number else _NOT_SELECTED}{column}")
            # Textual would measure new rows when it is idle, and can miss them: the columns are then too narrow.
            table.add_column(title, width=max([title.cell_len, *(cells[number].cell_len for cells in drawn)]))
        for row, cells in zip(data.rows, drawn, strict=True):
            table.add_row(*cells, key=row.key)
        keys = [row.key for row in data.rows]
        table.move_cursor(row=keys.index(cursor.key) if cursor and cursor.key in keys else row_number)
        chart = self.query_one("#chart", Sparkline)
        chart.display = len(data.samples) > 1
        chart.data = list(data.samples)
        self._go_back_from_an_empty_page()

    def _cells(self, row: Row) -> list[Text]:
        mark = _SELECTED if row.key in self.selected else _NOT_SELECTED
        return [Text(mark + row.cells[0]), *map(Text, row.cells[1:])]

    def _go_back_from_an_empty_page(self) -> None:
        """Show the last page with rows, if the jobs of this page are gone."""
        if not self._table_data.rows and self._view.page:
            self._view = replace(self._view, page=max(0, self._pages - 1))
            self.request_read()

    @property
    def _pages(self) -> int:
        return max(1, -(-self._table_data.total // self._view.size))

    def _draw_status(self) -> None:
        status = self.query_one("#status", Static)
        status.set_class(bool(self._outage), "-outage")
        if self._outage:
            status.update(plain(f"retrying: {self._outage}"))
            return
        parts = [f"page {self._view.page + 1} of {self._pages}", f"{self._table_data.total:,} in total"]
        parts += [f"filter: {plain(self._view.text)}"] if self._view.text else []
        parts += [self._table_data.note] if self._table_data.note else []
        parts += [f"{len(self.selected)} selected"] if self.selected else []
        parts += [self._answer] if self._answer else []
        status.update(" · ".join(parts))

    def _draw_hints(self) -> None:
        verbs = [f"{key} {action.verb.lower()}" for key, action in self.tab.actions.items()]
        select = ["xA select"] if verbs else []
        always = ("/ filter", "? help", "q quit", "←→ tab", "hl page")
        self.query_one("#hints", Static).update("  ".join([*verbs, *select, *always]))

    # ---------------------------------------------------------------------------------------- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Disable the keys of the table while a filter is typed or a dialog is open."""
        if action == "quit" and not self._is_elsewhere:
            return True
        if action == "unfilter":
            return len(self.screen_stack) == 1
        return not self._is_elsewhere

    @property
    def _is_elsewhere(self) -> bool:
        return len(self.screen_stack) > 1 or isinstance(self.focused, Input)

    def action_tab(self, step: int) -> None:
        self._show_tab((self._number + step) % len(self.tabs))

    def action_go(self, number: int) -> None:
        self._show_tab(number)

    def _show_tab(self, number: int) -> None:
        self._number = number
        self._view = View()
        self._table_data = Table((), (), 0)
        self.selected.clear()
        self._answer = ""
        self.query_one(Tabs).active = f"tab-{number + 1}"
        self.query_one(Input).value = ""
        self.table.clear(columns=True)
        self._draw_hints()
        self._draw_status()
        self.request_read()

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Handle a click on a tab; a change by key is handled already."""
        number = int((event.tab.id or "tab-1").removeprefix("tab-")) - 1
        if number != self._number:
            self._show_tab(number)

    def action_page(self, step: int) -> None:
        page = min(max(0, self._view.page + step), self._pages - 1)
        if page != self._view.page:
            self._view = replace(self._view, page=page)
            self.selected.clear()
            self.request_read()

    def action_row(self, step: int) -> None:
        self.table.move_cursor(row=self.table.cursor_row + step)

    def action_select(self) -> None:
        row = self._row_of_cursor()
        if row is not None and row.subject is not None:
            self.selected ^= {row.key}
            self._redraw_marks()
            self.action_row(1)

    def action_select_all(self) -> None:
        every = {row.key for row in self._table_data.rows if row.subject is not None}
        self.selected = set() if self.selected == every else every
        self._redraw_marks()

    def _redraw_marks(self) -> None:
        for number, row in enumerate(self._table_data.rows):
            self.table.update_cell_at(Coordinate(number, 0), self._cells(row)[0])
        self._draw_status()

    def _row_of_cursor(self) -> Row | None:
        number = self.table.cursor_row
        return self._table_data.rows[number] if 0 <= number < len(self._table_data.rows) else None

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def action_unfilter(self) -> None:
        self.query_one(Input).value = ""
        self._filter_by("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self._filter_by(event.value)

    def _filter_by(self, text: str) -> None:
        self.query_one(Input).display = False
        self.table.focus()
        self._view = replace(self._view, page=0, text=text)
        self.selected.clear()
        self.request_read()

    def action_help(self) -> None:
        self.push_screen(Help())

    # ------------------------------------------------------------------------------------- actions

    def action_act(self, key: str) -> None:
        action = self.tab.actions.get(key)
        rows = self._targets()
        if action is None or not rows:
            return
        if action.question is None:
            self._start(action, rows)
            return
        self.push_screen(Question(action.question(rows)), partial(self._answered, action, rows))

    def _targets(self) -> list[Row]:
        """Return the selected rows, or else the row of the cursor."""
        chosen = [row for row in self._table_data.rows if row.key in self.selected]
        cursor = self._row_of_cursor()
        return chosen or ([cursor] if cursor is not None and cursor.subject is not None else [])

    def _answered(self, action: Action, rows: Sequence[Row], yes: bool | None) -> None:  # noqa: FBT001 - Textual's
        if yes:
            self._start(action, rows)

    def _start(self, action: Action, rows: Sequence[Row]) -> None:
        self._beside(partial(self._act, action, rows))

    def _act(self, action: Action, rows: Sequence[Row]) -> Acted:
        done: Counter[str] = Counter()
        problem: list[str] = []
        try:
            for row in rows:
                done[action.act(row.subject)] += 1
        except Exception as error:  # noqa: BLE001 - see `_read`
            problem = [f"then an error: {plain(_reason(error))}" if done else f"error: {plain(_reason(error))}"]
        return self.Acted(", ".join([f"{count} {how}" for how, count in done.items()] + problem))

    def on_top_acted(self, event: Acted) -> None:
        self._answer = event.answer
        self.selected.clear()
        self.request_read()


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, OffsiderError) else describe(error)
