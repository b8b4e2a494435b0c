"""A job on its way between the places of Redis, one step at a time, as scheduler, fetcher and settlement move it."""

from __future__ import annotations

import json

from offsider.ext.unique import store
from offsider.storage import owners
from offsider.storage.cluster import DEFAULT_PREFIX
from offsider.storage.owners import Lists

QUEUES = ("default", "low")
IDENTITY = "host:1:0123456789ab"
HELD = f"{DEFAULT_PREFIX}offsider:of_an_extension"


class Traveller:
    """One job that holds a lock, and where it is.

    Args:
        redis: the server.
        jid: of the job.
    """

    def __init__(self, redis, jid="traveller"):
        self.redis = redis
        self.jid = jid
        self.raw = json.dumps({"class": "Hard", "args": [], "jid": jid, "queue": "default"}).encode()
        self.place = ""
        self.exists = True
        lists = Lists(IDENTITY, {"default": QUEUES})
        owners.beat(redis, lists, 600_000)
        redis.call("SADD", redis.keys.queues, *QUEUES)
        redis.call("SET", store.lock_key(redis.keys, f"lock-{jid}"), store.text(jid, "Hard", 1000))
        redis.call("SADD", store.index_key(redis.keys), f"lock-{jid}")
        self._put(self.redis.keys.queue("default"))

    # Each step is one atomic move, and possible from some places only.

    def claim(self):
        """A worker takes it, and does not run it yet."""
        if self._is_queued():
            queue = self.place.rpartition(":")[2]
            self._move(self.redis.keys.working(IDENTITY, "default", queue))

    def begin(self):
        """Its run begins."""
        if self._is_claimed():
            store.begin(self.redis, f"lock-{self.jid}", self.jid)
            self.running = True

    def give_back(self):
        """It returns to the head of its queue."""
        if self._is_claimed():
            self._move(self.redis.keys.queue(self.place.rpartition(":")[2]))

    def hold(self):
        """It may not run yet, and an extension keeps it in a list of its own."""
        if self._is_claimed() and not self.running:
            self.redis.call("SADD", self.redis.keys.places, HELD)
            self._move(HELD, head=self.resumed)

    def put_off(self):
        """A switch puts it off, or no worker can run it yet: its run does not begin."""
        if self._is_claimed() and not self.running:
            self._move(self.redis.keys.schedule)

    def resume(self):
        """It may run now."""
        if self.place == HELD:
            self._move(self.redis.keys.queue("default"), head=True)
            self.resumed = True

    def fail(self):
        """Its run ends, and it waits in the retry set."""
        if self._is_claimed() and self.running:
            self._move(self.redis.keys.retry)

    def reschedule(self):
        if self._is_claimed() and self.running:
            self._move(self.redis.keys.schedule)

    def enqueue(self, queue="default"):
        """The scheduler moves it to a queue."""
        if self.place in self._sets():
            self._move(self.redis.keys.queue(queue))

    def finish(self):
        """It is done, and its lock is not released."""
        if self._is_claimed():
            self._take()
            self.exists = False

    running = resumed = False

    def _sets(self):
        return self.redis.keys.retry, self.redis.keys.schedule

    def _is_queued(self):
        return self.place.startswith(self.redis.keys.queue(""))

    def _is_claimed(self):
        return ":working:" in self.place

    def _move(self, place, *, head=None):
        before = self.place
        self._put(place, head=":working:" in before if head is None else head)
        self._take(before)
        if ":working:" not in place:
            self.running = False

    def _put(self, place, *, head=False):
        if place in self._sets():
            self.redis.call("ZADD", place, 1, self.raw)
        else:
            self.redis.call("RPUSH" if head else "LPUSH", place, self.raw)
        self.place = place

    def _take(self, place=""):
        place = place or self.place
        if place in self._sets():
            self.redis.call("ZREM", place, self.raw)
        else:
            self.redis.call("LREM", place, 1, self.raw)
