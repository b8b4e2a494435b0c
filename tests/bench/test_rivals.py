"""Every contestant is pinned to installable versions, and documents the meaning of its figures."""

import pytest

from bench.compare.rivals import APPS, CONTESTANTS


@pytest.mark.parametrize("contestant", CONTESTANTS, ids=lambda one: one.name)
def test_a_contestant_is_pinned_and_described(contestant):
    assert all("==" in requirement for requirement in contestant.requirements)
    assert contestant.settings
    assert contestant.safety
    assert any((APPS / f"{contestant.app}{ending}").is_file() for ending in (".py", ".rb"))
