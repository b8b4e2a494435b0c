"""What was removed ends with one message that names its replacement, whichever way it is used."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from offsider import job
from offsider.cli.main import main
from offsider.config.config import Config
from offsider.core import removed
from offsider.core.errors import ConfigurationError, InvalidOptions
from offsider.jobs import registry


@pytest.fixture(autouse=True)
def examples(monkeypatch):
    """Entries that always exist."""
    monkeypatch.setitem(removed.SETTINGS, "worker.example", "use worker.other")
    monkeypatch.setitem(removed.SETTINGS, "servers.NAME.example", "use redis.other")
    monkeypatch.setitem(removed.JOB_OPTIONS, "example", "use other")
    monkeypatch.setitem(removed.COMMANDS, "queues example", "run `offsider queues other`")
    monkeypatch.setitem(removed.COMMAND_OPTIONS, "worker --example", "use --other")
    monkeypatch.setitem(removed.LOG_FORMATS, "example", "use text")


def refused(use, kind, name, instead, error=ConfigurationError):
    with pytest.raises(error) as caught:
        use()
    assert f"the {kind} {name} was removed: {instead}" in str(caught.value)


def test_settings(tmp_path):
    for path, instead in removed.SETTINGS.items():
        name = path.replace("NAME", "other")
        section, _, key = name.rpartition(".")
        file = tmp_path / "offsider.toml"
        ways = [(f"[{section}]\n{key} = 1", {})]
        if section != "servers.other" and not section.startswith(("shards", "capsules")):
            ways += [(f"{key} = 1", {}), ("", {f"OFFSIDER_{section}_{key}".upper(): "1"})]
            refused(lambda key=key: Config.load(environ={}, cwd=tmp_path, overrides={key: 1}), "setting", name, instead)
            refused(lambda at=(section, key): setattr(getattr(Config(), at[0]), at[1], 1), "setting", name, instead)
        for text, environ in ways:
            file.write_text(text)
            refused(lambda environ=environ: Config.load(environ=environ, cwd=tmp_path), "setting", name, instead)
        file.unlink()


def test_job_options():
    for name, instead in removed.JOB_OPTIONS.items():
        with registry.isolated():

            @job(**{name: 1})
            def declared():
                pass

        refused(declared.enqueue, "option", name, instead, InvalidOptions)
        refused(lambda name=name: Config().jobs.update({name: 1}), "option", name, instead)


def test_commands():
    for name, instead in removed.COMMANDS.items():
        result = CliRunner().invoke(main, name.split())
        assert result.exit_code == 2
        assert f"the command {name} was removed: {instead}" in result.output


@pytest.mark.parametrize("value", [[], ["1"]])
def test_options_of_commands(value):
    for name, instead in removed.COMMAND_OPTIONS.items():
        command, _, option = name.rpartition(" ")
        result = CliRunner().invoke(main, [*command.split(), "-r", "app", option, *value])
        assert result.exit_code == 2
        assert f"the command option {name} was removed: {instead}" in result.output


def test_log_formats():
    for name, instead in removed.LOG_FORMATS.items():
        refused(lambda name=name: setattr(Config().log, "format", name), "log format", name, instead)
