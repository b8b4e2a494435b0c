"""What whoever serves the pages decides."""

from __future__ import annotations

import pytest

from offsider.core.errors import ConfigurationError
from offsider.web.options import WebOptions
from offsider.wiring.config import Config


def test_the_first_server_is_the_one_at_the_root():
    assert WebOptions({"main": Config(), "other": Config()}).first == "main"


def test_by_default_known_hosts_only_are_answered():
    assert WebOptions({"main": Config()}).check_host


class Callable:
    async def __call__(self, *args):
        return True


async def hook(*args):
    return True


@pytest.mark.parametrize("name", ["authorize", "redact"])
@pytest.mark.parametrize("given", [hook, Callable()])
def test_a_hook_whose_answer_nobody_waits_for_is_refused(name, given):
    with pytest.raises(ConfigurationError, match=f"{name} has to be a plain function and is an async one"):
        WebOptions({"main": Config()}, **{name: given})
