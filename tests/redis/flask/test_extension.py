"""The Flask extension: settings, application contexts in jobs and tests, commands."""

from __future__ import annotations

import asyncio
import threading

import pytest
from flask import Flask, current_app, g

from offsider import Config, ConfigurationError, job, testing
from offsider.config.application import set_application
from offsider.config.default import default_config, set_default_config, set_worker_config
from offsider.flask import AppContext, Offsider
from offsider.inspector import Queue
from offsider.jobs import registry
from offsider.worker.embed import EmbeddedWorker


@pytest.fixture(autouse=True)
def own_process(monkeypatch, tmp_path):
    """As in a new process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REDIS_URL", raising=False)
    before = set_default_config(None)
    with registry.isolated():
        yield
    set_application(None)
    set_default_config(before)


def create_app(name="shop", **settings):
    app = Flask(name)
    app.config["OFFSIDER"] = settings
    Offsider().init_app(app)
    return app


def test_settings_apply_to_pushes_and_jobs_record_their_route(redis_url):
    @job
    def welcome(user_id: int) -> None: ...

    app = create_app(redis={"url": redis_url}, jobs={"queue": "mails"})

    @app.post("/users/<int:user_id>")
    def create(user_id: int) -> str:
        return welcome.enqueue(user_id) or ""

    jid = app.test_client().post("/users/7").text
    (record,) = Queue("mails")
    assert (record.jid, record.args, record["meta.caller_id"]) == (jid, [7], "POST /users/<int:user_id>")


def test_an_application_needs_no_settings():
    app = Flask("shop")
    extension = Offsider(app)
    assert app.extensions["offsider"] is extension
    assert default_config().redis.url == Config.load().redis.url


@pytest.mark.parametrize("wrong", [{"redis": {"ulr": "redis://x"}}, "redis://x"])
def test_wrong_settings_are_refused_at_the_start(wrong):
    app = Flask("shop")
    app.config["OFFSIDER"] = wrong
    with pytest.raises(ConfigurationError, match=r'app\.config\["OFFSIDER"\]'):
        Offsider(app)


def declared(kind, seen):
    if kind == "plain":

        @job(retry=False)
        def work(error: str = "") -> None:
            seen.append((current_app.name, g.get("mark")))
            g.mark = "set"
            if error:
                raise ValueError(error)
    else:

        @job(retry=False)
        async def work(error: str = "") -> None:
            await asyncio.sleep(0)
            seen.append((current_app.name, g.get("mark")))
            g.mark = "set"
            if error:
                raise ValueError(error)

    return work


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_each_job_of_a_worker_has_its_own_context(redis_url, kind):
    seen, ended, ran = [], [], threading.Semaphore(0)
    app = create_app(redis={"url": redis_url}, worker={"concurrency": 1})

    @app.teardown_appcontext
    def note(error):
        ended.append(str(error))
        ran.release()

    work = declared(kind, seen)
    with EmbeddedWorker():
        for error in ("", "no", ""):
            work.enqueue(error)
            assert ran.acquire(timeout=20)
    assert seen == [("shop", None)] * 3
    assert ended == ["None", "no", "None"]


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_jobs_of_tests_have_a_context_too(kind):
    seen = []
    create_app()
    work = declared(kind, seen)
    with testing.inline():
        work.enqueue()
    with testing.fake() as enqueued:
        work.enqueue()
        enqueued.drain()
    work.run_inline()
    assert seen == [("shop", None)] * 3


def test_an_inline_job_does_not_see_g_of_the_request():
    seen = []
    app = create_app()
    work = declared("plain", seen)

    @app.post("/")
    def push() -> str:
        g.mark = "of the request"
        work.enqueue()
        return g.mark

    with testing.inline():
        assert app.test_client().post("/").text == "of the request"
    assert seen == [("shop", None)]


def test_the_last_application_of_a_process_is_that_of_its_jobs():
    seen = []
    create_app("first")
    create_app("second")
    declared("plain", seen).run_inline()
    assert seen == [("second", None)]
    assert sum(isinstance(each, AppContext) for each in default_config().server_middleware) == 1


def test_a_worker_that_flask_did_not_start_warns_about_the_settings(caplog):
    config = Config()
    set_worker_config(config)
    create_app(worker={"concurrency": 2})
    assert "start it with `flask offsider worker`" in caplog.text
    assert AppContext in config.server_middleware
    assert config.worker.concurrency == Config().worker.concurrency


def test_commands_about_declarations_load_the_jobs_of_the_application():
    @job(queue="mails", name="welcome", urgency="high")
    def welcome(user_id: int) -> None: ...

    runner = create_app(routing={"rules": [["urgency=high", "urgent"], ["*", "default"]]}).test_cli_runner()
    listed = runner.invoke(args=["offsider", "jobs", "list"])
    assert listed.exit_code == 0, listed.output
    assert any(line.split()[:3] == ["welcome", "urgent", "high"] for line in listed.output.splitlines()), listed.output
    explained = runner.invoke(args=["offsider", "routes", "explain", "welcome"])
    assert "urgency=high" in explained.output


def test_flask_has_all_commands(redis_url):
    runner = create_app(redis={"url": redis_url}).test_cli_runner()
    listed = runner.invoke(args=["offsider", "--help"]).output
    assert "worker" in listed
    assert "doctor" in listed
    shown = runner.invoke(args=["offsider", "queues"])
    assert shown.exit_code == 0, shown.output
