"""The health endpoint: responses to probes, and its handling of other clients."""

from __future__ import annotations

import http.client
import select
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from offsider.cli import health as module
from offsider.cli.health import MAX_CONNECTIONS, REQUEST_BYTES, HealthServer, response
from offsider.core.errors import ConfigurationError
from offsider.core.series import Series
from offsider.storage.owners import Lists
from offsider.storage.redis import RedisSettings
from offsider.worker.health_state import CountedRuns, HealthState, Report, WorkerHealth
from tests.waiting import wait_for

WELL = HealthState(expected=0)
REPORT = Report(Lists("host:7:a", {}), 45_000, RedisSettings())
QUIET = HealthState(2, {7: WorkerHealth(replace(REPORT, state="quiet"))})
STUCK = HealthState(1, {7: WorkerHealth(replace(REPORT, stuck=("its fetch loop is stuck",)))})


@pytest.fixture
def serving():
    """Serves from a thread, as a parent does from its loop."""
    over, servers, threads = threading.Event(), [], []

    def serve(health=WELL, **given):
        server = HealthServer("127.0.0.1:0", health, **given)
        servers.append(server)
        threads.append(threading.Thread(target=tend, args=(server, over)))
        threads[-1].start()
        return server

    yield serve
    over.set()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()


def tend(server, over):
    while not over.is_set():
        select.select(server.reading(), server.writing(), [], max(0.0, min(0.05, server.due() - time.monotonic())))
        server.tend()


@pytest.fixture
def server(serving):
    return serving()


def ask(server, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer
    finally:
        connection.close()


@pytest.mark.parametrize(
    "health, path, status, body",
    [
        (WELL, "/live", 200, "ok\n"),
        (WELL, "/ready", 200, "ok\n"),
        (WELL, "/ready?full=1", 200, "ok\n"),
        (QUIET, "/live", 200, "ok\n"),
        (QUIET, "/ready", 503, "worker 7 is quiet\n0 of 2 workers claim jobs\n"),
        (STUCK, "/live", 503, "worker 7: its fetch loop is stuck\n"),
        (WELL, "/", 404, "not found: use /live, /ready or /metrics\n"),
        (WELL, "/live/", 404, "not found: use /live, /ready or /metrics\n"),
        (STUCK, "/../live", 404, "not found: use /live, /ready or /metrics\n"),
    ],
)
def test_each_path_returns_its_own_response(serving, health, path, status, body):
    assert ask(serving(health), path)[:2] == (status, body)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_only_get_and_head_are_allowed(server, method):
    status, _, answer = ask(server, "/live", method)
    assert (status, answer.getheader("Allow")) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"", 400),
        (b"\r\n\r\n", 400),
        (b"GET /live\r\n\r\n", 400),
        (b"GET /live HTTP/1.1 and more\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET /live SSH/2.0\r\n\r\n", 400),
        (b"GET /live HTTP/1.0\n\n", 200),
        (b"GET \xff\xfe HTTP/1.1\r\n\r\n", 404),
        (b"BREW /live HTTP/1.1\r\n\r\n", 405),
        (b"GET /live HTTP/1.1\r\nX: " + b"x" * REQUEST_BYTES, 431),
    ],
)
def test_invalid_requests_get_a_response_but_never_a_5xx(request_bytes, status):
    assert response(request_bytes, WELL).split(b" ")[1] == str(status).encode()


def test_silent_connections_do_not_block_other_requests(server, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 120)  # much longer than anyone waits for a response here
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(2 * MAX_CONNECTIONS)]
    assert ask(server, "/live")[0] == 200
    assert len(server._open) <= MAX_CONNECTIONS
    for connection in silent:
        connection.close()
    wait_for(lambda: not server._open)


def test_an_endless_request_is_cut_off(server, monkeypatch):
    monkeypatch.setattr(module, "REQUEST_SECONDS", 0.2)
    with socket.create_connection(("127.0.0.1", server.port)) as talker:
        talker.settimeout(10)
        talker.sendall(b"GET /live HTTP/1.1\r\n")

        def is_cut_off():
            with suppress(ConnectionError):
                talker.sendall(b"x")
                return False
            return True

        wait_for(is_cut_off)
        wait_for(lambda: not server._open)


def test_a_port_in_use_is_reported_at_start(server):
    with pytest.raises(
        ConfigurationError, match=f"--health: cannot listen on 127.0.0.1:{server.port}: Address already"
    ):
        HealthServer(f"127.0.0.1:{server.port}", WELL)


def test_it_recovers_after_running_out_of_file_descriptors(server, caplog):
    class Full:
        """Refuses once."""

        def __init__(self, real) -> None:
            self.real, self.refused = real, False

        def accept(self):
            if not self.refused:
                self.refused = True
                raise OSError("too many open files")
            return self.real.accept()

        def __getattr__(self, name):
            return getattr(self.real, name)

    server._socket = Full(server._socket)
    assert ask(server, "/live")[0] == 200
    assert "cannot accept a connection: OSError: too many open files" in caplog.text


def test_a_scrape_returns_the_text_format(serving):
    counted = [Series({"class": "A", "queue": "q"}, processed=3, failed=1)]
    health = HealthState(workers={1: WorkerHealth(REPORT)})
    health.count(1, CountedRuns(counted, busy=1, concurrency=10))
    server = serving(health)
    status, body, answer = ask(server, "/metrics")
    assert (status, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    families = {family.name: family for family in text_string_to_metric_families(body)}
    assert families["sidekiq_jobs_failed"].samples[0].value == 1
    assert families["sidekiq_concurrency"].samples[0].value == 10
    assert ask(server, "/metrics", "HEAD")[:2] == (200, "")


def test_a_scrape_without_the_library_says_what_to_install(server, monkeypatch):
    monkeypatch.delitem(sys.modules, "offsider.prometheus.text", raising=False)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    status, body, _ = ask(server, "/metrics")
    assert (status, body) == (501, '/metrics needs prometheus-client: pip install "offsider[prometheus]"\n')
    assert ask(server, "/live")[0] == 200
