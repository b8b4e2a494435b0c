"""The reference pages match the code."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from offsider.cli.main import COMMANDS
from offsider.config import loading
from offsider.config.settings import every_setting
from offsider.core.options import JobDeclaration

ROOT = Path(__file__).parents[2]


@pytest.fixture
def writer():
    spec = importlib.util.spec_from_file_location("write_reference", ROOT / "scripts" / "write_reference.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(writer):
    assert [path.name for path, _ in writer.outdated()] == [], "run: python3 dev.py docs"


def test_every_setting_is_on_the_page():
    page = (ROOT / "docs" / "configuration.md").read_text()
    assert [setting.path for setting in every_setting() if f"| `{setting.key}` |" not in page] == []


def test_every_variable_of_a_default_option_is_on_the_page():
    page = (ROOT / "docs" / "configuration.md").read_text()
    [named] = re.findall(r"Default options of jobs are read from (.*?)\. ", page, re.DOTALL)
    listed = {f"OFFSIDER_JOBS{end}" for end in re.findall(r"`(?:OFFSIDER_JOBS)?(_\w+)`", named)}
    assert sorted(loading._OPTION_VARIABLES) == sorted(listed)


def test_the_settings_shown_first_exist_with_these_defaults():
    page = (ROOT / "docs" / "configuration.md").read_text()
    first = page.partition("## The ten settings you will touch")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([a-z_.]+)` \| (?:none|`([^`]*)`) \|", first, re.MULTILINE)
    defaults = {setting.path: setting.default for setting in every_setting()}
    assert len(rows) == 10
    for path, shown in rows:
        default = defaults[path]
        written = f"{default:g}" if isinstance(default, float) else str(default)
        assert shown == ("" if default in {"", ()} else written), path


def test_every_option_of_a_job_has_a_row_on_the_page():
    rows = re.findall(r"^\| (`[^|]*`) \|", (ROOT / "docs" / "jobs.md").read_text(), re.MULTILINE)
    listed = re.findall(r"`(\w+)`", " ".join(rows))
    assert sorted(set(JobDeclaration.__annotations__) - set(listed)) == []
    assert len(JobDeclaration.__annotations__) > 30


def test_every_word_is_on_the_page():
    page = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert [word for word in COMMANDS if f"## `offsider {word}`" not in page] == []


def test_a_part_that_the_code_does_not_have_is_an_error(writer):
    page = "<!-- settings of nothing: written by `python3 dev.py docs` -->\n<!-- end -->"
    with pytest.raises(KeyError):
        writer.updated(page, writer.parts())


def test_writing_again_changes_nothing(writer):
    written = {"a": "text"}
    page = writer.updated("x\n<!-- a: written by `python3 dev.py docs` -->\nold\n<!-- end -->\ny", written)
    assert "old" not in page
    assert "text" in page
    assert writer.updated(page, written) == page
