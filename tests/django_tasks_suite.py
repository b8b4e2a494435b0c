"""Django's own tests of its tasks framework, run with our backend in the places of Django's: a program of its own.

    python -m tests.django_tasks_suite FOLDER REDIS_URL

FOLDER is ``tests`` of Django's sdist. Prints one JSON object: the names of all tests, and those that failed with the
reason. With Django 5.2 and the backport, the modules of ``django.tasks`` are those of ``django_tasks``.
"""

from __future__ import annotations

import json
import logging
import sys
import threading
import unittest
from importlib import import_module
from pathlib import Path

import django
from django.conf import settings

BACKPORT = django.VERSION < (6,)


def main(folder: str, redis_url: str) -> None:
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=[*(["django_tasks"] if BACKPORT else []), "offsider.django"],
        USE_TZ=True,
    )
    django.setup()
    if BACKPORT:
        _name_the_backport()
    pushing = threading.RLock()
    configured = _configured(redis_url, pushing)
    _replace_backends(pushing)
    sys.path.insert(0, folder)
    names = [f"tasks.{path.stem}" for path in sorted(Path(folder, "tasks").glob("test_*.py"))]
    suite = unittest.defaultTestLoader.loadTestsFromNames([name for name in names if "custom" not in name])

    from django.test.utils import setup_databases, setup_test_environment

    from offsider.worker.embed import EmbeddedWorker

    setup_test_environment()
    setup_databases(0, interactive=False)
    result = Result()
    with EmbeddedWorker(configured):
        suite.run(result)
    print(json.dumps({"ran": result.ran, "failed": result.failed}))


def _name_the_backport() -> None:
    for name in ("", ".base", ".exceptions", ".signals", ".backends.dummy", ".backends.immediate"):
        sys.modules[f"django.tasks{name}"] = import_module(f"django_tasks{name}")
    sys.modules["django.tasks"].Task = sys.modules["django.tasks.base"].Task
    errors = sys.modules["django.tasks.exceptions"]
    errors.InvalidTask, errors.InvalidTaskBackend = errors.InvalidTaskError, errors.InvalidTaskBackendError
    logging.Logger.manager.loggerDict["django.tasks"] = logging.getLogger("django_tasks")


def _configured(redis_url: str, pushing: threading.RLock):
    from offsider.config.config import Config
    from offsider.config.default import set_default_config
    from offsider.django import application, task_backend  # the backend needs the extension `Results`

    assert task_backend
    config = Config()
    config.redis.url = redis_url
    config.jobs["retry"] = 0  # so that a task is exhausted at once
    config.log.level = "error"
    config.worker.queues = ["run"]
    application.configure(config)

    def after_the_push(job):
        with pushing:
            pass
        yield

    config.server_middleware.add(after_the_push)  # so that the order of log lines is that of the tests
    set_default_config(config)
    return config


def _replace_backends(pushing: threading.RLock) -> None:
    from django.db import transaction

    from offsider.config.installation import Installation
    from offsider.django.task_backend import TaskBackend

    redis = Installation.of().redis

    class WithPriorities(TaskBackend):
        def __init__(self, alias, params):
            super().__init__(alias, {**params, "OPTIONS": {"priorities": {1: "high", -100: "low"}}})
            assert self._queues
            self.options = params.get("OPTIONS", {})

    class Pushed(WithPriorities):
        """Instead of Django's dummy backend: what it returned is a list of the tests."""

        def __init__(self, alias, params):
            super().__init__(alias, params)
            self.results = []

        def clear(self):
            for result in self.results:
                redis.call("DEL", f"{redis.keys.prefix}offsider:results:job:{result.id}")
            self.results.clear()

        def enqueue(self, task, args, kwargs):
            self.results.append(super().enqueue(task, args, kwargs))
            return self.results[-1]

        async def aenqueue(self, task, args, kwargs):
            self.results.append(await super().aenqueue(task, args, kwargs))
            return self.results[-1]

    signals, ended = import_module("django.tasks.signals"), threading.Condition()
    results = {}

    def note(task_result, **_):
        with ended:
            results[task_result.id] = task_result
            ended.notify_all()

    signals.task_finished.connect(note, weak=False)

    def result_of_the_worker(jid):
        with ended:
            assert ended.wait_for(lambda: jid in results, 10), "the task has not finished"
        return results[jid]

    class Run(WithPriorities):
        """Instead of Django's immediate backend: returns the result that the worker has, and stores none."""

        def __init__(self, alias, params):
            super().__init__(alias, params)
            self._kept, self.supports_get_result = {"track": False, "keep_result": False}, False

        def _queue_of(self, task):
            return "run"

        def enqueue(self, task, args, kwargs):
            with pushing:
                result = super().enqueue(task, args, kwargs)
            return result if transaction.get_connection().in_atomic_block else result_of_the_worker(result.id)

        async def aenqueue(self, task, args, kwargs):
            with pushing:
                result = await super().aenqueue(task, args, kwargs)
            return result_of_the_worker(result.id)

    import_module("django.tasks.backends.dummy").DummyBackend = Pushed
    import_module("django.tasks.backends.immediate").ImmediateBackend = Run


class Result(unittest.TestResult):
    def __init__(self):
        super().__init__()
        self.ran, self.failed = [], {}

    def startTest(self, test):  # noqa: N802
        super().startTest(test)
        self.ran.append(_name(test))

    def addError(self, test, err):  # noqa: N802
        self.failed[_name(test)] = f"{err[0].__name__}: {err[1]}"

    addFailure = addError  # noqa: N815

    def addSubTest(self, test, subtest, err):  # noqa: N802
        if err is not None:
            self.addError(test, err)


def _name(test):
    return test.id().removeprefix("tasks.")


if __name__ == "__main__":
    main(*sys.argv[1:])
