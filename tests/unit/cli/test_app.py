"""The confirmation of irreversible actions, and the page of keys."""

from __future__ import annotations

import asyncio

import pytest
from textual.app import App

from offsider.cli.top.app import KEYS, Question, Top
from offsider.config.config import Config
from offsider.config.installation import Installation


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


def test_the_page_of_keys_names_every_key_of_every_tab():
    config = Config()
    for tab in Top(Installation.of(config), 1.0).tabs:
        for key in tab.actions:
            assert f"{key} " in KEYS


def test_the_page_of_keys_fits_a_small_screen():
    assert max(map(len, KEYS.splitlines())) <= 74
    assert len(KEYS.splitlines()) <= 20
