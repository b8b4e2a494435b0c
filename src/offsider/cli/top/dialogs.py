"""Dialogs: confirmation of an action, and the list of keys."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS = """\
←  →      previous, next tab             1 … 7   tab by number
h  l      previous, next page
j  k      next, previous row
x         select the row                 A       select the page, or none
/         filter; Escape clears it
D         delete (Queues: clear)         R       retry
E         enqueue now (Scheduled)        K       kill (to the dead set)
T  Q      stop, quiet a process          p       pause, unpause a queue
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
