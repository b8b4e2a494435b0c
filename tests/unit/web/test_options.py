"""The options of the web interface."""

from __future__ import annotations

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.web.options import WebOptions


def test_the_first_server_is_the_one_at_the_root():
    assert WebOptions({"main": Installation.of(Config()), "other": Installation.of(Config())}).first == "main"


def test_by_default_only_known_hosts_are_accepted():
    assert WebOptions({"main": Installation.of(Config())}).check_host


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
