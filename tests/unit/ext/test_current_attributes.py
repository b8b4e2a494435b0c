"""Context variables that go with a job, as Ruby writes and reads them."""

from __future__ import annotations

from contextvars import ContextVar, copy_context

import pytest

from offsider import Client, Config, Job, job
from offsider.core.errors import ConfigurationError
from offsider.core.payload import decode
from offsider.ext.current_attributes import CurrentAttributes
from offsider.jobs import registry
from offsider.jobs.inline import run_prepared
from offsider.wiring import sinks


class Current:
    tenant_id: ContextVar[int | None] = ContextVar("tenant_id", default=None)
    user = ContextVar("user")
    _hidden = ContextVar("hidden", default="x")
    other = "no variable"


class Zone:
    zone = ContextVar("zone", default="Berlin")


@pytest.fixture(autouse=True)
def forgotten_jobs():
    with registry.isolated():
        yield


@pytest.fixture
def config():
    config = Config()
    config.use(CurrentAttributes(Current, Zone))
    return config


@pytest.fixture
def stored():
    pushes = []
    with sinks.diverted(pushes.extend):
        yield pushes


def within(function, **values):
    """Call it where the variables have these values."""

    def call():
        for name, value in values.items():
            getattr(Zone if name == "zone" else Current, name).set(value)
        return function()

    return copy_context().run(call)


def push(config, **more):
    return lambda: Client(config).push({"class": "X", "args": [], **more})


def test_values_are_written_as_ruby_does(config, stored):
    within(push(config), tenant_id=7, user="ann", zone="UTC")
    payload = decode(stored[0].raw)
    assert (payload["cattr"], payload["cattr_1"]) == ({"tenant_id": 7, "user": "ann"}, {"zone": "UTC"})


def test_what_has_no_value_is_not_written(config, stored):
    within(push(config), user="ann")
    within(push(config))
    assert [job.payload.get("cattr") for job in stored] == [{"user": "ann"}, None]
    assert "cattr_1" not in stored[0].payload


def test_what_a_payload_has_stays(config, stored):
    within(push(config, cattr={"tenant_id": 1}), tenant_id=7)
    assert stored[0].payload["cattr"] == {"tenant_id": 1}


def test_every_job_of_a_bulk_push_has_them(config, stored):
    within(lambda: Client(config).push_bulk({"class": "X", "args": [[1], [2]]}), tenant_id=7)
    assert [decode(job.raw)["cattr"] for job in stored] == [{"tenant_id": 7}] * 2


def test_a_move_of_a_stored_job_sees_its_values_and_changes_none(config):
    seen = []

    def look(push, call_next):
        seen.append(Current.tenant_id.get())
        return call_next(push)

    config.client_middleware.add(look)
    payload = {"class": "X", "args": [], "jid": "ab", "cattr": {"tenant_id": 7}}
    moved = within(lambda: Client(config).reenqueue(payload, "retry"), tenant_id=1, zone="UTC")
    assert seen == [7]
    assert moved.payload["cattr"] == {"tenant_id": 7}
    assert "cattr_1" not in moved.payload


def test_a_job_sees_them_and_its_thread_has_its_own_again(config, stored):
    seen = []

    @job(name="tests.reading_job")
    def reading():
        seen.append((Current.tenant_id.get(), Current.user.get(), Zone.zone.get()))

    within(push(config, **{"class": "tests.reading_job"}), tenant_id=7)

    def run():
        run_prepared(config, stored[0])
        return Current.tenant_id.get(), Current.user.get(), Zone.zone.get()

    assert within(run, tenant_id=1, user="left over", zone="UTC") == (1, "left over", "UTC")
    assert seen == [(7, None, "Berlin")]


@pytest.mark.parametrize("written", [[1], "x", None, 7, {"unknown": 1, "_aj_symbol_keys": []}])
def test_what_ruby_has_and_we_do_not_is_ignored(written, config):
    seen = []

    class Reading(Job, name="tests.ReadingJob"):
        def perform(self):
            seen.append(Current.tenant_id.get())

    prepared = Client(config).reenqueue({"class": "tests.ReadingJob", "args": [], "cattr": written}, "retry")
    run_prepared(config, prepared)
    assert seen == [None]


def test_a_variable_by_itself_is_an_attribute_of_its_name(stored):
    config = Config()
    config.use(CurrentAttributes(Current.tenant_id))
    within(push(config), tenant_id=7)
    assert stored[0].payload["cattr"] == {"tenant_id": 7}


def test_a_source_without_variables_is_refused():
    with pytest.raises(ConfigurationError, match="needs a source"):
        CurrentAttributes()
    with pytest.raises(ConfigurationError, match="no attribute that is a ContextVar"):
        CurrentAttributes(Current, object())
