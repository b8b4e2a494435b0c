from __future__ import annotations

import pytest

from offsider import Client, Config, job
from offsider.testing.recorder import Runner


@pytest.fixture
def prepared(config):
    @job(name="double")
    def double(number: int, *, fail: bool = False) -> int:
        if fail:
            raise ValueError(number)
        return number * 2

    def prepare(number: int, **kwargs: bool):
        client = Client(config)
        return client.prepare(client.build({"class": double, "args": [number], "kwargs": kwargs}))

    return prepare


def test_it_returns_the_result(prepared):
    assert Runner().run(prepared(21)) == 42


def test_the_default_configuration_is_that_of_the_process(config):
    other = Config()
    assert Runner().config is config
    assert Runner(other).config is other


def test_middleware_runs_innermost_and_may_change_the_result(prepared, config):
    config.server_middleware.add(lambda context, call_next: ("outer", call_next(context)))
    runner = Runner(server_middleware=[lambda context, call_next: ("inner", call_next(context))])
    assert runner.run(prepared(1)) == ("outer", ("inner", 2))


def test_an_error_carries_the_name_of_the_job(prepared):
    with pytest.raises(ValueError, match="3") as raised:
        Runner().run(prepared(3, fail=True))
    assert raised.value.__notes__ == ["while running the job double(3, fail=True)"]
