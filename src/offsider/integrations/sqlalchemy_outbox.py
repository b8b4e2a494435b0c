"""The outbox in a database of SQLAlchemy: a plain table, for sync and async sessions.

::

    outbox = SQLAlchemyOutbox(engine, Base.metadata)

    def configure(config: Config) -> None:
        config.use(outbox)

    with Session(engine) as session, outbox.session(session):
        session.add(user)
        welcome.enqueue(user.id)
        session.commit()

Create the table with the others of the metadata, by a migration or ``metadata.create_all``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar
from weakref import ref

from offsider.client.relay_source import CHANNEL, StoredPush, can_listen, identity_of, wait_for_notification
from offsider.core.errors import ConfigurationError
from offsider.core.wording import first_time
from offsider.ext.outbox import Outbox
from offsider.integrations import missing

try:
    from sqlalchemy import (
        BigInteger,
        Boolean,
        Column,
        Connection,
        Double,
        Engine,
        Integer,
        LargeBinary,
        MetaData,
        String,
        Table,
        Text,
        event,
        func,
        select,
    )
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession
    from sqlalchemy.orm import Session, registry
except ImportError as error:
    raise missing("sqlalchemy_outbox", "sqlalchemy") from error

if TYPE_CHECKING:
    from offsider.config.hooks import PendingPushes

logger = logging.getLogger("offsider")
AnySession: TypeAlias = "Session | AsyncSession"
T = TypeVar("T")

FIELDS = ("jid", "server", "place", "score", "payload", "guarded", "created_at")


class SQLAlchemyOutbox(Outbox):
    """The extension, for ``config.use``.

    Args:
        engine: reads and deletes rows in workers.
        metadata: gets the table.
        session: returns the session of a push, or None; for example a ``scoped_session``, or ``db.session`` of
            Flask-SQLAlchemy. Without it, only pushes in a block of `session` are rows. Other pushes go to Redis, or
            raise InvalidOptions if their job has the option ``after_commit="outbox"``.
        default: take the pushes of all jobs; False: only of those with the option ``after_commit="outbox"``.
        table: name of the table.
    """

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        metadata: MetaData,
        session: Callable[[], AnySession | None] | None = None,
        *,
        default: bool = True,
        table: str = "offsider_outbox",
    ) -> None:
        self._current: ContextVar[AnySession | None] = ContextVar("session of the outbox", default=None)
        self._given = session
        self.table = make_table(metadata, table)
        super().__init__(SQLAlchemySource(engine, self.table, self._session), default=default)
        self._begun: ContextVar[ref[Connection] | None] = ContextVar("transaction without a session", default=None)
        event.listen(engine if isinstance(engine, Engine) else engine.sync_engine, "begin", self._note)

    def hook(self) -> Callable[[PendingPushes], None] | None:
        """See `offsider.config.hooks.Outbox`."""
        hook, begun = super().hook(), self._begun.get()
        connection = None if begun is None else begun()
        is_open = connection is not None and connection.in_transaction()
        if hook is None and is_open and self.default and first_time("outbox without a session", self.table.name):
            logger.warning(
                "a push inside of a transaction went directly to Redis, not to the outbox, because its session is not "
                "that of an outbox.session(session) block: open one around the push (in FastAPI, in an async def "
                "dependency or in the endpoint), or pass after_commit=True"
            )
        return hook

    def _note(self, connection: Connection) -> None:
        """Note the transaction that begins in this thread or task."""
        self._begun.set(ref(connection))

    @contextmanager
    def session(self, session: AnySession) -> Generator[None, None, None]:
        """Write pushes in this block as rows of a session. Works for threads and for tasks of asyncio.

        Raises:
            ConfigurationError: the block ends in another context, as in a dependency of FastAPI that is not async.
        """
        token = self._current.set(session)
        try:
            yield
        finally:
            try:
                self._current.reset(token)
            except ValueError:
                raise ConfigurationError(
                    "this block of outbox.session() ended in another context than it began, so pushes did not see the "
                    "session: in FastAPI, make the dependency with this block async def"
                ) from None

    def _session(self) -> AnySession | None:
        current = self._current.get()
        return self._given() if current is None and self._given is not None else current


def make_table(metadata: MetaData, name: str) -> Table:
    """Add the table of the rows to a metadata."""
    return Table(
        name,
        metadata,
        Column("id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True),
        Column("jid", String(255), nullable=False),
        Column("server", String(255), nullable=False),
        Column("place", Text, nullable=False),
        Column("score", Double),
        Column("payload", LargeBinary(2**31 - 1), nullable=False),
        Column("guarded", Boolean, nullable=False),
        Column("created_at", Double, nullable=False),
        sqlite_autoincrement=True,  # otherwise SQLite uses the numbers of deleted rows again
    )


class SQLAlchemySource:
    """The rows of one table; see `offsider.ext.outbox.Source`.

    Args:
        engine: of the relay. For an async engine, the relay has its own event loop and its own connections.
        table: the table.
        session: returns the session of a push, or None.
    """

    noun = "outbox"

    def __init__(self, engine: Engine | AsyncEngine, table: Table, session: Callable[[], AnySession | None]) -> None:
        self._engine = engine
        self._table = table
        self._session = session
        self._row: Any = type("StoredPush", (), {})
        registry(metadata=table.metadata).map_imperatively(self._row, table)
        event.listen(self._row, "after_insert", _notify)
        self._connection: _Connection | None = None

    @property
    def identity(self) -> str:
        url = self._engine.url
        return identity_of(url.host, url.port, url.database, url.query.get("host"), self._table.name)

    def is_open(self) -> bool:
        return self._session() is not None

    def add(self, rows: Sequence[StoredPush]) -> None:
        session = self._session()
        assert session is not None  # noqa: S101  # `is_open` was asked
        for row in rows:
            made = self._row()
            for name in FIELDS:
                setattr(made, name, getattr(row, name))
            session.add(made)

    def read(self, server: str, after_id: int, limit: int) -> list[StoredPush]:
        columns = self._table.c
        query = select(self._table).where(columns.server == server, columns.id > after_id)
        found = self._run(lambda connection: connection.execute(query.order_by(columns.id).limit(limit)).all())
        return [StoredPush(**row._mapping) for row in found]  # noqa: SLF001  # SQLAlchemy's public name

    def delete(self, ids: Sequence[int]) -> None:
        query = self._table.delete().where(self._table.c.id.in_(ids))
        self._run(lambda connection: connection.execute(query))

    def waiting(self) -> Mapping[str, tuple[int, float]]:
        server = self._table.c.server
        query = select(server, func.count(), func.min(self._table.c.created_at)).group_by(server)
        own = _connection_of(self._engine)  # not that of the relay's thread
        try:
            found = own.run(lambda connection: connection.execute(query).all())
        finally:
            own.close()
        return {name: (count, oldest) for name, count, oldest in found}

    def wait(self, seconds: float) -> bool:
        return self._own().wait(seconds)

    def close(self) -> None:
        own, self._connection = self._connection, None
        if own is not None:
            own.close()

    def _own(self) -> _Connection:
        if self._connection is None:
            self._connection = _connection_of(self._engine)
        return self._connection

    def _run(self, work: Callable[[Connection], T]) -> T:
        return self._own().run(work)


def _notify(_mapper: object, connection: Connection, _row: object) -> None:
    """Notify the relay at the commit, once in each transaction or savepoint."""
    if connection.dialect.name == "postgresql":
        block = connection.get_nested_transaction() or connection.get_transaction()
        if connection.info.get(CHANNEL) is not block:
            connection.info[CHANNEL] = block
            connection.exec_driver_sql(f"NOTIFY {CHANNEL}")


class _Connection:
    """A connection of a relay, which commits each statement."""

    def __init__(self, engine: Engine) -> None:
        self._connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        self._listens = False

    def run(self, work: Callable[[Connection], T]) -> T:
        return work(self._connection)

    def wait(self, seconds: float) -> bool:
        driver_connection = self._connection.connection.driver_connection
        if self._connection.dialect.name != "postgresql" or not can_listen(driver_connection):
            return False
        if not self._listens:
            self._connection.exec_driver_sql(f"LISTEN {CHANNEL}")
            self._listens = True
        return wait_for_notification(driver_connection, seconds)

    def close(self) -> None:
        if self._listens:  # such a connection must not return to the pool
            self._connection.invalidate()
        self._connection.close()


class _AsyncConnection(_Connection):
    """A connection of an async engine, on an event loop of its own."""

    def __init__(self, engine: AsyncEngine) -> None:
        # Connections of the engine's pool belong to the loops of the application.
        sync = engine.sync_engine
        own = AsyncEngine(Engine(sync.pool.recreate(), sync.dialect, sync.url))
        own.sync_engine.update_execution_options(**sync.get_execution_options())
        self._runner = asyncio.Runner()
        try:
            self._async: AsyncConnection = self._runner.run(self._open(own))
        except BaseException:
            self._runner.close()
            raise
        self._own = own
        self._listens = False

    @staticmethod
    async def _open(engine: AsyncEngine) -> AsyncConnection:
        connection = await engine.connect()
        return await connection.execution_options(isolation_level="AUTOCOMMIT")

    def run(self, work: Callable[[Connection], T]) -> T:
        return self._runner.run(self._async.run_sync(work))

    def wait(self, seconds: float) -> bool:
        return self._runner.run(self._wait(seconds))

    async def _wait(self, seconds: float) -> bool:
        if self._async.dialect.name != "postgresql" or self._async.dialect.driver != "psycopg":
            return False
        if not self._listens:
            await self._async.exec_driver_sql(f"LISTEN {CHANNEL}")
            self._listens = True
        raw: Any = (await self._async.get_raw_connection()).driver_connection
        try:
            notifications = raw.notifies(timeout=seconds, stop_after=1)
        except TypeError:  # psycopg 3.1 has no timeout
            return False
        async for _ in notifications:
            pass
        return True

    def close(self) -> None:
        try:
            self._runner.run(self._shut())
        finally:
            self._runner.close()

    async def _shut(self) -> None:
        await self._async.close()
        await self._own.dispose()


def _connection_of(engine: Engine | AsyncEngine) -> _Connection:
    return _Connection(engine) if isinstance(engine, Engine) else _AsyncConnection(engine)
