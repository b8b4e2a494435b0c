"""The nearest known name."""

from __future__ import annotations

from offsider.core.suggestions import nearest, suggest


def test_a_near_name_is_suggested_and_a_far_one_is_not():
    assert nearest("concurency", ["concurrency", "queues"]) == "concurrency"
    assert suggest("concurency", ["concurrency"]) == " (did you mean 'concurrency'?)"
    assert nearest("x", ["concurrency"]) is None
    assert suggest("x", ["concurrency"]) == ""
