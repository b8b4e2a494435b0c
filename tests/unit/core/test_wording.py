"""Messages count in words that fit."""

import pytest

from offsider.core.wording import counted, listed


@pytest.mark.parametrize("number, said", [(0, "0 jobs"), (1, "1 job"), (2, "2 jobs")])
def test_only_one_is_singular(number, said):
    assert counted(number, "job") == said


@pytest.mark.parametrize(
    "names, said",
    [
        ([], ""),
        (["b", "a"], "a, b"),
        (["d", "c", "b", "a"], "a, b, c and 1 more"),
        (iter("edcba"), "a, b, c and 2 more"),
    ],
)
def test_of_many_names_the_first_are_told(names, said):
    assert listed(names) == said
