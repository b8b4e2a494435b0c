"""The backend for Django's tasks framework, with a real worker."""

from __future__ import annotations

import asyncio
import sys
import threading
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import ModuleType

import django
import pytest
from django.apps import apps
from django.db import transaction
from django.test import override_settings

from offsider import FailedRun, JobInfo, lookup
from offsider.client import Client
from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import InvalidOptions, UnknownJob
from offsider.core.payload import decode
from offsider.django import task_backend
from offsider.django.task_results import fields_of
from offsider.ext.results import Results, store
from offsider.ext.results.store import Stored
from offsider.inspector import DeadSet, Queue, RetrySet, ScheduledSet
from offsider.inspector.search import find_tracked
from offsider.jobs.routes import serve_selected
from offsider.runtime.context import current_job
from offsider.worker.embed import EmbeddedWorker
from tests import django_project
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("default_config")

django_project.set_up()
tasks = import_module("django.tasks" if django.VERSION >= (6,) else "django_tasks")
exceptions, signals = import_module(f"{tasks.__name__}.exceptions"), import_module(f"{tasks.__name__}.signals")
InvalidTask = getattr(exceptions, "InvalidTask", None) or exceptions.InvalidTaskError

seen: list[object] = []
not_a_task = seen.append


@tasks.task
def add(first, *, second):
    seen.append((first, second, current_job().jid))
    return first + second


@tasks.task(takes_context=True)
async def fail_once(context):
    running = asyncio.get_running_loop().is_running()
    seen.append((running, context.attempt, context.task_result.status, context.task_result.worker_ids))
    if context.attempt == 1:
        raise KeyError


@tasks.task(backend="once")
def fail():
    raise KeyError("always")


@tasks.task
def repeat(text):
    return text


@tasks.task
def return_a_set():
    return {1}


@tasks.task(queue_name="ledgers")
def book(): ...


@pytest.fixture
def config(config):
    from offsider.django import application

    application.configure(config)
    seen.clear()
    return config


@pytest.fixture
def redis(config):
    return Installation.of(config).redis


@pytest.fixture
def finished():
    """The results that receivers of `task_finished` got."""
    results = []

    def note(sender, task_result, **_):
        results.append((sender.__name__, task_result, sys.exc_info()[0]))

    signals.task_finished.connect(note)
    yield results
    signals.task_finished.disconnect(note)


def retry_now(config):
    wait_for(lambda: len(RetrySet(config)) == 1)
    (entry,) = RetrySet(config)
    assert entry.add_to_queue()


def test_a_task_runs_in_a_worker_and_its_signal_has_the_result(config, finished):
    with EmbeddedWorker(config):
        result = add.enqueue(1, second=2)
        wait_for(lambda: finished)
    (sender, ended, _), *_ = finished
    assert seen == [(1, 2, result.id)]
    assert (sender, ended.id, ended.status, ended.return_value) == ("TaskBackend", result.id, "SUCCESSFUL", 3)
    assert (ended.task, ended.args, ended.kwargs) == (add, [1], {"second": 2})
    assert result.enqueued_at - timedelta(seconds=1) < ended.enqueued_at <= ended.started_at <= ended.finished_at


def test_an_async_task_is_retried_on_the_loop_and_its_context_counts_attempts(config, finished):
    with EmbeddedWorker(config):
        asyncio.run(fail_once.aenqueue())
        retry_now(config)
        wait_for(lambda: finished)
    assert [result.status for _, result, _ in finished] == ["SUCCESSFUL"]
    (running, attempt, status, workers), (_, second, _, both) = seen
    assert (running, attempt, status, second, both[0]) == (True, 1, "RUNNING", 2, "unknown")
    assert both[1] == workers[0] != ""


def test_an_exhausted_task_sends_its_error_with_the_signal(config, finished):
    with EmbeddedWorker(config):
        fail.enqueue()
        wait_for(lambda: finished)
    ((_, result, error),) = finished
    assert (result.status, error) == ("FAILED", KeyError)
    assert result.errors[0].exception_class is KeyError
    assert "always" in result.errors[0].traceback
    assert (len(RetrySet(config)), len(DeadSet(config))) == (0, 0)  # `retry: False`


def test_a_return_value_that_is_not_json_fails_without_a_retry(config, finished):
    with EmbeddedWorker(config):
        return_a_set.enqueue()
        wait_for(lambda: len(DeadSet(config)) == 1)
    assert [(result.status, error.__name__) for _, result, error in finished] == [("FAILED", "ReturnValueError")]


@pytest.mark.parametrize("path", ["os.getcwd", "this.s", f"{__name__}.not_a_task", f"{__name__}.nothing", "add"])
def test_a_path_that_is_not_a_task_of_an_imported_module_is_refused(config, finished, path):
    from offsider.django.task_backend import find_task

    how = {"backend": "default", "priority": 0, "queue_name": "default"}
    payload = {"class": "offsider.django.task", "args": [path, ["x"], {}, how], "retry": 0}
    with EmbeddedWorker(config):
        Client.of(config).push(payload)
        wait_for(lambda: len(DeadSet(config)) == 1)
    (dead,) = DeadSet(config)
    assert dead.payload["error_message"] == (
        f"this process has no task {path!r}: declare it in tasks.py of an app, or import its module there"
    )
    assert (seen, finished, "this" in sys.modules) == ([], [], False)
    with pytest.raises(UnknownJob):
        find_task(path)


def test_looking_for_a_task_calls_no_code_of_its_module(monkeypatch):
    from offsider.django.task_backend import find_task

    module = ModuleType("lazy")
    module.__getattr__ = seen.append
    monkeypatch.setitem(sys.modules, "lazy", module)
    seen.clear()
    with pytest.raises(UnknownJob):
        find_task("lazy.task")
    assert seen == []


def test_queue_time_and_name_are_those_of_the_task(config):
    due = datetime.now(UTC) + timedelta(hours=1)
    add.using(queue_name="mail").enqueue(1, second=2)
    later = add.using(run_after=due).enqueue(1, second=2)
    (job,) = Queue("mail", config)
    assert (job.payload["retry"], job.payload["wrapped"]) == (3, f"{__name__}.add")
    assert job.display_class == f"{__name__}.add"
    (waiting,) = ScheduledSet(config)
    assert (waiting.jid, waiting.score) == (later.id, pytest.approx(due.timestamp()))


def test_a_worker_restores_the_task_with_its_time_and_priority(config, finished):
    due = datetime.now(UTC) + timedelta(hours=1)
    task = add.using(run_after=due, backend="urgent", priority=7)
    with EmbeddedWorker(config):
        task.enqueue(1, second=2)
        ScheduledSet(config).enqueue_all()
        wait_for(lambda: finished)
    assert finished[0][1].task == task


def test_a_naive_time_is_one_of_the_time_zone_of_the_project(config):
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        add.using(run_after=datetime(2999, 1, 1)).enqueue(1, second=2)  # noqa: DTZ001
    (waiting,) = ScheduledSet(config)
    assert waiting.score == datetime(2998, 12, 31, 15, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("priority, queue", [(100, "high"), (10, "high"), (9, "mail"), (0, "mail"), (-1, "low")])
def test_a_priority_selects_a_queue(config, priority, queue):
    add.using(backend="urgent", queue_name="mail", priority=priority).enqueue(1, second=2)
    assert len(Queue(queue, config)) == 1


def test_without_queues_for_priorities_a_priority_is_refused(config):
    with pytest.raises(InvalidTask, match="priority"):
        add.using(priority=1)


def test_a_push_waits_for_the_commit(config):
    with transaction.atomic():
        result = add.enqueue(1, second=2)
        assert len(Queue("default", config)) == 0
    (job,) = Queue("default", config)
    assert job.jid == result.id


def test_a_result_shows_the_whole_life_of_its_task(config, finished, redis):
    result = add.enqueue(1, second=2)
    assert add.get_result(result.id) == result
    with EmbeddedWorker(config):
        wait_for(lambda: finished)
        wait_for(lambda: add.get_result(result.id).is_finished)
    stored = asyncio.run(add.aget_result(result.id))
    result.refresh()
    assert result == stored
    assert (stored.status, stored.return_value, stored.attempts, stored.errors) == ("SUCCESSFUL", 3, 1, [])
    assert stored.enqueued_at <= stored.started_at == stored.last_attempted_at <= stored.finished_at
    assert (stored.task, stored.args, stored.kwargs) == (add, [1], {"second": 2})
    assert 86_000 < redis.call("TTL", f"{redis.keys.prefix}offsider:results:job:{result.id}") <= 86_400


def test_a_failed_attempt_is_ready_again_and_keeps_its_error_and_worker(config, finished):
    result = fail_once.enqueue()
    with EmbeddedWorker(config):
        wait_for(lambda: len(RetrySet(config)) == 1)
        result.refresh()
        assert (result.status, result.attempts, result.finished_at) == ("READY", 1, None)
        assert [error.exception_class for error in result.errors] == [KeyError]
        assert "raise KeyError" in result.errors[0].traceback
        retry_now(config)
        wait_for(lambda: fail_once.get_result(result.id).is_finished)
    first = result.started_at
    result.refresh()
    assert (result.status, result.attempts, len(result.errors), result.return_value) == ("SUCCESSFUL", 2, 1, None)
    assert result.worker_ids[0] == result.worker_ids[1] != ""
    assert result.started_at == first < result.last_attempted_at


def test_a_task_is_tracked_as_any_job(config, redis):
    result = add.enqueue(1, second=2)
    later = add.using(run_after=datetime.now(UTC) + timedelta(hours=1)).enqueue(1, second=2)
    with EmbeddedWorker(config):
        assert lookup(result.id).result(timeout=10) == 3
    assert lookup(later.id).status() == "scheduled"
    assert find_tracked(result.id, config).name == f"{__name__}.add"
    assert [job.jid for job in store.finished(redis, f"{__name__}.add", 10)] == [result.id]
    assert lookup(later.id).cancel()
    later.refresh()
    assert (later.status, later.errors[-1].exception_class.__name__) == ("FAILED", "TaskLost")
    assert "it is cancelled" in later.errors[-1].traceback


def test_a_task_that_is_killed_while_it_waits_for_a_retry_is_lost(config):
    result = fail_once.enqueue()
    with EmbeddedWorker(config):
        wait_for(lambda: len(RetrySet(config)) == 1)
    (entry,) = RetrySet(config)
    entry.kill()
    result.refresh()
    assert result.status == "FAILED"
    assert [error.exception_class.__name__ for error in result.errors] == ["KeyError", "TaskLost"]
    assert (result.attempts, result.started_at) == (1, result.last_attempted_at)
    assert result.finished_at > result.started_at


def test_attempts_whose_failures_are_not_stored_any_more_count():
    failures = tuple(FailedRun(attempt, attempt, attempt, "host:1:abc", "KeyError", "") for attempt in (3, 4))
    info = JobInfo("jid", "dead", changed_at=4, started_at=4, failures=failures)
    fields = fields_of(Stored(info, ended=True, result=None, cancel=False, hard=False))
    assert fields["worker_ids"] == ["unknown", "unknown", "host:1:abc", "host:1:abc"]
    assert len(fields["errors"]) == 2


def test_a_poison_pill_is_lost_with_its_reason():
    info = JobInfo("jid", "dead", changed_at=4, error_class="offsider.PoisonPill", error_message="crashed 3 processes")
    (error,) = fields_of(Stored(info, ended=True, result=None, cancel=False, hard=False))["errors"]
    assert error.exception_class.__name__ == "TaskLost"
    assert "it is dead: offsider.PoisonPill: crashed 3 processes" in error.traceback


def use_small_results(config):
    config.use(Results(result_max_bytes=10))


def test_the_project_may_install_results_with_its_own_settings(redis_url):
    from offsider.django import application

    with override_settings(OFFSIDER={"configure": f"{__name__}.use_small_results"}):
        config = Config()
        config.redis.url = redis_url
        application.configure(config)
    before = set_default_config(config)
    result = repeat.enqueue("x" * 9)
    with EmbeddedWorker(config):
        wait_for(lambda: repeat.get_result(result.id).is_finished)
    assert "over result_max_bytes (10)" in repeat.get_result(result.id).errors[0].traceback
    set_default_config(before)


def test_a_dead_task_that_is_retried_runs_again(config):
    result = return_a_set.enqueue()
    with EmbeddedWorker(config):
        wait_for(lambda: return_a_set.get_result(result.id).status == "FAILED")
        wait_for(lambda: len(DeadSet(config)) == 1)
        (dead,) = DeadSet(config)
        result.refresh()
        failed_at = result.finished_at
        dead.retry()
        wait_for(lambda: (return_a_set.get_result(result.id).finished_at or failed_at) > failed_at)


def test_a_result_that_expired_or_waits_for_a_commit_does_not_exist(config):
    with transaction.atomic():
        result = add.enqueue(1, second=2)
        with pytest.raises(exceptions.TaskResultDoesNotExist):
            result.refresh()
    result.refresh()
    with pytest.raises(exceptions.TaskResultDoesNotExist, match="unknown"):
        add.get_result("unknown")
    with pytest.raises(exceptions.TaskResultMismatch):
        fail.get_result(result.id)


def test_without_result_seconds_nothing_is_stored(config, finished, redis):
    with override_settings(TASKS={"default": {"BACKEND": django_project.BACKEND, "OPTIONS": {"result_seconds": 0}}}):
        with EmbeddedWorker(config):
            result = add.enqueue(1, second=2)
            wait_for(lambda: finished)
        assert redis.call("KEYS", "offsider:results:job:*") == []
        with pytest.raises(NotImplementedError, match="does not support retrieving"):
            result.refresh()


def test_a_task_runs_although_its_start_cannot_be_stored(config, finished, redis):
    result = add.enqueue(1, second=2)
    redis.call("DEL", f"offsider:results:job:{result.id}")
    redis.call("SET", f"offsider:results:job:{result.id}", "not a hash")
    with EmbeddedWorker(config):
        wait_for(lambda: finished)
        wait_for(lambda: len(Queue("default", config)) == 0)
    assert seen == [(1, 2, result.id)]


@pytest.mark.parametrize(
    "options, message",
    [
        ({"retires": 3}, "unknown option 'retires'"),
        ({"retry": "often"}, "retry"),
        ({"priorities": ["high"]}, "priorities expects a dict of int and queue"),
        ({"priorities": {"high": 1}}, "priorities expects a dict of int and queue"),
        ({"priorities": {1: ""}}, "queue must be a string"),
        (
            {"result_seconds": "1 day"},
            "result_seconds must be a positive number of seconds (up to 31,622,400)",
        ),
        ({"result_seconds": 1e9}, "result_seconds must be a positive number of seconds"),
    ],
)
def test_wrong_options_fail_the_check_and_the_push(config, options, message):
    with override_settings(
        INSTALLED_APPS=["offsider.django"], TASKS={"default": {"BACKEND": django_project.BACKEND, "OPTIONS": options}}
    ):
        (found,) = tasks.default_task_backend.check()
        assert found.id == "offsider.E005"
        assert message in found.msg
        assert "TASKS['default']['OPTIONS']" in found.msg
        with pytest.raises(InvalidOptions):
            add.enqueue(1, second=2)


def test_without_the_app_the_check_fails(config, monkeypatch):
    monkeypatch.setattr(apps, "is_installed", lambda _: False)
    (found,) = tasks.default_task_backend.check()
    assert (found.id, found.hint) == ("offsider.E004", 'INSTALLED_APPS += ["offsider.django"]')


def test_receivers_of_signals_may_use_the_database_in_async_code(config):
    from django.db import connection

    threads = []

    def read(sender, **_):
        with connection.cursor() as cursor:
            cursor.execute("select 1")
        threads.append(threading.current_thread())

    for signal in (signals.task_enqueued, signals.task_started, signals.task_finished):
        signal.connect(read)
    with EmbeddedWorker(config):
        asyncio.run(fail_once.aenqueue())
        retry_now(config)
        wait_for(lambda: len(threads) == 4)
    for signal in (signals.task_enqueued, signals.task_started, signals.task_finished):
        signal.disconnect(read)


def test_the_payload_is_readable_json(config):
    result = add.enqueue(1, second=2)
    (job,) = Queue("default", config)
    how = {"backend": "default", "priority": 0, "queue_name": "default", "enqueued_at": result.enqueued_at.isoformat()}
    assert decode(job.raw)["args"] == [f"{__name__}.add", [1], {"second": 2}, how]
    assert decode(job.raw)["jid"] == result.id


def test_a_worker_serves_the_queues_of_all_aliases(config):
    serve_selected(config)
    served = set(config.capsules["default"].queues)
    assert {"default", "ledgers", "high", "low"} <= served
    options = {"retry_queue": "again", "server": "main"}
    table = {"BACKEND": django_project.BACKEND, "QUEUES": ["default", "receipts"], "OPTIONS": options}
    other = {"BACKEND": f"{tasks.__name__}.backends.dummy.DummyBackend", "QUEUES": ["dummy"]}
    with override_settings(TASKS={"default": table, "other": other}):
        found = {str(each): each.chosen for each in task_backend.destinations(config)}
    assert found == {queue: ["TASKS['default']"] for queue in ("again", "default", "receipts")}
