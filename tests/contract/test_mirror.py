"""The tests mirror the house: whoever reads a module knows where its tests are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "offsider"
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.glob("*/**/*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_its_test_file(module):
    floor, name = module.parts[0], f"test_{module.stem.lstrip('_')}.py"
    places = [ROOT / "tests" / kind / floor / name for kind in ("unit", "redis", "process")]
    assert any(place.is_file() for place in places), f"one of {[str(place.relative_to(ROOT)) for place in places]}"
