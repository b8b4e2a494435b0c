"""The application of the demo: what a user would write. Workers get it as ``-r offsider.cli.demo.jobs``.

For each batch of texts that is ordered:

1. `count_words` counts one text and asks for a word to be looked up.
2. `look_up`, an ``async def``, asks three slow dictionaries at once and has a card posted.
3. `post_card` needs a shop that is often closed: its first try may fail, the next comes a second later.
4. `sum_up` was scheduled when the batch was ordered; while counts are missing it asks to run later.
5. `PrintCover` fails for good on some batches, and gives up into the dead set.
"""

from __future__ import annotations

import asyncio
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Literal

from offsider import Config, Job, JobContext, JobPayload, Reschedule, Shutdown, Skip, current_job, job
from offsider.cli.demo.ledger import Ledger
from offsider.cli.demo.library import Library
from offsider.cli.demo.lifeline import tie

FOLDER_VARIABLE = "DEMO_FOLDER"
DICTIONARIES = (0.010, 0.020, 0.040)  # how slow each of them is, in seconds
COPPER_COVERS = 8  # every so many-th batch wants a cover that cannot be printed


def configure(config: Config) -> None:
    """What the worker is told before it starts: to keep the ledger around every run, and to end with the demo."""
    config.server_middleware.add(keep_ledger)
    tie(config, _folder())


def keep_ledger(job: JobContext, call_next: Callable[[JobContext], object]) -> object:
    """Note how each run ends, before the worker tells the server."""

    def note(word: str) -> None:
        ledger().write(word, job.jid, job.name, job.attempt)

    note("began")
    try:
        result = call_next(job)
    except Reschedule:
        note("postponed")
        raise
    except Skip:
        note("done")
        raise
    except Shutdown:
        note("cut-short")
        raise
    except Exception:
        note("failed")
        raise
    note("done")
    return result


@job(name="count_words", queue="texts")
def count_words(batch: str, text: str) -> None:
    """Count the words of one text."""
    words = library().read(text).split()
    counted = Counter(word for word in words if len(word) > 3)
    library().write(batch, f"{text}.count", counted)
    rarest = min(counted, key=lambda word: (counted[word], word))
    ledger().pushed(look_up.enqueue(batch, text, rarest), "look_up")


@job(name="look_up", queue="words")
async def look_up(batch: str, text: str, word: str) -> None:
    """Ask all dictionaries at the same time."""
    answers = await asyncio.gather(*(_ask_dictionary(word, seconds) for seconds in DICTIONARIES))
    ledger().pushed(await post_card.aenqueue(batch, text, answers), "post_card")


def soon(count: int, error: BaseException, payload: JobPayload) -> float:  # noqa: ARG001  # the hook's shape
    """Seconds until the next try; the worker adds some by chance, so that not all come back at once."""
    return 0.5 + count / 2


@job(name="post_card", queue="post", retry=5, retry_in=soon)
def post_card(batch: str, text: str, answers: list[str]) -> None:
    """Put a card on the shelf, through a shop that is closed for every fifth text at first."""
    time.sleep(0.002)
    if current_job().attempt == 1 and zlib.crc32(f"{batch} {text}".encode()) % 5 == 0:
        raise ConnectionError("the shop is closed")
    library().write(batch, f"{text}.card", " ".join(answers))


@job(name="sum_up", queue="summaries")
def sum_up(batch: str, texts: int) -> None:
    """Add the counts of a batch when they are all there."""
    if not library().is_open(batch):
        raise Skip("summed up before")
    counts = library().counts(batch)
    if len(counts) < texts:
        raise Reschedule(0.5)
    total = sum(counts, Counter[str]())
    library().close_batch(batch, f"{total.total()} words, mostly {total.most_common(1)[0][0]}")


class PrintCover(Job, name="print_cover", queue="covers", retry=1):
    """Print a cover; some want copper, which the printer does not have."""

    def perform(self, batch: str, number: int) -> None:
        if number % COPPER_COVERS == COPPER_COVERS - 1:
            raise LookupError("there is no copper ink")
        library().write(batch, "cover", f"No. {number}, printed by job {self.jid}")

    def retry_in(self, count: int, error: BaseException, payload: JobPayload) -> float:  # noqa: ARG002  # the hook's shape
        return 0.5

    def on_exhausted(self, payload: JobPayload, error: BaseException) -> Literal["discard"] | None:  # noqa: ARG002
        ledger().write("gave-up", payload.get("jid", ""), payload["class"])
        return None


async def _ask_dictionary(word: str, seconds: float) -> str:
    await asyncio.sleep(seconds)
    return word.upper() if len(word) % 2 else word


@cache
def ledger() -> Ledger:
    return Ledger(_folder())


@cache
def library() -> Library:
    return Library(_folder())


def _folder() -> Path:
    return Path(os.environ[FOLDER_VARIABLE])
