"""What both clients share: the seam for pushes that wait for a commit."""

import asyncio

import pytest

from offsider import job
from offsider.client import AsyncClient, Client
from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.jobs import registry


class TestAfterCommit:
    def test_the_jid_is_known_now_and_the_job_is_stored_later(self, client, config, stored):
        callbacks = []
        config.after_commit = callbacks.append
        jid = client.push({"class": "X", "args": [1]})
        assert stored == []
        callbacks[0]()
        assert [job.jid for job in stored] == [jid]

    def test_middleware_runs_with_the_push(self, client, config, stored):
        callbacks, seen = [], []
        config.after_commit = callbacks.append
        config.client_middleware.add(lambda push, call_next: seen.append(push.reason))
        assert client.push({"class": "X", "args": []}) is not None
        assert seen == []
        callbacks[0]()
        assert seen == ["push"]
        assert stored == []

    def test_bad_arguments_raise_where_they_are_given(self, client, config):
        config.after_commit = lambda callback: None
        with pytest.raises(InvalidArguments):
            client.push({"class": "X", "args": [object()]})

    def test_bulk_waits_too_with_a_callback_for_each_batch(self, client, config, stored):
        callbacks = []
        config.after_commit = callbacks.append
        jids = client.push_bulk({"class": "X", "args": [[1], [2], [3]], "batch_size": 2})
        assert (stored, len(callbacks)) == ([], 2)
        for callback in callbacks:
            callback()
        assert [job.jid for job in stored] == jids
        assert [job.payload["args"] for job in stored] == [[1], [2], [3]]

    def test_bad_arguments_of_a_bulk_push_raise_where_they_are_given(self, client, config):
        config.after_commit = lambda callback: None
        with pytest.raises(InvalidArguments):
            client.push_bulk({"class": "X", "args": [[1], [object()]]})

    def test_without_a_transaction_the_result_is_that_of_the_push(self, client, config, stored):
        config.after_commit = lambda callback: callback()
        config.client_middleware.add(lambda push, call_next: call_next(push) if push.payload["args"] != [2] else None)
        assert client.push({"class": "X", "args": [2]}) is None
        first, second, third = client.push_bulk({"class": "X", "args": [[1], [2], [3]]})
        assert second is None
        assert [job.jid for job in stored] == [first, third]

    def test_a_push_that_does_not_want_to_wait_is_stored_now(self, client, config, stored):
        config.after_commit = lambda callback: None
        client.push({"class": "X", "args": [], "after_commit": False})
        client.push_bulk({"class": "X", "args": [[]], "after_commit": False})
        assert ["after_commit" in job.payload for job in stored] == [False, False]

    def test_the_declaration_decides_unless_the_push_does(self, config, stored):
        config.after_commit = lambda callback: None
        with registry.isolated():

            @job(name="audit", after_commit=False)
            def audit() -> None: ...

        client = Client(config)
        client.push({"class": audit.declared, "args": []})
        client.push({"class": audit.declared, "args": [], "after_commit": True})
        assert len(stored) == 1
        with pytest.raises(InvalidOptions, match="audit: after_commit must be True or False, got 1"):
            client.push({"class": audit.declared, "args": [], "after_commit": 1})

    @pytest.mark.parametrize("many", [False, True])
    def test_an_asynchronous_push_waits_in_the_same_way(self, config, stored, many):
        callbacks = []
        config.after_commit = callbacks.append
        item = {"class": "X", "args": [[1]] if many else [1]}
        client = AsyncClient(config)
        asyncio.run(client.push_bulk(item) if many else client.push(item))
        assert (len(stored), len(callbacks)) == (0, 1)
        callbacks[0]()
        assert len(stored) == 1
