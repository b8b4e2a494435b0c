"""The page of keys, the table in `storage/keys.py` and its code agree."""

import re
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path

import pytest

from offsider.storage import keys
from offsider.storage.keys import Keys

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "keys.md").read_text()
FROM_DOCSTRING = re.findall(r"^``(\S+)``\s+(\w+)\s{2,}(\S.*?)\s{2,}(\S.*)$", keys.__doc__ or "", re.MULTILINE)
ON_PAGE = re.findall(r"^\| `(\S+)` \| (\w+) \| (.+?) \| (.+?) \|$", PAGE, re.MULTILINE)

AT = datetime(2026, 11, 3, 9, 5, tzinfo=UTC)
# Keys that contain a time: their form in the table, the time, and the expected key.
DATED_KEYS = {
    "job_minute": ("j|<YYMMDD>|<H:MM>", (AT,), "j|261103|9:05"),
    "job_ten_minutes": ("j|<YYMMDD>|<H:M>", (AT,), "j|261103|9:0"),
    "job_histogram": ("h|<Class>-<D-H:M>", ("Class", AT), "h|Class-3-9:5"),
    "deploy_marks": ("<YYYYMMDD>-marks", (AT,), "20261103-marks"),
}
NO_KEYS = {"prefix", "working_start", "every_queue", "every_working"}  # parts and patterns of keys


def in_notation(name):
    """A key of the code in the notation of the table."""
    value = getattr(Keys("p:"), name)
    if not callable(value):
        return value
    # The column of the table is narrow.
    return value(*(f"<{parameter}>".replace("<capsule>", "<cap>") for parameter in signature(value).parameters))


def test_the_page_shows_the_table_of_the_module():
    assert [tuple(cell.replace("``", "`") for cell in row) for row in FROM_DOCSTRING] == ON_PAGE


def test_every_key_of_the_code_is_in_the_table_and_has_the_prefix():
    in_code = {name for name in dir(Keys("")) if not name.startswith("_")} - {*DATED_KEYS, *NO_KEYS}
    built = {in_notation(name) for name in in_code}
    listed = {key for key, *_ in FROM_DOCSTRING} - {row for row, _, _ in DATED_KEYS.values()}
    assert len(FROM_DOCSTRING) == len(in_code) + len(DATED_KEYS)
    assert built == {f"p:{key}" for key in listed}


@pytest.mark.parametrize("name", DATED_KEYS)
def test_a_key_with_a_time_matches_the_table(name):
    row, made_of, built = DATED_KEYS[name]
    assert row in {key for key, *_ in FROM_DOCSTRING}
    assert getattr(Keys("p:"), name)(*made_of) == f"p:{built}"
