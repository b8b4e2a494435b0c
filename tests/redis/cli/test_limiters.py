"""``offsider limiters``: the table, JSON, and a reset."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from offsider.cli.main import main
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.ext.limiters import Limiter, Limiters, OverLimit


@pytest.fixture(autouse=True)
def here(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)


@pytest.fixture
def limiter(redis_url):
    config = Config()
    config.redis.url = redis_url
    config.use(Limiters())
    limiter = Limiter.bucket("stripe", 1, "day", wait_timeout=0, config=config)
    with limiter.within_limit():
        pass
    with pytest.raises(OverLimit):
        limiter.within_limit().__enter__()
    yield limiter
    Installation.of(config).close()


def call(*words: str):
    return CliRunner().invoke(main, ["limiters", *words])


def test_without_limiters_a_note_is_printed():
    assert (call().exit_code, call().output) == (0, "No limiters.\n")


def test_limiters_are_listed_with_their_use(limiter):
    assert [line.split() for line in call().output.splitlines()] == [
        ["LIMITER", "KIND", "LIMIT", "USED", "ALLOWED", "WAITED", "REFUSED"],
        ["stripe", "bucket", "1", "/", "day", "1", "1", "0", "1"],
    ]
    (state,) = json.loads(call("--json").output)
    assert (state["name"], state["allowed"], state["overages"]) == ("stripe", 1, 1)


def test_a_limiter_is_reset(limiter):
    assert call("reset", "bucket", "stripe").output == "bucket limiter 'stripe': reset\n"
    assert limiter.remaining() == 1


def test_an_unknown_limiter_is_an_error(limiter):
    result = call("reset", "window", "stripe")
    assert result.exit_code == 1
    assert "there is no window limiter 'stripe': see offsider limiters" in result.output
