"""The dashboards and alert rules are whole: they lead to each other, and they name metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
import redis
import yaml

from offsider.cli.web import PORT
from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.fleet.metrics import read_families
from offsider.fleet.shards import ZONE
from offsider.prometheus.text import text_of
from tests.redis.inspector.fleets import seed

ROOT = Path(__file__).parents[2]
RULES = ROOT / "deploy" / "prometheus"
KUBERNETES = ROOT / "deploy" / "kubernetes"
DASHBOARDS = {path.stem: json.loads(path.read_text()) for path in sorted((ROOT / "deploy" / "grafana").glob("*.json"))}
METRIC = re.compile(r"\bsidekiq_\w+")
METRIC_AND_SELECTOR = re.compile(r"\b(sidekiq_\w+)(\{[^}]*\})?")
DASHBOARD_NAMES = pytest.mark.parametrize("name", DASHBOARDS)


def panels(name: str) -> list[dict]:
    return [panel for panel in DASHBOARDS[name]["panels"] if panel["type"] != "row"]


def expressions(name: str) -> list[str]:
    return [target["expr"] for panel in panels(name) for target in panel["targets"]]


def variables(name: str) -> dict[str, dict]:
    return {variable["name"]: variable for variable in DASHBOARDS[name]["templating"]["list"]}


def rules() -> list[dict]:
    groups = yaml.safe_load((RULES / "offsider.rules.yml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


@pytest.fixture
def scrape(embedded_url) -> str:
    """The metrics of a small fleet."""
    config = Config()
    config.redis.url = embedded_url
    with redis.Redis.from_url(embedded_url) as client:
        seed(client, Installation.of(config).redis)
    text = text_of(read_families(Installation.of(config)))
    Installation.of(config).close()
    return text


@pytest.fixture
def reported(scrape) -> set[str]:
    """The names of all metrics of the scrape."""
    return {re.split(r"[{ ]", line)[0] for line in scrape.splitlines() if not line.startswith("#")}


@DASHBOARD_NAMES
def test_every_query_reads_one_scrape(name):
    for text in expressions(name):  # a server may be scraped twice: through the web UI and through its workers
        selectors = METRIC_AND_SELECTOR.findall(text)
        assert [metric for metric, selector in selectors if 'job="$job"' not in selector] == [], text


@DASHBOARD_NAMES
def test_every_metric_of_a_dashboard_is_in_a_scrape(name, reported):
    asked = {
        metric for text in [*expressions(name), *map(str, variables(name).values())] for metric in METRIC.findall(text)
    }
    assert asked
    assert asked <= reported


def test_every_metric_of_the_rules_is_in_a_scrape(reported):
    asked = {metric for rule in rules() for metric in METRIC.findall(rule["expr"])}
    assert asked
    assert asked <= reported


@DASHBOARD_NAMES
def test_every_variable_of_a_query_is_one_of_the_dashboard(name):
    builtin = {"__rate_interval", "__range"}
    asked = {variable for text in expressions(name) for variable in re.findall(r"\$(\w+)", text)}
    assert asked - builtin <= set(variables(name))


@DASHBOARD_NAMES
def test_every_dashboard_leads_to_the_others(name):
    there = {dashboard["uid"] for dashboard in DASHBOARDS.values()}
    linked = {link["url"].removeprefix("/d/") for link in DASHBOARDS[name]["links"]}
    assert linked == there - {DASHBOARDS[name]["uid"]}
    assert all(link["keepTime"] for link in DASHBOARDS[name]["links"])


def test_a_click_leads_from_the_overview_to_a_queue_and_from_there_to_a_job():
    by_uid = {dashboard["uid"]: name for name, dashboard in DASHBOARDS.items()}
    lead = set()
    for name in DASHBOARDS:
        for panel in panels(name):
            for link in panel["fieldConfig"]["defaults"].get("links", []):
                address = urlsplit(link["url"])
                kept = "var-datasource=${datasource}&var-job=${job}&", "&${__url_time_range}"
                assert all(part in address.query for part in kept), panel["title"]
                there = by_uid[address.path.removeprefix("/d/")]
                for key, value in parse_qsl(address.query.replace("&${__url_time_range}", "")):
                    assert key.removeprefix("var-") in variables(there)
                    label = re.fullmatch(r"\$\{__(?:field\.labels|data\.fields)\.(\w+)\}", value)
                    if label:  # labels in the link have to be labels of the plotted lines
                        grouped = re.compile(rf"by \([^)]*\b{label[1]}\b")
                        assert all(grouped.search(target["expr"]) for target in panel["targets"])
                lead.add((name, there))
    assert {("overview", "queues"), ("queues", "job"), ("overview", "job"), ("job", "queues")} <= lead
    assert {("overview", "shards"), ("shards", "job")} <= lead


def test_every_alert_has_a_severity_and_a_next_step():
    alerts = [rule for rule in rules() if "alert" in rule]
    for rule in alerts:
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["for"]
    tested = (RULES / "offsider.rules.test.yml").read_text()
    assert all(tested.count(f"alertname: {rule['alert']}") >= 2 for rule in alerts)


def test_the_zone_of_a_well_used_shard_is_the_same_everywhere():
    low, high = ZONE
    zoned = [
        panel["fieldConfig"]["defaults"]["thresholds"]["steps"]
        for name in DASHBOARDS
        for panel in panels(name)
        if "thresholdsStyle" in panel["fieldConfig"]["defaults"].get("custom", {})
    ]
    assert len(zoned) == 2
    assert all([step["value"] for step in steps] == [None, low, high] for steps in zoned)
    (overused,) = [rule for rule in rules() if rule.get("alert") == "OffsiderShardOverused"]
    assert overused["expr"].count(f"> {high}") == 2


def test_metrics_used_by_autoscalers_are_in_a_scrape(reported):
    [scaled] = yaml.safe_load_all((KUBERNETES / "keda.yaml").read_text())
    autoscaler, adapter = yaml.safe_load_all((KUBERNETES / "hpa.yaml").read_text())
    [trigger] = scaled["spec"]["triggers"]
    [rule] = yaml.safe_load(adapter["data"]["config.yaml"])["externalRules"]
    metric = autoscaler["spec"]["metrics"][0]["external"]["metric"]
    asked = {metric["name"], rule["seriesQuery"], *METRIC.findall(trigger["metadata"]["query"])}
    assert asked == {"sidekiq_shard_desired_replicas"}
    assert asked <= reported


def test_autoscalers_have_the_same_bounds():
    [scaled] = yaml.safe_load_all((KUBERNETES / "keda.yaml").read_text())
    autoscaler, _ = yaml.safe_load_all((KUBERNETES / "hpa.yaml").read_text())
    keda, hpa = scaled["spec"], autoscaler["spec"]
    assert (keda["minReplicaCount"], keda["maxReplicaCount"]) == (hpa["minReplicas"], hpa["maxReplicas"]) == (1, 20)
    # The number is that of the pods, and not something that each of them has a share of.
    assert (keda["triggers"][0]["metadata"]["threshold"], keda["triggers"][0]["metricType"]) == ("1", "AverageValue")
    assert hpa["metrics"][0]["external"]["target"] == {"type": "AverageValue", "averageValue": "1"}
    assert keda["advanced"]["horizontalPodAutoscalerConfig"]["behavior"] == hpa["behavior"]


def test_the_scrape_asks_where_the_pages_are_by_default():
    (scrape,) = yaml.safe_load((RULES / "prometheus.yml").read_text())["scrape_configs"]
    assert scrape["static_configs"] == [{"targets": [f"127.0.0.1:{PORT}"]}]
    assert scrape["job_name"] in next(rule["expr"] for rule in rules() if rule.get("alert") == "OffsiderScrapeFails")


@pytest.mark.needs("promtool")
@pytest.mark.parametrize(
    "words",
    ["check rules offsider.rules.yml", "check config prometheus.yml", "test rules offsider.rules.test.yml"],
)
def test_prometheus_finds_nothing_wrong_with_the_rules(words):
    promtool = shutil.which("promtool")
    ended = subprocess.run([promtool, *words.split()], cwd=RULES, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.needs("promtool")
def test_prometheus_finds_nothing_wrong_with_a_scrape(scrape):
    promtool = shutil.which("promtool")
    ended = subprocess.run([promtool, "check", "metrics"], input=scrape, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout + ended.stderr) == (0, "")


def test_the_page_names_every_metric_and_every_alert(reported):
    page = (ROOT / "docs" / "monitoring.md").read_text()
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in reported}
    assert [name for name in families if f"`{name}`" not in page] == []
    assert [rule["alert"] for rule in rules() if "alert" in rule and f"`{rule['alert']}`" not in page] == []
