"""``offsider show``, ``offsider do``, and limiters as the example of a screen with a command."""

from __future__ import annotations

import json

import pytest

from offsider.config.installation import Installation
from offsider.ext.limiters import Limiter, Limiters, OverLimit
from tests.redis.cli.commands import command

pytestmark = pytest.mark.usefixtures("folder")
call = command("limiters")


@pytest.fixture
def limiter(config):
    config.use(Limiters())
    limiter = Limiter.bucket("stripe", 1, "day", wait_timeout=0, config=config)
    with limiter.within_limit():
        pass
    with pytest.raises(OverLimit):
        limiter.within_limit().__enter__()
    yield limiter
    Installation.of(config).close()


def test_limiters_are_listed_with_their_use(limiter):
    assert [line.split() for line in call().output.splitlines()[1:]] == [
        ["LIMITER", "KIND", "LIMIT", "USED", "ALLOWED", "WAITED", "REFUSED"],
        ["stripe", "bucket", "1", "/", "day", "1", "1", "0", "1"],
    ]
    (table,) = json.loads(call("--json").output)["main"]["blocks"]
    assert [cell.get("value") for cell in table["rows"][0]] == [None, None, None, 1, 1, 0, 1]
    assert call("list", "name=nosuch").output.endswith("No limiter has this name or kind.\n")


def test_a_limiter_is_reset_and_an_unknown_one_is_an_error(limiter):
    assert call("reset", "bucket/stripe").output == "Reset: bucket stripe\n"
    assert limiter.remaining() == 1
    result = call("reset", "window/stripe", "bucket/stripe")
    assert result.exit_code == 1
    assert "there is no window limiter 'stripe': see offsider limiters" in result.output
    assert "Reset: bucket stripe" in result.output


def test_every_screen_is_shown_and_an_unknown_name_is_explained(limiter):
    show, do = command("show"), command("do")
    names = [line.split()[0] for line in show().output.splitlines()[1:]]
    assert names == [
        "findings",
        "classes",
        "errors",
        "jobs",
        "fleet",
        "queues",
        "processes",
        "log",
        "controls",
        "job",
        "batches",
        "limiters",
        "locks",
        "periodic",
        "results",
    ]
    assert [show(name).exit_code for name in names] == [0] * len(names)
    assert "there is no screen 'limiter' (did you mean 'limiters'?)" in show("limiter").output
    assert "expected FIELD=VALUE, got 'x'" in show("limiters", "strip=1", "x").output
    assert "there is no action 'bucket/stripe/rest'" in do("limiters", "bucket/stripe/rest").output
    assert "unknown field reason" in do("limiters", "bucket/stripe/reset", "reason=x").output


def test_a_list_in_steps_is_read_to_its_end(limiter, config, monkeypatch):
    monkeypatch.setattr("offsider.ext.limiters.web.PAGE_BUDGET_MS", 0)
    for number in range(30):
        with Limiter.bucket(f"customer-{number}", 9, "day", config=config).within_limit():
            pass
    assert len(call("list", "name=customer").output.splitlines()) == 32
    assert json.loads(call("--json").output)["main"]["blocks"][0]["total"] == 31
    assert call().output.endswith("31 in 2 pages: page=2\n")
