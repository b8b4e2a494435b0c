"""Pages of extensions are plain data."""

from __future__ import annotations

import pytest

from offsider.config.web_tab import WebTab
from offsider.core.errors import ConfigurationError


@pytest.mark.parametrize("path", ["", "batches", "/", "/batches/", "/a b", "/@main", "/{name}"])
def test_its_path_must_be_unambiguous(path):
    with pytest.raises(ConfigurationError, match="the web tab 'batches': path must be like /batches"):
        WebTab("batches", "Batches", path)
