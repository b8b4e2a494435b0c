"""``offsider enqueue`` pushes what the application would push, and nothing else."""

from __future__ import annotations

import json
import secrets
import time

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.default import set_default_config
from offsider.inspector import EventLog
from offsider.jobs import registry
from tests.process.stored import sorted_set, waiting

APP = """
from offsider import job

@job(queue="mails", unique_for=60)
def mail(number: int, to: str = "ann", *, days: int = 1): ...

def configure(config):
    from offsider.ext.unique import Unique
    if "unique" not in config.extensions:
        config.use(Unique())
"""


@pytest.fixture
def call(redis_url, monkeypatch, tmp_path):
    name = f"shop{secrets.token_hex(4)}"  # a module of each test
    (tmp_path / f"{name}.py").write_text(APP)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    before = set_default_config(None)

    def enqueue(job: str, *words: str, app: bool = True) -> tuple[int, str]:
        """Exit code and output."""
        options = ["-r", name] if app else []
        result = CliRunner().invoke(main, ["enqueue", job.replace("shop", name), *words, *options])
        return result.exit_code, result.output.replace(name, "shop")

    with registry.isolated():
        yield enqueue
    set_default_config(before)


def test_a_job_is_stored_with_its_arguments_and_its_jid_printed(call, raw_redis, config):
    code, output = call("shop.mail", "7", '"kim"', "--kwargs", '{"days": 2}')
    assert code == 0, output
    (job,) = waiting(raw_redis, "mails")
    assert (job["jid"], job["args"], job["kwargs"]) == (output.strip(), [7, "kim"], {"days": 2})
    (event,) = EventLog(config).read()
    assert (event.subject, event.fields["action"], event.who[:4]) == (job["jid"], "job.enqueue", "cli ")
    assert "kim" not in str(event)


def test_a_job_is_stored_for_later_in_another_queue(call, raw_redis):
    before = time.time()
    _, output = call("shop.mail", "7", "--in", "2h", "--queue", "night", "--json")
    (job,) = sorted_set(raw_redis, "schedule")
    assert (json.loads(output), job["queue"]) == ({"jid": job["jid"], "class": "shop.mail"}, "night")
    (at,) = (score for _, score in raw_redis.zrange("schedule", 0, -1, withscores=True))
    assert before + 7_190 < at < time.time() + 7_210


@pytest.mark.parametrize(
    "words, code, message",
    [
        (("shop.mial", "7"), 1, "the application has no job shop.mial (did you mean 'shop.mail'?): offsider jobs list"),
        (("shop.mail", "ann"), 2, "ann is not JSON; a text needs quotes: '\"ann\"'"),
        (("shop.mail", "7", "--kwargs", "[1]"), 2, "--kwargs expects a JSON object"),
        (("shop.mail",), 1, "number"),
        (("shop.mail", "7", "--kwargs", '{"day": 1}'), 1, "day"),
    ],
)
def test_a_wrong_call_is_refused_with_the_next_step(call, raw_redis, words, code, message):
    exit_code, output = call(*words)
    assert (exit_code, message in output) == (code, True), output
    assert not waiting(raw_redis, "mails")


def test_without_an_application_and_for_a_duplicate_nothing_is_stored(call, raw_redis):
    code, output = call("shop.mail", "7", app=False)
    assert (code, "no application given: -r MODULE" in output) == (1, True)
    assert call("shop.mail", "7")[0] == 0
    code, output = call("shop.mail", "7")
    assert (code, "it is a duplicate" in output) == (1, True)
    assert len(waiting(raw_redis, "mails")) == 1
