"""What a worker tells its keeper, and what it does without one."""

from __future__ import annotations

import logging
import os

import pytest

from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.keeper.channel import Channel
from offsider.worker.keeper.link import KeeperLink
from offsider.worker.keeper.messages import Report, decode

LISTS = Lists("host:1:aaaaaaaaaaaa", {"default": ("low",)})
REDIS = RedisSettings()


@pytest.fixture
def channel():
    made = Channel()
    yield made
    made.close()


def told(channel) -> list[Report]:
    found = []
    while (datagram := channel.receive()) is not None:
        found.append(decode(datagram))
    return found


def test_each_report_is_complete_and_tells_the_state_of_its_moment(channel):
    link = KeeperLink(channel)
    states = iter(["ready", "quiet"])
    link.state = lambda: next(states)
    link.repeat()
    assert told(channel) == []
    link.owns(LISTS, 9000, REDIS)
    link.stuck = lambda: ["its fetch loop stands still"]
    link.repeat()
    assert told(channel) == [
        Report(os.getpid(), LISTS, 9000, REDIS, "ready"),
        Report(os.getpid(), LISTS, 9000, REDIS, "quiet", ("its fetch loop stands still",)),
    ]


def test_a_worker_that_has_left_says_so_last(channel):
    link = KeeperLink(channel)
    link.owns(LISTS, 9000, REDIS)
    link.left()
    link.repeat()
    assert [report.state for report in told(channel)] == ["ready", "left"]


def test_a_lost_keeper_is_told_once_and_reaped(channel, caplog):
    keeper = os.fork()
    if keeper == 0:
        os._exit(0)
    os.waitid(os.P_PID, keeper, os.WEXITED | os.WNOWAIT)
    link = KeeperLink(channel, keeper)
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
