"""Walking through a queue that workers take jobs from, that others push to, and that jobs are deleted from."""

from __future__ import annotations

import pytest
from hypothesis import given, settings, strategies as st

from offsider.storage.queue_walk import Position, read_on


def name(number: int) -> bytes:
    return b"job %05d" % number


def stock(raw_redis, count: int) -> None:
    """Number 0 runs next."""
    raw_redis.lpush("queue:low", *(name(number) for number in range(count)))


def steps(pool, count: int, place: Position = Position()):  # noqa: B008 - it is frozen
    """The walk, page by page; the caller may change the queue before it requests the next page."""
    while True:
        start, raws = read_on(pool, pool.keys.queue("low"), place, count)
        if not raws:
            return
        yield start, raws
        place = Position.read(place.after(start + len(raws), raws).written)


@pytest.mark.parametrize("count", [1, 7, 100, 400])
def test_every_job_is_returned_once_starting_with_the_next_one(pool, raw_redis, count):
    stock(raw_redis, 305)
    pages = list(steps(pool, count))
    assert [raw for _, raws in pages for raw in raws] == [name(number) for number in range(305)]
    assert all(name(start) == raws[0] for start, raws in pages)
    assert all(len(raws) <= count for _, raws in pages)


@pytest.mark.parametrize("taken", [1, 10, 11, 150, 299])
def test_workers_that_take_jobs_make_no_job_be_missed(pool, raw_redis, taken):
    stock(raw_redis, 2_000)
    seen = []
    for _, raws in steps(pool, 300):
        seen += raws
        raw_redis.rpop("queue:low", taken)
    left = raw_redis.lrange("queue:low", 0, -1)
    assert set(left) <= set(seen)
    assert len(seen) == len(set(seen))


def test_after_many_claims_the_walk_resumes_at_its_position(pool, raw_redis):
    stock(raw_redis, 6_000)
    walk = steps(pool, 5_000)
    next(walk)
    raw_redis.rpop("queue:low", 4_000)
    start, raws = next(walk)
    assert (start, raws[0]) == (1_000, name(5_000))


def test_if_all_visited_jobs_are_claimed_it_resumes_with_the_rest(pool, raw_redis):
    stock(raw_redis, 1_000)
    walk = steps(pool, 500)
    next(walk)
    raw_redis.rpop("queue:low", 700)
    start, raws = next(walk)
    assert (start, raws[0]) == (0, name(700))


def test_jobs_requeued_at_the_head_do_not_restart_the_walk(pool, raw_redis):
    stock(raw_redis, 1_000)
    walk = steps(pool, 500)
    next(walk)
    raw_redis.rpush("queue:low", *(b"given back %d" % number for number in range(20)))
    start, raws = next(walk)
    assert (start, raws[0]) == (520, name(500))


def test_a_place_is_text_and_back(pool, raw_redis):
    stock(raw_redis, 100)
    _, raws = read_on(pool, pool.keys.queue("low"), Position(), 50)
    place = Position().after(50, raws)
    assert Position.read(place.written) == place
    assert len(place.written) < 300
    for _ in range(5):
        place = place.after(50, raws)
    assert len(place.written) < 300


@pytest.mark.parametrize("written", ["", "x", "-1", "5-zz", "9" * 16, "5-" + "a" * 13, "1" + "-" + "0" * 12 + "\n"])
def test_an_invalid_cursor_means_the_beginning(written):
    assert Position.read(written) == Position()


@st.composite
def histories(draw):
    """Jobs at the start, the page size, and the changes before each page."""
    change = st.one_of(
        st.tuples(st.just("push"), st.integers(1, 30)),
        st.tuples(st.just("take"), st.integers(1, 30)),
        st.tuples(st.just("give back"), st.integers(1, 3)),
        st.tuples(st.just("delete"), st.integers(0, 200)),
    )
    changes = st.lists(st.lists(change, max_size=4), max_size=12)
    return draw(st.integers(0, 200)), draw(st.integers(1, 60)), draw(changes)


@settings(max_examples=40, deadline=None)
@given(histories())
def test_a_job_that_stays_all_the_time_is_seen(embedded_pool, history):
    """After any pushes, claims, requeues and deletions, nothing raises and no job is missed."""
    size, count, changes = history
    client = embedded_pool
    client.call("FLUSHALL")
    key = client.keys.queue("low")
    if size:
        client.call("LPUSH", key, *(name(number) for number in range(size)))
    stayed, seen, pushed = {name(number) for number in range(size)}, set(), size
    walk = steps(client, count)
    for _ in range(1_000):
        _, raws = next(walk, (0, []))
        seen.update(raws)
        for how, number in changes.pop(0) if changes else ():
            if how == "push":
                client.call("LPUSH", key, *(name(pushed + new) for new in range(number)))
                pushed += number
            elif how == "take":
                stayed -= set(client.call("RPOP", key, number) or ())
            elif how == "give back":
                client.call("RPUSH", key, *(b"back %d %d" % (pushed, new) for new in range(number)))
            else:
                client.call("LREM", key, 1, name(number))
                stayed.discard(name(number))
        if not raws:
            break
    assert stayed <= seen
    assert not raws


@pytest.fixture(scope="module")
def embedded_pool(tmp_path_factory):
    """A server of its own for many examples."""
    from offsider.embedded import EmbeddedServer
    from offsider.storage.redis import Redis, RedisSettings

    with EmbeddedServer(tmp_path_factory.mktemp("walk")) as server:
        pool = Redis(RedisSettings(url=server.url), size=1)
        yield pool
        pool.close()
