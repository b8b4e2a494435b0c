"""Private lists compared with the jobs in memory after a lost reply (rules 5 and 8)."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from offsider.core.errors import RedisUnavailable
from offsider.storage import working
from offsider.worker.disposition import Done
from offsider.worker.fetch.in_flight import InFlight
from offsider.worker.fetch.reconcile import Reconciler
from offsider.worker.fetch.unacknowledged import Finished
from offsider.worker.unit_of_work import UnitOfWork
from tests.redis.worker.conftest import Parts
from tests.snapshot import snapshot
from tests.threads import hammering


class Books:
    """A reconciler, and units that are held and listed as the test decides."""

    def __init__(self, parts: Parts, client) -> None:
        self.parts = parts
        self.client = client
        self.held = InFlight()
        self.reconciler = Reconciler(parts.context, self.held)

    def claimed(self, raw: bytes, *, doubtful: bool = False, listed: bool = True) -> Finished:
        finished = Finished(UnitOfWork("default", raw, self.parts.ownership.owner("default")), Done())
        finished.doubtful = doubtful
        self.held.add([finished.unit])
        if listed:
            self.client.lpush(self.parts.working, raw)
        return finished

    def run(self, *finished: Finished) -> list[Finished]:
        self.reconciler.doubt(60)
        return self.reconciler.run(finished)


@pytest.fixture
def books(parts, raw_redis) -> Books:
    return Books(parts, raw_redis)


# ------------------------------------------------------------------------------------------ when


def test_a_doubt_is_checked_immediately_and_once_more(books, monkeypatch):
    assert not books.reconciler.due
    books.reconciler.doubt(600)
    assert books.reconciler.due
    books.reconciler.run([])
    assert not books.reconciler.due
    later = time.monotonic() + 600
    monkeypatch.setattr("offsider.worker.fetch.reconcile.time", SimpleNamespace(monotonic=lambda: later))
    assert books.reconciler.due
    books.reconciler.run([])
    assert books.reconciler._at == ()


def test_a_job_that_waits_for_its_batch_of_held_jobs_is_not_requeued(books, raw_redis):
    """A batch writes by bytes: it would hold the job while it runs after its next claim."""
    waits = working.PrivateListEntry(books.parts.ownership.owner("default"), "default", b"waits")
    raw_redis.lpush(books.parts.working, b"waits", b"lost")
    books.parts.context.controls.to_hold = lambda: [waits]
    books.run()
    assert raw_redis.lrange(books.parts.working, 0, -1) == [b"waits"]
    assert raw_redis.lrange("queue:default", 0, -1) == [b"lost"]


def test_another_doubt_does_not_advance_the_last_check(books):
    """The server may still serve a pop whose connection was lost first."""
    books.reconciler.doubt(20)
    last = books.reconciler._at[-1]
    books.reconciler.doubt(7)
    assert books.reconciler._at[-1] == last
    assert books.reconciler.due


def test_a_reply_lost_during_a_comparison_causes_another_one(books, monkeypatch):
    """What this comparison has read may be older than the reply that was lost."""
    books.reconciler.doubt(60)
    during = iter([books.reconciler])

    def contents(*_) -> list[working.PrivateListEntry]:
        for reconciler in during:
            reconciler.doubt(60)
        return []

    monkeypatch.setattr(working, "contents", contents)
    books.reconciler.run([])
    assert books.reconciler.due
    books.reconciler.run([])
    assert not books.reconciler.due


def test_threads_may_ask_and_doubt_while_one_compares(books, monkeypatch):
    monkeypatch.setattr(working, "contents", lambda *_: [])
    ends = time.monotonic() + 1
    with hammering(*[lambda: books.reconciler.due] * 3, lambda: books.reconciler.doubt(0)) as errors:
        while time.monotonic() < ends and not errors:
            books.reconciler.run([])
    assert errors == []


def test_two_heartbeats_in_a_row_have_to_see_extra_jobs(books, parts, raw_redis):
    books.claimed(b"mine")
    assert not books.reconciler.mismatch()
    raw_redis.lpush(parts.working, "stray")
    assert not books.reconciler.mismatch()
    raw_redis.lrem(parts.working, 1, "stray")
    assert not books.reconciler.mismatch()
    raw_redis.lpush(parts.working, "stray")
    assert not books.reconciler.mismatch()
    assert books.reconciler.mismatch()
    assert not books.reconciler.mismatch(), "counted anew"


def test_more_jobs_held_than_listed_trigger_no_reconciliation(books):
    """A settle whose reply is on its way."""
    books.claimed(b"just settled", listed=False)
    assert not books.reconciler.mismatch()
    assert not books.reconciler.mismatch()


# ----------------------------------------------------------------------------------------- results


def test_a_job_is_found_also_while_another_one_is_just_settled(books, parts, raw_redis):
    """Then as many jobs are listed as are held."""
    books.claimed(b"just settled", listed=False)
    raw_redis.lpush(parts.working, "stray")
    assert books.run() == []
    assert raw_redis.lrange(parts.working, 0, -1) == []
    assert raw_redis.lrange("queue:default", 0, -1) == [b"stray"]


def test_an_acknowledgement_with_a_lost_reply_is_found_executed(books, parts, raw_redis):
    done = books.claimed(b"done", doubtful=True, listed=False)
    running = books.claimed(b"running")
    assert books.run(done) == [done]
    assert raw_redis.lrange(parts.working, 0, -1) == [running.unit.raw]


def test_one_that_never_reached_the_server_is_to_be_sent_again(books, parts, raw_redis):
    done = books.claimed(b"done", doubtful=True)
    assert books.run(done) == []
    assert not done.doubtful
    assert raw_redis.lrange(parts.working, 0, -1) == [b"done"]


def test_finished_jobs_not_yet_acknowledged_are_left_alone(books):
    done = books.claimed(b"done")
    assert books.run(done) == []
    assert books.held.of(done.unit.owner.identity).total() == 1


@pytest.mark.parametrize("listed, carried_out", [(3, 0), (2, 1), (1, 2)])
def test_equal_payloads_are_compared_by_count(books, parts, raw_redis, listed, carried_out):
    """One runs, two were acknowledged without a reply."""
    books.claimed(b"same", listed=False)
    doubtful = [books.claimed(b"same", doubtful=True, listed=False) for _ in range(2)]
    raw_redis.lpush(parts.working, *[b"same"] * listed)
    assert books.run(*doubtful) == doubtful[:carried_out]
    assert raw_redis.lrange(parts.working, 0, -1) == [b"same"] * listed


def test_a_lost_reply_with_equal_acknowledgements_and_claims_is_detected(books, parts, raw_redis):
    """The counts are equal, and yet everything is different."""
    done = books.claimed(b"done", doubtful=True, listed=False)
    raw_redis.lpush(parts.working, "brought")
    assert books.run(done) == [done]
    assert snapshot(raw_redis) == {"queues": {b"default"}, "queue:default": [b"brought"]}


def test_strays_are_the_next_to_run_in_their_old_order(books, parts, raw_redis):
    raw_redis.lpush("queue:default", "waiting")
    raw_redis.lpush(parts.working, "first", "second", "third")
    assert books.run() == []
    assert raw_redis.lrange("queue:default", 0, -1)[::-1] == [b"first", b"second", b"third", b"waiting"]
    assert not raw_redis.exists(parts.working)
    assert not raw_redis.keys("offsider:strikes:*"), "no process died of them (rule 6)"


def test_a_failed_reconciliation_is_repeated(proxied, proxy, raw_redis):
    """What it had found out must not be forgotten: the acknowledgement would be sent again, and taken for void."""
    books = Books(proxied, raw_redis)
    done = books.claimed(b"done", doubtful=True, listed=False)
    raw_redis.lpush(proxied.working, "stray")
    raw_redis.script_load(working.PUT_BACK.text)
    proxy.lose_reply(working.PUT_BACK.sha.encode())
    books.reconciler.doubt(60)
    with pytest.raises(RedisUnavailable):
        books.reconciler.run([done])
    assert books.reconciler.due
    assert books.reconciler.run([done]) == [done]
    assert raw_redis.lrange("queue:default", 0, -1) == [b"stray"]


def test_a_deleted_queue_is_checked_as_well(books, parts, raw_redis):
    """With `*` a queue may be deleted while its job runs; an acknowledgement that never arrived is not executed."""
    unit = books.claimed(b"job", doubtful=True)
    parts.capsule.queues = ["another"]
    assert books.run(unit) == []
    raw_redis.lpush(parts.working, "stray")
    books.run()
    assert raw_redis.lrange("queue:default", 0, -1) == [b"stray"]
