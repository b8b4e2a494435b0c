"""Scoped sessions of SQLAlchemy end with their job: sync and async, succeeded and failed."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import create_engine, event, select, text
from sqlalchemy.ext.asyncio import AsyncSession, async_scoped_session, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, Session as PlainSession, mapped_column, scoped_session, sessionmaker
from sqlalchemy.pool import NullPool, QueuePool

from offsider import ConfigurationError, job
from offsider.integrations.sqlalchemy import RemoveSessions, scope
from offsider.integrations.sqlalchemy_rows import by_key
from offsider.worker.embed import EmbeddedWorker

pytestmark = pytest.mark.usefixtures("default_config")


@pytest.fixture
def engine():
    engine = create_engine("sqlite://", poolclass=QueuePool, connect_args={"check_same_thread": False})
    yield engine
    engine.dispose()


def run(config, declared, times):
    """Run a job this many times in a worker with one thread."""
    ran = threading.Semaphore(0)

    @config.on("execution_finished")
    def count(_run):
        ran.release()

    config.worker.concurrency = 1
    with EmbeddedWorker(config):
        for number in range(times):
            declared.enqueue(number)
        for _ in range(times):
            assert ran.acquire(timeout=20)


@pytest.mark.parametrize("scopefunc", [None, scope])
def test_each_job_has_its_own_session_and_returns_its_connection(config, engine, scopefunc):
    session = scoped_session(sessionmaker(engine), scopefunc=scopefunc)
    seen = []

    @job(retry=False)
    def read(number):
        session.execute(text("select 1"))
        seen.append(session())
        if number == 1:
            raise ValueError("a session that failed must not reach the next job")

    config.server_middleware.add(RemoveSessions(session))
    run(config, read, 3)

    assert len({id(one) for one in seen}) == 3
    assert engine.pool.checkedout() == 0


@pytest.mark.parametrize("scopefunc", [scope, asyncio.current_task])
def test_async_sessions_end_on_the_loop_of_their_job(config, tmp_path, scopefunc):
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'db'}", poolclass=NullPool)
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=scopefunc)
    seen, opened, closed = [], [], []
    event.listen(engine.sync_engine, "connect", lambda *_: opened.append(threading.get_ident()))
    event.listen(engine.sync_engine, "close", lambda *_: closed.append(threading.get_ident()))

    @job(retry=False)
    async def read(number):
        await session.execute(text("select 1"))
        seen.append(session())
        if number == 1:
            raise ValueError

    config.server_middleware.add(RemoveSessions(session))
    run(config, read, 4)

    assert len({id(one) for one in seen}) == 4
    assert session.registry.registry == {}
    assert len(opened) == 4
    assert opened == closed


def test_concurrent_async_jobs_do_not_share_a_session_scoped_by_job(config, engine):
    session = scoped_session(sessionmaker(engine), scopefunc=scope)
    seen, same = {}, []
    both = asyncio.Event()

    @job(retry=False)
    async def read(number):
        seen[number] = session()
        if len(seen) == 2:
            both.set()
        await both.wait()
        same.append(session() is seen[number])

    config.server_middleware.add(RemoveSessions(session))
    run(config, read, 2)

    assert seen[0] is not seen[1]
    assert same == [True, True]
    assert session.registry.registry == {}


def test_an_async_job_with_a_session_of_the_thread_gets_a_warning_and_the_session_stays(config, engine, caplog):
    closed = []

    class Watched(PlainSession):
        def close(self):
            closed.append(threading.current_thread().name)
            super().close()

    session = scoped_session(sessionmaker(engine, class_=Watched))

    @job(retry=False)
    async def read(number):
        session()

    config.server_middleware.add(RemoveSessions(session))
    run(config, read, 2)

    assert closed == []
    assert caplog.text.count("scopefunc=offsider.integrations.sqlalchemy.scope") == 1


@pytest.mark.parametrize("scopefunc", [None, scope])
def test_sessions_of_middleware_around_an_async_job_end_in_the_thread_that_used_them(config, engine, scopefunc):
    """One thread enters the middleware, and another one leaves it."""
    session, seen = scoped_session(sessionmaker(engine), scopefunc=scopefunc), []

    def queries(_job):
        seen.append(session())
        session.execute(text("select 1"))
        yield
        session.execute(text("select 1"))

    @job(retry=False)
    async def waits(number): ...

    config.server_middleware.add(RemoveSessions(session), queries)
    run(config, waits, 3)

    assert len({id(one) for one in seen}) == 3
    assert engine.pool.checkedout() == 0


def test_an_inline_job_ends_its_async_session_too(config, tmp_path):
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'db'}")
    session = async_scoped_session(async_sessionmaker(engine), scopefunc=scope)
    config.server_middleware.add(RemoveSessions(session))

    @job
    async def read():
        session()

    read.run_inline()
    assert session.registry.registry == {}


def test_outside_of_a_job_the_scope_is_the_task_or_the_thread():
    async def inside():
        return scope() is asyncio.current_task()

    assert asyncio.run(inside())
    assert scope() == threading.get_ident()


@pytest.mark.parametrize("wrong", [(), (sessionmaker(),), (PlainSession(),), (AsyncSession(),)])
def test_anything_but_a_scoped_session_is_refused(wrong):
    with pytest.raises(ConfigurationError, match="expects a scoped_session or an async_scoped_session"):
        RemoveSessions(*wrong)


def test_rows_come_in_the_order_of_their_keys_from_a_key_on():
    class Base(DeclarativeBase): ...

    class User(Base):
        __tablename__ = "users"
        id: Mapped[int] = mapped_column(primary_key=True)

    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    with PlainSession(engine) as session:
        session.add_all(User(id=number) for number in range(10))
        session.flush()
        users = select(User).order_by(User.id.desc())
        assert [user.id for user in by_key(session, users, User.id)] == [*range(10)]
        assert [user.id for user in by_key(session, users, User.id, 4, page_size=3)] == [*range(4, 10)]
    engine.dispose()
