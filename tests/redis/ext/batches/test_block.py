"""Blocks inside blocks, next to each other and in jobs: no callback before the last one has ended."""

from __future__ import annotations

import asyncio
import inspect
from contextlib import suppress

import pytest

from offsider import job
from offsider.client import Client
from offsider.core.errors import BatchSpansServers, RedisFailure
from offsider.ext.batches import Batch
from offsider.inspector import Queue
from offsider.testing import RunningWorker
from tests.waiting import wait_for

X = {"class": "X", "args": []}


@pytest.fixture
def in_job(config, client, declared):
    """Runs a function in a job that is no member of a batch, while members wait in their queue."""
    config.worker.queues = ["starters"]

    def in_job(function):
        ended = []
        config.on("execution_finished", lambda event: ended.append(event.outcome))
        job(name="Starter", retry=0)(function)
        client.push({"class": "Starter", "args": [], "queue": "starters", "after_commit": False})
        with RunningWorker(config) as worker:
            wait_for(lambda: ended)
        assert (worker.errors, ended) == ([], ["succeeded"])

    return in_job


@pytest.fixture(params=["in a job", "outside of jobs"])
def run(request):
    """Runs a function, in a job or directly."""
    if request.param == "in a job":
        return request.getfixturevalue("in_job")
    return lambda function: asyncio.run(function()) if inspect.iscoroutinefunction(function) else function()


@pytest.fixture
def commit(config):
    """Runs what waits for the commit."""
    waiting = []
    config.after_commit = waiting.append

    def commit():
        while waiting:
            waiting.pop(0)()

    return commit


def test_a_child_whose_block_ends_does_not_close_the_block_of_its_parent(run, watched, client, tell, pushed):
    def starts():
        with watched() as parent:
            own = client.push(X)
            with watched() as child:
                inner = client.push(X)
            tell(child, "succeeded", inner)
            assert [bid for _, bid in pushed()] == [child.bid] * 2
            assert parent.status().open_blocks == 1
        tell(parent, "succeeded", own)
        assert pushed()[2:] == [("complete", parent.bid)]

    run(starts)


def test_a_block_inside_a_block_of_the_same_batch_leaves_it_open(run, watched, client, tell, pushed):
    def starts():
        with watched() as batch:
            with batch.jobs():
                first = client.push(X)
            tell(batch, "succeeded", first)
            assert (pushed(), batch.status().open_blocks) == ([], 1)
            second = client.push(X)
        assert batch.status().open_blocks == 0
        tell(batch, "succeeded", second)
        assert pushed() == [("complete", batch.bid), ("success", batch.bid)]

    run(starts)


def test_concurrent_blocks_of_a_batch_keep_it_open_until_the_last_has_ended(run, config, watched, tell, pushed):
    async def starts():
        batch, client, jids, ended = watched(), Client(config), [], [asyncio.Event() for _ in range(3)]
        all_began = asyncio.Event()

        async def page(number):
            async with batch.jobs():
                jids.append(await client.apush(X))
                if number == 2:
                    all_began.set()
                await all_began.wait()
                if number:
                    await ended[number - 1].wait()
            await asyncio.to_thread(tell, batch, "succeeded", jids[number])
            seen.append(pushed())
            ended[number].set()

        await asyncio.gather(*(page(number) for number in range(3)))
        client.close()
        seen.append(batch.bid)

    seen = []
    run(starts)
    *early, last, bid = seen
    assert early == [[], []]
    assert last == [("complete", bid), ("success", bid)]


def test_two_objects_of_a_batch_share_their_blocks_in_a_job(in_job, make, watched, client, *, tell, pushed):
    with watched() as batch:
        client.push({**X, "jid": "first"})

    def starts():
        with make(batch.bid, autoflush=1):
            client.push({**X, "jid": "second"})
            with make(batch.bid):
                client.push({**X, "jid": "third"})
            for jid in ("first", "second", "third"):
                tell(batch, "succeeded", jid)
            assert pushed() == []

    in_job(starts)
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]


def test_blocks_of_a_commit_are_closed_too(in_job, config, watched, client, *, pushed):
    waiting = []
    config.after_commit = waiting.append

    def starts():
        with watched(autoflush=1) as parent:
            client.push(X)
            with parent.jobs(), watched():
                client.push(X)
        while waiting:
            assert pushed() == []
            waiting.pop(0)()
        assert parent.status().open_blocks == 0
        assert parent.children()[0].status().open_blocks == 0

    in_job(starts)


def test_a_commit_after_a_block_that_raised_stores_its_child_without_a_parent(
    run, commit, watched, make, client, *, raw_redis
):
    def starts():
        parent, child = watched(), make()
        with suppress(LookupError), parent:
            client.push(X)
            with child:
                client.push({**X, "queue": "inner"})
            raise LookupError
        commit()
        assert (raw_redis.llen("queue:inner"), raw_redis.llen("queue:default")) == (1, 0)
        assert child.status().open_blocks == 0
        assert not raw_redis.exists(f"b-{parent.bid}")
        assert not raw_redis.keys("b-*-open")

    run(starts)


def test_a_commit_after_a_block_with_autoflush_raised_stores_none_of_its_jobs(run, commit, make, client, raw_redis):
    def starts():
        with make() as parent:
            client.push({**X, "queue": "outer"})
            with suppress(LookupError), make(autoflush=1):
                client.push({**X, "queue": "inner"})
                raise LookupError
        commit()
        assert (raw_redis.llen("queue:outer"), raw_redis.llen("queue:inner")) == (1, 0)
        assert parent.status().open_blocks == 0
        assert parent.children() == []

    run(starts)


# --------------------------------------------------------------------- blocks that raise after a child has ended


def raises(batch, make, client):
    with batch:
        client.push(X)
        with make():
            client.push({**X, "queue": "inner"})
        raise LookupError


def test_a_new_batch_whose_block_raises_after_its_child_is_not_stored(run, watched, make, client, *, raw_redis, config):
    batch = watched()

    def starts():
        with pytest.raises(LookupError):
            raises(batch, make, client)

    run(starts)
    assert raw_redis.keys(f"b-{batch.bid}*") == []
    assert len(Queue("default", config)) == 0
    (member,) = Queue("inner", config)
    child = Batch(member.payload["bid"], config=config)
    assert child.status().open_blocks == 0
    with batch:  # the object can be used again
        client.push(X)
    assert batch.status().total == 1


def test_an_old_batch_whose_block_raises_after_a_child_is_closed(run, watched, make, client, *, tell, pushed):
    with watched() as batch:
        jid = client.push(X)

    def starts():
        with pytest.raises(LookupError):
            raises(make(batch.bid), make, client)

    run(starts)
    status = batch.status()
    assert (status.total, status.open_blocks, status.pending_kids) == (1, 0, 1)
    tell(batch, "succeeded", jid)
    assert pushed() == [("complete", batch.bid)]


def test_a_member_that_is_refused_at_the_end_of_the_block_leaves_no_open_batch(config, make, client, other_url):
    def moves(push):
        push.server = "bulk" if push.payload["args"] else push.server
        yield

    config.add_server("bulk", url=other_url)
    config.client_middleware.add(moves)
    with make() as batch:
        client.push(X)

    def refused():
        with make(batch.bid):
            client.push({**X, "args": [1]})
            with make():
                client.push(X)

    with pytest.raises(BatchSpansServers):
        refused()
    assert batch.status().open_blocks == 0


def test_a_block_that_could_not_store_all_its_jobs_leaves_the_batch_open_for_others(make, client, replicas):
    batch = make()
    with batch.jobs():
        with pytest.raises(RedisFailure), batch.jobs():
            client.push(X, wait_replicas=replicas + 1)
        client.push(X)
    assert batch.status().open_blocks == 1


def test_a_failure_to_close_a_block_that_raised_is_reported(config, make, client, monkeypatch):
    reported = []
    config.error_handlers.append(lambda error, context: reported.append(context["context"]))
    batch = make()
    monkeypatch.setattr(batch.stored, "withdraw", fails)
    with pytest.raises(LookupError):
        raises(batch, make, client)
    assert reported == ["closing a batch whose block raised"]


def fails():
    raise RedisFailure("no connection")
