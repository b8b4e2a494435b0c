from __future__ import annotations

import pytest

from offsider import Config, job
from offsider.config.default import set_default_config
from offsider.jobs import registry
from offsider.testing import disabled, fake


@pytest.fixture
def note(redis_url):
    config = Config()
    config.redis.url = redis_url
    previous = set_default_config(config)
    with registry.isolated():

        @job(name="note")
        def note(word: str) -> None: ...

        yield note
    set_default_config(previous)


def test_disabled_pushes_to_redis_inside_of_another_mode(note, raw_redis):
    with fake() as enqueued:
        note.enqueue("kept")
        assert raw_redis.keys() == []
        with disabled():
            note.enqueue("stored")
    assert raw_redis.llen("queue:default") == 1
    assert [kept.args for kept in enqueued.jobs] == [["kept"]]
