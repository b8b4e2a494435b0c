"""The file of the spool: one transaction for pushes that wait together, clear errors, nothing lost."""

import sqlite3
import stat
import threading

import pytest

from offsider.client import spool as spools
from offsider.client.relay_source import StoredPush
from offsider.client.spool import MEMORY, Spool, SpoolEntry, SpoolUnusable
from offsider.core.errors import SoftTimeout


def row(jid, server="main", place="queue:default", score=None):
    return StoredPush(jid, server, place, score, b"payload of " + jid.encode(), False, 5.0)


pytestmark = pytest.mark.usefixtures("sqlite_closed")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "spool.sqlite"


@pytest.fixture
def spool(path):
    spool = Spool(str(path), 100)
    yield spool
    spool.close()


def jids(spool, server="main"):
    return [each.jid for each in spool.read(server, 0, 1_000)]


def test_rows_return_as_they_were_written_in_their_order(spool):
    rows = [row("a"), row("b", place="schedule", score=1.5), row("c", server="bulk")]
    spool.add(rows)
    spool.add([row("d")])
    first, second, third = spool.read("main", 0, 10)
    assert first.id < second.id < third.id
    assert [first, second, third] == [
        StoredPush(each.jid, each.server, each.place, each.score, each.payload, False, 5.0, found.id)
        for each, found in zip([rows[0], rows[1], row("d")], [first, second, third], strict=True)
    ]
    assert spool.read("main", first.id, 1) == [second]
    assert spool.waiting() == {"main": (3, 5.0), "bulk": (1, 5.0)}
    assert spool.servers() == {"main", "bulk"}
    assert spool.places("main") == {"queue:default", "schedule"}
    spool.delete([first.id, third.id])
    assert jids(spool) == ["b"]
    assert spool.is_open()
    assert not spool.wait(10)


def test_another_process_finds_the_rows_and_only_its_user_may(path, spool):
    spool.add([row("a")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    other = Spool(str(path), 100)
    assert other.identity == spool.identity
    assert jids(other) == ["a"]
    other.add([row("b")])
    other.close()
    assert jids(spool) == ["a", "b"]


def test_reading_creates_no_file(path, spool):
    assert spool.waiting() == {}
    assert spool.servers() == set()
    assert not path.exists()


def test_ids_are_never_used_again_not_even_by_a_new_file(path, spool):
    spool.add([row("a")])
    first = spool.read("main", 0, 1)[0].id
    spool.delete([first])
    spool.add([row("b")])
    second = spool.read("main", 0, 1)[0].id
    spool.close()
    path.unlink()
    spool.add([row("c")])
    assert first < second < spool.read("main", 0, 1)[0].id


def test_a_push_after_the_file_was_deleted_is_in_a_new_file(path, spool):
    spool.add([row("a")])
    path.unlink()
    spool.add([row("b")])
    other = Spool(str(path), 100)
    assert jids(other) == ["b"]
    other.close()


def test_pushes_that_wait_together_are_written_in_one_transaction(spool, monkeypatch):
    spool.add([row("first")])
    statements = []
    spool._connection.set_trace_callback(statements.append)
    with spool.lock:
        threads = [threading.Thread(target=spool.add, args=([row(f"t{n}")],)) for n in range(8)]
        for thread in threads:
            thread.start()
        while len(spool._entries) < len(threads):
            pass
    for thread in threads:
        thread.join()
    assert statements.count("COMMIT") == 1
    assert sorted(jids(spool)) == sorted(["first", *(f"t{n}" for n in range(8))])


def test_a_long_line_of_pushes_takes_several_transactions(spool, monkeypatch):
    monkeypatch.setattr(spools, "MAX_GROUP", 2)
    spool.add([row("first")])
    statements = []
    spool._connection.set_trace_callback(statements.append)
    spool.put([SpoolEntry([row(f"{n}")], "", lambda: True) for n in range(5)])
    assert statements.count("COMMIT") == 3
    assert jids(spool) == ["first", *"01234"]


def test_a_transaction_is_on_disk_when_it_ends(spool):
    spool.add([row("a")])
    assert spool._connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert spool._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_an_entry_that_may_go_to_the_server_is_not_written(spool):
    entries = [SpoolEntry([row("a")], "", lambda: True), SpoolEntry([row("b")], "", lambda: "")]
    spool.put(entries)
    assert [(entry.is_done, entry.is_skipped, entry.error) for entry in entries] == [
        (True, False, None), (True, True, None)
    ]  # fmt: skip
    assert jids(spool) == ["a"]


def test_a_full_spool_refuses_pushes_and_its_last_one_may_exceed_the_limit(path):
    spool = Spool(str(path), 3)
    spool.add([row("a"), row("b")])
    spool.add([row("c"), row("d")])
    with pytest.raises(SpoolUnusable, match=r"spool .*spool.sqlite is full: .*client.spool_max_jobs \(3\)"):
        spool.add([row("e")])
    assert jids(spool) == ["a", "b", "c", "d"]
    spool.delete([each.id for each in spool.read("main", 0, 2)])
    spool.add([row("f")])
    spool.close()


def test_a_file_that_others_could_read_is_closed_to_them(path, spool):
    path.touch(mode=0o644)
    spool.add([row("a")])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_full_disk_is_an_error_for_each_push_and_loses_no_row(spool):
    spool.add([row("a")])
    (pages,) = spool._connection.execute("PRAGMA page_count").fetchone()
    spool._connection.execute(f"PRAGMA max_page_count = {pages}")
    big = StoredPush("big", "main", "queue:default", None, b"x" * 100_000, False)
    entries = [SpoolEntry([big], "", lambda: True), SpoolEntry([row("b")], "", lambda: True),
               SpoolEntry([row("c")], "", lambda: False)]  # fmt: skip
    spool.put(entries)
    for entry in entries[:2]:
        assert "spool.sqlite cannot be used: database or disk is full: free space on its disk" in str(entry.error)
    assert entries[2].is_skipped
    assert jids(spool) == ["a"]
    spool.add([row("d")])  # the disk has space again


def test_an_interrupted_thread_leaves_the_pushes_of_others_in_doubt(spool):
    def interrupt():
        raise SoftTimeout

    first, other = SpoolEntry([row("a")], "", lambda: True), SpoolEntry([row("b")], "", interrupt)
    with pytest.raises(SoftTimeout):
        spool.put([first, other])
    assert first.is_done
    assert first.is_in_doubt
    assert first.error is not None
    assert jids(spool) == []
    spool.add([row("c")])
    assert jids(spool) == ["c"]


def test_a_locked_file_is_an_error_after_a_bounded_wait(path, spool, monkeypatch):
    monkeypatch.setattr(spools, "BUSY_SECONDS", 0.05)
    spool.add([row("a")])
    spool.close()
    locking = sqlite3.connect(path, isolation_level=None)
    locking.execute("BEGIN IMMEDIATE")
    with pytest.raises(SpoolUnusable, match="database is locked: another program has locked it"):
        spool.add([row("b")])
    assert jids(spool) == ["a"]
    locking.execute("ROLLBACK")
    locking.close()
    spool.add([row("b")])
    assert jids(spool) == ["a", "b"]


def test_a_file_that_is_no_database_is_named_with_the_next_step(path, spool):
    path.write_text("no database " * 100)
    with pytest.raises(SpoolUnusable, match=r"spool.sqlite cannot be used: .*move the file away, or set client.spool"):
        spool.add([row("a")])
    with pytest.raises(SpoolUnusable, match="move the file away"):
        spool.servers()


def test_a_missing_folder_is_an_error_before_the_first_row(tmp_path):
    spool = Spool(str(tmp_path / "missing" / "spool"), 100)
    for use in (spool.exists, spool.waiting, lambda: spool.add([row("a")])):
        with pytest.raises(SpoolUnusable, match=r"missing/spool cannot be used: .*client.spool must name a file in"):
            use()


def test_an_error_of_the_system_has_its_next_step(spool, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spools, "_create", fail)
    with pytest.raises(SpoolUnusable, match="No space left on device: free space on its disk"):
        spool.add([row("a")])


def test_a_spool_in_memory_keeps_its_rows_until_the_process_ends():
    one, other = Spool(MEMORY, 100), Spool(MEMORY, 100)
    assert not one.exists()
    one.add([row("a")])
    one.close()
    assert one.exists()
    assert jids(one) == ["a"]
    assert one.identity != other.identity
