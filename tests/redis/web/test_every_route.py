"""Each page and each action of the router: asked of the hook, refused to other sites, read-only, unknown fields."""

from __future__ import annotations

import re

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches import Batches
from offsider.ext.concurrency_limits import ConcurrencyLimits
from offsider.ext.limiters import Limiters
from offsider.ext.periodic import Periodic
from offsider.ext.results import Results
from offsider.ext.unique import Unique
from offsider.web.extension_tabs import tab_routes
from offsider.web.pages import routes

CHANGE = "POST"


@pytest.fixture
def every(config):
    """All routes, with those of the extensions: method, path, action."""
    for extension in (Batches(), Results(), Unique(), ConcurrencyLimits(), Periodic(), Limiters()):
        config.use(extension)
    own = routes()
    found = [*own, *tab_routes(Installation.of(config), own)]
    return [(each.method, re.sub("{.*?}", "x", each.path), each.action) for each in found]


def refused(ask, every, status: int, **more) -> list[str]:
    """The actions that were answered with another status."""
    body = more.pop("body", "confirmed=yes")
    answers = {
        path: ask(path, method=CHANGE, body=body, **more).status for method, path, _ in every if method == CHANGE
    }
    assert len(answers) > 50
    return [f"{path}: {found}" for path, found in answers.items() if found != status]


def test_the_hook_is_asked_for_each_page_and_action(ask_with, every):
    asked = []

    def authorize(request, action):
        asked.append(action)
        return False

    ask = ask_with(authorize=authorize)
    for method, path, action in every:
        asked.clear()
        accept = "text/plain" if action == "metrics.scrape" else "text/html"
        body = "confirmed=yes" if method == CHANGE else ""
        assert ask(path, method=method, body=body, accept=accept).status == 403, path
        assert asked[0] == action, path


def test_no_action_is_possible_from_another_site_or_on_read_only_pages(ask, ask_with, every):
    assert refused(ask, every, 403, sec_fetch_site="cross-site", origin="https://evil.example") == []
    assert refused(ask_with(read_only=True), every, 403) == []


def test_each_action_refuses_a_field_that_it_does_not_know(ask, every):
    assert refused(ask, every, 400, body="confirmed=yes&evry=yes") == []


def test_no_action_without_a_subject_means_all(ask, every):
    whole = [each for each in every if "/x" not in each[1]]
    answers = {
        path: ask(path, method=CHANGE, body="confirmed=yes").status for method, path, _ in whole if method == CHANGE
    }
    done = [path for path, status in answers.items() if status < 400]
    # Those of selected jobs change none without a selection.
    assert [path for path in done if not path.startswith("/jobs/selected/")] == []
