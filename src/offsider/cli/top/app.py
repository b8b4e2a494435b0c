"""The terminal application: tabs, keys and dialogs.

1. Each tick, each change of the view and each action requests a read of the current tab.
2. A read runs in a thread, so that the screen never waits for the server. One read runs at a time; a request during a
   read starts another one after it.
3. The result is drawn if its tab is still selected. An error is shown in the status line, the last table stays, and
   the next read tries again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Sparkline, Static, Tab as TabLabel, Tabs

from offsider.cli.text import plain
from offsider.cli.top.background import Acted, TableLoaded, act, post_from_thread, read
from offsider.cli.top.table import RowTable
from offsider.cli.top.tabs import Busy, Home, Metrics, Queues, Tab, TabTable, View, set_tabs
from offsider.config.installation import Installation

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
    SCREENS: ClassVar[dict[str, Callable[[], Screen[Any]]]] = {"help": Help}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", priority=True),
        Binding("right", "turn(1)", priority=True),
        *(Binding(str(number + 1), f"open({number})") for number in range(7)),
        Binding("h", "page(-1)"),
        Binding("l", "page(1)"),
        Binding("slash", "filter"),
        Binding("escape", "filter_by('')", priority=True),
        *(Binding(key, f"act('{key}')") for key in "DREKTQp"),
        Binding("question_mark", "push_screen('help')"),
        Binding("q", "quit"),
    ]

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
        self._reading = False
        self._read_again = False
        self._answer = ""
        self._outage = ""

    @property
    def tab(self) -> Tab:
        """The selected tab."""
        return self.tabs[self._number]

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def compose(self) -> ComposeResult:
        yield Tabs(*(TabLabel(tab.title) for tab in self.tabs))
        yield Sparkline(id="chart")
        yield RowTable()
        yield Input(placeholder="filter", compact=True)
        yield Static(id="status", markup=False)
        yield Static(id="hints", markup=False)

    def on_mount(self) -> None:
        self.title = f"offsider top {self._here.settings.redacted_url}"
        self.query_one(Tabs).can_focus = False
        self.table.focus()
        self.set_interval(self._interval_seconds, self.request_read)
        self.action_open(0)

    # ------------------------------------------------------------------------------------- reading

    def request_read(self) -> None:
        """Request a read of the current tab; the result is drawn when it arrives."""
        if self._reading:
            self._read_again = True
            return
        self._reading, self._read_again = True, False
        rows = self.size.height - _OTHER_LINES
        self._view = replace(self._view, size=max(1, rows))
        post_from_thread(self, partial(read, self.tab, self._view))

    def on_table_loaded(self, event: TableLoaded) -> None:
        self._reading = False
        if not self.query(RowTable):
            return  # the application is exiting
        self._outage = event.outage
        if event.data is not None and event.tab is self.tab and not self._read_again:
            self._draw(event.data)
        self._draw_status()
        if self._read_again:
            self.request_read()

    def _draw(self, data: TabTable) -> None:
        self.table.draw(data)
        chart = self.query_one("#chart", Sparkline)
        chart.display = len(data.samples) > 1
        chart.data = list(data.samples)
        if not data.rows and self._view.page:  # the jobs of this page are gone: show the last page with rows
            self._view = self._view.turned(-1, data.total)
            self.request_read()

    def _draw_status(self) -> None:
        status, table = self.query_one("#status", Static), self.table
        status.set_class(bool(self._outage), "-outage")
        if self._outage:
            status.update(plain(f"retrying: {self._outage}"))
            return
        total = table.shown.total
        parts = [f"page {self._view.page + 1} of {self._view.pages(total)}", f"{total:,} in total"]
        parts += [f"filter: {plain(self._view.text)}"] if self._view.text else []
        parts += [table.shown.note] if table.shown.note else []
        parts += [f"{len(table.selected)} selected"] if table.selected else []
        parts += [self._answer] if self._answer else []
        status.update(" · ".join(parts))

    # ---------------------------------------------------------------------------------------- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Disable the keys while a filter is typed or a dialog is open; Escape leaves the filter."""
        if action == "filter_by":
            return len(self.screen_stack) == 1
        return len(self.screen_stack) == 1 and not isinstance(self.focused, Input)

    def action_turn(self, step: int) -> None:
        self.action_open((self._number + step) % len(self.tabs))

    def action_open(self, number: int) -> None:
        self._number = number
        self._view = View()
        self._answer = ""
        self.query_one(Tabs).active = f"tab-{number + 1}"
        self.query_one(Input).value = ""
        self.table.empty()
        verbs = [f"{key} {action.verb.lower()}" for key, action in self.tab.actions.items()]
        select = ["xA select"] if verbs else []
        always = ("/ filter", "? help", "q quit", "←→ tab", "hl page")
        self.query_one("#hints", Static).update("  ".join([*verbs, *select, *always]))
        self._draw_status()
        self.request_read()

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Handle a click on a tab; a change by key is handled already."""
        number = int((event.tab.id or "tab-1").removeprefix("tab-")) - 1
        if number != self._number:
            self.action_open(number)

    def action_page(self, step: int) -> None:
        turned = self._view.turned(step, self.table.shown.total)
        if turned != self._view:
            self._view = turned
            self.table.selected.clear()
            self.request_read()

    def on_row_table_selection_changed(self) -> None:
        self._draw_status()

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.action_filter_by(event.value)

    def action_filter_by(self, text: str) -> None:
        field = self.query_one(Input)
        field.value = text
        field.display = False
        self.table.focus()
        self._view = replace(self._view, page=0, text=text)
        self.table.selected.clear()
        self.request_read()

    # ------------------------------------------------------------------------------------- actions

    def action_act(self, key: str) -> None:
        action = self.tab.actions.get(key)
        rows = self.table.targets()
        if action is None or not rows:
            return

        def answered(yes: bool | None) -> None:  # noqa: FBT001 - Textual's
            if yes:
                post_from_thread(self, partial(act, action, rows))

        if action.question is None:
            answered(True)
        else:
            self.push_screen(Question(action.question(rows)), answered)

    def on_acted(self, event: Acted) -> None:
        self._answer = event.answer
        self.table.selected.clear()
        self.request_read()
