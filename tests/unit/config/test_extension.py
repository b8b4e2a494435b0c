"""What counts as an extension."""

from __future__ import annotations

from offsider.config.config import Extension


class Good:
    name = "good"

    def install(self, config):
        pass


def test_an_extension_has_a_name_and_installs_itself():
    assert isinstance(Good(), Extension)
    assert not isinstance(object(), Extension)
