"""What the boot checks read from stored jobs and processes."""

from __future__ import annotations

import json

import pytest

from offsider.inspector.process import version_of
from offsider.worker import boot_checks


def test_unregistered_names_are_listed():
    raws = [b'{"class":"Known","args":[]}', b'{"class":"B","args":[]}', b'{"class":"A","args":[]}', b"not json"]
    assert boot_checks.unregistered(raws * 2, {"Known"}) == ["A", "B"]


@pytest.mark.parametrize(
    "reported, version",
    [({"hostname": "h"}, ""), ({"version": "7.3.10"}, "7.3.10"), ({"version": 8}, ""), ([], None)],
)
def test_the_version_of_a_process(reported, version):
    assert version_of(json.dumps(reported).encode()) == version


def test_an_unreadable_info_has_no_version():
    assert version_of(b"{") is None
