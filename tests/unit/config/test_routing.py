"""Routing rules: the first match wins, errors name the position, and equal rules have equal digests."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

import offsider
from offsider.config.config import Config
from offsider.config.routing import NO_RULES, Routed, Rules, known_job, route
from offsider.core.characteristics import Characteristics
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry

RULES = Rules.read([["urgency=high", "urgent"], ["tags=own", ""], ["urgency=throttled", "later"]])


@dataclass
class Declared:
    name: str = "app.ResizeJob"
    characteristics: Characteristics = field(default_factory=Characteristics)
    declared_queue: str | None = None
    declared_server: str = ""
    declared_retry_queue: str = ""


def job(declared_queue: str | None = None, declared_server: str = "", **characteristics) -> Declared:
    return Declared("app.ResizeJob", Characteristics(**characteristics), declared_queue, declared_server)


@pytest.mark.parametrize(
    "declared, routed",
    [
        (job(urgency="high"), Routed("urgent", 1)),
        (job("mails", urgency="high"), Routed("urgent", 1)),
        (job(urgency="high", tags=("own",)), Routed("urgent", 1)),
        (job(tags=("own",)), Routed("resize", 2)),
        (job("mails", tags=("own",)), Routed("resize", 2)),
        (job(urgency="throttled"), Routed("later", 3)),
    ],
)
def test_the_first_rule_that_matches_wins(declared, routed):
    assert route(declared, RULES, {"queue": "lowest"}) == routed


def test_without_a_match_the_declared_or_generated_queue_is_used():
    assert route(job("mails"), RULES, {"queue": "lowest"}) == Routed("mails")
    assert route(job(), RULES, {"queue": "lowest"}) == Routed("resize")


def test_without_rules_the_declared_or_default_queue_is_used():
    assert route(job("mails", urgency="high"), NO_RULES, {"queue": "lowest"}) == Routed("mails")
    assert route(job(), NO_RULES, {"queue": "lowest"}) == Routed("lowest")
    assert route(job(), NO_RULES, {}) == Routed("default")


def test_the_server_is_the_rules_then_the_jobs_own_then_main():
    rules = Rules.read([["urgency=high", "urgent", "fast"], ["urgency=low", "default"]])
    assert route(job("mails", "bulk", urgency="high"), rules, {}) == Routed("urgent", 1, "fast")
    assert route(job("mails", "bulk", urgency="low"), rules, {}) == Routed("default", 2, "bulk")
    assert route(job(urgency="low"), rules, {}) == Routed("default", 2, "main")
    assert route(job("mails", "bulk", urgency="throttled"), rules, {}) == Routed("mails", 0, "bulk")
    assert route(job("mails", "bulk"), NO_RULES, {}) == Routed("mails", 0, "bulk")
    assert str(rules[0]) == "urgency=high → urgent of fast"


def test_the_digest_includes_the_server_only_if_one_is_set():
    with_server = Rules.read([["*", "default", "fast"]])
    without = Rules.read([["*", "default"]])
    assert with_server.digest != without.digest == Rules.read([["*", "default", ""]]).digest


@pytest.mark.parametrize(
    "given, complaint",
    [
        ([["*", "default"], ["urgency=hi gh", "x"]], "rule 2: 'urgency=hi gh', character 11: unexpected ' gh'"),
        ([["urgenci=high", "x"]], "rule 1: 'urgenci=high', character 1: unknown predicate 'urgenci'"),
        ([["*", "\ud800"]], "rule 1: queue must be a string of at least one"),
        ([["*", 7]], r'rule 1: expected \["query", "queue"\]'),
        ([["*"]], r'rule 1: expected \["query", "queue"\]'),
        (["*"], r'rule 1: expected \["query", "queue"\]'),
        ([[None, "x"]], r'rule 1: expected \["query", "queue"\]'),
        ("*", "expected a list of rules"),
        (7, "expected a list of rules"),
    ],
)
def test_an_invalid_rule_is_reported_with_its_number(given, complaint):
    with pytest.raises(ConfigurationError, match=f"^routing.rules expects a list of rules, .*: {complaint}"):
        Config().routing.rules = given


def test_many_rules_are_not_repeated_in_a_message():
    config_rules = [["urgency=high", "urgent"]] * 100 + [["oh", ""]]
    with pytest.raises(ConfigurationError) as caught:
        Config().routing.rules = config_rules
    assert len(str(caught.value)) < 700
    assert f"rule {len(config_rules)}: 'oh', character 1" in str(caught.value)


def test_a_queue_may_be_left_out_in_any_form():
    config = Config()
    config.routing.rules = [["tags=a", None], ("tags=b", ""), ["*", "rest"]]
    assert [rule.queue for rule in config.routing.rules] == ["", "", "rest"]
    assert [str(rule) for rule in config.routing.rules] == [
        "tags=a → (named after the job)",
        "tags=b → (named after the job)",
        "* → rest",
    ]
    config.routing.rules = RULES
    assert config.routing.rules is RULES


def test_equal_rules_have_equal_digests_and_only_these():
    pairs = [["urgency=high", "urgent"], ["*", None]]
    digest = Rules.read(pairs).digest
    assert len(digest) == 12
    assert Rules.read([["urgency=high ", "urgent"], ("*", "")]).digest == digest
    assert Rules.read(list(reversed(pairs))).digest != digest
    assert NO_RULES.digest == "none"


class TestFiles:
    def test_toml(self, tmp_path):
        file = tmp_path / "offsider.toml"
        file.write_text('[routing]\nrules = [["urgency=high", "urgent"], ["*", "${REST:-default}"]]\n')
        config = Config.load(file, environ={"REST": "rest"})
        assert [rule.queue for rule in config.routing.rules] == ["urgent", "rest"]

    def test_yaml_with_gitlabs_key(self, tmp_path):
        file = tmp_path / "config.yml"
        file.write_text(":concurrency: 3\n:routing_rules:\n  - ['urgency=high', 'urgent']\n  - ['*', ~]\n")
        assert [rule.queue for rule in Config.load(file, environ={}).routing.rules] == ["urgent", ""]

    def test_the_environment_has_json(self, tmp_path):
        config = Config.load(environ={"OFFSIDER_ROUTING_RULES": '[["*", "default"]]'}, cwd=tmp_path)
        assert [rule.queue for rule in config.routing.rules] == ["default"]

    def test_an_empty_variable_means_no_rules_and_an_invalid_one_raises(self, tmp_path):
        assert Config.load(environ={"OFFSIDER_ROUTING_RULES": ""}, cwd=tmp_path).routing.rules == NO_RULES
        with pytest.raises(
            ConfigurationError, match=r"OFFSIDER_ROUTING_RULES: routing\.rules expects .*JSON.* got 'junk'"
        ):
            Config.load(environ={"OFFSIDER_ROUTING_RULES": "junk"}, cwd=tmp_path)


def test_a_declared_job_is_found_by_its_name_and_its_aliases():
    with registry.isolated():

        @offsider.job(name=("shop.greet", "shop.hello"))
        def greet() -> None: ...

        assert known_job("shop.greet") is known_job("shop.hello") is registry.find("shop.greet")
        assert known_job("shop.nobody") is None
