"""Time zones whose clocks change at a moment of the test's choice, so that a change of the clocks takes seconds.

folder/zoneinfo for processes: environ={"PYTHONTZPATH": zones.path}. Offsets may have seconds, as zones once had: cron's
minute then begins at any second of the real one.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
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


def own_iteration(expression: str, zone: ZoneInfo, start: float, end: float) -> list[int]:
    """The ticks after ``start``, up to ``end``, as the library of cron iterates over them."""
    ticks: list[int] = []
    for tick in CronSim(expression, datetime.fromtimestamp(int(start), zone)):
        at = int(tick.timestamp())
        if at > end:
            break
        if at > start:
            ticks.append(at)
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
