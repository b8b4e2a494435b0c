"""Messages from a worker to its keeper round-trip, and invalid ones do no harm."""

from __future__ import annotations

import pytest

from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.alive.keeper.messages import Counted, Orders, Report, Unreadable, decode, encode

REPORT = Report(
    4711,
    Lists("host:4711:aaaaaaaaaaaa", {"default": ("high", "low"), "exports": ("ü",)}),
    45_000,
    RedisSettings(url="redis://:secret@example:6379/3", key_prefix="shop:", sentinels=("a:1", "b:2")),
    "quiet",
    ("its fetch loop stands still",),
    7,
)

COUNTED = Counted(4711, (Series({"class": "Ü", "queue": "low"}, 3, 2, 1, 0.5, 0.25),), 1, 10)


@pytest.mark.parametrize("message", [REPORT, Orders(expected=4, no_more=True), Orders(), COUNTED, Counted(1)])
def test_a_message_arrives_unchanged(message):
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "datagram",
    [b"", b"{", b"[]", b"{}", b"7", b'{"report": {}}', b'{"report": 7}', b'{"orders": {"more": 1}}', b"\xff\xfe"],
)
def test_an_undecodable_datagram_is_unreadable(datagram):
    assert isinstance(decode(datagram), Unreadable)
