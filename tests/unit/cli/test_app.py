"""The confirmation of irreversible actions."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from offsider.cli.top.app import Question


@pytest.mark.parametrize("key, answer", [("y", True), ("n", False), ("escape", False), ("enter", False)])
def test_only_y_is_a_yes(key, answer):
    answers = []

    async def run() -> None:
        app: App[None] = App()
        async with app.run_test() as pilot:
            await app.push_screen(Question("Delete [red]all[/red]?"), answers.append)
            await pilot.press("x", key)
            await pilot.pause()

    asyncio.run(run())
    assert answers == [answer]
