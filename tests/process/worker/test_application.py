"""Applications of workers: what they configure, and what happens if they cannot be loaded."""

from __future__ import annotations

import json

import pytest

from tests.docs.snippets import snippets
from tests.process.stored import push
from tests.process.workers import ROOT
from tests.waiting import wait_for


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
        import gc
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
            print("threshold", gc.get_threshold()[0])
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
    assert "threshold 10000" in worker.output, "the garbage collector runs less often than by default"


def test_a_key_prefix_is_before_every_key(tag, workers, stored):
    worker = workers.start(environ={"OFFSIDER_REDIS_KEY_PREFIX": f"{tag}resque:gitlab:"})
    stored.lpush("resque:gitlab:queue:default", b'{"class":"Failing","args":[],"jid":"a"}')
    wait_for(lambda: stored.zcard("resque:gitlab:retry") == 1)
    worker.stopped()
    assert all(key.startswith(b"resque:gitlab:") for key in stored.scan_iter(count=1000))


@pytest.mark.parametrize(
    "text, words",
    [
        ("\n1 / 0\n", ["cannot load app", "ZeroDivisionError", "app.py:2", "1 / 0"]),
        ("raise SystemExit(5)\n", ["cannot load app", "called sys.exit(5)", "app.py:1"]),
        (
            "def configure(config):\n    @config.on('startup')\n    def up():\n        raise KeyboardInterrupt\n",
            ["the worker cannot start", "KeyboardInterrupt", "app.py:4"],
        ),
    ],
    ids=["error", "exit", "interrupt at startup"],
)
def test_an_application_that_fails_names_the_cause_without_a_traceback(workers, text, words):
    worker = workers.start(wait=False, text=text)
    assert worker.ended() == 1
    assert all(word in worker.output for word in words), worker.output
    assert "Traceback" not in worker.output
    assert "running <Capsule" not in worker.output


def test_a_threshold_of_the_garbage_collector_that_the_application_has_set_is_kept(workers):
    app = """
        import gc
        from tests.process.jobs import short
        gc.set_threshold(5000)

        def configure(config):
            config.on("startup", lambda: print("threshold", gc.get_threshold()[0], flush=True))
    """
    workers.start(text=app).until_says("threshold 5000")
