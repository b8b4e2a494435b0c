"""Worker processes, their running jobs, and signals to them."""

from __future__ import annotations

import json

import pytest

from tests.markup import Markup

IDENTITY = "web-1:42:abc"


@pytest.fixture
def process(raw_redis):
    """register(identity, **fields of its info): a process with one running job."""

    def register(identity=IDENTITY, **info):
        stored_info = {
            "hostname": "web-1",
            "pid": 42,
            "tag": "shop",
            "concurrency": 4,
            "queues": ["low", "a/b"],
            "labels": ["eu"],
            "started_at": 1000.5,
            "version": "0.1",
            "identity": identity,
            "embedded": False,
        } | info
        raw_redis.sadd("processes", identity)
        fields = {
            "info": json.dumps(stored_info),
            "busy": 1,
            "beat": 2000.5,
            "quiet": "false",
            "rss": 1000,
            "rtt_us": 250,
        }
        raw_redis.hset(identity, mapping=fields)
        payload = {"class": "Mail", "args": [1, "<b>"], "jid": "j1", "queue": "low"}
        work = {"queue": "low", "payload": json.dumps(payload), "run_at": 2000}
        raw_redis.hset(f"{identity}:work", "t1", json.dumps(work))
        return identity

    return register


def signals(raw_redis, identity=IDENTITY):
    return raw_redis.lrange(f"{identity}-signals", 0, -1)


def test_without_workers_the_page_has_a_note(read):
    data = read("/busy")
    assert data["totals"] == {"processes": 0, "threads": 0, "busy": 0, "utilization": 0.0, "rss_bytes": 0}
    assert data["processes"] == data["jobs"] == []


def test_the_shard_of_a_process_is_shown(read, ask, process):
    process(shard="bulk <b>")
    assert read("/busy")["processes"][0]["shard"] == "bulk <b>"
    assert b"bulk &lt;b&gt;" in ask("/busy").body


def test_the_release_that_a_process_runs_is_shown(read, ask, process):
    process(app_version="2.14 <b>")
    assert read("/busy")["processes"][0]["app_version"] == "2.14 <b>"
    assert b"<code>2.14 &lt;b&gt;</code>" in ask("/busy").body


def test_processes_and_running_jobs_are_shown(read, ask, process):
    process()
    data = read("/busy")
    assert data["totals"] == {"processes": 1, "threads": 4, "busy": 1, "utilization": 0.25, "rss_bytes": 1024000}
    shown = data["processes"][0]
    assert (shown["identity"], shown["tag"], shown["leader"]) == (IDENTITY, "shop", False)
    served = [{"name": "low", "weight": 0}, {"name": "a/b", "weight": 0}]
    assert shown["capsules"] == [{"name": "", "threads": 4, "queues": served, "more_queues": 0}]
    assert shown["round_trip_seconds"] == 0.00025
    job = data["jobs"][0]
    assert (job["name"], job["jid"], job["tid"], job["queue"], job["args"]) == ("Mail", "j1", "t1", "low", '1, "<b>"')
    page = ask("/busy").body.decode()
    assert "&lt;b&gt;" in page
    assert '<td class="num" title="1970-01-01 00:33:20 UTC">' in page
    assert 'href="/queues/a~2fb"' in page
    assert f'action="/busy/{IDENTITY}/quiet"' in page


def test_capsules_show_their_queues_and_weights(read, ask, process, raw_redis):
    capsules = {
        "default": {"concurrency": 3, "mode": "weighted", "weights": {"low": 1, "high": 5}},
        "single": {"concurrency": 1, "mode": "strict", "weights": {"mail": 0}},
    }
    process(capsules=capsules)
    first, second = read("/busy")["processes"][0]["capsules"]
    assert (first["name"], first["threads"]) == ("default", 3)
    assert {queue["name"]: queue["weight"] for queue in first["queues"]} == {"low": 1, "high": 5}
    assert second["queues"] == [{"name": "mail", "weight": 0}]
    assert "\N{MULTIPLICATION SIGN}5" in ask("/busy").body.decode()


def test_jobs_or_processes_can_be_shown_alone(read, ask, process):
    process()
    assert read("/busy", "only=jobs")["processes"] == []
    assert read("/busy", "only=processes")["jobs"] == []
    assert ask("/busy", "only=x").status == 400
    assert ask("/busy", "page=x").status == 400
    assert read("/busy", "page=99")["page"] == 1


def test_running_jobs_are_shown_100_per_page(read, ask, process, raw_redis):
    work = raw_redis.hget(f"{process()}:work", "t1")
    raw_redis.hset(f"{IDENTITY}:work", mapping={f"t{number}": work for number in range(250)})
    first, last = read("/busy"), read("/busy", "page=3")
    assert (len(first["jobs"]), first["pages"], len(last["jobs"])) == (100, 3, 50)
    assert b'rel="next"' in ask("/busy", "page=2").body


@pytest.mark.parametrize("word,signal", [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump", b"TTIN")])
def test_a_signal_is_sent_to_a_process(ask, process, raw_redis, word, signal):
    process()
    assert ask(f"/busy/{IDENTITY}/{word}", method="POST", body="confirmed=yes").status == 303
    assert signals(raw_redis) == [signal]


@pytest.mark.parametrize(
    "path, question",
    [
        (f"/busy/{IDENTITY}/quiet", f"Quiet {IDENTITY}? It stops claiming new jobs."),
        (f"/busy/{IDENTITY}/stop", f"Stop {IDENTITY}?"),
        ("/busy/all/quiet", "Quiet all 2 processes? They stop claiming new jobs."),
        ("/busy/all/stop", "Stop all 2 processes?"),
    ],
)
def test_the_question_names_the_processes(ask, process, raw_redis, path, question):
    process()
    process("web-2:43:def")
    process("web-3:44:fed", embedded=True)
    every = "every=yes" if "/all/" in path else ""
    assert question in Markup(ask(path, method="POST", body=every).body.decode()).text
    assert question in " ".join(form["data-confirm"] for form in Markup(ask("/busy").body.decode()).all("form"))
    assert signals(raw_redis) == []


def test_a_signal_for_all_skips_embedded_processes(ask, process, raw_redis):
    process()
    process("web-2:43:def", embedded=True)
    answer = ask("/busy/all/stop", method="POST", body="every=yes", accept="application/json")
    assert json.loads(answer.body)["processes"] == [IDENTITY]
    assert signals(raw_redis, "web-2:43:def") == []
    refused = ask("/busy/web-2:43:def/stop", method="POST", body="confirmed=yes")
    assert refused.status == 400
    assert b"embedded in another program" in refused.body


def test_a_stopped_process_is_not_found(ask):
    assert ask("/busy/web-9:1:x/quiet", method="POST", body="confirmed=yes").status == 404


def test_arguments_are_redacted(ask_with, process):
    process()
    page = ask_with(redact=lambda name, args, kwargs: (["hidden"], {}))("/busy").body
    assert b"hidden" in page
    assert b"&lt;b&gt;" not in page


def test_data_published_by_a_process_is_escaped(ask, process):
    process("<script>:1:x", tag="<script>alert(1)</script>", labels=["<img src=x>"], queues=['"><svg onload=x>'])
    page = ask("/busy").body
    for element in (b"<script>alert", b"<img src=x", b"<svg onload"):
        assert element not in page
