"""Every key of ``offsider top`` has its documented effect, checked in Redis."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector import DeadSet, RetrySet, ScheduledSet
from tests.faults import FaultProxy
from tests.redis.cli.piloted import TABS, piloted
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


def test_arrows_and_digits_turn_to_the_tabs(embedded_url):
    async def scenario(hand):
        await hand.shows("Processed", "Server")
        for title in (*TABS[1:], "Home"):
            await hand.press("right")
            assert hand.app.tab.title == title
        await hand.press("left")
        assert hand.app.tab.title == "Metrics"
        await hand.press("3")
        assert hand.app.tab.title == "Queues"
        await hand.press("q")
        await hand.until(lambda: not hand.app.is_running, "the end")

    piloted(embedded_url, scenario)


def test_changes_appear_without_a_key_press(embedded_url, client):
    async def scenario(hand):
        await hand.open("Queues")
        push(client, "A", queue="mail")
        await hand.shows("mail", "no worker")
        client.delete("queue:mail", "queues")
        await hand.until(lambda: "mail" not in hand.screen(), "the end of mail")

    piloted(embedded_url, scenario)


def test_keys_turn_pages_and_move_through_rows(embedded_url, client):
    fill(client, "retry", 50)

    async def scenario(hand):
        await hand.open("Retries", "Job00")
        await hand.press("j", "j", "k")
        assert hand.cursor() == 1
        await hand.press("l")
        await hand.shows("page 2 of 3", "Job18")
        await hand.press("l")
        await hand.shows("page 3 of 3", "Job36", "Job49")
        await hand.press("l")
        await hand.press("h")
        await hand.shows("page 2 of 3", "Job18")
        await hand.press("h", "h")
        await hand.shows("page 1 of 3", "Job00")

    piloted(embedded_url, scenario)


def test_an_emptied_last_page_shows_the_previous_one(embedded_url, client):
    fill(client, "retry", 20)

    async def scenario(hand):
        await hand.open("Retries", "Job00")
        await hand.press("l")
        await hand.shows("page 2 of 2", "Job18")
        client.zremrangebyrank("retry", 18, -1)
        await hand.shows("page 1 of 1", "Job17")

    piloted(embedded_url, scenario)


def test_a_job_is_retried_at_once(embedded_url, client, config):
    fill(client, "retry", 3, retry_count=2)

    async def scenario(hand):
        await hand.open("Retries", "Job02")
        await hand.press("j", "R")
        await hand.shows("1 enqueued")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == ["Job00", "Job02"]
    [moved] = client.lrange("queue:default", 0, -1)
    assert json.loads(moved)["class"] == "Job01"
    assert json.loads(moved)["retry_count"] == 1


def test_deleting_asks_first(embedded_url, client, config):
    fill(client, "retry", 3)

    async def scenario(hand):
        await hand.open("Retries", "Job02")
        await hand.press("D")
        await hand.shows("Delete", "Job00", "y  yes")
        await hand.press("n")
        await hand.until(lambda: "y  yes" not in hand.screen())
        assert len(RetrySet(config)) == 3
        await hand.press("D", "y")
        await hand.shows("1 deleted")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == ["Job01", "Job02"]


def test_a_job_is_killed_after_a_question(embedded_url, client, config):
    fill(client, "retry", 2)

    async def scenario(hand):
        await hand.open("Retries", "Job01")
        await hand.press("K", "y")
        await hand.shows("1 moved to the dead set")

    piloted(embedded_url, scenario)
    assert (names(RetrySet(config)), names(DeadSet(config))) == (["Job01"], ["Job00"])


def test_a_scheduled_job_is_enqueued_now(embedded_url, client, config):
    fill(client, "schedule", 2)

    async def scenario(hand):
        await hand.open("Scheduled", "Job01")
        await hand.press("E")
        await hand.shows("1 enqueued")
        await hand.press("R")  # means nothing here

    piloted(embedded_url, scenario)
    assert names(ScheduledSet(config)) == ["Job01"]
    assert client.llen("queue:default") == 1


def test_dead_jobs_are_listed_newest_first_and_can_be_retried_and_deleted(embedded_url, client, config):
    fill(client, "dead", 3, since=time.time() - 100, error_class="Boom", error_message="[red]no[/red] \x1b[2J")

    async def scenario(hand):
        await hand.open("Dead", "Job02")
        await hand.shows(r"Boom: [red]no[/red] \x1b[2J")
        await hand.press("R")
        await hand.shows("1 enqueued")
        await hand.until(lambda: "Job02" not in hand.screen())
        await hand.press("D", "y")
        await hand.shows("1 deleted")

    piloted(embedded_url, scenario)
    assert names(DeadSet(config)) == ["Job00"]
    assert client.llen("queue:default") == 1


def test_selected_rows_are_acted_on_together(embedded_url, client, config):
    fill(client, "retry", 5)

    async def scenario(hand):
        await hand.open("Retries", "Job04")
        await hand.press("x", "j", "x")
        await hand.shows("2 selected")
        await hand.press("x", "k", "x")  # selects row 3, and lets it go again
        await hand.shows("2 selected")
        await hand.press("D")
        await hand.shows("Delete 2 rows?")
        await hand.press("y")
        await hand.shows("2 deleted")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == ["Job01", "Job03", "Job04"]


def test_all_of_a_page_are_selected_or_none(embedded_url, client, config):
    fill(client, "retry", 20)

    async def scenario(hand):
        await hand.open("Retries", "Job17")
        await hand.press("A")
        await hand.shows("18 selected")
        await hand.press("A")
        await hand.until(lambda: "selected" not in hand.screen())
        await hand.press("A", "D", "y")
        await hand.shows("18 deleted")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == ["Job18", "Job19"]


def test_a_filter_searches_the_whole_set(embedded_url, client, config):
    fill(client, "retry", 50)

    async def scenario(hand):
        await hand.open("Retries", "Job00")
        await hand.press("slash", *"Job4", "enter")
        await hand.shows("filter: Job4", "10 in total", "Job40", "Job49")
        await hand.press("A", "D", "y")
        await hand.shows("10 deleted", "0 in total")
        await hand.press("escape")
        await hand.shows("40 in total", "Job00")

    piloted(embedded_url, scenario)
    assert names(RetrySet(config)) == [f"Job{n:02}" for n in range(40)]


def test_letters_typed_into_a_filter_are_not_keys(embedded_url, client):
    fill(client, "retry", 2)

    async def scenario(hand):
        await hand.open("Retries", "Job01")
        await hand.press("slash", *"qDR", "left", "escape")
        await hand.shows("2 in total")
        assert hand.app.is_running
        assert hand.app.tab.title == "Retries"

    piloted(embedded_url, scenario)
    assert client.zcard("retry") == 2


def test_workers_are_quieted_and_terminated_after_a_question(embedded_url, client):
    register(client, tag="shop", rss=153_600, started_at=time.time() - 90)
    running = {"queue": "default", "payload": job(7), "run_at": int(time.time()) - 30}
    client.hset(f"{OURS}:work", "tid1", json.dumps(running))

    async def scenario(hand):
        await hand.open("Busy", "Job07")
        await hand.shows(f"{OURS} shop", "1 of 5", "150 MB")
        await hand.press("Q")
        await hand.shows(f"Quiet {OURS}")
        await hand.press("y")
        await hand.shows("1 asked to be quiet")
        await hand.press("T", "y")
        await hand.shows("1 asked to stop")
        await hand.press("j", "T", "x")  # the running job takes no signals
        assert len(hand.app.screen_stack) == 1

    piloted(embedded_url, scenario)
    assert client.lrange(f"{OURS}-signals", 0, -1) == [b"TERM", b"TSTP"]


def test_a_worker_inside_another_program_is_not_signaled(embedded_url, client):
    register(client, embedded=True)

    async def scenario(hand):
        await hand.open("Busy", OURS)
        await hand.press("T", "y")
        await hand.shows("1 skipped (embedded)")
        await hand.press("1", "2")  # a change of the tab clears the status line
        await hand.shows(OURS)
        await hand.until(lambda: "skipped" not in hand.screen())
        await hand.press("Q", "y")
        await hand.shows("1 skipped (embedded)")

    piloted(embedded_url, scenario)
    assert not client.exists(f"{OURS}-signals")


def test_a_queue_is_paused_resumed_and_deleted(embedded_url, client):
    register(client)
    push(client, "A", "B")

    async def scenario(hand):
        await hand.open("Queues", "default")
        await hand.press("p")
        await hand.until(lambda: client.smembers("paused") == {b"default"})
        await hand.shows("1 paused")
        await hand.press("p")
        await hand.until(lambda: not client.exists("paused"))
        await hand.shows("1 resumed")
        await hand.press("D")
        await hand.shows("Permanently delete queue default with 2 jobs?")
        await hand.press("n")
        assert client.llen("queue:default") == 2
        await hand.press("D", "y")
        await hand.until(lambda: not client.exists("queue:default"))
        await hand.shows("1 deleted")

    piloted(embedded_url, scenario)


def test_the_metrics_of_the_last_hour(embedded_url, client):
    now = datetime.now(UTC)
    client.hset(f"j|{now:%y%m%d}|{now.hour}:{now.minute:02}", mapping={"Slow|p": 4, "Slow|f": 1, "Slow|ms": 6000})

    async def scenario(hand):
        await hand.open("Metrics", "Slow")
        await hand.shows("6.00 s", "2,000 ms")

    piloted(embedded_url, scenario)


def test_the_page_of_keys(embedded_url):
    async def scenario(hand):
        await hand.press("question_mark")
        await hand.shows("stop, quiet a process")
        await hand.press("q")
        await hand.until(lambda: len(hand.app.screen_stack) == 1)
        assert hand.app.is_running

    piloted(embedded_url, scenario)


def test_an_outage_is_a_line_and_ends_by_itself(embedded_url, client):
    fill(client, "retry", 2)

    with FaultProxy(embedded_url) as proxy:

        async def scenario(hand):
            await hand.open("Retries", "Job01")
            proxy.refuse()
            await hand.shows("retrying: ", "Job01")
            await hand.press("D", "y")
            proxy.accept()
            await hand.shows("page 1 of 1")

        piloted(proxy.url, scenario)


def test_an_unresponsive_server_does_not_block_the_keys(embedded_url, client):
    fill(client, "retry", 5)

    with FaultProxy(embedded_url) as proxy:

        async def scenario(hand):
            await hand.open("Retries", "Job04")
            proxy.black_hole()
            await hand.until(lambda: hand.app._reading)
            started = time.monotonic()
            await hand.press("j", "j", "question_mark")
            await hand.shows("stop, quiet a process")
            assert time.monotonic() - started < 4
            await hand.press("escape")
            await hand.shows("retrying: ")
            proxy.release()
            proxy.reset()
            await hand.shows("page 1 of 1")

        piloted(proxy.url, scenario, socket_timeout_seconds=5)


def test_an_unexpected_error_is_shown_in_one_line(embedded_url, client, monkeypatch):
    fill(client, "retry", 2)

    async def scenario(hand):
        await hand.open("Retries", "Job01")
        with monkeypatch.context() as broken:
            broken.setattr(RetrySet, "page", lambda *_, **__: 1 / 0)
            await hand.shows("retrying: ZeroDivisionError", "Job01")
        with monkeypatch.context() as broken:
            broken.setattr(RetrySet, "delete", lambda *_: 1 / 0)
            await hand.press("D", "y")
            await hand.shows("error: ZeroDivisionError")

    piloted(embedded_url, scenario)


def test_quitting_waits_for_no_silent_server(embedded_url):
    with FaultProxy(embedded_url) as proxy:

        async def scenario(hand):
            await hand.shows("Processed")
            proxy.black_hole()
            await hand.until(lambda: hand.app._reading)
            await hand.press("q")

        started = time.monotonic()
        piloted(proxy.url, scenario, socket_timeout_seconds=60)
        assert time.monotonic() - started < 30


def test_invalid_bytes_are_shown_and_deleted_like_jobs(embedded_url, client):
    client.zadd("dead", {"no job \x1b[2J": 1, b"\xff\xfe": 1})

    async def scenario(hand):
        await hand.open("Dead", r"no job \x1b[2J")
        await hand.press("A", "R")
        await hand.shows("2 skipped")
        await hand.press("A", "D", "y")
        await hand.shows("2 deleted")

    piloted(embedded_url, scenario)
    assert not client.exists("dead")


def test_a_job_that_no_longer_exists_is_reported(embedded_url, client):
    fill(client, "retry", 1)

    async def scenario(hand):
        await hand.open("Retries", "Job00")
        await hand.press("D")
        await hand.shows("y  yes")
        client.delete("retry")
        await hand.press("y")
        await hand.shows("1 skipped")

    piloted(embedded_url, scenario, interval=60)


def test_the_table_is_refreshed_again_after_a_dialog(embedded_url, client):
    fill(client, "retry", 1)

    async def scenario(hand):
        await hand.open("Retries", "Job00")
        await hand.press("D")
        await hand.shows("y  yes")
        hand.app.request_read()
        await hand.until(lambda: not hand.app._reading, "the end of a read during the dialog")
        client.delete("retry")
        await hand.press("n")
        await hand.until(lambda: "Job00" not in hand.screen(), "the next refresh")

    piloted(embedded_url, scenario, interval=0.2)


def test_columns_are_as_wide_as_their_cells_when_they_are_drawn(embedded_url, client):
    fill(client, "retry", 1)

    async def scenario(hand):
        await hand.open("Retries")
        await hand.until(lambda: hand.app.table.row_count == 1)
        cells = hand.app.table.get_row_at(0)
        assert [column.width for column in hand.app.table.ordered_columns] == [
            max(cell.cell_len, column.label.cell_len)
            for cell, column in zip(cells, hand.app.table.ordered_columns, strict=True)
        ]

    piloted(embedded_url, scenario, interval=60)


def test_a_tab_can_be_clicked(embedded_url):
    async def scenario(hand):
        await hand.shows("Processed")
        await hand._pilot.click("#tab-5")
        await hand.until(lambda: hand.app.tab.title == "Retries")

    piloted(embedded_url, scenario)
