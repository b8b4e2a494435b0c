"""One script moves jobs between places: found first, written to the destination, removed from their place last."""

from __future__ import annotations

import pytest

from offsider.storage import places, quarantine
from offsider.storage.places import NOWHERE, QUEUES, Move, MoveResult, MoveTarget, Place, PlacedJob, dead_set, move
from offsider.storage.working import DeadSetLimits
from tests.snapshot import snapshot

DONE, GONE, REFUSED = MoveResult.DONE, MoveResult.GONE, MoveResult.REFUSED
FUTURE = 9e9
DEAD = dead_set(DeadSetLimits())


def stock(raw_redis, count=10):
    raw_redis.lpush("queue:low", *(b"job %d" % number for number in range(count)))


def waiting(raw_redis, queue="low"):
    return raw_redis.lrange(f"queue:{queue}", 0, -1)[::-1]


def take(pool, *seen, to=NOWHERE):
    moves = [Move(b"job %d" % number, b"job %d" % number, "high", at) for number, at in seen]
    return move(pool, "queue:low", moves, to)


# ------------------------------------------------------------------------------------ out of a set


def test_a_due_job_moves_to_the_tail_of_its_queue(pool, raw_redis):
    raw_redis.zadd("retry", {"old": 1.0, "other": 2.0})
    raw_redis.lpush("queue:low", "waiting")
    assert move(pool, "retry", [Move(b"old", b"new", "low")], QUEUES, only_due=True) == [DONE]
    assert snapshot(raw_redis) == {"queues": {b"low"}, "queue:low": [b"new", b"waiting"], "retry": {b"other": 2.0}}


def test_a_job_moves_before_its_time_by_hand_and_a_batch_keeps_its_order(pool, raw_redis):
    raw_redis.zadd("schedule", {f"{n}": FUTURE + n for n in range(100)})
    moves = [Move(b"%d" % n, b"%d" % n, "low") for n in range(100)]
    raw_redis.script_flush()
    assert set(move(pool, "schedule", moves, QUEUES)) == {DONE}
    assert [int(raw) for raw in waiting(raw_redis)] == [*range(100)]


@pytest.mark.parametrize(
    "to, key",
    [
        (QUEUES, "queue:low"),
        (DEAD, "dead"),
        (quarantine.for_days(1), "offsider:quarantine:jobs"),
        (quarantine.for_days(1), "offsider:quarantine"),
        (MoveTarget("set", "retry"), "retry"),
        (MoveTarget("list", "bulk"), "offsider:in-transit:bulk"),
    ],
    ids=str,
)
@pytest.mark.parametrize("place", ["schedule", "queue:from"])
def test_a_destination_of_the_wrong_type_takes_no_job(pool, raw_redis, place, to, key):
    raw_redis.set(key, "wrong")
    raw_redis.zadd("schedule", {"job": 1})
    raw_redis.lpush("queue:from", "job")
    assert move(pool, place, [Move(b"job", b"x", "5" if to.kind == "set" else "low")], to) == [REFUSED]
    assert (raw_redis.zrange("schedule", 0, -1), raw_redis.lrange("queue:from", 0, -1)) == ([b"job"], [b"job"])


def test_a_refused_job_does_not_block_the_others(pool, raw_redis):
    raw_redis.set("queue:bad", "wrong")
    raw_redis.set("queues", "wrong")
    raw_redis.zadd("schedule", {"a": 1, "b": 2, "c": 3})
    moves = [Move(b"a", b"a", "low"), Move(b"b", b"b", "bad"), Move(b"c", b"c", "low")]
    assert move(pool, "schedule", moves, QUEUES, only_due=True) == [DONE, REFUSED, DONE]
    assert waiting(raw_redis) == [b"a", b"c"]
    assert raw_redis.zrange("schedule", 0, -1) == [b"b"]


# ----------------------------------------------------------------------------------- out of a list


def test_jobs_leave_a_queue_from_where_they_were_seen(pool, raw_redis):
    stock(raw_redis)
    assert take(pool, (0, 0), (4, 4), (9, 9)) == [DONE] * 3
    assert waiting(raw_redis) == [b"job %d" % n for n in (1, 2, 3, 5, 6, 7, 8)]
    assert set(snapshot(raw_redis)) == {"queue:low"}


def test_jobs_of_the_far_end_leave_from_there(pool, raw_redis):
    stock(raw_redis, 1_000)
    assert take(pool, (990, 990), (999, 999), to=QUEUES) == [DONE] * 2
    assert waiting(raw_redis, "high") == [b"job 990", b"job 999"]
    assert len(waiting(raw_redis)) == 998


def test_jobs_are_found_even_if_workers_claimed_others(pool, raw_redis):
    stock(raw_redis, 500)
    raw_redis.rpop("queue:low", 100)
    assert take(pool, (50, 50), (150, 150), (151, 151), (499, 499)) == [GONE, DONE, DONE, DONE]
    assert len(waiting(raw_redis)) == 397


def test_a_job_that_moved_far_is_left_alone(pool, raw_redis):
    stock(raw_redis, 3_000)
    raw_redis.rpop("queue:low", 1_500)
    assert take(pool, (1_600, 1_600)) == [GONE]
    assert len(waiting(raw_redis)) == 1_500


def test_the_search_ends_after_three_missing_jobs(pool, raw_redis):
    stock(raw_redis)
    gone = [(90 + number, number) for number in range(3)]
    assert take(pool, *gone, (3, 5)) == [GONE] * 4
    assert take(pool, *gone, (3, 3)) == [GONE] * 3 + [DONE]


def test_equal_jobs_each_move_once(pool, raw_redis):
    raw_redis.lpush("queue:low", "a", "b", "a", "a")
    seen = [Move(b"a", position=0), Move(b"a", position=0), Move(b"a", position=3)]
    assert move(pool, "queue:low", seen, NOWHERE) == [DONE, GONE, DONE]
    assert waiting(raw_redis) == [b"b", b"a"]


def test_a_position_out_of_range_finds_the_nearest_job(pool, raw_redis):
    stock(raw_redis, 3)
    assert take(pool, (2, 900)) == [DONE]
    assert take(pool, (5, 5)) == [GONE]
    assert waiting(raw_redis) == [b"job 0", b"job 1"]


# ------------------------------------------------------------------------------------------ walks


def test_a_walk_meets_every_place_in_the_order_in_which_jobs_move(pool, raw_redis):
    raw_redis.hset("offsider:owners", "host:1:abc", '{"default": ["low"]}')
    raw_redis.lpush("offsider:working:host:1:abc:default:low", "running")
    raw_redis.zadd("schedule", {"scheduled": 1})
    raw_redis.zadd("retry", {"retried": 2})
    raw_redis.sadd("offsider:in-transit", "bulk")
    raw_redis.lpush("offsider:in-transit:bulk", b"hop low\nin transit")
    raw_redis.sadd("queues", "low")
    raw_redis.lpush("queue:low", "waiting", "quarantined")
    held = pool.keys.prefix + "offsider:limits:jobs:A"
    raw_redis.sadd("offsider:places", held)
    raw_redis.lpush(held, "held")
    raw_redis.zadd("dead", {"dead": 3})
    aside = quarantine.move_of(PlacedJob(b"quarantined", 1), "queue:low", at=5.0, how="test")
    assert move(pool, "queue:low", [aside], quarantine.for_days(1)) == [DONE]
    met = [job.raw.decode() for place in places.every(pool) for job in place.each()]
    expected = "running scheduled retried in transit waiting held running dead quarantined"
    assert " ".join(met) == expected


def test_a_quarantined_job_that_another_process_has_just_removed_is_left_out(pool, raw_redis):
    raw_redis.lpush("queue:low", "first", "second")
    for number, raw in enumerate((b"first", b"second")):
        aside = quarantine.move_of(PlacedJob(raw, 1), "queue:low", at=5.0 + number, how="test")
        assert move(pool, "queue:low", [aside], quarantine.for_days(1)) == [DONE]
    (identifier, *_) = raw_redis.hkeys("offsider:quarantine:jobs")
    raw_redis.hdel("offsider:quarantine:jobs", identifier)
    (place,) = [place for place in places.every(pool) if place.name == "quarantine"]
    assert len(list(place.each())) == 1


def test_a_private_list_is_read_only(pool, raw_redis):
    raw_redis.hset("offsider:owners", "host:1:abc", '{"default": ["low"]}')
    (private,) = places.private_lists(pool)
    with pytest.raises(RuntimeError, match="private list"):
        private.move([Move(b"job")], NOWHERE)


@pytest.mark.parametrize("name", ["queue:low", "retry", "quarantine"])
def test_repeated_reads_reach_every_job(pool, raw_redis, name):
    raws = [b"job %d" % number for number in range(1_000)]
    raw_redis.lpush("queue:low", *raws)
    raw_redis.zadd("retry", dict.fromkeys(raws, 5.0))
    aside = [quarantine.move_of(PlacedJob(raw, score=5.0), "retry", at=5.0, how="") for raw in raws]
    if name == "quarantine":
        move(pool, "retry", aside, quarantine.for_days(1))
    place = Place(pool, name)
    assert len(place) == 1_000
    assert sorted({job.raw for job in place.each()}) == sorted(raws)
    assert place.read("no cursor", 10).jobs


# ---------------------------------------------------------------------------------- samples


def sample_of(pool, *names, each=2):
    return places.sample(pool, [Place(pool, name) for name in names], each=each)


def test_a_sample_has_both_ends_of_each_place(pool, raw_redis):
    raw_redis.rpush("queue:long", *range(10))
    raw_redis.rpush("queue:short", 1, 2, 3)
    raw_redis.zadd("retry", {f"r{n}": n for n in range(10)})
    raw_redis.set("schedule", "no set")
    assert sample_of(pool, "queue:long", "queue:short", "queue:none", "retry", "schedule") == {
        "queue:long": [b"0", b"1", b"8", b"9"],
        "queue:short": [b"1", b"2", b"3"],
        "queue:none": [],
        "retry": [b"r0", b"r1", b"r8", b"r9"],
        "schedule": [],
    }


def test_a_sample_of_thousands_of_places_reads_the_first_of_them(pool, raw_redis):
    raw_redis.rpush("queue:1", "a")
    raw_redis.rpush("queue:4999", "b")
    found = sample_of(pool, *(f"queue:{number}" for number in range(5_000)))
    assert len(found) == places.MAX_SAMPLED_PLACES
    assert found["queue:1"] == [b"a"]
    assert "queue:4999" not in found


def test_fewer_large_jobs_are_sampled_but_one_of_each_end(pool, raw_redis, monkeypatch):
    monkeypatch.setattr(places, "MAX_SAMPLED_BYTES", 50_000)
    for name, size in (("huge", 100_000), ("large", 10_000), ("small", 1)):
        raw_redis.rpush(f"queue:{name}", *(f"{number}" + "x" * size for number in range(20)))
    found = sample_of(pool, "queue:huge", "queue:large", "queue:small", each=10)
    assert [raw.rstrip(b"x") for raw in found["queue:huge"]] == [b"0", b"19"]
    assert 2 < len(found["queue:large"]) <= 10
    assert len(found["queue:small"]) == 20
