"""Names in a sentence."""

from offsider.inspector.doctor.listing import listed


def test_few_names_are_all_there():
    assert listed(["a", "b"]) == "a, b"


def test_of_many_names_the_first_are_shown():
    assert listed([str(n) for n in range(12)]) == "0, 1, 2, 3, 4 and 7 more"
