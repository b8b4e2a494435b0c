"""The options that select a server."""

from __future__ import annotations

import click
from click.testing import CliRunner

from offsider.cli.command import CONNECTION, command, server


@command(*CONNECTION, server())
def show(connection):
    click.echo(connection.installation().settings.url)


def test_the_file_and_its_environment_are_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(
        '[redis]\nurl = "redis://one"\n[environments.staging.redis]\nurl = "redis://two"\n'
    )
    assert CliRunner().invoke(show, ["-C", "own.toml"]).output == "redis://one\n"
    assert CliRunner().invoke(show, ["-C", "own.toml", "-e", "staging"]).output == "redis://two\n"
    assert CliRunner().invoke(show, []).output == "redis://localhost:6379/0\n"


def test_one_of_several_servers_is_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offsider.toml").write_text('[redis]\nurl = "redis://one"\n[servers.bulk]\nurl = "redis://two"\n')
    assert CliRunner().invoke(show, ["--server", "bulk"]).output == "redis://two\n"
    assert CliRunner().invoke(show, ["--server", "main"]).output == "redis://one\n"
    failed = CliRunner().invoke(show, ["--server", "bulky"])
    assert str(failed.exception).startswith("there is no server 'bulky' (did you mean 'bulk'?)")
