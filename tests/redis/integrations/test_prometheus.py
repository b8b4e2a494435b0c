"""Our metrics in a program's own registry."""

import sys

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.core.errors import ConfigurationError
from offsider.fleet.metrics import read_families
from offsider.integrations.prometheus import OffsiderCollector
from offsider.prometheus.text import text_of
from tests.redis.inspector.fleets import seed


def named(text):
    """Name and labels -> value, without values that differ between two reads."""
    moving = ("latency", "lifetime", "processing_time", "lag", "memory_used")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    pairs = (line.rpartition(" ") for line in lines if not any(word in line for word in moving))
    return {_sorted(name.replace('.0"', '"')): float(value) for name, _, value in pairs}


def _sorted(name):
    bare, _, labels = name.rstrip("}").partition("{")
    return (bare, *sorted(labels.split(",")))


def test_it_exports_the_same_as_our_own_text(config, raw_redis):
    seed(raw_redis, Installation.of(config).redis)
    registry = CollectorRegistry()
    registry.register(OffsiderCollector(config))
    ours = named(text_of(read_families(Installation.of(config))))
    assert len(ours) > 80
    assert named(generate_latest(registry).decode()) == ours


def test_an_unreachable_server_does_not_affect_other_metrics(tmp_path):
    config = Config()
    config.redis.url = f"unix://{tmp_path}/none.sock"
    errors = []
    config.error_handlers.append(lambda error, context: errors.append(context["context"]))
    registry = CollectorRegistry()
    registry.register(OffsiderCollector(config))  # needs no server
    Counter("orders", "Orders.", registry=registry).inc()
    assert b"orders_total 1.0" in generate_latest(registry)
    assert errors == ["answering a scrape of the metrics"]


def test_a_process_has_one_server_unless_another_is_named(config, raw_redis, monkeypatch):
    monkeypatch.setattr("offsider.config.installation.default_config", lambda: config)
    registry = CollectorRegistry()
    registry.register(OffsiderCollector())
    assert b"sidekiq_enqueued_jobs 0.0" in generate_latest(registry)


def test_a_missing_library_is_named_with_the_command_to_install_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "offsider.integrations.prometheus")
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[prometheus\]"'):
        __import__("offsider.integrations.prometheus")
