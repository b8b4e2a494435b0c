"""Context variables that go with a job, as Ruby writes and reads them."""

from __future__ import annotations

from contextvars import ContextVar, copy_context
from datetime import datetime

import pytest

from offsider import Client, Config, Job, job
from offsider.core import wording
from offsider.core.errors import ConfigurationError, InvalidArguments
from offsider.core.payload import decode
from offsider.ext.current_attributes import CurrentAttributes
from offsider.jobs import registry
from offsider.jobs.inline import run_prepared


class Current:
    tenant_id: ContextVar[int | None] = ContextVar("tenant_id", default=None)
    user = ContextVar("user")
    _hidden = ContextVar("hidden", default="x")
    other = "no variable"


class Zone:
    zone = ContextVar("zone", default="Berlin")


@pytest.fixture(autouse=True)
def forgotten_jobs(monkeypatch):
    monkeypatch.setattr(wording, "_seen", {})
    with registry.isolated():
        yield


def made(wire_version):
    config = Config()
    config.redis.wire_version = wire_version
    config.use(CurrentAttributes(Current, Zone))
    return config


@pytest.fixture
def config():
    return made(8)


def within(function, **values):
    """Call it where the variables have these values."""

    def call():
        for name, value in values.items():
            getattr(Zone if name == "zone" else Current, name).set(value)
        return function()

    return copy_context().run(call)


def push(config, **more):
    return lambda: Client(config).push({"class": "X", "args": [], **more})


def pairs(**values):
    """The form of Sidekiq 8, as tests/contract/sidekiq-8.1.7.json has it."""
    name = "ActiveJob::Serializers::SymbolSerializer"
    return [[{"_aj_serialized": name, "value": key}, value] for key, value in values.items()]


@pytest.mark.parametrize("version,form", [(6, dict), (7, dict), (8, pairs)])
def test_values_are_written_as_the_sidekiq_of_the_wire_version_does(version, form, stored):
    within(push(made(version)), tenant_id=7, user="ann", zone="UTC")
    payload = decode(stored[0].raw)
    assert (payload["cattr"], payload["cattr_1"]) == (form(tenant_id=7, user="ann"), form(zone="UTC"))


def test_each_server_gets_the_form_of_its_own_wire_version(config, stored):
    config.add_server("old", url="redis://localhost:6390", wire_version=7)
    within(push(config, server="old"), tenant_id=7)
    within(push(config), tenant_id=7)
    assert [job.payload["cattr"] for job in stored] == [{"tenant_id": 7}, pairs(tenant_id=7)]


def test_variables_without_a_value_are_not_stored(config, stored):
    within(push(config), user="ann")
    within(push(config))
    assert [job.payload.get("cattr") for job in stored] == [pairs(user="ann"), None]
    assert "cattr_1" not in stored[0].payload


@pytest.mark.parametrize(
    "value,kind",
    [
        (object(), "object"),
        ({1: "pa55"}, "dict"),
        ({"_aj_symbol_keys": "pa55"}, "dict"),
        (datetime(2026, 1, 2), "datetime without a time zone"),  # noqa: DTZ001
        ([[b"pa55"]], "bytes"),
    ],
)
def test_a_value_that_cannot_be_stored_is_refused_with_its_name_and_type(value, kind, config, stored):
    refusal = f"X: the context variable 'user' cannot be stored under 'cattr': it is of type {kind}"
    with pytest.raises(InvalidArguments, match=refusal) as it:
        within(push(config), user=value)
    assert "pa55" not in str(it.value)
    assert stored == []


def test_a_value_that_contains_itself_is_refused(config):
    cycle = []
    cycle.append(cycle)
    with pytest.raises(InvalidArguments, match="'user'"):
        within(push(config), user=cycle)


def test_values_in_the_payload_stay(config, stored):
    within(push(config, cattr={"tenant_id": 1}), tenant_id=7)
    assert stored[0].payload["cattr"] == {"tenant_id": 1}


def test_every_job_of_a_bulk_push_has_them(config, stored):
    within(lambda: Client(config).push_bulk({"class": "X", "args": [[1], [2]]}), tenant_id=7)
    assert [decode(job.raw)["cattr"] for job in stored] == [pairs(tenant_id=7)] * 2


def test_a_move_of_a_stored_job_sees_its_values_and_changes_none(config):
    seen = []

    def look(push):
        seen.append(Current.tenant_id.get())
        yield

    config.client_middleware.add(look)
    payload = {"class": "X", "args": [], "jid": "ab", "cattr": {"tenant_id": 7}}
    moved = within(lambda: Client(config).reenqueue(payload, "retry"), tenant_id=1, zone="UTC")
    assert seen == [7]
    assert moved.payload["cattr"] == {"tenant_id": 7}
    assert "cattr_1" not in moved.payload


def test_a_job_sees_the_values_and_its_thread_gets_its_own_back(config, stored):
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


def run_with(config, payload):
    """Run a job with these keys in its payload; the value of ``tenant_id`` in it."""
    seen = []

    class Reading(Job, name="tests.ReadingJob"):
        def perform(self):
            seen.append(Current.tenant_id.get())

    prepared = Client(config).reenqueue({"class": "tests.ReadingJob", "args": [], "jid": "ab", **payload}, "retry")
    run_prepared(config, prepared)
    return seen


@pytest.mark.parametrize(
    "written",
    [
        None,
        {},
        [],
        {"unknown": 1, "_aj_symbol_keys": []},
        pairs(unknown=1),
        pairs(unknown={"_aj_serialized": "ActiveJob::Serializers::DateSerializer", "value": "pa55"}),
    ],
)
def test_unknown_attributes_of_ruby_are_ignored(written, config, caplog):
    assert run_with(config, {"cattr": written}) == [None]
    assert caplog.records == []


@pytest.mark.parametrize("version", [6, 7, 8])
@pytest.mark.parametrize("form", [dict, pairs, lambda **values: [[*pair] for pair in values.items()]])
def test_the_formats_of_all_versions_are_read(form, version):
    assert run_with(made(version), {"cattr": form(tenant_id=7)}) == [7]


@pytest.mark.parametrize(
    "written,kind",
    [
        ("pa55", "str"),
        (7.5, "float"),
        (True, "bool"),
    ],
)
def test_an_unreadable_format_logs_a_warning_without_values(written, kind, config, caplog):
    assert run_with(config, {"cattr_1": pairs(zone="UTC"), "cattr": written}) == [None]
    lines = {record.getMessage() for record in caplog.records if record.levelname == "WARNING"}
    assert len(lines) == 1
    assert f"CurrentAttributes: 'cattr' is neither an object nor a list of pairs but {kind}" in lines.pop()
    assert "pa55" not in caplog.text
    assert caplog.records[0].fields == {"jid": "ab", "class": "tests.ReadingJob"}


@pytest.mark.parametrize("bad", ["pa55", ["pa55"], [7, "pa55"], [{"_aj_serialized": "pa55Serializer"}, "pa55"]])
def test_an_invalid_pair_logs_a_warning_and_the_others_apply(bad, config, caplog):
    assert run_with(config, {"cattr": [bad, *pairs(tenant_id=7)]}) == [7]
    assert (
        "CurrentAttributes: 'cattr' has an item that is not a pair of name and value, which is ignored" in caplog.text
    )
    assert "pa55" not in caplog.text


@pytest.mark.parametrize("serializer", ["ActiveJob::Serializers::TimeSerializer", "My::Serializer"])
def test_an_unreadable_value_stays_unchanged_and_its_serializer_is_named(serializer, config, caplog):
    broken = {"_aj_serialized": serializer, "value": "pa55"}
    assert run_with(config, {"cattr": pairs(tenant_id=[broken, 1], user=2)}) == [[broken, 1]]
    assert f"'tenant_id' in 'cattr' cannot be read as {serializer}; it keeps its serialized form" in caplog.text
    assert "pa55" not in caplog.text


def test_a_warning_is_logged_once_for_each_class_and_reason(config, caplog):
    broken = {"_aj_serialized": "My::Serializer", "value": "pa55"}
    for more in ({}, {}, {"wrapped": "A"}, {"wrapped": "A"}):
        run_with(config, {"cattr": pairs(tenant_id=broken), **more})
    assert caplog.text.count("cannot be read as My::Serializer") == 2
    run_with(config, {"cattr": pairs(user=broken)})
    assert caplog.text.count("cannot be read as My::Serializer") == 3


def test_a_job_passes_on_an_unreadable_value_as_ruby_wrote_it(config, stored):
    cattr = pairs(tenant_id=[{"_aj_serialized": "My::Serializer", "value": 1}, MONTH])
    assert pushed_by_a_job(config, stored, cattr) == cattr


MONTH = {
    "_aj_serialized": "ActiveJob::Serializers::DurationSerializer",
    "value": 2629746,
    "parts": [[{"_aj_serialized": "ActiveJob::Serializers::SymbolSerializer", "value": "months"}, 1]],
}


def pushed_by_a_job(config, stored, cattr, **changes):
    @job(name="tests.pushing_job")
    def pushing():
        within(push(config), **changes)

    run_prepared(config, Client(config).reenqueue({"class": "tests.pushing_job", "args": [], "cattr": cattr}, "retry"))
    return stored[-1].payload["cattr"]


def test_a_job_passes_on_unchanged_attributes_as_ruby_wrote_them(config, stored):
    cattr = pairs(tenant_id=7, user=MONTH)
    assert pushed_by_a_job(config, stored, cattr) == cattr
    assert pushed_by_a_job(config, stored, {"tenant_id": 7}) == pairs(tenant_id=7)


def test_a_job_passes_on_changed_attributes_with_their_current_values(config, stored):
    assert pushed_by_a_job(config, stored, pairs(tenant_id=7, user=MONTH), user="ann") == pairs(tenant_id=7, user="ann")


def test_a_variable_by_itself_is_an_attribute_of_its_name(stored):
    config = Config()
    config.use(CurrentAttributes(Current.tenant_id))
    within(push(config), tenant_id=7)
    assert stored[0].payload["cattr"] == pairs(tenant_id=7)


def test_a_source_without_variables_is_refused():
    with pytest.raises(ConfigurationError, match="needs a source"):
        CurrentAttributes()
    with pytest.raises(ConfigurationError, match="no attribute that is a ContextVar"):
        CurrentAttributes(Current, object())
