"""Events: the called handlers, their order, and failing handlers."""

from __future__ import annotations

import pytest

from offsider.core.errors import ConfigurationError
from offsider.runtime.events import Events, JobRemoved


@pytest.fixture
def reported():
    return []


@pytest.fixture
def events(reported):
    return Events(lambda error, context: reported.append((str(error), context)))


def test_handlers_are_called_in_order_with_the_event(events):
    seen = []
    events.on("job_removed", seen.append)

    @events.on("job_removed")
    def again(removed):
        seen.append(removed.how)

    removed = JobRemoved(b"{}", "dead", "delete", "main")
    events.emit("job_removed", removed)
    assert seen == [removed, "delete"]
    assert callable(again)


@pytest.mark.parametrize("name", ["quiet", "shutdown", "exit"])
def test_going_down_is_in_reverse(events, name):
    seen = []
    events.on(name, lambda: seen.append(1))
    events.on(name, lambda: seen.append(2))
    events.emit(name)
    assert seen == [2, 1]


def test_once_means_once(events):
    seen = []
    events.on("exit", lambda: seen.append(1))
    events.emit("exit", once=True)
    events.emit("exit", once=True)
    assert seen == [1]


def test_a_failing_handler_is_reported_and_the_others_run(events, reported):
    seen = []
    events.on("beat", lambda: 1 / 0)
    events.on("beat", lambda: seen.append(1))
    events.emit("beat")
    assert seen == [1]
    assert reported == [("division by zero", {"event": "beat"})]


def test_a_failing_startup_handler_is_raised(events, reported):
    events.on("startup", lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        events.emit("startup")
    assert reported == []


def test_an_unknown_event_is_refused_with_the_nearest_name(events):
    with pytest.raises(ConfigurationError, match=r"no event 'shutdwon' \(did you mean 'shutdown'\?\)"):
        events.on("shutdwon", print)
    with pytest.raises(ConfigurationError, match="execution_finished"):
        events.emit("nothing")


def test_a_handler_must_be_callable(events):
    with pytest.raises(ConfigurationError, match="must be callable"):
        events.on("beat", "no")


def test_after_the_freeze_no_handler_can_be_added(events):
    events.freeze()
    with pytest.raises(ConfigurationError, match="frozen"):
        events.on("beat", print)
    with pytest.raises(ConfigurationError, match="frozen"):
        events.on("beat")(print)
