"""The scripts of batches: the callback of each outcome, how often it is pushed, and the keys that stay in Redis."""

from __future__ import annotations

import json

import pytest

from offsider.client import Client
from offsider.core.errors import BatchFinished, RedisRefused, UnknownBatch
from offsider.ext.batches import Batch, Batches

X = {"class": "X", "args": []}


@pytest.fixture
def three(watched, client):
    """A batch with three members, and their jids."""
    batch = watched()
    with batch:
        jids = [client.push(X) for _ in range(3)]
    return batch, jids


def test_success_is_pushed_once_after_the_last_success_and_complete_before_it(three, tell, pushed):
    batch, jids = three
    for jid in jids[:2]:
        tell(batch, "succeeded", jid)
        assert pushed() == []
    tell(batch, "succeeded", jids[2])
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]
    for jid in jids:
        tell(batch, "succeeded", jid)
        tell(batch, "failed", jid)
        tell(batch, "died", jid)
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]


def test_complete_needs_one_run_of_each_and_success_waits_for_the_retries(three, tell, pushed):
    batch, jids = three
    tell(batch, "succeeded", jids[0])
    tell(batch, "failed", jids[1])
    assert pushed() == []
    tell(batch, "failed", jids[2])
    assert pushed() == [("complete", batch.bid)]
    tell(batch, "succeeded", jids[1])
    assert pushed() == [("complete", batch.bid)]
    tell(batch, "succeeded", jids[2])
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]
    assert batch.status().failures == 0


def test_the_first_death_is_pushed_once_and_success_never_unless_the_dead_succeed(three, tell, pushed):
    batch, jids = three
    tell(batch, "failed", jids[0])
    tell(batch, "died", jids[0])
    tell(batch, "died", jids[0])
    tell(batch, "died", jids[1])
    assert pushed() == [("death", batch.bid)]
    tell(batch, "failed", jids[0])  # a run that an operator started
    tell(batch, "succeeded", jids[2])
    assert pushed() == [("death", batch.bid), ("complete", batch.bid)]
    status = batch.status()
    assert (status.failures, set(status.dead_jids), status.failed_jids) == (2, set(jids[:2]), [])
    tell(batch, "succeeded", jids[0])
    tell(batch, "succeeded", jids[1])
    assert pushed()[2:] == [("success", batch.bid)]


def test_a_callback_is_a_job_with_the_bid_the_options_and_the_time_of_its_push(three, tell, raw_redis, config):
    batch, jids = three
    before = config.clock.now() * 1000
    for jid in jids:
        tell(batch, "succeeded", jid)
    payload = json.loads(raw_redis.lindex("queue:callbacks", 0))
    assert payload["args"] == [batch.bid, {"event": "success"}]
    assert before - 2000 < payload["enqueued_at"] < before + 60_000
    assert isinstance(payload["enqueued_at"], int)
    assert raw_redis.sismember("queues", "callbacks")
    callback = batch.status().callbacks[1]
    assert (callback.event, callback.jid, callback.queue) == ("success", payload["jid"], "callbacks")
    assert abs(callback.pushed_at - payload["enqueued_at"]) < 5


def test_a_server_of_sidekiq_7_gets_callbacks_with_seconds(redis_url, raw_redis, client, callbacks, make):
    make().config.redis.wire_version = 7
    batch = make().on("success", callbacks["success"])
    with batch:
        pass
    payload = json.loads(raw_redis.lindex("queue:default", 0))
    assert isinstance(payload["enqueued_at"], float)
    assert payload["enqueued_at"] < 10_000_000_000


def test_an_empty_batch_is_complete_and_successful_at_once(watched, pushed):
    with watched() as batch:
        pass
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]
    assert batch.status().success


def test_a_callback_whose_queue_is_unusable_is_pushed_when_the_batch_is_checked_again(three, tell, pushed, raw_redis):
    batch, jids = three
    raw_redis.set("queue:callbacks", "no list")
    tell(batch, "succeeded", jids[0])
    tell(batch, "succeeded", jids[1])
    with pytest.raises(RedisRefused, match="WRONGTYPE"):
        tell(batch, "succeeded", jids[2])
    raw_redis.delete("queue:callbacks")
    assert not batch.status().complete
    batch.close_blocks()
    batch.close_blocks()
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]


# --------------------------------------------------------------------- children


@pytest.fixture
def family(watched, client):
    """A parent with a child, each with one member; and the two jids."""
    with watched() as parent:
        first = client.push(X)
        with watched() as child:
            second = client.push(X)
    return parent, child, first, second


def success_job(batch):
    return batch.status().callbacks[1].jid


def test_success_of_a_parent_waits_for_the_success_callbacks_of_its_children(family, tell, pushed):
    parent, child, first, second = family
    tell(parent, "succeeded", first)
    assert pushed() == [("complete", parent.bid)]
    tell(child, "succeeded", second)
    assert pushed()[1:] == [("complete", child.bid), ("success", child.bid)]
    assert parent.status().pending_kids == 1
    tell(child, "called", success_job(child))
    tell(child, "called", success_job(child))
    assert pushed()[3:] == [("success", parent.bid)]
    assert parent.status().pending_kids == 0


def test_a_child_without_success_callbacks_is_waited_for_too(watched, make, client, tell, pushed):
    with watched() as parent, make():
        second = client.push(X)
    assert pushed() == [("complete", parent.bid)]
    (child,) = parent.children()
    assert child.parent().bid == parent.bid
    assert parent.parent() is None
    tell(child, "succeeded", second)
    assert pushed()[1:] == [("success", parent.bid)]


def test_deaths_reach_all_ancestors_once(watched, client, tell, pushed):
    with watched() as top, watched() as middle, watched() as low:
        jids = [client.push(X), client.push(X)]
    tell(low, "died", jids[0])
    tell(low, "died", jids[1])
    deaths = [bid for event, bid in pushed() if event == "death"]
    assert deaths == [low.bid, middle.bid, top.bid]


def test_a_success_callback_that_dies_is_a_death_of_the_parent_until_it_succeeds(family, tell, pushed):
    parent, child, first, second = family
    tell(parent, "succeeded", first)
    tell(child, "succeeded", second)
    tell(child, "broken", success_job(child))
    assert pushed()[3:] == [("death", parent.bid)]
    tell(child, "called", success_job(child))
    assert pushed()[4:] == [("success", parent.bid)]


def test_a_success_callback_can_add_to_the_parent(family, client, tell, pushed, make):
    parent, child, first, second = family
    tell(parent, "succeeded", first)
    tell(child, "succeeded", second)
    with make(child.bid).parent() as again:
        third = client.push(X)
    tell(child, "called", success_job(child))
    assert ("success", parent.bid) not in pushed()
    tell(again, "succeeded", third)
    assert pushed()[-1] == ("success", parent.bid)


def test_a_child_that_is_deleted_is_not_waited_for(family, tell, pushed, raw_redis):
    parent, child, first, _ = family
    tell(parent, "succeeded", first)
    assert child.delete() is True
    assert child.delete() is False
    assert ("success", parent.bid) in pushed()
    assert raw_redis.keys(f"b-{child.bid}*") == []
    with pytest.raises(UnknownBatch):
        child.status()
    assert parent.children() == []


def test_a_child_of_a_batch_that_has_succeeded_is_refused(watched, make, client):
    with watched() as parent:
        pass
    child = make()
    child.stored.set_parent(parent.stored)
    with pytest.raises(BatchFinished, match=f"the parent {parent.bid} .* has succeeded"), child:
        client.push(X)


# --------------------------------------------------------------------- reopening


def test_a_member_adds_to_its_batch_from_anywhere(three, client, make, tell, pushed):
    batch, jids = three
    with make(batch.bid).jobs():
        jids.append(client.push(X))
    for jid in jids:
        assert ("success", batch.bid) not in pushed()
        tell(batch, "succeeded", jid)
    assert ("success", batch.bid) in pushed()
    assert batch.status().total == 4


def test_a_batch_that_has_succeeded_cannot_be_reopened(three, client, tell, raw_redis):
    batch, jids = three
    for jid in jids:
        tell(batch, "succeeded", jid)
    raw_redis.delete("queue:default")
    with pytest.raises(BatchFinished, match=f"batch {batch.bid} has succeeded, so it accepts no more jobs"), batch:
        client.push(X)
    assert not raw_redis.exists("queue:default")


def test_a_batch_that_does_not_exist_cannot_be_reopened(make, client, raw_redis):
    with pytest.raises(UnknownBatch, match="there is no batch gone on server 'main', or it has expired"), make("gone"):
        client.push(X)
    assert raw_redis.keys("*b-gone*") == []
    assert not raw_redis.exists("queue:default")


# --------------------------------------------------------------------- blocks that crash


def test_a_block_that_crashed_outside_of_jobs_leaves_the_batch_open_until_it_is_closed(watched, client, tell, pushed):
    batch = watched(autoflush=1)
    jids = []

    def crashes():
        with batch:
            jids.append(client.push(X))
            raise SystemExit

    with pytest.raises(SystemExit):
        crashes()
    tell(batch, "succeeded", jids[0])
    assert (pushed(), batch.status().open_blocks) == ([], 1)
    batch.close_blocks()
    assert pushed() == [("complete", batch.bid), ("success", batch.bid)]


# --------------------------------------------------------------------- expiry


def every_ttl(raw_redis, batch):
    return {raw_redis.ttl(key) for key in raw_redis.keys(f"b-{batch.bid}*")}


def test_every_key_expires_after_a_month(family, tell, raw_redis):
    for batch in family[:2]:
        assert all(2_591_000 < ttl <= 2_592_000 for ttl in every_ttl(raw_redis, batch))
    assert raw_redis.zscore("batches", family[0].bid) > 2_591_000


DAY = 86_400


@pytest.mark.parametrize("autoflush", [0, 1])
def test_a_batch_and_its_ancestors_outlive_a_scheduled_member(watched, client, config, raw_redis, autoflush):
    due = config.clock.now() + 40 * DAY
    with watched() as top, watched() as parent:
        client.push(X)
        with watched(autoflush=autoflush) as child:
            client.push(X)
            client.push({**X, "at": due})
            client.push({**X, "at": due - 5 * DAY})
    for batch in (top, parent, child):
        assert all(69 * DAY < ttl <= 70 * DAY + 60 for ttl in every_ttl(raw_redis, batch))
    assert raw_redis.zscore("batches", child.bid) > config.clock.now() + 69 * DAY


def test_the_ancestors_of_a_reopened_batch_live_as_long(family, client, config, make, raw_redis):
    with make(family[1].bid):
        client.push({**X, "at": config.clock.now() + 40 * DAY})
    for batch in family[:2]:
        assert all(69 * DAY < ttl <= 70 * DAY + 60 for ttl in every_ttl(raw_redis, batch))


def test_batches_that_have_expired_leave_the_index(make, raw_redis):
    raw_redis.zadd("batches", {"old": 1})
    with make() as batch:
        pass
    assert raw_redis.zrange("batches", 0, -1) == [batch.bid.encode()]


def test_a_batch_with_a_dead_job_lives_as_long_as_the_dead_set_and_so_do_its_ancestors(family, tell, raw_redis):
    parent, child, _, second = family
    tell(child, "died", second)
    for batch in (parent, child):
        assert raw_redis.ttl(f"b-{batch.bid}") > 15_000_000
        assert raw_redis.ttl(f"b-{batch.bid}-jids") > 15_000_000
    assert raw_redis.ttl(f"b-{child.bid}-died") > 15_000_000


def test_a_batch_lingers_a_day_after_its_success(three, tell, raw_redis):
    batch, jids = three
    for jid in jids:
        tell(batch, "succeeded", jid)
    assert raw_redis.ttl(f"b-{batch.bid}") > 86_400  # its success callback has not run
    tell(batch, "called", success_job(batch))
    assert all(ttl <= 86_400 for ttl in every_ttl(raw_redis, batch))


def test_outcomes_of_a_batch_that_was_deleted_leave_no_keys(three, tell, raw_redis):
    batch, jids = three
    batch.delete()
    for event in ("failed", "died", "succeeded"):
        tell(batch, event, jids[0])
    tell(batch, "closed", "")
    assert raw_redis.keys("b-*") == []


def test_a_push_into_a_deleted_batch_leaves_no_keys(client, raw_redis):
    client.push({**X, "bid": "gone"})
    assert raw_redis.keys("b-*") == []
    assert raw_redis.llen("queue:default") == 1


# --------------------------------------------------------------------- storage


def test_the_scripts_use_only_declared_keys_and_work_with_a_prefix(make_config, raw_redis, callbacks, tag):
    config = make_config(Batches())
    config.redis.key_prefix = f"{tag}app:"
    batch = Batch(config=config).on("success", callbacks["success"])
    with batch:
        Client(config).push(X)
    assert {key.decode().partition(":")[0] for key in raw_redis.keys("*b*")} == {"app"}
