"""Lines are whole, in order, and read once."""

import os
import threading

from offsider.cli.demo.ledger import Ledger, LedgerReader


def test_what_was_written_is_read_once(tmp_path):
    ledger, reader = Ledger(tmp_path), LedgerReader(tmp_path)

    ledger.pushed("a", "count_words")
    ledger.write("failed", "a", "count_words", 2)
    first = list(reader.news())
    ledger.write("done", "a", "count_words", 3)

    assert [(line.word, line.key, line.name, line.attempt) for line in first] == [
        ("pushed", "a", "count_words", 0),
        ("failed", "a", "count_words", 2),
    ]
    assert [line.word for line in reader.news()] == ["done"]
    assert not list(reader.news())


def test_a_push_that_was_stopped_is_not_noted(tmp_path):
    Ledger(tmp_path).pushed(None, "count_words")

    assert not list(LedgerReader(tmp_path).news())


def test_half_a_line_is_left_for_the_next_look(tmp_path):
    Ledger(tmp_path)
    path = tmp_path / "ledger" / "1.txt"
    reader = LedgerReader(tmp_path)
    path.write_text("done a count_words 1 1.0\ndone b coun")
    assert [line.key for line in reader.news()] == ["a"]

    path.write_text("done a count_words 1 1.0\ndone b count_words 1 1.0\n")
    assert [line.key for line in reader.news()] == ["b"]


def test_threads_and_forks_do_not_mix_their_lines(tmp_path):
    ledger = Ledger(tmp_path)
    threads = [
        threading.Thread(target=lambda name=name: [ledger.write("done", f"{name}-{n}", "x") for n in range(200)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child = os.fork() if len(threading.enumerate()) == 1 else -1
    if child == 0:
        ledger.write("done", "child", "x")
        os._exit(0)
    if child > 0:
        os.waitpid(child, 0)
        assert len(list((tmp_path / "ledger").iterdir())) == 2

    keys = [line.key for line in LedgerReader(tmp_path).news()]
    assert len(set(keys)) == len(keys) == 800 + (child > 0)
