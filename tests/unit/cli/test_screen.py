"""The panel in a terminal, and plain lines elsewhere."""

import io

import pytest
from rich.console import Console

from offsider.cli.demo.ledger import Ledger, Tally
from offsider.cli.demo.screen import Frame, Screen
from offsider.inspector import Stats


@pytest.fixture
def frame(tmp_path) -> Frame:
    ledger, tally = Ledger(tmp_path), Tally(tmp_path)
    for number in range(12):
        ledger.write("done", str(number), "charge_card", 1)
    tally.read()
    stats = Stats(0, 0, enqueued=30, scheduled=5, retries=1, dead=6, processes=2, queues={"orders": 30, "stock": 0})
    workers = {"worker 1": "runs, pid 7", "worker 2": "ended with code 1"}
    return Frame("running  3 of 20 s", "http://127.0.0.1:7433/", stats, tally, workers)


def terminal() -> Console:
    return Console(force_terminal=True, width=92, file=io.StringIO())


def test_the_panel_shows_queues_numbers_rates_and_events(frame):
    screen = Screen(terminal())
    screen.event(1.0, "charge_card failed")
    screen.show(3.0, frame)
    screen.close()
    console = Console(record=True, width=92, file=io.StringIO())
    console.print(screen.panel(frame))
    text = console.export_text()

    for words in ("3 of 20 s", "orders", "30", "12  processed", "6  dead", "4 jobs/s", "charge_card failed", "pid 7"):
        assert words in text
    assert "http://127.0.0.1:7433/" in text


def test_a_terminal_is_redrawn_in_place(frame):
    console = terminal()
    screen = Screen(console)
    screen.show(3.0, frame)
    screen.close()

    assert "offsider demo" in console.file.getvalue()


def test_without_a_terminal_there_is_one_line_per_event_and_per_second(frame, capsys):
    screen = Screen(Console(file=io.StringIO()))
    screen.event(1.0, "charge_card failed")
    screen.show(3.0, frame)
    screen.show(3.2, frame)
    screen.close()

    event, numbers = capsys.readouterr().out.splitlines()
    assert event == "   1.0 s  charge_card failed"
    assert numbers.startswith("running  3 of 20 s: waiting 30, processed 12, failed 0")
    assert numbers.endswith("(4/s)")


def test_the_picture_is_an_svg_that_loads_nothing(frame, tmp_path):
    screen = Screen(Console(file=io.StringIO()))
    screen.save(frame, tmp_path / "demo.svg")
    svg = (tmp_path / "demo.svg").read_text()

    assert svg.startswith("<svg")
    assert "orders" in svg
    for loading in ("@font-face", "@import", "url(http", 'url("http'):
        assert loading not in svg
