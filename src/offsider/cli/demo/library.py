"""The application's own data: texts to count, and what came out, as files in one folder."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

TEXTS = 36
WORDS_PER_TEXT = 900

# Texts are made of these; the first ones are the commonest, as in any language.
WORDS = [
    "the",
    "of",
    "and",
    "to",
    "a",
    "in",
    "that",
    "was",
    "his",
    "with",
    "as",
    "had",
    "for",
    "he",
    "it",
    "her",
    "not",
    "but",
    "at",
    "on",
    "which",
    "be",
    "from",
    "they",
    "were",
    "so",
    "sea",
    "ship",
    "wind",
    "night",
    "captain",
    "island",
    "morning",
    "harbour",
    "letter",
    "garden",
    "window",
    "winter",
    "river",
    "stone",
    "lantern",
    "market",
    "bridge",
    "violin",
    "thunder",
    "orchard",
    "compass",
    "sailor",
    "feather",
    "mountain",
    "silence",
    "copper",
    "whale",
    "meadow",
    "clockwork",
    "ember",
    "tide",
    "cathedral",
    "pepper",
    "map",
    "raven",
    "candle",
    "ivory",
    "anchor",
    "velvet",
    "gull",
    "saffron",
    "quay",
]


class Library:
    """A folder of texts, and a folder of results for each batch that was ordered.

    Every result is one file with a name that follows from the job's arguments, so a job that runs twice
    writes the same file twice.
    """

    def __init__(self, folder: Path) -> None:
        self._texts = folder / "texts"
        self._batches = folder / "batches"
        self._summaries = folder / "summaries.txt"

    def fill(self) -> None:
        """Make the texts, the same ones each time."""
        self._texts.mkdir(parents=True, exist_ok=True)
        self._batches.mkdir(exist_ok=True)
        for number in range(TEXTS):
            path = self._texts / f"text-{number:02}.txt"
            if not path.exists():
                draw = random.Random(number)
                path.write_text(" ".join(draw.choices(WORDS, _frequencies(), k=WORDS_PER_TEXT)))

    def names(self) -> list[str]:
        return sorted(path.name for path in self._texts.iterdir())

    def read(self, text: str) -> str:
        return (self._texts / text).read_text()

    def open_batch(self, batch: str) -> None:
        (self._batches / batch).mkdir(exist_ok=True)

    def is_open(self, batch: str) -> bool:
        """False once the batch was summed up."""
        return (self._batches / batch).is_dir()

    def write(self, batch: str, name: str, result: Mapping[str, int] | str) -> None:
        """Keep one result; not at all when the batch was summed up meanwhile."""
        folder = self._batches / batch
        try:
            draft = folder / f".{name}.{os.getpid()}"
            draft.write_text(json.dumps(result))
            draft.replace(folder / name)  # never half a file under the final name
        except FileNotFoundError:
            if folder.is_dir():
                raise

    def counts(self, batch: str) -> list[Counter[str]]:
        return [Counter(json.loads(path.read_text())) for path in (self._batches / batch).glob("*.count")]

    def close_batch(self, batch: str, summary: str) -> None:
        with self._summaries.open("a") as file:
            file.write(f"{batch} {summary}\n")
        shutil.rmtree(self._batches / batch, ignore_errors=True)


def _frequencies() -> list[float]:
    return [1 / (rank + 1) for rank in range(len(WORDS))]
