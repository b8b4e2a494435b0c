"""Revisions of a repository are compared by their applications, which are loaded apart from the checkout."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from offsider.cli import jobs_diff as revision
from offsider.cli.command import Connection
from offsider.core.errors import ConfigurationError
from tests.process.cli.commands import SHOP, offsider


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    subprocess.run(("git", *identity, *words), cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path) -> Path:
    """Two releases, tagged ``1`` and ``2``; the application is in a subfolder of the repository."""
    app = tmp_path / "backend"
    app.mkdir()
    git(tmp_path, "init", "-q", "-b", "main")
    (app / "offsider.toml").write_text('[worker]\nrequire = "shop"\n')
    for release, text in (("1", SHOP), ("2", SHOP.replace("path: str", "path: str, width: int"))):
        (app / "shop.py").write_text(f'import atexit\natexit.register(print, "bye")\nprint("loaded")\n{text}')
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", release)
        git(tmp_path, "tag", release)
    return app


def test_two_revisions_are_compared_and_the_checkout_is_unchanged(repository):
    (repository / "shop.py").write_text("raise SystemExit('not loaded')\n")
    ended = offsider(repository, "jobs", "diff", "1", "2")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines()[0] == "UNSAFE  shop.resize"
    assert ended.stdout.splitlines()[-1] == "1 unsafe change"
    same = offsider(repository, "jobs", "diff", "2", "HEAD", "-r", "shop")
    assert (same.returncode, same.stdout) == (0, "0 unsafe changes\n")
    assert not (repository.parent / ".git" / "worktrees").exists()


def test_a_revision_is_compared_with_the_working_folder(repository):
    (repository / "shop.py").write_text(SHOP.replace("def welcome", "def hello"))
    ended = offsider(repository, "jobs", "diff", "2")
    assert "UNSAFE  shop.welcome\n        old: (user_id: int)\n        new: none\n" in ended.stdout
    assert "UNSAFE  shop.resize\n        old: (path: str, width: int)\n        new: (path: str)\n" in ended.stdout


def test_an_application_in_src_is_that_of_the_revision(tmp_path):
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "shop.py").write_text(SHOP)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", "1")
    (tmp_path / "src" / "shop.py").write_text(SHOP.replace("path: str", "path: str, width: int"))
    ended = offsider(tmp_path, "jobs", "diff", "HEAD", "-r", "shop", PYTHONPATH=str(tmp_path / "src"))
    assert "jobs may be stored without width, which is required" in ended.stdout, ended.stderr


def test_an_application_that_is_found_elsewhere_is_refused(repository, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("installed")
    file = elsewhere / "installed_shop.py"
    file.write_text(SHOP)
    for name in ("installed_shop", str(file)):
        ended = offsider(repository, "jobs", "diff", "1", "2", "-r", name, PYTHONPATH=str(elsewhere))
        assert ended.returncode == 1
        assert f"{name} was found in {file}; compare files of `offsider jobs manifest`" in ended.stderr


def test_a_revision_that_cannot_be_loaded_is_a_message(repository):
    git(repository, "rm", "-q", "-r", ".")
    git(repository.parent, "commit", "-q", "-m", "3")
    repository.mkdir(exist_ok=True)
    for words, complaint in {
        ("nothing", "2"): "nothing is not a manifest file, and cannot be loaded as a git revision: fatal: not a valid",
        ("--", "--output=x", "2"): "cannot be loaded as a git revision: fatal: not a valid",
        (
            "1",
            "HEAD",
        ): "HEAD is not a manifest file, and cannot be loaded as a git revision: fatal: current working dir",
        ("1", "2", "-r", "none"): "1 is not a manifest file, and cannot be loaded as a git revision: cannot load none",
    }.items():
        ended = offsider(repository, "jobs", "diff", *words)
        assert ended.returncode == 1
        assert complaint in ended.stderr, ended.stderr
        assert "Traceback" not in ended.stderr


def test_an_application_that_hangs_while_loading_is_a_message(repository, monkeypatch):
    monkeypatch.chdir(repository)
    monkeypatch.setattr(revision, "TIMEOUT_SECONDS", 0.001)
    with pytest.raises(ConfigurationError, match=r"timed out after 0\.001 seconds"):
        revision.manifest_of_revision("1", Connection(require=("shop",)))
