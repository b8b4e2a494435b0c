"""Who claims ticks."""

import os
import re

from offsider.ext.periodic.store import here


def test_each_identity_is_unique(monkeypatch):
    monkeypatch.setenv("DYNO", "web.1")
    assert re.fullmatch(rf"web\.1:{os.getpid()}:[0-9a-f]{{6}}", here())
    assert here() != here()
    monkeypatch.delenv("DYNO")
    assert not here().startswith("web.1")
