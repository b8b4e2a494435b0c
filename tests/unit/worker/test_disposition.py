"""Which effects of a run belong to which disposition."""

from __future__ import annotations

import pytest

from offsider.storage.effects import Effect
from offsider.storage.scripts import Script
from offsider.worker.disposition import Aside, Back, Dead, Done, Elsewhere, Last, Later, Lost, with_effects

SCRIPT = Script("test", source="#!lua\nreturn 1\n")
EVERY, END = Effect(SCRIPT, []), Effect(SCRIPT, [], at_end=True)


@pytest.mark.parametrize("disposition", [Done(), Dead(b"")])
def test_a_job_that_leaves_for_good_has_all_effects(disposition):
    assert with_effects(disposition, (EVERY, END)).effects == (EVERY, END)


@pytest.mark.parametrize("disposition", [Back(b""), Last(), Later("retry", b"", 1.0), Aside("why"), Elsewhere()])
def test_a_job_that_stays_has_those_of_every_outcome(disposition):
    assert with_effects(disposition, (EVERY, END)).effects == (EVERY,)
    assert with_effects(disposition, (END,)) is disposition


def test_a_void_run_has_none():
    assert with_effects(Lost(), (EVERY, END)).effects == ()
