"""The recipes of docs/middleware-and-events.md for Django, as they are printed there, on a real database."""

from __future__ import annotations

import asyncio
import sqlite3
import threading

import pytest

from offsider import Config, configure_client, job
from offsider.config.default import set_default_config
from offsider.inspector import Queue
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.docs.snippets import ROOT, snippets

pytestmark = pytest.mark.usefixtures("default_config")

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


# ------------------------------------------------------------------------------- on an event loop


@pytest.mark.parametrize("committed", [True, False])
def test_a_push_of_async_code_waits_for_the_transaction_of_its_thread(config, transactions, committed):
    from asgiref.sync import sync_to_async

    @job
    def confirm(order_id: int) -> None: ...

    async def order() -> str | None:
        atomic = transactions.atomic()
        await sync_to_async(atomic.__enter__)()
        jid = await confirm.aenqueue(7)
        assert len(Queue("default", config)) == 0
        await sync_to_async(atomic.__exit__)(None if committed else RuntimeError, None, None)
        return jid

    jid = asyncio.run(order())
    assert [record.jid for record in Queue("default", config)] == ([jid] if committed else [])
