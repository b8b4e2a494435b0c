"""Access to pages that a process of their own serves."""

from __future__ import annotations

import base64
import socket

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.web.page_request import WebOptions
from offsider.web.request import Request
from offsider.web.serving import Proxied, address, basic, listening, secured

OPTIONS = WebOptions({"main": Installation.of(Config())})
PASSWORD = {"OFFSIDER_WEB_USER": "kim", "OFFSIDER_WEB_PASSWORD": "sesame"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "jobs.example.com", ""])
def test_other_machines_need_authentication(host):
    with pytest.raises(ConfigurationError, match=r"OFFSIDER_WEB_USER and OFFSIDER_WEB_PASSWORD, or .*--auth"):
        secured(OPTIONS, host, {})
    assert secured(OPTIONS, host, PASSWORD).authenticate is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_needs_no_password_but_a_known_host_name(host):
    options = secured(OPTIONS, host, {})
    assert options.authenticate is None
    assert options.check_host


def test_a_configured_password_applies_to_loopback_too():
    options = secured(OPTIONS, "127.0.0.1", PASSWORD)
    good = base64.b64encode(b"kim:sesame").decode()
    assert options.authenticate(Request("GET", "/", headers={"authorization": f"Basic {good}"})) == "kim"
    assert options.authenticate(Request("GET", "/")) is None
    assert options.challenge.startswith("Basic")
    assert not options.check_host


def test_a_user_without_password_is_refused():
    with pytest.raises(ConfigurationError, match="belong together"):
        secured(OPTIONS, "127.0.0.1", {"OFFSIDER_WEB_USER": "kim"})


def test_a_hook_overrides_the_password():
    def hook(request):
        return "app"

    options = secured(
        WebOptions({"main": Installation.of(Config())}, authenticate=hook, allowed_hosts=["a"]), "0.0.0.0", PASSWORD
    )
    assert options.authenticate is hook
    assert options.check_host


@pytest.mark.parametrize("path", ["", "/", "/jobs", "/jobs/", "/a/b", "/jöbs"])
def test_a_root_path_is_a_path(path):
    assert Proxied(path).root_path == path


@pytest.mark.parametrize("path", ["jobs", "http://jobs.example.com/jobs", "//jobs", "/jobs?a=1", "/a b", "/j%20"])
def test_other_root_paths_are_refused(path):
    with pytest.raises(ConfigurationError, match="--root-path expects a path such as /jobs, got"):
        Proxied(path)


@pytest.mark.parametrize("address", ["*", "", "proxy.internal", "10.0.0.1/8", "10.0.0.1:80"])
def test_a_trusted_proxy_is_an_address_or_a_network(address):
    with pytest.raises(ConfigurationError, match="--trusted-proxy expects an IP address or a network such as"):
        Proxied(proxies=("10.0.0.0/8", "::1", address))


def test_responses_are_sent_without_delay():
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_in_use_is_reported():
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert address(first, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert address(first, "0.0.0.0") == f"http://localhost:{port}/"
        assert address(first, "::1") == f"http://[::1]:{port}/"
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}: .* choose another .* --port"):
            listening("127.0.0.1", port)


def asked(header):
    return basic("kim", "sesame:öpen")(Request("GET", "/", headers={"authorization": header}))


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def test_user_and_password_grant_access():
    assert asked(f"Basic {encoded('kim:sesame:öpen')}") == "kim"
    assert asked(f"basic  {encoded('kim:sesame:öpen')}") == "kim"


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!!", f"Basic {encoded('kim')}",
     f"Basic {encoded('kim:')}", f"Basic {encoded('tim:sesame:öpen')}",
     f"Bearer {encoded('kim:sesame:öpen')}", "Basic " + base64.b64encode(b"\xff\xfe:\x00").decode(), "Basic ü"],
)  # fmt: skip
def test_other_credentials_are_refused(header):
    assert asked(header) is None
