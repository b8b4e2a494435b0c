"""The recipes of docs/middleware-and-events.md for Django, as they are printed there, on a real database."""

from __future__ import annotations

import sqlite3
import threading

import pytest

from offsider import Config, configure_client, job
from offsider.inspector import Queue
from offsider.jobs import registry
from offsider.wiring.default import set_default_config
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.docs.snippets import ROOT, snippets

PAGE = ROOT / "docs" / "middleware-and-events.md"


@pytest.fixture(scope="session", autouse=True)
def django_set_up():
    with sqlite3.connect(django_project.set_up()) as connection:
        connection.execute("create table orders (id integer)")
    connection.close()


@pytest.fixture(scope="session")
def recipes() -> dict[str, object]:
    """What the page defines."""
    names: dict[str, object] = {}
    for snippet in snippets(PAGE.read_text()):
        if snippet.language == "python" and not snippet.word:
            before = set_default_config(Config())
            exec(snippet.text, names)
            set_default_config(before)
    return names


@pytest.fixture
def config(redis_url):
    config = Config()
    config.redis.url = redis_url
    before = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(before)


def test_each_job_begins_and_ends_without_a_stale_connection(config, recipes):
    from django.db import connection

    seen: list[tuple[object, bool]] = []
    enough = threading.Event()

    @job
    def read_orders() -> None:
        had_one = connection.connection is not None
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from orders")
        seen.append((connection.connection, had_one))
        if len(seen) == 3:
            enough.set()

    recipes["configure_with_django"](config)
    config.worker.concurrency = 1  # all in one thread, which would keep its connection
    with EmbeddedWorker(config):
        for _ in range(3):
            read_orders.enqueue()
        assert enough.wait(20)

    assert [had_one for _, had_one in seen] == [False, False, False]
    assert len({id(made) for made, _ in seen}) == 3


def test_without_the_recipe_the_connection_would_stay(config):
    from django.db import connection

    seen: list[bool] = []
    enough = threading.Event()

    @job
    def read_orders() -> None:
        seen.append(connection.connection is not None)
        with connection.cursor() as cursor:
            cursor.execute("select count(*) from orders")
        if len(seen) == 2:
            connection.close()
            enough.set()

    config.worker.concurrency = 1
    with EmbeddedWorker(config):
        read_orders.enqueue()
        read_orders.enqueue()
        assert enough.wait(20)

    assert seen == [False, True]


@pytest.fixture
def transactions(config, recipes):
    from django.db import connection, transaction

    configure_client(recipes["configure_pushes"])
    yield transaction
    connection.close()


def test_a_push_waits_for_the_commit(config, transactions):
    @job
    def confirm(order_id: int) -> None: ...

    with transactions.atomic():
        jid = confirm.enqueue(7)
        assert jid
        assert len(Queue("default", config)) == 0

    assert [record.jid for record in Queue("default", config)] == [jid]


def test_a_push_is_forgotten_when_the_transaction_is_rolled_back(config, transactions):
    @job
    def confirm(order_id: int) -> None: ...

    @transactions.atomic
    def fail() -> None:
        confirm.enqueue(7)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()

    assert len(Queue("default", config)) == 0


def test_outside_of_a_transaction_a_push_happens_at_once(config, transactions):
    @job
    def confirm(order_id: int) -> None: ...

    confirm.enqueue(7)

    assert len(Queue("default", config)) == 1
