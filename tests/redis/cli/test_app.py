"""Every key of ``offsider top`` has its documented effect, checked in Redis."""

from __future__ import annotations

import json
import time

import pytest

from offsider.cli.command import myself
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import EventLog, RetrySet
from tests.faults import FaultProxy
from tests.redis.cli.piloted import piloted
from tests.redis.inspector.examined import OURS, push, register
from tests.tagged import client_of


@pytest.fixture
def client(embedded_url):
    with client_of(embedded_url) as client:
        yield client


@pytest.fixture
def config(embedded_url):
    config = Config()
    config.redis.url = embedded_url
    yield config
    Installation.of(config).redis.close()


def job(number: int, **more) -> str:
    details = {"class": f"Job{number:02}", "args": [number], "queue": "default", "jid": f"{number:024}"}
    return json.dumps(details | more)


def fill(client, key: str, count: int, *, since: float = 9e9, **more) -> None:
    client.zadd(key, {job(number, **more): since + number for number in range(count)})


def names(entries) -> list[str]:
    return [entry.name for entry in entries]


async def open_retries(hand, shown: str) -> None:
    """Open Jobs, and from there the retries."""
    await hand.open("Jobs", "Retries")
    await hand.press("j", "enter")
    await hand.shows(shown)


def test_the_first_tab_lists_the_findings_and_arrows_and_digits_turn_to_the_others(embedded_url):
    async def scenario(hand):
        await hand.shows("no worker is registered")
        for title in ("Jobs", "Fleet", "Log", "Findings"):
            await hand.press("right")
            assert hand.app.address.tab.title == title
        await hand.press("left")
        assert hand.app.address.tab.title == "Log"
        await hand.press("3")
        assert hand.app.address.tab.title == "Fleet"
        await hand.press("q")
        await hand.until(lambda: not hand.app.is_running, "the end")

    piloted(embedded_url, scenario)


def test_enter_opens_a_row_escape_leaves_it_and_keys_turn_pages(embedded_url, client):
    fill(client, "retry", 50)

    async def scenario(hand):
        await open_retries(hand, "Job00")
        await hand.press("j", "j", "k")
        assert hand.cursor() == 1
        await hand.press("l")
        await hand.shows("page 2 of 2", "Job25", "Job35")
        await hand.press("l", "h")
        await hand.shows("page 1 of 2", "Job00")
        await hand.press("enter")
        await hand.shows("Class: Job01", "It will be retried")
        await hand.press("escape")
        await hand.shows("page 1 of 2", "Job00")
        await hand.press("escape")
        await hand.shows("Retries", "Scheduled")

    piloted(embedded_url, scenario)


def test_selected_rows_are_acted_on_together_after_a_question(embedded_url, client, config):
    fill(client, "retry", 5)

    async def scenario(hand):
        await open_retries(hand, "Job04")
        await hand.press("x", "j", "x")
        await hand.shows("2 selected")
        await hand.press("x", "k", "x")  # selects row 3, and lets it go again
        await hand.shows("2 selected")
        await hand.press("a")
        await hand.choose("Delete")
        await hand.shows("2")
        await hand.press("y")
        await hand.shows("Deleted 2 jobs.")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == ["Job01", "Job03", "Job04"]


def test_the_question_about_a_job_is_text(embedded_url, client):
    fill(client, "retry", 1, **{"class": "Evil\x1b[31m"})

    async def scenario(hand):
        await open_retries(hand, "Evil")
        await hand.press("enter")
        await hand.shows("Next retry")
        await hand.press("a")
        await hand.choose("Delete")
        await hand.shows("delete job Evil\\x1b[31m (")
        assert "\x1b" not in hand.screen()
        await hand.press("n")

    piloted(embedded_url, scenario)


def test_a_filter_searches_the_whole_set(embedded_url, client, config):
    fill(client, "retry", 50)

    async def scenario(hand):
        await open_retries(hand, "Job00")
        await hand.press("slash", *"qDR", "left", "escape")  # letters of a filter are not keys
        await hand.shows("Job00")
        await hand.press("slash", *"Job4", "enter")
        await hand.shows("Job40", "Job49", "=Job4")
        await hand.press("A", "a")
        await hand.choose("Delete")
        await hand.press("y")
        await hand.shows("Deleted 10 jobs.")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == [f"Job{n:02}" for n in range(40)]


def test_a_worker_is_quieted_and_a_queue_is_paused(embedded_url, client, config):
    register(client, tag="shop", rss=153_600, started_at=time.time() - 90)
    push(client, "A", "B")

    async def scenario(hand):
        await hand.open("Fleet", "default")
        await hand.press("a")
        await hand.choose("Pause")
        await hand.until(lambda: client.smembers("paused") == {b"default"})
        while "▸Processes" not in hand.screen():
            await hand.press("right_square_bracket")
            await hand.until(lambda: "▸" in hand.screen())
        await hand.shows(OURS[:8])
        await hand.press("a")
        await hand.choose("Quiet")
        await hand.press("y")
        await hand.until(lambda: client.lrange(f"{OURS}-signals", 0, -1) == [b"TSTP"])

    piloted(embedded_url, scenario)
    events = [event for event in EventLog(config).read() if event.who == myself()]
    assert [(event.kind, event.fields.get("action", "")) for event in events] == [
        ("action", "processes.quiet"),
        ("control-set", "hold"),
    ]


def test_an_unresponsive_server_does_not_block_the_keys(embedded_url, client):
    fill(client, "retry", 5)

    with FaultProxy(embedded_url) as proxy:

        async def scenario(hand):
            await open_retries(hand, "Job04")
            proxy.black_hole()
            await hand.until(lambda: hand.app._reading)
            await hand.press("j", "j", "question_mark")
            await hand.shows("open the row; Escape: back")
            assert hand.app._reading
            await hand.press("escape")
            proxy.refuse()
            await hand.shows("retrying: ")
            proxy.accept()
            proxy.release()
            await hand.until(lambda: "retrying: " not in hand.screen())

        piloted(proxy.url, scenario, socket_timeout_seconds=60)


def test_an_unexpected_error_is_shown_in_one_line(embedded_url, client, monkeypatch):
    fill(client, "retry", 2)

    async def scenario(hand):
        await open_retries(hand, "Job01")
        with monkeypatch.context() as broken:
            broken.setattr(RetrySet, "page", lambda *_, **__: 1 / 0)
            await hand.shows("retrying: ZeroDivisionError", "Job01")

    piloted(embedded_url, scenario)


def test_the_table_is_refreshed_again_after_a_dialog(embedded_url, client):
    fill(client, "retry", 1)

    async def scenario(hand):
        await open_retries(hand, "Job00")
        await hand.press("a")
        await hand.shows("Delete")
        hand.app.request_read()
        await hand.until(lambda: not hand.app._reading, "the end of a read during the dialog")
        client.delete("retry")
        await hand.press("escape")
        await hand.until(lambda: "Job00" not in hand.screen(), "the next refresh")

    piloted(embedded_url, scenario, interval=0.2)
