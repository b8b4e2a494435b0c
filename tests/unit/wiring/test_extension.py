"""What counts as an extension."""

from __future__ import annotations

from offsider.wiring.extension import Extension, WebTab


class Good:
    name = "good"

    def install(self, config):
        pass


def test_an_extension_has_a_name_and_installs_itself():
    assert isinstance(Good(), Extension)
    assert not isinstance(object(), Extension)


def test_a_web_tab_is_plain_data():
    tab = WebTab("batches", "Batches", "/batches")
    assert (tab.name, tab.title, tab.path, tab.routes) == ("batches", "Batches", "/batches", {})
