"""A part of a look, and whether it was the last."""

from offsider.inspector import Chunk


def test_a_chunk_without_a_cursor_is_the_last():
    assert Chunk([], 0, 0, "").complete
    assert not Chunk([], 0, 10, "5").complete
