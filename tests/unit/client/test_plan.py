"""What both clients share: the seam for pushes that wait for a commit."""

import asyncio

import pytest

from offsider import job
from offsider.client import Client
from offsider.client.deferred import DeferredCallback
from offsider.config import test_mode
from offsider.config.config import Config
from offsider.core.errors import InvalidArguments, InvalidOptions
from offsider.jobs import registry
from offsider.runtime.propagation import context
from tests.middleware import returning


def nested(levels):
    value = []
    for _ in range(levels - 1):
        value = [value]
    return value


class TestAfterCommit:
    def test_the_jid_is_returned_now_and_the_job_is_stored_later(self, client, config, stored):
        callbacks = []
        config.after_commit = callbacks.append
        jid = client.push({"class": "X", "args": [1]})
        assert stored == []
        callbacks[0]()
        assert [job.jid for job in stored] == [jid]

    def test_the_job_carries_the_context_of_its_caller(self, client, config, stored):
        callbacks = []
        config.after_commit = callbacks.append
        with context(user="ann"):
            client.push({"class": "X", "args": []})
        callbacks[0]()
        assert stored[0].payload["meta.user"] == "ann"

    def test_a_push_of_a_test_mode_that_has_ended_by_the_commit_reaches_no_server(self, config):
        callbacks, recorded = [], []
        config.after_commit = callbacks.append
        config.client_middleware.add(
            lambda push: (
                push.payload["class"] == "X" and Client(config).push({"class": "Y", "args": [], "after_commit": False}),
                (yield),
            )[1]
        )
        with test_mode.diverted(recorded.extend):
            jid = Client(config).push({"class": "X", "args": [1]})
        callbacks[0]()
        assert [(job.payload["class"], job.jid == jid) for job in recorded] == [("Y", False), ("X", True)]

    def test_middleware_runs_with_the_push(self, client, config, stored):
        callbacks, seen = [], []
        config.after_commit = callbacks.append
        config.client_middleware.add(lambda push: (yield) if seen.append(push.reason) else None)
        assert client.push({"class": "X", "args": []})
        assert seen == []
        callbacks[0]()
        assert seen == ["push"]
        assert stored == []

    def test_bulk_waits_too_with_a_callback_for_each_batch(self, client, config, stored):
        callbacks = []
        config.after_commit = callbacks.append
        jids = client.push_bulk({"class": "X", "args": [[1], [2], [3]], "batch_size": 2})
        assert (stored, len(callbacks)) == ([], 2)
        for callback in callbacks:
            callback()
        assert [job.jid for job in stored] == jids
        assert [job.payload["args"] for job in stored] == [[1], [2], [3]]

    @pytest.mark.parametrize("strict_args", ["raise", "off"])
    @pytest.mark.parametrize(
        "item",
        [
            pytest.param({"args": [10**5_000]}, id="digits"),
            pytest.param({"args": [nested(99)]}, id="deep"),
            pytest.param({"args": [float("nan")]}, id="nan"),
            pytest.param({"args": ["\ud800"]}, id="surrogate"),
            pytest.param({"args": [1], "order": {"when": object()}}, id="own-object"),
            pytest.param({"args": [1], "order": {"price": float("nan")}}, id="own-nan"),
            pytest.param({"args": [1], "order": {1: "a"}}, id="own-key"),
            pytest.param({"args": [1], "order": nested(100)}, id="own-deep"),
        ],
    )
    @pytest.mark.parametrize("how", ["single", "bulk", "mixed", "scheduled"])
    def test_a_job_that_cannot_be_stored_raises_as_without_a_commit(self, client, config, item, strict_args, how):
        config.client.strict_args = strict_args
        others = [[{"a": 1}]] if how == "mixed" else [[1]]
        item = {"class": "X", **item} if how == "single" else {"class": "X", **item, "args": [*others, item["args"]]}
        if how == "scheduled":
            item["at"] = 60

        def outcome():
            try:
                client.push(item) if how == "single" else client.push_bulk(item)
            except InvalidArguments as error:
                return str(error)
            return ""

        expected, callbacks = outcome(), []
        config.after_commit = callbacks.append
        assert outcome() == expected
        assert len(callbacks) == (not expected)
        assert expected or (strict_args == "off" and item.get("order") == {1: "a"})

    def test_without_a_transaction_the_result_is_that_of_the_push(self, client, config, stored):
        config.after_commit = lambda callback: callback()
        config.client_middleware.add(lambda push: (yield) if push.payload["args"] != [2] else None)
        assert not client.push({"class": "X", "args": [2]})
        first, second, third = client.push_bulk({"class": "X", "args": [[1], [2], [3]]})
        assert not second
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
        with pytest.raises(InvalidOptions, match=r"audit: after_commit must be True, False or .outbox., got 1"):
            client.push({"class": audit.declared, "args": [], "after_commit": 1})

    @pytest.mark.parametrize("many", [False, True])
    def test_an_asynchronous_push_waits_in_the_same_way(self, config, stored, many):
        callbacks = []
        config.after_commit = callbacks.append
        item = {"class": "X", "args": [[1]] if many else [1]}
        client = Client(config)
        asyncio.run(client.apush_bulk(item) if many else client.apush(item))
        assert (len(stored), len(callbacks)) == (0, 1)
        callbacks[0]()
        assert len(stored) == 1

    def test_an_error_of_the_hook_is_raised(self, config, stored):
        config.after_commit = lambda callback: 1 / 0
        with pytest.raises(ZeroDivisionError):
            asyncio.run(Client(config).apush({"class": "X", "args": []}))
        assert stored == []


class Box:
    """An outbox that keeps the jobs; closed, it has no open transaction."""

    def __init__(self, *, default=True, is_open=True):
        self.default, self.is_open, self.jobs = default, is_open, []

    def hook(self):
        return (lambda pushes: self.jobs.extend(pushes.prepare())) if self.is_open else None


class TestOutbox:
    @pytest.fixture
    def config(self):
        config = Config()
        config.outbox = Box()
        config.after_commit = lambda callback: None
        return config

    def test_the_job_is_prepared_at_the_call_with_its_server(self, config):
        jid = Client(config).push({"class": "X", "args": [1], "after_commit": "outbox"})
        jids = Client(config).push_bulk({"class": "X", "args": [[2], [3]]})
        assert [(job.jid, job.server) for job in config.outbox.jobs] == [(each, "main") for each in (jid, *jids)]
        assert "after_commit" not in config.outbox.jobs[0].payload

    def test_middleware_that_stops_a_job_leaves_no_row(self, config):
        config.client_middleware.add(returning())
        assert not Client(config).push({"class": "X", "args": [1]})
        assert config.outbox.jobs == []

    def test_a_hook_that_is_called_twice_prepares_once(self, config):
        ran = []
        config.client_middleware.add(lambda push: ran.append(1) or (yield))
        config.outbox.hook = lambda: lambda pushes: (pushes.prepare(), pushes.prepare())
        Client(config).push({"class": "X", "args": [1]})
        assert ran == [1]

    def test_push_then_declaration_then_default_decide(self, config):
        with registry.isolated():

            @job(name="always", after_commit="outbox")
            def always() -> None: ...

            @job(name="at_once", after_commit=False)
            def at_once() -> None: ...

        def taken(declared, **options):
            before = len(config.outbox.jobs)
            _, hook = Client(config)._take_hook({"class": declared, "args": [], **options}, 0)
            if hook is not None and hook is not config.after_commit:
                hook(DeferredCallback(Client(config), []))
            assert len(config.outbox.jobs) == before
            return "now" if hook is None else "commit" if hook is config.after_commit else "row"

        assert taken("X") == taken(always.declared) == "row"
        assert taken("X", after_commit=True) == taken(always.declared, after_commit=True) == "commit"
        assert taken(at_once.declared) == taken(always.declared, after_commit=False) == "now"
        assert taken(at_once.declared, after_commit="outbox") == "row"
        config.outbox.default = False
        assert taken(always.declared) == taken("X", after_commit="outbox") == "row"
        assert taken("X") == "commit"

    def test_without_an_open_transaction_the_outbox_is_bypassed(self, config):
        config.outbox.is_open = False
        assert Client(config)._take_hook({"class": "X", "args": []}, 0)[1] is config.after_commit
        assert Client(config)._take_hook({"class": "X", "args": [], "after_commit": False}, 0)[1] is None

    def test_without_an_open_transaction_a_job_with_the_option_is_an_error(self, config):
        config.outbox.is_open = False
        with registry.isolated():

            @job(name="always", after_commit="outbox")
            def always() -> None: ...

        with pytest.raises(InvalidOptions, match='always: after_commit="outbox", but no session of the outbox is open'):
            Client(config).push({"class": always.declared, "args": []})
        with pytest.raises(InvalidOptions, match='X: after_commit="outbox", but no session'):
            Client(config).push_bulk({"class": "X", "args": [[1]], "after_commit": "outbox"})
        assert Client(config)._take_hook({"class": always.declared, "args": [], "after_commit": True}, 0)[1] is not None

    def test_a_test_mode_replaces_it(self, config, stored):
        config.after_commit = None
        Client(config).push({"class": "X", "args": []})
        assert (len(stored), config.outbox.jobs) == (1, [])

    def test_it_cannot_wait_for_replicas(self, config):
        with pytest.raises(InvalidOptions, match="X: a push through the outbox cannot wait for replicas"):
            Client(config).push({"class": "X", "args": []}, wait_replicas=1)

    def test_without_an_outbox_the_option_is_an_error(self, config):
        config.outbox = None
        with registry.isolated():

            @job(name="always", after_commit="outbox")
            def always() -> None: ...

        with pytest.raises(InvalidOptions, match='X: after_commit="outbox" needs an outbox'):
            Client(config).push({"class": "X", "args": [], "after_commit": "outbox"})
        with pytest.raises(InvalidOptions, match='always: after_commit="outbox" needs an outbox'):
            Client(config).push({"class": always.declared, "args": []})
        with pytest.raises(InvalidOptions, match='always: after_commit="outbox" needs an outbox'):
            always.declared.check(config)
