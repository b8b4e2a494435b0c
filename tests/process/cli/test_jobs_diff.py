"""``offsider jobs diff``: CI fails when a release cannot run stored jobs, and shows both signatures and the reason."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from offsider.cli import jobs_diff as revision
from offsider.cli.command import ConnectionOptions
from offsider.core.errors import ConfigurationError
from offsider.core.payload import encode
from offsider.fleet.manifest import GUIDE
from tests.process.cli.commands import SHOP, offsider


@pytest.fixture
def releases(tmp_path) -> Path:
    """Manifests ``old.json`` and ``new.json``, and the application of the new release."""
    shop = tmp_path / "shop.py"
    shop.write_text(SHOP)
    offsider(tmp_path, "jobs", "manifest", "-r", "shop", "-o", "old.json")
    shop.write_text(
        SHOP.replace("path: str", "path: str, width: int")
        .replace("def welcome", "def hello")
        .replace('queue="low"', 'queue="reports"')
    )
    offsider(tmp_path, "jobs", "manifest", "-r", "shop", "-o", "new.json")
    return tmp_path


def test_unsafe_changes_are_shown_with_both_signatures_and_exit_with_1(releases):
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json")
    assert ended.returncode == 1, ended.stderr
    assert ended.stdout.splitlines() == [
        "UNSAFE  shop.resize",
        "        old: (path: str)",
        "        new: (path: str, width: int)",
        f"        jobs may be stored without width, which is required; see {GUIDE}",
        "UNSAFE  shop.welcome",
        "        old: (user_id: int)",
        "        new: none",
        f"        no job of the new release has this name; see {GUIDE}",
        "2 unsafe changes",
    ]


def test_the_new_release_defaults_to_the_application_in_the_folder(releases):
    named = offsider(releases, "jobs", "diff", "old.json", "new.json")
    here = offsider(releases, "jobs", "diff", "old.json", "-r", "shop")
    assert (here.returncode, here.stdout) == (1, named.stdout)
    same = offsider(releases, "jobs", "diff", "new.json", "-r", "shop")
    assert (same.returncode, same.stdout) == (0, "0 unsafe changes\n")


def test_changes_of_some_jobs_can_be_allowed(releases):
    words = ("--allow", "shop.resize", "--allow", "shop.welcome")
    ended = offsider(releases, "jobs", "diff", "old.json", "new.json", *words)
    assert ended.returncode == 0
    lines = ended.stdout.splitlines()
    assert [line for line in lines if not line.startswith(" ")] == [
        "allowed shop.resize",
        "allowed shop.welcome",
        "0 unsafe changes, 2 allowed",
    ]


def test_stored_jobs_are_counted_and_a_change_that_affects_none_is_safe(releases, stored, url):
    def count():
        return offsider(releases, "jobs", "diff", "old.json", "new.json", "--redis", REDIS_URL=url)

    assert count().returncode == 0
    assert count().stdout.splitlines()[-1] == "0 unsafe changes, 2 safe"
    new = {job["name"]: job["signature"] for job in json.loads((releases / "new.json").read_text())["jobs"]}
    stored.sadd("queues", "default")
    stored.lpush("queue:default", encode({"class": "shop.resize", "args": ["a.png"], "jid": "a"}))
    stored.zadd("schedule", {encode({"class": "shop.resize", "args": ["a", 1], "jid": "b"}): 9e9})
    stored.zadd("retry", {encode({"class": "shop.resize", "args": [], "signature": new["shop.resize"]}): 9e9})
    stored.zadd("dead", {encode({"class": "shop.welcome", "args": [1], "jid": "d"}): 9e9})
    ended = count()
    assert ended.returncode == 1
    assert [
        line.strip() for line in ended.stdout.splitlines() if line.strip().startswith(("UNSAFE", "safe", "st"))
    ] == [
        "UNSAFE  shop.resize",
        "stored: 1 in schedule, 1 in queue:default; 1 job affected (dead jobs not counted)",
        "safe    shop.welcome",
        "stored: 1 in dead; 0 jobs affected (dead jobs not counted)",
    ]


def test_incomparable_inputs_are_one_message(releases):
    (releases / "odd.json").write_text('{"jobs": [{"name": "shop.resize", "arguments": 7}]}')
    for words, complaint in {
        (
            "old.json",
            "nothing.json",
        ): "nothing.json is not a manifest file, and cannot be loaded as a git revision: fatal:",
        ("old.json", ""): "is not a manifest file",
        ("shop.py", "new.json"): "shop.py is not a manifest",
        ("odd.json", "new.json", "--redis"): "cannot read the arguments of shop.resize",
        (
            "old.json",
            "new.json",
            "--allow",
            "shop.resise",
        ): "job not found in either release (did you mean 'shop.resize'?)",
        ("old.json",): "no application given: -r MODULE",
        ("old.json", "new.json", "--redis"): "127.0.0.1:1",
    }.items():
        ended = offsider(releases, "jobs", "diff", *words)
        assert ended.returncode == 1
        assert complaint in ended.stderr, ended.stderr
        assert "Traceback" not in ended.stderr


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
        assert f"{name} was loaded from {file}, not from the git revision: compare files of" in ended.stderr


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
        revision.manifest_of_revision("1", ConnectionOptions(require=("shop",)))
