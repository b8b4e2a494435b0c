"""The spool: a local SQLite file with pushes that no server has, as a source of the relay.

Pushes that wait at the same time are written in one transaction: one of them commits for all. The journal is a
write-ahead log with full synchronization, which costs one fsync per transaction: neither a kill nor a power failure
loses a push that has returned. Several processes of one machine share the file.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from errno import errorcode
from pathlib import Path
from typing import TYPE_CHECKING

from offsider.client.relay_source import StoredPush, identity_of
from offsider.core.errors import OffsiderError
from offsider.core.payload import new_jid

if TYPE_CHECKING:
    import sqlite3

#: The path of a spool in memory, which ends with its process.
MEMORY = ":memory:"
#: Longest wait for a lock of another process.
BUSY_SECONDS = 1.0
#: Maximum number of pushes in a transaction, apart from those of the last one.
MAX_GROUP = 1_000

_WRITE = """
INSERT INTO offsider_spool (jid, server, place, score, payload, guarded, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)
"""
_READ = """
SELECT jid, server, place, score, payload, guarded, created_at, id FROM offsider_spool
WHERE server = ? AND id > ? ORDER BY id LIMIT ?
"""
# Without AUTOINCREMENT, SQLite would use the numbers of deleted rows again. They begin at the time in microseconds, so
# that a new file does not repeat those of a deleted one: the server remembers them for a day.
_CREATE = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS offsider_spool (
    id INTEGER PRIMARY KEY AUTOINCREMENT, jid TEXT NOT NULL, server TEXT NOT NULL, place TEXT NOT NULL, score REAL,
    payload BLOB NOT NULL, guarded INTEGER NOT NULL, created_at REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS offsider_spool_server ON offsider_spool (server);
INSERT INTO sqlite_sequence (name, seq)
    SELECT 'offsider_spool', %d WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'offsider_spool');
COMMIT;
"""
#: What to do about an error of SQLite or of the system, by a part of its name.
_NEXT_STEPS = {
    "FULL": "free space on its disk",
    "IOERR": "free space on its disk, or repair it",
    "BUSY": f"another program has locked it for {BUSY_SECONDS:g} s: end that program",
    "LOCKED": f"another program has locked it for {BUSY_SECONDS:g} s: end that program",
    "NOSPC": "free space on its disk",
    "DQUOT": "free space on its disk, or raise the quota",
    "NOTADB": "move the file away, or set client.spool to another one",
    "CORRUPT": "move the file away, or set client.spool to another one",
}
_OTHER_STEP = "client.spool must name a file in an existing folder, and this user must be able to write both"


class SpoolUnusable(OffsiderError):
    """The spool cannot be read or written. The message contains the file and the next step."""


class SpoolFull(SpoolUnusable):
    """The spool has as many jobs as it may."""


class SpoolEntry:
    """The rows of one push, until they are written.

    Args:
        rows: the rows.
        reason: why the server could not be reached.
        decide: called just before they are written, under the lock of the spool; a false value skips them.

    Attributes:
        is_done: whether the other attributes are final.
        is_skipped: whether they were not written because of ``decide``.
        error: why they could not be written.
        is_in_doubt: whether they may be written in spite of the error.
    """

    def __init__(self, rows: Sequence[StoredPush], reason: str, decide: Callable[[], object]) -> None:
        self.rows = rows
        self.reason = reason
        self.decide = decide
        self.is_done = self.is_skipped = self.is_in_doubt = False
        self.error: SpoolUnusable | None = None


class Spool:
    """The rows of one file, for all threads of this process. A forked child needs its own object.

    Args:
        path: the file, or `MEMORY`. It is created at the first push, for its user alone.
        max_jobs: with this number of rows, further pushes are refused. The last bulk push, or group of coroutines, may
            exceed it.

    Attributes:
        path: the absolute path, or `MEMORY`.
        lock: held while rows are written; the relay holds it to read the last rows before pushes bypass the spool.
    """

    noun = "spool"

    def __init__(self, path: str, max_jobs: int) -> None:
        self.path = path if path == MEMORY else str(Path(path).expanduser().resolve())
        self.lock = threading.RLock()
        self._max_jobs = max_jobs
        self._entries = deque[SpoolEntry]()
        self._connection: sqlite3.Connection | None = None
        self._inode = 0
        self._identity = identity_of(None, new_jid() if path == MEMORY else self.path)

    @property
    def identity(self) -> str:
        return self._identity

    def is_open(self) -> bool:
        return True

    def add(self, rows: Sequence[StoredPush]) -> None:
        """Write rows. Raises SpoolUnusable if that fails; the message contains the file and the next step."""
        entry = SpoolEntry(rows, "", lambda: True)
        self.put([entry])
        if entry.error is not None:
            raise entry.error

    def put(self, entries: Sequence[SpoolEntry]) -> None:
        """Write entries in their order, with those of other threads; returns when all are done."""
        self._entries.extend(entries)
        with self.lock:
            while not entries[-1].is_done:
                self._write_group()

    def read(self, server: str, after_id: int, limit: int) -> list[StoredPush]:
        with self._use() as connection:
            return [StoredPush(*row) for row in connection.execute(_READ, (server, after_id, limit))]

    def delete(self, ids: Sequence[int]) -> None:
        with self._use(write=True) as connection:
            connection.executemany("DELETE FROM offsider_spool WHERE id = ?", [(number,) for number in ids])

    def waiting(self) -> Mapping[str, tuple[int, float]]:
        if not self.exists():
            return {}
        query = "SELECT server, count(*), min(created_at) FROM offsider_spool GROUP BY server"
        with self._use() as connection:
            return {server: (count, oldest) for server, count, oldest in connection.execute(query)}

    def servers(self) -> set[str]:
        """Return the servers that have rows."""
        return self._distinct("SELECT DISTINCT server FROM offsider_spool") if self.exists() else set()

    def places(self, server: str) -> set[str]:
        """Return the places of a server that have rows."""
        return self._distinct("SELECT DISTINCT place FROM offsider_spool WHERE server = ?", server)

    def exists(self) -> bool:
        """Return whether there is a file, or rows in memory.

        Raises:
            SpoolUnusable: there is no file, and none can be created.
        """
        if self.path == MEMORY:
            return self._connection is not None
        if _inode(self.path):
            return True
        folder = Path(self.path).parent
        if not os.access(folder, os.W_OK | os.X_OK):
            raise self._failed(PermissionError(f"no file can be created in {folder}"))
        return False

    def wait(self, seconds: float) -> bool:
        del seconds
        return False

    def close(self) -> None:
        with self.lock:
            if self._connection is not None and self.path != MEMORY:
                self._connection.close()
                self._connection = None

    def _distinct(self, query: str, *parameters: str) -> set[str]:
        with self._use() as connection:
            return {value for (value,) in connection.execute(query, parameters)}

    def _write_group(self) -> None:
        taken, rows = list[SpoolEntry](), list[StoredPush]()
        try:
            with self._use(write=True) as connection:
                (number,) = connection.execute("SELECT count(*) FROM offsider_spool").fetchone()
                left = self._max_jobs - number
                while self._entries and len(rows) < MAX_GROUP:
                    entry = self._entries.popleft()
                    taken.append(entry)
                    entry.is_skipped = not entry.decide()
                    if entry.is_skipped:
                        continue
                    if left <= 0:
                        entry.error = self._full()
                        continue
                    left -= len(entry.rows)
                    rows += entry.rows
                connection.executemany(
                    _WRITE,
                    [
                        (row.jid, row.server, row.place, row.score, row.payload, row.guarded, row.created_at)
                        for row in rows
                    ],
                )
        except BaseException as error:
            is_known = isinstance(error, SpoolUnusable)
            taken = taken or [self._entries.popleft() for _ in range(len(self._entries))]
            for entry in taken:
                if not entry.is_skipped:
                    entry.error = entry.error or SpoolUnusable(str(error))  # each caller adds its own traceback
                    entry.is_in_doubt = not is_known
            if not is_known:  # this thread was interrupted, perhaps after the commit
                raise
        finally:
            for entry in taken:
                entry.is_done = True

    def _full(self) -> SpoolFull:
        return SpoolFull(
            f"the spool {self.path} is full: it has client.spool_max_jobs ({self._max_jobs:,}) jobs; start the server, "
            "or raise that setting"
        )

    @contextmanager
    def _use(self, *, write: bool = False) -> Generator[sqlite3.Connection]:
        """Open the file if it is not open, and translate errors. With ``write``, the block is one transaction."""
        import sqlite3  # few processes need it

        with self.lock:
            try:
                connection = self._opened()
                if write:
                    connection.execute("BEGIN IMMEDIATE")
                with connection:  # commits, or rolls back
                    yield connection
            except (OSError, sqlite3.Error) as error:
                self.close()  # the next use opens it again
                raise self._failed(error) from error

    def _opened(self) -> sqlite3.Connection:
        import sqlite3

        if self._connection is not None and self.path != MEMORY and _inode(self.path) != self._inode:
            self.close()  # rows would be lost with a file that was deleted or moved away
        if self._connection is None:
            if self.path != MEMORY:
                _create(self.path)
            connection = sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            try:
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = FULL")
                found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", ("offsider_spool_server",))
                if found.fetchone() is None:
                    connection.executescript(_CREATE % (time.time_ns() // 1000))
            except BaseException:
                connection.close()
                raise
            self._connection, self._inode = connection, _inode(self.path)
        return self._connection

    def _failed(self, error: Exception) -> SpoolUnusable:
        name = getattr(error, "sqlite_errorname", "") or errorcode.get(getattr(error, "errno", None) or 0, "")
        step = next((step for part, step in _NEXT_STEPS.items() if part in name), _OTHER_STEP)
        return SpoolUnusable(f"the spool {self.path} cannot be used: {error}: {step}")


def _create(path: str) -> None:
    """Create the file for its user alone. An existing one is not opened: closing it would drop the locks of SQLite."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        with suppress(PermissionError):  # it belongs to another user
            Path(path).chmod(0o600)


def _inode(path: str) -> int:
    """Return the number of the file; 0 if there is none, or its folder may not be searched."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return 0
