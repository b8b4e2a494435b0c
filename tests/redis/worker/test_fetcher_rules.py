"""The rules of fetching (15 to 19), each on threads that run jobs, with interfering servers and clients."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from functools import partial

import pytest
import redis as redis_py

from offsider.core.errors import RedisUnavailable
from offsider.jobs import registry
from offsider.storage import working
from offsider.worker import outage
from offsider.worker.fetch import prefetch_size, ticker
from offsider.worker.fetch.prefetch_size import PrefetchSize
from offsider.worker.settle import settlement
from tests.redis.worker.conftest import Parts, make_config
from tests.redis.worker.crew import Crew, Work, payload, push
from tests.waiting import wait_for

#: On a busy machine, steps of a few milliseconds may take this long.
SOON_SECONDS = 3.0


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
def make_crew(redis_url, work, make_server):  # servers end after their crews
    crews: list[Crew] = []

    def make(url: str = redis_url, *, ack: str = "merged", **options) -> Crew:
        config = make_config(url)
        config.worker.ack = ack
        crews.append(Crew(config, **options))
        return crews[-1]

    yield make
    for crew in crews:
        crew.stop()


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


def test_the_pace_is_recorded_by_the_leader(make_crew, work, raw_redis, monkeypatch):
    """By two threads at once, one of the two would be forgotten."""
    crew = make_crew(concurrency=3).start()
    turns = []
    note = PrefetchSize.note

    def noted(pace, finished, **given) -> None:
        turns.append(crew.fetcher._line._turn.locked())
        note(pace, finished, **given)

    monkeypatch.setattr(PrefetchSize, "note", noted)
    for number in range(5):
        wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
        push(raw_redis, number)
        wait_for(lambda number=number: crew.counted() == number + 1)
    assert turns
    assert all(turns)


# --------------------------------------------------------------------------------- rule 15: blocking pops


def test_a_job_that_a_pop_of_a_less_important_queue_moves_waits_for_the_important_ones(make_crew, work, raw_redis):
    """`low` was popped while `high` holds 99."""
    crew = make_crew(queues=("high", "low")).start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 2)
    at_once(raw_redis, ([1000], "low"), (range(99), "high"))
    wait_for(lambda: len(work.runs) == 100)
    assert work.numbers == [*range(99), 1000]


def test_no_thread_runs_a_job_while_a_pop_could_move_one_that_no_thread_runs(make_crew, work, raw_redis):
    crew = make_crew(queues=("high", "low")).start()
    waiting = []
    for number in range(5):
        work.does[number] = lambda: waiting.append(blocked(raw_redis))
        wait_for(lambda: crew.idle and blocked(raw_redis) == 2)
        push(raw_redis, number, queue="low")
        wait_for(lambda number=number: len(waiting) == number + 1)
    assert waiting == [0] * 5


def test_jobs_fetched_beyond_the_free_threads_are_taken_by_another_process(make_crew, work, event, raw_redis):
    busy = make_crew(queues=("high", "low")).start()
    wait_for(lambda: busy.idle and blocked(raw_redis) == 2)
    work.does[1] = event.wait
    at_once(raw_redis, ([2], "low"), ([1], "high"))
    wait_for(lambda: raw_redis.lrange("queue:low", 0, -1) == [payload(2)], what="it goes back while the other runs")
    assert busy.private(raw_redis) == [payload(1)]
    make_crew(queues=("high", "low")).start()
    wait_for(lambda: work.numbers == [1, 2])


def test_requeued_jobs_are_not_popped_again_by_the_same_leader(make_crew, work, event, raw_redis):
    """The job would cycle between a full worker and its own pops."""
    busy = make_crew(queues=("high", "low")).start()
    wait_for(lambda: busy.idle and blocked(raw_redis) == 2)
    work.does[1] = event.wait
    at_once(raw_redis, ([2], "low"), ([1], "high"))
    wait_for(lambda: raw_redis.llen("queue:low") == 1)
    raw_redis.config_resetstat()
    assert blocked(raw_redis) == 0
    assert raw_redis.llen("queue:low") == 1
    assert "cmdstat_blmove" not in raw_redis.info("commandstats")


def test_a_push_wakes_one_of_two_idle_processes_within_milliseconds(make_crew, work, raw_redis):
    """Any client's plain LPUSH is enough, and the other process does not stir."""
    first, second = make_crew().start(), make_crew().start()
    latencies = []
    for number in range(5):
        wait_for(lambda: first.idle and second.idle and blocked(raw_redis) == 2)
        before = [crew.fetcher.last_look for crew in (first, second)]
        pushed_at = time.monotonic()
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) > number)
        latencies.append(work.runs[-1].at - pushed_at)
        stirred = [crew.fetcher.last_look > was for crew, was in zip((first, second), before, strict=True)]
        assert sorted(stirred) == [False, True]
    print(f"from push to start: {min(latencies) * 1000:.1f} to {max(latencies) * 1000:.1f} ms")
    assert min(latencies) < 0.05


# ------------------------------------------------------------------------------ rule 16: refusals


def test_a_full_server_is_drained_and_served_again(make_server, make_crew, work):
    server = make_server(kind="valkey")
    with redis_py.Redis.from_url(server.url) as client:
        push(client, *range(20))
        client.config_set("maxmemory", 1)
        crew = make_crew(server.url, concurrency=2).start()
        wait_for(lambda: len(work.runs) == 20)
        wait_for(lambda: crew.counted() == 20 and crew.private(client) == [])
        client.config_set("maxmemory", 0)
        push(client, 20)
        wait_for(lambda: len(work.runs) == 21)
        wait_for(lambda: blocked(client) == 1, what="it blocks again")
    assert sorted(work.numbers) == list(range(21))


def test_a_pop_that_ends_with_an_error_causes_a_claim(make_crew, work, raw_redis):
    """UNBLOCKED: the server does that itself when it becomes a replica."""
    crew = make_crew().start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
    (pop,) = [found for found in raw_redis.client_list() if found["cmd"] == "blmove"]
    raw_redis.client_unblock(pop["id"], error=True)
    push(raw_redis, 1)
    wait_for(lambda: work.numbers == [1])
    assert crew.lost == []


# -------------------------------------------------------------------------------- rule 17: pauses


@pytest.mark.parametrize("known", ["paused", "too old"])
def test_a_job_popped_from_a_paused_queue_is_requeued_unrun(make_crew, work, raw_redis, known):
    """Sidekiq Pro's pages, in Ruby, write the same set."""
    crew = make_crew(concurrency=2).start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
    raw_redis.sadd("paused", "default")
    controls = crew.parts.context.controls
    if known == "paused":
        controls.paused = frozenset({"default"})
    else:
        controls.read_at = -math.inf
    push(raw_redis, 1)
    wait_for(lambda: raw_redis.lrange("queue:default", 0, -1) == [payload(1)] and crew.private(raw_redis) == [])
    wait_for(lambda: crew.idle and blocked(raw_redis) == 0, what="nobody waits at a paused queue")
    assert work.runs == []
    controls.paused = frozenset({"default"})
    raw_redis.srem("paused", "default")
    crew.read_controls()
    wait_for(lambda: work.numbers == [1])


def test_a_pause_that_the_process_has_read_ends_the_pop(make_crew, work, raw_redis):
    crew = make_crew().start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
    raw_redis.sadd("paused", "default")
    crew.read_controls()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 0)
    push(raw_redis, 1)
    raw_redis.srem("paused", "default")
    crew.read_controls()
    wait_for(lambda: work.numbers == [1])


def test_a_popped_job_starts_without_another_round_trip(make_crew, work, raw_redis):
    crew = make_crew().start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
    before = exchanges(raw_redis)
    during: list[int] = []
    work.does[1] = lambda: during.append(exchanges(raw_redis) - before)
    push(raw_redis, 1)
    wait_for(lambda: during)
    assert during == [0]


def test_a_very_short_pause_blocks_no_job(make_crew, work, raw_redis):
    crew = make_crew().start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
    for number in range(5):
        raw_redis.sadd("paused", "default")
        raw_redis.srem("paused", "default")
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) == number + 1, 5)


def test_other_queues_are_served_while_one_is_paused(make_crew, work, raw_redis):
    raw_redis.sadd("paused", "low")
    push(raw_redis, 1, queue="low")
    crew = make_crew(queues=("low", "high")).start()
    crew.read_controls()
    push(raw_redis, 2, queue="high")
    wait_for(lambda: work.numbers == [2])
    push(raw_redis, 3, queue="high")
    wait_for(lambda: work.numbers == [2, 3])
    raw_redis.delete("paused")
    crew.read_controls()
    wait_for(lambda: work.numbers == [2, 3, 1])


def test_a_pause_stops_a_backlog_and_only_prefetched_jobs_still_run(make_crew, work, event, raw_redis):
    crew = make_crew().start()
    work.does[0] = event.wait
    push(raw_redis, *range(50))
    wait_for(lambda: work.runs)
    raw_redis.sadd("paused", "default")
    event.set()
    wait_for(lambda: crew.idle)
    assert len(work.runs) + raw_redis.llen("queue:default") == 50
    assert len(work.runs) <= 2


# ------------------------------------------------------------------------ rules 18, 19: outcomes


@pytest.mark.parametrize("seconds", [0.0, 0.003], ids=["shorter than a millisecond", "longer"])
def test_no_acknowledgement_waits_for_a_sleeping_leader(make_crew, work, raw_redis, seconds):
    crew = make_crew(concurrency=3).start()
    for number in range(5):
        work.does[number] = partial(time.sleep, seconds)
        wait_for(lambda: crew.idle and blocked(raw_redis) == 1)
        push(raw_redis, number)
        wait_for(lambda number=number: crew.counted() == number + 1, SOON_SECONDS, "acknowledged and told")
        assert crew.private(raw_redis) == []


def test_the_last_short_job_of_a_busy_thread_is_acknowledged_within_a_tick(make_crew, work, event, raw_redis):
    """The thread continues with a long job, and no other thread exists."""
    crew = make_crew().start()
    work.does[1] = event.wait
    push(raw_redis, 0, 1)
    wait_for(lambda: work.numbers == [0, 1])
    wait_for(lambda: crew.private(raw_redis) == [payload(1)], SOON_SECONDS)
    assert crew.counted() == 1


@pytest.mark.parametrize("ack, seconds", [("merged", 0.002), ("each", 0.0)])
def test_an_acknowledgement_is_at_the_server_before_its_thread_starts_another_job(
    make_crew, work, raw_redis, ack, seconds
):
    left_over = []

    def look(number: int) -> None:
        raw_redis.ping()  # this reply proves that all earlier writes were executed
        left_over.extend(set(crew.private(raw_redis)) & {payload(done) for done in range(number)})
        time.sleep(seconds)

    work.does = {number: partial(look, number) for number in range(1, 30)}
    push(raw_redis, *range(30))
    crew = make_crew(ack=ack).start()
    wait_for(lambda: len(work.runs) == 30)
    # The first had no time to be long; with `each` that does not matter.
    assert set(left_over) <= ({payload(0)} if ack == "merged" else set())


# ------------------------------------------------------------- nothing waits beside a free thread


class FarAhead(PrefetchSize):
    """A pace at which much is fetched ahead."""

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self.jobs = jobs

    @property
    def ahead(self) -> int:
        return self.jobs

    @property
    def most(self) -> int:
        return self.jobs


def test_jobs_prefetched_before_a_long_job_are_run_by_another_process(make_crew, work, event, raw_redis):
    stalled, free = make_crew(), make_crew()
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


def test_a_partial_stall_blocks_nothing_either(make_crew, work, event, raw_redis):
    """Nine of ten threads are stuck; the tenth cannot run all that was fetched ahead in time."""
    stalled, free = make_crew(concurrency=10), make_crew(concurrency=10)
    stalled.fetcher._line.claims.prefetch = FarAhead(30)
    work.does = dict.fromkeys(range(9), event.wait)
    work.does |= {number: partial(time.sleep, 0.05) for number in range(9, 39)}
    push(raw_redis, *range(39))
    stalled.start()
    wait_for(lambda: len(work.runs) >= 9)
    began_at = work.runs[0].at
    free.start()
    wait_for(lambda: len(work.runs) == 39)
    latest = max(run.at for run in work.runs) - began_at
    print(f"30 jobs of 50 ms beside nine stuck threads had all begun after {latest * 1000:.0f} ms")
    assert latest < SOON_SECONDS, "one thread alone would take 1.5 s"
    by_free = {run.number for run in work.runs if run.number >= 9} - set(range(9, 11))
    assert len(by_free) >= 10


class FarAheadAtSpeed(FarAhead):
    """The same, and the threads finish thousands of jobs a second."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.per_second = 50_000.0

    def note(self, finished: int, *, starved_seconds: float = 0.0) -> None:
        """Stay at this speed."""


def test_jobs_that_sleep_get_a_thread_each_at_any_throughput(make_crew, work, raw_redis, monkeypatch):
    """Of jobs of microseconds one thread runs a batch alone; only the ticker would wake the others here."""
    monkeypatch.setattr(ticker, "TICK_SECONDS", 5.0)
    crew = make_crew(concurrency=10)
    crew.fetcher._line.claims.prefetch = FarAheadAtSpeed(80)
    work.does = dict.fromkeys(range(300), partial(time.sleep, 0.005))
    push(raw_redis, *range(300))
    crew.start()
    wait_for(lambda: len(work.runs) == 300)
    threads = Counter(run.thread for run in work.runs)
    print(threads.most_common())
    assert len(threads) == 10
    assert threads.most_common(1)[0][1] < 100


def test_large_payloads_are_prefetched_up_to_a_total_size(make_crew, work, raw_redis, monkeypatch):
    """At this speed all jobs would be prefetched: 60 MB in the worker's memory, and in one reply of the server."""
    monkeypatch.setattr(prefetch_size, "AHEAD_SECONDS", 100.0)
    monkeypatch.setattr(ticker, "TICK_SECONDS", 5.0)
    held: list[int] = []
    crew = make_crew()
    work.does = dict.fromkeys(range(60), lambda: held.append(len(crew.private(raw_redis))))
    for number in range(60):
        raw_redis.lpush("queue:default", payload(number)[:-1] + b',"filling":"%s"}' % (b"x" * 1_000_000))
    crew.start()
    wait_for(lambda: len(held) == 60)
    assert 2 < max(held) <= 2 * prefetch_size.MOST_BYTES / 1_000_000


def test_requeued_prefetched_jobs_do_not_count_as_interrupted(make_crew, work, event, raw_redis):
    stalled = make_crew()
    stalled.fetcher._line.claims.prefetch = FarAhead(3)
    work.does[0] = event.wait
    push(raw_redis, *range(4))
    stalled.start()
    wait_for(lambda: raw_redis.llen("queue:default") == 3)
    assert raw_redis.lrange("queue:default", 0, -1)[::-1] == [payload(1), payload(2), payload(3)]


# ----------------------------------------------------------------------------- order of the queues


def test_weights_apply_to_claims_of_many_jobs(make_crew, work, raw_redis):
    push(raw_redis, *range(2000), queue="often")
    push(raw_redis, *range(2000, 4000), queue="seldom")
    crew = make_crew(concurrency=5, queues=("often,4", "seldom,1"))
    assert crew.parts.capsule.mode == "weighted"
    crew.fetcher._line.claims.prefetch = FarAhead(5)
    crew.start()
    wait_for(lambda: len(work.runs) >= 1500)
    seldom = sum(run.queue == "seldom" for run in work.runs[:1500]) / 1500
    assert 0.1 < seldom < 0.32, "a fifth"


def test_strict_order_applies_to_claims_of_many_jobs(make_crew, work, raw_redis):
    push(raw_redis, *range(100), queue="low")
    push(raw_redis, *range(100, 200), queue="high")
    crew = make_crew(queues=("high", "low"))
    crew.fetcher._line.claims.prefetch = FarAhead(7)
    crew.start()
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
    wait_for(lambda: time.monotonic() - born > ticker.TICK_SECONDS)


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


def test_jobs_from_a_slow_round_trip_are_not_old(unwatched, raw_redis, monkeypatch):
    """With a distant server every prefetched job would be requeued."""
    push(raw_redis, *range(4))
    exchange = working.ack_and_claim

    def from_far_away(*args, **options):
        result = exchange(*args, **options)
        until = time.monotonic() + 0.04
        wait_for(lambda: time.monotonic() > until)
        return result

    monkeypatch.setattr(working, "ack_and_claim", from_far_away)
    asked_at = time.monotonic()
    unwatched.retrieve()
    assert unwatched._prefetched.ready[0].claimed_at - asked_at > 0.04


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
    wait_for(lambda: unwatched._idle.listening)
    go_on.set()
    ticking.join(20)
    taking.join(20)
    assert taken == [payload(1)]


def test_nothing_is_requeued_while_the_leader_responds(unwatched, raw_redis, monkeypatch):
    push(raw_redis, *range(4))
    unwatched.retrieve()
    older_than_a_tick(unwatched)
    with unwatched._idle._lead:
        unwatched._ticker.tick()
        assert raw_redis.llen("queue:default") == 0
        monkeypatch.setattr(ticker, "HUNG_SECONDS", 0.0)
        unwatched._ticker.tick()
    assert raw_redis.llen("queue:default") == 3


def test_later_prefetched_jobs_are_requeued_behind_earlier_ones(unwatched, raw_redis):
    push(raw_redis, *range(10))
    unwatched.retrieve()
    older_than_a_tick(unwatched)
    with unwatched._idle._lead:
        assert unwatched._leading.ask_ahead(4)
    unwatched._ticker.tick()
    assert raw_redis.lrange("queue:default", 0, -1) == [payload(number) for number in range(9, 0, -1)]


def test_more_queues_than_pops(make_crew, work, raw_redis):
    queues = tuple(f"q{number}" for number in range(20))
    crew = make_crew(queues=queues).start()
    for number, queue in enumerate((queues[0], queues[15], queues[16], queues[19])):
        wait_for(lambda: crew.idle and blocked(raw_redis) == 16)
        pushed_at = time.monotonic()
        push(raw_redis, number, queue=queue)
        wait_for(lambda number=number: len(work.runs) > number)
        assert work.runs[-1].at - pushed_at < SOON_SECONDS


# ---------------------------------------------------------------------------- async, death, fence


def test_coroutines_use_the_same_engine(make_crew, work, raw_redis):
    crew = make_crew(concurrency=3).start()
    push(raw_redis, *range(60), name="A")
    wait_for(lambda: crew.counted() == 60)
    assert sorted(work.numbers) == list(range(60))
    assert crew.private(raw_redis) == []


def test_the_job_of_a_thread_that_dies_is_run_by_its_replacement(make_crew, work, raw_redis, monkeypatch):
    crew = make_crew(concurrency=2)
    original, dying = settlement.Settlement.settle, [payload(3)]

    def settle(self, unit, run):
        if unit.raw in dying:
            dying.remove(unit.raw)
            raise MemoryError("dies")
        return original(self, unit, run)

    monkeypatch.setattr(settlement.Settlement, "settle", settle)
    crew.start()
    push(raw_redis, *range(6))
    wait_for(lambda: crew.counted() == 6)
    assert sorted(work.numbers) == [0, 1, 2, 3, 3, 4, 5]
    wait_for(lambda: crew.idle)
    assert crew.private(raw_redis) == []


@pytest.mark.parametrize("seconds", [0.0, 0.003], ids=["shorter than a millisecond", "longer"])
def test_a_fenced_crew_loses_its_run_once_and_continues_under_a_new_identity(
    make_crew, work, event, raw_redis, seconds
):
    crew = make_crew().start()
    fenced = crew.parts.ownership.identity

    def fence() -> None:
        raw_redis.set(crew.parts.redis.keys.fenced(fenced), "0 0")
        time.sleep(seconds)

    work.does[0] = fence
    push(raw_redis, 0)
    wait_for(lambda: crew.lost)
    push(raw_redis, 1)
    wait_for(lambda: crew.counted() == 1)
    assert crew.lost == [f"{0:024x}"]
    assert crew.parts.ownership.identity != fenced
    assert crew.private(raw_redis) == []
    assert raw_redis.lrange(f"offsider:working:{fenced}:default:default", 0, -1) == [payload(0)], "for who fenced it"


def test_a_fenced_crew_reports_its_run_once_if_its_first_new_identity_cannot_be_registered(
    make_crew, work, raw_redis, monkeypatch
):
    crew = make_crew().start()
    ownership = crew.parts.ownership
    fenced, renew, failures = ownership.identity, ownership.renew, []

    def fail_first(identity: str) -> None:
        if not failures:
            failures.append(RedisUnavailable("gone", ambiguous=True))
            raise failures[0]
        renew(identity)

    monkeypatch.setattr(ownership, "renew", fail_first)
    work.does[0] = lambda: raw_redis.set(crew.parts.redis.keys.fenced(fenced), "0 0")
    push(raw_redis, 0)
    wait_for(lambda: ownership.identity != fenced)
    push(raw_redis, 1)
    wait_for(lambda: crew.counted() == 1)
    assert len(failures) == 1
    assert crew.lost == [f"{0:024x}"]


def test_runs_under_an_abandoned_identity_are_void(make_crew, work, raw_redis):
    """The beat finds the fence before the acknowledgement is sent."""
    crew = make_crew()
    crew.parts.ownership.register()
    fenced = crew.parts.ownership.identity

    def fence_and_beat() -> None:
        raw_redis.set(crew.parts.redis.keys.fenced(fenced), "0 0")
        crew.parts.ownership.register()

    work.does[0] = fence_and_beat
    push(raw_redis, 0, 1)
    crew.start()
    wait_for(lambda: crew.counted() == 1)
    assert crew.lost == [f"{0:024x}"]
    assert crew.fetcher._state.in_flight.of(fenced).total() == 0


# --------------------------------------------------------------------------------------- outages


def test_a_lost_reply_strands_nothing_doubles_nothing_and_is_counted(make_crew, work, proxy, raw_redis):
    """The lost one had acknowledged some jobs and claimed others."""
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    crew = make_crew(proxy.url, concurrency=2).start()
    work.does = {number: partial(time.sleep, 0.002) for number in range(0, 200, 3)}
    for start in range(0, 200, 40):
        push(raw_redis, *range(start, start + 20))
        wait_for(lambda start=start: len(work.runs) > start)
        proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
        push(raw_redis, *range(start + 20, start + 40))
        wait_for(lambda start=start: crew.counted() == start + 40)
    assert sorted(work.numbers) == list(range(200))
    assert proxy.lost == 5
    assert crew.private(raw_redis) == []
    assert crew.lost == []


def test_an_acknowledgement_with_a_lost_reply_during_sleep_is_counted(make_crew, work, proxy, raw_redis):
    """The leader who wakes must not send it again before the comparison: it would be taken for void."""
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    crew = make_crew(proxy.url, concurrency=2).start()
    go_on = threading.Event()
    for number in range(4):
        go_on.clear()
        work.does[number] = lambda: go_on.wait(10)
        push(raw_redis, number)
        wait_for(lambda number=number: len(work.runs) > number)
        wait_for(lambda: crew.fetcher._wait.asleep and blocked(raw_redis) == 1)
        proxy.lose_reply(working.ACK_AND_CLAIM.sha.encode())
        go_on.set()
        wait_for(lambda number=number: crew.counted() == number + 1)
    assert crew.lost == []
    assert proxy.lost == 4
    assert crew.private(raw_redis) == []


def test_requests_that_are_lost_are_sent_again(make_crew, work, proxy, raw_redis):
    raw_redis.script_load(working.ACK_AND_CLAIM.text)
    crew = make_crew(proxy.url, concurrency=2).start()
    for start in range(0, 60, 20):
        proxy.lose_request(working.ACK_AND_CLAIM.sha.encode())
        push(raw_redis, *range(start, start + 20))
        wait_for(lambda start=start: crew.counted() == start + 20)
    assert sorted(work.numbers) == list(range(60))
    assert crew.lost == []


def test_pops_that_are_killed_while_they_wait_lose_nothing(make_crew, work, raw_redis):
    crew = make_crew(queues=("high", "low")).start()
    for number in range(5):
        wait_for(lambda: crew.idle and blocked(raw_redis) == 2)
        pops = [found["id"] for found in raw_redis.client_list() if found["cmd"] == "blmove"]
        with raw_redis.pipeline(transaction=True) as together:
            push(together, number, queue="low")  # moved, and the reply is lost with the connection
            for pop in pops:
                together.client_kill_filter(_id=pop)
            together.execute()
        wait_for(lambda number=number: len(work.runs) > number)
        wait_for(lambda number=number: crew.counted() == number + 1)
    assert work.numbers == list(range(5))
    assert crew.private(raw_redis) == []


def test_a_server_that_restarts_under_blocking_pops_is_served_again(make_server, make_crew, work):
    server = make_server()
    crew = make_crew(server.url, concurrency=2).start()
    with redis_py.Redis.from_url(server.url) as client:
        wait_for(lambda: crew.idle and blocked(client) == 1)
    server.stop()
    wait_for(lambda: crew.errors)
    server.start()
    with redis_py.Redis.from_url(server.url) as client:
        push(client, *range(20))
        wait_for(lambda: crew.counted() == 20)
        assert crew.private(client) == []
        assert sorted(work.numbers) == list(range(20))


@pytest.fixture
def usual_rest(monkeypatch):
    monkeypatch.setattr(outage, "RETRY_SECONDS", 1.0)


@pytest.mark.usefixtures("usual_rest")
@pytest.mark.parametrize("crowd", [(1, True), (5, True), (5, False)], ids=str)
def test_a_server_that_refuses_is_tried_about_once_a_second(make_crew, work, proxy, raw_redis, crowd):
    """Each thread has a finished job to acknowledge, with a comparison due before that or without."""
    concurrency, doubted = crowd
    crew = make_crew(proxy.url, concurrency=concurrency).start()

    def refuse() -> None:
        proxy.refuse()
        if doubted:
            crew.fetcher._line.doubt()

    together = threading.Barrier(concurrency, refuse)
    for number in range(concurrency):
        work.does[number] = lambda: (together.wait(10), time.sleep(0.005))
    push(raw_redis, *range(concurrency))
    wait_for(lambda: crew.errors)
    threading.Event().wait(2.5)
    assert proxy.refused <= 4 + concurrency  # at first each thread tries
    proxy.accept()
    wait_for(lambda: crew.counted() == concurrency)
    assert crew.private(raw_redis) == []


# ------------------------------------------------------------------------------------- the end


def test_jobs_that_pops_move_into_a_quiet_worker_are_requeued(make_crew, work, raw_redis):
    for round_ in range(10):
        crew = make_crew(concurrency=2, queues=("high", "low")).start()
        wait_for(lambda crew=crew: crew.idle and blocked(raw_redis) == 2)
        pushing = threading.Thread(target=at_once, args=(raw_redis, ([2 * round_], "high"), ([2 * round_ + 1], "low")))
        pushing.start()
        crew.manager.quiet()
        pushing.join()
        assert crew.manager.wait(time.monotonic() + 10)
        assert crew.private(raw_redis) == []
    left = [*raw_redis.lrange("queue:high", 0, -1), *raw_redis.lrange("queue:low", 0, -1)]
    assert sorted([*left, *map(payload, work.numbers)]) == sorted(map(payload, range(20)))


def test_a_stop_in_an_outage_waits_to_acknowledge_finished_jobs(make_crew, work, event, proxy, raw_redis):
    crew = make_crew(proxy.url, concurrency=2).start()
    work.does[0] = event.wait
    push(raw_redis, 0)
    wait_for(lambda: work.runs)
    proxy.refuse()
    event.set()
    wait_for(lambda: crew.errors)
    crew.manager.quiet()
    assert not crew.manager.wait(time.monotonic() + 0.2), "it is not done yet"
    proxy.accept()
    assert crew.manager.wait(time.monotonic() + 10)
    assert crew.private(raw_redis) == []
    assert crew.counted() == 1


def test_a_stop_past_its_deadline_does_not_wait_and_logs_the_consequence(make_crew, work, proxy, raw_redis, caplog):
    crew = make_crew(proxy.url).start()
    work.does[0] = proxy.refuse
    push(raw_redis, 0)
    wait_for(lambda: crew.errors)
    crew.manager.quiet()
    with caplog.at_level(logging.ERROR, "offsider"):
        crew.manager.give_back()
        assert crew.manager.wait(time.monotonic() + 10)
    assert "will run again" in caplog.text
    assert crew.private(raw_redis) == [payload(0)]


def test_the_last_thread_does_not_storm_a_server_that_is_away(make_crew, proxy, raw_redis, monkeypatch):
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.1)
    crew = make_crew(proxy.url, queues=("high", "low")).start()
    wait_for(lambda: crew.idle and blocked(raw_redis) == 2)
    noticed = []
    monkeypatch.setattr(crew.fetcher._leading._outage, "noticed", noticed.append)
    proxy.refuse()
    wait_for(lambda: noticed)
    crew.manager.quiet()
    crew.manager.wait(time.monotonic() + 0.5)
    assert len(noticed) < 15
    crew.manager.give_back()
    assert crew.manager.wait(time.monotonic() + 5), "it waits no longer when its time is over"
