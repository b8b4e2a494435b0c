"""Whatever order pushes, runs, deaths, deletions and lost releases come in: one live job for a lock, which it holds."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from offsider import Config
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.payload import decode, encode
from offsider.ext.unique import Locks, Unique
from offsider.inspector import Queue, RetrySet, removal
from offsider.storage import owners, working
from offsider.storage.owners import Lists
from offsider.storage.working import DeadSetLimits, Owner

OWNER = Owner("host:1:0123456789ab", "default")
JOBS = st.integers(0, 2)


def machine_for(url):
    class Machine(RuleBasedStateMachine):
        """A client, an inspector, and a worker whose every step is a rule."""

        def __init__(self):
            super().__init__()
            self.config = Config()
            self.config.redis.url = url
            self.config.use(Unique())
            self.redis = Installation.of(self.config).redis
            self.redis.call("FLUSHALL")
            self.client = Client(self.config)
            owners.beat(self.redis, Lists(OWNER.identity, {"default": ("default",)}), 600_000)
            self.claimed = []

        def teardown(self):
            Installation.of(self.config).close()

        # What happens

        @rule(number=JOBS, later=st.booleans())
        def push(self, number, later):
            item = {"class": "Hard", "args": [number], "unique_for": 600}
            self.client.push({**item, "at": 4_102_444_800} if later else item)

        @rule(numbers=st.lists(JOBS, max_size=5))
        def push_bulk(self, numbers):
            args = [[number] for number in numbers]
            self.client.push_bulk({"class": "Hard", "args": args, "unique_for": 600})

        @rule()
        def claim(self):
            self.claimed += working.claim(self.redis, OWNER, ["default"], 1)

        @precondition(lambda self: self.claimed)
        @rule()
        def succeed(self):
            entry = self.claimed.pop()
            assert working.acknowledge(self.releasing(entry), entry)

        @precondition(lambda self: self.claimed)
        @rule()
        def fail(self):
            entry = self.claimed.pop()
            payload = {**decode(entry.raw), "retry_count": 0}
            assert working.postpone(self.redis, entry, self.redis.keys.retry, encode(payload), 0)

        @precondition(lambda self: self.claimed)
        @rule()
        def die(self):
            entry = self.claimed.pop()
            assert working.bury(self.releasing(entry), entry, entry.raw, DeadSetLimits())

        @precondition(lambda self: self.claimed)
        @rule()
        def give_back(self):
            entry = self.claimed.pop()
            assert working.put_back(self.redis, [(entry, entry.raw)]) == [True]

        @rule()
        def retry(self):
            RetrySet(self.config).retry_all()

        @rule()
        def delete_from_queue(self):
            queue = Queue("default", self.config)
            job = next(iter(queue), None)
            assert job is None or queue.delete(job)

        @rule()
        def clear_retries(self):
            RetrySet(self.config).clear()

        @rule()
        def drop_a_queue_behind_our_back(self):
            self.redis.call("DEL", self.redis.keys.queue("default"))

        @rule()
        def release_without_a_job(self):
            live = {payload["jid"] for payload in self.live()}
            for lock in Locks(self.config):
                assert lock.jid in live or lock.release()

        def releasing(self, entry):
            """The server for the script that removes a job, which releases its lock."""
            return removal.removing(Installation.of(self.config), [entry.raw], "queue:default", "kill")

        # What holds

        @invariant()
        def one_live_job_holds_a_lock(self):
            live = self.live()
            assert max(Counter(payload["idempotency_key"] for payload in live).values(), default=0) <= 1
            held = {lock.name: lock.jid for lock in Locks(self.config)}
            assert all(held.get(payload["idempotency_key"]) == payload["jid"] for payload in live)

        def live(self):
            keys = self.redis.keys
            lists = (keys.queue("default"), keys.working(OWNER.identity, "default", "default"))
            raws = [raw for key in lists for raw in self.redis.call("LRANGE", key, 0, -1)]
            raws += [raw for key in (keys.schedule, keys.retry) for raw in self.redis.call("ZRANGE", key, 0, -1)]
            return [decode(raw) for raw in raws]

    return Machine


def test_one_live_job_for_a_lock_in_any_order_of_events(redis_url):
    run_state_machine_as_test(
        machine_for(redis_url), settings=settings(max_examples=8, stateful_step_count=25, deadline=None)
    )
