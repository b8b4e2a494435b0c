"""Every outcome is written once, by the owner alone, and survives lost replies (rules 4 and 5).

A job that is done is handed over to the fetcher, whose next round trip acknowledges it: here `Settling.settle` makes
that round trip, and answers what came of it.
"""

from __future__ import annotations

import logging
import threading

import pytest
import redis as redis_py

from offsider import job
from offsider.core.errors import Discard, MalformedPayload, RedisRefused, RedisUnavailable
from offsider.core.payload import decode, encode
from offsider.storage import working
from offsider.wiring.context import JobContext
from offsider.worker import fetcher as fetcher_module, settlement as settlement_module
from offsider.worker.outcome import (
    Discarded,
    Failed,
    Interrupted,
    Malformed,
    Moved,
    Parked,
    Rescheduled,
    Run,
    Skipped,
    Succeeded,
)
from offsider.worker.report import Reporter
from offsider.worker.settlement import Settled, Settlement
from offsider.worker.unit_of_work import UnitOfWork
from offsider.worker.work_state import WorkState
from tests.redis.worker.conftest import Parts, make_config
from tests.snapshot import snapshot
from tests.waiting import wait_for

RAW = encode({"class": "HardJob", "args": [1], "jid": "a" * 24, "queue": "default", "retry": True})
DYING = encode({"class": "HardJob", "args": [1], "jid": "a" * 24, "queue": "default", "retry": 0})
DISCARDED = Discarded(Discard("enough"))


@pytest.fixture(autouse=True)
def hurry(monkeypatch, no_jobs_left):
    for module in (fetcher_module, settlement_module):
        monkeypatch.setattr(module, "OUTAGE_SECONDS", 0.01)


class Settling:
    """A claimed job and the settlement that ends it; events and death handlers are written down."""

    def __init__(self, parts: Parts) -> None:
        self.parts = parts
        self.lost: list[tuple[str, str]] = []
        self.deaths: list[tuple[str, BaseException | None]] = []
        self.abandoned = threading.Event()
        parts.config.on("lost_ownership", lambda news: self.lost.append((news.job.jid, news.outcome)))
        parts.config.death_handlers.append(lambda payload, error: self.deaths.append((payload["jid"], error)))
        self.work_state = WorkState()
        reporter = Reporter(parts.config, self.work_state)
        self.settlement = Settlement(parts.config, parts.capsule, parts.fetcher, reporter, self.abandoned)
        self._idle: threading.Thread | None = None

    def claim(self, client, raw: bytes = RAW) -> UnitOfWork:
        client.lpush("queue:default", raw)
        unit = self.parts.fetcher.retrieve()
        assert unit is not None
        unit.started = True
        return unit

    def settle(self, unit: UnitOfWork, outcome) -> Settled:
        try:
            context = JobContext(payload=decode(unit.raw), queue=unit.queue, raw=unit.raw)
        except MalformedPayload:
            context = None
        settled = self.settlement.settle(unit, Run(context, outcome, 0.0, 0.0))
        if settled is not Settled.HANDED_OVER:
            return settled
        lost = len(self.lost)
        self.parts.fetcher.flush()
        if not unit.settled:  # the reply was lost: whoever leads next finds out
            self._lead()
            wait_for(lambda: unit.settled)
        return Settled.WRITTEN if len(self.lost) == lost else Settled.LOST

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
    """Where owners are registered: a fetcher that finds itself fenced registers anew."""
    return key.startswith(("offsider:owners", "offsider:alive:"))


# ------------------------------------------------------------------------------------ outcomes


@pytest.mark.parametrize("outcome", [Succeeded(), Skipped("nothing to do"), DISCARDED], ids=lambda o: o.name)
def test_what_is_done_is_gone(settling, raw_redis, outcome):
    unit = settling.claim(raw_redis)
    assert settling.settle(unit, outcome) is (Settled.DIED if outcome is DISCARDED else Settled.WRITTEN)
    assert stored(raw_redis) == {}
    assert unit.settled
    assert settling.parts.fetcher._held.of(settling.parts.ownership.identity).total() == 0
    assert len(settling.deaths) == (outcome is DISCARDED)
    assert settling.work_state.take_counts() == ((0 if outcome is DISCARDED else 1), 0), "others count the rest"


def test_what_failed_is_in_the_retry_set(settling, raw_redis):
    assert settling.settle(settling.claim(raw_redis), Failed(ValueError("broken"))) is Settled.WRITTEN
    found = stored(raw_redis)
    assert set(found) == {"retry"}
    ((raw, score),) = found["retry"].items()
    assert decode(raw)["error_message"] == "broken"
    assert 14 < score - raw_redis.time()[0] < 30
    assert settling.deaths == []


def test_what_asked_for_another_time_is_in_the_schedule_unchanged(settling, raw_redis):
    assert settling.settle(settling.claim(raw_redis), Rescheduled(60.0)) is Settled.WRITTEN
    found = stored(raw_redis)
    assert set(found) == {"schedule"}
    assert list(found["schedule"]) == [RAW]


def test_what_is_out_of_retries_is_in_the_dead_set_and_its_handlers_are_told(settling, raw_redis):
    error = ValueError("broken")
    assert settling.settle(settling.claim(raw_redis, DYING), Failed(error)) is Settled.DIED
    assert set(stored(raw_redis)) == {"dead"}
    assert settling.deaths == [("a" * 24, error)]


def test_a_broken_death_handler_keeps_no_other_from_being_told(settling, raw_redis):
    def broken(payload, error):
        raise KeyError("handler")

    settling.parts.config.death_handlers.insert(0, broken)
    assert settling.settle(settling.claim(raw_redis, DYING), Failed(ValueError())) is Settled.DIED
    assert len(settling.deaths) == 1
    assert [told["context"] for _, told in settling.parts.errors] == ["a death handler"]


def test_what_was_interrupted_is_the_next_to_run_and_says_so(settling, raw_redis):
    unit = settling.claim(raw_redis)
    raw_redis.lpush("queue:default", "waiting")
    assert settling.settle(unit, Interrupted()) is Settled.WRITTEN
    waiting, interrupted = raw_redis.lrange("queue:default", 0, -1)
    assert waiting == b"waiting"
    assert decode(interrupted) == decode(RAW) | {"interrupted_count": 1}
    assert settling.deaths == []


def test_bytes_that_are_no_job_go_to_the_dead_set_as_they_are(settling, raw_redis):
    unit = settling.claim(raw_redis, b"\xff no job")
    outcome = Malformed(MalformedPayload(b"\xff no job", "not UTF-8"))
    assert settling.settle(unit, outcome) is Settled.WRITTEN
    assert list(stored(raw_redis)["dead"]) == [b"\xff no job"]


@pytest.mark.parametrize("moved", [True, False], ids=["moved", "void"])
def test_what_middleware_has_moved_is_let_go_of_and_nobody_counts_it(settling, raw_redis, caplog, moved):
    unit = settling.claim(raw_redis)
    raw_redis.lmove(settling.parts.working, "offsider:elsewhere" if moved else "queue:default")
    before = stored(raw_redis)
    assert settling.settle(unit, Moved("elsewhere")) is Settled.MOVED
    assert stored(raw_redis) == before
    assert unit.settled
    assert settling.parts.fetcher._held.of(settling.parts.ownership.identity).total() == 0
    assert settling.work_state.take_counts() == (0, 0)
    assert (settling.lost, settling.deaths, caplog.records) == ([], [], [])


def test_what_is_said_to_be_moved_and_is_not_runs_again(settling, raw_redis):
    unit = settling.claim(raw_redis)
    assert settling.settle(unit, Moved("nowhere")) is Settled.MOVED
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
def test_the_outcome_of_a_job_that_others_own_is_void(settling, raw_redis, caplog, how, ending):
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
        assert settling.settle(unit, outcome) is Settled.LOST
    assert stored(raw_redis) == before
    assert settling.work_state.take_counts() == (0, 0)
    assert settling.deaths == called == []
    assert settling.lost == ([] if raw == b"no job" else [("a" * 24, outcome.name)])
    warned = [record for record in caplog.records if "lost ownership" in record.getMessage()]
    assert [record.levelname for record in warned] == ["WARNING"]
    assert unit.settled
    assert settling.parts.fetcher._held.of(unit.entry.owner.identity).total() == 0


def test_two_jobs_of_equal_bytes_are_settled_one_by_one(settling, raw_redis):
    first, second = settling.claim(raw_redis), settling.claim(raw_redis)
    assert settling.settle(first, Succeeded()) is Settled.WRITTEN
    assert raw_redis.lrange(settling.parts.working, 0, -1) == [RAW]
    assert settling.settle(second, Rescheduled(5.0)) is Settled.WRITTEN
    assert set(stored(raw_redis)) == {"schedule"}


# -------------------------------------------------------------------------------- lost replies

WRITES = {
    "succeeded": (RAW, Succeeded(), working.EXCHANGE),
    "failed": (RAW, Failed(ValueError("broken")), working.POSTPONE),
    "died": (DYING, Failed(ValueError("broken")), working.BURY),
    "interrupted": (RAW, Interrupted(), working.PUT_BACK),
}


def known(client, script) -> bytes:
    """Make the server know a script by its hash, so that only its EVALSHA can be lost."""
    client.script_load(script.text)
    return script.sha.encode()


@pytest.mark.parametrize("lost", ["reply", "request"])
@pytest.mark.parametrize("name", WRITES)
def test_a_settle_without_an_answer_is_written_exactly_once(faulty, proxy, raw_redis, name, lost):
    """Whether the server had carried it out is seen in the private list (rule 5)."""
    raw, outcome, script = WRITES[name]
    unit = faulty.claim(raw_redis, raw)
    getattr(proxy, f"lose_{lost}")(known(raw_redis, script))
    expected = Settled.DIED if name == "died" else Settled.WRITTEN
    assert faulty.settle(unit, outcome) is expected
    assert proxy.lost == 1
    found = stored(raw_redis)
    where = {"succeeded": None, "failed": "retry", "died": "dead", "interrupted": "queue:default"}[name]
    assert set(found) == ({where} if where else set())
    assert not where or len(found[where]) == 1
    assert faulty.lost == []
    assert len(faulty.deaths) == (name == "died")
    assert len(faulty.parts.errors) == 1, "the outage is reported once"
    # Whoever reads the reply counts, which may be the ticker.
    wait_for(lambda: faulty.work_state._processed == int(name == "succeeded"))
    assert faulty.work_state.take_counts() == (int(name == "succeeded"), 0)


@pytest.mark.parametrize("lost", ["reply", "request"])
def test_with_an_equal_job_in_flight_a_lost_answer_ends_just_one(faulty, proxy, raw_redis, lost):
    first, second = faulty.claim(raw_redis), faulty.claim(raw_redis)
    getattr(proxy, f"lose_{lost}")(known(raw_redis, working.EXCHANGE))
    assert faulty.settle(first, Succeeded()) is Settled.WRITTEN
    assert raw_redis.lrange(faulty.parts.working, 0, -1) == [RAW]
    assert faulty.settle(second, Succeeded()) is Settled.WRITTEN
    assert stored(raw_redis) == {}
    assert faulty.lost == []
    assert faulty.work_state.take_counts() == (2, 0)


def test_a_run_that_lost_its_job_while_its_settle_had_no_answer_is_void(faulty, proxy, raw_redis, monkeypatch):
    """Missing from the own list may mean written, but not for an owner that was fenced meanwhile."""
    unit = faulty.claim(raw_redis, DYING)
    keys = faulty.parts.capsule.redis.keys

    def others_take_it(seconds: float) -> bool:
        raw_redis.set(keys.fenced(unit.entry.owner.identity), 1)
        raw_redis.lmove(faulty.parts.working, "queue:default", "RIGHT", "RIGHT")
        return False

    monkeypatch.setattr(faulty.abandoned, "wait", others_take_it)
    proxy.lose_request(known(raw_redis, working.BURY))
    assert faulty.settle(unit, Failed(ValueError("broken"))) is Settled.LOST
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
    assert results == [Settled.WRITTEN]
    assert set(stored(raw_redis)) == (set() if outcome == Succeeded() else {"retry"})


def test_a_worker_that_must_go_leaves_the_job_where_it_will_be_found(faulty, proxy, raw_redis, caplog):
    unit = faulty.claim(raw_redis)
    proxy.refuse()
    faulty.abandoned.set()
    assert faulty.settle(unit, Failed(ValueError())) is Settled.UNWRITTEN
    assert not unit.settled
    assert raw_redis.lrange(faulty.parts.working, 0, -1) == [RAW]
    assert "it will run again" in caplog.text


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
    assert results == [Settled.WRITTEN]
    assert isinstance(settling.parts.errors[0][0], RedisRefused)
    assert raw_redis.zcard("retry") == 1


def test_a_full_server_takes_every_outcome(make_server):
    """Draining it is what makes room (allow-oom)."""
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
            unit.started = True
            assert settling.settle(unit, outcome) in (Settled.WRITTEN, Settled.DIED)
        assert set(stored(client)) == {"retry", "dead", "queue:default"}
    settling.parts.close()


def test_units_without_a_private_list_are_settled_one_write_after_the_other(settling, raw_redis):
    """The basic fetcher's, and those of fetchers of users."""
    parts = settling.parts
    reporter = Reporter(parts.config, settling.work_state)
    for outcome, where in ((Succeeded(), None), (Failed(ValueError()), "retry"), (Rescheduled(9.0), "schedule")):
        unit = UnitOfWork("default", RAW)
        settling.settlement = Settlement(parts.config, parts.capsule, Listless(), reporter, settling.abandoned)
        assert settling.settle(unit, outcome) is Settled.WRITTEN
        assert set(stored(raw_redis)) == ({where} if where else set())
        assert settling.settlement._fetcher.done == [unit]
        raw_redis.flushall()
    unit = UnitOfWork("default", DYING)
    assert settling.settle(unit, Failed(ValueError())) is Settled.DIED
    assert set(stored(raw_redis)) == {"dead"}
    unit = UnitOfWork("default", RAW)
    assert settling.settle(unit, Interrupted()) is Settled.WRITTEN
    assert settling.settlement._fetcher.returned == [unit]


class Listless:
    """A fetcher of a user that keeps no lists."""

    def __init__(self) -> None:
        self.done = []
        self.returned = []

    def acknowledge(self, unit) -> bool:
        self.done.append(unit)
        return True

    def requeue(self, unit) -> None:
        self.returned.append(unit)


def test_the_errors_of_an_outage_are_ours(faulty, proxy, raw_redis):
    unit = faulty.claim(raw_redis)
    proxy.lose_reply(known(raw_redis, working.POSTPONE))
    faulty.settle(unit, Failed(ValueError()))
    ((error, told),) = faulty.parts.errors
    assert isinstance(error, RedisUnavailable)
    assert error.ambiguous
    assert told["context"] == "settling jobs of capsule default"


def test_what_cannot_run_here_is_in_the_schedule_as_it_was_judged(settling, raw_redis):
    parked = Parked(b'{"class":"J","args":[],"parked_count":1}', 60.0, "not declared here", nobody=True)
    assert settling.settle(settling.claim(raw_redis), parked) is Settled.WRITTEN
    ((raw, score),) = stored(raw_redis)["schedule"].items()
    assert raw == parked.payload
    assert 50 < score - raw_redis.time()[0] <= 61
    assert settling.work_state.take_counts() == (0, 0)


def test_a_job_that_ran_and_asks_to_run_again_is_not_parked_any_more(settling, raw_redis):
    unit = settling.claim(raw_redis, RAW[:-1] + b',"parked_at":1,"parked_count":3}')
    assert settling.settle(unit, Rescheduled(60.0)) is Settled.WRITTEN
    assert list(stored(raw_redis)["schedule"]) == [RAW]
