"""Results are files whose names follow from the job, so that running a job twice changes nothing."""

from collections import Counter

import pytest

from offsider.cli.demo.library import TEXTS, WORDS_PER_TEXT, Library


@pytest.fixture
def library(tmp_path) -> Library:
    library = Library(tmp_path)
    library.fill()
    library.open_batch("b")
    return library


def test_texts_are_the_same_each_time(library, tmp_path):
    names = library.names()
    before = [library.read(name) for name in names]
    library.fill()

    assert len(names) == TEXTS
    assert [library.read(name) for name in names] == before
    assert len(before[0].split()) == WORDS_PER_TEXT


def test_a_count_that_is_written_twice_counts_once(library):
    library.write("b", "one.count", {"sea": 2})
    library.write("b", "one.count", {"sea": 2})
    library.write("b", "one.card", "SEA")

    assert library.counts("b") == [Counter(sea=2)]


def test_a_closed_batch_takes_no_results(library, tmp_path):
    library.close_batch("b", "2 words")
    library.write("b", "late.count", {"sea": 1})

    assert not library.is_open("b")
    assert library.counts("b") == []
    assert (tmp_path / "summaries.txt").read_text() == "b 2 words\n"
