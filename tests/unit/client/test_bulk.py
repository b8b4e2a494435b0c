"""Bulk pushes: batches, times, laziness, and one result per job."""

from datetime import datetime, timedelta
from itertools import count

import pytest

from offsider.client import Client
from offsider.config import test_mode
from offsider.core.errors import InvalidArguments, InvalidJob, InvalidOptions
from offsider.core.payload import decode
from offsider.storage.effects import Effect
from offsider.storage.scripts import Script


@pytest.fixture
def batches(config):
    """The client, and the sizes of the batches it stored."""
    sizes: list[int] = []
    with test_mode.diverted(lambda jobs: sizes.append(len(jobs))):
        yield Client(config), sizes


def test_a_thousand_jobs_fit_in_one_batch(batches):
    client, sizes = batches
    jids = client.push_bulk({"class": "X", "args": [[number] for number in range(2500)]})
    assert sizes == [1000, 1000, 500]
    assert len(set(jids)) == 2500


def test_a_hundred_when_they_are_scheduled(batches):
    client, sizes = batches
    client.push_bulk({"class": "X", "args": [[1]] * 250, "at": 60})
    client.push_bulk({"class": "X", "args": [[1]] * 150}, spread_interval=60)
    assert sizes == [100, 100, 50, 100, 50]


def test_batch_size_and_spread_interval_may_be_items_as_in_ruby(client, stored):
    items = {"class": "X", "args": [[n] for n in range(500)], "spread_interval": 100, "batch_size": 50}
    client.push_bulk(items)
    delays = [job.at - 1795216780.6525 for job in stored if job.at]
    assert len(delays) == 500
    assert 90 < max(delays) < 100
    assert all(job.payload.keys().isdisjoint({"spread_interval", "batch_size"}) for job in stored)
    assert items["spread_interval"] == 100


def test_jobs_are_consumed_lazily_one_batch_at_a_time(config):
    taken = count()
    seen: list[tuple[int, int]] = []
    args = ([next(taken)] for _ in range(30))
    # The last job of the batch, and the next one: nothing was consumed ahead.
    with test_mode.diverted(lambda jobs: seen.append((jobs[-1].payload["args"][0], next(taken)))):
        Client(config).push_bulk({"class": "X", "args": args}, batch_size=10)
    assert seen == [(9, 10), (20, 21), (31, 32)]


def test_an_empty_bulk_push_is_allowed(client, stored):
    assert client.push_bulk({"class": "X", "args": []}) == []
    assert stored == []


@pytest.mark.parametrize("custom", [{}, {"custom": {"a": ["é", 1.5, None]}, "tags": ["a"], "queue": "low", "retry": 3}])
def test_the_fast_path_for_uniform_jobs_stores_the_same_as_single_pushes(client, config, stored, custom):
    args = [[1, "two", 3], [], [[{"deep": ["é"]}], "naïve", 1.5], [2**70]]
    client.push_bulk({"class": "X", "args": args, **custom})
    config.client_middleware.add(lambda push: (yield))  # which may change any job
    client.push_bulk({"class": "X", "args": args, **custom})
    quick, slow = stored[:4], stored[4:]
    assert [job.raw.replace(job.jid.encode(), b"") for job in quick] == [
        job.raw.replace(job.jid.encode(), b"") for job in slow
    ]
    assert [list(decode(job.raw)) for job in quick] == [list(job.payload) for job in quick]
    assert [decode(job.raw) for job in quick] == [job.payload for job in quick]


@pytest.mark.parametrize("custom", [{}, {"at": 60}, {"tags": ["a"]}])
def test_jobs_after_a_commit_are_stored_like_others(client, config, stored, custom):
    args = [[1, "two", 3], [], [[{"deep": ["é"]}], "naïve", 1.5]]
    client.push_bulk({"class": "X", "args": args, **custom})
    waiting = []
    config.after_commit = waiting.append
    jids = client.push_bulk({"class": "X", "args": args, **custom})
    for store in waiting:
        store()
    assert [job.jid for job in stored[3:]] == jids
    assert [job.at for job in stored[3:]] == [job.at for job in stored[:3]]
    assert [job.raw.replace(job.jid.encode(), b"") for job in stored[:3]] == [
        job.raw.replace(job.jid.encode(), b"") for job in stored[3:]
    ]


SCRIPT = Script("any", source="return 1\n")


class Jids:
    """The jid of each job as its effect."""

    def concerns(self, push):
        return push.payload["class"] == "X"

    def effects(self, push, at):
        return [Effect(SCRIPT, (), (push.payload["jid"],))]


def test_effects_see_each_job(client, config, stored):
    config.push_effects.append(Jids())
    client.push_bulk({"class": "X", "args": [[1], [2], [3]]})
    client.push_bulk({"class": "Y", "args": [[1], [2]]})
    assert [[effect.arguments for effect in job.effects] for job in stored] == [
        *([(job.jid,)] for job in stored[:3]),
        *([], []),
    ]
    assert [decode(job.raw) for job in stored] == [job.payload for job in stored]


def test_a_queue_resolver_sees_each_job(client, config, stored):
    config.queue_resolver = lambda push: f"shard{push.payload['args'][0] % 2}"
    client.push_bulk({"class": "X", "args": [[1], [2], [3]]})
    assert [job.queue for job in stored] == ["shard1", "shard0", "shard1"]


@pytest.mark.parametrize("bad, complaint", [((1,), "is a tuple"), ({1, 2}, "is a set"), (object(), "object")])
def test_a_bad_argument_of_any_job_is_named(client, stored, bad, complaint):
    with pytest.raises(InvalidArguments, match=rf"X: the argument 'args\[1\]' .*{complaint}"):
        client.push_bulk({"class": "X", "args": [[1, 2], [1, bad]]})
    assert stored == []


def test_unreadable_arguments_are_refused_even_without_strict_arguments(client, config, stored):
    config.client.strict_args = "off"
    deep: list[object] = []
    for _ in range(600):
        deep = [deep]
    for bad in (deep, float("nan"), object()):
        with pytest.raises(InvalidArguments, match="X: cannot be stored as JSON"):
            client.push_bulk({"class": "X", "args": [[1], [bad]]})
    assert stored == []


def test_stopped_jobs_return_an_empty_id_in_their_position(client, config, stored):
    config.client_middleware.add(lambda push: None if push.payload["args"] == [2] else (yield))
    jids = client.push_bulk({"class": "X", "args": [[1], [2], [3]]})
    assert jids == [stored[0].jid, "", stored[1].jid]


def test_middleware_changes_the_tags_of_one_job_only(client, config, stored):
    def tag(push):
        push.payload["tags"].append(push.payload["args"][0])
        yield

    config.client_middleware.add(tag)
    client.push_bulk({"class": "X", "args": [["a"], ["b"]], "tags": []})
    assert [job.payload["tags"] for job in stored] == [["a"], ["b"]]


def test_each_job_may_have_its_time_and_the_past_is_now(client, stored):
    client.push_bulk({"class": "X", "args": [[1], [2], [3]], "at": [60, 1_700_000_000, None]})
    assert [job.at is None for job in stored] == [False, True, True]
    assert ["enqueued_at" in job.payload for job in stored] == [False, True, True]


def test_a_jid_may_be_given_for_one_job(client, stored):
    assert client.push_bulk({"class": "X", "args": [[1]], "jid": "abc"}) == ["abc"]
    assert client.push_bulk({"class": "X", "jid": 'a"c', "args": [[1]]}) == ['a"c']
    assert [decode(job.raw)["args"] for job in stored] == [[1], [1]]
    assert decode(stored[1].raw)["jid"] == 'a"c'


@pytest.mark.parametrize(
    "items, options, error, complaint",
    [
        ({"args": [[1], [2]], "jid": "abc"}, {}, InvalidOptions, "one job only"),
        ({"args": [[1]], "jid": ""}, {}, InvalidJob, "'jid' is empty"),
        ({"args": [1, 2]}, {}, InvalidArguments, "a list for each job, .*got int$"),
        ({"args": ["ab"]}, {}, InvalidArguments, "a list for each job, .*got str$"),
        ({"args": "ab"}, {}, InvalidArguments, "an iterable with a list for each job, got str$"),
        ({"args": {"a": 1}}, {}, InvalidArguments, "an iterable with a list for each job, got dict$"),
        ({"args": 5}, {}, InvalidArguments, "an iterable with a list for each job"),
        ({}, {}, InvalidArguments, "an iterable with a list for each job"),
        ({"args": [[1], [2]], "at": [60]}, {}, InvalidOptions, "1 for 2"),
        ({"args": [[1]], "at": []}, {}, InvalidOptions, "0 for 1"),
        ({"args": iter([[1], [2]]), "at": iter([60])}, {}, InvalidOptions, "contains fewer"),
        ({"args": iter([[1], [2]]), "at": iter([60, 70, 80])}, {}, InvalidOptions, "contains more"),
        ({"args": [[1], [2]], "at": iter([60, 70, 80])}, {"batch_size": 2}, InvalidOptions, "contains more"),
        ({"args": [], "at": iter([60])}, {}, InvalidOptions, "contains more"),
        ({"args": [[1]], "at": "60"}, {}, InvalidOptions, "must be seconds"),
        ({"args": [[1]], "at": float("nan")}, {}, InvalidOptions, "must be finite"),
        ({"args": [], "at": -1}, {}, InvalidOptions, "must not be negative"),
        ({"args": [[1]], "at": [datetime(2100, 1, 1)]}, {}, InvalidOptions, "no time zone"),  # noqa: DTZ001
        ({"args": [[1]], "at": 60}, {"spread_interval": 60}, InvalidOptions, "exclude each other"),
        ({"args": [[1]]}, {"spread_interval": 0}, InvalidOptions, "positive number of seconds"),
        ({"args": [[1]]}, {"spread_interval": timedelta(0)}, InvalidOptions, "positive number of seconds"),
        ({"args": [[1]]}, {"spread_interval": float("nan")}, InvalidOptions, "positive number of seconds"),
        ({"args": [[1]]}, {"batch_size": 0}, InvalidOptions, "batch_size must be a whole number of 1 or more"),
        ({"args": [[1]], "batch_size": "2"}, {}, InvalidOptions, "batch_size must be a whole number"),
        ({"args": [[1]], "spread_interval": "60"}, {}, InvalidOptions, "positive number of seconds"),
        ({"args": [[1]], "spread_interval": 60, "at": 60}, {}, InvalidOptions, "exclude each other"),
        ({"args": [[1]], "batch_size": 2}, {"batch_size": 2}, InvalidOptions, "batch_size is given both"),
        ({"args": [[1]], "retry": -1}, {}, InvalidOptions, "retry must be"),
        ({"args": [[object()]]}, {}, InvalidArguments, r"args\[0\]"),
    ],
)
def test_contradictory_options_are_refused_before_anything_is_stored(  # noqa: PLR0917
    client, stored, items, options, error, complaint
):
    with pytest.raises(error, match=complaint):
        client.push_bulk({"class": "X", **items}, **options)
    assert stored == []
