from __future__ import annotations

import pytest

from offsider import job
from offsider.testing import disabled, fake


@pytest.fixture
def note(default_config):
    @job(name="note")
    def note(word: str) -> None: ...

    return note


def test_disabled_pushes_to_redis_inside_of_another_mode(note, raw_redis):
    with fake() as enqueued:
        note.enqueue("kept")
        assert raw_redis.keys() == []
        with disabled():
            note.enqueue("stored")
    assert raw_redis.llen("queue:default") == 1
    assert [kept.args for kept in enqueued.jobs] == [["kept"]]
