"""What is asked before something cannot be undone, and the page of keys."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import Static

KEYS = """\
←  →      the tab before, the next       1 … 7   that tab
h  l      the page before, the next
j  k      the row below, above
x         select the row                 A       select the page, or none
/         filter; Escape ends it
D         delete (Queues: clear)         R       retry
E         enqueue now (Scheduled)        K       kill: to the dead set
T  Q      terminate, quiet a process     p       pause, unpause a queue
?         these keys                     q       quit

An action is done to the selected rows, else to the row of the cursor."""


class Question(ModalScreen[bool]):
    """A yes or a no."""

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
    """All keys."""

    CSS = """
    Help { align: center middle; }
    Help Static { width: auto; height: auto; padding: 1 2; border: heavy $primary; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("question_mark,escape,q,enter", "close", "Close")]

    def compose(self) -> ComposeResult:
        yield Static(KEYS, markup=False)

    def action_close(self) -> None:
        self.dismiss(None)
