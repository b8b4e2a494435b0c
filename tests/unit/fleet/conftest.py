"""No declared jobs but those of a test; `config` is the default configuration of the process."""

import pytest

from offsider.jobs import registry
from tests.unit.jobs.conftest import config

__all__ = ["config"]


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the jobs of other test modules."""
    monkeypatch.setattr(registry, "_jobs", {})
