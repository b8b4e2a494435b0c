"""A worker closes the database connections that its jobs opened in any thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from offsider import Config, job
from offsider.config.default import set_default_config
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.waiting import wait_for


@pytest.fixture
def config(redis_url, monkeypatch):
    django_project.set_up()
    from django.db import connections

    from offsider.django.connections import connections_of_a_job

    config = Config()
    config.redis.url = redis_url
    config.reloader = connections_of_a_job
    config.worker.concurrency = 1  # all jobs in one thread, which would keep its connection
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 0)
    before = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(before)


class Seen:
    """The connections that jobs used, in order: each with its thread."""

    def __init__(self) -> None:
        self.used: list[tuple[sqlite3.Connection, threading.Thread]] = []

    def note(self) -> None:
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute("select 1")
        self.used.append((connection.connection, threading.current_thread()))

    @property
    def are_closed(self) -> bool:
        return all(map(_is_closed, (connection for connection, _ in self.used)))


def _is_closed(connection: sqlite3.Connection) -> bool:
    try:
        connection.total_changes  # noqa: B018  # raises if it is closed
    except sqlite3.ProgrammingError as error:
        return "closed" in str(error)
    return False


@pytest.mark.parametrize("kind", ["sync", "async"])
def test_no_connection_outlives_its_job(config, kind):
    from asgiref.sync import sync_to_async

    seen = Seen()

    @job(name="read", retry=False)
    def read() -> None:
        seen.note()

    @job(name="aread", retry=False)
    async def aread() -> None:
        await sync_to_async(seen.note)()
        await sync_to_async(seen.note)()  # in the same thread, with the same connection

    chosen = read if kind == "sync" else aread
    with EmbeddedWorker(config):
        for _ in range(3):
            chosen.enqueue()
        wait_for(lambda: len(seen.used) == (3 if kind == "sync" else 6))
        wait_for(lambda: seen.are_closed)
    assert len({id(connection) for connection, _ in seen.used}) == 3
    if kind == "async":
        wait_for(lambda: not any(thread.is_alive() for _, thread in seen.used))


def test_no_connection_of_a_thread_of_the_event_loop_outlives_its_call(config):
    from asgiref.sync import sync_to_async

    seen = Seen()

    @job(name="threads", retry=False)
    async def threads() -> None:
        await asyncio.to_thread(seen.note)
        assert seen.are_closed
        await asyncio.gather(*(sync_to_async(seen.note, thread_sensitive=False)() for _ in range(3)))

    with EmbeddedWorker(config):
        for used in (4, 8):  # one after the other: a job must not look at an open connection of the other one
            threads.enqueue()
            wait_for(lambda used=used: len(seen.used) == used)
        wait_for(lambda: seen.are_closed)


def test_a_connection_with_an_age_is_used_again_by_the_next_sync_job(config, monkeypatch):
    from django.db import connection

    seen, done = Seen(), threading.Event()

    @job(name="read", retry=False)
    def read() -> None:
        connection.settings_dict["CONN_MAX_AGE"] = 60
        seen.note()
        if len(seen.used) == 2:
            connection.settings_dict["CONN_MAX_AGE"] = 0
            connection.close_at = 0.0
            done.set()

    with EmbeddedWorker(config):
        read.enqueue()
        read.enqueue()
        assert done.wait(20)
        wait_for(lambda: seen.are_closed)
    first, second = (connection for connection, _ in seen.used)
    assert first is second
