"""Loading the application from modules, files and folders, and the errors it raises."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from offsider.cli.application import BrokenApplication, folder_beside, load_application, load_extensions
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
            path = tmp_path / f"{name.replace('__in__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    yield write
    for name in set(sys.modules) - before:
        del sys.modules[name]


def labels(*targets):
    config = Config()
    load_application(targets, config)
    return list(config.worker.queues)


def test_a_missing_application_of_the_file_is_allowed_but_a_named_one_is_not(write):
    write(app=CONFIGURE)
    config = Config()
    config.worker.require = ["app"]
    assert load_extensions([], config) is None
    assert list(config.worker.queues) == ["app"]
    config = Config()
    config.worker.require = ["nowhere_to_be_found"]
    assert "nowhere_to_be_found" in str(load_extensions([], config))
    assert load_extensions(["app"], config) is None
    with pytest.raises(BrokenApplication, match="nowhere_to_be_found"):
        load_extensions(["nowhere_to_be_found"], config)


def test_a_module_of_the_current_folder(write):
    write(myjobs=CONFIGURE)
    assert labels("myjobs") == ["myjobs"]


def test_a_module_inside_a_package(write):
    write(mypack__in____init__="", mypack__in__jobs=CONFIGURE)
    assert labels("mypack.jobs") == ["mypack.jobs"]


def test_a_file_outside_of_packages(write):
    write(elsewhere__in__filejobs=CONFIGURE)
    assert labels("elsewhere/filejobs.py") == ["filejobs"]


def test_a_file_of_a_package_gets_its_name_there(write):
    write(lib__in__packa__in____init__="", lib__in__packa__in__jobs=CONFIGURE)
    assert labels("lib/packa/jobs.py") == ["packa.jobs"]


def test_a_file_name_need_not_be_an_identifier(write):
    Path("my-jobs.py").write_text(CONFIGURE)
    write()
    assert labels("my-jobs.py") == ["my-jobs"]


def test_a_folder_of_modules(write):
    write(some__in__bjobs=CONFIGURE, some__in__ajobs=CONFIGURE, some__in___private="1 / 0")
    assert labels("some") == ["ajobs", "bjobs"]


def test_a_folder_that_is_a_package(write):
    write(packb__in____init__="", packb__in__one=CONFIGURE, packb__in__two=CONFIGURE)
    assert labels("packb") == ["packb.one", "packb.two"]


def test_several_targets_in_their_order(write):
    write(zjobs=CONFIGURE, yjobs=CONFIGURE)
    assert labels("zjobs", "yjobs.py") == ["zjobs", "yjobs"]


def test_a_configure_function_is_called_once_and_imported_ones_never(write):
    write(
        packc__in____init__="from packc.conf import configure",
        packc__in__conf=CONFIGURE,
        foreign="def configure(config):\n    raise RuntimeError('not ours to call')",
        usesforeign="from foreign import configure",
    )
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
    write(app__in__jobs="1 / 0", pk__in____init__="1 / 0")
    assert folder_beside(["app"]) == Path("app")
    assert folder_beside(["app/jobs.py"]) == Path("app")
    assert folder_beside(["pk.jobs"]) == tmp_path
    assert folder_beside(["nowhere_to_be_found"]) is None
    assert folder_beside([]) is None
