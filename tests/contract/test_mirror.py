"""The tests mirror the house: whoever reads a module knows where its tests are.

Extensions have modules of the same names, so their tests are in folders of their own: those of ``ext/unique/store.py``
are in ``tests/*/ext/unique/test_store.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "offsider"
MODULES = sorted(path.relative_to(SOURCE) for path in SOURCE.glob("*/**/*.py") if path.name != "__init__.py")


@pytest.mark.parametrize("module", MODULES, ids=str)
def test_a_module_has_its_test_file(module):
    folder = Path(*module.parts[:-1]) if module.parts[0] == "ext" else Path(module.parts[0])
    name = f"test_{module.stem.lstrip('_')}.py"
    places = [ROOT / "tests" / kind / folder / name for kind in ("unit", "redis", "process")]
    assert any(place.is_file() for place in places), f"one of {[str(place.relative_to(ROOT)) for place in places]}"
