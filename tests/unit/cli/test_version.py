"""``offsider version``."""

from __future__ import annotations

import platform

from click.testing import CliRunner

from offsider import __version__
from offsider.cli.main import version


def test_it_prints_both_versions():
    assert CliRunner().invoke(version).output == f"offsider {__version__} (Python {platform.python_version()})\n"
