"""A redis-py client for tests that run on a server or on a Cluster: there it adds the hash tag to keys.

    client = client_of(url)
    client.lpush("queue:default", job)      # on a Cluster: {offsider}:queue:default

Replies that contain names of keys (KEYS, SCAN, blocking pops) come without the tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import redis
from redis.client import Pipeline
from redis.crc import key_slot

from offsider.storage.cluster import DEFAULT_PREFIX, plain_urls, tag_of

PREFIX = DEFAULT_PREFIX.encode()
#: Commands whose keys COMMAND does not describe -> positions of a counter of keys, or of the key itself.
COUNTED = {"EVAL": 2, "EVALSHA": 2, "EVAL_RO": 2, "EVALSHA_RO": 2, "FCALL": 2}
SINGLE = {"MEMORY USAGE": 1, "OBJECT ENCODING": 1, "KEYS": 1, "PUBLISH": 1, "PUBSUB NUMSUB": 1}


def is_cluster(url: str) -> bool:
    return url != plain_urls(url)[0]


def prefix_of(url: str) -> str:
    """The beginning of every key: the default hash tag on a Cluster, else empty."""
    return DEFAULT_PREFIX if is_cluster(url) else ""


def skip_on_cluster(url: str, reason: str) -> None:
    """Skip a test that cannot run on a Cluster."""
    if is_cluster(url):
        pytest.skip(f"{ON_CLUSTER} {reason}")


#: How reasons begin.
ON_CLUSTER = "on a Cluster:"


def client_of(url: str, **options: Any) -> redis.Redis:
    """A client of a server, or of the primary of the default hash tag."""
    kind = TaggedRedis if is_cluster(url) else redis.Redis
    return kind.from_url(primary_url(url), **options)


def primary_url(url: str) -> str:
    """The URL of a server, or of the primary of the default hash tag."""
    if not is_cluster(url):
        return url
    slot = key_slot(tag_of(DEFAULT_PREFIX).encode())
    for seed in plain_urls(url):
        with redis.Redis.from_url(seed) as node:
            try:
                slots: Any = node.execute_command("CLUSTER SLOTS")
            except redis.ConnectionError:
                continue
        for first, last, (host, port, *_), *_ in slots:
            if first <= slot <= last:
                return f"redis://{host.decode()}:{port}/0"
    raise LookupError(url)


class Tagging:
    """Adds the tag to the keys of a command."""

    _positions: dict[str, tuple[int, int, int]] | None = None

    def execute_command(self, *words: Any, **options: Any) -> Any:
        parent: Any = super()
        name = str(words[0]).upper()
        reply = parent.execute_command(*self._tagged(name, list(words)), **options)
        return _untagged(name, reply)

    def _tagged(self, name: str, words: list[Any]) -> Sequence[Any]:
        for place in self._places(name, words):
            words[place] = _with_tag(words[place])
        if name == "SCAN" and b"MATCH" in words:  # as redis-py writes it
            place = words.index(b"MATCH") + 1
            words[place] = _with_tag(words[place])
        return words

    def _places(self, name: str, words: Sequence[Any]) -> Sequence[int]:
        if name in SINGLE:
            return [SINGLE[name]]
        if name in COUNTED:
            counter = COUNTED[name]
            return range(counter + 1, counter + 1 + int(words[counter]))
        first, last, step = self._known().get(name.lower(), (0, 0, 0))
        if not first:
            return []
        return range(first, (last if last >= 0 else len(words) + last) + 1, step)

    def _known(self) -> dict[str, tuple[int, int, int]]:
        if Tagging._positions is None:
            own: Any = self
            with redis.Redis(connection_pool=own.connection_pool) as plain:
                commands: Any = plain.command()
            Tagging._positions = {
                name: (one["first_key_pos"], one["last_key_pos"], one["step_count"]) for name, one in commands.items()
            }
        return Tagging._positions


class TaggedRedis(Tagging, redis.Redis):
    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> Any:
        return TaggedPipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


class TaggedPipeline(Tagging, Pipeline):  # type: ignore[type-arg,unused-ignore]
    pass


def _with_tag(key: Any) -> bytes:
    name = key if isinstance(key, bytes) else str(key).encode()
    return name if name.startswith(PREFIX) else PREFIX + name


def _untagged(name: str, reply: Any) -> Any:
    if name == "KEYS" and isinstance(reply, list):
        return [key.removeprefix(PREFIX) for key in reply]
    if name == "SCAN" and isinstance(reply, (list, tuple)):
        cursor, keys = reply
        return cursor, [key.removeprefix(PREFIX) for key in keys]
    if name in {"BLPOP", "BRPOP"} and isinstance(reply, (list, tuple)):
        key, value = reply
        return key.removeprefix(PREFIX), value
    return reply
