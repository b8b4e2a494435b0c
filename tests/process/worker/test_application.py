"""What `-r` may name, how the server may be named, and applications that cannot be loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.snippets import snippets
from tests.process.stored import push
from tests.process.workers import ROOT
from tests.waiting import wait_for

APP = """
    from offsider import job
    from tests.process.ledger import note

    @job(name="{name}")
    def here():
        note("ran", word=__name__)
"""


def app(name: str = "Here") -> str:
    return APP.format(name=name)


def ran(stored, ledger, name: str = "Here") -> str:
    """Run the job; returns the name of its module."""
    push(stored, name)
    return wait_for(lambda: ledger.words("ran"))[0]


def test_a_module_in_the_current_folder(workers, stored, ledger):
    workers.start(text=app())
    assert ran(stored, ledger) == "app"


def test_a_module_in_a_package_in_the_current_folder(workers, stored, ledger):
    workers.write("", "shop/__init__.py")
    workers.write(app(), "shop/mails.py")
    workers.start(app="shop.mails")
    assert ran(stored, ledger) == "shop.mails"


def test_a_module_on_pythonpath(workers, stored, ledger, tmp_path):
    workers.write(app(), "library/distant.py")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environ = {"PYTHONPATH": f"{ROOT}:{tmp_path / 'library'}"}
    workers.start(app="distant", environ=environ, folder=elsewhere)
    assert ran(stored, ledger) == "distant"


def test_a_file_is_imported_under_the_name_it_has_in_its_package(workers, stored, ledger):
    workers.write("", "shop/__init__.py")
    workers.write(app(), "shop/mails.py")
    workers.start(app="shop/mails.py")
    assert ran(stored, ledger) == "shop.mails"


def test_a_folder_with_several_modules(workers, stored, ledger):
    workers.write(app("First"), "jobs/first.py")
    workers.write(app("Second"), "jobs/second.py")
    workers.start(app="jobs")
    assert ran(stored, ledger, "First") == "first"
    push(stored, "Second")
    wait_for(lambda: ledger.words("ran") == ["first", "second"])


def test_several_applications(workers, stored, ledger):
    workers.write(app("First"), "first.py")
    workers.write(app("Second"), "second.py")
    workers.start("-r", "second.py", app="first")
    push(stored, "First")
    push(stored, "Second")
    wait_for(lambda: sorted(ledger.words("ran")) == ["first", "second"])


def test_the_extension_of_the_documentation_boots(workers, stored, ledger):
    page = snippets((ROOT / "docs" / "extending.md").read_text())
    module = next(snippet for snippet in page if snippet.word == "file")
    worker = workers.start(text=module.text)
    info = wait_for(lambda: stored.hget(worker.identity, "info"))  # written by the first heartbeat
    assert json.loads(info)["deadlines"] == {"version": 1}
    worker.stopped()


def test_functions_of_configure_client_are_called_once_in_a_worker_whatever_their_names(workers, stored, ledger):
    worker = workers.start(
        text="""
        from offsider import configure_client, job
        from offsider.ext.results import Results
        from tests.process.ledger import note

        @configure_client
        def set_up(config):
            print("called: set_up")
            config.use(Results())

        @configure_client
        def configure(config):
            print("called: configure")

        @job(name="Here", keep_result=60)
        def here():
            note("ran")
            import late

        """,
        environ={"PYTHONUNBUFFERED": "1"},
    )
    workers.write(
        "from offsider import configure_client\n@configure_client\ndef too_late(config): print('called')\n", "late.py"
    )
    push(stored, "Here")
    wait_for(lambda: ledger.notes("ran"))
    worker.until_says(
        "late.too_late(config) is not called, because its module was imported after the worker had started"
    )
    worker.stopped()
    assert worker.output.count("called: set_up") == worker.output.count("called: configure") == 1


def test_other_commands_call_the_functions_of_configure_client_too(workers, tmp_path):
    workers.write(
        """
        from offsider import configure_client, job
        from offsider.ext.periodic import Periodic
        from offsider.ext.results import Results
        periodic = Periodic()

        @configure_client
        def set_up(config):
            config.use(Results())
            config.use(periodic)

        @job(keep_result=60)
        def report(): ...

        periodic.register("@daily", report)
        """
    )
    (tmp_path / "offsider.toml").write_text('[periodic.filed]\nevery = 60\njob = "app.report"\n')
    command = [sys.executable, "-m", "offsider", "periodic", "check", "-r", "app.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "2 periodic jobs, 0 wrong" in done.stdout, done.stderr


def test_the_installed_command_is_the_same_as_the_module(workers, stored, ledger):
    command = (str(Path(sys.executable).with_name("offsider")), "worker")
    worker = workers.start(text=app(), command=command)
    assert ran(stored, ledger) == "app"
    worker.stopped()


@pytest.mark.parametrize("variable", ["REDIS_URL", "VALKEY_URL", "REDIS_PROVIDER", "OFFSIDER_REDIS_URL"])
def test_the_server_is_named_by_the_environment(workers, stored, ledger, variable):
    nowhere = "redis://127.0.0.1:1/0"
    environ = {
        "REDIS_URL": {"REDIS_URL": workers.url},
        "VALKEY_URL": {"REDIS_URL": None, "VALKEY_URL": workers.url},
        "REDIS_PROVIDER": {"REDIS_PROVIDER": "MY_URL", "MY_URL": workers.url, "REDIS_URL": nowhere},
        "OFFSIDER_REDIS_URL": {"OFFSIDER_REDIS_URL": workers.url, "REDIS_URL": nowhere},
    }[variable]
    worker = workers.start(text=app(), environ=environ)
    assert ran(stored, ledger) == "app"
    worker.stopped()


def test_a_key_prefix_is_before_every_key(tag, workers, stored):
    worker = workers.start(environ={"OFFSIDER_REDIS_KEY_PREFIX": f"{tag}resque:gitlab:"})
    stored.lpush("resque:gitlab:queue:default", b'{"class":"Failing","args":[],"jid":"a"}')
    wait_for(lambda: stored.zcard("resque:gitlab:retry") == 1)
    worker.stopped()
    assert all(key.startswith(b"resque:gitlab:") for key in stored.scan_iter(count=1000))


@pytest.mark.parametrize(
    "text, words",
    [
        ("import no_such_module_here\n", ["cannot load app", "no_such_module_here", "app.py:1"]),
        ("\n1 / 0\n", ["cannot load app", "ZeroDivisionError", "app.py:2", "1 / 0"]),
        ("def broken(:\n", ["cannot load app", "SyntaxError", "app.py:1"]),
        ("raise SystemExit(5)\n", ["cannot load app", "called sys.exit(5)", "app.py:1"]),
        ("\nraise KeyboardInterrupt\n", ["cannot load app", "KeyboardInterrupt", "app.py:2"]),
        (
            "def configure(config):\n    @config.on('startup')\n    def up():\n        raise KeyboardInterrupt\n",
            ["the worker cannot start", "KeyboardInterrupt", "app.py:4"],
        ),
        (
            "def configure(config):\n    config.worker.concurrency = 0\n",
            ["configure", "worker.concurrency", "app.py:2"],
        ),
        ("def configure(config):\n    config.nonsense = 0\n", ["configure", "nonsense"]),
        ("from offsider import job\n@job(retry=-1)\ndef x(): ...\n", ["retry", "-1"]),
        (
            "from offsider import job\n@job(name='A')\ndef x(): ...\n@job(name='A')\ndef y(): ...\n",
            ["cannot load app", "'A'", "app.py:4"],
        ),
    ],
)
def test_an_application_that_fails_names_the_cause_without_a_traceback(workers, text, words):
    worker = workers.start(wait=False, text=text)
    assert worker.ended() == 1
    assert all(word in worker.output for word in words), worker.output
    assert "Traceback" not in worker.output
    assert "running <Capsule" not in worker.output


@pytest.mark.parametrize("target", ["no_such_app", "no/such/file.py", "no.such.module"])
def test_a_missing_application(workers, target):
    worker = workers.start(app=target, wait=False)
    assert worker.ended() == 1
    assert "cannot load" in worker.output
    assert "Traceback" not in worker.output


def test_an_empty_folder_is_not_an_application(workers, tmp_path):
    (tmp_path / "empty").mkdir()
    worker = workers.start(app="empty", wait=False)
    assert worker.ended() == 1
    assert "no Python module" in worker.output


def test_without_an_application_the_worker_names_the_missing_option(workers):
    worker = workers.start(app=None, wait=False)
    assert worker.ended() == 1
    assert "-r MODULE" in worker.output


def test_on_request_the_whole_traceback_is_shown(workers):
    worker = workers.start("-v", wait=False, text="1 / 0\n")
    assert worker.ended() == 1
    assert "Traceback" in worker.output


@pytest.mark.parametrize("own, expected", [("", "10000"), ("import gc; gc.set_threshold(5000)", "5000")])
def test_the_garbage_collector_runs_less_often_unless_the_application_has_set_it(own, expected, workers):
    app = f"""
        import gc
        from tests.process.jobs import short
        {own}

        def configure(config):
            config.on("startup", lambda: print("threshold", gc.get_threshold()[0], flush=True))
    """
    workers.start(text=app).until_says(f"threshold {expected}")
