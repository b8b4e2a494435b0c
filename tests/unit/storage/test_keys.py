"""Only one module spells keys; tests/contract/test_keys_page.py compares them with their table."""

import inspect
from pathlib import Path

from offsider.storage.keys import Keys

# In these files the string is a place shown to people or a foreign key, never one of our keys.
NAMES_OF_PLACES = (
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
