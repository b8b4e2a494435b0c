"""What both clients share: the seam for pushes that wait for a commit."""

import pytest

from offsider.core.errors import InvalidArguments


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

    def test_bulk_is_not_covered(self, client, config, stored):
        config.after_commit = lambda callback: None
        client.push_bulk({"class": "X", "args": [[1]]})
        assert len(stored) == 1
