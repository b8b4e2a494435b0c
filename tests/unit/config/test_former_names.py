"""Modules that were renamed can still be imported where users imported them."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    "former, name",
    [("wiring.events", "runtime.events"), ("wiring.service", "runtime.service"), ("wiring.web_tab", "config.web_tab")],
)
def test_a_former_name_leads_to_the_same_objects(monkeypatch, former, name):
    for module in [module for module in sys.modules if module.startswith("offsider.wiring")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.warns(DeprecationWarning, match=r"offsider\.wiring is split"):
        old = importlib.import_module(f"offsider.{former}")
    new = importlib.import_module(f"offsider.{name}")
    public = {one for one in vars(new) if not one.startswith("_")}
    assert public
    assert all(getattr(old, one) is getattr(new, one) for one in public)
