"""A worker of a Django project runs its tasks."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.waiting import wait_for

PACKAGE = "django.tasks" if find_spec("django") and find_spec("django.tasks") else "django_tasks"
pytestmark = pytest.mark.skipif(find_spec(PACKAGE.partition(".")[0]) is None, reason="no django.tasks")

SETTINGS = f"""
    import os
    SECRET_KEY = "x"
    USE_TZ = True
    INSTALLED_APPS = ["django.contrib.contenttypes", {"" if PACKAGE == "django.tasks" else "'django_tasks',"} "offsider.django", "shop"]
    DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3", "NAME": "db.sqlite3"}}}}
    OFFSIDER = {{"url": os.environ["REDIS_URL"]}}
    TASKS = {{"default": {{
        "BACKEND": "offsider.django.task_backend.TaskBackend", "QUEUES": ["default", "receipts"], "OPTIONS": {{"priorities": {{10: "high"}}}}
    }}}}
"""  # noqa: E501
TASKS = f"""
    from {PACKAGE} import task
    from tests.process.ledger import note

    @task(queue_name="receipts")
    def send_receipt(number):
        note("ran", word=str(number))
"""
PUSH = """
import django
django.setup()
from shop.tasks import send_receipt
send_receipt.enqueue(1)
send_receipt.using(priority=10).enqueue(2)
"""


def test_a_worker_without_queues_serves_those_of_the_tasks(workers, ledger):
    workers.write(SETTINGS, "settings.py")
    workers.write("", "shop/__init__.py")
    workers.write(TASKS, "shop/tasks.py")
    environ = {"DJANGO_SETTINGS_MODULE": "settings"}
    worker = workers.start(app=None, command=(sys.executable, "-m", "django", "offsider", "worker"), environ=environ)
    subprocess.run([sys.executable, "-c", PUSH], cwd=workers.folder, env=workers._environ(environ), check=True)
    wait_for(lambda: sorted(ledger.words("ran")) == ["1", "2"])
    assert "queues default,1, high,1, receipts,1, random>" in worker.output
