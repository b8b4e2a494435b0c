"""Time zones whose clocks change at a moment of the test's choice, so that a change of the clocks takes seconds.

folder/zoneinfo for processes: environ={"PYTHONTZPATH": zones.path}. Offsets may have seconds, as zones once had: cron's
minute then begins at any second of the real one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

from cronsim import CronSim

HOUR = 3600
DAY = 24 * HOUR
SYSTEM = "/usr/share/zoneinfo"


class Zones:
    """A folder of zones.

    Args:
        folder: where they are written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "Test").mkdir(parents=True)

    @property
    def path(self) -> str:
        """For the variable ``PYTHONTZPATH``."""
        return f"{self._folder}:{SYSTEM}"

    def write(self, name: str, *, change_at: int, local: int, shift: int) -> str:
        """Write a zone whose clocks go from ``local`` (seconds of the day) by ``shift`` seconds at a moment.

        Args:
            name: a word.
            change_at: epoch seconds.
            local: what the clock shows then, in seconds since midnight.
            shift: forward, or back when it is below 0.
        """
        offset = (local - change_at) % DAY
        offset -= DAY if offset > DAY // 2 else 0
        (self._folder / "Test" / name).write_bytes(_tzif(change_at, offset, offset + shift))
        return f"Test/{name}"

    def zone(self, name: str) -> ZoneInfo:
        """The zone, for this process."""
        with (self._folder / name).open("rb") as file:
            return ZoneInfo.from_file(file, name)


@dataclass(frozen=True)
class Expected:
    """What a periodic job is: its name, its expression and its zone."""

    name: str
    cron: str
    tz: str


def ticks_by_minutes(expression: str, zone: tzinfo, start: float, end: float) -> list[int]:
    """The ticks after ``start``, up to ``end``, found by looking at the clock of the zone in each minute.

    An entry with a fixed minute and hour is due when the clock reaches its time or jumps over it for the first time;
    another one whenever the clock shows it.
    """
    fixed = not any(field.startswith("*") for field in expression.split()[:2])
    ticks: list[int] = []
    at = int(start) - 2 * DAY
    latest = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
    while at <= end:
        wall = datetime.fromtimestamp(at, zone).replace(tzinfo=None)
        if wall.second:
            at += 60 - wall.second
            continue
        since = latest if fixed else wall - timedelta(seconds=1)
        if at > start and since < wall and next(CronSim(expression, since)) <= wall:
            ticks.append(at)
        latest = max(latest, wall)
        at += 60
    return ticks


def changes(zones: Zones, first: int, seconds: int) -> Sequence[Expected]:
    """Jobs whose zones change their clocks, forward and back, at each of these seconds from ``first`` on."""
    jobs: list[Expected] = []
    for number in range(seconds):
        for word, shift in (("spring", HOUR), ("autumn", -HOUR)):
            at = first + number
            tz = zones.write(f"{word}{number}", change_at=at, local=2 * HOUR, shift=shift)
            expressions = ("30 2 * * *", "0 2 * * *", "* * * * *", "*/30 * * * *", "0 1 * * *", "0 3 * * *")
            jobs += [Expected(f"{word}{number}-{place}", cron, tz) for place, cron in enumerate(expressions)]
    return jobs


def _tzif(change_at: int, before: int, after: int) -> bytes:
    names = b"BEF\0AFT\0"
    kinds = struct.pack(">iBB", before, 0, 0) + struct.pack(">iBB", after, 0, 4)
    old = _header(0, 1, 4) + struct.pack(">iBB", 0, 0, 0) + b"BEF\0"
    moments = struct.pack(">qq", 0, change_at) + bytes([0, 1])
    return old + _header(2, 2, len(names)) + moments + kinds + names + b"\n\n"


def _header(changes: int, kinds: int, letters: int) -> bytes:
    return b"TZif2" + bytes(15) + struct.pack(">6I", 0, 0, 0, changes, kinds, letters)
