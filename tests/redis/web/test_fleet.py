"""The fleet: what keeps jobs from running, on its page, in JSON and in the terminal; and its actions."""

from __future__ import annotations

import json
import time

import pytest

from offsider.config.installation import Installation
from offsider.config.web_tab import WebTab
from offsider.core.series import Load
from offsider.ext.limiters import Limiter, Limiters
from offsider.ext.periodic import Periodic, PeriodicJobs
from offsider.inspector import Queue
from offsider.storage import events, run_counts, slots
from offsider.storage.slots import Rate
from offsider.worker.sampler import Sampler
from tests.markup import Markup
from tests.redis.cli.commands import command
from tests.redis.inspector.test_flow import Ledger
from tests.redis.web.stored import job, push
from tests.screen_tables import rows

IDENTITY = "vm:42:abc"


@pytest.fixture
def register(raw_redis):
    """register("vm:1:x", quiet="true", busy=1, queues=["low"]): a process; fields of its hash and of its info."""

    def add(identity=IDENTITY, *, quiet="false", busy=0, beat=None, queues=("default",), **info):
        host, pid, _ = identity.split(":")
        stored = {"hostname": host, "pid": int(pid), "queues": list(queues), "concurrency": 4, "version": "1.0"}
        stored["started_at"] = 1000.5
        fields = {"info": json.dumps(stored | info), "busy": busy, "beat": beat or time.time(), "quiet": quiet}
        raw_redis.sadd("processes", identity)
        raw_redis.hset(identity, mapping=fields | {"rss": 153_600, "rtt_us": 250})
        return identity

    return add


def run(raw_redis, number, identity=IDENTITY, seconds=5.0):
    """A running job, as a process of Sidekiq reports it."""
    payload = {"class": "Mail", "args": ["<b>secret"], "jid": f"j{number}", "queue": "low"}
    work = {"queue": "low", "payload": json.dumps(payload), "run_at": time.time() - seconds}
    raw_redis.hset(f"{identity}:work", f"t{number}", json.dumps(work))


def by(page, title, column):
    return {row[column]: row for row in rows(page, title)}


def test_a_queue_without_an_active_worker_says_why(read, raw_redis, register):
    push(raw_redis, "exports", job(1))
    push(raw_redis, "orphan", job(2))
    push(raw_redis, "fine", job(3))
    raw_redis.sadd("queues", "idle")
    register("vm:6930:a", quiet="true", queues=["exports", "idle"])
    register("vm:7000:b", queues=["fine"])
    queues = by(read("/fleet"), "Queues", "Queue")
    assert queues["exports"]["Served by"] == "no worker: vm:6930 is quiet"
    assert queues["orphan"]["Served by"] == "no worker"
    assert queues["fine"]["Served by"] == "vm:7000"
    register("vm:7001:c", quiet="true", queues=["*"])
    assert by(read("/fleet"), "Queues", "Queue")["idle"]["Served by"] == "no worker: vm:6930, vm:7001 are quiet"
    register("vm:7002:d", queues=["*"])
    assert by(read("/fleet"), "Queues", "Queue")["fine"]["Served by"] == "2 processes"
    facts = {fact["name"]: fact["cell"] for fact in read("/fleet/queues/exports")["blocks"][0]["facts"]}
    assert [link["text"] for link in facts["Served by"]["links"]] == ["vm:7002"]
    assert [link["text"] for link in facts["Quiet workers"]["links"]] == ["vm:6930", "vm:7001"]


def test_queues_in_trouble_are_first_then_those_that_wait_longest(read, raw_redis, register):
    register(queues=["late", "small", "large", "held"])
    now = int(time.time() * 1000)
    for name, ago, count in (("small", 5, 1), ("late", 900, 1), ("large", 5, 9), ("held", 1, 1), ("orphan", 0, 1)):
        push(raw_redis, name, *[job(n, enqueued_at=now - ago * 1000) for n in range(count)])
    raw_redis.sadd("paused", "held")
    found = rows(read("/fleet"), "Queues")
    assert [row["Queue"] for row in found] == ["orphan", "held", "late", "large", "small"]
    late = found[2]
    assert (late["Size"], late["Wait"]) == (1, pytest.approx(900, abs=60))


def test_rates_and_the_time_until_a_queue_is_empty_are_those_of_a_ledger(read, config, raw_redis, register):
    ledger = Ledger(config, raw_redis)
    ledger.sampler.tick()
    ledger.push("drains", 200)
    ledger.sample()
    for _ in range(36):
        ledger.push("drains", 2)
        ledger.claim("drains", 6)
        ledger.push("grows", 4)
        ledger.claim("grows", 2)
        ledger.sample()
    register(queues=["drains", "grows"])
    queues = by(read("/fleet"), "Queues", "Queue")
    drains, grows = queues["drains"], queues["grows"]
    assert (drains["Size"], grows["Size"]) == (56, 72)
    assert (drains["In/s"], drains["Out/s"]) == (pytest.approx(0.2, rel=0.1), pytest.approx(0.6, rel=0.1))
    assert drains["Empty in"] == pytest.approx(140, rel=0.25)
    assert grows["Empty in"] == "never"
    raw_redis.sadd("paused", "drains")
    assert by(read("/fleet"), "Queues", "Queue")["drains"]["Empty in"] == "never"
    register("vm:9:ruby", queues=["drains"], version="8.0.4")  # its claims are not counted
    drains = by(read("/fleet"), "Queues", "Queue")["drains"]
    assert (drains["In/s"], drains["Out/s"], drains["Empty in"]) == ("", "", "")
    (server,) = rows(read("/fleet"), "Servers")
    assert server["Commands/s"] > 0
    assert server["CPU"].endswith("%")


def test_a_pause_has_its_author_time_and_reason(ask_with, read, raw_redis, register):
    register(queues=["mail"])
    push(raw_redis, "mail", job(1))
    push(raw_redis, "old", job(2))
    ask = ask_with(authenticate=lambda request: "ann")
    assert ask("/fleet/queues/mail/pause", method="POST", body="reason=the+bank+is+down").status == 303
    raw_redis.sadd("paused", "old")
    queues = by(read("/fleet"), "Queues", "Queue")
    assert queues["mail"]["Paused"].endswith(" UTC by ann: the bank is down")
    assert queues["mail"]["Paused"].startswith(f"paused {time.strftime('%Y-%m-%d', time.gmtime())}")
    assert queues["old"]["Paused"] == "paused by an unknown client"
    assert ask("/fleet/queues/mail/resume", method="POST").status == 303
    assert by(read("/fleet"), "Queues", "Queue")["mail"]["Paused"] == ""
    assert raw_redis.smembers("paused") == {b"old"}


def test_a_queue_is_cleared_by_a_positive_word_and_a_gone_page_leads_to_the_list(ask, raw_redis, config):
    push(raw_redis, "a/b é", job(1), job(2))
    path = "/fleet/queues/a~2fb~20~c3~a9"
    page = Markup(ask(path).body.decode())
    (form,) = (form for form in page.all("form") if form["action"] == f"{path}/clear")
    assert form["data-confirm"] == "Permanently delete a/b é with 2 jobs?"
    assert ask(f"{path}/clear", method="POST", body="confirmed=yes").status == 400
    assert len(Queue("a/b é", config)) == 2
    answer = ask(f"{path}/clear", method="POST", body="every=yes&confirmed=yes", referer=f"http://localhost{path}")
    headers = dict(answer.headers)
    assert (answer.status, headers["location"]) == (303, path)
    cookie = headers["set-cookie"].partition(";")[0]
    moved = ask(path, cookie=cookie)
    assert (moved.status, dict(moved.headers)["location"]) == (302, "/fleet/queues")
    assert "a/b é: 2 jobs deleted" in Markup(ask("/fleet/queues", cookie=cookie).body.decode()).text
    assert ask(path).status == 404
    unknown = ask("/fleet/queues/mial/pause", method="POST", accept="application/json")
    assert (unknown.status, json.loads(unknown.body)["error"]) == (404, "unknown queue mial")


def test_processes_show_release_state_load_and_what_they_run(read, ask, raw_redis, register):
    capsules = {"single": {"concurrency": 1, "mode": "strict", "weights": {"mail": 0, "low": 5}}}
    register(tag="shop", labels=["eu"], shard="near", app_version="v42", version="0.1", busy=2, capsules=capsules)
    register("vm:43:q", quiet="true")
    register("vm:44:s", beat=time.time() - 50)
    register("vm:45:e", embedded=True)
    for number in range(12):
        run(raw_redis, number, seconds=number)
    raw_redis.hset("it-j10", mapping={"ex": 1, "c": '{"id":27000}', "rt": 1})
    raw_redis.set("it-j9", "no hash")
    page = read("/fleet")
    processes = by(page, "Processes", "Process")
    assert [processes[f"vm:{pid}"]["State"] for pid in (42, 43, 44, 45)] == [
        "working",
        "quiet",
        "silent",
        "working, embedded",
    ]
    assert {row["Process"] for row in rows(page, "Processes")[:2]} == {"vm:43", "vm:44"}
    shown = processes["vm:42"]
    assert (shown["Tags"], shown["Release"], shown["Busy"]) == ("shop, near, eu", "v42", (2, 4))
    assert (shown["Memory, MB"], shown["Round trip"], shown["Started"]) == (150, 0.00025, 1000.5)
    running = rows(page, "Running jobs")
    assert [row["JID"] for row in running] == [f"j{number}" for number in range(11, 1, -1)]
    assert running[0]["Class"] == "Mail"
    assert [row["Cursor"] for row in running[:3]] == ["", '{"id":27000}', ""]
    assert running[0]["Running for"] == pytest.approx(11, abs=5)
    assert len(rows(read("/fleet/processes/running"), "Running jobs")) == 12
    html = ask("/fleet").body.decode()
    assert "All 12 running jobs" in html
    assert "secret" not in html
    one = read(f"/fleet/processes/{IDENTITY}")
    assert rows(one, "Capsules")[0]["Queues"] == "mail, low \N{MULTIPLICATION SIGN}5"
    assert len(rows(one, "Running jobs")) == 12
    assert ask("/fleet/processes/vm:1:gone").status == 404


@pytest.mark.parametrize("word,signal", [("quiet", b"TSTP"), ("stop", b"TERM"), ("dump", b"TTIN")])
def test_a_signal_reaches_one_process_and_an_embedded_one_refuses(ask, raw_redis, register, word, signal):
    register()
    register("vm:43:e", embedded=True)
    assert ask(f"/fleet/processes/{IDENTITY}/{word}", method="POST", body="confirmed=yes").status == 303
    assert raw_redis.lrange(f"{IDENTITY}-signals", 0, -1) == [signal]
    refused = ask(f"/fleet/processes/vm:43:e/{word}", method="POST", body="confirmed=yes")
    assert refused.status == 400
    assert b"embedded in another program" in refused.body
    gone = ask(f"/fleet/processes/vm:44:x/{word}", method="POST", body="confirmed=yes")
    assert (gone.status, b"no worker vm:44:x is registered" in gone.body) == (404, True)


def test_one_running_job_is_canceled(ask, config, raw_redis, register):
    register()
    run(raw_redis, 7)
    refused = ask("/fleet/processes/running/j7/cancel", method="POST", body="confirmed=yes")
    assert (refused.status, b"is a Ruby process, which cannot cancel a run" in refused.body) == (400, True)
    raw_redis.hset(Installation.of(config).redis.keys.owners, IDENTITY, 1)
    page = Markup(ask("/fleet").body.decode())
    (form,) = (form for form in page.all("form") if form["action"] == "/fleet/processes/running/j7/cancel")
    assert form["data-confirm"] == "Cancel Mail j7? The run fails, and the job moves to the dead set."
    assert ask("/fleet/processes/running/j7/cancel", method="POST", body="confirmed=yes").status == 303
    assert raw_redis.lrange(f"{IDENTITY}-signals", 0, -1) == [b"CANCEL j7"]
    assert ask("/fleet/processes/running/j8/cancel", method="POST", body="confirmed=yes").status == 404


@pytest.mark.parametrize("word,question", [("quiet", "Quiet all 2 processes?"), ("stop", "Stop all 2 processes?")])
def test_a_signal_to_all_asks_skips_embedded_ones_and_needs_a_positive_word(ask, raw_redis, register, word, question):
    for number, embedded in ((1, False), (2, False), (3, True)):
        register(f"vm:{number}:x", embedded=embedded)
    path = f"/fleet/processes/{word}"
    page = Markup(ask("/fleet/processes").body.decode())
    (form,) = (form for form in page.all("form") if form["action"] == path)
    assert form["data-confirm"].startswith(question)
    assert ask(path, method="POST", body="confirmed=yes").status == 400
    assert not raw_redis.exists("vm:1:x-signals")
    answer = ask(path, method="POST", body="every=yes", accept="application/json")
    assert json.loads(answer.body)["done"].endswith(": vm:1:x, vm:2:x")
    assert not raw_redis.exists("vm:3:x-signals")


def test_without_permission_there_is_no_button(ask_with, raw_redis, register):
    register()
    push(raw_redis, "default", job(1))
    every = {"/fleet/queues/default/pause", f"/fleet/processes/{IDENTITY}/quiet", "/fleet/processes/stop"}

    def actions(ask):
        pages = (Markup(ask(path).body.decode()) for path in ("/fleet", "/fleet/processes"))
        return {form["action"] for page in pages for form in page.all("form")}

    assert every <= actions(ask_with())
    assert not every & actions(ask_with(read_only=True))
    some = actions(ask_with(authorize=lambda visitor, action: action in {"page", "queues.pause"}))
    assert every & some == {"/fleet/queues/default/pause"}


def test_deaths_of_the_last_hour_are_shown(read, config):
    assert rows(read("/fleet"), "Deaths of the last hour") == []
    events.note(Installation.of(config).redis, events.DIED, IDENTITY, how="SIGSEGV", jobs=3)
    events.note(Installation.of(config).redis, events.ENDED, "vm:2:x")
    (death,) = rows(read("/fleet"), "Deaths of the last hour")
    assert (death["Process"], death["How"], death["Jobs requeued"]) == (IDENTITY, "SIGSEGV", 3)
    assert death["Died"] == pytest.approx(time.time(), abs=60)


def test_a_periodic_job_that_no_live_process_has_has_no_next_tick(read, config, register):
    periodic = Periodic()
    periodic.register("0 3 * * *", "shop.clean_up", name="nightly")
    config.use(periodic)
    (row,) = rows(read("/fleet"), "Periodic")
    assert (row["Name"], row["State"], row["Next"]) == ("nightly", "no live process has it", "")
    PeriodicJobs(config).add("0 4 * * *", "shop.report", name="stored")
    register(periodic="")
    stored = by(read("/fleet"), "Periodic", "Name")["stored"]
    assert stored["State"] == "active"
    assert time.time() < stored["Next"] < time.time() + 86_400


def test_limits_that_are_reached_are_shown_and_others_are_not(read, config, raw_redis):
    redis = Installation.of(config).redis
    slots.declare(redis, {"Full": (2, Rate()), "Easy": (5, Rate())}, time.time())
    for name in ("Full", "Easy"):
        raw_redis.sadd("offsider:groups", name)
        raw_redis.zadd(redis.keys.slots(name), {f"host:1:a {n} j{n}": time.time() * 1000 + 60_000 for n in range(2)})
    config.use(Limiters())
    for name, uses in (("stripe", 3), ("maps", 1)):
        limiter = Limiter.bucket(name, 3, "day", wait_timeout=0, config=config)
        for _ in range(uses):
            with limiter.within_limit():
                pass
    page = read("/fleet")
    assert [(row["Group"], row["In use"]) for row in rows(page, "Limits reached")] == [("Full", 2)]
    assert [(row["Limiter"], row["Used"]) for row in rows(page, "Rate limits used up")] == [("stripe", 3)]


def test_shards_have_their_load_and_the_desired_processes(read, raw_redis, config, register):
    register(shard="urgent", queues=["q"], busy=7, concurrency=10)
    redis, now = Installation.of(config).redis, time.time()
    for ago in range(0, 3600, 60):
        load = Load(6.0 if ago < 600 else 1.8, 10.0)
        run_counts.add(redis, [], now - ago, wire_version=8, load=load, shard="urgent")
    (server,) = rows(read("/fleet"), "Servers")
    assert (server["Server"], server["State"]) == ("main", "not the bottleneck")
    (urgent,) = rows(read("/fleet"), "Shards")
    assert (urgent["Shard"], urgent["Processes"], urgent["Threads"], urgent["Busy"]) == ("urgent", 1, 10, 7)
    assert (urgent["Used, 10 min"], urgent["Desired"]) == ("60%", 2)


def test_screens_of_extensions_are_linked(ask, config):
    config.add_web_tab(WebTab("mine", "My jobs", "/mine"))
    links = {link["href"] for link in Markup(ask("/fleet").body.decode()).all("a")}
    assert {"/controls", "/mine"} <= links


@pytest.mark.parametrize("old", ["/busy", "/queues", "/servers", "/shards"])
def test_an_old_address_leads_to_the_fleet(ask, old):
    assert dict(ask(old).headers)["location"] == "/fleet"


def test_a_hundred_processes_and_five_hundred_queues_are_shown_in_time(read, ask, config, raw_redis, register):
    pipeline = raw_redis.pipeline()
    for number in range(500):
        push(pipeline, f"queue-{number}", job(number))
    for number in range(100):
        register(f"vm:{number + 1}:x", queues=[f"queue-{n}" for n in range(number, 500, 9)], busy=2)
        for thread in range(2):
            run(pipeline, thread, f"vm:{number + 1}:x")
    pipeline.execute()
    Sampler(config, Installation.of(config).redis).tick()
    ask("/fleet")
    seconds = []
    for path in ("/fleet", "/fleet/queues", "/fleet/processes", "/fleet/processes/running"):
        for _ in range(3):
            started = time.process_time()
            assert ask(path).status == 200
            seconds.append(time.process_time() - started)
    print([f"{each * 1000:.0f} ms" for each in seconds])
    assert sorted(seconds)[len(seconds) // 2] < 0.15
    page = read("/fleet")
    assert (len(rows(page, "Queues")), len(rows(page, "Processes"))) == (10, 10)
    assert read("/fleet/queues", "page=20")["blocks"][0]["total"] == 500
    assert len(rows(read("/fleet/queues", "name=queue-49"), "Queues")) == 11


def test_the_terminal_shows_the_same_value(raw_redis, register, redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    register(quiet="true", queues=["exports"])
    push(raw_redis, "exports", job(1))
    show = command("show")
    assert "no worker: vm:42 is quiet" in show("fleet").output
    assert "Quiet all: offsider do processes quiet" in show("processes").output
    assert "no worker: vm:42 is quiet" in show("queues", "exports").output
    assert command("processes")("stop", IDENTITY, "--yes").output == f"Asked to stop: {IDENTITY}\n"
    assert raw_redis.lrange(f"{IDENTITY}-signals", 0, -1) == [b"TERM"]
