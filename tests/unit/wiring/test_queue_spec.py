"""How queues are written."""

from __future__ import annotations

import pytest

from offsider.core.errors import ConfigurationError
from offsider.wiring.queue_spec import QueueSpec, parse_all


@pytest.mark.parametrize(
    "written, name, weight",
    [
        ("low", "low", 0),
        ("low,3", "low", 3),
        (" low , 3 ", "low", 3),
        (["low", 3], "low", 3),
        (("low",), "low", 0),
        (["low", "3"], "low", 3),
        ("*", "*", 0),
        ("*,2", "*", 2),
        (QueueSpec("low", 1), "low", 1),
    ],
)
def test_ways_to_write_a_queue(written, name, weight):
    spec = QueueSpec.parse(written)
    assert (spec.name, spec.weight) == (name, weight)
    assert QueueSpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    "written",
    ["", "a b", "low,", "low,-1", "low,x", "low,1.5", "low,9999", ["low", True], [], ["a", 1, 2], 7, None, "ä"],
)
def test_anything_else_is_refused(written):
    with pytest.raises(ConfigurationError):
        QueueSpec.parse(written)


def test_a_queue_named_twice_is_refused():
    with pytest.raises(ConfigurationError, match="'low' is named twice"):
        parse_all(["low,3", "high", "low"])
