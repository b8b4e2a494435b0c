"""Which queues exist, and whether a process takes their jobs: the same in each command, page and metric."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.process.cli.commands import offsider
from tests.process.stored import payload, push
from tests.process.web_process import WebProcess
from tests.waiting import wait_for


@pytest.fixture
def web(tmp_path, url):
    process = WebProcess(tmp_path, url)
    yield process
    process.close()


def text(web: WebProcess, path: str, kind: str) -> str:
    request = urllib.request.Request(web.url + path, headers={"Accept": kind})
    with urllib.request.urlopen(request, timeout=20) as reply:
        return reply.read().decode()


def page(web: WebProcess, path: str) -> dict[str, object]:
    return json.loads(text(web, path, "application/json"))


def row(web: WebProcess, queue: str) -> dict[str, object]:
    return next((each for each in page(web, "/queues")["queues"] if each["name"] == queue), {})


def listed(tmp_path, url: str) -> dict[str, bool]:
    """The queues that `offsider queues` lists, and whether a process serves them."""
    found = json.loads(offsider(tmp_path, "queues", "--json", REDIS_URL=url).stdout)
    return {queue["name"]: queue["served"] for queue in found}


def doctor(tmp_path, url: str) -> str:
    return offsider(tmp_path, "doctor", REDIS_URL=url).stdout


def push_unregistered(stored, queue: str) -> None:
    """As a client of another language that knows no set of queues."""
    stored.lpush(f"queue:{queue}", json.dumps(payload("Short", 1, queue=queue)))


def test_a_queue_that_no_client_registered_is_found(workers, stored, web, tmp_path, url):
    stored.lpush("queue:foreign", "no job")  # of another program
    stored.lpush("queue:sq|host:1:abc|ghost", json.dumps(payload("Short", 1)))  # of Sidekiq Pro
    push_unregistered(stored, "ghost")
    report = doctor(tmp_path, url)
    assert "jobs wait in queues that no client has registered: ghost\n" in report
    assert "worker -r YOUR_MODULE -q ghost: " in report
    workers.start("-c", "1", "-q", "ghost")
    wait_for(lambda: workers.ledger.notes("end"))
    assert listed(tmp_path, url) == {"ghost": True}
    assert row(web, "ghost")["processes"] == 1
    assert "registered" not in doctor(tmp_path, url)


def test_a_worker_of_every_queue_finds_one_that_no_client_registered(workers, stored, tmp_path, url):
    stored.lpush("queue:foreign", "no job")
    workers.start("-c", "1", "-q", "*")
    push_unregistered(stored, "ghost")
    wait_for(lambda: workers.ledger.notes("end"))
    wait_for(lambda: listed(tmp_path, url) == {"ghost": True})  # the next heartbeat reports it
    assert stored.llen("queue:foreign") == 1


def test_a_quiet_process_does_not_serve(workers, stored, web, tmp_path, url):
    worker = workers.start("-c", "1", "-q", "exports")
    wait_for(lambda: listed(tmp_path, url) == {"exports": True})
    worker.send("TSTP")
    wait_for(lambda: stored.hget(worker.identity, "quiet") == b"true")
    push(stored, "Short", 1, queue="exports")
    assert listed(tmp_path, url) == {"exports": False}
    assert (row(web, "exports")["processes"], page(web, "/queues/exports")["processes"]) == (0, 0)
    assert "no worker serves exports (1 job waiting)" in doctor(tmp_path, url)
    assert 'sidekiq_queue_processes{name="exports"} 0' in text(web, "/metrics", "text/plain")


def test_ages_of_failed_jobs_begin_with_the_failure(stored, web, tmp_path):
    (now,) = stored.time()[:1]
    for jid, failed_ago in (("young", 60), ("old", 7_200)):
        times = {"created_at": (now - 86_400) * 1000, "failed_at": (now - 80_000) * 1000}
        if jid == "young":
            times["retried_at"] = (now - failed_ago) * 1000
        else:
            times["failed_at"] = (now - failed_ago) * 1000
        job = payload("Short", 1, error_class="E", error_message="m", retry_count=1, **times) | {"jid": jid}
        stored.zadd("retry", {json.dumps(job): now + 600})
        stored.zadd("dead", {json.dumps(job): now - failed_ago})

    def found(path: str) -> list[str]:
        return [job["jid"] for job in page(web, path)["jobs"]]

    for path in ("/retries", "/dead"):
        assert (found(f"{path}?newer=600"), found(f"{path}?older=600")) == (["young"], ["old"])
