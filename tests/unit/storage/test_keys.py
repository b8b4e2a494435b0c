"""Keys as Sidekiq spells them, and a prefix before every single one."""

import inspect
from datetime import UTC, datetime
from pathlib import Path

import pytest

from offsider.storage.keys import Keys

ARGUMENTS = {
    "name": "low",
    "jid": "b4a577edbccf1d805744efa9",
    "identity": "host:1:abcdefabcdef",
    "capsule": "default",
    "queue": "low",
    "day": "2026-11-21",
    "at": datetime(2026, 11, 3, 9, 5, tzinfo=UTC),
    "wire_version": 8,
    "label": "v1",
    "labels": '{"class":"A"}',
    "metric": "runs",
    "chunk": "10m:20401",
    "retry": "2",
    "server": "bulk",
    "hop": "m1f",
    "group": "a1b2c3",
    "run": "host:1:abcdefabcdef 1 a1",
    "step": "hours",
    "number": "5",
}

EXPECTED = {
    "queues": "queues",
    "queue": "queue:low",
    "schedule": "schedule",
    "retry": "retry",
    "dead": "dead",
    "stat": "stat:low",
    "stat_day": "stat:low:2026-11-21",
    "processes": "processes",
    "process": "host:1:abcdefabcdef",
    "work": "host:1:abcdefabcdef:work",
    "workers": "host:1:abcdefabcdef:workers",
    "signals": "host:1:abcdefabcdef-signals",
    "paused": "paused",
    "process_cleanup": "process_cleanup",
    "owners": "offsider:owners",
    "alive": "offsider:alive:host:1:abcdefabcdef",
    "fenced": "offsider:fenced:host:1:abcdefabcdef",
    "strikes": "offsider:strikes:b4a577edbccf1d805744efa9",
    "suspects": "offsider:suspects",
    "sweep": "offsider:sweep",
    "schedule_lease": "offsider:schedule",
    "working": "offsider:working:host:1:abcdefabcdef:default:low",
    "working_start": "offsider:working:",
    "every_queue": "queue:*",
    "every_working": "offsider:working:*",
    "attempts": "offsider:attempts:b4a577edbccf1d805744efa9",
    "stranded": "offsider:stranded",
    "expired": "offsider:expired",
    "stranded_counts": "offsider:stranded:counts",
    "handed_on": "offsider:handed-on:b4a577edbccf1d805744efa9:2",
    "clients": "offsider:clients",
    "counted": "offsider:counted:low",
    "controls_version": "offsider:controls:version",
    "controls": "offsider:controls",
    "controls_acted": "offsider:controls:acted",
    "groups": "offsider:groups",
    "groups_due": "offsider:groups:due",
    "held": "offsider:held:a1b2c3",
    "held_run": "offsider:held-run:host:1:abcdefabcdef 1 a1",
    "limits": "offsider:limits",
    "resumed": "offsider:resumed:a1b2c3",
    "resumed_payloads": "offsider:resumed-payloads:a1b2c3",
    "slots": "offsider:slots:a1b2c3",
    "starts": "offsider:starts:a1b2c3",
    "deploy_lock": "deploylock-v1",
    "deploy_marks": "20261103-marks",
    "error_fields": "offsider:errors:fields",
    "errors": "offsider:errors",
    "every_attempts": "offsider:attempts",
    "every_series": "offsider:series:runs",
    "job_histogram": "h|low-3-9:5",
    "job_minute": "j|261103|9:05",
    "job_ten_minutes": "j|261103|9:0",
    "transits": "offsider:in-transit",
    "leader": "dear-leader",
    "stored": "offsider:stored:b4a577edbccf1d805744efa9:m1f",
    "transit": "offsider:in-transit:bulk",
    "places": "offsider:places",
    "rescued": "offsider:rescued",
    "quarantine": "offsider:quarantine",
    "quarantined_jobs": "offsider:quarantine:jobs",
    "registered": "offsider:classes:host:1:abcdefabcdef",
    "series": 'offsider:series:runs:10m:20401:{"class":"A"}',
    "lease": "offsider:turn:low",
}


def every_key(keys: Keys) -> dict[str, str]:
    """Each attribute and method of `Keys`, called with sample arguments."""
    found: dict[str, str] = {}
    for name in (name for name in dir(keys) if not name.startswith("_") and name != "prefix"):
        value = getattr(keys, name)
        if callable(value):
            value = value(*(ARGUMENTS[argument] for argument in inspect.signature(value).parameters))
        found[name] = value
    return found


def test_every_key_is_spelt_as_documented():
    assert every_key(Keys()) == EXPECTED


@pytest.mark.parametrize("prefix", ["resque:gitlab:", "{app}:"])
def test_every_key_has_the_prefix(prefix):
    assert every_key(Keys(prefix)) == {name: prefix + key for name, key in EXPECTED.items()}


# In these files the string is a place shown to people or a foreign key, never one of our keys.
NAMES_OF_PLACES = (
    "storage/sample.py",
    "storage/keyspace.py",
    "storage/quarantine.py",
    "storage/store_once.py",
)


def test_no_other_module_spells_a_key():
    source = Path(inspect.getfile(Keys)).parents[1]
    spelt = ('"queues"', '"offsider:', '"queue:', '"processes"', '"stat:', '"paused"')
    strangers = {
        str(path.relative_to(source)): word
        for path in source.rglob("*.py")
        if path.name != "keys.py" and "storage" in path.relative_to(source).parts
        for word in spelt
        if word in path.read_text()
    }
    assert strangers == dict.fromkeys(NAMES_OF_PLACES, '"queue:')


def test_the_pattern_of_private_lists_takes_the_prefix_literally():
    assert Keys("odd[*]?\\:").every_working == r"odd\[\*\]\?\\:offsider:working:*"
