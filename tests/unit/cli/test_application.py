"""Loading the application from modules, files and folders, and the errors it raises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offsider.cli.application import BrokenApplication, folder_beside, load_application
from offsider.cli.command import ConnectionOptions
from offsider.config.config import Config

CONFIGURE = "def configure(config):\n    config.worker.queues = [*config.worker.queues, __name__]\n"


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Writes files into the current folder; modules imported from it are unloaded after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    before = set(sys.modules)

    def write(**files):
        for name, text in files.items():
            path = tmp_path / f"{name}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def labels(*targets):
    config = Config()
    load_application(targets, config)
    return list(config.worker.queues)


def test_a_missing_application_of_the_file_is_allowed_but_a_named_one_is_not(write, monkeypatch):
    write(app=CONFIGURE)
    monkeypatch.setenv("OFFSIDER_WORKER_REQUIRE", "app")
    config, error = ConnectionOptions().load_extensions()
    assert error is None
    assert list(config.worker.queues) == ["app"]
    monkeypatch.setenv("OFFSIDER_WORKER_REQUIRE", "nowhere_to_be_found")
    assert "nowhere_to_be_found" in str(ConnectionOptions().load_extensions()[1])
    assert ConnectionOptions(require=("app",)).load_extensions()[1] is None
    with pytest.raises(BrokenApplication, match="nowhere_to_be_found"):
        ConnectionOptions(require=("nowhere_to_be_found",)).load_extensions()


@pytest.mark.parametrize(
    "files, targets, names",
    [
        (["myjobs"], ["myjobs"], ["myjobs"]),
        (["mypack/__init__", "mypack/jobs"], ["mypack.jobs"], ["mypack.jobs"]),
        (["elsewhere/filejobs"], ["elsewhere/filejobs.py"], ["filejobs"]),
        (["lib/packa/__init__", "lib/packa/jobs"], ["lib/packa/jobs.py"], ["packa.jobs"]),
        (["my-jobs"], ["my-jobs.py"], ["my-jobs"]),
        (["some/bjobs", "some/ajobs"], ["some"], ["ajobs", "bjobs"]),
        (["packb/__init__", "packb/one", "packb/two"], ["packb"], ["packb.one", "packb.two"]),
        (["zjobs", "yjobs"], ["zjobs", "yjobs.py"], ["zjobs", "yjobs"]),
    ],
    ids=["module", "module of a package", "file", "file of a package", "no identifier", "folder", "package", "several"],
)
def test_an_application_is_a_module_a_file_or_a_folder(write, files, targets, names):
    write(**{file: "" if file.endswith("__init__") else CONFIGURE for file in files})
    assert labels(*targets) == names


def test_a_configure_function_is_called_once_and_imported_ones_never(write):
    files = {"packc/__init__": "from packc.conf import configure", "packc/conf": CONFIGURE}
    foreign = "def configure(config):\n    raise RuntimeError('not ours to call')"
    write(**files, foreign=foreign, usesforeign="from foreign import configure")
    assert labels("packc", "packc.conf", "usesforeign") == ["packc.conf"]


@pytest.mark.parametrize(
    "files, target, message",
    [
        ({}, "nowhere", "cannot load nowhere: no module 'nowhere' in the current folder or on PYTHONPATH"),
        ({}, "nowhere.jobs", "no module 'nowhere'"),
        ({"a1": ""}, "a1.jobs", "no module"),
        ({}, "nowhere:app", "cannot load nowhere:app: name only the module, as in -r nowhere"),
        ({}, "gone.py", "cannot load gone.py: file not found"),
        (
            {"a2": "\nimport not_there_at_all\n"},
            "a2",
            "cannot load a2: ModuleNotFoundError: No module named 'not_there_at_all'\n  at a2.py:2: import not_there",
        ),
        ({"a3": "def x(:\n"}, "a3", "cannot load a3: SyntaxError"),
        ({"a4": "\nraise KeyboardInterrupt"}, "a4", "cannot load a4: KeyboardInterrupt\n  at a4.py:2: raise Keyb"),
        ({"a4": "import sys\nsys.exit(3)"}, "a4", "the application called sys.exit(3)\n  at a4.py:2"),
        ({"a5": "raise ValueError('boom')"}, "a5.py", "cannot load a5.py: ValueError: boom\n  at a5.py:1"),
        (
            {"a6": "def configure(config):\n    config.worker.concurrency = 0"},
            "a6",
            "a6.configure(config) failed: ConfigurationError: worker.concurrency expects",
        ),
        ({"a7": "async def configure(config): ..."}, "a7", "must be a plain function, not async"),
        ({"a8": "def configure():\n    pass"}, "a8", "a8.configure(config) failed: TypeError"),
        ({"json": ""}, "json.py", "another module has the name 'json'"),
    ],
)
def test_import_errors_are_reported(write, files, target, message):
    write(**files)
    with pytest.raises(BrokenApplication) as caught:
        load_application([target], Config())
    assert message in str(caught.value)
    assert str(caught.value).count("\n") <= 2


def test_an_empty_folder_is_refused(write, tmp_path):
    write()
    (tmp_path / "empty").mkdir()
    with pytest.raises(BrokenApplication, match="the folder contains no Python module"):
        load_application(["empty"], Config())


def test_the_sibling_folder_is_found_without_importing(write, tmp_path):
    write(**{"app/jobs": "1 / 0", "pk/__init__": "1 / 0"})
    assert folder_beside(["app"]) == Path("app")
    assert folder_beside(["app/jobs.py"]) == Path("app")
    assert folder_beside(["pk.jobs"]) == tmp_path
    assert folder_beside(["nowhere_to_be_found"]) is None
    assert folder_beside([]) is None
