"""A Cluster for tests: primaries with one replica each. The nodes know each other from their first start."""

from __future__ import annotations

import random
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from tests.certificates import Certificates
from tests.waiting import wait_for

SLOTS = 16_384
NODE_TIMEOUT_MS = 1000
BUS = 10_000
#: With the ports of the bus, they are below those that the system gives to clients.
PORTS = range(12_000, 22_000)


class Node:
    """One server process of a Cluster. With certificates it speaks only TLS, with clients and with other nodes."""

    def __init__(self, folder: Path, binary: Path, tls: Certificates | None) -> None:
        self.id = secrets.token_hex(20)
        self.folder, self._binary, self._tls = folder, binary, tls
        self.port = _free_port()
        secure: dict[str, Any] = {"ssl": True, "ssl_ca_certs": str(tls.ca_file)} if tls else {}
        self.raw: Any = redis.Redis(port=self.port, **secure)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self.folder.mkdir(exist_ok=True)
        options = {
            **({"port": self.port} if self._tls is None else self._tls_options(self._tls)),
            "bind": "127.0.0.1",
            "dir": self.folder,
            "save": "",
            "appendonly": "yes",
            "cluster-enabled": "yes",
            "cluster-node-timeout": NODE_TIMEOUT_MS,
            "cluster-replica-validity-factor": 0,
            "repl-diskless-sync-delay": 0,
            "repl-ping-replica-period": 1,
        }
        given = [str(word) for name, value in options.items() for word in (f"--{name}", value)]
        self.process = subprocess.Popen([self._binary, *given], stdout=subprocess.DEVNULL)

    def _tls_options(self, tls: Certificates) -> dict[str, object]:
        return {
            "port": 0,
            "tls-port": self.port,
            "tls-cluster": "yes",
            "tls-replication": "yes",
            "tls-auth-clients": "optional",
            "tls-cert-file": tls.cert_file,
            "tls-key-file": tls.key_file,
            "tls-ca-cert-file": tls.ca_file,
            # Clients verify the name in the certificate; nodes announce it instead of their address.
            "cluster-announce-hostname": "localhost",
            "cluster-preferred-endpoint-type": "hostname",
        }

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def role(self) -> str:
        with suppress(redis.RedisError):
            return str(self.raw.role()[0].decode())
        return ""


class Cluster:
    """Primaries with one replica each, on free ports.

    Attributes:
        url: with the addresses of all nodes.
    """

    def __init__(self, folder: Path, binary: Path, primaries: int = 3, tls: Certificates | None = None) -> None:
        self.nodes = [Node(folder / str(number), binary, tls) for number in range(2 * primaries)]
        self._primaries = primaries
        scheme = "rediss" if tls else "redis"
        self.url = f"{scheme}+cluster://{','.join(node.address for node in self.nodes)}"

    def start(self) -> None:
        for node in self.nodes:
            node.folder.mkdir(parents=True)
            (node.folder / "nodes.conf").write_text(self._table(node))
            node.start()
        self.wait()

    def _table(self, reader: Node) -> str:
        lines: list[str] = []
        for number, node in enumerate(self.nodes):
            owner = self.nodes[number % self._primaries]
            myself = "myself," if node is reader else ""
            epoch = number % self._primaries + 1
            first = SLOTS * number // self._primaries
            last = SLOTS * (number + 1) // self._primaries - 1
            place = f"{node.id} 127.0.0.1:{node.port}@{node.port + BUS}"
            if owner is node:
                lines.append(f"{place} {myself}master - 0 0 {epoch} connected {first}-{last}")
            else:
                lines.append(f"{place} {myself}slave {owner.id} 0 0 {epoch} connected")
        return "\n".join([*lines, f"vars currentEpoch {self._primaries} lastVoteEpoch 0", ""])

    def wait(self) -> None:
        """Wait until all nodes agree, and each primary has its replica."""
        wait_for(self._is_ready, what="a complete Cluster")

    def _is_ready(self) -> bool:
        roles = [node.role() for node in self.nodes]
        if roles.count("master") != self._primaries or roles.count("slave") != self._primaries:
            return False
        with suppress(redis.RedisError):
            return all(
                node.raw.cluster("INFO")["cluster_state"] == "ok"
                and (role == "slave" or node.raw.info("replication")["connected_slaves"] >= 1)
                and (role == "master" or node.raw.info("replication")["master_link_status"] == "up")
                for node, role in zip(self.nodes, roles, strict=True)
            )
        return False

    def primary(self, tag: str = "offsider") -> Node:
        """The primary of a hash tag, as reported by the Cluster."""
        slot = key_slot(tag.encode())
        by_id = {node.id: node for node in self.nodes}
        for node in self.nodes:
            with suppress(redis.RedisError):
                for line in node.raw.execute_command("CLUSTER NODES").values():
                    if line["node_id"] == node.id and "master" in line["flags"] and _serves(line["slots"], slot):
                        return by_id[node.id]
        raise LookupError(tag)

    def others(self, tag: str = "offsider") -> list[Node]:
        """The other primaries."""
        own = self.primary(tag)
        return [node for node in self.nodes if node is not own and node.role() == "master"]

    def begin_migration(self, source: Node, target: Node, tag: str = "offsider") -> int:
        slot = key_slot(tag.encode())
        target.raw.execute_command("CLUSTER SETSLOT", slot, "IMPORTING", source.id)
        source.raw.execute_command("CLUSTER SETSLOT", slot, "MIGRATING", target.id)
        return slot

    def end_migration(self, source: Node, target: Node, slot: int) -> None:
        """Move the keys, and then the slot, as redis-cli does."""
        while True:
            while keys := source.raw.execute_command("CLUSTER GETKEYSINSLOT", slot, 1000):
                source.raw.execute_command("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", *keys)
            target.raw.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)
            try:
                source.raw.execute_command("CLUSTER SETSLOT", slot, "NODE", target.id)
            except redis.ResponseError as error:
                if "still hold keys" not in str(error):
                    raise
                continue
            return

    def migrate(self, tag: str = "offsider") -> Node:
        """Migrate the slot of a tag to another primary, which is returned."""
        source, target = self.primary(tag), self.others(tag)[0]
        self.end_migration(source, target, self.begin_migration(source, target, tag))
        return target

    def wait_for_failover(self, killed: Node, tag: str = "offsider", seconds: float = 60) -> float:
        """Wait until another node serves the tag; returns the time it took, in seconds."""
        started = time.monotonic()

        def served() -> bool:
            with suppress(LookupError):
                return self.primary(tag) is not killed
            return False

        wait_for(served, seconds=seconds, what="a failover")
        return time.monotonic() - started

    def empty(self) -> None:
        for node in self.nodes:
            with suppress(redis.ReadOnlyError):
                node.raw.flushall()

    def close(self) -> None:
        for node in self.nodes:
            if node.process is not None:
                node.kill()
            node.raw.close()


def _free_port() -> int:
    """A port that is free, and that of the bus with it."""
    while True:
        port = random.choice(PORTS)
        address, bus = ("127.0.0.1", port), ("127.0.0.1", port + BUS)
        with suppress(OSError), socket.create_server(address), socket.create_server(bus):
            return port


def _serves(slots: list[Any], slot: int) -> bool:
    """Whether redis-py's list of ranges, each a pair of texts or one number, contains a slot."""
    return any(int(one[0]) <= slot <= int(one[-1]) for one in slots if not one[0].startswith("["))


@contextmanager
def running(folder: Path, binary: Path, primaries: int = 3, tls: Certificates | None = None) -> Iterator[Cluster]:
    cluster = Cluster(folder, binary, primaries, tls)
    with ExitStack() as stack:
        stack.callback(cluster.close)
        cluster.start()
        yield cluster
