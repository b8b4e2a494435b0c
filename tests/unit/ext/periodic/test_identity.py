"""Who claims ticks."""

import os
import re

from offsider.ext.periodic.store import claimer_id


def test_each_identity_is_unique(monkeypatch):
    monkeypatch.setenv("DYNO", "web.1")
    assert re.fullmatch(rf"web\.1:{os.getpid()}:[0-9a-f]{{6}}", claimer_id())
    assert claimer_id() != claimer_id()
    monkeypatch.delenv("DYNO")
    assert not claimer_id().startswith("web.1")
