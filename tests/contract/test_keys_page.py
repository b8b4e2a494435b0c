"""The page of keys, the table in `storage/keys.py` and its code say the same."""

import re
from pathlib import Path

import pytest

from offsider.storage import keys
from offsider.storage.keys import Keys

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "keys.md").read_text()
FROM_DOCSTRING = re.findall(r"^``(\S+)``\s+(\w+)\s{2,}(\S.*?)\s{2,}(\S.*)$", keys.__doc__ or "", re.MULTILINE)
ON_PAGE = re.findall(r"^\| `(\S+)` \| (\w+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)

# Each key of `Keys` as the table writes it; the two that are no keys of their own are named in their reason.
EVERY_KEY = {
    "queues": "queues",
    "queue": "queue:<name>",
    "schedule": "schedule",
    "retry": "retry",
    "dead": "dead",
    "stat": "stat:<name>",
    "stat_day": "stat:<name>:<day>",
    "processes": "processes",
    "process": "<identity>",
    "work": "<identity>:work",
    "workers": "<identity>:workers",
    "signals": "<identity>-signals",
    "paused": "paused",
    "process_cleanup": "process_cleanup",
    "leader": "dear-leader",
    "owners": "offsider:owners",
    "alive": "offsider:alive:<identity>",
    "fenced": "offsider:fenced:<identity>",
    "suspects": "offsider:suspects",
    "sweep": "offsider:sweep",
    "schedule_lease": "offsider:schedule",
    "schedule_free": "offsider:schedule:free",
    "working": "offsider:working:<identity>:<cap>:<queue>",
    "strikes": "offsider:strikes:<jid>",
    "quarantine": "offsider:quarantine",
    "quarantined_jobs": "offsider:quarantine:jobs",
    "registered": "offsider:classes:<identity>",
    "turn": "offsider:turn:<name>",
}
NO_KEYS = {"prefix", "working_start", "every_working"}  # parts and patterns of keys


def test_the_page_shows_the_table_of_the_module():
    assert len(FROM_DOCSTRING) == len(EVERY_KEY)
    assert [tuple(cell.replace("``", "`") for cell in row) for row in FROM_DOCSTRING] == ON_PAGE


def test_every_key_of_the_code_is_in_the_table():
    in_code = {name for name in dir(Keys("")) if not name.startswith("_")}
    assert in_code == set(EVERY_KEY) | NO_KEYS
    assert {key for key, *_ in FROM_DOCSTRING} == set(EVERY_KEY.values())


@pytest.mark.parametrize("name", EVERY_KEY)
def test_a_key_is_built_as_the_table_says(name):
    written = EVERY_KEY[name]
    value = getattr(Keys("p:"), name)
    built = value(*re.findall(r"<\w+>", written)) if callable(value) else value
    assert built == f"p:{written}"
