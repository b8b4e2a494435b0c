"""The page of keys, the table in `storage/keys.py` and its code agree."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsider.storage import keys
from offsider.storage.keys import Keys

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "keys.md").read_text()
FROM_DOCSTRING = re.findall(r"^``(\S+)``\s+(\w+)\s{2,}(\S.*?)\s{2,}(\S.*)$", keys.__doc__ or "", re.MULTILINE)
ON_PAGE = re.findall(r"^\| `(\S+)` \| (\w+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)

# Each key of `Keys` in the notation of the table; the reason names the two that are not keys themselves.
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
    "rescued": "offsider:rescued",
    "working": "offsider:working:<identity>:<cap>:<queue>",
    "strikes": "offsider:strikes:<jid>",
    "quarantine": "offsider:quarantine",
    "quarantined_jobs": "offsider:quarantine:jobs",
    "every_attempts": "offsider:attempts",
    "attempts": "offsider:attempts:<jid>",
    "errors": "offsider:errors",
    "error_fields": "offsider:errors:fields",
    "every_series": "offsider:series:<metric>",
    "series": "offsider:series:<metric>:<chunk>:<labels>",
    "registered": "offsider:classes:<identity>",
    "places": "offsider:places",
    "lease": "offsider:turn:<name>",
    "controls_version": "offsider:controls:version",
    "controls": "offsider:controls",
    "controls_acted": "offsider:controls:acted",
    "groups": "offsider:groups",
    "groups_due": "offsider:groups:due",
    "held": "offsider:held:<group>",
    "held_run": "offsider:held-run:<run>",
    "limits": "offsider:limits",
    "resumed": "offsider:resumed:<group>",
    "resumed_payloads": "offsider:resumed-payloads:<group>",
    "slots": "offsider:slots:<group>",
    "starts": "offsider:starts:<group>",
    "stranded": "offsider:stranded",
    "expired": "offsider:expired",
    "stranded_counts": "offsider:stranded:counts",
    "handed_on": "offsider:handed-on:<jid>:<retry>",
    "counted": "offsider:counted:<id>",
    "clients": "offsider:clients",
    "transits": "offsider:in-transit",
    "transit": "offsider:in-transit:<server>",
    "stored": "offsider:stored:<jid>:<hop>",
}
AT = datetime(2026, 11, 3, 9, 5, tzinfo=UTC)
# The same for keys that contain a time: their form in the table, the time, and the expected key.
DATED_KEYS = {
    "job_minute": ("j|<YYMMDD>|<H:MM>", (AT,), "j|261103|9:05"),
    "job_ten_minutes": ("j|<YYMMDD>|<H:M>", (AT,), "j|261103|9:0"),
    "job_histogram": ("h|<Class>-<D-H:M>", ("Class", AT), "h|Class-3-9:5"),
    "deploy_marks": ("<YYYYMMDD>-marks", (AT,), "20261103-marks"),
    "deploy_lock": ("deploylock-<label>", ("v1",), "deploylock-v1"),
}
NO_KEYS = {"prefix", "working_start", "every_queue", "every_working"}  # parts and patterns of keys


def test_the_page_shows_the_table_of_the_module():
    assert len(FROM_DOCSTRING) == len(EVERY_KEY) + len(DATED_KEYS)
    assert [tuple(cell.replace("``", "`") for cell in row) for row in FROM_DOCSTRING] == ON_PAGE


def test_every_key_of_the_code_is_in_the_table():
    in_code = {name for name in dir(Keys("")) if not name.startswith("_")}
    assert in_code == {*EVERY_KEY, *DATED_KEYS, *NO_KEYS}
    assert {key for key, *_ in FROM_DOCSTRING} == {*EVERY_KEY.values(), *(row for row, _, _ in DATED_KEYS.values())}


@pytest.mark.parametrize("name", DATED_KEYS)
def test_a_key_with_a_time_matches_the_table(name):
    _, made_of, built = DATED_KEYS[name]
    assert getattr(Keys("p:"), name)(*made_of) == f"p:{built}"


@pytest.mark.parametrize("name", EVERY_KEY)
def test_a_key_matches_the_table(name):
    written = EVERY_KEY[name]
    value = getattr(Keys("p:"), name)
    built = value(*re.findall(r"<\w+>", written)) if callable(value) else value
    assert built == f"p:{written}"
