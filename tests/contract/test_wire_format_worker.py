"""Golden forms of Sidekiq 8.1.7, the worker's half: its process data, and its record of a failed job.

The dumps come from real Ruby processes; clock, pid and identity are injected. The version is our own.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from offsider import Config, JobContext, __version__
from offsider.config.installation import Installation
from offsider.core.clock import Clock
from offsider.core.compression import expand_backtrace
from offsider.core.payload import decode
from offsider.worker.disposition import Dead, Later
from offsider.worker.heartbeat import Heartbeat, describe
from offsider.worker.settle.retrier import Retrier
from offsider.worker.work_state import WorkState
from tests.started_unit import started_unit

IDENTITY = "vm:23358:216a39b58d02"
SLEEPING = (
    b'{"retry":true,"queue":"low","args":[60,0],"class":"SleepJob","jid":"7cef0a79319f8e0fd48fb848",'
    b'"created_at":1795216886908,"enqueued_at":1795216886908}'
)
INFO = {
    6: '{"hostname":"vm","started_at":1795216887.1052415,"pid":23358,"tag":"shop","concurrency":5,'
    f'"queues":["critical","default","low"],"labels":[],"identity":"{IDENTITY}"}}',
    7: '{"hostname":"vm","started_at":1795216887.1052415,"pid":23358,"tag":"shop","concurrency":5,'
    '"queues":["critical","default","low"],"weights":[{"critical":3,"default":2,"low":0}],"labels":[],'
    f'"identity":"{IDENTITY}","version":"{__version__}","embedded":false}}',
    # What 8.1.7 writes, and ``concurrency``, which the pages of 6 and 7 add up over all processes.
    8: '{"hostname":"vm","started_at":1795216887.1052415,"pid":23358,"tag":"shop","concurrency":5,'
    '"capsules":{"default":'
    '{"concurrency":5,"mode":"weighted","weights":{"critical":3,"default":2,"low":0}}},'
    '"queues":["critical","default","low"],"weights":[{"critical":3,"default":2,"low":0}],"labels":[],'
    f'"identity":"{IDENTITY}","version":"{__version__}","embedded":false}}',
}


class Stopped(Clock):
    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now


def make_config(version: int, now: float, url: str = "redis://localhost") -> Config:
    config = Config()
    config.redis.url = url
    config.redis.wire_version = version
    config.worker.queues = ["critical,3", "default,2", "low"]
    config.worker.tag = "shop"
    config.client.app_version = ""  # Ruby does not report it
    config.clock = Stopped(now)
    return config


@pytest.fixture
def make_heartbeat(monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 23358)

    def make(config: Config, redis=None) -> Heartbeat:
        state = WorkState()
        state.begin("iee", *started_unit("low", SLEEPING, 1795216887.9))
        return Heartbeat(
            config,
            redis,
            SimpleNamespace(identity=IDENTITY),
            state,
            quiet=lambda: False,
            embedded=False,
        )

    return make


@pytest.mark.parametrize("version", [6, 7, 8])
def test_a_process_describes_itself_as_sidekiq_does(monkeypatch, version):
    monkeypatch.setattr("os.getpid", lambda: 23358)
    started_at = 1795216887.1052415
    info = describe(make_config(version, started_at), IDENTITY, started_at, embedded=False)
    assert json.dumps(info, separators=(",", ":")) == INFO[version]


def test_the_process_registry_has_the_same_data_as_in_sidekiq_8(make_heartbeat, redis_url, raw_redis):
    config = make_config(8, 1795216887.1117470, redis_url)
    redis = Installation.of(config).make_redis(1)

    make_heartbeat(config, redis).tick()
    redis.close()

    assert raw_redis.smembers("processes") == {IDENTITY.encode()}
    process = raw_redis.hgetall(IDENTITY)
    ours = {b"jobs", b"activity"}  # Ruby reads the fields by their names
    assert set(process) - ours == {b"info", b"concurrency", b"busy", b"beat", b"rtt_us", b"quiet", b"rss"}
    assert process[b"info"].decode() == INFO[8].replace("1795216887.1052415", "1795216887.111747")
    assert (process[b"concurrency"], process[b"busy"]) == (b"5", b"1")
    assert (process[b"beat"], process[b"quiet"]) == (b"1795216887.111747", b"false")
    assert process[b"rtt_us"].isdigit()
    assert process[b"rss"].isdigit()
    assert raw_redis.ttl(IDENTITY) == 60
    work = json.dumps({"queue": "low", "payload": SLEEPING.decode(), "run_at": 1795216887}, separators=(",", ":"))
    assert raw_redis.hgetall(f"{IDENTITY}:work") == {b"iee": work.encode()}
    assert raw_redis.ttl(f"{IDENTITY}:work") == 60


def fail(raw: str, error: BaseException, version: int, now: float) -> Later | Dead:
    job = JobContext(payload=decode(raw.encode()), queue="default", raw=raw.encode())
    decision = Retrier(make_config(version, now)).decide(job, error)
    assert isinstance(decision, Later | Dead)
    return decision


def raised(error: Exception) -> Exception:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


FIRST = (
    '{"retry":3,"queue":"default","backtrace":true,"args":["f",1],"class":"FailJob","jid":"f0c7eeab0da6d328927fcf43",'
    '"created_at":1795216886907,"enqueued_at":1795216886907'
)
FAILED = ',"error_message":"boom é <b>x</b>","error_class":"ValueError","failed_at":1795216887108,"retry_count":'


FRAME = '"error_frame":"tests/contract/test_wire_format_worker.py:raised"'


def test_the_first_failure_is_written_as_sidekiq_8_does():
    decision = fail(FIRST + "}", raised(ValueError("boom é <b>x</b>")), 8, 1795216887.1085)

    assert isinstance(decision, Later)
    backtrace = decode(decision.payload)["error_backtrace"]
    assert decision.payload.decode() == f'{FIRST}{FAILED}0,"error_backtrace":"{backtrace}",{FRAME}}}', "and our frame"
    assert backtrace.startswith("eJ")
    assert "\n" not in backtrace
    assert "test_wire_format_worker.py" in expand_backtrace(backtrace)[0]
    assert 15 <= decision.delay_seconds < 25


def test_later_failures_keep_the_place_of_each_key_and_add_retried_at_last():
    stored = f'{FIRST}{FAILED}0,"error_backtrace":"eJzdlt1u"}}'

    decision = fail(stored, raised(ValueError("boom é <b>x</b>")), 8, 1795216900.5545)

    backtrace = decode(decision.payload)["error_backtrace"]
    expected = f'{FIRST}{FAILED}1,"error_backtrace":"{backtrace}","retried_at":1795216900554,{FRAME}}}'
    assert decision.payload.decode() == expected


@pytest.mark.parametrize("version", [6, 7])
def test_6_and_7_write_the_time_of_a_failure_in_float_seconds(version):
    raw = '{"retry":true,"queue":"default","args":[],"class":"FailJob","jid":"f0c7eeab0da6d328927fcf43"'

    decision = fail(raw + "}", ValueError("boom é <b>x</b>"), version, 1795216971.7650886)

    assert decision.payload.decode() == raw + FAILED.replace("1795216887108", "1795216971.7650886") + "0}"


def test_a_job_without_retries_is_dead_with_a_count_of_zero():
    raw = (
        '{"retry":0,"queue":"default","args":["d"],"class":"DeadJob","jid":"caa9a8dc77a5f49ffc2f2237",'
        '"created_at":1795216886908,"enqueued_at":1795216886908'
    )
    failed = FAILED.replace("boom é <b>x</b>", "dies at once").replace("887108", "887110")

    decision = fail(raw + "}", ValueError("dies at once"), 8, 1795216887.1105)

    assert isinstance(decision, Dead)
    assert decision.payload.decode() == raw + failed + "0}"
