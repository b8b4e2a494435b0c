"""Servers and proxies that lack commands: only those that docs/managed-servers.md requires are needed."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator

import pytest
import redis
from click.testing import CliRunner

from offsider import Config, Reschedule, job
from offsider.cli.main import main
from offsider.client import Client
from offsider.config.default import set_default_config
from offsider.core.errors import NotReplicated
from offsider.ext.batches import Batch, Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiter, Limiters
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.inspector import Queue
from offsider.inspector.findings.examination import examine
from offsider.jobs import registry
from offsider.worker.alive import sweeper as sweeper_module
from offsider.worker.alive.sweeper import Sweeper
from offsider.worker.boot_checks import check_boot
from offsider.worker.embed import EmbeddedWorker
from tests.docs.snippets import ROOT
from tests.narrow_proxy import NarrowProxy
from tests.redis.worker.conftest import Parts, make_config
from tests.tagged import client_of

PAGE = (ROOT / "docs" / "managed-servers.md").read_text()
REQUIRED = set(re.search(r"```text\n(.*?)```", PAGE, re.DOTALL)[1].split())
OPTIONAL = {word for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for word in re.findall(r"`([A-Z]+)", row)}
IN_LUA = re.compile(r"redis\.p?call\(\s*['\"](\w+)['\"]")
#: The first part of a tuple or of the arguments of a call, which can be the name of a command.
FIRST_WORD = re.compile(r'\(\s*"([A-Z]+)"')


def commands_of(url: str) -> set[str]:
    with client_of(url) as client:
        names = {name.decode().upper() for name in client.execute_command("COMMAND LIST")}
    return {name for name in names if "|" not in name}  # subcommands


@pytest.fixture
def narrow_url(make_server):
    """A server that has only the required commands."""
    return make_server(without=commands_of(make_server().url) - REQUIRED).url


@pytest.fixture
def old_proxy_url(embedded_url) -> Iterator[str]:
    """A proxy that speaks RESP2 only, and does not know clients."""
    with NarrowProxy(embedded_url, "HELLO", "CLIENT") as proxy:
        yield proxy.url


@pytest.fixture
def config() -> Iterator[Config]:
    config = Config()
    for extension in (Batches(), ConcurrencyLimits(), Limiters(), Results(), Unique()):
        config.use(extension)
    before = set_default_config(config)
    with registry.isolated():
        yield config
    set_default_config(before)


@pytest.mark.parametrize("where", ["narrow_url", "old_proxy_url"])
def test_jobs_of_all_kinds_run(where, request, config, caplog):
    config.redis.url = request.getfixturevalue(where)
    caplog.set_level("INFO", logger="offsider")
    errors: list[str] = []
    config.error_handlers.append(lambda error, context: errors.append(f"{error} {context}"))
    ends = {name: threading.Event() for name in ("retried", "again", "batch", "tick")}
    runs: list[str] = []
    limiter = Limiter.concurrent("one", 1, wait_timeout=5)

    @job(retry_in=lambda count, error, payload: 1)
    def fail_once() -> None:
        runs.append("fail")
        if runs.count("fail") == 1:
            raise ValueError("once")
        ends["retried"].set()

    @job
    def repeat() -> None:
        runs.append("repeat")
        if runs.count("repeat") == 1:
            raise Reschedule(0.1)
        ends["again"].set()

    @job(retry=0)
    def die() -> None:
        raise ValueError("to the dead set")

    @job
    def limited() -> None:
        with limiter.within_limit():
            runs.append("limited")

    @job(concurrency_limit=1, unique_for=60)
    def capped() -> None: ...

    @job(keep_result=60)
    def kept(number: int) -> int:
        return number + 1

    @job
    def complete(bid: str, options: dict[str, object]) -> None:
        ends["batch"].set()

    @job(name="Tick")
    def tick() -> None:
        ends["tick"].set()

    periodic = Periodic()
    periodic.register(job=tick, every=1)
    config.use(periodic)
    with EmbeddedWorker(config):
        jid = kept.enqueue(1)
        assert jid.result(timeout=20) == 2, errors
        fail_once.enqueue()
        repeat.enqueue_in(0.1)
        die.enqueue()
        capped.enqueue()
        with Batch().on("success", complete):
            limited.enqueue_many(() for _ in range(3))
        for name, end in ends.items():
            assert end.wait(20), (name, errors)
        Queue("default").pause()
        late = kept.enqueue(2)
        assert late.status() == "queued"
        Queue("default").unpause()
        assert late.result(timeout=20) == 3
    assert "poll up to 20" in caplog.text
    assert not [error for error in errors if "unknown command" in error]
    assert not [finding for finding in examine(config) if finding.fatal]


def test_the_job_of_a_dead_owner_is_requeued_without_scan(make_server, caplog, monkeypatch):
    monkeypatch.setattr(sweeper_module, "SCAN_SECONDS", 0)
    parts = Parts(make_config(make_server(without=["SCAN"]).url))
    parts.ownership.register()
    dead = "host:2:dddddddddddd"
    keys = parts.redis.keys
    parts.redis.pipeline(
        [
            ("HSET", keys.owners, dead, '{"default": ["low"]}'),
            ("LPUSH", keys.working(dead, "default", "low"), "job"),
            ("SET", keys.fenced(dead), 1),
        ]
    )
    sweeper = Sweeper(parts.config, parts.redis, parts.ownership)
    caplog.set_level("INFO", logger="offsider")
    for _ in range(2):
        sweeper.tick()
    assert parts.redis.call("LRANGE", keys.queue("low"), 0, -1) == [b"job"]
    assert "not looking for private lists without an owner" in caplog.text
    parts.close()


def test_the_memory_of_keys_is_unknown_without_its_command(make_server, monkeypatch):
    server = make_server(without=["MEMORY"])
    monkeypatch.setenv("REDIS_URL", server.url)
    with redis.Redis.from_url(server.url) as client:
        client.set("stat:processed", 1)
    assert "unknown" in CliRunner().invoke(main, ["stats", "--memory"]).output
    families = json.loads(CliRunner().invoke(main, ["stats", "--memory", "--json"]).output)["families"]
    assert families == {"stat:*": {"keys": 1, "bytes": None}}


def test_the_boot_checks_report_what_is_unknown(narrow_url, config):
    config.redis.url = narrow_url
    warnings = check_boot(config)
    assert [
        "this user may not call HELLO, INFO, CONFIG, so these were not checked: version, role" in each
        for each in warnings
    ] == [True]


def test_without_wait_a_replicated_push_is_stored_and_raises(make_server, config):
    config.redis.url = make_server(without=["WAIT"]).url
    with pytest.raises(NotReplicated):
        Client(config).push({"class": "Mail", "args": []}, wait_replicas=1)
    assert len(Queue("default")) == 1


def test_the_page_lists_every_command_of_the_code(embedded_url):
    used: set[str] = set()
    for path in (ROOT / "src" / "offsider").rglob("*.lua"):
        used |= set(IN_LUA.findall(path.read_text()))
    for path in (ROOT / "src" / "offsider").rglob("*.py"):
        if not {"cli", "testing"} & {*path.parts}:  # they send signals and keys
            used |= set(FIRST_WORD.findall(path.read_text()))
    assert used & commands_of(embedded_url) <= REQUIRED | OPTIONAL
    assert not REQUIRED & OPTIONAL
