"""New, changed and ended findings reach a webhook, whatever that does; a failed request is repeated."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.inspector.finding import Finding, Severity
from offsider.inspector.findings import mute, refresh
from offsider.worker import alerts
from offsider.worker.alerts import CHANGED, ENDED, NEW, Alerts, NotPosted, Posted, Webhook, due_alerts
from tests.redis.cli.commands import command
from tests.redis.inspector.examined import enqueue, register
from tests.waiting import wait_for

NOW = 1_800_000_000.0


class Hook(ThreadingHTTPServer):
    """A webhook that answers with `status`; with 0 it closes the connection, with -1 it never answers."""

    daemon_threads = True

    def __init__(self) -> None:
        self.status, self.location = 200, ""
        self.got: list[dict[str, Any]] = []
        self.asked = 0
        self.ended = threading.Event()
        super().__init__(("127.0.0.1", 0), Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/services/T0/secret"


class Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.asked += 1
        if self.server.status == -1:
            self.server.ended.wait(30)
        if self.server.status <= 0:
            self.close_connection = True
            return
        if self.server.status == 200:
            self.server.got.append(json.loads(body))
        self.send_response(self.server.status)
        if self.server.location:
            self.send_header("location", self.server.location)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.server.got.append({"method": "GET"})

    def log_message(self, *args: object) -> None: ...


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ended.set()
            server.shutdown()
            thread.join()


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    monkeypatch.setattr("offsider.inspector.findings.examination.SERVER_CHECKS", ())
    monkeypatch.setattr(alerts, "TIMEOUT_SECONDS", 20.0)
    monkeypatch.setattr(alerts, "SECONDS", 0.0)


@pytest.fixture
def service(config: Config, hook: Hook, raw_redis) -> Iterator[Alerts]:
    config.alerts.url = hook.url
    config.alerts.web_url = "https://jobs.example.com/offsider/"
    register(raw_redis, knows=["A"], queues=["default"])
    service = Alerts(config, Installation.of(config).redis)
    yield service
    service._finish()


@pytest.fixture
def unserved(raw_redis, config) -> None:
    enqueue(raw_redis, 660, queue="mail")
    refresh(config)


def forget_a_minute(raw_redis) -> None:
    """Let a minute pass since the last alerts."""
    for name, stored in raw_redis.hgetall("offsider:findings:posted").items():
        raw_redis.hset("offsider:findings:posted", name, json.dumps(json.loads(stored) | {"at": time.time() - 61}))


def test_a_finding_is_posted_once_and_its_end_a_minute_later(service, hook, config, raw_redis, unserved):
    service.tick()
    service.tick()
    [message] = hook.got
    assert (message["source"], message["server"]) == ("offsider", "main")
    [finding] = message["findings"]
    assert (finding["status"], finding["id"], finding["severity"]) == (NEW, "unserved:mail", "error")
    assert finding["link"] == "https://jobs.example.com/offsider/now/findings/unserved:mail"
    raw_redis.delete("queue:mail")
    refresh(config)
    service.tick()
    assert len(hook.got) == 1
    forget_a_minute(raw_redis)
    service.tick()
    [ended] = hook.got[1]["findings"]
    assert (ended["status"], ended["id"], ended["what"]) == (ENDED, "unserved:mail", finding["what"])
    enqueue(raw_redis, 660, queue="mail")
    refresh(config)
    service.tick()
    assert len(hook.got) == 2  # within a minute
    forget_a_minute(raw_redis)
    service.tick()
    assert hook.got[2]["findings"][0]["status"] == NEW


def test_what_has_ended_is_forgotten(service, hook, config, raw_redis, unserved):
    service.tick()
    raw_redis.delete("queue:mail")
    refresh(config)
    forget_a_minute(raw_redis)
    service.tick()
    forget_a_minute(raw_redis)
    service.tick()
    assert len(hook.got) == 2
    assert not raw_redis.exists("offsider:findings:posted")


def test_a_full_server_does_not_repeat_an_alert(hook, make_server):
    config = Config()
    config.redis.url, config.alerts.url = make_server().url, hook.url
    with closing(Installation.of(config)) as server:
        service = Alerts(config, server.redis)
        for limit in (1, 1, 0):  # in the end it is stored for other workers, too
            server.redis.call("CONFIG", "SET", "maxmemory", limit)
            service.tick()
        assert (hook.asked, server.redis.call("HKEYS", "offsider:findings:posted")) == (1, [b"workers"])


def test_slack_gets_a_text_without_markup_of_others(service, hook, config, raw_redis):
    config.alerts.slack = True
    enqueue(raw_redis, 660, queue="<!channel>")
    refresh(config)
    service.tick()
    [message] = hook.got
    assert message.keys() == {"text"}
    link = "https://jobs.example.com/offsider/now/findings/unserved:~3c~21channel~3e"
    assert message["text"].startswith(f":red_circle: *STOPPED* <{link}|&lt;!channel&gt;: no worker serves it; 3 jobs ")
    config.alerts.web_url = ""
    raw_redis.delete("queue:<!channel>")
    refresh(config)
    forget_a_minute(raw_redis)
    service.tick()
    assert hook.got[1]["text"].startswith(":white_check_mark: ended *STOPPED* &lt;!channel&gt;: no worker serves it")


def test_a_muted_finding_is_not_posted(service, hook, config, unserved):
    mute("unserved:mail", 3_600, config)
    service.tick()
    assert hook.asked == 0


@pytest.mark.parametrize(
    "status, message",
    [
        (500, "answered 500 Internal Server Error"),
        (404, "answered 404 Not Found"),
        (0, "cannot be reached: RemoteDisconnected"),
        (-1, "cannot be reached: TimeoutError"),
    ],
    ids=["an error", "a wrong path", "no answer", "a server that hangs"],
)
def test_a_failed_request_is_repeated_later(service, hook, unserved, caplog, *, monkeypatch, status, message):
    caplog.set_level(logging.INFO)
    hook.status = status
    with monkeypatch.context() as patched:
        patched.setattr(alerts, "TIMEOUT_SECONDS", 0.3 if status == -1 else 20.0)
        service.tick()
    wait_for(lambda: hook.asked == 1)
    assert [record.getMessage() for record in caplog.records if message in record.getMessage()]
    assert "secret" not in caplog.text
    monkeypatch.setattr(alerts, "SECONDS", 60.0)
    hook.status = 500
    service.tick()
    service.tick()  # not before a minute
    assert hook.asked == 2
    assert caplog.text.count("the alerts are posted later") == 1
    hook.status = 200
    service._retry_at = 0.0
    service.tick()
    assert hook.got[0]["findings"][0]["id"] == "unserved:mail"
    assert "alerts are posted again" in caplog.text


@pytest.mark.parametrize("location", ["file:///etc/passwd", "/services/T0/secret", "http://127.0.0.1:1/?key=secret"])
@pytest.mark.parametrize("status", [301, 303, 307])
def test_redirects_are_not_followed(config, hook, status, location):
    config.alerts.url = hook.url
    hook.status, hook.location = status, location
    with pytest.raises(NotPosted, match="redirects are not followed") as refused:
        Webhook(config.alerts).test()
    assert "secret" not in str(refused.value)
    assert hook.asked == 1
    assert hook.got == []


def test_one_worker_posts_and_another_takes_over(service, hook, config, raw_redis, unserved):
    other = Alerts(config, Installation.of(config).redis)
    service.tick()
    other.tick()
    assert hook.asked == 1
    service._finish()
    enqueue(raw_redis, 660, queue="bulk")
    refresh(config)
    other.tick()
    assert hook.got[1]["findings"][0]["id"] == "unserved:bulk"
    other._finish()


def test_a_webhook_that_hangs_does_not_stop_a_worker(config, hook, raw_redis, unserved, monkeypatch):
    monkeypatch.setattr(alerts, "TIMEOUT_SECONDS", 0.3)
    hook.status = -1
    config.alerts.url = hook.url
    service = Alerts(config, Installation.of(config).redis)
    service.start()
    try:
        wait_for(lambda: hook.asked == 1)
    finally:
        service.stop()
    assert service.join(10)


def _finding(**changed: Any) -> Finding:
    one = Finding("broken", "A: fails", Severity.WARN, cause="it began", actions=(), kind="broken", subject="A")
    return replace(one, **changed)


@pytest.mark.parametrize(
    "finding, state, age_seconds, status",
    [
        (_finding(), "WARN", 600, None),
        (_finding(what="A: fails more"), "WARN", 600, None),
        (_finding(severity=Severity.ERROR), "WARN", 600, CHANGED),
        (_finding(severity=Severity.ERROR), "WARN", 59, None),
        (_finding(cause="release v2 is the likely cause: 3 % of its runs"), "WARN", 600, CHANGED),
        (_finding(cause="release v2 is the likely cause: 4 % of its runs"), "WARN release v2", 600, None),
        (_finding(), "", 600, NEW),
        (_finding(muted_until=NOW + 5), "ERROR", 600, None),
    ],
)
def test_a_finding_changes_with_its_severity_and_its_likely_cause(finding, state, age_seconds, status):
    posted = {"broken:A": Posted("broken", "A", "broken", "A: fails", state, NOW - age_seconds)}
    assert [each.status for each in due_alerts([finding], posted, NOW)] == ([] if status is None else [status])


def test_records_of_another_version_are_ignored(service, hook, raw_redis, unserved):
    raw_redis.hset("offsider:findings:posted", "unserved:mail", '{"version": 2}')
    service.tick()
    assert hook.got[0]["findings"][0]["status"] == NEW


def test_the_command_posts_a_test_message(hook, monkeypatch, tmp_path, redis_url):
    call = command("alerts")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    assert call("test").exit_code == 1
    assert "alerts.url is not set" in call("test").output
    (tmp_path / "offsider.toml").write_text(f'[alerts]\nurl = "{hook.url}"\n')
    assert (call("test").exit_code, hook.got[-1]["test"]) == (0, True)
    (tmp_path / "offsider.toml").write_text(f'[alerts]\nurl = "{hook.url}"\nslack = true\n')
    assert call("test").output == "The webhook accepted the test message.\n"
    assert hook.got[-1] == {"text": "offsider: this is a test of alerts."}
    hook.status = 403
    result = call("test")
    assert (result.exit_code, "answered 403 Forbidden" in result.output) == (1, True)
    assert "secret" not in result.output


@pytest.mark.parametrize("url", ["ftp://example.com", "file:///etc/passwd", "example.com", "http://a b"])
def test_only_addresses_of_the_web_are_accepted(config, url):
    with pytest.raises(ConfigurationError, match=r"alerts\.url"):
        config.alerts.url = url
