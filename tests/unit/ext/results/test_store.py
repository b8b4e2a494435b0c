"""The stored fields of a state."""

from __future__ import annotations

import pytest

from offsider import FailedRun
from offsider.ext.results.store import MAX_FAILURES, failure_fields, parsed


def failure(attempt):
    return FailedRun(attempt, float(attempt), attempt + 0.5, "host:1:abc", "KeyError", "KeyError: 'x'")


def reply(fields):
    return [part.encode() for pair in fields.items() for part in pair]


def test_the_last_failed_runs_are_kept_oldest_first():
    fields = {"state": "retrying"}
    for attempt in range(1, MAX_FAILURES + 3):
        fields |= failure_fields(failure(attempt))
    found = parsed("jid", reply(fields)).info.failures
    assert found == tuple(failure(attempt) for attempt in range(3, MAX_FAILURES + 3))


@pytest.mark.parametrize("text", ["", "{", "1", "[]", "[1]", '{"a": 1}'])
def test_fields_of_other_programs_are_ignored(text):
    fields = {"state": "retrying", "failed:1": text, "arguments": text, "progress": text, "began": "odd"}
    info = parsed("jid", reply(fields)).info
    assert (info.failures, info.args, info.kwargs, info.progress, info.started_at) == ((), None, None, None, None)
