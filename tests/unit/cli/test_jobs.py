"""The jobs of the demo, each run by itself."""

import asyncio

import pytest

from offsider import JobContext, Reschedule, Shutdown, Skip
from offsider.cli.demo import jobs
from offsider.cli.demo.ledger import Ledger, LedgerReader
from offsider.cli.demo.library import Library
from offsider.wiring import sinks
from offsider.wiring.config import Config
from offsider.wiring.context import running
from offsider.wiring.default import set_default_config


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    library, ledger = Library(tmp_path), Ledger(tmp_path)
    library.fill()
    library.open_batch("b")
    monkeypatch.setattr(jobs, "library", lambda: library)
    monkeypatch.setattr(jobs, "ledger", lambda: ledger)
    before = set_default_config(Config())
    yield tmp_path
    set_default_config(before)


@pytest.fixture
def pushes():
    stored = []
    with sinks.diverted(stored.extend):
        yield stored


def context(**payload) -> JobContext:
    return JobContext({"class": "some_job", "args": [], "jid": "j", **payload}, "texts")


def words(folder) -> list[str]:
    return [line.word for line in LedgerReader(folder).news()]


def test_counting_writes_a_count_and_has_the_rarest_word_looked_up(folder, pushes):
    jobs.count_words("b", "text-00.txt")

    counts = jobs.library().counts("b")
    assert counts[0].total() > 0
    assert [push.payload["class"] for push in pushes] == ["look_up"]
    assert pushes[0].payload["args"][2] in counts[0]
    assert words(folder) == ["pushed"]


def test_looking_up_asks_the_dictionaries_and_posts_a_card(folder, pushes):
    asyncio.run(jobs.look_up("b", "text-00.txt", "whale"))

    assert pushes[0].payload["class"] == "post_card"
    assert pushes[0].payload["args"][2] == ["WHALE"] * 3


def test_the_shop_is_closed_for_some_texts_and_open_at_the_second_try(folder):
    first, second = context(), context(retry_count=0)
    closed = []
    for number in range(40):
        with running(first):
            try:
                jobs.post_card("b", f"text-{number}", ["A"])
            except ConnectionError:
                closed.append(number)
    assert 0 < len(closed) < 40
    with running(second):
        jobs.post_card("b", f"text-{closed[0]}", ["A"])


def test_summing_up_waits_for_the_last_count_and_happens_once(folder):
    jobs.library().write("b", "one.count", {"whale": 2})
    with pytest.raises(Reschedule):
        jobs.sum_up("b", 2)
    jobs.library().write("b", "two.count", {"whale": 1, "ship": 1})
    jobs.sum_up("b", 2)

    assert (folder / "summaries.txt").read_text() == "b 4 words, mostly whale\n"
    with pytest.raises(Skip):
        jobs.sum_up("b", 2)


def test_a_cover_in_copper_fails_and_gives_up(folder):
    cover = jobs.PrintCover()
    with pytest.raises(LookupError):
        cover.perform("b", jobs.COPPER_COVERS - 1)
    assert cover.retry_in(0, LookupError(), context().payload) > 0
    assert cover.on_exhausted(context().payload, LookupError()) is None
    assert words(folder) == ["gave-up"]


@pytest.mark.parametrize(
    "raised, word",
    [
        (None, "done"),
        (ValueError, "failed"),
        (Skip, "done"),
        (Shutdown, "cut-short"),
        (lambda: Reschedule(1), "postponed"),
    ],
)
def test_the_ledger_is_kept_around_every_run(folder, raised, word):
    def call_next(job):
        if raised is not None:
            raise raised()
        return "result"

    if raised is None:
        assert jobs.keep_ledger(context(), call_next) == "result"
    else:
        with pytest.raises((ValueError, Skip, Shutdown, Reschedule)):
            jobs.keep_ledger(context(), call_next)
    assert words(folder) == ["began", word]


def test_the_worker_is_told_to_keep_the_ledger(monkeypatch, tmp_path):
    monkeypatch.setattr(jobs, "tie", lambda config, folder: None)
    monkeypatch.setenv(jobs.FOLDER_VARIABLE, str(tmp_path))
    config = Config()
    jobs.configure(config)
    assert jobs.keep_ledger in config.server_middleware
