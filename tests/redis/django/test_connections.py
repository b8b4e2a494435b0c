"""A worker closes the database connections that its jobs opened in any thread."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from offsider import job
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("default_config")


@pytest.fixture
def config(config, monkeypatch):
    django_project.set_up()
    from django.db import connections

    from offsider.django.database import connections_of_a_job

    config.reloader = connections_of_a_job
    config.worker.concurrency = 1  # all jobs in one thread, which would keep its connection
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 0)
    return config


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


def test_connections_of_middleware_around_an_async_job_are_closed_in_both_threads(config):
    """One thread enters the middleware, and another one leaves it, in which handlers of errors run later."""
    from offsider.django.database import close_left_connections

    seen = Seen()

    def queries(_job):
        seen.note()
        try:
            yield
        finally:
            seen.note()

    @job(name="waits", retry=False)
    async def waits(*, fails: bool) -> None:
        assert not fails

    config.server_middleware.add(queries, close_left_connections)
    config.error_handlers.append(lambda _error, _context: seen.note())
    with EmbeddedWorker(config):
        for fails, used in ((True, 3), (True, 6), (False, 8)):
            waits.enqueue(fails=fails)
            wait_for(lambda used=used: len(seen.used) == used)
        wait_for(lambda: seen.are_closed)
    assert len({id(connection) for connection, _ in seen.used}) == 8


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
