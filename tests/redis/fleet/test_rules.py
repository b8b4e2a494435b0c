"""The routing rules in use by all workers and clients, and the finding about different ones."""

import pytest

from offsider import fleet
from offsider.client.client_registry import SeenClient, note_command
from offsider.config.installation import Installation
from offsider.core.errors import RedisUnavailable
from offsider.fleet import RulesInUse, rules_in_use
from offsider.inspector.finding import Severity
from offsider.inspector.findings.examination import examine
from tests.redis.inspector.examined import OURS, RUBYS, register


@pytest.fixture
def config(config):
    fleet.install(config)
    return config


def routing(config):
    """The finding about rules, if any."""
    return next((finding for finding in examine(config) if finding.name == "routing"), None)


def push_from(config, *shown):
    redis = Installation.of(config).redis
    for host, role, rules in shown:
        redis.pipeline([note_command(redis.keys, SeenClient(host, role, rules))])


def test_an_empty_server_has_no_rules_in_use(config):
    assert rules_in_use(config) == []


def test_workers_and_clients_of_the_same_rules_agree(config, raw_redis):
    register(raw_redis, knows=["A"], routing="abc")
    push_from(config, ("web-1", "gunicorn", "abc"), ("web-1", "worker", "abc"))
    assert rules_in_use(config) == [RulesInUse("abc", ["gunicorn on web-1", "worker on web-1"])]
    assert routing(config) is None


def test_rules_with_most_users_are_first_and_ruby_processes_are_omitted(config, raw_redis):
    register(raw_redis, RUBYS)
    register(raw_redis, OURS, knows=["A"])
    push_from(config, ("web-2", "gunicorn", "abc"), ("web-3", "gunicorn", "abc"))
    assert rules_in_use(config) == [
        RulesInUse("abc", ["gunicorn on web-2", "gunicorn on web-3"]),
        RulesInUse("none", ["worker on web-1"]),
    ]
    assert routing(config).severity is Severity.WARN
    assert routing(config).what == (
        "processes use different routing rules: "
        "abc by gunicorn on web-2, gunicorn on web-3; no rules by worker on web-1"
    )
    assert "[routing] rules" in routing(config).actions[0]


def test_programs_of_all_servers_are_compared_and_one_that_is_away_is_left_out(config, raw_redis, other_url):
    config.add_server("bulk", url=other_url)
    config.add_server("away", url="redis://localhost:1")
    push_from(config, ("web-1", "gunicorn", "abc"))
    push_from(Installation.of(config, "bulk"), ("web-2", "gunicorn", "old"), ("web-1", "gunicorn", "abc"))
    both = [RulesInUse("abc", ["gunicorn on web-1"]), RulesInUse("old", ["gunicorn on web-2"])]
    assert rules_in_use(config) == rules_in_use(Installation.of(config, "bulk")) == both
    with pytest.raises(RedisUnavailable):
        rules_in_use(Installation.of(config, "away"))
    assert "old by gunicorn on web-2" in routing(config).what


def test_no_rules_anywhere_need_no_word(config, raw_redis):
    register(raw_redis, knows=["A"])
    push_from(config, ("web-1", "gunicorn", "none"))
    assert routing(config) is None
