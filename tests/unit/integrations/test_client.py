"""What arrives at a statsd daemon, and that nobody waits for it."""

import socket
import threading

import pytest

from offsider.integrations.statsd import client as module
from offsider.integrations.statsd.client import DogStatsd


@pytest.fixture
def daemon():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listening:
        listening.bind(("127.0.0.1", 0))
        listening.settimeout(10)
        yield listening


@pytest.fixture
def make(daemon):
    made = []

    def make(**options):
        client = DogStatsd(*daemon.getsockname(), **options)
        made.append(client)
        return client

    yield make
    for client in made:
        client.close()


def test_each_number_is_a_datagram_in_the_daemons_language(make, daemon):
    client = make()
    client.increment("jobs.count", tags=["worker:Mail", "queue:low"])
    client.increment("jobs.count", 3)
    client.gauge("busy", 7)
    client.timing("jobs.perform", 12.5, tags=["worker:Mail"])
    client.distribution("jobs.perform_dist", 0.25, sample_rate=1)
    assert [daemon.recv(1000).decode() for _ in range(5)] == [
        "sidekiq.jobs.count:1|c|#worker:Mail,queue:low",
        "sidekiq.jobs.count:3|c",
        "sidekiq.busy:7|g",
        "sidekiq.jobs.perform:12.5|ms|#worker:Mail",
        "sidekiq.jobs.perform_dist:0.25|d",
    ]


def test_a_daemon_that_is_not_datadogs_gets_neither_tags_nor_distributions(make, daemon):
    client = make(datadog=False, prefix="shop.")
    client.distribution("jobs.perform_dist", 1)
    client.increment("jobs.count", tags=["worker:Mail"])
    assert daemon.recv(1000) == b"shop.jobs.count:1|c"


def test_a_share_of_the_numbers_tells_which_share_it_is(make, daemon, monkeypatch):
    drawn = iter([0.5, 0.05])
    monkeypatch.setattr(module.random, "random", lambda: next(drawn))
    client = make()
    client.increment("left.out", sample_rate=0.1)
    client.increment("sent", sample_rate=0.1, tags=["a:b"])
    assert daemon.recv(1000) == b"sidekiq.sent:1|c|@0.1|#a:b"


def test_a_name_cannot_break_the_line(make, daemon):
    client = make()
    client.increment("a:b|c\n", tags=["worker:Mail|#x,y\n"])
    assert daemon.recv(1000) == b"sidekiq.a_b_c_:1|c|#worker:Mail__x_y_"


def test_a_unix_socket_will_do_and_so_will_the_next_one(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    path = str(tmp_path / "dsd")
    client = DogStatsd(path=path)
    client.increment("nobody.there")
    for name in ("first", "second"):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
            daemon.bind(path)
            daemon.settimeout(10)
            client.increment("lost.perhaps")  # on the socket of the one that is gone
            client.increment(name)
            while not daemon.recv(1000).startswith(f"sidekiq.{name}".encode()):
                pass
        (tmp_path / "dsd").unlink()
    client.close()


def test_a_name_that_does_not_resolve_is_looked_up_once_in_a_while_and_fails_nobody(monkeypatch):
    asked = []

    def unknown(*args, **kwargs):
        asked.append(args)
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(module.socket, "getaddrinfo", unknown)
    client = DogStatsd("nowhere.invalid")
    for _ in range(10):
        client.increment("jobs.count")
    assert len(asked) == 1
    client.close()


def test_a_daemon_that_does_not_keep_up_holds_nobody_up(tmp_path):
    path = str(tmp_path / "dsd")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(path)
        client = DogStatsd(path=path)
        for _ in range(2000):  # far beyond what a socket holds that nobody reads
            client.increment("jobs.count")
        client.close()


def test_while_a_name_is_looked_up_the_others_do_not_wait(monkeypatch):
    looking, found = threading.Event(), threading.Event()

    def slow(*args, **kwargs):
        looking.set()
        assert found.wait(20)
        raise socket.gaierror(socket.EAI_NONAME, "no such host")

    monkeypatch.setattr(module.socket, "getaddrinfo", slow)
    client = DogStatsd("nowhere.invalid")
    first = threading.Thread(target=client.increment, args=["first"])
    first.start()
    assert looking.wait(20)
    client.increment("second")  # comes back, with the name still unknown
    found.set()
    first.join(20)
    assert not first.is_alive()
