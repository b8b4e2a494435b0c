"""The demo on a terminal: a picture drawn anew twice a second; plain lines where there is no terminal."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from offsider.cli.demo.view import EMPTYING, View

BLOCKS = " ▁▂▃▄▅▆▇█"
BAR_WIDTH = 24
SPARKS = 40
PLAIN_SECONDS = 1.0
PICTURE_WIDTH = 92

# As rich draws it, without the web font it would load from elsewhere.
SVG = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px;
  line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: arial; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


class Screen(Protocol):
    """Where views go."""

    def show(self, view: View) -> None: ...

    def close(self) -> None:
        """Leave the terminal as it was found; what was shown last stays readable."""
        ...


def open_screen() -> Screen:
    console = Console()
    return LiveScreen(console) if console.is_terminal else PlainScreen()


class LiveScreen:
    """Redraws in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False)
        self._live.start()

    def show(self, view: View) -> None:
        self._live.update(drawn(view), refresh=True)

    def close(self) -> None:
        self._live.stop()


class PlainScreen:
    """One line a second, and each event once."""

    def __init__(self) -> None:
        self._next = 0.0
        self._said: list[str] = []

    def show(self, view: View) -> None:
        for event in view.events:
            if event not in self._said:
                print(event, flush=True)
        self._said = list(view.events)
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + PLAIN_SECONDS
            print(line(view), flush=True)

    def close(self) -> None:
        """Nothing to put back."""


def line(view: View) -> str:
    rate = view.rates[-1] if view.rates else 0
    return (
        f"{view.seconds:4.0f} s  {view.phase}: waiting {view.waiting}, processed {view.processed} ({rate}/s), "
        f"failed {view.failed}, retried {view.retried}, scheduled {view.scheduled}, "
        f"retries {view.retries}, dead {view.dead}"
    )


def drawn(view: View) -> Panel:
    end = f" of {view.of_seconds:g}" if view.of_seconds else ""
    top = Table.grid(expand=True, padding=(0, 2))
    top.add_column(ratio=3)
    top.add_column(ratio=2)
    top.add_row(_queues(view), _numbers(view))
    hint = "Ctrl-C leaves the rest" if view.phase == EMPTYING else "" if view.of_seconds else "Ctrl-C ends it"
    return Panel(
        Group(top, Text(), _rates(view), Text(), _events(view)),
        title=f"[bold]offsider demo[/]  {view.phase}  {view.seconds:.0f}{end} s",
        subtitle=f"[bold]{view.pages}[/]  [dim]{view.where}[/]  {hint}",
        border_style="cyan",
        padding=(1, 2),
    )


def picture(view: View, path: Path) -> None:
    """The screen as an SVG file."""
    console = Console(record=True, width=PICTURE_WIDTH, force_terminal=True, file=path.open("w"))
    console.print(drawn(view))
    console.file.close()
    path.write_text(console.export_svg(title="offsider demo", code_format=SVG, unique_id="offsider-demo"))


def _queues(view: View) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("queue")
    table.add_column("waiting", justify="right")
    table.add_column("")
    most = max([*view.queues.values(), 60])
    for name, size in view.queues.items():
        bar = "━" * min(BAR_WIDTH, -(-size * BAR_WIDTH // most))
        table.add_row(name, str(size), Text(bar, style="cyan"))
    table.add_row()
    for name, state in view.workers.items():
        table.add_row(Text(name), "", Text(state, style="green" if state.startswith("runs") else "yellow"))
    return table


def _numbers(view: View) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(justify="right")
    table.add_column()
    for value, word, style in (
        (view.processed, "processed", "bold green"),
        (view.failed, "failed", "red"),
        (view.retried, "retried", "yellow"),
        (view.postponed, "postponed by themselves", "blue"),
        (view.scheduled, "scheduled", "blue"),
        (view.retries, "waiting for a retry", "yellow"),
        (view.dead, "dead", "magenta"),
    ):
        table.add_row(Text(str(value), style=style), word)
    return table


def _rates(view: View) -> Text:
    rates = list(view.rates)[-SPARKS:]
    most = max([*rates, 1])
    sparks = "".join(BLOCKS[-(-rate * (len(BLOCKS) - 1) // most)] for rate in rates)
    last = rates[-1] if rates else 0
    return Text.assemble((f"{last:>5}", "bold"), " jobs/s  ", (sparks, "cyan"))


def _events(view: View) -> Text:
    return Text("\n".join(view.events), style="dim", no_wrap=True, overflow="ellipsis")
