"""Workers, `offsider web` and a real Prometheus: every panel of every dashboard has something to show."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

import pytest
import yaml

from offsider.client import Client
from offsider.embedded.folder import free_port
from tests.waiting import wait_for

DEPLOY = Path(__file__).parents[3] / "deploy"
#: What Grafana would put in the place of its variables.
VARIABLES = {"$__rate_interval": "20s", "$__range": "1m", "$job": "offsider", "$queue": ".*", "$class": ".*"}
VARIABLES["$shard"] = ".*"
SHARDS = """
[shards.urgent]
queues = ["default"]
"""
APP = """
import time
from offsider import job

@job(name="Works", retry=False, urgency="high", feature_category="tests")
def works(): ...

@job(name="Fails", retry=3)
def fails():
    raise LookupError("gone")

@job(name="Waits", retry=False)
def waits():
    time.sleep(600)
"""


class Prometheus:
    """A server that scrapes one address every second, below a folder of its own."""

    def __init__(self, folder: Path, target: str) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
        config["rule_files"] = [str(DEPLOY / "prometheus" / "offsider.rules.yml")]
        (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        self.url = f"http://127.0.0.1:{free_port()}"
        self._log = folder / "prometheus.log"
        program = shutil.which("prometheus")
        assert program
        command = [program, f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'series'}"]
        with self._log.open("wb") as output:
            listen = f"--web.listen-address={self.url.removeprefix('http://')}"
            self.process = subprocess.Popen([*command, listen], stdout=output, stderr=subprocess.STDOUT)
        wait_for(self._is_ready, 40, "Prometheus starts")

    def get(self, path: str) -> object:
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list:
        return self.get(f"query?query={quote(expression)}")["result"]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()

    def _is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()  # CPython 3.14 warns if it is not closed
            assert self.process.poll() is None, self._log.read_text()
            return False


@pytest.fixture
def prometheus(web, tmp_path):
    prometheus = Prometheus(tmp_path, web.url.removeprefix("http://"))
    yield prometheus
    prometheus.close()


@pytest.fixture
def push(config):
    client = Client(config)
    return lambda name, queue="default": client.push({"class": name, "args": [], "queue": queue})


def queries() -> dict[tuple[str, str, str], str]:
    """(dashboard, panel, query) -> the expression as Grafana would send it."""
    found = {}
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel.get("targets", []):
                expression = target["expr"]
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                assert "$" not in expression
                found[path.stem, panel["title"], target["expr"]] = expression
    return found


def has_data(result: list) -> bool:
    return any(sample["value"][1] != "NaN" for sample in result)


@pytest.mark.needs("promtool")
def test_panels_variables_and_rules_have_data_of_a_real_scrape(workers, prometheus, push, stored):
    for name in ("Works", "Fails", "Waits"):
        push(name)
    app = workers.write(APP)
    workers.write(SHARDS, "offsider.toml")
    workers.start("-c", "2", "--shard", "urgent", app=app)
    wait_for(lambda: stored.zcard("retry") == 1)
    last = workers.start("-c", "1", "--shard", "urgent", app=app)  # a stopped worker has written its counts to Redis
    for name in ("Works", "Fails"):
        push(name)
    push("Works", queue="nowhere")
    wait_for(lambda: stored.zcard("retry") == 2)
    last.stopped()
    check_panels(prometheus)
    check_variables(prometheus)
    check_rules(prometheus)
    check_autoscalers(prometheus)


def check_panels(prometheus: Prometheus) -> None:
    empty = dict(queries())

    def all_have_data() -> bool:
        for key, expression in list(empty.items()):
            if has_data(prometheus.query(expression)):
                del empty[key]
        return not empty

    try:
        wait_for(all_have_data, 60)
    except AssertionError:
        raise AssertionError(f"these show nothing: {sorted(empty)}") from None


def check_variables(prometheus: Prometheus) -> None:
    found = {}
    for path in sorted((DEPLOY / "grafana").glob("*.json")):
        for variable in json.loads(path.read_text())["templating"]["list"]:
            if variable["type"] == "query":
                metric, label = re.fullmatch(r"label_values\((.+), (\w+)\)", variable["definition"]).groups()
                selector = quote(metric.replace("$job", "offsider"))
                found[variable["name"]] = prometheus.get(f"label/{label}/values?match[]={selector}")
    queues, classes = ["default", "nowhere"], ["Fails", "Works"]
    assert found == {"job": ["offsider"], "queue": queues, "class": classes, "shard": ["urgent"]}


def check_rules(prometheus: Prometheus) -> None:
    # The first evaluation may have come before the first scrape, or not yet.
    wait_for(lambda: "OffsiderQueueWithoutProcess" in str(prometheus.get("alerts")))
    wait_for(lambda: "'health': 'unknown'" not in str(prometheus.get("rules")))
    rules = [rule for group in prometheus.get("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}, [rule.get("lastError") for rule in rules]
    raised = {alert["labels"]["alertname"]: alert["labels"] for alert in prometheus.get("alerts")["alerts"]}
    assert raised.pop("OffsiderQueueWithoutProcess")["name"] == "nowhere"
    assert "OffsiderNoProcess" not in raised


def check_autoscalers(prometheus: Prometheus) -> None:
    """What KEDA and the adapter of the HPA would ask is one number: how many processes the shard should have."""
    [scaled] = yaml.safe_load_all((DEPLOY / "kubernetes" / "keda.yaml").read_text())
    autoscaler, adapter = yaml.safe_load_all((DEPLOY / "kubernetes" / "hpa.yaml").read_text())
    [rule] = yaml.safe_load(adapter["data"]["config.yaml"])["externalRules"]
    metric = autoscaler["spec"]["metrics"][0]["external"]["metric"]
    matchers = ",".join(f'{name}="{value}"' for name, value in metric["selector"]["matchLabels"].items())
    asked = rule["metricsQuery"].replace("<<.Series>>", metric["name"]).replace("<<.LabelMatchers>>", matchers)
    for query in (scaled["spec"]["triggers"][0]["metadata"]["query"], asked):
        [sample] = prometheus.query(query)
        assert int(sample["value"][1]) >= 1
