"""Servers that a worker cannot use: one clear line, exit code 1, no traceback."""

from __future__ import annotations

import socketserver
import threading
from contextlib import contextmanager

import pytest
import redis

from offsider.embedded.folder import free_port
from tests.process.stored import push
from tests.waiting import wait_for


def refused(worker) -> str:
    """The line with which a worker ended."""
    assert worker.ended(30) == 1
    assert "Traceback" not in worker.output
    assert "running <Capsule" not in worker.output
    lines = [line for line in worker.output.splitlines() if line.startswith("offsider: ")]
    assert len(lines) == 1, worker.output
    assert worker.output.splitlines()[-1] == lines[0]
    return lines[0]


def test_an_unreachable_server(workers):
    port = free_port()
    workers.url = f"redis://127.0.0.1:{port}/0"
    line = refused(workers.start(wait=False))
    assert f"127.0.0.1:{port}" in line


def test_a_host_that_has_no_address(workers):
    workers.url = "redis://no-such-host.invalid:6379/0"
    assert "no-such-host.invalid" in refused(workers.start(wait=False))


def test_a_wrong_password_is_not_shown(workers, make_server):
    server = make_server(kind="redis7", port=0, requirepass="right")
    workers.url = server.url.replace("redis://", "redis://:wrong-one@")
    line = refused(workers.start(wait=False))
    assert "refused the login" in line
    assert "wrong-one" not in line


def test_a_missing_password(workers, make_server):
    workers.url = make_server(kind="redis7", port=0, requirepass="right").url
    assert "refused the login" in refused(workers.start(wait=False))


def test_a_replica(workers, make_server):
    workers.url = make_server(kind="redis7", replicaof=f"127.0.0.1 {free_port()}").url
    assert "read-only replica" in refused(workers.start(wait=False))


def test_a_cluster(workers, make_server):
    workers.url = make_server(kind="redis7", cluster_enabled="yes").url
    assert "is a Cluster, and its URL is that of a single server" in refused(workers.start(wait=False))


class OldServer(socketserver.StreamRequestHandler):
    """Speaks just enough to be taken for Redis 6.2."""

    INFO = b"# Server\r\nredis_version:6.2.14\r\nredis_mode:standalone\r\nrole:master\r\n"

    def handle(self):
        while line := self.rfile.readline():
            words = []
            for _ in range(int(line[1:])):
                length = int(self.rfile.readline()[1:])
                words.append(self.rfile.read(length + 2)[:-2].upper())
            if words[0] == b"INFO":
                self.wfile.write(b"$%d\r\n%s\r\n" % (len(self.INFO), self.INFO))
            elif words[0] == b"HELLO":
                self.wfile.write(b"-ERR unknown command 'HELLO'\r\n")
            else:
                self.wfile.write(b"+OK\r\n")


@contextmanager
def serving(handler):
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"redis://127.0.0.1:{server.server_address[1]}/0"
        finally:
            server.shutdown()
            thread.join()


def test_a_server_that_is_too_old(workers):
    with serving(OldServer) as url:
        workers.url = url
        line = refused(workers.start(wait=False))
    assert "redis 6.2.14" in line
    assert "too old" in line


class WebServer(socketserver.StreamRequestHandler):
    """Not Redis at all."""

    def handle(self):
        self.rfile.readline()
        self.wfile.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")


def test_a_server_that_is_not_redis(workers):
    with serving(WebServer) as url:
        workers.url = url
        refused(workers.start(wait=False))


def test_a_full_server_logs_a_warning_and_its_jobs_still_run(workers, make_server, ledger):
    server = make_server(kind="redis7")
    workers.url = server.url
    with redis.Redis.from_url(server.url) as client:
        jids = {push(client, "Short", number) for number in range(5)}
        client.set("ballast", b"x" * 4_000_000)
        client.config_set("maxmemory", "2mb")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            push(client, "Short", 6)
        worker = workers.start()
        assert "out of memory" in worker.output
        wait_for(lambda: set(ledger.counts("end")) == jids)
        wait_for(lambda: client.llen("queue:default") == 0 and not list(client.scan_iter("offsider:working:*")))
    worker.stopped()


def test_servers_that_lose_jobs_are_warned_about(workers, make_server):
    workers.url = make_server(kind="redis7", persist=False, maxmemory_policy="allkeys-lru").url
    worker = workers.start()
    assert "maxmemory-policy is allkeys-lru" in worker.output
    assert "neither AOF nor RDB is on" in worker.output
    worker.stopped()


def test_unregistered_names_of_stored_jobs_cause_a_warning(workers, stored):
    push(stored, "Renamed")
    worker = workers.start("-q", "elsewhere", "-q", "default")
    assert "stored jobs have unregistered names: Renamed" in worker.output


@pytest.mark.parametrize(
    "environ, words",
    [
        ({"OFFSIDER_WORKER_CONCURRENCY": "many"}, ["worker.concurrency", "many"]),
        ({"OFFSIDER_REDIS_WIRE_VERSION": "5"}, ["redis.wire_version", "5"]),
        ({"REDIS_PROVIDER": "redis://x"}, ["REDIS_PROVIDER"]),
    ],
)
def test_a_wrong_setting_is_named(workers, environ, words):
    line = refused(workers.start(wait=False, environ=environ))
    assert all(word in line for word in words)


@pytest.mark.parametrize("option, value", [("-c", "0"), ("-c", "x"), ("-t", "-1"), ("-q", ""), ("-q", "low,x")])
def test_a_wrong_option_is_named(workers, option, value):
    worker = workers.start(option, value, wait=False)
    assert worker.ended() in {1, 2}
    assert value in worker.output
    assert "Traceback" not in worker.output


def test_a_configuration_file_with_an_unknown_key(workers):
    workers.write("[worker]\nconcurency = 3\n", "offsider.toml")
    line = refused(workers.start(wait=False))
    assert "concurency" in line
    assert "concurrency" in line
    assert "offsider.toml" in line
