"""Loading an application for its declarations."""

import sys

import pytest

from offsider.cli.command import ConnectionOptions
from offsider.config import default
from offsider.config.default import default_config, set_default_config
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.jobs import registry

DECLARING = """\
from offsider import job

@job(name="declared"{options})
def declared(): ...

def configure(config):
    config.worker.tag = "configured"
"""


@pytest.fixture(autouse=True)
def as_before(monkeypatch):
    """What is loaded is forgotten, and the process has the configuration that it had."""
    modules, path, worker = set(sys.modules), list(sys.path), default._worker
    before = set_default_config(None)
    monkeypatch.setattr(registry, "_jobs", {})
    yield
    set_default_config(before)
    monkeypatch.setattr(default, "_worker", worker)
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def written(folder, options=""):
    file = folder / "declares_jobs.py"
    file.write_text(DECLARING.format(options=options))
    return str(file)


def test_the_jobs_are_registered_and_the_application_has_configured_the_process(tmp_path):
    config = ConnectionOptions(None, "production", require=(written(tmp_path),)).load_declarations()
    assert registry.names() == {"declared"}
    assert (config.worker.tag, config.worker.environment) == ("configured", "production")
    assert default_config() is config


def test_an_impossible_declaration_is_an_error(tmp_path):
    with pytest.raises(InvalidOptions, match="declared: urgency must be one of"):
        ConnectionOptions(require=(written(tmp_path, ', urgency="urgent"'),)).load_declarations()


@pytest.mark.parametrize(
    "options, rules, message",
    [
        (', server="typo"', "[]", "declared: there is no server 'typo'"),
        ("", '[["name=none", "q", "blk"]]', r"rule 1: there is no server 'blk' \(did you mean 'bulk'"),
    ],
)
def test_an_unknown_server_in_jobs_or_rules_is_refused(tmp_path, options, rules, message):
    file = tmp_path / "offsider.toml"
    file.write_text(f'servers.bulk.url = "redis://bulk"\nrouting.rules = {rules}\n')
    with pytest.raises(ConfigurationError, match=message):
        ConnectionOptions(str(file), require=(written(tmp_path, options),)).load_declarations()
