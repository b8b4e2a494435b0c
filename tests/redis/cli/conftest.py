"""The folder and the server of a command."""

from __future__ import annotations

import pytest


@pytest.fixture
def folder(redis_url, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REDIS_URL", redis_url)
    return tmp_path
