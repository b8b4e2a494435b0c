"""A closed list cannot be changed by any door."""

from __future__ import annotations

import pytest

from offsider.config.containers import Listing
from offsider.core.errors import ConfigurationError


def closed():
    listing = Listing("config.things", [1, 2])
    listing.freeze()
    return listing


def test_before_the_freeze_it_is_a_list():
    listing = Listing("config.things", [1])
    listing.append(2)
    listing.insert(0, 0)
    listing += [3]
    listing[0] = 9
    del listing[1]
    assert listing == [9, 2, 3]
    assert listing == Listing("other", [9, 2, 3])
    assert (len(listing), listing[0], listing[1:], 2 in listing) == (3, 9, [2, 3], True)
    assert repr(listing) == "Listing('config.things', [9, 2, 3])"


@pytest.mark.parametrize(
    "edit",
    [
        lambda listing: listing.append(3),
        lambda listing: listing.insert(0, 3),
        lambda listing: listing.extend([3]),
        lambda listing: listing.remove(1),
        lambda listing: listing.clear(),
        lambda listing: listing.pop(),
        lambda listing: listing.reverse(),
        lambda listing: listing.__setitem__(0, 3),
        lambda listing: listing.__delitem__(0),
    ],
)
def test_after_the_freeze_every_edit_is_refused_by_name(edit):
    listing = closed()
    with pytest.raises(ConfigurationError, match=r"config\.things is frozen"):
        edit(listing)
    assert listing == [1, 2]
