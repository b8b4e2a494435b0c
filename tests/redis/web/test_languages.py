"""Every text of a page is in the catalog."""

from __future__ import annotations

import json
import re
import time

import pytest

from offsider.config.installation import Installation
from offsider.core.segments import segment
from offsider.screens.tabs import all_tabs
from offsider.screens.translation import FOLDER, Language
from offsider.web.pages import routes
from tests.redis.errors import failed_run, note_as
from tests.redis.web.stored import failed, job, push

ENGLISH = set(re.findall(r'^msgid "(.*)"$', (FOLDER / "en.po").read_text("utf-8"), re.MULTILINE))


@pytest.fixture
def requested(monkeypatch):
    """Every id that was looked up in a catalog."""
    ids = set()
    real = Language.translate

    def translate(self, message, count=None, **values):
        ids.add(message)
        return real(self, message, count, **values)

    monkeypatch.setattr(Language, "translate", translate)
    return ids


@pytest.fixture
def filled(raw_redis, config):
    """A server with something on each page."""
    now = time.time()
    push(raw_redis, "mail", job(1), failed(2), b"no job", job(3, **{"meta.caller_id": "GET /", "tags": ["a"]}))
    raw_redis.sadd("paused", "mail")
    for name in ("retry", "schedule", "dead"):
        raw_redis.zadd(name, {failed(5): now + 60, job(6): now - 60, b"no job": now})
    raw_redis.sadd("processes", "host:1:abc")
    info = {"hostname": "host", "pid": 1, "tag": "", "concurrency": 5, "queues": ["mail"], "labels": ["reliable"]}
    info |= {"started_at": now - 600, "identity": "host:1:abc", "version": "8.0", "embedded": True}
    beat = {"info": json.dumps(info), "busy": 1, "beat": now, "quiet": "true", "rss": 1000, "rtt_us": 100}
    raw_redis.hset("host:1:abc", mapping=beat)
    work = {"queue": "mail", "payload": job(9).decode(), "run_at": int(now) - 5}
    raw_redis.hset("host:1:abc:work", mapping={"t1": json.dumps(work)})
    minute = time.strftime("%y%m%d|", time.gmtime(now)) + time.strftime("%-H:%M", time.gmtime(now))
    raw_redis.hset(f"j|{minute}", mapping={"Mail|p": 3, "Mail|f": 1, "Mail|ms": 500})
    note_as(Installation.of(config).redis, "a1", failed_run(now, queue="mail", jid="j1"))


def paths():
    """An address of each page, with its parameters filled."""
    parts = {"id": "a1", "name": "mail", "where": segment("retry"), "key": "x", "jid": "x", "identity": "host:1:abc"}
    for route in routes():
        if route.method == "GET" and route.wanted is None:
            yield re.sub(r"\{(\w+)\}", lambda part: parts[part[1]], route.path)


def test_pages_look_up_only_messages_that_exist_in_english(filled, requested, ask, config):
    for path in {*paths(), "/jobs", "/jobs/count"}:
        for query in ("", "text=Send", "where=dead"):
            assert ask(path, query).status in {200, 302, 400, 404}, path
    assert ask("/error/clear", method="POST", body="every=yes&offsider_question=Sure%3F").status == 200
    assert len(requested) > 55
    titles = {tab.title for tab in all_tabs(Installation.of(config))}  # of plain data, in English
    assert sorted(requested - ENGLISH - titles) == []
