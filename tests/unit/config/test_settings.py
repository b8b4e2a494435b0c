"""Declared settings: unique names, checks at every assignment, and messages that help."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from offsider.config.settings import RedisSection, SloSection, WorkerSection, by_name, every_setting
from offsider.core.errors import ConfigurationError
from offsider.core.series import Target
from offsider.storage.redis import RedisSettings


def test_key_names_are_unique_over_all_sections_but_the_url_of_redis():
    counts = Counter(key for setting in every_setting() for key in (setting.key, *setting.aliases))
    assert [key for key, count in counts.items() if count > 1] == ["url"]
    assert [by_name()[name].path for name in ("url", "alerts.url")] == ["redis.url", "alerts.url"]


def test_every_setting_accepts_its_default():
    for setting in every_setting():
        assert setting.checked(setting.default) is not None


def test_every_setting_of_the_connection_is_declared():
    declared = {setting.key for setting in every_setting() if setting.section == "redis"}
    assert set(RedisSettings.__dataclass_fields__) <= declared


def test_variables_of_a_setting_strongest_first():
    assert by_name()["concurrency"].variables == ("OFFSIDER_WORKER_CONCURRENCY",)
    assert by_name()["redis.url"].variables[-1] == "VALKEY_URL"


def test_an_alias_leads_to_the_same_setting():
    assert by_name()["timeout"] is by_name()["worker.timeout_seconds"]


def test_assignments_are_checked_and_named():
    section = WorkerSection()
    section.concurrency = 7
    section.queues = ["a", "b,2"]
    assert (section.concurrency, section.queues) == (7, ("a", "b,2"))
    with pytest.raises(ConfigurationError, match=r"worker\.concurrency expects a whole number from 1 to 1000, got 0"):
        section.concurrency = 0
    assert section.concurrency == 7


def test_a_secret_is_never_repeated():
    with pytest.raises(ConfigurationError) as caught:
        RedisSection().url = "http://user:hunter2@host"
    assert "hunter2" not in str(caught.value)
    assert "redis.url expects a URL" in str(caught.value)


def test_the_connections_settings_do_not_show_secrets_when_printed():
    section = RedisSection()
    section.password = "hunter2"
    section.url = "redis://:hunter2@host/0"
    assert "hunter2" not in repr(section)


def test_defaults_are_those_of_sidekiq():
    worker = WorkerSection()
    assert (worker.concurrency, worker.timeout_seconds, worker.max_retries) == (5, 25, 25)
    assert (worker.dead_max_jobs, worker.dead_timeout_seconds) == (10_000, 180 * 86_400)


def test_targets_follow_from_the_urgency_and_none_is_endless():
    slo = SloSection()
    slo.low_queue_seconds = 30
    assert slo.target("high") == Target(10.0, 10.0)
    assert slo.target("low") == Target(30.0, 300.0)
    assert slo.target("throttled") == Target(math.inf, 300.0)
