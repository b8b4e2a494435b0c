"""The reports of a worker to its keeper, and a worker without a keeper."""

from __future__ import annotations

import logging
import os

import pytest

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.alive.keeper.channel import Channel
from offsider.worker.alive.keeper.link import SERIES_AT_ONCE, KeeperLink, KeeperProcess, Status
from offsider.worker.alive.keeper.messages import Counted, Report, decode

LISTS = Lists("host:1:aaaaaaaaaaaa", {"default": ("low",)})
REDIS = RedisSettings()


@pytest.fixture
def channel():
    made = Channel()
    yield made
    made.close()


def reported(channel) -> list[Report]:
    found = []
    while (datagram := channel.receive()) is not None:
        found.append(decode(datagram))
    return found


def test_each_report_is_complete_and_has_the_current_state(channel):
    states = iter([Status(), Status("quiet", ("its fetch loop stands still",), max_strikes=5)])
    link = KeeperLink(KeeperProcess(channel), lambda: next(states))
    link.repeat()
    assert reported(channel) == []
    link.owns(LISTS, 9000, REDIS)
    link.repeat()
    assert reported(channel) == [
        Report(os.getpid(), LISTS, 9000, REDIS, "ready", beaten=True),
        Report(os.getpid(), LISTS, 9000, REDIS, "quiet", ("its fetch loop stands still",), 5),
    ]


def test_the_last_report_of_a_worker_is_that_it_has_left(channel):
    link = KeeperLink(KeeperProcess(channel), Status)
    link.owns(LISTS, 9000, REDIS)
    link.left()
    link.repeat()
    assert [report.state for report in reported(channel)] == ["ready", "left"]


def test_counts_arrive_in_parts_that_fit_into_datagrams(channel):
    link = KeeperLink(KeeperProcess(channel), Status)
    link.count([Series({"class": f"A{number}" * 50}, processed=1) for number in range(SERIES_AT_ONCE + 1)], 3, 10)
    first, rest = (decode(channel.receive() or b"") for _ in range(2))
    assert isinstance(first, Counted)
    assert isinstance(rest, Counted)
    assert (len(first.series), len(rest.series), first.busy, first.concurrency) == (SERIES_AT_ONCE, 1, 3, 10)
    assert channel.receive() is None


def test_empty_counts_are_sent_as_well(channel):
    KeeperLink(KeeperProcess(channel), Status).count([], 0, 10)
    assert decode(channel.receive() or b"") == Counted(os.getpid(), (), 0, 10)


def test_counts_that_do_not_fit_are_sent_the_next_time(channel, monkeypatch):
    link, room = KeeperLink(KeeperProcess(channel), Status), [False]
    send = channel.send
    monkeypatch.setattr(channel, "send", lambda datagram: room[0] and send(datagram))
    link.count([Series({"class": "A"}, processed=1)], 0, 1)
    room[0] = True
    link.count([Series({"class": "A"}, processed=2)], 0, 1)
    reported = decode(channel.receive() or b"")
    assert isinstance(reported, Counted)
    assert [series.processed for series in reported.series] == [1, 2]


def test_no_counts_are_sent_to_a_dead_keeper(channel):
    channel.only_send()
    link = KeeperLink(KeeperProcess(channel), Status)
    link.count([Series({"class": "A"})], 0, 1)
    assert link.gone
    link.count([Series({"class": "A"})], 0, 1)


def test_a_lost_keeper_is_logged_once_and_reaped(channel, caplog):
    keeper = os.fork()
    if keeper == 0:
        os._exit(0)
    os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
    link = KeeperLink(KeeperProcess(channel, keeper), Status)
    channel.only_send()
    with caplog.at_level(logging.WARNING, "offsider"):
        for _ in range(3):
            link.owns(LISTS, 9000, REDIS)
    assert link.gone
    (record,) = caplog.records
    assert "the keeper is gone" in record.message
    assert "for 9 s" in record.message
    with pytest.raises(ChildProcessError):
        os.waitpid(keeper, os.WNOHANG)
