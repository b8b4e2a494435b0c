"""Pages inside another application, and their options."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.config.default import set_default_config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.web import asgi, wsgi
from offsider.web.mounting import ONLY
from offsider.web.page_request import WebOptions
from offsider.web.request import Request


def nobody(request):
    return None


def somebody(request):
    return "kim"


@pytest.fixture(params=[asgi, wsgi])
def mount(request):
    return request.param


def status(mounted, **headers):
    client = headers.pop("client", "127.0.0.1")
    return mounted.app.respond(Request("GET", "/assets/none", headers=headers, client=client)).status


def test_mounting_requires_authentication_or_insecure(mount):
    with pytest.raises(ConfigurationError, match=r"the web UI needs authentication.*authenticate=.*insecure=True"):
        mount(Config())
    with pytest.raises(ConfigurationError, match="contradict each other"):
        mount(Config(), authenticate=nobody, insecure=True)


def test_with_authentication_any_host_name_is_accepted(mount):
    assert status(mount(Config(), authenticate=somebody), host="jobs.example.com", client="10.0.0.1") == 404
    assert status(mount(Config(), authenticate=nobody), host="jobs.example.com") == 403


def test_with_allowed_hosts_only_those_are_accepted(mount):
    mounted = mount(Config(), authenticate=somebody, allowed_hosts=["jobs.example.com"])
    assert status(mounted, host="jobs.example.com") == 404
    assert status(mounted, host="evil.com") == 403


def test_without_authentication_only_this_machine_is_accepted(mount):
    mounted = mount(Config(), insecure=True)
    assert status(mounted, host="localhost:8000") == 404
    assert status(mounted, host="localhost:8000", client="10.0.0.1") == 403
    assert status(mounted, host="evil.com") == 403
    assert status(mount(Config(), insecure=True, allowed_hosts=["dev.box"]), host="dev.box", client="10.0.0.1") == 404


def test_one_server_needs_no_name_and_several_have_one(mount):
    one, two = Config(), Config()
    here, there = Installation.of(one), Installation.of(two)
    assert mount(one, insecure=True).app.options.servers == {ONLY: here}
    assert mount({"a": one, "b": there}, insecure=True).app.options.servers == {"a": here, "b": there}
    with pytest.raises(ConfigurationError, match="at least one server"):
        mount({}, insecure=True)


def test_by_default_the_default_configuration_is_shown(mount):
    config = Config()
    previous = set_default_config(config)
    try:
        assert mount(insecure=True).app.options.servers == {ONLY: Installation.of(config)}
    finally:
        set_default_config(previous)


def test_missing_dependencies_are_reported_with_a_fix(mount, monkeypatch):
    monkeypatch.setattr("offsider.web.mounting.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[web\]"'):
        mount(Config(), insecure=True)


def test_all_servers_of_a_configuration_are_shown_main_first(mount):
    config = Config()
    config.add_server("bulk", url="redis://bulk")
    servers = mount(config, insecure=True).app.options.servers
    assert {name: each.settings.url for name, each in servers.items()} == {
        "main": "redis://localhost:6379/0",
        "bulk": "redis://bulk",
    }
    assert servers["main"] is Installation.of(config)


class Callable:
    async def __call__(self, *args):
        return True


async def hook(*args):
    return True


@pytest.mark.parametrize("name", ["authorize", "redact"])
@pytest.mark.parametrize("given", [hook, Callable()])
def test_async_authorize_and_redact_hooks_are_refused(name, given):
    with pytest.raises(ConfigurationError, match=f"{name} must be a plain function, not async"):
        WebOptions({"main": Installation.of(Config())}, **{name: given})
