"""What whoever serves the pages decides."""

from __future__ import annotations

from offsider.web.options import WebOptions
from offsider.wiring.config import Config


def test_the_first_server_is_the_one_at_the_root():
    assert WebOptions({"main": Config(), "other": Config()}).first == "main"


def test_by_default_known_hosts_only_are_answered():
    assert WebOptions({"main": Config()}).check_host
