"""The id of a job: a string that reads the state and the result of the job."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
from datetime import datetime

import pytest

import offsider
from offsider import Config, ConfigurationError, JobFailed, JobId, JobInfo, PushCanceled, job, lookup
from offsider.client import Client
from offsider.config.installation import Installation
from offsider.core.arguments import are_plain, check_json
from offsider.jobs import registry
from tests.middleware import returning


class Results:
    """Returns its arguments."""

    def info(self, jid):
        return JobInfo(jid, "running")

    def result(self, jid, timeout):
        return [jid, timeout]

    def cancel(self, jid, *, hard):
        return (jid, hard)

    async def ainfo(self, jid):
        return self.info(jid)

    async def aresult(self, jid, timeout):  # noqa: ASYNC109 - the interface
        return self.result(jid, timeout)

    async def acancel(self, jid, *, hard):
        return self.cancel(jid, hard=hard)


@pytest.fixture
def config():
    config = Config()
    config.results = lambda here: Results()
    return config


def test_its_methods_ask_the_extension(config):
    jid = JobId.at(Installation.of(config), "abc")
    assert jid == "abc"
    assert jid.status() == "running"
    assert jid.info() == JobInfo("abc", "running")
    assert jid.result(timeout=5) == ["abc", 5]
    assert jid.cancel(hard=True) == ("abc", True)


def test_its_asynchronous_methods_do_the_same(config):
    async def ask():
        jid = JobId.at(Installation.of(config), "abc")
        return await jid.astatus(), await jid.ainfo(), await jid.aresult(5), await jid.acancel()

    assert asyncio.run(ask()) == ("running", JobInfo("abc", "running"), ["abc", 5], ("abc", False))


def test_without_the_extension_the_error_names_it():
    jid = JobId.at(Installation.of(Config()), "abc")
    with pytest.raises(ConfigurationError, match=r"call config\.use\(Results\(\)\), imported from offsider\.ext\.res"):
        jid.status()


def test_one_made_from_a_string_names_lookup():
    with pytest.raises(ConfigurationError, match=r"call offsider\.lookup\('abc'\)"):
        JobId("abc").status()


def test_lookup_makes_one_from_a_string(monkeypatch, config):
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    assert lookup("abc").result() == ["abc", None]
    assert offsider.lookup is lookup
    with pytest.raises(ConfigurationError, match="no server"):
        lookup("abc", "nowhere")


def test_a_job_looks_up_the_ids_of_its_server(monkeypatch, config):
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    with registry.isolated():

        @job(server="elsewhere")
        def report() -> None: ...

    assert report.using(server="main").lookup("abc").result() == ["abc", None]
    with pytest.raises(ConfigurationError, match="no server"):
        report.lookup("abc")


def test_the_id_of_a_job_that_was_not_stored_is_falsy_and_says_why(config):
    config.client_middleware.add(returning())
    jid = Client(config).push({"class": "X", "args": []})
    assert not jid
    for use in (jid.status, jid.info, jid.result, jid.cancel):
        with pytest.raises(PushCanceled, match="client middleware canceled its push, or it was dropped"):
            use()


def test_a_copy_keeps_the_server_and_a_pickle_is_a_plain_string(config):
    jid = JobId.at(Installation.of(config), "abc")
    assert copy.copy(jid) is jid
    assert copy.deepcopy([jid])[0] is jid
    unpickled = pickle.loads(pickle.dumps(jid))
    assert unpickled == "abc"
    assert type(unpickled) is str


def test_it_is_an_argument_of_jobs_like_any_string(config):
    jid = JobId.at(Installation.of(config), "abc")
    assert are_plain([jid])
    assert check_json({"jid": [jid]}) is None
    assert json.dumps([jid]) == '["abc"]'
    prepared = Client(config).prepare(Client(config).build({"class": "X", "args": [jid]}))
    assert json.loads(prepared.raw)["args"] == ["abc"]


def test_the_error_of_a_failed_job_survives_pickling():
    error = pickle.loads(pickle.dumps(JobFailed("abc", "dead", "ValueError", "no")))
    assert str(error) == "job abc has ended as dead: ValueError: no"
    assert (error.jid, error.state, error.error_class, error.error_message) == ("abc", "dead", "ValueError", "no")
    assert str(JobFailed("abc", "cancelled")) == "job abc has ended as cancelled"


def test_the_line_of_a_job_for_people():
    assert str(JobInfo("abc", "untracked")) == "untracked"
    at = datetime(2030, 1, 31, 14, 3, 5).astimezone().timestamp()
    assert str(JobInfo("abc", "queued", "X", at)) == "queued 2030-01-31 14:03:05"
    ended = JobInfo("abc", "succeeded", "X", at, process="web-1:12:ab", duration_ms=4_500)
    assert str(ended) == "succeeded 2030-01-31 14:03:05 in 4,500 ms on host web-1"
