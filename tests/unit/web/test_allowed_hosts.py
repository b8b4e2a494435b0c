"""The host names accepted by the pages."""

from __future__ import annotations

import pytest

from offsider.web.allowed_hosts import host_of, is_known, is_loopback


@pytest.mark.parametrize(
    "header",
    ["localhost", "LOCALHOST:7433", "127.0.0.1", "127.0.0.1:80", "127.9.9.9", "[::1]:7433", "::1", "jobs.localhost"],
)
def test_all_names_of_loopback_are_allowed(header):
    assert is_known(header, [])


@pytest.mark.parametrize(
    "header",
    ["", "evil.com", "localhost.evil.com", "127.0.0.1.evil.com", "evil.com:7433", "192.168.0.1", "127.0.0.1@evil.com",
     "[::ffff:10.0.0.1]", "[::1].evil.com", "[::1]evil.com",
     "[::1]:x", "0.0.0.0", "2130706433", "localhost:1:2", "evil.localhost.com"],
)  # fmt: skip
def test_other_names_are_refused(header):
    assert not is_known(header, [])


def test_a_name_can_be_allowed_with_or_without_its_port():
    assert is_known("jobs.example.com:8443", ["Jobs.Example.com"])
    assert is_known("jobs.example.com:8443", ["jobs.example.com:8443"])
    assert not is_known("jobs.example.com:9", ["jobs.example.com:8443"])
    assert not is_known("x.jobs.example.com", ["jobs.example.com"])
    assert is_known("anything", ["*"])


def test_the_host_is_separated_from_its_port():
    assert host_of("A.b:80") == "a.b"
    assert host_of("[::1]:80") == "::1"
    assert is_loopback("[::1]")
    assert is_loopback("::ffff:127.0.0.1")
    assert not is_loopback("example.com")
