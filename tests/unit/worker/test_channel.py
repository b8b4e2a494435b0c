"""Datagrams between workers and their keeper: sending never blocks, none is torn, a new reader resumes."""

from __future__ import annotations

import pytest

from offsider.worker.alive.keeper.channel import Channel, KeeperGone


@pytest.fixture
def channel():
    made = Channel()
    yield made
    made.close()


def test_datagrams_arrive_whole_and_in_order(channel):
    assert channel.receive() is None
    assert channel.send(b"a" * 100_000)
    assert channel.send(b"second")
    assert channel.receive() == b"a" * 100_000
    assert channel.receive() == b"second"
    assert channel.receive() is None


def test_writers_do_not_block_on_a_reader_that_hangs(channel):
    sent = 0
    while channel.send(b"x" * 10_000):
        sent += 1
    assert sent > 1
    assert channel.receive() == b"x" * 10_000
    assert channel.send(b"there is room again")


def test_a_datagram_that_the_system_refuses_is_dropped(channel):
    assert not channel.send(b"x" * 50_000_000)
    assert channel.receive() is None


def test_a_writer_notices_that_the_reader_has_closed(channel):
    channel.only_send()
    with pytest.raises(KeeperGone):
        channel.send(b"anybody?")


def test_a_reader_sees_no_error_when_the_writer_closes(channel):
    channel.send(b"last words")
    channel.only_receive()
    assert channel.receive() == b"last words"
    assert channel.receive() is None
