"""Which jobs a worker takes: those of its queues that are not paused."""

from __future__ import annotations

from tests.process.stored import push, waiting
from tests.waiting import wait_for


def test_a_paused_queue_is_not_served_until_it_is_resumed(workers, stored, ledger):
    stored.sadd("paused", "default")
    jid = push(stored, "Short", 1)
    workers.start("-q", "default", "-q", "open")
    for _ in range(3):
        ended = push(stored, "Short", 2, queue="open")
        wait_for(lambda ended=ended: ledger.notes("end", jid=ended))
    assert not ledger.notes("start", jid=jid)

    stored.srem("paused", "default")
    wait_for(lambda: ledger.notes("end", jid=jid))
    stored.sadd("paused", "default")

    def kept_back() -> str:
        """A job of the paused queue that waits although more than one for each thread have run since."""
        jid = push(stored, "Short", 3)
        for _ in range(5):
            later = push(stored, "Short", 4, queue="open")
            wait_for(lambda later=later: ledger.notes("end", jid=later))
        return jid if jid in [job["jid"] for job in waiting(stored)] else ""

    second = wait_for(kept_back)  # workers read what is paused once a second
    ended = push(stored, "Short", 5, queue="open")
    wait_for(lambda: ledger.notes("end", jid=ended))
    assert not ledger.notes("start", jid=second)
