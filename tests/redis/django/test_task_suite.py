"""Django's own tests of its tasks framework, from the pinned sdist, with our backend instead of Django's two."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from django import VERSION

ROOT = Path(__file__).parents[3]
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "offsider" / "sdists"

STORE = "the test changes the store of Django's own backend"
BACKPORT = "the backport differs from Django 6 here, with its own backends too"
#: Tests that fail with our backend on purpose, with the reason.
EXPECTED = {
    "test_dummy_backend.DummyBackendTestCase": {
        **dict.fromkeys(("test_refresh_result", "test_refresh_result_async"), STORE),
    },
    "test_immediate_backend.ImmediateBackendTestCase": {
        "test_cannot_pass_run_after": "run_after is supported",
        "test_complex_return_value": "the error is a subclass of TypeError, so that the task is not retried",
        "test_throws_keyboard_interrupt": "in a thread of a worker, KeyboardInterrupt is a failure as any other",
    },
    "test_immediate_backend.ImmediateBackendTransactionTestCase": {
        "test_doesnt_wait_until_transaction_commit_by_default": "pushes wait for the commit by default",
    },
}
OF_THE_BACKPORT = {
    "test_dummy_backend.DummyBackendTestCase": {"test_validate_disallowed_async_task": BACKPORT},
    "test_tasks.TaskTestCase": dict.fromkeys(
        (
            *("test_pickle_task", "test_pickle_task_result", "test_run_after_in_decorator"),
            *("test_unpickle_arbitrary_string", "test_unpickle_non_task_object"),
        ),
        BACKPORT,
    ),
}


@pytest.fixture(scope="session")
def sdist(tmp_path_factory):
    """The folder ``tests`` of the Django 6 that requirements/dev.txt pins, checked by its hash."""
    pinned = re.findall(r"^django==(6\S+) [^\\]*((?:\\\n +--hash=\S+ ?)+)", _requirements(), re.MULTILINE)
    ((version, hashes),) = pinned
    folder = tmp_path_factory.mktemp("sdist")
    archive = CACHE / f"django-{version}.tar.gz"
    if not archive.is_file() or hashlib.sha256(archive.read_bytes()).hexdigest() not in hashes:
        download(folder, f"django=={version} {hashes}\n")
    with tarfile.open(archive) as tar:
        wanted = [member for member in tar.getmembers() if "/tests/tasks/" in member.name]
        tar.extractall(folder, wanted, filter="data")
    return folder / f"django-{version}" / "tests"


def download(folder, requirement):
    (folder / "requirements.txt").write_text(requirement)
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]
    command += ["--no-binary", "django", "--ignore-requires-python", "--require-hashes"]
    command += ["--dest", str(folder), "--requirement", str(folder / "requirements.txt")]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=150)
    if ended.returncode:
        pytest.skip(f"Django's sdist cannot be downloaded: {ended.stderr.strip().splitlines()[-1]}")
    CACHE.mkdir(parents=True, exist_ok=True)
    for archive in folder.glob("*.tar.gz"):
        shutil.move(archive, CACHE / archive.name)


def _requirements():
    return (ROOT / "requirements" / "dev.txt").read_text()


def test_the_tests_of_django_pass_except_for_the_listed_differences(sdist, embedded_url):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.django_tasks_suite", str(sdist), embedded_url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout.splitlines()[-1])
    expected = {
        f"{case}.{name}"
        for differences in (EXPECTED, *([OF_THE_BACKPORT] if VERSION < (6,) else []))
        for case, names in differences.items()
        for name in names
    }
    assert {name: reason for name, reason in found["failed"].items() if name not in expected} == {}
    assert expected - set(found["failed"]) == set()
    assert len(found["ran"]) > 70
