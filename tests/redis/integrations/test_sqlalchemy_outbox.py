"""Pushes travel through a table of SQLAlchemy, sync and async, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from contextvars import copy_context

import pytest
from fastapi import Depends, FastAPI
from httpx import ASGITransport, AsyncClient as Browser
from sqlalchemy import MetaData, create_engine, text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from offsider import Config
from offsider.client import Client, relay as relays
from offsider.client.relay import Relay
from offsider.config.installation import Installation
from offsider.core import wording
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.core.payload import decode
from offsider.ext.outbox import Outbox
from offsider.ext.unique import Unique
from offsider.integrations.sqlalchemy_outbox import SQLAlchemyOutbox
from tests.tagged import client_of
from tests.waiting import wait_for

MAIL = {"class": "Mail", "args": [1]}
UNIQUE = {"class": "Report", "args": [1], "unique_for": 600}
KINDS = ("sqlite", "sqlite+aiosqlite", "postgresql+psycopg", "postgresql+psycopg async")


class Crash(BaseException):
    """The process ends here."""


class Application:
    """An engine, and transactions with an open session.

    Args:
        kind: one of KINDS.
        url: of the database, without the driver.
    """

    def __init__(self, kind, url):
        driver, _, mode = kind.partition(" ")
        self.is_async = bool(mode) or "aio" in driver
        self.engine = (create_async_engine if self.is_async else create_engine)(driver + url)
        self.plain = create_engine(driver.replace("+aiosqlite", "") + url)
        self.metadata = MetaData()
        self.outbox = SQLAlchemyOutbox(self.engine, self.metadata)
        self.metadata.drop_all(self.plain)
        self.metadata.create_all(self.plain)

    def push(self, config, *items, fails=False, part_fails=()):
        """Push items in one transaction, which fails at the end; and others in a savepoint that fails."""
        if self.is_async:
            asyncio.run(self._push(config, items, fails, part_fails))
            return
        client = Client(config)
        with suppress(ZeroDivisionError), Session(self.engine) as session, self.outbox.session(session):
            for item in items:
                client.push(item)
            with suppress(ZeroDivisionError), session.begin_nested():
                for item in part_fails:
                    client.push(item)
                raise ZeroDivisionError
            if fails:
                raise ZeroDivisionError
            session.commit()

    async def _push(self, config, items, fails, part_fails):
        client = Client(config)
        with suppress(ZeroDivisionError):
            async with AsyncSession(self.engine) as session:
                with self.outbox.session(session):
                    for item in items:
                        await client.apush(item)
                    with suppress(ZeroDivisionError):
                        async with session.begin_nested():
                            for item in part_fails:
                                await client.apush(item)
                            raise ZeroDivisionError
                    if fails:
                        raise ZeroDivisionError
                    await session.commit()
        await self.engine.dispose()


@pytest.fixture(params=KINDS)
def application(request, tmp_path):
    if request.param.startswith("sqlite"):
        url = f":///{tmp_path}/db.sqlite3"
    else:
        url = f"://postgres@/postgres?host={request.getfixturevalue('postgresql_host')}"
    one = Application(request.param, url)
    yield one
    one.outbox.source.close()
    one.metadata.drop_all(one.plain)
    one.plain.dispose()
    if not one.is_async:
        one.engine.dispose()


@pytest.fixture
def config(embedded_url, application, monkeypatch):
    monkeypatch.setattr(relays, "POLL_SECONDS", 0.01)
    config = Config()
    config.redis.url = embedded_url
    config.use(Unique())
    config.use(application.outbox)
    yield config
    Installation.of(config).close()


@pytest.fixture
def raw_redis(embedded_url):
    with client_of(embedded_url) as client:
        yield client


def relay(config, source):
    """Do all that one relay does until nothing is left."""
    one = Relay(config, source)
    wait_for(lambda: one.tick() != relays.IDLE_SECONDS, what="the turn")
    one.stop()
    one.tick()


def args_of(raw_redis):
    return [decode(raw)["args"] for raw in reversed(raw_redis.lrange("queue:default", 0, -1))]


def test_committed_pushes_arrive_in_order_and_rolled_back_ones_never(config, application, raw_redis):
    many = [{"class": "Mail", "args": [number]} for number in range(5)]
    application.push(config, *many, part_fails=[{"class": "Mail", "args": ["savepoint"]}])
    application.push(config, {"class": "Mail", "args": ["rolled back"]}, fails=True)
    application.push(config, {"class": "Mail", "args": ["later"], "at": 3600})
    assert raw_redis.keys("queue*") == []
    source = application.outbox.source
    assert source.waiting()["main"][0] == 6
    assert list(Outbox(source).check_outbox(Installation.of(config))) == []
    relay(config, source)
    assert args_of(raw_redis) == [[0], [1], [2], [3], [4]]
    assert raw_redis.zcard("schedule") == 1
    assert source.waiting() == {}


@pytest.mark.parametrize("step", ["before read", "after read", "before delete", "after delete"])
def test_a_crash_at_any_step_loses_and_doubles_nothing(config, application, raw_redis, step, monkeypatch):
    application.push(config, MAIL, UNIQUE, {"class": "Mail", "args": [2]})
    source = application.outbox.source
    when, name = step.split()
    method = getattr(source, name)

    def crash(*args):
        if when == "after":
            method(*args)
        raise Crash

    with monkeypatch.context() as patch:
        patch.setattr(source, name, crash)
        with pytest.raises(Crash):
            Relay(config, source).tick()
    ran = args_of(raw_redis)
    raw_redis.delete("queue:default", *raw_redis.keys("*unique*"), *raw_redis.keys("*turn*"))
    relay(config, source)
    assert sorted(ran + args_of(raw_redis)) == [[1], [1], [2]]
    assert source.waiting() == {}


def test_outside_a_session_a_push_is_sent_directly_to_redis(config, raw_redis):
    Client(config).push(MAIL)

    async def push():
        client = Client(config)
        await client.apush(MAIL)
        client.close()

    asyncio.run(push())
    assert len(args_of(raw_redis)) == 2


@pytest.fixture
def web(tmp_path, embedded_url):
    """A FastAPI application whose session comes from a plain generator, and its configuration."""
    engine = create_engine(f"sqlite:///{tmp_path}/web.sqlite3", connect_args={"check_same_thread": False})
    outbox = SQLAlchemyOutbox(engine, MetaData())
    outbox.table.metadata.create_all(engine)
    config = Config()
    config.redis.url = embedded_url
    config.use(outbox)

    def get_session():
        with Session(engine) as session:
            yield session
            session.commit()

    app, needed = FastAPI(), Depends(get_session)

    @app.post("/plain")
    def plain(wanted: str | None = None, session=needed) -> None:
        session.execute(text("select 1"))
        Client(config).push(MAIL if wanted is None else {**MAIL, "after_commit": wanted})

    @app.post("/block")
    def block(session=needed) -> None:
        with outbox.session(session):
            Client(config).push({**MAIL, "after_commit": "outbox"})

    async def post(path):
        async with Browser(transport=ASGITransport(app), base_url="http://shop") as browser:
            return (await browser.post(path)).status_code

    yield lambda path: asyncio.run(post(path)), outbox
    Installation.of(config).close()
    engine.dispose()


def test_a_push_whose_session_is_unknown_is_an_error_if_the_job_needs_the_outbox(web, raw_redis):
    post, outbox = web
    with pytest.raises(InvalidOptions, match='Mail: after_commit="outbox", but no session of the outbox is open here'):
        post("/plain?wanted=outbox")
    assert post("/block") == 200
    assert outbox.source.waiting()["main"][0] == 1
    assert raw_redis.keys("queue*") == []


def test_a_push_inside_of_a_transaction_that_misses_the_outbox_warns_once(web, raw_redis, caplog, monkeypatch):
    monkeypatch.setattr(wording, "_seen", {})
    post, outbox = web
    assert [post("/plain") for _ in range(2)] == [200, 200]
    (record,) = caplog.records
    assert "went directly to Redis, not to the outbox" in record.message
    assert len(args_of(raw_redis)) == 2
    assert outbox.source.waiting() == {}


def test_a_row_number_is_never_used_again(config, application):
    source = application.outbox.source
    application.push(config, MAIL)
    (first,) = source.read("main", 0, 10)
    source.delete([first.id])
    application.push(config, MAIL)
    (second,) = source.read("main", 0, 10)
    assert second.id > first.id


def test_psycopg_notifies_the_relay_and_other_drivers_poll(config, application):
    source = application.outbox.source
    if application.engine.dialect.name != "postgresql":
        assert not source.wait(10)
        return
    assert source.wait(0.01)
    pushing = threading.Timer(0.05, application.push, (config, MAIL))
    began = time.monotonic()
    pushing.start()
    assert source.wait(20)
    pushing.join()
    assert time.monotonic() - began < 10


def test_a_scoped_session_provides_the_current_session(tmp_path, embedded_url, raw_redis):
    engine, metadata = create_engine(f"sqlite:///{tmp_path}/scoped.sqlite3"), MetaData()
    current = scoped_session(sessionmaker(engine))
    config, outbox = Config(), SQLAlchemyOutbox(engine, metadata, current)
    metadata.create_all(engine)
    config.redis.url = embedded_url
    config.use(outbox)
    Client(config).push(MAIL)
    assert outbox.source.waiting() == {}
    current.commit()
    assert outbox.source.waiting()["main"][0] == 1
    current.remove()
    relay(config, outbox.source)
    assert args_of(raw_redis) == [[1]]
    Installation.of(config).close()
    engine.dispose()


def test_a_block_that_ends_in_another_context_is_an_error():
    """As in a dependency of FastAPI that is not async: the endpoint's pushes would not see the session."""
    engine = create_engine("sqlite://")
    outbox = SQLAlchemyOutbox(engine, MetaData())
    with Session(engine) as session:
        block = outbox.session(session)
        copy_context().run(block.__enter__)
        with pytest.raises(ConfigurationError, match="make the dependency with this block async def"):
            copy_context().run(block.__exit__, None, None, None)
    engine.dispose()
