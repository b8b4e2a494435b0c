"""The current folder may be a link that moves, or removed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsider.cli.start_folder import leave_removed_folder, start_folder
from offsider.core.errors import ConfigurationError


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A release in which this process runs, and the link by which the shell entered it."""
    folder, link = tmp_path / "1", tmp_path / "current"
    folder.mkdir()
    link.symlink_to(folder)
    monkeypatch.chdir(link)
    return folder, link


@pytest.mark.parametrize("named", ["", "/", "relative", "/nowhere", "\0", "caf\udce9"])
def test_a_wrong_pwd_is_not_used(release, monkeypatch, named):
    if "\0" in named:
        monkeypatch.setattr(os, "environ", {"PWD": named})
    else:
        monkeypatch.setenv("PWD", named)
    assert start_folder() == str(release[0])


def test_pwd_names_the_link(release, monkeypatch):
    monkeypatch.setenv("PWD", str(release[1]))
    assert start_folder() == str(release[1])


def test_a_removed_folder_is_left_for_the_one_that_pwd_names_now(release, monkeypatch, tmp_path):
    folder, link = release
    monkeypatch.setenv("PWD", str(link))
    leave_removed_folder()
    assert Path.cwd() == folder
    folder.rmdir()
    with pytest.raises(ConfigurationError, match=r"current folder .*/current has been removed: change into"):
        leave_removed_folder()
    (tmp_path / "2").mkdir()
    link.unlink()
    link.symlink_to(tmp_path / "2")
    leave_removed_folder()
    assert Path.cwd() == tmp_path / "2"
