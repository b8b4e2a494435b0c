"""From options to a worker that could start."""

from __future__ import annotations

import json
import logging
import os
import sys

import pytest

from offsider.cli.options import WorkerOptions, configured
from offsider.cli.run_worker import check, load
from offsider.config import test_mode
from offsider.config.default import default_config, set_default_config
from offsider.core.errors import ConfigurationError
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    """An own folder; restores loggers, the default configuration and modules."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    logger = logging.getLogger("offsider")
    before = (logger.handlers[:], logger.level, logger.propagate)
    modules = set(sys.modules)
    previous = set_default_config(None)
    yield
    set_default_config(previous)
    logger.handlers[:], logger.propagate = before[0], before[2]
    logger.setLevel(before[1])
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_handlers_of_the_application_get_the_job(embedded_url, tmp_path, monkeypatch):
    monkeypatch.setenv("REDIS_URL", embedded_url)
    monkeypatch.setattr(logging.root, "handlers", [handler := logging.NullHandler()])
    (tmp_path / "logapp.py").write_text("from offsider import job\n@job\ndef known(): ...\n")
    with registry.isolated():
        check(load(WorkerOptions(require=("logapp",))))
    assert [type(each).__name__ for each in handler.filters] == ["JobFieldsFilter"]


def test_boot_loads_configures_and_checks(redis_url, raw_redis, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("REDIS_URL", redis_url)
    monkeypatch.setenv("OFFSIDER_WORKER_CONCURENCY", "3")
    raw_redis.lpush("queue:default", b'{"class":"Gone","args":[]}')
    (tmp_path / "bootapp.py").write_text(
        "from offsider import job\n@job\ndef known(): ...\ndef configure(config):\n    config.log.format = 'json'\n"
    )
    with registry.isolated():
        config = load(WorkerOptions(require=("bootapp",)))
        check(config)
    assert config.log.format == "json"
    assert default_config() is config
    lines = capsys.readouterr().out.splitlines()
    greeting, odd, gone = [line for line in lines if "Cluster: hash tag" not in line]
    assert "environment development" in greeting
    assert json.loads(greeting)["severity"] == "INFO"
    assert "did you mean OFFSIDER_WORKER_CONCURRENCY?" in odd
    assert "unregistered names: Gone" in gone


def test_an_application_without_jobs_is_warned_about(tmp_path, monkeypatch):
    (tmp_path / "jobless.py").write_text("import sys\n")
    monkeypatch.setattr(registry, "_jobs", {})
    config = load(WorkerOptions(require=("jobless",)))
    assert config.warnings == [
        "the application declares no jobs: name the modules of your jobs with -r, or import them there"
    ]


def test_jobs_of_a_flask_application_without_an_app_are_warned_about(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "offsider.flask", raising=False)
    (tmp_path / "flaskless.py").write_text("import offsider.flask\nfrom offsider import job\njob(name='a')(print)\n")
    config = load(WorkerOptions(require=("flaskless",)))
    (warning,) = config.warnings
    assert "start the worker with flask --app MODULE offsider worker" in warning


def test_a_push_while_the_application_is_loaded_is_warned_about(tmp_path, capsys):
    (tmp_path / "pushing.py").write_text("from offsider import job\n@job\ndef greet(): ...\ngreet.enqueue()\n")
    pushed = []
    with registry.isolated(), test_mode.diverted(pushed.extend):
        load(WorkerOptions(require=("pushing",)))
        sys.modules["pushing"].greet.enqueue()
    assert len(pushed) == 2
    (warning,) = capsys.readouterr().out.splitlines()
    assert "pushing.greet was pushed while the application was loaded" in warning
    assert "below `if __name__ ==" in warning


def test_the_tag_is_the_folders_name(tmp_path):
    assert configured(WorkerOptions(require=("x",))).worker.tag == tmp_path.name
    assert configured(WorkerOptions(require=("x",), tag="blue")).worker.tag == "blue"


def test_an_application_is_needed(tmp_path):
    with pytest.raises(ConfigurationError, match="no application given"):
        configured(WorkerOptions())
    (tmp_path / "offsider.toml").write_text("require = ['x']")
    assert configured(WorkerOptions()).worker.require == ("x",)


def test_windows_is_for_clients(monkeypatch):
    monkeypatch.setattr(os, "name", "nt")
    with pytest.raises(ConfigurationError, match="needs a POSIX system"):
        configured(WorkerOptions(require=("x",)))
