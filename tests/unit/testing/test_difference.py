from __future__ import annotations

from unittest.mock import ANY

import pytest

from offsider.testing.expectation import differences, of_arguments, of_keywords


@pytest.mark.parametrize(
    "expected, actual",
    [
        (1, 1),
        (1, 1.0),
        ([1, {"a": [2]}], [1, {"a": [2]}]),
        ((1, 2), [1, 2]),
        (ANY, {"a": 1}),
        ({"a": [ANY, 2]}, {"a": ["x", 2]}),
        (True, True),
        (None, None),
    ],
)
def test_equal_values_have_no_differences(expected, actual):
    assert list(differences(expected, actual, "x")) == []


@pytest.mark.parametrize(
    "expected, actual, text",
    [
        (1, 2, "x is 2, not 1"),
        (1, True, "x is True, not 1"),
        (False, 0, "x is 0, not False"),
        (1, "1", "x is '1', not 1"),
        ([1], {"a": 1}, "x is {'a': 1}, not [1]"),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, "x['a']['b'][1] is 3, not 2"),
        ({"a": 1}, {}, "x['a'] is missing, not 1"),
        ({}, {"a": 1}, "x['a'] is 1, but nothing was expected there"),
        ([1, 2], [1], "x[1] is missing, not 2"),
    ],
)
def test_a_difference_names_its_path(expected, actual, text):
    assert list(differences(expected, actual, "x")) == [text]


def test_arguments_are_called_by_their_names():
    assert list(of_arguments([1, 2], [1, 3, 4], iter(["a", "b", "rest[0]"]))) == [
        "b is 3, not 2",
        "rest[0] is 4, but nothing was expected there",
    ]
    assert list(of_keywords({"a": 1}, {"b": 2})) == ["a is missing, not 1", "b is 2, but nothing was expected there"]
