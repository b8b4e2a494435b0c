"""The version of the application: the variable, or the commit read from git's own files."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from offsider import Config
from offsider.config import app_version as module
from offsider.config.app_version import app_version, commit_of

HEAD = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def repository(tmp_path) -> Path:
    """A checkout as `git init` and one commit leave it."""
    git = tmp_path / ".git"
    (git / "refs" / "heads").mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "refs" / "heads" / "main").write_text(f"{HEAD}\n")
    return tmp_path


@pytest.fixture(autouse=True)
def nothing_known_yet():
    module._of_current_folder.cache_clear()
    yield
    module._of_current_folder.cache_clear()


def test_the_variable_sets_the_version_and_empty_means_none():
    assert (app_version("2.14"), app_version("")) == ("2.14", "")


def test_the_version_defaults_to_the_commit_which_is_read_once(repository, monkeypatch):
    monkeypatch.chdir(repository)
    assert app_version(Config().client.app_version) == HEAD[:10]
    shutil.rmtree(repository / ".git")
    assert app_version(Config().client.app_version) == HEAD[:10]


def test_a_deleted_folder_has_no_version(tmp_path, monkeypatch):
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert app_version(Config().client.app_version) == ""


def test_the_commit_is_found_in_the_folders_above(repository):
    below = repository / "src" / "shop"
    below.mkdir(parents=True)
    assert commit_of(below) == HEAD[:10]
    assert commit_of(Path("/")) == ""


def test_a_detached_head_is_the_commit_itself(repository):
    (repository / ".git" / "HEAD").write_text(f"{HEAD}\n")
    assert commit_of(repository) == HEAD[:10]


def test_a_branch_may_be_packed(repository):
    (repository / ".git" / "refs" / "heads" / "main").unlink()
    packed = repository / ".git" / "packed-refs"
    packed.write_text(f"# pack-refs with: peeled\n{'f' * 40} refs/heads/other\n{HEAD} refs/heads/main\n")
    assert commit_of(repository) == HEAD[:10]
    packed.write_text(f"{'f' * 40} refs/heads/other\n")
    assert commit_of(repository) == ""


def test_a_worktree_has_the_branches_of_its_repository(repository, tmp_path):
    own = repository / ".git" / "worktrees" / "fix"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/main\n")
    (own / "commondir").write_text("../..\n")
    worktree = tmp_path / "fix"
    worktree.mkdir()
    (worktree / ".git").write_text(f"gitdir: {own}\n")
    assert commit_of(worktree) == HEAD[:10]


@pytest.mark.parametrize("head", ["", "ref: refs/heads/none", "no hash", "ref: ../../etc", "\udcff"])
def test_an_unreadable_repository_has_no_version(repository, head):
    (repository / ".git" / "HEAD").write_bytes(head.encode("utf-8", "surrogateescape"))
    assert commit_of(repository) == ""


def test_the_version_equals_the_commit_that_git_reports():
    here = Path(__file__).parent
    output = subprocess.run(["git", "rev-parse", "HEAD"], cwd=here, capture_output=True, text=True, check=False)
    assert commit_of(here) == output.stdout.strip()[:10]
