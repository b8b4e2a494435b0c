"""The settings. The last two lines are those of offsider."""

import os
from pathlib import Path
from urllib.parse import urlsplit

SECRET_KEY = os.environ.get("SECRET_KEY", "change me")
DEBUG = True
ROOT_URLCONF = "project.urls"
USE_TZ = True
STATIC_URL = "static/"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": Path(__file__).parents[1] / "reports.db",
        "OPTIONS": {"timeout": 10},
    }
}
if "DATABASE_URL" in os.environ:
    url = urlsplit(os.environ["DATABASE_URL"])
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": url.path[1:],
        "USER": url.username,
        "PASSWORD": url.password,
        "HOST": url.hostname,
        "PORT": url.port,
    }
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "reports",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
REPORT_SECONDS = float(os.environ.get("REPORT_SECONDS", "10"))

INSTALLED_APPS += ["offsider.django"]
OFFSIDER = {"worker": {"queues": ["reports"]}}
