"""`throttle` and `debounce`: fewer runs of a job that is pushed again and again."""

import asyncio
import time
from datetime import timedelta

import pytest

from offsider import Client, job
from offsider.core.errors import InvalidOptions
from offsider.core.payload import decode
from offsider.ext.results import Results
from offsider.ext.unique import Locks, unique_by
from offsider.inspector import Queue, ScheduledSet
from offsider.testing.running_worker import RunningWorker
from tests.waiting import wait_for


@pytest.fixture
def jobs(declared, client):
    @job(name="Throttled", throttle=timedelta(seconds=60))
    def throttled(number: int, note: str = "") -> None: ...

    @job(name="Debounced", debounce=60)
    def debounced(text: str) -> None: ...

    @job(name="Tenant", debounce=60)
    @unique_by(lambda tenant, text: tenant)
    def by_tenant(tenant: int, text: str) -> None: ...

    return throttled.via(client), debounced.via(client), by_tenant.via(client)


def waiting(config):
    """Arguments and due time of the scheduled jobs."""
    return [(entry.payload["args"], entry.score) for entry in ScheduledSet(config)]


def test_a_throttled_job_is_dropped_until_the_time_is_over(config, client, jobs, redis):
    throttled, _, _ = jobs
    assert throttled.enqueue(1)
    assert not throttled.enqueue(1)
    assert throttled.enqueue(2)  # other arguments
    assert throttled.using(throttle=False).enqueue(1)
    assert not client.push_bulk({"class": "Throttled", "args": [[3], [3]], "throttle": 60})[1]
    locks = redis.call("KEYS", f"{redis.keys.prefix}offsider:throttle:*")
    assert len(locks) == 3
    for lock in locks:
        assert 50_000 < redis.call("PTTL", lock) <= 60_000
        redis.call("DEL", lock)
    assert throttled.enqueue(1)
    assert len(Queue("default", config)) == 5


def test_a_run_does_not_end_the_throttle(config, jobs):
    throttled, _, _ = jobs
    throttled.enqueue(1)
    with RunningWorker(config) as running:
        running.wait()
    assert len(Queue("default", config)) == 0
    assert not throttled.enqueue(1)
    assert list(Locks(config)) == []  # only locks that operators may free


def test_the_last_of_several_pushes_runs_after_a_quiet_time(config, jobs, redis):
    _, debounced, _ = jobs
    first, second = debounced.enqueue("a"), debounced.enqueue("b")
    assert first != second
    assert first
    before = time.time()

    async def push():
        client = Client(config)
        await client.apush({"class": "Debounced", "args": ["c"], "debounce": 60})
        client.close()

    asyncio.run(push())
    ((args, due),) = waiting(config)
    assert args == ["c"]
    assert before + 59 < due < time.time() + 61
    assert b"idempotency_key" not in redis.call("ZRANGE", redis.keys.schedule, 0, -1)[0]
    debounced.using(debounce=False).enqueue("now")
    (job_now,) = Queue("default", config)
    assert job_now.payload["args"] == ["now"]
    debounced.enqueue_many([("d",), ("e",)])
    assert [args for args, _ in waiting(config)] == [["e"]]


def test_each_value_of_unique_by_is_debounced_alone(config, jobs):
    _, _, by_tenant = jobs
    for tenant, text in [(1, "a"), (2, "b"), (1, "c")]:
        by_tenant.enqueue(tenant, text)
    assert sorted(args for args, _ in waiting(config)) == [[1, "c"], [2, "b"]]


def test_a_job_that_has_moved_to_its_queue_is_not_replaced(config, jobs):
    _, debounced, _ = jobs
    debounced.enqueue("a")
    ScheduledSet(config).enqueue_all()
    debounced.enqueue("b")
    assert [entry.payload["args"] for entry in Queue("default", config)] == [["a"]]
    assert [args for args, _ in waiting(config)] == [["b"]]


def test_a_replaced_job_is_reported_and_has_a_state(config, jobs):
    config.use(Results(track=True))
    removed = []
    config.on("job_removed", removed.append)
    _, debounced, _ = jobs
    first = debounced.enqueue("a")
    second = debounced.enqueue("b")
    (news,) = removed
    assert (decode(news.raw)["jid"], news.where, news.how) == (first, "schedule", "debounce")
    wait_for(lambda: first.status() == "discarded")
    assert second.status() == "scheduled"


def test_a_debounced_push_that_is_repeated_after_a_lost_reply_is_stored_once(config, client, jobs):
    push = {
        "class": "Debounced",
        "args": ["a"],
        "debounce": 60,
        "jid": "a" * 24,
        "created_at": 1,
        "at": time.time() + 60,
    }
    removed = []
    config.on("job_removed", removed.append)
    client.push(dict(push))
    client.push(dict(push))
    assert (len(waiting(config)), removed) == (1, [])


def test_a_full_server_keeps_the_waiting_job(config, jobs, redis):
    _, debounced, _ = jobs
    debounced.enqueue("a")
    redis.call("CONFIG", "SET", "maxmemory", 1)
    try:
        with pytest.raises(Exception, match=r"OOM|memory"):
            debounced.enqueue("b")
    finally:
        redis.call("CONFIG", "SET", "maxmemory", 0)
    assert [args for args, _ in waiting(config)] == [["a"]]


@pytest.mark.parametrize(
    "options, why",
    [
        ({"throttle": 5, "debounce": 5}, "throttle and debounce exclude each other"),
        ({"debounce": 5, "unique_for": 5}, "debounce and unique_for exclude each other"),
        ({"throttle": 5, "unique_until": "until_executed"}, "throttle and unique_until exclude each other"),
        ({"throttle": "soon"}, "throttle.*positive number of seconds"),
        ({"debounce": -1}, "debounce.*positive number of seconds"),
    ],
)
def test_options_that_do_not_fit_are_refused(client, declared, options, why):
    with pytest.raises(InvalidOptions, match=why):
        client.push({"class": "X", "args": [], **options})
