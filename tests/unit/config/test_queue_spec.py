"""How queues are written."""

from __future__ import annotations

import pytest

from offsider.config.routing import QueueSpec, parse_all
from offsider.core.errors import ConfigurationError


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
        ("a b", "a b", 0),
        ("ä/%3", "ä/%3", 0),
        ("a,b,2", "a,b", 2),
        ("a,b,0", "a,b", 0),
        (["a,b"], "a,b", 0),
        (["a,1", 3], "a,1", 3),
    ],
)
def test_ways_to_write_a_queue(written, name, weight):
    spec = QueueSpec.parse(written)
    assert (spec.name, spec.weight) == (name, weight)
    assert QueueSpec.parse(str(spec)) == spec


@pytest.mark.parametrize(
    "written",
    [
        "",
        " ",
        ["low "],
        ["\tlow", 1],
        "low,",
        "low,-1",
        "low,x",
        "low,1.5",
        "low,9999",
        ["low", True],
        [],
        ["a", 1, 2],
        7,
        None,
        "a,b",
    ],
)
def test_invalid_values_are_refused(written):
    with pytest.raises(ConfigurationError):
        QueueSpec.parse(written)


def test_several_queues_in_one_string_are_refused_with_the_next_step():
    with pytest.raises(ConfigurationError, match="got 'default,mails'; list each queue separately"):
        QueueSpec.parse("default,mails")


def test_a_queue_named_twice_is_refused():
    with pytest.raises(ConfigurationError, match="'low' is listed twice"):
        parse_all(["low,3", "high", "low"])
