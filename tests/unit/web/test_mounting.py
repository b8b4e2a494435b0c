"""Pages inside another application."""

from __future__ import annotations

import pytest

from offsider.core.errors import ConfigurationError
from offsider.web import asgi, wsgi
from offsider.web.mounting import ONLY
from offsider.web.request import Request
from offsider.wiring.config import Config
from offsider.wiring.default import set_default_config


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


def test_they_have_to_say_who_may_see_them(mount):
    with pytest.raises(ConfigurationError, match=r"who may see the pages.*authenticate=.*insecure=True"):
        mount(Config())
    with pytest.raises(ConfigurationError, match="opposite things"):
        mount(Config(), authenticate=nobody, insecure=True)


def test_with_authentication_any_host_name_will_do(mount):
    assert status(mount(Config(), authenticate=somebody), host="jobs.example.com", client="10.0.0.1") == 404
    assert status(mount(Config(), authenticate=nobody), host="jobs.example.com") == 403


def test_with_hosts_only_they_will_do(mount):
    mounted = mount(Config(), authenticate=somebody, allowed_hosts=["jobs.example.com"])
    assert status(mounted, host="jobs.example.com") == 404
    assert status(mounted, host="evil.com") == 403


def test_without_authentication_they_are_for_this_machine(mount):
    mounted = mount(Config(), insecure=True)
    assert status(mounted, host="localhost:8000") == 404
    assert status(mounted, host="localhost:8000", client="10.0.0.1") == 403
    assert status(mounted, host="evil.com") == 403
    assert status(mount(Config(), insecure=True, allowed_hosts=["dev.box"]), host="dev.box", client="10.0.0.1") == 404


def test_one_server_needs_no_name_and_several_have_one(mount):
    one, two = Config(), Config()
    assert mount(one, insecure=True).app.options.servers == {ONLY: one}
    assert mount({"a": one, "b": two}, insecure=True).app.options.servers == {"a": one, "b": two}
    with pytest.raises(ConfigurationError, match="at least one server"):
        mount({}, insecure=True)


def test_by_default_the_process_s_own_server_is_shown(mount):
    config = Config()
    previous = set_default_config(config)
    try:
        assert mount(insecure=True).app.options.servers == {ONLY: config}
    finally:
        set_default_config(previous)


def test_without_what_they_stand_on_the_way_out_is_told(mount, monkeypatch):
    monkeypatch.setattr("offsider.web.mounting.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[web\]"'):
        mount(Config(), insecure=True)


def test_all_servers_of_a_configuration_are_shown_main_first(mount):
    config = Config()
    config.add_server("bulk", url="redis://bulk")
    servers = mount(config, insecure=True).app.options.servers
    assert {name: each.redis.url for name, each in servers.items()} == {
        "main": "redis://localhost:6379/0",
        "bulk": "redis://bulk",
    }
    assert servers["main"] is config
