"""A job runs in the language it was pushed in."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from offsider import Client, Config
from offsider.core.payload import decode
from offsider.ext.locale import Locale
from offsider.runtime.context import JobContext
from offsider.runtime.middleware import thread_bound


class Languages:
    """A library of translations."""

    def __init__(self):
        self.chosen = None

    def current(self):
        return self.chosen

    @contextmanager
    def use(self, language):
        before, self.chosen = self.chosen, language
        try:
            yield
        finally:
            self.chosen = before


@pytest.fixture
def languages():
    return Languages()


@pytest.fixture
def config(languages):
    config = Config()
    config.use(Locale(languages.current, languages.use))
    return config


def test_a_push_stores_the_current_locale_unless_it_has_one(config, languages, stored):
    client = Client(config)
    client.push({"class": "X", "args": []})
    with languages.use("de"):
        client.push({"class": "X", "args": []})
        client.push({"class": "X", "args": [], "locale": "ar"})
    assert [decode(job.raw).get("locale") for job in stored] == [None, "de", "ar"]


def test_a_stored_job_keeps_its_language(config, languages):
    with languages.use("de"):
        moved = Client(config).reenqueue({"class": "X", "args": []}, "schedule")
    assert "locale" not in moved.payload


def test_a_language_of_a_thread_refuses_async_jobs_that_have_one(languages):
    locale = Locale(languages.current, languages.use, thread_bound=True)
    assert thread_bound([locale])
    assert [locale.concerns(JobContext({"locale": language}, "default")) for language in ("de", "")] == [True, False]


@pytest.mark.parametrize("written, seen", [("de", "de"), ("", "en"), (None, "en"), (7, "en")])
def test_a_run_has_the_language_of_its_payload(written, seen, config, languages):
    run = JobContext({"class": "X", "args": [], "locale": written}, "default")
    with languages.use("en"):
        assert config.server_middleware.run(run, lambda _job: languages.chosen) == seen
        assert languages.chosen == "en"
