"""A configuration with states and results on a real server."""

from __future__ import annotations

import pytest

from offsider.ext.results import Results, reader, subscriber
from offsider.jobs import registry
from offsider.jobs.declared import Declared


@pytest.fixture
def results():
    return Results()


@pytest.fixture(autouse=True)
def _declared(request):
    with registry.isolated():
        for value in vars(request.module).values():
            declared = getattr(value, "declared", None)
            if isinstance(declared, Declared):
                registry.register(declared)
        yield


@pytest.fixture
def config(config, results, monkeypatch):
    monkeypatch.setattr(subscriber, "IDLE_SECONDS", 0.02)  # tests wait for their threads
    monkeypatch.setattr(reader, "SEARCH_MS", 10_000.0)  # a busy machine may take longer than a caller would wait
    config.client.push_timeout_seconds = 10  # as above
    config.worker.timeout_seconds = 5
    config.use(results)
    # `enqueue` and `lookup` use the configuration of the process.
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    return config
