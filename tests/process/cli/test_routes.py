"""``offsider routes``: the queue of a job and why, and rules that are of no use."""

from __future__ import annotations

import pytest

from tests.process.cli.commands import SHOP, offsider

RULES = """\
[worker]
require = "shop"
queues = ["urgent", "cpu,2", "report"]

[routing]
rules = [["urgency=high", "urgent"], ["resource_boundary=cpu", "cpu"], ["*", ""]]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "shop.py").write_text(SHOP)
    (tmp_path / "offsider.toml").write_text(RULES)
    return tmp_path


def test_the_queue_of_a_job_is_explained(folder):
    ended = offsider(folder, "routes", "explain", "shop.resize")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [
        "shop.resize goes to cpu",
        "  because of rule 2 of 3: resource_boundary=cpu → cpu",
        "  not rule 1: urgency=high → urgent",
        "  worker_name: shop.resize",
        "  name: resize",
        "  urgency: low",
        "  resource_boundary: cpu",
        "  feature_category: media",
        "  has_external_dependencies: true",
        "  tags: -",
    ]


@pytest.mark.parametrize(
    "rules, name, expected",
    [
        ("[]", "shop.ReportJob", ["shop.ReportJob goes to low", "because of no rules: the queue that it declares"]),
        ("[]", "shop.welcome", ["shop.welcome goes to default", "because of no rules: the default queue"]),
        (
            '[["tags=x", "x"]]',
            "shop.welcome",
            [
                "shop.welcome goes to welcome",
                "because of no match among 1 rule: the queue with the job's name",
                "not rule 1: tags=x → x",
            ],
        ),
    ],
)
def test_a_job_without_a_matching_rule_is_explained_too(folder, rules, name, expected):
    ended = offsider(folder, "routes", "explain", name, OFFSIDER_ROUTING_RULES=rules)
    assert [line.strip() for line in ended.stdout.splitlines()][: len(expected)] == expected


def test_an_unknown_job_is_reported_with_the_nearest_name(folder):
    ended = offsider(folder, "routes", "explain", "shop.resise")
    assert ended.returncode == 1
    assert ended.stderr == "offsider: unknown job 'shop.resise' (did you mean 'shop.resize'?)\n"


def test_good_rules_pass_the_check(folder):
    ended = offsider(folder, "routes", "check")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("3 rules for 3 jobs: no problems (")


def test_useless_rules_and_unserved_queues_fail_the_check(folder):
    rules = '[["*", "default"], ["urgency=high", "urgent"]]'
    ended = offsider(folder, "routes", "check", "-q", "urgent", "-q", "low,3", OFFSIDER_ROUTING_RULES=rules)
    assert ended.returncode == 1
    assert ended.stdout.splitlines() == [
        "rule 2 (urgency=high → urgent) never applies: rule 1 selects all of its jobs before it",
        "no worker serves default, where shop.ReportJob, shop.resize, shop.welcome would wait",
    ]


def test_running_workers_are_asked_when_that_is_wanted(folder, redis_url, raw_redis):
    raw_redis.sadd("processes", "web-1:1:abc")
    raw_redis.hset("web-1:1:abc", mapping={"info": '{"queues": ["urgent", "cpu"]}', "quiet": "false"})
    ended = offsider(folder, "routes", "check", "--live", REDIS_URL=redis_url)
    assert ended.stdout == "no worker serves report, where shop.ReportJob would wait\n"
    raw_redis.zadd("offsider:clients", {"web-2:gunicorn:0ld": raw_redis.time()[0], "junk": raw_redis.time()[0]})
    ended = offsider(folder, "routes", "check", "--live", REDIS_URL=redis_url)
    assert "but gunicorn on web-2 use other rules (0ld)\n" in ended.stdout
    away = offsider(folder, "routes", "check", "--live")
    assert away.returncode == 1
    assert "cannot be reached" in away.stderr
