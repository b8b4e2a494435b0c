"""The terminal application: tabs, pages, keys and dialogs.

1. Each tick, each change of the page and each action requests a read of the current page.
2. A read runs in a thread, so that the screen never waits for the server. One read runs at a time; a request during a
   read starts another one after it.
3. The result is drawn if its page is still open. An error is shown in the status line, the last table stays, and the
   next read tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static, Tab as TabLabel, Tabs

from offsider.cli.text import plain
from offsider.cli.top.pages import Address, Row, Sheet, tabs_of
from offsider.cli.top.table import RowTable
from offsider.config.installation import Installation
from offsider.config.web_tab import WebButton
from offsider.core.error_text import describe
from offsider.core.errors import OffsiderError

KEYS = """\
←  →   previous, next tab       1 … 9   tab by number
[  ]   previous, next table     h  l    previous, next page
j  k   next, previous row       Enter   open the row; Escape: back
x      select the row           A       select the page, or none
/      filter: a text, or FIELD=VALUE
a      actions on the selected rows, or on that of the cursor
?      help                     q       quit"""

HINTS = "Enter open  a actions  xA select  / filter  [] table  hl page  ←→ tab  ? help  q quit"


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
        yield Static(f"{plain(self._text, None)}\n\ny  yes    n  no", markup=False)

    def action_answer(self, yes: bool) -> None:  # noqa: FBT001 - called by its name in a binding
        self.dismiss(yes)


class Menu(ModalScreen[int]):
    """Lists actions; returns the number of the chosen one."""

    CSS = """
    Menu { align: center middle; }
    Menu OptionList { width: auto; min-width: 30; max-width: 76; height: auto; max-height: 80%; }
    Menu OptionList { border: heavy $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        ("escape,q", "close", "Close"),
        *((str(number + 1), f"choose({number})", "Choose") for number in range(9)),
    ]

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self._names = names

    def compose(self) -> ComposeResult:
        yield OptionList(*(f"{number}  {name}" for number, name in enumerate(self._names, 1)), markup=False)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(event.option_index)

    def action_choose(self, number: int) -> None:
        if number < len(self._names):
            self.dismiss(number)

    def action_close(self) -> None:
        self.dismiss(None)


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


@dataclass
class SheetLoaded(Message):
    """A read has finished, with a sheet or an error message."""

    address: Address
    data: Sheet | None
    outage: str


@dataclass
class Acted(Message):
    """An action has finished or failed."""

    answer: str


@dataclass(frozen=True)
class Choice:
    """An action that a menu offers: its button, and the rows that it changes, each by its keys."""

    button: WebButton
    keys: Sequence[str] = ()


def post_from_thread(app: App[Any], work: Callable[[], Message]) -> None:
    """Run work in a thread and post its message to the application. Quitting does not wait for it."""

    def run() -> None:
        message = work()
        with suppress(RuntimeError):  # the application has ended
            app.post_message(message)

    threading.Thread(target=run, daemon=True).start()


def read(address: Address, table: int) -> SheetLoaded:
    """Read a page; errors become the message of an outage."""
    try:
        return SheetLoaded(address, address.sheet(table), "")
    except Exception as error:  # noqa: BLE001 - show any error: the next read may succeed
        return SheetLoaded(address, None, _reason(error))


def act(address: Address, choices: Sequence[Choice]) -> Acted:
    """Do actions until an error; the answer is their messages."""
    done: list[str] = []
    try:
        done.extend(address.act(choice.button, choice.keys) for choice in choices)
    except Exception as error:  # noqa: BLE001 - see `read`
        done.append(f"error: {_reason(error)}")
    return Acted(plain(" · ".join(dict.fromkeys(done))))


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, OffsiderError) else describe(error)


def choices_of(sheet: Sheet, rows: Sequence[Row]) -> dict[str, list[Choice]]:
    """Return the actions on rows by name: those of all rows, those on selected rows, and those of the page."""
    found: dict[str, list[Choice]] = {}
    for row in rows:
        for button in row.buttons:
            found.setdefault(button.text, []).append(Choice(button))
    keys = [row.key for row in rows if row.selectable]
    if keys:
        found |= {button.text: [Choice(button, keys)] for button in sheet.for_selected}
    for button in sheet.buttons:
        found.setdefault(button.text, []).append(Choice(button))
    return found


def question_of(name: str, choices: Sequence[Choice]) -> str:
    """Return the question of an action, empty without one."""
    first = choices[0]
    rows = len(first.keys) or len(choices)
    asked = first.button.confirm.replace("{number}", str(rows))
    return f"{name} {rows} rows?" if asked and len(choices) > 1 else asked


class Top(App[None]):
    """The whole screen.

    Args:
        server: the server to show.
        interval_seconds: refresh interval.
    """

    CSS = """
    Tabs { height: 2; }
    #lines { height: auto; max-height: 40%; padding: 0 1; color: $text-muted; }
    #tables { height: auto; padding: 0 1; }
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
        *(Binding(str(number + 1), f"open({number})") for number in range(9)),
        Binding("h", "page(-1)"),
        Binding("l", "page(1)"),
        Binding("left_square_bracket", "table(-1)"),
        Binding("right_square_bracket", "table(1)"),
        Binding("enter", "follow", priority=True),
        Binding("slash", "filter"),
        Binding("escape", "leave", priority=True),
        Binding("a", "act"),
        Binding("question_mark", "push_screen('help')"),
        Binding("q", "quit"),
    ]

    def __init__(self, server: Installation, interval_seconds: float) -> None:
        super().__init__()
        self._server = server
        self._interval_seconds = interval_seconds
        self.tabs = tabs_of(server)
        self._number = 0
        #: The pages from the tab to the open one.
        self._opened = [Address(server, self.tabs[0])]
        self._table = 0
        self._reading = False
        self._read_again = False
        self._answer = ""
        self._outage = ""

    @property
    def address(self) -> Address:
        """The open page."""
        return self._opened[-1]

    @property
    def table(self) -> RowTable:
        return self.query_one(RowTable)

    def compose(self) -> ComposeResult:
        yield Tabs(*(TabLabel(tab.title) for tab in self.tabs))
        yield Static(id="lines", markup=False)
        yield Static(id="tables", markup=False)
        yield RowTable()
        yield Input(placeholder="filter", compact=True)
        yield Static(id="status", markup=False)
        yield Static(HINTS, id="hints")

    def on_mount(self) -> None:
        self.title = f"offsider top {self._server.settings.redacted_url}"
        self.query_one(Tabs).can_focus = False
        self.table.focus()
        self.set_interval(self._interval_seconds, self.request_read)
        self.action_open(0)

    # ------------------------------------------------------------------------------------- reading

    def request_read(self) -> None:
        """Request a read of the open page; the result is drawn when it arrives."""
        if self._reading:
            self._read_again = True
            return
        self._reading, self._read_again = True, False
        post_from_thread(self, partial(read, self.address, self._table))

    def on_sheet_loaded(self, event: SheetLoaded) -> None:
        self._reading = False
        if not self.query(RowTable):
            return  # the application is exiting
        self._outage = event.outage
        if event.data is not None and event.address == self.address and not self._read_again:
            self._draw(event.data)
        self._draw_status()
        if self._read_again:
            self.request_read()

    def _draw(self, sheet: Sheet) -> None:
        self.table.draw(sheet)
        lines = [*([sheet.title] if len(self._opened) > 1 else []), *sheet.lines]
        self.query_one("#lines", Static).update("\n".join(map(plain, lines)))
        names = [f"▸{name}" if at == sheet.number else name for at, name in enumerate(map(plain, sheet.tables))]
        self.query_one("#tables", Static).update("   ".join(names) if len(names) > 1 else "")
        if not sheet.rows and self.address.number > 1:  # the rows of this page are gone
            self._go(replace(self.address, number=self.address.number - 1))

    def _draw_status(self) -> None:
        status, table = self.query_one("#status", Static), self.table
        status.set_class(bool(self._outage), "-outage")
        if self._outage:
            status.update(plain(f"retrying: {self._outage}"))
            return
        sheet = table.shown
        parts = [f"page {self.address.number} of {sheet.pages}"] if sheet.pages > 1 else []
        parts += [sheet.note] if sheet.note else []
        parts += [sheet.empty] if sheet.empty and not sheet.rows else []
        parts += [f"{name}={value}" for name, value in self.address.fields.items()]
        parts += [f"{len(table.selected)} selected"] if table.selected else []
        parts += [self._answer] if self._answer else []
        status.update(plain(" · ".join(parts), 500))

    # ---------------------------------------------------------------------------------------- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's
        """Disable the keys while a filter is typed or a dialog is open; Escape leaves the filter."""
        if action == "leave":
            return len(self.screen_stack) == 1
        return len(self.screen_stack) == 1 and not isinstance(self.focused, Input)

    def action_turn(self, step: int) -> None:
        self.action_open((self._number + step) % len(self.tabs))

    def action_open(self, number: int) -> None:
        if number >= len(self.tabs):
            return
        self._number = number
        self.query_one(Tabs).active = f"tab-{number + 1}"
        self._opened.clear()
        self._go(Address(self._server, self.tabs[number]), anew=True)

    def _go(self, address: Address, *, anew: bool = False) -> None:
        """Open a page in place of the open one; ``anew``: on top of it."""
        if anew:
            self._table, self._answer = 0, ""
            self.table.empty()
            self._opened.append(address)
        else:
            self._opened[-1] = address
        self.table.selected.clear()
        self.query_one(Input).value = ""
        self._draw_status()
        self.request_read()

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        """Handle a click on a tab; a change by key is handled already."""
        number = int((event.tab.id or "tab-1").removeprefix("tab-")) - 1
        if number != self._number:
            self.action_open(number)

    def action_page(self, step: int) -> None:
        number = self.address.number + step
        if 1 <= number <= self.table.shown.pages:
            self._go(replace(self.address, number=number))

    def action_table(self, step: int) -> None:
        count = len(self.table.shown.tables)
        if count > 1:
            self._table = (self.table.shown.number + step) % count
            self.table.empty()
            self.request_read()

    def action_follow(self) -> None:
        """Open the page of the row."""
        row = self.table.current()
        links = row.links if row is not None else ()
        found = next((page for link in links if (page := self.address.follow(link)) is not None), None)
        if found is not None:
            self._go(found, anew=True)

    def action_leave(self) -> None:
        """Leave the filter, or the page."""
        field = self.query_one(Input)
        if field.display:
            self._close_filter()
        elif len(self._opened) > 1:
            self._opened.pop()
            self._go(self._opened.pop(), anew=True)
        elif self.address.fields:
            self._go(replace(self.address, fields={}, number=1))

    def on_row_table_selection_changed(self) -> None:
        self._draw_status()

    def action_filter(self) -> None:
        field = self.query_one(Input)
        field.display = True
        field.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value
        self._close_filter()
        self._go(self.address.filtered(text, self.table.shown.filters))

    def _close_filter(self) -> None:
        field = self.query_one(Input)
        field.value, field.display = "", False
        self.table.focus()

    # ------------------------------------------------------------------------------------- actions

    def action_act(self) -> None:
        """Offer the actions on the selected rows, or on the row of the cursor, and those of the page."""
        found = choices_of(self.table.shown, self.table.targets())
        names = [*found]

        def chosen(number: int | None) -> None:
            if number is not None:
                self._ask(names[number], found[names[number]])

        if names:
            self.push_screen(Menu(names), chosen)

    def _ask(self, name: str, choices: Sequence[Choice]) -> None:
        def answered(yes: bool | None) -> None:  # noqa: FBT001 - Textual's
            if yes:
                post_from_thread(self, partial(act, self.address, choices))

        question = question_of(name, choices)
        if question:
            self.push_screen(Question(question), answered)
        else:
            answered(True)

    def on_acted(self, event: Acted) -> None:
        self._answer = event.answer
        self.table.selected.clear()
        self.request_read()
