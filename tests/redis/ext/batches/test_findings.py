"""A batch that only dead members keep from succeeding is stuck; one that still runs is not."""

from __future__ import annotations

import time

import pytest

from offsider.config.installation import Installation
from offsider.ext.batches.findings import find_batches
from offsider.inspector.findings import find

X = {"class": "X", "args": []}


def test_a_batch_is_stuck_while_dead_members_are_left(config, make, client, tell):
    server = Installation.of(config)
    with make(description="Price list") as batch:
        jids = [client.push(X) for _ in range(3)]
    tell(batch, "succeeded", jids[0])
    tell(batch, "died", jids[1], "X: KeyError")
    assert list(find_batches(server)) == []  # the third one waits
    tell(batch, "succeeded", jids[2])
    [stuck] = find_batches(server)
    assert (stuck.what, stuck.subject) == (f"{batch.bid}: 2/3 done, 1 member dead", batch.bid)
    assert stuck.details == (f"dead: X: KeyError ({jids[1]})",)
    assert (stuck.kind, stuck.buttons[0].path) == ("stuck", f"/batches/{batch.bid}")
    assert stuck.since == pytest.approx(time.time(), abs=60)
    assert stuck.id in {each.id for each in find(config)}
    batch.invalidate_all()
    assert list(find_batches(server)) == []
    tell(batch, "succeeded", jids[1])
    assert list(find_batches(server)) == []
