"""Queues of the application's jobs that this worker does not serve: named at the start, and when jobs wait there."""

from __future__ import annotations

import logging
import shlex

import pytest

from offsider import job
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.config.queue_spec import QueueSpec
from offsider.jobs import registry
from offsider.jobs.query_queues import unserved_here
from offsider.worker.unserved import UnservedQueues
from tests.waiting import wait_for


@pytest.fixture(autouse=True)
def declared(no_jobs_left) -> None:
    registry._jobs.clear()  # modules of other tests declare some when they are imported

    @job(name="Mail", queue="mail")
    def mail() -> None: ...

    @job(name="Plain")
    def plain() -> None: ...


@pytest.fixture
def service(worker_config):
    redis = Installation.of(worker_config).make_redis(2)
    service = UnservedQueues(worker_config, redis)
    yield service
    service.stop()
    service.join(5)
    redis.close()


def started(service, caplog):
    with caplog.at_level(logging.INFO, "offsider"):
        service.start()
    return [(record.levelname, record.getMessage()) for record in caplog.records]


LINE = "this worker does not serve mail (Mail); if no other worker does, start it with -q {} -q mail"


def test_unserved_queues_are_named_at_the_start(worker_config, service, caplog):
    worker_config.worker.queues = ["default"]
    assert started(service, caplog) == [("INFO", LINE.format("default"))]


def test_proposed_options_serve_any_name(worker_config, service, caplog, raw_redis):
    names = ["a b; reboot", "-x", "a,b"]
    for name in names:
        job(name=name, queue=name)(len)
    worker_config.worker.queues = ["mail", "default"]
    ((_, line),) = started(service, caplog)
    raw_redis.lpush("queue:a b; reboot", b'{"class":"Mail","args":[],"jid":"a","enqueued_at":1}')
    service.look()
    options = shlex.split(line.partition("start it with")[2])
    assert options[::2] == ["-q"] * 5
    assert sorted(QueueSpec.parse(option).name for option in options[1::2]) == sorted(["mail", "default", *names])
    assert caplog.records[-1].getMessage().endswith("start a worker with -q 'a b; reboot'")


@pytest.mark.parametrize("queues", [["mail", "default"], ["*"]])
def test_nothing_is_logged_and_no_thread_runs_if_it_serves_all(worker_config, service, caplog, queues):
    worker_config.worker.queues = queues
    assert started(service, caplog) == []
    assert service.join(0)


@pytest.mark.parametrize(
    "text",
    [
        '[shards.mails]\nqueues = ["mail"]',
        '[servers.bulk]\nurl = "redis://bulk"\n[routing]\nrules = [["name=Mail", "mail", "bulk"], ["*", "default"]]',
    ],
)
def test_shards_and_other_servers_do_not_count(tmp_path, text):
    (tmp_path / "offsider.toml").write_text(text)
    assert unserved_here(Config.load(tmp_path / "offsider.toml", environ={})) == []


def test_waiting_jobs_are_reported_once_until_a_process_has_served_them(service, caplog, raw_redis):
    started(service, caplog)
    caplog.clear()
    service.look()
    assert caplog.records == []
    raw_redis.sadd("queues", "mail")
    raw_redis.lpush("queue:mail", b'{"class":"Mail","args":[],"jid":"a","enqueued_at":1}')
    service.look()
    service.look()
    line = "1 job is waiting in the queue mail, which no running process serves: start a worker with -q mail"
    assert [record.getMessage() for record in caplog.records] == [line]
    queue = raw_redis.lpop("queue:mail")
    service.look()
    raw_redis.lpush("queue:mail", queue, queue)
    service.look()
    assert caplog.records[-1].getMessage().startswith("2 jobs are waiting in the queue mail")


def test_the_first_check_runs_a_minute_after_the_start(service, caplog, raw_redis):
    raw_redis.sadd("queues", "mail")
    raw_redis.lpush("queue:mail", b'{"class":"Mail","args":[],"jid":"a","enqueued_at":1}')
    started(service, caplog)
    wait_for(lambda: service._loop.ticks == 1)
    assert "is waiting" not in caplog.text
    service.tick()
    assert "1 job is waiting in the queue mail" in caplog.text
