"""Who may come to pages that are served by a process of their own."""

from __future__ import annotations

import base64
import socket

import pytest

from offsider.core.errors import ConfigurationError
from offsider.web.options import WebOptions
from offsider.web.request import Request
from offsider.web.serving import address, listening, secured
from offsider.wiring.config import Config

OPTIONS = WebOptions({"main": Config()})
PASSWORD = {"OFFSIDER_WEB_USER": "kim", "OFFSIDER_WEB_PASSWORD": "sesame"}


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "jobs.example.com", ""])
def test_beyond_this_machine_nobody_is_served_unasked(host):
    with pytest.raises(ConfigurationError, match=r"OFFSIDER_WEB_USER and OFFSIDER_WEB_PASSWORD, or .*--auth"):
        secured(OPTIONS, host, {})
    assert secured(OPTIONS, host, PASSWORD).authenticate is not None


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_on_this_machine_no_password_is_needed_but_a_known_host_name(host):
    options = secured(OPTIONS, host, {})
    assert options.authenticate is None
    assert options.check_host


def test_a_password_is_asked_for_on_this_machine_too_once_there_is_one():
    options = secured(OPTIONS, "127.0.0.1", PASSWORD)
    good = base64.b64encode(b"kim:sesame").decode()
    assert options.authenticate(Request("GET", "/", headers={"authorization": f"Basic {good}"})) == "kim"
    assert options.authenticate(Request("GET", "/")) is None
    assert options.challenge.startswith("Basic")
    assert not options.check_host


def test_half_a_password_is_a_mistake():
    with pytest.raises(ConfigurationError, match="belong together"):
        secured(OPTIONS, "127.0.0.1", {"OFFSIDER_WEB_USER": "kim"})


def test_a_hook_of_the_application_wins_over_the_password():
    def hook(request):
        return "app"

    options = secured(WebOptions({"main": Config()}, authenticate=hook, allowed_hosts=["a"]), "0.0.0.0", PASSWORD)
    assert options.authenticate is hook
    assert options.check_host


def test_answers_are_sent_at_once():
    with listening("127.0.0.1", 0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_port_that_is_taken_is_told():
    with listening("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert address(first, "127.0.0.1") == f"http://127.0.0.1:{port}/"
        assert address(first, "0.0.0.0") == f"http://localhost:{port}/"
        assert address(first, "::1") == f"http://[::1]:{port}/"
        with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{port}"):
            listening("127.0.0.1", port)
