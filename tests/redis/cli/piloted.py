"""`offsider top` under a pilot that presses keys, on a screen of 80 by 24."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from typing import Any

from offsider.cli.top.app import Top
from offsider.config.config import Config
from offsider.config.installation import Installation

TABS = ("Findings", "Jobs", "Fleet", "Log")


class Hand:
    """Presses keys and reads the screen."""

    def __init__(self, app: Top, pilot: Any) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def open(self, tab: str, shown: str = "") -> None:
        """Turn to a tab and wait until it shows some text."""
        await self.press(str(TABS.index(tab) + 1))
        await self.until(lambda: shown in self.screen() and self.app.address.tab.title == tab, f"{shown!r} on {tab}")

    async def choose(self, action: str) -> None:
        """Choose an action of the menu by its name."""
        await self.shows(action)
        found = re.search(rf"(\d)  {action}\b", self.screen())
        assert found is not None, self.screen()
        await self.press(found[1])

    async def until(self, condition: Callable[[], object], what: str = "", seconds: float = 20.0) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}\n{self.screen()}"
            await self._pilot.pause(0.02)

    async def shows(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.screen() for text in texts), " and ".join(texts))

    def screen(self) -> str:
        """Everything that is to be seen."""
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(segment.text for segment in strip) for strip in strips)

    def cursor(self) -> int:
        return self.app.table.cursor_row


def piloted(url: str, scenario: Callable[[Hand], Awaitable[None]], *, interval: float = 0.5, **settings: Any) -> None:
    """Run a scenario; settings are those of ``[redis]``."""
    config = Config()
    config.redis.url = url
    for name, value in settings.items():
        setattr(config.redis, name, value)

    async def run() -> None:
        app = Top(Installation.of(config), interval)
        async with app.run_test(size=(80, 24)) as pilot:
            await scenario(Hand(app, pilot))

    asyncio.run(run())
    Installation.of(config).redis.close()
