"""The command that starts a missing worker fits the configuration."""

import os
import subprocess
import sys

import pytest

from offsider.config.config import Config
from offsider.config.installation import Installation
from offsider.inspector.findings.data_checks import worker_command


@pytest.fixture
def fleet(tmp_path):
    path = tmp_path / "offsider.toml"
    path.write_text("""
        [servers.bulk]
        url = "redis://bulk"
        [servers.empty]
        url = "redis://empty"
        [shards.urgent]
        queues = ["urgent,2", "mails"]
        [shards.rest]
        queues = ["*"]
        server = "bulk"
        [shards.heavy]
        select = "resource_boundary=memory"
    """)
    return Config.load(path, environ={})


def test_without_shards_it_names_the_queue_alone():
    assert worker_command(Installation.of(Config())) == "offsider worker -r YOUR_MODULE"
    assert worker_command(Installation.of(Config()), "mails") == "offsider worker -r YOUR_MODULE -q mails"


def test_it_names_the_shard_that_serves_the_queue(fleet):
    assert worker_command(Installation.of(fleet)) == "offsider worker -r YOUR_MODULE --shard urgent"
    assert worker_command(Installation.of(fleet), "mails") == "offsider worker -r YOUR_MODULE --shard urgent"
    assert worker_command(Installation.of(fleet), "other") == "offsider worker -r YOUR_MODULE -q other"
    assert worker_command(Installation.of(fleet, "bulk"), "any") == "offsider worker -r YOUR_MODULE --shard rest"


def test_every_queue_that_waits_has_its_worker(fleet):
    assert worker_command(Installation.of(Config()), "a", "b") == "offsider worker -r YOUR_MODULE -q a -q b"


def test_a_worker_of_another_server_needs_a_shard(fleet):
    missing = 'offsider worker -r YOUR_MODULE --shard NAME, with server = "empty" in [shards.NAME]'
    assert worker_command(Installation.of(fleet, "empty")) == missing


def test_an_unserved_queue_of_another_server_is_named_with_its_shard(tmp_path):
    path = tmp_path / "offsider.toml"
    path.write_text('[servers.bulk]\nurl = "redis://bulk"\n[shards.b]\nqueues = ["b"]\nserver = "bulk"')
    config = Installation.of(Config.load(path, environ={}), "bulk")
    assert worker_command(config, "other") == "offsider worker -r YOUR_MODULE --shard b -q other"


def test_in_a_project_of_django_it_is_a_command_of_manage_py(tmp_path):
    pytest.importorskip("django")
    (tmp_path / "settings.py").write_text('INSTALLED_APPS = ["offsider.django"]')
    asked = "from offsider.config.config import Config; from offsider.config.installation import Installation; "
    asked += "from offsider.inspector.findings.data_checks import worker_command; "
    asked += "print(worker_command(Installation.of(Config()), 'mails'))"
    ended = subprocess.run(
        [sys.executable, "-c", asked],
        cwd=tmp_path,
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "settings"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stdout == "python manage.py offsider worker -q mails\n"
