"""Connections to the node of a Redis or Valkey Cluster that stores the keys of one hash tag.

1. The key prefix contains a hash tag, so all keys of a server of the configuration are in one slot.
2. A connection goes to the primary of this slot. The nodes return it (``CLUSTER SLOTS``); if they refuse the question,
   the redirection of a command with a key does.
3. A redirection (`REDIRECTIONS`) means that nothing was executed. The connection is closed, and the next one goes to
   the new primary. `redirected` lists the commands to send again, for a pool, which does so until its timeout.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from offsider.core.errors import ConfigurationError, RedisFailure, RedisUnavailable
from offsider.storage.redis_errors import REDIRECTIONS
from offsider.storage.scripts import Command

SCHEMES = ("redis+cluster://", "rediss+cluster://")
DEFAULT_PREFIX = "{offsider}:"
#: Pause before commands are sent again: the second time, and at most.
PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.02, 0.1

Address = tuple[str, int]


class UrlParts(NamedTuple):
    """``scheme://login hosts rest``; ``login`` ends with its ``@``, and ``rest`` begins with ``/``, ``?`` or ``#``."""

    scheme: str
    login: str
    hosts: str
    rest: str


def split_url(url: str) -> UrlParts:
    """Split the URL of a server or a Cluster.

    Since Python 3.14 ``urlsplit`` refuses a host in brackets beside another one.
    """
    scheme, _, after = url.partition("://")
    end = next((place for place, letter in enumerate(after) if letter in "/?#"), len(after))
    login, at, hosts = after[:end].rpartition("@")
    return UrlParts(scheme, login + at, hosts, after[end:])


def plain_urls(url: str) -> list[str]:
    """Return one ``redis://`` or ``rediss://`` URL per seed of the URL of a Cluster; any other URL unchanged.

    Raises:
        ValueError: a host is empty, or has its own login. The message contains no part of the URL.
    """
    if not url.startswith(SCHEMES):
        return [url]
    parts = split_url(url)
    if "," in parts.login:
        raise ValueError("write user and password once, before the first host, and a comma in a password as %2C")
    hosts = parts.hosts.split(",")
    for number, host in enumerate(hosts, start=1):
        if not host or host.startswith(":"):  # redis-py would connect to localhost
            raise ValueError(f"host {number} of {len(hosts)} is empty: remove a comma, or write the missing name")
    scheme = parts.scheme.removesuffix("+cluster")
    return [f"{scheme}://{parts.login}{host}{parts.rest}" for host in hosts]


def tag_of(prefix: str) -> str:
    """Return the hash tag of a key prefix.

    Raises:
        ConfigurationError: the prefix has none.
    """
    tag, closed, _ = prefix.partition("{")[2].partition("}")
    if not tag or not closed:
        raise ConfigurationError(
            f"redis.key_prefix: {prefix!r} has no hash tag, so a Cluster would distribute the keys over its nodes: "
            f"write the name in braces, for example {'{' + (prefix.strip(':{}') or 'offsider') + '}:'!r}"
        )
    return tag


class Again(NamedTuple):
    """Commands to send again.

    Attributes:
        places: their indexes.
        asking: send each one after ASKING, to the node that ASK named.
        pause_seconds: pause before they are sent.
    """

    places: list[int]
    asking: bool
    pause_seconds: float


def redirected(commands: Sequence[Command], replies: Sequence[Any], deadline: float) -> Iterator[Again]:
    """Yield the commands to send again, until none is left or the deadline has passed.

    The caller replaces the old replies by the new ones.
    """
    pause = 0.0
    while (places := _places(commands, replies)) and time.monotonic() + pause < deadline:
        # MULTI and EXEC of a transaction have replies of their own.
        asking = {_code(replies[place]) for place in places} <= {"ASK", "", "EXECABORT"}
        yield Again(places, asking, pause)
        pause = min(2 * pause or PAUSE_SECONDS, MAX_PAUSE_SECONDS)


def _places(commands: Sequence[Command], replies: Sequence[Any]) -> list[int]:
    """Return the indexes of the commands that were not executed. A transaction counts as a whole."""
    places: list[int] = []
    began: int | None = None
    for place, (command, reply) in enumerate(zip(commands, replies, strict=True)):
        if command[0] == "MULTI":
            began = place
        elif command[0] == "EXEC" and began is not None:
            part = range(began, place + 1)
            if any(_code(replies[one]) in REDIRECTIONS for one in part):
                places.extend(part)
            began = None
        elif began is None and _code(reply) in REDIRECTIONS:
            places.append(place)
    return places


def with_asking(commands: Sequence[Command]) -> tuple[list[Command], list[int]]:
    """Return the commands with ASKING before each, and their new indexes. One ASKING is for a whole transaction."""
    sent: list[Command] = []
    places: list[int] = []
    in_transaction = False
    for command in commands:
        if not in_transaction:
            sent.append(("ASKING",))
        places.append(len(sent))
        sent.append(command)
        in_transaction = command[0] == "MULTI" or (in_transaction and command[0] != "EXEC")
    return sent, places


def _code(reply: Any) -> str:
    return reply.code if isinstance(reply, RedisFailure) else ""


class Nodes:
    """The known nodes of a Cluster, and the primary of one slot. Shared by the connections of a pool.

    Attributes:
        addresses: the seeds and the nodes of the latest reply; those that did not reply are the last.
        primary: address of the primary; None if it is unknown.
    """

    def __init__(self, seeds: Sequence[Address], prefix: str) -> None:
        from redis.crc import key_slot

        self.prefix = prefix
        self.tag = tag_of(prefix)
        self.slot: int = key_slot(self.tag.encode())
        self._seeds = seeds
        self.addresses = list(seeds)
        self.primary: Address | None = None

    def learn(self, asked: Address, reply: Any) -> Address | None:
        """Read the reply to CLUSTER SLOTS. Returns the primary, or None if no node serves the slot."""
        found: list[Address] = []
        self.primary = None
        for first, last, *nodes in reply:
            served = [(_text(host) or asked[0], int(port)) for host, port, *_ in nodes]
            found += served
            if first <= self.slot <= last:
                self.primary = served[0]
        self._put_first(asked, *(found or self.addresses), *self._seeds)
        return self.primary

    def learn_from_key(self, asked: Address, error: Exception | None) -> Address | None:
        """Read the reply to a command with a key. A node that is not the primary of the slot redirects it."""
        self._put_first(asked, *self.addresses)
        if error is None:
            self.primary = asked
        else:
            self.read(error, asked)
        return self.primary

    def _put_first(self, *addresses: Address) -> None:
        self.addresses = list(dict.fromkeys(addresses))

    def put_last(self, address: Address) -> None:
        """Ask this node after the others next time."""
        self.addresses = [*(other for other in self.addresses if other != address), address]

    def doubt(self, address: Address) -> None:
        """Ask other nodes for the primary, because this one did not reply: it may be frozen, and another promoted."""
        self.primary = None
        self.put_last(address)

    def read(self, error: Exception, connected: Address) -> Address | None:
        """Note what an error reply means for the next connection; returns the address that ASK names."""
        from redis import exceptions

        untyped: Any = error
        if isinstance(error, exceptions.MovedError):  # a subclass of AskError
            self.primary = (untyped.host or connected[0], untyped.port)
        elif isinstance(error, exceptions.AskError):
            return untyped.host or connected[0], untyped.port
        elif isinstance(error, (exceptions.ClusterDownError, exceptions.MasterDownError, exceptions.ReadOnlyError)):
            self.doubt(connected)  # it may be cut off from the others
        return None


def _text(host: bytes | None) -> str:
    """Return a host name; empty if it is that of the node that replied."""
    return "" if host is None or host == b"?" else host.decode()


class NodePool:
    """Creates connections, as a redis-py pool does.

    Args:
        kind: `node_connection` of redis-py's class.
        nodes: shared by the connections.
        options: keyword arguments of the class.
    """

    def __init__(self, kind: Any, nodes: Nodes, options: Mapping[str, Any]) -> None:
        self._kind = kind
        self.nodes = nodes
        self._options = options

    def make_connection(self) -> Any:
        return self._kind(self.nodes, self._options)


def make_pool(url: str, prefix: str, options: Mapping[str, Any]) -> NodePool:
    """Return the pool of a Cluster's URL.

    Args:
        url: with all seeds.
        prefix: the key prefix, with its hash tag.
        options: keyword arguments for each connection.

    Raises:
        ConfigurationError: the prefix has no hash tag.
        ValueError: redis-py cannot read the URL.
    """
    connection: Any = importlib.import_module("redis.connection")
    parsed = [connection.parse_url(plain) for plain in plain_urls(url)]
    seeds = [(str(one.get("host", "localhost")), int(one.get("port", 6379))) for one in parsed]
    given = {**parsed[0], **options}
    given.pop("max_connections", None)  # of a pool
    kind = given.pop("connection_class", connection.Connection)
    return NodePool(node_connection(kind), Nodes(seeds, prefix), given)


class _NoClusterNode(Exception):
    """The server replied that it is a single server."""


#: The reply of a single server to CLUSTER: "This instance has cluster support disabled"; of Dragonfly: "Cluster is
#: disabled".
_DISABLED = re.compile("cluster (support|is) disabled", re.IGNORECASE)


def _without_primary(nodes: Nodes, asked: Sequence[Address], failures: Mapping[Address, Exception]) -> Address:
    """Return the address to use after no node has named a primary: a single server's, if all that were asked are such.

    A single server beside nodes of a Cluster does not store their jobs, also while these nodes do not reply.

    Args:
        nodes: the nodes.
        asked: the addresses that were asked.
        failures: address -> error; a node that replied, but knows no primary, has none.
    """
    from redis.exceptions import AuthenticationError, ConnectionError as NoConnection

    replied = [address for address in asked if address not in failures]
    if replied:
        host, port = replied[0]
        # Not redis-py's class: the node runs, so the advice to start it would be wrong.
        raise RedisUnavailable(
            f"no node of the Cluster serves slot {nodes.slot}: run redis-cli --cluster check {host}:{port}, "
            f"and redis-cli --cluster fix {host}:{port} if slots are not covered",
            ambiguous=False,
        )
    errors = [error for error in failures.values() if not isinstance(error, _NoClusterNode)]
    if not errors:
        nodes.primary = asked[0]
        return asked[0]
    if isinstance(errors[-1], AuthenticationError):
        raise errors[-1]
    raise NoConnection(f"no node of the Cluster returned a primary of slot {nodes.slot} ({errors[-1]})")


def node_connection(base: Any) -> Any:  # noqa: C901 - a class, whose base is imported at first use
    """Return redis-py's connection class ``base``, connecting to the primary of the slot."""
    from redis.exceptions import ConnectionError as NoConnection, ResponseError, TimeoutError as TooLate

    class Connection(base):  # type: ignore[misc]
        asked: Address | None = None
        _next: Address | None = None

        def __init__(self, nodes: Nodes, options: Mapping[str, Any]) -> None:
            self._nodes, self._options = nodes, dict(options)
            self._super: Any = super()
            self._super.__init__(**options)  # type: ignore[misc]

        @property
        def is_outdated(self) -> bool:
            """Whether the primary is another node, or unknown because this one did not reply."""
            return (self.host, self.port) != self._nodes.primary

        def ask(self) -> None:
            """Make the next connection go to the node that ASK named."""
            self.disconnect()
            self._next = self.asked

        def note(self, error: Exception) -> None:
            """Apply the redirection of an error reply to the next connection."""
            self.asked = self._nodes.read(error, (self.host, self.port))

        def doubt(self) -> None:
            """Make the next connection look for the primary again, because there was no reply."""
            self._nodes.doubt((self.host, self.port))

        def connect_check_health(self, *, check_health: bool = True, retry_socket_connect: bool = True) -> None:
            goal, self._next = self._next or self._nodes.primary, None
            if goal is not None:
                self.host, self.port = goal
                try:
                    self._super.connect_check_health(check_health, retry_socket_connect)
                except (NoConnection, TooLate):
                    self._nodes.doubt(goal)
                else:
                    return
            self.host, self.port = self._discover()
            self._super.connect_check_health(check_health, retry_socket_connect)

        def _discover(self) -> Address:
            failures: dict[Address, Exception] = {}
            for address in (known := list(self._nodes.addresses)):
                self._nodes.put_last(address)  # first: the caller may give up before this node replies
                node = base(**self._options | {"host": address[0], "port": address[1]})
                try:
                    node.connect()
                    primary = self._asked(node, address)
                except (NoConnection, TooLate, _NoClusterNode) as error:
                    failures[address] = error
                    continue
                finally:
                    node.disconnect()
                if primary is not None:
                    return primary
            return _without_primary(self._nodes, known, failures)

        def _asked(self, node: Any, address: Address) -> Address | None:
            try:
                node.send_command("CLUSTER", "SLOTS")
                return self._nodes.learn(address, node.read_response())
            except ResponseError as error:
                if _DISABLED.search(str(error)):
                    raise _NoClusterNode from error
                # forbidden, or a proxy
                node.send_command("EXISTS", self._nodes.prefix)
            try:
                node.read_response()
            except ResponseError as error:
                return self._nodes.learn_from_key(address, error)
            return self._nodes.learn_from_key(address, None)

    return Connection
