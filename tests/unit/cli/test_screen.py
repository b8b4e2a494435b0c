"""What a person sees, on a terminal and without one."""

import io

from rich.console import Console

from offsider.cli.demo.screen import LiveScreen, PlainScreen, drawn, picture
from offsider.cli.demo.view import View


def view(**changed) -> View:
    shown = {
        "phase": "running",
        "seconds": 3.2,
        "of_seconds": 20.0,
        "where": "unix:///somewhere",
        "pages": "http://127.0.0.1:7433/",
        "queues": {"texts": 30, "words": 0},
        "workers": {"worker 1": "runs, pid 7", "worker 2": "ended with code 1"},
        "processed": 1200,
        "failed": 4,
        "retried": 3,
        "postponed": 2,
        "scheduled": 5,
        "retries": 1,
        "dead": 6,
        "rates": [100, 400],
        "events": ["   1.0 s  post_card failed"],
    }
    return View(**{**shown, **changed})


def test_the_panel_shows_queues_numbers_rates_and_events():
    console = Console(record=True, width=92, file=io.StringIO())
    console.print(drawn(view()))
    text = console.export_text()

    for words in ("3 of 20 s", "texts", "30", "1200  processed", "6  dead", "400 jobs/s", "post_card failed", "pid 7"):
        assert words in text


def test_a_demo_without_an_end_says_how_to_end_it():
    console = Console(record=True, width=92, file=io.StringIO())
    console.print(drawn(view(of_seconds=None)))

    assert "Ctrl-C ends it" in console.export_text()


def test_without_a_terminal_each_event_is_told_once(capsys):
    screen = PlainScreen()
    screen.show(view())
    screen.show(view())
    screen.close()

    lines = capsys.readouterr().out.splitlines()
    assert lines.count("   1.0 s  post_card failed") == 1
    assert "waiting 30, processed 1200 (400/s)" in lines[1]
    assert len(lines) == 2  # one line of numbers a second


def test_a_terminal_is_drawn_anew_in_place():
    console = Console(force_terminal=True, width=92, file=io.StringIO())
    screen = LiveScreen(console)
    screen.show(view())
    screen.close()

    assert "offsider demo" in console.file.getvalue()


def test_the_picture_is_an_svg_that_loads_nothing(tmp_path):
    picture(view(), tmp_path / "demo.svg")
    svg = (tmp_path / "demo.svg").read_text()

    assert svg.startswith("<svg")
    assert "@font-face" not in svg
    assert "post_card" in svg
    assert "@import" not in svg
    assert "url(http" not in svg
