"""A configuration with batches on a real server, and jobs whose outcome a test decides."""

from __future__ import annotations

import json

import pytest

from offsider import Discard, Reschedule, Skip, job
from offsider.config.installation import Installation
from offsider.ext.batches import Batch, Batches, store
from offsider.ext.batches.store import Lives, lineages


@pytest.fixture
def config(config):
    config.worker.timeout_seconds = 5
    config.use(Batches())
    return config


@pytest.fixture
def make(config):
    """Makes a batch of the configuration."""

    def make(bid="", **options):
        return Batch(bid, config=config, **options)

    return make


@pytest.fixture
def tell(config, redis):
    """Tells a batch the outcome of a member, as the script of the outcome does."""

    def tell(batch, event, jid, about="X: ValueError"):
        lineage, lives = lineages(Installation.of(config)).of(batch.bid), Lives.of(config)
        return redis.run(*store.outcomes(redis.keys.prefix, lineage, lives).call(event, jid, about))

    return tell


@pytest.fixture
def callbacks(declared):
    """Declared callbacks, named after the events."""
    return {name: job(name=name)(called) for name in ("complete", "success", "death")}


def called(bid, options):
    pass


@pytest.fixture
def watched(make, callbacks):
    """Makes a batch with each of the callbacks, in the queue ``callbacks``."""

    def watched(**options):
        batch = make(callback_queue="callbacks", **options)
        for event, callback in callbacks.items():
            batch.on(event, callback, {"event": event})
        return batch

    return watched


@pytest.fixture
def pushed(raw_redis):
    """Returns event and bid of each pushed callback, oldest first."""

    def pushed(queue="callbacks"):
        jobs = [json.loads(raw) for raw in reversed(raw_redis.lrange(f"queue:{queue}", 0, -1))]
        return [(job["class"], job["args"][0]) for job in jobs]

    return pushed


@pytest.fixture
def member(declared):
    """A job that performs the action named by its argument."""

    @job(name="Member", retry=1)
    def act(what="succeed"):
        if what == "fail":
            raise ValueError("fails")
        if what == "skip":
            raise Skip
        if what == "discard":
            raise Discard
        if what == "reschedule":
            raise Reschedule(600)

    return act


@pytest.fixture
def empty(make):
    """Makes a batch without members, which has succeeded."""

    def empty(**options):
        with make(**options) as batch:
            pass
        return batch.bid

    return empty
