"""Every outcome is written once, by the owner alone, and survives lost replies (rules 4 and 5).

A finished job is passed to the fetcher, whose next round trip acknowledges it: here `Settling.settle` makes that
round trip, and returns its result.
"""

from __future__ import annotations

import json
import logging
import threading
from contextlib import suppress

import pytest
import redis as redis_py

from offsider import Config, job
from offsider.client import Client
from offsider.core.errors import Discard, MalformedPayload, RedisRefused, RedisUnavailable
from offsider.core.malformed import unwrap
from offsider.core.outcome import Discarded, Failed, Interrupted, Malformed, NotStarted, Rescheduled, Skipped, Succeeded
from offsider.core.payload import decode, encode, rescheduled
from offsider.inspector import DeadSet, Queue
from offsider.jobs import registry
from offsider.runtime import outage
from offsider.runtime.context import JobContext
from offsider.storage import working
from offsider.worker.disposition import Done, Moved
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.fetch.fetcher import Settled
from offsider.worker.settle.report import Reporter
from offsider.worker.settle.retrier import Retrier
from offsider.worker.settle.settlement import Settlement
from offsider.worker.unit_of_work import Run, UnitOfWork
from offsider.worker.work_state import WorkState
from tests.redis.worker.conftest import Parts, make_config
from tests.snapshot import snapshot
from tests.waiting import wait_for

RAW = encode({"class": "HardJob", "args": [1], "jid": "a" * 24, "queue": "default", "retry": True})
DYING = encode({"class": "HardJob", "args": [1], "jid": "a" * 24, "queue": "default", "retry": 0})
DISCARDED = Discarded(Discard("enough"))


@pytest.fixture(autouse=True)
def short_delays(monkeypatch, declared):
    monkeypatch.setattr(outage, "RETRY_SECONDS", 0.01)


class Settling:
    """A claimed job and the settlement that ends it; events and death handlers are written down."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.lost: list[tuple[str, str]] = []
        self.deaths: list[tuple[str, BaseException | None]] = []
        self.reported: list[Settled] = []
        self.abandoned = parts.context.abandoned
        parts.config.on("lost_ownership", lambda news: self.lost.append((news.job.jid, news.outcome)))
        parts.config.death_handlers.append(lambda payload, error: self.deaths.append((payload["jid"], error)))
        self.work_state = WorkState()
        self.reporter = Reporter(parts.config, self.work_state)
        parts.listeners.append(self.report)
        self.settlement = Settlement(parts.config, parts.fetcher)
        self._idle: threading.Thread | None = None

    def report(self, settled) -> None:
        self.reporter.settled(settled)
        self.reported += settled

    def claim(self, client, raw: bytes = RAW) -> UnitOfWork:
        client.lpush("queue:default", raw)
        unit = self.parts.fetcher.retrieve()
        assert unit is not None
        return unit

    def settle(self, unit: UnitOfWork, outcome) -> str:
        """Settle, wait for the report, and return it as a word."""
        try:
            context = JobContext(payload=decode(unit.raw), queue=unit.queue, raw=unit.raw)
        except MalformedPayload:
            context = None
        self.settlement.settle(unit, Run(context, outcome, 0.0, 0.0, 0.0))
        if self.settlement.decide(unit, unit.run) == Done():
            self.parts.fetcher._leading.flush()
            with suppress(AssertionError):  # the ticker may have sent it just before
                wait_for(lambda: unit.settled, 0.3)
            if not unit.settled:  # the reply was lost: the next leader finds out
                self._lead()
                wait_for(lambda: unit.settled)
            wait_for(lambda: self._report_of(unit))
        return self._report_of(unit)

    def _report_of(self, unit: UnitOfWork) -> str:
        for one in self.reported:
            if one.unit is unit:
                if one.lost or one.disposition == Moved():
                    return "lost" if one.lost else "moved"
                return "died" if getattr(one.disposition, "died", None) else "written"
        return ""

    def _lead(self) -> None:
        if self._idle is None:
            self._idle = threading.Thread(target=self.parts.fetcher.retrieve, daemon=True)
            self._idle.start()


@pytest.fixture
def settling(parts) -> Settling:
    return Settling(parts)


@pytest.fixture
def faulty(proxied) -> Settling:
    return Settling(proxied)


def stored(client) -> dict:
    return {key: value for key, value in snapshot(client).items() if key != "queues" and not is_registry(key)}


def is_registry(key: str) -> bool:
    """Where owners are registered: a fetcher that finds itself fenced registers again."""
    return key.startswith(("offsider:owners", "offsider:alive:"))


# ------------------------------------------------------------------------------------ outcomes


@pytest.mark.parametrize("outcome", [Succeeded(), Skipped("nothing to do"), DISCARDED], ids=lambda o: o.name)
def test_a_successful_job_is_deleted(settling, raw_redis, outcome):
    unit = settling.claim(raw_redis)
    assert settling.settle(unit, outcome) == ("died" if outcome is DISCARDED else "written")
    assert stored(raw_redis) == {}
    assert unit.settled
    assert settling.parts.fetcher._state.in_flight.of(settling.parts.ownership.identity).total() == 0
    assert len(settling.deaths) == (outcome is DISCARDED)
    assert settling.work_state.runs.take().totals == (1, 0)


def test_a_failed_job_is_in_the_retry_set(settling, raw_redis):
    assert settling.settle(settling.claim(raw_redis), Failed(ValueError("broken"))) == "written"
    found = stored(raw_redis)
    assert set(found) == {"retry"}
    ((raw, score),) = found["retry"].items()
    assert decode(raw)["error_message"] == "broken"
    assert 14 < score - raw_redis.time()[0] < 30
    assert settling.deaths == []


def test_a_rescheduled_job_is_in_the_schedule_unchanged(settling, raw_redis):
    assert settling.settle(settling.claim(raw_redis), Rescheduled(60.0)) == "written"
    found = stored(raw_redis)
    assert set(found) == {"schedule"}
    assert list(found["schedule"]) == [RAW]


def test_a_reschedule_of_the_job_is_counted_in_its_payload(settling, raw_redis):
    assert settling.settle(settling.claim(raw_redis), Rescheduled(60.0, counted=True)) == "written"
    (once,) = stored(raw_redis)["schedule"]
    assert decode(once) == {**decode(RAW), "rescheduled_count": 1}
    assert decode(rescheduled(once))["rescheduled_count"] == 2


def test_an_exhausted_job_is_in_the_dead_set_and_its_handlers_are_called(settling, raw_redis):
    error = ValueError("broken")
    assert settling.settle(settling.claim(raw_redis, DYING), Failed(error)) == "died"
    assert set(stored(raw_redis)) == {"dead"}
    assert settling.deaths == [("a" * 24, error)]


def test_an_interrupted_job_is_next_to_run_and_records_the_interruption(settling, raw_redis):
    unit = settling.claim(raw_redis)
    raw_redis.lpush("queue:default", "waiting")
    assert settling.settle(unit, Interrupted()) == "written"
    waiting, interrupted = raw_redis.lrange("queue:default", 0, -1)
    assert waiting == b"waiting"
    assert decode(interrupted) == decode(RAW) | {"interrupted_count": 1}
    assert settling.deaths == []


@pytest.mark.parametrize("raw", [b"\xff no job", b"[1,2]", b"5", b"null"])
def test_equal_invalid_bytes_are_each_kept_in_the_dead_set_in_a_wrapper(settling, raw_redis, raw):
    for _ in range(3):
        unit = settling.claim(raw_redis, raw)
        assert settling.settle(unit, Malformed(MalformedPayload(raw, "no job"))) == "written"
    dead = list(stored(raw_redis)["dead"])
    assert [unwrap(member) for member in dead] == [raw] * 3
    assert [json.loads(member)["queue"] for member in dead] == ["default"] * 3


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "void"])
def test_a_job_moved_by_middleware_is_released_and_not_counted(settling, raw_redis, caplog, moved):
    unit = settling.claim(raw_redis)
    raw_redis.lmove(settling.parts.working, "offsider:elsewhere" if moved else "queue:default")
    before = stored(raw_redis)
    assert settling.settle(unit, NotStarted("elsewhere", reason="elsewhere", name="moved")) == "moved"
    assert stored(raw_redis) == before
    assert unit.settled
    assert settling.parts.fetcher._state.in_flight.of(settling.parts.ownership.identity).total() == 0
    assert settling.work_state.runs.take().totals == (0, 0)
    assert (settling.lost, settling.deaths, caplog.records) == ([], [], [])


def test_a_job_wrongly_reported_as_moved_runs_again(settling, raw_redis):
    unit = settling.claim(raw_redis)
    assert settling.settle(unit, NotStarted("elsewhere", reason="nowhere", name="moved")) == "moved"
    settling.parts.fetcher.audit()
    settling.parts.fetcher.audit()
    again = settling.parts.fetcher.retrieve()
    assert again is not None
    assert again.raw == RAW


# --------------------------------------------------------------------------- owned by others


@pytest.mark.parametrize("how", ["reclaimed", "fenced", "fenced, not reclaimed yet"])
@pytest.mark.parametrize(
    "ending",
    [
        (RAW, Succeeded()),
        (RAW, Failed(ValueError())),
        (DYING, Failed(ValueError())),
        (RAW, Rescheduled(1.0)),
        (RAW, DISCARDED),
        (RAW, Interrupted()),
        (b"no job", Malformed(MalformedPayload(b"no job", "not JSON"))),
    ],
    ids=["succeeded", "failed", "died", "rescheduled", "discarded", "interrupted", "malformed"],
)
def test_the_outcome_of_a_job_owned_by_another_process_is_void(settling, raw_redis, caplog, how, ending):
    """No retry, no dead entry, no callback: one warning and one event (rule 4)."""
    raw, outcome = ending
    called = []

    @job(name="HardJob", on_exhausted=lambda *_: called.append("on_exhausted"), retry_in=lambda *_: called.append("in"))
    def hard_job(number: int) -> None: ...

    unit = settling.claim(raw_redis, raw)
    if how.startswith("fenced"):
        raw_redis.set(settling.parts.redis.keys.fenced(settling.parts.ownership.identity), 1)
    if not how.endswith("yet"):
        raw_redis.rpoplpush(settling.parts.working, "queue:default")
    before = stored(raw_redis)
    with caplog.at_level(logging.WARNING, "offsider"):
        assert settling.settle(unit, outcome) == "lost"
    assert stored(raw_redis) == before
    assert settling.work_state.runs.take().totals == (0, 0)
    assert settling.deaths == called == []
    assert settling.lost == ([] if raw == b"no job" else [("a" * 24, outcome.name)])
    warned = [record for record in caplog.records if "lost ownership" in record.getMessage()]
    assert [record.levelname for record in warned] == ["WARNING"]
    assert unit.settled
    assert settling.parts.fetcher._state.in_flight.of(unit.entry.owner.identity).total() == 0


# -------------------------------------------------------------------------------- lost replies

WRITES = {
    "succeeded": (RAW, Succeeded(), working.ACK_AND_CLAIM),
    "failed": (RAW, Failed(ValueError("broken")), working.SETTLE),
    "died": (DYING, Failed(ValueError("broken")), working.SETTLE),
    "interrupted": (RAW, Interrupted(), working.REQUEUE),
}


def outages(settling) -> list:
    return [details for error, details in settling.parts.errors if isinstance(error, RedisUnavailable)]


def known(client, script) -> bytes:
    """Make the server know a script by its hash, so that only its EVALSHA can be lost."""
    client.script_load(script.text)
    return script.sha.encode()


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("name", WRITES)
def test_a_settle_with_a_lost_reply_is_written_exactly_once(faulty, proxy, raw_redis, name, lost):
    """Whether the server had carried it out is seen in the private list (rule 5)."""
    raw, outcome, script = WRITES[name]
    unit = faulty.claim(raw_redis, raw)
    getattr(proxy, f"lose_{lost}")(known(raw_redis, script))
    expected = "died" if name == "died" else "written"
    assert faulty.settle(unit, outcome) == expected
    assert proxy.lost == 1
    found = stored(raw_redis)
    where = {"succeeded": None, "failed": "retry", "died": "dead", "interrupted": "queue:default"}[name]
    assert set(found) == ({where} if where else set())
    assert not where or len(found[where]) == 1
    assert faulty.lost == []
    assert len(faulty.deaths) == (name == "died")
    assert len(outages(faulty)) == 1, "the outage is reported once"
    counts = {"succeeded": (1, 0), "interrupted": (0, 0)}.get(name, (1, 1))
    # Whoever reads the reply counts, which may be the ticker.
    wait_for(lambda: faulty.work_state.runs.ended.finished + faulty.work_state.runs.ended.failed == counts[0])
    assert faulty.work_state.runs.take().totals == counts


@pytest.mark.parametrize("lost", ["reply", "request"])
def test_with_an_equal_job_in_flight_a_lost_reply_settles_only_one(faulty, proxy, raw_redis, lost):
    first, second = faulty.claim(raw_redis), faulty.claim(raw_redis)
    getattr(proxy, f"lose_{lost}")(known(raw_redis, working.ACK_AND_CLAIM))
    assert faulty.settle(first, Succeeded()) == "written"
    assert raw_redis.lrange(faulty.parts.working, 0, -1) == [RAW]
    assert faulty.settle(second, Succeeded()) == "written"
    assert stored(raw_redis) == {}
    assert faulty.lost == []
    assert faulty.work_state.runs.take().totals == (2, 0)


def test_a_run_that_lost_its_job_during_an_unanswered_settle_is_void(faulty, proxy, raw_redis, monkeypatch):
    """Missing from its own list may mean written, but not for an owner that has been fenced."""
    unit = faulty.claim(raw_redis, DYING)
    keys = faulty.parts.pool.keys

    def others_take_it(seconds: float) -> bool:
        raw_redis.set(keys.fenced(unit.entry.owner.identity), 1)
        raw_redis.lmove(faulty.parts.working, "queue:default", "RIGHT", "RIGHT")
        return False

    monkeypatch.setattr(faulty.abandoned, "wait", others_take_it)
    proxy.lose_request(known(raw_redis, working.SETTLE))
    assert faulty.settle(unit, Failed(ValueError("broken"))) == "lost"
    assert faulty.deaths == []
    assert len(faulty.lost) == 1
    assert raw_redis.lrange("queue:default", 0, -1) == [DYING]
    assert raw_redis.zcard("dead") == 0


@pytest.mark.parametrize("outcome", [Succeeded(), Failed(ValueError())], ids=lambda o: o.name)
def test_a_settle_waits_until_the_server_is_back(faulty, proxy, raw_redis, outcome):
    unit = faulty.claim(raw_redis)
    proxy.refuse()
    results = []
    settling = threading.Thread(target=lambda: results.append(faulty.settle(unit, outcome)))
    settling.start()
    wait_for(lambda: faulty.parts.errors)
    assert not unit.settled
    proxy.accept()
    settling.join(10)
    assert results == ["written"]
    assert set(stored(raw_redis)) == (set() if outcome == Succeeded() else {"retry"})


def test_a_worker_that_must_exit_leaves_the_job_reclaimable(faulty, proxy, raw_redis, caplog):
    unit = faulty.claim(raw_redis)
    proxy.refuse()
    faulty.abandoned.set()
    assert faulty.settle(unit, Failed(ValueError())) == ""
    assert not unit.settled
    assert raw_redis.lrange(faulty.parts.working, 0, -1) == [RAW]
    assert "the job will run again" in caplog.text


def test_a_destination_of_the_wrong_type_keeps_the_job_until_it_is_repaired(settling, raw_redis):
    unit = settling.claim(raw_redis)
    raw_redis.set("retry", "wrong")
    results = []
    thread = threading.Thread(target=lambda: results.append(settling.settle(unit, Failed(ValueError()))))
    thread.start()
    wait_for(lambda: settling.parts.errors)
    assert raw_redis.lrange(settling.parts.working, 0, -1) == [RAW]
    raw_redis.delete("retry")
    thread.join(10)
    assert results == ["written"]
    assert isinstance(settling.parts.errors[0][0], RedisRefused)
    assert raw_redis.zcard("retry") == 1


def test_a_full_server_accepts_every_outcome(make_server):
    """Draining it frees memory (allow-oom)."""
    server = make_server()
    settling = Settling(Parts(make_config(server.url)))
    with redis_py.Redis.from_url(server.url) as client:
        units = []
        for raw, outcome, _ in WRITES.values():
            client.lpush("queue:default", raw)
            units.append((outcome, raw))
        client.config_set("maxmemory", 1)
        for outcome, raw in units:
            unit = settling.parts.fetcher.retrieve()
            assert unit.raw == raw
            assert settling.settle(unit, outcome) in ("written", "died")
        assert set(stored(client)) == {"retry", "dead", "queue:default"}
    settling.parts.close()


def test_a_stranded_job_is_in_the_schedule_as_decided(settling, raw_redis):
    stranded = NotStarted("schedule", 60.0, "not declared here", "stranded", b'{"class":"J","args":[],"stranded_at":1}')
    assert settling.settle(settling.claim(raw_redis), stranded) == "written"
    ((raw, score),) = stored(raw_redis)["schedule"].items()
    assert raw == stranded.payload
    assert 50 < score - raw_redis.time()[0] <= 61
    assert settling.work_state.runs.take().totals == (0, 0)


HANDED_ON = NotStarted("queue", 0.0, "another worker might run it", "handed over")


def test_a_job_for_another_worker_moves_to_the_tail_of_its_queue_byte_for_byte(settling, raw_redis):
    unit = settling.claim(raw_redis)
    raw_redis.lpush("queue:default", b"waiting")
    assert settling.settle(unit, HANDED_ON) == "written"
    assert stored(raw_redis) == {"queue:default": [RAW, b"waiting"]}
    assert settling.work_state.runs.take().totals == (0, 0)


def test_a_job_that_ran_and_asks_to_run_again_is_stranded_no_more(settling, raw_redis):
    unit = settling.claim(raw_redis, RAW[:-1] + b',"stranded_at":1}')
    assert settling.settle(unit, Rescheduled(60.0)) == "written"
    assert list(stored(raw_redis)["schedule"]) == [RAW]


def test_an_internal_error_while_settling_buries_the_job_unchanged(redis_url, monkeypatch):
    def broken(self, job, error):
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(Retrier, "decide", broken)
    config = Config()
    config.redis.url = redis_url
    reports: list[str] = []
    config.error_handlers.append(lambda error, context: reports.append(str(error)))
    runs: list[int] = []
    with registry.isolated():

        @job(name="Fails")
        def fails() -> None:
            runs.append(1)
            raise ValueError("the job's own")

        jid = fails.via(Client(config)).enqueue()
        with EmbeddedWorker(config):
            wait_for(lambda: len(DeadSet(config)) == 1)

    assert runs == [1]
    assert [entry.jid for entry in DeadSet(config)] == [jid]
    assert len(Queue("default", config)) == 0
    assert "a bug of ours" in reports
