"""Connections to PostgreSQL after sync and async jobs, with and without a pool, as the server counts them."""

from __future__ import annotations

import asyncio

import django
import psycopg
import pytest

from offsider import job
from offsider.client import Client
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("default_config")

ALIAS, APPLICATION = "postgresql", "jobs"


@pytest.fixture
def config(config):
    django_project.set_up()
    from offsider.django.database import connections_of_a_job

    config.reloader = connections_of_a_job
    config.worker.concurrency = 1  # all sync jobs in one thread, which would keep its connection
    return config


@pytest.fixture
def database(config, postgresql_host):
    """Returns a function that sets the settings of the alias, and returns that of the number of open connections."""
    from django.db import connections

    def use(**settings):
        options = settings.pop("OPTIONS", {}) | {"application_name": APPLICATION}
        place = {"NAME": "postgres", "USER": "postgres", "HOST": postgresql_host}
        given = {"ENGINE": "django.db.backends.postgresql", **place, **settings, "OPTIONS": options}
        filled = connections.configure_settings({"default": {}, ALIAS: given})
        connections.settings[ALIAS] = filled[ALIAS]

    yield use
    if ALIAS in connections.settings:
        close_pool = getattr(connections[ALIAS], "close_pool", None)
        if close_pool is not None:
            close_pool()
        connections[ALIAS].close()
        del connections[ALIAS], connections.settings[ALIAS]


@pytest.fixture
def opened(postgresql_host):
    """Returns a function that counts the connections of the jobs."""
    with psycopg.connect(host=postgresql_host, user="postgres", dbname="postgres", autocommit=True) as connection:
        query = "select count(*) from pg_stat_activity where application_name = %s"
        yield lambda: connection.execute(query, [APPLICATION]).fetchone()[0]


@pytest.fixture
def used(config):
    """The process ids of the server that the jobs `read` and `aread` talked to."""
    from asgiref.sync import sync_to_async
    from django.db import connections

    pids = []

    def ask():
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("select pg_backend_pid()")
            pids.append(cursor.fetchone()[0])

    job(name="read", retry=False)(ask)
    job(name="close", retry=False)(connections.close_all)

    @job(name="aread", retry=False)
    async def aread():
        await asyncio.sleep(0.02)  # so that another thread takes the next job, and one of the two ends
        await sync_to_async(ask)()

    return pids


def run(*names):
    for name in names:
        Client.of().push({"class": name, "args": []})


def test_an_async_job_closes_its_connections_and_leaves_those_of_the_thread_open(config, database, opened, used):
    database(CONN_MAX_AGE=600)
    with EmbeddedWorker(config):
        run("read")
        wait_for(lambda: len(used) == 1)
        run("aread", "aread")
        wait_for(lambda: len(used) == 3)
        wait_for(lambda: opened() == 1)
        run("read")
        wait_for(lambda: len(used) == 4)
        run("close")
        wait_for(lambda: opened() == 0)
    first, *of_async_jobs, last = used
    assert first == last
    assert len({first, *of_async_jobs}) == 3


if django.VERSION >= (5, 1):

    @pytest.mark.parametrize("name", ["read", "aread"])
    def test_a_connection_returns_to_its_pool_after_a_job(config, database, opened, used, name):
        from django.db import connections

        pytest.importorskip("psycopg_pool")
        database(OPTIONS={"pool": {"min_size": 1, "max_size": 1, "timeout": 5}})
        with EmbeddedWorker(config):
            run(*[name] * 3)  # the second one would wait for a connection that the first one has kept
            wait_for(lambda: len(used) == 3)
            pool = connections[ALIAS].pool
            wait_for(lambda: pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"] == 1)
            assert opened() == 1
        assert len(set(used)) == 1
