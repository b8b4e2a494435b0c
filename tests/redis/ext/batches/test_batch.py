"""Batches from Python: which pushes belong to them, when they are stored, and which are refused."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context, copy_context

import pytest

from offsider import Config, job
from offsider.client import Client
from offsider.client.via import via
from offsider.config.installation import Installation
from offsider.core.errors import (
    BatchSpansServers,
    ConfigurationError,
    InvalidArguments,
    InvalidOptions,
    NoCurrentJob,
    RedisFailure,
    UnknownBatch,
    UnknownJob,
)
from offsider.ext.batches import Batch, Batches, current_batch
from offsider.ext.unique import Unique
from offsider.inspector import Queue, ScheduledSet
from offsider.testing import fake
from tests.middleware import returning

X = {"class": "X", "args": []}


def stored(config, queue="default"):
    return [(job.jid, job.payload.get("bid")) for job in Queue(queue, config)]


def test_pushes_of_a_block_are_stored_when_it_ends(make, client, config):
    with make(description="import", tags=["a"], data={"n": 1}) as batch:
        jids = [client.push(X), *client.push_bulk({**X, "args": [[n] for n in range(1_500)]})]
        jids.append(client.push({**X, "at": 4_102_444_800}))
        # In an empty context: without the GIL, a thread inherits the context in which it starts.
        outside = threading.Thread(target=Context().run, args=(client.push, {**X, "queue": "other"}))
        outside.start()
        outside.join()
        assert stored(config) == []
    after = client.push({**X, "queue": "other"})
    assert {*stored(config)} == {(jid, batch.bid) for jid in jids[:-1]}
    assert [job.payload["bid"] for job in ScheduledSet(config)] == [batch.bid]
    assert after in dict(stored(config, "other"))
    assert {bid for _, bid in stored(config, "other")} == {None}
    status = batch.status()
    assert (status.total, status.pending, status.description) == (1_502, 1_502, "import")
    assert (status.tags, status.data, status.open_blocks) == (("a",), {"n": 1}, 0)
    assert not status.complete
    assert status.as_dict()["is_complete"] is False


def test_a_thread_in_a_copy_of_the_context_pushes_members(make, client):
    with make() as batch, ThreadPoolExecutor(4) as threads:
        for _ in range(20):
            threads.submit(copy_context().run, client.push, X)
    assert batch.status().total == 20


def test_autoflush_stores_in_between(make, client, config):
    batch = make(autoflush=2)
    with batch.jobs():
        client.push(X)
        assert stored(config) == []
        client.push(X)
        assert len(stored(config)) == 2
        client.push(X)
    assert batch.status().total == 3


def test_an_async_block_stores_too(make, config):
    async def pushes():
        client = Client(config)
        try:
            async with make(autoflush=3) as batch:
                await client.apush(X)
                await client.apush_bulk({**X, "args": [[1], [2]]})
                assert (await batch.astatus()).total == 3
                await client.apush(X)
            await batch.ainvalidate_all()
            assert await batch.avalid() is False
            with pytest.raises(TimeoutError, match="is not complete after"):
                await batch.ajoin(0.01)
            total = (await batch.astatus()).total
            assert await batch.adelete()
        finally:
            client.close()
        return total

    assert asyncio.run(pushes()) == 4


def test_a_block_waits_for_the_commit(config, make, client, watched, pushed):
    waiting = []
    config.after_commit = waiting.append
    with watched(autoflush=1) as batch:
        client.push(X)
        client.push({**X, "after_commit": False})
    assert (stored(config), len(waiting)) == ([], 3)
    for callback in waiting:
        callback()
    assert len(stored(config)) == batch.status().total == 2


def test_a_duplicate_is_not_a_member(config, make):
    config.use(Unique())
    client = Client(config)
    client.push({**X, "unique_for": 60})
    with make() as batch:
        client.push({**X, "unique_for": 60})
        client.push({**X, "unique_for": 60, "args": [1]})
    assert batch.status().total == 1


def test_a_debounced_member_that_is_replaced_leaves_its_batch(config, watched, tell, pushed):
    config.use(Unique())
    client = Client(config)
    with watched() as batch:
        client.push({**X, "debounce": 60})
        last = client.push({**X, "debounce": 60, "args": [1]})
    status = batch.status()
    assert (status.total, status.pending, status.failures, pushed()) == (1, 1, 0, [])
    tell(batch, "succeeded", last)
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]


def test_a_member_waits_for_replicas(make, client, replicas):
    with pytest.raises(RedisFailure), make() as batch:
        client.push(X, wait_replicas=replicas + 1)
    assert batch.status().open_blocks == 1


def test_a_member_without_retries_goes_to_the_dead_set(make, client, config):
    config.jobs["retry"] = False
    with make():
        client.push(X)
        client.push_bulk({**X, "retry": False, "args": [[1], [2]]})
    assert [job.payload["retry"] for job in Queue("default", config)] == [0, 0, 0]


def test_a_member_that_cannot_be_changed_names_retry_0(make, client, config):
    with pytest.raises(InvalidOptions, match="X: a job of a batch cannot have retry=False; use retry=0"):
        client.push({**X, "retry": False, "bid": "abc"})

    def without_retries(push):
        push.payload["retry"] = False
        yield

    config.client_middleware.add(without_retries)
    with pytest.raises(InvalidOptions, match="use retry=0"), make():
        client.push(X)
    assert stored(config) == []


class Box:
    default = True

    def hook(self):
        return lambda pushes: None


def test_a_member_bypasses_the_outbox(config, make, client):
    config.outbox = Box()
    with make() as batch:
        with pytest.raises(InvalidOptions, match=r"X: a push of a batch cannot .*using\(after_commit=True\)"):
            client.push(X)
        client.push({**X, "after_commit": True})
    assert batch.status().total == 1


def test_in_fake_mode_members_are_recorded_and_no_server_is_needed(config, make):
    config.redis.url = "redis://127.0.0.1:1/0"
    with fake() as jobs, make() as batch:
        Client(config).push(X)
    assert [each.payload["bid"] for each in jobs] == [batch.bid]


def test_in_fake_mode_a_block_that_raises_records_nothing(config, make):
    def crashes():
        with make():
            Client(config).push(X)
            raise LookupError

    with fake() as jobs:
        with pytest.raises(LookupError):
            crashes()
        assert list(jobs) == []


def test_members_of_fake_mode_are_recorded_if_the_commit_comes_after_its_end(config, make):
    config.redis.url = "redis://127.0.0.1:1/0"
    callbacks = []
    config.after_commit = callbacks.append
    with fake() as jobs, make():
        Client(config).push(X)
    assert list(jobs) == []
    callbacks[0]()
    assert [each.name for each in jobs] == ["X"]


# --------------------------------------------------------------------- servers


@pytest.fixture
def two(config, other_url):
    config.add_server("bulk", url=other_url)
    return config


def test_a_member_callback_or_child_for_another_server_is_refused(two, make, client, callbacks):
    batch = make()
    with batch:
        with pytest.raises(BatchSpansServers, match=r"X is for server 'bulk', but batch .* is on 'main'"):
            client.push({**X, "server": "bulk"})
        with via("bulk"), pytest.raises(BatchSpansServers, match="create it inside of via"):
            client.push_bulk({**X, "args": [[]]})
        with via("bulk"):
            other = make()
        with pytest.raises(BatchSpansServers), other:
            pass
    with via("bulk"), pytest.raises(BatchSpansServers, match="the callback success is for server 'bulk'"):
        Batch(config=Installation.of(two)).on("success", callbacks["success"])


def test_a_batch_on_another_server_is_whole_there(two, make, client):
    with via("bulk"), make() as batch:
        client.push(X)
    bulk = Installation.of(two).for_server("bulk")
    assert batch.server is bulk
    assert batch.status().total == 1
    assert len(Queue("default", bulk)) == 1


def test_a_push_of_another_configuration_is_refused(make):
    with make(), pytest.raises(BatchSpansServers, match="a push with another Config cannot join"):
        Client(Config()).push(X)


# --------------------------------------------------------------------- callbacks and options


def test_wrong_callbacks_are_refused(make, callbacks, config):
    batch = make()
    with pytest.raises(InvalidOptions, match=r"batches have no event 'sucess'.*'success'"):
        batch.on("sucess", callbacks["success"])
    with pytest.raises(InvalidOptions, match=r"options of a callback must be a dict, got list$"):
        batch.on("success", callbacks["success"], [1])
    with pytest.raises(UnknownJob, match="Nothing"):
        batch.on("success", "Nothing")
    with pytest.raises(InvalidOptions, match="must be a declared job or the name of one, got <function"):
        batch.on("success", lambda bid, options: None)
    with pytest.raises(InvalidArguments):
        batch.on("success", job(name="NoArguments")(lambda: None))
    with pytest.raises(InvalidArguments):
        batch.on("success", callbacks["success"], {"at": object()})
    batch.on("success", "success")
    config.client_middleware.add(returning())
    with pytest.raises(InvalidOptions, match="client middleware canceled the push of the callback success"):
        batch.on("success", "success")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"data": [1]}, "data of a batch must be a dict"),
        ({"data": {"at": object()}}, "data of a batch must be JSON"),
        ({"data": {"rate": float("nan")}}, "data of a batch must be JSON"),
        ({"data": ""}, "data of a batch must be a dict, got ''"),
        ({"tags": "nightly"}, "tags of a batch must be a list of texts, got 'nightly'"),
        ({"tags": [1]}, r"tags of a batch must be a list of texts, got \[1\]"),
        ({"tags": 5}, "tags of a batch must be a list of texts, got 5"),
        ({"tags": {"a": 1}}, "tags of a batch must be a list of texts"),
        ({"description": 5}, "description of a batch must be a text, got 5"),
        ({"bid": 5}, "bid of a batch must be a text, got 5"),
        ({"autoflush": -1}, "autoflush must be a whole number of 0 or more, got -1"),
        ({"autoflush": True}, "autoflush"),
        ({"callback_queue": 5}, "callback_queue"),
    ],
)
def test_wrong_options_are_refused(make, wrong, message):
    with pytest.raises(InvalidOptions, match=message):
        make(**wrong)


def test_a_batch_without_the_extension_raises():
    with pytest.raises(ConfigurationError, match=r"call config.use\(Batches\(\)\)"):
        Batch(config=Config())


@pytest.mark.parametrize("wrong", [{"ttl": 0}, {"linger": -1}, {"ttl": float("nan")}])
def test_wrong_durations_are_refused(wrong):
    with pytest.raises(ConfigurationError, match="must be a number of seconds from 1 to"):
        Batches(**wrong)


def test_outside_jobs_there_is_no_current_batch():
    with pytest.raises(NoCurrentJob):
        current_batch()


# --------------------------------------------------------------------- reading


def test_join_returns_the_status_of_a_complete_batch(make):
    with make() as batch:
        pass
    assert batch.join(5).success


def test_a_batch_is_invalid_with_its_ancestors(make, client):
    with make() as parent, make() as child:
        client.push(X)
    assert (parent.valid(), child.valid()) == (True, True)
    parent.invalidate_all()
    assert (parent.valid(), child.valid()) == (False, False)
    assert parent.status().invalidated_at
    with pytest.raises(UnknownBatch):
        make("gone").invalidate_all()
    assert make("gone").valid()


def test_failed_and_dead_members_are_listed_with_their_error(make, client, tell):
    with make() as batch:
        jids = client.push_bulk({**X, "args": [[n] for n in range(1_200)]})
    for jid in jids[:1_100]:
        tell(batch, "failed", jid)
    tell(batch, "died", jids[-1], "X: KeyError")
    assert dict(batch.failed()) == dict.fromkeys(jids[:1_100], "X: ValueError")
    assert dict(batch.died()) == {jids[-1]: "X: KeyError"}
    status = batch.status()
    assert (len(status.failed_jids), status.failures) == (1_000, 1_101)
    assert repr(batch) == f"Batch('{batch.bid}')"
