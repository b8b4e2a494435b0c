"""Marks of deploys."""

from __future__ import annotations

import subprocess

import pytest

from offsider.core.errors import ConfigurationError
from offsider.inspector import Deploys, job_metrics


def test_a_deploy_is_marked_now_and_once(config):
    marks = Deploys(config)
    assert marks.mark("v1")
    assert not marks.mark("v1")
    now = config.clock.now()
    assert [mark.label for mark in marks.marks(now - 120, now)] == ["v1"]


def test_the_label_is_the_last_commit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    commit = ("commit", "-q", "--allow-empty", "-m", "Make it work")
    for words in (("init", "-q"), ("-c", "user.name=a", "-c", "user.email=a@b.invalid", *commit)):
        subprocess.run(("git", *words), check=True)
    short, _, subject = job_metrics.label_of_commit().partition(" ")
    assert (len(short) >= 7, subject) == (True, "Make it work")


def test_without_a_commit_a_label_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(ConfigurationError, match="pass a label"):
        job_metrics.label_of_commit()
