"""Keys as Sidekiq spells them, and a prefix before every single one."""

import inspect
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
    "schedule_free": "offsider:schedule:free",
    "working": "offsider:working:host:1:abcdefabcdef:default:low",
    "working_start": "offsider:working:",
    "every_working": "offsider:working:*",
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
def test_the_prefix_stands_before_every_key(prefix):
    assert every_key(Keys(prefix)) == {name: prefix + key for name, key in EXPECTED.items()}


def test_no_other_module_spells_a_key():
    source = Path(inspect.getfile(Keys)).parents[1]
    spelt = ('"queues"', '"offsider:', '"queue:', '"processes"', '"stat:', '"paused"')
    strangers = {
        str(path.relative_to(source)): word
        for path in source.rglob("*.py")
        if path.name != "keys.py" and "storage" in path.parts
        for word in spelt
        if word in path.read_text()
    }
    assert strangers == {}


def test_the_pattern_of_private_lists_takes_the_prefix_literally():
    assert Keys("odd[*]?\\:").every_working == r"odd\[\*\]\?\\:offsider:working:*"
