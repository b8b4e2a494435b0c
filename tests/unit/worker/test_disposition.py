"""The destination of a job for each disposition."""

from __future__ import annotations

import pytest

from offsider.core.outcome import Succeeded
from offsider.storage.effects import Effect, at_end
from offsider.storage.scripts import Script
from offsider.worker.disposition import Dead, Done, Later, Moved, Quarantined, RequeuedFirst, RequeuedLast

SCRIPT = Script("test", source="#!lua\nreturn 1\n")


@pytest.mark.parametrize(
    "disposition, goes",
    [
        (Done(), "gone"),
        (Dead(b""), "dead"),
        (RequeuedFirst(b""), "queue"),
        (RequeuedLast(), "queue"),
        (Later("retry", b"", 1.0), "retry"),
        (Later("schedule", b"", 1.0), "schedule"),
        (Quarantined("why"), "quarantine"),
        (Moved(), "elsewhere"),
    ],
)
def test_each_disposition_has_a_destination(disposition, goes):
    assert disposition.goes == goes
    ends = Effect(SCRIPT, [], at_end(1, 2)).applied(Succeeded(), disposition.goes)
    assert [one.arguments for one in ends] == ([(1, 2)] if goes in ("gone", "dead") else [])
