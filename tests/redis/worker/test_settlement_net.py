"""A job whose outcome cannot be decided for any reason is buried and does not run forever."""

from __future__ import annotations

from offsider import Config, job
from offsider.client import Client
from offsider.inspector import DeadSet, Queue
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker
from offsider.worker.settle.retrier import Retrier
from tests.waiting import wait_for


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
