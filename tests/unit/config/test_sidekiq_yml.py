"""Sidekiq's own configuration file."""

from __future__ import annotations

import sys
from textwrap import dedent

import pytest

from offsider.config.config import Config
from offsider.core.errors import ConfigurationError

pytest.importorskip("yaml")


@pytest.fixture
def load(tmp_path):
    def load(text, **environ):
        file = tmp_path / "config" / "sidekiq.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(dedent(text))
        return Config.load(environ=environ, cwd=tmp_path)

    return load


SAMPLE = """
    # a usual one; a comment may mention <%= ERB %>
    :concurrency: 5
    :timeout: 30
    :verbose: true
    :pidfile: tmp/pids/sidekiq.pid
    :max_retries: 10
    :queues:
      - [critical, 2]
      - default
      - :low
    :capsules:
      :single:
        :concurrency: 1
        :queues: [exports]
    production:
      :concurrency: 25
      :queues: [[critical, 5], [default, 1]]
    staging:
      :concurrency: 10
      :verbose: false
"""


def test_symbols_capsules_and_verbose(load):
    config = load(SAMPLE)
    assert (config.worker.concurrency, config.worker.timeout_seconds, config.worker.max_retries) == (5, 30.0, 10)
    assert config.worker.queues == ("critical,2", "default", "low")
    assert config.log.level == "debug"
    assert (config.capsules["single"].concurrency, config.capsules["single"].queues) == (1, ["exports"])
    assert config.file.name == "sidekiq.yml"


@pytest.mark.parametrize("written, address", [("7433", "127.0.0.1:7433"), ("0.0.0.0:7433", "0.0.0.0:7433")])
def test_the_health_check_of_sidekiq_enterprise_is_supported(load, written, address):
    assert load(f"health_check: {written}\n").worker.health == address


def test_the_keys_of_the_environment_override_the_rest(load):
    config = load(SAMPLE, APP_ENV="production")
    assert config.worker.concurrency == 25
    assert config.worker.queues == ("critical,5", "default,1")
    assert load(SAMPLE, APP_ENV="staging").worker.concurrency == 10


def test_irrelevant_keys_are_ignored_with_a_note(load):
    [note] = load(SAMPLE).warnings
    assert "offsider has no setting pidfile" in note


def test_our_own_sections_are_allowed(load):
    assert load("redis:\n  url: redis://host\nenvironments:\n  test:\n    tag: x", APP_ENV="test").worker.tag == "x"


@pytest.mark.parametrize("text", ["", "# nothing", "---"])
def test_an_empty_file_sets_nothing(load, text):
    assert load(text).worker.concurrency == 5


def test_erb_is_refused_with_its_line(load):
    with pytest.raises(ConfigurationError, match=r"sidekiq\.yml:3: ERB .* write \$\{VARIABLE\}"):
        load("\n\n:concurrency: <%= ENV['X'] || 5 %>\n".replace("    ", ""))


@pytest.mark.parametrize(
    "text, message",
    [
        (":queues: [a, [b", r"sidekiq\.yml:\d: not valid YAML"),
        ("!ruby/object:Foo {}", "not valid YAML"),
        ("- a\n- b", "expects keys such as :concurrency:"),
        (":capsule:\n  x:\n    concurrency: 1", r"no section capsule \(did you mean 'capsules'\?\)"),
        (":capsules:\n  x:", r"capsules\.x expects a table"),
        ("production:\n  :concurency: 5", "no setting concurency"),
    ],
)
def test_errors_name_the_wrong_value(load, text, message):
    with pytest.raises(ConfigurationError, match=message):
        load(text)


def test_without_pyyaml_the_error_names_the_package_to_install(load, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(ConfigurationError, match=r'pip install "offsider\[yaml\]"'):
        load(":concurrency: 5")
