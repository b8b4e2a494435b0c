"""One Django project for all tests of a process, since Django is set up once."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from functools import cache
from pathlib import Path

import django
from django.conf import settings

URLS = "offsider_test_urls"
BACKEND = "offsider.django.task_backend.TaskBackend"


@cache
def set_up() -> Path:
    """Set Django up; returns the file of its database."""
    folder = Path(tempfile.mkdtemp(prefix="offsider-django-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "db.sqlite3"
    settings.configure(
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": file, "CONN_MAX_AGE": 0}},
        INSTALLED_APPS=["offsider.django"],
        ROOT_URLCONF=URLS,
        ALLOWED_HOSTS=["shop.example.com"],
        SECRET_KEY="of the tests",
        USE_TZ=True,
        TASKS={
            "default": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"retry": 3}},
            "once": {"BACKEND": BACKEND, "OPTIONS": {"retry": False, "tags": ["once"]}},
            "urgent": {"BACKEND": BACKEND, "QUEUES": [], "OPTIONS": {"priorities": {10: "high", -100: "low"}}},
        },
        MIDDLEWARE=["django.middleware.common.CommonMiddleware", "django.middleware.csrf.CsrfViewMiddleware"],
    )
    django.setup()
    return file
