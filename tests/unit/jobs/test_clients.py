"""Which client pushes a job."""

import asyncio
import gc
import weakref

import pytest

from offsider import Client
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.core.errors import InvalidOptions
from offsider.jobs.clients import pushing_with
from tests.middleware import returning


class TestClients:
    def test_via_names_the_client_which_may_be_a_function(self, declare, stored):
        own, asked = Config(), Config()
        own.jobs["queue"], asked.jobs["queue"] = "own", "asked"
        declare().via(Client(own)).enqueue(1)
        declare().via(lambda: Client(own)).enqueue(1)
        declare().via(Client(own)).via(Client(asked)).using(retry=1).enqueue(1)
        assert [prepared.queue for prepared in stored] == ["own", "own", "asked"]

    def test_via_none_raises_and_pushes_nowhere(self, declare, stored):
        with pytest.raises(InvalidOptions, match="via expects a client, or a function that returns one, got None"):
            declare().via(None)
        assert stored == []

    def test_inside_a_worker_its_configuration_and_the_capsule_s_chain_push(self, declare, stored):
        config = Config()
        config.jobs["queue"] = "worker"
        capsule = config.capsule("low")
        capsule.client_middleware.add(lambda push: (yield))
        client = Client(config, middleware=capsule.client_middleware)
        with pushing_with(client):
            declare().enqueue(1)
            asyncio.run(declare().aenqueue(1))
            capsule.client_middleware.add(returning())
            assert not declare().enqueue(1)
            assert not asyncio.run(declare().aenqueue(1))
        assert [prepared.queue for prepared in stored] == ["worker", "worker"]

    def test_a_configuration_and_its_client_are_collected_together(self, declare, stored):
        config = Config()
        gone = weakref.ref(config)
        with pushing_with(Client.of(config)):
            declare().enqueue(1)
            asyncio.run(declare().aenqueue(1))
        del config
        gc.collect()
        assert gone() is None


def test_wait_replicas_reaches_the_client_and_not_the_payload(declare, config):
    asked = []

    class Asked(Client):
        def store_prepared(self, jobs, wait_replicas=0):
            asked.append((wait_replicas, "wait_replicas" in jobs[0].payload))
            return ()

    add = declare().via(Asked(config))
    add.using(wait_replicas=2).enqueue(1)
    add.enqueue(1)
    declare(wait_replicas=1).via(Asked(config)).enqueue(1)
    Asked(config).push({"class": add.declared, "args": [1], "wait_replicas": 1}, wait_replicas=3)
    Asked(config).push({"class": "X", "args": [1], "wait_replicas": 1})
    assert asked == [(2, False), (0, False), (1, False), (3, False), (1, False)]


def test_pushes_of_other_threads_and_modes_do_not_leak(declare, stored):
    add = declare()
    inner = []
    with test_mode.diverted(inner.extend):
        add.enqueue(1)
    add.enqueue(2)
    assert ([job.payload["args"] for job in inner], [job.payload["args"] for job in stored]) == ([[1]], [[2]])
