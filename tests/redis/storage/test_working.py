"""Private lists: seed, one verb, and all keys compared. Nothing is lost when a destination refuses."""

import pytest

from offsider.core.errors import Fenced, RedisRefused
from offsider.storage import working
from offsider.storage.working import DeadSetLimits, Owner, PrivateListEntry
from tests.snapshot import snapshot

ME = Owner("host:1:aaaaaaaaaaaa", "default")
LIST = "offsider:working:host:1:aaaaaaaaaaaa:default:low"
ENTRY = PrivateListEntry(ME, "low", b"job")


@pytest.fixture
def claimed(raw_redis):
    raw_redis.lpush(LIST, "job")


@pytest.fixture
def fenced(raw_redis):
    raw_redis.set("offsider:fenced:host:1:aaaaaaaaaaaa", 1)


def now(raw_redis) -> float:
    seconds, micros = raw_redis.time()
    return seconds + micros / 1e6


# -------------------------------------------------------------------------------------- claim


def test_a_claim_returns_the_oldest_jobs_of_the_first_queues(pool, raw_redis):
    raw_redis.lpush("queue:high", "h1", "h2")
    raw_redis.lpush("queue:low", "l1", "l2", "l3")
    claimed = working.claim(pool, ME, ["high", "low"], 4)
    assert [(entry.queue, entry.raw) for entry in claimed] == [
        ("high", b"h1"),
        ("high", b"h2"),
        ("low", b"l1"),
        ("low", b"l2"),
    ]
    assert snapshot(raw_redis) == {
        "queue:low": [b"l3"],
        "offsider:working:host:1:aaaaaaaaaaaa:default:high": [b"h2", b"h1"],
        LIST: [b"l2", b"l1"],
    }


def test_a_paused_queue_is_left_alone(pool, raw_redis):
    raw_redis.lpush("queue:high", "h1")
    raw_redis.lpush("queue:low", "l1")
    raw_redis.sadd("paused", "high")
    assert [entry.raw for entry in working.claim(pool, ME, ["high", "low"], 5)] == [b"l1"]
    assert raw_redis.lrange("queue:high", 0, -1) == [b"h1"]


def test_a_claim_reads_of_the_paused_queues_only_its_own(pool, raw_redis):
    """All workers would pay for each paused queue of the server at each claim."""
    raw_redis.lpush("queue:low", "l1")
    raw_redis.sadd("paused", "high", "mid", "other")
    raw_redis.config_resetstat()
    reply = working.ack_and_claim(pool, ME, ["high", "low", "mid"], 1)
    assert (reply.claimed, reply.paused) == ([("low", b"l1")], {"high", "mid"})
    assert not {"cmdstat_sunion", "cmdstat_sscan"} & raw_redis.info("commandstats").keys()


def test_a_fenced_owner_claims_nothing(pool, raw_redis, fenced):
    raw_redis.lpush("queue:low", "l1")
    before = snapshot(raw_redis)
    with pytest.raises(Fenced):
        working.claim(pool, ME, ["low"], 1)
    assert snapshot(raw_redis) == before


@pytest.mark.parametrize("wrong", ["queue:high", "offsider:working:host:1:aaaaaaaaaaaa:default:high"])
def test_a_queue_of_the_wrong_type_does_not_block_the_others(pool, raw_redis, wrong):
    raw_redis.lpush("queue:high", "h1")
    raw_redis.lpush("queue:low", "l1")
    raw_redis.delete(wrong)
    raw_redis.set(wrong, "no list")
    before = snapshot(raw_redis)
    assert [entry.raw for entry in working.claim(pool, ME, ["high", "low"], 1)] == [b"l1"]
    with pytest.raises(RedisRefused):  # nothing else to claim: now the fault shows
        working.claim(pool, ME, ["high", "low"], 1)
    after = snapshot(raw_redis)
    assert {key: after[key] for key in after if key != LIST} == {k: before[k] for k in before if k != "queue:low"}


# ----------------------------------------------------------------------------------- outcomes


def test_acknowledging_deletes_the_job(pool, raw_redis, claimed):
    assert working.acknowledge(pool, ENTRY)
    assert snapshot(raw_redis) == {}


def test_a_failed_job_is_due_after_its_delay_by_the_clock_of_the_server(pool, raw_redis, claimed):
    assert working.postpone(pool, ENTRY, pool.keys.retry, b"again", 15.25)
    stored = snapshot(raw_redis)
    assert set(stored) == {"retry"}
    assert stored["retry"][b"again"] == pytest.approx(now(raw_redis) + 15.25, abs=5)


def test_a_dead_job_is_in_the_dead_set_since_now(pool, raw_redis, claimed):
    assert working.bury(pool, ENTRY, b"buried", DeadSetLimits())
    stored = snapshot(raw_redis)
    assert set(stored) == {"dead"}
    assert stored["dead"][b"buried"] == pytest.approx(now(raw_redis), abs=5)


def test_the_dead_set_keeps_up_to_9999_jobs_by_default(pool, raw_redis, claimed):
    at = now(raw_redis)
    for start in range(0, 10_500, 500):
        raw_redis.zadd("dead", {f"old {n}": at - 20_000 + n for n in range(start, start + 500)})
    working.bury(pool, ENTRY, b"newest", DeadSetLimits())
    kept = raw_redis.zrange("dead", 0, -1)
    assert len(kept) == 9_999
    assert (kept[0], kept[-1]) == (b"old 502", b"newest")


def test_the_dead_set_forgets_after_180_days(pool, raw_redis, claimed):
    at = now(raw_redis)
    raw_redis.zadd("dead", {"too old": at - 15_552_000 - 60, "old": at - 15_552_000 + 60})
    working.bury(pool, ENTRY, b"new", DeadSetLimits())
    assert raw_redis.zrange("dead", 0, -1) == [b"old", b"new"]


def test_requeued_jobs_run_next(pool, raw_redis):
    raw_redis.lpush("queue:low", "waiting")
    raw_redis.lpush(LIST, "a", "b")
    entries = [(PrivateListEntry(ME, "low", b"b"), b"b again"), (PrivateListEntry(ME, "low", b"a"), b"a")]
    assert working.put_back(pool, entries) == [True, True]
    assert snapshot(raw_redis) == {"queues": {b"low"}, "queue:low": [b"waiting", b"b again", b"a"]}


def test_more_jobs_than_a_batch_are_requeued(pool, raw_redis):
    raws = [f"job {n}".encode() for n in range(working.PUT_BACK_BATCH * 2 + 7)]
    raw_redis.lpush(LIST, *raws)
    assert all(working.put_back(pool, [(PrivateListEntry(ME, "low", raw), raw) for raw in reversed(raws)]))
    assert list(reversed(raw_redis.lrange("queue:low", 0, -1))) == raws


OUTCOMES = {
    "acknowledge": lambda pool: working.acknowledge(pool, ENTRY),
    "retry": lambda pool: working.postpone(pool, ENTRY, pool.keys.retry, b"new", 1),
    "reschedule": lambda pool: working.postpone(pool, ENTRY, pool.keys.schedule, b"new", 1),
    "bury": lambda pool: working.bury(pool, ENTRY, b"new", DeadSetLimits()),
    "put back": lambda pool: working.put_back(pool, [(ENTRY, b"new")])[0],
}


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_is_void_when_the_job_is_no_longer_in_its_list(pool, raw_redis, outcome):
    """Somebody else owns it: no retry, no dead entry, nothing (rule 4)."""
    raw_redis.lpush(LIST, "another job")
    before = snapshot(raw_redis)
    assert OUTCOMES[outcome](pool) is False
    assert snapshot(raw_redis) == before


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_an_outcome_of_a_fenced_owner_is_refused(pool, raw_redis, claimed, fenced, outcome):
    """Also when its entry has not been moved yet (rule 2)."""
    before = snapshot(raw_redis)
    with pytest.raises(Fenced):
        OUTCOMES[outcome](pool)
    assert snapshot(raw_redis) == before


@pytest.mark.parametrize(
    "outcome, destination",
    [("retry", "retry"), ("reschedule", "schedule"), ("bury", "dead"), ("put back", "queue:low")],
)
def test_nothing_is_lost_when_the_destination_is_of_the_wrong_type(pool, raw_redis, claimed, outcome, destination):
    """Redis does not roll back, so a job removed first would be lost (rule 3)."""
    raw_redis.set(destination, "wrong")
    before = snapshot(raw_redis)
    with pytest.raises(RedisRefused) as refused:
        OUTCOMES[outcome](pool)
    assert refused.value.code == "WRONGTYPE"
    assert snapshot(raw_redis) == before


def test_a_queue_that_refuses_its_job_does_not_block_other_requeues(pool, raw_redis):
    high, low = PrivateListEntry(ME, "high", b"h"), PrivateListEntry(ME, "low", b"l")
    raw_redis.lpush("offsider:working:host:1:aaaaaaaaaaaa:default:high", "h")
    raw_redis.lpush(LIST, "l")
    raw_redis.set("queue:high", "wrong")
    with pytest.raises(RedisRefused, match="queue:high is not a list"):
        working.put_back(pool, [(high, b"h"), (low, b"l")])
    assert snapshot(raw_redis) == {
        "offsider:working:host:1:aaaaaaaaaaaa:default:high": [b"h"],
        "queue:high": b"wrong",
        "queue:low": [b"l"],
        "queues": {b"low"},
    }


def test_a_set_of_queues_of_the_wrong_type_does_not_stop_a_job(pool, raw_redis, claimed):
    raw_redis.set("queues", "wrong")
    assert working.put_back(pool, [(ENTRY, b"job")]) == [True]
    assert raw_redis.lrange("queue:low", 0, -1) == [b"job"]


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_two_jobs_of_equal_bytes_are_two_jobs(pool, raw_redis, outcome):
    raw_redis.lpush(LIST, "job", "job")
    assert OUTCOMES[outcome](pool) is True
    assert raw_redis.lrange(LIST, 0, -1) == [b"job"]
    assert OUTCOMES[outcome](pool) is True
    assert OUTCOMES[outcome](pool) is False


# ------------------------------------------------------------------------------------ looking


def test_equal_jobs_of_a_list_are_counted(pool, raw_redis):
    raw_redis.lpush(LIST, "a", "b", "a")
    assert working.copies(pool, PrivateListEntry(ME, "low", b"a")) == 2
    assert working.copies(pool, PrivateListEntry(ME, "low", b"z")) == 0


def test_a_queue_of_the_wrong_type_is_named(pool, raw_redis):
    raw_redis.set("queue:wrong", "x")
    with pytest.raises(RedisRefused, match=r"WRONGTYPE .*\(\S*queue:wrong\)"):
        working.claim(pool, ME, ["wrong", "low"], 1)


# ----------------------------------------------------------------------------------- put last


def test_the_owner_moves_a_job_to_the_tail_byte_for_byte(pool, raw_redis, claimed):
    raw_redis.lpush("queue:low", "waiting")
    assert working.put_last(pool, ENTRY)
    assert snapshot(raw_redis) == {"queue:low": [b"job", b"waiting"], "queues": {b"low"}}
    assert not working.put_last(pool, ENTRY), "it is gone"
    assert raw_redis.llen("queue:low") == 2


def test_a_job_stays_in_its_list_when_the_far_end_refuses_it(pool, raw_redis, claimed):
    raw_redis.set("queue:low", "wrong")
    before = snapshot(raw_redis)
    with pytest.raises(RedisRefused):
        working.put_last(pool, ENTRY)
    assert snapshot(raw_redis) == before


def test_a_fenced_owner_moves_nothing_to_the_tail(pool, raw_redis, claimed, fenced):
    before = snapshot(raw_redis)
    with pytest.raises(Fenced):
        working.put_last(pool, ENTRY)
    assert snapshot(raw_redis) == before
