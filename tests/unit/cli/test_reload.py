"""What a reloading parent watches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from offsider.cli.options import WorkerOptions
from offsider.cli.reload import SourceWatch, changed, source_files, times, watched_folders


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def touch(*names):
    for name in names:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("")


def test_sources_are_watched_and_packages_are_not(here):
    touch("a.py", "sub/b.py", "offsider.toml", "config/sidekiq.yml")
    touch("c.txt", ".venv/d.py", "node_modules/e.py", "x/__pycache__/f.py", "venv/lib/site-packages/g.py")
    found = {str(Path(path).relative_to(here)) for path in source_files([here])}
    assert found == {"a.py", "sub/b.py", "offsider.toml", "config/sidekiq.yml"}


def test_new_deleted_and_changed_files_are_reported(here):
    touch("a.py", "b.py", "same.py")
    before = times([here])
    os.utime("a.py", ns=(1, 1))
    Path("b.py").unlink()
    touch("c.py")
    assert changed(before, times([here])) == ["a.py", "b.py", "c.py"]
    assert changed(before, before) == []


def test_a_change_is_reported_once_and_the_folders_are_looked_at_twice_a_second(here):
    watch = SourceWatch(WorkerOptions())
    assert watch.changes(10.0) == []
    touch("a.py")
    assert watch.changes(10.4) == []
    assert watch.changes(10.5) == ["a.py"]
    assert watch.changes(11.0) == []


def test_the_folder_of_an_application_elsewhere_is_watched_too(here, tmp_path_factory):
    other = tmp_path_factory.mktemp("other")
    (other / "jobs.py").write_text("")
    assert watched_folders(WorkerOptions(require=(str(other / "jobs.py"),))) == [here, other]
    touch("jobs.py")
    assert watched_folders(WorkerOptions(require=("jobs",))) == [here]
