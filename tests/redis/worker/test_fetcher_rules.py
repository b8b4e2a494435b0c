"""The rules of fetching (15 to 19), each on threads that run jobs, with interfering servers and clients."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import redis as redis_py

from offsider import current_job
from offsider.core.errors import RedisUnavailable
from offsider.core.outcome import Succeeded
from offsider.jobs import registry
from offsider.runtime import outage
from offsider.storage import working
from offsider.storage.effects import Effect
from offsider.storage.scripts import Script
from offsider.worker.disposition import Done
from offsider.worker.fetch import reliable
from offsider.worker.fetch.line import PrefetchSize
from offsider.worker.fetch.reliable import ReliableFetcher
from offsider.worker.unit_of_work import Run, UnitOfWork
from tests.redis.worker.capsule_threads import CapsuleThreads, Work, payload, push
from tests.redis.worker.conftest import Parts, make_config
from tests.waiting import wait_for

#: On a busy machine, steps of a few milliseconds may take this long.
#: A thread may wait for its turn so long; a blocking pop takes longer.
SOON_SECONDS = 12.0
NOTHING = Script("nothing", source="#!lua flags=allow-oom\nreturn 0\n")


@pytest.fixture(autouse=True)
def short_delays(monkeypatch):
    """Retries immediately after an outage; the tests wait for conditions."""
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)


@pytest.fixture
def work():
    with registry.isolated():
        work = Work()
        work.declare()
        yield work


@pytest.fixture
def make_capsule(redis_url, work, make_server):  # servers end after their capsules
    capsules: list[CapsuleThreads] = []

    def make(url: str = redis_url, *, ack: str = "merged", **options) -> CapsuleThreads:
        config = make_config(url)
        config.worker.ack = ack
        capsules.append(CapsuleThreads(config, **options))
        return capsules[-1]

    yield make
    for capsule in capsules:
        capsule.stop()


@pytest.fixture
def event():
    """What a job waits for; set at the end of the test in any case."""
    event = threading.Event()
    yield event
    event.set()


def at_once(client, *pushes) -> None:
    """Several pushes in one transaction: each blocking pop that they concern gets a job."""
    with client.pipeline(transaction=True) as together:
        for numbers, queue in pushes:
            push(together, *numbers, queue=queue)
        together.execute()


def blocked(client) -> int:
    return client.info("clients")["blocked_clients"]


def exchanges(client) -> int:
    return client.info("commandstats").get("cmdstat_evalsha", {}).get("calls", 0)


# --------------------------------------------------------------------------------- rule 15: blocking pops


def test_a_job_that_a_pop_of_a_less_important_queue_moves_waits_for_the_important_ones(make_capsule, work, raw_redis):
    """`low` was popped while `high` holds 99."""
    capsule = make_capsule(queues=("high", "low")).start()
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 2)
    at_once(raw_redis, ([1000], "low"), (range(99), "high"))
    wait_for(lambda: len(work.runs) == 100)
    assert work.numbers == [*range(99), 1000]


def test_jobs_fetched_beyond_the_free_threads_are_taken_by_another_process(make_capsule, work, event, raw_redis):
    busy = make_capsule(queues=("high", "low")).start()
    wait_for(lambda: busy.idle and blocked(raw_redis) == 2)
    work.does[1] = event.wait
    at_once(raw_redis, ([2], "low"), ([1], "high"))
    wait_for(lambda: raw_redis.lrange("queue:low", 0, -1) == [payload(2)], what="it goes back while the other runs")
    assert busy.private(raw_redis) == [payload(1)]
    make_capsule(queues=("high", "low")).start()
    wait_for(lambda: work.numbers == [1, 2])


def test_a_push_wakes_one_of_two_idle_processes_within_milliseconds(make_capsule, work, raw_redis):
    """Any client's plain LPUSH is enough, and the other process does not stir."""
    first, second = make_capsule().start(), make_capsule().start()
    latencies = []
    for number in range(5):
        wait_for(lambda: first.idle and second.idle and blocked(raw_redis) == 2)
        before = [capsule.fetcher.last_activity_at for capsule in (first, second)]
        pushed_at = time.monotonic()
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) > number)
        latencies.append(work.runs[-1].at - pushed_at)
        active = [capsule.fetcher.last_activity_at > was for capsule, was in zip((first, second), before, strict=True)]
        assert sorted(active) == [False, True]
    print(f"from push to start: {min(latencies) * 1000:.1f} to {max(latencies) * 1000:.1f} ms")
    assert min(latencies) < 0.05


# ------------------------------------------------------------------------------ rule 16: refusals


def test_a_full_server_is_drained_and_served_again(make_server, make_capsule, work):
    server = make_server(kind="valkey")
    with redis_py.Redis.from_url(server.url) as client:
        push(client, *range(20))
        client.config_set("maxmemory", 1)
        capsule = make_capsule(server.url, concurrency=2).start()
        wait_for(lambda: len(work.runs) == 20)
        wait_for(lambda: capsule.counted() == 20 and capsule.private(client) == [])
        client.config_set("maxmemory", 0)
        push(client, 20)
        wait_for(lambda: len(work.runs) == 21)
        wait_for(lambda: blocked(client) == 1, what="it blocks again")
    assert sorted(work.numbers) == list(range(21))


# -------------------------------------------------------------------------------- rule 17: pauses


@pytest.mark.parametrize("known", ["paused", "too old"])
def test_a_job_popped_from_a_paused_queue_is_requeued_unrun(make_capsule, work, raw_redis, known):
    """Sidekiq Pro's pages, in Ruby, write the same set."""
    capsule = make_capsule(concurrency=2).start()
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 1)
    raw_redis.sadd("paused", "default")
    controls = capsule.parts.context.controls
    if known == "paused":
        controls.paused = frozenset({"default"})
    else:
        controls.read_at = -math.inf
    push(raw_redis, 1)
    wait_for(lambda: raw_redis.lrange("queue:default", 0, -1) == [payload(1)] and capsule.private(raw_redis) == [])
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 0, what="nobody waits at a paused queue")
    assert work.runs == []
    controls.paused = frozenset({"default"})
    raw_redis.srem("paused", "default")
    capsule.read_controls()
    wait_for(lambda: work.numbers == [1])


def test_a_pause_that_the_process_has_read_ends_the_pop(make_capsule, work, raw_redis):
    capsule = make_capsule().start()
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 1)
    raw_redis.sadd("paused", "default")
    capsule.read_controls()
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 0)
    push(raw_redis, 1)
    raw_redis.srem("paused", "default")
    capsule.read_controls()
    wait_for(lambda: work.numbers == [1])


def test_a_popped_job_starts_without_another_round_trip(make_capsule, work, raw_redis):
    capsule = make_capsule().start()
    wait_for(lambda: capsule.idle and blocked(raw_redis) == 1)
    before = exchanges(raw_redis)
    during: list[int] = []
    work.does[1] = lambda: during.append(exchanges(raw_redis) - before)
    push(raw_redis, 1)
    wait_for(lambda: during)
    assert during == [0]


# ------------------------------------------------------------------------ rules 18, 19: outcomes


@pytest.mark.parametrize("seconds", [0.0, 0.003], ids=["shorter than a millisecond", "longer"])
def test_no_acknowledgement_waits_for_a_sleeping_leader(make_capsule, work, raw_redis, seconds):
    capsule = make_capsule(concurrency=3).start()
    for number in range(5):
        work.does[number] = partial(time.sleep, seconds)
        wait_for(lambda: capsule.idle and blocked(raw_redis) == 1)
        push(raw_redis, number)
        wait_for(lambda number=number: capsule.counted() == number + 1, SOON_SECONDS, "acknowledged and told")
        assert capsule.private(raw_redis) == []


@pytest.mark.parametrize("lost", [False, True], ids=["", "reply lost"])
def test_the_last_short_job_of_a_busy_thread_is_acknowledged_within_a_tick(
    make_capsule, work, event, proxy, raw_redis, *, lost
):
    """The thread continues with a long job, and no other thread exists, so the ticker also compares the lists."""
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    capsule = make_capsule(proxy.url)
    capsule.fetcher._line.claims.prefetch = FarAhead(1)
    work.does = {1: event.wait}
    if lost:
        work.does[0] = lambda: proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
    push(raw_redis, 0, 1)
    capsule.start()
    wait_for(lambda: work.numbers == [0, 1])
    wait_for(lambda: capsule.private(raw_redis) == [payload(1)], SOON_SECONDS)
    wait_for(lambda: capsule.counted() == 1, SOON_SECONDS)


@pytest.mark.parametrize("ack, effects", [("merged", ((), None)), ("merged", (None, ())), ("each", None)])
def test_an_acknowledgement_with_effects_is_written_before_its_thread_starts_another_job(
    make_capsule, work, raw_redis, ack, effects
):
    """With `each`, any acknowledgement is. One with a shared effect is unless its job is shorter than a millisecond."""
    left_over = []

    def look(number: int) -> None:
        raw_redis.ping()  # this reply proves that all earlier writes were executed
        left_over.extend(set(capsule.private(raw_redis)) & {payload(done) for done in range(number)})
        if effects:
            arguments, common = effects
            current_job().effects = (Effect(NOTHING, ["a"], arguments, None, common),)
            time.sleep(0.001)

    work.does = {number: partial(look, number) for number in range(30)}
    push(raw_redis, *range(30))
    capsule = make_capsule(ack=ack)
    capsule.fetcher._line.claims.prefetch = FarAhead(20)  # no claim has to acknowledge the last job
    capsule.start()
    wait_for(lambda: len(work.runs) == 30)
    assert left_over == []


def test_a_job_of_100_ms_is_acknowledged_at_once_by_another_thread(unwatched, raw_redis, monkeypatch):
    push(raw_redis, 0, 1)
    first, second = unwatched.retrieve(), unwatched.retrieve()
    flushed = []
    monkeypatch.setattr(unwatched._ticker, "flush", lambda: flushed.append(True))
    finish(unwatched, first, seconds=0.099)
    assert flushed == []
    finish(unwatched, second, seconds=0.1)
    assert flushed == [True]
    assert list(unwatched._unacknowledged.unsent), "the thread did not write it"
    unwatched._ticker._flush = True
    unwatched._ticker.tick()
    assert not unwatched._unacknowledged.unsent


class FakeClock:
    """Monotonic seconds that a test moves."""

    def __init__(self) -> None:
        self.seconds = 1000.0
        self.step_seconds = 0.0

    def __call__(self) -> float:
        self.seconds += self.step_seconds
        return self.seconds


def finish(fetcher: ReliableFetcher, unit: UnitOfWork, *, seconds: float = 0.0) -> None:
    unit.run = Run(None, Succeeded(), 0.0, seconds, 0.0)
    fetcher.settle(unit, Done())


@pytest.mark.parametrize(
    "function, requests",
    [
        ("ack_and_claim_call", ["acknowledge"]),
        ("ack_and_claim_call", ["ask"]),
        ("parse_reply", ["acknowledge"]),
        ("parse_reply", ["ask", "collect"]),
    ],
)
def test_an_error_between_request_and_reply_loses_no_finished_job(
    unwatched, raw_redis, monkeypatch, function, requests
):
    push(raw_redis, 0)
    finish(unwatched, unwatched.retrieve())
    with monkeypatch.context() as patched:
        patched.setattr(working, function, no_memory)
        *before, last = requests
        for request in before:
            getattr(unwatched._line, request)()
        with pytest.raises(MemoryError):
            getattr(unwatched._line, last)()
    assert not unwatched.wait_written(0)
    assert unwatched._leading.flush()
    assert unwatched.wait_written(0)
    assert not unwatched._unacknowledged.are_late
    assert not unwatched._state.in_flight
    assert not raw_redis.keys("offsider:working:*")
    assert not unwatched._line.collect(), "another thread's failure may have dropped the last reply"


def test_no_job_starts_while_an_acknowledgement_has_failed_or_has_no_reply(unwatched, raw_redis):
    clock, unacknowledged = FakeClock(), unwatched._unacknowledged
    unacknowledged.clock = clock
    push(raw_redis, 0, 1)
    finish(unwatched, unwatched.retrieve())
    unwatched._line.ask()
    clock.seconds += 0.05 + 2 * unacknowledged.round_trip_seconds
    assert unacknowledged.are_late
    unwatched._line.collect_all()
    assert not unacknowledged.are_late
    finish(unwatched, unwatched.retrieve())
    unwatched._leading.attempt(refused)
    assert not unwatched._leading.flush()
    assert unacknowledged.are_late
    clock.seconds += 1
    assert unwatched._ticker.tick() == reliable.TICK_SECONDS, "not more often during an outage"
    unwatched._context.abandoned.set()
    unwatched.give_back([])  # the last step of a stop
    assert unwatched.wait_written(0)


def no_memory(*_, **__) -> None:
    raise MemoryError


def refused() -> None:
    raise RedisUnavailable("gone")


def test_a_leader_that_falls_asleep_during_a_write_is_woken(unwatched, raw_redis, monkeypatch):
    write, woken, wait = unwatched._line._write, [], unwatched._wait
    monkeypatch.setattr(unwatched._line, "_write", lambda request: (write(request), setattr(wait, "asleep", True)))
    monkeypatch.setattr(wait, "wake", lambda: woken.append(True))
    push(raw_redis, 0)
    finish(unwatched, unit := unwatched.retrieve())
    unwatched._line.acknowledge(next(one for one in unwatched._unacknowledged.unsent if one.unit is unit))
    assert woken == [True]


def test_no_job_is_claimed_for_a_thread_that_takes_none(unwatched, raw_redis, monkeypatch):
    counts = []
    monkeypatch.setattr(unwatched._leading, "acknowledge", lambda: counts.append(unwatched._idle.count))
    push(raw_redis, 0)
    finish(unwatched, unwatched.retrieve())
    for takes_next in (True, False):
        unwatched._context = replace(unwatched._context, takes_next=lambda takes_next=takes_next: takes_next)
        unwatched._request_ahead(unwatched._unacknowledged.unsent[0])
    assert counts == [1, 0]


def test_no_job_starts_while_an_acknowledgement_is_more_than_20_ms_late(unwatched, raw_redis):
    clock = unwatched._unacknowledged.clock = FakeClock()
    push(raw_redis, *range(4))
    finish(unwatched, unwatched.retrieve())
    unwatched._unacknowledged.round_trip_seconds = 0.0
    asked = exchanges(raw_redis)
    clock.seconds += 0.0199
    assert unwatched.retrieve().raw == payload(1)
    assert exchanges(raw_redis) == asked, "it was prefetched"
    unwatched._line.claims.prefetch = FarAhead(0)
    clock.seconds += 0.0002
    assert unwatched.retrieve().raw == payload(2)
    assert not unwatched._unacknowledged.unsent, "acknowledged before the start"


def test_the_ticker_sends_an_acknowledgement_within_20_ms(unwatched, raw_redis):
    clock = unwatched._unacknowledged.clock = FakeClock()
    push(raw_redis, *range(2))
    finish(unwatched, unwatched.retrieve())
    clock.seconds += 0.001
    clock.seconds += unwatched._ticker.tick()
    assert unwatched._unacknowledged.seconds_left > 0
    unwatched._ticker.tick()
    assert not unwatched._unacknowledged.unsent


@pytest.mark.parametrize("fault", ["refuse", "black_hole"])
def test_no_prefetched_job_starts_during_an_outage_of_acknowledgements(make_capsule, work, proxy, raw_redis, fault):
    capsule = make_capsule(proxy.url)
    capsule.fetcher._line.claims.prefetch = FarAhead(20)
    clock = capsule.fetcher._unacknowledged.clock = FakeClock()
    clock.step_seconds = 1.0  # late at once, also beside a slow round trip
    work.does[1] = getattr(proxy, fault)
    push(raw_redis, *range(10))
    capsule.start()
    wait_for(lambda: work.numbers == [0, 1] and capsule.fetcher.idle_count)
    wait_for(lambda: capsule.fetcher._unacknowledged.are_late)
    threading.Event().wait(0.1)
    assert work.numbers == [0, 1]
    proxy.accept()
    proxy.release()
    wait_for(lambda: capsule.counted() == 10)
    assert sorted(work.numbers) == list(range(10))
    assert capsule.private(raw_redis) == []


# ------------------------------------------------------------- nothing waits beside a free thread


class FarAhead(PrefetchSize):
    """A pace at which much is fetched ahead, from a server that is not distant."""

    far = False

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs

    @property
    def ahead(self) -> int:
        return self.jobs

    @property
    def most(self) -> int:
        return self.jobs


def test_jobs_prefetched_before_a_long_job_are_run_by_another_process(make_capsule, work, event, raw_redis):
    stalled, free = make_capsule(), make_capsule()
    stalled.fetcher._line.claims.prefetch = FarAhead(20)
    work.does[0] = event.wait
    push(raw_redis, *range(21))
    stalled.start()
    wait_for(lambda: work.runs)
    began_at = work.runs[0].at
    free.start()
    wait_for(lambda: len(work.runs) == 21)
    latest = max(run.at for run in work.runs) - began_at
    print(f"20 jobs behind a long one had all begun after {latest * 1000:.0f} ms (wanted: 40)")
    assert latest < SOON_SECONDS
    assert work.numbers[1:] == list(range(1, 21)), "in their old order"


class FarAheadAtSpeed(FarAhead):
    """The same, and the threads finish thousands of jobs a second."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.per_second = 50_000.0

    def note(self, finished: int, *, starved_seconds: float = 0.0) -> None:
        """Stay at this speed."""


def test_jobs_that_sleep_get_a_thread_each_at_any_throughput(make_capsule, work, raw_redis, monkeypatch):
    """Of jobs of microseconds one thread runs a batch alone; only the ticker would wake the others here."""
    monkeypatch.setattr(reliable, "TICK_SECONDS", 5.0)
    capsule = make_capsule(concurrency=10)
    capsule.fetcher._line.claims.prefetch = FarAheadAtSpeed(80)
    work.does = dict.fromkeys(range(300), partial(time.sleep, 0.02))
    push(raw_redis, *range(300))
    capsule.start()
    wait_for(lambda: len(work.runs) == 300)
    threads = Counter(run.thread for run in work.runs)
    print(threads.most_common())
    assert len(threads) == 10
    assert threads.most_common(1)[0][1] < 100


# ----------------------------------------------------------------------------- order of the queues


def test_weights_apply_to_claims_of_many_jobs(make_capsule, work, raw_redis):
    push(raw_redis, *range(2000), queue="often")
    push(raw_redis, *range(2000, 4000), queue="seldom")
    capsule = make_capsule(concurrency=5, queues=("often,4", "seldom,1"))
    assert capsule.parts.capsule.mode == "weighted"
    capsule.fetcher._line.claims.prefetch = FarAhead(5)
    capsule.start()
    wait_for(lambda: len(work.runs) >= 1500)
    seldom = sum(run.queue == "seldom" for run in work.runs[:1500]) / 1500
    assert 0.1 < seldom < 0.32, "a fifth"


def test_strict_order_applies_to_claims_of_many_jobs(make_capsule, work, raw_redis):
    push(raw_redis, *range(100), queue="low")
    push(raw_redis, *range(100, 200), queue="high")
    capsule = make_capsule(queues=("high", "low"))
    capsule.fetcher._line.claims.prefetch = FarAhead(7)
    capsule.start()
    wait_for(lambda: len(work.runs) == 200)
    assert work.numbers == [*range(100, 200), *range(100)]


@pytest.fixture
def unwatched(worker_config):
    """A fetcher that is three jobs ahead, and whose ticker ticks when the test decides."""
    parts = Parts(worker_config)
    parts.fetcher._line.claims.prefetch = FarAhead(3)
    parts.fetcher._ticker.stop()
    yield parts.fetcher
    parts.close()


def older_than_a_tick(fetcher) -> None:
    born = fetcher._prefetched.ready[0].claimed_at
    wait_for(lambda: time.monotonic() - born > reliable.TICK_SECONDS)


def test_unclaimed_prefetched_jobs_are_requeued_in_order_unless_a_thread_is_free(unwatched, raw_redis):
    """The thread may only be slow: on a busy machine it does not wake up within a tick."""
    push(raw_redis, *range(5))
    assert unwatched.retrieve().raw == payload(0)
    unwatched._idle.count = 1
    older_than_a_tick(unwatched)
    unwatched._ticker.tick()
    assert [unit.raw for unit in unwatched._prefetched.ready] == [payload(1)]
    assert raw_redis.lrange("queue:default", 0, -1) == [payload(4), payload(3), payload(2)]
    unwatched._idle.count = 0
    unwatched._ticker.tick()
    assert raw_redis.lrange("queue:default", 0, -1) == [payload(number) for number in (4, 3, 2, 1)]


def test_no_thread_claims_while_jobs_are_requeued(unwatched, raw_redis, monkeypatch):
    """It would bring those that stand behind them, to be run before them."""
    push(raw_redis, *range(10))
    unwatched.retrieve()
    older_than_a_tick(unwatched)
    put_back, entered, go_on = working.put_back, threading.Event(), threading.Event()

    def slowly(*args):
        entered.set()
        assert go_on.wait(20)
        put_back(*args)

    monkeypatch.setattr(working, "put_back", slowly)
    ticking = threading.Thread(target=unwatched._ticker.tick)
    ticking.start()
    assert entered.wait(20)
    taken = []
    taking = threading.Thread(target=lambda: taken.append(unwatched.retrieve().raw))
    taking.start()
    wait_for(lambda: unwatched._idle.waiter_count)
    go_on.set()
    ticking.join(20)
    taking.join(20)
    assert taken == [payload(1)]


def test_more_queues_than_pops(make_capsule, work, raw_redis):
    queues = tuple(f"q{number}" for number in range(20))
    capsule = make_capsule(queues=queues).start()
    for number, queue in enumerate((queues[0], queues[15], queues[16], queues[19])):
        wait_for(lambda: capsule.idle and blocked(raw_redis) == 16)
        pushed_at = time.monotonic()
        push(raw_redis, number, queue=queue)
        wait_for(lambda number=number: len(work.runs) > number)
        assert work.runs[-1].at - pushed_at < SOON_SECONDS


# ---------------------------------------------------------------------------- async, death, fence


@pytest.mark.parametrize("seconds", [0.0, 0.003], ids=["shorter than a millisecond", "longer"])
def test_a_fenced_crew_loses_its_run_once_and_continues_under_a_new_identity(
    make_capsule, work, event, raw_redis, seconds
):
    capsule = make_capsule().start()
    fenced = capsule.parts.ownership.identity

    def fence() -> None:
        raw_redis.set(capsule.parts.redis.keys.fenced(fenced), "0 0")
        time.sleep(seconds)

    work.does[0] = fence
    push(raw_redis, 0)
    wait_for(lambda: capsule.lost)
    push(raw_redis, 1)
    wait_for(lambda: capsule.counted() == 1)
    assert capsule.lost == [f"{0:024x}"]
    assert capsule.parts.ownership.identity != fenced
    assert capsule.private(raw_redis) == []
    assert raw_redis.lrange(f"offsider:working:{fenced}:default:default", 0, -1) == [payload(0)], "for who fenced it"


def test_a_fenced_crew_reports_its_run_once_if_its_first_new_identity_cannot_be_registered(
    make_capsule, work, raw_redis, monkeypatch
):
    capsule = make_capsule().start()
    ownership = capsule.parts.ownership
    fenced, renew, failures = ownership.identity, ownership.renew, []

    def fail_first(identity: str) -> None:
        if not failures:
            failures.append(RedisUnavailable("gone", ambiguous=True))
            raise failures[0]
        renew(identity)

    monkeypatch.setattr(ownership, "renew", fail_first)
    work.does[0] = lambda: raw_redis.set(capsule.parts.redis.keys.fenced(fenced), "0 0")
    push(raw_redis, 0)
    wait_for(lambda: ownership.identity != fenced)
    push(raw_redis, 1)
    wait_for(lambda: capsule.counted() == 1)
    assert len(failures) == 1
    assert capsule.lost == [f"{0:024x}"]


# --------------------------------------------------------------------------------------- outages


def test_an_acknowledgement_with_a_lost_reply_during_sleep_is_counted(make_capsule, work, proxy, raw_redis):
    """The leader who wakes must not send it again before the comparison: it would be taken for void."""
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    capsule = make_capsule(proxy.url, concurrency=2).start()
    go_on = threading.Event()
    for number in range(4):
        go_on.clear()
        work.does[number] = lambda: go_on.wait(10)
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) > number)
        wait_for(lambda: capsule.fetcher._wait.asleep and blocked(raw_redis) == 1)
        proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
        go_on.set()
        wait_for(lambda number=number: capsule.counted() == number + 1)
    assert capsule.lost == []
    assert proxy.lost == 4
    assert capsule.private(raw_redis) == []


def test_pops_that_are_killed_while_they_wait_lose_nothing(make_capsule, work, raw_redis):
    capsule = make_capsule(queues=("high", "low")).start()
    for number in range(5):
        wait_for(lambda: capsule.idle and blocked(raw_redis) == 2)
        pops = [found["id"] for found in raw_redis.client_list() if found["cmd"] == "blmove"]
        with raw_redis.pipeline(transaction=True) as together:
            push(together, number, queue="low")  # moved, and the reply is lost with the connection
            for pop in pops:
                together.client_kill_filter(_id=pop)
            together.execute()
        wait_for(lambda number=number: len(work.runs) > number)
        wait_for(lambda number=number: capsule.counted() == number + 1)
    assert work.numbers == list(range(5))
    assert capsule.private(raw_redis) == []


def test_a_server_that_restarts_under_blocking_pops_is_served_again(make_server, make_capsule, work):
    server = make_server()
    capsule = make_capsule(server.url, concurrency=2).start()
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: capsule.idle and blocked(client) == 1)
    server.stop()
    wait_for(lambda: capsule.errors)
    server.start()
    with redis_py.Redis.from_url(server.url) as client:
        push(client, *range(20))
        wait_for(lambda: capsule.counted() == 20)
        assert capsule.private(client) == []
        assert sorted(work.numbers) == list(range(20))


@pytest.fixture
def usual_rest(monkeypatch):
    monkeypatch.setattr(outage, "RETRY_SECONDS", 1.0)


@pytest.mark.usefixtures("usual_rest")
def test_a_server_that_refuses_is_tried_about_once_a_second(make_capsule, work, proxy, raw_redis):
    """Each thread has a finished job to acknowledge, with a comparison due before that."""
    concurrency = 5
    capsule = make_capsule(proxy.url, concurrency=concurrency).start()

    def refuse() -> None:
        proxy.refuse()
        capsule.fetcher._state.verify()

    together = threading.Barrier(concurrency, refuse)
    for number in range(concurrency):
        work.does[number] = lambda: (together.wait(10), time.sleep(0.005))
    push(raw_redis, *range(concurrency))
    wait_for(lambda: capsule.errors)
    threading.Event().wait(1.2)
    assert proxy.refused <= 3 + concurrency  # at first each thread tries
    proxy.accept()
    wait_for(lambda: capsule.counted() == concurrency)
    assert capsule.private(raw_redis) == []


# ------------------------------------------------------------------------------------- the end


def test_jobs_that_pops_move_into_a_quiet_worker_are_requeued(make_capsule, work, raw_redis):
    for round_ in range(10):
        capsule = make_capsule(concurrency=2, queues=("high", "low")).start()
        wait_for(lambda capsule=capsule: capsule.idle and blocked(raw_redis) == 2)
        pushing = threading.Thread(target=at_once, args=(raw_redis, ([2 * round_], "high"), ([2 * round_ + 1], "low")))
        pushing.start()
        capsule.manager.quiet()
        pushing.join()
        assert capsule.manager.wait(time.monotonic() + 10)
        assert capsule.private(raw_redis) == []
    left = [*raw_redis.lrange("queue:high", 0, -1), *raw_redis.lrange("queue:low", 0, -1)]
    assert sorted([*left, *map(payload, work.numbers)]) == sorted(map(payload, range(20)))


@pytest.mark.parametrize("name, outage", [("J", True), ("A", True), ("A", False)])
def test_a_stop_waits_until_finished_jobs_are_acknowledged_and_counted(
    make_capsule, work, event, proxy, raw_redis, *, name, outage
):
    capsule = make_capsule(proxy.url, concurrency=2).start()

    def run() -> None:
        current_job().effects = (Effect(NOTHING, ["a"]),)
        event.wait()

    work.does[0] = run
    push(raw_redis, 0, name=name)
    wait_for(lambda: work.runs)
    capsule.manager.quiet()
    wait_for(lambda: len(capsule.manager._alive()) == (name == "J"))
    if outage:
        proxy.refuse()
    event.set()
    if outage:
        wait_for(lambda: capsule.errors)
        assert not capsule.manager.wait(time.monotonic() + 0.2), "it is not done yet"
    proxy.accept()
    assert capsule.manager.wait(time.monotonic() + 10)
    assert capsule.private(raw_redis) == []
    assert capsule.counted() == 1


def test_a_stop_past_its_deadline_does_not_wait_and_logs_the_consequence(make_capsule, work, proxy, raw_redis, caplog):
    capsule = make_capsule(proxy.url).start()
    work.does[0] = proxy.refuse
    push(raw_redis, 0)
    wait_for(lambda: capsule.errors)
    capsule.manager.quiet()
    with caplog.at_level(logging.ERROR, "offsider"):
        capsule.manager.give_back()
        assert capsule.manager.wait(time.monotonic() + 10)
    assert "will run again" in caplog.text
    assert capsule.private(raw_redis) == [payload(0)]
