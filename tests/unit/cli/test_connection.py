"""The options that say which server a word looks at."""

from __future__ import annotations

import click
from click.testing import CliRunner

from offsider.cli.connection import connection_options, load


@click.command
@connection_options
def show(config, environment):
    click.echo(load(config, environment).redis.url)


def test_the_file_and_its_environment_are_chosen(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.toml").write_text(
        '[redis]\nurl = "redis://one"\n[environments.staging.redis]\nurl = "redis://two"\n'
    )
    assert CliRunner().invoke(show, ["-C", "own.toml"]).output == "redis://one\n"
    assert CliRunner().invoke(show, ["-C", "own.toml", "-e", "staging"]).output == "redis://two\n"
    assert CliRunner().invoke(show, []).output == "redis://localhost:6379/0\n"
