"""An unread log blocks no thread: it waits once, keeps some lines, counts the rest, and resumes when it is read."""

from __future__ import annotations

import io
import os
import pty
import select
import socket
import time

import pytest

from offsider.logs import outlet as module
from offsider.logs.outlet import MOST_BYTES, PIECE_BYTES, Outlet, _pieces

LINE = "x" * 99 + "\n"


class Pipe:
    """A stream whose reader the test is."""

    def __init__(self, reading: int, writing: int) -> None:
        self.reading = reading
        self.stream = os.fdopen(writing, "w", encoding="utf-8")

    def read(self) -> str:
        """All that is there."""
        found = b""
        while select.select([self.reading], [], [], 0)[0]:
            some = os.read(self.reading, 65536)
            if not some:
                break
            found += some
        return found.decode()

    def close(self) -> None:
        os.close(self.reading)
        self.stream.close()


def make_pipe() -> Pipe:
    return Pipe(*os.pipe())


def make_socket() -> Pipe:
    reading, writing = socket.socketpair()
    return Pipe(reading.detach(), writing.detach())


def make_terminal() -> Pipe:
    reading, writing = pty.openpty()
    import tty

    tty.setraw(writing)
    return Pipe(reading, writing)


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(module, "PATIENCE_SECONDS", 0.2)


@pytest.fixture(params=[make_pipe, make_socket, make_terminal])
def pipe(request):
    made = request.param()
    yield made
    made.close()


@pytest.fixture
def outlet_of():
    made = []

    def make(stream):
        made.append(Outlet(stream, lambda lines: f"{lines} dropped\n"))
        return made[-1]

    yield make
    for each in made:
        each.close()


def fill(outlet, lines=30_000):
    for start in range(0, lines, 100):
        outlet.write("".join(f"{number:098} \n" for number in range(start, start + 100)))


def read_on(outlet, pipe) -> list[str]:
    """All lines until no more arrive."""
    text = ""
    for _ in range(1000):
        some = pipe.read()
        outlet.drain()
        text += some
        if not some and not outlet._pieces and not outlet._dropped:
            break
    return text.splitlines()


def test_lines_are_passed_on(pipe, outlet_of):
    outlet = outlet_of(pipe.stream)
    assert outlet._send is not None
    outlet.write("a\n")
    outlet.write("")
    outlet.write("b\nc\n")
    assert pipe.read().replace("\r", "") == "a\nb\nc\n"


def test_a_blocked_reader_does_not_block_writers_for_long(pipe, outlet_of, monkeypatch):
    outlet = outlet_of(pipe.stream)
    started = time.monotonic()
    fill(outlet)
    assert 0.2 <= time.monotonic() - started < 5
    assert outlet._bytes <= MOST_BYTES
    assert outlet._dropped > 10_000
    monkeypatch.setattr("offsider.logs.outlet.PATIENCE_SECONDS", 0.01)
    lines = read_on(outlet, pipe)
    *kept, last = lines
    assert kept == [f"{number:098} " for number in range(len(kept))], "the oldest are kept, whole and in order"
    assert last == f"{30_000 - len(kept)} dropped"
    outlet.write("on\n")
    assert pipe.read().strip() == "on"


def test_a_reader_that_is_slow_gets_every_line(pipe, outlet_of, monkeypatch):
    outlet = outlet_of(pipe.stream)
    found = []
    has_room = Outlet._has_room

    def read_meanwhile(self, seconds):
        found.append(pipe.read())
        return has_room(self, seconds)

    monkeypatch.setattr(Outlet, "_has_room", read_meanwhile)
    fill(outlet, 5_000)
    found.append(pipe.read())
    assert len("".join(found).splitlines()) == 5_000
    assert not outlet._dropped


def test_a_long_line_is_passed_on_whole(pipe, outlet_of, monkeypatch):
    monkeypatch.setattr("offsider.logs.outlet.PATIENCE_SECONDS", 0.01)
    outlet = outlet_of(pipe.stream)
    outlet.write("y" * 300_000 + "\n")
    assert outlet._pieces
    outlet.write("after\n")
    assert read_on(outlet, pipe) == ["y" * 300_000, "after"]


def test_without_a_descriptor_of_our_own_it_asks_before_it_writes(outlet_of, monkeypatch):
    monkeypatch.setattr("offsider.logs.outlet.PATIENCE_SECONDS", 0.01)

    def refused(path, flags):
        raise PermissionError

    pipe = make_pipe()
    monkeypatch.setattr(os, "open", refused)
    outlet = outlet_of(pipe.stream)
    fill(outlet)
    assert outlet._dropped
    lines = read_on(outlet, pipe)
    assert lines[-1].endswith("dropped")
    assert lines[:-1] == [f"{number:098} " for number in range(len(lines) - 1)]
    pipe.close()


def test_others_that_write_to_the_same_pipe_still_wait(outlet_of):
    pipe = make_pipe()
    outlet_of(pipe.stream)
    assert os.get_blocking(pipe.stream.fileno())
    pipe.close()


@pytest.mark.parametrize("kind", ["memory", "file", "no poll", "closed"])
def test_other_streams_are_written_to_as_they_are(kind, outlet_of, tmp_path, monkeypatch):
    if kind == "no poll":
        monkeypatch.delattr(select, "poll")
    file = tmp_path / "log"
    stream = io.StringIO() if kind == "memory" else file.open("w", encoding="ascii")
    outlet = outlet_of(stream)
    assert outlet._send is None
    outlet.write("\N{SNOWMAN}a\n" if kind != "memory" else "a\n")
    written = stream.getvalue() if kind == "memory" else file.read_text()
    assert written == ("a\n" if kind == "memory" else "\\u2603a\n")
    outlet.drain()
    stream.close()


def test_a_child_does_not_write_the_buffered_lines_of_its_parent(outlet_of):
    pipe = make_pipe()
    outlet = outlet_of(pipe.stream)
    fill(outlet, 5_000)
    assert outlet._pieces
    child = os.fork()
    if child == 0:
        pipe.read()
        outlet.write("child\n")
        os._exit(0)
    os.waitpid(child, 0)
    assert pipe.read() == "child\n"
    assert outlet._pieces
    pipe.close()


def test_a_closed_reader_raises(outlet_of):
    pipe = make_pipe()
    outlet = outlet_of(pipe.stream)
    os.close(pipe.reading)
    with pytest.raises(BrokenPipeError):
        outlet.write("a\n")
    pipe.stream.close()


def test_a_closed_outlet_keeps_its_lines(outlet_of):
    pipe = make_pipe()
    outlet = outlet_of(pipe.stream)
    fill(outlet, 5_000)
    outlet.close()
    outlet.drain()
    assert outlet._pieces
    pipe.close()


def test_pieces_are_whole_lines():
    assert _pieces(b"") == []
    assert _pieces(b"a\nb\n") == [b"a\nb\n"]
    pieces = _pieces(LINE.encode() * 100)
    assert b"".join(pieces) == LINE.encode() * 100
    assert all(len(piece) <= PIECE_BYTES and piece.endswith(b"\n") for piece in pieces)
    assert _pieces(b"z" * 9000 + b"\n" + b"a\n") == [b"z" * 9000 + b"\n", b"a\n"]
