"""The output of the demo: a live panel in a terminal, one line per second elsewhere."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from offsider.cli.demo.ledger import Tally
from offsider.inspector import Stats

BLOCKS = " ▁▂▃▄▅▆▇█"
BAR_WIDTH = 24
EVENTS = 8
PICTURE_WIDTH = 92


@dataclass(frozen=True, slots=True)
class Frame:
    """The state of the demo at one moment. `title` and `footer` frame the panel."""

    title: str
    footer: str
    stats: Stats
    tally: Tally
    workers: Mapping[str, str]


class Screen:
    """Shows frames and events on a console."""

    def __init__(self, console: Console) -> None:
        self._events: deque[str] = deque(maxlen=EVENTS)
        self._rates: deque[int] = deque(maxlen=40)
        self._runs = 0
        self._second = 0
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        if self._live:
            self._live.start()

    def event(self, elapsed: float, text: str) -> None:
        self._events.append(f"{elapsed:6.1f} s  {text}")
        if not self._live:
            print(self._events[-1], flush=True)

    def show(self, elapsed: float, frame: Frame) -> None:
        new_second = int(elapsed) > self._second
        if new_second:
            runs = len(frame.tally.done) + frame.tally.failures.total()
            self._rates.append((runs - self._runs) // (int(elapsed) - self._second))
            self._runs, self._second = runs, int(elapsed)
        if self._live:
            self._live.update(self.panel(frame), refresh=True)
        elif new_second:
            numbers = ", ".join(f"{word} {value}" for word, value, _ in _numbers(frame))
            print(f"{frame.title}: waiting {frame.stats.enqueued}, {numbers} ({self._rate()}/s)", flush=True)

    def close(self) -> None:
        if self._live:
            self._live.stop()

    def panel(self, frame: Frame) -> Panel:
        top = Table.grid(expand=True, padding=(0, 2))
        top.add_column(ratio=3)
        top.add_column(ratio=2)
        numbers = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
        numbers.add_column(justify="right")
        for word, value, style in _numbers(frame):
            numbers.add_row(Text(str(value), style=style), word)
        top.add_row(_queues(frame), numbers)
        most = max([*self._rates, 1])
        sparks = "".join(BLOCKS[-(-rate * (len(BLOCKS) - 1) // most)] for rate in self._rates)
        rates = Text.assemble((f"{self._rate():>5}", "bold"), " jobs/s  ", (sparks, "cyan"))
        events = Text("\n".join(self._events), style="dim", no_wrap=True, overflow="ellipsis")
        return Panel(
            Group(top, Text(), rates, Text(), events),
            title=f"[bold]offsider demo[/]  {frame.title}",
            subtitle=frame.footer,
            border_style="cyan",
            padding=(1, 2),
        )

    def save(self, frame: Frame, path: Path) -> None:
        """Save the panel as an SVG file that loads no font from the network."""
        console = Console(record=True, width=PICTURE_WIDTH, force_terminal=True, file=io.StringIO())
        console.print(self.panel(frame))
        svg = console.export_svg(title="offsider demo", unique_id="offsider-demo")
        path.write_text(re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL))

    def _rate(self) -> int:
        return self._rates[-1] if self._rates else 0


def _numbers(frame: Frame) -> list[tuple[str, int, str]]:
    return [
        ("processed", len(frame.tally.done), "bold green"),
        ("failed", frame.tally.failures.total(), "red"),
        ("retried", frame.tally.retried, "yellow"),
        ("scheduled", frame.stats.scheduled, "blue"),
        ("waiting for a retry", frame.stats.retries, "yellow"),
        ("dead", frame.stats.dead, "magenta"),
    ]


def _queues(frame: Frame) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("queue")
    table.add_column("waiting", justify="right")
    table.add_column("")
    most = max([*frame.stats.queues.values(), 60])
    for name, size in sorted(frame.stats.queues.items()):
        bar = "━" * -(-size * BAR_WIDTH // most)
        table.add_row(name, str(size), Text(bar, style="cyan"))
    table.add_row()
    for name, state in frame.workers.items():
        table.add_row(name, "", Text(state, style="green" if state.startswith("runs") else "yellow"))
    return table
